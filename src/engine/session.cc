// One sequence: prompts read whole or streamed, answers decoded, reviews in between.

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/budget.h"
#include "engine/generate.h"
#include "engine/reviewer.h"
#include "engine/utf8.h"

namespace quire::engine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

const char* type_name(KvType type) {
  switch (type) {
    case KvType::kF16:
      return "f16";
    case KvType::kBF16:
      return "bf16";
    case KvType::kF32:
      return "f32";
  }
  return "";
}

class SequenceSession final : public Session {
 public:
  SequenceSession(model::Model& model, Cache& cache, GenerateOptions options)
      : model_(model),
        cache_(cache),
        options_(std::move(options)),
        reviewer_(cache, options_.policy, options_.keep, options_.review_every) {}
  ~SequenceSession() override {
    if (sequence_) static_cast<void>(cache_.drop(*sequence_).ok());
  }

  Status start();
  Result<Answer> answer(const std::vector<model::Token>& prompt) override;
  Status reset() override;
  SequenceId sequence() const override { return *sequence_; }
  const std::vector<model::Token>& history() const override { return history_; }

 private:
  Status admit(std::size_t rows) const;
  Status read(const std::vector<model::Token>& tokens, Answer& answer);
  Status forward(std::span<const model::Token> tokens, model::Chunk chunk);
  Status decode(model::Sampler& sampler, Clock::time_point start, Answer& answer);
  void emit(std::string_view bytes, Answer& answer);
  void report(Answer& answer) const;
  std::uint32_t context() const;
  bool cancelled() const { return options_.cancel != nullptr && options_.cancel->load(); }

  model::Model& model_;
  Cache& cache_;
  const GenerateOptions options_;
  Reviewer reviewer_;
  std::optional<SequenceId> sequence_;
  std::vector<model::Token> history_;     // in the cache
  std::optional<model::Token> unread_{};  // answered, but its row was never computed
  std::vector<float> logits_;             // of the newest row
  Utf8Stream letters_;
};

std::uint32_t SequenceSession::context() const {
  const std::uint32_t most = model_.info().context;
  return options_.context == 0 ? most : std::min(options_.context, most);
}

Status SequenceSession::start() {
  if (options_.context > model_.info().context) {
    return {Code::kInvalidArgument, "context " + std::to_string(options_.context) +
                                        " is over the model's " +
                                        std::to_string(model_.info().context)};
  }
  if (options_.chunk == 0 || options_.chunk > cache_.options().max_rows) {
    return {Code::kInvalidArgument, "chunk " + std::to_string(options_.chunk) +
                                        " is not from 1 to the cache's max_rows " +
                                        std::to_string(cache_.options().max_rows)};
  }
  if (Status status = reviewer_.check(); !status.ok()) return status;
  return reset();
}

Status SequenceSession::reset() {
  Result<SequenceId> fresh = cache_.start(reviewer_.needs());
  if (!fresh.ok()) return fresh.status();
  if (sequence_) {
    if (Status status = cache_.drop(*sequence_); !status.ok()) return status;
  }
  sequence_ = *fresh;
  history_.clear();
  unread_.reset();
  return {};
}

// What can be refused before anything is computed.
Status SequenceSession::admit(std::size_t rows) const {
  const std::size_t seen = history_.size(), answer = options_.max_tokens;
  const std::size_t total = seen + rows + answer;
  const std::string parts = (seen > 0 ? "history " + std::to_string(seen) + " + " : std::string()) +
                            "prompt " + std::to_string(rows) + " + answer " +
                            std::to_string(answer) + " tokens";
  if (total > context()) {
    return {Code::kInvalidArgument, parts + " = " + std::to_string(total) +
                                        " are over the context of " + std::to_string(context())};
  }
  if (reviewer_.active()) return {};
  const auto new_rows = static_cast<std::uint32_t>(rows + answer);
  if (cache_.bytes_needed(*sequence_, new_rows) <= cache_.bytes_free()) return {};
  return {
      Code::kOutOfMemory,
      parts + " do not fit the budget of " + bytes_text(cache_.options().budget_bytes) +
          budget_advice(cache_.options(), reviewer_.needs(), static_cast<std::uint32_t>(total)) +
          "; with a policy, less"};
}

Result<Answer> SequenceSession::answer(const std::vector<model::Token>& prompt) {
  const Clock::time_point start = Clock::now();
  if (prompt.empty()) return Status(Code::kInvalidArgument, "prompt: no tokens");
  std::vector<model::Token> tokens;
  if (unread_) tokens.push_back(*unread_);
  tokens.insert(tokens.end(), prompt.begin(), prompt.end());
  if (Status status = admit(tokens.size()); !status.ok()) return status;
  Result<std::unique_ptr<model::Sampler>> sampler =
      options_.make_sampler ? options_.make_sampler(model_, options_.sampler)
                            : model::Sampler::create(model_, options_.sampler);
  if (!sampler.ok()) return sampler.status();

  Answer answer;
  answer.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
  letters_ = {};
  unread_.reset();
  Status status = read(tokens, answer);
  answer.prefill_seconds = seconds_since(start);
  if (status.ok()) status = decode(**sampler, start, answer);
  if (!status.ok()) {
    answer.finish = status.code() == Code::kCancelled ? Finish::kCancelled : Finish::kError;
    if (answer.finish == Finish::kError) answer.error = std::move(status);
  }
  if (const std::string last = letters_.finish(); !last.empty()) {
    answer.text += last;
    if (options_.on_text) options_.on_text(last);
  }
  report(answer);
  return answer;
}

