// Attention of a block of rows: per tile scores, softmax, P . V; then merge, sink, taps.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/merge_impl.h"
#include "kernels/row_block.h"
#include "kernels/score_impl.h"
#include "kernels/softmax_impl.h"
#include "kernels/tap_impl.h"
#include "kernels/tile_impl.h"
#include "kernels/value_impl.h"

namespace quire::kernels {
namespace {

// Consecutive tokens of a QueryView whose rows share each read of K and V.
template <typename V>
struct RowBlock {
  std::uint32_t token, tokens, rows;
  Interval seen[kRowBlock];  // ordinals of the lane, by row
  Interval all;              // from the first that any row sees to the last
  RowSum tile_sum[kRowBlock];
  RowSum row_sum[kRowBlock];
};

template <typename V>
void open_block(const LaneView& lane, const QueryView& view, std::uint32_t token,
                std::uint32_t tokens, float* packed, RowBlock<V>& block) {
  block.token = token;
  block.tokens = tokens;
  block.rows = tokens * view.group;
  block.all = {~std::uint32_t{0}, 0};
  std::uint32_t row = 0;
  for (std::uint32_t t = token; t < token + tokens; ++t) {
    const Interval seen = visible_ordinals(lane, view.first_position + t, view.window);
    if (seen.begin < seen.end) {
      block.all = {smaller(block.all.begin, seen.begin), larger(block.all.end, seen.end)};
    }
    for (std::uint32_t g = 0; g < view.group; ++g, ++row) {
      block.seen[row] = seen;
      block.row_sum[row] = {kMinusInfinity, 0.0f};
    }
  }
  if (block.all.begin > block.all.end) block.all = {lane.first, lane.first};
  pack_queries<V>(view, lane.key_size, token, tokens, packed);
}

// One tile of every row of the block: block.tile_sum and tile_out[row][value_size].
template <typename V, KvType kKeyType, KvType kValueType>
void attend_tile(const LaneView& lane, const QueryView& view, std::uint32_t index,
                 const ScratchPlan& plan, float* scratch, const TapRows& taps, TileView& tile,
                 RowBlock<V>& block) {
  const Ordinal begin = index * kTileOrdinals;
  const auto inside = [&](Interval ordinals) -> Interval {
    const Interval cut = overlap({begin, begin + kTileOrdinals}, ordinals);
    // An empty overlap may lie behind the tile.
    return cut.begin < cut.end ? Interval{cut.begin - begin, cut.end - begin} : Interval{0, 0};
  };
  float* scores = scratch + plan.scores;
  float* out = scratch + plan.tile_out;
  const Interval all = inside(block.all);
  Interval seen[kRowBlock];
  if (all.begin < all.end) {
    view_tile(lane, begin, all, tile);
    score_tile<V, kKeyType>(lane, scratch + plan.queries, tile, block.rows, scratch + plan.keys,
                            scores);
  }
  for (std::uint32_t row = 0; row < block.rows; ++row) {
    seen[row] = inside(block.seen[row]);
    block.tile_sum[row] = {kMinusInfinity, 0.0f};
    const std::size_t kept = row * taps.tiles + index - first_tile(lane);
    if (seen[row].begin < seen[row].end) {
      block.tile_sum[row] = softmax_tile<V>(
          scores + row * kScoreStride + kScorePad, seen[row].begin, seen[row].end, view.scale,
          view.softcap, taps.p == nullptr ? nullptr : taps.p + kept * kTileOrdinals);
    }
    if (taps.p != nullptr) taps.m[kept] = block.tile_sum[row].m;
    // A tile that counts as empty adds nothing, whatever its V holds.
    if (block.tile_sum[row].m == kMinusInfinity) seen[row] = {0, 0};
    float* o = out + std::size_t{row} * lane.value_size;
    for (std::uint32_t d = 0; d < lane.value_size; d += 16) V::all(0.0f).store(o + d);
  }
  if (all.begin < all.end) {
    value_tile<V, kValueType>(lane, tile, block.rows, seen, all, scores, scratch + plan.values,
                              out);
  }
}

template <typename V>
using AttendTile = void (*)(const LaneView&, const QueryView&, std::uint32_t, const ScratchPlan&,
                            float*, const TapRows&, TileView&, RowBlock<V>&);

template <typename V, KvType kKeyType>
AttendTile<V> attend_tile_for_value(KvType value_type) {
  switch (value_type) {
    case KvType::kF16:
      return attend_tile<V, kKeyType, KvType::kF16>;
    case KvType::kBF16:
      return attend_tile<V, kKeyType, KvType::kBF16>;
    case KvType::kF32:
      break;
  }
  return attend_tile<V, kKeyType, KvType::kF32>;
}

template <typename V>
AttendTile<V> attend_tile_for(KvType key_type, KvType value_type) {
  switch (key_type) {
    case KvType::kF16:
      return attend_tile_for_value<V, KvType::kF16>(value_type);
    case KvType::kBF16:
      return attend_tile_for_value<V, KvType::kBF16>(value_type);
    case KvType::kF32:
      break;
  }
  return attend_tile_for_value<V, KvType::kF32>(value_type);
}

template <typename V>
void finish_block(const LaneView& lane, const QueryView& view, const TapView& tap,
                  const TapRows& taps, const float* row_out, RowBlock<V>& block) {
  std::uint32_t row = 0;
  for (std::uint32_t t = block.token; t < block.token + block.tokens; ++t) {
    const std::uint32_t first_row = row;
    for (std::uint32_t g = 0; g < view.group; ++g, ++row) {
      finish_row<V>(block.row_sum[row], row_out + std::size_t{row} * lane.value_size,
                    view.sinks != nullptr ? view.sinks + g : nullptr, lane.value_size,
                    view.out + t * view.out_stride + std::size_t{g} * lane.value_size);
    }
    if (tap.sum != nullptr && t >= tap.first_token) {
      tap_token<V>(lane, tap, view.group, block.seen[first_row], taps, first_row,
                   block.row_sum + first_row);
    }
  }
}

template <typename V>
void attend(const LaneView& lane, const QueryView& view, const TapView& tap, float* scratch) {
  const std::uint32_t tap_live = tap.sum != nullptr ? lane.live : 0;
  const ScratchPlan plan = plan_scratch(lane.key_size, lane.value_size, view.group, tap_live);
  const std::uint32_t step = block_of_tokens(view.group, tap_live);
  const AttendTile<V> attend_one = attend_tile_for<V>(lane.key_type, lane.value_type);
  const TapRows no_taps = {nullptr, nullptr, 0};
  const TapRows kept = {scratch + plan.tap_p, scratch + plan.tap_m, tap_tiles(tap_live)};
  RowBlock<V> block;
  TileView tile;
  for (std::uint32_t token = 0; token < view.tokens; token += step) {
    const std::uint32_t tokens = smaller(view.tokens - token, step);
    const TapRows& taps = tap.sum != nullptr && token + tokens > tap.first_token ? kept : no_taps;
    open_block<V>(lane, view, token, tokens, scratch + plan.queries, block);
    for (std::uint32_t t = block.all.begin / kTileOrdinals; t * kTileOrdinals < block.all.end;
         ++t) {
      attend_one(lane, view, t, plan, scratch, taps, tile, block);
      for (std::uint32_t row = 0; row < block.rows; ++row) {
        const std::size_t at = std::size_t{row} * lane.value_size;
        merge_tile<V>(block.row_sum[row], scratch + plan.row_out + at, block.tile_sum[row],
                      scratch + plan.tile_out + at, lane.value_size);
      }
    }
    finish_block<V>(lane, view, tap, taps, scratch + plan.row_out, block);
  }
}

template <typename V>
void attend_tiles(const LaneView& lane, const QueryView& view, std::uint32_t tile_begin,
                  std::uint32_t tile_end, float* partial, std::size_t partial_row_stride,
                  float* scratch) {
  const ScratchPlan plan = plan_scratch(lane.key_size, lane.value_size, view.group, 0);
  const std::uint32_t step = block_of_tokens(view.group, 0);
  const AttendTile<V> attend_one = attend_tile_for<V>(lane.key_type, lane.value_type);
  const TapRows no_taps = {nullptr, nullptr, 0};
  RowBlock<V> block;
  TileView tile;
  for (std::uint32_t token = 0; token < view.tokens; token += step) {
    const std::uint32_t tokens = smaller(view.tokens - token, step);
    open_block<V>(lane, view, token, tokens, scratch + plan.queries, block);
    for (std::uint32_t t = tile_begin; t < tile_end; ++t) {
      attend_one(lane, view, t, plan, scratch, no_taps, tile, block);
      for (std::uint32_t row = 0; row < block.rows; ++row) {
        float* to = partial + (std::size_t{token} * view.group + row) * partial_row_stride +
                    (t - tile_begin) * partial_floats(lane.value_size);
        to[0] = block.tile_sum[row].m;
        to[1] = block.tile_sum[row].l;
        const float* from = scratch + plan.tile_out + std::size_t{row} * lane.value_size;
        for (std::uint32_t d = 0; d < lane.value_size; d += 16) V::load(from + d).store(to + 2 + d);
      }
    }
  }
}

}  // namespace
}  // namespace quire::kernels
