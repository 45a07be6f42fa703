// One input under every arm: what each keeps, what that costs in bytes, and how far its answers are
// from the full cache's.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "eval/arms.h"
#include "eval/inputs.h"
#include "eval/row_score.h"
#include "eval/shadow.h"

namespace quire::eval {

// Whether the question was read before the review (its rows can point at the fact) or after it.
enum class View : std::uint8_t { kBlind, kAware };
const char* name_of(View view);

struct QuestionScore {
  bool right = false, full_right = false;  // greedy, judged by the task's own checker
  double log_p = 0, full_log_p = 0;        // nats per answer token, teacher-forced
  double kl = 0;                           // nats, mean over the answer's rows
};

struct ProseScore {
  double nll = 0, full_nll = 0, kl = 0, same_top = 0;  // means over the rows
  std::uint32_t rows = 0;
};

struct ArmResult {
  Arm arm;
  std::uint32_t entries = 0;    // a lane, on average, as asked of the review
  double kept_mean = 0;         // a lane, as found after it
  std::uint64_t bytes = 0;      // of the sequence, all metadata counted, were it alone
  std::uint64_t target = 0;     // bytes it was to have; the full arm's for the full arm
  bool reachable = true;        // false: even its smallest keep is over the target
  bool only_protected = false;  // entries are no more than sinks + recent: no choice was made
  ProseScore prose;
  std::vector<QuestionScore> blind, aware;
};

struct InputResult {
  Task task = Task::kProse;
  std::uint32_t seed = 0, block_tokens = 16;
  std::uint32_t tokens = 0;  // of the document
  std::uint64_t full_bytes = 0;
  std::uint64_t grain_bytes = 0;  // a block of every full-attention lane
  std::vector<ArmResult> arms;
};

struct MeasureOptions {
  std::vector<Arm> arms;
  std::uint32_t chunk = 512;
  bool aware = true;  // also read each question before a review
  // Not 0: arms of one share keep that share of so many entries, to a whole block, whatever the
  // document's length; their target is the bytes of the first of them.  Else their entries are
  // sought that take that share of the document's bytes.
  std::uint32_t entries_of = 0;
};

// Steps of one model on one cache.  Both are the caller's and outlive it.
class Examiner {
 public:
  Examiner(model::Model& model, Cache& cache, Shadow& shadow, MeasureOptions options);

  // kCancelled when `cancel` was raised; other refusals name the arm.
  Result<InputResult> examine(
      Task task, std::uint32_t seed, const Input& input, const std::atomic<bool>* cancel,
      const std::function<void(double share, const std::string& doing)>& on_progress);

 private:
  model::Model& model_;
  Cache& cache_;
  Shadow& shadow_;
  const MeasureOptions options_;
};

}  // namespace quire::eval