// Runs one chunk and keeps the logits of its last row, if asked for.
Status SequenceSession::forward(std::span<const model::Token> tokens, model::Chunk chunk) {
  chunk.sequence = *sequence_;
  chunk.tokens = tokens;
  Status status =
      model_.forward({&chunk, 1}, [&](std::size_t, std::uint32_t, std::span<const float> logits) {
        logits_.assign(logits.begin(), logits.end());
      });
  if (status.ok()) history_.insert(history_.end(), tokens.begin(), tokens.end());
  return status;
}

Status SequenceSession::read(const std::vector<model::Token>& tokens, Answer& answer) {
  const auto total = static_cast<std::uint32_t>(tokens.size());
  const std::uint32_t window =
      reviewer_.needs().tap == Tap::kLastRows ? reviewer_.needs().window : 0;
  const bool whole = !reviewer_.active() || reviewer_.fits(*sequence_, total);
  answer.kv.prefill = whole ? Prefill::kWhole : Prefill::kStreamed;
  std::uint32_t chunk = whole ? options_.chunk : reviewer_.streamed_chunk(options_.chunk);

  for (std::uint32_t done = 0; done < total;) {
    if (cancelled()) return {Code::kCancelled, "cancelled"};
    std::uint32_t rows = std::min(chunk, total - done);
    if (!whole) {
      Status room = reviewer_.make_room(*sequence_, rows);
      while (room.code() == Code::kOutOfMemory && rows > 1) {
        chunk = rows = rows / 2;
        room = reviewer_.make_room(*sequence_, rows);
      }
      if (!room.ok()) return room;
    }
    // Whole: rows among the prompt's last `window`.  Streamed: the last of every chunk.
    const std::uint32_t end = done + rows, first = total > window ? total - window : 0;
    const std::uint32_t window_rows =
        std::min(rows, whole ? (end > first ? end - first : 0) : window);
    const std::span<const model::Token> part(tokens.data() + done, rows);
    Status status =
        forward(part, {.window_rows = window_rows, .logit_rows = end == total ? 1u : 0u});
    if (!status.ok()) return status;
    done = end;
    if (options_.on_prompt) options_.on_prompt(done, total);
  }
  return reviewer_.review(*sequence_);
}

void SequenceSession::emit(std::string_view bytes, Answer& answer) {
  const std::string letters = letters_.push(bytes);
  if (letters.empty()) return;
  answer.text += letters;
  if (options_.on_text) options_.on_text(letters);
}

Status SequenceSession::decode(model::Sampler& sampler, Clock::time_point start, Answer& answer) {
  const std::uint32_t cadence = reviewer_.cadence();
  Clock::time_point first = Clock::now();
  answer.finish = Finish::kLength;
  for (std::uint32_t unreviewed = 0; answer.completion_tokens < options_.max_tokens;) {
    const model::Token token = sampler.sample(logits_);
    if (answer.completion_tokens == 0) {
      answer.first_token_seconds = seconds_since(start);
      first = Clock::now();
    }
    if (options_.stop_at_end && model_.is_end(token)) {
      answer.finish = Finish::kStop;
      break;
    }
    answer.tokens.push_back(token);
    ++answer.completion_tokens;
    emit(model_.piece(token), answer);
    unread_ = token;
    answer.decode_seconds = seconds_since(first);
    if (answer.completion_tokens == options_.max_tokens) break;
    if (cancelled()) return {Code::kCancelled, "cancelled"};

    if (reviewer_.active()) {
      if (Status status = reviewer_.make_room(*sequence_, 1); !status.ok()) return status;
    }
    const std::uint32_t window_rows = reviewer_.window_rows(unreviewed);
    const model::Chunk chunk{.answer = true, .window_rows = window_rows, .logit_rows = 1};
    if (Status status = forward({&token, 1}, chunk); !status.ok()) return status;
    unread_.reset();
    if (cadence != 0 && ++unreviewed == cadence) {
      unreviewed = 0;
      if (Status status = reviewer_.review(*sequence_); !status.ok()) return status;
    }
  }
  return {};
}

void SequenceSession::report(Answer& answer) const {
  KvReport& kv = answer.kv;
  if (options_.policy) {
    kv.policy = options_.policy->name;
    kv.keep = to_string(options_.keep);
  } else {
    kv.keep = "all";
  }
  const CacheOptions& shape = cache_.options();
  kv.type = type_name(shape.key_type);
  if (shape.key_type != shape.value_type) kv.type += std::string("/") + type_name(shape.value_type);
  const CacheStats pool = cache_.stats();
  kv.pool_bytes = pool.budget_bytes;
  kv.bytes_peak = pool.peak_bytes;
  if (const Result<SequenceStats> stats = cache_.stats(*sequence_); stats.ok()) {
    kv.bytes_now = stats->bytes;
    kv.bytes_shared = stats->bytes_shared;
    kv.tokens_seen = stats->tokens_seen;
    kv.tokens_kept_mean = stats->tokens_kept_mean;
    kv.tokens_kept_min = stats->tokens_kept_min;
    kv.entries_dropped = stats->entries_dropped;
    kv.lossy = stats->entries_dropped > 0;
  }
}

}  // namespace

Result<std::unique_ptr<Session>> Session::open(model::Model& model, Cache& cache,
                                               GenerateOptions options) {
  auto session = std::make_unique<SequenceSession>(model, cache, std::move(options));
  if (Status status = session->start(); !status.ok()) return status;
  return std::unique_ptr<Session>(std::move(session));
}

}  // namespace quire::engine
