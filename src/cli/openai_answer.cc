// Completion objects.

#include "cli/openai_answer.h"

#include "cli/report.h"

namespace quire::cli {
namespace {

using json = nlohmann::ordered_json;

const char* finish_reason(engine::Finish finish) {
  return finish == engine::Finish::kLength ? "length" : "stop";
}

json choice(Endpoint endpoint, const engine::Answer& answer) {
  json one = {{"index", 0}};
  if (endpoint == Endpoint::kChat) {
    one["message"] = {{"role", "assistant"}, {"content", answer.text}};
  } else {
    one["text"] = answer.text;
  }
  one["logprobs"] = nullptr;
  one["finish_reason"] = finish_reason(answer.finish);
  return one;
}

}  // namespace

json completion_json(Endpoint endpoint, const std::string& id, const std::string& model,
                     std::int64_t created, const engine::Answer& answer) {
  const bool chat = endpoint == Endpoint::kChat;
  return {{"id", (chat ? "chatcmpl-" : "cmpl-") + id},
          {"object", chat ? "chat.completion" : "text_completion"},
          {"created", created},
          {"model", model},
          {"choices", json::array({choice(endpoint, answer)})},
          {"usage",
           {{"prompt_tokens", answer.prompt_tokens},
            {"completion_tokens", answer.completion_tokens},
            {"total_tokens", answer.prompt_tokens + answer.completion_tokens},
            {"prompt_tokens_details", {{"cached_tokens", answer.kv.cached_tokens}}}}},
          {"kv", kv_json(answer.kv)}};
}

json refusal_json(const Status& status, const std::string& param) {
  json body = error_json(status);
  body.erase("quire_json");
  if (!param.empty()) body["error"]["param"] = param;
  return body;
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

}  // namespace quire::cli
