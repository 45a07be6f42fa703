// Saved sessions: what the prefix cache has of a conversation, on disk, and back.
//
// A session is no sequence and holds nothing: saving copies units that are cached, restoring caches
// them again, for whoever asks for a text that begins so.  Files are written and read on a thread
// of their own; between two steps of the engine a piece of some megabytes is copied, no more.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "serve/engine_thread.h"
#include "serve/http.h"
#include "serve/session_ask.h"
#include "serve/session_store.h"
#include "serve/work_thread.h"

namespace quire::serve {

class Sessions {
 public:
  // Engine and cache outlive it.  Refusals as SessionStore::open().
  static Result<std::unique_ptr<Sessions>> open(EngineThread& engine, const Cache& cache,
                                                const SessionOptions& options);
  ~Sessions();  // what is under way is given up

  // The thread that answer() is for.
  WorkThread& thread() { return *thread_; }
  Reply answer(const SessionAsk& ask);

 private:
  struct Done {
    std::uint32_t tokens = 0;
    std::uint64_t bytes = 0;
  };
  class Expected;

  Sessions(EngineThread& engine, const Cache& cache, std::unique_ptr<SessionStore> store);
  Result<Done> save(const SessionAsk& ask);
  Result<Done> restore(const SessionAsk& ask);
  Status write(const SessionAsk& ask, const PrefixText& text, const SessionText& head);
  Status load(SessionReader& session, const PrefixText& text);
  Status check(SessionReader& session);
  Status check_room(const Cache& cache, const PrefixText& text) const;
  // The end of the piece of a text of `units` that begins there.
  std::uint32_t piece_end(std::uint32_t units, std::uint32_t begin) const;
  Status between_steps(const std::function<Status(Cache&)>& work);

  EngineThread& engine_;
  const CacheOptions& cache_options_;
  const SessionLayout layout_;
  const std::unique_ptr<SessionStore> store_;
  std::atomic<bool> ended_{false};
  std::unique_ptr<WorkThread> thread_;  // the first to end
};

}  // namespace quire::serve
