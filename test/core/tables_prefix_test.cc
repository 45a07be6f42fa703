// Goal: a sequence behind cached units holds what its text gives, whatever was evicted, forked,
//   repacked or computed after an eviction meanwhile, and whatever digests collide; units never
//   stand in the way of rows; the least of use goes first.
// Method: the random operations of tables_rig.h with texts that share beginnings, tags being a
//   function of the text; and pools filled on purpose.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "core/tables.h"
#include "core/tables_rig.h"
#include "support/fake_memory.h"
#include "support/seed.h"

namespace quire {
namespace {

using test::FakeMemory;

// A digest of so many bits: few, and different texts collide.
PrefixNaming naming(std::uint32_t bits) {
  const auto hash = [bits](std::span<const std::byte> bytes) {
    std::uint64_t x = 0;
    for (const std::byte b : bytes) x = mix(x + 1 + std::to_integer<std::uint64_t>(b));
    if (bits < 64) x &= (std::uint64_t{1} << bits) - 1;
    Digest digest{};
    std::memcpy(digest.data(), &x, sizeof x);
    return digest;
  };
  return {hash, hash({})};
}

struct Outcome {
  std::size_t reused = 0, loaded = 0;
  PrefixStats stats{};
};

Outcome run(std::uint32_t block_tokens, std::size_t budget, const Needs& needs, int steps,
            std::uint32_t bits = 64, Reclaim reclaim = Reclaim::kRepack) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed << " block_tokens=" << block_tokens
                                  << " budget=" << budget << " bits=" << bits);
  test::TablesRig rig(seed, block_tokens, budget, needs, reclaim, naming(bits));
  for (int i = 0; i < steps && !testing::Test::HasFatalFailure(); ++i) {
    SCOPED_TRACE(testing::Message() << "step " << i);
    rig.step();
    rig.check();
  }
  const Outcome outcome{rig.reused(), rig.loaded(), rig.prefix_stats()};
  if (testing::Test::HasFatalFailure()) return outcome;
  rig.drop_all();
  EXPECT_EQ(rig.pool().bytes().committed, 0u);
  EXPECT_EQ(rig.pool().bytes().blocks + rig.pool().bytes().arrays, 0u);
  return outcome;
}

TEST(TablesPrefixTest, RandomOperationsAgreeWithTheTexts) {
  Outcome all;
  for (const std::uint32_t block_tokens : {8u, 16u, 32u, 64u}) {
    const Outcome one = run(block_tokens, std::size_t{block_tokens} * 48 * 1024, {}, 1000);
    all.reused += one.reused;
    all.loaded += one.loaded;
    all.stats.entered += one.stats.entered;
    all.stats.evicted += one.stats.evicted;
  }
  EXPECT_GT(all.reused, 300u);
  EXPECT_GT(all.loaded, 100u);
  EXPECT_GT(all.stats.entered, 100u);
  EXPECT_GT(all.stats.evicted, 50u);
}

TEST(TablesPrefixTest, DigestsThatCollideShareNothing) {
  std::size_t reused = 0;
  for (const std::uint32_t bits : {8u, 1u, 0u}) reused += run(8, 512 * 1024, {}, 500, bits).reused;
  EXPECT_GT(reused, 0u);
}

TEST(TablesPrefixTest, RandomOperationsWithTapsOrWithoutRepacking) {
  EXPECT_EQ(run(16, 700 * 1024, {.tap = Tap::kAllRows}, 200).reused, 0u);
  std::size_t reused = run(8, 500 * 1024, {.tap = Tap::kDecodeRows, .state = true}, 400).reused;
  reused += run(8, 500 * 1024, {}, 300, 64, Reclaim::kWhole).reused;
  reused += run(8, 500 * 1024, {}, 300, 64, Reclaim::kNever).reused;
  EXPECT_GT(reused, 0u);
}

// One full layer group of 2 lanes, 8 tokens a block.
class Small {
 public:
  explicit Small(std::size_t budget, std::vector<LayerShape> layers = {{.kv_heads = 2,
                                                                        .query_heads = 2,
                                                                        .key_size = 64,
                                                                        .value_size = 64}})
      : memory(budget),
        pool(memory, {.slab_bytes = 16 * 1024}),
        tables(pool, Geometry::of(layers, KvType::kF16, KvType::kF16, 8), Reclaim::kRepack,
               naming(64)) {}

