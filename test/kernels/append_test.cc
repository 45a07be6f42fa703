// Goal: append, copy_entries and norms store and read exactly what the reference does.
// Method: random and special values into random slots of guarded blocks, compared byte for byte;
// bytes of other slots must not change.
#include <bit>
#include <cmath>

#include "kernels/lane_case.h"

namespace quire::kernels::test {
namespace {

using AppendTest = KernelTest;

struct BlockShape {
  std::uint32_t key_size, value_size, tokens;
  KvType key_type, value_type;
  std::size_t value_offset, bytes;
};

BlockShape random_shape(Random& random) {
  const auto sizes = {16u, 32u, 64u, 80u, 96u, 112u, 128u, 192u, 256u};
  const auto types = {KvType::kF16, KvType::kBF16, KvType::kF32};
  BlockShape s{};
  s.key_size = pick_of(random, sizes);
  s.value_size = pick_of(random, sizes);
  s.tokens = pick_of(random, {8u, 16u, 32u, 64u});
  s.key_type = pick_of(random, types);
  s.value_type = pick_of(random, types);
  s.value_offset = std::size_t{s.key_size} * s.tokens * bytes_of(s.key_type);
  s.bytes = s.value_offset + std::size_t{s.value_size} * s.tokens * bytes_of(s.value_type);
  return s;
}

// Normal numbers, subnormals of both 16-bit types, ties, overflow, infinity, NaN with payloads.
float special(Random& random) {
  const std::uint32_t bits = static_cast<std::uint32_t>(random());
  switch (bits % 6) {
    case 0:
      return float_of_bits(static_cast<std::uint32_t>(random()));
    case 1:
      return std::ldexp(1.0f, static_cast<int>(random() % 60) - 40) *
             (1.0f + static_cast<float>(random() % 4096) * 0x1p-12f);
    case 2:
      return float_of_bits((bits & 0x80000000u) | 0x7f800000u | (bits >> 8 & 0x7fffffu));
    case 3:
      return 65504.0f + static_cast<float>(random() % 64);
    case 4:
      return static_cast<float>(random() % 2048) * 0x1p-25f;
    default:
      return std::normal_distribution<float>()(random);
  }
}

TEST_F(AppendTest, EveryLevelStoresWhatTheReferenceStores) {
  for (int i = 0; i < 300 && !HasFailure(); ++i) {
    const BlockShape s = random_shape(random);
    const std::uint32_t slot = pick(random, 0, s.tokens - 1);
    const std::uint32_t tokens = pick(random, 1, s.tokens - slot);
    const std::size_t k_stride = s.key_size + pick(random, 0, 5);
    const std::size_t v_stride = s.value_size + pick(random, 0, 5);
    std::vector<float> k(tokens * k_stride), v(tokens * v_stride);
    for (float& x : k) x = special(random);
    for (float& x : v) x = special(random);
    const auto stored = [&](const Kernels& level) {
      const Aligned<std::byte> block(s.bytes);
      std::memset(block.get(), 0x5a, s.bytes);
      level.append(block.get(), s.tokens, s.value_offset, s.key_type, s.value_type, s.key_size,
                   s.value_size, slot, tokens, k.data(), k_stride, v.data(), v_stride);
      return std::vector<std::byte>(block.get(), block.get() + s.bytes);
    };
    const std::vector<std::byte> expected = stored(reference_kernels());
    for (const Kernels* level : levels())
      EXPECT_EQ(stored(*level), expected) << name_of(level->isa);
    for (std::uint32_t t = 0; t < s.tokens; ++t) {
      if (t >= slot && t < slot + tokens) continue;
      const std::byte* other = expected.data() + t * bytes_of(s.key_type);
      EXPECT_EQ(other[0], std::byte{0x5a}) << "slot " << t;
    }
  }
}

TEST_F(AppendTest, StoredValuesComeBack) {
  for (const Kernels* level : levels()) {
    for (const KvType type : {KvType::kF16, KvType::kBF16, KvType::kF32}) {
      std::vector<float> k(32), v(16);
      for (std::size_t i = 0; i < k.size(); ++i) k[i] = static_cast<float>(i) - 7.5f;
      for (std::size_t i = 0; i < v.size(); ++i) v[i] = 3.0f * static_cast<float>(i);
      const std::size_t offset = 32 * 8 * bytes_of(type);
      const Aligned<std::byte> block(offset + 16 * 8 * bytes_of(type));
      level->append(block.get(), 8, offset, type, type, 32, 16, 5, 1, k.data(), 32, v.data(), 16);
      for (std::size_t d = 0; d < 32; ++d)
        EXPECT_EQ(load_element(block.get(), type, d * 8 + 5), k[d]);
      for (std::size_t d = 0; d < 16; ++d) {
        EXPECT_EQ(load_element(block.get() + offset, type, 5 * 16 + d), v[d]);
      }
    }
  }
}

TEST_F(AppendTest, CopiedEntriesLieTogetherAndOthersStay) {
  for (int i = 0; i < 100 && !HasFailure(); ++i) {
    const BlockShape s = random_shape(random);
    const std::uint64_t all =
        s.tokens == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << s.tokens) - 1;
    const std::uint64_t slots = random() & random() & all;
    const auto count = static_cast<std::uint32_t>(std::popcount(slots));
    const std::uint32_t to_slot = pick(random, 0, s.tokens - count);
    const Aligned<std::byte> from(s.bytes);
    for (std::size_t b = 0; b < s.bytes; ++b) from.get()[b] = static_cast<std::byte>(random());
    std::vector<std::byte> expected(s.bytes, std::byte{0x5a});
    const std::size_t row_bytes = s.value_size * bytes_of(s.value_type);
    for (std::uint32_t slot = 0, to = to_slot; slot < s.tokens; ++slot) {
      if ((slots >> slot & 1) == 0) continue;
      for (std::uint32_t d = 0; d < s.key_size; ++d) {
        const std::size_t row = std::size_t{d} * s.tokens, bytes = bytes_of(s.key_type);
        std::memcpy(&expected[(row + to) * bytes], from.get() + (row + slot) * bytes, bytes);
      }
      std::memcpy(&expected[s.value_offset + to * row_bytes],
                  from.get() + s.value_offset + slot * row_bytes, row_bytes);
      ++to;
    }
    std::vector<const Kernels*> levels_and_twin = levels();
    levels_and_twin.push_back(&reference_kernels());
    for (const Kernels* level : levels_and_twin) {
      const Aligned<std::byte> to(s.bytes);
      std::memset(to.get(), 0x5a, s.bytes);
      level->copy_entries(from.get(), slots, to.get(), to_slot, s.tokens, s.value_offset,
                          s.key_type, s.value_type, s.key_size, s.value_size);
      EXPECT_EQ(std::memcmp(to.get(), expected.data(), s.bytes), 0) << name_of(level->isa);
    }
  }
}

TEST_F(AppendTest, NormsOfLiveEntries) {
  for (int i = 0; i < 60 && !HasFailure(); ++i) {
    const Case c = random_case(random);
    SCOPED_TRACE(::testing::Message() << c);
    const Text text(c, random);
    const Lane lane = Lane::as_appended(c, text, reference_kernels(), random);
    const std::uint32_t live = lane.view().live;
    std::vector<float> k(live), v(live);
    reference_kernels().norms(lane.view(), k.data(), v.data());
    for (const Kernels* level : levels()) {
      std::vector<float> level_k(live, -1), level_v(live, -1);
      level->norms(lane.view(), level_k.data(), nullptr);
      level->norms(lane.view(), nullptr, level_v.data());
      EXPECT_EQ(level_k, k) << name_of(level->isa);
      EXPECT_EQ(level_v, v) << name_of(level->isa);
    }
    std::uint32_t index = 0;
    for (Position p = c.dropped_blocks * c.block_tokens; p < c.length; ++p) {
      if (!text.live[p]) continue;
      double square = 0;
      for (std::uint32_t d = 0; d < c.key_size; ++d) {
        const double x = static_cast<double>(text.k[std::size_t{p} * c.key_size + d]);
        square += x * x;
      }
      EXPECT_NEAR(static_cast<double>(k[index]), std::sqrt(square), 5e-3 * std::sqrt(square));
      ++index;
    }
  }
}

}  // namespace
}  // namespace quire::kernels::test
