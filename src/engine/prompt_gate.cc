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

void PromptGate::dropped() {
  keeping_.reset();
  trial_.reset();
}

std::uint32_t PromptGate::rows_of(std::uint32_t read, std::uint32_t rows,
                                  std::uint32_t prompt) const {
  if (!pending_ || options_.rule != GateRule::kAuto) return 0;
  const std::uint32_t first = prompt - std::min(prompt, kGateRows), end = read + rows;
  return end > first ? std::min(rows, end - first) : 0;
}

Status PromptGate::prepare(SequenceId sequence) {
  if (reviewer_.needs().gate_rows == 0 || keeping_ == pending_) return {};
  keeping_ = pending_;
  return cache_.keep_queries(sequence, pending_);
}

bool PromptGate::fits(const ReadPrompt& prompt) const {
  return reviewer_.target(prompt.total) >= prompt.total && reviewer_.cadence() != 0;
}

void PromptGate::judge(const Judgement& judgement, bool opens) {
  report_.judged = judgement;
  if (!opens) return close("missed");
  pending_ = false;
  report_.decision = GateDecision::kOpen;
  report_.reason = "passed";
}

void PromptGate::measure(SequenceId sequence, const RunParts& run) {
  const GateCalibration& by = options_.calibration;
  const Result<double> value = cache_.measure(sequence, by.statistic, run);
  if (!value.ok()) return close(value.status().code() == Code::kNumeric ? "not finite" : "short");
  judge({.by = info_of(by.statistic).name,
         .mode = by.mode,
         .threshold = by.threshold,
         .value = *value,
         .score = gate_score(by, *value)},
        gate_opens(by, *value));
}

// --- the self-check ---

Status PromptGate::predict(SequenceId fork, model::Token last, const GateTools& tools) {
  Reviewer forgotten = reviewer_;  // what it learns of its fork
  if (Status status = forgotten.review(fork); !status.ok()) return status;
  const model::Chunk row{.sequence = fork, .tokens = {&last, 1}, .logit_rows = 1, .isolate = true};
  return tools.forward(row, trial_->logits);
}

Status PromptGate::try_review(const ReadPrompt& prompt, const GateTools& tools) {
  if (fits(prompt)) return {};
  const double begin = tools.clock();
  trial_.emplace();
  const Result<SequenceId> fork = cache_.fork(prompt.sequence);
  Status status = fork.ok() ? Status() : fork.status();
  if (status.ok()) {
    status = predict(*fork, prompt.tokens.back(), tools);
    if (Status gone = cache_.drop(*fork); status.ok()) status = gone;
  }
  report_.seconds = tools.clock() - begin;
  const bool no_room = status.code() == Code::kOutOfMemory;
  if (!status.ok() && !no_room) return status;
  if (no_room) trial_->failed = "no room";
  if (status.ok() && trial_->logits.empty()) trial_->failed = "not finite";
  return {};
}

void PromptGate::compare(std::span<const float> logits) {
  if (!trial_) return close("short");
  if (trial_->failed != nullptr) return close(trial_->failed);
  const double kl = kl_divergence(logits, trial_->logits);
  trial_.reset();
  judge({.by = kSelfCheck, .threshold = options_.self_check, .value = kl, .score = kl},
        kl <= options_.self_check);
}

Status PromptGate::decide(const ReadPrompt& prompt, const GateTools& tools) {
  if (!pending_) return {};
  const double begin = tools.clock();
  if (fits(prompt)) {
    skip("fits");
  } else if (options_.rule == GateRule::kSelfCheck) {
    compare(prompt.logits);
  } else if (prompt.tokens.size() < kGateRows) {
    close("short");
  } else {
    measure(prompt.sequence, tools.run);
  }
  if (report_.judged) report_.seconds += tools.clock() - begin;
  if (Status status = prepare(prompt.sequence); !status.ok()) return status;
  if (report_.decision != GateDecision::kClosed) return {};
  if (cache_.tokens_that_fit(reviewer_.needs()) >= prompt.total) return {};
  return {Code::kOutOfMemory, "gate: it keeps this prompt whole (" + report_.reason + "), and " +
                                  std::to_string(prompt.total) +
                                  " tokens with the answer do not fit the budget of " +
                                  bytes_text(cache_.options().budget_bytes) +
                                  budget_advice(cache_.options(), reviewer_.needs(), prompt.total)};
}

}  // namespace quire::engine
