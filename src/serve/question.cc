#include "serve/question.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "serve/json_out.h"

namespace quire::serve {
namespace {

constexpr std::uint32_t kCompletionTokens = 16;  // OpenAI's max_tokens of /v1/completions
constexpr std::size_t kGrammarMost = 512 << 10;  // bytes; each answer has a copy, compiled
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

// The sampler of an answer with a grammar is made here: compiled off the engine's thread, which
// others wait for, and refused before anything is queued.
Status compile(const model::Model& model, engine::GenerateOptions& options) {
  if (options.sampler.grammar.empty()) return {};
  if (options.sampler.grammar.size() > kGrammarMost) {
    return {Code::kInvalidArgument, "grammar: " + std::to_string(options.sampler.grammar.size()) +
                                        " bytes, over the limit of " +
                                        std::to_string(kGrammarMost)};
  }
  Result<std::unique_ptr<model::Sampler>> sampler =
      options.make_sampler ? options.make_sampler(model, options.sampler)
                           : model::Sampler::create(model, options.sampler);
  if (!sampler.ok()) return sampler.status();
  const auto made = std::make_shared<std::unique_ptr<model::Sampler>>(*std::move(sampler));
  options.make_sampler = [made](const model::Model&, const model::SamplerOptions&) {
    return Result<std::unique_ptr<model::Sampler>>(std::move(*made));
  };
  return {};
}

// By the field that has what the grammar was made of.
Status by_field(const Body& body, const Status& status) {
  const bool own = body.grammar_given || !status.message().starts_with("grammar: ");
  if (own || (!body.formed() && !body.may_call())) return status;
  return refuse_field(body.formed() ? "response_format" : "tools", status.message());
}

Result<std::vector<engine::Request>> requests_of(const model::Model& model, const Body& body) {
  std::vector<engine::Request> requests(body.answers, body.request);
  const std::uint32_t seed = body.request.options.sampler.seed;
  for (std::uint32_t i = 0; i < body.answers; ++i) {
    engine::GenerateOptions& options = requests[i].options;
    if (seed != kRandomSeed) options.sampler.seed = (seed + i) % kRandomSeed;
    if (Status status = compile(model, options); !status.ok()) return by_field(body, status);
  }
  return requests;
}

}  // namespace

Understood understand(const Facts& facts, const model::Model& model, Endpoint endpoint,
                      std::string_view text, const std::string& tenant) {
  const Result<Json> object = parse_json(text, facts.limits.body_bytes);
  if (!object.ok()) {
    return refuse(error_reply(400, "body: " + object.status().message(), "invalid_json"));
  }
  Body body{.endpoint = endpoint};
  body.request.options = facts.defaults;
  if (Status status = read_body(*object, body); !status.ok()) return refuse(refusal_reply(status));
  const Status rendered = render(model, body);
  if (!rendered.ok() && body.tokens_least == 0) return refuse(refusal_reply(rendered));

  body.request.salt.insert(0, tenant);

  const std::size_t prompt = std::max(body.request.prompt.size(), body.tokens_least);
  std::uint32_t& answer = body.request.options.max_tokens;
  if (!body.max_tokens_given) answer = default_answer(facts, body, prompt);
  if (prompt + answer > facts.context) return refuse(too_long(facts, body, prompt, answer));
  Question question{.prompt_tokens = static_cast<std::uint32_t>(prompt),
                    .stream = body.stream,
                    .include_usage = body.include_usage,
                    .logprobs = body.logprobs,
                    .top_logprobs = body.top_logprobs};
  Result<std::vector<engine::Request>> requests = requests_of(model, body);
  if (!requests.ok()) return refuse(refusal_reply(requests.status()));
  question.requests = *std::move(requests);
  question.reader = std::move(body.reader);
  return {.question = std::move(question)};
}

}  // namespace quire::serve
