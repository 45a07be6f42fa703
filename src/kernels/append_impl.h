// Rows into blocks, entries between blocks, norms of entries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/kernels.h"
#include "kernels/tile_impl.h"

namespace quire::kernels {
namespace {

// K rows are transposed into d-major slots, 16 values at a time.
template <typename V, KvType kType>
void append_keys(std::byte* keys, std::uint32_t block_tokens, std::uint32_t key_size,
                 std::uint32_t slot, std::uint32_t tokens, const float* k, std::size_t k_stride) {
  constexpr std::size_t kBytes = bytes_of(kType);
  for (std::uint32_t t = 0; t < tokens; ++t) {
    for (std::uint32_t d = 0; d < key_size; d += 16) {
      alignas(64) std::byte stored[16 * kBytes];
      V::load(k + t * k_stride + d).template store<kType>(stored);
      std::byte* to = keys + (std::size_t{d} * block_tokens + slot + t) * kBytes;
      for (std::uint32_t i = 0; i < 16; ++i) {
        std::memcpy(to + i * block_tokens * kBytes, stored + i * kBytes, kBytes);
      }
    }
  }
}

template <typename V, KvType kType>
void append_values(std::byte* values, std::uint32_t value_size, std::uint32_t slot,
                   std::uint32_t tokens, const float* v, std::size_t v_stride) {
  for (std::uint32_t t = 0; t < tokens; ++t) {
    std::byte* to = values + std::size_t{slot + t} * value_size * bytes_of(kType);
    for (std::uint32_t d = 0; d < value_size; d += 16) {
      V::load(v + t * v_stride + d).template store<kType>(to + d * bytes_of(kType));
    }
  }
}

template <typename V>
void append(std::byte* block, std::uint32_t block_tokens, std::size_t value_offset, KvType key_type,
            KvType value_type, std::uint32_t key_size, std::uint32_t value_size, std::uint32_t slot,
            std::uint32_t tokens, const float* k, std::size_t k_stride, const float* v,
            std::size_t v_stride) {
  const auto keys = key_type == KvType::kF16    ? append_keys<V, KvType::kF16>
                    : key_type == KvType::kBF16 ? append_keys<V, KvType::kBF16>
                                                : append_keys<V, KvType::kF32>;
  const auto values = value_type == KvType::kF16    ? append_values<V, KvType::kF16>
                      : value_type == KvType::kBF16 ? append_values<V, KvType::kBF16>
                                                    : append_values<V, KvType::kF32>;
  keys(block, block_tokens, key_size, slot, tokens, k, k_stride);
  values(block + value_offset, value_size, slot, tokens, v, v_stride);
}

// 16 slots of K at once, one chain over d each; dead slots are computed and left out.
template <typename V, KvType kType>
void key_norms(const LaneView& lane, float* norm) {
  for (std::uint32_t b = 0; b < lane.block_count; ++b) {
    const BlockView& block = lane.blocks[b];
    Ordinal ordinal = block.first_ordinal;
    const std::uint32_t width = smaller(lane.block_tokens, 16);
    for (std::uint32_t slot = 0; slot < lane.block_tokens; slot += width) {
      const std::byte* low = block.data + slot * bytes_of(kType);
      const std::byte* high = width == 8 ? low : low + 8 * bytes_of(kType);
      V chain = V::all(0.0f);
      for (std::uint32_t d = 0; d < lane.key_size; ++d) {
        const V k = V::template load_halves<kType>(low, high);
        chain = V::fma(k, k, chain);
        low += lane.block_tokens * bytes_of(kType);
        high += lane.block_tokens * bytes_of(kType);
      }
      float norms[16];
      V::sqrt(chain).store(norms);
      for (std::uint32_t i = 0; i < width; ++i) {
        if ((block.live >> (slot + i) & 1) == 0) continue;
        if (ordinal - lane.first < lane.live) norm[ordinal - lane.first] = norms[i];
        ++ordinal;
      }
    }
  }
}

// 16 chains by d mod 16, added by the tree.
template <typename V, KvType kType>
void value_norms(const LaneView& lane, float* norm) {
  const std::size_t row_bytes = lane.value_size * bytes_of(kType);
  for (std::uint32_t b = 0; b < lane.block_count; ++b) {
    const BlockView& block = lane.blocks[b];
    Ordinal ordinal = block.first_ordinal;
    for (std::uint32_t slot = 0; slot < lane.block_tokens; ++slot) {
      if ((block.live >> slot & 1) == 0) continue;
      const std::uint32_t i = ordinal++ - lane.first;
      if (i >= lane.live) continue;
      const std::byte* row = block.data + lane.value_offset + slot * row_bytes;
      V sum = V::all(0.0f);
      for (std::uint32_t d = 0; d < lane.value_size; d += 16) {
        const V v = V::template load<kType>(row + d * bytes_of(kType));
        sum = V::fma(v, v, sum);
      }
      norm[i] = __builtin_sqrtf(sum.add_lanes());
    }
  }
}

template <typename V>
void norms(const LaneView& lane, float* key_norm, float* value_norm) {
  const auto keys = lane.key_type == KvType::kF16    ? key_norms<V, KvType::kF16>
                    : lane.key_type == KvType::kBF16 ? key_norms<V, KvType::kBF16>
                                                     : key_norms<V, KvType::kF32>;
  const auto values = lane.value_type == KvType::kF16    ? value_norms<V, KvType::kF16>
                      : lane.value_type == KvType::kBF16 ? value_norms<V, KvType::kBF16>
                                                         : value_norms<V, KvType::kF32>;
  if (key_norm != nullptr) keys(lane, key_norm);
  if (value_norm != nullptr) values(lane, value_norm);
}

// One d of K at a time: the slots of both blocks lie next to each other there.
template <typename T>
void copy_keys(const std::byte* from, const std::uint8_t* slots, std::uint32_t count, std::byte* to,
               std::uint32_t to_slot, std::uint32_t block_tokens, std::uint32_t key_size) {
  const T* source = reinterpret_cast<const T*>(from);
  T* target = reinterpret_cast<T*>(to) + to_slot;
  for (std::uint32_t d = 0; d < key_size; ++d) {
    for (std::uint32_t i = 0; i < count; ++i) target[i] = source[slots[i]];
    source += block_tokens;
    target += block_tokens;
  }
}

inline void copy_entries(const std::byte* from, std::uint64_t slots, std::byte* to,
                         std::uint32_t to_slot, std::uint32_t block_tokens,
                         std::size_t value_offset, KvType key_type, KvType value_type,
                         std::uint32_t key_size, std::uint32_t value_size) {
  std::uint8_t slot[64];
  std::uint32_t count = 0;
  for (; slots != 0; slots &= slots - 1) {
    slot[count++] = static_cast<std::uint8_t>(__builtin_ctzll(slots));
  }
  const auto keys = key_type == KvType::kF32 ? copy_keys<std::uint32_t> : copy_keys<std::uint16_t>;
  keys(from, slot, count, to, to_slot, block_tokens, key_size);
  const std::size_t row_bytes = value_size * bytes_of(value_type);
  for (std::uint32_t i = 0; i < count; ++i) {
    std::memcpy(to + value_offset + (to_slot + i) * row_bytes,
                from + value_offset + slot[i] * row_bytes, row_bytes);
  }
}

}  // namespace
}  // namespace quire::kernels
