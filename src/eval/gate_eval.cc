#include "eval/gate_eval.h"

#include <algorithm>
#include <utility>

namespace quire::eval {

std::size_t answered_of(const InputResult& input) {
  if (input.arms.empty()) return 0;
  const auto right = std::ranges::count(input.arms[0].aware, true, &QuestionScore::full_right);
  return static_cast<std::size_t>(right);
}

std::size_t answered_of(NeedClass need, const std::vector<InputResult>& measured) {
  std::size_t answered = 0;
  for (const InputResult& input : measured) {
    if (class_of(input.task) == need) answered += answered_of(input);
  }
  return answered;
}

void arrange_gates(GateEvalOptions& options) {
  PoliciesOptions& quality = options.quality;
  quality.equal = Equal::kTokens;
  quality.blocks = {16};
  quality.blind = false;
  quality.aware = true;
  quality.second = false;
  quality.only_right = true;
  quality.oracle = false;
  quality.statistics = true;
}

Result<GateReport> evaluate_gates(model::Model& model, const CacheOptions& like,
                                  const GateEvalOptions& options) {
  const PoliciesOptions& quality = options.quality;
  if (std::ranges::any_of(quality.tasks, continues)) {
    return Status(Code::kInvalidArgument,
                  "tasks: prose and drift ask nothing that a gate prevents");
  }
  std::vector<Task> made = quality.tasks;
  std::erase(made, Task::kData);
  const Result<std::vector<LabelledValues>> calibration =
      calibration_values(model, like, made, options.calibration_prompts,
                         {.tokens = quality.inputs.tokens,
                          .filler = quality.text,
                          .cancel = quality.cancel,
                          .on_progress = quality.on_progress});
  if (!calibration.ok()) return calibration.status();
  PoliciesOptions until = quality;
  if (options.right_most != 0) {
    until.enough = [&](Task task, const std::vector<InputResult>& all) {
      return answered_of(class_of(task), all) >= options.right_most;
    };
  }
  Result<PoliciesReport> measured = evaluate_policies(model, like, until);
  if (!measured.ok()) return measured.status();
  GateReport report{.quality = *std::move(measured),
                    .calibration_prompts = options.calibration_prompts};
  report.gates = summarise_gates(*calibration, report.quality.results);
  return report;
}

}  // namespace quire::eval
