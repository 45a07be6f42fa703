#include "eval/measure.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "engine/budget.h"
#include "eval/contest.h"
#include "eval/keep_search.h"
#include "eval/sequences.h"

namespace quire::eval {
namespace {

using Progress = std::function<void(double share, const std::string& doing)>;
using model::Token;

// An arm on one input.
struct Entrant {
  std::optional<Policy> policy;  // none: the full cache
  Needs needs;
  std::uint32_t entries = 0;
};

Status named(const Arm& arm, Status status) {
  if (status.ok() || status.code() == Code::kCancelled) return status;
  return {status.code(), "policy " + arm.policy + ": " + status.message()};
}

// Options that a policy may not have are left out.
Result<Policy> seeded(const std::string& spec, std::uint32_t seed) {
  const char* more = spec.find(':') == std::string::npos ? ":seed=" : ",seed=";
  Result<Policy> policy = make_policy(spec + more + std::to_string(seed));
  return policy.ok() ? policy : make_policy(spec);
}

// What a sequence must watch while it is read; the rest is computed at a review.
Needs watched(const Needs& needs) {
  return needs.watches() ? needs : Needs{};
}

// One input on its way through the arms.
class Examination {
 public:
  Examination(model::Model& model, Cache& cache, Shadow& shadow, const MeasureOptions& options,
              const Input& input, InputResult& result, const std::atomic<bool>* cancel,
              const Progress& progress)
      : model_(model),
        cache_(cache),
        shadow_(shadow),
        options_(options),
        input_(input),
        result_(result),
        cancel_(cancel),
        progress_(progress),
        prompts_(model, cache, input.document, options.chunk) {}

  Status run();

 private:
  std::uint32_t length() const { return static_cast<std::uint32_t>(input_.document.size()); }
  bool cancelled() const { return cancel_ != nullptr && cancel_->load(); }
  Status look_ahead();
  Status enter();
  Status measure_full();
  Result<std::uint64_t> bytes_of(const Entrant& entrant, std::uint32_t entries, ArmResult& out);
  Status cut(const Held& sequence, const Entrant& entrant) const;
  std::uint32_t whole_blocks(double share) const;
  std::uint64_t first_bytes(double share, std::uint64_t otherwise) const;
  Status prose(std::size_t first, std::size_t count);
  Status blind(std::size_t first, std::size_t count);
  Status aware();
  Status score_answers(const Held& full, std::span<const Held> arms, std::size_t first,
                       const Asked& asked, std::span<const Token> rows,
                       std::vector<QuestionScore> ArmResult::*scores);
  std::size_t batch(std::size_t rows) const {
    return std::max<std::size_t>(1, cache_.options().max_rows / std::max<std::size_t>(rows, 1) - 1);
  }

