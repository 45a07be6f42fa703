#include "cli/bench_serve_run.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "quire/check.h"

namespace quire::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Blocks hold as many bytes in every layer of the models there are.
std::size_t block_bytes(const CacheOptions& options) {
  const LayerShape& layer = options.layers.front();
  return options.block_tokens * (layer.key_size * bytes_of(options.key_type) +
                                 layer.value_size * bytes_of(options.value_type));
}

class Served {
 public:
  Served(Engine& engine, const PromptMaker& prompts, const ServeRun& run)
      : cache_(*engine.cache), prompts_(prompts), run_(run) {
    record_.requests.resize(run.trace.size());
  }

  Status open(Engine& engine);
  Status run();
  ServeRecord take() {
    record_.stats = engine_->stats();
    record_.cache = cache_.stats();
    return std::move(record_);
  }

 private:
  double now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  bool due() const {
    if (next_ == run_.trace.size()) return false;
    return run_.concurrency > 0 ? next_ - ended_ < run_.concurrency
                                : run_.trace[next_].seconds <= now();
  }
  void submit(std::size_t index);
  void end(std::size_t index, const engine::Answer& answer);
  void sample(const engine::StepReport& step);
  void wait_for_next() const;

  Cache& cache_;
  const PromptMaker& prompts_;
  const ServeRun& run_;
  ServeRecord record_;
  std::unique_ptr<engine::Engine> engine_;
  Clock::time_point start_ = Clock::now();
  std::size_t next_ = 0, ended_ = 0;  // of the trace
};

Status Served::open(Engine& engine) {
  engine::EngineOptions options = run_.loop;
  options.clock = [this] { return now(); };
  options.on_step = [this](const engine::StepReport& step) { sample(step); };
  Result<std::unique_ptr<engine::Engine>> opened =
      engine::Engine::open(*engine.model, *engine.cache, std::move(options));
  if (!opened.ok()) return opened.status();
  engine_ = *std::move(opened);
  return {};
}

Status Served::run() {
  while (ended_ < record_.requests.size()) {
    if (run_.cancel != nullptr && run_.cancel->load()) return {Code::kCancelled, "cancelled"};
    while (due()) submit(next_++);
    if (!engine_->step()) {
      QUIRE_CHECK(next_ < run_.trace.size() || ended_ == next_);  // nobody is forgotten
      wait_for_next();
    }
    if (run_.on_progress) run_.on_progress(ended_, engine_->stats().running);
  }
  return {};
}

// Short enough to notice ctrl-C.
void Served::wait_for_next() const {
  if (next_ == run_.trace.size() || run_.concurrency > 0) return;
  constexpr double kLongest = 0.1;
  const double wait = std::min(run_.trace[next_].seconds - now(), kLongest);
  if (wait > 0) std::this_thread::sleep_for(std::chrono::duration<double>(wait));
}

void Served::submit(std::size_t index) {
  const Arrival& arrival = run_.trace[index];
  ServedRequest& served = record_.requests[index];
  served.arrived = run_.concurrency > 0 ? now() : arrival.seconds;
  served.prompt_tokens = arrival.prompt_tokens;
  engine::Request request{.prompt = prompts_.make(index, arrival.prompt_tokens),
                          .options = run_.options};
  if (run_.options.policy) request.on_overflow = engine::Overflow::kStream;
  request.options.max_tokens = arrival.answer_tokens;
  request.options.stop_at_end = false;
  request.options.on_token = [this, index](model::Token) {
    ServedRequest& answering = record_.requests[index];
    if (answering.answer_tokens++ == 0) answering.first_token = now();
  };
  request.on_done = [this, index](engine::RequestId, const engine::Answer& answer) {
    end(index, answer);
  };
  const Result<engine::RequestId> accepted = engine_->submit(std::move(request));
  if (accepted.ok()) return;
  served.ended = now();
  served.error = accepted.status().message();
  ++ended_;
}

void Served::end(std::size_t index, const engine::Answer& answer) {
  ServedRequest& served = record_.requests[index];
  served.ended = now();
  served.preemptions = answer.kv.preemptions;
  served.cached_tokens = answer.kv.cached_tokens;
  served.restarted = answer.kv.restarted;
  switch (answer.finish) {
    case engine::Finish::kStop:
    case engine::Finish::kLength:
      served.outcome = Outcome::kAnswered;
      break;
    case engine::Finish::kCancelled:
      served.outcome = Outcome::kCancelled;
      break;
    case engine::Finish::kError:
      served.outcome = Outcome::kFailed;
      served.error = answer.error.message();
      break;
  }
  ++ended_;
}

void Served::sample(const engine::StepReport& step) {
  const CacheStats cache = cache_.stats();
  record_.samples.push_back({.seconds = step.end_seconds,
                             .running = step.running,
                             .waiting = step.waiting,
                             .paused = step.paused,
                             .answer_rows = step.answer_rows,
                             .prompt_rows = step.prompt_rows,
                             .used_bytes = cache.used_bytes,
                             .committed_bytes = cache.committed_bytes,
                             .blocks = cache.kv_bytes / block_bytes(cache_.options())});
}

}  // namespace

Result<ServeRecord> serve_trace(Engine& engine, const PromptMaker& prompts, const ServeRun& run) {
  Served served(engine, prompts, run);
  if (Status status = served.open(engine); !status.ok()) return status;
  if (Status status = served.run(); !status.ok()) return status;
  return served.take();
}

}  // namespace quire::cli
