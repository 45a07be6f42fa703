// Knorm (arXiv 2406.11430): keys of small norm draw the most attention, so large ones go first.
// Needs no attention at all, only a norm per key.

#include <cmath>
#include <limits>

#include "policies/policies.h"

namespace quire::policies {

PolicyKind knorm() {
  return {.name = "knorm",
          .source = "small key norms stay, without looking at attention (arXiv 2406.11430)",
          .options = {},
          .make = [](const Values&) -> Result<Policy> {
            return Policy{.needs = {.norms = true},
                          .score = [](const EntryView& lane, std::span<float> score) {
                            // A key that overflowed its storage has no norm: it goes first.
                            constexpr float kWorst = std::numeric_limits<float>::lowest();
                            for (std::uint32_t i = 0; i < lane.live; ++i) {
                              const float norm = lane.key_norm[i];
                              score[i] = std::isfinite(norm) ? -norm : kWorst;
                            }
                          }};
          }};
}

}  // namespace quire::policies
