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

// For scores of the prompt's last rows: writes their mean per entry, and returns how many entries,
// the oldest ones, these rows have judged.  The others are the rows themselves, causally cut off
// from each other, and the answer that came after them.  SnapKV chooses once, when the prompt ends,
// and keeps both: they score kOwnWindow, so that a later review takes from the rest of the prompt,
// by the same sums, and from them, oldest first, only when nothing else is left.
//
// Without rows (window_rows 0: the prompt's end has not come) nothing is judged, and the newer
// entry is worth more.
std::uint32_t last_rows_mean(const EntryView& lane, std::span<float> score);
constexpr float kOwnWindow = 3.0e38f;  // above every sum, finite

}  // namespace quire::policies
