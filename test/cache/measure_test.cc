// Goal: a gate's statistic is what the formula says of the last rows' attention, whatever chunks,
// threads, neighbours, policies and prefix hits they came with; a cancelled step leaves no trace in
// it, forks have it, and its queries are the pool's and come back.
// Method: made-up texts through a cache, against the definition in double precision and against
// itself; layers with different groups, a window, a soft cap and sinks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "cache/gate_statistics.h"
#include "cache/rig.h"

namespace quire {
namespace {

using namespace test;

constexpr std::uint64_t kText = 31;
constexpr std::uint32_t kLength = 300;
constexpr Needs kGated{.gate_rows = kGateRows};

CacheOptions options() {
  return {.layers = mixed_layers(), .budget_bytes = 24 << 20, .max_rows = 512};
}

// Reads [first, end), every row for the gate.
void read_rows(Cache& cache, SequenceId id, std::uint32_t first, std::uint32_t end,
               std::uint32_t chunk, std::uint32_t threads = 1) {
  for (std::uint32_t at = first; at < end; at += chunk) {
    const std::uint32_t rows = std::min(chunk, end - at);
    ASSERT_TRUE(
        step(cache, {{.sequence = id, .text = kText, .first = at, .rows = rows, .gate_rows = rows}},
             threads)
            .ok());
  }
  cache.check_invariants();
}

std::vector<double> measured(Cache& cache, SequenceId id, const RunParts& run = {}) {
  std::vector<double> values;
  for (const StatisticInfo& info : kStatistics) {
    const Result<double> value = cache.measure(id, info.statistic, run);
    EXPECT_TRUE(value.ok()) << value.status().message();
    values.push_back(value.ok() ? *value : NAN);
  }
  return values;
}

std::vector<double> alone() {
  const std::unique_ptr<Cache> cache = open_cache(options());
  const SequenceId id = start(*cache, kGated);
  read_rows(*cache, id, 0, kLength, 512);
  return measured(*cache, id);
}

// By the definition, from weights in double precision.
double expected(Statistic statistic) {
  const CacheOptions all = options();
  std::vector<std::uint32_t> full;
  for (std::uint32_t l = 0; l < all.layers.size(); ++l) {
    if (all.layers[l].window == 0) full.push_back(l);
  }
  std::vector<std::vector<LaneReading>> lanes(full.size());
  for (std::uint32_t i = 0; i < full.size(); ++i) {
    const LayerShape& shape = all.layers[full[i]];
    const std::uint32_t group = shape.query_heads / shape.kv_heads;
    if (!reads_layer(statistic, i, static_cast<std::uint32_t>(full.size()))) continue;
    for (std::uint32_t head = 0; head < shape.kv_heads; ++head) {
      std::vector<double> sum(std::size_t{group} * kLength), square(sum.size());
      for (std::uint32_t g = 0; g < group; ++g) {
        for (std::uint32_t row = kLength - kGateRows; row < kLength; ++row) {
          const std::vector<double> weights =
              reference_weights(all, kText, full[i], row, head * group + g, all_positions(row + 1));
          for (std::uint32_t p = 0; p <= row; ++p) {
            sum[g * kLength + p] += weights[p];
            square[g * kLength + p] += weights[p] * weights[p];
          }
        }
      }
      const std::vector<float> sums(sum.begin(), sum.end()), squares(square.begin(), square.end());
      lanes[i].push_back(read_lane(
          statistic,
          {.sum = sums, .square = squares, .group = group, .live = kLength, .rows = kGateRows}));
    }
  }
  return statistic_of(statistic, lanes);
}

TEST(Measure, IsTheDefinitionOfTheLastRows) {
  const std::vector<double> values = alone();
  for (const StatisticInfo& info : kStatistics) {
    EXPECT_NEAR(values[static_cast<std::size_t>(info.statistic)], expected(info.statistic), 1e-6)
        << info.name;
  }
}

TEST(Measure, ChunksThreadsNeighboursAndLevelsDoNotMatter) {
  const std::vector<double> whole = alone();
  for (const Isa isa : machine_levels()) {
    CacheOptions level = options();
    level.isa = isa;
    for (const std::uint32_t chunk : {512u, 37u, 16u, 1u}) {
      if (chunk == 1 && isa != machine_levels().back()) continue;
      const std::unique_ptr<Cache> cache = open_cache(level);
      const SequenceId id = start(*cache, kGated);
      read_rows(*cache, id, 0, kLength, chunk, chunk == 37 ? 3 : 1);
      EXPECT_EQ(measured(*cache, id), whole) << name_of(isa) << " in chunks of " << chunk;
    }
  }
  const std::unique_ptr<Cache> cache = open_cache(options());
  const SequenceId id = start(*cache, kGated), other = start(*cache, {.tap = Tap::kAllRows});
  const SequenceId third = start(*cache, kGated);
  for (std::uint32_t at = 0; at < kLength; at += 50) {
    const auto rows = [&](SequenceId sequence, std::uint64_t text) {
      return Rows{.sequence = sequence, .text = text, .first = at, .rows = 50, .gate_rows = 50};
    };
    ASSERT_TRUE(step(*cache, {rows(other, 5), rows(id, kText), rows(third, 6)}, 2).ok());
  }
  EXPECT_EQ(measured(*cache, id), whole);
  EXPECT_NE(measured(*cache, third), whole);
  // Threads of the caller's.
  std::vector<std::uint32_t> parts;
  const RunParts run = [&](const PartWork& work) {
    std::vector<std::thread> threads;
    for (std::uint32_t part = 0; part < 4; ++part) {
      parts.push_back(part);
      threads.emplace_back([&work, part] { work(part, 4); });
    }
    for (std::thread& thread : threads) thread.join();
  };
  EXPECT_EQ(measured(*cache, id, run), whole);
  EXPECT_EQ(parts.size(), 4 * std::size(kStatistics));
}

TEST(Measure, PoliciesDoNotMatterNorDoPrefixHits) {
  const std::vector<double> whole = alone();
  for (const char* name : {"h2o", "snapkv:window=48", "knorm"}) {
    const std::unique_ptr<Cache> cache = open_cache(options());
    Needs needs = make_policy(name)->needs;
    needs.gate_rows = kGateRows;
    const SequenceId id = start(*cache, needs);
    read_rows(*cache, id, 0, kLength, 64);
    EXPECT_EQ(measured(*cache, id), whole) << name;
  }
  CacheOptions cached = options();
  cached.prefix = {.hash = digest_of, .identity = "test"};
  const std::unique_ptr<Cache> cache = open_cache(cached);
  std::vector<Token> tokens(kLength);
  std::iota(tokens.begin(), tokens.end(), 0);
  const SequenceId first = start(*cache);
  for (std::uint32_t at = 0; at < kLength; at += 50) {
    read_rows(*cache, first, at, at + 50, 50);
    ASSERT_TRUE(cache->index(first, {tokens}).ok());
  }
  const Result<PrefixStart> behind = cache->start_with_prefix(kGated, {tokens});
  ASSERT_TRUE(behind.ok());
  EXPECT_EQ(behind->reused, kLength - kGateRows) << "the gate's rows are left to compute";
  read_rows(*cache, behind->sequence, behind->reused, kLength, 512);
  EXPECT_EQ(measured(*cache, behind->sequence), whole);
}

TEST(Measure, ACancelledStepLeavesNoTrace) {
  const std::vector<double> whole = alone();
  const std::unique_ptr<Cache> cache = open_cache(options());
  const SequenceId id = start(*cache, kGated);
  const auto rows = [&](std::uint64_t text, std::uint32_t first, std::uint32_t count) {
    return Rows{.sequence = id, .text = text, .first = first, .rows = count, .gate_rows = count};
  };
  ASSERT_TRUE(step(*cache, {rows(9, 0, 40)}, 1, {}, 2).ok());
  cache->check_invariants();
  read_rows(*cache, id, 0, kLength - 20, 64);
  ASSERT_TRUE(step(*cache, {rows(9, kLength - 20, 100)}, 1, {}, 3).ok());
  cache->check_invariants();
  read_rows(*cache, id, kLength - 20, kLength, 64);
  EXPECT_EQ(measured(*cache, id), whole);
}

TEST(Measure, AForkHasTheRowsOfItsParent) {
  const std::vector<double> whole = alone();
  const std::unique_ptr<Cache> cache = open_cache(options());
  const SequenceId id = start(*cache, kGated);
  read_rows(*cache, id, 0, kLength - 10, 64);
  const SequenceId child = *cache->fork(id);
  read_rows(*cache, child, kLength - 10, kLength, 64);
  EXPECT_EQ(measured(*cache, child), whole);
  ASSERT_TRUE(cache->drop(child).ok());
  read_rows(*cache, id, kLength - 10, kLength, 64);
  EXPECT_EQ(measured(*cache, id), whole);
}

TEST(Measure, QueriesAreThePoolsAndComeBack) {
  const std::unique_ptr<Cache> cache = open_cache(options());
  const SequenceId plain = start(*cache), gated = start(*cache, kGated);
  read(*cache, plain, kText, 0, kLength, 64, nullptr);
  read_rows(*cache, gated, 0, kLength, 64);
  const std::size_t floats = 6 * 64 + 2 * 64;  // of a row, over the full layers
  const std::size_t more = cache->stats(gated)->bytes - cache->stats(plain)->bytes;
  EXPECT_GE(more, kGateRows * floats * sizeof(float));
  EXPECT_LT(more, kGateRows * floats * sizeof(float) * 1.1);
  EXPECT_LT(cache->tokens_that_fit(kGated), cache->tokens_that_fit());
  ASSERT_TRUE(cache->keep_queries(gated, false).ok());
  cache->check_invariants();
  EXPECT_EQ(cache->stats(gated)->bytes, cache->stats(plain)->bytes);
  EXPECT_FALSE(cache->measure(gated, Statistic::kPageD).ok());
  // And none are kept until they are wanted again.
  read_rows(*cache, gated, kLength, kLength + 40, 64);
  EXPECT_FALSE(cache->measure(gated, Statistic::kPageD).ok());
  ASSERT_TRUE(cache->keep_queries(gated, true).ok());
  read_rows(*cache, gated, kLength + 40, kLength + 80, 64);
  EXPECT_TRUE(cache->measure(gated, Statistic::kPageD).ok());
  ASSERT_TRUE(cache->drop(gated).ok());
  ASSERT_TRUE(cache->drop(plain).ok());
  EXPECT_EQ(cache->stats().used_bytes, cache->stats().headroom_bytes);
}

TEST(Measure, WhatCannotBeMeasuredIsRefused) {
  const auto refusal = [](Cache& cache, SequenceId id) {
    const Result<double> value = cache.measure(id, Statistic::kRowVariation);
    return value.ok() ? "measured" : value.status().message();
  };
  const std::unique_ptr<Cache> cache = open_cache(options());
  const SequenceId plain = start(*cache);
  read(*cache, plain, kText, 0, 64, 64, nullptr);
  EXPECT_EQ(refusal(*cache, plain), "measure: start() was not asked for gate_rows");
  const SequenceId id = start(*cache, kGated);
  read_rows(*cache, id, 0, 20, 64);
  EXPECT_NE(refusal(*cache, id).find("named 20 up to position 20"), std::string::npos);
  read_rows(*cache, id, 20, 36, 64);
  EXPECT_NE(refusal(*cache, id).find("a lane has 36 entries"), std::string::npos);
  read_rows(*cache, id, 36, 37, 64);
  EXPECT_EQ(refusal(*cache, id), "measured");
  // Rows that nobody named part those before from those after.
  read(*cache, id, kText, 37, 2, 64, nullptr);
  EXPECT_NE(refusal(*cache, id).find("named 32 up to position 37"), std::string::npos);
  read_rows(*cache, id, 39, 50, 64);
  EXPECT_NE(refusal(*cache, id).find("named 11 up to position 50"), std::string::npos);
  EXPECT_EQ(cache->measure(SequenceId{7}, Statistic::kPageD).status().code(), Code::kNotFound);
  const Segment wrong{.sequence = id, .rows = 2, .gate_rows = 3};
  EXPECT_EQ(cache->begin({&wrong, 1}).code(), Code::kInvalidArgument);
  CacheOptions windows = options();
  windows.layers = {windows.layers[1]};
  const std::unique_ptr<Cache> narrow = open_cache(windows);
  const SequenceId seen = start(*narrow, kGated);
  ASSERT_TRUE(
      step(*narrow, {{.sequence = seen, .text = 3, .first = 0, .rows = 60, .gate_rows = 60}}).ok());
  narrow->check_invariants();
  EXPECT_EQ(narrow->measure(seen, Statistic::kPageD).status().code(), Code::kUnsupported);
}

}  // namespace
}  // namespace quire
