#include "cli/eval_flags.h"

#include "cli/eval_texts.h"
#include "engine/budget.h"
#include "eval/arms.h"
#include "quire/policy.h"

namespace quire::cli {
namespace {

constexpr const char* kAll = "all";

}  // namespace

std::string check_policies(const std::string& list) {
  if (list == kAll) return {};
  for (const std::string& name : eval::split_policies(list)) {
    if (name == eval::kFull || name == eval::kOracle) continue;
    const Result<Policy> policy = make_policy(name);
    if (!policy.ok()) return policy.status().message();
  }
  return {};
}

std::string check_shares(const std::string& list) {
  for (const std::string& piece : split_list(list)) {
    const Result<engine::Keep> keep = engine::parse_keep(piece);
    const bool share =
        keep.ok() && keep->unit == engine::Keep::Unit::kPercent && keep->amount < 100;
    if (!share) return "\"" + piece + "\" is not a share of the full cache such as 25%, under 100%";
  }
  return {};
}

std::string check_tasks(const std::string& list) {
  for (const std::string& piece : split_list(list)) {
    const std::optional<eval::Task> task = eval::parse_task(piece);
    if (!task || *task == eval::Task::kData) {
      return "\"" + piece + "\" is none of " + task_names();
    }
  }
  return {};
}

std::string check_bytes(const std::string& text) {
  const Result<std::size_t> bytes = engine::parse_bytes(text);
  return bytes.ok() ? std::string() : bytes.status().message();
}

std::vector<std::string> policies_of(const std::string& list) {
  if (list != kAll) return eval::split_policies(list);
  std::vector<std::string> all;
  for (const PolicyInfo& info : list_policies()) all.push_back(info.name);
  std::erase(all, eval::kFull);
  return all;
}

std::vector<double> shares_of(const std::string& list) {
  std::vector<double> shares;
  for (const std::string& piece : split_list(list)) {
    shares.push_back(engine::parse_keep(piece)->amount / 100);
  }
  return shares;
}

std::vector<eval::Task> tasks_of(const std::string& list) {
  std::vector<eval::Task> tasks;
  for (const std::string& piece : split_list(list)) tasks.push_back(*eval::parse_task(piece));
  return tasks;
}

std::string task_names() {
  std::string names;
  for (const eval::TaskInfo& info : eval::kTasks) {
    if (info.task != eval::Task::kData)
      names += (names.empty() ? "" : ", ") + std::string(info.name);
  }
  return names;
}

void add_text_flag(CLI::App& app, InputFlags& flags) {
  app.add_option("--text", flags.text,
                 "Prose, one paragraph a line (default: openings of two novels, 16,000 tokens)")
      ->type_name("FILE");
}

void add_resource_flags(CLI::App& app, InputFlags& flags) {
  add_number(app, "-t,--threads", flags.engine.threads, 0u, 256u,
             "Threads; 0: the machine's cores");
  app.add_option("--budget", flags.engine.budget, "Bytes of the cache (default: what arms need)")
      ->type_name("SIZE")
      ->check(check_bytes);
}

void add_result_flags(CLI::App& app, InputFlags& flags, const std::string& log,
                      const std::string& csv, const std::string& report) {
  app.add_option("-o,--log", flags.log, log)->type_name("LOG.jsonl");
  app.add_flag("--json", flags.json, "One JSON object instead of a table");
  app.add_option("--csv", flags.csv, csv)->type_name("FILE");
  app.add_option("--report", flags.report, report)->type_name("DIR");
}

Status apply(const InputFlags& flags, eval::PoliciesOptions& options) {
  options.model_path = flags.engine.model;
  options.log_path = flags.log;
  if (!flags.engine.budget.empty()) {
    options.budget_bytes = *engine::parse_bytes(flags.engine.budget);
  }
  Result<EvalText> text = read_eval_text(flags.text);
  if (!text.ok()) return text.status();
  options.text = std::move(text->text);
  options.text_name = std::move(text->name);
  return {};
}

int eval_stopped(const Status& status, bool json, const std::string& log) {
  const char* advice = "";
  if (status.code() == Code::kCancelled && !log.empty()) {
    advice = "; the same command goes on after the last finished document";
  }
  if (status.code() == Code::kOutOfMemory) {
    advice = "; --budget gives the cache more, fewer --policies or --tokens need less";
  }
  return eval_failed(status, json, advice);
}

}  // namespace quire::cli
