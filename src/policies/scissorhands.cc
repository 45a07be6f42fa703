// Scissorhands (arXiv 2305.17118): what mattered of late will matter.  An entry counts the answer's
// rows that gave it less than an equal share (1 / entries); the most missed go first.
//
// Differs from the paper: the count over the last `window` rows is a sum that fades at every review
// by the rows since the last one, so one float an entry is enough.  Its defaults (window and newest
// entries in shares of the budget) are a third party's.

#include <algorithm>

#include "policies/policies.h"

namespace quire::policies {

PolicyKind scissorhands() {
  return {.name = "scissorhands",
          .file = "scissorhands",
          .source = "rows of late that gave an entry less than its share (arXiv 2305.17118)",
          .when = "long answers, with a large cut each time the budget is full",
          .when_not = "right after a prompt: nothing is counted yet, and the newest stay",
          .cost = "attention of the answer's rows; 16 bytes an entry",
          .options = {whole("window", 256, 8, 4096), whole("newest", 50, 0, 100)},
          .make = [](const Values& values) -> Result<Policy> {
            const auto window = static_cast<float>(values.whole("window"));
            return Policy{.needs = {.tap = Tap::kDecodeRows,
                                    .group = Reduce::kMissed,
                                    .anew = true,
                                    .state = true},
                          .score =
                              [](const EntryView& lane, std::span<float> score) {
                                for (std::uint32_t i = 0; i < lane.live; ++i)
                                  score[i] = -lane.state[i];
                              },
                          .update =
                              [window](const EntryView& lane, std::span<float> state) {
                                const Position from = std::max(lane.reviewed, lane.prompt_end);
                                const auto rows =
                                    static_cast<float>(lane.position.back() + 1 - from);
                                const float left = std::max(0.0f, 1.0f - rows / window);
                                for (std::uint32_t i = 0; i < lane.live; ++i) {
                                  state[i] = state[i] * left + lane.tap[i];
                                }
                              },
                          .choose = keep_newest(values.whole("newest"))};
          }};
}

}  // namespace quire::policies
