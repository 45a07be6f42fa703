// R-KV (arXiv 2505.24133): attention of the last rows, less what other keys say as well. Redundancy
// is the softmax of a key's mean cosine with the others; each key forgives its newest twin (cosine
// over 1/2), so of many alike the last stays.
//
// Differs from the authors' code: heads of a group are joined after their softmax, and a key
// without a twin forgives none (there: the first entry).

#include <algorithm>

#include "policies/policies.h"

namespace quire::policies {

PolicyKind r_kv() {
  return {.name = "r-kv",
          .file = "r_kv",
          .source = "attention of the last rows, less redundancy among keys (arXiv 2505.24133)",
          .when = "long reasoning that repeats itself, reviewed every 128 tokens",
          .when_not = "long lanes reviewed often: keys are compared in pairs",
          .cost = "attention of 8 rows and cosines of all pairs of keys for each review",
          .options = {real("attention", "0.07", 0, 1), whole("window", 8, 1, 128)},
          .make = [](const Values& values) -> Result<Policy> {
            const auto window = static_cast<std::uint32_t>(values.whole("window"));
            return Policy{.needs = {.tap = Tap::kLastRows,
                                    .group = Reduce::kMax,
                                    .window = window,
                                    .answer_window = true,
                                    .similar_run = Needs::kWholeLane},
                          .score = [share = static_cast<float>(values.real("attention"))](
                                       const EntryView& lane, std::span<float> score) {
                            const std::uint32_t judged = last_rows_mean(lane, score);
                            largest_near(lane, 3, score.first(judged));
                            std::vector<float> alike(lane.similarity.begin(),
                                                     lane.similarity.end());
                            for (std::uint32_t i = 0; i < lane.live; ++i) {
                              if (lane.twin[i] < lane.live)
                                alike[lane.twin[i]] -= lane.twin_cosine[i];
                            }
                            softmax(static_cast<float>(lane.live), alike);
                            for (std::uint32_t i = 0; i < judged; ++i) {
                              score[i] = share * score[i] - (1 - share) * alike[i];
                            }
                          }};
          }};
}

}  // namespace quire::policies
