// The program: top-level flags, the commands, exit statuses.

#include "cli/cli.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/licenses.h"
#include "cli/terminal.h"

#ifndef QUIRE_VERSION
#error "the build defines QUIRE_VERSION from the project's version"
#endif

namespace quire::cli {
namespace {

constexpr const char* kAbout =
    "quire " QUIRE_VERSION
    ": runs a GGUF model on a key-value cache that never exceeds a byte budget";
constexpr const char* kExamples =
    "Examples:\n"
    "  quire run -m model.gguf                                      chat\n"
    "  quire run -m model.gguf -f book.txt -p \"Who is the hero?\"    ask about a text\n"
    "  quire run -m model.gguf -f book.txt -p \"...\" --budget 16MiB --policy snapkv-ahead\n"
    "  quire run -m model.gguf -f book.txt -p \"...\" --keep 25% --policy h2o --explain\n"
    "  quire serve -m model.gguf --budget 4GiB                      an OpenAI-compatible server\n"
    "  quire batch -m model.gguf -i requests.jsonl -o results.jsonl   OpenAI's batch files\n"
    "  quire inspect -m model.gguf --budget 64MiB                   what a budget holds\n"
    "  quire bench -m model.gguf --vs llama                         speed beside libllama's\n"
    "Each command has its own --help.";

}  // namespace

int program(int argc, char** argv) {
  CLI::App app(kAbout, "quire");
  app.footer(kExamples);
  app.require_subcommand(0, 1);
  app.set_version_flag("--version", std::string("quire " QUIRE_VERSION),
                       "Print the version and exit");
  bool licenses = false;
  app.add_flag("--licenses", licenses, "Print the licences of everything in this program");

  using Adder = Command (*)(CLI::App&);
  const std::pair<CLI::App*, Adder> commands[] = {
      {app.add_subcommand("run", "Answer a prompt, or chat"), add_run},
      {app.add_subcommand("serve", "Answer OpenAI's clients over HTTP"), add_serve},
      {app.add_subcommand("batch", "Answer a file of requests, many at a time"), add_batch},
      {app.add_subcommand("inspect", "Shapes, bytes, what a budget holds, every default"),
       add_inspect},
      {app.add_subcommand("policies", "The eviction policies and their options"), add_policies},
      {app.add_subcommand("roles", "Keys, values and the like in a text, as policies see them"),
       add_roles},
      {app.add_subcommand("matrix", "What works together, and what is refused"), add_matrix},
      {app.add_subcommand("demo", "One question, with the full cache and with a quarter of it"),
       add_demo},
      {app.add_subcommand("bench", "Speed, alone or in pairs with libllama"), add_bench},
      {app.add_subcommand("eval", "What policies cost in quality, and what repacking frees"),
       add_eval},
      {app.add_subcommand("tune", "From how many rows on the kernels for chunks pay, as a table"),
       add_tune},
      {app.add_subcommand("train", "What a model's gate judges prompts by"), add_train},
  };
  std::vector<Command> run;
  for (const auto& [command, add] : commands) run.push_back(add(*command));

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    complain(error.what());
    const std::vector<CLI::App*> used = app.get_subcommands();
    std::string words;
    for (const CLI::App* at = used.empty() ? nullptr : used[0]; at != nullptr;) {
      words += at->get_name() + " ";
      const std::vector<CLI::App*> inner = const_cast<CLI::App*>(at)->get_subcommands();
      at = inner.empty() ? nullptr : inner[0];
    }
    std::fprintf(stderr, "`quire %s--help` lists the flags\n", words.c_str());
    return kExitUsage;
  }
  if (licenses) {
    std::fputs(kLicenses, stdout);
    return kExitDone;
  }
  catch_interrupts();
  for (std::size_t i = 0; i < run.size(); ++i) {
    if (app.got_subcommand(commands[i].first)) return run[i]();
  }
  std::fputs(app.help().c_str(), stderr);
  return kExitUsage;
}

}  // namespace quire::cli
