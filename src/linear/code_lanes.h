// Codes of weights in registers and their products with rows, over the integer vectors of any
// level.  Include only from files compiled for the level.
//
// Vectors offers: Int; kCount; load_bytes, all_ints, all_bytes, all_words, zero; both, either
// (bits); left, right (16-bit shifts), left_wide (32-bit); add_words, add_ints, minus_ints; pairs
// (u8 x i8 in sums of two, 16 bits), wide (pairs of 16 bits in sums of two, 32 bits).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "linear/layout.h"

namespace quire::linear {
namespace {

template <typename Vectors>
struct CodeLanes : Vectors {
  using Int = typename Vectors::Int;

  // The codes of a group, unsigned: v[j] holds inputs 4 j + (0 ... 3) of each output.
  template <std::uint32_t kBits>
  struct Codes {
    Int v[8];
    void load(const std::byte* from) {
      if constexpr (kBits == 8) {
        for (int j = 0; j < 8; ++j) v[j] = Vectors::load_bytes(from + j * 64);
        return;
      }
      const Int nibble = Vectors::all_bytes(15);
      for (int j = 0; j < 4; ++j) {
        const Int two = Vectors::load_bytes(from + j * 64);
        v[j] = Vectors::both(two, nibble);
        v[j + 4] = Vectors::both(Vectors::right(two, 4), nibble);
      }
      if constexpr (kBits == 5) {
        const Int high = Vectors::load_bytes(from + 256);
        for (int j = 0; j < 8; ++j) v[j] = with_top(v[j], high, 4 - j, 16);
      }
      if constexpr (kBits == 6) {
        for (int j = 0; j < 8; ++j) {
          const Int high = Vectors::load_bytes(from + 256 + j / 4 * 64);
          v[j] = with_top(v[j], high, 4 - 2 * (j % 4), 48);
        }
      }
    }

   private:
    // `high` moved left by `shift`, which may be negative, gives the bits `mask` of the codes.
    static Int with_top(Int low, Int high, int shift, char mask) {
      const Int moved = shift >= 0 ? Vectors::left(high, shift) : Vectors::right(high, -shift);
      return Vectors::either(low, Vectors::both(moved, Vectors::all_bytes(mask)));
    }
  };

  // -zero * (sum of the inputs that vectors [kFrom, kTo) cover).
  template <std::uint32_t kZero, std::uint32_t kFrom, std::uint32_t kTo>
  static Int start(const std::byte* record) {
    if constexpr (kZero == 0) return Vectors::zero();
    const std::byte* sum = record + offsetof(RowRecord, minus_sum);
    const std::byte* low = record + offsetof(RowRecord, minus_low);
    Int covered = Vectors::all_ints(kTo - kFrom == 8 || kFrom == 4 ? sum : low);
    if constexpr (kFrom == 4) covered = Vectors::minus_ints(covered, Vectors::all_ints(low));
    return Vectors::left_wide(covered, std::countr_zero(kZero));
  }
};

// Products of four inputs each, in pairs of 16 bits that are widened before they overflow.
template <typename Vectors>
struct PairLanes : CodeLanes<Vectors> {
  using Int = typename Vectors::Int;
  template <std::uint32_t kBits>
  using Codes = typename CodeLanes<Vectors>::template Codes<kBits>;

  template <std::uint32_t kBits, std::uint32_t kZero, std::uint32_t kFrom, std::uint32_t kTo>
  static Int dot(const Codes<kBits>& codes, const std::byte* record) {
    // 255 x 128 x 2 does not fit in 16 bits: codes of 8 bits go as two nibbles.
    constexpr std::uint32_t kRun = kBits == 5 ? 4 : kBits == 6 ? 2 : 8;
    const Int nibble = Vectors::all_bytes(15);
    Int sum = CodeLanes<Vectors>::template start<kZero, kFrom, kTo>(record);
    for (std::uint32_t j = kFrom; j < kTo; j += kRun) {
      Int low = Vectors::zero(), high = Vectors::zero();
      for (std::uint32_t i = j; i < j + kRun && i < kTo; ++i) {
        const Int row = Vectors::all_ints(record + 4 * i), code = codes.v[i];
        if constexpr (kBits == 8) {
          const Int top = Vectors::both(Vectors::right(code, 4), nibble);
          low = Vectors::add_words(low, Vectors::pairs(Vectors::both(code, nibble), row));
          high = Vectors::add_words(high, Vectors::pairs(top, row));
        } else {
          low = Vectors::add_words(low, Vectors::pairs(code, row));
        }
      }
      sum = Vectors::add_ints(sum, Vectors::wide(low, Vectors::all_words(1)));
      if constexpr (kBits == 8) {
        sum = Vectors::add_ints(sum, Vectors::wide(high, Vectors::all_words(16)));
      }
    }
    return sum;
  }
};

// The same in one instruction: Vectors::dot_bytes(sum, u8, i8).
template <typename Vectors>
struct DotLanes : CodeLanes<Vectors> {
  using Int = typename Vectors::Int;
  template <std::uint32_t kBits>
  using Codes = typename CodeLanes<Vectors>::template Codes<kBits>;

  template <std::uint32_t kBits, std::uint32_t kZero, std::uint32_t kFrom, std::uint32_t kTo>
  static Int dot(const Codes<kBits>& codes, const std::byte* record) {
    Int sum = CodeLanes<Vectors>::template start<kZero, kFrom, kTo>(record);
    for (std::uint32_t j = kFrom; j < kTo; ++j) {
      sum = Vectors::dot_bytes(sum, codes.v[j], Vectors::all_ints(record + 4 * j));
    }
    return sum;
  }
};

}  // namespace
}  // namespace quire::linear
