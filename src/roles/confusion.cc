#include "roles/confusion.h"

#include <limits>
#include <numeric>

#include "quire/check.h"

namespace quire::roles {
namespace {

constexpr std::size_t index(Role role) {
  return static_cast<std::size_t>(role);
}

double ratio(std::uint64_t part, std::uint64_t of) {
  if (of == 0) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(part) / static_cast<double>(of);
}

}  // namespace

void Confusion::add(std::span<const Role> is, std::span<const Role> taken) {
  QUIRE_CHECK(is.size() == taken.size());
  for (std::size_t i = 0; i < is.size(); ++i) ++count_[index(is[i])][index(taken[i])];
}

std::uint64_t Confusion::tokens(Role is, Role taken) const {
  return count_[index(is)][index(taken)];
}

std::uint64_t Confusion::tokens(Role is) const {
  return std::accumulate(count_[index(is)].begin(), count_[index(is)].end(), std::uint64_t{0});
}

std::uint64_t Confusion::tokens() const {
  std::uint64_t sum = 0;
  for (std::size_t r = 0; r < kRoles; ++r) sum += tokens(static_cast<Role>(r));
  return sum;
}

std::uint64_t Confusion::taken_for(Role role) const {
  std::uint64_t sum = 0;
  for (const auto& row : count_) sum += row[index(role)];
  return sum;
}

double Confusion::f1(Role role) const {
  return ratio(2 * tokens(role, role), tokens(role) + taken_for(role));
}

double Confusion::accuracy() const {
  std::uint64_t agree = 0;
  for (std::size_t r = 0; r < kRoles; ++r) agree += count_[r][r];
  return ratio(agree, tokens());
}

}  // namespace quire::roles
