// Goal: the kernels for chunks (AMX) compute attention to bf16 rounding, whatever the lane looks
// like, let no row see what is not its own, and let taps change nothing.
// Method: random lanes with NaN and infinity in every slot that holds nothing, against attention in
// double precision; memcmp with the exact kernels where they must be used.
#include <gtest/gtest.h>

#include <algorithm>
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

// A value without a bf16 reaches the rows that see it, as the exact kernels have it, and no other.
TEST_F(ChunkAttendTest, ValuesThatAreNoNumbersStayWithTheRowsThatSeeThem) {
  if (chunk_ == nullptr) return;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float poisons[] = {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), 3.4e38f};
  for (int i = 0; i < 24 && !HasFailure(); ++i) {
    Case c;
    c.length = pick_of(random, {120u, 512u, 530u, 1100u});
    c.tokens = pick(random, 30, 110);
    c.group = pick(random, 1, 4);
    c.window = pick_of(random, {0u, 0u, 40u});
    c.key_type = c.value_type = pick_of(random, {KvType::kF16, KvType::kBF16, KvType::kF32});
    Text text(c, random);
    const Lane clean = Lane::as_appended(c, text, reference_kernels(), random);
    const std::uint32_t before = std::min(c.length - c.tokens, 20u);  // rows
    const Position poisoned = pick(random, c.length - c.tokens - before, c.length - 1);
    text.v[std::size_t{poisoned} * c.value_size + pick(random, 0, c.value_size - 1)] =
        poisons[static_cast<std::size_t>(i) % 4];
    const Lane lane = Lane::as_appended(c, text, reference_kernels(), random);
    const QueryView rows = rows_of(c, text, nullptr);
    SCOPED_TRACE(::testing::Message() << c << " poisoned " << poisoned);
    const Attended got = attend(*chunk_, lane.view(), rows);
    const Attended untouched = attend(*chunk_, clean.view(), rows);
    const Attended exact = attend(kernels_for(Isa::kAuto), lane.view(), rows);
    const std::size_t size = std::size_t{c.group} * c.value_size;
    for (std::uint32_t t = 0; t < c.tokens; ++t) {
      const Position position = rows.first_position + t;
      const bool sees = position >= poisoned && (c.window == 0 || position - poisoned < c.window);
      const std::vector<float>& want = sees ? exact.out : untouched.out;
      for (std::size_t d = t * size; d < (t + 1) * size; ++d) {
        if (std::isnan(want[d]) && std::isnan(got.out[d])) continue;
        ASSERT_EQ(std::memcmp(&want[d], &got.out[d], sizeof(float)), 0) << "token " << t;
      }
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
