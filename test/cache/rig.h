// Drives a cache with made-up rows: what a text says at a position is a function of the text's
// seed, so that any cut of it into steps, sequences and threads must give the same attention.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <tuple>
#include <vector>

#include "core/tree.h"
#include "kernels/half.h"
#include "kernels/kernels.h"
#include "quire/cache.h"
#include "support/layer_words.h"

namespace quire::test {

inline std::vector<Isa> machine_levels() {
  std::vector<Isa> levels;
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    if (kernels::machine_has(isa)) levels.push_back(isa);
  }
  return levels;
}

// Of a prefix cache: as strong as tests need.
inline Digest digest_of(std::span<const std::byte> bytes) {
  Digest digest{};
  for (std::size_t word = 0; word < 4; ++word) {
    std::uint64_t x = word;
    for (const std::byte b : bytes) x = mix(x + 1 + std::to_integer<std::uint64_t>(b));
    std::memcpy(digest.data() + word * 8, &x, 8);
  }
  return digest;
}

// Two full layers with different groups, one with a window, and every extra of the score.
inline std::vector<LayerShape> mixed_layers() {
  return {
      {.kv_heads = 2,
       .query_heads = 6,
       .key_size = 64,
       .value_size = 64,
       .rope = made_up_rope(false, 64),
       .output = made_up_output(6 * 64)},
      {.kv_heads = 1, .query_heads = 4, .key_size = 80, .value_size = 64, .window = 37},
      {.kv_heads = 2,
       .query_heads = 2,
       .key_size = 64,
       .value_size = 96,
       .scale = 0.2f,
       .softcap = 5.0f,
       .sinks = {0.5f, -1.0f},
       .rope = made_up_rope(true, 64, 500),
       .output = made_up_output(2 * 96)},
  };
}

enum class Kind : std::uint64_t { kKey = 1, kValue, kQuery };

// Standard normal enough, the same everywhere.
inline float noise(std::uint64_t seed, Kind kind, std::uint32_t layer, std::uint32_t position,
                   std::uint32_t index) {
  std::uint64_t x = seed * 0x9E3779B97F4A7C15ull + static_cast<std::uint64_t>(kind) * 0xD1B54A33ull;
  x ^= (std::uint64_t{layer} << 48) ^ (std::uint64_t{position} << 20) ^ index;
  float sum = 0;
  for (int i = 0; i < 3; ++i) {
    x ^= x >> 30;
    x *= 0xBF58476D1CE4E5B9ull;
    x ^= x >> 27;
    x *= 0x94D049BB133111EBull;
    x ^= x >> 31;
    sum += static_cast<float>(x >> 40) / static_cast<float>(1 << 24) - 0.5f;
  }
  return 2.0f * sum;
}

// One row, [heads * size].  Kept: most tests read the same text many times.
inline std::span<const float> row_of(std::uint64_t text, Kind kind, std::uint32_t layer,
                                     std::uint32_t position, std::uint32_t size) {
  static std::map<std::tuple<std::uint64_t, Kind, std::uint32_t>, std::deque<std::vector<float>>>
      texts;
  std::deque<std::vector<float>>& rows = texts[{text, kind, layer}];
  while (rows.size() <= position) {
    std::vector<float> row(size);
    const auto at = static_cast<std::uint32_t>(rows.size());
    for (std::uint32_t i = 0; i < size; ++i) row[i] = noise(text, kind, layer, at, i);
    rows.push_back(std::move(row));
  }
  if (rows[position].size() < size) {  // another test's shape
    rows.clear();
    return row_of(text, kind, layer, position, size);
  }
  return std::span(rows[position]).first(size);
}

// Outputs of one sequence: [layer][position * query_heads * value_size].
using Outputs = std::vector<std::vector<float>>;

struct Rows {
  SequenceId sequence{};
  std::uint64_t text = 0;
  std::uint32_t first = 0, rows = 0;  // positions
  bool answer = false;
  std::uint32_t window_rows = 0;
  Outputs* out = nullptr;
  std::uint32_t gate_rows = 0;
};

