// What repacking costs between the steps of 16 sequences of 2,048 tokens (30 layers of 3 KV heads
// of 64: SmolLM2-135M) that lost half of their entries at random: planning, copying, installing,
// and what is left to do when nothing was evicted.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <random>
#include <vector>

#include "quire/cache.h"

namespace quire {
namespace {

constexpr std::uint32_t kLayers = 30, kHeads = 3, kSize = 64, kTokens = 2048;
constexpr std::size_t kStepBytes = std::size_t{4} << 20;  // copied between two steps

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void repack(benchmark::State& state) {
  const auto count = static_cast<std::uint32_t>(state.range(0));
  const auto block_tokens = static_cast<std::uint32_t>(state.range(1));
  CacheOptions options;
  options.layers.assign(
      kLayers, {.kv_heads = kHeads, .query_heads = kHeads, .key_size = kSize, .value_size = kSize});
  options.budget_bytes = std::size_t{count} * kTokens * kLayers * kHeads * kSize * 5;
  options.block_tokens = block_tokens;
  options.repack.watermark = 1;
  const std::vector<float> rows(std::size_t{512} * kHeads * kSize, 0.5f);
  double plan = 0, copy = 0, install = 0, idle = 0, bytes = 0, blocks = 0, steps = 0;
  for (auto _ : state) {
    Result<std::unique_ptr<Cache>> opened = Cache::open(options);
    if (!opened.ok()) return state.SkipWithError(opened.status().message().c_str());
    Cache& cache = **opened;
    std::mt19937 random(1);
    for (std::uint32_t s = 0; s < count; ++s) {
      const SequenceId id = *cache.start();
      for (std::uint32_t at = 0; at < kTokens; at += 512) {
        const Segment piece{id, 512};
        if (!cache.begin({&piece, 1}).ok()) return state.SkipWithError("budget");
        for (std::uint32_t l = 0; l < kLayers; ++l) cache.append(l, rows.data(), rows.data(), 0, 1);
        cache.commit();
      }
      for (std::uint32_t lane = 0; lane < kLayers * kHeads; ++lane) {
        std::vector<Position> victims;
        for (Position p = 0; p < kTokens; ++p) {
          if (random() % 2 == 0) victims.push_back(p);
        }
        if (!cache.evict(id, lane / kHeads, lane % kHeads, victims).ok()) {
          return state.SkipWithError("evict");
        }
      }
    }
    while (true) {
      Clock::time_point begin = Clock::now();
      const MovesReport planned = cache.plan_moves(kStepBytes);
      if (planned.plans == 0) {
        begin = Clock::now();
        cache.plan_moves(kStepBytes);
        idle = seconds_since(begin);
        break;
      }
      plan += seconds_since(begin);
      begin = Clock::now();
      while (cache.copy_moves(kStepBytes) > 0) {
      }
      copy += seconds_since(begin);
      begin = Clock::now();
      cache.install_moves();
      install += seconds_since(begin);
      ++steps;
    }
    bytes += static_cast<double>(cache.stats().moves.bytes);
    blocks += static_cast<double>(cache.stats().moves.blocks);
  }
  state.counters["plan_us_per_step"] = plan / steps * 1e6;
  state.counters["copy_GB/s"] = bytes / copy / 1e9;
  state.counters["install_us_per_step"] = install / steps * 1e6;
  state.counters["us_per_block_freed"] = (plan + copy + install) / blocks * 1e6;
  state.counters["idle_us"] = idle * 1e6;
  state.counters["blocks_freed"] = blocks / static_cast<double>(state.iterations());
}

const auto* const kRows =
    benchmark::RegisterBenchmark("repack", repack) -> ArgNames({"sequences", "block"})
        -> Args({16, 16}) -> Args({16, 64}) -> Iterations(2) -> Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace quire
