// Roles as text, for tests: a letter a byte, or the runs of one role.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quire/types.h"

namespace quire::test {

// p prose, _ blank, d delimiter, v value, h header, k key.
inline std::string letters(std::span<const Role> roles) {
  std::string shown;
  for (const Role role : roles) shown += "p_dvhk"[static_cast<std::size_t>(role)];
  return shown;
}

struct Run {
  Role role = Role::kProse;
  std::string text;
  std::size_t begin = 0;
};

inline std::vector<Run> runs(std::string_view text, std::span<const Role> roles) {
  std::vector<Run> found;
  for (std::size_t i = 0; i < roles.size(); ++i) {
    if (found.empty() || found.back().role != roles[i]) found.push_back({roles[i], "", i});
    found.back().text += text[i];
  }
  return found;
}

}  // namespace quire::test
