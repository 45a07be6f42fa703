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

// Rows of V: by runs of a tile, row_bytes apart inside a run.  As stored, one row holds all of
// value_size; convert_impl.h lays slices of it one behind the other.
struct ValueRows {
  const ValueRun* runs;
  std::uint32_t run_count;
  std::size_t row_bytes;     // 0: slices, each as wide as its rows are apart
  std::size_t vector_bytes;  // from 16 values of a row to the next 16
};

// Runs of V as stored are fetched this many before they are read: 4 blocks of 16 tokens take 600
// cycles, the time of a read from memory.
constexpr std::uint32_t kRunsAhead = 4;

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
    const std::byte* ahead =
        values.runs[smaller(n + kRunsAhead, values.run_count - 1)].v + first_byte;
    for (std::uint32_t i = here.begin; i < here.end;
         ++i, v += values.row_bytes, ahead += values.row_bytes) {
      V value[kVectors];
      QUIRE_UNROLL
      for (std::uint32_t j = 0; j < kVectors; ++j) {
        value[j] = V::template load<kType>(v + j * 16 * bytes_of(kType));
        // Runs lie anywhere; f32 ones are mostly converted and near.
        if constexpr (kType != KvType::kF32) __builtin_prefetch(ahead + j * 16 * bytes_of(kType));
      }
      QUIRE_UNROLL
      for (std::uint32_t r = 0; r < kRows; ++r) {
        const V weight = V::all(p[r * kScoreStride + i]);
        QUIRE_UNROLL
        for (std::uint32_t j = 0; j < kVectors; ++j)
          sum[r][j] = V::fma(weight, value[j], sum[r][j]);
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

// Powers of two of vectors only: a rare head size takes more calls, not more code.
template <typename V, KvType kType, std::uint32_t kRows = V::kDirectStrip>
AddValues add_values_for(std::uint32_t rows, std::uint32_t vectors) {
  static_assert(V::kConvertedStrip <= V::kDirectStrip && V::kDirectStrip <= kStripRows);
  if constexpr (kRows > 1) {
    if (rows < kRows) return add_values_for<V, kType, kRows - 1>(rows, vectors);
  }
  constexpr std::uint32_t kMost = V::value_vectors(kRows);
  if constexpr (kMost >= 4) {
    if (vectors == 4) return add_values<V, kType, kRows, 4>;
  }
  if constexpr (kMost >= 2) {
    if (vectors == 2) return add_values<V, kType, kRows, 2>;
  }
  return add_values<V, kType, kRows, 1>;
}

// The slices that value_size is cut in for this many rows: calls f(first vector, vectors).
template <typename V, typename F>
void for_each_slice(std::uint32_t value_size, std::uint32_t rows, F f) {
  const std::uint32_t vectors = value_size / 16;
  for (std::uint32_t at = 0, width = V::value_vectors(rows); at < vectors; at += width) {
    while (width > vectors - at) width /= 2;
    f(at, width);
  }
}

// All of value_size for the rows of a strip that see the same ordinals.
template <typename V, KvType kType>
void add_slices(ValueRows values, std::uint32_t value_size, std::uint32_t rows, Interval seen,
                const float* p, float* out) {
  if (seen.begin >= seen.end) return;
  const bool sliced = values.row_bytes == 0;
  for_each_slice<V>(value_size, sliced ? V::kConvertedStrip : rows,
                    [&](std::uint32_t at, std::uint32_t width) {
                      if (sliced) values.row_bytes = width * 16 * sizeof(float);
                      add_values_for<V, kType>(rows, width)(values, at * values.vector_bytes, seen,
                                                            p, out + at * 16, value_size);
                    });
}

// out[row][value_size] += P . V of one tile for a strip of rows.  They may see different ordinals:
// what all see goes through one loop, what is before and behind it row by row.
template <typename V, KvType kType>
void add_strip(const ValueRows& values, std::uint32_t value_size, std::uint32_t rows,
               const Interval* seen, const float* scores, float* out) {
  Interval all = seen[0];
  for (std::uint32_t r = 1; r < rows; ++r) all = overlap(all, seen[r]);
  const auto add_alone = [&](std::uint32_t r, Interval ordinals) {
    add_slices<V, kType>(values, value_size, 1, ordinals, scores + r * kScoreStride,
                         out + std::size_t{r} * value_size);
  };
  for (std::uint32_t r = 0; r < rows; ++r) {
    add_alone(r, {seen[r].begin, smaller(seen[r].end, all.begin)});
  }
  add_slices<V, kType>(values, value_size, rows, all, scores, out);
  for (std::uint32_t r = 0; r < rows; ++r) {
    add_alone(r, {larger(seen[r].begin, larger(all.begin, all.end)), seen[r].end});
  }
}

using AddStrip = void (*)(const ValueRows&, std::uint32_t, std::uint32_t, const Interval*,
                          const float*, float*);

}  // namespace
}  // namespace quire::kernels
