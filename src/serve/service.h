// All that connections share.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "serve/access.h"
#include "serve/engine_thread.h"
#include "serve/facts.h"
#include "serve/http.h"
#include "serve/metrics.h"
#include "serve/rate_limit.h"
#include "serve/replies.h"
#include "serve/routes.h"
#include "serve/sessions.h"
#include "serve/work_thread.h"

namespace quire::serve {

// Of one request, for the log: no text of anybody's.
struct LogEntry {
  std::string request_id, method, path;
  int status = 0;
  double seconds = 0;
  std::uint32_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  std::string finish{};  // reason of the last answer; empty: there was none
};
// One line, without its end.  `now`: seconds since 1970.
std::string log_line(const LogEntry& entry, std::int64_t now);

// Of the connections' thread, but for what is said otherwise.
class Service {
 public:
  struct Options {
    Facts facts{};
    Access access{};
    EngineThread::Options engine{};
    double stall_seconds = 120;
    bool vllm_names = false;
    RateOptions rate{};  // of each key
    SessionOptions sessions{};
    std::function<void(const std::string& line)> log{};
  };
  static Result<std::unique_ptr<Service>> start(model::Model& model, Cache& cache, Options options);

  const Facts& facts() const { return options_.facts; }
  const Limits& limits() const { return options_.facts.limits; }
  const model::Model& model() const { return model_; }
  Metrics& metrics() { return metrics_; }
  EngineThread& engine() { return *engine_; }
  WorkThread& texts() { return *texts_; }
  Sessions* sessions() { return sessions_.get(); }  // null: they are off
  // Null: there is no limit.
  RateLimiter* rates() { return options_.rate.active() ? &rates_ : nullptr; }
  std::size_t key_index(const Head& head) const { return serve::key_index(options_.access, head); }
  std::uint64_t random() { return random_(); }
  void log(const LogEntry& entry) const;

  // Who is not let in, what is not there, what is too large.
  std::optional<Reply> refuse(const Head& head) const;
  // Whose prefixes the request may share: of every key its own, without keys all are one.
  std::string tenant(const Head& head) const;
  // A route that needs no thread of another's.
  Reply reply(Route route, const Head& head);
  // A route of texts alone; for the texts' thread.
  Reply reply_of_text(Route route, std::string_view body) const;

  // Bytes of a body that is about to be read; false: others take all there is.
  bool reserve_body(std::size_t bytes);
  void release_body(std::size_t bytes) { bodies_ -= bytes; }
  std::uint64_t add_slot(const std::shared_ptr<AnswerPipe>& pipe, std::uint32_t prompt_tokens);

  std::uint32_t connections = 0, busy = 0;  // open; answering
  bool draining = false;

  // Ends the threads; what they have not answered is cancelled.
  void stop();

 private:
  Service(model::Model& model, Options options);
  Reply slots();

  struct Answering {
    std::uint64_t id;
    std::uint32_t prompt_tokens;
    std::weak_ptr<AnswerPipe> pipe;
  };

  model::Model& model_;
  Options options_;
  Metrics metrics_;
  RateLimiter rates_;
  std::mt19937_64 random_{std::random_device{}()};
  std::size_t bodies_ = 0;
  std::uint64_t next_slot_ = 1;
  std::vector<Answering> slots_;
  std::unique_ptr<EngineThread> engine_;
  std::unique_ptr<Sessions> sessions_;
  std::unique_ptr<WorkThread> texts_;
};

}  // namespace quire::serve