inline std::unique_ptr<Cache> open_cache(const CacheOptions& options) {
  Result<std::unique_ptr<Cache>> cache = Cache::open(options);
  EXPECT_TRUE(cache.ok()) << cache.status().message();
  return cache.ok() ? *std::move(cache) : nullptr;
}

inline SequenceId start(Cache& cache, const Needs& needs = {}) {
  const Result<SequenceId> id = cache.start(needs);
  EXPECT_TRUE(id.ok()) << id.status().message();
  return id.ok() ? *id : SequenceId{};
}

// One step over all rows, on `threads` threads with the barriers that cache.h asks for (1: on the
// caller's, all parts in a row), and `beside` in a thread of its own meanwhile.  The step is
// committed unless begin() refuses; or cancelled after so many layers.
inline Status step(Cache& cache, const std::vector<Rows>& batch, std::uint32_t threads = 1,
                   const std::function<void()>& beside = {},
                   std::optional<std::uint32_t> cancel_after = {}) {
  std::vector<Segment> segments;
  std::uint32_t rows = 0;
  for (const Rows& r : batch) {
    segments.push_back({r.sequence, r.rows, r.answer, r.window_rows, r.gate_rows});
    rows += r.rows;
  }
  if (Status status = cache.begin(segments); !status.ok()) return status;
  const std::vector<LayerShape>& layers = cache.options().layers;
  std::vector<std::vector<float>> q(layers.size()), k(q), v(q), out(q);
  for (std::uint32_t l = 0; l < layers.size(); ++l) {
    const auto gather = [&](Kind kind, std::uint32_t size, std::vector<float>& to) {
      for (const Rows& r : batch) {
        for (std::uint32_t i = 0; i < r.rows; ++i) {
          const std::span<const float> row = row_of(r.text, kind, l, r.first + i, size);
          to.insert(to.end(), row.begin(), row.end());
        }
      }
    };
    gather(Kind::kKey, layers[l].kv_heads * layers[l].key_size, k[l]);
    gather(Kind::kValue, layers[l].kv_heads * layers[l].value_size, v[l]);
    gather(Kind::kQuery, layers[l].query_heads * layers[l].key_size, q[l]);
    out[l].assign(std::size_t{rows} * layers[l].query_heads * layers[l].value_size,
                  std::numeric_limits<float>::quiet_NaN());
  }
  std::barrier barrier(threads);
  const auto work = [&](std::uint32_t part) {
    for (std::uint32_t l = 0; l < cancel_after.value_or(layers.size()); ++l) {
      cache.append(l, k[l].data(), v[l].data(), part, threads);
      barrier.arrive_and_wait();
      cache.attend(l, q[l].data(), out[l].data(), part, threads);
      barrier.arrive_and_wait();
    }
  };
  std::vector<std::thread> others;
  for (std::uint32_t part = 1; part < threads; ++part) others.emplace_back(work, part);
  if (beside) others.emplace_back(beside);
  work(0);
  for (std::thread& other : others) other.join();
  if (cancel_after) {
    cache.cancel();
    return {};
  }
  cache.commit();
  for (std::uint32_t l = 0; l < layers.size(); ++l) {
    const std::size_t size = std::size_t{layers[l].query_heads} * layers[l].value_size;
    std::size_t row = 0;
    for (const Rows& r : batch) {
      if (r.out != nullptr) {
        r.out->resize(layers.size());
        (*r.out)[l].insert((*r.out)[l].end(), out[l].begin() + row * size,
                           out[l].begin() + (row + r.rows) * size);
      }
      row += r.rows;
    }
  }
  return {};
}

// Positions [first, first + rows) in steps of at most `chunk`.
inline void read(Cache& cache, SequenceId sequence, std::uint64_t text, std::uint32_t first,
                 std::uint32_t rows, std::uint32_t chunk, Outputs* out, std::uint32_t threads = 1) {
  for (std::uint32_t done = 0; done < rows; done += chunk) {
    const Status status = step(cache,
                               {{.sequence = sequence,
                                 .text = text,
                                 .first = first + done,
                                 .rows = std::min(chunk, rows - done),
                                 .out = out}},
                               threads);
    ASSERT_TRUE(status.ok()) << status.message();
  }
}

