// Goal: the budget is a limit and a promise: nothing passes it, a refusal changes nothing, what the
//   cache says will fit does fit, and metadata stays small.
// Method: scripts of calls at every budget from hopeless to ample, with all counts compared around
//   every refusal; real model shapes without their data.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "cache/memory.h"
#include "cache/rig.h"
#include "core/tables.h"

namespace quire {
namespace {

using namespace test;

constexpr std::size_t kKiB = 1024, kMiB = 1024 * kKiB;

std::vector<LayerShape> smol_layers() {
  return std::vector<LayerShape>(
      30, {.kv_heads = 3, .query_heads = 9, .key_size = 64, .value_size = 64});
}

// Gemma-3-270m: 15 layers see 512 positions, each sixth sees all.
std::vector<LayerShape> gemma3_layers() {
  std::vector<LayerShape> layers(
      18, {.kv_heads = 1, .query_heads = 4, .key_size = 256, .value_size = 256, .window = 512});
  for (const std::size_t full : {5u, 11u, 17u}) layers[full].window = 0;
  return layers;
}

// What is held is counted in whole blocks: from the block of the oldest position that a row may
// still see to the block of the newest.
TEST(MemoryTest, WindowLayersHoldTheirWindowAndOneChunk) {
  constexpr std::uint32_t kWindow = 512, kPrompt = 3001;
  constexpr std::size_t kRowBytes = 2 * 256 * 2, kWindowLayers = 15, kFullLayers = 3;
  for (const std::uint32_t block_tokens : {8u, 16u, 64u}) {
    for (const std::uint32_t chunk : {7u, 100u, 512u}) {
      SCOPED_TRACE(testing::Message() << block_tokens << " " << chunk);
      const std::unique_ptr<Cache> cache = open_cache(
          {.layers = gemma3_layers(), .budget_bytes = 64 * kMiB, .block_tokens = block_tokens});
      const auto whole = [&](std::uint32_t rows) {
        return (rows + block_tokens - 1) / block_tokens * block_tokens;
      };
      // Bytes of K and V while a step appends rows [length, end); between steps the two are equal.
      const auto held = [&](std::uint32_t length, std::uint32_t end) {
        const std::uint32_t oldest = length < kWindow ? 0 : length - kWindow + 1;
        const std::uint32_t rows = whole(end) - oldest / block_tokens * block_tokens;
        EXPECT_LE(rows, kWindow + chunk + 2 * block_tokens);
        return kRowBytes * (kWindowLayers * rows + kFullLayers * whole(end));
      };
      const SequenceId id = start(*cache);
      for (std::uint32_t length = 0, rows = 0; length < kPrompt; length += rows) {
        rows = std::min(chunk, kPrompt - length);
        ASSERT_TRUE(cache->begin(std::vector<Segment>{{id, rows}}).ok());
        ASSERT_EQ(cache->stats().kv_bytes, held(length, length + rows)) << length;
        cache->commit();
        ASSERT_EQ(cache->stats().kv_bytes, held(length + rows, length + rows)) << length;
      }
      cache->check_invariants();
      // All layers alike would hold 54 MiB.
      EXPECT_LE(cache->stats().peak_bytes, 27 * kMiB);
    }
  }
}

// More rows than a step takes: what is said to be needed is enough, and not much more.
TEST(MemoryTest, NeedsOfALongPromptCountWindowsOnce) {
  for (const std::uint32_t before : {0u, 300u, 1500u}) {
    for (const bool forked : {false, true}) {
      SCOPED_TRACE(testing::Message() << before << " " << forked);
      constexpr std::uint32_t kRows = 3000, kStep = 256;
      const std::unique_ptr<Cache> cache =
          open_cache({.layers = gemma3_layers(), .budget_bytes = 96 * kMiB, .max_rows = kStep});
      SequenceId id = start(*cache);
      const auto read = [&](std::uint32_t rows) {
        for (std::uint32_t done = 0, now = 0; done < rows; done += now) {
          now = std::min(kStep, rows - done);
          ASSERT_TRUE(cache->begin(std::vector<Segment>{{id, now}}).ok());
          cache->commit();
        }
      };
      read(before);
      if (forked) id = *cache->fork(id);
      const std::size_t committed = cache->stats().committed_bytes;
      const std::size_t needed = cache->bytes_needed(id, kRows);
      read(kRows);
      const std::size_t taken = cache->stats().peak_bytes - committed;
      EXPECT_LE(taken, needed);
      EXPECT_GE(taken + 2 * kMiB, needed);
    }
  }
}

TEST(MemoryTest, CancelGivesEverythingBack) {
  for (const Needs& needs : {Needs{}, Needs{.tap = Tap::kAllRows}, Needs{.tap = Tap::kLastRows}}) {
    const std::unique_ptr<Cache> cache =
        open_cache({.layers = mixed_layers(), .budget_bytes = 8 * kMiB});
    const SequenceId id = start(*cache, needs);
    read(*cache, id, 5, 0, 75, 75, nullptr);
    const Result<SequenceId> child = cache->fork(id);
    ASSERT_TRUE(child.ok());
    ASSERT_TRUE(cache->evict(*child, 0, 0, all_positions(75)).ok());
    const CacheStats before = cache->stats();
    const std::vector<Segment> segments{{.sequence = *child, .rows = 40, .window_rows = 3},
                                        {.sequence = id, .rows = 7}};
    for (int again = 0; again < 3; ++again) {
      ASSERT_TRUE(cache->begin(segments).ok());
      EXPECT_FALSE(same_bytes(before, cache->stats()));
      cache->check_invariants();
      cache->cancel();
      EXPECT_TRUE(same_bytes(before, cache->stats()));
      cache->check_invariants();
    }
    EXPECT_EQ(cache->positions(*child, 0, 0)->size(), 0u);
    EXPECT_EQ(cache->positions(*child, 0, 1)->size(), 75u);
    EXPECT_EQ(cache->stats(*child)->tokens_seen, 75u);
  }
}

// start, read, fork, evict, review, read on, drop: each either happens or leaves no trace.
TEST(MemoryTest, OutOfMemoryAtEveryPointChangesNothing) {
  std::size_t refused = 0, completed = 0;
  for (std::size_t budget = 200 * kKiB; budget < 2600 * kKiB; budget += 52 * kKiB) {
    SCOPED_TRACE(budget);
    Result<std::unique_ptr<Cache>> opened = Cache::open(
        {.layers = mixed_layers(), .budget_bytes = budget, .block_tokens = 8, .max_rows = 64});
    if (!opened.ok()) {
      EXPECT_EQ(opened.status().code(), Code::kOutOfMemory);
      continue;
    }
    Cache& cache = **opened;
    std::vector<SequenceId> ids;
    bool all = true;
    const auto attempt = [&](auto call) {
      const CacheStats before = cache.stats();
      const Status status = call();
      if (!status.ok()) {
        EXPECT_EQ(status.code(), Code::kOutOfMemory) << status.message();
        EXPECT_TRUE(same_bytes(before, cache.stats()));
        ++refused;
        all = false;
      }
      EXPECT_LE(cache.stats().peak_bytes, budget);
      EXPECT_LE(cache.stats().used_bytes, cache.stats().committed_bytes);
      cache.check_invariants();
    };
    for (int s = 0; s < 3; ++s) {
      attempt([&]() -> Status {
        const Result<SequenceId> id = cache.start({.tap = Tap::kAllRows});
        if (!id.ok()) return id.status();
        ids.push_back(*id);
        return {};
      });
    }
    const auto read_all = [&](std::uint32_t rows) {
      for (const SequenceId id : ids) {
        const std::uint32_t length = cache.stats(id)->tokens_seen;
        const bool fits = cache.bytes_needed(id, rows) <= cache.bytes_free();
        attempt([&] {
          const Status status =
              step(cache, {{.sequence = id, .text = 5, .first = length, .rows = rows}});
          EXPECT_EQ(status.ok(), fits);
          return status;
        });
      }
    };
    read_all(61);
    read_all(7);
    for (std::size_t s = 0; s < 2 && s < ids.size(); ++s) {
      attempt([&]() -> Status {
        const Result<SequenceId> id = cache.fork(ids[s]);
        if (!id.ok()) return id.status();
        ids.push_back(*id);
        return {};
      });
    }
    const Policy policy = *make_policy("h2o:recent=8");
    for (const SequenceId id : ids) {
      // Whatever the pool's state: a review is what makes room.
      const Result<ShrinkReport> report = cache.shrink(id, policy, 20);
      EXPECT_TRUE(report.ok()) << report.status().message();
      cache.check_invariants();
    }
    read_all(33);
    completed += all ? 1 : 0;
    for (const SequenceId id : ids) EXPECT_TRUE(cache.drop(id).ok());
    EXPECT_EQ(cache.stats().committed_bytes, 0u);
  }
  EXPECT_GT(refused, 20u);
  EXPECT_GT(completed, 5u);
}

TEST(MemoryTest, TokensThatFitReallyFitAndOneBlockMoreDoesNot) {
  for (const Needs& needs : {Needs{}, Needs{.tap = Tap::kAllRows}}) {
    for (const std::uint32_t block_tokens : {8u, 16u, 64u}) {
      for (const std::size_t budget : {9 * kMiB, 12 * kMiB + 4096, 33 * kMiB}) {
        for (const std::uint32_t chunk : {block_tokens, 100u, 512u}) {
          SCOPED_TRACE(testing::Message() << block_tokens << " " << budget << " " << chunk);
          const std::unique_ptr<Cache> cache = open_cache(
              {.layers = smol_layers(), .budget_bytes = budget, .block_tokens = block_tokens});
          const std::uint32_t tokens = cache->tokens_that_fit(needs);
          EXPECT_GT(tokens, budget / 23040 * 85 / 100);
          const SequenceId id = start(*cache, needs);
          for (std::uint32_t done = 0; done < tokens; done += chunk) {
            const std::vector<Segment> segments{{id, std::min(chunk, tokens - done)}};
            ASSERT_LE(cache->bytes_needed(id, segments[0].rows), cache->bytes_free()) << done;
            const Status status = cache->begin(segments);
            ASSERT_TRUE(status.ok()) << done << " of " << tokens << " " << status.message();
            cache->commit();
          }
          const std::vector<Segment> more{{id, block_tokens}};
          EXPECT_GT(cache->bytes_needed(id, block_tokens), cache->bytes_free()) << tokens;
          EXPECT_EQ(cache->begin(more).code(), Code::kOutOfMemory) << tokens;
          // A full pool can always be cut.
          ASSERT_TRUE(cache->shrink(id, *make_policy("sink-recency"), 100).ok());
          EXPECT_TRUE(cache->begin(more).ok());
          cache->cancel();
          cache->check_invariants();
        }
      }
    }
  }
}

// 64 sequences of 2048 tokens of SmolLM2-135M: block ids and tables for real, K and V untouched.
TEST(MemoryTest, MetadataIsSmall) {
  const Geometry geometry = Geometry::of(smol_layers(), KvType::kF16, KvType::kF16, 16);
  const std::size_t budget = 3600 * kMiB;
  Result<std::unique_ptr<Memory>> memory = map_memory(budget);
  ASSERT_TRUE(memory.ok());
  Pool pool(**memory, {.slab_bytes = Pool::slab_bytes_for(budget, geometry.largest_extent(),
                                                          geometry.largest_block())});
  Tables tables(pool, geometry);
  std::vector<Sequence*> sequences;
  const auto fill = [&](const Needs& needs) {
    for (int s = 0; s < 64; ++s) {
      sequences.push_back(tables.start(needs));
      const std::vector<Growth> step{{sequences.back(), 2048, 0}};
      ASSERT_TRUE(tables.grow(step));
      tables.publish();
    }
  };
  const auto share = [&] {
    return static_cast<double>(pool.bytes().arrays) / static_cast<double>(pool.bytes().blocks);
  };
  fill({});
  RecordProperty("dense_percent", std::to_string(share() * 100));
  EXPECT_LT(share(), 0.01);
  for (Sequence* sequence : sequences) tables.drop(*sequence);
  sequences.clear();
  EXPECT_EQ(pool.bytes().committed, 0u);

  // Scattered victims, half of each lane, with a tap: the most metadata there is.
  fill({.tap = Tap::kAllRows});
  std::mt19937_64 random(1);
  for (Sequence* sequence : sequences) {
    for (std::uint32_t l = 0; l < 90; ++l) {
      std::vector<Ordinal> kept;
      for (Ordinal i = 0; i < 2048; ++i) {
        if (random() % 2 == 0) kept.push_back(i);
      }
      ASSERT_TRUE(tables.retain(*sequence, {0, l}, kept));
    }
    tables.settle(*sequence);
  }
  RecordProperty("evicted_percent", std::to_string(share() * 100));
  EXPECT_LT(share(), 0.06);
  tables.check_invariants();
}

TEST(MemoryTest, BudgetsThatCannotBeAreRefusedWithTheLargestThatFits) {
  CacheOptions options{.layers = mixed_layers(), .budget_bytes = std::size_t{1} << 37};
  if (machine_limit().bytes < options.budget_bytes) {
    const Result<std::unique_ptr<Cache>> cache = Cache::open(options);
    ASSERT_FALSE(cache.ok());
    EXPECT_EQ(cache.status().code(), Code::kOutOfMemory);
    EXPECT_NE(cache.status().message().find(std::to_string(machine_limit().bytes)),
              std::string::npos);
  }
  options.budget_bytes = 16 * kKiB;
  const Result<std::unique_ptr<Cache>> small = Cache::open(options);
  ASSERT_FALSE(small.ok());
  EXPECT_EQ(small.status().code(), Code::kOutOfMemory);
  EXPECT_NE(small.status().message().find("one block of every lane"), std::string::npos);
}

}  // namespace
}  // namespace quire
