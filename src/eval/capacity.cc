#include "eval/capacity.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/budget.h"
#include "engine/engine.h"
#include "eval/statistics.h"

namespace quire::eval {
namespace {

using engine::Engine;
using model::Token;

constexpr std::size_t kMi = std::size_t{1} << 20;
constexpr const char* kArms[] = {"full", "whole", "repack"};

// What a run of some requests through the engine showed.
struct Run {
  std::uint32_t finished = 0;
  double seconds = 0;
  std::vector<double> latency;  // of each request
  std::size_t bytes_peak = 0;   // in use, headroom apart
  std::uint32_t together = 0;   // the most that ran in one step
  bool waited = false;          // one was paused, preempted or restarted: the run ended there
  engine::EngineStats stats;
  MovesReport moves;
};

class Capacity {
 public:
  Capacity(model::Model& model, const CacheOptions& like, const CapacityOptions& options)
      : model_(model),
        like_(like),
        options_(options),
        tokens_(model.tokenize(options.text, true, false)) {
    like_.block_tokens = options.block_tokens;
    like_.repack = {};
  }

  Status check() const;
  Result<CapacityReport> measure();

 private:
  std::uint32_t length() const { return options_.prompt + options_.answer; }
  Result<std::optional<Policy>> policy_of(const std::string& name, const std::string& arm,
                                          std::uint32_t seed) const;
  std::vector<Token> prompt_of(std::uint32_t seed, std::uint32_t request) const;
  CacheOptions cache_of(const std::string& arm, std::size_t budget) const;
  Result<Run> run(const CacheOptions& cache, const std::optional<Policy>& policy,
                  std::uint32_t seed, std::uint32_t requests, std::uint32_t at_once);
  Result<std::size_t> bytes_of_one(const std::string& arm, const std::optional<Policy>& policy,
                                   std::uint32_t seed);
  Result<std::uint32_t> most_together(const std::string& arm, const std::optional<Policy>& policy,
                                      std::uint32_t seed, std::size_t pool_bytes);
  Status add_cell(const std::string& policy, const std::string& arm, double pool,
                  std::uint32_t seed);
  void summarise();

