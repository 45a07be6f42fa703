// Goal: lanes that decide together keep the same positions, lanes that share a quota free the bytes
//   it says, states and the borders of prompt and review follow a sequence, also into forks.
// Method: small caches of made-up rows; policies that write down what they were shown; the pool's
//   counter against blocks counted from live positions.
#include <gtest/gtest.h>

#include <set>

#include "cache/rig.h"

namespace quire {
namespace {

using namespace test;

CacheOptions plain(std::uint32_t layers, std::uint32_t heads) {
  return {
      .layers = std::vector<LayerShape>(
          layers, {.kv_heads = heads, .query_heads = 2 * heads, .key_size = 64, .value_size = 64}),
      .budget_bytes = 32 << 20};
}

Policy policy_of(const std::string& spec) {
  Result<Policy> policy = make_policy(spec);
  EXPECT_TRUE(policy.ok()) << policy.status().message();
  return *std::move(policy);
}

void read_rows(Cache& cache, SequenceId id, std::uint32_t first, std::uint32_t rows, bool answer,
               std::uint32_t window_rows = 0) {
  const Status status = step(cache, {{.sequence = id,
                                      .text = 5,
                                      .first = first,
                                      .rows = rows,
                                      .answer = answer,
                                      .window_rows = window_rows}});
  ASSERT_TRUE(status.ok()) << status.message();
}

std::vector<std::vector<Position>> lanes_of(const Cache& cache, SequenceId id) {
  std::vector<std::vector<Position>> lanes;
  for (std::uint32_t l = 0; l < cache.options().layers.size(); ++l) {
    for (std::uint32_t h = 0; h < cache.options().layers[l].kv_heads; ++h) {
      lanes.push_back(*cache.positions(id, l, h));
    }
  }
  return lanes;
}

std::size_t blocks_of(const std::vector<Position>& lane) {
  std::set<Position> blocks;
  for (const Position p : lane) blocks.insert(p / 16);
  return blocks.size();
}

constexpr std::size_t kBlockBytes = 16 * (64 + 64) * 2;

TEST(ScopeTest, LanesThatDecideTogetherKeepTheSame) {
  for (const char* spec : {"tova", "chunkkv:base=h2o", "paged-eviction:scope=layer",
                           "paged-eviction:scope=sequence"}) {
    SCOPED_TRACE(spec);
    const Policy policy = policy_of(std::string(spec) +
                                    (std::string(spec).find(':') == std::string::npos ? ":" : ",") +
                                    "sinks=2,recent=8");
    const std::unique_ptr<Cache> cache = open_cache(plain(3, 2));
    const SequenceId id = start(*cache, policy.needs);
    read_rows(*cache, id, 0, 200, false, 1);
    ASSERT_TRUE(cache->shrink(id, policy, 96).ok());
    for (std::uint32_t answer = 200; answer < 264; answer += 16) {
      read_rows(*cache, id, answer, 16, true, 1);
      const Result<ShrinkReport> report = cache->shrink(id, policy, 96);
      ASSERT_TRUE(report.ok()) << report.status().message();
      EXPECT_EQ(report->entries_dropped, 6u * 16);
      cache->check_invariants();
    }
    const auto lanes = lanes_of(*cache, id);
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      EXPECT_EQ(lanes[i].size(), 96u);
      EXPECT_EQ(lanes[i], lanes[i / 2 * 2]) << "lane " << i;
    }
    if (policy.decides == Scope::kSequence) {
      EXPECT_EQ(lanes[0], lanes[4]);
    }
    if (std::string(spec) == "paged-eviction:scope=layer") {
      EXPECT_NE(lanes[0], lanes[4]);
    }
  }
}

TEST(ScopeTest, LanesThatHoldDifferentEntriesCannotDecideTogether) {
  const std::unique_ptr<Cache> cache = open_cache(plain(2, 2));
  const SequenceId id = start(*cache);
  read_rows(*cache, id, 0, 100, false);
  ASSERT_TRUE(cache->evict(id, 1, 1, std::vector<Position>{7}).ok());
  const CacheStats before = cache->stats();
  const Result<ShrinkReport> report =
      cache->shrink(id, policy_of("paged-eviction:scope=layer,recent=8"), 50);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.status().code(), Code::kInvalidArgument);
  EXPECT_NE(report.status().message().find("different entries"), std::string::npos);
  EXPECT_TRUE(same_bytes(before, cache->stats()));
  EXPECT_TRUE(cache->shrink(id, policy_of("paged-eviction:recent=8"), 50).ok());
}

