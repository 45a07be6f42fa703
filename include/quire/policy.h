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
  // The last Needs::window rows of the prompt, with Needs::answer_window also of the answer before
  // each review.  The sums stay with their entries, also after a review, until the next rows that
  // Segment::window_rows names: where those do not continue the last ones, or would make them more
  // than the window, they begin anew.
  kLastRows,
  kDecodeRows,  // answer rows only
};

// How the query heads that share a KV head become one number per row, before rows are summed.
// kMissed: 1 where the mean is below an equal share of the row, 1 / entries it sees; else 0.
enum class Reduce : std::uint8_t { kSum, kMean, kMax, kSquareSum, kMissed };

// Lanes that share something: none, those of a layer, or all of a sequence.
enum class Scope : std::uint8_t { kLane, kLayer, kSequence };

// What a policy must be shown.  A span of EntryView that was not asked for is empty.
struct Needs {
  Tap tap = Tap::kNone;
  Reduce group = Reduce::kMean;
  std::uint32_t window = 64;   // rows, Tap::kLastRows only
  bool answer_window = false;  // Tap::kLastRows: rows of the answer as well
  bool per_head = false;       // Tap::kLastRows: the sums of each query head as well
  bool anew = false;           // the sums begin anew at every review
  bool state = false;          // one float per entry, which Policy::update writes; not without tap
  bool norms = false;          // L2 norms of k and v
  bool alignment = false;      // of each key with the mean direction of the lane's keys
  // Spread of k and v beside the next chunk (LagKV): entries [lag_skip + i * lag_chunk, ... + 1)
  // are a chunk.  0 = off.
  std::uint32_t lag_chunk = 0, lag_skip = 0;
  // Cosines among the keys of each run of so many entries; kWholeLane: of all.  0 = off.
  std::uint32_t similar_run = 0;
  static constexpr std::uint32_t kWholeLane = ~0u;
  // What the queries of the next `future` positions are expected to find in each key, as the
  // prompt's queries tell, those of its first `query_skip` positions left out.  0 = off.
  std::uint32_t future = 0, query_skip = 0;
  bool output_norm = false;  // of v behind the layer's output projection
  bool roles = false;        // of the tokens, as Cache::set_roles() was told
  // No policy's: the queries of the last so many rows that Segment::gate_rows names are kept, for
  // Cache::measure().  0 = off.
  std::uint32_t gate_rows = 0;

  // Whether it must be asked for before rows are read: what else is asked for is computed at a
  // review.
  bool watches() const { return tap != Tap::kNone || future != 0 || roles || gate_rows != 0; }
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
  std::uint32_t block_tokens = 16;      // entries that a block of the cache holds
  Position prompt_end = 0;              // entries from here on are of the answer being written
  Position reviewed = 0;                // length of the sequence at its last review; 0: none yet
  std::uint32_t window_rows = 0;        // rows summed, Tap::kLastRows: those at the positions
  Position window_end = 0;              // [window_end - window_rows, window_end)
  std::span<const Position> position;   // [live], ascending, absolute
  std::span<const float> tap;           // [live], attention sums, Needs::tap
  std::span<const float> tap_per_head;  // [group][live], Needs::per_head
  std::span<const float> state;         // [live], Needs::state; of a new entry 0
  std::span<const float> key_norm;      // [live], L2, Needs::norms
  std::span<const float> value_norm;    // [live], L2, Needs::norms
  // [live], Needs::alignment: cosine of k with the sum of k / |k| over the lane.
  std::span<const float> alignment;
  // [live], Needs::lag_chunk: standard deviation over the channels of (x - low) / (high - low), low
  // and high being the channel's least and largest in the next chunk (a channel without width
  // gives 0).  0 for entries before the first chunk and from the last whole chunk on.
  std::span<const float> key_spread, value_spread;
  // [live], Needs::similar_run: sum of the cosines of k with the other keys of its run; the newest
  // other entry of the run with a cosine over 1/2 (live: there is none), and that cosine.
  std::span<const float> similarity;
  std::span<const Ordinal> twin;
  std::span<const float> twin_cosine;
  // [group][live], Needs::future: m.k + k.Sk / 2, the logarithm of the mean of exp(score) over
  // Gaussian queries.  m and S are a query head's mean and covariance over rows of the prompt
  // (times the layer's scale and its square), turned to where the next rows lie, on average over
  // them. Without rows 0; the soft cap is left out.
  std::span<const float> expected;
  // [live], Needs::output_norm: sum over the outputs of |W v|, W being the part of the output
  // projection that reads a query head; mean over the group.
  std::span<const float> output_norm;
  // [live], Needs::roles: of each entry's token; Role::kProse where nobody said.
  std::span<const Role> role;
  // Needs::roles: the share of the sequence's labelled tokens, dropped ones too, that are not
  // prose.
  float structured = 0;
};

struct Policy {
  std::string name;
  std::string source;  // one line for people: what it scores and where that comes from
  Needs needs;
  Protection protect;
  bool keeps_all = false;  // nothing is ever dropped, whatever the quota

  // Lanes that keep the same positions.  The score is then the mean over the lanes of a layer, of a
  // sequence the mean over its layers of that, and `choose` is shown the first lane.  Lanes that
  // hold different positions are refused.
  Scope decides = Scope::kLane;
  // Whose entries `allocate` splits: kLayer or kSequence.
  Scope divides = Scope::kLayer;

  // Writes one finite score per entry, higher = keep.
  std::function<void(const EntryView& lane, std::span<float> score)> score{};

  // Writes the lane's new state, called at every review before score(), which sees what it wrote.
  // `state` comes in as the view's.
  std::function<void(const EntryView& lane, std::span<float> state)> update{};

  // Splits the `entries` of a layer or a sequence over its lanes (layer by layer, heads in order):
  // counts that add up to `entries`, each at least min(protect.sinks + protect.recent, live). Null:
  // equal shares.  Not together with a shared decision.
  std::function<void(const Protection& protect, std::span<const EntryView> lanes,
                     std::span<const std::span<const float>> scores, std::uint32_t entries,
                     std::span<std::uint32_t> counts)>
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

// What this build knows of a policy, in the order people should read them.
struct PolicyInfo {
  std::string name;
  std::string source;   // one line: what it scores and where that comes from
  std::string options;  // "sinks=4,recent=64,..." with the defaults
  std::string needs;  // "attention of all rows (mean)": what the kernels compute for it; "nothing"
  std::string scope;  // lane, layer or sequence: what shares one decision or one quota
  std::string when;   // when to use it
  std::string when_not;     // and when not
  std::string cost;         // what it costs beside the review itself
  std::uint32_t lines = 0;  // of code in its file, without comments and blank lines
  bool keeps_all = false;
};
std::vector<PolicyInfo> list_policies();

}  // namespace quire
