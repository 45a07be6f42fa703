// An OpenAI-compatible HTTP server on one model and one cache.
//
// Threads: run()'s has all connections, a second the engine, a third texts (templates, tokens), a
// fourth the files of sessions, if there are any.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/engine.h"
#include "model/model.h"
#include "quire/cache.h"
#include "serve/access.h"
#include "serve/limits.h"
#include "serve/rate_limit.h"
#include "serve/session_store.h"

namespace quire::serve {

struct ServerOptions {
  std::string host = "127.0.0.1";  // a numeric address, or localhost
  std::uint16_t port = 8080;       // 0: a free one
  // An address that others can reach is refused without keys, unless this says that it is wanted.
  bool insecure = false;
  Access access{};  // `remote` is found out
  Limits limits{};
  std::string model_name{};  // in answers; empty: the model's own
  std::string version{};
  // Of requests that leave them out.  max_tokens 0: what fits, of completions 16.
  engine::GenerateOptions defaults{.max_tokens = 0};
  engine::EngineOptions engine{};
  double drain_seconds = 30;   // from drain() until what is not answered is cancelled
  double stall_seconds = 120;  // without a step, while there is work, until /ready says 503
  bool vllm_names = false;     // in /metrics, too
  RateOptions rate{};          // of each key; without keys, of all together
  SessionOptions sessions{};   // saved ones; without a directory there are none
  bool signals = false;        // SIGTERM and SIGINT drain, a second one ends
  std::function<void(const std::string& line)> log{};  // one line a request; of run()'s thread
  std::function<double()> clock{};  // seconds, for stall_seconds; null: the steady clock
};

class Server {
 public:
  // What can be refused without a model: kInvalidArgument names the option.
  static Status check(const ServerOptions& options);
  // Bound and listening.  kInvalidArgument names the option; kIo: the address cannot be had;
  // kUnsupported: the model has a chat template that is not known.  Model and cache outlive the
  // server, and are its own until its end.
  static Result<std::unique_ptr<Server>> open(model::Model& model, Cache& cache,
                                              ServerOptions options);
  virtual ~Server() = default;
  virtual std::uint16_t port() const = 0;
  // Answers until it is drained.
  virtual void run() = 0;
  // No new work from now on: /ready says 503, idle connections are closed, and when the last
  // answer is sent (or the time for it is over) run() returns.  Any thread; twice: at once.
  virtual void drain() = 0;
};

}  // namespace quire::serve
