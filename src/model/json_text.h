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
constexpr std::size_t kMaxJsonLooks = 50'000'000;  // a tenth of a second; 10,000 members take all

// What a text takes to parse, by its brackets and colons outside of strings alone.
struct JsonEffort {
  std::size_t depth = 0;  // the deepest nesting: parsers and walkers recurse on it
  // Json compares each new key of an object with those before it.
  std::size_t looks = 0;
};
JsonEffort json_effort(std::string_view text);

// kInvalidArgument: "FIELD: why", when it is no JSON, no UTF-8, too long, nested too deeply, or has
// objects of too many members.
Result<Json> read_json(std::string_view text, const std::string& field, std::size_t most_bytes);

// One line of at most about 300 bytes of valid UTF-8, for a message.
std::string brief(std::string_view text);

}  // namespace quire::model
