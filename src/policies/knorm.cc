// Knorm (arXiv 2406.11430): keys of small norm draw the most attention, so large ones go first.
// Needs no attention at all, only a norm per key.

#include <limits>

#include "policies/policies.h"

namespace quire::policies {

PolicyKind knorm() {
  return {.name = "knorm",
          .file = "knorm",
          .source = "small key norms stay, without looking at attention (arXiv 2406.11430)",
          .when = "where attention must not be watched; any time, before the question is known",
          .when_not = "models whose keys carry large biases, and questions known beforehand",
          .cost = "norms of K and V at a review",
          .options = {},
          .make = [](const Values&) -> Result<Policy> {
            return Policy{.needs = {.norms = true},
                          .score = [](const EntryView& lane, std::span<float> score) {
                            // A key that overflowed its storage has no norm: it goes first.
                            constexpr float kWorst = std::numeric_limits<float>::lowest();
                            for (std::uint32_t i = 0; i < lane.live; ++i) {
                              score[i] = finite_or(-lane.key_norm[i], kWorst);
                            }
                          }};
          }};
}

}  // namespace quire::policies
