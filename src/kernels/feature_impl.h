// What a policy may be shown of K and V beyond norms: directions, spreads, likenesses.
// Rows are first made dense: [entry][size], f32, entries in ordinal order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/tile_impl.h"

namespace quire::kernels {
namespace {

// Keys of the entries [begin, end) of the lane.
template <typename V, KvType kType>
void gather_keys(const LaneView& lane, std::uint32_t begin, std::uint32_t end, float* rows) {
  const std::uint32_t width = smaller(lane.block_tokens, 16);
  const std::size_t d_bytes = lane.block_tokens * bytes_of(kType);
  for (std::uint32_t b = 0; b < lane.block_count; ++b) {
    std::uint32_t entry = lane.blocks[b].first_ordinal - lane.first;
    for (std::uint32_t slot = 0; slot < lane.block_tokens; slot += width) {
      const auto live =
          static_cast<std::uint32_t>(lane.blocks[b].live >> slot & ((1u << width) - 1));
      const std::uint32_t first = entry;
      entry += live_count(live);
      if (entry <= begin || first >= end) continue;
      const std::byte* low = lane.blocks[b].data + slot * bytes_of(kType);
      const std::byte* high = width == 8 ? low : low + 8 * bytes_of(kType);
      for (std::uint32_t d = 0; d < lane.key_size; ++d, low += d_bytes, high += d_bytes) {
        float k[16];
        V::template load_halves<kType>(low, high).store(k);
        std::uint32_t at = first;
        for (std::uint32_t rest = live; rest != 0; rest &= rest - 1, ++at) {
          if (at < begin || at >= end) continue;
          rows[std::size_t{at - begin} * lane.key_size + d] = k[__builtin_ctz(rest)];
        }
      }
    }
  }
}

template <typename V, KvType kType>
void gather_values(const LaneView& lane, std::uint32_t begin, std::uint32_t end, float* rows) {
  const std::size_t row_bytes = lane.value_size * bytes_of(kType);
  for (std::uint32_t b = 0; b < lane.block_count; ++b) {
    std::uint32_t entry = lane.blocks[b].first_ordinal - lane.first;
    for (std::uint64_t rest = lane.blocks[b].live; rest != 0; rest &= rest - 1, ++entry) {
      if (entry < begin || entry >= end) continue;
      const auto slot = static_cast<std::size_t>(__builtin_ctzll(rest));
      const std::byte* from = lane.blocks[b].data + lane.value_offset + slot * row_bytes;
      float* to = rows + std::size_t{entry - begin} * lane.value_size;
      for (std::uint32_t d = 0; d < lane.value_size; d += 16) {
        V::template load<kType>(from + d * bytes_of(kType)).store(to + d);
      }
    }
  }
}

template <typename V>
void gather(const LaneView& lane, bool keys, std::uint32_t begin, std::uint32_t end, float* rows) {
  const KvType type = keys ? lane.key_type : lane.value_type;
  const auto k = type == KvType::kF16    ? gather_keys<V, KvType::kF16>
                 : type == KvType::kBF16 ? gather_keys<V, KvType::kBF16>
                                         : gather_keys<V, KvType::kF32>;
  const auto v = type == KvType::kF16    ? gather_values<V, KvType::kF16>
                 : type == KvType::kBF16 ? gather_values<V, KvType::kBF16>
                                         : gather_values<V, KvType::kF32>;
  (keys ? k : v)(lane, begin, end, rows);
}

// 16 chains by d mod 16, added by the tree.
template <typename V>
float dot(const float* a, const float* b, std::uint32_t size) {
  V sum = V::all(0.0f);
  for (std::uint32_t d = 0; d < size; d += 16) {
    sum = V::fma(V::load(a + d), V::load(b + d), sum);
  }
  return sum.add_lanes();
}

// 0 of rows without a direction: all zeros, or overflowed.
inline float inverse_norm(float square) {
  const float norm = __builtin_sqrtf(square);
  return norm > 0.0f && norm < __builtin_inff() ? 1.0f / norm : 0.0f;
}

// total += row * factor
template <typename V>
void add_row(const float* row, float factor, std::uint32_t size, float* total) {
  for (std::uint32_t d = 0; d < size; d += 16) {
    V::fma(V::load(row + d), V::all(factor), V::load(total + d)).store(total + d);
  }
}

template <typename V>
void alignment(const LaneView& lane, float* cosine, float* scratch) {
  const std::uint32_t size = lane.key_size;
  float* direction = scratch;
  float* rows = scratch + size;
  for (std::uint32_t d = 0; d < size; ++d) direction[d] = 0.0f;
  const auto for_each_row = [&](auto f) {
    for (std::uint32_t begin = 0; begin < lane.live; begin += kTileOrdinals) {
      const std::uint32_t end = smaller(begin + kTileOrdinals, lane.live);
      gather<V>(lane, true, begin, end, rows);
      for (std::uint32_t i = begin; i < end; ++i) f(i, rows + std::size_t{i - begin} * size);
    }
  };
  for_each_row([&](std::uint32_t i, const float* row) {
    cosine[i] = inverse_norm(dot<V>(row, row, size));
    if (cosine[i] != 0.0f) add_row<V>(row, cosine[i], size, direction);
  });
  const float inverse = inverse_norm(dot<V>(direction, direction, size));
  for_each_row([&](std::uint32_t i, const float* row) {
    if (cosine[i] != 0.0f) cosine[i] = dot<V>(row, direction, size) * cosine[i] * inverse;
  });
}

// One side, K or V: the spread of each row of a chunk beside the rows of the next.
template <typename V>
void spread_of_side(const LaneView& lane, bool keys, std::uint32_t chunk, std::uint32_t skip,
                    float* spread, float* scratch) {
  const std::uint32_t size = keys ? lane.key_size : lane.value_size;
  const std::size_t chunk_floats = std::size_t{chunk} * size;
  float *low = scratch, *high = scratch + size, *rows = scratch + 2 * size;
  for (std::uint32_t i = 0; i < lane.live; ++i) spread[i] = 0.0f;
  for (std::uint64_t begin = skip; begin + 2 * std::uint64_t{chunk} <= lane.live; begin += chunk) {
    const auto first = static_cast<std::uint32_t>(begin);
    gather<V>(lane, keys, first, first + 2 * chunk, rows);
    const float* next = rows + chunk_floats;
    for (std::uint32_t d = 0; d < size; d += 16) {
      V least = V::load(next + d), most = least;
      for (std::uint32_t i = 1; i < chunk; ++i) {
        const V x = V::load(next + std::size_t{i} * size + d);
        least = V::where_less(x, least, x, least);
        most = V::where_less(most, x, x, most);
      }
      least.store(low + d);
      (most - least).store(high + d);
    }
    for (std::uint32_t i = 0; i < chunk; ++i) {
      float* row = rows + std::size_t{i} * size;
      V sum = V::all(0.0f), square = V::all(0.0f);
      for (std::uint32_t d = 0; d < size; d += 16) {
        const V width = V::load(high + d), zero = V::all(0.0f);
        const V x = (V::load(row + d) - V::load(low + d)) / width;
        const V inside = V::where_less(zero, width, x, zero);
        inside.store(row + d);
        sum = sum + inside;
      }
      const V mean = V::all(sum.add_lanes() / static_cast<float>(size));
      for (std::uint32_t d = 0; d < size; d += 16) {
        const V x = V::load(row + d) - mean;
        square = V::fma(x, x, square);
      }
      spread[first + i] = __builtin_sqrtf(square.add_lanes() / static_cast<float>(size - 1));
    }
  }
}

template <typename V>
void spread(const LaneView& lane, std::uint32_t chunk, std::uint32_t skip, float* key, float* value,
            float* scratch) {
  spread_of_side<V>(lane, true, chunk, skip, key, scratch);
  spread_of_side<V>(lane, false, chunk, skip, value, scratch);
}

template <typename V>
void similarity(const LaneView& lane, std::uint32_t run, float* sum, Ordinal* twin,
                float* twin_cosine, float* scratch) {
  const std::uint32_t size = lane.key_size;
  float *total = scratch, *rows = scratch + size;
  for (std::uint32_t begin = 0; begin < lane.live;) {
    const std::uint32_t end = begin + smaller(run, lane.live - begin);
    gather<V>(lane, true, begin, end, rows);
    for (std::uint32_t d = 0; d < size; ++d) total[d] = 0.0f;
    for (std::uint32_t i = begin; i < end; ++i) {
      float* row = rows + std::size_t{i - begin} * size;
      const float inverse = inverse_norm(dot<V>(row, row, size));
      const V factor = V::all(inverse), zero = V::all(0.0f);
      for (std::uint32_t d = 0; d < size; d += 16) {
        (inverse == 0.0f ? zero : V::load(row + d) * factor).store(row + d);
      }
      add_row<V>(row, 1.0f, size, total);
    }
    for (std::uint32_t i = begin; i < end; ++i) {
      const float* row = rows + std::size_t{i - begin} * size;
      sum[i] = dot<V>(row, total, size) - dot<V>(row, row, size);
      twin[i] = lane.live;
      twin_cosine[i] = 0.0f;
      for (std::uint32_t j = end; j-- > begin && twin[i] == lane.live;) {
        const float cosine =
            j == i ? 0.0f : dot<V>(row, rows + std::size_t{j - begin} * size, size);
        if (cosine > 0.5f) twin[i] = j, twin_cosine[i] = cosine;
      }
    }
    begin = end;
  }
}

}  // namespace
}  // namespace quire::kernels
