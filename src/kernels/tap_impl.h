// Taps: what each key received from a block of rows, added in integer units so that the order of
// rows, blocks and threads cannot matter.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/row_block.h"
#include "kernels/softmax_impl.h"
#include "kernels/tile_impl.h"

namespace quire::kernels {
namespace {

// p and m of the tiles of a block of rows, by row; tile 0 is the lane's first.
struct TapRows {
  float* p;  // [rows][tiles][kTileOrdinals]
  float* m;  // [rows][tiles]
  std::size_t tiles;
};

template <typename V>
inline V reduce_heads(Reduce how, V so_far, V w) {
  switch (how) {
    case Reduce::kMax:
      return V::max(w, so_far);
    case Reduce::kSquareSum:
      return V::fma(w, w, so_far);
    case Reduce::kSum:
    case Reduce::kMean:
    case Reduce::kMissed:
      return so_far + w;
  }
  return so_far;
}

// Lanes [begin, end) of w go to sum[begin ... end - 1].
template <typename V>
inline void add_lanes_in_units(V w, std::uint32_t begin, std::uint32_t end, std::int64_t* sum) {
  if (begin == 0 && end == 16) {
    w.add_units(sum);
    return;
  }
  std::int64_t units[16] = {};
  w.add_units(units);
  for (std::uint32_t i = begin; i < end; ++i) sum[i] += units[i];
}

// One token's weights in one tile: `seen` are ordinals of the tile, factor[g] makes p a weight.
// index: what tile ordinal 0 is in tap.sum; it wraps below 0 for a tile that begins before the
// lane.  share: 1 / entries that the token sees.
template <typename V>
void tap_tile(const TapView& tap, std::uint32_t group, Interval seen, const float* p,
              std::size_t p_stride, const float* factor, float share, std::ptrdiff_t index) {
  const V divisor = V::all(static_cast<float>(group));
  for (std::uint32_t at = seen.begin / 16 * 16; at < seen.end; at += 16) {
    const std::uint32_t begin = at < seen.begin ? seen.begin - at : 0;
    const std::uint32_t end = smaller(16, seen.end - at);
    const std::ptrdiff_t key = index + static_cast<std::ptrdiff_t>(at);
    V reduced = V::all(0.0f);
    for (std::uint32_t g = 0; g < group; ++g) {
      const V w = V::load(p + g * p_stride + at) * V::all(factor[g]);
      reduced = g > 0                             ? reduce_heads(tap.group, reduced, w)
                : tap.group == Reduce::kSquareSum ? w * w
                                                  : w;
      if (tap.per_head != nullptr) {
        add_lanes_in_units(w, begin, end, tap.per_head + g * tap.per_head_stride + key);
      }
    }
    if (tap.group == Reduce::kMean || tap.group == Reduce::kMissed) reduced = reduced / divisor;
    if (tap.group == Reduce::kMissed) {
      reduced = V::where_less(reduced, V::all(share), V::all(1.0f), V::all(0.0f));
    }
    add_lanes_in_units(reduced, begin, end, tap.sum + key);
  }
}

// One token: `row` is its first head's row of the block, with final[g] its heads' m and l.
template <typename V>
void tap_token(const LaneView& lane, const TapView& tap, std::uint32_t group, Interval seen,
               const TapRows& kept, std::size_t row, const RowSum* final) {
  if (seen.begin >= seen.end) return;
  const std::uint32_t tile_from = first_tile(lane);
  const std::size_t p_stride = kept.tiles * kTileOrdinals;
  const float share = 1.0f / static_cast<float>(seen.end - seen.begin);
  for (std::uint32_t t = seen.begin / kTileOrdinals; t * kTileOrdinals < seen.end; ++t) {
    const std::size_t n = t - tile_from;
    float factor[kMaxGroup];
    for (std::uint32_t g = 0; g < group; ++g) {
      const float m = kept.m[(row + g) * kept.tiles + n];
      // An empty tile gave nothing, and -infinity - -infinity would be NaN.
      factor[g] = m == kMinusInfinity ? 0.0f : exp_of(m - final[g].m) / final[g].l;
    }
    const Ordinal begin = t * kTileOrdinals;
    const Interval here = overlap({begin, begin + kTileOrdinals}, seen);
    tap_tile<V>(tap, group, {here.begin - begin, here.end - begin},
                kept.p + row * p_stride + n * kTileOrdinals, p_stride, factor, share,
                static_cast<std::ptrdiff_t>(begin) - static_cast<std::ptrdiff_t>(lane.first));
  }
}

}  // namespace
}  // namespace quire::kernels