// The paper's invariants: nothing goes below the budget, whole blocks go, one per block written.
TEST(ScopeTest, PagedEvictionGivesBackOneBlockALaneForEveryBlockWritten) {
  const Policy policy = policy_of("paged-eviction:sinks=16,recent=16");
  const std::unique_ptr<Cache> cache = open_cache(plain(2, 3));
  const SequenceId id = start(*cache);
  read_rows(*cache, id, 0, 96, false);
  ASSERT_EQ(cache->shrink(id, policy, 128)->entries_dropped, 0u);
  const std::size_t full = cache->stats().kv_bytes;
  for (std::uint32_t answer = 96; answer < 352; answer += 16) {
    read_rows(*cache, id, answer, 16, true);
    const auto before = lanes_of(*cache, id);
    ASSERT_TRUE(cache->shrink(id, policy, 128).ok());
    const auto after = lanes_of(*cache, id);
    if (answer < 128) continue;
    EXPECT_EQ(cache->stats().kv_bytes, full / 6 * 8);
    for (std::size_t i = 0; i < after.size(); ++i) {
      EXPECT_EQ(after[i].size(), 128u);
      EXPECT_EQ(blocks_of(after[i]), 8u);
      EXPECT_EQ(after[i][0], 0u);
      EXPECT_EQ(after[i].back(), answer + 15);
      std::vector<Position> gone;
      std::ranges::set_difference(before[i], after[i], std::back_inserter(gone));
      EXPECT_EQ(blocks_of(gone), 1u);
    }
  }
}

// --- quotas are bytes ---

// Without rows of a window SnapKV keeps the newest: a quota is then a number of blocks.
TEST(ScopeTest, PyramidKvFreesTheBytesOfItsQuotas) {
  const Policy policy = policy_of("pyramidkv:window=8,beta=4,sinks=0,recent=8");
  const std::unique_ptr<Cache> cache = open_cache(plain(5, 2));
  const SequenceId id = start(*cache, policy.needs);
  read_rows(*cache, id, 0, 320, false);
  const std::size_t before = cache->stats().kv_bytes;
  EXPECT_EQ(before, 10 * 20 * kBlockBytes);
  const Result<ShrinkReport> report = cache->shrink(id, policy, 128);
  ASSERT_TRUE(report.ok()) << report.status().message();
  const std::size_t quota[] = {224, 176, 128, 80, 32};
  std::size_t blocks = 0;
  for (std::uint32_t l = 0; l < 5; ++l) {
    for (std::uint32_t h = 0; h < 2; ++h) {
      EXPECT_EQ(cache->positions(id, l, h)->size(), quota[l]);
      blocks += quota[l] / 16;
    }
  }
  EXPECT_EQ(cache->stats().kv_bytes, blocks * kBlockBytes);
  EXPECT_EQ(report->entries_dropped, 10u * (320 - 128));
  EXPECT_GT(report->bytes_freed, (before - blocks * kBlockBytes) * 95 / 100) << "but for tables";
}

