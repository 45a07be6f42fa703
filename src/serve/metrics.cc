#include "serve/metrics.h"

#include <algorithm>

#include "serve/openai_answer.h"

namespace quire::serve {
namespace {

// vLLM's, so that its dashboards show the same.
constexpr double kFirstToken[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
                                  1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
constexpr double kGap[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                           0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
constexpr double kRequest[] = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                               30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
constexpr double kTokens[] = {1,    2,    5,     10,    20,    50,     100,    200,    500,    1000,
                              2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000};
constexpr double kAnswers[] = {1, 2, 5, 10, 20};
// Values of statistics: of page-d from -1 to 1, of the others some units above 0.
constexpr double kGateValue[] = {-0.2, -0.1, -0.05, -0.02, -0.01, 0,   0.01, 0.02,
                                 0.05, 0.07, 0.1,   0.15,  0.2,   0.3, 0.5,  0.75,
                                 1,    1.5,  2,     3,     4,     5,   6,    8};
constexpr double kGateKl[] = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10};
constexpr double kGateScore[] = {-4, -3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4};
constexpr double kGateTime[] = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5};
constexpr double kStep[] = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};

using Also = MetricText::Also;

MetricText::Labelled by(const char* name, const std::map<std::string, std::uint64_t>& counts) {
  MetricText::Labelled values;
  for (const auto& [key, count] : counts) {
    values.emplace_back(label(name, key), static_cast<double>(count));
  }
  return values;
}

// Without its options, which clients choose: labels are a closed set.
std::string kind_of(const std::string& policy) {
  return policy.substr(0, policy.find(':'));
}

double real(std::uint64_t count) {
  return static_cast<double>(count);
}

}  // namespace

Metrics::Metrics()
    : finished_({{"stop", 0}, {"length", 0}, {"error", 0}, {"abort", 0}}),
      http_({{"2xx", 0}, {"4xx", 0}, {"5xx", 0}}),
      first_token_(kFirstToken),
      token_gap_(kGap),
      per_token_(kGap),
      whole_(kRequest),
      queue_(kRequest),
      inference_(kRequest),
      prefill_(kRequest),
      decode_(kRequest),
      gate_value_(kGateValue),
      gate_score_(kGateScore),
      gate_kl_(kGateKl),
      gate_time_(kGateTime),
      prompt_size_(kTokens),
      answer_size_(kTokens),
      max_tokens_size_(kTokens),
      n_size_(kAnswers),
      step_size_(kStep) {}

void Metrics::stepped(const engine::StepReport& step) {
  const std::scoped_lock lock(mutex_);
  step_size_.observe(step.answer_rows + step.prompt_rows);
}

void Metrics::token_gap(double seconds) {
  const std::scoped_lock lock(mutex_);
  token_gap_.observe(seconds);
}

void Metrics::answered(const engine::Answer& answer, std::uint32_t max_tokens, bool slow) {
  const std::scoped_lock lock(mutex_);
  slow_ += slow ? 1 : 0;
  const bool aborted = answer.finish == engine::Finish::kCancelled && !slow;
  ++finished_[aborted ? "abort" : finish_reason(answer.finish)];
  prompt_tokens_ += answer.prompt_tokens;
  cached_tokens_ += answer.kv.cached_tokens;
  if (!answer.kv.cache_miss_reason.empty()) ++misses_[answer.kv.cache_miss_reason];
  answer_tokens_ += answer.completion_tokens;
  if (answer.kv.lossy) ++lossy_[kind_of(answer.kv.policy)];
  if (answer.kv.entries_dropped > 0) {
    evicted_[kind_of(answer.kv.policy)] += answer.kv.entries_dropped;
  }
  const engine::GateReport& gate = answer.kv.gate;
  if (gate.decision != engine::GateDecision::kSkipped || gate.reason != engine::kNoGate) {
    ++gates_[std::string("{decision=\"") + name_of(gate.decision) + "\",reason=\"" + gate.reason +
             "\"}"];
  }
  if (gate.judged) {
    const bool checked = gate.judged->by == engine::kSelfCheck;
    (checked ? gate_kl_ : gate_value_).observe(gate.judged->value);
    if (gate.judged->mode == engine::GateMode::kZ) gate_score_.observe(gate.judged->score);
    gate_time_.observe(gate.seconds);
  }
  prompt_size_.observe(answer.prompt_tokens);
  answer_size_.observe(answer.completion_tokens);
  max_tokens_size_.observe(max_tokens);
  if (answer.completion_tokens == 0) return;
  const double whole = answer.first_token_seconds + answer.decode_seconds;
  first_token_.observe(answer.first_token_seconds);
  whole_.observe(whole);
  queue_.observe(answer.queue_seconds);
  inference_.observe(whole - answer.queue_seconds);
  prefill_.observe(answer.prefill_seconds);
  decode_.observe(answer.decode_seconds);
  if (answer.completion_tokens > 1) {
    per_token_.observe(answer.decode_seconds / (answer.completion_tokens - 1));
  }
}

