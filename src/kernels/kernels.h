// The kernels of the cache: pointers and sizes only, one table per instruction set.
//
// Layout of a block of `tokens` slots (tokens = 8, 16, 32 or 64):
//   K: [key_size][tokens]    d-major, so that one vector holds one d of 8 or 16 tokens
//   V: [tokens][value_size]  token-major, so that one vector holds one token's values
// V follows K at LaneView::value_offset bytes.
//
// Order of additions.  The same on every instruction set, for every layout, thread count, chunk
// size, batch and for open and full blocks (so results are memcmp-equal, also to the reference):
//   score  s = scale * (fma chain over d = 0, 1, ... key_size - 1, from +0), then soft cap
//   tile   512 ordinals, [512 t, 512 (t + 1)); within a tile, over visible entries only:
//          m = max s;  p = exp(s - m) (our own polynomial);
//          l = 16 partial sums by (ordinal mod 16), each ascending, added by a fixed tree
//          o[d] = fma chain over ordinals ascending, from +0
//   merge  tiles left to right: m' = max(m, mt); o = o * exp(m - m') + ot * exp(mt - m') ...
//   end    out = o / l, the learned sink (if any) joining l last
// K of a dead slot may be read (its score is discarded); V of a dead, masked or future slot never
// enters arithmetic, so garbage, NaN or infinity there cannot be seen.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quire/cache.h"
#include "quire/policy.h"
#include "quire/types.h"

namespace quire::kernels {

constexpr std::uint32_t kTileOrdinals = 512;

struct BlockView {
  const std::byte* data;  // the block: K then V
  std::uint64_t live;     // bit i: slot i holds a live entry
  Position base;          // position of slot 0; slot i is base + i (unless LaneView::position)
  Ordinal first_ordinal;  // ordinal of the block's first live entry; of none: the next block's
};

// What attention reads of one lane.  Blocks ascend in ordinal and position.
struct LaneView {
  const BlockView* blocks;  // [block_count]
  std::uint32_t block_count;
  const Position* position;  // [live], by ordinal - first; null: BlockView::base rules
  Ordinal first;             // ordinal of the first entry: > 0 when a window dropped a prefix
  std::uint32_t live;        // entries; ordinals are [first, first + live)
  std::uint32_t block_tokens;
  KvType key_type, value_type;
  std::uint32_t key_size, value_size;
  std::size_t value_offset;  // bytes from block start to V
};

// The query rows of one KV head: `tokens` consecutive rows of one sequence x `group` query heads.
// Head g of token t: q + t * q_stride + g * key_size; out + t * out_stride + g * value_size.
struct QueryView {
  const float* q;
  float* out;
  std::size_t q_stride, out_stride;  // in floats
  std::uint32_t tokens, group;
  Position first_position;  // token t is at first_position + t
  float scale, softcap;     // softcap 0 = none
  std::uint32_t window;     // 0 = all
  const float* sinks;       // [group] or null
};

// Attention sums per key as integers in units of 2^-40, so that no order of addition can enter.
// A row's p is first reduced over the group's heads in head order (kSum, kMean, kMax, kSquareSum,
// kMissed: 1 where the mean is below 1 / entries seen) in f32; the result is rounded to the unit
// and added.
struct TapView {
  std::int64_t* sum;       // [live] added to, index = ordinal - first; null = off
  std::int64_t* per_head;  // [group][per_head_stride] or null
  std::size_t per_head_stride;
  Reduce group;
  std::uint32_t first_token;  // tokens [first_token, tokens) of the QueryView are summed
};
constexpr double kTapUnit = 1.0 / (std::int64_t{1} << 40);

// Of the weights that tokens give a key, for each head: their sum, and that of their squares.
struct MomentsView {
  float* sum;          // [group][stride], index = ordinal - first
  float* square;       // likewise
  std::size_t stride;  // at least `live`
};

// Partial results of one tile and one row: m, l, then o[value_size].
constexpr std::size_t partial_floats(std::uint32_t value_size) {
  return 2 + value_size;
}

// Query rows of one head, and what turns them back to what they were before their rotation:
// y[i] = q[i] * turn[0][i] + q[partner of i] * turn[1][i].
struct QueryRows {
  const float* q;        // row r at q + r * q_stride, [size]
  std::size_t q_stride;  // in floats
  std::uint32_t rows, size;
  bool halves;        // partners are i and (i + size / 2) mod size, else 2 i and 2 i + 1
  const float* turn;  // [rows][2][size]
  bool first;         // of their statistics: its first row becomes the origin
};

// Statistics of the rows y of one query head: origin [size], the first y; sum [size] of y - origin;
// and of the products of two of its values, row i over the columns j of all blocks of 16 up to
// its own, at query_product(i).
constexpr std::uint32_t query_product(std::uint32_t i) {
  const std::uint32_t block = i / 16;
  return 128 * block * (block + 1) + i % 16 * 16 * (block + 1);
}
constexpr std::uint32_t query_floats(std::uint32_t size) {
  return 2 * size + query_product(size);
}
// Floats of scratch for add_queries.
constexpr std::uint32_t kQueryRows = 32;  // at a time: 8 KiB of heads of 64
constexpr std::size_t query_scratch_floats(std::uint32_t size) {
  return std::size_t{size} * (kQueryRows + 2);
}

// Everything a level offers.  All functions are reentrant; scratch is the caller's, 64-byte
// aligned.
struct Kernels {
  Isa isa;

