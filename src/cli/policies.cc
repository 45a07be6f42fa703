// quire policies: what the one list of policies says, as a table, as JSON, or as docs/POLICIES.md.

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "quire/policy.h"

namespace quire::cli {
namespace {

using json = nlohmann::ordered_json;

struct PoliciesFlags {
  bool json = false, markdown = false;
};

void print_json() {
  json list = json::array();
  for (const PolicyInfo& info : list_policies()) {
    list.push_back({{"name", info.name},
                    {"lines", info.lines},
                    {"needs", info.needs},
                    {"scope", info.scope},
                    {"when", info.when},
                    {"when_not", info.when_not},
                    {"cost", info.cost},
                    {"source", info.source},
                    {"options", info.options}});
  }
  std::puts(dump({{"quire_json", 1}, {"policies", list}}).c_str());
}

void print_table() {
  for (const PolicyInfo& info : list_policies()) {
    std::printf("%-15s %s\n", info.name.c_str(), info.source.c_str());
    std::printf("%15s scope %s, %u lines, reads %s\n", "", info.scope.c_str(), info.lines,
                info.needs.c_str());
    std::printf("%15s when: %s\n", "", info.when.c_str());
    std::printf("%15s when not: %s\n", "", info.when_not.c_str());
    std::printf("%15s %s\n", "", info.options.c_str());
  }
  std::printf("\nAs --policy NAME or NAME:key=value,key=value; what is not given is as listed.\n");
}

void print_markdown() {
  std::puts(
      "# Policies\n\n"
      "Written by `quire policies --markdown` from the list in `src/policies/list.cc`; a test "
      "compares.\n\n"
      "A policy scores the entries of a lane (one layer x one KV head of one sequence), higher = "
      "keep; first entries\n(`sinks`) and newest ones (`recent`) stay under each of them, and "
      "equal "
      "scores keep the newer (the older where roles have quotas). Scope is what shares "
      "one\ndecision or one quota. Use one as "
      "`--policy NAME` or `--policy NAME:key=value,key=value`; what is not given is as listed.\n"
      "What each was measured to do is in docs/results, where there are results.\n\n"
      "| policy | scope | reads | lines |\n|---|---|---|---|");
  for (const PolicyInfo& info : list_policies()) {
    std::printf("| [%s](#%s) | %s | %s | %u |\n", info.name.c_str(), info.name.c_str(),
                info.scope.c_str(), info.needs.c_str(), info.lines);
  }
  for (const PolicyInfo& info : list_policies()) {
    std::printf("\n## %s\n\n%s.\n\n", info.name.c_str(), info.source.c_str());
    std::printf("* Cost: %s.\n* When: %s.\n* When not: %s.\n* Options: `%s`\n", info.cost.c_str(),
                info.when.c_str(), info.when_not.c_str(), info.options.c_str());
  }
}

int policies(const PoliciesFlags& flags) {
  if (flags.json) {
    print_json();
  } else if (flags.markdown) {
    print_markdown();
  } else {
    print_table();
  }
  return kExitDone;
}

}  // namespace

Command add_policies(CLI::App& app) {
  auto flags = std::make_shared<PoliciesFlags>();
  CLI::Option* as_json = app.add_flag("--json", flags->json, "One JSON object instead of text");
  app.add_flag("--markdown", flags->markdown, "The page docs/POLICIES.md")->excludes(as_json);
  return [flags] { return policies(*flags); };
}

}  // namespace quire::cli
