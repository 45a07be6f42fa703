// The answers to one HTTP request, on their way from the engine's thread to the connection's.
//
// What the connection has not taken yet is kept as one text per answer, so a slow reader costs few
// bytes; one that is slower still than `pending_bytes` ends its answers: slow() says so, and their
// blocks are free after the engine's next step.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "serve/openai_answer.h"

namespace quire::serve {

class AnswerPipe {
 public:
  struct Options {
    std::uint32_t answers = 1;
    bool stream = false;  // false: texts come whole, with their ends
    std::size_t pending_bytes = 64 << 10;
    // Called from the engine's thread when there is something to take; not again before take().
    std::function<void()> wake{};
  };
  explicit AnswerPipe(Options options) : options_(std::move(options)), choices_(options_.answers) {}

  // --- the engine's thread ---
  void refused(Status status);  // of one answer, and so of all
  void prompt_read(std::uint32_t answer, std::uint32_t tokens);
  void token(std::uint32_t answer);
  void text(std::uint32_t answer, std::string_view text);
  void logprob(std::uint32_t answer, TokenLogprob logprob);
  void ended(std::uint32_t answer, const engine::Answer& result);

  // --- any thread ---
  void cancel() { cancelled_ = true; }
  const std::atomic<bool>* cancelled() const { return &cancelled_; }

  // --- the connection's thread ---
  struct Taken {
    std::vector<AnswerEvents::Piece> pieces;
    Status refusal{};
    bool done = false;  // nothing comes after this
  };
  Taken take();
  bool slow() const;

  struct Progress {
    std::uint32_t prompt_tokens_read = 0, completion_tokens = 0;
    bool ended = false;
  };
  std::vector<Progress> progress() const;

 private:
  struct Waiting {
    AnswerEvents::Piece piece;
    Progress progress;
    bool taken_whole = false;
  };
  void add_bytes(std::size_t bytes);
  void wake(std::unique_lock<std::mutex> lock);

  const Options options_;
  std::atomic<bool> cancelled_{false};
  mutable std::mutex mutex_;
  std::vector<Waiting> choices_;
  Status refusal_;
  std::size_t bytes_ = 0;  // waiting
  bool slow_ = false, woken_ = false;
};

}  // namespace quire::serve
