// What requests felt and what the engine held: the numbers of `quire bench serve`, from what was
// recorded.  Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace quire::cli {

enum class Outcome : std::uint8_t {
  kAnswered,
  kRefused,    // before anything was computed
  kCancelled,  // by the engine
  kFailed,     // ended with an error
};

// Seconds from the start of the run.
struct ServedRequest {
  double arrived = 0, first_token = 0, ended = 0;
  std::uint32_t prompt_tokens = 0, answer_tokens = 0;  // answer: of those it got
  Outcome outcome = Outcome::kRefused;
  std::uint32_t preemptions = 0, cached_tokens = 0;
  bool restarted = false;
  std::string error;  // of kRefused and kFailed

  double ttft() const { return first_token - arrived; }
  double end_to_end() const { return ended - arrived; }
  // Seconds a token after the first; of one token there is none.
  std::optional<double> tpot() const;
};

// After one step of the engine.
struct ServeSample {
  double seconds = 0;
  std::uint32_t running = 0, waiting = 0, paused = 0, answer_rows = 0, prompt_rows = 0;
  std::size_t used_bytes = 0, committed_bytes = 0, blocks = 0;
};

struct Quantiles {
  double p50 = 0, p95 = 0, p99 = 0;
};
// Linear between order statistics; of nothing: zeros.
Quantiles quantiles_of(std::span<const double> values);

// Seconds; a request without a second token meets every limit of tpot.
struct ServeLimits {
  std::optional<double> ttft, tpot;
  bool any() const { return ttft.has_value() || tpot.has_value(); }
  bool met(const ServedRequest& request) const;  // answered, within them
};

struct ServeSummary {
  std::size_t requests = 0, answered = 0, refused = 0, cancelled = 0, failed = 0;
  std::uint64_t prompt_tokens = 0, answer_tokens = 0;  // of answered requests
  std::uint64_t cached_tokens = 0;                     // of those prompts: not computed
  std::uint64_t preemptions = 0, restarts = 0;
  double seconds = 0;                // to the last end
  Quantiles ttft, tpot, end_to_end;  // of answered requests
  std::size_t met = 0;               // answered within the limits
  double running_mean = 0;           // over time
  std::uint32_t running_peak = 0, waiting_peak = 0;
  std::size_t used_peak = 0, committed_peak = 0, blocks_peak = 0;

  double per_second(double count) const { return seconds > 0 ? count / seconds : 0; }
};
ServeSummary summarise(std::span<const ServedRequest> requests,
                       std::span<const ServeSample> samples, const ServeLimits& limits);

// At most `most` of them, evenly, the last one included.
std::vector<ServeSample> thinned(std::span<const ServeSample> samples, std::size_t most);

}  // namespace quire::cli
