// Reviews of one sequence of SmolLM2-135M's shape (30 layers of 3 KV heads of 64): what shrink()
// takes after `depth` entries and a block of rows more, as decoding reviews every block_tokens
// steps. With 16 sequences one of them is reviewed per step, so this is a step's share.  Time of
// this thread alone, so that other work on the machine counts little.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "quire/cache.h"

namespace quire {
namespace {

constexpr std::uint32_t kLayers = 30, kHeads = 3, kGroup = 3, kSize = 64, kBlock = 16;

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Bench {
  std::unique_ptr<Cache> cache;
  std::vector<float> rows, out;

  explicit Bench(std::uint32_t depth) : rows(std::size_t{512} * kHeads * kGroup * kSize) {
    CacheOptions options;
    LayerShape layer{
        .kv_heads = kHeads, .query_heads = kHeads * kGroup, .key_size = kSize, .value_size = kSize};
    layer.rope.frequency.assign(kSize / 2, 0.1f);
    layer.output.size = kHeads * kGroup * kSize;
    layer.output.rows = [this](std::uint32_t begin, std::uint32_t end, float* to) {
      std::copy_n(rows.data(), (end - begin) * kHeads * kGroup * kSize, to);
    };
    options.layers.assign(kLayers, layer);
    options.budget_bytes = std::size_t{depth + 1024} * kLayers * kHeads * kSize * 8;
    cache = *Cache::open(options);
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float& x : rows) x = normal(random);
    out.resize(rows.size());
  }

  // Rows of one sequence; the last `attended` of them attend, so that taps say something.
  bool read(SequenceId id, std::uint32_t count, bool answer, bool attended) {
    const Segment segment{id, count, answer, answer ? 1u : count};
    if (!cache->begin({&segment, 1}).ok()) return false;
    const float* from = rows.data() + count * kSize;  // another text for another count
    for (std::uint32_t l = 0; l < kLayers; ++l) {
      cache->append(l, from, rows.data(), 0, 1);
      if (attended) cache->attend(l, from, out.data(), 0, 1);
    }
    cache->commit();
    return true;
  }
};

void review(benchmark::State& state, const char* spec) {
  const auto depth = static_cast<std::uint32_t>(state.range(0));
  Bench bench(depth);
  const Policy policy = *make_policy(spec);
  const SequenceId id = *bench.cache->start(policy.needs);
  if (policy.needs.roles) {
    std::vector<Role> roles(depth);
    for (std::uint32_t i = 0; i < depth; ++i) roles[i] = static_cast<Role>(i * i % kRoles);
    if (!bench.cache->set_roles(id, 0, roles).ok()) return state.SkipWithError("budget");
  }
  for (std::uint32_t at = 0; at < depth; at += 64) {
    if (!bench.read(id, 64, false, at + 64 >= depth)) return state.SkipWithError("budget");
  }
  for (auto _ : state) {
    for (std::uint32_t i = 0; i < kBlock; ++i) {
      if (!bench.read(id, 1, true, i + 1 == kBlock)) return state.SkipWithError("budget");
    }
    const double begin = thread_seconds();
    const Result<ShrinkReport> report = bench.cache->shrink(id, policy, depth);
    const double end = thread_seconds();
    if (!report.ok() || report->entries_dropped != std::uint64_t{kBlock} * kLayers * kHeads) {
      return state.SkipWithError("a review dropped something else than a block a lane");
    }
    state.SetIterationTime(end - begin);
  }
}

BENCHMARK_CAPTURE(review, h2o, "h2o")
    ->Arg(2048)
    ->UseManualTime()
    ->Iterations(40)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(review, role_conditional, "role-conditional:score=h2o")
    ->Arg(2048)
    ->UseManualTime()
    ->Iterations(40)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(review, sink_recency, "sink-recency")
    ->Arg(2048)
    ->UseManualTime()
    ->Iterations(40)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(review, knorm, "knorm")
    ->Arg(2048)
    ->UseManualTime()
    ->Iterations(20)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(review, expected_attention, "expected-attention")
    ->Arg(2048)
    ->UseManualTime()
    ->Iterations(4)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(review, criticalkv, "criticalkv:score=h2o")
    ->Arg(2048)
    ->UseManualTime()
    ->Iterations(4)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace quire
