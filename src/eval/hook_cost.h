// What repacking costs where memory is ample and nothing moves.
#pragma once

#include <span>

#include "eval/statistics.h"
#include "model/model.h"

namespace quire::eval {

struct HookCost {
  double processor_share = 0;  // of the hooks (plan, copy, install), of that of the steps
  Estimate wall{};  // a step's time with the hooks over one without, less 1: median of pairs
};

// 16 sequences of `prompt` with half of their entries evicted, decoding together: steps with the
// hooks and steps without take turns, `pairs` of them, each kind first in half of the pairs.
// Processor time is the calling thread's.  The model is left without a cache.
Result<HookCost> idle_hook_cost(model::Model& model, CacheOptions options,
                                std::span<const model::Token> prompt, std::uint32_t pairs);

}  // namespace quire::eval
