// JSON that strangers wrote: bounded before anything walks it.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "quire/status.h"

namespace quire::model {

using Json = nlohmann::ordered_json;  // keys as they were written: templates show them

constexpr std::size_t kMaxJsonDepth = 64;

// The deepest nesting, by brackets outside of strings alone: parsers and walkers recurse on it.
std::size_t json_depth(std::string_view text);

// kInvalidArgument: "FIELD: why", when it is no JSON, no UTF-8, too long or nested too deeply.
Result<Json> read_json(std::string_view text, const std::string& field, std::size_t most_bytes);

// One line of at most about 300 bytes of valid UTF-8, for a message.
std::string brief(std::string_view text);

}  // namespace quire::model
