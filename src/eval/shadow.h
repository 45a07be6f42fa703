// What a sequence would cost if it were alone.  Forks of one prompt share blocks, so an arm that is
// a fork cannot be asked for its bytes; here a second cache of the same shape, whose blocks are
// never written, takes the same rows and loses the same entries.
#pragma once

#include <memory>
#include <vector>

#include "quire/cache.h"

namespace quire::eval {

// Positions per [layer][KV head], ascending.  Lanes of window layers are empty: nobody evicts them.
using LanePositions = std::vector<std::vector<std::vector<Position>>>;

// The live positions of every full-attention lane.
Result<LanePositions> live_positions(const Cache& cache, SequenceId sequence);

// Plans, copies and installs moves until there is none.
void repack_all(Cache& cache);

class Shadow {
 public:
  // `like`: the cache whose sequences are measured; at most `tokens` positions each.  Whatever it
  // does, the shadow repacks: at equal entries, equal blocks.
  static Result<Shadow> open(const CacheOptions& like, std::uint32_t tokens);

  // Of a sequence that read `length` rows, `window_rows` of them last under Tap::kLastRows, and
  // kept `kept`.
  Result<SequenceStats> measure(const Needs& needs, std::uint32_t length, std::uint32_t window_rows,
                                const LanePositions& kept);

  Cache& cache() { return *cache_; }

 private:
  explicit Shadow(std::unique_ptr<Cache> cache) : cache_(std::move(cache)) {}
  Status fill(SequenceId sequence, std::uint32_t length, std::uint32_t window_rows,
              const LanePositions& kept);

  std::unique_ptr<Cache> cache_;
};

}  // namespace quire::eval
