#include "eval/hook_cost.h"

#include <time.h>

#include <bit>
#include <chrono>
#include <vector>

#include "engine/budget.h"
#include "eval/sequences.h"

namespace quire::eval {
namespace {

constexpr std::size_t kMi = std::size_t{1} << 20;
constexpr std::size_t kSequences = 16;

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct StepTime {
  double forward = 0, hooks = 0;  // processor seconds of the calling thread
  double wall = 0;                // seconds
};

// `copy_bytes`: the most that the hooks may copy; 0: a step without hooks.
Result<StepTime> timed_step(model::Model& model, Cache& cache, std::span<const model::Chunk> chunks,
                            std::size_t copy_bytes) {
  const auto start = std::chrono::steady_clock::now();
  const double begin = thread_seconds();
  if (Status status = model.forward(chunks, [](auto...) {}); !status.ok()) return status;
  const double middle = thread_seconds();
  if (copy_bytes > 0) {
    cache.plan_moves(copy_bytes);
    cache.copy_moves(copy_bytes);
    cache.install_moves();
  }
  return StepTime{
      .forward = middle - begin,
      .hooks = thread_seconds() - middle,
      .wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
}

}  // namespace

Result<HookCost> idle_hook_cost(model::Model& model, CacheOptions options,
                                std::span<const model::Token> prompt, std::uint32_t pairs) {
  const auto length = static_cast<std::uint32_t>(prompt.size());
  // Twice what all could hold: never near the watermark.
  options.budget_bytes =
      2 * (kSequences + 1) * engine::kv_bytes(options, length + 2 * pairs, options.max_rows) +
      64 * kMi;
  const Result<std::unique_ptr<Cache>> opened = Cache::open(options);
  if (!opened.ok()) return opened.status();
  Cache& cache = **opened;
  if (Status status = model.attach(cache); !status.ok()) return status;
  const Result<Policy> policy = make_policy("random");
  if (!policy.ok()) return policy.status();
  const Result<Held> reading = Held::start(cache, {});
  if (!reading.ok()) return reading.status();
  if (Status status = read(model, *reading, prompt, {.chunk = options.max_rows}); !status.ok()) {
    return status;
  }
  std::vector<Held> sequences;
  for (std::size_t s = 0; s < kSequences; ++s) {
    Result<Held> fork = reading->fork();
    if (!fork.ok()) return fork.status();
    const Result<ShrinkReport> cut = cache.shrink(fork->id(), *policy, length / 2);
    if (!cut.ok()) return cut.status();
    sequences.push_back(*std::move(fork));
  }
  const std::size_t copy_bytes = engine::kv_bytes_per_token(options) * length / 50;
  cache.plan_moves(0);  // sets blocks aside, once
  double hooks = 0, forward = 0;
  std::vector<double> walls;
  for (std::uint32_t pair = 0; pair < pairs; ++pair) {
    std::vector<model::Chunk> chunks;
    for (const Held& sequence : sequences) {
      chunks.push_back({.sequence = sequence.id(),
                        .tokens = prompt.subspan(pair % length, 1),
                        .answer = true,
                        .logit_rows = 1});
    }
    double with = 0, without = 0;
    for (const bool first : {true, false}) {
      // Thue and Morse's order has no period to fall in with that of blocks that are opened.
      const bool hooked = first == (std::popcount(pair) % 2 == 0);
      const Result<StepTime> step = timed_step(model, cache, chunks, hooked ? copy_bytes : 0);
      if (!step.ok()) return step.status();
      (hooked ? with : without) = step->wall;
      if (!hooked) continue;
      hooks += step->hooks;
      forward += step->forward;
    }
    walls.push_back(with / without - 1);
  }
  return HookCost{.processor_share = forward > 0 ? hooks / forward : 0,
                  .wall = estimate_median(walls)};
}

}  // namespace quire::eval
