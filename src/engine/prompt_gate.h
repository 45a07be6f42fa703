// The gate of one request, from its first row to its decision.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "engine/gate.h"
#include "engine/reviewer.h"

namespace quire::engine {

// What a statistic is measured with.
struct GateTools {
  RunParts run{};
  std::function<double()> clock{};  // seconds
};

class PromptGate {
 public:
  // `reviewer` is closed when the gate closes.  Both borrowed.
  PromptGate(Cache& cache, const GenerateOptions& options, Reviewer& reviewer);

  // Whether it waits for the end of the prompt: until then everything may have to be kept.
  bool pending() const { return pending_; }
  // Rows of a prompt's next `rows`, behind `read` of its `prompt` tokens, whose queries it takes.
  std::uint32_t rows_of(std::uint32_t read, std::uint32_t rows, std::uint32_t prompt) const;
  // The sequence keeps queries, or no longer: before its steps, whenever it may be another.
  Status prepare(SequenceId sequence);
  void dropped() { keeping_.reset(); }
  // There is nothing to judge any more: the prompt is streamed.
  void skip(const char* reason);
  // The prompt's last row is read, of a sequence that will have `total` tokens with its answer.
  // Refused: it closes, and that many do not fit the budget.
  Status decide(SequenceId sequence, std::uint32_t prompt, std::uint32_t total,
                const GateTools& tools);
  const GateReport& report() const { return report_; }

 private:
  void close(const char* reason);
  void measure(SequenceId sequence, const RunParts& run);

  Cache& cache_;
  const GateOptions options_;
  Reviewer& reviewer_;
  bool pending_ = false;
  std::optional<bool> keeping_{};  // of the sequence; none: unknown
  GateReport report_;
};

}  // namespace quire::engine
