// Ada-KV (arXiv 2407.11550, algorithm 1): one choice over all lanes of a layer.  Every lane gets
// `floor` of an equal share, the rest goes to the best entries wherever they are.  Scores and needs
// are those of the policy it wraps.

#include <algorithm>
#include <numeric>
#include <vector>

#include "policies/policies.h"

namespace quire::policies {
namespace {

using Scores = std::span<const std::span<const float>>;

// A lane's unprotected entries, best first; equal scores: the newer first.
std::vector<float> ranked_middle(const Protection& protect, std::span<const float> score) {
  const std::size_t sinks = std::min<std::size_t>(protect.sinks, score.size());
  const std::size_t recent = std::min<std::size_t>(protect.recent, score.size() - sinks);
  std::vector<float> middle(score.begin() + sinks, score.end() - recent);
  std::ranges::sort(middle, std::greater{});
  return middle;
}

void equal_shares(Scores scores, std::uint32_t entries, std::span<std::uint32_t> counts) {
  std::ranges::fill(counts, 0);
  for (std::size_t open = 1; entries > 0 && open > 0;) {
    open = 0;
    for (std::size_t h = 0; h < counts.size() && entries > 0; ++h) {
      if (counts[h] < scores[h].size()) ++counts[h], --entries, ++open;
    }
  }
}

void share_out(double floor, const Protection& protect, Scores scores, std::uint32_t entries,
               std::span<std::uint32_t> counts) {
  const double share = static_cast<double>(entries) / static_cast<double>(counts.size());
  std::vector<std::vector<float>> middle;
  std::uint32_t forced = 0;
  for (std::size_t h = 0; h < counts.size(); ++h) {
    middle.push_back(ranked_middle(protect, scores[h]));
    const auto live = static_cast<std::uint32_t>(scores[h].size());
    const auto fixed = live - static_cast<std::uint32_t>(middle[h].size());
    counts[h] = std::min(live, std::max(fixed, static_cast<std::uint32_t>(floor * share)));
    middle[h].erase(middle[h].begin(), middle[h].begin() + (counts[h] - fixed));
    forced += counts[h];
  }
  if (forced > entries) return equal_shares(scores, entries, counts);

  // The best heads of the remaining lists, one at a time; equal scores: the smaller lane first.
  std::vector<std::size_t> next(counts.size(), 0);
  for (; forced < entries; ++forced) {
    std::size_t best = counts.size();
    for (std::size_t h = 0; h < counts.size(); ++h) {
      if (next[h] == middle[h].size()) continue;
      if (best == counts.size() || middle[h][next[h]] > middle[best][next[best]] ||
          (middle[h][next[h]] == middle[best][next[best]] && counts[h] < counts[best])) {
        best = h;
      }
    }
    if (best == counts.size()) return;
    ++next[best], ++counts[best];
  }
}

}  // namespace

PolicyKind adakv() {
  return {.name = "adakv",
          .source = "shares a layer's entries over its lanes by score (Ada-KV, arXiv 2407.11550)",
          .options = {choice("base", "snapkv",
                             {"snapkv", "snapkv-ahead", "h2o", "h2o-age", "knorm", "random"}),
                      real("floor", "0.2", 0, 1)},
          .wraps = true,
          .make = [](const Values& values) -> Result<Policy> {
            Result<Policy> base = make_policy(values.text("base") + ":" + values.rest());
            if (!base.ok()) return base.status();
            base->allocate = [floor = values.real("floor")](const Protection& protect,
                                                            Scores scores, std::uint32_t entries,
                                                            std::span<std::uint32_t> counts) {
              share_out(floor, protect, scores, entries, counts);
            };
            return base;
          }};
}

}  // namespace quire::policies
