// Goal: tap sums are the attention that rows paid, reduced and summed as asked, in whatever cuts
// the
//   rows came, and they stay with their entries.
// Method: double-precision reference weights; equality of bits between cuts and thread counts.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "cache/rig.h"

namespace quire {
namespace {

using namespace test;

constexpr std::uint32_t kPrompt = 70, kAnswer = 10, kLength = kPrompt + kAnswer;

CacheOptions options(Isa isa = Isa::kAuto) {
  return {.layers = mixed_layers(), .budget_bytes = 16 << 20, .isa = isa};
}

SequenceId read_text(Cache& cache, const Needs& needs, std::uint32_t chunk,
                     std::uint32_t threads = 1) {
  const SequenceId id = start(cache, needs);
  for (std::uint32_t first = 0; first < kLength;) {
    const std::uint32_t border = first < kPrompt ? kPrompt : kLength;
    const std::uint32_t rows = std::min(chunk, border - first), end = first + rows;
    const std::uint32_t window_begin = kPrompt - needs.window;
    const bool in_window = first < kPrompt && end > window_begin;
    EXPECT_TRUE(step(cache,
                     {{.sequence = id,
                       .text = 5,
                       .first = first,
                       .rows = rows,
                       .answer = first >= kPrompt,
                       .window_rows = in_window ? std::min(rows, end - window_begin) : 0}},
                     threads)
                    .ok());
    first = end;
  }
  return id;
}

// Sums over rows [begin, end) of a lane's weights, reduced over its query heads.
std::vector<double> reference_sums(const CacheOptions& how, std::uint32_t layer, std::uint32_t head,
                                   Reduce reduce, std::uint32_t begin, std::uint32_t end) {
  const LayerShape& shape = how.layers[layer];
  const std::uint32_t group = shape.query_heads / shape.kv_heads;
  std::vector<double> sums(kLength, 0.0);
  for (std::uint32_t row = begin; row < end; ++row) {
    const std::vector<Position> seen = visible(shape, row, all_positions(kLength));
    std::vector<double> reduced(seen.size(), 0.0);
    for (std::uint32_t g = 0; g < group; ++g) {
      const std::vector<double> w = reference_weights(how, 5, layer, row, head * group + g, seen);
      for (std::size_t i = 0; i < w.size(); ++i) {
        if (reduce == Reduce::kMax) reduced[i] = std::max(reduced[i], w[i]);
        if (reduce == Reduce::kSum) reduced[i] += w[i];
        if (reduce == Reduce::kMean) reduced[i] += w[i] / group;
        if (reduce == Reduce::kSquareSum) reduced[i] += w[i] * w[i];
      }
    }
    for (std::size_t i = 0; i < seen.size(); ++i) sums[seen[i]] += reduced[i];
  }
  return sums;
}

TEST(TapTest, SumsAreTheReferenceForEveryTapAndReduction) {
  struct Case {
    Tap tap;
    std::uint32_t begin, end;  // rows
  };
  for (const Case& c : {Case{Tap::kAllRows, 0, kLength}, Case{Tap::kDecodeRows, kPrompt, kLength},
                        Case{Tap::kLastRows, kPrompt - 20, kPrompt}}) {
    for (const Reduce reduce : {Reduce::kSum, Reduce::kMean, Reduce::kMax, Reduce::kSquareSum}) {
      for (const std::uint32_t l : {0u, 2u}) {
        const std::vector<double> expected =
            reference_sums(options(), l, 1, reduce, c.begin, c.end);
        for (const Isa isa : machine_levels()) {
          const std::unique_ptr<Cache> cache = open_cache(options(isa));
          const SequenceId id =
              read_text(*cache, {.tap = c.tap, .group = reduce, .window = 20}, 64);
          const Result<std::vector<float>> sums = cache->tap(id, l, 1);
          ASSERT_TRUE(sums.ok()) << sums.status().message();
          ASSERT_EQ(sums->size(), kLength);
          for (std::uint32_t i = 0; i < kLength; ++i) {
            EXPECT_NEAR((*sums)[i], expected[i], 2e-6)
                << name_of(isa) << " layer " << l << " " << i;
          }
        }
      }
    }
  }
}

TEST(TapTest, RowsAddUpToOneForEachHead) {
  const std::unique_ptr<Cache> cache = open_cache(options());
  const SequenceId id = read_text(*cache, {.tap = Tap::kAllRows, .group = Reduce::kSum}, 37);
  const std::vector<float> sums = *cache->tap(id, 0, 0);  // layer 0 has no sink: nothing is lost
  EXPECT_NEAR(std::accumulate(sums.begin(), sums.end(), 0.0), 3.0 * kLength, 1e-3);
}

TEST(TapTest, WatchingChangesNoOutput) {
  for (const bool chunk_kernels : {false, true}) {
    CacheOptions how = options();
    how.chunk_kernels = chunk_kernels;
    Outputs want;
    for (const Needs& needs :
         {Needs{}, Needs{.tap = Tap::kAllRows}, Needs{.tap = Tap::kLastRows, .window = 20}}) {
      const std::unique_ptr<Cache> cache = open_cache(how);
      const SequenceId id = start(*cache, needs);
      Outputs got(how.layers.size());
      for (std::uint32_t at = 0; at < kPrompt; at += 64) {
        const std::uint32_t rows = std::min(64u, kPrompt - at);
        ASSERT_TRUE(step(*cache, {{.sequence = id,
                                   .text = 1,
                                   .first = at,
                                   .rows = rows,
                                   .window_rows = at + rows - std::max(at, kPrompt - 20),
                                   .out = &got}})
                        .ok());
      }
      if (want.empty()) want = got;
      for (std::size_t l = 0; l < want.size(); ++l) {
        ASSERT_FALSE(want[l].empty());
        ASSERT_EQ(got[l].size(), want[l].size());
        EXPECT_EQ(std::memcmp(got[l].data(), want[l].data(), want[l].size() * sizeof(float)), 0)
            << "layer " << l << ", tap " << static_cast<int>(needs.tap) << ", chunk kernels "
            << chunk_kernels;
      }
    }
  }
}

TEST(TapTest, BitsDoNotDependOnCutsOrThreads) {
  for (const Tap tap : {Tap::kAllRows, Tap::kDecodeRows, Tap::kLastRows}) {
    const Needs needs{.tap = tap, .window = 33};
    const std::unique_ptr<Cache> whole = open_cache(options());
    const SequenceId first = read_text(*whole, needs, kLength);
    for (const std::uint32_t chunk : {1u, 7u, 40u, kLength}) {
      for (const std::uint32_t threads : {1u, 3u}) {
        const std::unique_ptr<Cache> cache = open_cache(options());
        const SequenceId id = read_text(*cache, needs, chunk, threads);
        for (const std::uint32_t l : {0u, 2u}) {
          EXPECT_EQ(*cache->tap(id, l, 0), *whole->tap(first, l, 0)) << chunk << " " << threads;
        }
      }
    }
  }
}

TEST(TapTest, SumsStayWithTheirEntriesThroughEvictionAndFork) {
  const std::unique_ptr<Cache> cache = open_cache(options());
  const SequenceId id = read_text(*cache, {.tap = Tap::kAllRows}, 50);
  const std::vector<float> before = *cache->tap(id, 0, 1);
  std::vector<Position> victims;
  for (Position p = 0; p < kLength; p += 3) victims.push_back(p);
  ASSERT_TRUE(cache->evict(id, 0, 1, victims).ok());
  std::vector<float> expected;
  for (std::uint32_t i = 0; i < kLength; ++i) {
    if (i % 3 != 0) expected.push_back(before[i]);
  }
  EXPECT_EQ(*cache->tap(id, 0, 1), expected);
  const Result<SequenceId> child = cache->fork(id);
  ASSERT_TRUE(child.ok());
  read(*cache, *child, 5, kLength, 4, 4, nullptr);
  EXPECT_EQ(*cache->tap(id, 0, 1), expected);
  EXPECT_GT(cache->tap(*child, 0, 1)->front(), expected.front());
  cache->check_invariants();
}

// What the window's rows said of an entry is still there for the next review, until a new window.
TEST(TapTest, WindowSumsTakeNoMemoryBeforeTheirRowsAndStayAfterTheirReview) {
  const std::unique_ptr<Cache> cache = open_cache(options());
  const Policy policy = *make_policy("snapkv:window=32,pool=1,recent=8");
  const SequenceId id = start(*cache, policy.needs), plain = start(*cache);
  read(*cache, id, 5, 0, 64, 64, nullptr);
  read(*cache, plain, 5, 0, 64, 64, nullptr);
  EXPECT_EQ(cache->stats(id)->bytes, cache->stats(plain)->bytes);
  ASSERT_TRUE(
      step(*cache, {{.sequence = id, .text = 5, .first = 64, .rows = 32, .window_rows = 32}}).ok());
  read(*cache, plain, 5, 64, 32, 32, nullptr);
  EXPECT_GT(cache->stats(id)->bytes, cache->stats(plain)->bytes);
  const std::vector<float> before = *cache->tap(id, 0, 0);
  ASSERT_TRUE(cache->shrink(id, policy, 60).ok());
  const std::vector<Position> kept = *cache->positions(id, 0, 0);
  std::vector<float> expected;
  for (const Position p : kept) expected.push_back(before[p]);
  EXPECT_EQ(*cache->tap(id, 0, 0), expected);
  // Rows of an answer are not summed.
  ASSERT_TRUE(
      step(*cache, {{.sequence = id, .text = 5, .first = 96, .rows = 8, .answer = true}}).ok());
  expected.resize(68, 0.0f);
  EXPECT_EQ(*cache->tap(id, 0, 0), expected);
  // The next review goes on where the first one stopped, as if it had cut that far at once.
  ASSERT_TRUE(cache->shrink(id, policy, 50).ok());
  const SequenceId once = start(*cache, policy.needs);
  read(*cache, once, 5, 0, 64, 64, nullptr);
  ASSERT_TRUE(
      step(*cache, {{.sequence = once, .text = 5, .first = 64, .rows = 32, .window_rows = 32}})
          .ok());
  ASSERT_TRUE(
      step(*cache, {{.sequence = once, .text = 5, .first = 96, .rows = 8, .answer = true}}).ok());
  ASSERT_TRUE(cache->shrink(once, policy, 50).ok());
  EXPECT_EQ(*cache->positions(id, 0, 0), *cache->positions(once, 0, 0));
  EXPECT_EQ(cache->positions(id, 0, 0)->size(), 50u);
  cache->check_invariants();
}

// Rows that follow the last ones add to them, up to the window; all others begin anew.
TEST(TapTest, AWindowIsOfRowsThatFollowEachOther) {
  const CacheOptions how = options();
  const Needs needs{.tap = Tap::kLastRows, .window = 32};
  const auto expect_sums = [&](Cache& cache, SequenceId id, std::uint32_t begin,
                               std::uint32_t end) {
    const std::vector<float> sums = *cache.tap(id, 0, 1);
    const std::vector<double> expected = reference_sums(how, 0, 1, Reduce::kMean, begin, end);
    for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_NEAR(sums[i], expected[i], 2e-6) << i;
  };
  const auto add = [&](Cache& cache, SequenceId id, std::uint32_t first, std::uint32_t rows,
                       std::uint32_t window_rows) {
    ASSERT_TRUE(
        step(
            cache,
            {{.sequence = id, .text = 5, .first = first, .rows = rows, .window_rows = window_rows}})
            .ok());
  };
  const std::unique_ptr<Cache> cache = open_cache(how);
  const SequenceId id = start(*cache, needs);
  add(*cache, id, 0, 20, 12);
  add(*cache, id, 20, 20, 20);
  expect_sums(*cache, id, 8, 40);  // one window in two steps
  const SequenceId child = *cache->fork(id);
  add(*cache, id, 40, 4, 4);
  expect_sums(*cache, id, 40, 44);  // it was full
  add(*cache, child, 40, 10, 6);
  expect_sums(*cache, child, 44, 50);  // rows between them
  add(*cache, child, 50, 4, 0);
  add(*cache, child, 54, 4, 4);
  expect_sums(*cache, child, 54, 58);  // a step between them
  // A step that is refused for want of room or cancelled before it ran keeps the window's rows ...
  const std::vector<float> before = *cache->tap(id, 0, 1);
  const std::vector<Segment> too_much{{.sequence = id, .rows = 513, .window_rows = 10}};
  EXPECT_FALSE(cache->begin(too_much).ok());
  EXPECT_EQ(*cache->tap(id, 0, 1), before);
  cache->check_invariants();
}

// The sums of every lane.
std::vector<std::vector<float>> all_sums(const Cache& cache, SequenceId id) {
  std::vector<std::vector<float>> sums;
  for (const std::uint32_t layer : {0u, 2u}) {
    for (const std::uint32_t head : {0u, 1u}) sums.push_back(*cache.tap(id, layer, head));
  }
  return sums;
}

// Long enough that of 1 and 3 rows the queries are kept, of 150 the sums.
TEST(TapTest, ACancelledStepLeavesTheSumsAsTheyWere) {
  struct Case {
    Tap tap;
    std::uint32_t rows, window_rows;
    bool answer;
  };
  for (const Case& c : {Case{Tap::kAllRows, 1, 0, false}, Case{Tap::kAllRows, 3, 0, true},
                        Case{Tap::kAllRows, 150, 0, false}, Case{Tap::kDecodeRows, 1, 0, true},
                        Case{Tap::kDecodeRows, 2, 0, false}, Case{Tap::kLastRows, 20, 20, false},
                        Case{Tap::kLastRows, 8, 8, false}, Case{Tap::kLastRows, 1, 0, true},
                        Case{Tap::kLastRows, 70, 9, false}}) {
    const Needs needs{.tap = c.tap, .window = 24, .per_head = c.tap == Tap::kLastRows};
    const std::unique_ptr<Cache> cache = open_cache(options());
    const SequenceId id = start(*cache, needs);
    ASSERT_TRUE(step(*cache, {{.sequence = id, .text = 5, .rows = 220, .window_rows = 10}}).ok());
    ASSERT_TRUE(
        step(*cache, {{.sequence = id, .text = 5, .first = 220, .rows = 3, .answer = true}}).ok());
    ASSERT_TRUE(cache->evict(id, 0, 1, std::vector<Position>{3, 4, 20}).ok());
    const SequenceId twin = *cache->fork(id), neighbour = start(*cache, {.tap = Tap::kAllRows});
    const std::vector<std::vector<float>> before = all_sums(*cache, id);
    const Rows rows{.sequence = id,
                    .text = 5,
                    .first = 223,
                    .rows = c.rows,
                    .answer = c.answer,
                    .window_rows = c.window_rows};
    for (const std::uint32_t layers : {0u, 1u, 3u}) {
      for (const std::uint32_t threads : {1u, 3u}) {
        const Rows other{.sequence = neighbour, .text = 6, .rows = 9};
        ASSERT_TRUE(step(*cache, {other, rows}, threads, {}, layers).ok());
        EXPECT_EQ(all_sums(*cache, id), before)
            << "tap " << static_cast<int>(c.tap) << ", rows " << c.rows << ", layers " << layers;
        cache->check_invariants();
      }
    }
    // And the same step goes on as if there had been no other.
    Rows again = rows;
    again.sequence = twin;
    ASSERT_TRUE(step(*cache, {rows}).ok());
    ASSERT_TRUE(step(*cache, {again}).ok());
    EXPECT_EQ(all_sums(*cache, id), all_sums(*cache, twin));
  }
}

TEST(TapTest, RefusesWhatWasNotAskedFor) {
  const std::unique_ptr<Cache> cache = open_cache(options());
  const SequenceId plain = start(*cache), tapped = start(*cache, {.tap = Tap::kAllRows});
  EXPECT_EQ(cache->tap(plain, 0, 0).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(cache->tap(tapped, 1, 0).status().code(), Code::kInvalidArgument);  // a window
  EXPECT_EQ(cache->tap(tapped, 0, 2).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(cache->tap(tapped, 3, 0).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(cache->start({.tap = Tap::kAllRows, .per_head = true}).status().code(),
            Code::kInvalidArgument);
}

// SnapKV per head: the policy sees sums of every query head that add up to the reduced one.
TEST(TapTest, PerHeadSumsReachThePolicy) {
  const std::unique_ptr<Cache> cache = open_cache(options());
  const Needs needs{.tap = Tap::kLastRows, .group = Reduce::kSum, .window = 20, .per_head = true};
  const SequenceId id = read_text(*cache, needs, 32);
  double difference = 0;
  int lanes = 0;
  Policy policy{.name = "spy", .needs = needs, .protect = {}};
  policy.score = [&](const EntryView& lane, std::span<float> score) {
    ++lanes;
    ASSERT_EQ(lane.tap_per_head.size(), std::size_t{lane.group} * lane.live);
    EXPECT_EQ(lane.window_rows, 20u);
    for (std::uint32_t i = 0; i < lane.live; ++i) {
      double sum = 0;
      for (std::uint32_t g = 0; g < lane.group; ++g) sum += lane.tap_per_head[g * lane.live + i];
      difference = std::max(difference, std::fabs(sum - lane.tap[i]));
      score[i] = lane.tap[i];
    }
  };
  ASSERT_TRUE(cache->shrink(id, policy, 70).ok());
  EXPECT_EQ(lanes, 4);
  EXPECT_LT(difference, 1e-6);
}

}  // namespace
}  // namespace quire
