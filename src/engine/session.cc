// One sequence with its history: an engine that runs one request at a time.

#include <algorithm>
#include <utility>

#include "engine/engine.h"
#include "engine/reviewer.h"

namespace quire::engine {
namespace {

class SequenceSession final : public Session {
 public:
  SequenceSession(Cache& cache, std::unique_ptr<Engine> engine, GenerateOptions options)
      : cache_(cache), engine_(std::move(engine)), options_(std::move(options)) {}
  ~SequenceSession() override {
    engine_.reset();
    if (sequence_) static_cast<void>(cache_.drop(*sequence_).ok());
  }

  Result<Answer> answer(const std::vector<model::Token>& prompt) override;
  Status reset() override;
  SequenceId sequence() const override { return *sequence_; }
  const std::vector<model::Token>& history() const override { return history_; }

 private:
  Cache& cache_;
  std::unique_ptr<Engine> engine_;
  const GenerateOptions options_;
  std::optional<SequenceId> sequence_;
  std::vector<model::Token> history_;     // in the cache
  std::optional<model::Token> unread_{};  // answered, but its row was never computed
};

Status SequenceSession::reset() {
  const Reviewer reviewer(cache_, options_);
  Result<SequenceId> fresh = cache_.start(reviewer.needs());
  if (!fresh.ok()) return fresh.status();
  if (sequence_) {
    if (Status status = cache_.drop(*sequence_); !status.ok()) return status;
  }
  sequence_ = *fresh;
  history_.clear();
  unread_.reset();
  return {};
}

Result<Answer> SequenceSession::answer(const std::vector<model::Token>& prompt) {
  if (prompt.empty()) return Status(Code::kInvalidArgument, "prompt: no tokens");
  std::vector<model::Token> tokens;
  if (unread_) tokens.push_back(*unread_);
  tokens.insert(tokens.end(), prompt.begin(), prompt.end());
  Answer answer;
  Request request{.prompt = tokens,
                  .options = options_,
                  .on_overflow = Overflow::kStream,
                  .sequence = sequence_,
                  .on_done = [&](RequestId, const Answer& done) { answer = done; }};
  if (const Result<RequestId> id = engine_->submit(std::move(request)); !id.ok()) {
    return id.status();
  }
  engine_->run_until_idle();

  answer.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
  const Result<SequenceStats> stats = cache_.stats(*sequence_);
  if (!stats.ok()) return stats.status();
  const std::size_t read = stats->tokens_seen - history_.size(), asked = tokens.size();
  tokens.insert(tokens.end(), answer.tokens.begin(), answer.tokens.end());
  const auto end = tokens.begin() + static_cast<std::ptrdiff_t>(read);
  history_.insert(history_.end(), tokens.begin(), end);
  unread_ = read >= asked && end != tokens.end() ? std::optional(*end) : std::nullopt;
  return answer;
}

Status check(const model::Model& model, const Cache& cache, const GenerateOptions& options) {
  if (options.context > model.info().context) {
    return {Code::kInvalidArgument, "context " + std::to_string(options.context) +
                                        " is over the model's " +
                                        std::to_string(model.info().context)};
  }
  if (options.chunk == 0 || options.chunk > cache.options().max_rows) {
    return {Code::kInvalidArgument, "chunk " + std::to_string(options.chunk) +
                                        " is not from 1 to the cache's max_rows " +
                                        std::to_string(cache.options().max_rows)};
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Session>> Session::open(model::Model& model, Cache& cache,
                                               GenerateOptions options) {
  if (Status status = check(model, cache, options); !status.ok()) return status;
  const Reviewer reviewer(cache, options);
  if (Status status = reviewer.check(); !status.ok()) return status;
  Result<std::unique_ptr<Engine>> engine = Engine::open(model, cache, {.max_running = 1});
  if (!engine.ok()) return engine.status();
  auto session = std::make_unique<SequenceSession>(cache, *std::move(engine), std::move(options));
  if (Status status = session->reset(); !status.ok()) return status;
  return std::unique_ptr<Session>(std::move(session));
}

}  // namespace quire::engine
