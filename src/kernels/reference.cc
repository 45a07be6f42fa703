// The slow obvious twin of every kernel: one loop per formula, in the order that kernels.h states.
//
// Where kernels.h leaves a step open, this file defines it:
//   scale     s = chain * scale; soft cap s = softcap * tanh(s * (1 / softcap))
//   max       a NaN score is passed over; it then makes p, l and the row NaN
//   empty     a tile whose m is -infinity counts as empty: l = 0, o = 0, skipped by the merge;
//             a row without any tile that counts is 0
//   l         16 sums, then sum[i] += sum[i + 8], + 4, + 2, + 1
//   merge     the first tile that counts is copied; then a = exp(m - m'), b = exp(mt - m'),
//             l = fma(lt, b, l * a), o = fma(ot, b, o * a)
//   sink      m' = max(m, sink), a = exp(m - m'), l = fma(l, a, exp(sink - m')), o = o * a
//   tap       w = p * (exp(m_tile - m) / l) with the row's final m and l (sink included); heads in
//             order: w0 + w1 + ..., that / group, max, or fma(w, w, ...) from 0; a NaN counts as 0
//   norm      sqrt of: K one fma chain over d; V 16 fma chains by d mod 16, added like l
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/half.h"
#include "kernels/kernels.h"
#include "kernels/softmax_constants.h"

namespace quire::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float exp_of(float x) {
  if (x < kExpZero) return 0.0f;
  const float shifted = std::fma(x, kLog2E, kRoundMagic);
  const float n = shifted - kRoundMagic;
  const float r = std::fma(n, -kLn2Low, std::fma(n, -kLn2High, x));
  float y = kExpPoly[0];
  for (int i = 1; i < 7; ++i) y = std::fma(y, r, kExpPoly[i]);
  y = std::fma(y, r, 1.0f);
  return y * float_of_bits((bits_of_float(shifted) << 23) + kOneBits);  // y * 2^n
}

float tanh_of(float x) {
  const float magnitude = std::fabs(x);
  if (magnitude < kTanhSmall) {
    const float square = x * x;
    float y = kTanhPoly[0];
    for (int i = 1; i < 5; ++i) y = std::fma(y, square, kTanhPoly[i]);
    return std::fma(x * square, y, x);
  }
  const float e = exp_of(-2.0f * magnitude);
  return std::copysign((1.0f - e) / (1.0f + e), x);
}

float add_tree(float (&sum)[16]) {
  for (int step = 8; step > 0; step /= 2) {
    for (int i = 0; i < step; ++i) sum[i] += sum[i + step];
  }
  return sum[0];
}

// One entry that a row sees.
struct Entry {
  const BlockView* block;
  std::uint32_t slot;
  Ordinal ordinal;
};

std::vector<Entry> live_entries(const LaneView& lane) {
  std::vector<Entry> entries;
  entries.reserve(lane.live);
  for (std::uint32_t b = 0; b < lane.block_count; ++b) {
    Ordinal ordinal = lane.blocks[b].first_ordinal;
    for (std::uint32_t slot = 0; slot < lane.block_tokens; ++slot) {
      if ((lane.blocks[b].live >> slot & 1) == 0) continue;
      if (ordinal - lane.first < lane.live) entries.push_back({&lane.blocks[b], slot, ordinal});
      ++ordinal;
    }
  }
  return entries;
}

bool visible(const LaneView& lane, const Entry& entry, Position row, std::uint32_t window) {
  const Position position = lane.position != nullptr ? lane.position[entry.ordinal - lane.first]
                                                     : entry.block->base + entry.slot;
  return position <= row && (window == 0 || row - position < window);
}

float score(const LaneView& lane, const QueryView& rows, const float* q, const Entry& entry) {
  float chain = 0.0f;
  for (std::uint32_t d = 0; d < lane.key_size; ++d) {
    const std::size_t index = std::size_t{d} * lane.block_tokens + entry.slot;
    chain = std::fma(q[d], load_element(entry.block->data, lane.key_type, index), chain);
  }
  const float s = chain * rows.scale;
  return rows.softcap == 0.0f ? s : rows.softcap * tanh_of(s * (1.0f / rows.softcap));
}

