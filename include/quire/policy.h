// What an eviction policy is: three pure stages over what a lane shows of its entries.
// A policy never sees K or V, a tensor library, a block, a clock or a thread.
// Every stage is pure: equal inputs give equal outputs on every machine, so any thread may call it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quire/status.h"
#include "quire/types.h"

namespace quire {

class Arena;  // quire/arena.h

// Which query rows the attention kernel sums per key, for the policy to read as a score.
enum class Tap : std::uint8_t {
  kNone,
  kAllRows,  // every row that has attended to the key: prompt and answer
  // The last Needs::window rows of the prompt.  The sums stay with their entries, also after a
  // review, until the next rows that Segment::window_rows names: where those do not continue the
  // last ones, or would make them more than the window, they begin anew.
  kLastRows,
  kDecodeRows,  // answer rows only
};

// How the query heads that share a KV head become one number per row, before rows are summed.
enum class Reduce : std::uint8_t { kSum, kMean, kMax, kSquareSum };

// What a policy must be shown.  A span of EntryView that was not asked for is empty.
struct Needs {
  Tap tap = Tap::kNone;
  Reduce group = Reduce::kMean;
  std::uint32_t window = 64;  // rows, Tap::kLastRows only
  bool per_head = false;      // Tap::kLastRows: the sums of each query head as well
  bool norms = false;         // L2 norms of k and v

  bool operator==(const Needs&) const = default;
};

// Entries every policy keeps whatever their score.
struct Protection {
  std::uint32_t sinks = 4;    // first entries of the lane
  std::uint32_t recent = 64;  // newest entries of the lane
};

// What one lane holds now, oldest entry first.  Borrowed for one call.
struct EntryView {
  std::uint32_t live = 0;               // entries
  std::uint32_t layer = 0, head = 0;    // layer of the model, KV head of the layer
  std::uint32_t group = 1;              // query heads that share the KV head
  std::uint32_t window_rows = 0;        // rows summed, Tap::kLastRows: those at the positions
  Position window_end = 0;              // [window_end - window_rows, window_end)
  std::span<const Position> position;   // [live], ascending, absolute
  std::span<const float> tap;           // [live], attention sums, Needs::tap
  std::span<const float> tap_per_head;  // [group][live], Needs::per_head
  std::span<const float> key_norm;      // [live], L2, Needs::norms
  std::span<const float> value_norm;    // [live], L2, Needs::norms
};

struct Policy {
  std::string name;
  std::string source;  // one line for people: what it scores and where that comes from
  Needs needs;
  Protection protect;

  // Writes one finite score per entry, higher = keep.
  std::function<void(const EntryView& lane, std::span<float> score)> score{};

  // Splits a layer's `entries` over its lanes: counts that add up to `entries`, each at least
  // min(protect.sinks + protect.recent, live).  Null: equal shares.
  std::function<void(const Protection& protect, std::span<const std::span<const float>> scores,
                     std::uint32_t entries, std::span<std::uint32_t> counts)>
      allocate{};

  // Fills `kept` with the ordinals to keep, ascending; the quota is kept.size().  Null: choose_top.
  // REQUIRES: 0 < kept.size() < lane.live.  `scratch` has room for 2 x lane.live ordinals.
  std::function<void(const Protection& protect, const EntryView& lane, std::span<const float> score,
                     std::span<Ordinal> kept, Arena& scratch)>
      choose{};
};

// Keeps the sinks, the recent window, and between them the entries scored highest; equal scores
// keep the newer entry.  A quota below sinks + recent gives up recent entries first.
// REQUIRES: 0 < kept.size() < score.size(); `scratch` has room for score.size() ordinals.
void choose_top(const Protection& protect, std::span<const float> score, std::span<Ordinal> kept,
                Arena& scratch);

// NAME or NAME:key=value,key=value (h2o, sink-recency:sinks=4,recent=508, adakv:base=knorm).  An
// unknown name, key or value is kInvalidArgument; the message lists what there is.
Result<Policy> make_policy(std::string_view spec);

// One line per policy this build knows, in the order people should read them.
struct PolicyInfo {
  std::string name;
  std::string source;
  std::string options;  // "sinks=4,recent=64,..." with the defaults
};
std::vector<PolicyInfo> list_policies();

}  // namespace quire
