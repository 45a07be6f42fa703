// Keeps everything: what every other policy is measured against.

#include <algorithm>

#include "policies/policies.h"

namespace quire::policies {

PolicyKind full() {
  return {.name = "full",
          .file = "full",
          .source = "keeps everything, whatever the budget: the reference of every comparison",
          .when = "as the anchor of an evaluation",
          .when_not = "to save memory: what does not fit is refused",
          .cost = "none",
          .options = {},
          .make = [](const Values&) -> Result<Policy> {
            return Policy{.keeps_all = true, .score = [](const EntryView&, std::span<float> score) {
                            std::ranges::fill(score, 0.0f);
                          }};
          }};
}

}  // namespace quire::policies
