// What a request asks of saved sessions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/model.h"
#include "serve/facts.h"
#include "serve/http.h"
#include "serve/routes.h"

namespace quire::serve {

struct SessionAsk {
  enum class Action : std::uint8_t { kList, kSave, kRestore, kErase };
  Action action = Action::kList;
  std::string owner{};                 // whose names these are
  std::string name{};                  // of all but kList
  std::string salt{};                  // of kSave and kRestore
  std::vector<model::Token> tokens{};  // of kSave: the conversation
};

// Reads "/sessions/NAME/save" and its like, and the body: of a save that of a completion or chat
// whose prompt is meant, of a restore {cache_salt} or nothing.  `tenant` as in understand().
struct SessionAsked {
  std::optional<SessionAsk> ask{};
  Reply refusal{};  // without one
};
SessionAsked understand_session(const Facts& facts, const model::Model& model, Route route,
                                std::string_view path, std::string_view body,
                                const std::string& tenant);

}  // namespace quire::serve
