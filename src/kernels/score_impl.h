// Scores before the soft cap: (q . k) * scale, one fma chain over d for each row and slot, in
// ordinal order.  K is read either as stored, in 16-slot units of a tile whose dead slots are left
// out, or as convert_impl.h laid it out.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/row_block.h"
#include "kernels/softmax_impl.h"
#include "kernels/tile_impl.h"

namespace quire::kernels {
namespace {

struct ScoreJob {
  std::uint32_t key_size;
  std::size_t d_bytes;     // from one d to the next in a unit
  std::uint32_t q_stride;  // from one d to the next in packed q
  float scale;
};

// q of `tokens` tokens as [row / step][d][row % step]: the rows that one inner loop holds lie
// together.
inline void pack_queries(const QueryView& rows, std::uint32_t key_size, std::uint32_t token,
                         std::uint32_t tokens, std::uint32_t step, float* packed) {
  std::uint32_t row = 0;
  for (std::uint32_t t = token; t < token + tokens; ++t) {
    for (std::uint32_t g = 0; g < rows.group; ++g, ++row) {
      const float* q = rows.q + t * rows.q_stride + std::size_t{g} * key_size;
      float* to = packed + std::size_t{row / step} * step * key_size + row % step;
      for (std::uint32_t d = 0; d < key_size; ++d) to[std::size_t{d} * step] = q[d];
    }
  }
}

// Leaves out dead slots: rows of 16 scores to rows kScoreStride apart.
template <typename V>
void store_dense_rows(const float* raw, std::uint32_t rows, std::uint32_t live, float* to) {
  for (std::uint32_t r = 0; r < rows; ++r) {
    V::load(raw + std::size_t{r} * 16).store_dense(to + r * kScoreStride, live);
  }
}

// Rows x units of one step, the first of `count` units; past those the last one repeats and is not
// stored.
// scores[row * kScoreStride + offset]: in front of and behind a tile's 512 there is room for 16.
template <typename V, KvType kType, std::uint32_t kRows>
void score_step(const ScoreJob& job, const float* q, const KeyUnit* units, std::uint32_t count,
                float* scores) {
  constexpr std::uint32_t kUnits = V::score_units(kRows);
  const std::byte *k[kUnits], *ahead[kUnits];
  V chain[kRows][kUnits];
  QUIRE_UNROLL
  for (std::uint32_t u = 0; u < kUnits; ++u) {
    k[u] = units[smaller(u, count - 1)].low;
    ahead[u] = units[smaller(u + kUnits, count - 1)].low;
    QUIRE_UNROLL
    for (std::uint32_t r = 0; r < kRows; ++r) chain[r][u] = V::all(0.0f);
  }
  for (std::uint32_t d = 0; d < job.key_size; ++d) {
    V key[kUnits];
    QUIRE_UNROLL
    for (std::uint32_t u = 0; u < kUnits; ++u) {
      key[u] = V::template load<kType>(k[u]);
      k[u] += job.d_bytes;
      __builtin_prefetch(ahead[u]);  // blocks lie anywhere
      ahead[u] += job.d_bytes;
    }
    QUIRE_UNROLL
    for (std::uint32_t r = 0; r < kRows; ++r) {
      const V query = V::all(q[r]);
      QUIRE_UNROLL
      for (std::uint32_t u = 0; u < kUnits; ++u) chain[r][u] = V::fma(query, key[u], chain[r][u]);
    }
    q += job.q_stride;
  }
  const V scale = V::all(job.scale);
  QUIRE_UNROLL
  for (std::uint32_t u = 0; u < kUnits; ++u) {
    if (u < count) {
      float* to = scores + units[u].offset;
      alignas(64) float raw[kRows * 16];
      const bool full = units[u].live == 0xffffu;
      float* direct = full ? to : raw;
      const std::size_t stride = full ? kScoreStride : 16;
      QUIRE_UNROLL
      for (std::uint32_t r = 0; r < kRows; ++r) (chain[r][u] * scale).store(direct + r * stride);
      if (!full) store_dense_rows<V>(raw, kRows, units[u].live, to);
    }
  }
}

// Scores of all units for one strip of rows.
template <typename V, KvType kType, std::uint32_t kRows>
void score_units(const ScoreJob& job, const float* q, const TileView& tile, float* scores) {
  constexpr std::uint32_t kStep = V::score_units(kRows);
  for (std::uint32_t u = 0; u < tile.unit_count; u += kStep) {
    score_step<V, kType, kRows>(job, q, tile.units + u, tile.unit_count - u, scores);
  }
}

using ScoreUnits = void (*)(const ScoreJob&, const float*, const TileView&, float*);

template <typename V, KvType kType, std::uint32_t kRows = V::kDirectStrip>
ScoreUnits score_units_for(std::uint32_t rows) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return score_units_for<V, kType, kRows - 1>(rows);
  }
  return score_units<V, kType, kRows>;
}

// Ordinals `seen` of converted keys, and what lies around them up to a step of the loop.
template <typename V, std::uint32_t kRows>
void score_converted(const ScoreJob& job, const float* queries, const float* keys, Interval seen,
                     float* scores) {
  constexpr std::uint32_t kVectors = V::kKeyVectors, kWidth = 16 * kVectors;
  static_assert(kKeyGroup % kWidth == 0);
  const V scale = V::all(job.scale);
  for (std::uint32_t at = seen.begin / kWidth * kWidth; at < seen.end; at += kWidth) {
    const float* k = keys + std::size_t{at / kKeyGroup} * kKeyGroup * job.key_size + at % kKeyGroup;
    const float* q = queries;
    V chain[kRows][kVectors];
    QUIRE_UNROLL
    for (std::uint32_t r = 0; r < kRows; ++r) {
      QUIRE_UNROLL
      for (V& sum : chain[r]) sum = V::all(0.0f);
    }
    for (std::uint32_t d = 0; d < job.key_size; ++d, k += kKeyGroup, q += job.q_stride) {
      V key[kVectors];
      QUIRE_UNROLL
      for (std::uint32_t i = 0; i < kVectors; ++i) key[i] = V::load(k + 16 * i);
      QUIRE_UNROLL
      for (std::uint32_t r = 0; r < kRows; ++r) {
        const V query = V::all(q[r]);
        QUIRE_UNROLL
        for (std::uint32_t i = 0; i < kVectors; ++i) {
          chain[r][i] = V::fma(query, key[i], chain[r][i]);
        }
      }
    }
    QUIRE_UNROLL
    for (std::uint32_t r = 0; r < kRows; ++r) {
      QUIRE_UNROLL
      for (std::uint32_t i = 0; i < kVectors; ++i) {
        (chain[r][i] * scale).store(scores + r * kScoreStride + at + 16 * i);
      }
    }
  }
}

using ScoreConverted = void (*)(const ScoreJob&, const float*, const float*, Interval, float*);

template <typename V, std::uint32_t kRows = V::kConvertedStrip>
ScoreConverted score_converted_for(std::uint32_t rows) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return score_converted_for<V, kRows - 1>(rows);
  }
  return score_converted<V, kRows>;
}

}  // namespace
}  // namespace quire::kernels
