// What a step of a model has to read and compute at the least, for shares of the machine's limits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "quire/status.h"

namespace quire::model {

// The matrices every row is multiplied by, the head included, as the file stores them.
struct MatrixTraffic {
  std::size_t layer_bytes = 0, head_bytes = 0;
  std::uint64_t layer_weights = 0, head_weights = 0;  // each is one multiplication and one addition
};

// Errors as Model::load's for the file's structure.
Result<MatrixTraffic> matrix_traffic(const std::string& path);

}  // namespace quire::model
