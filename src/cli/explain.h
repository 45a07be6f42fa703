// The prompt, shaded by what survives of it.
#pragma once

#include <cstdio>
#include <optional>
#include <vector>

#include "engine/generate.h"
#include "model/model.h"
#include "quire/cache.h"

namespace quire::cli {

// Of each position in [0, count), the share of lanes that still hold it: over all full-attention
// layers, or of one.  kInvalidArgument when there is no such layer, or it has a window.
Result<std::vector<double>> survival(const Cache& cache, SequenceId sequence, std::uint32_t count,
                                     std::optional<std::uint32_t> layer);

// Writes the tokens with their share in colour, or in plain marks when `colour` is false.
void print_survival(std::FILE* out, const model::Model& model,
                    const std::vector<model::Token>& tokens, const std::vector<double>& share,
                    bool colour);

}  // namespace quire::cli