  // Reads a text whole behind what is cached of it, enters it and lets it go.
  std::uint32_t read(std::uint32_t text, std::uint32_t rows, bool drop = true) {
    Sequence* sequence = begin(text, rows);
    if (sequence == nullptr) return ~0u;
    const std::uint32_t reused = sequence->length;
    const std::vector<Growth> step{{sequence, rows - reused, 0}};
    EXPECT_TRUE(tables.grow(step));
    tables.publish();
    tables.index(*sequence, {tokens(text, rows)});
    last = sequence;
    if (drop) tables.drop(*sequence);
    tables.check_invariants();
    return reused;
  }
  Sequence* begin(std::uint32_t text, std::uint32_t rows) {
    return tables.start_with_prefix({}, {tokens(text, rows)}, ~0u, end);
  }
  std::uint32_t usable(std::uint32_t text, std::uint32_t rows) {
    const PrefixMatch match = tables.match_prefix({tokens(text, rows)}, {});
    end = match.end;
    segments = match.segments;
    return match.usable;
  }
  std::span<const Token> tokens(std::uint32_t text, std::uint32_t rows) {
    texts.resize(std::max<std::size_t>(texts.size(), text + 1));
    while (texts[text].size() < 4000) {
      texts[text].push_back(static_cast<Token>(text * 4000 + texts[text].size()));
    }
    return std::span(texts[text]).first(rows);
  }

  FakeMemory memory;
  Pool pool;
  Tables tables;
  Sequence* last = nullptr;
  PrefixEnd end{};
  std::vector<PrefixSegment> segments;
  std::vector<std::vector<Token>> texts;
};

TEST(TablesPrefixTest, CachedUnitsTakeNothingFromRows) {
  Small small(512 * 1024);
  const std::uint32_t most = small.tables.tokens_that_fit({}, ~0u);
  for (std::uint32_t text = 0; text < 12; ++text) small.read(text, most / 5);
  EXPECT_GT(small.pool.bytes().idle, small.pool.bytes().budget / 2);
  EXPECT_EQ(small.pool.free_slabs(Idle::kGone), 32u) << "all of it is free";
  // And one text may have the budget, its own units and those of others being in the way, but for
  // what slabs lose that its arrays share with theirs.
  Sequence* sequence = small.tables.start({});
  std::uint32_t rows = 0;
  for (;; ++rows) {
    const std::vector<Growth> step{{sequence, 1, 0}};
    const bool fits = small.tables.slabs_needed(step).slabs <= small.pool.free_slabs(Idle::kGone);
    ASSERT_EQ(small.tables.grow(step), fits) << rows;
    if (!fits) break;
    small.tables.publish();
    if (rows % 50 == 0) small.tables.index(*sequence, {small.tokens(20, rows + 1)});
  }
  EXPECT_GE(rows, most - most / 10);
  small.tables.check_invariants();
}

TEST(TablesPrefixTest, TheOldestEndsGoFirstTheExpectedLastAndWhatIsReadStays) {
  Small small(512 * 1024);
  small.read(0, 81);
  small.read(1, 81);
  small.read(2, 81);
  EXPECT_EQ(small.tables.prefix_stats().units, 30u);
  EXPECT_EQ(small.usable(0, 81), 80u);
  for (std::uint32_t i = 0; i < 4; ++i) ASSERT_TRUE(small.tables.evict_prefix(PartUse::kRead));
  EXPECT_EQ(small.usable(0, 81), 48u) << "from its end";
  EXPECT_EQ(small.end, PrefixEnd::kEvicted);
  EXPECT_EQ(small.usable(1, 81), 80u);

  EXPECT_EQ(small.tables.expect({small.tokens(0, 400)}, true), 48u);
  EXPECT_EQ(small.read(1, 90, false), 80u);  // and is being read
  for (std::uint32_t i = 0; i < 10; ++i) ASSERT_TRUE(small.tables.evict_prefix(PartUse::kRead));
  EXPECT_EQ(small.usable(2, 81), 0u) << "neither expected nor read";
  EXPECT_EQ(small.usable(0, 81), 48u);
  for (std::uint32_t i = 0; i < 6; ++i) ASSERT_TRUE(small.tables.evict_prefix(PartUse::kExpected));
  EXPECT_EQ(small.usable(0, 81), 0u) << "nothing else was left";
  EXPECT_FALSE(small.tables.evict_prefix(PartUse::kExpected));
  EXPECT_EQ(small.usable(1, 81), 80u) << "evicting what is read frees no block";
  small.tables.check_invariants();
}

TEST(TablesPrefixTest, AHoleKeepsWhatIsBehindIt) {
  Small small(512 * 1024);
  small.read(0, 80, false);
  small.tables.forget({small.tokens(0, 24)});
  EXPECT_EQ(small.usable(0, 80), 0u);
  ASSERT_EQ(small.segments.size(), 2u);
  EXPECT_FALSE(small.segments[0].cached);
  EXPECT_EQ(small.segments[0].tokens, 24u);
  EXPECT_TRUE(small.segments[1].cached);
  EXPECT_EQ(small.segments[1].tokens, 56u);
  // Whoever reads it again closes the hole.
  small.tables.index(*small.last, {small.tokens(0, 80)});
  EXPECT_EQ(small.usable(0, 80), 79u) << "all but the last row";
  EXPECT_EQ(small.end, PrefixEnd::kLastRows);
  small.tables.check_invariants();
}

