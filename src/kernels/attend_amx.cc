// Attention of a chunk's rows on AMX tiles.
//
// A factor that has more bits than bf16 goes in as two: x = high + low, each bf16.
//   scores  q.k = qh.kh + qh.kl + ql.kh      (f16 keys are two bf16 exactly; what is left out is
//                                             below 2^-17 of |q| |k|)
//   output  p.v = ph.vh + ph.vl              (p is rounded to 8 bits, at random)
// Softmax and the merging of tiles are the f32 kernels'.  A tile instruction adds in its own order,
// so the bits are not those of the other kernels.  V of an entry that a row does not see is
// multiplied by p = 0: a V without a bf16 (a NaN, an infinity) enters as 0, and rows that do see it
// are computed by the f32 kernels.  V of dead slots and behind the lane's end never enters, as
// everywhere.
#ifdef __x86_64__

#include <cstring>

#include "kernels/levels.h"
#include "kernels/table_impl.h"
#include "kernels/tiles_amx.h"
#include "kernels/vector_avx512.h"

namespace quire::kernels {
namespace {

using V = Avx512Vector;

constexpr std::size_t kTileBytes = 1024;
constexpr std::uint32_t kTileKeys = 16, kTileDepth = 32;  // columns of B; factors summed at once
constexpr std::uint32_t kDepthTiles = kTileOrdinals / kTileDepth;
// From these bits on (of |x|) a float rounds to no finite bf16.
constexpr std::uint32_t kUnfit = 0x7F7F8000;

constexpr TileConfig kTiles = full_tiles();

// Where the tiles lie in the scratch, in bytes.
struct TilePlan {
  std::byte* queries;   // [strip][depth tile][high, low]
  std::byte* keys;      // [key tile][depth tile][high, low]
  std::byte* values;    // [16 of value_size][depth tile][high, low]
  std::byte* p;         // [depth tile]
  float* scores;        // [16][kScoreStride]
  float* out;           // [16][value_size]
  std::uint32_t depth;  // tiles of key_size
};

TilePlan plan_tiles(const LaneView& lane, float* scratch) {
  const ChunkScratch at = plan_chunk(lane.key_size, lane.value_size);
  const auto bytes = [&](std::size_t floats) {
    return reinterpret_cast<std::byte*>(scratch + floats);
  };
  return {.queries = bytes(at.queries),
          .keys = bytes(at.keys),
          .values = bytes(at.values),
          .p = bytes(at.p),
          .scores = scratch + at.scores + kScorePad,
          .out = scratch + at.out,
          .depth = (lane.key_size + kTileDepth - 1) / kTileDepth};
}

__m512 low_floats(__m512i words) {  // words 0-15 as the high halves of floats
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(words)), 16));
}
__m512 high_floats(__m512i words) {
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(words, 1)), 16));
}

// x[0 ... 31] as a row of A: 32 bf16 and what they leave.
void split_row(const float* x, std::byte* high, std::byte* low) {
  const __m512 a = _mm512_loadu_ps(x), b = _mm512_loadu_ps(x + 16);
  const __m512i both = bfloats(b, a);
  _mm512_store_si512(high, both);
  const __m512i left =
      bfloats(_mm512_sub_ps(b, high_floats(both)), _mm512_sub_ps(a, low_floats(both)));
  _mm512_store_si512(low, left);
}

// Two rows of 16 as a row of B: pairs (even[n], odd[n]), and what they leave.  Bits of those that
// became no finite number.
__mmask32 split_pairs(__m512 even, __m512 odd, std::byte* high, std::byte* low) {
  const __m512i both = bfloats(odd, even);
  _mm512_store_si512(high, interleaved(both));
  const __m512i left =
      bfloats(_mm512_sub_ps(odd, high_floats(both)), _mm512_sub_ps(even, low_floats(both)));
  _mm512_store_si512(low, interleaved(left));
  const __m512i exponent = _mm512_set1_epi16(0x7F80);
  return _mm512_cmpeq_epi16_mask(_mm512_and_si512(both, exponent), exponent);
}

