// How a panel of 16 outputs lies in memory.
//
//   panel = inputs / 32 groups; under a super-scale (K-quants) a header stands before every 8
//   header: f16 d[16], and f16 dmin[16] where there are minima
//   group:  4 vectors of 64 bytes: byte (4 n + b) of vector j holds of output n the low 4 bits of
//           the codes of inputs 4 j + b (low nibble) and 16 + 4 j + b (high nibble);
//           8-bit codes: 8 vectors, one byte a code, vector j: inputs 4 j + b
//           1 or 2 vectors with the codes' further bits: bit j of a byte belongs to vector j of 8
//           (5 bits), or bits 2 (j mod 4) of vector j / 4 (6 bits)
//           scales: f16 d[16] (m[16]), or bytes sc[16] m[16], or signed bytes sc[16] of the first
//           16 inputs and sc[16] of the others
// So one vector holds four inputs of 16 outputs, as 8-bit dot products want them, and a step of
// decoding reads every byte once, in order.
//
// Everything here is each file's own: with external linkage the linker would keep one copy of an
// inline function, perhaps that of an instruction set the machine does not have.
#pragma once

#include "linear/linear.h"

namespace quire::linear {
namespace {

enum class Scales : std::uint8_t {
  kPlain,      // f16 d a group
  kMinimum,    // f16 d and f16 m a group
  kSuper,      // u8 sc and u8 m a group, f16 d and f16 dmin above: d * sc, -(dmin * m)
  kSuperHalf,  // i8 sc a half group, f16 d above
};

struct Shape {
  std::uint32_t bits;
  std::uint32_t zero;  // subtracted from a code; 0 where there are minima
  Scales scales;

  constexpr bool super() const { return scales >= Scales::kSuper; }
  constexpr bool minimum() const { return scales == Scales::kMinimum || scales == Scales::kSuper; }
  constexpr std::size_t code_bytes() const { return std::size_t{64} * bits; }
  constexpr std::size_t scale_bytes() const { return scales == Scales::kMinimum ? 64 : 32; }
  constexpr std::size_t group_bytes() const { return code_bytes() + scale_bytes(); }
  constexpr std::size_t header_bytes() const {
    return scales == Scales::kSuper ? 64 : scales == Scales::kSuperHalf ? 32 : 0;
  }
  constexpr std::size_t panel_bytes(std::uint32_t inputs) const {
    const std::size_t groups = inputs / kGroup;
    return groups * group_bytes() + (super() ? groups / kSuperGroups * header_bytes() : 0);
  }
};

constexpr Shape shape_of(Format format) {
  switch (format) {
    case Format::kQ4_0:
      return {4, 8, Scales::kPlain};
    case Format::kQ4_1:
      return {4, 0, Scales::kMinimum};
    case Format::kQ5_0:
      return {5, 16, Scales::kPlain};
    case Format::kQ5_1:
      return {5, 0, Scales::kMinimum};
    case Format::kQ8_0:
      return {8, 128, Scales::kPlain};
    case Format::kQ4_K:
      return {4, 0, Scales::kSuper};
    case Format::kQ5_K:
      return {5, 0, Scales::kSuper};
    case Format::kQ6_K:
      break;
  }
  return {6, 32, Scales::kSuperHalf};
}

}  // namespace
}  // namespace quire::linear
