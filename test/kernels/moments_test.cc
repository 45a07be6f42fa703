// Goal: the sums of weights and of their squares are right, the same floats at every level and in
// every cut of the rows.
// Method: random lanes against the reference bit for bit and against double precision.
#include <cmath>

#include "kernels/lane_case.h"

namespace quire::kernels::test {
namespace {

struct Moments {
  std::vector<float> sum, square;

  explicit Moments(std::size_t count) : sum(count, 0.25f), square(count, 0.5f) {}
  bool operator==(const Moments& other) const {
    const std::size_t bytes = sum.size() * sizeof(float);
    return sum.size() == other.sum.size() &&
           std::memcmp(sum.data(), other.sum.data(), bytes) == 0 &&
           std::memcmp(square.data(), other.square.data(), bytes) == 0;
  }
};

void add(const Kernels& level, const LaneView& lane, const QueryView& rows, Moments& to) {
  const Aligned<float> scratch(
      scratch_floats(lane.key_size, lane.value_size, rows.group, lane.live));
  level.add_moments(lane, rows, {to.sum.data(), to.square.data(), lane.live}, scratch.get());
}

Moments moments_of(const Kernels& level, const LaneView& lane, const QueryView& rows) {
  Moments moments(std::size_t{rows.group} * lane.live);
  add(level, lane, rows, moments);
  return moments;
}

class MomentsTest : public KernelTest {};

TEST_F(MomentsTest, EveryLevelEqualsReferenceAndDouble) {
  for (int i = 0; i < 80 && !HasFailure(); ++i) {
    const Case c = random_case(random);
    SCOPED_TRACE(::testing::Message() << c);
    const Text text(c, random);
    const Lane lane = Lane::as_appended(c, text, reference_kernels(), random);
    if (lane.view().live == 0) continue;
    const QueryView rows = rows_of(c, text, nullptr);
    const Moments expected = moments_of(reference_kernels(), lane.view(), rows);
    for (const Kernels* level : levels()) {
      EXPECT_EQ(moments_of(*level, lane.view(), rows), expected) << name_of(level->isa);
    }
    const Naive naive = naive_attention(c, text);
    for (std::uint32_t g = 0; g < c.group; ++g) {
      Ordinal index = 0;
      for (Position p = c.dropped_blocks * c.block_tokens; p < c.length; ++p) {
        if (!text.live[p]) continue;
        double sum = 0.25, square = 0.5;
        for (std::uint32_t t = 0; t < c.tokens; ++t) {
          const double w = naive.weight[(std::size_t{t} * c.group + g) * c.length + p];
          sum += w;
          square += w * w;
        }
        EXPECT_NEAR(expected.sum[g * lane.view().live + index], sum, 2e-5 * sum);
        EXPECT_NEAR(expected.square[g * lane.view().live + index], square, 2e-5 * square);
        ++index;
      }
    }
  }
}

// Also where a block of rows is as small as the room for a long lane's weights makes it.
TEST_F(MomentsTest, RowsMayComeOneByOne) {
  Case c;
  c.group = 5;
  c.length = 9000;
  c.tokens = 32;
  c.key_size = c.value_size = 16;
  c.dead = 0.3;
  const Text text(c, random);
  const Lane lane = Lane::as_appended(c, text, reference_kernels(), random);
  const QueryView rows = rows_of(c, text, nullptr);
  for (const Kernels* level : levels()) {
    Moments one_by_one(std::size_t{c.group} * lane.view().live);
    for (std::uint32_t t = 0; t < c.tokens; ++t) {
      QueryView row = rows;
      row.q += t * rows.q_stride;
      row.tokens = 1;
      row.first_position += t;
      add(*level, lane.view(), row, one_by_one);
    }
    EXPECT_EQ(one_by_one, moments_of(*level, lane.view(), rows)) << name_of(level->isa);
  }
}

}  // namespace
}  // namespace quire::kernels::test
