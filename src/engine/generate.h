// One answer to one prompt, within the cache's budget: read, review, decode.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/gate.h"
#include "model/model.h"
#include "quire/cache.h"

namespace quire::engine {

// `--keep 1024tok | 25% | 16MiB`: the target of one sequence after a review.
struct Keep {
  enum class Unit : std::uint8_t { kPool, kTokens, kPercent, kBytes };  // kPool: what the pool fits
  Unit unit = Unit::kPool;
  double amount = 0;
};
Result<Keep> parse_keep(std::string_view text);
std::string to_string(const Keep& keep);  // what parse_keep reads; kPool: "pool"
// "64MiB", "1.5GiB", "4096": bytes.
Result<std::size_t> parse_bytes(std::string_view text);
// The shortest text that parse_bytes reads as exactly `bytes`.
std::string bytes_text(std::size_t bytes);

enum class Finish : std::uint8_t { kStop, kLength, kCancelled, kError };
enum class Prefill : std::uint8_t { kWhole, kStreamed };

struct GenerateOptions {
  std::uint32_t max_tokens = 256;
  std::uint32_t chunk = 512;       // rows of a prefill step, at most
  std::uint32_t context = 0;       // positions of prompt and answer, at most; 0 = the model's
  std::optional<Policy> policy{};  // none: exact; the prompt and answer must fit
  Keep keep{};
  std::uint32_t review_every = 0;  // answer tokens between reviews; 0 = block_tokens
  GateOptions gate{};              // whether the policy may drop anything of this prompt
  model::SamplerOptions sampler{};
  // Who makes the sampler of an answer; null: model::Sampler::create.
  std::function<Result<std::unique_ptr<model::Sampler>>(const model::Model& model,
                                                        const model::SamplerOptions& options)>
      make_sampler{};
  bool stop_at_end = true;            // false: ignore end-of-generation tokens
  std::uint32_t min_tokens = 0;       // no end-of-generation token before so many were answered
  std::vector<std::string> stop{};    // ends the answer before any of these texts
  std::vector<model::Token> shown{};  // control tokens that belong to the answer's text
  std::function<void(std::uint32_t done, std::uint32_t total)> on_prompt{};  // prompt tokens read
  // Whole UTF-8 letters only, and nothing that may yet become one of `stop`.
  std::function<void(std::string_view text)> on_text{};
  std::function<void(model::Token token)> on_token{};  // of the answer, as it is sampled
  const std::atomic<bool>* cancel = nullptr;
};

// The kv object of every answer (docs/ARCHITECTURE.md; one schema for run, batch and server).
struct KvReport {
  bool lossy = false;
  std::string policy = "none";
  std::string type = "f16";
  Prefill prefill = Prefill::kWhole;
  std::size_t pool_bytes = 0, bytes_now = 0, bytes_peak = 0, bytes_shared = 0;
  std::string keep;
  std::uint32_t tokens_seen = 0;
  double tokens_kept_mean = 0;
  std::uint32_t tokens_kept_min = 0;
  std::uint64_t entries_dropped = 0;
  GateReport gate{};
  std::uint32_t cached_tokens = 0;  // of the prompt: not computed, as others had
  // Why not more, in a word (quire/prefix.h; off, streamed, no-room); empty: nothing was missing.
  std::string cache_miss_reason{};
  // Times the sequence was dropped for others and recomputed from its tokens: changes no token.
  std::uint32_t preemptions = 0;
  // The same happened after evictions: what was dropped then may not be what was dropped before.
  bool restarted = false;
};

struct Answer {
  std::string text;
  std::vector<model::Token> tokens;
  Finish finish = Finish::kStop;
  Status error{};  // with Finish::kError; with kCancelled, why, if not by the caller's call
  std::uint32_t prompt_tokens = 0, completion_tokens = 0;
  double queue_seconds = 0;        // from submit() to its first step
  double prefill_seconds = 0;      // from there to the prompt's last row
  double first_token_seconds = 0;  // from submit() to the first token
  double decode_seconds = 0;       // from there to the last token
  KvReport kv{};
};

// A sequence with its history: run one prompt, or chat over several turns.
//
// Prefill.  A prompt that fits is read whole and reviewed after its last row.  With a policy, one
// that does not fit is streamed: before each chunk the sequence is cut until the chunk fits.  The
// window of Tap::kLastRows is then the last rows of every chunk, because a cut has to judge by the
// rows read so far.
//
// Keep.  kTokens, kPercent (of the tokens seen) and kBytes: reviewed after the prompt and after
// every `review_every` answer tokens.  kPool: cut only when the pool has no room, and no further
// than that.  kPercent never asks for less than the entries the policy protects.
//
// Gate.  Judged once for each prompt that is read whole, before its first review.  Closed: nothing
// is dropped while it is answered; where prompt and answer do not fit the budget it ends as
// Finish::kError, kOutOfMemory.
class Session {
 public:
  static Result<std::unique_ptr<Session>> open(model::Model& model, Cache& cache,
                                               GenerateOptions options);
  virtual ~Session() = default;
  // Appends `prompt` to the history and answers it.  A refusal (empty prompt, prompt + answer over
  // the model's context, budget too small for sinks + recent + one chunk: the message has the
  // number that would do) is a Status and leaves the history as it was.
  virtual Result<Answer> answer(const std::vector<model::Token>& prompt) = 0;
  // Forgets everything.
  virtual Status reset() = 0;
  virtual SequenceId sequence() const = 0;  // for --explain
  virtual const std::vector<model::Token>& history() const = 0;
};

}  // namespace quire::engine
