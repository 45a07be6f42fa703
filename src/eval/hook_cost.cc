#include "eval/hook_cost.h"

#include <time.h>

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

}  // namespace

Result<double> idle_hook_share(model::Model& model, CacheOptions options,
                               std::span<const model::Token> prompt, std::uint32_t steps) {
  const auto length = static_cast<std::uint32_t>(prompt.size());
  // Twice what all could hold: never near the watermark.
  options.budget_bytes =
      2 * (kSequences + 1) * engine::kv_bytes(options, length + steps, options.max_rows) + 64 * kMi;
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
  for (std::uint32_t step = 0; step < steps; ++step) {
    std::vector<model::Chunk> chunks;
    for (const Held& sequence : sequences) {
      chunks.push_back({.sequence = sequence.id(),
                        .tokens = prompt.subspan(step % length, 1),
                        .answer = true,
                        .logit_rows = 1});
    }
    const double begin = thread_seconds();
    const Status status = model.forward(chunks, [](auto...) {});
    const double middle = thread_seconds();
    if (!status.ok()) return status;
    cache.plan_moves(copy_bytes);
    cache.copy_moves(copy_bytes);
    cache.install_moves();
    hooks += thread_seconds() - middle;
    forward += middle - begin;
  }
  return forward > 0 ? hooks / forward : 0;
}

}  // namespace quire::eval
