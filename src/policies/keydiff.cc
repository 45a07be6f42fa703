// KeyDiff (arXiv 2504.15364): keys that point where all keys point say the least, so they go first.

#include "policies/policies.h"

namespace quire::policies {

PolicyKind keydiff() {
  return {.name = "keydiff",
          .file = "keydiff",
          .source = "keys unlike the lane's mean direction stay (KeyDiff, arXiv 2504.15364)",
          .when = "long prompts read in chunks, before the question is known",
          .when_not = "questions known beforehand: snapkv-ahead sees what they need",
          .cost = "two passes over K at a review",
          .options = {},
          .make = [](const Values&) -> Result<Policy> {
            return Policy{.needs = {.alignment = true},
                          .score = [](const EntryView& lane, std::span<float> score) {
                            for (std::uint32_t i = 0; i < lane.live; ++i) {
                              score[i] = finite_or(-lane.alignment[i], -2.0f);
                            }
                          }};
          }};
}

}  // namespace quire::policies
