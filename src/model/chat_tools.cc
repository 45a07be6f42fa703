#include "model/chat_tools.h"

#include <set>

#include "model/schema.h"

namespace quire::model {
namespace {

constexpr std::size_t kMaxToolName = 64;

Status refuse(const std::string& field, const std::string& why) {
  return {Code::kInvalidArgument, field + ": " + why};
}

Status check_name(const Json& function, const std::string& field) {
  if (!function.contains("name") || !function["name"].is_string()) {
    return refuse(field + ".name", "must be text");
  }
  const std::string name = function["name"].get<std::string>();
  const bool plain = name.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                         "0123456789_-.") == std::string::npos;
  if (name.empty() || name.size() > kMaxToolName || !plain) {
    return refuse(field + ".name", "must be 1 to 64 letters, digits, '_', '-' or '.'");
  }
  return {};
}

// The parameters that calls are bound to.
Result<Json> bound_parameters(const Json& function, const std::string& field) {
  const Json any = {{"type", "object"}};
  if (!function.contains("parameters") || function["parameters"].is_null()) {
    return Json{{"type", "object"}, {"properties", Json::object()}};
  }
  const Json& parameters = function["parameters"];
  if (!parameters.is_object()) return refuse(field + ".parameters", "must be an object");
  if (parameters.empty()) return Json{{"type", "object"}, {"properties", Json::object()}};
  const bool strict = function.contains("strict") && function["strict"] == true;
  Result<std::string> grammar = grammar_of_schema(parameters.dump());
  if (grammar.ok()) return plain_schema(parameters, field + ".parameters");
  if (!strict) return any;
  return refuse(field + ".parameters", grammar.status().message());
}

}  // namespace

Result<ChatTools> read_tools(const ChatRequest& request) {
  ChatTools tools;
  Result<Json> list =
      read_json(request.tools.empty() ? "[]" : request.tools, "tools", kMaxRequestBytes);
  if (!list.ok()) return list.status();
  if (list->is_null()) *list = Json::array();
  if (!list->is_array()) return refuse("tools", "must be a list");
  if (list->size() > kMaxTools) return refuse("tools", "more than 128");
  std::set<std::string> names;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string field = "tools[" + std::to_string(i) + "]";
    const Json& tool = (*list)[i];
    if (!tool.is_object() || !tool.contains("type") || tool["type"] != "function") {
      return refuse(field + ".type", "must be \"function\"");
    }
    if (!tool.contains("function") || !tool["function"].is_object()) {
      return refuse(field + ".function", "must be an object");
    }
    const Json& function = tool["function"];
    if (Status status = check_name(function, field + ".function"); !status.ok()) return status;
    const std::string name = function["name"].get<std::string>();
    if (!names.insert(name).second) return refuse(field + ".function.name", "twice");
    if (function.contains("description") && !function["description"].is_string() &&
        !function["description"].is_null()) {
      return refuse(field + ".function.description", "must be text");
    }
    const Json description = function.value("description", Json());
    Json one = {{"type", "function"},
                {"function",
                 {{"name", name},
                  {"description", description.is_null() ? Json("") : description},
                  {"parameters", function.value("parameters", Json::object())}}}};
    if (one["function"]["parameters"].is_null()) one["function"]["parameters"] = Json::object();
    tools.shown.push_back(one);
    const bool named = request.tool_choice != ToolChoice::kRequired || request.tool_name.empty() ||
                       request.tool_name == name;
    if (!named || request.tool_choice == ToolChoice::kNone) continue;
    Result<Json> parameters = bound_parameters(function, field + ".function");
    if (!parameters.ok()) return parameters.status();
    one["function"]["parameters"] = *std::move(parameters);
    tools.called.push_back(std::move(one));
  }
  if (request.tool_choice == ToolChoice::kRequired && tools.called.empty()) {
    return refuse("tool_choice", request.tool_name.empty() ? "required, and there are no tools"
                                                           : "names no function of tools");
  }
  return tools;
}

}  // namespace quire::model
