// One table says which fields there are.

#include "serve/openai_body.h"

#include <algorithm>
#include <limits>

#include "model/text_limit.h"
#include "serve/grammar.h"
#include "serve/openai_parts.h"

namespace quire::serve {
namespace {

using json = Json;

constexpr std::uint32_t kTokensMost = 1u << 24;
constexpr std::uint32_t kAnswersMost = 16, kTopLogprobsMost = 20;
constexpr std::size_t kSaltBytesMost = 256;
constexpr std::uint32_t kSeedMost = std::numeric_limits<std::uint32_t>::max() - 1;

engine::GenerateOptions& options(Body& body) {
  return body.request.options;
}
model::SamplerOptions& sampler(Body& body) {
  return body.request.options.sampler;
}

Status refuse_value(const char* field, const json& value) {
  return refuse_field(field, shown(value) + " is not supported");
}

// The value that changes nothing.
bool is_neutral(const json& value, int neutral) {
  return value == neutral || (neutral == 0 && (value == false || value.empty()));
}

template <int kNeutral>
Status only_neutral(const json& value, const char* field) {
  return is_neutral(value, kNeutral) ? Status() : refuse_value(field, value);
}

Status any_text(const json& value, const char* field) {
  std::string ignored;
  return read_text(value, field, ignored);
}

Status read_max_tokens(const json& value, const char* field, Body& body) {
  body.max_tokens_given = true;
  return read_whole(value, field, 0u, kTokensMost, options(body).max_tokens);
}

Status read_count(const json& value, const char* field, std::int32_t& out) {
  std::uint32_t count = 0;
  Status status = read_whole(value, field, 0u, kTokensMost, count);
  out = static_cast<std::int32_t>(count);
  return status;
}

Status read_logprobs(const json& value, Body& body) {
  if (body.endpoint == Endpoint::kChat) return read_flag(value, "logprobs", body.logprobs);
  if (value == false) return {};
  body.logprobs = true;
  return read_whole(value, "logprobs", 0u, kTopLogprobsMost, body.top_logprobs);
}

Status read_ignore_eos(const json& value, Body& body) {
  bool ignore = false;
  Status status = read_flag(value, "ignore_eos", ignore);
  options(body).stop_at_end = !ignore;
  return status;
}

Status read_priority(const json& value, Body& body) {
  std::int64_t priority = 0;
  Status status = read_whole(value, "priority", std::int64_t{-1000}, std::int64_t{1000}, priority);
  body.request.priority = static_cast<std::int32_t>(priority);
  return status;
}

Status read_salt(const json& value, Body& body) {
  std::string& salt = body.request.salt;
  if (Status status = read_text(value, "cache_salt", salt); !status.ok()) return status;
  if (salt.empty() || salt.size() > kSaltBytesMost) {
    return refuse_field("cache_salt",
                        "not a text of 1 to " + std::to_string(kSaltBytesMost) + " bytes");
  }
  return {};
}

Status read_grammar(const json& value, Body& body) {
  std::string& text = sampler(body).grammar;
  body.grammar_given = true;
  if (Status status = read_text(value, "grammar", text); !status.ok()) return status;
  return check_grammar(text);
}

// --- the table ---

struct Field {
  const char* name;
  std::optional<Endpoint> only;  // of one endpoint
  Status (*read)(const json& value, Body& body);
  int batch_neutral = -1;  // of a batch only this value, -1: any
};

constexpr std::optional<Endpoint> kBoth{};
constexpr Endpoint kChat = Endpoint::kChat, kText = Endpoint::kCompletions;

constexpr Field kFields[] = {
    // Who asks, and notes of theirs: nothing here depends on them.
    {"model", kBoth, [](const json& v, Body&) { return any_text(v, "model"); }},
    {"user", kBoth, [](const json& v, Body&) { return any_text(v, "user"); }},
    {"safety_identifier", kBoth,
     [](const json& v, Body&) { return any_text(v, "safety_identifier"); }},
    {"prompt_cache_key", kBoth,
     [](const json& v, Body&) { return any_text(v, "prompt_cache_key"); }},
    {"service_tier", kBoth, [](const json& v, Body&) { return any_text(v, "service_tier"); }},
    {"metadata", kBoth,
     [](const json& v, Body&) {
       return v.is_object() ? Status() : refuse_field("metadata", shown(v) + " is not an object");
     }},
    {"store", kBoth, [](const json& v, Body&) { return only_neutral<0>(v, "store"); }},

    {"messages", kChat, read_messages},
    {"prompt", kText, read_prompt},

    // --- how long ---
    {"max_tokens", kBoth,
     [](const json& v, Body& b) { return read_max_tokens(v, "max_tokens", b); }},
    {"max_completion_tokens", kChat,
     [](const json& v, Body& b) { return read_max_tokens(v, "max_completion_tokens", b); }},
    {"min_tokens", kBoth,
     [](const json& v, Body& b) {
       return read_whole(v, "min_tokens", 0u, kTokensMost, options(b).min_tokens);
     }},
    {"stop", kBoth, read_stop},
    {"ignore_eos", kBoth, read_ignore_eos},

    // --- which token ---
    {"temperature", kBoth,
     [](const json& v, Body& b) {
       return read_number(v, "temperature", 0, 100, sampler(b).temperature);
     }},
    {"top_p", kBoth,
     [](const json& v, Body& b) { return read_number(v, "top_p", 1e-6, 1, sampler(b).top_p); }},
    {"min_p", kBoth,
     [](const json& v, Body& b) { return read_number(v, "min_p", 0, 1, sampler(b).min_p); }},
    {"top_k", kBoth,
     [](const json& v, Body& b) { return read_count(v, "top_k", sampler(b).top_k); }},
    {"seed", kBoth,
     [](const json& v, Body& b) { return read_whole(v, "seed", 0u, kSeedMost, sampler(b).seed); }},
    {"repeat_penalty", kBoth,
     [](const json& v, Body& b) {
       return read_number(v, "repeat_penalty", 0.01, 100, sampler(b).repeat_penalty);
     }},
    {"repetition_penalty", kBoth,
     [](const json& v, Body& b) {
       return read_number(v, "repetition_penalty", 0.01, 100, sampler(b).repeat_penalty);
     }},
    {"presence_penalty", kBoth,
     [](const json& v, Body& b) {
       return read_number(v, "presence_penalty", -2, 2, sampler(b).presence_penalty);
     }},
    {"frequency_penalty", kBoth,
     [](const json& v, Body& b) {
       return read_number(v, "frequency_penalty", -2, 2, sampler(b).frequency_penalty);
     }},
    {"logit_bias", kBoth, read_logit_bias},
    {"grammar", kBoth, read_grammar},
    {"response_format", kBoth, read_response_format},
    {"tools", kChat, read_tools},
    {"tool_choice", kChat, read_tool_choice},
    {"parallel_tool_calls", kChat,
     [](const json& v, Body& b) {
       return read_flag(v, "parallel_tool_calls", b.chat.parallel_tool_calls);
     }},
    {"chat_template_kwargs", kChat, read_template_kwargs},

    // --- how it is answered ---
    {"n", kBoth,
     [](const json& v, Body& b) { return read_whole(v, "n", 1u, kAnswersMost, b.answers); }, 1},
    {"best_of", kText, [](const json& v, Body&) { return only_neutral<1>(v, "best_of"); }},
    {"echo", kText, [](const json& v, Body&) { return only_neutral<0>(v, "echo"); }},
    {"suffix", kText, [](const json& v, Body&) { return only_neutral<0>(v, "suffix"); }},
    {"stream", kBoth, [](const json& v, Body& b) { return read_flag(v, "stream", b.stream); }, 0},
    {"stream_options", kBoth, read_stream_options, 0},
    {"logprobs", kBoth, read_logprobs, 0},
    {"top_logprobs", kChat,
     [](const json& v, Body& b) {
       return read_whole(v, "top_logprobs", 0u, kTopLogprobsMost, b.top_logprobs);
     },
     0},
    {"priority", kBoth, read_priority},
    {"cache_salt", kBoth, read_salt},
    {"cache_prompt", kBoth,
     [](const json& v, Body& b) { return read_flag(v, "cache_prompt", b.request.prefix_cache); }},
    {"kv", kBoth, read_kv},
};

Status read_field(const Field& field, const json& value, Body& body) {
  if (body.batch && field.batch_neutral >= 0 && !is_neutral(value, field.batch_neutral)) {
    return refuse_value(field.name, value);
  }
  return field.read(value, body);
}

// Whether the field is there and says something.
bool has(const json& object, const char* field) {
  return object.contains(field) && !object[field].is_null();
}

// One form of an answer, and nothing that could not follow from it.
Status check_form(const Body& body) {
  const engine::GenerateOptions& asked = body.request.options;
  const std::string form = body.formed() ? "response_format" : "tools";
  if (body.grammar_given && (body.formed() || body.may_call())) {
    return refuse_field(form, "and grammar: give one of them");
  }
  if (body.formed() && body.may_call()) {
    return refuse_field("response_format", "not together with tools that may be called");
  }
  if (!body.formed() && !body.may_call() && asked.sampler.grammar.empty()) return {};
  // A grammar says where its text ends; then nothing can follow.
  const std::string with = body.may_call() ? "not with tools" : "not with a grammar";
  if (!asked.stop_at_end) return refuse_field("ignore_eos", with);
  return asked.min_tokens > 0 ? refuse_field("min_tokens", with) : Status();
}

// What no field can be refused for alone.
Status check_pairs(const json& object, const Body& body) {
  if (has(object, "max_tokens") && has(object, "max_completion_tokens") &&
      object["max_tokens"] != object["max_completion_tokens"]) {
    return refuse_field("max_completion_tokens", "and max_tokens: give one of them");
  }
  if (has(object, "stream_options") && !body.stream && !object["stream_options"].empty()) {
    return refuse_field("stream_options", "only with \"stream\": true");
  }
  if (body.endpoint == Endpoint::kChat && body.top_logprobs > 0 && !body.logprobs) {
    return refuse_field("top_logprobs", "only with \"logprobs\": true");
  }
  const engine::GenerateOptions& asked = body.request.options;
  if (Status status = check_form(body); !status.ok()) return status;
  if (asked.min_tokens > asked.max_tokens && body.max_tokens_given) {
    return refuse_field("min_tokens", std::to_string(asked.min_tokens) + " is over max_tokens, " +
                                          std::to_string(asked.max_tokens));
  }
  const char* const asks = body.endpoint == Endpoint::kChat ? "messages" : "prompt";
  return has(object, asks) ? Status() : refuse_field(asks, "missing");
}

}  // namespace

std::vector<const char*> body_fields() {
  std::vector<const char*> names;
  for (const Field& field : kFields) names.push_back(field.name);
  return names;
}

Status read_body(const json& object, Body& body) {
  if (!object.is_object()) return refuse_field("body", shown(object) + " is not an object");
  for (const auto& [key, value] : object.items()) {
    const Field* found = nullptr;
    for (const Field& field : kFields) {
      if (key == field.name && (!field.only || *field.only == body.endpoint)) found = &field;
    }
    if (value.is_null()) continue;
    if (found == nullptr) return refuse_field(key.substr(0, 60), "not supported");
    if (Status status = read_field(*found, value, body); !status.ok()) return status;
  }
  return check_pairs(object, body);
}

namespace {

// What is not supported is what the request asked: 400 by its field.
Status as_refusal(const Status& status) {
  if (status.code() != Code::kUnsupported) return status;
  return {Code::kInvalidArgument, status.message()};
}

// What need not be read to know that the context does not hold it.
Status check_length(const model::Model& model, const std::string& text, const char* field,
                    Body& body) {
  const std::size_t most = model::text_bytes_most(model), context = model.info().context;
  if (most == 0 || text.size() <= most) return {};
  body.tokens_least = std::max(text.size() / (most / context), context + 1);
  return refuse_field(field, std::to_string(text.size()) + " bytes are over the " +
                                 std::to_string(context) + " tokens of the context");
}

Status render_chat(const model::Model& model, Body& body) {
  const Result<const model::ChatTemplate*> form = model::chat_template_of(model);
  if (!form.ok()) return refuse_field("messages", form.status().message());
  Result<model::ChatPrompt> prompt = (*form)->apply(body.chat);
  if (!prompt.ok()) return as_refusal(prompt.status());
  if (Status s = check_length(model, prompt->text, "messages", body); !s.ok()) return s;
  body.request.prompt = std::move(prompt->tokens);
  if (!prompt->grammar.empty()) {
    sampler(body).grammar = std::move(prompt->grammar);
    sampler(body).grammar_start = std::move(prompt->grammar_start);
  }
  for (std::string& stop : prompt->stops) options(body).stop.push_back(std::move(stop));
  options(body).shown = std::move(prompt->shown);
  if (!prompt->reader->plain()) body.reader = std::move(prompt->reader);
  return {};
}

}  // namespace

Status render(const model::Model& model, Body& body) {
  // Any object has a grammar of ours; of completions it is used, as there is no template to ask.
  const bool ours = body.endpoint == Endpoint::kCompletions || !model::has_full_templates();
  if (body.chat.json_object && ours) {
    sampler(body).grammar = json_grammar();
    body.chat.json_object = false;
  }
  if (body.endpoint == Endpoint::kChat) return render_chat(model, body);
  if (!body.chat.json_schema.empty()) {
    Result<std::string> grammar = model::grammar_of_schema(body.chat.json_schema);
    if (!grammar.ok()) return refuse_field("response_format", grammar.status().message());
    sampler(body).grammar = *std::move(grammar);
  }
  if (Status s = check_length(model, body.prompt, "prompt", body); !s.ok()) return s;
  body.request.prompt =
      body.prompt_tokens.empty() ? model.tokenize(body.prompt, true, true) : body.prompt_tokens;
  return {};
}

}  // namespace quire::serve
