// Answers in OpenAI's shapes, whole or as events, with the cache's numbers beside them.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "serve/logprobs.h"
#include "serve/message.h"
#include "serve/openai_body.h"

namespace quire::serve {

// What all objects of one answer say.
struct AnswerHead {
  Endpoint endpoint = Endpoint::kChat;
  std::string id;  // without "chatcmpl-" or "cmpl-"
  std::string model;
  std::int64_t created = 0;   // seconds since 1970
  std::string fingerprint{};  // of the server; empty: none
  // Of a chat: what takes answers apart; null: they are content.
  std::shared_ptr<const model::AnswerReader> reader{};
};

struct Choice {
  engine::Answer answer;
  std::vector<TokenLogprob> logprobs{};
  bool with_logprobs = false;
};

// "stop", "length" or "error"; "tool_calls" where a message that was ended calls some.
const char* finish_reason(engine::Finish finish, bool calls = false);

// A chat.completion or text_completion object.  `kv` and `timings` are the first choice's; of
// several each has its own `kv` beside.
nlohmann::ordered_json completion_json(const AnswerHead& head, std::span<const Choice> choices);

// The same as server-sent events.
class AnswerEvents {
 public:
  // What became of one choice since its last piece.
  struct Piece {
    std::uint32_t choice = 0;
    std::string text{};
    std::vector<TokenLogprob> logprobs{};
    bool ended = false;
    engine::Answer answer{};  // of the ended; its text is not used
  };

  AnswerEvents(AnswerHead head, std::uint32_t choices, bool include_usage, bool with_logprobs);
  // Some lines "data: {...}", each with an empty one after it; "" when the piece says nothing.
  std::string piece(const Piece& piece);
  // The usage, if it was asked for, and [DONE].
  std::string end() const;

 private:
  nlohmann::ordered_json chunk(std::uint32_t choice, const nlohmann::ordered_json& delta,
                               nlohmann::ordered_json logprobs, const char* finish);
  std::string last(const Piece& piece, const Status& fault);

  const AnswerHead head_;
  const bool include_usage_, with_logprobs_;
  std::vector<MessageStream> messages_;  // [choice]
  std::vector<bool> begun_;              // [choice]
  std::vector<std::size_t> offsets_;     // [choice]: letters said
  std::uint32_t prompt_tokens_ = 0, completion_tokens_ = 0, cached_tokens_ = 0;
};

// {"error": {message, type, code, param}}; `param` is the field that the refusal names, if any.
nlohmann::ordered_json refusal_json(const Status& status, const std::string& param);
// The HTTP status of a refusal: 400 for what the request asks, 500 for what went wrong here.
int http_status(const Status& status);

}  // namespace quire::serve