  model::Model& model_;
  Cache& cache_;
  Shadow& shadow_;
  const MeasureOptions& options_;
  const Input& input_;
  InputResult& result_;
  const std::atomic<bool>* cancel_;
  const Progress& progress_;
  Prompts prompts_;
  Contest contest_;
  std::vector<Entrant> entrants_;
  std::shared_ptr<Mass> future_ = std::make_shared<Mass>();  // of all that follows the document
  std::vector<std::shared_ptr<Mass>> future_of_;             // of each question
};

Status Examination::cut(const Held& sequence, const Entrant& entrant) const {
  if (!entrant.policy) return {};
  const Result<SequenceStats> stats = cache_.stats(sequence.id());
  if (!stats.ok()) return stats.status();
  if (stats->tokens_kept_mean <= entrant.entries) return {};
  return cache_.shrink(sequence.id(), *entrant.policy, entrant.entries).status();
}

// What the full cache will attend to: the oracle's knowledge.
Status Examination::look_ahead() {
  const Needs needs{.tap = Tap::kDecodeRows, .group = Reduce::kMean};
  const ReadOptions answer{.chunk = options_.chunk, .answer = true};
  if (!input_.continuation.empty()) {
    Result<Held> sequence = prompts_.blind(needs);
    if (!sequence.ok()) return sequence.status();
    if (Status status = read(model_, *sequence, input_.continuation, answer); !status.ok()) {
      return status;
    }
    return add_mass(cache_, sequence->id(), *future_);
  }
  for (const Asked& asked : input_.asked) {
    Result<Held> sequence = prompts_.blind(needs);
    if (!sequence.ok()) return sequence.status();
    for (const std::vector<Token>* part : {&asked.prompt, &asked.answer}) {
      if (Status status = read(model_, *sequence, *part, answer); !status.ok()) return status;
    }
    future_of_.push_back(std::make_shared<Mass>());
    if (Status status = add_mass(cache_, sequence->id(), *future_of_.back()); !status.ok()) {
      return status;
    }
    // Positions of different questions are not the same tokens: only the document's add up.
    for (std::vector<std::vector<float>>& layer : *future_of_.back()) {
      for (std::vector<float>& lane : layer) {
        lane.resize(std::min<std::size_t>(lane.size(), length()));
      }
    }
    add_mass(*future_of_.back(), *future_);
  }
  return {};
}

Status Examination::measure_full() {
  const Result<Held> full = prompts_.blind({});
  if (!full.ok()) return full.status();
  const Result<LanePositions> all = live_positions(cache_, full->id());
  if (!all.ok()) return all.status();
  const Result<SequenceStats> stats = shadow_.measure({}, length(), 0, *all);
  if (!stats.ok()) return stats.status();
  result_.full_bytes = stats->bytes;
  result_.grain_bytes =
      engine::full_bytes_per_token(cache_.options()) * cache_.options().block_tokens;
  return {};
}

Result<std::uint64_t> Examination::bytes_of(const Entrant& entrant, std::uint32_t entries,
                                            ArmResult& out) {
  Result<Held> sequence = prompts_.blind(entrant.needs);
  if (!sequence.ok()) return sequence.status();
  Entrant with = entrant;
  with.entries = entries;
  if (Status status = cut(*sequence, with); !status.ok()) return status;
  const Result<LanePositions> kept = live_positions(cache_, sequence->id());
  if (!kept.ok()) return kept.status();
  const Result<SequenceStats> stats =
      shadow_.measure(entrant.needs, length(), prompts_.window_rows(entrant.needs), *kept);
  if (!stats.ok()) return stats.status();
  out.kept_mean = stats->tokens_kept_mean;
  return stats->bytes;
}

// Entries a lane of a share of entries_of, to the nearest multiple of a block.
std::uint32_t Examination::whole_blocks(double share) const {
  const std::uint32_t block = cache_.options().block_tokens;
  const auto blocks = static_cast<std::uint32_t>(std::lround(share * options_.entries_of / block));
  return std::min(std::max(1u, blocks) * block, length());
}

// Bytes of the first arm that evicts to this share; `otherwise`: there is none yet.
std::uint64_t Examination::first_bytes(double share, std::uint64_t otherwise) const {
  for (const ArmResult& arm : result_.arms) {
    if (arm.arm.policy != kFull && arm.arm.keep == share) return arm.bytes;
  }
  return otherwise;
}

Status Examination::enter() {
  for (const Arm& arm : options_.arms) {
    if (cancelled()) return {Code::kCancelled, "cancelled"};
    progress_(static_cast<double>(entrants_.size()) / static_cast<double>(options_.arms.size()) / 3,
              "bytes of " + arm.policy);
    ArmResult out{.arm = arm};
    Entrant entrant;
    if (arm.policy == kOracle) {
      entrant.policy = oracle_policy(future_);
    } else if (arm.policy != kFull) {
      // Policies that draw at random draw anew for every input.
      Result<Policy> policy = seeded(arm.policy, result_.seed);
      if (!policy.ok()) return policy.status();
      entrant.policy = *std::move(policy);
      entrant.needs = watched(entrant.policy->needs);
    }
    out.target = static_cast<std::uint64_t>(arm.keep * static_cast<double>(result_.full_bytes));
    if (entrant.policy && options_.entries_of != 0) {
      entrant.entries = whole_blocks(arm.keep);
    } else if (entrant.policy) {
      const auto share = static_cast<std::uint32_t>(arm.keep * length());
      const BytesOf bytes = [&](std::uint32_t entries) { return bytes_of(entrant, entries, out); };
      const Result<Kept> kept =
          find_keep(bytes, out.target, 1, length(), share, cache_.options().block_tokens);
      if (!kept.ok()) return named(arm, kept.status());
      entrant.entries = kept->entries;
      out.reachable = kept->reachable;
    } else {
      entrant.entries = length();
    }
    if (entrant.policy) {
      const Protection& protect = entrant.policy->protect;
      out.only_protected = entrant.entries <= protect.sinks + protect.recent;
    }
    // Again at the entries that were found: kept_mean is of these.
    const Result<std::uint64_t> bytes = bytes_of(entrant, entrant.entries, out);
    if (!bytes.ok()) return named(arm, bytes.status());
    out.bytes = *bytes;
    out.entries = entrant.entries;
    if (entrant.policy && options_.entries_of != 0) out.target = first_bytes(arm.keep, out.bytes);
    entrants_.push_back(std::move(entrant));
    result_.arms.push_back(std::move(out));
  }
  return {};
}

// Teacher-forced prose: steps of a block, a review after each, as a session would.
Status Examination::prose(std::size_t first, std::size_t count) {
  Result<Held> full = prompts_.blind({});
  if (!full.ok()) return full.status();
  std::vector<Held> arms;
  for (std::size_t a = first; a < first + count; ++a) {
    Result<Held> arm = prompts_.blind(entrants_[a].needs);
    if (!arm.ok()) return arm.status();
    if (Status status = cut(*arm, entrants_[a]); !status.ok()) return status;
    arms.push_back(*std::move(arm));
  }
  const std::span<const Token> text = input_.continuation;
  const std::size_t block = cache_.options().block_tokens;
  for (std::size_t done = 0; done + 1 < text.size(); done += block) {
    if (cancelled()) return {Code::kCancelled, "cancelled"};
    const std::size_t rows = std::min(block, text.size() - 1 - done);
    std::vector<std::uint32_t> window_rows(count, 0);  // those before the review that follows
    for (std::size_t a = 0; a < count; ++a) {
      const Needs& needs = entrants_[first + a].needs;
      if (needs.tap != Tap::kLastRows || !needs.answer_window) continue;
      window_rows[a] = std::min(static_cast<std::uint32_t>(rows), needs.window);
    }
    const Status status =
        contest_.step(model_, *full, arms, text.subspan(done, rows), text.subspan(done + 1, rows),
                      window_rows, [&](std::size_t arm, std::size_t, const RowScore& row) {
                        ProseScore& sum = result_.arms[first + arm].prose;
                        sum.nll += row.nll;
                        sum.full_nll += row.full_nll;
                        sum.kl += row.kl;
                        sum.same_top += row.top == row.full_top ? 1 : 0;
                        ++sum.rows;
                      });
    if (!status.ok()) return status;
    for (std::size_t a = 0; a < count; ++a) {
      if (Status cutting = cut(arms[a], entrants_[first + a]); !cutting.ok()) return cutting;
    }
  }
  for (std::size_t a = first; a < first + count; ++a) {
    ProseScore& score = result_.arms[a].prose;
    for (double* sum : {&score.nll, &score.full_nll, &score.kl, &score.same_top}) {
      *sum /= std::max(1u, score.rows);
    }
  }
  return {};
}

// Runs `rows` on every arm; the last of them predict the answer.
Status Examination::score_answers(const Held& full, std::span<const Held> arms, std::size_t first,
                                  const Asked& asked, std::span<const Token> rows,
                                  std::vector<QuestionScore> ArmResult::*scores) {
  std::vector<QuestionScore> score(arms.size());
  std::vector<std::string> said(arms.size()), full_said(arms.size());
  const auto answer_rows = static_cast<double>(asked.answer.size());
  const Status status = contest_.step(model_, full, arms, rows, asked.answer, {},
                                      [&](std::size_t arm, std::size_t, const RowScore& row) {
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
    (result_.arms[first + a].*scores).push_back(score[a]);
  }
  return {};
}

// The review comes before the question: what was kept must serve all of them.
Status Examination::blind(std::size_t first, std::size_t count) {
  Result<Held> full = prompts_.blind({});
  if (!full.ok()) return full.status();
  std::vector<Held> documents;
  for (std::size_t a = first; a < first + count; ++a) {
    Result<Held> arm = prompts_.blind(entrants_[a].needs);
    if (!arm.ok()) return arm.status();
    if (Status status = cut(*arm, entrants_[a]); !status.ok()) return status;
    documents.push_back(*std::move(arm));
  }
  for (const Asked& asked : input_.asked) {
    if (cancelled()) return {Code::kCancelled, "cancelled"};
    std::vector<Held> arms;
    for (const Held& document : documents) {
      Result<Held> arm = document.fork();
      if (!arm.ok()) return arm.status();
      arms.push_back(*std::move(arm));
    }
    const Result<Held> twin = full->fork();
    if (!twin.ok()) return twin.status();
    std::vector<Token> rows = asked.prompt;
    rows.insert(rows.end(), asked.answer.begin(), asked.answer.end() - 1);
    if (Status status = score_answers(*twin, arms, first, asked, rows, &ArmResult::blind);
        !status.ok()) {
      return status;
    }
  }
  return {};
}

// The review comes after the question, before its last token's row: no answer token comes from the
// full cache (the strict reading), so that short answers do not look safe at every budget.
Status Examination::aware() {
  for (std::size_t q = 0; q < input_.asked.size(); ++q) {
    const Asked& asked = input_.asked[q];
    progress_(2.0 / 3 + static_cast<double>(q) / static_cast<double>(input_.asked.size()) / 3,
              "questions read before the review");
    const auto question = std::span(asked.prompt).first(asked.prompt.size() - 1);
    std::vector<Token> rows = {asked.prompt.back()};
    rows.insert(rows.end(), asked.answer.begin(), asked.answer.end() - 1);
    Result<Held> full = prompts_.aware({}, question);
    if (!full.ok()) return full.status();
    std::vector<std::pair<Needs, Held>> read_by;
    const std::size_t most = batch(rows.size());
    for (std::size_t first = 0; first < entrants_.size(); first += most) {
      const std::size_t count = std::min(most, entrants_.size() - first);
      std::vector<Held> arms;
      for (std::size_t a = first; a < first + count; ++a) {
        if (cancelled()) return {Code::kCancelled, "cancelled"};
        Entrant entrant = entrants_[a];
        if (options_.arms[a].policy == kOracle) entrant.policy = oracle_policy(future_of_[q]);
        auto reading = std::ranges::find(read_by, entrant.needs, &std::pair<Needs, Held>::first);
        if (reading == read_by.end()) {
          Result<Held> fresh = prompts_.aware(entrant.needs, question);
          if (!fresh.ok()) return named(options_.arms[a], fresh.status());
          read_by.emplace_back(entrant.needs, *std::move(fresh));
          reading = std::prev(read_by.end());
        }
        Result<Held> arm = reading->second.fork();
        if (!arm.ok()) return named(options_.arms[a], arm.status());
        if (Status status = cut(*arm, entrant); !status.ok()) {
          return named(options_.arms[a], status);
        }
        arms.push_back(*std::move(arm));
      }
      const Result<Held> twin = full->fork();
      if (!twin.ok()) return twin.status();
      if (Status status = score_answers(*twin, arms, first, asked, rows, &ArmResult::aware);
          !status.ok()) {
        return status;
      }
    }
  }
  return {};
}

Status Examination::run() {
  if (Status status = measure_full(); !status.ok()) return status;
  const bool oracle =
      std::ranges::find(options_.arms, kOracle, &Arm::policy) != options_.arms.end();
  if (oracle) {
    if (Status status = look_ahead(); !status.ok()) return status;
  }
  if (Status status = enter(); !status.ok()) return status;
  std::size_t rows = cache_.options().block_tokens;
  for (const Asked& asked : input_.asked) {
    rows = std::max(rows, asked.prompt.size() + asked.answer.size());
  }
  const std::size_t most = batch(rows);
  for (std::size_t first = 0; first < entrants_.size(); first += most) {
    const double share = static_cast<double>(first) / static_cast<double>(entrants_.size());
    progress_((1 + share) / 3, input_.asked.empty() ? "continuing" : "questions");
    const std::size_t count = std::min(most, entrants_.size() - first);
    const Status status = input_.asked.empty() ? prose(first, count) : blind(first, count);
    if (!status.ok()) return status;
  }
  return options_.aware ? aware() : Status();
}

}  // namespace

const char* name_of(View view) {
  return view == View::kBlind ? "blind" : "aware";
}

Examiner::Examiner(model::Model& model, Cache& cache, Shadow& shadow, MeasureOptions options)
    : model_(model), cache_(cache), shadow_(shadow), options_(std::move(options)) {}

Result<InputResult> Examiner::examine(Task task, std::uint32_t seed, const Input& input,
                                      const std::atomic<bool>* cancel,
                                      const Progress& on_progress) {
  InputResult result{.task = task,
                     .seed = seed,
                     .block_tokens = cache_.options().block_tokens,
                     .tokens = static_cast<std::uint32_t>(input.document.size())};
  Examination examination(model_, cache_, shadow_, options_, input, result, cancel, on_progress);
  if (Status status = examination.run(); !status.ok()) return status;
  return result;
}

}  // namespace quire::eval
