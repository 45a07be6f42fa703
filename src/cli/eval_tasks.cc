// quire eval tasks: flags, progress, and where the results go.

#include <filesystem>
#include <memory>
#include <string>

#include "cli/cli.h"
#include "cli/eval_commands.h"
#include "cli/eval_flags.h"
#include "cli/run_flags.h"
#include "eval/data_file.h"
#include "eval/prose_tasks.h"
#include "eval/tasks_eval.h"

namespace quire::cli {
namespace {

struct TasksFlags : InputFlags {
  std::string policies = "h2o,snapkv,snapkv-ahead", keep = "5%,10%,20%,30%,50%", gates = "open";
  std::string tasks, data;
  std::uint32_t seeds = 4, tokens = 1024, continuation = 128, questions = 12, recent = 64;
  std::uint32_t digits = 5;
  bool quick = false, blind_only = false;
};

std::string check_gates(const std::string& list) {
  for (const std::string& name : split_list(list)) {
    const Result<eval::Gate> gate = eval::make_gate(name);
    if (!gate.ok()) return gate.status().message();
  }
  return {};
}

std::string about_tasks() {
  std::string text = "Of these (default: all, or --data alone):";
  for (const eval::TaskInfo& info : eval::kTasks) {
    if (info.task == eval::Task::kData) continue;
    const std::string name = info.name;
    text += "\n  " + name + std::string(16 - name.size(), ' ') + info.about;
  }
  return text;
}

void add_what(CLI::App& app, TasksFlags& flags) {
  add_model_flag(app, flags.engine)->required();
  app.add_option("--tasks", flags.tasks, about_tasks())->type_name("TASK,...")->check(check_tasks);
  app.add_option("--data", flags.data,
                 "Questions of yours, a JSON object a line: quire's own shape (document,\n"
                 "questions), RULER, LongChat lines, lost-in-the-middle keys, LongBench")
      ->type_name("FILE.jsonl");
  app.add_option(
         "--policies", flags.policies,
         "NAME or NAME:key=value,..., separated by commas; all: those of `quire policies`;\n"
         "full, oracle, sink-recency, random and prompt-random always run")
      ->type_name("NAME,...")
      ->check(check_policies)
      ->capture_default_str();
  app.add_option("--keep", flags.keep, "Shares of the document's tokens")
      ->type_name("P%,...")
      ->check(check_shares)
      ->capture_default_str();
  app.add_option("--gates", flags.gates,
                 "What may refuse a review: open (never), closed, oracle, random:P%")
      ->type_name("GATE,...")
      ->check(check_gates)
      ->capture_default_str();
  add_number(app, "--seeds", flags.seeds, 1u, 10000u, "Documents of each task");
  add_number(app, "--tokens", flags.tokens, 128u, 1u << 20, "Tokens of a document");
  add_number(app, "--questions", flags.questions, 1u, 256u, "Questions of a document, at most");
  add_number(app, "--digits", flags.digits, 1u, eval::kDigitsMost,
             "Digits of a number that is hidden in prose (single, needle)");
  add_number(app, "--continuation", flags.continuation, 2u, 1u << 16, "Tokens of prose after it");
  add_number(app, "--recent", flags.recent, 0u, 4096u, "Newest entries that every arm keeps");
  add_text_flag(app, flags);
  app.add_flag("--blind-only", flags.blind_only,
               "Leave out the reviews that come after the question");
  app.add_flag(
      "--quick", flags.quick,
      "Two documents of four tasks, one share, no oracle: under three minutes, small model");
}

void add_how(CLI::App& app, TasksFlags& flags) {
  app.add_option("--kv-type", flags.engine.kv_type, "How keys and values are stored")
      ->check(CLI::IsMember({"f16", "bf16", "f32"}))
      ->capture_default_str();
  add_resource_flags(app, flags);
  add_result_flags(app, flags,
                   "Results of finished inputs; given again, they are not measured again",
                   "Also a line per arm and measure");
}

// --quick stands for what was not given.
void settle(const CLI::App& app, TasksFlags& flags) {
  if (!flags.quick) return;
  const auto given = [&](const char* flag) { return app.count(flag) > 0; };
  if (!given("--keep")) flags.keep = "25%";
  if (!given("--tasks") && flags.data.empty()) flags.tasks = "prose,drift,needle,json";
  if (!given("--seeds")) flags.seeds = 2;
  if (!given("--tokens")) flags.tokens = 512;
  if (!given("--questions")) flags.questions = 6;
  if (!given("--continuation")) flags.continuation = 48;
  if (!given("--recent")) flags.recent = 32;
}

Result<std::vector<eval::Document>> data_of(const std::string& file) {
  if (file.empty()) return std::vector<eval::Document>{};
  const Result<std::string> text = read_text(file);
  if (!text.ok()) return text.status();
  return eval::read_documents(*text, file);
}

std::vector<eval::Task> chosen_tasks(const TasksFlags& flags) {
  std::vector<eval::Task> tasks;
  if (!flags.tasks.empty()) tasks = tasks_of(flags.tasks);
  const bool all = flags.tasks.empty() && flags.data.empty();
  for (const eval::TaskInfo& info : eval::kTasks) {
    const bool data = info.task == eval::Task::kData;
    if (data ? !flags.data.empty() : all) tasks.push_back(info.task);
  }
  return tasks;
}

Result<eval::TasksOptions> options_of(const TasksFlags& flags) {
  eval::TasksOptions options{.quality = {.policies = policies_of(flags.policies),
                                         .keeps = shares_of(flags.keep),
                                         .tasks = chosen_tasks(flags),
                                         .seeds = flags.seeds,
                                         .aware = !flags.blind_only,
                                         .oracle = !flags.quick,
                                         .recent = flags.recent},
                             .gates = split_list(flags.gates)};
  eval::PoliciesOptions& quality = options.quality;
  quality.inputs = {.tokens = flags.tokens,
                    .continuation = flags.continuation,
                    .needles = std::min(flags.questions, eval::needles_most(flags.digits)),
                    .digits = flags.digits,
                    .questions = flags.questions};
  if (Status status = apply(flags, quality); !status.ok()) return status;
  Result<std::vector<eval::Document>> data = data_of(flags.data);
  if (!data.ok()) return data.status();
  quality.data = *std::move(data);
  quality.data_name = std::filesystem::path(flags.data).filename().string();
  eval::arrange(options);
  return options;
}

int eval_tasks(const TasksFlags& flags) {
  return run_input_eval(
      flags, options_of(flags), [](auto& options) -> auto& { return options.quality; },
      eval::evaluate_tasks);
}

}  // namespace

Command add_eval_tasks(CLI::App& app) {
  auto flags = std::make_shared<TasksFlags>();
  add_what(app, *flags);
  add_how(app, *flags);
  return [flags, &app] {
    settle(app, *flags);
    return eval_tasks(*flags);
  };
}

}  // namespace quire::cli
