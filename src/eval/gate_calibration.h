// `quire train gate`: where a model's statistic lies on prompts that nobody labelled, or between
// two kinds of prompts of known need (arXiv 2609.22157: z mode, labelled mode).
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "engine/gate.h"
#include "eval/inputs.h"
#include "eval/measure.h"

namespace quire::eval {

// Documents that are made for calibration have seeds from here on: none that an evaluation asks.
inline constexpr std::uint32_t kCalibrationSeed = 1u << 20;

struct GateCalibrationOptions {
  Statistic statistic = Statistic::kPageD;
  engine::GateMode mode = engine::GateMode::kZ;
  std::optional<double> threshold{};  // none: PAGE's; kLabelled finds its own, kSigned: 0
  std::uint32_t prompts = 112;        // at least; of_two_kinds(): 20 of each, at least
  std::uint32_t tokens = 768;         // of a prompt, about
  // Prompts are cut from these; none: one of each form that evaluations know, in turn, around
  // `filler`.
  std::vector<std::string> texts{};
  std::string filler{};
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(double share, const std::string& doing)> on_progress{};
};

struct GateCalibrationResult {
  engine::GateCalibration calibration;
  std::uint32_t prompts = 0;
  std::vector<double> values{};  // of each
};

// A mean and a deviation (of a sample), or a threshold half way between the means of `keys` (every
// entry is needed) and `chain` (they are not), or both.  kInvalidArgument: the texts are too short,
// or all prompts have one value.
Result<GateCalibrationResult> calibrate_gate(model::Model& model, const CacheOptions& like,
                                             const GateCalibrationOptions& options);

// Every statistic of `each` made prompts of every task, of calibration's seeds.
struct LabelledValues {
  Task task{};
  GateValues values{};
};
Result<std::vector<LabelledValues>> calibration_values(model::Model& model,
                                                       const CacheOptions& like,
                                                       const std::vector<Task>& tasks,
                                                       std::uint32_t each,
                                                       const GateCalibrationOptions& options);

// From values alone.
Result<engine::GateCalibration> calibration_of(const GateCalibrationOptions& options,
                                               const std::vector<double>& values);

}  // namespace quire::eval
