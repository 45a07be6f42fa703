// A tile's K and V in f32 and in ordinal order, without dead slots, for many rows to read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/row_block.h"
#include "kernels/tile_impl.h"
#include "kernels/value_impl.h"

namespace quire::kernels {
namespace {

// Live slots of one unit that fall in one group of kKeyGroup ordinals.
struct KeyPiece {
  const std::byte *low, *high;
  std::uint32_t live;  // mask of 16 slots
  std::uint32_t at;    // of the first, in the group
};

// The mask's lowest `count` bits.
inline std::uint32_t lowest_bits(std::uint32_t mask, std::uint32_t count) {
  std::uint32_t rest = mask;
  for (; count > 0; --count) rest &= rest - 1;
  return mask & ~rest;
}

// The pieces of the group that begins at ordinal `begin` of the tile; `unit` moves past the units
// that end in it.
inline std::uint32_t key_pieces(const TileView& tile, std::uint32_t begin, std::uint32_t& unit,
                                KeyPiece (&pieces)[kKeyGroup]) {
  const auto first = static_cast<std::int32_t>(begin);
  const std::int32_t last = first + static_cast<std::int32_t>(kKeyGroup);
  std::uint32_t count = 0;
  while (unit < tile.unit_count && tile.units[unit].offset < last) {
    const KeyUnit& from = tile.units[unit];
    const std::int32_t end = from.offset + static_cast<std::int32_t>(live_count(from.live));
    std::uint32_t live = from.live, at = 0;
    if (end > last) live = lowest_bits(live, static_cast<std::uint32_t>(last - from.offset));
    if (from.offset < first) {
      live &= ~lowest_bits(
          live, smaller(live_count(live), static_cast<std::uint32_t>(first - from.offset)));
    } else {
      at = static_cast<std::uint32_t>(from.offset - first);
    }
    if (live != 0) pieces[count++] = {from.low, from.high, live, at};
    if (end > last) break;
    ++unit;
  }
  return count;
}

// Writes [d][kKeyGroup] floats; a piece with dead slots spills up to 15 floats over what comes next
// and is then written.
template <typename V, KvType kType, bool kHalves>
void convert_pieces(const KeyPiece* pieces, std::uint32_t count, std::uint32_t key_size,
                    std::size_t d_bytes, float* to) {
  for (std::uint32_t d = 0; d < key_size; ++d, to += kKeyGroup) {
    const std::size_t from = d * d_bytes;
    for (std::uint32_t i = 0; i < count; ++i) {
      const KeyPiece& piece = pieces[i];
      const V key = kHalves ? V::template load_halves<kType>(piece.low + from, piece.high + from)
                            : V::template load<kType>(piece.low + from);
      if (piece.live == 0xffffu) {
        key.store(to + piece.at);
      } else {
        key.store_dense(to + piece.at, piece.live);
      }
    }
  }
}

// Ordinals `seen` of the tile to keys[ordinal / kKeyGroup][d][ordinal % kKeyGroup]; 16 floats
// behind the last group may be written.
template <typename V, KvType kType>
void convert_keys(const LaneView& lane, const TileView& tile, Interval seen, float* keys) {
  const std::size_t d_bytes = lane.block_tokens * bytes_of(kType);
  KeyPiece pieces[kKeyGroup];
  std::uint32_t unit = 0;
  for (std::uint32_t begin = seen.begin / kKeyGroup * kKeyGroup; begin < seen.end;
       begin += kKeyGroup) {
    const std::uint32_t count = key_pieces(tile, begin, unit, pieces);
    float* to = keys + std::size_t{begin} * lane.key_size;
    const auto convert =
        lane.block_tokens == 8 ? convert_pieces<V, kType, true> : convert_pieces<V, kType, false>;
    convert(pieces, count, lane.key_size, d_bytes, to);
  }
}

// The runs of the tile to values[slice][ordinal][width of the slice], so that each pass over a tile
// reads memory front to back.
template <typename V, KvType kType>
void convert_values(const LaneView& lane, const TileView& tile, float* values) {
  const std::size_t row_bytes = lane.value_size * bytes_of(kType);
  for (std::uint32_t n = 0; n < tile.run_count; ++n) {
    const ValueRun& run = tile.runs[n];
    const auto convert = [&](std::uint32_t at, std::uint32_t width) {
      const std::byte* v = run.v + at * 16 * bytes_of(kType);
      float* to = values + std::size_t{16} * (at * kTileOrdinals + run.first * width);
      for (std::uint32_t i = 0; i < run.count; ++i, v += row_bytes) {
        for (std::uint32_t j = 0; j < width; ++j, to += 16) {
          V::template load<kType>(v + j * 16 * bytes_of(kType)).store(to);
        }
      }
    };
    for_each_slice<V>(lane.value_size, V::kConvertedStrip, convert);
  }
}

}  // namespace
}  // namespace quire::kernels
