// Goal: alignment, spread and similarity of a lane are what their formulas say, the same bits at
// every level.
// Method: random lanes (holes, odd lengths, NaN in dead slots) against the reference bit for bit,
// and the reference against double precision; rows without a direction by hand.
#include <cmath>

#include "kernels/lane_case.h"

namespace quire::kernels::test {
namespace {

struct Features {
  std::vector<float> cosine, key, value, sum, twin_cosine;
  std::vector<Ordinal> twin;
  bool operator==(const Features&) const = default;
};

Features features(const Kernels& level, const LaneView& lane, std::uint32_t chunk,
                  std::uint32_t skip, std::uint32_t run) {
  Features f;
  for (std::vector<float>* out : {&f.cosine, &f.key, &f.value, &f.sum, &f.twin_cosine}) {
    out->assign(lane.live, -9.0f);
  }
  f.twin.assign(lane.live, ~0u);
  const Aligned<float> scratch(std::max(feature_floats(lane, chunk), feature_floats(lane, run)));
  level.alignment(lane, f.cosine.data(), scratch.get());
  level.spread(lane, chunk, skip, f.key.data(), f.value.data(), scratch.get());
  level.similarity(lane, run, f.sum.data(), f.twin.data(), f.twin_cosine.data(), scratch.get());
  return f;
}

using Rows = std::vector<std::vector<double>>;

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t d = 0; d < a.size(); ++d) sum += a[d] * b[d];
  return sum;
}

// Live keys or values as stored, in ordinal order.
Rows stored_rows(const Case& c, const Text& text, bool keys) {
  const std::uint32_t size = keys ? c.key_size : c.value_size;
  Rows rows;
  for (Position p = c.dropped_blocks * c.block_tokens; p < c.length; ++p) {
    if (!text.live[p]) continue;
    rows.emplace_back();
    for (std::uint32_t d = 0; d < size; ++d) {
      const KvType type = keys ? c.key_type : c.value_type;
      std::byte bytes[4];
      store_element(bytes, type, 0, (keys ? text.k : text.v)[std::size_t{p} * size + d]);
      rows.back().push_back(load_element(bytes, type, 0));
    }
  }
  return rows;
}

void check_spread(const Rows& rows, std::uint32_t chunk, std::uint32_t skip,
                  const std::vector<float>& spread) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t begin = i < skip ? 0 : (i - skip) / chunk * chunk + skip;
    if (i < skip || begin + 2 * std::size_t{chunk} > rows.size()) {
      EXPECT_EQ(spread[i], 0.0f) << i;
      continue;
    }
    std::vector<double> x;
    for (std::size_t d = 0; d < rows[i].size(); ++d) {
      double low = INFINITY, high = -INFINITY;
      for (std::size_t j = begin + chunk; j < begin + 2 * std::size_t{chunk}; ++j) {
        low = std::min(low, rows[j][d]);
        high = std::max(high, rows[j][d]);
      }
      x.push_back(high > low ? (rows[i][d] - low) / (high - low) : 0);
    }
    double mean = 0, square = 0;
    for (const double value : x) mean += value / static_cast<double>(x.size());
    for (const double value : x) square += (value - mean) * (value - mean);
    const double expected = std::sqrt(square / static_cast<double>(x.size() - 1));
    EXPECT_NEAR(spread[i], expected, 1e-4 * std::max(1.0, expected)) << i;
  }
}

void check_directions(const Rows& keys, std::uint32_t run, const Features& f) {
  Rows unit = keys;
  std::vector<double> total(keys.empty() ? 0 : keys[0].size(), 0);
  for (std::vector<double>& u : unit) {
    const double norm = std::sqrt(dot(u, u));
    for (double& x : u) x /= norm;
    for (std::size_t d = 0; d < u.size(); ++d) total[d] += u[d];
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EXPECT_NEAR(f.cosine[i], dot(unit[i], total) / std::sqrt(dot(total, total)), 1e-4) << i;
    double sum = 0;
    for (std::size_t j = i / run * run; j < std::min<std::size_t>(keys.size(), i / run * run + run);
         ++j) {
      if (j != i) sum += dot(unit[i], unit[j]);
    }
    EXPECT_NEAR(f.sum[i], sum, 1e-4 * std::max<double>(10, static_cast<double>(run))) << i;
    const Ordinal twin = f.twin[i];
    if (twin == keys.size()) continue;
    EXPECT_EQ(twin / run, i / run);
    EXPECT_NEAR(f.twin_cosine[i], dot(unit[i], unit[twin]), 1e-5) << i;
    EXPECT_GT(f.twin_cosine[i], 0.5f);
  }
}

using FeatureTest = KernelTest;

TEST_F(FeatureTest, EveryLevelEqualsReferenceAndDouble) {
  for (int i = 0; i < 60 && !HasFailure(); ++i) {
    Case c = random_case(random);
    c.length = std::min(c.length, 300u);
    c.tokens = 1;
    c.dropped_blocks = 0;
    SCOPED_TRACE(::testing::Message() << c);
    Text text(c, random);
    for (Position p = 1; p < c.length; ++p) {  // some keys are nearly those before them
      if (pick(random, 0, 3) != 0) continue;
      for (std::uint32_t d = 0; d < c.key_size; ++d) {
        text.k[std::size_t{p} * c.key_size + d] +=
            2 * text.k[(std::size_t{p} - 1) * c.key_size + d];
      }
    }
    const Lane lane = Lane::as_appended(c, text, reference_kernels(), random);
    const std::uint32_t chunk = pick(random, 1, 40), skip = pick(random, 0, 9);
    const std::uint32_t run = pick_of(random, {1u, 7u, 64u, ~0u});
    const Features expected = features(reference_kernels(), lane.view(), chunk, skip, run);
    for (const Kernels* level : levels()) {
      EXPECT_EQ(features(*level, lane.view(), chunk, skip, run), expected) << name_of(level->isa);
    }
    check_spread(stored_rows(c, text, true), chunk, skip, expected.key);
    check_spread(stored_rows(c, text, false), chunk, skip, expected.value);
    check_directions(stored_rows(c, text, true), std::min(run, 1u << 20), expected);
  }
}

TEST_F(FeatureTest, KeysWithoutADirectionCountAsZeros) {
  Case c;
  c.length = 40;
  Text text(c, random);
  for (std::uint32_t d = 0; d < c.key_size; ++d) {
    text.k[3 * c.key_size + d] = 0;
    text.k[5 * c.key_size + d] = 1e6f;  // infinity in f16
  }
  const Lane lane = Lane::as_appended(c, text, reference_kernels(), random);
  std::vector<const Kernels*> all = levels();
  all.push_back(&reference_kernels());
  for (const Kernels* level : all) {
    const Features f = features(*level, lane.view(), 8, 0, ~0u);
    for (const std::size_t i : {3u, 5u}) {
      EXPECT_EQ(f.cosine[i], 0.0f);
      EXPECT_EQ(f.sum[i], 0.0f);
      EXPECT_EQ(f.twin[i], 40u);
    }
    for (std::size_t i = 0; i < 40; ++i) EXPECT_LE(std::abs(f.cosine[i]), 1.0001f) << i;
  }
}

}  // namespace
}  // namespace quire::kernels::test
