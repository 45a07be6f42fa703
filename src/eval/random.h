// Random numbers by counter: number i of a stream depends on the stream and i alone, never on what
// was drawn before, so neither order nor threads can change a result.
#pragma once

#include <cstdint>
#include <string_view>

namespace quire::eval {

class Stream {
 public:
  // Streams of different purposes are independent, also where their seeds are equal.
  constexpr explicit Stream(std::uint64_t seed, std::string_view purpose = {}) : key_(mix(seed)) {
    for (const char letter : purpose) key_ = mix(key_ ^ static_cast<unsigned char>(letter));
  }

  // A stream of its own for item `index`.
  constexpr Stream of(std::uint64_t index) const { return Stream(mix(key_ ^ mix(~index)), {}); }
  constexpr std::uint64_t at(std::uint64_t i) const { return mix(key_ + i * kGolden); }
  // 0 ... n - 1; the bias is below n / 2^64.  REQUIRES: n > 0.
  constexpr std::uint64_t below(std::uint64_t n, std::uint64_t i) const { return at(i) % n; }
  constexpr double unit(std::uint64_t i) const {  // [0, 1)
    return static_cast<double>(at(i) >> 11) * 0x1p-53;
  }

 private:
  static constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15u;

  // The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection with full avalanche.
  static constexpr std::uint64_t mix(std::uint64_t x) {
    x += kGolden;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }

  std::uint64_t key_;
};

}  // namespace quire::eval
