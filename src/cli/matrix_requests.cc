// The server's paths, and bodies of requests as serve::read_body() takes or refuses them.

#include <algorithm>
#include <optional>

#include "cli/matrix_tables.h"
#include "serve/openai_body.h"
#include "serve/routes.h"

namespace quire::cli {
namespace {

using serve::Endpoint;
using json = serve::Json;

constexpr const char* kTools =
    R"({"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]})";
constexpr const char* kSchema = R"({"response_format": {"type": "json_schema", "json_schema": )"
                                R"({"schema": {"type": "object"}}}})";
constexpr const char* kUser = R"({"messages": [{"role": "user", "content": "x"}]})";

// A value that asks something of a field, and what it goes with.
struct Sample {
  const char* field;
  const char* body;
};
constexpr Sample kSamples[] = {
    {"model", R"({"model": "m"})"},
    {"user", R"({"user": "u"})"},
    {"safety_identifier", R"({"safety_identifier": "s"})"},
    {"prompt_cache_key", R"({"prompt_cache_key": "k"})"},
    {"service_tier", R"({"service_tier": "auto"})"},
    {"metadata", R"({"metadata": {"a": "b"}})"},
    {"store", R"({"store": true})"},
    {"messages", kUser},
    {"prompt", R"({"prompt": "x"})"},
    {"max_tokens", R"({"max_tokens": 9})"},
    {"max_completion_tokens", R"({"max_completion_tokens": 9})"},
    {"min_tokens", R"({"min_tokens": 9})"},
    {"stop", R"({"stop": ["end"]})"},
    {"ignore_eos", R"({"ignore_eos": true})"},
    {"temperature", R"({"temperature": 0.5})"},
    {"top_p", R"({"top_p": 0.5})"},
    {"min_p", R"({"min_p": 0.5})"},
    {"top_k", R"({"top_k": 9})"},
    {"seed", R"({"seed": 9})"},
    {"repeat_penalty", R"({"repeat_penalty": 1.5})"},
    {"repetition_penalty", R"({"repetition_penalty": 1.5})"},
    {"presence_penalty", R"({"presence_penalty": 0.5})"},
    {"frequency_penalty", R"({"frequency_penalty": 0.5})"},
    {"logit_bias", R"({"logit_bias": {"9": 1}})"},
    {"grammar", R"({"grammar": "root ::= \"a\""})"},
    {"response_format", R"({"response_format": {"type": "json_object"}})"},
    {"response_format", kSchema},
    {"tools", kTools},
    {"tool_choice", R"({"tool_choice": {"type": "function", "function": {"name": "f"}}})"},
    {"parallel_tool_calls", R"({"parallel_tool_calls": false})"},
    {"chat_template_kwargs", R"({"chat_template_kwargs": {"enable_thinking": false}})"},
    {"n", R"({"n": 2})"},
    {"best_of", R"({"best_of": 2})"},
    {"echo", R"({"echo": true})"},
    {"suffix", R"({"suffix": "s"})"},
    {"stream", R"({"stream": true})"},
    {"stream_options", R"({"stream_options": {"include_usage": true}, "stream": true})"},
    {"logprobs", R"({"logprobs": true})"},
    {"logprobs", R"({"logprobs": 2})"},
    {"top_logprobs", R"({"top_logprobs": 2, "logprobs": true})"},
    {"priority", R"({"priority": 1})"},
    {"cache_salt", R"({"cache_salt": "s"})"},
    {"cache_prompt", R"({"cache_prompt": false})"},
    {"kv", R"({"kv": {"mode": "exact"}})"},
    {"kv", R"({"kv": {"policy": "h2o", "keep": "25%"}})"},
    {"kv", R"({"kv": {"on_overflow": "stream"}})"},
    {"kv", R"({"kv": {"first_token": "strict"}})"},
    {"kv", R"({"kv": {"gate": "auto"}})"},
};

