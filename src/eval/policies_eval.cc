#include "eval/policies_eval.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "engine/budget.h"
#include "eval/examination.h"
#include "eval/result_json.h"

namespace quire::eval {
namespace {

constexpr std::size_t kMi = std::size_t{1} << 20;
constexpr std::uint32_t kRows = 512;  // of a step

Json comparisons_json(const std::vector<Comparison>& comparisons) {
  Json list = Json::array();
  for (const Comparison& one : comparisons) {
    Json tasks = Json::array();
    for (const Task task : one.tasks) tasks.push_back(name_of(task));
    list.push_back({{"tasks", tasks}, {"policies", one.policies}, {"keeps", one.keeps}});
    if (!one.labels.empty()) list.back()["labels"] = one.labels;
  }
  return list;
}

// The arms of one task; kInvalidArgument: a policy that make_policy refuses.
Result<std::vector<Arm>> arms_of(Task task, const PoliciesOptions& options) {
  if (options.comparisons.empty()) {
    const Result<std::vector<std::string>> policies =
        with_anchors(options.policies, options.oracle);
    if (!policies.ok()) return policies.status();
    return cross_arms(*policies, options.keeps);
  }
  std::vector<Arm> arms = {{kFull, 1}};
  for (const Comparison& one : options.comparisons) {
    if (std::ranges::find(one.tasks, task) == one.tasks.end()) continue;
    for (Arm& arm : cross_arms(one.policies, one.keeps)) {
      if (const Result<Policy> made = make_policy(arm.policy); !made.ok()) return made.status();
      arm.labels = one.labels;
      if (std::ranges::find(arms, arm) == arms.end()) arms.push_back(std::move(arm));
    }
  }
  return arms;
}

Json header_of(const model::Model& model, const std::string& fingerprint,
               const PoliciesOptions& options, const std::vector<Arm>& arms) {
  std::vector<std::string> policies;
  for (const Arm& arm : arms) {
    if (std::ranges::find(policies, arm.policy) == policies.end()) policies.push_back(arm.policy);
  }
  const model::ModelInfo& info = model.info();
  Json header = {{"quire_json", 1},
                 {"log", "eval policies"},
                 {"version", 5},  // of the lines
                 {"model",
                  {{"name", info.name},
                   {"quantization", info.quantization},
                   {"file_bytes", info.file_bytes},
                   {"fingerprint", fingerprint}}},
                 {"options",
                  {{"policies", policies},
                   {"keeps", options.keeps},
                   {"tokens", options.inputs.tokens},
                   {"continuation", options.inputs.continuation},
                   {"needles", options.inputs.needles},
                   {"digits", options.inputs.digits},
                   {"questions", options.inputs.questions},
                   {"aware", options.aware},
                   {"text", options.text_name},
                   {"text_bytes", options.text.size()}}}};
  Json& settings = header["options"];
  if (!options.comparisons.empty()) {
    settings["comparisons"] = comparisons_json(options.comparisons);
  }
  if (options.equal == Equal::kBlocks) settings["equal"] = "entries";
  if (options.equal == Equal::kTokens) settings["equal"] = "tokens";
  if (!options.blind) settings["blind"] = false;
  if (options.second) settings["second"] = true;
  if (options.only_right) settings["only_right"] = true;
  if (options.recent) settings["recent"] = *options.recent;
  if (options.statistics) settings["statistics"] = true;
  if (!options.data.empty()) {
    settings["data"] = options.data_name;
    settings["data_documents"] = options.data.size();
  }
  return header;
}

// Bytes that one input needs at once: its readings, and what each arm of a step holds alone.
std::size_t reckoned_budget(const CacheOptions& like, const InputSizes& sizes,
                            const std::vector<Arm>& compared, bool statistics) {
  // A reading for each kind of needs, the oracle's, and one on its way.
  std::vector<Needs> needs;
  for (const Arm& arm : compared) {
    const Result<Policy> policy = make_policy(arm.policy);
    if (!policy.ok()) continue;
    // As the arms read: what is computed at a review needs no reading of its own.
    const Needs read = policy->needs.watches() ? policy->needs : Needs{};
    if (std::ranges::find(needs, read) == needs.end()) needs.push_back(read);
  }
  if (statistics) needs.push_back({.gate_rows = kGateRows});
  const std::size_t arms = compared.size(), readings = needs.size() + 3;
  const std::uint32_t added = sizes.after + 2 * 64;
  const std::size_t reading =
      engine::kv_bytes(like, sizes.document + added, like.max_rows) * readings;
  const std::size_t alone = engine::kv_bytes(like, added, like.max_rows) * (arms + 1);
  // Tables and sums of arms that were cut are a tenth of what they were cut from.
  const std::size_t tables =
      engine::kv_bytes(like, sizes.document, like.max_rows) / 10 * (arms + 1);
  return (reading + alone + tables) / kMi * kMi + 64 * kMi;
}

class Evaluation {
 public:
  Evaluation(model::Model& model, const CacheOptions& like, const PoliciesOptions& options)
      : model_(model),
        like_(like),
        options_(options),
        maker_(model, options.text, options.inputs, options.data) {
    like_.max_rows = kRows;
  }

  Status run();
  PoliciesReport report() const;

 private:
  struct Job {
    Task task;
    std::uint32_t seed, block;
  };
  Status continue_log();
  std::vector<Job> open_jobs() const;
  Status open_caches(std::uint32_t block);
  Result<InputResult> examine(const Job& job, const Examination::Progress& on_progress);
  bool done(const Job& job) const;

