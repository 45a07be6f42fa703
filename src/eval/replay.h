// The same victims under each way to reclaim memory.
#pragma once

#include <span>

#include "eval/victims.h"

namespace quire::eval {

struct Replayed {
  LanePositions live;             // at the end
  std::uint64_t blocks = 0;       // held at the end
  std::uint64_t blocks_peak = 0;  // after a step or a review
  double waste = 0;
  MovesReport moves{};
};

// Block counts alone: a cache of `options` (its budget is set here) takes the rows of the trace
// without contents, loses its victims, and repacks after each review if `options` say so.
Result<Replayed> replay(const Trace& trace, CacheOptions options);

// The same on a real model: all bits of the logits of the last `rows` rows.  The model is left
// without a cache.
Result<std::vector<float>> replay_logits(model::Model& model, CacheOptions options,
                                         std::span<const model::Token> tokens, const Trace& trace,
                                         std::uint32_t rows);

}  // namespace quire::eval
