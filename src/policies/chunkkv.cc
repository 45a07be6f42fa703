// ChunkKV (arXiv 2502.00299): neighbours stay or go together.  The scores of the policy it wraps
// are averaged over the layer's heads and over chunks, and all heads of the layer keep the same
// chunks.
//
// Differs from kvpress: the quota is met exactly, with the newest entries of one more chunk.

#include <vector>

#include "policies/policies.h"

namespace quire::policies {

PolicyKind chunkkv() {
  return {.name = "chunkkv",
          .file = "chunkkv",
          .source = "whole chunks, the same in all heads of a layer (ChunkKV, arXiv 2502.00299)",
          .when = "prompts whose phrases must stay whole",
          .when_not = "facts scattered over many chunks, small budgets",
          .cost = "as what it wraps",
          .options = {choice("base", "snapkv", {"snapkv", "h2o", "h2o-age", "knorm", "keydiff"}),
                      whole("chunk", 20, 1, 256)},
          .wraps = true,
          .make = [](const Values& values) -> Result<Policy> {
            Result<Policy> base = make_policy(values.text("base") + ":" + values.rest());
            if (!base.ok()) return base.status();
            base->decides = Scope::kLayer;
            base->choose = [chunk = static_cast<std::uint32_t>(values.whole("chunk"))](
                               const Protection& protect, const EntryView&,
                               std::span<const float> score, std::span<Ordinal> kept,
                               Arena& scratch) {
              std::vector<float> mean(score.begin(), score.end());
              average_runs(chunk, mean);
              choose_top(protect, mean, kept, scratch);
            };
            return base;
          }};
}

}  // namespace quire::policies