MatrixCell asked(json body, Endpoint endpoint, bool batch = false) {
  const bool chat = endpoint == Endpoint::kChat;
  const json asks = json::parse(chat ? kUser : R"({"prompt": "x"})");
  for (const auto& [key, value] : asks.items()) {
    if (!body.contains(key)) body[key] = value;
  }
  serve::Body read{.endpoint = endpoint, .batch = batch};
  return cell_of(serve::read_body(body, read));
}

MatrixRow field_row(const std::string& field, const json& body) {
  return {.name = field,
          .cells = {text_cell(body[field].dump()), asked(body, Endpoint::kChat),
                    asked(body, Endpoint::kCompletions), asked(body, Endpoint::kChat, true)}};
}

// The fields that say how an answer is made, by a short name.
constexpr Sample kPairs[] = {
    {"stream", R"({"stream": true})"},
    {"n", R"({"n": 2})"},
    {"logprobs", R"({"logprobs": true})"},
    {"stop", R"({"stop": ["end"]})"},
    {"min_tokens", R"({"min_tokens": 9})"},
    {"ignore_eos", R"({"ignore_eos": true})"},
    {"grammar", R"({"grammar": "root ::= \"a\""})"},
    {"json_object", R"({"response_format": {"type": "json_object"}})"},
    {"json_schema", kSchema},
    {"tools", kTools},
    {"kv.policy", R"({"kv": {"policy": "h2o"}})"},
};

MatrixCell pair_cell(const Sample& a, const Sample& b) {
  json body = json::parse(a.body);
  const json other = json::parse(b.body);
  for (const auto& [key, value] : other.items()) {
    if (body.contains(key)) return {};  // one field, or one with itself
  }
  body.update(other);
  return asked(body, Endpoint::kChat);
}

}  // namespace

MatrixCell cell_of(const Status& status) {
  if (status.ok()) return {.state = MatrixCell::State::kYes};
  return {.state = MatrixCell::State::kNo, .text = status.message()};
}

MatrixCell text_cell(std::string text) {
  return {.state = MatrixCell::State::kText, .text = std::move(text)};
}

MatrixTable path_matrix() {
  MatrixTable table{.name = "Paths",
                    .about = "What the server answers. A key is wanted where some are set.",
                    .columns = {"path", "method", "without a key"},
                    .rows = {}};
  for (const serve::RouteEntry& entry : serve::route_table()) {
    const MatrixCell open = entry.open ? MatrixCell{.state = MatrixCell::State::kYes}
                                       : MatrixCell{.state = MatrixCell::State::kNo};
    table.rows.push_back({.name = entry.path, .cells = {text_cell(entry.method), open}});
  }
  return table;
}

MatrixTable field_matrix() {
  MatrixTable table{
      .name = "Fields",
      .about =
          "Of `POST /v1/chat/completions`, `/v1/completions` and of lines of `quire batch` "
          "(chats). Any other field is refused, and so are values out of range; null is as "
          "if the field were not there. What a chat template has no form for (tools of one "
          "that shows none) is refused when the conversation is written with it.",
      .columns = {"field", "as", "chat", "completion", "batch"},
      .rows = {}};
  for (const char* const field : serve::body_fields()) {
    std::size_t samples = 0;
    for (const Sample& sample : kSamples) {
      if (std::string(sample.field) != field) continue;
      table.rows.push_back(field_row(field, json::parse(sample.body)));
      ++samples;
    }
    if (samples == 0) table.rows.push_back({.name = field, .cells = {text_cell("no sample")}});
  }
  return table;
}

MatrixTable pair_matrix() {
  MatrixTable table{.name = "Fields together",
                    .about =
                        "In one chat, two by two. A grammar says where its text ends, which "
                        "excludes what asks for more.",
                    .columns = {"with"},
                    .rows = {}};
  for (const Sample& row : kPairs) {
    table.columns.emplace_back(row.field);
    table.rows.push_back({.name = row.field, .cells = {}});
    for (const Sample& column : kPairs) table.rows.back().cells.push_back(pair_cell(row, column));
  }
  return table;
}

}  // namespace quire::cli
