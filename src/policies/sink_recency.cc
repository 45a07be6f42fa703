// StreamingLLM (arXiv 2309.17453): the first entries draw attention whatever they say, the newest
// carry the text; everything between goes, oldest first.
//
// Differs from the paper: nothing is renumbered, positions stay those of the text.

#include "policies/policies.h"

namespace quire::policies {

PolicyKind sink_recency() {
  return {.name = "sink-recency",
          .source = "first and newest entries, whatever they say (StreamingLLM, arXiv 2309.17453)",
          .options = {},
          .make = [](const Values&) -> Result<Policy> {
            return Policy{.score = [](const EntryView& lane, std::span<float> score) {
              for (std::uint32_t i = 0; i < lane.live; ++i) score[i] = static_cast<float>(i);
            }};
          }};
}

}  // namespace quire::policies
