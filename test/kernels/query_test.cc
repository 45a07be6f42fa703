// Goal: statistics of queries, what they expect of keys, and the weight of values in the output are
// what their formulas say, the same bits at every level and however the rows are cut.
// Method: random rows and lanes against the reference bit for bit, and the reference against double
// precision.
#include <cmath>

#include "kernels/lane_case.h"

namespace quire::kernels::test {
namespace {

struct Queries {
  std::uint32_t rows, size;
  bool halves;
  std::size_t stride;
  std::vector<float> q, turn;

  Queries(Random& random, std::uint32_t count, std::uint32_t head)
      : rows(count),
        size(head),
        halves(pick(random, 0, 1) == 0),
        stride(head + pick(random, 0, 2) * head),
        q(count * stride),
        turn(std::size_t{count} * 2 * head) {
    std::normal_distribution<float> normal(0.5f, 2.0f);
    std::uniform_real_distribution<float> angle(-3, 3);
    for (float& x : q) x = normal(random);
    for (std::uint32_t r = 0; r < rows; ++r) {
      for (std::uint32_t i = 0; i < size / 2; ++i) {
        const float a = angle(random);
        const std::uint32_t low = halves ? i : 2 * i, high = halves ? i + size / 2 : 2 * i + 1;
        float* to = turn.data() + std::size_t{r} * 2 * size;
        to[low] = to[high] = std::cos(a);
        to[size + low] = std::sin(a);
        to[size + high] = -std::sin(a);
      }
    }
  }
  // Rows [begin, end) joined to the statistics.
  void add(const Kernels& level, std::uint32_t begin, std::uint32_t end,
           std::vector<float>& statistics) const {
    const Aligned<float> scratch(query_scratch_floats(size));
    level.add_queries({.q = q.data() + begin * stride,
                       .q_stride = stride,
                       .rows = end - begin,
                       .size = size,
                       .halves = halves,
                       .turn = turn.data() + std::size_t{begin} * 2 * size,
                       .first = begin == 0},
                      statistics.data(), scratch.get());
  }
  std::vector<double> row(std::uint32_t r) const {
    std::vector<double> y(size);
    const float* t = turn.data() + std::size_t{r} * 2 * size;
    for (std::uint32_t i = 0; i < size; ++i) {
      const std::uint32_t partner = halves ? (i + size / 2) % size : i ^ 1;
      y[i] = double{q[r * stride + i]} * double{t[i]} +
             double{q[r * stride + partner]} * double{t[size + i]};
    }
    return y;
  }
};

using QueryTest = KernelTest;

TEST_F(QueryTest, StatisticsAreTheSameBitsAtEveryLevelAndCut) {
  for (int round = 0; round < 30 && !HasFailure(); ++round) {
    const std::uint32_t size = pick_of(random, {64u, 80u, 96u, 128u, 256u});
    const Queries queries(random, pick_of(random, {1u, 2u, 31u, 32u, 33u, pick(random, 1, 130)}),
                          size);
    SCOPED_TRACE(::testing::Message() << queries.rows << " rows of " << size);
    std::vector<float> expected(query_floats(size), 0.0f);
    queries.add(reference_kernels(), 0, queries.rows, expected);
    for (const Kernels* level : levels()) {
      std::vector<float> whole(query_floats(size), 0.0f), cut(whole);
      queries.add(*level, 0, queries.rows, whole);
      EXPECT_EQ(whole, expected) << name_of(level->isa);
      for (std::uint32_t begin = 0; begin < queries.rows;) {
        const std::uint32_t end = std::min(queries.rows, begin + pick(random, 1, 50));
        queries.add(*level, begin, end, cut);
        begin = end;
      }
      EXPECT_EQ(cut, expected) << name_of(level->isa) << ", in pieces";
    }
  }
}

TEST_F(QueryTest, StatisticsAreMeanAndCovarianceOfTheTurnedRows) {
  for (const std::uint32_t size : {64u, 80u}) {
    const Queries queries(random, 100, size);
    std::vector<float> statistics(query_floats(size), 0.0f);
    queries.add(reference_kernels(), 0, 100, statistics);
    std::vector<double> mean(size, 0);
    for (std::uint32_t r = 0; r < 100; ++r) {
      for (std::uint32_t i = 0; i < size; ++i) mean[i] += queries.row(r)[i] / 100;
    }
    const float *origin = statistics.data(), *sum = origin + size, *products = origin + 2 * size;
    for (std::uint32_t i = 0; i < size; ++i) {
      EXPECT_NEAR(origin[i] + sum[i] / 100, mean[i], 1e-4);
      EXPECT_NEAR(origin[i], queries.row(0)[i], 1e-5);
    }
    for (const auto& [i, j] : {std::pair{0u, 0u}, std::pair{17u, 3u}, std::pair{63u, 63u},
                               std::pair{63u, 0u}, std::pair{5u, 15u}}) {
      double covariance = 0;
      for (std::uint32_t r = 0; r < 100; ++r) {
        const std::vector<double> y = queries.row(r);
        covariance += (y[i] - mean[i]) * (y[j] - mean[j]) / 100;
      }
      const double shift = double{sum[i]} / 100 * (double{sum[j]} / 100);
      EXPECT_NEAR(double{products[query_product(i) + j]} / 100 - shift, covariance, 1e-3);
    }
  }
}

// What a stored value is.
double stored(float x, KvType type) {
  std::byte bytes[4];
  store_element(bytes, type, 0, x);
  return load_element(bytes, type, 0);
}

struct LaneCase {
  Case c;
  Text text;
  Lane lane;