  model::Model& model_;
  CacheOptions like_;
  const CapacityOptions& options_;
  const std::vector<Token> tokens_;
  CapacityReport report_;
};

Status Capacity::check() const {
  const std::size_t least = std::size_t{options_.prompt} * 2;
  if (tokens_.size() >= least) return {};
  return {Code::kInvalidArgument, "text: " + std::to_string(tokens_.size()) +
                                      " tokens; prompts of " + std::to_string(options_.prompt) +
                                      " need " + std::to_string(least)};
}

Result<std::optional<Policy>> Capacity::policy_of(const std::string& name, const std::string& arm,
                                                  std::uint32_t seed) const {
  if (arm == "full") return std::optional<Policy>();
  Result<Policy> policy =
      make_policy(name == "random" ? "random:seed=" + std::to_string(seed) : name);
  if (!policy.ok()) return policy.status();
  return std::optional<Policy>(*std::move(policy));
}

// Each begins elsewhere in the text.
std::vector<Token> Capacity::prompt_of(std::uint32_t seed, std::uint32_t request) const {
  const std::size_t starts = tokens_.size() - options_.prompt;
  const std::size_t first = (std::size_t{seed} * 7919 + std::size_t{request} * 977) % starts;
  return {tokens_.begin() + static_cast<std::ptrdiff_t>(first),
          tokens_.begin() + static_cast<std::ptrdiff_t>(first + options_.prompt)};
}

CacheOptions Capacity::cache_of(const std::string& arm, std::size_t budget) const {
  CacheOptions options = like_;
  options.budget_bytes = budget;
  options.reclaim = arm == "repack" ? Reclaim::kRepack : Reclaim::kWhole;
  return options;
}

Result<Run> Capacity::run(const CacheOptions& options, const std::optional<Policy>& policy,
                          std::uint32_t seed, std::uint32_t requests, std::uint32_t at_once) {
  Result<std::unique_ptr<Cache>> opened = Cache::open(options);
  if (!opened.ok()) return opened.status();
  Cache& cache = **opened;
  if (Status status = model_.attach(cache); !status.ok()) return status;
  Run run;
  std::atomic<bool> stop = false;
  std::unique_ptr<Engine> loop;
  engine::EngineOptions engine_options;
  engine_options.max_running = at_once;
  engine_options.reserve_tokens = options_.answer;  // who starts shall not wait for room later
  double last = 0, first = 0;
  engine_options.on_step = [&](const engine::StepReport& step) {
    if (first == 0) first = step.begin_seconds;
    last = step.end_seconds;
    run.together = std::max(run.together, step.running);
    const CacheStats stats = cache.stats();
    run.bytes_peak = std::max(run.bytes_peak, stats.used_bytes - stats.headroom_bytes);
    const engine::EngineStats sums = loop->stats();
    run.waited = sums.pauses + sums.preemptions + sums.restarts > 0;
    const bool interrupted = options_.cancel != nullptr && options_.cancel->load();
    if (interrupted || (run.waited && at_once > 1)) stop = true;
  };
  Result<std::unique_ptr<Engine>> opened_loop = Engine::open(model_, cache, engine_options);
  if (!opened_loop.ok()) return opened_loop.status();
  loop = *std::move(opened_loop);
  for (std::uint32_t i = 0; i < requests; ++i) {
    engine::Request request;
    request.prompt = prompt_of(seed, i);
    request.options.max_tokens = options_.answer;
    request.options.policy = policy;
    if (policy) {
      request.options.keep = {.unit = engine::Keep::Unit::kPercent,
                              .amount = 100 * (1 - options_.evicted)};
    }
    request.options.sampler.temperature = 0;
    request.options.make_sampler = options_.make_sampler;
    request.options.stop_at_end = false;
    request.options.cancel = &stop;
    request.on_done = [&](engine::RequestId, const engine::Answer& answer) {
      run.finished += answer.finish == engine::Finish::kLength ? 1 : 0;
      run.latency.push_back(answer.first_token_seconds + answer.decode_seconds);
    };
    const Result<engine::RequestId> id = loop->submit(std::move(request));
    if (!id.ok()) return id.status();
  }
  loop->run_until_idle();
  run.seconds = last - first;
  run.stats = loop->stats();
  run.moves = cache.stats().moves;
  if (options_.cancel != nullptr && options_.cancel->load()) {
    return Status(Code::kCancelled, "interrupted");
  }
  return run;
}

// The most that one request holds, alone in an ample pool.
Result<std::size_t> Capacity::bytes_of_one(const std::string& arm,
                                           const std::optional<Policy>& policy,
                                           std::uint32_t seed) {
  CacheOptions options = cache_of(arm, engine::kv_bytes_per_token(like_) * length() * 3 + 16 * kMi);
  const Result<Run> alone = run(options, policy, seed, 1, 1);
  if (!alone.ok()) return alone.status();
  return alone->bytes_peak;
}

// What the pool could hold at best; the run has the last word.  Repacked, nothing but what is kept.
Result<std::uint32_t> Capacity::most_together(const std::string& arm,
                                              const std::optional<Policy>& policy,
                                              std::uint32_t seed, std::size_t pool_bytes) {
  const auto kept = static_cast<std::size_t>(
      std::max<double>(options_.prompt, length() * (1 - options_.evicted)));
  std::size_t one = kept * engine::kv_bytes_per_token(like_);
  if (arm != "repack") {
    const Result<std::size_t> alone = bytes_of_one(arm, policy, seed);
    if (!alone.ok()) return alone.status();
    one = *alone;
  }
  return std::clamp(static_cast<std::uint32_t>(pool_bytes / one), 1u, options_.requests);
}

Status Capacity::add_cell(const std::string& name, const std::string& arm, double pool,
                          std::uint32_t seed) {
  const Result<std::optional<Policy>> policy = policy_of(name, arm, seed);
  if (!policy.ok()) return policy.status();
  CapacityCell cell{.policy = name, .arm = arm, .pool = pool, .seed = seed};
  cell.pool_bytes = static_cast<std::size_t>(
      pool * static_cast<double>(engine::kv_bytes_per_token(like_)) * length() * options_.requests);
  const Result<std::uint32_t> most = most_together(arm, *policy, seed, cell.pool_bytes);
  if (!most.ok()) return most.status();
  // One that had to wait for room after all takes one away.
  for (std::uint32_t at_once = *most;; --at_once) {
    const Result<Run> all =
        run(cache_of(arm, cell.pool_bytes), *policy, seed, options_.requests, at_once);
    if (!all.ok()) return all.status();
    if (all->waited && at_once > 1) continue;
    if (all->finished != options_.requests) {
      return {Code::kOutOfMemory, name + ", " + arm + ": " + std::to_string(all->finished) +
                                      " of " + std::to_string(options_.requests) +
                                      " requests ended with a whole answer"};
    }
    cell.concurrency = all->together;
    cell.tok_s = static_cast<double>(options_.requests) * length() / all->seconds;
    cell.latency_p95 = quantile(all->latency, 0.95);
    cell.moved_bytes = all->moves.bytes;
    cell.preemptions = all->stats.preemptions + all->stats.restarts;
    cell.pauses = all->stats.pauses;
    report_.cells.push_back(cell);
    return {};
  }
}

Result<CapacityReport> Capacity::measure() {
  const double cells = static_cast<double>(options_.pools.size()) * options_.seeds *
                       static_cast<double>(options_.policies.size()) * std::size(kArms);
  double done = 0;
  // The arms of a cell one after the other, so that they meet the same machine.
  for (std::uint32_t seed = 0; seed < options_.seeds; ++seed) {
    for (const double pool : options_.pools) {
      for (const std::string& policy : options_.policies) {
        for (const char* arm : kArms) {
          if (options_.on_progress) {
            options_.on_progress(done++ / cells, "requests together, " + policy + ", " + arm);
          }
          if (Status status = add_cell(policy, arm, pool, seed); !status.ok()) return status;
        }
      }
    }
  }
  summarise();
  return std::move(report_);
}

void Capacity::summarise() {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  report_.concurrency_vs_full = report_.concurrency_vs_whole = kNone;
  report_.throughput_vs_whole = report_.worst_throughput_cell = kNone;
  const auto values = [&](const std::string& policy, double pool, const char* arm, auto field) {
    std::vector<double> found;
    for (const CapacityCell& cell : report_.cells) {
      if (cell.policy != policy || cell.pool != pool || cell.arm != arm) continue;
      found.push_back(static_cast<double>(cell.*field));
    }
    return found;
  };
  for (const std::string& policy : options_.policies) {
    for (const double pool : options_.pools) {
      const auto ratio = [&](const char* over, auto field) {
        return median(values(policy, pool, "repack", field)) /
               median(values(policy, pool, over, field));
      };
      const auto least = [](double& to, double value) { to = std::min(to, value); };
      least(report_.concurrency_vs_full, ratio("full", &CapacityCell::concurrency));
      least(report_.concurrency_vs_whole, ratio("whole", &CapacityCell::concurrency));
      least(report_.throughput_vs_whole, ratio("whole", &CapacityCell::tok_s));
      report_.latency_vs_full =
          std::max(report_.latency_vs_full, ratio("full", &CapacityCell::latency_p95));
      const std::vector<double> repack = values(policy, pool, "repack", &CapacityCell::tok_s);
      const std::vector<double> whole = values(policy, pool, "whole", &CapacityCell::tok_s);
      for (std::size_t i = 0; i < repack.size(); ++i) {
        least(report_.worst_throughput_cell, repack[i] / whole[i]);
      }
    }
  }
}

}  // namespace

Result<CapacityReport> measure_capacity(model::Model& model, const CacheOptions& like,
                                        const CapacityOptions& options) {
  Capacity capacity(model, like, options);
  if (Status status = capacity.check(); !status.ok()) return status;
  return capacity.measure();
}

}  // namespace quire::eval
