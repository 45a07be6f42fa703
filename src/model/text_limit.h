// Texts that need not be read to know that the context does not hold them.
#pragma once

#include <cstddef>

#include "model/model.h"

namespace quire::model {

// Bytes of a text that the model's context can hold, at most, and at least 1 MiB; 0: not known.
// Tokens of a longer one may take a hundred times its bytes (a word of one letter) and seconds.
std::size_t text_bytes_most(const Model& model);

}  // namespace quire::model
