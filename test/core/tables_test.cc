// Goal: the tables hold exactly what was appended and not evicted, in every sequence, whatever its
//   forks do and whatever is repacked, with copies that come late or never; no refusal changes
//   anything; everything dropped leaves the pool empty.
// Method: random operations against a naive model (a map from position to a tag per lane), with
//   every lane compared and every invariant recounted after each, over pools that are too small.
#include "core/tables.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/tables_rig.h"
#include "support/fake_memory.h"
#include "support/seed.h"

namespace quire {
namespace {

using test::FakeMemory;

struct Plans {
  std::size_t planned = 0, installed = 0, emptied = 0;
};

Plans run(std::uint32_t block_tokens, std::size_t budget, const Needs& needs, int steps,
          Reclaim reclaim = Reclaim::kRepack) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed << " block_tokens=" << block_tokens
                                  << " budget=" << budget);
  test::TablesRig rig(seed, block_tokens, budget, needs, reclaim);
  for (int i = 0; i < steps && !testing::Test::HasFatalFailure(); ++i) {
    SCOPED_TRACE(testing::Message() << "step " << i);
    rig.step();
    rig.check();
  }
  // A walk that happened to drop much goes on until it has felt the budget.
  for (int i = 0; i < 1000 && rig.refusals() == 0 && !testing::Test::HasFatalFailure(); ++i) {
    rig.press();
    rig.check();
  }
  const Plans plans{rig.planned(), rig.installed(), rig.emptied()};
  if (testing::Test::HasFatalFailure()) return plans;
  EXPECT_GT(rig.refusals(), 0u) << "the budget was never felt";
  rig.drop_all();
  EXPECT_EQ(rig.pool().bytes().committed, 0u);
  EXPECT_EQ(rig.pool().bytes().blocks + rig.pool().bytes().arrays, 0u);
  return plans;
}

TEST(TablesTest, RandomOperationsAgreeWithTheModel) {
  Plans all;
  for (const std::uint32_t block_tokens : {8u, 16u, 32u, 64u}) {
    const Plans plans = run(block_tokens, std::size_t{block_tokens} * 24 * 1024, {}, 800);
    all.planned += plans.planned;
    all.installed += plans.installed;
    all.emptied += plans.emptied;
  }
  EXPECT_GT(all.installed, 10u);
  EXPECT_GT(all.emptied, 10u) << "no slab was emptied";
  EXPECT_GT(all.planned, all.installed) << "no plan was overtaken by events";
}

TEST(TablesTest, RandomOperationsWithoutRepackingAgreeWithTheModel) {
  run(16, 16 * 24 * 1024, {}, 200, Reclaim::kWhole);
  run(16, 16 * 24 * 1024, {}, 200, Reclaim::kNever);
}

TEST(TablesTest, RandomOperationsWithTapsAgreeWithTheModel) {
  for (const Needs& needs : {Needs{.tap = Tap::kAllRows}, Needs{.tap = Tap::kDecodeRows}}) {
    run(8, 400 * 1024, needs, 250);
    run(16, 700 * 1024, needs, 250);
  }
}

// Here a tag is not a sum: rows before the taps went on have none.  The invariants check sizes.
TEST(TablesTest, WindowTapsComeWithTheirRowsAndGoWithTheStep) {
  FakeMemory memory(4 << 20);
  Pool pool(memory, {.slab_bytes = 64 * 1024});
  const std::vector<LayerShape> layers{
      {.kv_heads = 2, .query_heads = 6, .key_size = 16, .value_size = 16}};
  Tables tables(pool, Geometry::of(layers, KvType::kF16, KvType::kF16, 8));
  Sequence* sequence = tables.start({.tap = Tap::kLastRows, .per_head = true});
  ASSERT_NE(sequence, nullptr);
  const std::vector<Growth> prompt{{sequence, 100, 0}}, last{{sequence, 20, 7}};
  ASSERT_TRUE(tables.grow(prompt));
  tables.publish();
  EXPECT_TRUE(tables.lane(*sequence, {0, 1}).taps.empty());

  const PoolBytes before = pool.bytes();
  ASSERT_TRUE(tables.grow(last));
  EXPECT_EQ(tables.lane(*sequence, {0, 1}).taps.size(), 120u * 4);
  tables.retract();
  EXPECT_TRUE(tables.lane(*sequence, {0, 1}).taps.empty());
  EXPECT_EQ(pool.bytes().arrays, before.arrays);
  EXPECT_EQ(sequence->window_rows, 0u);

  ASSERT_TRUE(tables.grow(last));
  tables.publish();
  tables.check_invariants();
  EXPECT_EQ(sequence->window_rows, 7u);
  EXPECT_EQ(sequence->window_end, 120u);

  // A step that finds no room leaves the sums; one that begins a new window clears them.
  PagedList<std::int64_t>& sums = tables.lane(*sequence, {0, 1}).taps;
  sums[5] = 11;
  const std::vector<Growth> endless{{sequence, 1u << 20, 7}}, next{{sequence, 9, 3}};
  EXPECT_FALSE(tables.grow(endless));
  EXPECT_EQ(sums[5], 11);
  EXPECT_EQ(sequence->window_rows, 7u);
  ASSERT_TRUE(tables.grow(next));
  EXPECT_EQ(sums[5], 0);
  tables.publish();
  tables.check_invariants();
  EXPECT_EQ(sequence->window_rows, 3u);
  EXPECT_EQ(sequence->window_end, 129u);
}

