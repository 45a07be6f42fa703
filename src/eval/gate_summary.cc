// What gates make of measurements.

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "eval/gate_eval.h"
#include "eval/random.h"

namespace quire::eval {
namespace {

constexpr std::uint32_t kResamples = 500;

// A question that was measured, with what a gate may know of it.
struct Item {
  Task task{};
  std::size_t document = 0;
  GateValues values{};
  bool full_right = false, right = false;
  double bytes_share = 1;  // of the arm, where it is open

  bool harmed() const { return full_right && !right; }
};

// One policy at one share.
struct Point {
  std::string policy;
  double keep = 0;
  std::vector<Item> items;
};

std::vector<Point> points_of(const std::vector<InputResult>& results) {
  std::vector<Point> points;
  for (std::size_t d = 0; d < results.size(); ++d) {
    const InputResult& input = results[d];
    for (const ArmResult& arm : input.arms) {
      if (arm.arm.policy == kFull) continue;
      auto point = std::ranges::find_if(points, [&](const Point& p) {
        return p.policy == arm.arm.policy && p.keep == arm.arm.keep;
      });
      if (point == points.end()) point = points.insert(point, {arm.arm.policy, arm.arm.keep, {}});
      for (std::size_t q = 0; q < arm.aware.size(); ++q) {
        point->items.push_back(
            {.task = input.task,
             .document = d,
             .values = input.question_values[q],
             .full_right = arm.aware[q].full_right,
             .right = arm.aware[q].right,
             .bytes_share = static_cast<double>(arm.bytes) /
                            static_cast<double>(std::max<std::uint64_t>(1, input.full_bytes))});
      }
    }
  }
  return points;
}

double value_of(const GateValues& values, Statistic statistic) {
  return values[static_cast<std::size_t>(statistic)];
}

double safety_of(const GateValues& values, Statistic statistic) {
  const double value = value_of(values, statistic);
  return info_of(statistic).safe_above ? value : -value;
}

// Which of some clusters' values lie above which of others'; ties count half.
double auc(const std::vector<std::vector<double>>& above,
           const std::vector<std::vector<double>>& below) {
  double wins = 0;
  std::size_t pairs = 0;
  for (const std::vector<double>& a : above) {
    for (const double x : a) {
      for (const std::vector<double>& b : below) {
        for (const double y : b) wins += x > y ? 1 : x == y ? 0.5 : 0;
        pairs += b.size();
      }
    }
  }
  return pairs == 0 ? NAN : wins / static_cast<double>(pairs);
}

using Clusters = std::map<std::size_t, std::vector<double>>;  // by document

// With an interval by drawing documents of both sides anew.
Estimate estimate_auc(const Clusters& above, const Clusters& below) {
  const auto list = [](const Clusters& clusters) {
    std::vector<std::vector<double>> values;
    for (const auto& [document, some] : clusters) values.push_back(some);
    return values;
  };
  const auto up = list(above), down = list(below);
  Estimate estimate{.value = auc(up, down), .interval = {NAN, NAN}};
  estimate.clusters = up.size() + down.size();
  for (const auto& some : up) estimate.items += some.size();
  for (const auto& some : down) estimate.items += some.size();
  if (up.size() < 2 || down.size() < 2) return estimate;
  const Stream stream(1, "auc");
  std::vector<double> found;
  for (std::uint32_t r = 0; r < kResamples; ++r) {
    const auto drawn = [&](const auto& from, std::uint64_t side) {
      std::vector<std::vector<double>> values;
      for (std::size_t i = 0; i < from.size(); ++i) {
        values.push_back(from[stream.of(r).of(side).below(from.size(), i)]);
      }
      return values;
    };
    found.push_back(auc(drawn(up, 0), drawn(down, 1)));
  }
  estimate.interval = {quantile(found, 0.025), quantile(found, 0.975)};
  return estimate;
}

using IsOpen = std::function<bool(const Item&)>;

// `share`: of questions that a gate that looks at nothing leaves open; else it is asked.
GatedArm gated_arm(const Point& point, std::string gate, std::optional<NeedClass> need,
                   const IsOpen& open, std::optional<double> share = {}) {
  GatedArm arm{.policy = point.policy, .gate = std::move(gate), .keep = point.keep, .need = need};
  Clusters harm;
  double opened = 0, bytes = 0;
  std::size_t count = 0;
  for (const Item& item : point.items) {
    if (need && class_of(item.task) != *need) continue;
    const double often = share ? *share : open(item) ? 1 : 0;
    opened += often;
    bytes += often * item.bytes_share + (1 - often);
    ++count;
    if (item.full_right) harm[item.document].push_back(item.harmed() ? often : 0);
  }
  std::vector<std::vector<double>> clusters;
  for (auto& [document, values] : harm) clusters.push_back(std::move(values));
  arm.harm = bootstrap_mean(clusters);
  arm.open = count == 0 ? NAN : opened / static_cast<double>(count);
  arm.bytes_share = count == 0 ? NAN : bytes / static_cast<double>(count);
  return arm;
}

// A gate's rows: of each class, and of all together.
void add_gate(const Point& point, const std::string& gate, const IsOpen& open,
              std::vector<GatedArm>& arms, std::optional<double> share = {}) {
  for (const NeedClass need : kNeedClasses) {
    GatedArm arm = gated_arm(point, gate, need, open, share);
    if (std::isfinite(arm.open)) arms.push_back(std::move(arm));
  }
  arms.push_back(gated_arm(point, gate, {}, open, share));
}

void add_gates(const Point& point, const std::vector<StatisticSummary>& statistics,
               std::vector<GatedArm>& arms) {
  add_gate(
      point, "open", [](const Item&) { return true; }, arms);
  add_gate(
      point, "closed", [](const Item&) { return false; }, arms);
  add_gate(
      point, "oracle", [](const Item& item) { return !item.harmed(); }, arms);
  for (const StatisticSummary& summary : statistics) {
    const std::string name = info_of(summary.fit.statistic).name;
    for (const engine::GateMode mode : {engine::GateMode::kLabelled, engine::GateMode::kZ}) {
      const engine::GateCalibration by = summary.fit.calibration(mode);
      const IsOpen open = [by](const Item& item) {
        return gate_opens(by, value_of(item.values, by.statistic));
      };
      const std::string gate = name + (mode == engine::GateMode::kZ ? ":z" : "");
      add_gate(point, gate, open, arms);
      add_gate(point, "random as " + gate, {}, arms, arms.back().open);
    }
  }
}

const GatedArm* find_arm(const std::vector<GatedArm>& arms, const Point& point,
                         const std::string& gate, std::optional<NeedClass> need) {
  const auto found = std::ranges::find_if(arms, [&](const GatedArm& arm) {
    return arm.policy == point.policy && arm.keep == point.keep && arm.gate == gate &&
           arm.need == need;
  });
  return found == arms.end() ? nullptr : &*found;
}

// The first policy at the largest share where it does enough harm.
const Point* judged_point(const std::vector<Point>& points, const std::vector<GatedArm>& arms) {
  const Point* judged = nullptr;
  for (const Point& point : points) {
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

void add_checks(const Point* judged, GateSummary& summary) {
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
  for (const StatisticSummary& statistic : summary.statistics) {
    const std::string name = info_of(statistic.fit.statistic).name;
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
                            const std::vector<Item>& prompts) {
  StatisticSummary summary{.fit = fit_gate(statistic, calibration)};
  const engine::GateCalibration by = summary.fit.calibration(engine::GateMode::kLabelled);
  Clusters safe, unsafe;
  std::map<Task, std::vector<double>> values;
  std::map<std::size_t, std::vector<bool>> decisions;
  for (const Item& item : prompts) {
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

Estimate harm_auc(Statistic statistic, const Point& point) {
  Clusters unharmed, harmed;
  for (const Item& item : point.items) {
    if (class_of(item.task) != NeedClass::kCapacity || !item.full_right) continue;
    (item.harmed() ? harmed : unharmed)[item.document].push_back(safety_of(item.values, statistic));
  }
  return estimate_auc(unharmed, harmed);
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
  return fit;
}

GateSummary summarise_gates(const std::vector<LabelledValues>& calibration,
                            const std::vector<InputResult>& results) {
  GateSummary summary;
  const std::vector<Point> points = points_of(results);
  if (points.empty()) return summary;
  for (const StatisticInfo& info : kStatistics) {
    summary.statistics.push_back(summary_of(info.statistic, calibration, points[0].items));
  }
  for (const Point& point : points) add_gates(point, summary.statistics, summary.arms);
  const Point* judged = judged_point(points, summary.arms);
  for (StatisticSummary& statistic : summary.statistics) {
    if (judged != nullptr) statistic.harm_auc = harm_auc(statistic.fit.statistic, *judged);
    if (judged == nullptr) statistic.harm_auc.value = NAN;
  }
  add_checks(judged, summary);
  return summary;
}

}  // namespace quire::eval
