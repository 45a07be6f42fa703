// JSON from outside, and what may stand in its fields.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/json_text.h"
#include "quire/status.h"

namespace quire::serve {

using model::Json;  // keys as they were written, as templates show them to the model

// JSON text from outside: at most `most_bytes`, 64 levels deep, valid UTF-8, no number over a
// double, no object of so many members that it takes long. kInvalidArgument says what is wrong and
// at which byte.
Result<Json> parse_json(std::string_view text, std::size_t most_bytes);

// kInvalidArgument, "FIELD: why"; the field of such a message, "" where it names none.
Status refuse_field(const std::string& field, const std::string& why);
std::string field_of(const Status& status);
// A value for a message: short, whatever it is.
std::string shown(const Json& value);

// Each reads one value into `out`, or refuses it by the field's name.
Status read_number(const Json& value, const char* field, double least, double most, float& out);
Status read_whole(const Json& value, const std::string& field, std::int64_t least,
                  std::int64_t most, std::int64_t& out);
Status read_whole(const Json& value, const std::string& field, std::uint32_t least,
                  std::uint32_t most, std::uint32_t& out);
Status read_flag(const Json& value, const char* field, bool& out);
Status read_text(const Json& value, const std::string& field, std::string& out);

}  // namespace quire::serve
