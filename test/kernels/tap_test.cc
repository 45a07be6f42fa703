// Goal: attention sums are right, the same integers at every level and in every chunking, and
// watching does not change what is seen.
// Method: random lanes against the reference bit for bit and against double precision; sums over
// one row's keys are 1 unless a sink takes its part.
#include <cmath>

#include "kernels/lane_case.h"

namespace quire::kernels::test {
namespace {

constexpr int kCases = 80;

TapOptions random_taps(Random& random, std::uint32_t tokens) {
  TapOptions taps;
  taps.on = true;
  taps.per_head = pick(random, 0, 1) == 0;
  taps.group = pick_of(
      random, {Reduce::kSum, Reduce::kMean, Reduce::kMax, Reduce::kSquareSum, Reduce::kMissed});
  if (pick(random, 0, 1) == 0) taps.first_token = pick(random, 0, tokens);
  return taps;
}

double reduced(const std::vector<double>& heads, Reduce how) {
  double result = 0;
  for (const double w : heads) {
    result = how == Reduce::kMax         ? std::max(result, w)
             : how == Reduce::kSquareSum ? result + w * w
                                         : result + w;
  }
  const bool mean = how == Reduce::kMean || how == Reduce::kMissed;
  return mean ? result / static_cast<double>(heads.size()) : result;
}

// Entries that the row of a token sees.
std::uint32_t seen_by(const Case& c, const Text& text, std::uint32_t token) {
  const Position row = c.length - c.tokens + token;
  std::uint32_t seen = 0;
  for (Position p = c.dropped_blocks * c.block_tokens; p <= row; ++p) {
    seen += text.live[p] && (c.window == 0 || row - p < c.window) ? 1 : 0;
  }
  return seen;
}

class TapTest : public KernelTest {
 protected:
  void check_close(const Case& c, const Text& text, const Lane& lane, const TapOptions& taps,
                   const Attended& result) {
    const Naive naive = naive_attention(c, text);
    Ordinal index = 0;
    for (Position p = c.dropped_blocks * c.block_tokens; p < c.length; ++p) {
      if (!text.live[p]) continue;
      double expected = 0, doubtful = 0;  // too near to the border to say
      for (std::uint32_t t = taps.first_token; t < c.tokens; ++t) {
        std::vector<double> heads;
        for (std::uint32_t g = 0; g < c.group; ++g) {
          heads.push_back(naive.weight[(std::size_t{t} * c.group + g) * c.length + p]);
        }
        const double weight = reduced(heads, taps.group);
        if (taps.group != Reduce::kMissed) {
          expected += weight;
          continue;
        }
        const Position row = c.length - c.tokens + t;
        if (p > row || (c.window != 0 && row - p >= c.window)) continue;
        const double share = 1.0 / seen_by(c, text, t);
        if (weight < share) expected += 1;
        if (std::abs(weight - share) < 1e-4 * share) doubtful += 1;
      }
      ASSERT_LT(index, lane.view().live);
      EXPECT_NEAR(static_cast<double>(result.sum[index]) * kTapUnit, expected,
                  doubtful + 1e-5 * std::max(expected, 1e-2));
      ++index;
    }
  }
};

TEST_F(TapTest, EveryLevelEqualsReferenceAndDouble) {
  for (int i = 0; i < kCases && !HasFailure(); ++i) {
    const Case c = random_case(random);
    SCOPED_TRACE(::testing::Message() << c);
    const Text text(c, random);
    const TapOptions taps = random_taps(random, c.tokens);
    const Lane lane = Lane::as_appended(c, text, reference_kernels(), random);
    if (lane.view().live == 0) continue;
    const QueryView rows = rows_of(c, text, nullptr);
    const Attended expected = attend(reference_kernels(), lane.view(), rows, taps);
    for (const Kernels* level : levels()) {
      SCOPED_TRACE(name_of(level->isa));
      const Attended result = attend(*level, lane.view(), rows, taps);
      EXPECT_EQ(result, expected);
      EXPECT_EQ(result.out, attend(*level, lane.view(), rows).out) << "watched or not";
    }
    check_close(c, text, lane, taps, expected);
  }
}

TEST_F(TapTest, RowsAddUpToOne) {
  for (const Kernels* level : levels()) {
    Case c;
    c.length = 1300;
    c.tokens = 9;
    c.group = 5;
    c.dead = 0.3;
    const Text text(c, random);
    const Lane lane = Lane::as_appended(c, text, *level, random);
    TapOptions taps;
    taps.on = taps.per_head = true;
    taps.group = Reduce::kSum;
    taps.first_token = 2;
    const Attended result = attend(*level, lane.view(), rows_of(c, text, nullptr), taps);
    double all = 0;
    for (const std::int64_t sum : result.sum) all += static_cast<double>(sum) * kTapUnit;
    EXPECT_NEAR(all / (7 * 5), 1.0, 0x1p-20);
    for (std::uint32_t g = 0; g < c.group; ++g) {
      double head = 0;
      for (std::uint32_t i = 0; i < lane.view().live; ++i) {
        head += static_cast<double>(result.per_head[g * lane.view().live + i]) * kTapUnit;
      }
      EXPECT_NEAR(head / 7, 1.0, 0x1p-20) << g;
    }
  }
}

TEST_F(TapTest, SumsDoNotDependOnChunks) {
  for (const Kernels* level : levels()) {
    for (int i = 0; i < 10 && !HasFailure(); ++i) {
      Case c = random_case(random);
      c.key_size = c.value_size = 32;
      c.length = pick(random, 60, 700);
      c.tokens = pick(random, 20, 60);
      c.dropped_blocks = 0;
      SCOPED_TRACE(::testing::Message() << c);
      const Text text(c, random);
      TapOptions taps = random_taps(random, 10);
      const Lane lane = Lane::as_appended(c, text, *level, random);
      const QueryView rows = rows_of(c, text, nullptr);
      const Attended whole = attend(*level, lane.view(), rows, taps);
      std::vector<std::int64_t> sum(lane.view().live, 0);
      for (std::uint32_t t = 0; t < c.tokens;) {
        QueryView some = rows;
        some.tokens = std::min(c.tokens - t, pick(random, 1, 9));
        some.q = rows.q + t * rows.q_stride;
        some.first_position = rows.first_position + t;
        TapOptions part = taps;
        part.first_token = taps.first_token > t ? taps.first_token - t : 0;
        const Attended result = attend(*level, lane.view(), some, part);
        for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += result.sum[k];
        t += some.tokens;
      }
      EXPECT_EQ(sum, whole.sum);
    }
  }
}

// Rows of one block shrink when a lane is long: 16 heads x 6000 entries leave few tokens a block.
TEST_F(TapTest, LongLaneWithManyHeads) {
  Case c;
  c.key_size = c.value_size = 16;
  c.group = 16;
  c.length = 6000;
  c.tokens = 13;
  const Text text(c, random);
  TapOptions taps;
  taps.on = taps.per_head = true;
  const Lane lane = Lane::as_appended(c, text, reference_kernels(), random);
  const QueryView rows = rows_of(c, text, nullptr);
  const Attended expected = attend(*levels()[0], lane.view(), rows, taps);
  for (const Kernels* level : levels()) {
    EXPECT_EQ(attend(*level, lane.view(), rows, taps), expected) << name_of(level->isa);
  }
  check_close(c, text, lane, taps, expected);
}

}  // namespace
}  // namespace quire::kernels::test
