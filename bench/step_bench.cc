// Decode steps of a whole cache on two threads, 30 layers of 3 KV heads of 64 with 9 query heads
// (SmolLM2-135M), against reading as many bytes on as many threads in the same run; and what begin
// and commit (reservations, views, work items) take of the attention they prepare.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "huge_buffer.h"
#include "quire/cache.h"

namespace quire {
namespace {

constexpr std::uint32_t kLayers = 30, kHeads = 3, kGroup = 3, kSize = 64, kThreads = 2;
constexpr std::size_t kTokenBytes = std::size_t{kHeads} * kSize * 4;  // of a layer

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Meets the other threads; the last to come notes the time, so that a thread that was not running
// does not count.
class Meeting {
 public:
  void wait() {
    const std::uint32_t round = round_.load();
    if (arrived_.fetch_add(1) + 1 == kThreads) {
      met_ = Clock::now();
      arrived_ = 0;
      round_.fetch_add(1);
      return;
    }
    while (round_.load() == round) std::this_thread::yield();
  }
  Clock::time_point met() const { return met_; }

 private:
  std::atomic<std::uint32_t> arrived_{0}, round_{0};
  Clock::time_point met_;
};

void on_threads(const std::function<void(std::uint32_t)>& run) {
  std::vector<std::thread> others;
  for (std::uint32_t p = 1; p < kThreads; ++p) others.emplace_back(run, p);
  run(0);
  for (std::thread& thread : others) thread.join();
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

// Bytes a second that the threads read, each its part of a layer's worth, four places at a time.
double read_rate(std::size_t layer_bytes) {
  const std::size_t words = layer_bytes / 8 / kThreads / 4;  // of one place
  const std::size_t all = words * 4 * kThreads * kLayers;
  const bench::Buffer<std::uint64_t> memory(all);
  std::memset(memory.get(), 1, all * 8);
  Meeting meeting;
  std::vector<double> times;
  on_threads([&](std::uint32_t part) {
    for (std::uint32_t i = 0; i < 2 * kLayers; ++i) {
      const std::uint64_t* from = memory.get() + (i % kLayers * kThreads + part) * words * 4;
      meeting.wait();
      const Clock::time_point begin = meeting.met();
      std::uint64_t sum[8] = {};
      for (std::size_t w = 0; w + 8 <= words; w += 8) {
        for (std::size_t place = 0; place < 4; ++place) {
          __builtin_prefetch(from + place * words + w + 128);
          for (std::size_t j = 0; j < 8; ++j) sum[j] += from[place * words + w + j];
        }
      }
      benchmark::DoNotOptimize(sum);
      meeting.wait();
      if (part == 0) times.push_back(std::chrono::duration<double>(meeting.met() - begin).count());
    }
  });
  return static_cast<double>(words * 8 * 4 * kThreads) / median(times);
}

// sequences, depth
void decode_step(benchmark::State& state) {
  const auto count = static_cast<std::uint32_t>(state.range(0));
  const auto depth = static_cast<std::uint32_t>(state.range(1));
  CacheOptions options;
  options.layers.assign(
      kLayers,
      {.kv_heads = kHeads, .query_heads = kHeads * kGroup, .key_size = kSize, .value_size = kSize});
  options.budget_bytes =
      std::size_t{count} * (depth + 512) * kLayers * kTokenBytes * 9 / 8 + (std::size_t{64} << 20);
  Result<std::unique_ptr<Cache>> opened = Cache::open(options);
  if (!opened.ok()) return state.SkipWithError(opened.status().message().c_str());
  Cache& cache = **opened;
  std::vector<float> rows(std::size_t{512} * kHeads * kGroup * kSize), out(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i % 37) * 0.01f - 0.2f;
  std::vector<Segment> step;
  for (std::uint32_t s = 0; s < count; ++s) step.push_back({*cache.start(), 1});
  for (std::uint32_t at = 0; at < depth; at += 64) {
    for (const Segment& segment : step) {
      const Segment piece{segment.sequence, std::min(64u, depth - at)};
      if (!cache.begin({&piece, 1}).ok()) return state.SkipWithError("budget");
      for (std::uint32_t l = 0; l < kLayers; ++l) cache.append(l, rows.data(), rows.data(), 0, 1);
      cache.commit();
    }
  }
  std::vector<double> prepare, layer;
  const auto one_step = [&] {
    Clock::time_point begin = Clock::now();
    if (!cache.begin(step).ok()) return state.SkipWithError("budget");
    const double begun = seconds_since(begin);
    Meeting meeting;
    on_threads([&](std::uint32_t part) {
      for (std::uint32_t l = 0; l < kLayers; ++l) {
        cache.append(l, rows.data(), rows.data(), part, kThreads);
        meeting.wait();
        const Clock::time_point from = meeting.met();
        cache.attend(l, rows.data(), out.data(), part, kThreads);
        meeting.wait();
        if (part == 0) {
          layer.push_back(std::chrono::duration<double>(meeting.met() - from).count());
        }
      }
    });
    begin = Clock::now();
    cache.commit();
    prepare.push_back(begun + seconds_since(begin));
  };
  for (auto _ : state) one_step();
  const double bytes = static_cast<double>(count) * depth * kTokenBytes;
  const double rate = bytes / median(layer), read = read_rate(static_cast<std::size_t>(bytes));
  state.counters["GB/s"] = rate / 1e9;
  state.counters["of_read"] = rate / read;
  state.counters["prepare_us"] = median(prepare) * 1e6;
  state.counters["prepare_share"] = median(prepare) / (median(layer) * kLayers);
}

const auto* const kRows =
    benchmark::RegisterBenchmark("decode_step", decode_step) -> ArgNames({"sequences", "depth"})
        -> Args({1, 1024}) -> Args({1, 4096}) -> Args({1, 8000}) -> Args({16, 2048})
            -> Args({64, 2048}) -> Iterations(10) -> Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace quire
