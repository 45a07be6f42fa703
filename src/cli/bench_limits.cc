#include "cli/bench_limits.h"

#include <sys/mman.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <thread>

#include "cli/bench_peaks.h"
#include "cli/open_engine.h"

namespace quire::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Runs work(thread) on every thread at once; seconds from the first start to the last end.
double together(std::uint32_t threads, const std::function<void(std::uint32_t)>& work) {
  std::barrier ready(static_cast<std::ptrdiff_t>(threads) + 1);
  std::vector<std::thread> running;
  for (std::uint32_t i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      ready.arrive_and_wait();
      work(i);
    });
  }
  ready.arrive_and_wait();
  const Clock::time_point start = Clock::now();
  for (std::thread& thread : running) thread.join();
  return seconds_since(start);
}

std::uint64_t sum_of(const std::uint64_t* words, std::size_t count) {
  std::uint64_t sum[8] = {};
  for (std::size_t i = 0; i + 8 <= count; i += 8) {
    for (std::size_t j = 0; j < 8; ++j) sum[j] += words[i + j];
  }
  std::uint64_t all = 0;
  for (const std::uint64_t s : sum) all += s;
  return all;
}

double read_bandwidth(std::uint32_t threads) {
  constexpr std::size_t kMost = std::size_t{512} << 20, kPage = std::size_t{2} << 20;
  const std::size_t each =
      std::max(kPage, std::min(kMost, free_memory_bytes() / 4) / threads / kPage * kPage);
  const std::size_t bytes = each * threads;
  const std::unique_ptr<void, void (*)(void*)> region(std::aligned_alloc(kPage, bytes), std::free);
  if (region == nullptr) return 0;
  madvise(region.get(), bytes, MADV_HUGEPAGE);
  auto* const words = static_cast<std::uint64_t*>(region.get());
  const std::size_t count = each / sizeof(std::uint64_t);
  together(threads, [&](std::uint32_t i) {
    for (std::size_t w = 0; w < count; ++w) words[i * count + w] = w;
  });
  double best = 0;
  std::vector<std::uint64_t> sums(threads);  // kept, or nothing would have to be read
  for (int pass = 0; pass < 4; ++pass) {
    const double seconds =
        together(threads, [&](std::uint32_t i) { sums[i] += sum_of(words + i * count, count); });
    best = std::max(best, static_cast<double>(bytes) / seconds);
  }
  return sums[0] == 1 ? 0 : best;
}

double peak_of(const PeakLoop& loop, std::uint32_t threads) {
  constexpr double kSeconds = 0.05;
  std::uint64_t rounds = 1 << 14;
  for (double took = 0; took < kSeconds / 4 && rounds < std::uint64_t{1} << 40; rounds *= 2) {
    const Clock::time_point start = Clock::now();
    (void)loop.run(rounds);
    took = seconds_since(start);
  }
  rounds *= 2;
  double best = 0;
  for (int pass = 0; pass < 3; ++pass) {
    std::vector<double> operations(threads);
    const double seconds =
        together(threads, [&](std::uint32_t i) { operations[i] = loop.run(rounds); });
    double all = 0;
    for (const double one : operations) all += one;
    best = std::max(best, all / seconds);
  }
  return best;
}

}  // namespace

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

double MachineLimits::best_peak() const {
  double best = 0;
  for (const auto& [name, peak] : peaks) best = std::max(best, peak);
  return best;
}

MachineLimits measure_limits(std::uint32_t threads) {
  MachineLimits limits{.cpu = cpu_name(),
                       .cores = std::max(1u, std::thread::hardware_concurrency()),
                       .threads = threads,
                       .read_bytes_s = read_bandwidth(threads),
                       .peaks = {}};
  for (const PeakLoop& loop : peak_loops()) {
    limits.peaks.emplace_back(loop.name, peak_of(loop, threads));
  }
  return limits;
}

}  // namespace quire::cli
