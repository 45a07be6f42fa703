// Roles of a prompt's tokens, read off its text.
#pragma once

#include <span>
#include <vector>

#include "model/model.h"
#include "roles/roles.h"

namespace quire::engine {

// What the tokens spell is labelled, control tokens as they are written: they are prose.
std::vector<Role> prompt_roles(const model::Model& model, std::span<const model::Token> tokens,
                               roles::TokenRule rule = {});

}  // namespace quire::engine
