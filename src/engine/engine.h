// Many requests on one model and one cache: continuous batching within the byte budget.
//
// A step is one ragged forward pass: a row for every answer, and with the rows left chunks of
// prompts. Who runs is decided by engine/scheduler.h; its rules (rank, admission, preemption,
// bounds) are there. One thread at a time may call an Engine; callbacks run inside step() and may
// call submit() and cancel(), nothing else.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/generate.h"
#include "engine/scheduler.h"
#include "model/model.h"
#include "quire/cache.h"

namespace quire::engine {

// What becomes of a prompt that not even an empty pool holds whole.
enum class Overflow : std::uint8_t {
  kRefuse,
  kStream,  // with a policy: cut between chunks; the answer says so (kv.prefill)
};

struct Request {
  std::vector<model::Token> prompt;
  // `chunk` is a limit of this request's rows in a step; `cancel` is looked at before each step.
  GenerateOptions options{};
  Overflow on_overflow = Overflow::kRefuse;
  std::int32_t priority = 0;    // lower runs first; -1000 to 1000
  double deadline_seconds = 0;  // after submit(); then it ends as Finish::kCancelled.  0: none
  // Whether it may begin behind what others have computed, and leave what it computes.
  bool prefix_cache = true;
  std::string salt{};  // it shares only with requests of the same salt
  // The prompt continues this sequence, started with the policy's needs; it stays the caller's, and
  // the request is never preempted, and shares nothing.
  std::optional<SequenceId> sequence{};
  // The end of every accepted request, whatever came of it, exactly once.
  std::function<void(RequestId id, const Answer& answer)> on_done{};
};

// One step, for who watches: times by the engine's clock, counts after the step.
struct StepReport {
  double begin_seconds = 0, end_seconds = 0;
  std::uint32_t answer_rows = 0, prompt_rows = 0;
  std::uint32_t running = 0, waiting = 0;
  std::uint32_t paused = 0;  // of the running: had no room for a row
};

struct EngineOptions {
  std::uint32_t max_running = 32;  // at most the cache's max_rows
  std::uint32_t max_waiting = 1u << 20;
  // One level of priority is worth so much waiting: see QueueOrder.
  double ageing_seconds = 10;
  // Answer tokens that admission sets bytes aside for; longer answers grow by extents.
  std::uint32_t reserve_tokens = 256;
  // Prompt rows are given out only while the step is predicted to stay within this, so that answers
  // keep their pace; 0: no limit.
  double step_seconds = 0;
  StepCost cost{};  // all zero: fitted to the steps as they come
  // Prompts begin behind what is cached of them (quire/prefix.h; CacheOptions::prefix), and leave
  // what they computed, answers as well.
  bool prefix_cache = true;
  bool look_ahead = true;  // what who waits will find is evicted last; false: to compare with
  // Bytes that repacking may copy between two steps, as a share of those attention reads in one,
  // beside those the step wrote; 0: nothing is repacked.
  double repack_share = 0.02;
  std::function<double()> clock{};            // seconds, monotonic; null: the steady clock
  std::shared_ptr<const QueueOrder> order{};  // null: FirstCome(ageing_seconds)
  std::function<void(const StepReport&)> on_step{};
};

// Sums since open(), and what is there now.
struct EngineStats {
  std::uint32_t waiting = 0, running = 0;
  std::uint64_t steps = 0, answer_rows = 0, prompt_rows = 0;
  std::uint64_t recomputed_rows = 0;  // of those: rows of preempted and restarted requests
  std::uint64_t finished = 0, cancelled = 0, failed = 0;
  std::uint64_t preemptions = 0, restarts = 0, pauses = 0;  // pauses: rows that found no room
  std::uint64_t repacks = 0;  // for want of room, beside those that follow a step
  std::uint64_t cuts = 0;     // reviews of requests with Keep::kPool because the pool was full
  // Tokens of prompts that began, of those that may share; and those of them that were cached.
  std::uint64_t prefix_queries = 0, prefix_hits = 0;
};

class Engine {
 public:
  // The cache is attached to the model already; both outlive the engine.  kInvalidArgument names
  // the option.
  static Result<std::unique_ptr<Engine>> open(model::Model& model, Cache& cache,
                                              EngineOptions options);
  // Drops every sequence; calls nobody.
  virtual ~Engine() = default;

  // Refusals, before anything is computed: kInvalidArgument (empty prompt, token out of range, over
  // the context, settings of the policy, sampler or grammar), kOutOfMemory (would not fit the whole
  // budget; the message has one that would do; or max_waiting is reached).
  virtual Result<RequestId> submit(Request request) = 0;
  // The request ends as Finish::kCancelled with what it has, before the next step (inside a
  // callback: after this one); its blocks are free then.  False: no such request, or it has ended.
  virtual bool cancel(RequestId id) = 0;
  // One step.  False: there was nothing to do.
  virtual bool step() = 0;
  bool idle() const { return stats().running + stats().waiting == 0; }
  void run_until_idle() {
    while (step()) {
    }
  }
  virtual EngineStats stats() const = 0;
};

}  // namespace quire::engine
