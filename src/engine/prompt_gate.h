// The gate of one request, from its first row to its decision.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/gate.h"
#include "engine/reviewer.h"
#include "model/model.h"

namespace quire::engine {

// What a gate measures with.
struct GateTools {
  RunParts run{};
  // One chunk's forward pass; `logits` becomes its last row's, or stays empty where they are not
  // finite.
  std::function<Status(const model::Chunk& chunk, std::vector<float>& logits)> forward{};
  std::function<double()> clock{};  // seconds
};

// A prompt that is read, or all but its last token.
struct ReadPrompt {
  SequenceId sequence;
  std::span<const model::Token> tokens;
  std::uint32_t total = 0;          // of the sequence, with its answer
  std::span<const float> logits{};  // of the last row
};

// A prediction of the first token behind a review, or why there is none.
struct ReviewTrial {
  std::vector<float> logits;
  const char* failed = nullptr;
};

class PromptGate {
 public:
  // `reviewer` is closed when the gate closes.  Both borrowed.
  PromptGate(Cache& cache, const GenerateOptions& options, Reviewer& reviewer);

  // Whether it waits for the end of the prompt: until then everything may have to be kept.
  bool pending() const { return pending_; }
  // Rows of a prompt's next `rows`, behind `read` of its `prompt` tokens, whose queries it takes.
  std::uint32_t rows_of(std::uint32_t read, std::uint32_t rows, std::uint32_t prompt) const;
  // Whether the prompt's last row is computed by itself, so that try_review() comes before it.
  bool checks_itself() const { return pending_ && options_.rule == GateRule::kSelfCheck; }
  // The sequence keeps queries, or no longer: before its steps, whenever it may be another.
  Status prepare(SequenceId sequence);
  void dropped();
  // There is nothing to judge any more: the prompt is streamed.
  void skip(const char* reason);
  // All but the prompt's last token is read: what a review would make of its row.  REQUIRES:
  // checks_itself().
  Status try_review(const ReadPrompt& prompt, const GateTools& tools);
  // It is read.  Refused: the gate closes, and as many tokens as it and its answer have do not fit
  // the budget.
  Status decide(const ReadPrompt& prompt, const GateTools& tools);
  const GateReport& report() const { return report_; }

 private:
  bool fits(const ReadPrompt& prompt) const;  // nothing would be dropped anyway
  void close(const char* reason);
  void judge(const Judgement& judgement, bool opens);
  void measure(SequenceId sequence, const RunParts& run);
  void compare(std::span<const float> logits);
  Status predict(SequenceId fork, model::Token last, const GateTools& tools);

  Cache& cache_;
  const GateOptions options_;
  Reviewer& reviewer_;
  bool pending_ = false;
  std::optional<bool> keeping_{};  // of the sequence; none: unknown
  std::optional<ReviewTrial> trial_{};
  GateReport report_;
};

}  // namespace quire::engine
