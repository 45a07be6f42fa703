// Tiles become a row: left to right, then the learned sink, then the division.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/softmax_impl.h"

namespace quire::kernels {
namespace {

// Adds a tile to the tiles so far of `count` rows, at most 16: row_out[row][value_size] and
// (m, l), which start at {-infinity, 0}.
template <typename V>
void merge_tile(std::uint32_t count, RowSum* row, float* row_out, const RowSum* tile,
                const float* tile_out, std::uint32_t value_size) {
  // Of the two factors exp(m - m') of a row one is exp(0) = 1; the others are computed together.
  alignas(64) float factor[16] = {};
  for (std::uint32_t r = 0; r < count; ++r) {
    const bool higher = tile[r].m > row[r].m;
    factor[r] = higher ? row[r].m - tile[r].m : tile[r].m - row[r].m;
  }
  exp_of(V::load(factor)).store(factor);
  for (std::uint32_t r = 0; r < count; ++r, row_out += value_size, tile_out += value_size) {
    if (tile[r].m == kMinusInfinity) continue;
    if (row[r].m == kMinusInfinity) {
      row[r] = tile[r];
      for (std::uint32_t d = 0; d < value_size; d += 16) V::load(tile_out + d).store(row_out + d);
      continue;
    }
    const bool higher = tile[r].m > row[r].m;
    const float a = higher ? factor[r] : 1.0f, b = higher ? 1.0f : factor[r];
    row[r] = {higher ? tile[r].m : row[r].m, __builtin_fmaf(tile[r].l, b, row[r].l * a)};
    for (std::uint32_t d = 0; d < value_size; d += 16) {
      const V scaled = V::load(row_out + d) * V::all(a);
      V::fma(V::load(tile_out + d), V::all(b), scaled).store(row_out + d);
    }
  }
}

// `row` afterwards holds the final m and l, sink included.
template <typename V>
void finish_row(RowSum& row, const float* row_out, const float* sink, std::uint32_t value_size,
                float* out) {
  if (row.m == kMinusInfinity) {
    for (std::uint32_t d = 0; d < value_size; d += 16) V::all(0.0f).store(out + d);
    return;
  }
  float scale = 1.0f;
  if (sink != nullptr) {
    const float m = *sink > row.m ? *sink : row.m;
    scale = exp_of(row.m - m);
    row = {m, __builtin_fmaf(row.l, scale, exp_of(*sink - m))};
  }
  for (std::uint32_t d = 0; d < value_size; d += 16) {
    (V::load(row_out + d) * V::all(scale) / V::all(row.l)).store(out + d);
  }
}

// The row accumulates in `out` itself.
template <typename V>
void merge(const QueryView& rows, std::uint32_t value_size, const float* partial,
           std::size_t partial_row_stride, std::uint32_t tile_count) {
  for (std::uint32_t t = 0; t < rows.tokens; ++t) {
    for (std::uint32_t g = 0; g < rows.group; ++g, partial += partial_row_stride) {
      float* out = rows.out + t * rows.out_stride + std::size_t{g} * value_size;
      RowSum row = {kMinusInfinity, 0.0f};
      for (std::uint32_t i = 0; i < tile_count; ++i) {
        const float* from = partial + i * partial_floats(value_size);
        const RowSum tile = {from[0], from[1]};
        merge_tile<V>(1, &row, out, &tile, from + 2, value_size);
      }
      finish_row<V>(row, out, rows.sinks != nullptr ? rows.sinks + g : nullptr, value_size, out);
    }
  }
}

}  // namespace
}  // namespace quire::kernels