// The block's rows, scaled, in strips of 16.
void tile_queries(const Job<V>& job, const RowBlock& block, const TilePlan& plan) {
  const std::uint32_t size = job.lane.key_size;
  float row[kTileDepth];
  for (std::uint32_t r = 0; r < (block.rows + 15) / 16 * 16; ++r) {
    const std::uint32_t t = block.token + r / job.view.group, g = r % job.view.group;
    const float* q = job.view.q + t * job.view.q_stride + std::size_t{g} * size;
    for (std::uint32_t k = 0; k < plan.depth; ++k) {
      for (std::uint32_t i = 0; i < kTileDepth; ++i) {
        const std::uint32_t d = k * kTileDepth + i;
        row[i] = r < block.rows && d < size ? q[d] * job.view.scale : 0.0f;
      }
      std::byte* tile =
          plan.queries + ((r / kTileRows * plan.depth + k) * 2) * kTileBytes + r % kTileRows * 64;
      split_row(row, tile, tile + kTileBytes);
    }
  }
}

// From convert_keys' layout; `seen` relative to the tile of 512.
void tile_keys(const LaneView& lane, const float* keys, Interval seen, const TilePlan& plan) {
  const __m512 zero = _mm512_setzero_ps();
  for (std::uint32_t c = seen.begin / kTileKeys; c * kTileKeys < seen.end; ++c) {
    const std::uint32_t ordinal = c * kTileKeys;
    const float* from =
        keys + std::size_t{ordinal / kKeyGroup * kKeyGroup} * lane.key_size + ordinal % kKeyGroup;
    for (std::uint32_t d = 0; d < plan.depth * kTileDepth; d += 2) {
      const bool inside = d < lane.key_size;  // a multiple of 16
      const float* pair = from + std::size_t{d} * kKeyGroup;
      std::byte* tile = plan.keys + ((c * plan.depth + d / kTileDepth) * 2) * kTileBytes +
                        d % kTileDepth / 2 * 64;
      split_pairs(inside ? _mm512_loadu_ps(pair) : zero,
                  inside ? _mm512_loadu_ps(pair + kKeyGroup) : zero, tile, tile + kTileBytes);
    }
  }
}

template <KvType kType>
void copy_values(const LaneView& lane, const TileView& tile, float* values) {
  const std::size_t row_bytes = lane.value_size * bytes_of(kType);
  for (std::uint32_t n = 0; n < tile.run_count; ++n) {
    const ValueRun& run = tile.runs[n];
    for (std::uint32_t i = 0; i < run.count; ++i) {
      float* to = values + std::size_t{run.first + i} * lane.value_size;
      for (std::uint32_t d = 0; d < lane.value_size; d += 16) {
        V::load<kType>(run.v + i * row_bytes + d * bytes_of(kType)).store(to + d);
      }
    }
  }
}

// values [ordinal][value_size]; what `seen` leaves of a depth tile is 0.  False if one has no bf16.
bool tile_values(const LaneView& lane, float* values, Interval seen, const TilePlan& plan) {
  const std::uint32_t size = lane.value_size;
  const std::uint32_t first = seen.begin / kTileDepth * kTileDepth;
  const std::uint32_t last = (seen.end + kTileDepth - 1) / kTileDepth * kTileDepth;
  std::memset(values + std::size_t{first} * size, 0, (seen.begin - first) * size * sizeof(float));
  std::memset(values + std::size_t{seen.end} * size, 0, (last - seen.end) * size * sizeof(float));
  __mmask32 unfit = 0;
  for (std::uint32_t o = first; o < last; o += 2) {
    const float* pair = values + std::size_t{o} * size;
    for (std::uint32_t d = 0; d < size; d += 16) {
      std::byte* tile = plan.values + ((d / 16 * kDepthTiles + o / kTileDepth) * 2) * kTileBytes +
                        o % kTileDepth / 2 * 64;
      unfit |= split_pairs(_mm512_loadu_ps(pair + d), _mm512_loadu_ps(pair + size + d), tile,
                           tile + kTileBytes);
    }
  }
  return unfit == 0;
}

