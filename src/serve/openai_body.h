// Bodies of /v1/chat/completions and /v1/completions: from JSON to a request of the engine.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "model/chat.h"
#include "quire/status.h"
#include "serve/json_in.h"

namespace quire::serve {

enum class Endpoint : std::uint8_t { kChat, kCompletions };

// What a body asks, before it is tokens.
struct Body {
  Endpoint endpoint = Endpoint::kChat;
  // Of a file of requests: one whole answer each, so n, stream and logprobs may only say that.
  bool batch = false;
  // Of chats what their template is given; of completions the form of the answer alone.
  model::ChatRequest chat{};
  std::string prompt{};                       // of completions
  std::vector<model::Token> prompt_tokens{};  // likewise, when given as tokens
  // Of a prompt too long to be read: it has at least so many tokens, more than the context.
  std::size_t tokens_least = 0;
  engine::Request request{};  // its initial options are the defaults of what the body leaves out
  bool max_tokens_given = false, grammar_given = false;
  std::uint32_t answers = 1;  // n
  bool stream = false, include_usage = false;
  bool logprobs = false;
  std::uint32_t top_logprobs = 0;  // the likeliest others beside each token
  // Of a chat that was rendered: what takes its answers apart; null: they are content.
  std::shared_ptr<const model::AnswerReader> reader{};

  // Whether the answer, or calls in it, are bound to a form beside `grammar`.
  bool may_call() const {
    return !chat.tools.empty() && chat.tool_choice != model::ToolChoice::kNone;
  }
  bool formed() const { return chat.json_object || !chat.json_schema.empty(); }
};

// The names of every field there is, of both endpoints.
std::vector<const char*> body_fields();

// Reads every field into `body`.  kInvalidArgument: "FIELD: why"; a field that is not supported is
// refused, unless its value is the one that means nothing.
Status read_body(const Json& object, Body& body);

// The prompt as tokens, in body.request, with the grammar of the answer.  kInvalidArgument, also
// for what the model's template has no form for, and for texts that are too long for the context
// whatever their tokens are (body.tokens_least): "FIELD: why".
Status render(const model::Model& model, Body& body);

}  // namespace quire::serve
