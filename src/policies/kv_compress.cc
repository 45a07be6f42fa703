// KV-Compress (arXiv 2410.00161): an entry is worth its squared attention, summed over query heads
// and rows.  A lane's worst block_tokens entries are a run, the next worst another; a run costs
// what the best of it is worth, and over all lanes of the sequence the cheapest runs go.

#include <algorithm>
#include <queue>
#include <tuple>

#include "policies/policies.h"

namespace quire::policies {

PolicyKind kv_compress() {
  return {.name = "kv-compress",
          .file = "kv_compress",
          .source = "squared attention, a block's worth wherever it is cheapest (arXiv 2410.00161)",
          .when = "small budgets, with repacking: lanes lose whole blocks' worth of entries",
          .when_not = "where lanes must keep equal counts",
          .cost = "attention sums of every row, as h2o, and a sort of each lane's scores",
          .options = {},
          .make = [](const Values&) -> Result<Policy> {
            return Policy{
                .needs = {.tap = Tap::kAllRows, .group = Reduce::kSquareSum},
                .divides = Scope::kSequence,
                .score = [](const EntryView& lane,
                            std::span<float> score) { std::ranges::copy(lane.tap, score.begin()); },
                .allocate =
                    [](const Protection& protect, std::span<const EntryView> lanes,
                       std::span<const std::span<const float>> scores, std::uint32_t entries,
                       std::span<std::uint32_t> counts) {
                      std::vector<std::tuple<float, std::size_t, std::size_t>>
                          runs;  // cost, lane, size
                      std::uint64_t sum = 0;
                      for (std::size_t h = 0; h < lanes.size(); ++h) {
                        sum += counts[h] = lanes[h].live;
                        const std::vector<float> middle = ranked(protect, scores[h]);
                        const std::size_t run = lanes[h].block_tokens;
                        for (std::size_t i = run; i <= middle.size(); i += run) {
                          runs.emplace_back(middle[middle.size() - i], h, run);
                        }
                      }
                      std::ranges::sort(runs);
                      for (const auto& [cost, h, run] : runs) {
                        const std::uint64_t over = sum > entries ? sum - entries : 0;
                        const auto gone =
                            static_cast<std::uint32_t>(std::min<std::uint64_t>(run, over));
                        counts[h] -= gone, sum -= gone;
                      }
                    }};
          }};
}

}  // namespace quire::policies
