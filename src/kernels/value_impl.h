// P . V: for each row and d one fma chain over the ordinals a row sees, ascending.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/row_block.h"
#include "kernels/softmax_impl.h"
#include "kernels/tile_impl.h"

namespace quire::kernels {
namespace {

// Rows of V: by runs of a tile, value_bytes apart inside a run.
struct ValueRows {
  const ValueRun* runs;
  std::uint32_t run_count;
  std::size_t row_bytes;
};

// Adds ordinals [seen.begin, seen.end) to out[row * out_stride + 16 * vector].
// p[row * kScoreStride + ordinal]; `first_byte`: of the first vector in a row of V.
template <typename V, KvType kType, std::uint32_t kRows, std::uint32_t kVectors>
void add_values(const ValueRows& values, std::size_t first_byte, Interval seen, const float* p,
                float* out, std::size_t out_stride) {
  V sum[kRows][kVectors];
  QUIRE_UNROLL
  for (std::uint32_t r = 0; r < kRows; ++r) {
    QUIRE_UNROLL
    for (std::uint32_t i = 0; i < kVectors; ++i) sum[r][i] = V::load(out + r * out_stride + 16 * i);
  }
  for (std::uint32_t n = 0; n < values.run_count; ++n) {
    const ValueRun& run = values.runs[n];
    if (run.first >= seen.end) break;
    const Interval here = overlap({run.first, run.first + run.count}, seen);
    if (here.begin == here.end) continue;
    const std::byte* v = run.v + (here.begin - run.first) * values.row_bytes + first_byte;
    const std::byte* ahead = values.runs[smaller(n + 1, values.run_count - 1)].v + first_byte;
    for (std::uint32_t i = here.begin; i < here.end;
         ++i, v += values.row_bytes, ahead += values.row_bytes) {
      V weight[kRows];
      QUIRE_UNROLL
      for (std::uint32_t r = 0; r < kRows; ++r) weight[r] = V::all(p[r * kScoreStride + i]);
      QUIRE_UNROLL
      for (std::uint32_t j = 0; j < kVectors; ++j) {
        const V value = V::template load<kType>(v + j * 16 * bytes_of(kType));
        // Runs lie anywhere; f32 ones are mostly converted and near.
        if constexpr (kType != KvType::kF32) __builtin_prefetch(ahead + j * 16 * bytes_of(kType));
        QUIRE_UNROLL
        for (std::uint32_t r = 0; r < kRows; ++r) sum[r][j] = V::fma(weight[r], value, sum[r][j]);
      }
    }
  }
  QUIRE_UNROLL
  for (std::uint32_t r = 0; r < kRows; ++r) {
    QUIRE_UNROLL
    for (std::uint32_t i = 0; i < kVectors; ++i) sum[r][i].store(out + r * out_stride + 16 * i);
  }
}

using AddValues = void (*)(const ValueRows&, std::size_t, Interval, const float*, float*,
                           std::size_t);

template <typename V, KvType kType, std::uint32_t kRows = V::kValueRows,
          std::uint32_t kVectors = V::kValueVectors>
AddValues add_values_for(std::uint32_t rows, std::uint32_t vectors) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return add_values_for<V, kType, kRows - 1, kVectors>(rows, vectors);
  }
  if constexpr (kVectors > 1) {
    if (vectors < kVectors) return add_values_for<V, kType, kRows, kVectors - 1>(rows, vectors);
  }
  return add_values<V, kType, kRows, kVectors>;
}

// All of value_size for at most kValueRows rows that see the same ordinals.
template <typename V, KvType kType>
void add_slices(const ValueRows& values, std::uint32_t value_size, std::uint32_t rows,
                Interval seen, const float* p, float* out) {
  if (seen.begin >= seen.end) return;
  // Slices of nearly equal width: 5 vectors are 3 + 2, not 4 + 1.
  const std::uint32_t vectors = value_size / 16;
  const std::uint32_t slices = (vectors + V::kValueVectors - 1) / V::kValueVectors;
  for (std::uint32_t s = 0; s < slices; ++s) {
    const std::uint32_t begin = vectors * s / slices, end = vectors * (s + 1) / slices;
    add_values_for<V, kType>(rows, end - begin)(values, begin * 16 * bytes_of(kType), seen, p,
                                                out + begin * 16, value_size);
  }
}

