// Every policy of this build: one function, one file, one line in list.cc.
#pragma once

#include <string>
#include <vector>

#include "policies/options.h"
#include "quire/policy.h"

namespace quire::policies {

// A policy before its options are known.
struct PolicyKind {
  std::string name;
  std::string source;           // one line for people
  std::vector<Option> options;  // besides sinks and recent, which every policy has
  bool wraps = false;           // hands options it does not know to the policy it wraps
  // Fills needs and stages; name, source and protection are filled by make_policy().
  Result<Policy> (*make)(const Values& values);
};

PolicyKind sink_recency();
PolicyKind random_choice();
PolicyKind heavy_hitter();
PolicyKind heavy_hitter_age();
PolicyKind knorm();
PolicyKind snapkv();
PolicyKind snapkv_ahead();
PolicyKind adakv();

// For scores of the prompt's last rows: writes their mean per entry, and returns how many of the
// lane's newest entries are the window's own rows.  Those are causally cut off from each other, so
// their sums are not comparable: every SnapKV keeps them whole instead (kOwnWindow as a score).
//
// Without rows (window_rows 0: the window was used by an earlier review, and an answer has begun)
// the older entry is worth more, because it is there for having been chosen: what goes is the
// answer's own text once it leaves the recent entries.  Callers must not pool such scores.
std::uint32_t last_rows_mean(const EntryView& lane, std::uint32_t window, std::span<float> score);
constexpr float kOwnWindow = 3.0e38f;  // above every sum, finite

}  // namespace quire::policies
