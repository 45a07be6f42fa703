// The thresholds of `quire eval roles`, one function each.

#include <algorithm>
#include <cmath>
#include <optional>

#include "eval/contrast.h"
#include "eval/roles_eval.h"

namespace quire::eval {
namespace {

constexpr const char* kPlain = "snapkv-max7";
constexpr const char* kH2oAlone = "h2o:sinks=0,recent=0";

struct Measured {
  const std::vector<InputResult>& results;
  const std::vector<RoleDiagnosis>& diagnosis;
};

std::string percent(double keep) {
  return fixed(keep * 100, 0) + " %";
}

// Nothing where an arm is missing.
std::optional<Estimate> better(const Measured& measured, const std::string& arm,
                               const std::string& other, const Pairs& pairs) {
  const Estimate found = contrast(measured.results, arm, other, pairs);
  if (found.items == 0) return {};
  return found;
}

// "at 10 %: +0.300 [0.200, 0.400]", behind what is there.
void say(std::string& text, double keep, const Estimate& estimate) {
  text += (text.empty() ? "" : "; ") + percent(keep) + ": " + with_interval(estimate);
}

// Differences at some keeps, each of which must pass.
template <typename Passes>
std::optional<Check> at_keeps(const Measured& measured, Check check, const std::string& arm,
                              const std::string& other, Pairs pairs,
                              const std::vector<double>& keeps, Passes passes) {
  check.pass = true;
  for (const double keep : keeps) {
    pairs.keep = keep;
    const std::optional<Estimate> found = better(measured, arm, other, pairs);
    if (!found) return {};
    say(check.found, keep, *found);
    check.pass = check.pass && passes(keep, *found);
  }
  return check;
}

using MaybeCheck = std::optional<Check>;
using CheckOf = MaybeCheck (*)(const Measured& measured, Check check);

// Roles cost a byte a token, and choose other blocks: that must not decide.
MaybeCheck equal_bytes(const Measured& measured, Check check) {
  double worst = 0;
  std::size_t pairs = 0;
  for (const InputResult& input : measured.results) {
    for (const char* score : kRoleScores) {
      for (const ArmResult& roles : input.arms) {
        if (roles.arm.policy != with_roles(score)) continue;
        const auto plain =
            std::ranges::find(input.arms, Arm{score, roles.arm.keep}, &ArmResult::arm);
        if (plain == input.arms.end() || plain->bytes == 0) continue;
        const double ratio = static_cast<double>(roles.bytes) / static_cast<double>(plain->bytes);
        worst = std::max(worst, std::fabs(ratio - 1));
        ++pairs;
      }
    }
  }
  if (pairs == 0) return {};
  check.found = "at most " + fixed(worst * 100, 2) + " % of " + std::to_string(pairs) + " pairs";
  check.pass = worst <= kBytesTolerance;
  return check;
}

MaybeCheck em_gain(const Measured& measured, Check check) {
  return at_keeps(measured, check, with_roles(kPlain), kPlain,
                  {.task = Task::kJson, .view = View::kAware, .of = Compare::kRight},
                  {kSmallKeep, kFifthKeep},
                  [](double, const Estimate& e) { return e.value >= kEmGainLeast; });
}

MaybeCheck gap(const Measured& measured, Check check, const std::string& score) {
  check.pass = true;
  for (const double keep : {0.05, kSmallKeep}) {
    const Estimate closed =
        gap_closed(measured.results, Task::kJson, View::kAware, {with_roles(score), keep});
    if (closed.items == 0) return {};
    say(check.found, keep, closed);
    check.pass = check.pass && closed.value >= kGapClosedLeast;
  }
  return check;
}
MaybeCheck gap_max7(const Measured& measured, Check check) {
  return gap(measured, std::move(check), kPlain);
}
MaybeCheck gap_ahead(const Measured& measured, Check check) {
  return gap(measured, std::move(check), kAhead);
}

MaybeCheck shuffled_below(const Measured& measured, Check check) {
  return at_keeps(measured, check, shuffled_roles(kPlain), kPlain,
                  {.task = Task::kJson, .view = View::kAware, .of = Compare::kRight},
                  {kSmallKeep, kFifthKeep}, [](double keep, const Estimate& e) {
                    return keep == kSmallKeep ? e.value <= 0 : e.value < 0;
                  });
}

MaybeCheck ahead_retained(const Measured& measured, Check check) {
  std::vector<std::vector<double>> documents;
  const Arm arm{with_roles(kAhead), kSmallKeep};
  for (const InputResult& input : measured.results) {
    const auto found = std::ranges::find(input.arms, arm, &ArmResult::arm);
    if (input.task != Task::kJson || found == input.arms.end()) continue;
    std::vector<double>& items = documents.emplace_back();
    for (const QuestionScore& score : found->aware) {
      if (score.full_right) items.push_back(score.right ? 1 : 0);
    }
  }
  const Estimate retained = bootstrap_mean(documents);
  if (documents.empty()) return {};
  say(check.found, kSmallKeep, retained);
  check.pass = retained.value >= kAheadRetainedLeast;
  return check;
}

MaybeCheck blind_nats(const Measured& measured, Check check, double keep, double least) {
  return at_keeps(measured, std::move(check), with_roles(kPlain), kPlain, {.task = Task::kJson},
                  {keep}, [=](double, const Estimate& e) { return e.value >= least; });
}
MaybeCheck blind_fifth(const Measured& measured, Check check) {
  return blind_nats(measured, std::move(check), kFifthKeep, kBlindFifthLeast);
}
MaybeCheck blind_half(const Measured& measured, Check check) {
  return blind_nats(measured, std::move(check), kHalfKeep, kBlindHalfLeast);
}

MaybeCheck nll_beyond_intervals(const Measured& measured, Check check) {
  const Pairs pairs{.task = Task::kJson, .view = View::kAware, .keep = kSmallKeep};
  const auto roles = better(measured, with_roles(kPlain), kPlain, pairs);
  const auto shuffled = better(measured, shuffled_roles(kPlain), kPlain, pairs);
  if (!roles || !shuffled) return {};
  check.found = "roles " + with_interval(*roles) + ", shuffled " + with_interval(*shuffled);
  check.pass = sign_of(*roles) > 0 && sign_of(*shuffled) <= 0;
  return check;
}

MaybeCheck neutral(const Measured& measured, Check check, Task task) {
  return at_keeps(measured, std::move(check), with_roles(kPlain), kPlain,
                  {.task = task, .view = View::kAware}, {kSmallKeep, kFifthKeep},
                  [](double, const Estimate& e) { return std::fabs(e.value) <= kNeutralMost; });
}
MaybeCheck neutral_prose(const Measured& measured, Check check) {
  return neutral(measured, std::move(check), Task::kProse);
}
MaybeCheck neutral_needles(const Measured& measured, Check check) {
  return neutral(measured, std::move(check), Task::kNeedle);
}

MaybeCheck keys_lost(const Measured& measured, Check check, Task task) {
  return at_keeps(measured, std::move(check), with_roles(kPlain), kPlain,
                  {.task = task, .view = View::kAware}, {kSmallKeep, kFifthKeep},
                  [](double, const Estimate& e) { return sign_of(e) < 0; });
}
MaybeCheck which_key(const Measured& measured, Check check) {
  return keys_lost(measured, std::move(check), Task::kJsonKeys);
}
MaybeCheck list_keys(const Measured& measured, Check check) {
  return keys_lost(measured, std::move(check), Task::kJsonList);
}

MaybeCheck compact_needs_keys(const Measured& measured, Check check) {
  return at_keeps(measured, std::move(check), with_roles(kPlain), with_roles(kPlain, ",key=0"),
                  {.task = Task::kJsonCompact, .view = View::kAware}, {kSmallKeep, kFifthKeep},
                  [](double, const Estimate& e) { return sign_of(e) > 0; });
}

MaybeCheck keys_outlive(const Measured& measured, Check check) {
  check.pass = true;
  for (const double keep : {0.05, kSmallKeep, kFifthKeep}) {
    const Estimate ratio = keys_over_values(measured.diagnosis, Task::kJson, kH2oAlone, keep);
    if (ratio.clusters == 0) return {};
    say(check.found, keep, ratio);
    check.pass = check.pass && ratio.value >= kKeysOverValuesLeast;
  }
  return check;
}

struct Threshold {
  const char *name, *threshold;
  CheckOf check;
};
constexpr Threshold kThresholds[] = {
    {"roles take the bytes of the score alone", "within 1 % on every input at every keep",
     equal_bytes},
    {"indented, aware: roles over snapkv-max7", "EM at least +.25 at 10 and 20 %", em_gain},
    {"indented, aware: share of the H2O-to-full gap that roles close",
     "at least .63 at each keep below 20 %", gap_max7},
    {"the same with snapkv-ahead + roles", "at least .63 at each keep below 20 %", gap_ahead},
    {"indented, aware: shuffled labels are below plain",
     "EM at most that of snapkv-max7 at 10 %, less at 20 %", shuffled_below},
    {"indented, aware: roles over snapkv-max7 by log-probability at 10 %, shuffled labels not",
     "interval of roles above 0, of shuffled ones not", nll_beyond_intervals},
    {"indented, aware: snapkv-ahead + roles retain answers", "at least .95 at 10 %",
     ahead_retained},
    {"indented, blind: roles over snapkv-max7, a fifth kept",
     "at least .2 nats a token of the answer", blind_fifth},
    {"indented, blind: roles over snapkv-max7, half kept", "at least .4 nats a token of the answer",
     blind_half},
    {"prose: roles are neutral", "NLL within .02 nats of snapkv-max7 at 10 and 20 %",
     neutral_prose},
    {"needles in prose, aware: roles are neutral",
     "log-probability within .02 nats of snapkv-max7 at 10 and 20 %", neutral_needles},
    {"asked for the key of a number, aware: roles lose",
     "log-probability below snapkv-max7, interval below 0, at 10 and 20 %", which_key},
    {"asked to list the keys, aware: roles lose",
     "log-probability below snapkv-max7, interval below 0, at 10 and 20 %", list_keys},
    {"compact, aware: no share for keys (key=0) fails",
     "log-probability of key=.02 over key=0, interval above 0, at 10 and 20 %", compact_needs_keys},
    {"indented: H2O alone keeps keys more often than values",
     "at least 1.8 times at 5, 10 and 20 % (published: 1.8)", keys_outlive}};

}  // namespace

std::vector<Check> role_checks(const std::vector<InputResult>& results,
                               const std::vector<RoleDiagnosis>& diagnosis,
                               std::vector<std::string>& not_measured) {
  std::vector<Check> checks;
  for (const Threshold& one : kThresholds) {
    MaybeCheck check = one.check({results, diagnosis}, {one.name, one.threshold, "", false});
    if (check) {
      checks.push_back(*std::move(check));
    } else {
      not_measured.emplace_back(one.name);
    }
  }
  return checks;
}

}  // namespace quire::eval
