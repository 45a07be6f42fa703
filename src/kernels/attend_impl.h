// Attention of a block of rows: per tile scores, softmax, P . V; then merge, sink, taps.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/convert_impl.h"
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

// What depends on the types that K and V are stored in.
struct StoredTypes {
  ScoreUnits (*score_for)(std::uint32_t rows);
  AddStrip add_stored;
  void (*convert_keys)(const LaneView&, const TileView&, Interval, float*);
  void (*convert_values)(const LaneView&, const TileView&, float*);
};

template <typename V, KvType kType>
void take_key_type(StoredTypes& types) {
  types.score_for = [](std::uint32_t rows) { return score_units_for<V, kType>(rows); };
  types.convert_keys = convert_keys<V, kType>;
}

template <typename V, KvType kType>
void take_value_type(StoredTypes& types) {
  types.add_stored = add_strip<V, kType>;
  types.convert_values = convert_values<V, kType>;
}

template <typename V>
StoredTypes stored_types(KvType key_type, KvType value_type) {
  StoredTypes types;
  (key_type == KvType::kF16    ? take_key_type<V, KvType::kF16>
   : key_type == KvType::kBF16 ? take_key_type<V, KvType::kBF16>
                               : take_key_type<V, KvType::kF32>)(types);
  (value_type == KvType::kF16    ? take_value_type<V, KvType::kF16>
   : value_type == KvType::kBF16 ? take_value_type<V, KvType::kBF16>
                                 : take_value_type<V, KvType::kF32>)(types);
  return types;
}

// One call's constants.
template <typename V>
struct Job {
  const LaneView& lane;
  const QueryView& view;
  float* scratch;
  ScratchPlan plan;
  StoredTypes types;

  Job(const LaneView& l, const QueryView& v, std::uint32_t tap_live, float* memory)
      : lane(l),
        view(v),
        scratch(memory),
        plan(plan_scratch(l.key_size, l.value_size, v.group, tap_live)),
        types(stored_types<V>(l.key_type, l.value_type)) {}
};

// Consecutive tokens of a QueryView whose rows share each read of K and V, in strips of `step`.
struct RowBlock {
  std::uint32_t token, tokens, rows, step;
  bool direct;               // K and V are read as stored
  Interval seen[kRowBlock];  // ordinals of the lane, by row
  Interval all;              // from the first that any row sees to the last
  RowSum row_sum[kRowBlock];
};

template <typename V>
void open_block(const Job<V>& job, std::uint32_t token, std::uint32_t tokens, RowBlock& block) {
  block.token = token;
  block.tokens = tokens;
  block.rows = tokens * job.view.group;
  block.direct = block.rows <= kDirectRows && job.lane.block_tokens != 8;
  block.step = even_step(block.rows, block.direct ? V::kDirectStrip : V::kConvertedStrip);
  block.all = {~std::uint32_t{0}, 0};
  std::uint32_t row = 0;
  for (std::uint32_t t = token; t < token + tokens; ++t) {
    const Interval seen = visible_ordinals(job.lane, job.view.first_position + t, job.view.window);
    if (seen.begin < seen.end) {
      block.all = {smaller(block.all.begin, seen.begin), larger(block.all.end, seen.end)};
    }
    for (std::uint32_t g = 0; g < job.view.group; ++g, ++row) {
      block.seen[row] = seen;
      block.row_sum[row] = {kMinusInfinity, 0.0f};
    }
  }
  if (block.all.begin > block.all.end) block.all = {job.lane.first, job.lane.first};
  pack_queries(job.view, job.lane.key_size, token, tokens, block.step,
               job.scratch + job.plan.queries);
}

// Rows that pass over a tile together: the ordinals of the tile that each sees, and what came of
// it.
struct Strip {
  std::uint32_t row, rows;  // of the block
  Interval seen[kStripRows];
  Interval all;
  RowSum sum[kStripRows];
};

