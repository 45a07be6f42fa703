// Bodies of /v1/chat/completions and /v1/completions: from JSON to a request of the engine.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "quire/status.h"
#include "serve/json_in.h"

namespace quire::serve {

enum class Endpoint : std::uint8_t { kChat, kCompletions };

// What a body asks, before it is tokens.
struct Body {
  Endpoint endpoint = Endpoint::kChat;
  // Of a file of requests: one whole answer each, so n, stream and logprobs may only say that.
  bool batch = false;
  std::vector<std::pair<std::string, std::string>> messages{};  // role, text
  std::string prompt{};                                         // of completions
  std::vector<model::Token> prompt_tokens{};                    // likewise, when given as tokens
  engine::Request request{};  // its initial options are the defaults of what the body leaves out
  bool max_tokens_given = false;
  std::uint32_t answers = 1;  // n
  bool stream = false, include_usage = false;
  bool logprobs = false;
  std::uint32_t top_logprobs = 0;  // the likeliest others beside each token
};

// Reads every field into `body`.  kInvalidArgument: "FIELD: why"; a field that is not supported is
// refused, unless its value is the one that means nothing.
Status read_body(const nlohmann::json& object, Body& body);

// The prompt as tokens, in body.request.
Status render(const model::Model& model, Body& body);

}  // namespace quire::serve
