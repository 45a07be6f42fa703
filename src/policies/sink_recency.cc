// StreamingLLM (arXiv 2309.17453): the first entries draw attention whatever they say, the newest
// carry the text; everything between goes, oldest first.
//
// Differs from the paper: nothing is renumbered, positions stay those of the text.

#include "policies/policies.h"

namespace quire::policies {

PolicyKind sink_recency() {
  return {.name = "sink-recency",
          .file = "sink_recency",
          .source = "first and newest entries, whatever they say (StreamingLLM, arXiv 2309.17453)",
          .when = "endless chats and logs in which the past stops to matter; frees whole blocks",
          .when_not = "questions about anything older than the budget: it is gone",
          .cost = "none",
          .options = {},
          .make = [](const Values&) -> Result<Policy> {
            return Policy{.score = [](const EntryView& lane, std::span<float> score) {
              for (std::uint32_t i = 0; i < lane.live; ++i) score[i] = static_cast<float>(i);
            }};
          }};
}

}  // namespace quire::policies
