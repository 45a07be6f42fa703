// Zipage (arXiv 2603.08743): attention of the last rows that fades from review to review, less what
// other keys of the same run say as well.  g = max(now, 0.8 g); each key forgives its newest twin.
//
// Differs from the authors' code: heads of a group are joined after their softmax.

#include <algorithm>

#include "policies/policies.h"

namespace quire::policies {

PolicyKind zipage() {
  return {
      .name = "zipage",
      .file = "zipage",
      .source = "fading attention of the last rows, less redundancy in a run (arXiv 2603.08743)",
      .when = "long reasoning under a limit of blocks; reviewed when the last block fills",
      .when_not = "small budgets: answers grow longer",
      .cost = "attention of 16 rows and cosines within runs of keys for each review",
      .options = {whole("window", 16, 1, 128), whole("run", 256, 8, 4096),
                  real("attention", "0.2", 0, 1), real("fade", "0.8", 0, 1)},
      .make = [](const Values& values) -> Result<Policy> {
        const auto run = static_cast<std::uint32_t>(values.whole("run"));
        const auto share = static_cast<float>(values.real("attention"));
        return Policy{.needs = {.tap = Tap::kLastRows,
                                .group = Reduce::kMax,
                                .window = static_cast<std::uint32_t>(values.whole("window")),
                                .answer_window = true,
                                .state = true,
                                .similar_run = run},
                      .score =
                          [=](const EntryView& lane, std::span<float> score) {
                            const std::uint32_t judged = last_rows_mean(lane, score);
                            std::vector<float> alike(lane.live);
                            std::ranges::transform(
                                lane.similarity, lane.twin_cosine, alike.begin(),
                                [](float all, float twin) { return all - twin; });
                            softmax(0.4f * static_cast<float>(run), alike);
                            for (std::uint32_t i = 0; i < judged; ++i) {
                              score[i] = share * lane.state[i] - (1 - share) * alike[i];
                            }
                          },
                      .update =
                          [fade = static_cast<float>(values.real("fade"))](const EntryView& lane,
                                                                           std::span<float> state) {
                            std::vector<float> now(lane.live);
                            const std::uint32_t judged = last_rows_mean(lane, now);
                            if (lane.reviewed == 0) largest_near(lane, 2, {now.data(), judged});
                            for (std::uint32_t i = 0; i < judged; ++i) {
                              state[i] = std::max(now[i], fade * state[i]);
                            }
                          }};
      }};
}

}  // namespace quire::policies
