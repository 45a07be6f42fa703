// One input under every arm: what each keeps, what that costs in bytes, and how far its answers are
// from the full cache's.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "eval/arms.h"
#include "eval/inputs.h"
#include "eval/labels.h"
#include "eval/row_score.h"
#include "eval/shadow.h"
#include "quire/gate.h"

namespace quire::eval {

// Whether the question was read before the review (aware: its rows can point at the fact) or after
// it (blind); or a second question behind the answer of one that was read before (second): what
// was kept for one question must serve another.
enum class View : std::uint8_t { kBlind, kAware, kSecond };
inline constexpr View kViews[] = {View::kBlind, View::kAware, View::kSecond};
const char* name_of(View view);

// What arms of one share have in common.
enum class Equal : std::uint8_t {
  kBytes,   // that share of the document's bytes: entries are sought that take them
  kBlocks,  // that share of MeasureOptions::entries_of, to a whole block, whatever the document
  kTokens,  // that share of the document's tokens as entries of a lane
};

struct QuestionScore {
  bool right = false, full_right = false;  // greedy, judged by the task's own checker
  double log_p = 0, full_log_p = 0;        // nats per answer token, teacher-forced
  double kl = 0;                           // nats, mean over the answer's rows
  double first_kl = 0;                     // of the first: what a self-check sees (aware)
  bool open = true;  // false: a gate kept everything, and these are the full cache's
};

struct ProseScore {
  double nll = 0, full_nll = 0, kl = 0, same_top = 0;  // means over the rows
  std::uint32_t rows = 0;
  bool open = true;  // as above
};

struct ArmResult {
  Arm arm;
  std::uint32_t entries = 0;    // a lane, on average, as asked of the review
  double kept_mean = 0;         // a lane, as found after it
  std::uint64_t bytes = 0;      // of the sequence, all metadata counted, were it alone
  std::uint64_t target = 0;     // bytes it was to have; those it has where tokens are equal
  bool reachable = true;        // false: even its smallest keep is over the target
  bool only_protected = false;  // entries are no more than sinks + recent: no choice was made
  ProseScore prose;
  std::vector<QuestionScore> blind, aware, second;  // second[i]: after the review for question i

  const std::vector<QuestionScore>& scores(View view) const {
    return view == View::kBlind ? blind : view == View::kAware ? aware : second;
  }
};

// Every statistic of one prompt, by Statistic.
using GateValues = std::array<double, std::size(kStatistics)>;

struct InputResult {
  Task task = Task::kProse;
  std::uint32_t seed = 0, block_tokens = 16;
  std::uint32_t tokens = 0;     // of the document
  std::uint32_t questions = 0;  // of the document; arms have fewer scores with only_right
  std::uint64_t full_bytes = 0;
  std::uint64_t grain_bytes = 0;  // a block of every full-attention lane
  std::vector<ArmResult> arms;
  // With MeasureOptions::statistics: of the document, and of it with each question behind it.
  std::optional<GateValues> document_values{};
  std::vector<GateValues> question_values{};
};

struct MeasureOptions {
  std::vector<Arm> arms;
  std::uint32_t chunk = 512;
  bool blind = true;    // read each question after a review
  bool aware = true;    // read each question before one
  bool second = false;  // then also another one on what that review left
  // Only questions that the full cache answers are put to arms; a document without one has none.
  // REQUIRES: !second.
  bool only_right = false;
  Equal equal = Equal::kBytes;
  std::uint32_t entries_of = 0;  // Equal::kBlocks
  // Entries that every arm protects but those whose policy is written with `recent`; none: each its
  // own.
  std::optional<std::uint32_t> recent{};
  std::vector<LabelSource> labels{};  // those that arms name
  bool statistics = false;            // also those that a gate would judge by
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
