// One input on its way through the arms: what eval/measure.h says, step by step.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "eval/contest.h"
#include "eval/measure.h"
#include "eval/sequences.h"

namespace quire::eval {

class Examination {
 public:
  using Progress = std::function<void(double share, const std::string& doing)>;

  // All borrowed but the input; `result` is filled.
  Examination(model::Model& model, Cache& cache, Shadow& shadow, const MeasureOptions& options,
              Input input, InputResult& result, const std::atomic<bool>* cancel,
              const Progress& progress);

  Status run();

 private:
  // An arm on this input.
  struct Entrant {
    std::optional<Policy> policy;  // none: the full cache
    Needs needs;                   // what its sequence must watch while it is read
    std::uint32_t entries = 0;
    const LabelSource* labels = nullptr;  // none: as tell_roles() says
  };
  // Arms [first, first + count) that share a step.
  struct Batch {
    std::size_t first = 0, count = 0;
  };

  std::uint32_t length() const { return static_cast<std::uint32_t>(input_.document.size()); }
  bool cancelled() const { return cancel_ != nullptr && cancel_->load(); }
  // As many arms as fit a step of `rows` rows each, beside the full cache.
  std::vector<Batch> batches(std::size_t rows) const;

  Status look_ahead();
  Status measure_full();
  Result<Entrant> entrant_of(const Arm& arm) const;
  Status choose_entries(Entrant& entrant, ArmResult& out);
  Status enter();
  Result<std::uint64_t> bytes_of(const Entrant& entrant, std::uint32_t entries, ArmResult& out);
  std::uint32_t whole_blocks(double share) const;
  std::uint64_t first_bytes(double share, std::uint64_t otherwise) const;
  // Tells the sequence the entrant's own labels of the document and `more` behind it.
  Status label(const Held& sequence, const Entrant& entrant,
               std::span<const model::Token> more) const;
  Status cut(const Held& sequence, const Entrant& entrant) const;

  Status prose(const Batch& batch);
  Status measure_statistics();
  Result<GateValues> values_of(const Held& sequence);

  // examination_questions.cc
  Result<bool> full_answers(const Asked& asked);
  Status leave_right();
  Result<std::vector<Held>> reviewed_documents(const Batch& batch);
  Status blind(const Batch& batch);
  Status aware(std::size_t question);
  Result<std::vector<Held>> reviewed_questions(const Batch& batch, std::size_t question,
                                               std::vector<std::pair<Needs, Held>>& readings);
  Status score_answers(const Held& full, std::span<const Held> arms, const Batch& batch,
                       const Asked& asked, std::span<const model::Token> rows,
                       std::vector<QuestionScore> ArmResult::*scores);

  model::Model& model_;
  Cache& cache_;
  Shadow& shadow_;
  const MeasureOptions& options_;
  Input input_;
  InputResult& result_;
  const std::atomic<bool>* cancel_;
  const Progress& progress_;
  Prompts prompts_;
  Contest contest_;
  std::vector<Entrant> entrants_;
  std::shared_ptr<Mass> future_ = std::make_shared<Mass>();  // of all that follows the document
  std::vector<std::shared_ptr<Mass>> future_of_;             // of each question
};

// The status with the arm's name before it.
Status named(const Arm& arm, Status status);

}  // namespace quire::eval
