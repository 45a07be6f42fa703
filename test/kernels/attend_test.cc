// Goal: attention is right, and the same bits at every level of instructions.
// Method: random lanes (shapes, borders, holes, windows, soft caps, sinks, types) with NaN and
// infinity in every slot that holds nothing; each level is compared bit for bit with the reference,
// and the reference with attention in double precision.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/lane_case.h"

namespace quire::kernels::test {
namespace {

constexpr int kCases = 120;

class AttendTest : public KernelTest {
 protected:
  // Every level against the reference, plain and repacked, and the reference against double.
  void check(const Case& c) {
    SCOPED_TRACE(::testing::Message() << c);
    const Text text(c, random);
    const Kernels& reference = reference_kernels();
    const Lane lane = Lane::as_appended(c, text, reference, random);
    const QueryView rows = rows_of(c, text, nullptr);
    const Attended expected = attend(reference, lane.view(), rows);
    for (const Kernels* level : levels()) {
      SCOPED_TRACE(name_of(level->isa));
      EXPECT_EQ(attend(*level, lane.view(), rows), expected);
      if (c.dropped_blocks == 0) {
        const Lane dense = Lane::repacked(c, text, *level, random);
        EXPECT_EQ(attend(*level, dense.view(), rows), expected) << "repacked";
      }
    }
    check_close(naive_attention(c, text).out, expected.out);
  }

