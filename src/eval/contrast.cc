#include "eval/contrast.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace quire::eval {
namespace {

// Higher is better.
double worth(const QuestionScore& score, Compare of) {
  if (of == Compare::kRight) return score.right ? 1 : 0;
  return of == Compare::kKl ? -score.kl : score.log_p;
}

void add_pairs(const InputResult& input, const ArmResult& better, const ArmResult& other,
               const Pairs& pairs, std::vector<double>& items) {
  if (continues(input.task)) {
    const auto of = pairs.of == Compare::kKl ? &ProseScore::kl : &ProseScore::nll;
    items.push_back(other.prose.*of - better.prose.*of);
    return;
  }
  const std::vector<QuestionScore>&mine = better.scores(pairs.view),
        &theirs = other.scores(pairs.view);
  for (std::size_t q = 0; q < std::min(mine.size(), theirs.size()); ++q) {
    items.push_back(worth(mine[q], pairs.of) - worth(theirs[q], pairs.of));
  }
}

}  // namespace

Estimate contrast(const std::vector<InputResult>& results, const std::string& better,
                  const std::string& other, const Pairs& pairs) {
  std::map<std::uint32_t, std::vector<double>> documents;
  for (const InputResult& input : results) {
    if (input.task != pairs.task) continue;
    if (pairs.block_tokens && input.block_tokens != *pairs.block_tokens) continue;
    for (const ArmResult& arm : input.arms) {
      if (arm.arm.label() != better || (pairs.keep && arm.arm.keep != *pairs.keep)) continue;
      const auto beside = std::ranges::find_if(input.arms, [&](const ArmResult& one) {
        // An arm without a share of its own (the full cache) stands beside all.
        return one.arm.label() == other && (one.arm.keep == arm.arm.keep || other == kFull);
      });
      if (beside != input.arms.end()) add_pairs(input, arm, *beside, pairs, documents[input.seed]);
    }
  }
  std::vector<std::vector<double>> clusters;
  for (auto& [seed, items] : documents) clusters.push_back(std::move(items));
  return bootstrap_mean(clusters);
}

int sign_of(const Estimate& estimate) {
  const Interval& interval = estimate.interval;
  if (!std::isfinite(interval.low) || !std::isfinite(interval.high)) return 0;
  return interval.low > 0 ? 1 : interval.high < 0 ? -1 : 0;
}

}  // namespace quire::eval
