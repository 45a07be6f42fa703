// One request on its way: its tokens, its sequence, its sampler and its answer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/prefix_use.h"
#include "engine/prompt_gate.h"
#include "engine/reviewer.h"
#include "engine/stop_text.h"
#include "engine/utf8.h"

namespace quire::engine {

class Generation {
 public:
  // REQUIRES: check() accepted the request.  `ends`: the model's end-of-generation tokens.
  // `sharing`: of prefixes, if the request agrees.
  Generation(const model::Model& model, Cache& cache, std::span<const model::Token> ends,
             RequestId id, Request request, std::unique_ptr<model::Sampler> sampler,
             double submitted, Sharing sharing);
  ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  // What can be refused before anything is computed.
  static Status check(const model::Model& model, const Cache& cache, const Reviewer& reviewer,
                      const Request& request);

  RequestId id() const { return id_; }
  const Request& request() const { return request_; }
  double submitted() const { return submitted_; }
  const Answer& answer() const { return answer_; }

  // --- for the plan ---
  Candidate candidate(std::uint32_t reserve_tokens) const;
  // Entries that may be cut for the pool's sake.  `alone`: nobody else runs, so that its keep, too,
  // may be undercut.
  double spare(bool alone) const;
  // Whether the request can go on by reading its prompt in pieces that are cut.
  bool stream_instead();

  // --- the prefix cache, while it waits ---
  // Finds what it need not compute: its next start() begins behind that.  `changes`: another number
  // whenever other units are cached.  False: it knows already.
  bool look(std::uint64_t changes);
  // What a start holds, and copies, it can do without: from now on it computes everything.  False:
  // it held nothing.
  bool stop_sharing();
  // Whether the other is about to compute at least half of what this one would otherwise: then it
  // is soon to be found.
  bool gains_by(const Generation& other) const;
  const PrefixUse& prefix() const { return prefix_; }
  std::uint32_t unread() const { return static_cast<std::uint32_t>(tokens_.size()) - read_; }

  // --- its sequence ---
  std::optional<SequenceId> sequence() const { return sequence_; }
  // An empty one, if it has none; and the roles of the prompt's tokens, where the policy reads
  // them.
  Status start();
  void drop();                // unless it is the caller's
  void admitted(double now);  // its first rows are about to run
  bool begun() const { return begun_; }
  void preempt();  // to be read again
  // A few times: a request that found no room although it is alone is not read again for ever.  It
  // shares nothing then, as what others left may lie where room is missing.
  bool begin_anew();
  Status cut(std::size_t missing_bytes, bool alone);
  std::uint32_t read() const { return read_; }
  // Rows of its tokens that were computed before and are to be computed again.
  std::uint32_t recomputing() const { return most_read_ - std::min(most_read_, read_); }

  // --- a step ---
  model::Chunk chunk(std::uint32_t rows) const;
  // The chunk's rows are in the cache; `logits` of the last one, if it asked for them.  Reviews,
  // samples, and calls back.  A gate measures with `tools`.
  void computed(std::uint32_t rows, std::span<float> logits, double now, const GateTools& tools);

  // --- its end ---
  bool ended() const { return ended_; }
  void end(Finish finish, Status error = {});
  void cancel() { cancelled_ = true; }
  bool cancelled() const {
    return cancelled_ || (request_.options.cancel != nullptr && request_.options.cancel->load());
  }
  bool overdue(double now) const {
    return request_.deadline_seconds > 0 && now - submitted_ > request_.deadline_seconds;
  }
  // Lets out what was held back and fills the kv object; before drop().
  void close();

 private:
  const GenerateOptions& options() const { return request_.options; }
  std::uint32_t answer_left() const { return options().max_tokens - answer_.completion_tokens; }
  bool reading() const { return read_ < prompt_; }
  std::uint32_t next_rows() const;
  std::uint32_t growth(std::uint32_t reserve_tokens) const;
  std::uint32_t window_rows(std::uint32_t rows) const;
  std::uint32_t least_entries(bool alone) const;
  void leave_prefix();  // what was computed, for others
  void be_streamed();
  Status label();
  Status judge(std::span<const float> logits, const GateTools& tools);
  Status review();
  void sample(std::span<float> logits, double now);
  void say(std::string_view bytes);
  void emit(std::string text);

  const model::Model& model_;
  Cache& cache_;
  const std::span<const model::Token> ends_;
  const RequestId id_;
  const Request request_;
  Reviewer reviewer_;
  PromptGate gate_;
  std::unique_ptr<model::Sampler> sampler_;
  Utf8Stream letters_;
  StopText stop_;

  std::vector<model::Token> tokens_;  // prompt, then answer; positions are `base_` higher
  PrefixUse prefix_;
  std::optional<std::uint64_t> looked_at_;  // changes() of the last look
  std::uint32_t base_ = 0;                  // of a sequence that the prompt continues: its length
  const std::uint32_t prompt_;              // tokens of the prompt
  std::vector<Role> roles_{};               // of its tokens
  bool labelled_ = false;                   // the sequence knows them
  std::uint32_t read_ = 0;                  // tokens whose rows are in the cache
  std::uint32_t most_read_ = 0;             // likewise, ever
  std::uint32_t preemptions_ = 0, restarts_ = 0;
  std::uint32_t shown_ = 0;  // prompt tokens that on_prompt knows of
  std::optional<SequenceId> sequence_;
  bool whole_ = true;
  bool begun_ = false, ended_ = false, cancelled_ = false;
  std::uint32_t anew_ = 0;  // times it was read anew
  double submitted_, started_ = 0, first_ = 0;
  Answer answer_;
};

// The kv object's fields that say what the cache is.
void describe_cache(const Cache& cache, KvReport& kv);

}  // namespace quire::engine
