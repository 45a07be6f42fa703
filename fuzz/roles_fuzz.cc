// Labels arbitrary bytes as text, and every scanner reads them as its own: a role a byte, no byte
// written that was not read, never a crash.
//
//   build/fuzz/fuzz/quire_roles_fuzz -max_len=4096 -max_total_time=60

#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "roles/roles.h"
#include "roles/scanners.h"

namespace {

using namespace quire;
using namespace quire::roles;

void check(std::size_t read, std::string_view text, const std::vector<Role>& roles) {
  if (read > text.size()) std::abort();
  for (std::size_t i = read; i < text.size(); ++i) {
    if (roles[i] != Role::kProse) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (label_text(text).size() != size) std::abort();
  const auto fresh = [&] { return std::vector<Role>(size, Role::kProse); };
  std::vector<Role> roles = fresh();
  check(scan_json(text, roles).end, text, roles);
  roles = fresh();
  check(scan_xml(text, roles).end, text, roles);
  if (size == 0) return 0;
  roles = fresh();
  check(scan_table(text, roles), text, roles);
  for (const bool quoted_lines : {false, true}) {
    roles = fresh();
    check(scan_csv(text, {.separator = ',', .quoted_lines = quoted_lines}, roles), text, roles);
  }
  return 0;
}
