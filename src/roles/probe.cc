#include "roles/probe.h"

#include <algorithm>
#include <array>

#include "quire/check.h"
#include "roles/fingerprint.h"

namespace quire::roles {

Vocabulary vocabulary_of(std::uint32_t tokens, const std::function<std::string(Token)>& piece) {
  Fingerprint fingerprint;
  for (std::uint32_t id = 0; id < tokens; ++id) {
    const std::string text = piece(static_cast<Token>(id));
    fingerprint.add(std::to_string(text.size()) + ':');
    fingerprint.add(text);
  }
  return {tokens, fingerprint.value()};
}

std::uint32_t Probe::row_of(Token id) const {
  const auto found = std::ranges::lower_bound(ids, id);
  const bool known = found != ids.end() && *found == id;
  return known ? static_cast<std::uint32_t>(found - ids.begin()) + 2 : 0;
}

std::vector<Role> label_tokens(const Probe& probe, std::span<const Token> tokens,
                               std::span<const std::uint8_t> states) {
  QUIRE_CHECK(states.size() == tokens.size());
  std::vector<std::uint32_t> row(tokens.size() + 2 * kProbeReach, 1);
  for (std::size_t i = 0; i < tokens.size(); ++i) row[i + kProbeReach] = probe.row_of(tokens[i]);
  std::vector<Role> roles(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::array<float, kRoles> sum;
    std::copy_n(&probe.states[states[i] * kRoles], kRoles, sum.begin());
    for (std::uint32_t o = 0; o < kProbeWindow; ++o) {
      const float* weights = &probe.windows[(std::size_t{o} * probe.rows() + row[i + o]) * kRoles];
      for (std::size_t r = 0; r < kRoles; ++r) sum[r] += weights[r];
    }
    roles[i] = static_cast<Role>(std::ranges::max_element(sum) - sum.begin());
  }
  return roles;
}

}  // namespace quire::roles
