#include "serve/openai_answer.h"

#include <algorithm>
#include <utility>

#include "serve/json_out.h"

namespace quire::serve {
namespace {

using json = nlohmann::ordered_json;

json usage_json(std::uint32_t prompt, std::uint32_t completion, std::uint32_t cached) {
  return {{"prompt_tokens", prompt},
          {"completion_tokens", completion},
          {"total_tokens", prompt + completion},
          {"prompt_tokens_details", {{"cached_tokens", cached}}}};
}

// llama.cpp's names.
json timings_json(const engine::Answer& answer) {
  return {{"cache_n", answer.kv.cached_tokens},
          {"prompt_n", answer.prompt_tokens - answer.kv.cached_tokens},
          {"prompt_ms", answer.prefill_seconds * 1000},
          {"predicted_n", answer.completion_tokens},
          {"predicted_ms", answer.decode_seconds * 1000},
          {"queue_ms", answer.queue_seconds * 1000}};
}

json head_json(const AnswerHead& head, const char* object) {
  const bool chat = head.endpoint == Endpoint::kChat;
  json out = {{"id", (chat ? "chatcmpl-" : "cmpl-") + head.id},
              {"object", object},
              {"created", head.created},
              {"model", head.model}};
  if (!head.fingerprint.empty()) out["system_fingerprint"] = head.fingerprint;
  return out;
}

json logprobs_json(Endpoint endpoint, std::span<const TokenLogprob> tokens, std::size_t& offset) {
  return endpoint == Endpoint::kChat ? chat_logprobs_json(tokens)
                                     : text_logprobs_json(tokens, offset);
}

json choice_json(Endpoint endpoint, std::size_t index, const Choice& choice) {
  json one = {{"index", index}};
  if (endpoint == Endpoint::kChat) {
    one["message"] = {{"role", "assistant"}, {"content", choice.answer.text}, {"refusal", nullptr}};
  } else {
    one["text"] = choice.answer.text;
  }
  std::size_t offset = 0;
  one["logprobs"] =
      choice.with_logprobs ? logprobs_json(endpoint, choice.logprobs, offset) : json(nullptr);
  one["finish_reason"] = finish_reason(choice.answer.finish);
  return one;
}

std::string event(const json& object) {
  return "data: " + dump(object) + "\n\n";
}

}  // namespace

const char* finish_reason(engine::Finish finish) {
  switch (finish) {
    case engine::Finish::kStop:
      return "stop";
    case engine::Finish::kLength:
      return "length";
    default:
      return "error";
  }
}

json completion_json(const AnswerHead& head, std::span<const Choice> choices) {
  const bool chat = head.endpoint == Endpoint::kChat;
  json out = head_json(head, chat ? "chat.completion" : "text_completion");
  json list = json::array();
  std::uint32_t completion = 0;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    list.push_back(choice_json(head.endpoint, i, choices[i]));
    if (choices.size() > 1) list.back()["kv"] = kv_json(choices[i].answer.kv);
    completion += choices[i].answer.completion_tokens;
  }
  const engine::Answer& first = choices[0].answer;
  out["choices"] = std::move(list);
  out["usage"] = usage_json(first.prompt_tokens, completion, first.kv.cached_tokens);
  out["timings"] = timings_json(first);
  out["kv"] = kv_json(first.kv);
  return out;
}

// --- events ---

AnswerEvents::AnswerEvents(AnswerHead head, std::uint32_t choices, bool include_usage,
                           bool with_logprobs)
    : head_(std::move(head)),
      include_usage_(include_usage),
      with_logprobs_(with_logprobs),
      begun_(choices, false),
      offsets_(choices, 0) {}

json AnswerEvents::chunk(std::uint32_t choice, const std::string& text, json logprobs,
                         const char* finish) {
  const bool chat = head_.endpoint == Endpoint::kChat;
  json one = {{"index", choice}};
  if (chat) {
    json delta = json::object();
    // The role comes with the first text: a chunk of its own would be taken for the first token.
    if (!begun_[choice]) delta["role"] = "assistant";
    if (!begun_[choice] || !text.empty()) delta["content"] = text;
    one["delta"] = std::move(delta);
  } else {
    one["text"] = text;
  }
  begun_[choice] = true;
  one["logprobs"] = std::move(logprobs);
  one["finish_reason"] = finish == nullptr ? json(nullptr) : json(finish);
  json out = head_json(head_, chat ? "chat.completion.chunk" : "text_completion");
  out["choices"] = json::array({std::move(one)});
  if (include_usage_) out["usage"] = nullptr;
  return out;
}

std::string AnswerEvents::piece(const Piece& piece) {
  std::string out;
  if (!piece.text.empty() || !piece.logprobs.empty()) {
    json logprobs = nullptr;
    if (with_logprobs_) {
      logprobs = logprobs_json(head_.endpoint, piece.logprobs, offsets_[piece.choice]);
    }
    out += event(chunk(piece.choice, piece.text, std::move(logprobs), nullptr));
  }
  if (!piece.ended) return out;
  const engine::Answer& answer = piece.answer;
  prompt_tokens_ = std::max(prompt_tokens_, answer.prompt_tokens);
  cached_tokens_ = std::max(cached_tokens_, answer.kv.cached_tokens);
  completion_tokens_ += answer.completion_tokens;
  json last = chunk(piece.choice, {}, nullptr, finish_reason(answer.finish));
  last["timings"] = timings_json(answer);
  last["kv"] = kv_json(answer.kv);
  // Clients raise what stands here, so that half an answer is never taken for a whole one.
  if (!answer.error.ok()) last["error"] = error_object(answer.error);
  return out + event(last);
}

std::string AnswerEvents::end() const {
  std::string out;
  if (include_usage_) {
    json last = head_json(
        head_, head_.endpoint == Endpoint::kChat ? "chat.completion.chunk" : "text_completion");
    last["choices"] = json::array();
    last["usage"] = usage_json(prompt_tokens_, completion_tokens_, cached_tokens_);
    out = event(last);
  }
  return out + "data: [DONE]\n\n";
}

json refusal_json(const Status& status, const std::string& param) {
  return {{"error", error_object(status, param)}};
}

int http_status(const Status& status) {
  switch (status.code()) {
    case Code::kInvalidArgument:
    case Code::kUnsupported:
    case Code::kOutOfMemory:
      return 400;
    default:
      return 500;
  }
}

}  // namespace quire::serve
