#include "serve/engine_thread.h"

#include <future>
#include <utility>

#include "engine/steady_clock.h"

namespace quire::serve {
EngineThread::EngineThread(Metrics& metrics, Options options)
    : metrics_(metrics), options_(std::move(options)), jobs_(options_.answers + 1) {}

Result<std::unique_ptr<EngineThread>> EngineThread::start(model::Model& model, Cache& cache,
                                                          Metrics& metrics, Options options) {
  std::unique_ptr<EngineThread> thread(new EngineThread(metrics, std::move(options)));
  engine::EngineOptions settings = thread->options_.engine;
  settings.on_step = [&metrics](const engine::StepReport& step) { metrics.stepped(step); };
  Result<std::unique_ptr<engine::Engine>> engine =
      engine::Engine::open(model, cache, std::move(settings));
  if (!engine.ok()) return engine.status();
  thread->engine_ = *std::move(engine);
  thread->cache_ = &cache;
  thread->publish();
  thread->thread_ = std::thread([self = thread.get()] { self->loop(); });
  return thread;
}

EngineThread::~EngineThread() {
  jobs_.close();
  if (thread_.joinable()) thread_.join();
}

double EngineThread::now() const {
  return options_.clock ? options_.clock() : engine::steady_seconds();
}

bool EngineThread::submit(Job job) {
  const auto count = static_cast<std::uint32_t>(job.requests.size());
  if (answers_.fetch_add(count) + count > options_.answers || !jobs_.push(std::move(job))) {
    answers_ -= count;
    return false;
  }
  return true;
}

bool EngineThread::between_steps(std::function<void(Cache&)> work) {
  auto task = std::make_shared<std::packaged_task<void(Cache&)>>(std::move(work));
  std::future<void> done = task->get_future();
  Job job{.work = [task = std::move(task)](Cache& cache) { (*task)(cache); }};
  if (!jobs_.push(std::move(job))) return false;
  try {
    done.get();  // throws what the work threw
  } catch (const std::future_error&) {
    return false;  // it went unused
  }
  return true;
}

EngineState EngineThread::state() const {
  const std::scoped_lock lock(state_mutex_);
  return state_;
}

bool EngineThread::stalled(double seconds) const {
  return busy_ && now() - beat_ > seconds;
}

void EngineThread::publish() {
  EngineState state{.engine = engine_->stats(), .cache = cache_->stats()};
  const std::scoped_lock lock(state_mutex_);
  state_ = std::move(state);
}

void EngineThread::loop() {
  while (!jobs_.closed()) {
    const bool idle = engine_->idle();
    if (idle) busy_ = false;
    for (Job& job : jobs_.take(idle)) {
      beat_ = now();
      busy_ = true;
      if (job.work) {
        job.work(*cache_);
      } else {
        begin(std::move(job));
      }
    }
    engine_->step();
    beat_ = now();
    publish();
  }
  for (const std::weak_ptr<AnswerPipe>& weak : pipes_) {
    if (const std::shared_ptr<AnswerPipe> pipe = weak.lock()) pipe->cancel();
  }
  while (engine_->step()) {
  }
  publish();
}

void EngineThread::begin(Job job) {
  std::erase_if(pipes_, [](const std::weak_ptr<AnswerPipe>& pipe) { return pipe.expired(); });
  pipes_.push_back(job.pipe);
  for (std::uint32_t i = 0; i < job.requests.size(); ++i) {
    const Result<engine::RequestId> id = engine_->submit(with_callbacks(job, i));
    if (id.ok()) continue;
    answers_ -= static_cast<std::uint32_t>(job.requests.size()) - i;
    job.pipe->refused(id.status());
    return;
  }
}

engine::Request EngineThread::with_callbacks(const Job& job, std::uint32_t answer) {
  engine::Request request = job.requests[answer];
  engine::GenerateOptions& options = request.options;
  const std::shared_ptr<AnswerPipe> pipe = job.pipe;
  options.cancel = pipe->cancelled();
  options.on_prompt = [pipe, answer](std::uint32_t done, std::uint32_t) {
    pipe->prompt_read(answer, done);
  };
  options.on_text = [pipe, answer](std::string_view text) { pipe->text(answer, text); };
  options.on_token = [this, pipe, answer, last = -1.0](model::Token) mutable {
    const double time = engine::steady_seconds();
    if (last >= 0) metrics_.token_gap(time - last);
    last = time;
    pipe->token(answer);
  };
  if (job.logprobs) {
    watch_logprobs(
        job.top_logprobs,
        [pipe, answer](TokenLogprob logprob) { pipe->logprob(answer, std::move(logprob)); },
        options);
  }
  request.on_done = [this, pipe, answer, most = options.max_tokens](engine::RequestId,
                                                                    const engine::Answer& result) {
    metrics_.answered(result, most, pipe->slow());
    pipe->ended(answer, result);
    --answers_;
  };
  return request;
}

}  // namespace quire::serve
