#include "engine/prompt_roles.h"

#include <utility>

namespace quire::engine {

Spelt spell(const model::Model& model, std::span<const model::Token> tokens) {
  Spelt spelt;
  spelt.ends.reserve(tokens.size());
  for (const model::Token token : tokens) {
    spelt.text += model.piece(token, true);
    spelt.ends.push_back(spelt.text.size());
  }
  return spelt;
}

std::vector<Role> prompt_roles(const model::Model& model, std::span<const model::Token> tokens,
                               const RoleSource& source) {
  if (source.kind == RoleSource::Kind::kNone) return std::vector<Role>(tokens.size(), Role::kProse);
  const Spelt spelt = spell(model, tokens);
  if (source.kind == RoleSource::Kind::kProbe) {
    return roles::label_tokens(*source.probe, tokens, roles::text_states(spelt.text, spelt.ends));
  }
  return roles::label_tokens(roles::label_text(spelt.text), spelt.ends, source.rule);
}

roles::Vocabulary vocabulary_of(const model::Model& model) {
  return roles::vocabulary_of(model.info().vocabulary,
                              [&](Token token) { return model.piece(token, true); });
}

Result<RoleSource> probe_source(const model::Model& model, std::string_view bytes) {
  Result<roles::Probe> probe = roles::read_probe(bytes);
  if (!probe.ok()) return probe.status();
  if (probe->vocabulary != vocabulary_of(model)) {
    return Status(Code::kInvalidArgument,
                  "probe: it was trained for the " + std::to_string(probe->vocabulary.tokens) +
                      " tokens of " + probe->model + "; " + model.info().name +
                      " has others: train one for it (quire train roles)");
  }
  return RoleSource{.kind = RoleSource::Kind::kProbe,
                    .probe = std::make_shared<const roles::Probe>(*std::move(probe))};
}

}  // namespace quire::engine
