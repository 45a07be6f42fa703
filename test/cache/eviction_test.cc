// Goal: after an eviction attention is the dense formula over what was kept, forks and neighbours
//   are untouched, and a review keeps what it says it keeps or changes nothing.
// Method: dense double-precision reference masked to the kept positions; memcmp between caches;
//   policies that misbehave on purpose.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "cache/rig.h"
#include "support/seed.h"

namespace quire {
namespace {

using namespace test;

CacheOptions options(Isa isa = Isa::kAuto, std::uint32_t block_tokens = 16) {
  return {
      .layers = mixed_layers(), .budget_bytes = 16 << 20, .block_tokens = block_tokens, .isa = isa};
}

std::vector<std::vector<std::vector<Position>>> live_of(const Cache& cache, SequenceId id) {
  std::vector<std::vector<std::vector<Position>>> live;
  for (std::uint32_t l = 0; l < cache.options().layers.size(); ++l) {
    live.emplace_back();
    for (std::uint32_t h = 0; h < cache.options().layers[l].kv_heads; ++h) {
      const Result<std::vector<Position>> positions = cache.positions(id, l, h);
      EXPECT_TRUE(positions.ok());
      live.back().push_back(*positions);
    }
  }
  return live;
}

// Every other lane differently, at random.
void evict_some(Cache& cache, SequenceId id, std::mt19937_64& random, std::uint32_t keep_percent) {
  const auto live = live_of(cache, id);
  for (std::uint32_t l = 0; l < live.size(); ++l) {
    for (std::uint32_t h = 0; h < live[l].size(); ++h) {
      std::vector<Position> victims;
      for (const Position p : live[l][h]) {
        if (random() % 100 >= keep_percent) victims.push_back(p);
      }
      const Status status = cache.evict(id, l, h, victims);
      ASSERT_TRUE(status.ok()) << status.message();
    }
  }
}

void expect_masked_attention(const Cache& cache, std::uint64_t text, std::uint32_t position,
                             const std::vector<std::vector<std::vector<Position>>>& live,
                             const Outputs& out) {
  const std::vector<LayerShape>& layers = cache.options().layers;
  for (std::uint32_t l = 0; l < layers.size(); ++l) {
    for (std::uint32_t h = 0; h < layers[l].query_heads; ++h) {
      const std::uint32_t head = h / (layers[l].query_heads / layers[l].kv_heads);
      const float* row =
          out[l].data() + out[l].size() - (layers[l].query_heads - h) * layers[l].value_size;
      EXPECT_LT(row_error(cache.options(), text, l, position, h, live[l][head], row), 2e-6)
          << "layer " << l << " head " << h << " position " << position;
    }
  }
}

TEST(EvictionTest, AttentionIsTheDenseReferenceMaskedToTheKeptSet) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (const Isa isa : machine_levels()) {
    for (const std::uint32_t block_tokens : {8u, 64u}) {
      const std::unique_ptr<Cache> cache = open_cache(options(isa, block_tokens));
      const SequenceId id = start(*cache);
      std::uint32_t length = 0;
      for (int round = 0; round < 4; ++round) {
        const std::uint32_t rows = 1 + static_cast<std::uint32_t>(random() % 60);
        auto live = live_of(*cache, id);  // before the step: a window may release at its end
        for (auto& layer : live) {
          for (std::vector<Position>& lane : layer) {
            for (Position p = length; p < length + rows; ++p) lane.push_back(p);
          }
        }
        Outputs out;
        read(*cache, id, 5, length, rows, rows, &out);
        length += rows;
        expect_masked_attention(*cache, 5, length - 1, live, out);
        evict_some(*cache, id, random, 30 + 20 * static_cast<std::uint32_t>(round));
        cache->check_invariants();
      }
      ASSERT_TRUE(cache->drop(id).ok());
      EXPECT_EQ(cache->stats().committed_bytes, 0u);
    }
  }
}

TEST(EvictionTest, WhatWasEvictedCannotBeSeenEvenAsNaN) {
  for (const Isa isa : machine_levels()) {
    Outputs out[2];
    for (int poisoned = 0; poisoned < 2; ++poisoned) {
      const std::unique_ptr<Cache> cache = open_cache(options(isa));
      const SequenceId id = start(*cache);
      read(*cache, id, 5, 0, 20, 20, nullptr);
      const std::vector<Segment> segments{{id, 10}};
      ASSERT_TRUE(cache->begin(segments).ok());
      const std::vector<float> rows(10 * 2 * 96, poisoned != 0 ? NAN : 1.0f);
      for (std::uint32_t l = 0; l < cache->options().layers.size(); ++l) {
        cache->append(l, rows.data(), rows.data(), 0, 1);
      }
      cache->commit();
      for (std::uint32_t l = 0; l < cache->options().layers.size(); ++l) {
        for (std::uint32_t h = 0; h < cache->options().layers[l].kv_heads; ++h) {
          ASSERT_TRUE(
              cache->evict(id, l, h, std::vector<Position>{20, 21, 22, 23, 24, 25, 26, 27, 28, 29})
                  .ok());
        }
      }
      read(*cache, id, 5, 30, 12, 5, &out[poisoned]);
    }
    for (std::size_t l = 0; l < out[0].size(); ++l) {
      EXPECT_EQ(std::memcmp(out[0][l].data(), out[1][l].data(), out[0][l].size() * 4), 0);
    }
  }
}

TEST(EvictionTest, ForksKeepWhatTheirSiblingEvicts) {
  std::mt19937_64 random(1);
  const std::unique_ptr<Cache> cache = open_cache(options());
  const SequenceId parent = start(*cache);
  read(*cache, parent, 5, 0, 70, 70, nullptr);
  const Result<SequenceId> child = cache->fork(parent);
  ASSERT_TRUE(child.ok());
  const auto before = live_of(*cache, parent);
  evict_some(*cache, *child, random, 20);
  EXPECT_EQ(live_of(*cache, parent), before);
  Outputs parent_out, child_out;
  ASSERT_TRUE(
      step(*cache, {{.sequence = *child, .text = 5, .first = 70, .rows = 1, .out = &child_out},
                    {.sequence = parent, .text = 5, .first = 70, .rows = 1, .out = &parent_out}})
          .ok());
  expect_masked_attention(*cache, 5, 70, live_of(*cache, *child), child_out);
  expect_masked_attention(*cache, 5, 70, live_of(*cache, parent), parent_out);
  cache->check_invariants();
}

TEST(EvictionTest, WholeDeadBlocksGoBackToThePool) {
  const std::unique_ptr<Cache> cache =
      open_cache({.layers = {{.kv_heads = 1, .query_heads = 1, .key_size = 64, .value_size = 64}},
                  .budget_bytes = 8 << 20});
  const SequenceId id = start(*cache);
  read(*cache, id, 5, 0, 64, 64, nullptr);
  const std::size_t block = 16 * 128 * 2;
  EXPECT_EQ(cache->stats().kv_bytes, 4 * block);
  std::vector<Position> victims = all_positions(32);
  victims.erase(victims.begin() + 7);  // one entry holds its block
  ASSERT_TRUE(cache->evict(id, 0, 0, victims).ok());
  EXPECT_EQ(cache->stats().kv_bytes, 3 * block);
  ASSERT_TRUE(cache->evict(id, 0, 0, std::vector<Position>{7}).ok());
  EXPECT_EQ(cache->stats().kv_bytes, 2 * block);
  EXPECT_EQ(cache->stats(id)->entries_dropped, 32u);
}

// --- reviews ---

// All but `full`, and adakv over another base.
std::vector<std::string> cutting_policies() {
  std::vector<std::string> names;
  for (const PolicyInfo& info : list_policies()) {
    if (!info.keeps_all) names.push_back(info.name + ":");
  }
  names.push_back("adakv:base=knorm,");
  return names;
}

Policy policy_of(const std::string& spec) {
  Result<Policy> policy = make_policy(spec);
  EXPECT_TRUE(policy.ok()) << policy.status().message();
  return *std::move(policy);
}

SequenceId prompted(Cache& cache, const Needs& needs, std::uint32_t length, std::uint32_t chunk) {
  const SequenceId id = start(cache, needs);
  for (std::uint32_t first = 0; first < length; first += chunk) {
    const std::uint32_t rows = std::min(chunk, length - first);
    const std::uint32_t end = first + rows, window = std::min(needs.window, length);
    const std::uint32_t window_rows =
        end > length - window ? std::min(rows, end - (length - window)) : 0;
    EXPECT_TRUE(
        step(
            cache,
            {{.sequence = id, .text = 5, .first = first, .rows = rows, .window_rows = window_rows}})
            .ok());
  }
  return id;
}

TEST(ReviewTest, KeepOfAtLeastTheLengthChangesNothingUnderEveryPolicy) {
  for (const PolicyInfo& info : list_policies()) {
    SCOPED_TRACE(info.name);
    const Policy policy = policy_of(info.name);
    const std::unique_ptr<Cache> cache = open_cache(options());
    const SequenceId id = prompted(*cache, policy.needs, 130, 130);
    const CacheStats before = cache->stats();
    for (const std::uint32_t keep : {130u, 131u, 1u << 30}) {
      const Result<ShrinkReport> report = cache->shrink(id, policy, keep);
      ASSERT_TRUE(report.ok()) << report.status().message();
      EXPECT_EQ(report->entries_dropped, 0u);
      EXPECT_TRUE(same_bytes(before, cache->stats()));
    }
    Outputs out, expected;
    read(*cache, id, 5, 130, 3, 1, &out);
    const std::unique_ptr<Cache> other = open_cache(options());
    const SequenceId plain = prompted(*other, {}, 130, 130);
    read(*other, plain, 5, 130, 3, 1, &expected);
    for (std::size_t l = 0; l < out.size(); ++l) {
      EXPECT_EQ(std::memcmp(out[l].data(), expected[l].data(), out[l].size() * 4), 0);
    }
  }
}

TEST(ReviewTest, KeepsItsQuotaAndTheProtectedAndAttendsToNothingElse) {
  for (const std::string& name : cutting_policies()) {
    SCOPED_TRACE(name);
    const Policy policy = policy_of(name + "sinks=3,recent=10");
    const std::unique_ptr<Cache> cache = open_cache(options());
    const SequenceId id = prompted(*cache, policy.needs, 130, 50);
    const Result<ShrinkReport> report = cache->shrink(id, policy, 40);
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report->entries_before, 4u * 130);
    EXPECT_EQ(report->entries_dropped, 4u * 90);
    const auto live = live_of(*cache, id);
    EXPECT_EQ(live[0][0].size() + live[0][1].size() + live[2][0].size() + live[2][1].size(), 160u);
    for (const std::uint32_t l : {0u, 2u}) {
      if (policy.divides != Scope::kSequence) {
        EXPECT_EQ(live[l][0].size() + live[l][1].size(), 80u);
      }
      for (const std::vector<Position>& lane : live[l]) {
        if (!policy.allocate) {
          EXPECT_EQ(lane.size(), 40u);
        }
        ASSERT_GE(lane.size(), 13u);
        EXPECT_EQ(lane[2], 2u);
        EXPECT_EQ(lane[lane.size() - 10], 120u);
      }
    }
    EXPECT_EQ(live[1][0].back(), 129u);
    EXPECT_EQ(cache->stats(id)->tokens_kept_mean, 40.0);
    cache->check_invariants();
    Outputs out;
    read(*cache, id, 5, 130, 20, 1, &out);
    expect_masked_attention(*cache, 5, 149, live_of(*cache, id), out);
  }
}

