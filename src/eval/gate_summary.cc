// What gates make of measurements.

#include <algorithm>
#include <cmath>
#include <map>

#include "eval/gate_points.h"

namespace quire::eval {
namespace {

double value_of(const GateValues& values, Statistic statistic) {
  return values[static_cast<std::size_t>(statistic)];
}

double safety_of(const GateValues& values, Statistic statistic) {
  const double value = value_of(values, statistic);
  return info_of(statistic).safe_above ? value : -value;
}

std::string self_check_name(double most) {
  return std::string(engine::kSelfCheck) + ":" + fixed(most, 2);
}

// A gate's name: its statistic, and how that is read where it is not as labelled.
std::string gate_name(Statistic statistic, engine::GateMode mode) {
  const std::string name = info_of(statistic).name;
  return mode == engine::GateMode::kLabelled ? name : name + ":" + engine::name_of(mode);
}

constexpr engine::GateMode kModes[] = {engine::GateMode::kLabelled, engine::GateMode::kZ,
                                       engine::GateMode::kSigned};

void add_gates(const GatePoint& point, const std::vector<StatisticSummary>& statistics,
               std::vector<GatedArm>& arms) {
  add_gate(
      point, "open", [](const GateItem&) { return true; }, arms);
  add_gate(
      point, "closed", [](const GateItem&) { return false; }, arms);
  add_gate(
      point, "oracle", [](const GateItem& item) { return !item.harmed(); }, arms);
  for (const StatisticSummary& summary : statistics) {
    if (info_of(summary.fit.statistic).control) continue;
    for (const engine::GateMode mode : kModes) {
      const engine::GateCalibration by = summary.fit.calibration(mode);
      const IsOpen open = [by](const GateItem& item) {
        return gate_opens(by, value_of(item.values, by.statistic));
      };
      add_gate_and_random(point, gate_name(by.statistic, mode), open, arms);
    }
  }
  for (const double most : kSelfCheckMosts) {
    const IsOpen open = [most](const GateItem& item) { return item.first_kl <= most; };
    add_gate_and_random(point, self_check_name(most), open, arms);
  }
}

const GatedArm* find_arm(const std::vector<GatedArm>& arms, const GatePoint& point,
                         const std::string& gate, std::optional<NeedClass> need) {
  const auto found = std::ranges::find_if(arms, [&](const GatedArm& arm) {
    return arm.policy == point.policy && arm.keep == point.keep && arm.gate == gate &&
           arm.need == need;
  });
  return found == arms.end() ? nullptr : &*found;
}

// The first policy at the largest share where it does enough harm.
const GatePoint* judged_point(const std::vector<GatePoint>& points,
                              const std::vector<GatedArm>& arms) {
  const GatePoint* judged = nullptr;
  for (const GatePoint& point : points) {
    if (is_anchor(point.policy)) continue;
    if (judged != nullptr && point.policy != judged->policy) continue;
    const GatedArm* plain = find_arm(arms, point, "open", NeedClass::kCapacity);
    if (plain == nullptr || !(plain->harm.value >= kPlainHarmLeast)) continue;
    if (judged == nullptr || point.keep > judged->keep) judged = &point;
  }
  return judged;
}

std::string share_text(double share) {
  return std::isfinite(share) ? fixed(share, 3) : "-";
}

void add_checks(const GatePoint* judged, GateSummary& summary) {
  if (judged == nullptr) {
    summary.checks.push_back({"the capacity class is harmed without a gate",
                              "plain harm >= " + fixed(kPlainHarmLeast, 1) + " somewhere",
                              "nowhere", false});
    return;
  }
  const auto arm = [&](const std::string& gate, std::optional<NeedClass> need) {
    return find_arm(summary.arms, *judged, gate, need);
  };
  const std::string at = " (" + judged->policy + " at " + fixed(judged->keep * 100, 2) + " %)";
  std::vector<std::string> gates;
  for (const StatisticSummary& statistic : summary.statistics) {
    if (info_of(statistic.fit.statistic).control) continue;
    for (const engine::GateMode mode : kModes) {
      gates.push_back(gate_name(statistic.fit.statistic, mode));
    }
  }
  gates.push_back(self_check_name(engine::kSelfCheckKl));
  for (const std::string& name : gates) {
    const GatedArm *plain = arm("open", NeedClass::kCapacity),
                   *gated = arm(name, NeedClass::kCapacity);
    const GatedArm* dilution = arm(name, NeedClass::kDilution);
    const GatedArm *all = arm(name, {}), *random = arm("random as " + name, {});
    summary.checks.push_back(
        {name + ": harm of the capacity class falls" + at,
         "gated <= plain / " + fixed(kHarmFallsBy, 0),
         share_text(gated->harm.value) + " of " + share_text(plain->harm.value),
         gated->harm.value * kHarmFallsBy <= plain->harm.value});
    const double open = dilution == nullptr ? NAN : dilution->open;
    summary.checks.push_back({name + ": dilution prompts are still evicted" + at,
                              "open >= " + fixed(kDilutionOpen, 1), share_text(open),
                              open >= kDilutionOpen});
    summary.checks.push_back({name + ": better than a random gate as often open" + at,
                              "harm <= " + fixed(kOfRandomMost, 1) + " of its",
                              share_text(all->harm.value) + " of " + share_text(random->harm.value),
                              all->harm.value <= kOfRandomMost * random->harm.value});
  }
}

// One item for each prompt: those of any point are the same.
StatisticSummary summary_of(Statistic statistic, const std::vector<LabelledValues>& calibration,
                            const std::vector<GateItem>& prompts) {
  StatisticSummary summary{.fit = fit_gate(statistic, calibration)};
  const engine::GateCalibration by = summary.fit.calibration(engine::GateMode::kLabelled);
  ByDocument safe, unsafe;
  std::map<Task, std::vector<double>> values;
  std::map<std::size_t, std::vector<bool>> decisions;
  for (const GateItem& item : prompts) {
    const double value = value_of(item.values, statistic);
    values[item.task].push_back(value);
    decisions[item.document].push_back(gate_opens(by, value));
    const NeedClass need = class_of(item.task);
    if (need == NeedClass::kOther) continue;
    (need == NeedClass::kDilution ? safe : unsafe)[item.document].push_back(
        safety_of(item.values, statistic));
  }
  summary.auc = estimate_auc(safe, unsafe);
  for (const auto& [task, some] : values) {
    const engine::GateCalibration other =
        fit_gate(statistic, calibration, task).calibration(engine::GateMode::kLabelled);
    ClassValues found{.task = task, .prompts = some.size(), .mean = mean(some)};
    for (const double value : some) {
      found.deviation += (value - found.mean) * (value - found.mean);
      found.open += gate_opens(by, value) ? 1 : 0;
      found.open_left_out += gate_opens(other, value) ? 1 : 0;
    }
    const auto count = static_cast<double>(some.size());
    found.deviation = std::sqrt(found.deviation / std::max(1.0, count - 1));
    found.open /= count;
    found.open_left_out /= count;
    summary.classes.push_back(found);
  }
  double same = 0, pairs = 0;
  for (const auto& [document, open] : decisions) {
    const auto count = static_cast<double>(open.size());
    const auto opened = static_cast<double>(std::ranges::count(open, true));
    pairs += count * (count - 1) / 2;
    same += opened * (opened - 1) / 2 + (count - opened) * (count - opened - 1) / 2;
  }
  summary.same_document = pairs == 0 ? NAN : same / pairs;
  return summary;
}

// Of questions that the full cache answers: those that keep their answer lie on the safer side.
template <typename Safety>
Estimate harm_auc(const GatePoint& point, std::optional<NeedClass> need, const Safety& safety) {
  ByDocument unharmed, harmed;
  for (const GateItem& item : point.items) {
    if ((need && class_of(item.task) != *need) || !item.full_right) continue;
    (item.harmed() ? harmed : unharmed)[item.document].push_back(safety(item));
  }
  return estimate_auc(unharmed, harmed);
}

SelfCheckSummary self_check_of(const GatePoint& point) {
  const auto safety = [](const GateItem& item) { return -item.first_kl; };
  return {.policy = point.policy,
          .keep = point.keep,
          .harm_auc = harm_auc(point, {}, safety),
          .capacity_harm_auc = harm_auc(point, NeedClass::kCapacity, safety)};
}

}  // namespace

const char* name_of(NeedClass need) {
  switch (need) {
    case NeedClass::kCapacity:
      return "capacity";
    case NeedClass::kDilution:
      return "dilution";
    case NeedClass::kOther:
      return "other";
  }
  return "";
}

NeedClass class_of(Task task) {
  if (task == Task::kKeys) return NeedClass::kCapacity;
  const bool dilution = task == Task::kSingle || task == Task::kNeedle || task == Task::kChain;
  return dilution ? NeedClass::kDilution : NeedClass::kOther;
}

engine::GateCalibration GateFit::calibration(engine::GateMode mode) const {
  if (mode == engine::GateMode::kSigned) {
    return {
        .statistic = statistic, .mode = mode, .threshold = 0, .mean = labelled, .deviation = half};
  }
  return {.statistic = statistic,
          .mode = mode,
          .threshold = mode == engine::GateMode::kZ ? engine::kGateZ : labelled,
          .mean = mean,
          .deviation = deviation};
}

GateFit fit_gate(Statistic statistic, const std::vector<LabelledValues>& prompts,
                 std::optional<Task> leave_out) {
  std::vector<double> all, by_class[std::size(kNeedClasses)];
  for (const LabelledValues& prompt : prompts) {
    if (prompt.task == leave_out) continue;
    all.push_back(value_of(prompt.values, statistic));
    by_class[static_cast<std::size_t>(class_of(prompt.task))].push_back(all.back());
  }
  GateFit fit{.statistic = statistic, .mean = mean(all)};
  double squares = 0;
  for (const double value : all) squares += (value - fit.mean) * (value - fit.mean);
  fit.deviation =
      std::sqrt(squares / static_cast<double>(std::max<std::size_t>(2, all.size()) - 1));
  const std::vector<double>& capacity = by_class[static_cast<std::size_t>(NeedClass::kCapacity)];
  const std::vector<double>& dilution = by_class[static_cast<std::size_t>(NeedClass::kDilution)];
  // Where a class was left out, what stays are the others: the mean of all takes its place.
  const double low = capacity.empty() ? fit.mean : mean(capacity);
  const double high = dilution.empty() ? fit.mean : mean(dilution);
  fit.labelled = (low + high) / 2;
  fit.half = (high - low) / 2;
  return fit;
}

GateSummary summarise_gates(const std::vector<LabelledValues>& calibration,
                            const std::vector<InputResult>& results) {
  GateSummary summary;
  const std::vector<GatePoint> points = gate_points(results);
  if (points.empty()) return summary;
  for (const StatisticInfo& info : kStatistics) {
    summary.statistics.push_back(summary_of(info.statistic, calibration, points[0].items));
  }
  for (const GatePoint& point : points) add_gates(point, summary.statistics, summary.arms);
  const GatePoint* judged = judged_point(points, summary.arms);
  for (StatisticSummary& statistic : summary.statistics) {
    statistic.harm_auc.value = NAN;
    if (judged == nullptr) continue;
    const Statistic by = statistic.fit.statistic;
    statistic.harm_auc = harm_auc(*judged, NeedClass::kCapacity, [by](const GateItem& item) {
      return safety_of(item.values, by);
    });
  }
  for (const GatePoint& point : points) summary.self_checks.push_back(self_check_of(point));
  add_checks(judged, summary);
  for (const StatisticSummary& statistic : summary.statistics) {
    const StatisticInfo& info = info_of(statistic.fit.statistic);
    if (!info.control) continue;
    const Interval& interval = statistic.auc.interval;
    summary.checks.push_back({std::string(info.name) + " (control): tells no class from another",
                              "the interval of its AUC includes 0.5", with_interval(statistic.auc),
                              interval.low <= 0.5 && interval.high >= 0.5});
  }
  return summary;
}

}  // namespace quire::eval