inline void open_strip(const RowBlock& block, std::uint32_t row, Ordinal tile_begin, Strip& strip) {
  strip.row = row;
  strip.rows = smaller(block.rows - row, block.step);
  strip.all = {kTileOrdinals, 0};
  for (std::uint32_t r = 0; r < strip.rows; ++r) {
    const Interval cut = overlap({tile_begin, tile_begin + kTileOrdinals}, block.seen[row + r]);
    strip.sum[r] = {kMinusInfinity, 0.0f};
    strip.seen[r] = {0, 0};  // an empty overlap may lie behind the tile
    if (cut.begin >= cut.end) continue;
    strip.seen[r] = {cut.begin - tile_begin, cut.end - tile_begin};
    strip.all = {smaller(strip.all.begin, strip.seen[r].begin),
                 larger(strip.all.end, strip.seen[r].end)};
  }
}

template <typename V>
void score_strip(const Job<V>& job, const RowBlock& block, const TileView& tile, const Strip& strip,
                 float* scores) {
  const LaneView& lane = job.lane;
  const ScoreJob score = {lane.key_size, lane.block_tokens * bytes_of(lane.key_type), block.step,
                          job.view.scale};
  // strip.row is a multiple of the step.
  const float* q = job.scratch + job.plan.queries + std::size_t{strip.row} * lane.key_size;
  if (block.direct) {
    job.types.score_for(strip.rows)(score, q, tile, scores);
  } else {
    const float* keys = job.scratch + job.plan.keys;
    score_converted_for<V>(strip.rows)(score, q, keys, strip.all, scores);
  }
}

// Scores become p; all maxima first, so that one row's sum overlaps the next one's.
template <typename V>
void softmax_strip(float softcap, std::uint32_t tile, const TapRows& taps, float* scores,
                   Strip& strip) {
  for (std::uint32_t r = 0; r < strip.rows; ++r) {
    const Interval seen = strip.seen[r];
    if (seen.begin >= seen.end) continue;
    strip.sum[r].m = maximum_of_tile<V>(scores + r * kScoreStride, seen.begin, seen.end, softcap);
  }
  for (std::uint32_t r = 0; r < strip.rows; ++r) {
    const std::size_t kept = (strip.row + r) * taps.tiles + tile;
    if (taps.p != nullptr) taps.m[kept] = strip.sum[r].m;
    if (strip.sum[r].m == kMinusInfinity) {
      strip.seen[r] = {0, 0};  // a tile that counts as empty adds nothing, whatever its V holds
      continue;
    }
    strip.sum[r].l = exponentials_of_tile<V>(
        scores + r * kScoreStride, strip.seen[r].begin, strip.seen[r].end, strip.sum[r].m,
        taps.p == nullptr ? nullptr : taps.p + kept * kTileOrdinals);
  }
}

template <typename V>
void value_strip(const Job<V>& job, const RowBlock& block, const TileView& tile, const Strip& strip,
                 const float* scores, float* out) {
  const std::uint32_t size = job.lane.value_size;
  for (std::size_t i = 0; i < std::size_t{strip.rows} * size; i += 16) V::all(0.0f).store(out + i);
  if (strip.all.begin >= strip.all.end) return;
  if (block.direct) {
    const std::size_t bytes = bytes_of(job.lane.value_type);
    job.types.add_stored({tile.runs, tile.run_count, size * bytes, 16 * bytes}, size, strip.rows,
                         strip.seen, scores, out);
  } else {
    const ValueRun run = {reinterpret_cast<const std::byte*>(job.scratch + job.plan.values), 0,
                          kTileOrdinals};
    add_strip<V, KvType::kF32>({&run, 1, 0, kTileOrdinals * 16 * sizeof(float)}, size, strip.rows,
                               strip.seen, scores, out);
  }
}

