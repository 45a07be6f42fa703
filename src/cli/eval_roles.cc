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
#include "cli/run_flags.h"
#include "cli/terminal.h"
#include "engine/prompt_roles.h"
#include "engine/sha256.h"
#include "eval/roles_eval.h"

namespace quire::cli {
namespace {

struct RolesFlags : InputFlags {
  std::string keep = "5%,10%,20%,30%,50%";
  std::vector<std::string> data;
  std::string probe;
  std::uint32_t seeds = 3, tokens = 896, questions = 10, recent = 32;
  bool quick = false, full = false;
};

void add_what(CLI::App& app, RolesFlags& flags) {
  add_model_flag(app, flags.engine)->required();
  app.add_option("--data", flags.data,
                 "JSON or JSON Lines: parts of them are documents as well, their values answers")
      ->type_name("FILE");
  app.add_option("--probe", flags.probe,
                 "Also roles by this probe of `quire train roles`, on structured tasks")
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
  add_text_flag(app, flags);
  app.add_flag("--quick", flags.quick,
               "2 short documents of indented JSON, 10 and 20 %, and what roles cost: under a "
               "minute, small model");
  app.add_flag("--full", flags.full, "8 documents of each task, nested JSON as well");
}

void add_how(CLI::App& app, RolesFlags& flags) {
  app.add_option("--kv-type", flags.engine.kv_type, "How keys and values are stored")
      ->check(CLI::IsMember({"f16", "bf16", "f32"}))
      ->capture_default_str();
  add_resource_flags(app, flags);
  add_result_flags(app, flags,
                   "Results of finished inputs, and what attention ranks in LOG.jsonl.diagnosis; "
                   "given again,\nthey are not measured again",
                   "Also a line per arm and measure",
                   "Also a page with plots; of several models, a section each");
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

// Named by what the file holds, so that a log of another probe is another log.
Status add_probe(const std::string& path, const model::Model& model, eval::RolesOptions& options) {
  const Result<std::string> bytes = read_text(path);
  if (!bytes.ok()) return bytes.status();
  const Result<engine::RoleSource> probe = read_probe(*bytes, path, model);
  if (!probe.ok()) return probe.status();
  const std::string file = std::filesystem::path(path).filename().string();
  options.labels.push_back(
      {.name = "probe:" + file + "@" + engine::sha256_hex(*bytes).substr(0, 8),
       .roles = [probe = *probe](const model::Model& of, std::span<const model::Token> tokens) {
         return engine::prompt_roles(of, tokens, probe);
       }});
  return {};
}

// Not arranged yet: a probe is one of a model.
Result<eval::RolesOptions> options_of(const RolesFlags& flags) {
  eval::RolesOptions options;
  eval::PoliciesOptions& quality = options.tasks.quality;
  quality.keeps = shares_of(flags.keep);
  quality.tasks = tasks_of(flags);
  quality.seeds = flags.seeds;
  quality.inputs = {.tokens = flags.tokens,
                    .continuation = 64,
                    .needles = std::min(flags.questions, 4u),
                    .questions = flags.questions};
  quality.recent = flags.recent;
  if (Status status = apply(flags, quality); !status.ok()) return status;
  for (const std::string& path : flags.data) {
    Result<std::string> file = read_text(path);
    if (!file.ok()) return file.status();
    options.files.push_back({std::filesystem::path(path).filename().string(), *std::move(file)});
  }
  return options;
}

int eval_roles(const RolesFlags& flags) {
  if (flags.quick && flags.full) {
    complain("--quick, --full: one of them");
    return kExitUsage;
  }
  const auto evaluate = [&](model::Model& model, const CacheOptions& like,
                            eval::RolesOptions options) -> Result<eval::RolesReport> {
    if (!flags.probe.empty()) {
      if (Status status = add_probe(flags.probe, model, options); !status.ok()) return status;
    }
    eval::arrange(options);
    return eval::evaluate_roles(model, like, options);
  };
  return run_input_eval(
      flags, options_of(flags), [](auto& options) -> auto& { return options.tasks.quality; },
      evaluate);
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
