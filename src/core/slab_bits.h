// Bitmaps as words and sizes: bit i is bit i % 64 of word i / 64.  Ranges are half-open.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace quire {

constexpr std::uint32_t words_of(std::uint32_t bits) {
  return (bits + 63) / 64;
}

inline bool test_bit(const std::uint64_t* words, std::uint32_t bit) {
  return (words[bit / 64] >> (bit % 64) & 1) != 0;
}

// First bit in [from, bits) that is set (`flip` 0) or clear (`flip` all ones); `bits` if none.
inline std::uint32_t next_bit(const std::uint64_t* words, std::uint32_t from, std::uint32_t bits,
                              std::uint64_t flip) {
  if (from >= bits) return bits;
  std::uint32_t word = from / 64;
  std::uint64_t candidates = (words[word] ^ flip) & (~std::uint64_t{0} << (from % 64));
  while (candidates == 0) {
    if (++word >= words_of(bits)) return bits;
    candidates = words[word] ^ flip;
  }
  return std::min(bits, word * 64 + static_cast<std::uint32_t>(std::countr_zero(candidates)));
}
inline std::uint32_t next_set(const std::uint64_t* words, std::uint32_t from, std::uint32_t bits) {
  return next_bit(words, from, bits, 0);
}
inline std::uint32_t next_clear(const std::uint64_t* words, std::uint32_t from,
                                std::uint32_t bits) {
  return next_bit(words, from, bits, ~std::uint64_t{0});
}

// First bit of the range of set bits that `bit`, which is set, belongs to.
inline std::uint32_t run_begin(const std::uint64_t* words, std::uint32_t bit) {
  std::uint32_t word = bit / 64;
  std::uint64_t clear = ~words[word] & (~std::uint64_t{0} >> (63 - bit % 64));
  while (clear == 0) {
    if (word == 0) return 0;
    clear = ~words[--word];
  }
  return word * 64 + 64 - static_cast<std::uint32_t>(std::countl_zero(clear));
}

// Calls f(begin, end) for each longest range of set bits in [0, bits), ascending.
template <typename F>
void for_each_run(const std::uint64_t* words, std::uint32_t bits, F f) {
  for (std::uint32_t begin = next_set(words, 0, bits); begin < bits;) {
    const std::uint32_t end = next_clear(words, begin, bits);
    f(begin, end);
    begin = next_set(words, end, bits);
  }
}

inline void write_range(std::uint64_t* words, std::uint32_t begin, std::uint32_t end, bool value) {
  for (std::uint32_t bit = begin; bit < end;) {
    const std::uint32_t stop = std::min(end, (bit / 64 + 1) * 64);
    const std::uint64_t mask = (~std::uint64_t{0} >> (64 - (stop - bit))) << (bit % 64);
    if (value) {
      words[bit / 64] |= mask;
    } else {
      words[bit / 64] &= ~mask;
    }
    bit = stop;
  }
}

inline std::uint32_t count_bits(const std::uint64_t* words, std::uint32_t bits) {
  std::uint32_t count = 0;
  for (std::uint32_t word = 0; word < words_of(bits); ++word) {
    count += static_cast<std::uint32_t>(std::popcount(words[word]));
  }
  return count;
}

}  // namespace quire