TEST(ReviewTest, TheSameEntriesStayWhateverTheChunksThreadsAndNeighbours) {
  for (const std::string& name : cutting_policies()) {
    SCOPED_TRACE(name);
    const Policy policy = policy_of(name + "recent=8");
    std::vector<std::vector<std::vector<Position>>> expected;
    for (const std::uint32_t chunk : {200u, 64u, 33u, 1u}) {
      const std::unique_ptr<Cache> cache = open_cache(options());
      const SequenceId other = start(*cache);
      read(*cache, other, 99, 0, 40, 13, nullptr);
      const SequenceId id = prompted(*cache, policy.needs, 200, chunk);
      ASSERT_TRUE(cache->shrink(id, policy, 50).ok());
      if (expected.empty()) expected = live_of(*cache, id);
      EXPECT_EQ(live_of(*cache, id), expected) << chunk;
    }
  }
}

TEST(ReviewTest, FullDropsNothing) {
  const std::unique_ptr<Cache> cache = open_cache(options());
  const SequenceId id = prompted(*cache, {}, 130, 50);
  const Result<ShrinkReport> report = cache->shrink(id, policy_of("full"), 20);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->entries_before, 4u * 130);
  EXPECT_EQ(report->entries_dropped, 0u);
  EXPECT_EQ(cache->positions(id, 0, 0)->size(), 130u);
}