inline std::vector<double> stored(std::span<const float> row, KvType type) {
  std::vector<double> result;
  for (const float value : row) {
    std::byte bytes[4];
    kernels::store_element(bytes, type, 0, value);
    result.push_back(kernels::load_element(bytes, type, 0));
  }
  return result;
}

// Softmax weights of one row over `visible` positions, in double: the dense reference.
inline std::vector<double> reference_weights(const CacheOptions& options, std::uint64_t text,
                                             std::uint32_t layer, std::uint32_t position,
                                             std::uint32_t query_head,
                                             const std::vector<Position>& visible) {
  const LayerShape& shape = options.layers[layer];
  const std::uint32_t head = query_head / (shape.query_heads / shape.kv_heads);
  const std::span<const float> q =
      row_of(text, Kind::kQuery, layer, position, shape.query_heads * shape.key_size);
  const double scale = shape.scale != 0 ? shape.scale : 1 / std::sqrt(double{1.0} * shape.key_size);
  std::vector<double> weights;
  double most = shape.sinks.empty() ? -INFINITY : shape.sinks[query_head];
  for (const Position p : visible) {
    const std::vector<double> k = stored(
        row_of(text, Kind::kKey, layer, p, shape.kv_heads * shape.key_size), options.key_type);
    double score = 0;
    for (std::uint32_t d = 0; d < shape.key_size; ++d) {
      score += q[query_head * shape.key_size + d] * k[head * shape.key_size + d];
    }
    score *= scale;
    if (shape.softcap != 0) score = shape.softcap * std::tanh(score / shape.softcap);
    weights.push_back(score);
    most = std::max(most, score);
  }
  double sum = shape.sinks.empty() ? 0 : std::exp(shape.sinks[query_head] - most);
  for (double& w : weights) sum += w = std::exp(w - most);
  for (double& w : weights) w /= sum;
  return weights;
}

// What a row at `position` sees of `live` (ascending).
inline std::vector<Position> visible(const LayerShape& shape, std::uint32_t position,
                                     const std::vector<Position>& live) {
  std::vector<Position> seen;
  for (const Position p : live) {
    if (p <= position && (shape.window == 0 || position - p < shape.window)) seen.push_back(p);
  }
  return seen;
}

inline std::vector<Position> all_positions(std::uint32_t length) {
  std::vector<Position> positions(length);
  for (std::uint32_t i = 0; i < length; ++i) positions[i] = i;
  return positions;
}

// The largest difference of one output row to the dense reference over `live`.
inline double row_error(const CacheOptions& options, std::uint64_t text, std::uint32_t layer,
                        std::uint32_t position, std::uint32_t query_head,
                        const std::vector<Position>& live, const float* out) {
  const LayerShape& shape = options.layers[layer];
  const std::uint32_t head = query_head / (shape.query_heads / shape.kv_heads);
  const std::vector<Position> seen = visible(shape, position, live);
  const std::vector<double> weights =
      reference_weights(options, text, layer, position, query_head, seen);
  std::vector<double> expected(shape.value_size, 0.0);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const std::vector<double> v =
        stored(row_of(text, Kind::kValue, layer, seen[i], shape.kv_heads * shape.value_size),
               options.value_type);
    for (std::uint32_t d = 0; d < shape.value_size; ++d) {
      expected[d] += weights[i] * v[head * shape.value_size + d];
    }
  }
  double error = 0;
  for (std::uint32_t d = 0; d < shape.value_size; ++d) {
    const double difference = std::fabs(out[d] - expected[d]);
    error = std::isnan(difference) ? INFINITY : std::max(error, difference);
  }
  return error;
}

// Every stat that says what is allocated.
inline bool same_bytes(const CacheStats& a, const CacheStats& b) {
  return a.used_bytes == b.used_bytes && a.kv_bytes == b.kv_bytes &&
         a.metadata_bytes == b.metadata_bytes && a.committed_bytes == b.committed_bytes &&
         a.sequences == b.sequences;
}

}  // namespace quire::test
