#include "engine/prompt_roles.h"

#include <string>

namespace quire::engine {

std::vector<Role> prompt_roles(const model::Model& model, std::span<const model::Token> tokens,
                               roles::TokenRule rule) {
  std::string text;
  std::vector<std::size_t> ends;
  ends.reserve(tokens.size());
  for (const model::Token token : tokens) {
    text += model.piece(token, true);
    ends.push_back(text.size());
  }
  return roles::label_tokens(roles::label_text(text), ends, rule);
}

}  // namespace quire::engine