// Values without a bf16 become 0; from the first of their ordinals to the last.
Interval clear_unfit(const LaneView& lane, float* values, Interval seen) {
  Interval found = {seen.end, seen.begin};
  for (std::uint32_t o = seen.begin; o < seen.end; ++o) {
    float* row = values + std::size_t{o} * lane.value_size;
    for (std::uint32_t d = 0; d < lane.value_size; d += 16) {
      const __m512i bits =
          _mm512_and_si512(_mm512_loadu_si512(row + d), _mm512_set1_epi32(0x7FFFFFFF));
      const __mmask16 unfit = _mm512_cmpge_epu32_mask(bits, _mm512_set1_epi32(kUnfit));
      if (unfit == 0) continue;
      _mm512_mask_storeu_ps(row + d, unfit, _mm512_setzero_ps());
      found = {smaller(found.begin, o), o + 1};
    }
  }
  return found;
}

// scores[16][kScoreStride] of a strip over the key tiles of `seen`.
void score_tiles(const TilePlan& plan, std::uint32_t strip, Interval seen) {
  const std::byte* q = plan.queries + std::size_t{strip} * plan.depth * 2 * kTileBytes;
  for (std::uint32_t c = seen.begin / kTileKeys; c * kTileKeys < seen.end; ++c) {
    const std::byte* k = plan.keys + std::size_t{c} * plan.depth * 2 * kTileBytes;
    _tile_zero(0);
    for (std::uint32_t d = 0; d < plan.depth * 2 * kTileBytes; d += 2 * kTileBytes) {
      _tile_loadd(4, q + d, 64);
      _tile_loadd(5, q + d + kTileBytes, 64);
      _tile_loadd(6, k + d, 64);
      _tile_loadd(7, k + d + kTileBytes, 64);
      _tile_dpbf16ps(0, 5, 6);
      _tile_dpbf16ps(0, 4, 7);
      _tile_dpbf16ps(0, 4, 6);
    }
    _tile_stored(0, plan.scores + c * kTileKeys, kScoreStride * sizeof(float));
  }
}

// out [16][value_size] = p by the values of `seen`, four tiles of it at a time.
void value_tiles(const TilePlan& plan, std::uint32_t value_size, Interval seen) {
  const std::uint32_t begin = seen.begin / kTileDepth;
  const std::uint32_t end = (seen.end + kTileDepth - 1) / kTileDepth;
  const std::size_t stride = value_size * sizeof(float);
  constexpr std::size_t kColumn = kDepthTiles * 2 * kTileBytes;  // 16 of value_size
  std::uint32_t d = 0;
  for (; d + 64 <= value_size; d += 64) {
    const std::byte* v = plan.values + d / 16 * kColumn;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (std::uint32_t k = begin; k < end; ++k) {
      const std::byte* at = v + k * 2 * kTileBytes;
      _tile_loadd(4, plan.p + k * kTileBytes, 64);
      _tile_loadd(5, at, 64);
      _tile_dpbf16ps(0, 4, 5);
      _tile_loadd(6, at + kTileBytes, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, at + kColumn, 64);
      _tile_dpbf16ps(1, 4, 7);
      _tile_loadd(5, at + kColumn + kTileBytes, 64);
      _tile_dpbf16ps(1, 4, 5);
      _tile_loadd(6, at + 2 * kColumn, 64);
      _tile_dpbf16ps(2, 4, 6);
      _tile_loadd(7, at + 2 * kColumn + kTileBytes, 64);
      _tile_dpbf16ps(2, 4, 7);
      _tile_loadd(5, at + 3 * kColumn, 64);
      _tile_dpbf16ps(3, 4, 5);
      _tile_loadd(6, at + 3 * kColumn + kTileBytes, 64);
      _tile_dpbf16ps(3, 4, 6);
    }
    _tile_stored(0, plan.out + d, stride);
    _tile_stored(1, plan.out + d + 16, stride);
    _tile_stored(2, plan.out + d + 32, stride);
    _tile_stored(3, plan.out + d + 48, stride);
  }
  for (; d < value_size; d += 16) {
    const std::byte* v = plan.values + d / 16 * kColumn;
    _tile_zero(0);
    for (std::uint32_t k = begin; k < end; ++k) {
      _tile_loadd(4, plan.p + k * kTileBytes, 64);
      _tile_loadd(5, v + k * 2 * kTileBytes, 64);
      _tile_loadd(6, v + k * 2 * kTileBytes + kTileBytes, 64);
      _tile_dpbf16ps(0, 4, 5);
      _tile_dpbf16ps(0, 4, 6);
    }
    _tile_stored(0, plan.out + d, stride);
  }
}