  // Stores `tokens` rows of k and v (f32, row t at k + t * k_stride) into slots
  // [slot, slot + tokens) of one block.  Round to nearest even; f16 overflow becomes infinity.
  void (*append)(std::byte* block, std::uint32_t block_tokens, std::size_t value_offset,
                 KvType key_type, KvType value_type, std::uint32_t key_size,
                 std::uint32_t value_size, std::uint32_t slot, std::uint32_t tokens, const float* k,
                 std::size_t k_stride, const float* v, std::size_t v_stride);

  // All tiles of all rows, written to out.  `tap.sum == nullptr` costs nothing.
  void (*attend)(const LaneView& lane, const QueryView& rows, const TapView& tap, float* scratch);

  // Tiles [tile_begin, tile_end) of all rows into partial[row][tile - tile_begin][partial_floats],
  // row = t * group + g, one tile having `partial_row_stride` floats per row in all.
  // A tile with no visible entry has m = -infinity, l = 0, o = 0.
  void (*attend_tiles)(const LaneView& lane, const QueryView& rows, std::uint32_t tile_begin,
                       std::uint32_t tile_end, float* partial, std::size_t partial_row_stride,
                       float* scratch);
  // Merges tile_count partials per row left to right and writes out: bit-equal to attend().
  void (*merge)(const QueryView& rows, std::uint32_t value_size, const float* partial,
                std::size_t partial_row_stride, std::uint32_t tile_count);

  // Adds the tokens' weights w, one token after the other: sum + w, and fma(w, w, square).
  // QueryView::out is not used, nor is V; scratch as for attend with taps.
  void (*add_moments)(const LaneView& lane, const QueryView& rows, const MomentsView& moments,
                      float* scratch);

  // L2 norms of the live entries in ordinal order; either output may be null.
  void (*norms)(const LaneView& lane, float* key_norm, float* value_norm);

