// Random lanes, rows and what attention makes of them, for the tests of every kernel level.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <ostream>
#include <random>
#include <vector>

#include "kernels/half.h"
#include "kernels/kernels.h"
#include "support/seed.h"

namespace quire::kernels::test {

using Random = std::mt19937_64;

inline std::uint32_t pick(Random& random, std::uint32_t low, std::uint32_t high) {
  return std::uniform_int_distribution<std::uint32_t>(low, high)(random);
}

template <typename T>
T pick_of(Random& random, std::initializer_list<T> choices) {
  return choices.begin()[pick(random, 0, static_cast<std::uint32_t>(choices.size()) - 1)];
}

// The levels to hold against the reference.
inline std::vector<const Kernels*> levels() {
  std::vector<const Kernels*> found;
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    if (machine_has(isa)) found.push_back(&kernels_for(isa));
  }
  return found;
}

struct Case {
  std::uint32_t key_size = 64, value_size = 64, group = 3, block_tokens = 16;
  KvType key_type = KvType::kF16, value_type = KvType::kF16;
  std::uint32_t length = 100;        // positions 0 ... length - 1 were appended
  std::uint32_t tokens = 1;          // the rows are those of the last `tokens` positions
  double dead = 0;                   // share of dead slots
  std::uint32_t dropped_blocks = 0;  // a prefix that a window gave back
  std::uint32_t window = 0;
  float softcap = 0;
  bool sinks = false;
};

inline std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << "key " << c.key_size << " value " << c.value_size << " group " << c.group
             << " block " << c.block_tokens << " types " << static_cast<int>(c.key_type)
             << static_cast<int>(c.value_type) << " length " << c.length << " tokens " << c.tokens
             << " dead " << c.dead << " dropped " << c.dropped_blocks << " window " << c.window
             << " softcap " << c.softcap << " sinks " << c.sinks;
}

// Memory that ends where it ends, so that AddressSanitizer sees one byte too far.
template <typename T>
class Aligned {
 public:
  explicit Aligned(std::size_t count)
      : data_(static_cast<T*>(::operator new (count * sizeof(T), std::align_val_t{64}))) {}
  T* get() const { return data_.get(); }

 private:
  struct Delete {
    void operator()(T* data) const { ::operator delete (data, std::align_val_t{64}); }
  };
  std::unique_ptr<T, Delete> data_;
};

// Prints its seed; QUIRE_SEED repeats a run.
class KernelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::uint64_t seed = quire::test::seed();
    std::printf("QUIRE_SEED=%llu\n", static_cast<unsigned long long>(seed));
    random.seed(seed);
  }

  Random random;
};

// What the positions of a sequence hold: k, v by position, q by row, and which are live.
struct Text {
  std::vector<float> k, v, q, sinks;
  std::vector<bool> live;

  Text(const Case& c, Random& random)
      : k(std::size_t{c.length} * c.key_size),
        v(std::size_t{c.length} * c.value_size),
        q(std::size_t{c.tokens} * c.group * c.key_size),
        sinks(c.group),
        live(c.length) {
    std::normal_distribution<float> normal;
    for (std::vector<float>* values : {&k, &v, &q, &sinks}) {
      for (float& x : *values) x = normal(random);
    }
    std::bernoulli_distribution dead(c.dead);
    for (std::size_t i = 0; i < live.size(); ++i) live[i] = !dead(random);
  }
};

// A lane over its own blocks.  Slots that hold nothing live are NaN or infinity, in K and V.
class Lane {
 public:
  // Slot = position, as appended: dead slots are holes.
  static Lane as_appended(const Case& c, const Text& text, const Kernels& level, Random& random) {
    Lane lane(c, random);
    Ordinal ordinal = 0;
    for (std::uint32_t begin = 0; begin < c.length; begin += c.block_tokens) {
      if (begin / c.block_tokens == c.dropped_blocks) lane.view_.first = ordinal;
      std::byte* block = lane.add_block();
      std::uint64_t live = 0;
      const Ordinal first = ordinal;
      for (std::uint32_t i = 0; i < c.block_tokens && begin + i < c.length; ++i) {
        if (!text.live[begin + i]) continue;
        live |= std::uint64_t{1} << i;
        lane.put(level, c, text, block, i, begin + i);
        ++ordinal;
      }
      if (begin / c.block_tokens < c.dropped_blocks) continue;
      lane.blocks_.push_back({block, live, begin, first});
    }
    lane.close(c, ordinal);
    return lane;
  }