TEST(TablesPrefixTest, WhatAnEvictionFreesIsFreeThoughTheIndexHoldsIt) {
  Small small(1 << 20);
  const auto used = [&] {
    const PoolBytes bytes = small.pool.bytes();
    return bytes.blocks + bytes.arrays - bytes.idle;
  };
  small.read(0, 160, false);
  const std::size_t block = small.tables.geometry().groups[0].block_bytes;
  const std::size_t before = used();
  std::vector<Ordinal> kept(16);
  std::iota(kept.begin(), kept.end(), 144u);
  for (std::uint32_t l = 0; l < 2; ++l) {
    ASSERT_TRUE(small.tables.retain(*small.last, {0, l}, kept));
  }
  small.tables.settle(*small.last);
  small.tables.check_invariants();
  EXPECT_LE(used(), before - 36 * block);
  EXPECT_EQ(small.usable(0, 160), 159u) << "the shared copy stays";
  EXPECT_EQ(small.tables.blocks(*small.last), 4u);

  // A second reader keeps its own view; the first has lost entries and enters nothing any more.
  Sequence* second = small.begin(0, 160);
  EXPECT_EQ(second->length, 159u);
  EXPECT_EQ(small.tables.live(*second, {0, 1}), 159u);
  const std::vector<Growth> step{{small.last, 40, 0}};
  ASSERT_TRUE(small.tables.grow(step));
  small.tables.publish();
  EXPECT_EQ(small.tables.index(*small.last, {small.tokens(0, 200)}), 160u);
  EXPECT_EQ(small.tables.prefix_stats().units, 20u);
  small.tables.drop(*second);
  small.tables.check_invariants();
}

// The index lets go of blocks that only it and a sparse sequence hold.
TEST(TablesPrefixTest, ARepackTakesWhatTheIndexHolds) {
  Small small(1 << 20);
  small.read(0, 161, false);
  std::vector<Ordinal> kept;
  for (Ordinal i = 0; i < 161; i += 4) kept.push_back(i);
  for (std::uint32_t l = 0; l < 2; ++l) ASSERT_TRUE(small.tables.retain(*small.last, {0, l}, kept));
  small.tables.settle(*small.last);
  EXPECT_EQ(small.tables.blocks(*small.last), 42u);
  const MovesReport planned = small.tables.plan_room(1);
  EXPECT_GT(planned.plans, 0u);
  small.tables.check_invariants();
}

TEST(TablesPrefixTest, WindowsAreReadFromWhereTheirUnitsAre) {
  const LayerShape full{.kv_heads = 1, .query_heads = 1, .key_size = 64, .value_size = 64};
  LayerShape window = full;
  window.window = 20;
  for (const bool mixed : {true, false}) {
    Small small(1 << 20,
                mixed ? std::vector<LayerShape>{full, window} : std::vector<LayerShape>{window});
    small.read(0, 100);  // 12 units, and what a row at 96 sees: from 77 on
    const std::uint32_t group = mixed ? 1 : 0;
    EXPECT_EQ(small.usable(0, 100), 96u);
    EXPECT_EQ(small.end, PrefixEnd::kCold);
    EXPECT_EQ(small.usable(0, 97), 96u);
    EXPECT_EQ(small.end, PrefixEnd::kLastRows);
    EXPECT_EQ(small.usable(0, 95), 94u) << "inside a unit: seen from 75 on";
    EXPECT_EQ(small.usable(0, 80), 0u) << "61 is seen, and gone";
    EXPECT_EQ(small.end, PrefixEnd::kWindow);
    Sequence* sequence = small.begin(0, 120);
    ASSERT_EQ(sequence->length, 96u);
    EXPECT_EQ(sequence->groups()[group].extents.size(), 3u);  // ceil(20 / 8)
    if (mixed) {
      EXPECT_EQ(sequence->groups()[0].extents.size(), 12u);
    }
    const std::vector<Growth> step{{sequence, 24, 0}};
    ASSERT_TRUE(small.tables.grow(step));
    small.tables.publish();
    small.tables.index(*sequence, {small.tokens(0, 120)});
    EXPECT_EQ(small.usable(0, 121), 120u);
    EXPECT_EQ(small.usable(0, 97), 96u) << "still";
    small.tables.check_invariants();
    small.tables.drop(*sequence);
    // Window parts go alone: what is older than the rest, as nobody read it again.
    const std::uint64_t units = small.tables.prefix_stats().units;
    ASSERT_TRUE(small.tables.evict_prefix(PartUse::kRead));
    EXPECT_EQ(small.tables.prefix_stats().units, mixed ? units : units - 1);
    small.tables.check_invariants();
  }
}

}  // namespace
}  // namespace quire
