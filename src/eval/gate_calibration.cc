#include "eval/gate_calibration.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/budget.h"
#include "eval/sequences.h"

namespace quire::eval {
namespace {

using engine::GateMode;
using model::Token;

constexpr std::uint32_t kRows = 512;  // of a step
constexpr std::uint32_t kPromptsLeast = 20;
constexpr std::uint32_t kQuestions = 8;

Status invalid(const std::string& text) {
  return {Code::kInvalidArgument, text};
}

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// A document with one of its questions: what a user sends.
std::vector<Token> made_prompt(const InputMaker& maker, Task task, std::uint32_t seed) {
  const Input input = maker.make(task, kCalibrationSeed + seed);
  std::vector<Token> prompt = input.document;
  if (input.asked.empty()) {
    const auto quotes = input.continuation.size() - input.scored;
    prompt.insert(prompt.end(), input.continuation.begin(),
                  input.continuation.begin() + static_cast<std::ptrdiff_t>(quotes));
  } else {
    const std::vector<Token>& question = input.asked[seed % input.asked.size()].prompt;
    prompt.insert(prompt.end(), question.begin(), question.end());
  }
  return prompt;
}

// Pieces of a text at even distances; they overlap where it is short.
Status cut_prompts(const model::Model& model, const std::string& text, std::uint32_t count,
                   std::uint32_t tokens, std::vector<std::vector<Token>>& prompts) {
  const std::vector<Token> begin = model.tokenize("", true, false);
  const std::vector<Token> all = model.tokenize(text, false, false);
  if (all.size() < tokens + std::size_t{count}) {
    return invalid("a text of " + std::to_string(all.size()) + " tokens is too short for " +
                   std::to_string(count) + " prompts of " + std::to_string(tokens) +
                   ": give longer texts, or fewer tokens");
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t at = (all.size() - tokens) * i / std::max(1u, count - 1);
    prompts.push_back(begin);
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(at);
    prompts.back().insert(prompts.back().end(), first, first + tokens);
  }
  return {};
}

std::vector<Task> mixed_tasks() {
  std::vector<Task> tasks;
  for (const TaskInfo& info : kTasks) {
    if (info.task != Task::kData && info.task != Task::kProse) tasks.push_back(info.task);
  }
  return tasks;
}

Result<std::vector<std::vector<Token>>> make_prompts(const model::Model& model,
                                                     const GateCalibrationOptions& options) {
  std::vector<std::vector<Token>> prompts;
  if (!engine::of_two_kinds(options.mode) && !options.texts.empty()) {
    const auto texts = static_cast<std::uint32_t>(options.texts.size());
    for (const std::string& text : options.texts) {
      const std::uint32_t each = (options.prompts + texts - 1) / texts;
      Status status = cut_prompts(model, text, each, options.tokens, prompts);
      if (!status.ok()) return status;
    }
    return prompts;
  }
  const InputOptions shape{.tokens = options.tokens, .questions = kQuestions};
  const std::vector<Document> no_data;
  const InputMaker maker(model, options.filler, shape, no_data);
  const bool two_kinds = engine::of_two_kinds(options.mode);
  const std::vector<Task> tasks =
      two_kinds ? std::vector<Task>{Task::kKeys, Task::kChain} : mixed_tasks();
  if (Status status = maker.check(tasks, 1); !status.ok()) return status;
  const auto kinds = static_cast<std::uint32_t>(tasks.size());
  // Prose is one of the forms.
  const std::uint32_t all = two_kinds ? 2 * std::max(kPromptsLeast, options.prompts / 2)
                                      : std::max(kPromptsLeast, options.prompts);
  const std::uint32_t prose = two_kinds ? 0 : all / (kinds + 1);
  for (std::uint32_t i = 0; i + prose < all; ++i) {
    prompts.push_back(made_prompt(maker, tasks[i % kinds], i / kinds));
  }
  if (prose == 0) return prompts;
  Status status = cut_prompts(model, options.filler, prose, options.tokens, prompts);
  if (!status.ok()) return status;
  return prompts;
}

// Reads prompt after prompt; `take` is told each one's number and how to measure it.
using Measured = std::function<Result<double>(Statistic statistic)>;
Status read_prompts(model::Model& model, const CacheOptions& like,
                    const std::vector<std::vector<Token>>& prompts,
                    const GateCalibrationOptions& options,
                    const std::function<Status(std::size_t prompt, const Measured&)>& take) {
  std::size_t longest = 0;
  for (const std::vector<Token>& prompt : prompts) longest = std::max(longest, prompt.size());
  if (longest > model.info().context) {
    return invalid("tokens: a prompt has " + std::to_string(longest) +
                   " tokens, the model's context " + std::to_string(model.info().context));
  }
  CacheOptions shape = like;
  shape.max_rows = kRows;
  shape.budget_bytes =
      engine::budget_for(shape, {.gate_rows = kGateRows}, static_cast<std::uint32_t>(longest));
  Result<std::unique_ptr<Cache>> cache = Cache::open(shape);
  if (!cache.ok()) return cache.status();
  if (Status status = model.attach(**cache); !status.ok()) return status;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (options.cancel != nullptr && options.cancel->load()) return {Code::kCancelled, "cancelled"};
    if (options.on_progress) {
      options.on_progress(
          static_cast<double>(i) / static_cast<double>(prompts.size()),
          "prompt " + std::to_string(i + 1) + " of " + std::to_string(prompts.size()));
    }
    const Result<Held> sequence = Held::start(**cache, {.gate_rows = kGateRows});
    if (!sequence.ok()) return sequence.status();
    const ReadOptions reading{.chunk = kRows, .gate_rows = kGateRows};
    if (Status status = read(model, *sequence, prompts[i], reading); !status.ok()) return status;
    const Status status = take(i, [&](Statistic statistic) {
      return (*cache)->measure(sequence->id(), statistic,
                               [&](const PartWork& work) { model.run_parts(work); });
    });
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace

Result<engine::GateCalibration> calibration_of(const GateCalibrationOptions& options,
                                               const std::vector<double>& values) {
  engine::GateCalibration found{.statistic = options.statistic, .mode = options.mode};
  const auto nothing_to_tell_by = [] {
    return invalid("the statistic has one value on all prompts: there is nothing to tell them by");
  };
  if (engine::of_two_kinds(options.mode)) {  // in turn, as many of each
    double sum[2] = {};
    for (std::size_t i = 0; i < values.size(); ++i) sum[i % 2] += values[i];
    found.mean = (sum[0] + sum[1]) / static_cast<double>(values.size());
    if (options.mode == GateMode::kLabelled) {
      found.threshold = options.threshold.value_or(found.mean);
      return found;
    }
    found.deviation = (sum[1] - sum[0]) / static_cast<double>(values.size());
    found.threshold = options.threshold.value_or(0);
    if (found.deviation == 0) return nothing_to_tell_by();
    return found;
  }
  const bool page = options.statistic == Statistic::kPageD;
  if (options.mode == GateMode::kRaw && !page && !options.threshold) {
    return invalid(std::string("threshold: ") + info_of(options.statistic).name +
                   " has no published one; give it, or use the mode z, labelled or signed");
  }
  found.threshold =
      options.threshold.value_or(options.mode == GateMode::kZ ? engine::kGateZ : engine::kPageTau);
  found.mean = mean_of(values);
  double squares = 0;
  for (const double value : values) squares += (value - found.mean) * (value - found.mean);
  found.deviation =
      std::sqrt(squares / static_cast<double>(std::max<std::size_t>(2, values.size()) - 1));
  if (options.mode == GateMode::kZ && !(found.deviation > 0)) {
    return nothing_to_tell_by();
  }
  return found;
}

Result<GateCalibrationResult> calibrate_gate(model::Model& model, const CacheOptions& like,
                                             const GateCalibrationOptions& options) {
  const Result<std::vector<std::vector<Token>>> prompts = make_prompts(model, options);
  if (!prompts.ok()) return prompts.status();
  GateCalibrationResult result;
  const auto take = [&](std::size_t, const Measured& measured) -> Status {
    const Result<double> value = measured(options.statistic);
    if (!value.ok()) return value.status();
    result.values.push_back(*value);
    return {};
  };
  if (Status status = read_prompts(model, like, *prompts, options, take); !status.ok()) {
    return status;
  }
  result.prompts = static_cast<std::uint32_t>(result.values.size());
  const Result<engine::GateCalibration> found = calibration_of(options, result.values);
  if (!found.ok()) return found.status();
  result.calibration = *found;
  return result;
}

Result<std::vector<LabelledValues>> calibration_values(model::Model& model,
                                                       const CacheOptions& like,
                                                       const std::vector<Task>& tasks,
                                                       std::uint32_t each,
                                                       const GateCalibrationOptions& options) {
  const std::vector<Document> no_data;
  const InputMaker maker(model, options.filler, {.tokens = options.tokens, .questions = kQuestions},
                         no_data);
  if (Status status = maker.check(tasks, 1); !status.ok()) return status;
  std::vector<std::vector<Token>> prompts;
  for (const Task task : tasks) {
    for (std::uint32_t i = 0; i < each; ++i) prompts.push_back(made_prompt(maker, task, i));
  }
  std::vector<LabelledValues> found;
  const auto take = [&](std::size_t prompt, const Measured& measured) -> Status {
    LabelledValues labelled{.task = tasks[prompt / each]};
    for (const StatisticInfo& info : kStatistics) {
      const Result<double> value = measured(info.statistic);
      if (!value.ok()) return value.status();
      labelled.values[static_cast<std::size_t>(info.statistic)] = *value;
    }
    found.push_back(labelled);
    return {};
  };
  if (Status status = read_prompts(model, like, prompts, options, take); !status.ok()) {
    return status;
  }
  return found;
}

}  // namespace quire::eval