// p of one row, bf16, over the depth tiles of the strip; 0 where the row sees nothing.
void tile_p(const float* p, Interval row, Interval strip, std::byte* to) {
  const std::uint32_t first = row.begin / 16 * 16, last = (row.end + 15) / 16 * 16;
  const auto part = [&](std::uint32_t i) {
    return i >= first && i < last ? _mm512_loadu_ps(p + i) : _mm512_setzero_ps();
  };
  const std::uint32_t end = (strip.end + kTileDepth - 1) / kTileDepth;
  for (std::uint32_t k = strip.begin / kTileDepth; k < end; ++k) {
    _mm512_store_si512(to + k * kTileBytes,
                       bfloats(part(k * kTileDepth + 16), part(k * kTileDepth)));
  }
}

// 16 rows over one tile of 512 ordinals.
void attend_strip(const Job<V>& job, const RowBlock& block, const TilePlan& plan, std::uint32_t row,
                  Ordinal begin, RowBlock& sums) {
  const std::uint32_t rows = smaller(kTileRows, block.rows - row);
  Interval seen[kTileRows], all = {kTileOrdinals, 0};
  RowSum sum[kTileRows];
  for (std::uint32_t r = 0; r < rows; ++r) {
    const Interval cut = overlap({begin, begin + kTileOrdinals}, block.seen[row + r]);
    sum[r] = {kMinusInfinity, 0.0f};
    seen[r] = {0, 0};
    if (cut.begin >= cut.end) continue;
    seen[r] = {cut.begin - begin, cut.end - begin};
    all = {smaller(all.begin, seen[r].begin), larger(all.end, seen[r].end)};
  }
  if (all.begin >= all.end) return;
  fence();
  score_tiles(plan, row / kTileRows, all);
  fence();
  for (std::uint32_t r = 0; r < rows; ++r) {
    float* scores = plan.scores + r * kScoreStride;
    if (seen[r].begin < seen[r].end) {
      sum[r].m = maximum_of_tile<V>(scores, seen[r].begin, seen[r].end, job.view.softcap);
    }
    if (sum[r].m == kMinusInfinity) {
      seen[r] = {0, 0};
    } else {
      sum[r].l = exponentials_of_tile<V>(scores, seen[r].begin, seen[r].end, sum[r].m, nullptr);
    }
    tile_p(scores, seen[r], all, plan.p + r * 64);
  }
  fence();
  value_tiles(plan, job.lane.value_size, all);
  fence();
  merge_tile<V>(rows, sums.row_sum + row,
                job.scratch + job.plan.row_out + std::size_t{row} * job.lane.value_size, sum,
                plan.out, job.lane.value_size);
}