TEST(ScopeTest, AdaKvFreesTheBytesOfEveryLane) {
  Policy policy = policy_of("adakv:base=knorm,floor=0.25,sinks=0,recent=0");
  // The first lane's newest score best, so lanes keep their newest and a count is a number of
  // blocks.
  policy.score = [](const EntryView& lane, std::span<float> score) {
    for (std::uint32_t i = 0; i < lane.live; ++i) {
      score[i] = static_cast<float>(i) + (lane.head == 0 ? 1000.0f : 0.0f);
    }
  };
  const std::unique_ptr<Cache> cache = open_cache(plain(2, 2));
  const SequenceId id = start(*cache);
  read_rows(*cache, id, 0, 320, false);
  ASSERT_TRUE(cache->shrink(id, policy, 128).ok());
  // A quarter of 128 is forced in each lane; the other 192 are the first lane's.
  std::size_t blocks = 0;
  for (const std::uint32_t l : {0u, 1u}) {
    EXPECT_EQ(cache->positions(id, l, 0)->size(), 224u);
    EXPECT_EQ(cache->positions(id, l, 1)->size(), 32u);
    blocks += (224 + 32) / 16;
  }
  EXPECT_EQ(cache->stats().kv_bytes, blocks * kBlockBytes);
}

TEST(ScopeTest, WhereQuotasLeaveHolesEveryBlockWithALiveEntryCounts) {
  for (const char* spec :
       {"pyramidkv:window=8,beta=4", "adakv:base=knorm", "kv-compress:sinks=4"}) {
    SCOPED_TRACE(spec);
    const Policy policy = policy_of(std::string(spec) + ",recent=8");
    const std::unique_ptr<Cache> cache = open_cache(plain(4, 2));
    const SequenceId id = start(*cache, policy.needs);
    read_rows(*cache, id, 0, 300, false, 8);
    ASSERT_TRUE(cache->shrink(id, policy, 50).ok());
    std::size_t blocks = 0, entries = 0, least = 300, most = 0;
    for (const std::vector<Position>& lane : lanes_of(*cache, id)) {
      blocks += blocks_of(lane);
      entries += lane.size();
      least = std::min(least, lane.size());
      most = std::max(most, lane.size());
    }
    EXPECT_EQ(entries, 8u * 50);
    EXPECT_LT(least, most) << "lanes differ";
    EXPECT_EQ(cache->stats().kv_bytes, blocks * kBlockBytes);
  }
}

// --- what a policy is told of the sequence, and its state ---

struct Seen {
  Position prompt_end = 0, reviewed = 0;
  std::vector<Position> position;
  std::vector<float> state, tap;
};

// Keeps the even half and the newest; writes the position into states that are 0.
Policy watching(std::vector<Seen>& seen, const Needs& needs) {
  Policy policy = policy_of("sink-recency:sinks=1,recent=4");
  policy.name = "watching";
  policy.needs = needs;
  policy.update = [&seen](const EntryView& lane, std::span<float> state) {
    seen.push_back({lane.prompt_end,
                    lane.reviewed,
                    {lane.position.begin(), lane.position.end()},
                    {lane.state.begin(), lane.state.end()},
                    {lane.tap.begin(), lane.tap.end()}});
    for (std::uint32_t i = 0; i < lane.live; ++i) {
      if (state[i] == 0) state[i] = static_cast<float>(lane.position[i]) + 0.5f;
    }
  };
  policy.score = [](const EntryView& lane, std::span<float> score) {
    for (std::uint32_t i = 0; i < lane.live; ++i) {
      score[i] = (lane.position[i] % 2 == 0 ? 1000.0f : 0.0f) + static_cast<float>(i);
      EXPECT_EQ(lane.state[i], static_cast<float>(lane.position[i]) + 0.5f) << "as updated";
    }
  };
  return policy;
}