  static LaneCase make(Random& random) {
    Case c = random_case(random);
    c.length = std::min(c.length, 600u);
    c.tokens = 1;
    c.dropped_blocks = 0;
    Text text(c, random);
    Lane lane = Lane::as_appended(c, text, reference_kernels(), random);
    return {c, std::move(text), std::move(lane)};
  }
  // Of the live entries, K or V.
  std::vector<std::vector<double>> rows(bool keys) const {
    const std::uint32_t size = keys ? c.key_size : c.value_size;
    std::vector<std::vector<double>> all;
    for (Position p = 0; p < c.length; ++p) {
      if (!text.live[p]) continue;
      all.emplace_back();
      for (std::uint32_t d = 0; d < size; ++d) {
        all.back().push_back(stored((keys ? text.k : text.v)[std::size_t{p} * size + d],
                                    keys ? c.key_type : c.value_type));
      }
    }
    return all;
  }
};

TEST_F(QueryTest, ExpectationsAreTheQuadraticFormOfEveryKey) {
  std::normal_distribution<float> normal(0, 0.1f);
  for (int round = 0; round < 30 && !HasFailure(); ++round) {
    const LaneCase at = LaneCase::make(random);
    SCOPED_TRACE(::testing::Message() << at.c);
    const std::uint32_t size = at.c.key_size;
    std::vector<float> mean(size), form(query_product(size));
    for (float& x : mean) x = normal(random);
    for (float& x : form) x = normal(random);
    const Aligned<float> scratch(feature_floats(at.lane.view(), 0));
    std::vector<float> expected(at.lane.view().live, -9.0f);
    reference_kernels().expect(at.lane.view(), mean.data(), form.data(), expected.data(),
                               scratch.get());
    for (const Kernels* level : levels()) {
      std::vector<float> fast(expected.size(), -9.0f);
      level->expect(at.lane.view(), mean.data(), form.data(), fast.data(), scratch.get());
      EXPECT_EQ(fast, expected) << name_of(level->isa);
    }
    const auto keys = at.rows(true);
    for (std::size_t e = 0; e < keys.size(); e += 7) {
      double sum = 0, size_of_terms = 1;
      for (std::uint32_t i = 0; i < size; ++i) {
        sum += double{mean[i]} * keys[e][i];
        for (std::uint32_t j = 0; j < i / 16 * 16 + 16; ++j) {
          const double term = double{form[query_product(i) + j]} * keys[e][i] * keys[e][j];
          sum += term;
          size_of_terms += std::abs(term);
        }
      }
      EXPECT_NEAR(expected[e], sum, 1e-5 * size_of_terms) << e;
    }
  }
}

TEST_F(QueryTest, OutputNormsAddUpOverHeadsAndOutputs) {
  std::normal_distribution<float> normal(0, 0.2f);
  for (int round = 0; round < 20 && !HasFailure(); ++round) {
    LaneCase at = LaneCase::make(random);
    const std::uint32_t size = at.c.value_size, group = pick(random, 1, 4);
    const std::uint32_t outputs = 16 * pick(random, 1, 4);
    SCOPED_TRACE(::testing::Message() << at.c << " outputs " << outputs << " of " << group);
    std::vector<float> weights(std::size_t{group} * size * outputs);
    for (float& x : weights) x = normal(random);
    const Aligned<float> scratch(feature_floats(at.lane.view(), 0));
    std::vector<float> expected(at.lane.view().live, 3.0f);
    reference_kernels().add_output_norms(at.lane.view(), weights.data(), group, outputs,
                                         expected.data(), scratch.get());
    for (const Kernels* level : levels()) {
      std::vector<float> fast(expected.size(), 3.0f);
      level->add_output_norms(at.lane.view(), weights.data(), group, outputs, fast.data(),
                              scratch.get());
      EXPECT_EQ(fast, expected) << name_of(level->isa);
    }
    const auto values = at.rows(false);
    for (std::size_t e = 0; e < values.size(); e += 11) {
      double norm = 3;
      for (std::size_t n = 0; n < std::size_t{group} * outputs; ++n) {
        double product = 0;
        for (std::uint32_t d = 0; d < size; ++d) {
          product +=
              double{weights[(n / outputs * size + d) * outputs + n % outputs]} * values[e][d];
        }
        norm += std::abs(product);
      }
      EXPECT_NEAR(expected[e], norm, 1e-4 * norm) << e;
    }
  }
}

}  // namespace
}  // namespace quire::kernels::test
