// What keys receive from rows, head by head, in floats: attention without its values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attend_impl.h"

namespace quire::kernels {
namespace {

// p and m of one tile of every row of the block, and what the tile adds to the rows' sums.
template <typename V>
void weigh_tile(const Job<V>& job, std::uint32_t index, const TapRows& kept, RowBlock& block,
                TileView& tile) {
  const LaneView& lane = job.lane;
  const Ordinal begin = index * kTileOrdinals;
  float* scores = job.scratch + job.plan.scores + kScorePad;
  const Interval all = overlap({begin, begin + kTileOrdinals}, block.all);
  if (all.begin < all.end) {
    const Interval seen = {all.begin - begin, all.end - begin};
    view_tile(lane, begin, seen, tile);
    if (!block.direct) job.types.convert_keys(lane, tile, seen, job.scratch + job.plan.keys);
  }
  Strip strip;
  for (std::uint32_t row = 0; row < block.rows; row += block.step) {
    open_strip(block, row, begin, strip);
    if (strip.all.begin < strip.all.end) score_strip(job, block, tile, strip, scores);
    softmax_strip<V>(job.view.softcap, index - first_tile(lane), kept, scores, strip);
    merge_tile<V>(strip.rows, block.row_sum + strip.row, nullptr, strip.sum, nullptr, 0);
  }
}

// Adds 16 keys' weights, of which those of lanes [begin, end) count.
template <typename V>
inline void add_weights(V w, std::uint32_t begin, std::uint32_t end, float* sum, float* square) {
  if (begin == 0 && end == 16) {
    (V::load(sum) + w).store(sum);
    V::fma(w, w, V::load(square)).store(square);
    return;
  }
  alignas(64) float weights[16];
  w.store(weights);
  for (std::uint32_t i = begin; i < end; ++i) {
    sum[i] += weights[i];
    square[i] = __builtin_fmaf(weights[i], weights[i], square[i]);
  }
}

// One row's weights; index: as of tap_tile().
template <typename V>
void add_row_moments(const LaneView& lane, Interval seen, const TapRows& kept, std::size_t row,
                     RowSum final, float* sum, float* square) {
  const std::uint32_t tile_from = first_tile(lane);
  for (std::uint32_t t = seen.begin / kTileOrdinals; t * kTileOrdinals < seen.end; ++t) {
    const float m = kept.m[row * kept.tiles + (t - tile_from)];
    if (m == kMinusInfinity) continue;
    const V factor = V::all(exp_of(m - final.m) / final.l);
    const Ordinal first = t * kTileOrdinals;
    const Interval all = overlap({first, first + kTileOrdinals}, seen);
    const Interval here = {all.begin - first, all.end - first};
    const float* p = kept.p + (row * kept.tiles + (t - tile_from)) * kTileOrdinals;
    const std::ptrdiff_t index =
        static_cast<std::ptrdiff_t>(first) - static_cast<std::ptrdiff_t>(lane.first);
    for (std::uint32_t at = here.begin / 16 * 16; at < here.end; at += 16) {
      const std::ptrdiff_t key = index + static_cast<std::ptrdiff_t>(at);
      add_weights(V::load(p + at) * factor, larger(here.begin, at) - at, smaller(16, here.end - at),
                  sum + key, square + key);
    }
  }
}

template <typename V>
void add_moments(const LaneView& lane, const QueryView& view, const MomentsView& moments,
                 float* scratch) {
  const Job<V> job(lane, view, lane.live, scratch);
  const TapRows kept = {scratch + job.plan.tap_p, scratch + job.plan.tap_m, tap_tiles(lane.live)};
  RowBlock block;
  TileView tile;
  std::uint32_t tokens = 0;
  for (std::uint32_t token = 0; token < view.tokens; token += tokens) {
    tokens = even_step(view.tokens - token, block_of_tokens(view.group, lane.live));
    open_block(job, token, tokens, block);
    for (std::uint32_t t = block.all.begin / kTileOrdinals; t * kTileOrdinals < block.all.end;
         ++t) {
      weigh_tile(job, t, kept, block, tile);
    }
    for (std::uint32_t row = 0; row < block.rows; ++row) {
      RowSum& final = block.row_sum[row];
      const std::uint32_t head = row % view.group;
      finish_row<V>(final, nullptr, view.sinks != nullptr ? view.sinks + head : nullptr, 0,
                    nullptr);
      if (block.seen[row].begin >= block.seen[row].end) continue;
      add_row_moments<V>(lane, block.seen[row], kept, row, final,
                         moments.sum + head * moments.stride,
                         moments.square + head * moments.stride);
    }
  }
}

}  // namespace
}  // namespace quire::kernels
