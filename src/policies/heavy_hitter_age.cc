// H2O divided by age: the mean attention an entry drew from the queries that could see it
// (ObservedAttention in NVIDIA's kvpress).  Without it the oldest entries win by having been
// there longest.

#include "policies/policies.h"

namespace quire::policies {

PolicyKind heavy_hitter_age() {
  return {.name = "h2o-age",
          .file = "heavy_hitter_age",
          .source = "mean attention drawn per query that saw the entry (kvpress ObservedAttention)",
          .when = "prose and long answers: a third to a sixth of h2o's divergence",
          .when_not = "texts that return to an old topic",
          .cost = "attention sums of every row, as h2o",
          .options = {},
          .make = [](const Values&) -> Result<Policy> {
            return Policy{.needs = {.tap = Tap::kAllRows, .group = Reduce::kMean},
                          .score = [](const EntryView& lane, std::span<float> score) {
                            const Position newest = lane.position.back();
                            for (std::uint32_t i = 0; i < lane.live; ++i) {
                              const Position queries = newest - lane.position[i] + 1;
                              score[i] = lane.tap[i] / static_cast<float>(queries);
                            }
                          }};
          }};
}

}  // namespace quire::policies
