// Roles of a prompt's tokens: read off its text, or told by a probe.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/model.h"
#include "roles/probe.h"
#include "roles/roles.h"

namespace quire::engine {

// Who tells them.
struct RoleSource {
  enum class Kind : std::uint8_t {
    kParser,  // the scanners of room roles
    kProbe,
    kNone,  // nobody: all prose, so that policies of roles are what they wrap
  };
  Kind kind = Kind::kParser;
  roles::TokenRule rule{};                      // of the parser
  std::shared_ptr<const roles::Probe> probe{};  // of kProbe, of the model's vocabulary
};

// What tokens spell, control tokens as they are written; token i up to byte ends[i].
struct Spelt {
  std::string text;
  std::vector<std::size_t> ends;
};
Spelt spell(const model::Model& model, std::span<const model::Token> tokens);

std::vector<Role> prompt_roles(const model::Model& model, std::span<const model::Token> tokens,
                               const RoleSource& source = {});

// Of all tokens of the model: a fraction of a second.
roles::Vocabulary vocabulary_of(const model::Model& model);
// A probe for this model: read_probe's refusals, and kInvalidArgument for another vocabulary's.
Result<RoleSource> probe_source(const model::Model& model, std::string_view bytes);

}  // namespace quire::engine
