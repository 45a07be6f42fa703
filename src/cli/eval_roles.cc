// quire eval roles: flags, progress, and where the results go.

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "cli/eval_commands.h"
#include "cli/eval_flags.h"
#include "cli/eval_session.h"
#include "cli/eval_texts.h"
#include "cli/flags.h"
#include "cli/run_flags.h"
#include "cli/terminal.h"
#include "engine/budget.h"
#include "eval/roles_eval.h"

namespace quire::cli {
namespace {

struct RolesFlags {
  EngineFlags engine;
  std::string keep = "5%,10%,20%,30%,50%";
  std::vector<std::string> data;
  std::string text, csv, report, log;
  std::uint32_t seeds = 3, tokens = 896, questions = 10, recent = 32;
  bool quick = false, full = false, json = false;
};

void add_what(CLI::App& app, RolesFlags& flags) {
  add_model_flag(app, flags.engine)->required();
  app.add_option("--data", flags.data,
                 "JSON or JSON Lines: parts of them are documents as well, their values answers")
      ->type_name("FILE");
  app.add_option("--keep", flags.keep,
                 "Shares of the document's tokens; thresholds are for 5, 10, 20 and 50 %")
      ->type_name("P%,...")
      ->check(check_shares)
      ->capture_default_str();
  add_number(app, "--seeds", flags.seeds, 1u, 10000u, "Documents of each task");
  add_number(app, "--tokens", flags.tokens, 128u, 1u << 20, "Tokens of a document");
  add_number(app, "--questions", flags.questions, 1u, 256u, "Questions of a document, at most");
  add_number(app, "--recent", flags.recent, 0u, 4096u,
             "Newest entries that every arm keeps; snapkv-ahead looks from 32, and keeps these");
  app.add_option("--text", flags.text,
                 "Prose, one paragraph a line (default: openings of two novels, 16,000 tokens)")
      ->type_name("FILE");
  app.add_flag("--quick", flags.quick,
               "2 short documents of indented JSON, 10 and 20 %, and what roles cost: under a "
               "minute, small model");
  app.add_flag("--full", flags.full, "8 documents of each task, nested JSON as well");
}

void add_how(CLI::App& app, RolesFlags& flags) {
  app.add_option("--kv-type", flags.engine.kv_type, "How keys and values are stored")
      ->check(CLI::IsMember({"f16", "bf16", "f32"}))
      ->capture_default_str();
  add_number(app, "-t,--threads", flags.engine.threads, 0u, 256u,
             "Threads; 0: the machine's cores");
  app.add_option("--budget", flags.engine.budget, "Bytes of the cache (default: what arms need)")
      ->type_name("SIZE")
      ->check(check_bytes);
  app.add_option("-o,--log", flags.log,
                 "Results of finished inputs, and what attention ranks in LOG.jsonl.diagnosis; "
                 "given again,\nthey are not measured again")
      ->type_name("LOG.jsonl");
  app.add_flag("--json", flags.json, "One JSON object instead of a table");
  app.add_option("--csv", flags.csv, "Also a line per arm and measure")->type_name("FILE");
  app.add_option("--report", flags.report,
                 "Also a page with plots; of several models, a section each")
      ->type_name("DIR");
}

// --quick and --full stand for what was not given.
void settle(const CLI::App& app, RolesFlags& flags) {
  const auto given = [&](const char* flag) { return app.count(flag) > 0; };
  if (flags.full && !given("--seeds")) flags.seeds = 8;
  if (!flags.quick) return;
  if (!given("--keep")) flags.keep = "10%,20%";
  if (!given("--seeds")) flags.seeds = 2;
  if (!given("--tokens")) flags.tokens = 576;
  if (!given("--questions")) flags.questions = 4;
}

std::vector<eval::Task> tasks_of(const RolesFlags& flags) {
  using eval::Task;
  std::vector<Task> tasks = {Task::kJson};
  if (!flags.quick) tasks.insert(tasks.end(), {Task::kJsonCompact, Task::kXml});
  if (flags.full) tasks.push_back(Task::kNested);
  if (!flags.data.empty()) tasks.push_back(Task::kData);
  tasks.insert(tasks.end(), std::begin(eval::kCostTasks), std::end(eval::kCostTasks));
  return tasks;
}

Result<eval::RolesOptions> options_of(const RolesFlags& flags) {
  eval::RolesOptions options;
  eval::PoliciesOptions& quality = options.tasks.quality;
  quality.model_path = flags.engine.model;
  quality.keeps = shares_of(flags.keep);
  quality.tasks = tasks_of(flags);
  quality.seeds = flags.seeds;
  quality.inputs = {.tokens = flags.tokens,
                    .continuation = 64,
                    .needles = std::min(flags.questions, 4u),
                    .questions = flags.questions};
  quality.recent = flags.recent;
  quality.log_path = flags.log;
  if (!flags.engine.budget.empty())
    quality.budget_bytes = *engine::parse_bytes(flags.engine.budget);
  Result<EvalText> text = read_eval_text(flags.text);
  if (!text.ok()) return text.status();
  quality.text = std::move(text->text);
  quality.text_name = std::move(text->name);
  for (const std::string& path : flags.data) {
    Result<std::string> file = read_text(path);
    if (!file.ok()) return file.status();
    options.files.push_back({std::filesystem::path(path).filename().string(), *std::move(file)});
  }
  eval::arrange(options);
  return options;
}

int eval_roles(const RolesFlags& flags) {
  if (flags.quick && flags.full) {
    complain("--quick, --full: one of them");
    return kExitUsage;
  }
  return run_eval(
      flags, options_of(flags),
      [](eval::RolesOptions& options, ProgressLine& progress, const std::atomic<bool>* cancel) {
        show_progress(options.tasks.quality, progress, cancel);
      },
      eval::evaluate_roles,
      [&](const Status& status) { return eval_stopped(status, flags.json, flags.log); });
}

}  // namespace

Command add_eval_roles(CLI::App& app) {
  auto flags = std::make_shared<RolesFlags>();
  add_what(app, *flags);
  add_how(app, *flags);
  return [flags, &app] {
    settle(app, *flags);
    return eval_roles(*flags);
  };
}

}  // namespace quire::cli