// Rows side by side may see different ordinals: what all see goes through one loop, what is before
// and behind it row by row.  `seen[row]` relative to the tile.
template <typename V, KvType kType>
void add_row_block(const ValueRows& values, std::uint32_t value_size, std::uint32_t rows,
                   const Interval* seen, Interval chunk, const float* scores, float* out) {
  const std::uint32_t step = even_step(rows, V::kValueRows);
  for (std::uint32_t row = 0; row < rows; row += step) {
    const std::uint32_t here = smaller(rows - row, step);
    Interval all = chunk;
    for (std::uint32_t r = row; r < row + here; ++r) all = overlap(all, seen[r]);
    const float* p = scores + row * kScoreStride + kScorePad;
    float* o = out + std::size_t{row} * value_size;
    for (std::uint32_t r = 0; r < here; ++r) {
      const Interval own = overlap(chunk, seen[row + r]);
      const Interval before = {own.begin, smaller(own.end, all.begin)};
      add_slices<V, kType>(values, value_size, 1, before, p + r * kScoreStride, o + r * value_size);
    }
    add_slices<V, kType>(values, value_size, here, all, p, o);
    for (std::uint32_t r = 0; r < here; ++r) {
      const Interval own = overlap(chunk, seen[row + r]);
      const Interval behind = {larger(own.begin, larger(all.begin, all.end)), own.end};
      add_slices<V, kType>(values, value_size, 1, behind, p + r * kScoreStride, o + r * value_size);
    }
  }
}

// Converts ordinals [chunk.begin, chunk.end) to f32 [ordinal][value_size].
template <typename V, KvType kType>
void convert_values(const ValueRows& values, std::uint32_t value_size, Interval chunk, float* to) {
  for (std::uint32_t n = 0; n < values.run_count; ++n) {
    const ValueRun& run = values.runs[n];
    if (run.first >= chunk.end) break;
    const Interval here = overlap({run.first, run.first + run.count}, chunk);
    if (here.begin == here.end) continue;
    const std::byte* v = run.v + (here.begin - run.first) * values.row_bytes;
    const std::byte* ahead = values.runs[smaller(n + 1, values.run_count - 1)].v;
    for (std::uint32_t i = here.begin; i < here.end; ++i) {
      float* row = to + std::size_t{i - chunk.begin} * value_size;
      for (std::uint32_t d = 0; d < value_size; d += 16) {
        __builtin_prefetch(ahead + d * bytes_of(kType));
        V::template load<kType>(v + d * bytes_of(kType)).store(row + d);
      }
      v += values.row_bytes;
      ahead += values.row_bytes;
    }
  }
}

// out[row][value_size] += P . V of one tile.
template <typename V, KvType kType>
void value_tile(const LaneView& lane, const TileView& tile, std::uint32_t rows,
                const Interval* seen, Interval all, const float* scores, float* converted,
                float* out) {
  const ValueRows stored = {tile.runs, tile.run_count, lane.value_size * bytes_of(kType)};
  if (rows <= V::kValueRows) {
    add_row_block<V, kType>(stored, lane.value_size, rows, seen, all, scores, out);
    return;
  }
  for (std::uint32_t begin = all.begin; begin < all.end; begin += kValueTokens) {
    const Interval chunk = overlap({begin, begin + static_cast<std::uint32_t>(kValueTokens)}, all);
    convert_values<V, kType>(stored, lane.value_size, chunk, converted);
    const ValueRun run = {reinterpret_cast<const std::byte*>(converted), chunk.begin,
                          chunk.end - chunk.begin};
    const ValueRows dense = {&run, 1, lane.value_size * sizeof(float)};
    add_row_block<V, KvType::kF32>(dense, lane.value_size, rows, seen, chunk, scores, out);
  }
}

}  // namespace
}  // namespace quire::kernels
