// PAGE's base evictor (arXiv 2609.22157, the authors' code): the attention of the prompt's last
// rows, averaged over heads and layers, is one vector; every lane keeps the same entries.  Without
// pooling, and weaker than SnapKV itself: to reproduce what gates were published with.

#include "policies/policies.h"

namespace quire::policies {

PolicyKind snapkv_global() {
  return {.name = "snapkv-global",
          .file = "snapkv_global",
          .source = "the last rows' attention, one choice for all layers and heads (2609.22157)",
          .when = "to compare with what PAGE was published on",
          .when_not = "else: heads look for different entries, and snapkv-ahead lets them",
          .cost = "attention of the prompt's last rows; 8 bytes an entry",
          .options = {whole("window", 32, 8, 128)},
          .make = [](const Values& values) -> Result<Policy> {
            const auto window = static_cast<std::uint32_t>(values.whole("window"));
            return Policy{
                .needs = {.tap = Tap::kLastRows, .group = Reduce::kMean, .window = window},
                .decides = Scope::kSequence,
                .score = [](const EntryView& lane, std::span<float> score) {
                  last_rows_mean(lane, score);
                }};
          }};
}

}  // namespace quire::policies