// The unfinished result of some tiles of a row.
struct Partial {
  float m = -kInfinity, l = 0.0f;
  std::vector<float> o;
};

struct Tile {
  Partial partial;
  std::vector<Entry> entries;  // visible ones
  std::vector<float> p;        // of entries
};

Tile tile_of(const LaneView& lane, const QueryView& rows, const std::vector<Entry>& live,
             std::uint32_t token, std::uint32_t head, std::uint32_t index) {
  Tile tile;
  tile.partial.o.assign(lane.value_size, 0.0f);
  const float* q = rows.q + token * rows.q_stride + std::size_t{head} * lane.key_size;
  const Ordinal first = std::max(index * kTileOrdinals, lane.first);
  const Ordinal last = std::min((index + 1) * kTileOrdinals, lane.first + lane.live);
  for (Ordinal ordinal = first; ordinal < last; ++ordinal) {
    const Entry& entry = live[ordinal - lane.first];
    if (!visible(lane, entry, rows.first_position + token, rows.window)) continue;
    tile.entries.push_back(entry);
    tile.p.push_back(score(lane, rows, q, entry));
  }
  for (const float s : tile.p) tile.partial.m = s > tile.partial.m ? s : tile.partial.m;
  tile.partial.m += 0.0f;  // one zero, whichever came first
  if (tile.partial.m == -kInfinity) {
    tile.p.assign(tile.p.size(), 0.0f);
    return tile;
  }
  float sum[16] = {};
  for (std::size_t i = 0; i < tile.p.size(); ++i) {
    const Entry& entry = tile.entries[i];
    tile.p[i] = exp_of(tile.p[i] - tile.partial.m);
    sum[entry.ordinal % 16] += tile.p[i];
    const std::byte* v = entry.block->data + lane.value_offset;
    for (std::uint32_t d = 0; d < lane.value_size; ++d) {
      const std::size_t element = std::size_t{entry.slot} * lane.value_size + d;
      tile.partial.o[d] =
          std::fma(tile.p[i], load_element(v, lane.value_type, element), tile.partial.o[d]);
    }
  }
  tile.partial.l = add_tree(sum);
  return tile;
}

void merge_into(Partial& row, const Partial& tile) {
  if (tile.m == -kInfinity) return;
  if (row.m == -kInfinity) {
    row = tile;
    return;
  }
  const float m = tile.m > row.m ? tile.m : row.m;
  const float a = exp_of(row.m - m), b = exp_of(tile.m - m);
  row.m = m;
  row.l = std::fma(tile.l, b, row.l * a);
  for (std::size_t d = 0; d < row.o.size(); ++d) row.o[d] = std::fma(tile.o[d], b, row.o[d] * a);
}

void finish(Partial& row, const float* sink, float* out) {
  if (row.m == -kInfinity) {
    std::fill(out, out + row.o.size(), 0.0f);
    return;
  }
  if (sink != nullptr) {
    const float m = *sink > row.m ? *sink : row.m;
    const float a = exp_of(row.m - m);
    row.l = std::fma(row.l, a, exp_of(*sink - m));
    row.m = m;
    for (float& o : row.o) o *= a;
  }
  for (std::size_t d = 0; d < row.o.size(); ++d) out[d] = row.o[d] / row.l;
}

// Rounds to units of 2^-40, nearest even, and adds.
void add_units(std::int64_t& sum, float weight) {
  if (std::isnan(weight)) return;
  sum += std::llrint(static_cast<double>(weight) * 0x1p40);
}

float reduce(const std::vector<float>& heads, Reduce how) {
  float result = how == Reduce::kSquareSum ? heads[0] * heads[0] : heads[0];
  for (std::size_t g = 1; g < heads.size(); ++g) {
    const float w = heads[g];
    if (how == Reduce::kMax) {
      result = w > result ? w : result;
    } else {
      result = how == Reduce::kSquareSum ? std::fma(w, w, result) : result + w;
    }
  }
  const bool mean = how == Reduce::kMean || how == Reduce::kMissed;
  return mean ? result / static_cast<float>(heads.size()) : result;
}

