// A request from its first row to its last token.

#include "engine/generation.h"

#include <cmath>
#include <limits>
#include <utility>

namespace quire::engine {
namespace {

constexpr std::uint32_t kReadAnewMost = 4;

}  // namespace

Generation::Generation(const model::Model& model, Cache& cache, std::span<const model::Token> ends,
                       RequestId id, Request request, std::unique_ptr<model::Sampler> sampler,
                       double submitted, Sharing sharing)
    : model_(model),
      cache_(cache),
      ends_(ends),
      id_(id),
      request_(std::move(request)),
      reviewer_(cache, options()),
      gate_(cache, options(), reviewer_),
      sampler_(std::move(sampler)),
      stop_(options().stop),
      tokens_(request_.prompt),
      prefix_(cache, tokens_, reviewer_.needs(), request_.salt, sharing),
      prompt_(static_cast<std::uint32_t>(request_.prompt.size())),
      sequence_(request_.sequence),
      submitted_(submitted) {
  if (!request_.prefix_cache) prefix_.turn_off("off");
  if (sequence_) {
    prefix_.turn_off("continued");
    base_ = cache_.stats(*sequence_)->tokens_seen;
    whole_ = !reviewer_.active() || reviewer_.fits(*sequence_, prompt_);
  } else {
    whole_ = !reviewer_.active() || prompt_ <= cache_.tokens_that_fit(reviewer_.needs());
  }
  if (!whole_) be_streamed();
  answer_.prompt_tokens = prompt_;
}

Generation::~Generation() {
  drop();
}

// --- for the plan ---

// Rows of the next segment at most: a prompt and its answer are different segments, and a row that
// comes after a review is not computed before it.
std::uint32_t Generation::next_rows() const {
  std::uint32_t most = std::min(options().chunk, cache_.options().max_rows);
  if (reading()) {
    if (!whole_) most = reviewer_.streamed_chunk(most);
    const std::uint32_t left = prompt_ - read_;
    return std::min(left > 1 && gate_.checks_itself() ? left - 1 : left, most);
  }
  if (const std::uint32_t cadence = reviewer_.cadence(); cadence != 0) {
    most = std::min(most, cadence - (base_ + read_) % cadence);
  }
  return std::min(unread(), most);
}

// Rows by which the answer may grow soon, its unread tokens apart.
std::uint32_t Generation::growth(std::uint32_t reserve_tokens) const {
  const std::uint32_t left = std::min(answer_left(), reserve_tokens);
  if (!reviewer_.active() || gate_.pending()) return left;
  const std::uint32_t cadence = reviewer_.cadence();
  if (cadence == 0) return 0;  // cut when the pool has no room
  const std::uint32_t seen = base_ + std::max(prompt_, read_);
  // What the review behind a prompt drops is free for its answer, if holes can be closed.
  const bool dense = cache_.options().reclaim == Reclaim::kRepack;
  const std::uint32_t kept = reading() && dense ? seen : std::min(seen, reviewer_.target(seen));
  const std::uint32_t later = std::min(seen + left, reviewer_.target(seen + left)) + cadence;
  return std::min(left, later - std::min(later, kept));
}

Candidate Generation::candidate(std::uint32_t reserve_tokens) const {
  const std::uint32_t next = next_rows();
  // What must be in the cache at once: of a prompt read whole all of it.
  const std::uint32_t together = whole_ || !reading() ? unread() : next;
  std::uint32_t reserve = together + growth(reserve_tokens);
  if (!whole_ && read_ == 0) {
    const std::uint32_t kept = options().keep.unit == Keep::Unit::kPool
                                   ? reviewer_.least_entries()
                                   : std::min(prompt_, reviewer_.target(prompt_));
    reserve = kept + next;
  }
  return {.id = id_,
          .rows = unread(),
          .chunk = next,
          .reserve = reserve,
          .least = !whole_              ? next
                   : reviewer_.active() ? std::min(together, prompt_)
                                        : together,
          .context = std::min(base_ + read_, reviewer_.target(base_ + read_)),
          .answering = !reading() && unread() == 1,
          .exact = !reviewer_.dropped(),
          .droppable = !request_.sequence};
}

std::uint32_t Generation::least_entries(bool alone) const {
  const std::uint32_t least = reviewer_.least_entries();
  if (alone || options().keep.unit == Keep::Unit::kPool) return least;
  return std::max(least, reviewer_.target(base_ + read_));
}

double Generation::spare(bool alone) const {
  if (!reviewer_.active() || !sequence_ || (whole_ && reading())) return 0;
  const bool by_pool = options().keep.unit == Keep::Unit::kPool || reading();
  return by_pool || alone ? reviewer_.spare(*sequence_, least_entries(alone)) : 0;
}

bool Generation::stream_instead() {
  if (!whole_ || !reviewer_.active() || request_.on_overflow != Overflow::kStream) return false;
  be_streamed();
  read_ = 0;
  return true;
}

void Generation::be_streamed() {
  whole_ = false;
  prefix_.turn_off("streamed");
  gate_.skip("streamed");
}

// --- the prefix cache, while it waits ---

// What was answered is read again as well, unless a policy must see it as an answer.
bool Generation::look(std::uint64_t changes) {
  if (sequence_ || !prefix_.on() || looked_at_ == changes) return false;
  looked_at_ = changes;
  // Behind what is found a gate that checks itself must see the last row but one computed.
  const std::uint32_t of_prompt = prompt_ - (gate_.checks_itself() && prompt_ > 1 ? 1 : 0);
  prefix_.look(reviewer_.active() ? of_prompt : static_cast<std::uint32_t>(tokens_.size()));
  read_ = prefix_.found();
  return true;
}

bool Generation::stop_sharing() {
  const bool shared = prefix_.found() > 0;
  if (!shared) return false;
  drop();
  prefix_.turn_off("no-room");
  read_ = 0;
  return true;
}

bool Generation::gains_by(const Generation& other) const {
  const bool may = prefix_.on() && other.prefix_.on() && prefix_.salt() == other.prefix_.salt();
  if (!may || !other.reading()) return false;
  const std::uint32_t block = cache_.options().block_tokens;
  if (read_ < other.read_ / block * block) return false;  // what it has read was not to be had
  const auto end = other.tokens_.begin() + other.prompt_;
  const auto common = std::mismatch(tokens_.begin(), tokens_.end(), other.tokens_.begin(), end);
  const auto alike = static_cast<std::uint32_t>(common.first - tokens_.begin());
  const std::uint32_t shared = std::min(alike / block * block, prefix_.most(prompt_));
  return shared > read_ && 2 * (shared - read_) >= unread();
}

// --- its sequence ---

Status Generation::start() {
  if (!sequence_) {
    const Result<SequenceId> fresh = prefix_.start(read_);
    if (!fresh.ok()) return fresh.status();
    sequence_ = *fresh;
  }
  if (Status status = gate_.prepare(*sequence_); !status.ok()) return status;
  return label();
}

Status Generation::label() {
  if (labelled_ || !reviewer_.needs().roles) return {};
  if (roles_.empty()) roles_ = prompt_roles(model_, request_.prompt, options().roles);
  const Status status = cache_.set_roles(*sequence_, base_, roles_);
  labelled_ = status.ok();
  return status;
}

void Generation::drop() {
  labelled_ = false;
  gate_.dropped();
  if (sequence_ && !request_.sequence) static_cast<void>(cache_.drop(*sequence_).ok());
  sequence_.reset();
}

void Generation::admitted(double now) {
  prefix_.expect_no_more();
  if (begun_) return;
  answer_.kv.cached_tokens = request_.sequence ? 0 : read_;
  if (!request_.sequence) answer_.kv.cache_miss_reason = prefix_.reason();
  begun_ = true;
  started_ = now;
  answer_.queue_seconds = now - submitted_;
}

void Generation::preempt() {
  ++(reviewer_.dropped() ? restarts_ : preemptions_);
  leave_prefix();
  drop();
  looked_at_.reset();
  read_ = 0;
  reviewer_.restart();
}

// Others may begin beside it again, and leave the pool's slabs cut up again.
bool Generation::begin_anew() {
  if (anew_++ == kReadAnewMost) return false;
  prefix_.turn_off("no-room");
  return true;
}

void Generation::leave_prefix() {
  if (sequence_ && !reviewer_.dropped()) prefix_.leave(*sequence_, read_);
}

Status Generation::cut(std::size_t missing_bytes, bool alone) {
  return reviewer_.cut(*sequence_, missing_bytes, least_entries(alone));
}

// --- a step ---

// Of a prompt read whole: those among its last `window`.  Streamed: the last of every chunk.  Of an
// answer: those before its next review, for who asks.
std::uint32_t Generation::window_rows(std::uint32_t rows) const {
  if (reviewer_.needs().tap != Tap::kLastRows) return 0;
  if (!reading()) {
    const std::uint32_t cadence = reviewer_.cadence();
    return reviewer_.window_rows(cadence == 0 ? 0 : (base_ + read_) % cadence, rows);
  }
  const std::uint32_t window = reviewer_.needs().window;
  if (!whole_) return std::min(rows, window);
  const std::uint32_t end = read_ + rows, first = prompt_ > window ? prompt_ - window : 0;
  return std::min(rows, end > first ? end - first : 0);
}

model::Chunk Generation::chunk(std::uint32_t rows) const {
  return {.sequence = *sequence_,
          .tokens = std::span(tokens_).subspan(read_, rows),
          .answer = !reading(),
          .window_rows = window_rows(rows),
          .gate_rows = reading() ? gate_.rows_of(read_, rows, prompt_) : 0,
          .logit_rows = read_ + rows == tokens_.size() ? 1u : 0u};
}

void Generation::computed(std::uint32_t rows, std::span<float> logits, double now,
                          const GateTools& tools) {
  const bool of_prompt = reading();
  read_ += rows;
  most_read_ = std::max(most_read_, read_);
  if (of_prompt && read_ > shown_) {
    shown_ = read_;
    if (read_ == prompt_) answer_.prefill_seconds = now - started_;
    if (options().on_prompt) options().on_prompt(read_, prompt_);
  }
  if (of_prompt) leave_prefix();
  const double judged_before = gate_.report().seconds;
  if (Status status = judge(logits, tools); !status.ok()) {
    return end(Finish::kError, std::move(status));
  }
  now += gate_.report().seconds - judged_before;
  if (Status status = review(); !status.ok()) return end(Finish::kError, std::move(status));
  if (unread() == 0) sample(logits, now);
}

Status Generation::judge(std::span<const float> logits, const GateTools& tools) {
  const ReadPrompt prompt{.sequence = *sequence_,
                          .tokens = std::span(tokens_).first(prompt_),
                          .total = base_ + prompt_ + options().max_tokens,
                          .logits = logits};
  if (read_ + 1 == prompt_ && gate_.checks_itself()) return gate_.try_review(prompt, tools);
  return read_ == prompt_ ? gate_.decide(prompt, tools) : Status();
}

Status Generation::review() {
  const std::uint32_t cadence = reviewer_.cadence();
  const bool due =
      read_ == prompt_ || (read_ > prompt_ && cadence != 0 && (base_ + read_) % cadence == 0);
  return due ? reviewer_.review(*sequence_) : Status();
}

void Generation::sample(std::span<float> logits, double now) {
  if (answer_left() == 0) return end(Finish::kLength);
  if (answer_.completion_tokens < options().min_tokens) {
    for (const model::Token token : ends_) {
      logits[static_cast<std::size_t>(token)] = -std::numeric_limits<float>::infinity();
    }
  }
  const model::Token token = sampler_->sample(logits);
  if (sampler_->stuck()) {
    return end(Finish::kError,
               Status(Code::kUnsupported, "grammar: no token of the vocabulary goes on from here"));
  }
  if (answer_.completion_tokens == 0) {
    first_ = now;
    answer_.first_token_seconds = now - submitted_;
  }
  if (options().stop_at_end && model_.is_end(token)) return end(Finish::kStop);
  tokens_.push_back(token);
  answer_.tokens.push_back(token);
  ++answer_.completion_tokens;
  answer_.decode_seconds = now - first_;
  if (options().on_token) options().on_token(token);
  say(model_.piece(token, std::ranges::find(options().shown, token) != options().shown.end()));
  if (stop_.stopped()) return end(Finish::kStop);
  if (answer_left() == 0) end(Finish::kLength);
}

// --- its end ---

void Generation::say(std::string_view bytes) {
  emit(stop_.push(letters_.push(bytes)));
}

void Generation::emit(std::string text) {
  if (text.empty()) return;
  answer_.text += text;
  if (options().on_text) options().on_text(text);
}

void Generation::end(Finish finish, Status error) {
  if (ended_) return;
  ended_ = true;
  answer_.finish = finish;
  answer_.error = std::move(error);
}

void Generation::close() {
  if (!stop_.stopped()) {
    emit(stop_.push(letters_.finish()));
    emit(stop_.finish());
  }
  if (answer_.error.code() == Code::kNumeric) {
    prefix_.forget(prompt_);
  } else {
    leave_prefix();
  }
  KvReport& kv = answer_.kv;
  kv.policy = options().policy ? options().policy->name : "none";
  kv.keep = options().policy ? to_string(options().keep) : "all";
  kv.prefill = whole_ ? Prefill::kWhole : Prefill::kStreamed;
  kv.preemptions = preemptions_;
  kv.restarted = restarts_ > 0;
  kv.gate = gate_.report();
  describe_cache(cache_, kv);
  if (!sequence_) return;
  if (const Result<SequenceStats> stats = cache_.stats(*sequence_); stats.ok()) {
    kv.bytes_now = stats->bytes;
    kv.bytes_shared = stats->bytes_shared;
    kv.tokens_seen = stats->tokens_seen;
    kv.tokens_kept_mean = stats->tokens_kept_mean;
    kv.tokens_kept_min = stats->tokens_kept_min;
    kv.entries_dropped = stats->entries_dropped;
    kv.lossy = stats->entries_dropped > 0 || kv.restarted;
  }
}

}  // namespace quire::engine
