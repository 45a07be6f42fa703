#include "serve/replies.h"

#include <algorithm>

#include "engine/utf8.h"
#include "model/text_limit.h"
#include "serve/json_out.h"
#include "serve/openai_parts.h"

namespace quire::serve {
namespace {

using json = nlohmann::ordered_json;

json model_json(const Facts& facts) {
  return {{"id", facts.model},
          {"object", "model"},
          {"created", facts.started},
          {"owned_by", "quire"},
          {"max_model_len", facts.context},
          {"meta", {{"n_vocab", facts.vocabulary}, {"n_ctx_train", facts.model_context}}}};
}

Reply ok(const json& object) {
  return {.body = dump(object)};
}

// An object whose keys are among `known`.
Result<Json> read_object(const Facts& facts, std::string_view text,
                         std::initializer_list<std::string_view> known) {
  Result<Json> object = parse_json(text, facts.limits.body_bytes);
  if (!object.ok()) return refuse_field("body", object.status().message());
  if (!object->is_object()) return refuse_field("body", shown(*object) + " is not an object");
  for (const auto& [key, value] : object->items()) {
    if (std::ranges::find(known, key) == known.end()) {
      return refuse_field(key.substr(0, 60), "not supported");
    }
  }
  return object;
}

Status read_flag_of(const Json& object, const char* field, bool& out) {
  return object.contains(field) ? read_flag(object[field], field, out) : Status();
}

// The conversation as the model's template writes it: {messages, tools, chat_template_kwargs}.
Result<std::string> rendered(const model::Model& model, const Json& object) {
  Body body;
  Status status = read_messages(object.value("messages", Json()), body);
  const auto given = [&](const char* key) {
    return status.ok() && object.contains(key) && !object[key].is_null();
  };
  if (given("tools")) status = read_tools(object["tools"], body);
  if (given("chat_template_kwargs")) {
    status = read_template_kwargs(object["chat_template_kwargs"], body);
  }
  if (!status.ok()) return status;
  const Result<const model::ChatTemplate*> form = model::chat_template_of(model);
  if (!form.ok()) return refuse_field("messages", form.status().message());
  Result<model::ChatPrompt> prompt = (*form)->apply(body.chat);
  if (!prompt.ok()) return prompt.status();
  return std::move(prompt->text);
}

struct ToTokenize {
  std::string text;
  bool add_special = false, parse_special = true, with_pieces = false;
};

Result<ToTokenize> read_tokenize(const Facts& facts, const model::Model& model,
                                 std::string_view body) {
  const Result<Json> object =
      read_object(facts, body,
                  {"content", "prompt", "messages", "tools", "chat_template_kwargs", "model",
                   "add_special", "add_special_tokens", "parse_special", "with_pieces"});
  if (!object.ok()) return object.status();
  ToTokenize asked;
  Status status;
  if (object->contains("messages")) {
    asked.add_special = true;
    Result<std::string> text = rendered(model, *object);
    if (!text.ok()) return text.status();
    asked.text = *std::move(text);
  } else {
    // vLLM adds the begin of text unless told, llama.cpp only when told.
    const char* const field = object->contains("prompt") ? "prompt" : "content";
    asked.add_special = object->contains("prompt");
    if (!object->contains(field)) return refuse_field("content", "missing");
    status = read_text((*object)[field], field, asked.text);
  }
  if (status.ok()) status = read_flag_of(*object, "add_special", asked.add_special);
  if (status.ok()) status = read_flag_of(*object, "add_special_tokens", asked.add_special);
  if (status.ok()) status = read_flag_of(*object, "parse_special", asked.parse_special);
  if (status.ok()) status = read_flag_of(*object, "with_pieces", asked.with_pieces);
  if (!status.ok()) return status;
  return asked;
}

// Text where the bytes are some, else the bytes.
json piece_json(const std::string& bytes) {
  engine::Utf8Stream letters;
  const std::string text = letters.push(bytes) + letters.finish();
  if (text == bytes) return text;
  json list = json::array();
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  return list;
}

}  // namespace

Reply models_reply(const Facts& facts) {
  return ok({{"object", "list"}, {"data", json::array({model_json(facts)})}});
}

Reply model_reply(const Facts& facts, std::string_view name) {
  if (name == facts.model) return ok(model_json(facts));
  return error_reply(404, "there is no such model; GET /v1/models lists what there is",
                     "model_not_found", "model");
}

Reply version_reply(const Facts& facts) {
  return ok({{"quire_json", 1}, {"version", facts.version}});
}

Reply props_reply(const Facts& facts) {
  const model::SamplerOptions& sampler = facts.defaults.sampler;
  const bool lossy = facts.defaults.policy.has_value();
  return ok({{"quire_json", 1},
             {"model_alias", facts.model},
             {"build_info", "quire " + facts.version},
             {"total_slots", facts.running},
             {"answers_most", facts.answers},
             {"default_generation_settings",
              {{"n_ctx", facts.context},
               {"params",
                {{"max_tokens", facts.defaults.max_tokens},
                 {"temperature", sampler.temperature},
                 {"top_k", sampler.top_k},
                 {"top_p", sampler.top_p},
                 {"min_p", sampler.min_p},
                 {"repeat_penalty", sampler.repeat_penalty}}}}},
             {"chat", facts.chat},
             {"kv",
              {{"budget_bytes", facts.budget_bytes},
               {"tokens_fit", facts.tokens_fit},
               {"prefix_cache", facts.prefix_cache},
               {"policy", lossy ? facts.defaults.policy->name : "none"},
               {"keep", lossy ? engine::to_string(facts.defaults.keep) : "all"}}}});
}

Reply health_reply() {
  return ok({{"status", "ok"}});
}

Reply ready_reply(bool draining, bool stalled) {
  if (!draining && !stalled) return ok({{"status", "ready"}});
  return draining ? busy_reply("the server is going down", "draining")
                  : busy_reply("no step has ended for too long", "stalled");
}

Reply slots_reply(const Facts& facts, const std::vector<Slot>& slots) {
  json list = json::array();
  for (const Slot& slot : slots) {
    const AnswerPipe::Progress& progress = slot.progress;
    const bool reads = progress.prompt_tokens_read < slot.prompt_tokens;
    const char* const state = progress.prompt_tokens_read == 0 ? "waiting"
                              : reads                          ? "reading"
                                                               : "answering";
    list.push_back({{"id", slot.id},
                    {"is_processing", progress.prompt_tokens_read > 0},
                    {"state", state},
                    {"n_ctx", facts.context},
                    {"prompt_tokens", slot.prompt_tokens},
                    {"prompt_tokens_read", progress.prompt_tokens_read},
                    {"completion_tokens", progress.completion_tokens}});
  }
  return ok(list);
}

Reply tokenize_reply(const Facts& facts, const model::Model& model, std::string_view body) {
  const Result<ToTokenize> asked = read_tokenize(facts, model, body);
  if (!asked.ok()) return refusal_reply(asked.status());
  const std::size_t most = model::text_bytes_most(model);
  if (most > 0 && asked->text.size() > most) {
    return refusal_reply(refuse_field("content", std::to_string(asked->text.size()) +
                                                     " bytes are over the limit of " +
                                                     std::to_string(most)));
  }
  const std::vector<model::Token> tokens =
      model.tokenize(asked->text, asked->add_special, asked->parse_special);
  json list = json::array();
  for (const model::Token token : tokens) {
    if (asked->with_pieces) {
      list.push_back({{"id", token}, {"piece", piece_json(model.piece(token, true))}});
    } else {
      list.push_back(token);
    }
  }
  return ok(
      {{"tokens", std::move(list)}, {"count", tokens.size()}, {"max_model_len", facts.context}});
}

Reply detokenize_reply(const Facts& facts, const model::Model& model, std::string_view body) {
  const Result<Json> object = read_object(facts, body, {"tokens", "model"});
  if (!object.ok()) return refusal_reply(object.status());
  const Json tokens = object->value("tokens", Json());
  if (!tokens.is_array()) {
    return refusal_reply(refuse_field("tokens", shown(tokens) + " is not an array of tokens"));
  }
  engine::Utf8Stream letters;
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::uint32_t token = 0;
    const Status status =
        read_whole(tokens[i], "tokens[" + std::to_string(i) + "]", 0u, facts.vocabulary - 1, token);
    if (!status.ok()) return refusal_reply(status);
    text += letters.push(model.piece(static_cast<model::Token>(token), true));
  }
  text += letters.finish();
  return ok({{"content", text}, {"prompt", text}});
}

Reply template_reply(const Facts& facts, const model::Model& model, std::string_view body) {
  const Result<Json> object =
      read_object(facts, body, {"messages", "tools", "chat_template_kwargs", "model"});
  if (!object.ok()) return refusal_reply(object.status());
  const Result<std::string> text = rendered(model, *object);
  if (!text.ok()) return refusal_reply(text.status());
  return ok({{"prompt", *text}});
}

}  // namespace quire::serve
