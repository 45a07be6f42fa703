// When a sequence is cut, and how far: the policy says which entries, this says how many.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/generate.h"

namespace quire::engine {

class Reviewer {
 public:
  // Without a policy, or with a gate that is closed, nothing is ever cut.
  Reviewer(Cache& cache, const GenerateOptions& options);

  // Refuses settings no prompt could be answered with: kInvalidArgument names the number that
  // would do.
  Status check() const;

  bool active() const { return policy_.has_value(); }
  // From now on nothing is cut; what the sequence must watch stays as it is.
  void close();
  const Needs& needs() const { return needs_; }

  bool fits(SequenceId sequence, std::uint32_t rows) const;
  // Rows of a streamed chunk: small enough that most of the budget stays for what was read.
  std::uint32_t streamed_chunk(std::uint32_t chunk) const;
  // Entries a lane, on average, that a cut could take from the sequence and still leave `least`.
  double spare(SequenceId sequence, std::uint32_t least) const;
  // Cuts the sequence once, by about `missing_bytes`, and leaves at least `least` entries a lane.
  Status cut(SequenceId sequence, std::size_t missing_bytes, std::uint32_t least);
  // Cuts the sequence to the keep target (kPool: never).
  Status review(SequenceId sequence);
  // Answer rows between two reviews; 0 = only when the pool has no room.
  std::uint32_t cadence() const;
  // Of the answer's next rows, after `unreviewed` since the last review and up to the next: those
  // among the last Needs::window before it (Segment::window_rows).
  std::uint32_t window_rows(std::uint32_t unreviewed, std::uint32_t rows) const;
  // Entries a lane keeps after a review of a sequence that has seen so many tokens.
  std::uint32_t target(std::uint32_t tokens_seen) const;
  // The fewest entries a lane that a cut may leave.
  std::uint32_t least_entries() const { return protected_entries() + 1; }
  // Rows of the smallest chunk worth a forward pass.
  static std::uint32_t small_chunk();
  // Whether a review or a cut has dropped anything.
  bool dropped() const { return dropped_; }
  // The sequence begins anew: nothing is dropped.
  void restart() { dropped_ = false; }

 private:
  std::uint32_t protected_entries() const;
  Status shrink(SequenceId sequence, std::uint32_t keep);

  Cache& cache_;
  std::optional<Policy> policy_;
  Needs needs_{};
  Keep keep_;
  std::uint32_t review_every_;
  std::size_t full_bytes_;  // K and V of one entry of every full-attention lane
  // Bytes the last review gave back, as a share of the bytes of what it dropped: a block with one
  // live entry left is still a block.
  double yield_ = 1;
  bool dropped_ = false;
};

}  // namespace quire::engine
