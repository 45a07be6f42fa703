// H2O divided by age: the mean attention an entry drew from the queries that could see it
// (ObservedAttention in NVIDIA's kvpress).  Without it the oldest entries win by having been
// there longest.

#include "policies/policies.h"

namespace quire::policies {

PolicyKind heavy_hitter_age() {
  return {.name = "h2o-age",
          .source = "mean attention drawn per query that saw the entry (kvpress ObservedAttention)",
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
