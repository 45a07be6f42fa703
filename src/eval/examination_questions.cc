// Examination's questions: read behind the review, or before it.

#include <algorithm>

#include "eval/examination.h"
#include "quire/check.h"

namespace quire::eval {
namespace {

using model::Token;

// `head` and the answer's rows but the last, which predicts what nobody asked for.
std::vector<Token> rows_of(std::span<const Token> head, const Asked& asked) {
  std::vector<Token> rows(head.begin(), head.end());
  rows.insert(rows.end(), asked.answer.begin(), asked.answer.end() - 1);
  return rows;
}

Result<std::vector<Held>> forks(std::span<const Held> sequences) {
  std::vector<Held> made;
  for (const Held& sequence : sequences) {
    Result<Held> fork = sequence.fork();
    if (!fork.ok()) return fork.status();
    made.push_back(*std::move(fork));
  }
  return made;
}

}  // namespace

Result<bool> Examination::full_answers(const Asked& asked) {
  const auto prompt = std::span(asked.prompt);
  const Result<Held> full = prompts_.aware({}, prompt.first(prompt.size() - 1));
  if (!full.ok()) return full.status();
  const Result<Held> twin = full->fork();
  if (!twin.ok()) return twin.status();
  std::string said;
  const Status status = contest_.step(
      model_, *full, {&*twin, 1}, rows_of(prompt.last(1), asked), asked.answer, {},
      [&](std::size_t, std::size_t, const RowScore& row) { said += model_.piece(row.full_top); });
  if (!status.ok()) return status;
  return answers(asked.question, said);
}

Status Examination::leave_right() {
  QUIRE_CHECK(!options_.second);  // input_.second stands beside all that is asked
  std::vector<Asked> right;
  for (Asked& asked : input_.asked) {
    if (cancelled()) return {Code::kCancelled, "cancelled"};
    const Result<bool> answered = full_answers(asked);
    if (!answered.ok()) return answered.status();
    if (*answered) right.push_back(std::move(asked));
  }
  input_.asked = std::move(right);
  return {};
}

Result<GateValues> Examination::values_of(const Held& sequence) {
  GateValues values{};
  for (const StatisticInfo& info : kStatistics) {
    const Result<double> value = cache_.measure(
        sequence.id(), info.statistic, [&](const PartWork& work) { model_.run_parts(work); });
    if (!value.ok()) return value.status();
    values[static_cast<std::size_t>(info.statistic)] = *value;
  }
  return values;
}

// Of whole prompts, their last rows included, as an engine judges them.
Status Examination::measure_statistics() {
  constexpr Needs kWatch{.gate_rows = kGateRows};
  const Result<Held> document = prompts_.blind(kWatch);
  if (!document.ok()) return document.status();
  const Result<GateValues> values = values_of(*document);
  if (!values.ok()) return values.status();
  result_.document_values = *values;
  for (const Asked& asked : input_.asked) {
    const Result<Held> question = prompts_.aware(kWatch, asked.prompt);
    if (!question.ok()) return question.status();
    const Result<GateValues> of_question = values_of(*question);
    if (!of_question.ok()) return of_question.status();
    result_.question_values.push_back(*of_question);
  }
  return {};
}

// Runs `rows` on every arm; the last of them predict the answer.
Status Examination::score_answers(const Held& full, std::span<const Held> arms, const Batch& batch,
                                  const Asked& asked, std::span<const Token> rows,
                                  std::vector<QuestionScore> ArmResult::*scores) {
  std::vector<QuestionScore> score(arms.size());
  std::vector<std::string> said(arms.size()), full_said(arms.size());
  const auto answer_rows = static_cast<double>(asked.answer.size());
  const Status status = contest_.step(model_, full, arms, rows, asked.answer, {},
                                      [&](std::size_t arm, std::size_t at, const RowScore& row) {
                                        if (at == 0) score[arm].first_kl = row.kl;
                                        score[arm].log_p -= row.nll / answer_rows;
                                        score[arm].full_log_p -= row.full_nll / answer_rows;
                                        score[arm].kl += row.kl / answer_rows;
                                        said[arm] += model_.piece(row.top);
                                        full_said[arm] += model_.piece(row.full_top);
                                      });
  if (!status.ok()) return status;
  for (std::size_t a = 0; a < arms.size(); ++a) {
    score[a].right = answers(asked.question, said[a]);
    score[a].full_right = answers(asked.question, full_said[a]);
    (result_.arms[batch.first + a].*scores).push_back(score[a]);
  }
  return {};
}

// Forks at the document's end, each after its review.
Result<std::vector<Held>> Examination::reviewed_documents(const Batch& batch) {
  std::vector<Held> arms;
  for (std::size_t a = batch.first; a < batch.first + batch.count; ++a) {
    Result<Held> arm = prompts_.blind(entrants_[a].needs);
    if (!arm.ok()) return named(options_.arms[a], arm.status());
    Status status = label(*arm, entrants_[a], {});
    if (status.ok()) status = cut(*arm, entrants_[a]);
    if (!status.ok()) return named(options_.arms[a], status);
    arms.push_back(*std::move(arm));
  }
  return arms;
}

// The review comes before the question: what was kept must serve all of them.
Status Examination::blind(const Batch& batch) {
  Result<Held> full = prompts_.blind({});
  if (!full.ok()) return full.status();
  Result<std::vector<Held>> documents = reviewed_documents(batch);
  if (!documents.ok()) return documents.status();
  // What all questions begin with is read once.
  const auto shared = std::span(input_.asked[0].prompt).first(input_.shared);
  const ReadOptions options{.chunk = options_.chunk, .answer = true};
  documents->push_back(*std::move(full));
  for (const Held& document : *documents) {
    if (Status status = read(model_, document, shared, options); !status.ok()) return status;
  }
  for (const Asked& asked : input_.asked) {
    if (cancelled()) return {Code::kCancelled, "cancelled"};
    const Result<std::vector<Held>> arms = forks(*documents);
    if (!arms.ok()) return arms.status();
    const std::vector<Token> rows = rows_of(std::span(asked.prompt).subspan(input_.shared), asked);
    const Status status = score_answers(arms->back(), std::span(*arms).first(batch.count), batch,
                                        asked, rows, &ArmResult::blind);
    if (!status.ok()) return status;
  }
  return {};
}

// Forks behind a question but for its last token, each after its review.
Result<std::vector<Held>> Examination::reviewed_questions(
    const Batch& batch, std::size_t question, std::vector<std::pair<Needs, Held>>& readings) {
  const std::span<const Token> prompt = input_.asked[question].prompt;
  std::vector<Held> arms;
  for (std::size_t a = batch.first; a < batch.first + batch.count; ++a) {
    if (cancelled()) return Status(Code::kCancelled, "cancelled");
    Entrant entrant = entrants_[a];
    if (options_.arms[a].policy == kOracle) {
      const Protection protect = entrant.policy->protect;
      entrant.policy = oracle_policy(future_of_[question]);
      entrant.policy->protect = protect;
    }
    auto reading = std::ranges::find(readings, entrant.needs, &std::pair<Needs, Held>::first);
    if (reading == readings.end()) {
      Result<Held> fresh = prompts_.aware(entrant.needs, prompt.first(prompt.size() - 1));
      if (!fresh.ok()) return named(options_.arms[a], fresh.status());
      readings.emplace_back(entrant.needs, *std::move(fresh));
      reading = std::prev(readings.end());
    }
    Result<Held> arm = reading->second.fork();
    if (!arm.ok()) return named(options_.arms[a], arm.status());
    Status status = label(*arm, entrant, prompt.first(prompt.size() - 1));
    if (status.ok()) status = cut(*arm, entrant);
    if (!status.ok()) return named(options_.arms[a], status);
    arms.push_back(*std::move(arm));
  }
  return arms;
}

// The review comes after the question, before its last token's row: no answer token comes from the
// full cache (the strict reading), so that short answers do not look safe at every budget.  Then
// the next question is asked of what is left.
Status Examination::aware(std::size_t question) {
  const Asked& asked = input_.asked[question];
  const Asked* second =
      options_.second && !input_.second.empty() ? &input_.second[question] : nullptr;
  const std::vector<Token> rows = rows_of(std::span(asked.prompt).last(1), asked);
  std::vector<Token> more;
  if (second != nullptr) {
    std::vector<Token> head = {asked.answer.back()};
    head.insert(head.end(), second->prompt.begin(), second->prompt.end());
    more = rows_of(head, *second);
  }
  const Result<Held> full =
      prompts_.aware({}, std::span(asked.prompt).first(asked.prompt.size() - 1));
  if (!full.ok()) return full.status();
  std::vector<std::pair<Needs, Held>> readings;
  for (const Batch& batch : batches(std::max(rows.size(), more.size()))) {
    Result<std::vector<Held>> arms = reviewed_questions(batch, question, readings);
    if (!arms.ok()) return arms.status();
    const Result<Held> twin = full->fork();
    if (!twin.ok()) return twin.status();
    Status status = score_answers(*twin, *arms, batch, asked, rows, &ArmResult::aware);
    if (status.ok() && second != nullptr) {
      status = score_answers(*twin, *arms, batch, *second, more, &ArmResult::second);
    }
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace quire::eval