TEST(TablesTest, SharedBlocksDieWhenTheirLastReaderHasEvictedThem) {
  FakeMemory memory(4 << 20);
  Pool pool(memory, {.slab_bytes = 64 * 1024});
  const std::vector<LayerShape> layers{
      {.kv_heads = 2, .query_heads = 2, .key_size = 16, .value_size = 16}};
  Tables tables(pool, Geometry::of(layers, KvType::kF16, KvType::kF16, 8));
  Sequence* parent = tables.start({});
  const std::vector<Growth> step{{parent, 64, 0}};
  ASSERT_TRUE(tables.grow(step));
  tables.publish();
  Sequence* child = tables.fork(*parent);
  ASSERT_NE(child, nullptr);
  const std::size_t block = tables.geometry().groups[0].block_bytes;
  EXPECT_EQ(pool.bytes().blocks, 16 * block);

  const std::vector<Ordinal> last{63};
  ASSERT_TRUE(tables.retain(*child, {0, 0}, last));  // 7 of its blocks are dead to the child
  tables.settle(*child);
  tables.check_invariants();
  EXPECT_EQ(pool.bytes().blocks, 16 * block);
  EXPECT_EQ(tables.live(*parent, {0, 0}), 64u);

  tables.drop(*parent);
  tables.check_invariants();
  EXPECT_EQ(pool.bytes().blocks, 9 * block);
  EXPECT_EQ(tables.live(*child, {0, 1}), 64u);
}

TEST(TablesTest, CopyOnWriteLeavesTheOtherSequenceAlone) {
  FakeMemory memory(4 << 20);
  Pool pool(memory, {.slab_bytes = 64 * 1024});
  const std::vector<LayerShape> layers{
      {.kv_heads = 1, .query_heads = 1, .key_size = 16, .value_size = 16}};
  Tables tables(pool, Geometry::of(layers, KvType::kF16, KvType::kF16, 16));
  Sequence* parent = tables.start({});
  const std::vector<Growth> prompt{{parent, 20, 0}};
  ASSERT_TRUE(tables.grow(prompt));
  tables.publish();
  Sequence* child = tables.fork(*parent);
  const std::size_t block = tables.geometry().groups[0].block_bytes;
  const BlockId shared = tables.block_at(*parent, {0, 0}, 1);

  // Both write in one step: both get a copy, and the common block goes at commit.
  const std::vector<Growth> both{{parent, 1, 0}, {child, 1, 0}};
  ASSERT_TRUE(tables.grow(both));
  EXPECT_NE(tables.block_at(*parent, {0, 0}, 1), shared);
  EXPECT_NE(tables.block_at(*child, {0, 0}, 1), shared);
  EXPECT_EQ(pool.bytes().blocks, 4 * block);
  tables.check_invariants();
  tables.retract();
  EXPECT_EQ(tables.block_at(*parent, {0, 0}, 1), shared);
  EXPECT_EQ(pool.bytes().blocks, 2 * block);
  ASSERT_TRUE(tables.grow(both));
  tables.publish();
  tables.check_invariants();
  EXPECT_EQ(pool.bytes().blocks, 3 * block);
}

}  // namespace
}  // namespace quire
