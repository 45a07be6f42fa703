// Goal: the tables hold exactly what was appended and not evicted, in every sequence, whatever its
//   forks do and whatever is repacked, with copies that come late or never; no refusal changes
//   anything; everything dropped leaves the pool empty.
// Method: random operations against a naive model (a map from position to a tag per lane), with
//   every lane compared and every invariant recounted after each, over pools that are too small.
#include "core/tables.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "support/fake_memory.h"
#include "support/seed.h"

namespace quire {
namespace {

using test::FakeMemory;

struct ModelEntry {
  std::uint64_t tag;  // in the block
  std::int64_t tap;
};

// What one sequence should hold.
struct ModelSequence {
  SequenceId id{};
  std::uint32_t length = 0;
  std::vector<std::map<Position, ModelEntry>> lanes;
  std::vector<std::uint32_t> passed;  // [lane] live entries a window has passed
};

class Rig {
 public:
  Rig(std::uint64_t seed, std::uint32_t block_tokens, std::size_t budget, const Needs& needs,
      Reclaim reclaim)
      : random_(seed), memory_(budget), needs_(needs), reclaim_(reclaim) {
    const LayerShape full{.kv_heads = 2, .query_heads = 4, .key_size = 16, .value_size = 16};
    LayerShape window = full;
    window.window = 21;
    LayerShape wide = full;
    wide.kv_heads = 1;
    wide.query_heads = 3;
    wide.value_size = 48;
    const std::vector<LayerShape> layers{full, window, full, wide, window};
    Geometry geometry = Geometry::of(layers, KvType::kF16, KvType::kF16, block_tokens);
    pool_ = std::make_unique<Pool>(
        memory_, Pool::Options{Pool::slab_bytes_for(budget, geometry.largest_extent(),
                                                    geometry.largest_block())});
    tables_ = std::make_unique<Tables>(*pool_, std::move(geometry), reclaim);
  }

  void step() {
    switch (below(14)) {
      case 0:
        return start();
      case 1:
        return fork();
      case 2:
        return drop();
      case 3:
      case 4:
        return evict();
      case 5:
      case 6:
        return plan();
      case 7:
        return copy();
      case 8:
        return install();
      default:
        return grow();
    }
  }

  // One operation that only takes.
  void press() {
    if (model_.empty()) return start();
    grow();
  }

  void drop_all() {
    while (!model_.empty()) drop();
  }

  // Every lane against the model, then every invariant.
  void check() {
    tables_->check_invariants();
    ASSERT_EQ(tables_->sequence_count(), model_.size());
    for (const ModelSequence& model : model_) {
      const Sequence* sequence = tables_->find(model.id);
      ASSERT_NE(sequence, nullptr);
      ASSERT_EQ(sequence->length, model.length);
      for_each_lane([&](LanePlace at, std::uint32_t l) { check_lane(*sequence, at, model, l); });
    }
    for (const SequenceId stale : dropped_) ASSERT_EQ(tables_->find(stale), nullptr);
  }

  Pool& pool() { return *pool_; }
  std::size_t refusals() const { return refusals_; }
  std::size_t planned() const { return planned_; }
  std::size_t installed() const { return installed_; }

 private:
  std::uint32_t below(std::size_t n) { return static_cast<std::uint32_t>(random_() % n); }

  template <typename F>
  void for_each_lane(F f) {
    const Geometry& geometry = tables_->geometry();
    for (std::uint32_t g = 0; g < geometry.groups.size(); ++g) {
      for (std::uint32_t l = 0; l < geometry.groups[g].lanes; ++l) {
        f(LanePlace{g, l}, geometry.groups[g].first_lane + l);
      }
    }
  }

  void check_lane(const Sequence& sequence, LanePlace at, const ModelSequence& model,
                  std::uint32_t l) {
    const auto& expected = model.lanes[l];
    ASSERT_EQ(tables_->live(sequence, at), expected.size());
    const Lane& lane = tables_->lane(sequence, at);
    const std::uint32_t stride = tables_->tap_stride(sequence, at);
    auto next = expected.begin();
    tables_->for_each_entry(sequence, at, [&](Position position) {
      ASSERT_NE(next, expected.end());
      ASSERT_EQ(position, next->first);
      ++next;
    });
    ASSERT_EQ(next, expected.end());
    next = expected.begin();
    std::uint32_t rank = 0;
    tables_->for_each_block(sequence, at, 0, sequence.length,
                            [&](BlockId block, std::uint64_t live, Position, Ordinal first) {
                              ASSERT_EQ(first, model.passed[l] + rank);
                              for (; live != 0; live &= live - 1, ++next, ++rank) {
                                const auto slot =
                                    static_cast<std::uint32_t>(std::countr_zero(live));
                                ASSERT_NE(next, expected.end());
                                ASSERT_EQ(tag_at(block, slot), next->second.tag);
                                if (lane.taps.empty()) continue;
                                ASSERT_EQ(lane.taps[rank * stride], next->second.tap);
                              }
                            });
    ASSERT_EQ(next, expected.end());
  }

