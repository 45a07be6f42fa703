// Prompt-protected random (arXiv 2609.03430): the prompt stays, of the answer random entries go.
// That paper finds it to match the best evictors on reasoning, where answers are long.
//
// Of a prompt over the quota, random entries go as well; the answer's go before any of them.

#include "policies/policies.h"

namespace quire::policies {

PolicyKind prompt_random() {
  return {.name = "prompt-random",
          .file = "prompt_random",
          .source = "keeps the prompt, random entries of the answer go (arXiv 2609.03430)",
          .when = "long reasoning after a short prompt; the baseline to beat there",
          .when_not = "a prompt near the budget or over it: then it is random",
          .cost = "none",
          .options = {whole("seed", 0, 0, ~std::uint64_t{0})},
          .make = [](const Values& values) -> Result<Policy> {
            return Policy{.score = [seed = values.whole("seed")](const EntryView& lane,
                                                                 std::span<float> score) {
              for (std::uint32_t i = 0; i < lane.live; ++i) {
                const float prompt = lane.position[i] < lane.prompt_end ? 1.0f : 0.0f;
                score[i] = prompt + uniform_of(seed, lane, lane.position[i]);
              }
            }};
          }};
}

}  // namespace quire::policies
