// The thread that owns the model, its cache and the engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "serve/answer_pipe.h"
#include "serve/mailbox.h"
#include "serve/metrics.h"

namespace quire::serve {

class EngineThread {
 public:
  struct Options {
    engine::EngineOptions engine{};
    std::uint32_t answers = 544;      // that wait or run, at most
    std::function<double()> clock{};  // seconds, for stalled(); null: the steady clock
  };

  // The engine's answers go on until `pipe` is cancelled or each has ended.
  struct Job {
    std::vector<engine::Request> requests;  // one for each answer of the pipe
    std::shared_ptr<AnswerPipe> pipe;
    bool logprobs = false;
    std::uint32_t top_logprobs = 0;
    std::function<void(Cache&)> work{};  // instead of all this
  };

  // Model and cache belong to the thread until the end; only the model's texts may be asked for by
  // others.  kInvalidArgument: an option of the engine.
  static Result<std::unique_ptr<EngineThread>> start(model::Model& model, Cache& cache,
                                                     Metrics& metrics, Options options);
  ~EngineThread();  // cancels what there is

  // --- any thread ---
  // False: so many answers are there already.
  bool submit(Job job);
  // Does something with the cache between two steps, and waits until it is done; of one thread at a
  // time.  False: it was not, the engine's thread ends.
  bool between_steps(std::function<void(Cache&)> work);
  std::uint32_t answers() const { return answers_; }  // that wait or run
  EngineState state() const;
  // Whether there is work and no step has ended for so many seconds.
  bool stalled(double seconds) const;

 private:
  EngineThread(Metrics& metrics, Options options);
  double now() const;
  void loop();
  void begin(Job job);
  engine::Request with_callbacks(const Job& job, std::uint32_t answer);
  void publish();

  Metrics& metrics_;
  const Options options_;
  std::unique_ptr<engine::Engine> engine_;
  Cache* cache_ = nullptr;
  Mailbox<Job> jobs_;
  std::atomic<std::uint32_t> answers_{0};
  std::atomic<double> beat_{0};  // when something was last done
  std::atomic<bool> busy_{false};
  mutable std::mutex state_mutex_;
  EngineState state_;
  std::vector<std::weak_ptr<AnswerPipe>> pipes_;  // to cancel at the end
  std::thread thread_;
};

}  // namespace quire::serve
