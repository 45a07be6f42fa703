// quire's side of a benchmark.

#include <algorithm>
#include <chrono>
#include <limits>

#include "cli/bench_arm.h"
#include "engine/budget.h"
#include "engine/reviewer.h"

namespace quire::cli {
namespace {

using Clock = std::chrono::steady_clock;
using model::Chunk;
using model::Token;

constexpr std::uint32_t kWarmSteps = 2;
constexpr std::size_t kRepackBytes = std::size_t{1} << 20;  // after reviews of an answer

// Of a row that keeps less.
engine::GenerateOptions reviews_of(const BenchRow& row, const std::optional<Policy>& policy) {
  return {.policy = policy,
          .keep = {.unit = engine::Keep::Unit::kTokens, .amount = static_cast<double>(row.keep)}};
}

class QuireArm final : public Arm {
 public:
  QuireArm(Engine& engine, std::optional<Policy> policy, std::uint32_t chunk)
      : model_(*engine.model),
        cache_(*engine.cache),
        policy_(std::move(policy)),
        chunk_(std::min(chunk, engine.cache->options().max_rows)) {}

  Status prepare(const BenchRow& row, const OnTokens& on_tokens) override;
  Result<double> run(const BenchRow& row) override;
  Result<std::vector<float>> logits_after(std::span<const Token> tokens, bool first) override;
  void pause() override { model_.pause(); }
  void resume() override { model_.resume(); }

 private:
  std::uint32_t vocabulary() const { return model_.info().vocabulary; }
  Status drop(std::vector<SequenceId>& sequences);
  Status read(SequenceId sequence, std::span<const Token> tokens, bool last_logits,
              std::uint32_t window);
  // Moves what reviews left sparse together, up to `bytes` of it.
  void repack(std::size_t bytes);
  Status read_depth(std::uint32_t index, const BenchRow& row, const OnTokens& on_tokens);
  Status decode(const BenchRow& row, std::uint32_t steps);
  Result<double> timed(const BenchRow& row, std::uint32_t tokens);

  model::Model& model_;
  Cache& cache_;
  std::optional<Policy> policy_;
  std::uint32_t chunk_;