// weights[head][ordinal - first] of one token, 0 where nothing is seen.
void add_taps(const LaneView& lane, const TapView& tap, const std::vector<bool>& seen,
              const std::vector<std::vector<float>>& weights) {
  const float share = 1.0f / static_cast<float>(std::ranges::count(seen, true));
  std::vector<float> heads(weights.size());
  for (std::uint32_t i = 0; i < lane.live; ++i) {
    for (std::size_t g = 0; g < weights.size(); ++g) {
      heads[g] = weights[g][i];
      if (tap.per_head != nullptr) add_units(tap.per_head[g * tap.per_head_stride + i], heads[g]);
    }
    const float weight = reduce(heads, tap.group);
    if (tap.group != Reduce::kMissed) {
      add_units(tap.sum[i], weight);
    } else if (seen[i] && weight < share) {
      add_units(tap.sum[i], 1.0f);
    }
  }
}

// Writes out[value_size] of one row; its weights by ordinal - first, 0 where nothing is seen.
std::vector<float> attend_row(const LaneView& lane, const QueryView& rows,
                              const std::vector<Entry>& live, std::uint32_t token,
                              std::uint32_t head, float* out) {
  Partial row;
  row.o.assign(lane.value_size, 0.0f);
  std::vector<Tile> tiles;
  for (std::uint32_t t = first_tile(lane); t < end_tile(lane); ++t) {
    tiles.push_back(tile_of(lane, rows, live, token, head, t));
    merge_into(row, tiles.back().partial);
  }
  finish(row, rows.sinks != nullptr ? rows.sinks + head : nullptr, out);
  std::vector<float> weights(lane.live, 0.0f);
  for (const Tile& tile : tiles) {
    if (tile.partial.m == -kInfinity) continue;
    const float factor = exp_of(tile.partial.m - row.m) / row.l;
    for (std::size_t i = 0; i < tile.p.size(); ++i) {
      weights[tile.entries[i].ordinal - lane.first] = tile.p[i] * factor;
    }
  }
  return weights;
}

void attend(const LaneView& lane, const QueryView& rows, const TapView& tap, float*) {
  const std::vector<Entry> live = live_entries(lane);
  for (std::uint32_t token = 0; token < rows.tokens; ++token) {
    std::vector<std::vector<float>> weights;
    for (std::uint32_t head = 0; head < rows.group; ++head) {
      float* out = rows.out + token * rows.out_stride + std::size_t{head} * lane.value_size;
      weights.push_back(attend_row(lane, rows, live, token, head, out));
    }
    if (tap.sum == nullptr || token < tap.first_token) continue;
    std::vector<bool> seen;
    for (const Entry& entry : live) {
      seen.push_back(visible(lane, entry, rows.first_position + token, rows.window));
    }
    add_taps(lane, tap, seen, weights);
  }
}

void add_moments(const LaneView& lane, const QueryView& rows, const MomentsView& moments, float*) {
  const std::vector<Entry> live = live_entries(lane);
  std::vector<float> unused(lane.value_size);
  for (std::uint32_t token = 0; token < rows.tokens; ++token) {
    for (std::uint32_t head = 0; head < rows.group; ++head) {
      const std::vector<float> weights = attend_row(lane, rows, live, token, head, unused.data());
      for (std::size_t i = 0; i < weights.size(); ++i) {
        const float w = weights[i];
        moments.sum[head * moments.stride + i] += w;
        float& square = moments.square[head * moments.stride + i];
        square = std::fma(w, w, square);
      }
    }
  }
}

