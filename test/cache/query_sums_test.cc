// Goal: what queries to come are expected to find in a key is what the formula says of the prompt's
// rows, whatever steps, threads and neighbours they came with; it follows a fork, a cancelled step
// leaves no trace in it, and its memory is the pool's.
// Method: a made-up text through a cache, read by a spy policy on a fork, against double precision
// and against itself; layers with both pairings, a window and sizes that are no powers of two.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "cache/rig.h"
#include "quire/policy.h"
#include "support/seed.h"

namespace quire {
namespace {

using namespace test;

constexpr std::uint64_t kText = 77;
constexpr std::uint32_t kSkip = 4, kFuture = 40;

std::vector<LayerShape> turned_layers() {
  std::vector<LayerShape> layers = mixed_layers();  // layer 1 has a window
  layers.push_back({.kv_heads = 1,
                    .query_heads = 2,
                    .key_size = 80,
                    .value_size = 80,
                    .rope = made_up_rope(true, 80),
                    .output = made_up_output(2 * 80, 200)});
  return layers;
}

CacheOptions options(std::size_t budget = 24 << 20) {
  return {.layers = turned_layers(), .budget_bytes = budget, .max_rows = 256};
}

const Needs kNeeds{.future = kFuture, .query_skip = kSkip};

// [layer][head]: what a policy would be shown now, of a fork.
using Shown = std::vector<std::vector<float>>;

Shown look(Cache& cache, SequenceId id) {
  Shown shown;
  Policy spy{.name = "spy", .needs = kNeeds, .protect = {}};
  spy.score = [&](const EntryView& lane, std::span<float> score) {
    EXPECT_EQ(lane.expected.size(), std::size_t{lane.group} * lane.live);
    shown.emplace_back(lane.expected.begin(), lane.expected.end());
    for (std::uint32_t i = 0; i < lane.live; ++i) score[i] = static_cast<float>(i);
  };
  const SequenceId copy = *cache.fork(id);
  EXPECT_TRUE(cache.shrink(copy, spy, *cache.length(id) - 1).ok());
  cache.check_invariants();
  EXPECT_TRUE(cache.drop(copy).ok());
  return shown;
}

SequenceId read_prompt(Cache& cache, std::uint32_t rows, std::uint32_t chunk,
                       std::uint32_t threads = 1) {
  const SequenceId id = start(cache, kNeeds);
  read(cache, id, kText, 0, rows, chunk, nullptr, threads);
  return id;
}

// --- in double precision ---

using Row = std::vector<double>;

// Turned by the angles of a position; sign -1: turned back.
void turn(const RopeShape& rope, double position, double sign, Row& x) {
  const std::size_t size = x.size();
  for (std::size_t i = 0; i < size / 2; ++i) {
    const double angle = sign * position * double{rope.frequency[i]};
    double& low = x[rope.halves ? i : 2 * i];
    double& high = x[rope.halves ? i + size / 2 : 2 * i + 1];
    const double before = low;
    low = std::cos(angle) * before - std::sin(angle) * high;
    high = std::sin(angle) * before + std::cos(angle) * high;
  }
}

Row head_row(Kind kind, std::uint32_t layer, Position position, std::uint32_t heads,
             std::uint32_t head, std::uint32_t size) {
  const std::span<const float> all = row_of(kText, kind, layer, position, heads * size);
  return {all.begin() + head * size, all.begin() + (head + 1) * size};
}

double product(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Of one query head for every key: mean and covariance by way of the rows themselves, each turned
// to every future position and averaged.
Row expected_of(std::uint32_t layer, std::uint32_t query_head, std::uint32_t prompt,
                std::uint32_t length) {
  const LayerShape shape = turned_layers()[layer];
  const std::uint32_t size = shape.key_size;
  std::vector<Row> rows;  // after the mean rotation, which is linear
  Row mean(size, 0);
  for (Position p = kSkip; p < prompt; ++p) {
    Row q = head_row(Kind::kQuery, layer, p, shape.query_heads, query_head, size), sum(size, 0);
    turn(shape.rope, p, -1, q);
    for (std::uint32_t f = 0; f < kFuture; ++f) {
      Row then = q;
      turn(shape.rope, length + f, 1, then);
      for (std::uint32_t d = 0; d < size; ++d) sum[d] += then[d] / kFuture;
    }
    for (std::uint32_t d = 0; d < size; ++d) mean[d] += sum[d] / (prompt - kSkip);
    rows.push_back(sum);
  }
  const double scale = shape.scale != 0 ? double{shape.scale} : 1 / std::sqrt(double{1} * size);
  const std::uint32_t head = query_head / (shape.query_heads / shape.kv_heads);
  Row result;
  for (Position p = 0; p < length; ++p) {
    const Row k = stored(
        row_of(kText, Kind::kKey, layer, p, shape.kv_heads * size).subspan(head * size, size),
        KvType::kF16);
    double variance = 0;
    for (const Row& row : rows) {
      const double away = product(row, k) - product(mean, k);
      variance += away * away / static_cast<double>(rows.size());
    }
    result.push_back(scale * product(mean, k) + scale * scale * variance / 2);
  }
  return result;
}

void check(const Shown& shown, std::uint32_t prompt, std::uint32_t length) {
  ASSERT_EQ(shown.size(), 5u);  // lanes of layers 0, 2 and 3
  const std::uint32_t layer_of[] = {0, 0, 2, 2, 3}, head_of[] = {0, 1, 0, 1, 0};
  for (std::size_t lane = 0; lane < shown.size(); ++lane) {
    const LayerShape shape = turned_layers()[layer_of[lane]];
    const std::uint32_t group = shape.query_heads / shape.kv_heads;
    for (std::uint32_t g = 0; g < group; ++g) {
      const Row expected = expected_of(layer_of[lane], head_of[lane] * group + g, prompt, length);
      for (Position p = 0; p < length; ++p) {
        EXPECT_NEAR(shown[lane][g * length + p], expected[p], 2e-4 * (1 + std::abs(expected[p])))
            << "lane " << lane << ", query head " << g << ", key " << p;
      }
    }
  }
}

TEST(QuerySumsTest, ExpectationsAreTheFormulasOfTheText) {
  for (const Isa isa : machine_levels()) {
    CacheOptions given = options();
    given.isa = isa;
    const std::unique_ptr<Cache> cache = open_cache(given);
    const SequenceId id = read_prompt(*cache, 70, 70);
    check(look(*cache, id), 70, 70);
    // Rows of an answer move the positions ahead, and add no query.
    ASSERT_TRUE(
        step(*cache, {{.sequence = id, .text = kText, .first = 70, .rows = 9, .answer = true}})
            .ok());
    check(look(*cache, id), 70, 79);
  }
}

TEST(QuerySumsTest, WithoutRowsNothingIsExpected) {
  const std::unique_ptr<Cache> cache = open_cache(options());
  const SequenceId id = read_prompt(*cache, kSkip, kSkip);
  for (const std::vector<float>& lane : look(*cache, id)) {
    for (const float e : lane) EXPECT_EQ(e, 0.0f);
  }
}

TEST(QuerySumsTest, ChunksThreadsAndNeighboursChangeNoBit) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  constexpr std::uint32_t kPrompt = 150;
  const std::unique_ptr<Cache> cache = open_cache(options());
  const Shown whole = look(*cache, read_prompt(*cache, kPrompt, kPrompt));
  for (const std::uint32_t chunk : {1u, 3u, 7u, 64u, 100u}) {
    for (const std::uint32_t threads : {1u, 3u}) {
      const SequenceId id = read_prompt(*cache, kPrompt, chunk, threads);
      EXPECT_EQ(look(*cache, id), whole) << chunk << " rows, " << threads << " threads";
      ASSERT_TRUE(cache->drop(id).ok());
    }
  }
  const SequenceId id = start(*cache, kNeeds), neighbour = start(*cache, kNeeds),
                   plain = start(*cache);
  for (std::uint32_t first = 0, beside = 0; first < kPrompt;) {
    const auto rows = std::min(kPrompt - first, static_cast<std::uint32_t>(1 + random() % 40));
    const auto more = static_cast<std::uint32_t>(1 + random() % 20);
    ASSERT_TRUE(step(*cache,
                     {{.sequence = neighbour, .text = 5, .first = beside, .rows = more},
                      {.sequence = id, .text = kText, .first = first, .rows = rows},
                      {.sequence = plain, .text = 6, .first = beside, .rows = more}},
                     2)
                    .ok());
    first += rows, beside += more;
  }
  EXPECT_EQ(look(*cache, id), whole);
}

TEST(QuerySumsTest, ACancelledStepAndAForkLeaveThemAlone) {
  const std::unique_ptr<Cache> cache = open_cache(options());
  const SequenceId id = read_prompt(*cache, 60, 25), neighbour = start(*cache, kNeeds);
  const CacheStats before = cache->stats();
  const Shown then = look(*cache, id);
  const Rows rows{.sequence = id, .text = kText, .first = 60, .rows = 30};
  for (const std::uint32_t layers : {0u, 1u, 3u, 4u}) {
    for (const std::uint32_t threads : {1u, 3u}) {
      // The neighbour's first step: its statistics come and go.
      ASSERT_TRUE(
          step(*cache, {{.sequence = neighbour, .text = 5, .rows = 9}, rows}, threads, {}, layers)
              .ok());
      cache->check_invariants();
      EXPECT_TRUE(same_bytes(before, cache->stats()));
      EXPECT_EQ(look(*cache, id), then) << layers << " layers, " << threads << " threads";
    }
  }
  const SequenceId child = *cache->fork(id);
  Rows of_child = rows;
  of_child.sequence = child;
  ASSERT_TRUE(step(*cache, {of_child}).ok());
  EXPECT_EQ(look(*cache, id), then);
  ASSERT_TRUE(step(*cache, {rows}).ok());
  EXPECT_EQ(look(*cache, id), look(*cache, child));
  const SequenceId whole = read_prompt(*cache, 90, 90);
  EXPECT_EQ(look(*cache, id), look(*cache, whole));
}

TEST(QuerySumsTest, TheirMemoryIsThePools) {
  const std::unique_ptr<Cache> cache = open_cache(options());
  const SequenceId id = read_prompt(*cache, 40, 40), plain = start(*cache);
  read(*cache, plain, kText, 0, 40, 40, nullptr);
  // 8 heads of 64 and 2 of 80: mean, origin and half of the products, in floats.
  const std::size_t least = 4 * (8 * (2 * 64 + 64 * 65 / 2) + 2 * (2 * 80 + 80 * 81 / 2));
  const std::size_t bytes = cache->stats(id)->bytes - cache->stats(plain)->bytes;
  EXPECT_GE(bytes, least);
  EXPECT_LE(bytes, least * 3 / 2);
  const std::unique_ptr<Cache> small = open_cache(options(1 << 20));
  EXPECT_LT(small->tokens_that_fit(kNeeds), small->tokens_that_fit());
  ASSERT_TRUE(cache->drop(id).ok());
  ASSERT_TRUE(cache->drop(plain).ok());
  EXPECT_EQ(cache->stats().used_bytes, 0u);
}

TEST(QuerySumsTest, RefusedForMemoryOnlyWhereItWasSaid) {
  std::uint32_t refused = 0;
  for (std::size_t budget = 400 << 10; budget < 1400 << 10; budget += 100 << 10) {
    SCOPED_TRACE(budget);
    CacheOptions given = options(budget);
    given.max_rows = 64;
    const std::unique_ptr<Cache> cache = open_cache(given);
    const std::uint32_t fit = cache->tokens_that_fit(kNeeds);
    const SequenceId id = start(*cache, kNeeds);
    std::uint32_t length = 0;
    while (length < 2000) {
      const std::uint32_t rows = length == 0 ? 1 : 20;
      const bool room = cache->bytes_needed(id, rows) <= cache->bytes_free();
      const Status status =
          step(*cache, {{.sequence = id, .text = kText, .first = length, .rows = rows}});
      if (room) {
        EXPECT_TRUE(status.ok()) << status.message();
      }
      cache->check_invariants();
      if (!status.ok()) {
        EXPECT_EQ(status.code(), Code::kOutOfMemory);
        ++refused;
        break;
      }
      length += rows;
    }
    EXPECT_GE(length + 20, fit);
  }
  EXPECT_GT(refused, 5u);
}

TEST(QuerySumsTest, RefusesWhatWasNotSaidOrAskedFor) {
  CacheOptions given = options();
  given.layers[2].rope = {};
  const std::unique_ptr<Cache> untold = open_cache(given);
  const Result<SequenceId> refused = untold->start(kNeeds);
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  EXPECT_NE(refused.status().message().find("layers[2].rope"), std::string::npos);
  EXPECT_TRUE(untold->start().ok());

  const std::unique_ptr<Cache> cache = open_cache(options());
  const Policy policy = *make_policy("expected-attention:sinks=4,recent=0");
  const SequenceId plain = start(*cache), other = start(*cache, {.future = 9, .query_skip = 3});
  for (const SequenceId id : {plain, other}) {
    read(*cache, id, kText, 0, 20, 20, nullptr);
    const Status status = cache->shrink(id, policy, 10).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(status.message().find("expected-attention"), std::string::npos) << status.message();
  }
  const SequenceId id = read_prompt(*cache, 20, 20);
  EXPECT_TRUE(cache->shrink(id, policy, 10).ok()) << "another future is no other statistic";
}

// --- the output projection ---

TEST(OutputNormTest, EveryValueIsWeighedByTheProjection) {
  CacheOptions given = options();
  for (const Isa isa : machine_levels()) {
    given.isa = isa;
    const std::unique_ptr<Cache> cache = open_cache(given);
    const SequenceId id = start(*cache);
    read(*cache, id, kText, 0, 50, 50, nullptr);
    Policy spy{.name = "spy", .needs = {.output_norm = true}, .protect = {}};
    std::uint32_t lanes = 0;
    spy.score = [&](const EntryView& lane, std::span<float> score) {
      ++lanes;
      const LayerShape& shape = given.layers[lane.layer];
      ASSERT_EQ(lane.output_norm.size(), lane.live);
      for (std::uint32_t e = 0; e < lane.live; e += 9) {
        const std::span<const float> all = row_of(kText, Kind::kValue, lane.layer, lane.position[e],
                                                  shape.kv_heads * shape.value_size);
        const Row v =
            stored(all.subspan(lane.head * shape.value_size, shape.value_size), KvType::kF16);
        double norm = 0;
        for (std::uint32_t g = 0; g < lane.group; ++g) {
          const std::size_t first = (lane.head * lane.group + g) * shape.value_size;
          for (std::uint32_t n = 0; n < shape.output.size; ++n) {
            double sum = 0;
            for (std::size_t d = 0; d < v.size(); ++d)
              sum += double{output_weight(n, first + d)} * v[d];
            norm += std::abs(sum) / lane.group;
          }
        }
        EXPECT_NEAR(lane.output_norm[e], norm, 1e-4 * norm) << "entry " << e;
      }
      std::ranges::copy(lane.output_norm, score.begin());
    };
    ASSERT_TRUE(cache->shrink(id, spy, 20).ok());
    ASSERT_TRUE(cache->shrink(id, spy, 9).ok()) << "of what is left";
    EXPECT_EQ(lanes, 10u);
  }
}

TEST(OutputNormTest, RefusedWhereNoLayerSaysItsProjection) {
  CacheOptions given = options();
  given.layers[0].output = {};
  const std::unique_ptr<Cache> cache = open_cache(given);
  const Policy policy = *make_policy("criticalkv:score=h2o,recent=0");
  const Result<SequenceId> refused = cache->start(policy.needs);
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  EXPECT_NE(refused.status().message().find("layers[0].output"), std::string::npos);
  const SequenceId id = start(*cache, {.tap = Tap::kAllRows});
  read(*cache, id, kText, 0, 50, 50, nullptr);
  const Status status = cache->shrink(id, policy, 20).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("criticalkv"), std::string::npos);
}

}  // namespace
}  // namespace quire
