#include "serve/session_ask.h"

#include <utility>

#include "engine/sha256.h"
#include "serve/openai_parts.h"
#include "serve/question.h"
#include "serve/session_store.h"

namespace quire::serve {
namespace {

constexpr std::string_view kFolder = "/sessions/";
constexpr std::size_t kOwnerLetters = 16;

SessionAsked refuse(Reply reply) {
  return {.ask = {}, .refusal = std::move(reply)};
}

// Of a file's name: says who, and not with which key.
std::string owner_of(const std::string& tenant) {
  return engine::sha256_hex("quire session of " + tenant).substr(0, kOwnerLetters);
}

// The name before "/save" or "/restore", or alone; false: the path is none of them.
bool read_path(Route route, std::string_view path, SessionAsk& ask) {
  std::string_view name = path.substr(kFolder.size());
  ask.action = SessionAsk::Action::kErase;
  if (route == Route::kSession) {
    const std::size_t slash = name.rfind('/');
    const std::string_view verb = slash == name.npos ? "" : name.substr(slash + 1);
    if (verb != "save" && verb != "restore") return false;
    ask.action = verb == "save" ? SessionAsk::Action::kSave : SessionAsk::Action::kRestore;
    name = name.substr(0, slash);
  }
  ask.name = name;
  return true;
}

// {cache_salt}, or nothing at all.
Status read_salt(const Facts& facts, std::string_view body, std::string& salt) {
  if (body.empty()) return {};
  const Result<Json> object = parse_json(body, facts.limits.body_bytes);
  if (!object.ok()) return refuse_field("body", object.status().message());
  if (!object->is_object()) return refuse_field("body", shown(*object) + " is not an object");
  for (const auto& [key, value] : object->items()) {
    if (value.is_null()) continue;
    if (key != "cache_salt") return refuse_field(key.substr(0, 60), "not supported");
    if (Status status = read_cache_salt(value, salt); !status.ok()) return status;
  }
  return {};
}

}  // namespace

SessionAsked understand_session(const Facts& facts, const model::Model& model, Route route,
                                std::string_view path, std::string_view body,
                                const std::string& tenant) {
  SessionAsk ask{.owner = owner_of(tenant)};
  if (route == Route::kSessions) return {.ask = std::move(ask)};
  if (!read_path(route, path, ask)) {
    return refuse(error_reply(404, "there is no such path", "not_found"));
  }
  if (Status status = check_session_name(ask.name); !status.ok()) {
    return refuse(refusal_reply(status));
  }
  if (ask.action == SessionAsk::Action::kRestore) {
    std::string salt;
    if (Status status = read_salt(facts, body, salt); !status.ok()) {
      return refuse(refusal_reply(status));
    }
    ask.salt = tenant + salt;
  }
  if (ask.action == SessionAsk::Action::kSave) {
    // What is no object is refused by both alike.
    const Result<Json> object = parse_json(body, facts.limits.body_bytes);
    const bool chat = object.ok() && object->is_object() && object->contains("messages");
    Understood understood =
        understand(facts, model, chat ? Endpoint::kChat : Endpoint::kCompletions, body, tenant);
    if (!understood.question) return refuse(std::move(understood.refusal));
    engine::Request& request = understood.question->requests[0];
    ask.tokens = std::move(request.prompt);
    ask.salt = std::move(request.salt);
  }
  return {.ask = std::move(ask)};
}

}  // namespace quire::serve
