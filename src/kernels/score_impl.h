// Raw scores: q . k for a block of rows and the 16-slot units of a tile, one fma chain over d for
// each row and slot, compacted to ordinal order.  Scale and soft cap follow in softmax_impl.h.
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
  std::size_t d_bytes;  // from one d to the next in a unit
};

// q of `tokens` tokens as [row / step][d][row % step], rows R = V::kScoreRows apart: the rows that
// one inner loop holds lie together.
template <typename V>
void pack_queries(const QueryView& rows, std::uint32_t key_size, std::uint32_t token,
                  std::uint32_t tokens, float* packed) {
  const std::uint32_t step = even_step(tokens * rows.group, V::kScoreRows);
  std::uint32_t row = 0;
  for (std::uint32_t t = token; t < token + tokens; ++t) {
    for (std::uint32_t g = 0; g < rows.group; ++g, ++row) {
      const float* q = rows.q + t * rows.q_stride + std::size_t{g} * key_size;
      float* to = packed + std::size_t{row / step} * V::kScoreRows * key_size + row % step;
      for (std::uint32_t d = 0; d < key_size; ++d) to[std::size_t{d} * V::kScoreRows] = q[d];
    }
  }
}

// Leaves out dead slots: rows of 16 raw scores to rows kScoreStride apart.
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
  // 16-bit keys come from blocks that lie anywhere; f32 ones are mostly converted and near.
  constexpr bool kPrefetch = kType != KvType::kF32;
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
      if constexpr (kPrefetch) {
        __builtin_prefetch(ahead[u]);
        ahead[u] += job.d_bytes;
      }
    }
    QUIRE_UNROLL
    for (std::uint32_t r = 0; r < kRows; ++r) {
      const V query = V::all(q[r]);
      QUIRE_UNROLL
      for (std::uint32_t u = 0; u < kUnits; ++u) chain[r][u] = V::fma(query, key[u], chain[r][u]);
    }
    q += V::kScoreRows;
  }
  QUIRE_UNROLL
  for (std::uint32_t u = 0; u < kUnits; ++u) {
    if (u < count) {
      float* to = scores + units[u].offset;
      alignas(64) float raw[kRows * 16];
      const bool full = units[u].live == 0xffffu;
      float* direct = full ? to : raw;
      const std::size_t stride = full ? kScoreStride : 16;
      QUIRE_UNROLL
      for (std::uint32_t r = 0; r < kRows; ++r) chain[r][u].store(direct + r * stride);
      if (!full) store_dense_rows<V>(raw, kRows, units[u].live, to);
    }
  }
}

using ScoreStep = void (*)(const ScoreJob&, const float*, const KeyUnit*, std::uint32_t, float*);

template <typename V, KvType kType, std::uint32_t kRows = V::kScoreRows>
ScoreStep score_step_for(std::uint32_t rows) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return score_step_for<V, kType, kRows - 1>(rows);
  }
  return score_step<V, kType, kRows>;
}

template <typename V, KvType kType>
void score_units(const ScoreJob& job, const float* q, const KeyUnit* units, std::uint32_t count,
                 std::uint32_t rows, float* scores) {
  const std::uint32_t row_step = even_step(rows, V::kScoreRows);
  for (std::uint32_t row = 0; row < rows; row += row_step) {
    const std::uint32_t here = smaller(rows - row, row_step);
    const std::uint32_t step = V::score_units(here);
    const ScoreStep score = score_step_for<V, kType>(here);
    for (std::uint32_t u = 0; u < count; u += step) {
      score(job, q, units + u, count - u, scores + row * kScoreStride);
    }
    q += V::kScoreRows * job.key_size;
  }
}

// Many rows, or blocks of 8 tokens: each unit is converted to f32 [d][16] once.
template <typename V, KvType kType>
void score_converted(const ScoreJob& job, const float* q, const TileView& tile, std::uint32_t rows,
                     bool halves, float* keys, float* scores) {
  constexpr std::uint32_t kChunk = kKeyTokens / 16;
  const ScoreJob dense = {job.key_size, 16 * sizeof(float)};
  for (std::uint32_t u = 0; u < tile.unit_count; u += kChunk) {
    const std::uint32_t count = smaller(tile.unit_count - u, kChunk);
    KeyUnit units[kChunk];
    for (std::uint32_t i = 0; i < count; ++i) {
      units[i] = tile.units[u + i];
      float* to = keys + std::size_t{i} * 16 * job.key_size;
      const std::byte *low = units[i].low, *high = units[i].high;
      const std::byte* ahead = tile.units[smaller(u + i + 1, tile.unit_count - 1)].low;
      for (std::uint32_t d = 0; d < job.key_size; ++d) {
        const V key =
            halves ? V::template load_halves<kType>(low, high) : V::template load<kType>(low);
        key.store(to + std::size_t{d} * 16);
        __builtin_prefetch(ahead);
        low += job.d_bytes;
        high += job.d_bytes;
        ahead += job.d_bytes;
      }
      units[i].low = reinterpret_cast<const std::byte*>(to);
    }
    score_units<V, KvType::kF32>(dense, q, units, count, rows, scores);
  }
}

// Raw scores of `rows` rows and every unit of the tile into scores[row][kScorePad + ordinal].
template <typename V, KvType kType>
void score_tile(const LaneView& lane, const float* q, const TileView& tile, std::uint32_t rows,
                float* keys, float* scores) {
  const ScoreJob job = {lane.key_size, lane.block_tokens * bytes_of(kType)};
  const bool halves = lane.block_tokens == 8;
  if (halves || (rows > V::kScoreRows && kType != KvType::kF32)) {
    score_converted<V, kType>(job, q, tile, rows, halves, keys, scores + kScorePad);
  } else {
    score_units<V, kType>(job, q, tile.units, tile.unit_count, rows, scores + kScorePad);
  }
}

}  // namespace
}  // namespace quire::kernels
