// Goal: the kernels for chunks (AMX) compute attention to bf16 rounding, whatever the lane looks
// like, are the exact ones for few rows, and let taps change nothing.
// Method: random lanes with NaN and infinity in every slot that holds nothing, against attention in
// double precision; memcmp with the exact kernels where they must be used.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/lane_case.h"

namespace quire::kernels::test {
namespace {

class ChunkAttendTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    chunk_ = chunk_kernels_for(Isa::kAuto);
    EXPECT_EQ(chunk_ != nullptr, machine_has(Isa::kAmx));
    EXPECT_EQ(chunk_kernels_for(Isa::kAvx512), nullptr);
  }

  void check(const Case& c) {
    SCOPED_TRACE(::testing::Message() << c);
    const Text text(c, random);
    const Lane lane = Lane::as_appended(c, text, reference_kernels(), random);
    const Attended got = attend(*chunk_, lane.view(), rows_of(c, text, nullptr));
    const std::vector<double> exact = naive_attention(c, text).out;
    double largest = 0, difference = 0, squares = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      ASSERT_TRUE(std::isfinite(got.out[i]));
      const double d = std::fabs(exact[i] - static_cast<double>(got.out[i]));
      largest = std::max(largest, std::fabs(exact[i]));
      difference = std::max(difference, d);
      squares += d * d;
    }
    // p is rounded by up to 2^-9 of itself; V and the scores are all but exact.
    EXPECT_LE(difference, 0x1p-8 * std::max(largest, 0.1));
    EXPECT_LE(std::sqrt(squares / static_cast<double>(exact.size())),
              1e-3 * std::max(largest, 0.1));
  }

  const Kernels* chunk_ = nullptr;
};

TEST_F(ChunkAttendTest, IsAttentionOnRandomLanes) {
  if (chunk_ == nullptr) return;  // said above: the machine has no AMX
  for (int i = 0; i < 80 && !HasFailure(); ++i) {
    Case c = random_case(random);
    c.length = std::max(c.length, 40u);
    c.tokens = std::min(c.length, pick(random, 24, 90));
    c.dropped_blocks = 0;
    check(c);
  }
}

TEST_F(ChunkAttendTest, ManyTilesAndBlocksOfRows) {
  if (chunk_ == nullptr) return;
  for (const std::uint32_t length : {512u, 513u, 1100u}) {
    Case c;
    c.length = length;
    c.tokens = 200;
    check(c);
    c.dead = 0.3;
    check(c);
  }
}

TEST_F(ChunkAttendTest, FewRowsAreExact) {
  if (chunk_ == nullptr) return;
  Case c;
  c.length = 700;
  for (const std::uint32_t tokens : {1u, 4u, 7u}) {
    for (const bool on : {false, true}) {
      c.tokens = tokens;
      const Text text(c, random);
      const Lane lane = Lane::as_appended(c, text, reference_kernels(), random);
      const QueryView rows = rows_of(c, text, nullptr);
      EXPECT_EQ(attend(*chunk_, lane.view(), rows, {.on = on}),
                attend(reference_kernels(), lane.view(), rows, {.on = on}));
    }
  }
}

// A policy that watches changes no output, and sees what it would see of the exact kernels.
TEST_F(ChunkAttendTest, TapsAreExactAndChangeNoOutput) {
  if (chunk_ == nullptr) return;
  Case c;
  c.length = 1300;
  c.dead = 0.1;
  for (const std::uint32_t tokens : {40u, 64u, 150u}) {
    for (const std::uint32_t first : {0u, 13u, tokens - 1}) {
      c.tokens = tokens;
      const Text text(c, random);
      const Lane lane = Lane::as_appended(c, text, reference_kernels(), random);
      const QueryView rows = rows_of(c, text, nullptr);
      const TapOptions taps = {.on = true, .per_head = true, .first_token = first};
      const Attended got = attend(*chunk_, lane.view(), rows, taps);
      const Attended exact = attend(reference_kernels(), lane.view(), rows, taps);
      EXPECT_EQ(got.sum, exact.sum);
      EXPECT_EQ(got.per_head, exact.per_head);
      const Attended plain = attend(*chunk_, lane.view(), rows);
      EXPECT_EQ(std::memcmp(got.out.data(), plain.out.data(), got.out.size() * sizeof(float)), 0);
    }
  }
}

}  // namespace
}  // namespace quire::kernels::test