  std::uint64_t tag_at(BlockId block, std::uint32_t slot) {
    std::uint64_t tag = 0;
    std::memcpy(&tag, pool_->address(block) + slot * sizeof tag, sizeof tag);
    return tag;
  }

  void start() {
    const PoolBytes before = pool_->bytes();
    const Sequence* sequence = tables_->start(needs_);
    if (sequence == nullptr) return refused(before);
    const std::uint32_t lanes = tables_->geometry().lanes;
    model_.push_back({sequence->id, 0, {}, std::vector<std::uint32_t>(lanes, 0)});
    model_.back().lanes.resize(lanes);
  }

  void fork() {
    if (model_.empty()) return;
    const ModelSequence parent = model_[below(model_.size())];
    const PoolBytes before = pool_->bytes();
    const Sequence* child = tables_->fork(*tables_->find(parent.id));
    if (child == nullptr) return refused(before);
    ASSERT_EQ(pool_->bytes().blocks, before.blocks);
    model_.push_back(parent);
    model_.back().id = child->id;
  }

  void drop() {
    if (model_.empty()) return;
    const std::uint32_t i = below(model_.size());
    tables_->drop(*tables_->find(model_[i].id));
    dropped_.push_back(model_[i].id);
    model_.erase(model_.begin() + i);
  }

  void evict() {
    if (model_.empty()) return;
    ModelSequence& model = model_[below(model_.size())];
    Sequence& sequence = *tables_->find(model.id);
    const PoolBytes before = pool_->bytes();
    const bool one_lane = below(2) == 0;
    const std::uint32_t chosen = below(tables_->geometry().lanes);
    const std::uint32_t percent = below(101);
    for_each_lane([&](LanePlace at, std::uint32_t l) {
      if (one_lane ? l != chosen : tables_->geometry().groups[at.group].window != 0) return;
      std::vector<Ordinal> kept;
      std::map<Position, ModelEntry> remaining;
      std::uint32_t rank = 0;
      const bool clustered = below(2) == 0;
      const std::uint32_t border = below(model.lanes[l].size() + 1);
      for (const auto& [position, entry] : model.lanes[l]) {
        const bool keep = clustered ? rank >= border : below(100) < percent;
        if (keep) {
          kept.push_back(rank);
          remaining[position] = entry;
        }
        ++rank;
      }
      const bool full = tables_->geometry().groups[at.group].window == 0;
      if (tables_->retain(sequence, at, kept)) {
        model.lanes[l] = remaining;
      } else {
        ASSERT_FALSE(full) << "an eviction from a full-attention lane never lacks memory";
        ASSERT_EQ(pool_->bytes().arrays, before.arrays);
      }
    });
    tables_->settle(sequence);
    ASSERT_LE(pool_->bytes().blocks, before.blocks);
    if (reclaim_ == Reclaim::kNever) {
      ASSERT_EQ(pool_->bytes().blocks, before.blocks);
    }
  }

  // --- repacking ---

  void plan() {
    const RepackOptions options{.waste = below(2) == 0 ? 0.0f : 0.25f,
                                .fullness = below(2) == 0 ? 1.0f : 0.75f,
                                .watermark = below(4) == 0 ? 0.1f : 1.0f,
                                .headroom_bytes = below(3) * 4096};
    const PoolBytes before = pool_->bytes();
    const std::size_t spare = tables_->headroom_bytes();
    const MovesReport planned = below(3) == 0 ? tables_->plan_room(1 + below(20) * 256)
                                              : tables_->plan_moves(options, below(3) * 20000);
    if (reclaim_ != Reclaim::kRepack) {
      ASSERT_EQ(planned.plans, 0u);
      ASSERT_EQ(pool_->bytes().blocks, before.blocks);
    }
    planned_ += planned.plans;
    ASSERT_GE(planned.blocks, planned.plans);
    if (planned.plans == 0 && tables_->headroom_bytes() == spare)
      expect_same(pool_->bytes(), before);
  }

  // Some of the plans, as a thread that has not come far.
  void copy() {
    for (MovePlan& plan : tables_->moves()) {
      if (plan.copied || below(3) == 0) continue;
      plan.for_each_move(
          [&](std::uint32_t source, std::uint32_t from, std::uint32_t target, std::uint32_t to) {
            if ((plan.wanted[source] >> from & 1) == 0) return;
            std::memcpy(pool_->address(plan.targets[target].block) + to * 8,
                        pool_->address(plan.sources[source].block) + from * 8, 8);
          });
      plan.copied = true;
    }
  }

  void install() {
    const PoolBytes before = pool_->bytes();
    const MovesReport done = tables_->install_moves();
    installed_ += done.plans;
    ASSERT_GE(done.blocks, done.plans);
    ASSERT_LE(pool_->bytes().blocks, before.blocks);
    for (const MovePlan& plan : tables_->moves()) ASSERT_FALSE(plan.copied);
  }