TEST(ReviewTest, RefusesPoliciesThatCannotBeServedAndChangesNothing) {
  const std::unique_ptr<Cache> cache = open_cache(options());
  const SequenceId id = prompted(*cache, {}, 90, 90);
  const CacheStats before = cache->stats();
  const auto live = live_of(*cache, id);
  Policy nan = policy_of("sink-recency");
  nan.name = "broken";
  nan.score = [](const EntryView& lane, std::span<float> score) {
    std::ranges::fill(score, 1.0f);
    if (lane.layer == 2) score[lane.live / 2] = std::numeric_limits<float>::quiet_NaN();
  };
  Policy unsorted = policy_of("sink-recency");
  unsorted.name = "unsorted";
  unsorted.choose = [](const Protection&, const EntryView&, std::span<const float>,
                       std::span<Ordinal> kept, Arena&) { std::ranges::fill(kept, 5u); };
  for (const Policy& policy : {nan, unsorted, policy_of("h2o"), policy_of("snapkv")}) {
    SCOPED_TRACE(policy.name);
    const Result<ShrinkReport> report = cache->shrink(id, policy, 30);
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.status().code(), Code::kInvalidArgument);
    EXPECT_NE(report.status().message().find(policy.name), std::string::npos);
  }
  EXPECT_EQ(cache->shrink(id, policy_of("sink-recency"), 0).status().code(),
            Code::kInvalidArgument);
  EXPECT_TRUE(same_bytes(before, cache->stats()));
  EXPECT_EQ(live_of(*cache, id), live);
}

