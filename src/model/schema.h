// JSON schemas from strangers: what the grammar converter of llama.cpp would not enforce, or takes
// too long or too deep for, is refused here with its place.
#pragma once

#include <string>

#include "model/json_text.h"
#include "quire/status.h"

namespace quire::model {

constexpr std::size_t kMaxSchemaNodes = 2000;      // subschemas, referenced ones once
constexpr std::size_t kMaxSchemaDepth = 32;        // of subschemas, through references
constexpr std::size_t kMaxSchemaProperties = 256;  // of one object: the grammar grows as its square
constexpr std::size_t kMaxSchemaChoices = 1000;    // values of all enums and alternatives together
constexpr std::size_t kMaxSchemaCount = 2000;      // minItems, maxLength ...: llama.cpp's own limit
constexpr std::size_t kMaxSchemaName = 128;        // bytes of a property's name or a reference

// The schema in the converter's words (patterns rewritten, an allOf of one schema replaced by it).
// kInvalidArgument: "FIELD/path: why".
Result<Json> plain_schema(Json schema, const std::string& field);

}  // namespace quire::model
