#include "eval/examination.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/budget.h"
#include "eval/keep_search.h"

namespace quire::eval {
namespace {

using model::Token;

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

}  // namespace

Status named(const Arm& arm, Status status) {
  if (status.ok() || status.code() == Code::kCancelled) return status;
  return {status.code(), "policy " + arm.policy + ": " + status.message()};
}

Examination::Examination(model::Model& model, Cache& cache, Shadow& shadow,
                         const MeasureOptions& options, Input input, InputResult& result,
                         const std::atomic<bool>* cancel, const Progress& progress)
    : model_(model),
      cache_(cache),
      shadow_(shadow),
      options_(options),
      input_(std::move(input)),
      result_(result),
      cancel_(cancel),
      progress_(progress),
      prompts_(model, cache, input_.document, options.chunk) {}

Status Examination::label(const Held& sequence, const Entrant& entrant,
                          std::span<const Token> more) const {
  if (entrant.labels == nullptr || !entrant.needs.roles) return {};
  std::vector<Token> tokens(input_.document.begin(), input_.document.end());
  tokens.insert(tokens.end(), more.begin(), more.end());
  return cache_.set_roles(sequence.id(), 0, entrant.labels->roles(model_, tokens));
}

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
  if (Status status = label(*sequence, entrant, {}); !status.ok()) return status;
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

Result<Examination::Entrant> Examination::entrant_of(const Arm& arm) const {
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
  const bool own = arm.policy.find("recent=") != std::string::npos;
  if (entrant.policy && options_.recent && !own) entrant.policy->protect.recent = *options_.recent;
  if (arm.labels.empty()) return entrant;
  const auto source = std::ranges::find(options_.labels, arm.labels, &LabelSource::name);
  if (source == options_.labels.end()) {
    return Status(Code::kInvalidArgument, "labels \"" + arm.labels + "\" have no source");
  }
  entrant.labels = &*source;
  return entrant;
}

Status Examination::choose_entries(Entrant& entrant, ArmResult& out) {
  const double keep = out.arm.keep;
  out.target = static_cast<std::uint64_t>(keep * static_cast<double>(result_.full_bytes));
  const auto share = static_cast<std::uint32_t>(std::lround(keep * length()));
  if (!entrant.policy) {
    entrant.entries = length();
  } else if (options_.equal == Equal::kBlocks) {
    entrant.entries = whole_blocks(keep);
  } else if (options_.equal == Equal::kTokens) {
    entrant.entries = std::max(1u, share);
  } else {
    const BytesOf bytes = [&](std::uint32_t entries) { return bytes_of(entrant, entries, out); };
    const Result<Kept> kept =
        find_keep(bytes, out.target, 1, length(), share, cache_.options().block_tokens);
    if (!kept.ok()) return kept.status();
    entrant.entries = kept->entries;
    out.reachable = kept->reachable;
  }
  // Again at the entries that were found: kept_mean is of these.
  const Result<std::uint64_t> bytes = bytes_of(entrant, entrant.entries, out);
  if (!bytes.ok()) return bytes.status();
  out.bytes = *bytes;
  out.entries = entrant.entries;
  if (!entrant.policy) return {};
  if (options_.equal == Equal::kBlocks) out.target = first_bytes(keep, out.bytes);
  if (options_.equal == Equal::kTokens) out.target = out.bytes;
  const Protection& protect = entrant.policy->protect;
  out.only_protected = entrant.entries <= protect.sinks + protect.recent;
  return {};
}

Status Examination::enter() {
  for (const Arm& arm : options_.arms) {
    if (cancelled()) return {Code::kCancelled, "cancelled"};
    progress_(static_cast<double>(entrants_.size()) / static_cast<double>(options_.arms.size()) / 3,
              "bytes of " + arm.policy);
    ArmResult out{.arm = arm};
    Result<Entrant> entrant = entrant_of(arm);
    if (!entrant.ok()) return entrant.status();
    if (Status status = choose_entries(*entrant, out); !status.ok()) return named(arm, status);
    entrants_.push_back(*std::move(entrant));
    result_.arms.push_back(std::move(out));
  }
  return {};
}

// Teacher-forced text: steps of a block, a review after each, as a session would.
Status Examination::prose(const Batch& batch) {
  Result<Held> full = prompts_.blind({});
  if (!full.ok()) return full.status();
  Result<std::vector<Held>> arms = reviewed_documents(batch);
  if (!arms.ok()) return arms.status();
  const std::span<const Token> text = input_.continuation;
  const std::size_t block = cache_.options().block_tokens;
  for (std::size_t done = 0; done + 1 < text.size(); done += block) {
    if (cancelled()) return {Code::kCancelled, "cancelled"};
    const std::size_t rows = std::min(block, text.size() - 1 - done);
    std::vector<std::uint32_t> window_rows(batch.count, 0);  // those before the next review
    for (std::size_t a = 0; a < batch.count; ++a) {
      const Needs& needs = entrants_[batch.first + a].needs;
      if (needs.tap != Tap::kLastRows || !needs.answer_window) continue;
      window_rows[a] = std::min(static_cast<std::uint32_t>(rows), needs.window);
    }
    const auto add = [&](std::size_t arm, std::size_t row_number, const RowScore& row) {
      if (text.size() - (done + 1 + row_number) > input_.scored) return;
      ProseScore& sum = result_.arms[batch.first + arm].prose;
      sum.nll += row.nll;
      sum.full_nll += row.full_nll;
      sum.kl += row.kl;
      sum.same_top += row.top == row.full_top ? 1 : 0;
      ++sum.rows;
    };
    const Status status = contest_.step(model_, *full, *arms, text.subspan(done, rows),
                                        text.subspan(done + 1, rows), window_rows, add);
    if (!status.ok()) return status;
    for (std::size_t a = 0; a < batch.count; ++a) {
      if (Status s = cut((*arms)[a], entrants_[batch.first + a]); !s.ok()) return s;
    }
  }
  for (std::size_t a = batch.first; a < batch.first + batch.count; ++a) {
    ProseScore& score = result_.arms[a].prose;
    for (double* sum : {&score.nll, &score.full_nll, &score.kl, &score.same_top}) {
      *sum /= std::max(1u, score.rows);
    }
  }
  return {};
}

std::vector<Examination::Batch> Examination::batches(std::size_t rows) const {
  const std::size_t fitting = cache_.options().max_rows / std::max<std::size_t>(rows, 1);
  const std::size_t most = std::max<std::size_t>(fitting, 2) - 1;
  std::vector<Batch> all;
  for (std::size_t first = 0; first < options_.arms.size(); first += most) {
    all.push_back({first, std::min(most, options_.arms.size() - first)});
  }
  return all;
}

Status Examination::run() {
  if (Status status = measure_full(); !status.ok()) return status;
  result_.questions = static_cast<std::uint32_t>(input_.asked.size());
  if (options_.only_right) {
    if (Status status = leave_right(); !status.ok()) return status;
  }
  const bool continuing = !input_.continuation.empty();
  if (!continuing && input_.asked.empty()) return {};  // nothing for arms to do
  const bool oracle =
      std::ranges::find(options_.arms, kOracle, &Arm::policy) != options_.arms.end();
  if (oracle) {
    if (Status status = look_ahead(); !status.ok()) return status;
  }
  if (options_.statistics) {
    if (Status status = measure_statistics(); !status.ok()) return status;
  }
  if (Status status = enter(); !status.ok()) return status;
  std::size_t rows = cache_.options().block_tokens;
  for (const Asked& asked : input_.asked) {
    rows = std::max(rows, asked.prompt.size() - input_.shared + asked.answer.size());
  }
  for (const Batch& batch : batches(rows)) {
    if (!continuing && !options_.blind) break;
    const double share = static_cast<double>(batch.first) / static_cast<double>(entrants_.size());
    progress_((1 + share) / 3, continuing ? "continuing" : "questions");
    const Status status = continuing ? prose(batch) : blind(batch);
    if (!status.ok()) return status;
  }
  for (std::size_t q = 0; options_.aware && q < input_.asked.size(); ++q) {
    progress_((2 + static_cast<double>(q) / static_cast<double>(input_.asked.size())) / 3,
              "questions read before the review");
    if (Status status = aware(q); !status.ok()) return status;
  }
  return {};
}

}  // namespace quire::eval
