// CriticalKV (arXiv 2502.03805, as NVIDIA's kvpress computes it): what an eviction costs is what it
// does to the layer's output.  Half of the quota goes by the wrapped score, the other half to the
// entries best by (score + 1e-4) * |W v|_1, W being the output projection.  The bound behind it
// wants scores that are shares of attention, so the list of what it wraps is short.
//
// Differs from kvpress: protected entries stay and count as part of the first half.

#include <algorithm>
#include <limits>

#include "policies/policies.h"

namespace quire::policies {

PolicyKind criticalkv() {
  return {.name = "criticalkv",
          .file = "criticalkv",
          .source = "half by a score, half by its effect on the layer's output (arXiv 2502.03805)",
          .when = "after a prompt, where values of a lane differ much in size",
          .when_not = "reviews of an answer: each computes every entry's part of the output anew",
          .cost = "as what it wraps, and the output projection of every entry at a review",
          .options = {choice("score", "snapkv",
                             {"snapkv", "snapkv-ahead", "pyramidkv", "adakv", "h2o", "h2o-age",
                              "expected-attention"})},
          .wraps = true,
          .make = [](const Values& values) -> Result<Policy> {
            Result<Policy> base = make_policy(values.text("score") + ":" + values.rest());
            if (!base.ok()) return base.status();
            base->needs.output_norm = true;
            base->choose = [first = base->choose](const Protection& protect, const EntryView& lane,
                                                  std::span<const float> score,
                                                  std::span<Ordinal> kept, Arena& scratch) {
              constexpr float kMost = std::numeric_limits<float>::max();
              std::vector<Ordinal> half(std::max<std::size_t>(1, kept.size() / 2));
              first ? first(protect, lane, score, half, scratch)
                    : choose_top(protect, score, half, scratch);
              std::vector<float> effect(score.begin(), score.end());
              for (std::uint32_t i = 0; i < lane.live; ++i) {
                effect[i] = std::min(kMost, (score[i] + 1e-4f) * finite_or(lane.output_norm[i], 0));
              }
              for (const Ordinal i : half) effect[i] = kMost;
              choose_top(protect, effect, kept, scratch);
            };
            return base;
          }};
}

}  // namespace quire::policies