  // The same live entries next to each other, with their positions beside them.
  static Lane repacked(const Case& c, const Text& text, const Kernels& level, Random& random) {
    Lane lane(c, random);
    Ordinal ordinal = 0;
    for (std::uint32_t p = 0; p < c.length; ++p) {
      if (!text.live[p]) continue;
      const std::uint32_t slot = ordinal % c.block_tokens;
      if (slot == 0) lane.blocks_.push_back({lane.add_block(), 0, 0xdeadbeefu, ordinal});
      BlockView& block = lane.blocks_.back();
      block.live |= std::uint64_t{1} << slot;
      lane.put(level, c, text, const_cast<std::byte*>(block.data), slot, p);
      lane.positions_.push_back(p);
      ++ordinal;
    }
    lane.close(c, ordinal);
    lane.view_.position = lane.positions_.data();
    return lane;
  }

  const LaneView& view() const { return view_; }

  // Moves every block to other memory.
  void move_blocks(Random& random) {
    std::vector<std::size_t> order(blocks_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    std::vector<Aligned<std::byte>> moved;
    for (std::size_t i = 0; i < blocks_.size(); ++i) moved.emplace_back(block_bytes_);
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      std::memcpy(moved[order[i]].get(), blocks_[i].data, block_bytes_);
      blocks_[i].data = moved[order[i]].get();
    }
    memory_ = std::move(moved);
  }

 private:
  Lane(const Case& c, Random& random) : random_(&random) {
    view_ = {};
    view_.block_tokens = c.block_tokens;
    view_.key_type = c.key_type;
    view_.value_type = c.value_type;
    view_.key_size = c.key_size;
    view_.value_size = c.value_size;
    view_.value_offset = std::size_t{c.key_size} * c.block_tokens * bytes_of(c.key_type);
    block_bytes_ =
        view_.value_offset + std::size_t{c.value_size} * c.block_tokens * bytes_of(c.value_type);
  }

  std::byte* add_block() {
    memory_.emplace_back(block_bytes_);
    std::byte* block = memory_.back().get();
    poison(block, view_.key_type, std::size_t{view_.key_size} * view_.block_tokens);
    poison(block + view_.value_offset, view_.value_type,
           std::size_t{view_.value_size} * view_.block_tokens);
    return block;
  }

  void poison(std::byte* array, KvType type, std::size_t count) {
    const float poisons[4] = {std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN(), 60000.0f};
    for (std::size_t i = 0; i < count; ++i) {
      store_element(array, type, i, poisons[(*random_)() % 4]);
    }
  }

  void put(const Kernels& level, const Case& c, const Text& text, std::byte* block,
           std::uint32_t slot, Position p) {
    level.append(block, c.block_tokens, view_.value_offset, c.key_type, c.value_type, c.key_size,
                 c.value_size, slot, 1, text.k.data() + std::size_t{p} * c.key_size, c.key_size,
                 text.v.data() + std::size_t{p} * c.value_size, c.value_size);
  }

  void close(const Case&, Ordinal end) {
    view_.blocks = blocks_.data();
    view_.block_count = static_cast<std::uint32_t>(blocks_.size());
    view_.live = end - view_.first;
  }

  Random* random_;
  std::size_t block_bytes_ = 0;
  std::vector<Aligned<std::byte>> memory_;
  std::vector<BlockView> blocks_;
  std::vector<Position> positions_;
  LaneView view_;
};

inline QueryView rows_of(const Case& c, const Text& text, float* out) {
  QueryView rows{};
  rows.q = text.q.data();
  rows.q_stride = std::size_t{c.group} * c.key_size;
  rows.out = out;
  rows.out_stride = std::size_t{c.group} * c.value_size;
  rows.tokens = c.tokens;
  rows.group = c.group;
  rows.first_position = c.length - c.tokens;
  rows.scale = 1.0f / std::sqrt(static_cast<float>(c.key_size));
  rows.softcap = c.softcap;
  rows.window = c.window;
  rows.sinks = c.sinks ? text.sinks.data() : nullptr;
  return rows;
}

struct TapOptions {
  bool on = false, per_head = false;
  Reduce group = Reduce::kMean;
  std::uint32_t first_token = 0;
};

struct Attended {
  std::vector<float> out;
  std::vector<std::int64_t> sum, per_head;

  // Bit for bit.
  bool operator==(const Attended& other) const {
    return out.size() == other.out.size() && sum == other.sum && per_head == other.per_head &&
           std::memcmp(out.data(), other.out.data(), out.size() * sizeof(float)) == 0;
  }
};

inline Attended attend(const Kernels& level, const LaneView& lane, QueryView rows,
                       const TapOptions& options = {}) {
  Attended result;
  result.out.assign(std::size_t{rows.tokens} * rows.group * lane.value_size, -1.0f);
  rows.out = result.out.data();
  rows.out_stride = std::size_t{rows.group} * lane.value_size;
  TapView tap{};
  if (options.on) {
    result.sum.assign(lane.live, 0);
    tap.sum = result.sum.data();
    tap.group = options.group;
    tap.first_token = options.first_token;
    if (options.per_head) {
      result.per_head.assign(std::size_t{rows.group} * lane.live, 0);
      tap.per_head = result.per_head.data();
      tap.per_head_stride = lane.live;
    }
  }
  const Aligned<float> scratch(
      scratch_floats(lane.key_size, lane.value_size, rows.group, options.on ? lane.live : 0));
  level.attend(lane, rows, tap, scratch.get());
  return result;
}