  // What a policy may be shown of a lane (EntryView says what the numbers mean); outputs are
  // [live], scratch holds feature_floats().  Dot products and squares are 16 fma chains by d mod 16
  // from +0, added by the tree; sums of rows run over ordinals ascending, one fma chain for each d;
  // a row that is all zeros or has no finite norm counts as zeros.
  //   alignment   norm = sqrt(k.k);  total = fma(k, 1 / norm, total);  k.total / norm / |total|
  //   spread      x = (k - low) / (high - low);  sqrt(sum of (x - mean)^2 / (size - 1)), where the
  //               mean is 16 sums by d mod 16, the tree, over size
  //   similarity  u = k * (1 / norm);  sum = u.total - u.u;  the twin is the newest j with u.uj >
  //   1/2
  void (*alignment)(const LaneView& lane, float* cosine, float* scratch);
  void (*spread)(const LaneView& lane, std::uint32_t chunk, std::uint32_t skip, float* key,
                 float* value, float* scratch);
  void (*similarity)(const LaneView& lane, std::uint32_t run, float* sum, Ordinal* twin,
                     float* twin_cosine, float* scratch);

  // Adds rows to the statistics of a head, in order: y = fma(q, turn[0], partner * turn[1]), then
  // x = y - origin, sum + x, and a chain of fma(x[i], x[j], product).
  void (*add_queries)(const QueryRows& rows, float* statistics, float* scratch);
  // EntryView::expected of one query head: t[j] = mean[j], then fma(form[i][j], k[i], t[j]) over
  // i ascending from the first of j's block of 16; dot product of t and k.  `form` lies like the
  // products: the halved covariance, doubled where j's block is before i's.
  void (*expect)(const LaneView& lane, const float* mean, const float* form, float* expected,
                 float* scratch);
  // Adds |w.v| of `outputs` (a multiple of 16) outputs for each of `group` heads to sum [live];
  // weights [group][value_size][outputs].  w.v is a chain of fma over d; 16 sums by output mod 16,
  // heads in order, then the tree, then onto the sum.
  void (*add_output_norms)(const LaneView& lane, const float* weights, std::uint32_t group,
                           std::uint32_t outputs, float* sum, float* scratch);

  // Copies the entries in the slots of one block that `slots` has bits of, K and V, to the slots
  // from `to_slot` on of another block of the same shape.
  void (*copy_entries)(const std::byte* from, std::uint64_t slots, std::byte* to,
                       std::uint32_t to_slot, std::uint32_t block_tokens, std::size_t value_offset,
                       KvType key_type, KvType value_type, std::uint32_t key_size,
                       std::uint32_t value_size);
};

// First ordinal tile and one past the last that a lane's entries touch: tiles are numbered from
// ordinal 0, also when a window dropped a prefix.
constexpr std::uint32_t first_tile(const LaneView& lane) {
  return lane.first / kTileOrdinals;
}
constexpr std::uint32_t end_tile(const LaneView& lane) {
  return (lane.first + lane.live + kTileOrdinals - 1) / kTileOrdinals;
}

// Floats of scratch that attend and attend_tiles need for any QueryView with this group, and with
// taps for lanes of up to `live` entries (0 when taps are off).
std::size_t scratch_floats(std::uint32_t key_size, std::uint32_t value_size, std::uint32_t group,
                           std::uint32_t tap_live);

// Floats of scratch for a lane's alignment, expectations or output norms, or for its spread or
// similarity with chunks or runs of `run` entries.
constexpr std::size_t feature_floats(const LaneView& lane, std::uint32_t run) {
  const std::size_t size = lane.key_size > lane.value_size ? lane.key_size : lane.value_size;
  const std::uint64_t rows =
      2 * std::uint64_t{run} < lane.live ? 2 * std::uint64_t{run} : lane.live;
  return size * (2 + (rows < kTileOrdinals ? kTileOrdinals : rows));
}

// The best level of this machine at most `limit` (kAuto: no limit); kScalar always exists.
const Kernels& kernels_for(Isa limit);
// Kernels with other bits for chunks of rows, or null where the machine has none: faster from some
// number of rows on (CacheOptions::attend_chunk_rows).
const Kernels* chunk_kernels_for(Isa limit);
// Whether the machine can run the level; for AMX, Linux is asked for the tile registers.
bool machine_has(Isa isa);
// The slow obvious twin of every kernel: same results bit for bit, one loop per formula.
const Kernels& reference_kernels();

}  // namespace quire::kernels