void attend_tiles(const LaneView& lane, const QueryView& rows, std::uint32_t tile_begin,
                  std::uint32_t tile_end, float* partial, std::size_t partial_row_stride, float*) {
  const std::vector<Entry> live = live_entries(lane);
  for (std::uint32_t token = 0; token < rows.tokens; ++token) {
    for (std::uint32_t head = 0; head < rows.group; ++head) {
      float* out = partial + (std::size_t{token} * rows.group + head) * partial_row_stride;
      for (std::uint32_t t = tile_begin; t < tile_end; ++t) {
        const Partial result = tile_of(lane, rows, live, token, head, t).partial;
        out[0] = result.m;
        out[1] = result.l;
        std::copy(result.o.begin(), result.o.end(), out + 2);
        out += partial_floats(lane.value_size);
      }
    }
  }
}

void merge(const QueryView& rows, std::uint32_t value_size, const float* partial,
           std::size_t partial_row_stride, std::uint32_t tile_count) {
  for (std::uint32_t token = 0; token < rows.tokens; ++token) {
    for (std::uint32_t head = 0; head < rows.group; ++head) {
      const float* in = partial + (std::size_t{token} * rows.group + head) * partial_row_stride;
      Partial row;
      row.o.assign(value_size, 0.0f);
      for (std::uint32_t t = 0; t < tile_count; ++t, in += partial_floats(value_size)) {
        merge_into(row, {in[0], in[1], std::vector<float>(in + 2, in + 2 + value_size)});
      }
      finish(row, rows.sinks != nullptr ? rows.sinks + head : nullptr,
             rows.out + token * rows.out_stride + std::size_t{head} * value_size);
    }
  }
}

void append(std::byte* block, std::uint32_t block_tokens, std::size_t value_offset, KvType key_type,
            KvType value_type, std::uint32_t key_size, std::uint32_t value_size, std::uint32_t slot,
            std::uint32_t tokens, const float* k, std::size_t k_stride, const float* v,
            std::size_t v_stride) {
  for (std::uint32_t t = 0; t < tokens; ++t) {
    for (std::uint32_t d = 0; d < key_size; ++d) {
      store_element(block, key_type, std::size_t{d} * block_tokens + slot + t, k[t * k_stride + d]);
    }
    for (std::uint32_t d = 0; d < value_size; ++d) {
      store_element(block + value_offset, value_type, std::size_t{slot + t} * value_size + d,
                    v[t * v_stride + d]);
    }
  }
}

void norms(const LaneView& lane, float* key_norm, float* value_norm) {
  for (const Entry& entry : live_entries(lane)) {
    const std::uint32_t i = entry.ordinal - lane.first;
    if (key_norm != nullptr) {
      float chain = 0.0f;
      for (std::uint32_t d = 0; d < lane.key_size; ++d) {
        const float k = load_element(entry.block->data, lane.key_type,
                                     std::size_t{d} * lane.block_tokens + entry.slot);
        chain = std::fma(k, k, chain);
      }
      key_norm[i] = std::sqrt(chain);
    }
    if (value_norm != nullptr) {
      float sum[16] = {};
      for (std::uint32_t d = 0; d < lane.value_size; ++d) {
        const float v = load_element(entry.block->data + lane.value_offset, lane.value_type,
                                     std::size_t{entry.slot} * lane.value_size + d);
        sum[d % 16] = std::fma(v, v, sum[d % 16]);
      }
      value_norm[i] = std::sqrt(add_tree(sum));
    }
  }
}

void copy_entries(const std::byte* from, std::uint64_t slots, std::byte* to, std::uint32_t to_slot,
                  std::uint32_t block_tokens, std::size_t value_offset, KvType key_type,
                  KvType value_type, std::uint32_t key_size, std::uint32_t value_size) {
  const std::size_t key_bytes = bytes_of(key_type);
  const std::size_t row_bytes = value_size * bytes_of(value_type);
  for (std::uint32_t slot = 0; slot < block_tokens; ++slot) {
    if ((slots >> slot & 1) == 0) continue;
    for (std::size_t d = 0; d < key_size; ++d) {
      std::memcpy(to + (d * block_tokens + to_slot) * key_bytes,
                  from + (d * block_tokens + slot) * key_bytes, key_bytes);
    }
    std::memcpy(to + value_offset + to_slot * row_bytes, from + value_offset + slot * row_bytes,
                row_bytes);
    ++to_slot;
  }
}