// Shapes, borders, holes, windows: one random case.
inline Case random_case(Random& random) {
  const auto sizes = {16u, 32u, 64u, 64u, 80u, 96u, 112u, 128u, 192u, 256u};
  Case c;
  c.key_size = pick_of(random, sizes);
  c.value_size = pick(random, 0, 2) == 0 ? pick_of(random, sizes) : c.key_size;
  c.group = pick(random, 1, 16);
  c.block_tokens = pick_of(random, {8u, 16u, 16u, 32u, 64u});
  c.key_type = pick_of(random, {KvType::kF16, KvType::kF16, KvType::kBF16, KvType::kF32});
  c.value_type = pick(random, 0, 2) == 0
                     ? pick_of(random, {KvType::kF16, KvType::kBF16, KvType::kF32})
                     : c.key_type;
  c.length = pick_of(random, {1u, 2u, 15u, 16u, 17u, 63u, 64u, 65u, 511u, 512u, 513u, 520u, 1025u,
                              pick(random, 1, 200), pick(random, 1, 1300)});
  // Work of the reference is rows x length x sizes: keep it about level.
  const std::uint32_t rows = std::max(1u, 6000000u / (c.length * (c.key_size + c.value_size)));
  c.tokens = std::min({c.length, pick_of(random, {1u, 1u, 2u, 3u, 7u, pick(random, 1, 40)}),
                       std::max(1u, rows / c.group)});
  c.dead = pick_of(random, {0.0, 0.0, 0.05, 0.5, 0.9});
  const std::uint32_t before = (c.length - c.tokens) / c.block_tokens;
  if (pick(random, 0, 2) == 0) c.window = pick_of(random, {1u, 7u, 16u, 100u, 512u, 600u});
  if (c.window > 0 && pick(random, 0, 1) == 0) {
    const std::uint32_t unseen = c.length - c.tokens + 1 > c.window
                                     ? (c.length - c.tokens + 1 - c.window) / c.block_tokens
                                     : 0;
    c.dropped_blocks = pick(random, 0, std::min(before, unseen));
  }
  if (pick(random, 0, 3) == 0) c.softcap = pick_of(random, {0.5f, 5.0f, 50.0f});
  c.sinks = pick(random, 0, 3) == 0;
  return c;
}

// Attention in double precision over stored values, by the textbook: out, and the weights
// [row][position].
struct Naive {
  std::vector<double> out, weight;
};

inline Naive naive_attention(const Case& c, const Text& text) {
  const auto stored = [](float x, KvType type) -> double {
    std::byte bytes[4];
    store_element(bytes, type, 0, x);
    return static_cast<double>(load_element(bytes, type, 0));
  };
  Naive result;
  const std::size_t rows = std::size_t{c.tokens} * c.group;
  result.out.assign(rows * c.value_size, 0.0);
  result.weight.assign(rows * c.length, 0.0);
  const float scale = 1.0f / std::sqrt(static_cast<float>(c.key_size));
  for (std::size_t row = 0; row < rows; ++row) {
    const std::uint32_t g = static_cast<std::uint32_t>(row % c.group);
    const Position position = c.length - c.tokens + static_cast<std::uint32_t>(row / c.group);
    std::vector<double> score(c.length, -std::numeric_limits<double>::infinity());
    double m = c.sinks ? static_cast<double>(text.sinks[g]) : score[0];
    for (Position p = c.dropped_blocks * c.block_tokens; p <= position; ++p) {
      if (!text.live[p] || (c.window != 0 && position - p >= c.window)) continue;
      double s = 0;
      for (std::uint32_t d = 0; d < c.key_size; ++d) {
        s += static_cast<double>(text.q[row * c.key_size + d]) *
             stored(text.k[std::size_t{p} * c.key_size + d], c.key_type);
      }
      s *= static_cast<double>(scale);
      const double cap = static_cast<double>(c.softcap);
      score[p] = cap == 0 ? s : cap * std::tanh(s / cap);
      m = std::max(m, score[p]);
    }
    double l = c.sinks ? std::exp(static_cast<double>(text.sinks[g]) - m) : 0.0;
    for (const double s : score)
      l += s == -std::numeric_limits<double>::infinity() ? 0.0 : std::exp(s - m);
    for (Position p = 0; p <= position; ++p) {
      if (score[p] == -std::numeric_limits<double>::infinity()) continue;
      const double w = std::exp(score[p] - m) / l;
      result.weight[row * c.length + p] = w;
      for (std::uint32_t d = 0; d < c.value_size; ++d) {
        result.out[row * c.value_size + d] +=
            w * stored(text.v[std::size_t{p} * c.value_size + d], c.value_type);
      }
    }
  }
  return result;
}

}  // namespace quire::kernels::test
