// ExpectedAttention (arXiv 2510.00636, as NVIDIA's kvpress computes it): what the queries to come
// are expected to give a key.  Those of the prompt are taken for a Gaussian and turned, on average,
// to the next `future` positions; the mean of exp(score) over it is known in closed form.  Per
// query head a softmax over the lane but its sinks, the mean over the group, plus epsilon, times
// |v|.

#include <algorithm>

#include "policies/policies.h"

namespace quire::policies {

PolicyKind expected_attention() {
  return {.name = "expected-attention",
          .file = "expected_attention",
          .source = "attention that queries to come will give, by those of the prompt (2510.00636)",
          .when = "before the question is known; prompts long beside the answer",
          .when_not = "small memory: statistics are as large as hundreds of tokens",
          .cost = "products of all pairs of values of every query, and as much per key at a review",
          .options = {whole("future", 512, 1, 1u << 20), real("epsilon", "0", 0, 1)},
          .make = [](const Values& values) -> Result<Policy> {
            const auto sinks = static_cast<std::uint32_t>(values.whole("sinks"));
            return Policy{.needs = {.norms = true,
                                    .future = static_cast<std::uint32_t>(values.whole("future")),
                                    .query_skip = sinks},
                          .score = [sinks, epsilon = static_cast<float>(values.real("epsilon"))](
                                       const EntryView& lane, std::span<float> score) {
                            const std::uint32_t skip = std::min(sinks, lane.live),
                                                rest = lane.live - skip;
                            std::vector<float> head(rest), sum(rest);
                            for (std::uint32_t g = 0; g < lane.group; ++g) {
                              std::ranges::copy(lane.expected.subspan(g * lane.live + skip, rest),
                                                head.begin());
                              softmax(1, head);
                              for (std::uint32_t i = 0; i < rest; ++i) sum[i] += head[i];
                            }
                            std::ranges::fill(score.first(skip), kOwnWindow);
                            for (std::uint32_t i = 0; i < rest; ++i) {
                              const float share = sum[i] / static_cast<float>(lane.group) + epsilon;
                              score[skip + i] = share * finite_or(lane.value_norm[skip + i], 0);
                            }
                          }};
          }};
}

}  // namespace quire::policies
