#include "serve/question.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "serve/json_out.h"

namespace quire::serve {
namespace {

constexpr std::uint32_t kCompletionTokens = 16;  // OpenAI's max_tokens of /v1/completions
constexpr std::uint32_t kRandomSeed = std::numeric_limits<std::uint32_t>::max();

Understood refuse(Reply reply) {
  return {.refusal = std::move(reply)};
}

Reply too_long(const Facts& facts, const Body& body, std::size_t prompt, std::size_t answer) {
  const bool chat = body.endpoint == Endpoint::kChat;
  nlohmann::ordered_json error = {
      {"message", "the context has " + std::to_string(facts.context) + " tokens; the prompt has " +
                      std::to_string(prompt) + " and the answer may have " +
                      std::to_string(answer)},
      {"type", "invalid_request_error"},
      {"code", "context_length_exceeded"},
      {"param", chat ? "messages" : "prompt"},
      {"n_prompt_tokens", prompt},
      {"n_ctx", facts.context}};
  return {.status = 400, .body = dump({{"error", std::move(error)}})};
}

// Of a request that does not say: OpenAI's for a text to continue, what fits for a chat.
std::uint32_t default_answer(const Facts& facts, const Body& body, std::size_t prompt) {
  std::size_t most = facts.context;
  if (!body.request.options.policy) most = std::min<std::size_t>(most, facts.tokens_fit);
  const auto rest = static_cast<std::uint32_t>(prompt < most ? most - prompt : 1);
  if (facts.defaults.max_tokens > 0) return std::min(facts.defaults.max_tokens, rest);
  return body.endpoint == Endpoint::kChat ? rest : std::min(kCompletionTokens, rest);
}

std::vector<engine::Request> repeated(engine::Request request, std::uint32_t count) {
  std::vector<engine::Request> requests(count, request);
  const std::uint32_t seed = request.options.sampler.seed;
  for (std::uint32_t i = 1; i < count && seed != kRandomSeed; ++i) {
    requests[i].options.sampler.seed = (seed + i) % kRandomSeed;
  }
  return requests;
}

}  // namespace

Understood understand(const Facts& facts, const model::Model& model, Endpoint endpoint,
                      std::string_view text, const std::string& tenant) {
  const Result<nlohmann::json> object = parse_json(text, facts.limits.body_bytes);
  if (!object.ok()) {
    return refuse(error_reply(400, "body: " + object.status().message(), "invalid_json"));
  }
  Body body{.endpoint = endpoint};
  body.request.options = facts.defaults;
  if (Status status = read_body(*object, body); !status.ok()) return refuse(refusal_reply(status));
  if (Status status = render(model, body); !status.ok()) return refuse(refusal_reply(status));

  body.request.salt.insert(0, tenant);

  const std::size_t prompt = body.request.prompt.size();
  std::uint32_t& answer = body.request.options.max_tokens;
  if (!body.max_tokens_given) answer = default_answer(facts, body, prompt);
  if (prompt + answer > facts.context) return refuse(too_long(facts, body, prompt, answer));
  Question question{.prompt_tokens = static_cast<std::uint32_t>(prompt),
                    .stream = body.stream,
                    .include_usage = body.include_usage,
                    .logprobs = body.logprobs,
                    .top_logprobs = body.top_logprobs};
  question.requests = repeated(std::move(body.request), body.answers);
  return {.question = std::move(question)};
}

}  // namespace quire::serve
