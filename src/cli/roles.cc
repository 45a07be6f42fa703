// quire roles: what the scanners see in a text, as policies of roles are told, and a probe.

#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/open_engine.h"
#include "cli/report.h"
#include "cli/run_flags.h"
#include "cli/terminal.h"
#include "eval/probe_eval.h"
#include "roles/roles.h"

namespace quire::cli {
namespace {

using json = nlohmann::ordered_json;
using roles::Confusion;

struct RolesFlags {
  EngineFlags engine;
  std::string file, probe;
  bool json = false;
};

// A text in units: bytes, or with a probe tokens.
struct Labelled {
  std::string text;
  std::vector<std::size_t> ends;    // of tokens; empty: units are bytes
  std::vector<Role> parser, probe;  // equal where there is no probe
  std::size_t end(std::size_t unit) const { return ends.empty() ? unit + 1 : ends[unit]; }
};

struct Count {
  std::size_t bytes = 0, parts = 0;
};
using Counts = std::array<Count, kRoles>;

// By role: prose, blank, delimiter, value, header, key.
constexpr std::array<const char*, kRoles> kColour{"",         "",         "\x1b[90m",
                                                  "\x1b[32m", "\x1b[35m", "\x1b[33m"};
constexpr std::array<char, kRoles> kLetter{'p', 'b', 'd', 'v', 'h', 'k'};
constexpr const char* kDiffers = "\x1b[7m";

constexpr std::size_t index(Role role) {
  return static_cast<std::size_t>(role);
}

// Calls f(first unit, text) for each run of units that are alike.
template <typename Alike, typename F>
void for_each_run(const Labelled& labelled, Alike alike, F f) {
  const std::size_t units = labelled.parser.size();
  std::size_t begin = 0;
  for (std::size_t first = 0, next = 0; first < units; first = next) {
    while (next < units && alike(first, next)) ++next;
    const std::size_t end = labelled.end(next - 1);
    f(first, std::string_view(labelled.text).substr(begin, end - begin));
    begin = end;
  }
}

Counts count(const Labelled& labelled) {
  Counts counts{};
  const std::vector<Role>& role = labelled.parser;
  for_each_run(
      labelled, [&](std::size_t i, std::size_t j) { return role[i] == role[j]; },
      [&](std::size_t first, std::string_view part) {
        Count& of_role = counts[index(role[first])];
        of_role.bytes += part.size();
        ++of_role.parts;
      });
  return counts;
}

Confusion confusion_of(const Labelled& labelled) {
  Confusion confusion;
  confusion.add(labelled.parser, labelled.probe);
  return confusion;
}

void print_json(const RolesFlags& flags, const Labelled& labelled, const Counts& counts) {
  json by_role = json::object();
  for (std::size_t r = 0; r < kRoles; ++r) {
    by_role[roles::name_of(static_cast<Role>(r))] = {{"bytes", counts[r].bytes},
                                                     {"parts", counts[r].parts}};
  }
  json object = {{"quire_json", 1}, {"bytes", labelled.text.size()}, {"roles", by_role}};
  if (!flags.probe.empty()) {
    object["tokens"] = labelled.parser.size();
    object["probe"] = eval::json_of(confusion_of(labelled));
  }
  std::puts(dump(object).c_str());
}

// {k "name"}; where the probe differs {k|v "name"}.
std::string opening(Role parser, Role probe, bool colour) {
  const bool same = parser == probe;
  if (same && parser <= Role::kBlank) return {};
  if (colour) return kColour[index(parser)] + std::string(same ? "" : kDiffers);
  std::string mark = {'{', kLetter[index(parser)]};
  if (!same) mark += {'|', kLetter[index(probe)]};
  return mark + ' ';
}

void print_text(const Labelled& labelled, bool colour) {
  const std::vector<Role>&parser = labelled.parser, &probe = labelled.probe;
  for_each_run(
      labelled,
      [&](std::size_t i, std::size_t j) { return parser[i] == parser[j] && probe[i] == probe[j]; },
      [&](std::size_t first, std::string_view part) {
        const std::string open = opening(parser[first], probe[first], colour);
        std::fputs(open.c_str(), stdout);
        std::fwrite(part.data(), 1, part.size(), stdout);
        if (!open.empty()) std::fputs(colour ? "\x1b[0m" : "}", stdout);
      });
}

void print_counts(const Labelled& labelled, const Counts& counts) {
  std::printf("\n\n%-9s %12s %12s %8s\n", "role", "parts", "bytes", "share");
  const std::size_t bytes = labelled.text.size();
  for (std::size_t r = kRoles; r-- > 0;) {
    const double share =
        bytes == 0 ? 0 : 100 * static_cast<double>(counts[r].bytes) / static_cast<double>(bytes);
    std::printf("%-9s %12s %12s %6s %%\n", roles::name_of(static_cast<Role>(r)),
                grouped(counts[r].parts).c_str(), grouped(counts[r].bytes).c_str(),
                number(share, 1).c_str());
  }
}

void print_agreement(const Confusion& confusion) {
  std::printf("\n%-9s %12s %12s %8s\n", "tokens", "parser", "probe", "F1");
  for (std::size_t r = kRoles; r-- > 0;) {
    const auto role = static_cast<Role>(r);
    const bool there = confusion.tokens(role) + confusion.taken_for(role) > 0;
    std::printf("%-9s %12s %12s %8s\n", roles::name_of(role),
                grouped(confusion.tokens(role)).c_str(), grouped(confusion.taken_for(role)).c_str(),
                there ? number(confusion.f1(role), 3).c_str() : "-");
  }
}

Labelled by_byte(std::string text) {
  Labelled labelled{.text = std::move(text)};
  labelled.parser = labelled.probe = roles::label_text(labelled.text);
  return labelled;
}

Result<Labelled> by_token(const RolesFlags& flags, const std::string& text) {
  const Result<Engine> engine = open_engine(flags.engine);
  if (!engine.ok()) return engine.status();
  const model::Model& model = *engine->model;
  const Result<engine::RoleSource> probe = read_probe_file(flags.probe, model);
  if (!probe.ok()) return probe.status();
  const std::vector<model::Token> tokens = model.tokenize(text, false, false);
  engine::Spelt spelt = engine::spell(model, tokens);
  return Labelled{.text = std::move(spelt.text),
                  .ends = std::move(spelt.ends),
                  .parser = engine::prompt_roles(model, tokens),
                  .probe = engine::prompt_roles(model, tokens, *probe)};
}

Result<Labelled> label(const RolesFlags& flags) {
  Result<std::string> text = read_text(flags.file);
  if (!text.ok()) return text.status();
  return flags.probe.empty() ? by_byte(*std::move(text)) : by_token(flags, *text);
}

int show(const RolesFlags& flags) {
  const Result<Labelled> labelled = label(flags);
  if (!labelled.ok()) {
    complain(labelled.status().message());
    return kExitFailed;
  }
  const Counts counts = count(*labelled);
  if (flags.json) {
    print_json(flags, *labelled, counts);
    return kExitDone;
  }
  print_text(*labelled, stdout_is_terminal());
  print_counts(*labelled, counts);
  if (!flags.probe.empty()) print_agreement(confusion_of(*labelled));
  return kExitDone;
}

}  // namespace

Command add_roles(CLI::App& app) {
  const auto flags = std::make_shared<RolesFlags>();
  app.add_option("-f,--file", flags->file, "The text; - is stdin")->required()->type_name("FILE");
  CLI::Option* model = add_model_flag(app, flags->engine);
  CLI::Option* probe =
      app.add_option(
             "--probe", flags->probe,
             "Beside the parser's the labels of this probe of `quire train roles`, by token of\n"
             "-m: {k|v ...} is a key that it takes for a value")
          ->type_name("FILE");
  probe->needs(model);
  model->needs(probe);
  app.add_flag("--json", flags->json, "One JSON object: parts and bytes by role");
  return [flags] { return show(*flags); };
}

}  // namespace quire::cli