TEST(ReviewTest, UnevenCountsAreMadeLegal) {
  Policy policy = policy_of("sink-recency:sinks=2,recent=8");
  std::vector<std::uint32_t> wish;
  policy.allocate = [&](const Protection&, std::span<const EntryView>,
                        std::span<const std::span<const float>>, std::uint32_t,
                        std::span<std::uint32_t> counts) {
    for (std::size_t h = 0; h < counts.size(); ++h) counts[h] = wish[h];
  };
  struct Case {
    std::vector<std::uint32_t> wish, expected;
  };
  // 100 live in each of two lanes, keep 30: 60 entries, at least 10 a lane.
  for (const Case& c : {Case{{20, 40}, {20, 40}}, Case{{0, 60}, {10, 50}}, Case{{90, 90}, {30, 30}},
                        Case{{0, 0}, {30, 30}}, Case{{200, 0}, {50, 10}}}) {
    const std::unique_ptr<Cache> cache = open_cache(options());
    const SequenceId id = prompted(*cache, {}, 100, 100);
    wish = c.wish;
    ASSERT_TRUE(cache->shrink(id, policy, 30).ok());
    EXPECT_EQ(cache->positions(id, 0, 0)->size(), c.expected[0]);
    EXPECT_EQ(cache->positions(id, 0, 1)->size(), c.expected[1]);
    cache->check_invariants();
  }
}

}  // namespace
}  // namespace quire
