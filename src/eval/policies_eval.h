// `quire eval policies`: every arm on every input, at equal bytes.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "eval/inputs.h"
#include "eval/policies_report.h"
#include "quire/cache.h"

namespace quire::eval {

// Policies on some of the tasks.
struct Comparison {
  std::vector<Task> tasks;
  std::vector<std::string> policies;  // the full cache is always beside them
  std::vector<double> keeps;
  std::string labels{};  // Arm::labels of those
};

struct PoliciesOptions {
  std::string model_path;                 // for the fingerprint in the log
  std::vector<std::string> policies;      // anchors are added
  std::vector<double> keeps;              // shares in (0, 1) of what `equal` says
  std::vector<Comparison> comparisons{};  // instead of both, if there are any
  std::vector<LabelSource> labels{};      // that comparisons name
  std::vector<std::uint32_t> blocks;      // tokens of a block
  std::vector<Task> tasks;
  std::uint32_t seeds = 4;  // inputs of each task
  InputOptions inputs{};
  std::string text, text_name;   // prose and filler
  std::vector<Document> data{};  // of Task::kData
  std::string data_name{};
  bool blind = true, aware = true;  // questions behind a review, before one
  bool second = false;              // also another question on what an aware review left
  bool only_right = false;          // questions that the full cache answers alone
  bool oracle = true;           // the anchor that knows later rows, and takes a reading of its own
  Equal equal = Equal::kBytes;  // kBlocks: of the entries of `inputs.tokens`
  std::optional<std::uint32_t> recent{};  // protected by every arm, whatever its policy says
  bool statistics = false;                // also what gates would judge by
  std::size_t budget_bytes = 0;           // 0: what the arms are reckoned to need
  std::string log_path;                   // empty: none
  // Of what is measured so far: no more documents of this task are needed.
  std::function<bool(Task task, const std::vector<InputResult>& measured)> enough{};
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(double share, const std::string& doing)> on_progress{};
};

// Runs what the log does not have yet.  `like`: shape and element types of the cache; caches of
// this room are opened for the time of the call and attached to the model, which has none after.
Result<PoliciesReport> evaluate_policies(model::Model& model, const CacheOptions& like,
                                         const PoliciesOptions& options);

}  // namespace quire::eval
