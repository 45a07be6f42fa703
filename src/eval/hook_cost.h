// What repacking costs where memory is ample and nothing moves.
#pragma once

#include <span>

#include "model/model.h"

namespace quire::eval {

// Processor time of the hooks (plan, copy, install) between steps, of that of the steps, both on
// the calling thread: 16 sequences of `prompt` with half of their entries evicted, decoding
// together. The model is left without a cache.
Result<double> idle_hook_share(model::Model& model, CacheOptions options,
                               std::span<const model::Token> prompt, std::uint32_t steps);

}  // namespace quire::eval
