#include "cli/bench_serve_summary.h"

#include <algorithm>

#include "eval/statistics.h"

namespace quire::cli {

std::optional<double> ServedRequest::tpot() const {
  if (answer_tokens < 2) return std::nullopt;
  return (ended - first_token) / (answer_tokens - 1);
}

Quantiles quantiles_of(std::span<const double> values) {
  if (values.empty()) return {};
  return {eval::quantile(values, 0.50), eval::quantile(values, 0.95), eval::quantile(values, 0.99)};
}

bool ServeLimits::met(const ServedRequest& request) const {
  if (request.outcome != Outcome::kAnswered) return false;
  if (ttft && request.ttft() > *ttft) return false;
  return !tpot || request.tpot().value_or(0) <= *tpot;
}

ServeSummary summarise(std::span<const ServedRequest> requests,
                       std::span<const ServeSample> samples, const ServeLimits& limits) {
  ServeSummary summary{.requests = requests.size()};
  std::vector<double> ttft, tpot, end_to_end;
  for (const ServedRequest& request : requests) {
    summary.seconds = std::max(summary.seconds, request.ended);
    summary.preemptions += request.preemptions;
    summary.restarts += request.restarted ? 1 : 0;
    summary.refused += request.outcome == Outcome::kRefused;
    summary.cancelled += request.outcome == Outcome::kCancelled;
    summary.failed += request.outcome == Outcome::kFailed;
    if (request.outcome != Outcome::kAnswered) continue;
    ++summary.answered;
    summary.prompt_tokens += request.prompt_tokens;
    summary.cached_tokens += request.cached_tokens;
    summary.answer_tokens += request.answer_tokens;
    summary.met += limits.met(request);
    ttft.push_back(request.ttft());
    end_to_end.push_back(request.end_to_end());
    if (const std::optional<double> pace = request.tpot()) tpot.push_back(*pace);
  }
  summary.ttft = quantiles_of(ttft);
  summary.tpot = quantiles_of(tpot);
  summary.end_to_end = quantiles_of(end_to_end);
  double before = 0, area = 0;
  for (const ServeSample& sample : samples) {
    area += sample.running * (sample.seconds - before);
    before = sample.seconds;
    summary.running_peak = std::max(summary.running_peak, sample.running);
    summary.waiting_peak = std::max(summary.waiting_peak, sample.waiting);
    summary.used_peak = std::max(summary.used_peak, sample.used_bytes);
    summary.committed_peak = std::max(summary.committed_peak, sample.committed_bytes);
    summary.blocks_peak = std::max(summary.blocks_peak, sample.blocks);
  }
  summary.running_mean = before > 0 ? area / before : 0;
  return summary;
}

std::vector<ServeSample> thinned(std::span<const ServeSample> samples, std::size_t most) {
  std::vector<ServeSample> kept;
  const std::size_t count = std::min(most, samples.size());
  for (std::size_t i = 1; i <= count; ++i) kept.push_back(samples[i * samples.size() / count - 1]);
  return kept;
}

}  // namespace quire::cli
