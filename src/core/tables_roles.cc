// A byte a position, of a sequence and not of its lanes: who evicts drops no role.
#include <algorithm>

#include "core/tables.h"

namespace quire {

bool Tables::set_roles(Sequence& sequence, Position first, std::span<const Role> roles) {
  QUIRE_CHECK(!growing());
  const auto end = first + static_cast<Position>(roles.size());
  if (end > sequence.roles.size() && !sequence.roles.resize(nodes_, end)) return false;
  const auto structured = [](const Role role) { return role != Role::kProse; };
  sequence.roles.for_each_run(first, end, [&](std::uint32_t at, Role* run, std::uint32_t count) {
    sequence.structured -= static_cast<std::uint64_t>(std::count_if(run, run + count, structured));
    std::copy_n(&roles[at - first], count, run);
    sequence.structured += static_cast<std::uint64_t>(std::count_if(run, run + count, structured));
  });
  return true;
}

void Tables::copy_roles(const Sequence& sequence, std::vector<Role>& roles) const {
  roles.assign(std::max(sequence.length, sequence.roles.size()), Role::kProse);
  sequence.roles.for_each_run(0, sequence.roles.size(),
                              [&](std::uint32_t at, const Role* run, std::uint32_t count) {
                                std::copy_n(run, count, &roles[at]);
                              });
}

}  // namespace quire