void Metrics::asked(std::uint32_t answers) {
  const std::scoped_lock lock(mutex_);
  n_size_.observe(answers);
}

void Metrics::replied(int http_status) {
  const std::scoped_lock lock(mutex_);
  ++http_[std::to_string(http_status / 100) + "xx"];
}

void Metrics::rejected() {
  const std::scoped_lock lock(mutex_);
  ++rejected_;
}

void Metrics::disconnected() {
  const std::scoped_lock lock(mutex_);
  ++disconnected_;
}

void Metrics::write_state(MetricText& out, const EngineState& state) const {
  const CacheStats& cache = state.cache;
  out.gauge("num_requests_running", "Answers that are computed", state.engine.running, Also::kVllm);
  out.gauge("num_requests_waiting", "Answers that wait", state.engine.waiting, Also::kVllm);
  const double budget = real(std::max<std::uint64_t>(cache.budget_bytes, 1));
  out.gauge("kv_cache_usage_perc", "Bytes of the cache in use, as a share of its budget",
            real(cache.used_bytes) / budget, Also::kVllm);
  out.gauge("kv_budget_bytes", "The limit of the cache",
            {{"{tier=\"ram\"}", real(cache.budget_bytes)}});
  out.gauge("kv_bytes", "Bytes of the cache in use",
            {{"{tier=\"ram\",kind=\"codes\"}", real(cache.kv_bytes)},
             {"{tier=\"ram\",kind=\"tables\"}", real(cache.metadata_bytes)}});
  out.gauge("kv_committed_bytes", "Memory the cache has taken from the system",
            real(cache.committed_bytes));
  out.gauge("kv_stranded_bytes", "Of it: not in use, and of no use to another block format",
            real(cache.stranded_bytes));
  out.gauge("kv_sequences", "Sequences in the cache", cache.sequences);
}

void Metrics::write_work(MetricText& out, const EngineState& state) const {
  out.counter("request_success", "Answers by how they ended", by("finished_reason", finished_),
              Also::kVllm);
  out.counter("prompt_tokens", "Tokens of prompts answered", real(prompt_tokens_), Also::kVllm);
  out.counter("prompt_tokens_cached", "Of those: not computed, as the cache had them",
              real(cached_tokens_), Also::kVllm);
  out.counter("prompt_tokens_recomputed", "Rows computed again after a preemption or a restart",
              real(state.engine.recomputed_rows), Also::kVllm);
  out.counter("generation_tokens", "Tokens of answers", real(answer_tokens_), Also::kVllm);
  out.counter("num_preemptions", "Sequences dropped for others and recomputed",
              real(state.engine.preemptions), Also::kVllm);
  out.counter("num_restarts", "Likewise, after they had lost entries", real(state.engine.restarts));
  out.counter("num_pauses", "Rows that found no room in a step", real(state.engine.pauses));
  out.counter("steps", "Steps of the engine", real(state.engine.steps));
  out.counter("admission_rejections", "Requests refused because the queue was full",
              real(rejected_), Also::kVllm);
  out.counter("slow_readers", "Answers that ended because their reader was too slow", real(slow_));
  out.counter("client_disconnects", "Clients that left before their answer was whole",
              real(disconnected_));
  out.counter("http_requests", "Replies by class of status", by("status", http_));
  MetricText::Labelled evicted;
  for (const auto& [policy, count] : evicted_) {
    evicted.emplace_back("{policy=\"" + policy + "\",tier=\"ram\"}", real(count));
  }
  out.counter("tokens_evicted", "Entries of lanes that a policy dropped", evicted);
  out.counter("lossy_responses", "Answers that lost entries", by("policy", lossy_));
  const MovesReport& moves = state.cache.moves;
  out.counter("repack_moves", "Entries that repacking moved", real(moves.entries));
  out.counter("repack_blocks_freed", "Blocks that it gave back", real(moves.blocks));
}

