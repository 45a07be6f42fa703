// Uniformly random victims: what every other policy has to beat (arXiv 2609.03430 finds few do).

#include "policies/policies.h"

namespace quire::policies {

PolicyKind random_choice() {
  return {.name = "random",
          .file = "random",
          .source = "uniformly random per lane: the baseline every score must beat",
          .when = "as a baseline, and to make holes for tests of the memory",
          .when_not = "for answers that rest on single tokens of the prompt",
          .cost = "none",
          .options = {whole("seed", 0, 0, ~std::uint64_t{0})},
          .make = [](const Values& values) -> Result<Policy> {
            return Policy{.score = [seed = values.whole("seed")](const EntryView& lane,
                                                                 std::span<float> score) {
              for (std::uint32_t i = 0; i < lane.live; ++i) {
                score[i] = uniform_of(seed, lane, lane.position[i]);
              }
            }};
          }};
}

}  // namespace quire::policies
