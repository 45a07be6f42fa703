// Attention of one KV head at every level: decode of one token and prefill of a chunk, with and
// without taps, beside what the machine can do: f32 fma and reading the same bytes.
//
// Decode walks 90 lanes (SmolLM2-135M has 30 layers x 3 KV heads), as a step does, so that a lane
// is not in cache from the last time.  Before timing, each level is checked against the reference.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "huge_buffer.h"
#include "kernels/kernels.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace quire::kernels {
namespace {

using bench::Buffer;

constexpr std::uint32_t kBlockTokens = 16, kDepth = 4096, kLanes = 90, kChunk = 512;

// Lanes of f16 whose blocks lie in random order in one region, as after a while of serving.
struct Lanes {
  std::uint32_t size;
  std::size_t block_bytes;
  Buffer<std::byte> memory;
  std::vector<std::vector<BlockView>> blocks;

  Lanes(std::uint32_t lane_count, std::uint32_t depth, std::uint32_t head_size)
      : size(head_size),
        block_bytes(std::size_t{kBlockTokens} * head_size * 4),
        memory(std::size_t{lane_count} * (depth / kBlockTokens) * block_bytes),
        blocks(lane_count) {
    const Kernels& level = kernels_for(Isa::kAuto);
    std::mt19937_64 random(1);
    std::normal_distribution<float> normal;
    const std::size_t count = std::size_t{lane_count} * (depth / kBlockTokens);
    std::vector<std::size_t> place(count);
    for (std::size_t i = 0; i < count; ++i) place[i] = i;
    std::shuffle(place.begin(), place.end(), random);
    std::vector<float> rows(2 * std::size_t{kBlockTokens} * size + 4096);
    for (float& x : rows) x = normal(random);
    for (std::size_t i = 0; i < count; ++i) {
      std::byte* block = memory.get() + place[i] * block_bytes;
      const float* k = rows.data() + random() % 2048;
      const float* v = k + random() % 2048;
      level.append(block, kBlockTokens, block_bytes / 2, KvType::kF16, KvType::kF16, size, size, 0,
                   kBlockTokens, k, size, v, size);
      const std::uint32_t first =
          static_cast<std::uint32_t>(i % (depth / kBlockTokens)) * kBlockTokens;
      blocks[i / (depth / kBlockTokens)].push_back({block, 0xffff, first, first});
    }
  }

  LaneView view(std::size_t lane) const {
    LaneView v{};
    v.blocks = blocks[lane].data();
    v.block_count = static_cast<std::uint32_t>(blocks[lane].size());
    v.live = v.block_count * kBlockTokens;
    v.block_tokens = kBlockTokens;
    v.key_type = v.value_type = KvType::kF16;
    v.key_size = v.value_size = size;
    v.value_offset = block_bytes / 2;
    return v;
  }
};

struct Rows {
  std::vector<float> q, out;
  QueryView view{};

