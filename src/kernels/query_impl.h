// What queries of the prompt say of those to come, and what values are worth to the layer's output.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/feature_impl.h"
#include "kernels/kernels.h"

namespace quire::kernels {
namespace {

// Rows that share the loads of a matrix: eight registers of sums hide the latency of a
// multiplication, and AVX2 takes two for a vector.
template <typename V>
constexpr std::uint32_t kStripOf = V::kKeyVectors > 1 ? 8 : 4;

// One row before its rotation; `wide` has room for it and half of it again.
template <typename V>
void turn_back(const QueryRows& rows, std::uint32_t row, float* wide, float* y) {
  const std::uint32_t size = rows.size;
  const float* q = rows.q + row * rows.q_stride;
  const float* turn = rows.turn + std::size_t{row} * 2 * size;
  if (rows.halves) {
    for (std::uint32_t d = 0; d < size + size / 2; ++d) wide[d] = q[d < size ? d : d - size];
  }
  for (std::uint32_t d = 0; d < size; d += 16) {
    const V own = V::load(q + d);
    const V partner = rows.halves ? V::load(wide + d + size / 2) : own.swap_pairs();
    V::fma(own, V::load(turn + d), partner * V::load(turn + size + d)).store(y + d);
  }
}

// x [rows][size] joins the products [query_product(size)].
template <typename V>
void add_products(const float* x, std::uint32_t rows, std::uint32_t size, float* products) {
  constexpr std::uint32_t kStrip = kStripOf<V>;
  for (std::uint32_t i = 0; i < size; i += kStrip) {
    for (std::uint32_t j = 0; j <= i; j += 16) {
      V sum[kStrip];
      for (std::uint32_t s = 0; s < kStrip; ++s) {
        sum[s] = V::load(products + query_product(i + s) + j);
      }
      for (std::uint32_t r = 0; r < rows; ++r) {
        const float* row = x + std::size_t{r} * size;
        const V column = V::load(row + j);
        for (std::uint32_t s = 0; s < kStrip; ++s) {
          sum[s] = V::fma(V::all(row[i + s]), column, sum[s]);
        }
      }
      for (std::uint32_t s = 0; s < kStrip; ++s) {
        sum[s].store(products + query_product(i + s) + j);
      }
    }
  }
}

template <typename V>
void add_queries(const QueryRows& rows, float* statistics, float* scratch) {
  const std::uint32_t size = rows.size;
  float *origin = statistics, *sum = statistics + size, *products = statistics + 2 * size;
  float *wide = scratch, *x = scratch + 2 * size;
  for (std::uint32_t begin = 0; begin < rows.rows; begin += kQueryRows) {
    const std::uint32_t count = smaller(kQueryRows, rows.rows - begin);
    for (std::uint32_t r = 0; r < count; ++r) {
      float* row = x + std::size_t{r} * size;
      turn_back<V>(rows, begin + r, wide, row);
      if (rows.first && begin + r == 0) {
        for (std::uint32_t d = 0; d < size; ++d) origin[d] = row[d];
      }
      for (std::uint32_t d = 0; d < size; d += 16) {
        const V moved = V::load(row + d) - V::load(origin + d);
        moved.store(row + d);
        (V::load(sum + d) + moved).store(sum + d);
      }
    }
    add_products<V>(x, count, size, products);
  }
}

// Calls f(first entry, count, rows) for strips of entries, [kStripOf][size], those beyond `count`
// being zeros; `rows` has room for kTileOrdinals of them.
template <typename V, typename F>
void for_each_strip(const LaneView& lane, bool keys, float* rows, F f) {
  constexpr std::uint32_t kStrip = kStripOf<V>;
  const std::uint32_t size = keys ? lane.key_size : lane.value_size;
  for (std::uint32_t begin = 0; begin < lane.live; begin += kTileOrdinals) {
    const std::uint32_t end = smaller(begin + kTileOrdinals, lane.live);
    gather<V>(lane, keys, begin, end, rows);
    const std::uint32_t padded = (end - begin + kStrip - 1) / kStrip * kStrip;
    for (std::size_t i = std::size_t{end - begin} * size; i < std::size_t{padded} * size; ++i) {
      rows[i] = 0.0f;
    }
    for (std::uint32_t i = begin; i < end; i += kStrip) {
      f(i, smaller(kStrip, end - i), rows + std::size_t{i - begin} * size);
    }
  }
}

template <typename V>
void expect(const LaneView& lane, const float* mean, const float* form, float* expected,
            float* scratch) {
  constexpr std::uint32_t kStrip = kStripOf<V>;
  const std::uint32_t size = lane.key_size;
  for_each_strip<V>(lane, true, scratch, [&](std::uint32_t first, std::uint32_t count, float* k) {
    V total[kStrip];
    for (V& t : total) t = V::all(0.0f);
    for (std::uint32_t j = 0; j < size; j += 16) {
      V t[kStrip];
      for (V& column : t) column = V::load(mean + j);
      for (std::uint32_t i = j; i < size; ++i) {
        const V row = V::load(form + query_product(i) + j);
        for (std::uint32_t s = 0; s < kStrip; ++s) {
          t[s] = V::fma(row, V::all(k[s * size + i]), t[s]);
        }
      }
      for (std::uint32_t s = 0; s < kStrip; ++s) {
        total[s] = V::fma(t[s], V::load(k + s * size + j), total[s]);
      }
    }
    for (std::uint32_t s = 0; s < count; ++s) expected[first + s] = total[s].add_lanes();
  });
}

template <typename V>
void add_output_norms(const LaneView& lane, const float* weights, std::uint32_t group,
                      std::uint32_t outputs, float* sum, float* scratch) {
  constexpr std::uint32_t kStrip = kStripOf<V>;
  const std::uint32_t size = lane.value_size;
  for_each_strip<V>(lane, false, scratch, [&](std::uint32_t first, std::uint32_t count, float* v) {
    V total[kStrip];
    for (V& t : total) t = V::all(0.0f);
    for (std::uint32_t g = 0; g < group; ++g) {
      const float* columns = weights + std::size_t{g} * size * outputs;
      for (std::uint32_t n = 0; n < outputs; n += 16) {
        V product[kStrip];
        for (V& p : product) p = V::all(0.0f);
        for (std::uint32_t d = 0; d < size; ++d) {
          const V w = V::load(columns + std::size_t{d} * outputs + n);
          for (std::uint32_t s = 0; s < kStrip; ++s) {
            product[s] = V::fma(w, V::all(v[s * size + d]), product[s]);
          }
        }
        for (std::uint32_t s = 0; s < kStrip; ++s) total[s] = total[s] + V::abs(product[s]);
      }
    }
    for (std::uint32_t s = 0; s < count; ++s) sum[first + s] += total[s].add_lanes();
  });
}

}  // namespace
}  // namespace quire::kernels