std::vector<float> key_row(const LaneView& lane, const Entry& entry) {
  std::vector<float> row(lane.key_size);
  for (std::uint32_t d = 0; d < lane.key_size; ++d) {
    row[d] = load_element(entry.block->data, lane.key_type,
                          std::size_t{d} * lane.block_tokens + entry.slot);
  }
  return row;
}

std::vector<float> value_row(const LaneView& lane, const Entry& entry) {
  std::vector<float> row(lane.value_size);
  for (std::uint32_t d = 0; d < lane.value_size; ++d) {
    row[d] = load_element(entry.block->data + lane.value_offset, lane.value_type,
                          std::size_t{entry.slot} * lane.value_size + d);
  }
  return row;
}

float dot(const std::vector<float>& a, const std::vector<float>& b) {
  float sum[16] = {};
  for (std::size_t d = 0; d < a.size(); ++d) sum[d % 16] = std::fma(a[d], b[d], sum[d % 16]);
  return add_tree(sum);
}

float inverse_norm(const std::vector<float>& row) {
  const float norm = std::sqrt(dot(row, row));
  return norm > 0.0f && norm < kInfinity ? 1.0f / norm : 0.0f;
}

void add_row(const std::vector<float>& row, float factor, std::vector<float>& total) {
  for (std::size_t d = 0; d < row.size(); ++d) total[d] = std::fma(row[d], factor, total[d]);
}

void alignment(const LaneView& lane, float* cosine, float*) {
  const std::vector<Entry> live = live_entries(lane);
  std::vector<float> total(lane.key_size, 0.0f);
  for (const Entry& entry : live) {
    const std::vector<float> k = key_row(lane, entry);
    if (const float inverse = inverse_norm(k); inverse != 0.0f) add_row(k, inverse, total);
  }
  for (std::size_t i = 0; i < live.size(); ++i) {
    const std::vector<float> k = key_row(lane, live[i]);
    const float inverse = inverse_norm(k);
    cosine[i] = inverse == 0.0f ? 0.0f : dot(k, total) * inverse * inverse_norm(total);
  }
}

std::vector<float> spread_of(const std::vector<std::vector<float>>& rows, std::uint32_t chunk,
                             std::uint32_t skip) {
  std::vector<float> result(rows.size(), 0.0f);
  for (std::size_t first = skip; first + 2 * std::size_t{chunk} <= rows.size(); first += chunk) {
    for (std::size_t i = first; i < first + chunk; ++i) {
      const std::size_t size = rows[i].size();
      std::vector<float> x(size, 0.0f);
      float sum[16] = {}, square[16] = {};
      for (std::size_t d = 0; d < size; ++d) {
        float low = kInfinity, high = -kInfinity;
        for (std::size_t j = first + chunk; j < first + 2 * std::size_t{chunk}; ++j) {
          low = std::min(low, rows[j][d]);
          high = std::max(high, rows[j][d]);
        }
        if (high - low > 0.0f) x[d] = (rows[i][d] - low) / (high - low);
        sum[d % 16] += x[d];
      }
      const float mean = add_tree(sum) / static_cast<float>(size);
      for (std::size_t d = 0; d < size; ++d) {
        square[d % 16] = std::fma(x[d] - mean, x[d] - mean, square[d % 16]);
      }
      result[i] = std::sqrt(add_tree(square) / static_cast<float>(size - 1));
    }
  }
  return result;
}

void spread(const LaneView& lane, std::uint32_t chunk, std::uint32_t skip, float* key, float* value,
            float*) {
  std::vector<std::vector<float>> k, v;
  for (const Entry& entry : live_entries(lane)) {
    k.push_back(key_row(lane, entry));
    v.push_back(value_row(lane, entry));
  }
  std::ranges::copy(spread_of(k, chunk, skip), key);
  std::ranges::copy(spread_of(v, chunk, skip), value);
}