// Leaves the ordinals that rows must not have been computed with: from the first without a bf16 to
// the last.
Interval attend_block(const Job<V>& job, const TilePlan& plan, RowBlock& block, TileView& tile) {
  const LaneView& lane = job.lane;
  const auto copy = lane.value_type == KvType::kF16    ? copy_values<KvType::kF16>
                    : lane.value_type == KvType::kBF16 ? copy_values<KvType::kBF16>
                                                       : copy_values<KvType::kF32>;
  float* keys = job.scratch + job.plan.keys;
  float* values = job.scratch + job.plan.values;
  Interval unfit = {~std::uint32_t{0}, 0};
  tile_queries(job, block, plan);
  for (std::uint32_t t = block.all.begin / kTileOrdinals; t * kTileOrdinals < block.all.end; ++t) {
    const Ordinal begin = t * kTileOrdinals;
    const Interval all = overlap({begin, begin + kTileOrdinals}, block.all);
    const Interval seen = {all.begin - begin, all.end - begin};
    view_tile(lane, begin, seen, tile);
    job.types.convert_keys(lane, tile, seen, keys);
    copy(lane, tile, values);
    tile_keys(lane, keys, seen, plan);
    if (!tile_values(lane, values, seen, plan)) {
      const Interval found = clear_unfit(lane, values, seen);
      unfit = {smaller(unfit.begin, begin + found.begin), begin + found.end};
      tile_values(lane, values, seen, plan);
    }
    for (std::uint32_t row = 0; row < block.rows; row += kTileRows) {
      attend_strip(job, block, plan, row, begin, block);
    }
  }
  return unfit;
}

QueryView tokens_of(const QueryView& view, std::uint32_t first, std::uint32_t tokens) {
  QueryView rows = view;
  rows.q += first * view.q_stride;
  rows.out += first * view.out_stride;
  rows.tokens = tokens;
  rows.first_position += first;
  return rows;
}

// The block's tokens that see an unfit entry, again, by the f32 kernels.
void attend_unfit(const LaneView& lane, const QueryView& view, const RowBlock& block,
                  Interval unfit, float* scratch) {
  std::uint32_t first = block.tokens, end = 0;
  for (std::uint32_t t = 0; t < block.tokens; ++t) {
    const Interval both = overlap(block.seen[t * view.group], unfit);
    if (both.begin >= both.end) continue;
    first = smaller(first, t);
    end = t + 1;
  }
  if (first < end) {
    attend<V>(lane, tokens_of(view, block.token + first, end - first), {}, scratch);
  }
}

// The sums are the exact kernels', whose output is then overwritten: what a row computes must not
// depend on who watches it.
void add_taps(const LaneView& lane, const QueryView& view, TapView tap, float* scratch) {
  const QueryView rows = tokens_of(view, tap.first_token, view.tokens - tap.first_token);
  tap.first_token = 0;
  attend<V>(lane, rows, tap, scratch);
}

void attend_amx(const LaneView& lane, const QueryView& view, const TapView& tap, float* scratch) {
  if (tap.sum != nullptr) add_taps(lane, view, tap, scratch);
  const Job<V> job(lane, view, 0, scratch);
  const TilePlan plan = plan_tiles(lane, scratch + job.plan.total);
  const std::uint32_t step = even_step(view.tokens, block_of_tokens(view.group, 0));
  const Tiles tiles(kTiles);
  RowBlock block;
  TileView tile;
  for (std::uint32_t token = 0; token < view.tokens; token += step) {
    open_block(job, token, smaller(view.tokens - token, step), block);
    const Interval unfit = attend_block(job, plan, block, tile);
    finish_block<V>(lane, view, {}, {nullptr, nullptr, 0}, job.scratch + job.plan.row_out, block);
    if (unfit.begin < unfit.end) attend_unfit(lane, view, block, unfit, scratch);
  }
}

constexpr Kernels kTable = [] {
  Kernels table = table_of<V>(Isa::kAmx);
  table.attend = attend_amx;
  return table;
}();

}  // namespace

const Kernels& amx_kernels() {
  return kTable;
}

}  // namespace quire::kernels

#endif  // __x86_64__