  void grow() {
    if (model_.empty()) return;
    std::vector<Growth> step;
    std::vector<std::size_t> members;
    for (std::size_t i = 0; i < model_.size(); ++i) {
      if (below(model_.size()) > 1) continue;
      const std::uint32_t rows = 1 + below(below(3) == 0 ? 70 : 4);
      step.push_back({tables_->find(model_[i].id), rows, below(2) == 0 ? 0 : 1u});
      members.push_back(i);
    }
    if (step.empty()) return;
    const PoolBytes before = pool_->bytes();
    const std::size_t slab = pool_->slab_bytes();
    const std::size_t needed = tables_->slabs_needed(step).slabs * slab;
    const std::size_t free = before.budget / slab * slab - before.committed;
    if (!tables_->grow(step)) {
      ASSERT_GT(needed, free);
      return refused(before);
    }
    ASSERT_LE(pool_->bytes().committed - before.committed, needed);
    tables_->check_invariants();
    for (const Growth& growth : step) write_rows(growth);
    if (below(2) == 0) copy();
    if (below(4) == 0) {
      tables_->retract();
      return expect_same(pool_->bytes(), before);
    }
    for (std::size_t s = 0; s < step.size(); ++s) append_model(step[s], model_[members[s]]);
    tables_->publish();
  }

  // Tags of the rows [length, length + pending) of a sequence, derived from its id and length.
  std::uint64_t tag_of(const Sequence& sequence, std::uint32_t l, Position position) const {
    return static_cast<std::uint64_t>(sequence.id) * 1000003 + l * 131071 + position;
  }

  void write_rows(const Growth& growth) {
    const Sequence& sequence = *growth.sequence;
    const std::uint32_t block_tokens = tables_->geometry().block_tokens;
    for_each_lane([&](LanePlace at, std::uint32_t l) {
      for (Position p = sequence.length; p < sequence.length + growth.rows; ++p) {
        const BlockId block = tables_->block_at(sequence, at, p / block_tokens);
        const std::uint64_t tag = tag_of(sequence, l, p);
        std::memcpy(pool_->address(block) + p % block_tokens * sizeof tag, &tag, sizeof tag);
      }
      const Lane& lane = tables_->lane(sequence, at);
      const std::uint32_t stride = tables_->tap_stride(sequence, at);
      const std::uint32_t live = tables_->live(sequence, at);
      for (std::uint32_t r = 0; r < growth.rows && !lane.taps.empty(); ++r) {
        const std::uint32_t entry = live - growth.rows + r;
        for (std::uint32_t s = 0; s < stride; ++s) {
          ASSERT_EQ(lane.taps[entry * stride + s], 0);
        }
        lane.taps[entry * stride] =
            static_cast<std::int64_t>(tag_of(sequence, l, sequence.length + r));
      }
    });
  }

  void append_model(const Growth& growth, ModelSequence& model) {
    const Sequence& sequence = *growth.sequence;
    const std::uint32_t block_tokens = tables_->geometry().block_tokens;
    model.length += growth.rows;
    for_each_lane([&](LanePlace at, std::uint32_t l) {
      for (Position p = sequence.length; p < model.length; ++p) {
        const std::uint64_t tag = tag_of(sequence, l, p);
        model.lanes[l][p] = {tag, static_cast<std::int64_t>(tag)};
      }
      const std::uint32_t window = tables_->geometry().groups[at.group].window;
      for (auto entry = model.lanes[l].begin(); window != 0 && entry != model.lanes[l].end();) {
        // The last position of the entry's extent is out of sight of position model.length.
        const std::uint32_t last = entry->first / block_tokens * block_tokens + block_tokens - 1;
        if (last + window > model.length) break;
        entry = model.lanes[l].erase(entry);
        ++model.passed[l];
      }
    });
  }

  void refused(const PoolBytes& before) {
    ++refusals_;
    tables_->check_invariants();
    expect_same(pool_->bytes(), before);
  }

  static void expect_same(const PoolBytes& a, const PoolBytes& b) {
    ASSERT_EQ(a.committed, b.committed);
    ASSERT_EQ(a.blocks, b.blocks);
    ASSERT_EQ(a.arrays, b.arrays);
  }

  std::mt19937_64 random_;
  FakeMemory memory_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<Tables> tables_;
  Needs needs_;
  std::vector<ModelSequence> model_;
  std::vector<SequenceId> dropped_;
  Reclaim reclaim_;
  std::size_t refusals_ = 0, planned_ = 0, installed_ = 0;
};

struct Plans {
  std::size_t planned = 0, installed = 0;
};

Plans run(std::uint32_t block_tokens, std::size_t budget, const Needs& needs, int steps,
          Reclaim reclaim = Reclaim::kRepack) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed << " block_tokens=" << block_tokens
                                  << " budget=" << budget);
  Rig rig(seed, block_tokens, budget, needs, reclaim);
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
  const Plans plans{rig.planned(), rig.installed()};
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
  }
  EXPECT_GT(all.installed, 10u);
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