void similarity(const LaneView& lane, std::uint32_t run, float* sum, Ordinal* twin,
                float* twin_cosine, float*) {
  std::vector<std::vector<float>> unit;
  for (const Entry& entry : live_entries(lane)) {
    unit.push_back(key_row(lane, entry));
    const float inverse = inverse_norm(unit.back());
    for (float& x : unit.back()) x = inverse == 0.0f ? 0.0f : x * inverse;
  }
  for (std::uint32_t i = 0; i < lane.live; ++i) {
    const std::uint32_t begin = i / run * run;
    const std::uint32_t end = begin + std::min(run, lane.live - begin);
    std::vector<float> total(lane.key_size, 0.0f);
    twin[i] = lane.live;
    twin_cosine[i] = 0.0f;
    for (std::uint32_t j = begin; j < end; ++j) {
      add_row(unit[j], 1.0f, total);
      const float cosine = dot(unit[i], unit[j]);
      if (j != i && cosine > 0.5f) twin[i] = j, twin_cosine[i] = cosine;
    }
    sum[i] = dot(unit[i], total) - dot(unit[i], unit[i]);
  }
}

void add_queries(const QueryRows& rows, float* statistics, float*) {
  const std::uint32_t size = rows.size;
  float *origin = statistics, *sum = statistics + size, *products = statistics + 2 * size;
  std::vector<float> x(size);
  for (std::uint32_t r = 0; r < rows.rows; ++r) {
    const float* q = rows.q + r * rows.q_stride;
    const float* turn = rows.turn + std::size_t{r} * 2 * size;
    for (std::uint32_t d = 0; d < size; ++d) {
      const std::uint32_t partner = rows.halves ? (d + size / 2) % size : d ^ 1;
      x[d] = std::fma(q[d], turn[d], q[partner] * turn[size + d]);
      if (rows.first && r == 0) origin[d] = x[d];
      x[d] -= origin[d];
      sum[d] += x[d];
    }
    for (std::uint32_t i = 0; i < size; ++i) {
      for (std::uint32_t j = 0; j < i / 16 * 16 + 16; ++j) {
        float& product = products[query_product(i) + j];
        product = std::fma(x[i], x[j], product);
      }
    }
  }
}

void expect(const LaneView& lane, const float* mean, const float* form, float* expected, float*) {
  for (const Entry& entry : live_entries(lane)) {
    const std::vector<float> k = key_row(lane, entry);
    std::vector<float> t(mean, mean + lane.key_size);
    for (std::uint32_t j = 0; j < lane.key_size; ++j) {
      for (std::uint32_t i = j / 16 * 16; i < lane.key_size; ++i) {
        t[j] = std::fma(form[query_product(i) + j], k[i], t[j]);
      }
    }
    expected[entry.ordinal - lane.first] = dot(t, k);
  }
}

void add_output_norms(const LaneView& lane, const float* weights, std::uint32_t group,
                      std::uint32_t outputs, float* sum, float*) {
  for (const Entry& entry : live_entries(lane)) {
    const std::vector<float> v = value_row(lane, entry);
    float sums[16] = {};
    for (std::uint32_t g = 0; g < group; ++g) {
      for (std::uint32_t n = 0; n < outputs; ++n) {
        float product = 0.0f;
        for (std::size_t d = 0; d < v.size(); ++d) {
          product = std::fma(weights[(g * v.size() + d) * outputs + n], v[d], product);
        }
        sums[n % 16] += std::abs(product);
      }
    }
    sum[entry.ordinal - lane.first] += add_tree(sums);
  }
}

constexpr Kernels kReference{Isa::kScalar, append, attend,           attend_tiles, merge,
                             add_moments,  norms,  alignment,        spread,       similarity,
                             add_queries,  expect, add_output_norms, copy_entries};

}  // namespace

const Kernels& reference_kernels() {
  return kReference;
}

}  // namespace quire::kernels
