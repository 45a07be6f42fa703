// Messages, tools, and the form of an answer: kept as JSON text for the model's template, which
// checks what is in it.  Here: that nothing is ignored in silence.

#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "serve/openai_parts.h"

namespace quire::serve {
namespace {

using json = Json;

constexpr std::size_t kMessagesMost = 100'000;

bool one_of(std::string_view key, std::initializer_list<std::string_view> keys) {
  return std::ranges::find(keys, key) != keys.end();
}

// Of what agents send back as it came, much is empty.
bool says_nothing(const json& value) {
  return value.is_null() || (value.is_array() && value.empty());
}

// Every key is among `known`, or says nothing.
Status check_keys(const json& object, const std::string& field,
                  std::initializer_list<std::string_view> known) {
  if (!object.is_object()) return refuse_field(field, shown(object) + " is not an object");
  for (const auto& [key, value] : object.items()) {
    if (says_nothing(value) || one_of(key, known)) continue;
    return refuse_field(field + "." + key.substr(0, 60), "not supported");
  }
  return {};
}

}  // namespace

Status read_messages(const json& value, Body& body) {
  if (!value.is_array() || value.empty()) {
    return refuse_field("messages", shown(value) + " is not an array of messages");
  }
  if (value.size() > kMessagesMost) return refuse_field("messages", "too many");
  json messages = value;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    json& message = messages[i];
    Status status =
        check_keys(message, "messages[" + std::to_string(i) + "]",
                   {"role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content"});
    if (!status.ok()) return status;
    for (auto at = message.begin(); at != message.end();) {
      at = says_nothing(at.value()) ? message.erase(at) : std::next(at);
    }
    // Templates know it by its older name.
    if (message.value("role", json()) == "developer") message["role"] = "system";
  }
  body.chat.messages = messages.dump();
  return {};
}

Status read_tools(const json& value, Body& body) {
  if (!value.is_array()) return refuse_field("tools", shown(value) + " is not an array");
  if (!value.empty()) body.chat.tools = value.dump();
  return {};
}

Status read_tool_choice(const json& value, Body& body) {
  model::ChatRequest& chat = body.chat;
  if (value == "none" || value == "auto" || value == "required") {
    chat.tool_choice = value == "none"   ? model::ToolChoice::kNone
                       : value == "auto" ? model::ToolChoice::kAuto
                                         : model::ToolChoice::kRequired;
    return {};
  }
  if (!value.is_object() || value.value("type", json()) != "function") {
    return refuse_field("tool_choice",
                        shown(value) +
                            " is none of \"none\", \"auto\", \"required\", {\"type\": "
                            "\"function\", \"function\": {\"name\": ...}}");
  }
  if (Status s = check_keys(value, "tool_choice", {"type", "function"}); !s.ok()) return s;
  const json function = value.value("function", json());
  if (Status s = check_keys(function, "tool_choice.function", {"name"}); !s.ok()) return s;
  const json name = function.value("name", json());
  if (Status s = read_text(name, "tool_choice.function.name", chat.tool_name); !s.ok()) return s;
  if (chat.tool_name.empty()) return refuse_field("tool_choice.function.name", "empty");
  chat.tool_choice = model::ToolChoice::kRequired;
  return {};
}

Status read_template_kwargs(const json& value, Body& body) {
  if (!value.is_object()) {
    return refuse_field("chat_template_kwargs", shown(value) + " is not an object");
  }
  if (!value.empty()) body.chat.variables = value.dump();
  return {};
}

Status read_response_format(const json& value, Body& body) {
  const std::string field = "response_format";
  const json type = value.is_object() ? value.value("type", json()) : json();
  if (!type.is_string() ||
      !one_of(type.get_ref<const std::string&>(), {"text", "json_object", "json_schema"})) {
    return refuse_field(field + ".type",
                        shown(type) + " is none of text, json_object, json_schema");
  }
  if (Status s = check_keys(value, field, {"type", "json_schema", "schema"}); !s.ok()) return s;
  if (type == "text") return {};
  // llama.cpp's has the schema beside the type.
  body.chat.json_object = type == "json_object" && !value.contains("schema");
  if (body.chat.json_object) return {};
  const std::string inner = type == "json_object" ? field : field + ".json_schema";
  const json given = type == "json_object" ? value : value.value("json_schema", json());
  if (Status s = check_keys(given, inner, {"name", "description", "schema", "strict", "type"});
      !s.ok()) {
    return s;
  }
  const json schema = given.value("schema", json());
  if (!schema.is_object()) {
    return refuse_field(inner + ".schema", shown(schema) + " is not an object");
  }
  // Enforced whether `strict` or not: an answer that only tries to follow helps nobody.
  body.chat.json_schema = schema.dump();
  return {};
}

}  // namespace quire::serve