  std::optional<engine::Reviewer> reviewer_;  // of the prepared row, if it keeps less than all
  std::vector<SequenceId> bases_;             // of the prepared row
  std::uint32_t depth_ = 0, keep_ = 0;        // of every base
  std::vector<SequenceId> working_;           // what one run adds to; forks of the bases
  std::optional<SequenceId> text_;            // of logits_after()
};

Status QuireArm::drop(std::vector<SequenceId>& sequences) {
  for (const SequenceId sequence : sequences) {
    if (Status status = cache_.drop(sequence); !status.ok()) return status;
  }
  sequences.clear();
  return {};
}

// `window`: the last so many of the tokens are what Tap::kLastRows sums.
Status QuireArm::read(SequenceId sequence, std::span<const Token> tokens, bool last_logits,
                      std::uint32_t window) {
  const std::size_t watched = tokens.size() - std::min<std::size_t>(window, tokens.size());
  for (std::size_t at = 0; at < tokens.size();) {
    const std::size_t rows = std::min<std::size_t>(chunk_, tokens.size() - at), end = at + rows;
    const std::size_t seen = end > watched ? std::min(rows, end - watched) : 0;
    const Chunk chunk{.sequence = sequence,
                      .tokens = tokens.subspan(at, rows),
                      .window_rows = static_cast<std::uint32_t>(seen),
                      .logit_rows = last_logits && end == tokens.size() ? 1u : 0u};
    if (Status status = model_.forward({&chunk, 1}, nullptr); !status.ok()) return status;
    at = end;
  }
  return {};
}

void QuireArm::repack(std::size_t bytes) {
  cache_.plan_moves(bytes);
  cache_.copy_moves(bytes);
  cache_.install_moves();
}

Status QuireArm::read_depth(std::uint32_t index, const BenchRow& row, const OnTokens& on_tokens) {
  const std::vector<Token> tokens = bench_tokens(index, 0, row.depth, vocabulary());
  const std::uint32_t watched =
      reviewer_ && reviewer_->needs().tap == Tap::kLastRows ? reviewer_->needs().window : 0;
  for (std::uint32_t at = depth_; at < row.depth;) {
    const std::uint32_t rows = std::min(chunk_, row.depth - at);
    const std::uint32_t end = at + rows, first = row.depth - std::min(watched, row.depth);
    const std::uint32_t window = end > first ? end - std::max(first, at) : 0;
    if (Status status = read(bases_[index], {tokens.data() + at, rows}, false, window);
        !status.ok()) {
      return status;
    }
    at = end;
    on_tokens(std::uint64_t{index} * row.depth + at, std::uint64_t{row.batch} * row.depth);
  }
  if (!reviewer_) return {};
  if (Status status = reviewer_->review(bases_[index]); !status.ok()) return status;
  repack(std::numeric_limits<std::size_t>::max());
  return {};
}

Status QuireArm::prepare(const BenchRow& row, const OnTokens& on_tokens) {
  const bool reads_on = bases_.size() == row.batch && keep_ == 0 && row.keep == 0 &&
                        depth_ <= row.depth && depth_ > 0;
  if (!reads_on) {
    if (Status status = drop(bases_); !status.ok()) return status;
    reviewer_.reset();
    if (row.keep > 0) reviewer_.emplace(cache_, reviews_of(row, policy_));
    for (depth_ = 0; bases_.size() < row.batch && row.depth > 0;) {
      const Result<SequenceId> base = cache_.start(reviewer_ ? reviewer_->needs() : Needs{});
      if (!base.ok()) return base.status();
      bases_.push_back(*base);
    }
  }
  for (std::uint32_t i = 0; i < bases_.size(); ++i) {
    if (Status status = read_depth(i, row, on_tokens); !status.ok()) return status;
  }
  depth_ = row.depth;
  keep_ = row.keep;
  const std::uint32_t warm = row.kind == BenchRow::Kind::kPrefill ? chunk_ : kWarmSteps;
  return timed(row, std::min(warm, row.tokens)).status();
}

Status QuireArm::decode(const BenchRow& row, std::uint32_t steps) {
  const std::uint32_t cadence = reviewer_ ? reviewer_->cadence() : 0;
  std::vector<Token> tokens(row.batch);
  std::vector<Chunk> chunks(row.batch);
  for (std::uint32_t step = 0; step < steps; ++step) {
    for (std::uint32_t i = 0; i < row.batch; ++i) {
      tokens[i] = bench_token(i, row.depth + step, vocabulary());
      chunks[i] = {
          .sequence = working_[i], .tokens = {&tokens[i], 1}, .answer = true, .logit_rows = 1};
    }
    if (Status status = model_.forward(chunks, nullptr); !status.ok()) return status;
    if (cadence == 0 || (step + 1) % cadence != 0) continue;
    for (const SequenceId sequence : working_) {
      if (Status status = reviewer_->review(sequence); !status.ok()) return status;
    }
    repack(kRepackBytes);
  }
  return {};
}

Result<double> QuireArm::timed(const BenchRow& row, std::uint32_t tokens) {
  for (std::uint32_t i = 0; i < row.batch; ++i) {
    const Result<SequenceId> one = row.depth > 0 ? cache_.fork(bases_[i]) : cache_.start();
    if (!one.ok()) return one.status();
    working_.push_back(*one);
  }
  const bool prefill = row.kind == BenchRow::Kind::kPrefill;
  const std::vector<Token> prompt = bench_tokens(0, row.depth, prefill ? tokens : 0, vocabulary());
  const Clock::time_point start = Clock::now();
  const Status status = prefill ? read(working_[0], prompt, true, 0) : decode(row, tokens);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const Status dropped = drop(working_);
  if (!status.ok()) return status;
  if (!dropped.ok()) return dropped;
  return seconds;
}

Result<double> QuireArm::run(const BenchRow& row) {
  return timed(row, row.tokens);
}

Result<std::vector<float>> QuireArm::logits_after(std::span<const Token> tokens, bool first) {
  if (first || !text_) {
    if (text_) {
      if (Status status = cache_.drop(*text_); !status.ok()) return status;
    }
    const Result<SequenceId> text = cache_.start();
    if (!text.ok()) return text.status();
    text_ = *text;
  }
  std::vector<float> found;
  const Chunk chunk{.sequence = *text_, .tokens = tokens, .logit_rows = 1};
  const Status status =
      model_.forward({&chunk, 1}, [&](std::size_t, std::uint32_t, std::span<const float> logits) {
        found.assign(logits.begin(), logits.end());
      });
  if (!status.ok()) return status;
  return found;
}

// What every row needs at once: its bases, what a run adds to each, and the text of the check.
std::uint64_t tokens_at_once(const std::vector<BenchRow>& rows, std::uint32_t block) {
  constexpr std::uint64_t kText = 512;
  std::uint64_t most = 0;
  for (const BenchRow& row : rows) {
    most = std::max(most, std::uint64_t{row.batch} * (row.depth + row.tokens + 2 * block));
  }
  return most + kText;
}

}  // namespace

Result<std::unique_ptr<Arm>> quire_arm(Engine& engine, const BenchOptions& options) {
  std::optional<Policy> policy;
  if (std::ranges::any_of(options.rows, [](const BenchRow& row) { return row.keep > 0; })) {
    Result<Policy> made = make_policy(options.policy);
    if (!made.ok()) return made.status();
    policy = *std::move(made);
  }
  CacheOptions cache = engine.cache->options();
  // Tables and tap sums are at most 6 % of K and V; slabs and their headroom are the rest.
  const std::size_t kv =
      engine::kv_bytes_per_token(cache) * tokens_at_once(options.rows, cache.block_tokens);
  cache.budget_bytes = ((kv + kv / 8) / (1 << 20) + 16) << 20;
  for (const BenchRow& row : options.rows) cache.max_rows = std::max(cache.max_rows, row.batch);
  cache.repack.watermark = 1;  // fewer blocks to read, although memory is ample here
  Result<std::unique_ptr<Cache>> opened = Cache::open(std::move(cache));
  if (!opened.ok()) return opened.status();
  if (Status status = engine.model->attach(**opened); !status.ok()) return status;
  engine.cache = *std::move(opened);  // nothing refers to the old one any more
  for (const BenchRow& row : options.rows) {
    if (row.keep == 0) continue;
    const Status status = engine::Reviewer(*engine.cache, reviews_of(row, policy)).check();
    if (!status.ok()) return Status(status.code(), row.name() + ": " + status.message());
  }
  return std::unique_ptr<Arm>(
      std::make_unique<QuireArm>(engine, std::move(policy), options.engine.chunk));
}

}  // namespace quire::cli
