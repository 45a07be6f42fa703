// What one model's chat template takes, as it takes or refuses it; and all the tables.

#include "cli/matrix_tables.h"
#include "model/chat.h"

namespace quire::cli {
namespace {

constexpr const char* kUser = R"([{"role": "user", "content": "x"}])";
constexpr const char* kSystem =
    R"([{"role": "system", "content": "y"}, {"role": "user", "content": "x"}])";
constexpr const char* kTools =
    R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}])";
constexpr const char* kCalled = R"([{"role": "user", "content": "x"},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "call00001", "type": "function",
     "function": {"name": "f", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "call00001", "content": "y"}])";

}  // namespace

MatrixTable template_matrix(const model::Model& model) {
  using model::ChatRequest;
  using model::ToolChoice;
  const std::pair<const char*, ChatRequest> asked[] = {
      {"a message", {.messages = kUser}},
      {"a system message", {.messages = kSystem}},
      {"tools, auto", {.messages = kUser, .tools = kTools}},
      {"tools, required",
       {.messages = kUser, .tools = kTools, .tool_choice = ToolChoice::kRequired}},
      {"tools, a named one",
       {.messages = kUser,
        .tools = kTools,
        .tool_choice = ToolChoice::kRequired,
        .tool_name = "f"}},
      {"a call and its result", {.messages = kCalled, .tools = kTools}},
      {"json_object", {.messages = kUser, .json_object = true}},
      {"json_schema", {.messages = kUser, .json_schema = R"({"type": "object"})"}},
      {"chat_template_kwargs", {.messages = kUser, .variables = R"({"enable_thinking": false})"}}};
  MatrixTable table{.name = "This model's chat template",
                    .about = "As it was given each of these.",
                    .columns = {"chat", "works"},
                    .rows = {}};
  const Result<const model::ChatTemplate*> form = model::chat_template_of(model);
  for (const auto& [name, request] : asked) {
    const Status status = form.ok() ? (*form)->apply(request).status() : form.status();
    table.rows.push_back({.name = name, .cells = {cell_of(status)}});
  }
  return table;
}

std::vector<MatrixTable> support_matrix(const model::Model* model) {
  std::vector<MatrixTable> tables = {path_matrix(), field_matrix(), pair_matrix(),
                                     policy_matrix(model)};
  if (model != nullptr) tables.push_back(template_matrix(*model));
  return tables;
}

}  // namespace quire::cli