TEST(StateTest, MovesWithItsEntryThroughReviewsStepsAndForks) {
  for (const Needs& needs :
       {Needs{.tap = Tap::kAllRows, .group = Reduce::kSum, .state = true},
        Needs{.tap = Tap::kLastRows, .window = 4, .per_head = true, .state = true}}) {
    std::vector<Seen> seen;
    const Policy policy = watching(seen, needs);
    const std::unique_ptr<Cache> cache = open_cache(plain(1, 1));
    SequenceId id = start(*cache, needs);
    read_rows(*cache, id, 0, 50, false, 4);
    std::uint32_t length = 50;
    for (int round = 0; round < 4; ++round) {
      ASSERT_TRUE(cache->shrink(id, policy, 20).ok());
      cache->check_invariants();
      const std::uint32_t reviewed = length;
      read_rows(*cache, id, length, 9, true, 4);
      length += 9;
      if (round == 1) {
        const SequenceId parent = id;
        id = *cache->fork(parent);
        ASSERT_TRUE(cache->drop(parent).ok());
      }
      ASSERT_TRUE(cache->shrink(id, policy, 25).ok());
      const Seen& last = seen.back();
      EXPECT_EQ(last.prompt_end, 50u);
      EXPECT_EQ(last.reviewed, reviewed);
      ASSERT_EQ(last.state.size(), 29u);
      for (std::size_t i = 0; i < 20; ++i) {
        EXPECT_EQ(last.state[i], static_cast<float>(last.position[i]) + 0.5f) << i;
      }
      for (std::size_t i = 20; i < 29; ++i) EXPECT_EQ(last.state[i], 0) << "new since";
      EXPECT_EQ(*cache->tap(id, 0, 0), *cache->tap(id, 0, 0));
    }
  }
}

TEST(StateTest, ARefusedReviewLeavesStatesAlone) {
  std::vector<Seen> seen;
  const Needs needs{.tap = Tap::kAllRows, .state = true};
  Policy policy = watching(seen, needs);
  const Policy good = policy;
  policy.choose = [](const Protection&, const EntryView&, std::span<const float>,
                     std::span<Ordinal> kept, Arena&) { std::ranges::fill(kept, 3u); };
  const std::unique_ptr<Cache> cache = open_cache(plain(1, 1));
  const SequenceId id = start(*cache, needs);
  read_rows(*cache, id, 0, 50, false);
  EXPECT_EQ(cache->shrink(id, policy, 20).status().code(), Code::kInvalidArgument);
  ASSERT_TRUE(cache->shrink(id, good, 20).ok());
  EXPECT_EQ(seen.back().state, std::vector<float>(50, 0));
  EXPECT_EQ(seen.back().reviewed, 0u);
}

TEST(StateTest, SumsThatBeginAnewHoldTheRowsSinceTheLastReview) {
  const Needs needs{.tap = Tap::kDecodeRows, .group = Reduce::kSum, .anew = true};
  const Policy policy = [&] {
    Policy p = policy_of("sink-recency:sinks=1,recent=4");
    p.needs = needs;
    return p;
  }();
  const std::unique_ptr<Cache> cache = open_cache(plain(1, 1));
  const SequenceId id = start(*cache, needs);
  read_rows(*cache, id, 0, 40, false);
  for (std::uint32_t round = 0; round < 3; ++round) {
    read_rows(*cache, id, 40 + 7 * round, 7, true);
    const std::vector<float> tap = *cache->tap(id, 0, 0);
    double sum = 0;
    for (const float t : tap) sum += t;
    EXPECT_NEAR(sum, 7 * 2, 1e-3) << "rows x query heads";
    ASSERT_TRUE(cache->shrink(id, policy, 30).ok());
    EXPECT_EQ(*cache->tap(id, 0, 0), std::vector<float>(30, 0));
  }
}

TEST(StateTest, StartRefusesAStateWithoutATap) {
  const std::unique_ptr<Cache> cache = open_cache(plain(1, 1));
  const Result<SequenceId> id = cache->start({.state = true});
  ASSERT_FALSE(id.ok());
  EXPECT_NE(id.status().message().find("needs.state"), std::string::npos);
  const SequenceId other = start(*cache, {.tap = Tap::kAllRows});
  read_rows(*cache, other, 0, 40, false);
  std::vector<Seen> seen;
  const Status refused =
      cache->shrink(other, watching(seen, {.tap = Tap::kAllRows, .state = true}), 20).status();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_NE(refused.message().find("state"), std::string::npos);
}

}  // namespace
}  // namespace quire
