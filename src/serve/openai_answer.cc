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

// The beginning of the ids of a choice's calls.
std::string call_id(const AnswerHead& head, std::size_t choice) {
  return "call_" + head.id + "_" + std::to_string(choice) + "_";
}

json call_json(const model::ToolCall& call) {
  return {{"id", call.id},
          {"type", "function"},
          {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

json message_json(const model::ChatAnswer& said) {
  const bool calls_alone = said.content.empty() && !said.tool_calls.empty();
  json message = {{"role", "assistant"},
                  {"content", calls_alone ? json(nullptr) : json(said.content)},
                  {"refusal", nullptr}};
  if (!said.reasoning.empty()) message["reasoning_content"] = said.reasoning;
  for (const model::ToolCall& call : said.tool_calls) {
    message["tool_calls"].push_back(call_json(call));
  }
  return message;
}

json choice_json(const AnswerHead& head, std::size_t index, const Choice& choice) {
  json one = {{"index", index}};
  bool calls = false;
  if (head.endpoint == Endpoint::kChat) {
    const bool stopped = choice.answer.finish == engine::Finish::kStop;
    const Message message =
        read_message(head.reader.get(), choice.answer.text, stopped, call_id(head, index));
    one["message"] = message_json(message.said);
    calls = message.calls();
  } else {
    one["text"] = choice.answer.text;
  }
  std::size_t offset = 0;
  one["logprobs"] =
      choice.with_logprobs ? logprobs_json(head.endpoint, choice.logprobs, offset) : json(nullptr);
  one["finish_reason"] = finish_reason(choice.answer.finish, calls);
  return one;
}

// --- deltas ---

json call_delta_json(const MessageStream::CallDelta& call) {
  if (call.name.empty()) {
    return {{"index", call.index}, {"function", {{"arguments", call.arguments}}}};
  }
  json begun = call_json({.id = call.id, .name = call.name});
  json delta = {{"index", call.index}};
  delta.update(begun);
  return delta;
}

// As OpenAI's: texts first, then a delta for each call's beginning and each piece of arguments.
std::vector<json> delta_jsons(const MessageStream::Delta& delta) {
  std::vector<json> all;
  json texts = json::object();
  if (!delta.reasoning.empty()) texts["reasoning_content"] = delta.reasoning;
  if (!delta.content.empty()) texts["content"] = delta.content;
  if (!texts.empty()) all.push_back(std::move(texts));
  for (const MessageStream::CallDelta& call : delta.calls) {
    json& one = all.emplace_back(json::object());
    one["tool_calls"] = json::array({call_delta_json(call)});
  }
  return all;
}

std::string event(const json& object) {
  return "data: " + dump(object) + "\n\n";
}

}  // namespace

const char* finish_reason(engine::Finish finish, bool calls) {
  switch (finish) {
    case engine::Finish::kStop:
      return calls ? "tool_calls" : "stop";
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
    list.push_back(choice_json(head, i, choices[i]));
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
      offsets_(choices, 0) {
  const bool chat = head_.endpoint == Endpoint::kChat;
  for (std::uint32_t i = 0; i < choices; ++i) {
    messages_.emplace_back(chat ? head_.reader : nullptr, call_id(head_, i));
  }
}

json AnswerEvents::chunk(std::uint32_t choice, const json& delta, json logprobs,
                         const char* finish) {
  const bool chat = head_.endpoint == Endpoint::kChat;
  json one = {{"index", choice}};
  if (chat) {
    json said = json::object();
    // The role comes with the first text: a chunk of its own would be taken for the first token.
    if (!begun_[choice]) {
      said = {{"role", "assistant"}, {"content", delta.empty() ? json("") : json(nullptr)}};
    }
    said.update(delta);
    one["delta"] = std::move(said);
  } else {
    one["text"] = delta.value("content", "");
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
  MessageStream& message = messages_[piece.choice];
  std::vector<json> deltas = delta_jsons(message.push(piece.text));
  Status fault = piece.answer.error;
  if (piece.ended) {
    const Result<MessageStream::Delta> rest =
        message.finish(piece.answer.finish == engine::Finish::kStop);
    if (rest.ok()) {
      for (json& delta : delta_jsons(*rest)) deltas.push_back(std::move(delta));
    } else if (fault.ok()) {
      fault = rest.status();
    }
  }
  if (deltas.empty() && !piece.logprobs.empty()) deltas.push_back(json::object());
  std::string out;
  for (const json& delta : deltas) {
    const bool logs = with_logprobs_ && &delta == deltas.data();
    json logprobs = nullptr;
    if (logs) logprobs = logprobs_json(head_.endpoint, piece.logprobs, offsets_[piece.choice]);
    out += event(chunk(piece.choice, delta, std::move(logprobs), nullptr));
  }
  return piece.ended ? out + last(piece, fault) : out;
}

// The chunk that ends a choice.
std::string AnswerEvents::last(const Piece& piece, const Status& fault) {
  const engine::Answer& answer = piece.answer;
  prompt_tokens_ = std::max(prompt_tokens_, answer.prompt_tokens);
  cached_tokens_ = std::max(cached_tokens_, answer.kv.cached_tokens);
  completion_tokens_ += answer.completion_tokens;
  const bool unread = !fault.ok() && answer.error.ok();
  const char* const finish =
      unread ? "error" : finish_reason(answer.finish, messages_[piece.choice].calls());
  json last = chunk(piece.choice, json::object(), nullptr, finish);
  last["timings"] = timings_json(answer);
  last["kv"] = kv_json(answer.kv);
  // Clients raise what stands here, so that half an answer is never taken for a whole one.
  if (!fault.ok()) last["error"] = error_object(fault);
  return event(last);
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
