#include "eval/gate_points.h"

#include <algorithm>
#include <cmath>

#include "eval/random.h"

namespace quire::eval {
namespace {

constexpr std::uint32_t kResamples = 500;

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

// `share`: of questions that a gate that looks at nothing leaves open; else it is asked.
GatedArm gated_arm(const GatePoint& point, std::string gate, std::optional<NeedClass> need,
                   const IsOpen& open, std::optional<double> share) {
  GatedArm arm{.policy = point.policy, .gate = std::move(gate), .keep = point.keep, .need = need};
  ByDocument harm;
  double opened = 0, bytes = 0;
  std::size_t count = 0;
  for (const GateItem& item : point.items) {
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

}  // namespace

std::vector<GatePoint> gate_points(const std::vector<InputResult>& results) {
  std::vector<GatePoint> points;
  for (std::size_t d = 0; d < results.size(); ++d) {
    const InputResult& input = results[d];
    for (const ArmResult& arm : input.arms) {
      if (arm.arm.policy == kFull) continue;
      auto point = std::ranges::find_if(points, [&](const GatePoint& p) {
        return p.policy == arm.arm.policy && p.keep == arm.arm.keep;
      });
      if (point == points.end()) point = points.insert(point, {arm.arm.policy, arm.arm.keep, {}});
      for (std::size_t q = 0; q < arm.aware.size(); ++q) {
        point->items.push_back(
            {.task = input.task,
             .document = d,
             .values = input.question_values[q],
             .first_kl = arm.aware[q].first_kl,
             .full_right = arm.aware[q].full_right,
             .right = arm.aware[q].right,
             .bytes_share = static_cast<double>(arm.bytes) /
                            static_cast<double>(std::max<std::uint64_t>(1, input.full_bytes))});
      }
    }
  }
  return points;
}

Estimate estimate_auc(const ByDocument& above, const ByDocument& below) {
  const auto list = [](const ByDocument& clusters) {
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

void add_gate(const GatePoint& point, const std::string& gate, const IsOpen& open,
              std::vector<GatedArm>& arms, std::optional<double> share) {
  for (const NeedClass need : kNeedClasses) {
    GatedArm arm = gated_arm(point, gate, need, open, share);
    if (std::isfinite(arm.open)) arms.push_back(std::move(arm));
  }
  arms.push_back(gated_arm(point, gate, {}, open, share));
}

void add_gate_and_random(const GatePoint& point, const std::string& gate, const IsOpen& open,
                         std::vector<GatedArm>& arms) {
  add_gate(point, gate, open, arms);
  add_gate(point, "random as " + gate, {}, arms, arms.back().open);
}

}  // namespace quire::eval
