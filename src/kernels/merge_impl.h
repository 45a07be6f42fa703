// Tiles become a row: left to right, then the learned sink, then the division.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/softmax_impl.h"

namespace quire::kernels {
namespace {

// row_out[value_size] and (m, l) of the tiles so far; starts at {-infinity, 0}.
template <typename V>
void merge_tile(RowSum& row, float* row_out, const RowSum& tile, const float* tile_out,
                std::uint32_t value_size) {
  if (tile.m == kMinusInfinity) return;
  if (row.m == kMinusInfinity) {
    row = tile;
    for (std::uint32_t d = 0; d < value_size; d += 16) V::load(tile_out + d).store(row_out + d);
    return;
  }
  const float m = tile.m > row.m ? tile.m : row.m;
  const float a = exp_of(row.m - m), b = exp_of(tile.m - m);
  row = {m, __builtin_fmaf(tile.l, b, row.l * a)};
  for (std::uint32_t d = 0; d < value_size; d += 16) {
    const V scaled = V::load(row_out + d) * V::all(a);
    V::fma(V::load(tile_out + d), V::all(b), scaled).store(row_out + d);
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
        const float* tile = partial + i * partial_floats(value_size);
        merge_tile<V>(row, out, {tile[0], tile[1]}, tile + 2, value_size);
      }
      finish_row<V>(row, out, rows.sinks != nullptr ? rows.sinks + g : nullptr, value_size, out);
    }
  }
}

}  // namespace
}  // namespace quire::kernels
