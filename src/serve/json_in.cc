#include "serve/json_in.h"

#include <algorithm>

namespace quire::serve {
namespace {

using json = Json;

// A field's name is short and has no letters that would end it early.
bool is_field(std::string_view name) {
  return !name.empty() && name.size() <= 80 && std::ranges::all_of(name, [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '[' || c == ']' || c == '-';
  });
}

}  // namespace

Result<json> parse_json(std::string_view text, std::size_t most_bytes) {
  if (text.size() > most_bytes) {
    return Status(
        Code::kInvalidArgument,
        std::to_string(text.size()) + " bytes, over the limit of " + std::to_string(most_bytes));
  }
  const model::JsonEffort effort = model::json_effort(text);
  if (effort.depth > model::kMaxJsonDepth) {
    return Status(Code::kInvalidArgument, "brackets " + std::to_string(effort.depth) +
                                              " deep, over the limit of " +
                                              std::to_string(model::kMaxJsonDepth));
  }
  if (effort.looks > model::kMaxJsonLooks) {
    return Status(Code::kInvalidArgument, "objects of too many members");
  }
  try {
    return json::parse(text);
  } catch (const json::parse_error& error) {
    return Status(Code::kInvalidArgument, "not JSON at byte " + std::to_string(error.byte));
  } catch (const json::exception&) {
    return Status(Code::kInvalidArgument, "a number is over what a double holds");
  }
}

Status refuse_field(const std::string& field, const std::string& why) {
  return {Code::kInvalidArgument, field + ": " + why};
}

std::string field_of(const Status& status) {
  const std::size_t end = status.message().find(':');
  if (end == std::string::npos) return {};
  const std::string name = status.message().substr(0, end);
  return is_field(name) ? name : std::string();
}

std::string shown(const json& value) {
  if (value.is_structured()) return value.is_array() ? "an array" : "an object";
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() > 40 ? text.substr(0, 37) + "..." : text;
}

Status read_number(const json& value, const char* field, double least, double most, float& out) {
  const double number = value.is_number() ? value.get<double>() : least - 1;
  if (!(number >= least && number <= most)) {
    return refuse_field(field, shown(value) + " is not a number from " + json(least).dump() +
                                   " to " + json(most).dump());
  }
  out = static_cast<float>(number);
  return {};
}

Status read_whole(const json& value, const std::string& field, std::int64_t least,
                  std::int64_t most, std::int64_t& out) {
  bool fits = value.is_number_integer();
  if (fits && value.is_number_unsigned()) {
    fits = value.get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX);
  }
  const std::int64_t number = fits ? value.get<std::int64_t>() : 0;
  if (!fits || number < least || number > most) {
    return refuse_field(field, shown(value) + " is not a whole number from " +
                                   std::to_string(least) + " to " + std::to_string(most));
  }
  out = number;
  return {};
}

Status read_whole(const json& value, const std::string& field, std::uint32_t least,
                  std::uint32_t most, std::uint32_t& out) {
  std::int64_t number = 0;
  Status status = read_whole(value, field, std::int64_t{least}, std::int64_t{most}, number);
  if (status.ok()) out = static_cast<std::uint32_t>(number);
  return status;
}

Status read_flag(const json& value, const char* field, bool& out) {
  if (!value.is_boolean()) return refuse_field(field, shown(value) + " is not true or false");
  out = value.get<bool>();
  return {};
}

Status read_text(const json& value, const std::string& field, std::string& out) {
  if (!value.is_string()) return refuse_field(field, shown(value) + " is not a string");
  out = value.get<std::string>();
  return {};
}

}  // namespace quire::serve
