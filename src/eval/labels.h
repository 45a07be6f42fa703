// Where the roles of an arm's tokens come from.  Without a source they are what the scanners of
// room roles see in the text (engine/prompt_roles.h); others are compared with those.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "model/model.h"
#include "quire/types.h"

namespace quire::eval {

struct LabelSource {
  std::string name;  // Arm::labels; for a log it stands for what the function does
  // One role for each token.  Pure: the same tokens have the same roles.
  std::function<std::vector<Role>(const model::Model& model, std::span<const model::Token> tokens)>
      roles;
};

}  // namespace quire::eval
