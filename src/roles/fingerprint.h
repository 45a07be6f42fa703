// FNV-1a, 64 bits: finds what was changed by accident, not on purpose.  Any one byte that differs
// gives another value, as every step is a bijection.
#pragma once

#include <cstdint>
#include <string_view>

namespace quire::roles {

class Fingerprint {
 public:
  constexpr void add(std::string_view bytes) {
    for (const char byte : bytes) value_ = (value_ ^ static_cast<unsigned char>(byte)) * kPrime;
  }
  constexpr std::uint64_t value() const { return value_; }

 private:
  static constexpr std::uint64_t kPrime = 0x100000001B3;

  std::uint64_t value_ = 0xCBF29CE484222325;
};

}  // namespace quire::roles