  model::Model& model_;
  CacheOptions like_;
  const PoliciesOptions& options_;
  const InputMaker maker_;
  InputSizes sizes_;
  std::map<Task, std::vector<Arm>> arms_;
  std::vector<Arm> all_arms_;  // of all tasks, each once
  Json header_;
  std::optional<Log> log_;
  std::vector<InputResult> results_;
  std::unique_ptr<Cache> cache_;
  std::optional<Shadow> shadow_;
};

bool Evaluation::done(const Job& job) const {
  return std::ranges::any_of(results_, [&](const InputResult& result) {
    return result.task == job.task && result.seed == job.seed && result.block_tokens == job.block;
  });
}

Status Evaluation::continue_log() {
  const Result<std::string> fingerprint = file_fingerprint(options_.model_path);
  if (!fingerprint.ok()) return fingerprint.status();
  for (const Task task : options_.tasks) {
    Result<std::vector<Arm>> arms = arms_of(task, options_);
    if (!arms.ok()) return arms.status();
    for (const Arm& arm : *arms) {
      if (std::ranges::find(all_arms_, arm) == all_arms_.end()) all_arms_.push_back(arm);
    }
    arms_[task] = *std::move(arms);
  }
  header_ = header_of(model_, *fingerprint, options_, all_arms_);
  Result<Log> log = Log::open(options_.log_path, header_);
  if (!log.ok()) return log.status();
  log_ = *std::move(log);
  for (std::size_t i = 0; i < log_->finished().size(); ++i) {
    std::optional<InputResult> result = result_of(log_->finished()[i]);
    if (!result) {
      return {Code::kCorrupt, options_.log_path + ":" + std::to_string(i + 2) +
                                  ": not an input's results; name another log, or remove the line"};
    }
    results_.push_back(*std::move(result));
  }
  return {};
}

std::vector<Evaluation::Job> Evaluation::open_jobs() const {
  std::vector<Job> jobs;
  for (const std::uint32_t block : options_.blocks) {
    for (std::uint32_t seed = 0; seed < options_.seeds; ++seed) {
      for (const Task task : options_.tasks) {
        if (seed < maker_.count(task, options_.seeds) && !done({task, seed, block}))
          jobs.push_back({task, seed, block});
      }
    }
  }
  return jobs;
}

Status Evaluation::open_caches(std::uint32_t block) {
  if (cache_ && cache_->options().block_tokens == block) return {};
  cache_.reset();
  like_.block_tokens = block;
  like_.budget_bytes = options_.budget_bytes != 0
                           ? options_.budget_bytes
                           : reckoned_budget(like_, sizes_, all_arms_, options_.statistics);
  Result<std::unique_ptr<Cache>> cache = Cache::open(like_);
  if (!cache.ok()) return cache.status();
  cache_ = *std::move(cache);
  Result<Shadow> shadow = Shadow::open(like_, sizes_.document);
  if (!shadow.ok()) return shadow.status();
  shadow_ = *std::move(shadow);
  return model_.attach(*cache_);
}

Result<InputResult> Evaluation::examine(const Job& job, const Examination::Progress& on_progress) {
  Examiner examiner(model_, *cache_, *shadow_,
                    {.arms = arms_[job.task],
                     .chunk = kRows,
                     .blind = options_.blind,
                     .aware = options_.aware,
                     .second = options_.second,
                     .only_right = options_.only_right,
                     .equal = options_.equal,
                     .entries_of = options_.inputs.tokens,
                     .recent = options_.recent,
                     .labels = options_.labels,
                     .statistics = options_.statistics});
  return examiner.examine(job.task, job.seed, maker_.make(job.task, job.seed), options_.cancel,
                          on_progress);
}

Status Evaluation::run() {
  if (Status status = maker_.check(options_.tasks, options_.seeds); !status.ok()) return status;
  if (Status status = continue_log(); !status.ok()) return status;
  sizes_ = sizes_of(maker_, options_.tasks, options_.seeds);
  const std::vector<Job> jobs = open_jobs();
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const Job& job = jobs[i];
    if (options_.enough && options_.enough(job.task, results_)) continue;
    if (Status status = open_caches(job.block); !status.ok()) return status;
    const std::string name = std::string(name_of(job.task)) + " " + std::to_string(job.seed);
    const Result<InputResult> result = examine(job, [&](double share, const std::string& doing) {
      if (!options_.on_progress) return;
      options_.on_progress((static_cast<double>(i) + share) / static_cast<double>(jobs.size()),
                           name + ": " + doing);
    });
    if (!result.ok()) return result.status();
    if (Status status = log_->append(to_json(*result)); !status.ok()) return status;
    results_.push_back(*result);
  }
  return {};
}

PoliciesReport Evaluation::report() const {
  PoliciesReport report{
      .header = header_,
      .model_file = std::filesystem::path(options_.model_path).filename().string()};
  std::vector<InputResult> asked;
  for (const InputResult& result : results_) {
    const bool wanted =
        result.seed < options_.seeds &&
        std::ranges::find(options_.tasks, result.task) != options_.tasks.end() &&
        std::ranges::find(options_.blocks, result.block_tokens) != options_.blocks.end();
    if (wanted) asked.push_back(result);
  }
  // A continued log's order is that of its runs; tables have one order.
  std::ranges::stable_sort(
      asked, {}, [](const InputResult& r) { return std::tuple(r.block_tokens, r.task, r.seed); });
  report.inputs = static_cast<std::uint32_t>(asked.size());
  report.summary = summarise(asked);
  report.results = std::move(asked);
  return report;
}

}  // namespace

Result<PoliciesReport> evaluate_policies(model::Model& model, const CacheOptions& like,
                                         const PoliciesOptions& options) {
  Evaluation evaluation(model, like, options);
  if (Status status = evaluation.run(); !status.ok()) return status;
  return evaluation.report();
}

}  // namespace quire::eval
