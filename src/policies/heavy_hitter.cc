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
  return {.name = "h2o",
          .source = "attention drawn from all later queries (H2O, arXiv 2306.14048)",
          .options = {whole("heavy", 100, 0, 100)},
          .make = [](const Values& values) -> Result<Policy> {
            Policy policy{.needs = {.tap = Tap::kAllRows, .group = Reduce::kMean},
                          .score = [](const EntryView& lane, std::span<float> score) {
                            std::ranges::copy(lane.tap, score.begin());
                          }};
            if (const std::uint64_t heavy = values.whole("heavy"); heavy < 100) {
              policy.choose = [heavy](const Protection& protect, const EntryView&,
                                      std::span<const float> score, std::span<Ordinal> kept,
                                      Arena& scratch) {
                const auto newest = static_cast<std::uint32_t>(kept.size() * (100 - heavy) / 100);
                choose_top({protect.sinks, std::max(protect.recent, newest)}, score, kept, scratch);
              };
            }
            return policy;
          }};
}

}  // namespace quire::policies
