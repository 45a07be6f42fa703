// Goal: repacking frees the blocks that evictions left sparse, and nobody can see that it happened:
//   attention, tap sums and positions are the same bits as with blocks freed whole or never, on
//   every instruction set, with forks, and with copies made late or beside a running step.
// Method: caches that differ in how they reclaim run the same made-up texts and the same victims;
//   outputs are compared with memcmp, memory with what is counted by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "cache/rig.h"
#include "support/seed.h"

namespace quire {
namespace {

using namespace test;

// Repack whatever saves a block, at once.
constexpr RepackOptions kEager{.waste = 0, .fullness = 1, .watermark = 1};

CacheOptions options(Reclaim reclaim, std::uint32_t block_tokens = 16, Isa isa = Isa::kAuto) {
  return {.layers = mixed_layers(),
          .budget_bytes = 16 << 20,
          .block_tokens = block_tokens,
          .isa = isa,
          .reclaim = reclaim,
          .repack = kEager};
}

// Plans, copies and installs all there is.
MovesReport repack(Cache& cache) {
  const MovesReport planned = cache.plan_moves(1 << 30);
  while (cache.copy_moves(4096) > 0) {
  }
  cache.install_moves();
  return planned;
}

// Each entry of the full-attention lanes dies with this probability; the last `recent` stay.
void evict_at_random(Cache& cache, SequenceId id, std::uint64_t seed, int percent,
                     std::size_t recent = 8) {
  std::mt19937_64 random(seed);
  for (std::uint32_t l = 0; l < cache.options().layers.size(); ++l) {
    if (cache.options().layers[l].window != 0) continue;
    for (std::uint32_t h = 0; h < cache.options().layers[l].kv_heads; ++h) {
      const std::vector<Position> live = *cache.positions(id, l, h);
      std::vector<Position> victims;
      for (std::size_t i = 0; i + recent < live.size(); ++i) {
        if (static_cast<int>(random() % 100) < percent) victims.push_back(live[i]);
      }
      ASSERT_TRUE(cache.evict(id, l, h, victims).ok());
    }
  }
}

void expect_same(const Outputs& a, const Outputs& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t l = 0; l < a.size(); ++l) {
    ASSERT_EQ(a[l].size(), b[l].size());
    EXPECT_EQ(std::memcmp(a[l].data(), b[l].data(), a[l].size() * sizeof(float)), 0)
        << "layer " << l;
  }
}

void expect_same_lanes(const Cache& a, SequenceId in_a, const Cache& b, SequenceId in_b) {
  for (std::uint32_t l = 0; l < a.options().layers.size(); ++l) {
    for (std::uint32_t h = 0; h < a.options().layers[l].kv_heads; ++h) {
      EXPECT_EQ(*a.positions(in_a, l, h), *b.positions(in_b, l, h));
      if (a.options().layers[l].window != 0) continue;
      EXPECT_EQ(*a.tap(in_a, l, h), *b.tap(in_b, l, h));
    }
  }
}

// One cache of an arm, with the sequence under test and a fork of it.
struct Arm {
  std::unique_ptr<Cache> cache;
  SequenceId id{}, fork{};
  Outputs out;
};

Arm open_arm(Reclaim reclaim, std::uint32_t block_tokens, Isa isa) {
  Arm arm;
  arm.cache = open_cache(options(reclaim, block_tokens, isa));
  arm.id = start(*arm.cache, {.tap = Tap::kAllRows});
  return arm;
}

TEST(MovesTest, NothingThatIsComputedDependsOnHowMemoryIsReclaimed) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  for (const Isa isa : machine_levels()) {
    for (const std::uint32_t block_tokens : {8u, 16u, 64u}) {
      Arm never = open_arm(Reclaim::kNever, block_tokens, isa);
      Arm whole = open_arm(Reclaim::kWhole, block_tokens, isa);
      Arm packed = open_arm(Reclaim::kRepack, block_tokens, isa);
      Arm late = open_arm(Reclaim::kRepack, block_tokens, isa);
      std::uint32_t length = 0;
      std::uint64_t moved = 0;
      for (std::uint32_t round = 0; round < 5; ++round) {
        const std::uint32_t rows = round == 0 ? 230 : 1 + 29 * round;
        for (Arm* arm : {&never, &whole, &packed, &late}) {
          arm->out.clear();
          read(*arm->cache, arm->id, 5, length, rows, 64, &arm->out);
          evict_at_random(*arm->cache, arm->id, seed + round, 45);
          if (round == 2) arm->fork = *arm->cache->fork(arm->id);
        }
        length += rows;
        moved += repack(*packed.cache).entries;
        // Copied one round after it was planned, when some of it has died.
        late.cache->copy_moves(1 << 30);
        late.cache->install_moves();
        late.cache->plan_moves(50'000);
        for (Arm* arm : {&whole, &packed, &late}) {
          SCOPED_TRACE(testing::Message()
                       << name_of(isa) << " block " << block_tokens << " round " << round);
          arm->cache->check_invariants();
          expect_same(arm->out, never.out);
          expect_same_lanes(*arm->cache, arm->id, *never.cache, never.id);
        }
      }
      EXPECT_GT(moved, 0u);
      EXPECT_GT(late.cache->stats().moves.entries, 0u);
      for (Arm* arm : {&never, &whole, &packed, &late}) {
        arm->out.clear();
        read(*arm->cache, arm->fork, 7, 230 + 30 + 59, 40, 40, &arm->out);
        if (arm != &never) expect_same(arm->out, never.out);
        ASSERT_TRUE(arm->cache->drop(arm->id).ok());
        ASSERT_TRUE(arm->cache->drop(arm->fork).ok());
        EXPECT_EQ(arm->cache->stats().committed_bytes, 0u);
      }
    }
  }
}

constexpr std::size_t kBlock = 16 * 128 * 2;

// Blocks of K and V but for those kept for moves (each with 64 bytes beside it).
std::size_t kv_in_use(const Cache& cache) {
  const CacheStats stats = cache.stats();
  return stats.kv_bytes - stats.headroom_bytes / (kBlock + 64) * kBlock;
}

TEST(MovesTest, RandomHolesBecomeFreeBlocks) {
  const CacheOptions shape{
      .layers = {{.kv_heads = 2, .query_heads = 2, .key_size = 64, .value_size = 64}},
      .budget_bytes = 16 << 20,
      .repack = kEager};
  const std::unique_ptr<Cache> cache = open_cache(shape);
  const SequenceId id = start(*cache);
  read(*cache, id, 5, 0, 1605, 512, nullptr);
  evict_at_random(*cache, id, 3, 70, 0);
  const CacheStats before = cache->stats();
  const SequenceStats sparse = *cache->stats(id);
  EXPECT_GT(sparse.waste, 0.6);
  const MovesReport report = repack(*cache);
  std::uint64_t least = 0;
  for (const std::uint32_t h : {0u, 1u}) {
    const std::vector<Position> live = *cache->positions(id, 0, h);
    const auto open = std::ranges::lower_bound(live, 1600u);
    least += (static_cast<std::uint64_t>(open - live.begin()) + 15) / 16;
    least += open != live.end() ? 1 : 0;
  }
  const CacheStats after = cache->stats();
  const SequenceStats dense = *cache->stats(id);
  EXPECT_EQ(dense.blocks, least);
  EXPECT_LT(dense.waste, 0.03) << "at most a block a lane";
  EXPECT_EQ(sparse.blocks - dense.blocks, report.blocks);
  EXPECT_EQ(kv_in_use(*cache), least * kBlock);
  EXPECT_EQ(before.kv_bytes, sparse.blocks * kBlock);
  EXPECT_LE(static_cast<double>(dense.bytes - least * kBlock), 0.06 * least * kBlock)
      << "tables after an eviction";
  EXPECT_EQ(after.moves.blocks, report.blocks);
  EXPECT_EQ(after.moves.bytes, report.entries * kBlock / 16);
  EXPECT_EQ(repack(*cache).plans, 0u) << "what is dense stays where it is";
  cache->check_invariants();
}

TEST(MovesTest, CopiesBesideARunningStepChangeNothing) {
  for (const std::uint32_t threads : {1u, 3u}) {
    Arm whole = open_arm(Reclaim::kWhole, 16, Isa::kAuto);
    Arm packed = open_arm(Reclaim::kRepack, 16, Isa::kAuto);
    for (Arm* arm : {&whole, &packed}) {
      read(*arm->cache, arm->id, 5, 0, 400, 100, &arm->out, threads);
    }
    std::uint32_t length = 400;
    for (int round = 0; round < 6; ++round) {
      for (Arm* arm : {&whole, &packed}) {
        evict_at_random(*arm->cache, arm->id, 11 + round, 20);
        const std::uint64_t planned = arm->cache->plan_moves(30'000).entries;
        if (arm == &packed) {
          EXPECT_GT(planned, 0u);
        }
        Outputs out;
        const Status status =
            step(*arm->cache,
                 {{.sequence = arm->id, .text = 5, .first = length, .rows = 20, .out = &out}},
                 threads, [&] {
                   while (arm->cache->copy_moves(2000) > 0) {
                   }
                 });
        ASSERT_TRUE(status.ok()) << status.message();
        arm->out = out;
      }
      length += 20;
      expect_same(packed.out, whole.out);
      packed.cache->check_invariants();
    }
    expect_same_lanes(*packed.cache, packed.id, *whole.cache, whole.id);
    EXPECT_LT(kv_in_use(*packed.cache), kv_in_use(*whole.cache));
  }
}

TEST(MovesTest, AFullPoolRepacksItselfFree) {
  CacheOptions full = options(Reclaim::kRepack);
  full.budget_bytes = 2 << 20;
  const std::unique_ptr<Cache> cache = open_cache(full);
  const SequenceId id = start(*cache);
  cache->plan_moves(0);
  EXPECT_GT(cache->stats().headroom_bytes, 0u);
  std::uint32_t length = 0;
  Status status;
  while (status.ok()) {
    status = step(*cache, {{.sequence = id, .text = 5, .first = length, .rows = 1}});
    length += status.ok() ? 1 : 0;
  }
  ASSERT_EQ(status.code(), Code::kOutOfMemory);
  // Every second entry: no block is wholly dead.
  for (const std::uint32_t l : {0u, 2u}) {
    for (const std::uint32_t h : {0u, 1u}) {
      std::vector<Position> victims;
      for (Position p = 0; p < length; p += 2) victims.push_back(p);
      ASSERT_TRUE(cache->evict(id, l, h, victims).ok());
    }
  }
  EXPECT_FALSE(step(*cache, {{.sequence = id, .text = 5, .first = length, .rows = 100}}).ok());
  std::uint64_t freed = 0;
  for (std::uint64_t blocks = 1; blocks > 0; freed += blocks) blocks = repack(*cache).blocks;
  EXPECT_GT(freed, length / 16);
  cache->check_invariants();
  EXPECT_TRUE(step(*cache, {{.sequence = id, .text = 5, .first = length, .rows = 100}}).ok());
}

TEST(MovesTest, ForksThatEvictedAlikeArePackedOnceAndOthersAreLeft) {
  for (const bool alike : {true, false}) {
    Arm whole = open_arm(Reclaim::kWhole, 16, Isa::kAuto);
    Arm packed = open_arm(Reclaim::kRepack, 16, Isa::kAuto);
    for (Arm* arm : {&whole, &packed}) {
      read(*arm->cache, arm->id, 5, 0, 320, 320, nullptr);
      if (!alike) arm->fork = *arm->cache->fork(arm->id);
      evict_at_random(*arm->cache, arm->id, 9, 50);
      if (alike) arm->fork = *arm->cache->fork(arm->id);
    }
    const SequenceStats before = *packed.cache->stats(packed.id);
    const std::size_t used = kv_in_use(*packed.cache);
    const MovesReport report = repack(*packed.cache);
    packed.cache->check_invariants();
    if (alike) {
      EXPECT_GT(report.blocks, before.blocks / 3);
      EXPECT_LT(kv_in_use(*packed.cache), used);
      EXPECT_LT(packed.cache->stats(packed.fork)->blocks, before.blocks * 2 / 3);
      EXPECT_EQ(packed.cache->stats(packed.fork)->bytes_shared,
                packed.cache->stats(packed.id)->bytes_shared);
    } else {
      EXPECT_EQ(report.plans, 0u) << "the fork still reads every block";
    }
    for (Arm* arm : {&whole, &packed}) {
      read(*arm->cache, arm->id, 5, 320, 20, 20, &arm->out);
      read(*arm->cache, arm->fork, 6, 320, 20, 20, &arm->out);
    }
    expect_same(packed.out, whole.out);
    // Evicted apart, then one of the two goes: its share comes free.
    for (Arm* arm : {&whole, &packed}) {
      arm->out.clear();
      evict_at_random(*arm->cache, arm->id, 21, 60);
      ASSERT_TRUE(arm->cache->drop(arm->fork).ok());
    }
    repack(*packed.cache);
    packed.cache->check_invariants();
    EXPECT_LT(packed.cache->stats(packed.id)->waste, 0.1);
    for (Arm* arm : {&whole, &packed}) read(*arm->cache, arm->id, 5, 340, 9, 9, &arm->out);
    expect_same(packed.out, whole.out);
  }
}

// Blocks 0, 1 and 3 are alike in both; of block 2 one has lost all, the other all but an entry.
TEST(MovesTest, BlocksThatAreNoNeighboursInEveryForkDoNotMoveTogether) {
  for (const bool longer : {false, true}) {  // the one that has an entry more
    SCOPED_TRACE(longer ? "the fork" : "the parent");
    const std::unique_ptr<Cache> cache = open_cache(options(Reclaim::kRepack));
    const SequenceId parent = start(*cache);
    read(*cache, parent, 5, 0, 100, 100, nullptr);
    const SequenceId fork = *cache->fork(parent);
    const auto thin = [&](SequenceId id, bool all_of_two) {
      std::vector<Position> victims;
      for (Position p = 0; p < 64; ++p) {
        if (p / 16 == 2 ? all_of_two || p != 40 : p % 4 != 0) victims.push_back(p);
      }
      for (std::uint32_t l = 0; l < cache->options().layers.size(); ++l) {
        if (cache->options().layers[l].window != 0) continue;
        for (std::uint32_t h = 0; h < cache->options().layers[l].kv_heads; ++h) {
          ASSERT_TRUE(cache->evict(id, l, h, victims).ok());
        }
      }
    };
    thin(parent, longer);
    thin(fork, !longer);
    const std::vector<Position> in_parent = *cache->positions(parent, 0, 0);
    const std::vector<Position> in_fork = *cache->positions(fork, 0, 0);
    ASSERT_NE(in_parent, in_fork);
    EXPECT_GT(repack(*cache).plans, 0u) << "blocks 0 and 1 are neighbours in both";
    cache->check_invariants();
    EXPECT_EQ(*cache->positions(parent, 0, 0), in_parent);
    EXPECT_EQ(*cache->positions(fork, 0, 0), in_fork);
  }
}

TEST(MovesTest, PlansAreDroppedWithTheirSequenceAndOvertakenByForks) {
  const std::unique_ptr<Cache> cache = open_cache(options(Reclaim::kRepack));
  const SequenceId id = start(*cache);
  read(*cache, id, 5, 0, 320, 320, nullptr);
  evict_at_random(*cache, id, 9, 50);
  ASSERT_GT(cache->plan_moves(1 << 30).plans, 0u);
  cache->copy_moves(1 << 30);
  const SequenceId fork = *cache->fork(id);
  const std::uint64_t blocks = cache->stats(id)->blocks;
  cache->install_moves();
  EXPECT_EQ(cache->stats().moves.plans, 0u) << "a reader came after the plan was made";
  EXPECT_EQ(cache->stats(id)->blocks, blocks);
  cache->check_invariants();
  ASSERT_TRUE(cache->drop(fork).ok());
  evict_at_random(*cache, id, 10, 20);
  ASSERT_GT(cache->plan_moves(20'000).plans, 0u);
  ASSERT_TRUE(cache->drop(id).ok());
  EXPECT_EQ(cache->copy_moves(1 << 30), 0u);
  EXPECT_EQ(cache->stats().committed_bytes, 0u);
  cache->check_invariants();
}

TEST(MovesTest, PlansOnlyWhenAskedForByTheOptions) {
  struct Case {
    const char* what;
    Reclaim reclaim;
    RepackOptions repack;
    int percent;  // evicted
    bool plans;
  };
  constexpr Reclaim kRepack = Reclaim::kRepack;
  for (const Case& c :
       {Case{"never", Reclaim::kNever, kEager, 45, false},
        Case{"whole", Reclaim::kWhole, kEager, 45, false},
        Case{"ample", kRepack, {.waste = 0, .fullness = 1, .watermark = 0.5f}, 45, false},
        Case{"dense", kRepack, {.waste = 0.5f, .fullness = 1, .watermark = 1}, 20, false},
        Case{"full", kRepack, {.waste = 0, .fullness = 0.1f, .watermark = 1}, 9, false},
        Case{"defaults", kRepack, {.watermark = 1}, 45, true}}) {
    SCOPED_TRACE(c.what);
    CacheOptions given = options(c.reclaim);
    given.repack = c.repack;
    const std::unique_ptr<Cache> cache = open_cache(given);
    const SequenceId id = start(*cache);
    read(*cache, id, 5, 0, 320, 320, nullptr);
    evict_at_random(*cache, id, 9, c.percent);
    EXPECT_EQ(cache->plan_moves(1 << 30).plans > 0, c.plans);
    cache->check_invariants();
  }
}

TEST(MovesTest, RoomIsMadeOutOfHolesAndOnlyWhereTheyAddUpToIt) {
  CacheOptions shape = options(Reclaim::kRepack);
  shape.repack = {.watermark = 1};  // plan_moves() lets so little waste be
  const std::unique_ptr<Cache> cache = open_cache(shape);
  const SequenceId id = start(*cache);
  read(*cache, id, 5, 0, 320, 320, nullptr);
  evict_at_random(*cache, id, 9, 15);
  ASSERT_LT(cache->stats(id)->waste, shape.repack.waste);
  const SequenceStats before = *cache->stats(id);
  EXPECT_EQ(cache->plan_moves(1 << 30).plans, 0u);
  const std::size_t headroom = cache->stats().headroom_bytes;
  const std::size_t given = cache->repack(1 << 30);
  EXPECT_EQ(cache->stats(id)->blocks, before.blocks) << "all holes are less";
  EXPECT_EQ(cache->stats().headroom_bytes, headroom - given);

  EXPECT_GT(cache->repack(1), 0u);
  const std::uint64_t some = cache->stats(id)->blocks;
  EXPECT_LT(some, before.blocks);
  cache->check_invariants();
  while (cache->repack(1) > 0) {
  }
  EXPECT_LT(cache->stats(id)->blocks, some);
  EXPECT_LT(cache->stats(id)->waste, 0.06) << "less than a block a lane is left of holes";
  EXPECT_EQ(cache->stats(id)->tokens_kept_mean, before.tokens_kept_mean);
  cache->check_invariants();
}

TEST(MovesTest, ARefusedForkLeavesTheBlocksThatAreSetAside) {
  CacheOptions tight = options(Reclaim::kRepack);
  tight.budget_bytes = 3 << 20;
  const std::unique_ptr<Cache> cache = open_cache(tight);
  const SequenceId id = start(*cache);
  read(*cache, id, 5, 0, 200, 200, nullptr);
  cache->plan_moves(0);
  const CacheStats before = cache->stats();
  ASSERT_GT(before.headroom_bytes, 0u);
  std::size_t used = before.used_bytes;
  int forks = 0;
  for (; forks < 100'000; ++forks) {
    if (!cache->fork(id).ok()) break;
    used = cache->stats().used_bytes;
  }
  ASSERT_LT(forks, 100'000) << "the budget was never felt";
  EXPECT_EQ(cache->stats().headroom_bytes, before.headroom_bytes);
  EXPECT_EQ(cache->stats().used_bytes, used);
  cache->check_invariants();
}

TEST(MovesTest, OptionsOutOfRangeAreNamed) {
  const auto message = [](const RepackOptions& repack) {
    CacheOptions given = options(Reclaim::kRepack);
    given.repack = repack;
    const Result<std::unique_ptr<Cache>> cache = Cache::open(given);
    EXPECT_FALSE(cache.ok());
    return cache.ok() ? std::string() : cache.status().message();
  };
  EXPECT_NE(message({.waste = -0.1f}).find("repack.waste"), std::string::npos);
  EXPECT_NE(message({.fullness = 1.5f}).find("repack.fullness"), std::string::npos);
  EXPECT_NE(message({.watermark = NAN}).find("repack.watermark"), std::string::npos);
  EXPECT_NE(message({.headroom_bytes = 9 << 20}).find("repack.headroom_bytes"), std::string::npos);
}

}  // namespace
}  // namespace quire
