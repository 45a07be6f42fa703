// Goal: once warm, steps allocate nothing from the system: only the pool gives memory.
// Method: operator new is replaced by one that counts while it is told to.  Random decode steps and
// chunks of random rows run in a cache that has seen steps as large: of all sequences and of one
// alone, of many rows and of the few whose lanes are split.  attend() runs in parts.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>

#include "cache/rig.h"
#include "support/seed.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<std::uint64_t> allocations{0};

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (counting) ++allocations;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  return allocate(bytes, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
// std::stable_sort asks like this.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  if (counting) ++allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace quire::test {
namespace {

constexpr std::uint32_t kSequences = 6, kChunk = 48, kParts = 3;

// A step of `rows` rows of each sequence with attend() in parts; true if begin() agreed.
bool run_step(Cache& cache, std::vector<Segment>& segments, std::vector<float>& rows) {
  if (!cache.begin(segments).ok()) return false;
  for (std::uint32_t layer = 0; layer < cache.options().layers.size(); ++layer) {
    cache.append(layer, rows.data(), rows.data(), 0, 1);
    for (std::uint32_t part = 0; part < kParts; ++part) {
      cache.attend(layer, rows.data(), rows.data() + rows.size() / 2, part, kParts);
    }
  }
  cache.commit();
  return true;
}

TEST(Allocation, NothingIsAllocatedAfterWarmUp) {
  const std::uint64_t seed = quire::test::seed();
  std::printf("QUIRE_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  const std::unique_ptr<Cache> cache =
      open_cache({.layers = mixed_layers(), .budget_bytes = 32u << 20, .max_rows = 512});
  ASSERT_NE(cache, nullptr);
  const Needs summed = {.tap = Tap::kAllRows};
  std::vector<SequenceId> ids;
  for (std::uint32_t s = 0; s < kSequences; ++s) {
    ids.push_back(start(*cache, s % 2 == 0 ? Needs{} : summed));
  }
  std::vector<float> rows(std::size_t{2} * kSequences * kChunk * 6 * 96, 0.25f);
  std::vector<Segment> segments;
  segments.reserve(kSequences);
  // Warm-up: the largest step there will be, to the greatest length there will be; all at once and
  // one at a time.  Then the sequences start anew.
  const auto take = [&](std::uint32_t from, std::uint32_t to, std::uint32_t count) {
    segments.clear();
    for (std::uint32_t s = from; s < to; ++s) segments.push_back({ids[s], count});
    return run_step(*cache, segments, rows);
  };
  const auto run_to_end = [&] {
    for (std::uint32_t i = 0; i < 20; ++i) ASSERT_TRUE(take(0, kSequences, kChunk));
    for (std::uint32_t s = 0; s < kSequences; ++s) {
      for (const std::uint32_t count : {kChunk, 4u, 3u, 2u, 1u}) ASSERT_TRUE(take(s, s + 1, count));
    }
    for (const std::uint32_t count : {4u, 3u, 2u, 1u}) ASSERT_TRUE(take(0, kSequences, count));
  };
  run_to_end();
  for (SequenceId& id : ids) {
    const std::size_t s = static_cast<std::size_t>(&id - ids.data());
    ASSERT_TRUE(cache->drop(id).ok());
    id = start(*cache, s % 2 == 0 ? Needs{} : summed);
  }
  std::vector<std::uint32_t> length(kSequences, 0);
  bool refused = false;
  counting = true;
  for (std::uint32_t i = 0; i < 600 && !refused; ++i) {
    segments.clear();
    const std::uint32_t most = i % 8 == 0 ? kChunk : 1;
    for (std::uint32_t s = 0; s < kSequences; ++s) {
      const auto count = static_cast<std::uint32_t>(random() % (most + 1));
      if (count == 0 || length[s] + count > 20 * kChunk) continue;
      segments.push_back({ids[s], count});
      length[s] += count;
    }
    if (!segments.empty()) refused = !run_step(*cache, segments, rows);
  }
  counting = false;
  EXPECT_FALSE(refused);
#ifdef QUIRE_SCALAR_ONLY
  EXPECT_GT(allocations.load(), 0u) << "the reference kernels keep their scratch in vectors";
#else
  EXPECT_EQ(allocations.load(), 0u);
#endif
}

TEST(Allocation, StepsThatEvictPrefixUnitsAllocateNothing) {
  const std::unique_ptr<Cache> cache = open_cache(
      {.layers = mixed_layers(), .budget_bytes = 8u << 20, .prefix = {.hash = digest_of}});
  ASSERT_NE(cache, nullptr);
  std::vector<float> rows(std::size_t{2} * kChunk * 6 * 96, 0.25f);
  std::vector<Segment> segments(1);
  std::vector<Token> text(20 * kChunk);
  const auto read = [&](SequenceId id) {
    bool agreed = true;
    for (std::uint32_t i = 0; i < 20; ++i) {
      segments[0] = {id, kChunk};
      agreed = run_step(*cache, segments, rows) && agreed;
    }
    return agreed;
  };
  while (cache->stats().prefix.evicted == 0) {
    const SequenceId id = start(*cache);
    ASSERT_TRUE(read(id));
    ++text[0];
    ASSERT_TRUE(cache->index(id, {text}).ok());
    ASSERT_TRUE(cache->drop(id).ok());
  }
  const std::uint64_t evicted = cache->stats().prefix.evicted;
  const SequenceId id = start(*cache);
  allocations = 0;
  counting = true;
  const bool done = read(id);
  counting = false;
  EXPECT_TRUE(done);
  EXPECT_GT(cache->stats().prefix.evicted, evicted);
#ifndef QUIRE_SCALAR_ONLY
  EXPECT_EQ(allocations.load(), 0u);
#endif
}

}  // namespace
}  // namespace quire::test