  Rows(std::uint32_t tokens, std::uint32_t group, std::uint32_t size, std::uint32_t length)
      : q(std::size_t{tokens} * group * size), out(q.size()) {
    std::mt19937_64 random(2);
    std::normal_distribution<float> normal;
    for (float& x : q) x = normal(random);
    view.q = q.data();
    view.out = out.data();
    view.q_stride = view.out_stride = std::size_t{group} * size;
    view.tokens = tokens;
    view.group = group;
    view.first_position = length - tokens;
    view.scale = 0.125f;
  }
};

bool agrees(const Kernels& level, const LaneView& lane, const Rows& rows, float* scratch) {
  Rows mine = rows, expected = rows;
  mine.view.tokens = expected.view.tokens = std::min(rows.view.tokens, 2u);
  mine.view.out = mine.out.data();
  expected.view.out = expected.out.data();
  level.attend(lane, mine.view, {}, scratch);
  reference_kernels().attend(lane, expected.view, {}, nullptr);
  return std::memcmp(mine.out.data(), expected.out.data(), mine.out.size() * sizeof(float)) == 0;
}

// group, head size, taps
void decode(benchmark::State& state, const Kernels& level) {
  const std::uint32_t group = static_cast<std::uint32_t>(state.range(0));
  const std::uint32_t size = static_cast<std::uint32_t>(state.range(1));
  const bool taps = state.range(2) != 0;
  const Lanes lanes(kLanes, kDepth, size);
  Rows rows(1, group, size, kDepth);
  const Buffer<float> scratch(scratch_floats(size, size, group, taps ? kDepth : 0));
  if (!agrees(level, lanes.view(0), rows, scratch.get()))
    return state.SkipWithError("wrong answer");
  std::vector<std::int64_t> sum(kDepth);
  TapView tap{};
  tap.sum = taps ? sum.data() : nullptr;
  tap.group = Reduce::kMean;
  std::size_t lane = 0;
  for (auto _ : state) {
    level.attend(lanes.view(lane), rows.view, tap, scratch.get());
    benchmark::DoNotOptimize(rows.out.data());
    lane = (lane + 1) % kLanes;
  }
  const double keys = static_cast<double>(state.iterations()) * kDepth;
  state.SetBytesProcessed(static_cast<std::int64_t>(keys * size * 4));
  state.counters["flop/s"] =
      benchmark::Counter(keys * size * 4 * group, benchmark::Counter::kIsRate);
}

// group, head size, taps (2: of the last 64 rows only); the last 512 rows of a lane of 4096 + 512
void prefill(benchmark::State& state, const Kernels& level) {
  const std::uint32_t group = static_cast<std::uint32_t>(state.range(0));
  const std::uint32_t size = static_cast<std::uint32_t>(state.range(1));
  const bool taps = state.range(2) != 0;
  const Lanes lanes(1, kDepth + kChunk, size);
  Rows rows(kChunk, group, size, kDepth + kChunk);
  const LaneView lane = lanes.view(0);
  const Buffer<float> scratch(scratch_floats(size, size, group, taps ? lane.live : 0));
  if (!agrees(level, lane, rows, scratch.get())) return state.SkipWithError("wrong answer");
  std::vector<std::int64_t> sum(lane.live);
  TapView tap{};
  tap.sum = taps ? sum.data() : nullptr;
  tap.group = Reduce::kMean;
  tap.first_token = state.range(2) == 2 ? kChunk - 64 : 0;
  for (auto _ : state) {
    level.attend(lane, rows.view, tap, scratch.get());
    benchmark::DoNotOptimize(rows.out.data());
  }
  const double pairs = static_cast<double>(kChunk) * (kDepth + (kChunk + 1) / 2.0) * group;
  state.counters["flop/s"] = benchmark::Counter(
      pairs * size * 4 * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

void append_chunk(benchmark::State& state, const Kernels& level) {
  const std::uint32_t size = 64;
  const Lanes lanes(1, kChunk, size);
  std::vector<float> rows(std::size_t{kChunk} * size, 0.5f);
  for (auto _ : state) {
    for (std::size_t b = 0; b < lanes.blocks[0].size(); ++b) {
      level.append(const_cast<std::byte*>(lanes.blocks[0][b].data), kBlockTokens,
                   lanes.block_bytes / 2, KvType::kF16, KvType::kF16, size, size, 0, kBlockTokens,
                   rows.data() + b * kBlockTokens * size, size,
                   rows.data() + b * kBlockTokens * size, size);
    }
  }
  state.SetItemsProcessed(state.iterations() * kChunk);
}

#ifdef __x86_64__
__attribute__((target("avx512f"))) float fma_512(std::size_t steps) {
  __m512 sum[16], a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps(1.0f);
  for (__m512& s : sum) s = a;
  for (std::size_t i = 0; i < steps; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < 16; ++j) sum[j] = _mm512_fmadd_ps(sum[j], a, b);
  }
  float out[16], all = 0;
  for (const __m512& s : sum) {
    _mm512_storeu_ps(out, s);
    all += out[0];
  }
  return all;
}

__attribute__((target("avx2,fma"))) float fma_256(std::size_t steps) {
  __m256 sum[12], a = _mm256_set1_ps(0.5f), b = _mm256_set1_ps(1.0f);
  for (__m256& s : sum) s = a;
  for (std::size_t i = 0; i < steps; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) sum[j] = _mm256_fmadd_ps(sum[j], a, b);
  }
  float out[8], all = 0;
  for (const __m256& s : sum) {
    _mm256_storeu_ps(out, s);
    all += out[0];
  }
  return all;
}

void fma_peak(benchmark::State& state, bool wide) {
  constexpr std::size_t kSteps = 10000;
  for (auto _ : state) {
    std::size_t steps = kSteps;
    benchmark::DoNotOptimize(steps);
    benchmark::DoNotOptimize(wide ? fma_512(steps) : fma_256(steps));
  }
  const double flops = wide ? 16.0 * 16 * 2 : 12.0 * 8 * 2;
  state.counters["flop/s"] = benchmark::Counter(
      flops * kSteps * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
#endif

// Reads the bytes that decode at head size 64 reads, front to back.
void read_peak(benchmark::State& state) {
  const std::size_t words = std::size_t{kLanes} * kDepth * 64 * 4 / 8;
  const Buffer<std::uint64_t> memory(words);
  std::memset(memory.get(), 1, words * 8);
  for (auto _ : state) {
    std::uint64_t sum[8] = {};
    for (std::size_t i = 0; i < words; i += 8) {
      for (std::size_t j = 0; j < 8; ++j) sum[j] += memory.get()[i + j];
    }
    benchmark::DoNotOptimize(sum);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                          static_cast<std::int64_t>(words * 8));
}

void register_level(const Kernels& level) {
  const std::string name = name_of(level.isa);
  const auto add = [&](const char* what, void (*run)(benchmark::State&, const Kernels&)) {
    return benchmark::RegisterBenchmark((std::string(what) + "/" + name).c_str(),
                                        [run, &level](benchmark::State& s) { run(s, level); })
        ->Unit(benchmark::kMicrosecond);
  };
  auto* one = add("decode", decode)->ArgNames({"group", "size", "taps"});
  auto* many = add("prefill", prefill)->ArgNames({"group", "size", "taps"});
  many->Args({3, 64, 2});
  for (auto* bench : {one, many}) {
    bench->Args({3, 64, 0})->Args({3, 64, 1});
    if (level.isa != Isa::kScalar) bench->Args({7, 64, 0})->Args({7, 64, 1})->Args({4, 128, 0});
  }
  add("append", append_chunk);
}

}  // namespace
}  // namespace quire::kernels

int main(int argc, char** argv) {
  using quire::Isa;
  benchmark::Initialize(&argc, argv);
#ifdef __x86_64__
  for (const bool wide : {false, true}) {
    if (!quire::kernels::machine_has(wide ? Isa::kAvx512 : Isa::kAvx2)) continue;
    benchmark::RegisterBenchmark(
        wide ? "fma_peak/avx512" : "fma_peak/avx2",
        [wide](benchmark::State& s) { quire::kernels::fma_peak(s, wide); });
  }
#endif
  benchmark::RegisterBenchmark("read_peak", quire::kernels::read_peak);
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    if (quire::kernels::machine_has(isa)) {
      quire::kernels::register_level(quire::kernels::kernels_for(isa));
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
