// H2O (arXiv 2306.14048): an entry is worth the attention it has drawn from every later query.
//
// Differs from the authors' code: sums are exact and shared by the query heads of a KV head (their
// mean), and nothing is renumbered.  Old entries win by age; h2o-age divides by it.  The paper
// gives half of the quota to heavy entries and half to the newest (heavy=50); by default all of it
// beyond the protection that every policy shares goes to heavy ones.

#include <algorithm>

#include "policies/policies.h"

namespace quire::policies {

PolicyKind heavy_hitter() {
  return {
      .name = "h2o",
      .file = "heavy_hitter",
      .source = "attention drawn from all later queries (H2O, arXiv 2306.14048)",
      .when = "long answers and texts whose early parts come back",
      .when_not = "unprotected prompts: old entries win by age and the question goes",
      .cost = "attention sums of every row: 8 bytes an entry, and a pass over each row's weights",
      .options = {whole("heavy", 100, 0, 100)},
      .make = [](const Values& values) -> Result<Policy> {
        return Policy{
            .needs = {.tap = Tap::kAllRows, .group = Reduce::kMean},
            .score = [](const EntryView& lane,
                        std::span<float> score) { std::ranges::copy(lane.tap, score.begin()); },
            .choose = keep_newest(100 - values.whole("heavy"))};
      }};
}

}  // namespace quire::policies
