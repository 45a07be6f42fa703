// PyramidKV (arXiv 2406.02069): SnapKV whose quota falls from the first layer to the last.
// The budget is that of kvpress: of n' entries a lane on average, the last layer gets n' / beta,
// the first as much over n' as the last is under it, at most what comes before the window. A last
// layer with less than the window makes it flat: then it is snapkv.

#include <algorithm>
#include <cmath>

#include "policies/policies.h"

namespace quire::policies {

PolicyKind pyramidkv() {
  return {.name = "pyramidkv",
          .file = "pyramidkv",
          .source = "SnapKV, first layers keep more than last ones (PyramidKV, arXiv 2406.02069)",
          .when = "long prompts that end with their question, at budgets of many windows",
          .when_not = "budgets under beta windows: there it is snapkv",
          .cost = "as snapkv",
          .options = {whole("beta", 20, 1, 100)},
          .wraps = true,
          .make = [](const Values& values) -> Result<Policy> {
            Result<Policy> policy = make_policy("snapkv:" + values.rest());
            if (!policy.ok()) return policy.status();
            policy->divides = Scope::kSequence;
            policy->allocate = [beta = values.real("beta"), window = policy->needs.window](
                                   const Protection&, std::span<const EntryView> lanes,
                                   std::span<const std::span<const float>>, std::uint32_t entries,
                                   std::span<std::uint32_t> counts) {
              const double mean = double{1} * entries / static_cast<double>(lanes.size());
              const double seen = lanes[0].live > 0 ? lanes[0].position.back() + 1.0 : 0;
              const double most = std::min(2 * mean - mean / beta, seen - window);
              const double least = 2 * mean - most;
              double last = 0, layer = 0;
              for (std::size_t i = 1; i < lanes.size(); ++i) {
                last += lanes[i].layer != lanes[i - 1].layer ? 1 : 0;
              }
              const bool flat = least < window || most < least || last == 0;
              for (std::size_t i = 0; i < lanes.size(); ++i) {
                if (i > 0 && lanes[i].layer != lanes[i - 1].layer) ++layer;
                const double quota = flat ? mean : most - layer * (most - least) / last;
                counts[i] = static_cast<std::uint32_t>(std::lround(quota));
              }
            };
            return policy;
          }};
}

}  // namespace quire::policies
