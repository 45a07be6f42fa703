// Texts that `quire eval` reads when none is named.
#pragma once

#include <string>

#include "quire/status.h"

namespace quire::cli {

struct EvalText {
  std::string text, name;
};

// The whole of `file`, or, when it is empty, the openings of the two novels in examples/.
Result<EvalText> read_eval_text(const std::string& file);

}  // namespace quire::cli
