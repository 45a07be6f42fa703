// exp, tanh and the softmax of one row's tile, for any vector of 16 floats.  The same steps as
// reference.cc, so the same bits.
//
// The *_impl.h files are templates over the vector type in an anonymous namespace: each
// instruction set's file gets its own copy, and the linker has nothing to merge.
#pragma once

#include <cstdint>

#include "kernels/half.h"
#include "kernels/row_block.h"
#include "kernels/softmax_constants.h"

#if defined(__clang__)
#define QUIRE_UNROLL _Pragma("clang loop unroll(full)")
#else
#define QUIRE_UNROLL _Pragma("GCC unroll 16")
#endif

namespace quire::kernels {
namespace {

constexpr float kMinusInfinity = -__builtin_inff();

template <typename V>
inline V exp_of(V x) {
  const V magic = V::all(kRoundMagic);
  const V shifted = V::fma(x, V::all(kLog2E), magic);
  const V n = shifted - magic;
  const V r = V::fma(n, V::all(-kLn2Low), V::fma(n, V::all(-kLn2High), x));
  V y = V::all(kExpPoly[0]);
  QUIRE_UNROLL
  for (int i = 1; i < 7; ++i) y = V::fma(y, r, V::all(kExpPoly[i]));
  y = V::fma(y, r, V::all(1.0f));
  return V::times_power_or_zero(y, n, shifted, x);
}

inline float exp_of(float x) {
  if (x < kExpZero) return 0.0f;
  const float shifted = __builtin_fmaf(x, kLog2E, kRoundMagic);
  const float n = shifted - kRoundMagic;
  const float r = __builtin_fmaf(n, -kLn2Low, __builtin_fmaf(n, -kLn2High, x));
  float y = kExpPoly[0];
  for (int i = 1; i < 7; ++i) y = __builtin_fmaf(y, r, kExpPoly[i]);
  y = __builtin_fmaf(y, r, 1.0f);
  return y * float_of_bits((bits_of_float(shifted) << 23) + kOneBits);
}

template <typename V>
inline V tanh_of(V x) {
  const V magnitude = V::abs(x), square = x * x;
  V y = V::all(kTanhPoly[0]);
  QUIRE_UNROLL
  for (int i = 1; i < 5; ++i) y = V::fma(y, square, V::all(kTanhPoly[i]));
  const V small = V::fma(x * square, y, x);
  const V e = exp_of(V::all(-2.0f) * magnitude), one = V::all(1.0f);
  const V large = V::with_sign_of((one - e) / (one + e), x);
  return V::where_less(magnitude, V::all(kTanhSmall), small, large);
}

struct RowSum {
  float m, l;
};

// The largest of `count` scores, NaN passed over; four chains, as order cannot matter.
template <typename V>
inline float largest(const float* scores, std::uint32_t count) {
  V most[4];
  QUIRE_UNROLL
  for (V& m : most) m = V::all(kMinusInfinity);
  std::uint32_t i = 0;
  for (; i + 64 <= count; i += 64) {
    QUIRE_UNROLL
    for (std::uint32_t j = 0; j < 4; ++j) most[j] = V::max(V::load(scores + i + 16 * j), most[j]);
  }
  for (; i < count; i += 16) most[0] = V::max(V::load(scores + i), most[0]);
  return V::max(V::max(most[0], most[1]), V::max(most[2], most[3])).max_lanes();
}

template <typename V>
void cap_scores(float* scores, std::uint32_t count, float softcap) {
  const V cap = V::all(softcap), inverse = V::all(1.0f / softcap);
  for (std::uint32_t i = 0; i < count; i += 16) {
    (cap * tanh_of(V::load(scores + i) * inverse)).store(scores + i);
  }
}

// m of the scores [begin, end) of a tile.  They are capped, if there is a cap, and what is around
// them up to multiples of 16 becomes -infinity.
// REQUIRES: begin < end <= kTileOrdinals; `scores` has kTileOrdinals floats.
template <typename V>
float maximum_of_tile(float* scores, std::uint32_t begin, std::uint32_t end, float softcap) {
  const std::uint32_t first = begin / 16 * 16, last = (end + 15) / 16 * 16;
  if (softcap != 0.0f) cap_scores<V>(scores + first, last - first, softcap);
  for (std::uint32_t i = first; i < begin; ++i) scores[i] = kMinusInfinity;
  for (std::uint32_t i = end; i < last; ++i) scores[i] = kMinusInfinity;
  return largest<V>(scores + first, last - first) + 0.0f;  // one zero, whichever came first
}

// Turns those scores into p, in place and into `copy` if there is one; returns l.
// REQUIRES: m is not -infinity.
template <typename V>
float exponentials_of_tile(float* scores, std::uint32_t begin, std::uint32_t end, float m,
                           float* copy) {
  const std::uint32_t first = begin / 16 * 16, last = (end + 15) / 16 * 16;
  V sum = V::all(0.0f);
  const V most = V::all(m);
  if (copy == nullptr) copy = scores;
  for (std::uint32_t i = first; i < last; i += 16) {
    const V p = exp_of(V::load(scores + i) - most);
    p.store(scores + i);
    p.store(copy + i);
    sum = sum + p;
  }
  return sum.add_lanes();
}

}  // namespace
}  // namespace quire::kernels