  void check_close(const std::vector<double>& exact, const std::vector<float>& out) {
    double largest = 0, difference = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      ASSERT_TRUE(std::isfinite(out[i]));
      largest = std::max(largest, std::fabs(exact[i]));
      difference = std::max(difference, std::fabs(exact[i] - static_cast<double>(out[i])));
    }
    EXPECT_LE(difference, 1e-5 * std::max(largest, 0.1));
  }
};

TEST_F(AttendTest, EveryLevelEqualsReferenceOnRandomLanes) {
  for (int i = 0; i < kCases && !HasFailure(); ++i) check(random_case(random));
}

TEST_F(AttendTest, EveryHeadSizeAndGroup) {
  for (const std::uint32_t size : {16u, 32u, 48u, 64u, 80u, 96u, 112u, 128u, 160u, 192u, 256u}) {
    Case c;
    c.key_size = c.value_size = size;
    c.length = 70;
    c.dead = 0.2;
    check(c);
  }
  for (std::uint32_t group = 1; group <= 16; ++group) {
    Case c;
    c.group = group;
    c.length = 531;
    check(c);
  }
}

TEST_F(AttendTest, EveryBlockSizeAtEveryBorder) {
  for (const std::uint32_t block_tokens : {8u, 16u, 32u, 64u}) {
    for (const std::uint32_t length : {1u, 7u, 8u, 9u, 15u, 16u, 17u, 31u, 33u, 63u, 64u, 65u, 511u,
                                       512u, 513u, 1023u, 1024u, 1025u}) {
      Case c;
      c.key_size = 16;
      c.value_size = 32;
      c.block_tokens = block_tokens;
      c.length = length;
      c.tokens = std::min(length, 5u);
      c.dead = length % 2 == 0 ? 0.3 : 0.0;
      check(c);
    }
  }
}

TEST_F(AttendTest, LongChunkCrossesRowBlocksAndTiles) {
  Case c;
  c.key_size = c.value_size = 32;
  c.length = 700;
  c.tokens = 230;
  c.group = 2;
  check(c);
  c.window = 90;
  check(c);
  c.window = 0;
  c.dead = 0.4;
  check(c);
}

TEST_F(AttendTest, RowThatSeesNothingIsZero) {
  Case c;
  c.length = 40;
  c.window = 4;
  c.sinks = true;
  Text text(c, random);
  for (std::size_t p = 36; p < 40; ++p) text.live[p] = false;
  for (const Kernels* level : levels()) {
    const Lane lane = Lane::as_appended(c, text, *level, random);
    for (const float out : attend(*level, lane.view(), rows_of(c, text, nullptr)).out) {
      EXPECT_EQ(out, 0.0f);
    }
  }
}

TEST_F(AttendTest, InfinityInAFutureValueIsNotSeen) {
  Case c;
  c.length = 64;
  c.tokens = 8;
  Text text(c, random);
  for (std::uint32_t d = 0; d < c.value_size; ++d) text.v[63 * c.value_size + d] = 1e30f;
  for (const Kernels* level : levels()) {
    const Lane lane = Lane::as_appended(c, text, *level, random);
    const Attended result = attend(*level, lane.view(), rows_of(c, text, nullptr));
    const std::size_t last = std::size_t{7} * c.group * c.value_size;
    for (std::size_t i = 0; i < result.out.size(); ++i) {
      EXPECT_EQ(std::isinf(result.out[i]), i >= last) << i;
    }
  }
}

TEST_F(AttendTest, ScoresFarApartAndAllEqual) {
  for (const float size : {0.0f, 1e-20f, 30.0f, 200.0f}) {
    Case c;
    c.key_type = c.value_type = KvType::kF32;
    c.length = 600;
    c.tokens = 3;
    Text text(c, random);
    for (float& q : text.q) q *= size;
    const Lane lane = Lane::as_appended(c, text, reference_kernels(), random);
    const QueryView rows = rows_of(c, text, nullptr);
    const Attended expected = attend(reference_kernels(), lane.view(), rows);
    for (const Kernels* level : levels()) EXPECT_EQ(attend(*level, lane.view(), rows), expected);
    for (const float out : expected.out) EXPECT_TRUE(std::isfinite(out)) << size;
  }
}

// Two entries, scores 0 and x, values (1, 0) and (0, 1): the outputs' ratio is exp(x).
TEST_F(AttendTest, ExponentialIsAccurate) {
  Case c;
  c.key_type = c.value_type = KvType::kF32;
  c.key_size = c.value_size = 16;
  c.group = 16;
  c.length = 2;
  Text text(c, random);
  for (std::vector<float>* values : {&text.k, &text.v, &text.q}) {
    std::fill(values->begin(), values->end(), 0.0f);
  }
  text.v[0] = text.v[17] = text.k[16] = 1.0f;
  for (const Kernels* level : levels()) {
    double worst = 0;
    const Lane lane = Lane::as_appended(c, text, *level, random);
    for (int i = 0; i < 500; ++i) {
      for (std::size_t g = 0; g < 16; ++g) {
        text.q[g * 16] = -std::uniform_real_distribution<float>(0, i % 2 == 0 ? 87 : 2)(random);
      }
      QueryView rows = rows_of(c, text, nullptr);
      rows.scale = 1.0f;
      const Attended result = attend(*level, lane.view(), rows);
      for (std::size_t g = 0; g < 16; ++g) {
        const double exact = std::exp(static_cast<double>(text.q[g * 16]));
        const double ratio =
            static_cast<double>(result.out[g * 16 + 1]) / static_cast<double>(result.out[g * 16]);
        worst = std::max(worst, std::fabs(ratio / exact - 1));
      }
    }
    EXPECT_LE(worst, 3e-7) << name_of(level->isa);
  }
}

// One entry: p = 1, l = 1, and the output is the stored value itself.
TEST_F(AttendTest, LoadsEveryHalfAsF16cDoes) {
  Case c;
  c.key_size = 16;
  c.value_size = 256;
  c.group = 1;
  c.length = 1;
  for (const Kernels* level : levels()) {
    for (const KvType type : {KvType::kF16, KvType::kBF16}) {
      c.value_type = type;
      const Text text(c, random);
      const Lane lane = Lane::as_appended(c, text, *level, random);
      std::byte* v = const_cast<std::byte*>(lane.view().blocks[0].data) + lane.view().value_offset;
      for (std::uint32_t high = 0; high < 256; ++high) {
        for (std::uint32_t low = 0; low < 256; ++low) {
          const std::uint16_t bits = static_cast<std::uint16_t>(high << 8 | low);
          std::memcpy(v + low * 2, &bits, 2);
        }
        const Attended result = attend(*level, lane.view(), rows_of(c, text, nullptr));
        for (std::uint32_t low = 0; low < 256; ++low) {
          const float expected = load_element(v, type, low);
          if (std::isnan(expected)) {
            EXPECT_TRUE(std::isnan(result.out[low]));
          } else {
            EXPECT_EQ(result.out[low], expected) << name_of(level->isa) << high << ":" << low;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace quire::kernels::test
