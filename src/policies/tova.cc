// TOVA (arXiv 2401.06104): what the newest row attends to least goes, judged by all heads of the
// layer together.  every=1 is the paper; between reviews nothing is computed.

#include <algorithm>

#include "policies/policies.h"

namespace quire::policies {

PolicyKind tova() {
  return {
      .name = "tova",
      .file = "tova",
      .source = "what the newest row attends to, all heads of a layer as one (arXiv 2401.06104)",
      .when = "decoding with little overhead; layers whose heads must stay alike",
      .when_not = "a last row that asks for nothing: one row is all it sees",
      .cost = "attention of one row for each review; 8 bytes an entry",
      .options = {},
      .make = [](const Values&) -> Result<Policy> {
        return Policy{.needs = {.tap = Tap::kLastRows,
                                .group = Reduce::kMean,
                                .window = 1,
                                .answer_window = true},
                      .decides = Scope::kLayer,
                      .score = [](const EntryView& lane, std::span<float> score) {
                        std::ranges::copy(lane.tap, score.begin());
                        score.back() = std::ranges::max(score) + 1;
                      }};
      }};
}

}  // namespace quire::policies