// One tile of every row of the block; calls take(strip, o[rows][value_size]) for each strip.
template <typename V, typename Take>
void attend_tile(const Job<V>& job, std::uint32_t index, const TapRows& taps, const RowBlock& block,
                 TileView& tile, Take take) {
  const LaneView& lane = job.lane;
  const Ordinal begin = index * kTileOrdinals;
  float* scores = job.scratch + job.plan.scores + kScorePad;
  float* out = job.scratch + job.plan.tile_out;
  const Interval all = overlap({begin, begin + kTileOrdinals}, block.all);
  Ahead ahead = {lane.blocks, 0, 0};
  if (all.begin < all.end) {
    const Interval seen = {all.begin - begin, all.end - begin};
    view_tile(lane, begin, seen, tile);
    if (!block.direct) {
      job.types.convert_keys(lane, tile, seen, job.scratch + job.plan.keys);
      job.types.convert_values(lane, tile, job.scratch + job.plan.values);
      ahead = blocks_ahead(lane, {all.end, smaller(all.end + kTileOrdinals, block.all.end)},
                           (block.rows + block.step - 1) / block.step);
    }
  }
  Strip strip;
  for (std::uint32_t row = 0; row < block.rows; row += block.step) {
    open_strip(block, row, begin, strip);
    ahead.prefetch(lane);
    if (strip.all.begin < strip.all.end) score_strip(job, block, tile, strip, scores);
    softmax_strip<V>(job.view.softcap, index - first_tile(lane), taps, scores, strip);
    value_strip(job, block, tile, strip, scores, out);
    take(strip, out);
  }
}

template <typename V>
void finish_block(const LaneView& lane, const QueryView& view, const TapView& tap,
                  const TapRows& taps, const float* row_out, RowBlock& block) {
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
  const Job<V> job(lane, view, tap_live, scratch);
  const TapRows no_taps = {nullptr, nullptr, 0};
  const TapRows kept = {scratch + job.plan.tap_p, scratch + job.plan.tap_m, tap_tiles(tap_live)};
  float* row_out = scratch + job.plan.row_out;
  RowBlock block;
  TileView tile;
  std::uint32_t tokens = 0;
  for (std::uint32_t token = 0; token < view.tokens; token += tokens) {
    // Blocks with taps are smaller, so the tokens before the first tap make blocks of their own.
    const bool plain = tap.sum == nullptr || token < tap.first_token;
    const bool tap_later = plain && tap.sum != nullptr && tap.first_token < view.tokens;
    const std::uint32_t end = tap_later ? tap.first_token : view.tokens;
    tokens = even_step(end - token, block_of_tokens(view.group, plain ? 0 : tap_live));
    const TapRows& taps = plain ? no_taps : kept;
    open_block(job, token, tokens, block);
    const auto merge = [&](const Strip& strip, const float* o) {
      merge_tile<V>(strip.rows, block.row_sum + strip.row,
                    row_out + std::size_t{strip.row} * lane.value_size, strip.sum, o,
                    lane.value_size);
    };
    for (std::uint32_t t = block.all.begin / kTileOrdinals; t * kTileOrdinals < block.all.end;
         ++t) {
      attend_tile(job, t, taps, block, tile, merge);
    }
    finish_block<V>(lane, view, tap, taps, row_out, block);
  }
}

template <typename V>
void attend_tiles(const LaneView& lane, const QueryView& view, std::uint32_t tile_begin,
                  std::uint32_t tile_end, float* partial, std::size_t partial_row_stride,
                  float* scratch) {
  const Job<V> job(lane, view, 0, scratch);
  const std::uint32_t step = even_step(view.tokens, block_of_tokens(view.group, 0));
  RowBlock block;
  TileView tile;
  for (std::uint32_t token = 0; token < view.tokens; token += step) {
    open_block(job, token, smaller(view.tokens - token, step), block);
    for (std::uint32_t t = tile_begin; t < tile_end; ++t) {
      const auto keep = [&](const Strip& strip, const float* o) {
        float* to = partial + (std::size_t{token} * view.group + strip.row) * partial_row_stride +
                    (t - tile_begin) * partial_floats(lane.value_size);
        for (std::uint32_t r = 0; r < strip.rows; ++r, to += partial_row_stride) {
          to[0] = strip.sum[r].m;
          to[1] = strip.sum[r].l;
          for (std::uint32_t d = 0; d < lane.value_size; d += 16, o += 16) {
            V::load(o).store(to + 2 + d);
          }
        }
      };
      attend_tile(job, t, {nullptr, nullptr, 0}, block, tile, keep);
    }
  }
}

}  // namespace
}  // namespace quire::kernels
