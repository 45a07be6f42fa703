// quire roles: what the scanners see in a text, as policies of roles are told.

#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "cli/run_flags.h"
#include "cli/terminal.h"
#include "roles/roles.h"

namespace quire::cli {
namespace {

using json = nlohmann::ordered_json;

struct RolesFlags {
  std::string file;
  bool json = false;
};

struct Count {
  std::size_t bytes = 0, parts = 0;
};
using Counts = std::array<Count, kRoles>;

// By role: prose, blank, delimiter, value, header, key.
constexpr std::array<const char*, kRoles> kColour{"",         "",         "\x1b[90m",
                                                  "\x1b[32m", "\x1b[35m", "\x1b[33m"};
constexpr std::array<const char*, kRoles> kOpen{"", "", "{d ", "{v ", "{h ", "{k "};

// Calls f(role, part) for each run of one role.
template <typename F>
void for_each_part(const std::string& text, const std::vector<Role>& roles, F f) {
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    while (end < text.size() && roles[end] == roles[begin]) ++end;
    f(roles[begin], std::string_view(text).substr(begin, end - begin));
  }
}

Counts count(const std::string& text, const std::vector<Role>& roles) {
  Counts counts{};
  for_each_part(text, roles, [&](Role role, std::string_view part) {
    Count& of_role = counts[static_cast<std::size_t>(role)];
    of_role.bytes += part.size();
    ++of_role.parts;
  });
  return counts;
}

void print_json(std::size_t bytes, const Counts& counts) {
  json by_role = json::object();
  for (std::size_t r = 0; r < kRoles; ++r) {
    by_role[roles::name_of(static_cast<Role>(r))] = {{"bytes", counts[r].bytes},
                                                     {"parts", counts[r].parts}};
  }
  std::puts(dump({{"quire_json", 1}, {"bytes", bytes}, {"roles", by_role}}).c_str());
}

void print_text(const std::string& text, const std::vector<Role>& roles, bool colour) {
  for_each_part(text, roles, [&](Role role, std::string_view part) {
    const auto r = static_cast<std::size_t>(role);
    const bool marked = *kOpen[r] != '\0';
    if (marked) std::fputs(colour ? kColour[r] : kOpen[r], stdout);
    std::fwrite(part.data(), 1, part.size(), stdout);
    if (marked) std::fputs(colour ? "\x1b[0m" : "}", stdout);
  });
}

void print_counts(std::size_t bytes, const Counts& counts) {
  std::printf("\n\n%-9s %12s %12s %8s\n", "role", "parts", "bytes", "share");
  for (std::size_t r = kRoles; r-- > 0;) {
    const double share =
        bytes == 0 ? 0 : 100 * static_cast<double>(counts[r].bytes) / static_cast<double>(bytes);
    std::printf("%-9s %12s %12s %6s %%\n", roles::name_of(static_cast<Role>(r)),
                grouped(counts[r].parts).c_str(), grouped(counts[r].bytes).c_str(),
                number(share, 1).c_str());
  }
}

int show(const RolesFlags& flags) {
  const Result<std::string> text = read_text(flags.file);
  if (!text.ok()) {
    complain(text.status().message());
    return kExitFailed;
  }
  const std::vector<Role> roles = roles::label_text(*text);
  const Counts counts = count(*text, roles);
  if (flags.json) {
    print_json(text->size(), counts);
  } else {
    print_text(*text, roles, stdout_is_terminal());
    print_counts(text->size(), counts);
  }
  return kExitDone;
}

}  // namespace

Command add_roles(CLI::App& app) {
  const auto flags = std::make_shared<RolesFlags>();
  app.add_option("-f,--file", flags->file, "The text; - is stdin")->required()->type_name("FILE");
  app.add_flag("--json", flags->json, "One JSON object: parts and bytes by role");
  return [flags] { return show(*flags); };
}

}  // namespace quire::cli
