#include "serve/answer_pipe.h"

#include <algorithm>
#include <utility>

namespace quire::serve {

void AnswerPipe::wake(std::unique_lock<std::mutex> lock) {
  if (std::exchange(woken_, true)) return;
  lock.unlock();
  if (options_.wake) options_.wake();
}

void AnswerPipe::refused(Status status) {
  std::unique_lock lock(mutex_);
  cancel();
  if (refusal_.ok()) refusal_ = std::move(status);
  wake(std::move(lock));
}

void AnswerPipe::prompt_read(std::uint32_t answer, std::uint32_t tokens) {
  const std::scoped_lock lock(mutex_);
  choices_[answer].progress.prompt_tokens_read = tokens;
}

void AnswerPipe::token(std::uint32_t answer) {
  const std::scoped_lock lock(mutex_);
  ++choices_[answer].progress.completion_tokens;
}

void AnswerPipe::add_bytes(std::size_t bytes) {
  bytes_ += bytes;
  if (!options_.stream || bytes_ <= options_.pending_bytes) return;
  slow_ = true;
  cancel();
}

void AnswerPipe::text(std::uint32_t answer, std::string_view text) {
  if (!options_.stream) return;
  std::unique_lock lock(mutex_);
  if (slow_) return;
  add_bytes(text.size());
  choices_[answer].piece.text += text;
  wake(std::move(lock));
}

void AnswerPipe::logprob(std::uint32_t answer, TokenLogprob logprob) {
  std::unique_lock lock(mutex_);
  if (slow_) return;
  add_bytes(logprob.weight());
  choices_[answer].piece.logprobs.push_back(std::move(logprob));
}

void AnswerPipe::ended(std::uint32_t answer, const engine::Answer& result) {
  std::unique_lock lock(mutex_);
  Waiting& choice = choices_[answer];
  choice.progress.ended = true;
  choice.piece.ended = true;
  choice.piece.answer = result;
  choice.piece.answer.tokens = {};
  if (slow_ && result.finish == engine::Finish::kCancelled) {
    choice.piece.answer.error = {Code::kCancelled,
                                 "the reader of this answer was too slow; it ends here"};
  }
  wake(std::move(lock));
}

AnswerPipe::Taken AnswerPipe::take() {
  const std::scoped_lock lock(mutex_);
  woken_ = false;
  bytes_ = 0;
  Taken taken{.refusal = refusal_};
  taken.done = !refusal_.ok();
  bool all_ended = true;
  for (std::uint32_t i = 0; i < choices_.size(); ++i) {
    Waiting& choice = choices_[i];
    if (choice.taken_whole) continue;
    const bool ended = choice.piece.ended;
    all_ended = all_ended && ended;
    // Of a whole answer nothing is taken before its end.
    if (!ended &&
        (!options_.stream || (choice.piece.text.empty() && choice.piece.logprobs.empty())))
      continue;
    choice.taken_whole = ended;
    choice.piece.choice = i;
    taken.pieces.push_back(std::exchange(choice.piece, {}));
  }
  taken.done = taken.done || all_ended;
  return taken;
}

bool AnswerPipe::slow() const {
  const std::scoped_lock lock(mutex_);
  return slow_;
}

std::vector<AnswerPipe::Progress> AnswerPipe::progress() const {
  const std::scoped_lock lock(mutex_);
  std::vector<Progress> all;
  for (const Waiting& choice : choices_) all.push_back(choice.progress);
  return all;
}

}  // namespace quire::serve
