// How far a sequence is cut.

#include "engine/reviewer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/budget.h"

namespace quire::engine {
namespace {

// The smallest chunk worth a forward pass: budgets that cannot hold it beside the protected
// entries are refused.
constexpr std::uint32_t kSmallChunk = 32;

// A reviewed sequence has tables of its own, at most 6 % of its K and V; and a little for rounding.
constexpr double kTableShare = 0.07;

// No review is taken for so poor that the next one would cut everything.
constexpr double kLeastYield = 0.25;

constexpr std::uint32_t kEverything = std::numeric_limits<std::uint32_t>::max();

}  // namespace

Reviewer::Reviewer(Cache& cache, const GenerateOptions& options)
    : cache_(cache),
      policy_(options.policy),
      keep_(options.keep),
      review_every_(options.review_every != 0 ? options.review_every
                                              : cache.options().block_tokens),
      full_bytes_(full_bytes_per_token(cache.options())) {
  // As without one, whatever is to be kept.
  const GateRule gate = options.gate.rule;
  if (policy_ && (policy_->keeps_all || gate == GateRule::kClosed)) close();
  if (policy_) needs_ = policy_->needs;
  if (policy_ && gate == GateRule::kAuto) needs_.gate_rows = kGateRows;
}

void Reviewer::close() {
  policy_.reset();
  keep_ = {};
}

std::uint32_t Reviewer::protected_entries() const {
  return policy_ ? policy_->protect.sinks + policy_->protect.recent : 0;
}

Status Reviewer::check() const {
  if (policy_ && full_bytes_ == 0) {
    return {Code::kInvalidArgument, "policy " + policy_->name +
                                        ": every layer of this model has a window, which drops "
                                        "what it has passed by itself; use no policy"};
  }
  if (!policy_) {
    if (keep_.unit == Keep::Unit::kPool) return {};
    return {Code::kInvalidArgument,
            "keep " + to_string(keep_) + ": without a policy nothing is dropped; name a policy"};
  }
  const std::string protection = std::to_string(policy_->protect.sinks) + " sinks + " +
                                 std::to_string(policy_->protect.recent) + " recent entries";
  const std::uint32_t least = protected_entries() + kSmallChunk;
  const std::uint32_t capacity = cache_.tokens_that_fit(needs_);
  if (capacity < least) {
    return {Code::kInvalidArgument,
            "budget " + bytes_text(cache_.options().budget_bytes) + " holds " +
                std::to_string(capacity) + " tokens; " + protection + " + a chunk of " +
                std::to_string(kSmallChunk) + " need " + std::to_string(least) +
                budget_advice(cache_.options(), needs_, least)};
  }
  if (keep_.unit == Keep::Unit::kPool || keep_.unit == Keep::Unit::kPercent) return {};
  if (const std::uint32_t keep = target(kEverything); keep <= protected_entries()) {
    const std::uint32_t tokens = protected_entries() + 1;
    return {Code::kInvalidArgument,
            "keep " + to_string(keep_) + " is " + std::to_string(keep) + " entries a lane, the " +
                protection + " need " + std::to_string(tokens) + "; keep " +
                std::to_string(tokens) + "tok or more, or lower the policy's sinks and recent"};
  }
  return {};
}

std::uint32_t Reviewer::target(std::uint32_t tokens_seen) const {
  switch (keep_.unit) {
    case Keep::Unit::kPool:
      return kEverything;
    case Keep::Unit::kTokens:
      return static_cast<std::uint32_t>(keep_.amount);
    case Keep::Unit::kPercent: {
      const double share = std::ceil(tokens_seen * keep_.amount / 100);
      return std::max(static_cast<std::uint32_t>(share), protected_entries() + 1);
    }
    case Keep::Unit::kBytes: {
      // What is allowed includes the tables, the rows until the next review and an open block; of
      // window layers their window.
      const CacheOptions& cache = cache_.options();
      const std::uint32_t newest = review_every_ + cache.block_tokens;
      const double windows =
          static_cast<double>(kv_bytes(cache, kEverything, newest) - full_bytes_ * kEverything);
      const double per_token = static_cast<double>(full_bytes_) * (1 + kTableShare);
      const double tokens = (keep_.amount - windows) / per_token - newest;
      return static_cast<std::uint32_t>(std::clamp(tokens, 1.0, 4e9));
    }
  }
  return kEverything;
}

std::uint32_t Reviewer::cadence() const {
  return policy_ && keep_.unit != Keep::Unit::kPool ? review_every_ : 0;
}

std::uint32_t Reviewer::window_rows(std::uint32_t unreviewed, std::uint32_t rows) const {
  if (needs_.tap != Tap::kLastRows || !needs_.answer_window) return 0;
  const std::uint32_t window = needs_.window, every = cadence();
  if (every == 0) return std::min(rows, window);  // reviews on demand may come after any row
  const std::uint32_t end = unreviewed + rows, first = every > window ? every - window : 0;
  return end > first ? std::min(rows, end - first) : 0;
}

std::uint32_t Reviewer::small_chunk() {
  return kSmallChunk;
}

std::uint32_t Reviewer::streamed_chunk(std::uint32_t chunk) const {
  return std::min(chunk, std::max(kSmallChunk, cache_.tokens_that_fit(needs_) / 4));
}

bool Reviewer::fits(SequenceId sequence, std::uint32_t rows) const {
  return cache_.bytes_needed(sequence, rows) <= cache_.bytes_free();
}

Status Reviewer::shrink(SequenceId sequence, std::uint32_t keep) {
  const Result<ShrinkReport> report = cache_.shrink(sequence, *policy_, keep);
  if (!report.ok()) return report.status();
  std::size_t lanes = 0;
  for (const LayerShape& layer : cache_.options().layers) {
    if (layer.window == 0) lanes += layer.kv_heads;
  }
  const double dropped = static_cast<double>(report->entries_dropped) *
                         static_cast<double>(full_bytes_) / static_cast<double>(lanes);
  dropped_ = dropped_ || dropped > 0;
  if (dropped > 0) {
    yield_ = std::clamp(static_cast<double>(report->bytes_freed) / dropped, kLeastYield, 1.0);
  }
  return {};
}

Status Reviewer::review(SequenceId sequence) {
  if (!policy_) return {};
  const Result<SequenceStats> stats = cache_.stats(sequence);
  if (!stats.ok()) return stats.status();
  const std::uint32_t keep = target(stats->tokens_seen);
  return stats->tokens_kept_mean > keep ? shrink(sequence, keep) : Status();
}

double Reviewer::spare(SequenceId sequence, std::uint32_t least) const {
  if (!policy_) return 0;
  const Result<SequenceStats> stats = cache_.stats(sequence);
  if (!stats.ok()) return 0;
  return std::max(0.0, std::ceil(stats->tokens_kept_mean) - least);
}

Status Reviewer::cut(SequenceId sequence, std::size_t missing_bytes, std::uint32_t least) {
  const Result<SequenceStats> stats = cache_.stats(sequence);
  if (!stats.ok()) return stats.status();
  const auto live = static_cast<std::uint32_t>(std::ceil(stats->tokens_kept_mean));
  const double missing = static_cast<double>(missing_bytes) / yield_;
  const auto entries = static_cast<std::uint32_t>(
      std::min(missing / static_cast<double>(full_bytes_) + cache_.options().block_tokens, 4e9));
  return shrink(sequence, std::max(least, live > entries ? live - entries : 0));
}

}  // namespace quire::engine
