// Counts and times of everything that was answered, for GET /metrics.  Any thread may call.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "engine/engine.h"
#include "quire/cache.h"
#include "serve/metric_text.h"

namespace quire::serve {

// The engine after its newest step.
struct EngineState {
  engine::EngineStats engine{};
  CacheStats cache{};
};

class Metrics {
 public:
  Metrics();

  void stepped(const engine::StepReport& step);
  void token_gap(double seconds);  // between two tokens of one answer
  // An answer's end; `slow`: its reader was.
  void answered(const engine::Answer& answer, std::uint32_t max_tokens, bool slow);
  void asked(std::uint32_t answers);  // n of a request
  void replied(int http_status);
  void rejected();      // for want of room in the queue
  void disconnected();  // a client, before its answer was whole

  // What prometheus reads.  `vllm`: see MetricText.
  std::string text(const EngineState& state, std::uint32_t connections, bool vllm) const;

 private:
  void write_state(MetricText& out, const EngineState& state) const;
  void write_work(MetricText& out, const EngineState& state) const;
  void write_prefixes(MetricText& out, const EngineState& state) const;
  void write_gates(MetricText& out) const;
  void write_times(MetricText& out) const;

  mutable std::mutex mutex_;
  std::uint64_t prompt_tokens_ = 0, cached_tokens_ = 0, answer_tokens_ = 0;
  std::map<std::string, std::uint64_t> misses_;  // by reason
  std::uint64_t rejected_ = 0, disconnected_ = 0, slow_ = 0;
  std::map<std::string, std::uint64_t> finished_;         // by finish reason
  std::map<std::string, std::uint64_t> http_;             // by class of status
  std::map<std::string, std::uint64_t> lossy_, evicted_;  // by policy
  std::map<std::string, std::uint64_t> gates_;            // by decision and reason
  Histogram first_token_, token_gap_, per_token_, whole_, queue_, inference_, prefill_, decode_;
  Histogram gate_value_, gate_score_, gate_kl_, gate_time_;
  Histogram prompt_size_, answer_size_, max_tokens_size_, n_size_, step_size_;
};

}  // namespace quire::serve
