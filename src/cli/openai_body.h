// Bodies of /v1/chat/completions and /v1/completions: from JSON to a request of the engine.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "quire/status.h"

namespace quire::cli {

enum class Endpoint : std::uint8_t { kChat, kCompletions };

// JSON text from outside: at most `most_bytes`, 64 levels deep, valid UTF-8, no number over a
// double. kInvalidArgument says what is wrong and at which byte.
Result<nlohmann::json> parse_json(std::string_view text, std::size_t most_bytes);

// What a body asks, before it is tokens.
struct Body {
  Endpoint endpoint = Endpoint::kChat;
  std::vector<std::pair<std::string, std::string>> messages{};  // role, text
  std::string prompt{};                                         // of completions
  std::vector<model::Token> prompt_tokens{};                    // likewise, when given as tokens
  engine::Request request{};  // its initial options are the defaults of what the body leaves out
};

// Reads every field into `body`.  kInvalidArgument: "FIELD: why"; a field that is not supported is
// refused, unless its value is the one that means nothing.
Status read_body(const nlohmann::json& object, Body& body);

// The prompt as tokens, in body.request.
Status render(const model::Model& model, Body& body);

// The field a refusal of read_body() names.
std::string field_of(const Status& status);

}  // namespace quire::cli
