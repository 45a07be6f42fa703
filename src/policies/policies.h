// Every policy of this build: one function, one file, one line in list.cc.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "policies/options.h"
#include "quire/policy.h"

namespace quire::policies {

// A policy before its options are known.  The texts are for people, a line each: docs/POLICIES.md
// and `quire policies` are made of them.
struct PolicyKind {
  std::string name;
  std::string file;             // src/policies/FILE.cc
  std::string source;           // what it scores, and where that comes from
  std::string when;             // when to use it
  std::string when_not;         // and when not
  std::string cost;             // beside a review's own
  std::vector<Option> options;  // besides sinks and recent, which every policy has
  bool wraps = false;           // hands options it does not know to the policy it wraps
  // Fills needs and stages; name, source and protection are filled by make_policy().
  Result<Policy> (*make)(const Values& values);
};

PolicyKind full();
PolicyKind sink_recency();
PolicyKind random_choice();
PolicyKind prompt_random();
PolicyKind heavy_hitter();
PolicyKind heavy_hitter_age();
PolicyKind scissorhands();
PolicyKind tova();
PolicyKind knorm();
PolicyKind keydiff();
PolicyKind snapkv();
PolicyKind snapkv_max7();
PolicyKind snapkv_ahead();
PolicyKind snapkv_global();
PolicyKind pyramidkv();
PolicyKind adakv();
PolicyKind paged_eviction();
PolicyKind lagkv();
PolicyKind chunkkv();
PolicyKind criticalkv();
PolicyKind expected_attention();
PolicyKind kv_compress();
PolicyKind r_kv();
PolicyKind zipage();
PolicyKind role_conditional();
PolicyKind role_control();

// --- for scores of the prompt's last rows (last_rows.cc) ---

// Writes the mean of these rows per entry, and returns how many entries, the oldest ones, they have
// judged.  The others are the rows themselves, causally cut off from each other, and the answer
// that came after them.  SnapKV chooses once, when the prompt ends, and keeps both: they score
// kOwnWindow, so that a later review takes from the rest of the prompt, by the same sums, and from
// them, oldest first, only when nothing else is left.
//
// Without rows (window_rows 0: the prompt's end has not come) nothing is judged, and the newer
// entry is worth more.
std::uint32_t last_rows_mean(const EntryView& lane, std::span<float> score);
std::uint32_t entries_before(const EntryView& lane, Position position);
constexpr float kOwnWindow = 3.0e38f;  // above every sum, finite

// --- arithmetic that several policies share (arithmetic.cc) ---

// A number in [0, 1) that depends on seed, lane and position alone: neighbours, reviews and
// repacking never change it, and an entry that survived one review is as safe in the next.
float uniform_of(std::uint64_t seed, const EntryView& lane, Position position);
// Every score becomes the mean of its run: scores [i * run, (i + 1) * run), the last maybe shorter.
void average_runs(std::uint32_t run, std::span<float> score);
// Every score becomes the largest of those at most `reach` positions away, among score.size().
void largest_near(const EntryView& lane, std::uint32_t reach, std::span<float> score);
// exp(x / temperature), of sum 1; what is not finite counts as the least float.
void softmax(float temperature, std::span<float> x);
// `x` where it is finite, else `otherwise`: keys and values can overflow their storage.
float finite_or(float x, float otherwise);
// The scores of a lane's unprotected entries, best first.
std::vector<float> ranked(const Protection& protect, std::span<const float> score);
// A choose stage that gives at least `percent` of the quota to the newest entries.
using Choose = decltype(Policy::choose);
Choose keep_newest(std::uint64_t percent);

// --- quotas of roles (role_split.cc) ---

using RoleWeights = std::array<double, kRoles>;        // by index(role); 0: none of it
using RoleCounts = std::array<std::uint32_t, kRoles>;  // likewise
constexpr std::size_t index(Role role) {
  return static_cast<std::size_t>(role);
}
// What `entries` grants each role of `sizes` entries: shares by weight among the roles that have
// more, rounded by largest remainder (ties: the larger weight), again and again until nothing is
// left or every role with a weight has all of its own.
RoleCounts role_quotas(const RoleWeights& weights, const RoleCounts& sizes, std::uint32_t entries);
// A choose stage: beside the sinks and the newest entries, the answer among these, as many of each
// role as it is granted, those scored highest; equal scores keep the older.  `role`: [live].
void choose_by_role(const RoleWeights& weights, std::span<const Role> role,
                    const Protection& protect, const EntryView& lane, std::span<const float> score,
                    std::span<Ordinal> kept, Arena& scratch);
// The policy that option `score` names, its choice by role where a sequence's share of structure is
// `least` or more.  `weigh` returns the weights, and may change the roles that count.
using Weigh = std::function<RoleWeights(const EntryView& lane, std::vector<Role>& role)>;
Result<Policy> split_by_role(const Values& values, Weigh weigh);
std::vector<std::string> role_scores();  // the policies that `score` may name

}  // namespace quire::policies
