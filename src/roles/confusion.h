// How often two labellings agree.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "quire/types.h"

namespace quire::roles {

struct Confusion {
  // REQUIRES: equally many.
  void add(std::span<const Role> is, std::span<const Role> taken);
  std::uint64_t tokens() const;
  std::uint64_t tokens(Role is) const;
  std::uint64_t tokens(Role is, Role taken) const;
  std::uint64_t taken_for(Role role) const;
  // 2 both / (is + taken for); NaN of a role that is in neither.
  double f1(Role role) const;
  double accuracy() const;  // the share that agrees; NaN of none

 private:
  std::array<std::array<std::uint64_t, kRoles>, kRoles> count_{};  // [what it is][taken for]
};

}  // namespace quire::roles
