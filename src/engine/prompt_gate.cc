#include "engine/prompt_gate.h"

#include <algorithm>
#include <string>

#include "engine/budget.h"

namespace quire::engine {

PromptGate::PromptGate(Cache& cache, const GenerateOptions& options, Reviewer& reviewer)
    : cache_(cache), options_(options.gate), reviewer_(reviewer) {
  if (options_.rule == GateRule::kOpen) return;
  if (!options.policy || options.policy->keeps_all) {
    report_.reason = "no policy";
  } else if (options_.rule == GateRule::kClosed) {
    close("configured");
  } else {
    pending_ = true;
    report_.reason = "not reached";
  }
}

void PromptGate::close(const char* reason) {
  pending_ = false;
  report_.decision = GateDecision::kClosed;
  report_.reason = reason;
  reviewer_.close();
}

void PromptGate::skip(const char* reason) {
  if (!pending_) return;
  pending_ = false;
  report_.reason = reason;
}

std::uint32_t PromptGate::rows_of(std::uint32_t read, std::uint32_t rows,
                                  std::uint32_t prompt) const {
  if (!pending_) return 0;
  const std::uint32_t first = prompt - std::min(prompt, kGateRows), end = read + rows;
  return end > first ? std::min(rows, end - first) : 0;
}

Status PromptGate::prepare(SequenceId sequence) {
  if (reviewer_.needs().gate_rows == 0 || keeping_ == pending_) return {};
  keeping_ = pending_;
  return cache_.keep_queries(sequence, pending_);
}

void PromptGate::measure(SequenceId sequence, const RunParts& run) {
  const GateCalibration& by = options_.calibration;
  const Result<double> value = cache_.measure(sequence, by.statistic, run);
  if (!value.ok()) return close(value.status().code() == Code::kNumeric ? "not finite" : "short");
  report_.calibration = by;
  report_.value = *value;
  report_.score = gate_score(by, *value);
  if (!gate_opens(by, *value)) return close("missed");
  pending_ = false;
  report_.decision = GateDecision::kOpen;
  report_.reason = "passed";
}

Status PromptGate::decide(SequenceId sequence, std::uint32_t prompt, std::uint32_t total,
                          const GateTools& tools) {
  if (!pending_) return {};
  if (reviewer_.target(total) >= total && reviewer_.cadence() != 0) {
    skip("fits");
  } else if (prompt < kGateRows) {
    close("short");
  } else {
    const double begin = tools.clock();
    measure(sequence, tools.run);
    report_.seconds = tools.clock() - begin;
  }
  if (Status status = prepare(sequence); !status.ok()) return status;
  if (report_.decision != GateDecision::kClosed) return {};
  if (cache_.tokens_that_fit(reviewer_.needs()) >= total) return {};
  return {Code::kOutOfMemory, "gate: it keeps this prompt whole (" + report_.reason + "), and " +
                                  std::to_string(total) +
                                  " tokens with the answer do not fit the budget of " +
                                  bytes_text(cache_.options().budget_bytes) +
                                  budget_advice(cache_.options(), reviewer_.needs(), total)};
}

}  // namespace quire::engine
