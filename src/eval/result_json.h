// An input's results as one line of the log, and back.
#pragma once

#include <optional>

#include "eval/log.h"
#include "eval/measure.h"

namespace quire::eval {

Json to_json(const InputResult& result);
// Nothing: not such a line.
std::optional<InputResult> result_of(const Json& line);

}  // namespace quire::eval