void Metrics::write_prefixes(MetricText& out, const EngineState& state) const {
  const PrefixStats& prefix = state.cache.prefix;
  out.counter("prefix_cache_queries", "Tokens of prompts that began, looked up in the prefix cache",
              real(state.engine.prefix_queries), Also::kVllm);
  out.counter("prefix_cache_hits", "Of those: found", real(state.engine.prefix_hits), Also::kVllm);
  out.counter("cache_miss_reason", "Prompts of which not all was found, by why",
              by("reason", misses_));
  out.gauge("prefix_cache_units", "Blocks of tokens that are cached for prompts to come",
            real(prefix.units));
  out.gauge("prefix_cache_bytes", "What only they hold: given up when it is needed",
            real(prefix.bytes));
  out.counter("prefix_cache_entered", "Of those blocks: that came", real(prefix.entered));
  out.counter("prefix_cache_evictions", "Of those blocks: that made way", real(prefix.evicted));
}

// Where values drift from those a threshold was made for, these move.
void Metrics::write_gates(MetricText& out) const {
  MetricText::Labelled decisions;
  for (const auto& [labels, count] : gates_) decisions.emplace_back(labels, real(count));
  out.counter("gate_decisions", "Answers by what the gate decided for their prompt, and why",
              decisions);
  out.histogram("gate_value", "The gate's statistic of prompts that were judged", gate_value_);
  out.histogram("gate_self_check_kl", "KL of the first token behind a review, in nats", gate_kl_);
  out.histogram("gate_score", "The same in deviations from the calibration's mean (mode z)",
                gate_score_);
  out.histogram("gate_time_seconds", "Time that the statistic took", gate_time_);
}

void Metrics::write_times(MetricText& out) const {
  const auto times = [&](const char* name, const char* help, const Histogram& values) {
    out.histogram(name, help, values, Also::kVllm);
  };
  times("time_to_first_token_seconds", "From a request to its first token", first_token_);
  times("inter_token_latency_seconds", "Between two tokens of an answer", token_gap_);
  times("request_time_per_output_token_seconds", "Mean of that over an answer", per_token_);
  times("e2e_request_latency_seconds", "From a request to its last token", whole_);
  times("request_queue_time_seconds", "From a request to its first row", queue_);
  times("request_inference_time_seconds", "From its first row to its last token", inference_);
  times("request_prefill_time_seconds", "From its first row to its prompt's last", prefill_);
  times("request_decode_time_seconds", "From its first token to its last", decode_);
  times("request_prompt_tokens", "Tokens of a prompt", prompt_size_);
  times("request_generation_tokens", "Tokens of an answer", answer_size_);
  times("request_params_max_tokens", "max_tokens of a request", max_tokens_size_);
  times("request_params_n", "n of a request", n_size_);
  times("iteration_tokens_total", "Rows of a step", step_size_);
}

std::string Metrics::text(const EngineState& state, std::uint32_t connections, bool vllm) const {
  const std::scoped_lock lock(mutex_);
  MetricText out(vllm);
  write_state(out, state);
  out.gauge("http_connections", "Open connections", connections);
  write_work(out, state);
  write_prefixes(out, state);
  write_gates(out);
  write_times(out);
  return out.text();
}

}  // namespace quire::serve
