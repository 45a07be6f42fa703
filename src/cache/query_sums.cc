#include "cache/query_sums.h"

#include <algorithm>
#include <cmath>

namespace quire {
namespace {

void read_list(const PagedList<float>& list, std::uint32_t begin, std::uint32_t count, float* to) {
  list.for_each_run(begin, begin + count,
                    [&](std::uint32_t first, const float* run, std::uint32_t length) {
                      std::copy_n(run, length, to + (first - begin));
                    });
}

void write_list(const PagedList<float>& list, std::uint32_t begin, std::uint32_t count,
                const float* from) {
  list.for_each_run(begin, begin + count,
                    [&](std::uint32_t first, float* run, std::uint32_t length) {
                      std::copy_n(from + (first - begin), length, run);
                    });
}

bool same_rotation(const LayerShape& a, const LayerShape& b) {
  return a.key_size == b.key_size && a.rope.halves == b.rope.halves &&
         a.rope.frequency == b.rope.frequency;
}

// kernels::QueryRows::turn of one row: back by the angles that its position turned it.
void turn_of(const RopeShape& rope, std::uint32_t size, Position position, float* turn) {
  for (std::uint32_t i = 0; i < size / 2; ++i) {
    const double angle = double{rope.frequency[i]} * position;
    const auto cosine = static_cast<float>(std::cos(angle));
    const auto sine = static_cast<float>(std::sin(angle));
    const std::uint32_t low = rope.halves ? i : 2 * i;
    const std::uint32_t high = rope.halves ? i + size / 2 : 2 * i + 1;
    turn[low] = turn[high] = cosine;
    turn[size + low] = sine;
    turn[size + high] = -sine;
  }
}

}  // namespace

QuerySums::QuerySums(std::span<const LayerShape> layers)
    : layers_(layers), taken_(std::make_unique<std::atomic<std::uint32_t>[]>(layers.size())) {
  for (std::uint32_t l = 0; l < layers.size(); ++l) {
    offset_.push_back(static_cast<std::uint32_t>(floats_));
    const bool full = layers[l].window == 0;
    const std::uint64_t heads = full ? layers[l].query_heads : 0;
    floats_ += heads * kernels::query_floats(layers[l].key_size);
    std::uint32_t first = 0;
    while (layers[first].window != 0 || !same_rotation(layers[first], layers[l])) {
      if (first == l) break;
      ++first;
    }
    turn_layer_.push_back(first);
  }
  first_float_.resize(layers.size());
}

void QuerySums::read(const Sequence& sequence, std::uint32_t layer, std::uint32_t query_head,
                     float* to) const {
  read_list(sequence.queries, offset(layer, query_head),
            kernels::query_floats(layers_[layer].key_size), to);
}

void QuerySums::open(std::span<const StepSegment> segments) {
  added_.clear();
  rows_ = 0;
  for (const StepSegment& segment : segments) {
    if (segment.query_begin == segment.rows) continue;
    added_.push_back({&segment, rows_});
    rows_ += segment.rows - segment.query_begin;
  }
  if (added_.empty()) return;
  for (std::size_t l = 0; l < layers_.size(); ++l) taken_[l].store(0, std::memory_order_relaxed);
  if (const std::size_t floats = added_.size() * floats_; kept_floats_ < floats) {
    kept_.reset(new float[floats]);  // not written: only what add() takes is
    kept_floats_ = floats;
  }
  make_turns();
}

// Once for all heads and layers of a rotation: its cosines cost as much as a head's sums.
void QuerySums::make_turns() {
  std::size_t floats = 0;
  for (std::uint32_t l = 0; l < layers_.size(); ++l) {
    const bool made = layers_[l].window != 0 || turn_layer_[l] != l;
    first_float_[l] = made ? first_float_[turn_layer_[l]] : floats;
    floats += made ? 0 : rows_ * 2 * layers_[l].key_size;
  }
  if (turns_.size() < floats) turns_.resize(floats);
  for (std::uint32_t l = 0; l < layers_.size(); ++l) {
    if (layers_[l].window != 0 || turn_layer_[l] != l) continue;
    float* turn = turns_.data() + first_float_[l];
    for (const Added& added : added_) {
      const StepSegment& segment = *added.segment;
      for (std::uint32_t row = segment.query_begin; row < segment.rows; ++row) {
        turn_of(layers_[l].rope, layers_[l].key_size, segment.sequence->length + row, turn);
        turn += 2 * layers_[l].key_size;
      }
    }
  }
}

void QuerySums::add(std::uint32_t layer, const float* q, const kernels::Kernels& kernels,
                    Scratch& scratch) {
  const LayerShape& shape = layers_[layer];
  if (added_.empty() || shape.window != 0) return;
  const std::uint32_t size = shape.key_size, count = kernels::query_floats(size);
  const std::size_t row_floats = std::size_t{shape.query_heads} * size;
  const auto units = static_cast<std::uint32_t>(added_.size()) * shape.query_heads;
  scratch.reserve({.kernel_floats = count + kernels::query_scratch_floats(size)});
  float* statistics = scratch.kernel();
  std::uint32_t unit = 0;
  while ((unit = taken_[layer].fetch_add(1, std::memory_order_relaxed)) < units) {
    const std::uint32_t head = unit % shape.query_heads, at = offset(layer, head);
    const Added& added = added_[unit / shape.query_heads];
    const StepSegment& segment = *added.segment;
    const Sequence& sequence = *segment.sequence;
    float* kept = kept_.get() + std::size_t{unit / shape.query_heads} * floats_ + at;
    read_list(sequence.queries, at, count, kept);
    std::copy_n(kept, count, statistics);
    const std::size_t first_row = segment.first_row + segment.query_begin;
    kernels.add_queries({.q = q + first_row * row_floats + std::size_t{head} * size,
                         .q_stride = row_floats,
                         .rows = segment.rows - segment.query_begin,
                         .size = size,
                         .halves = shape.rope.halves,
                         .turn = turns_.data() + first_float_[layer] + added.first_turn * 2 * size,
                         .first = sequence.query_rows == 0},
                        statistics, statistics + count);
    write_list(sequence.queries, at, count, statistics);
  }
}

void QuerySums::restore() const {
  for (std::uint32_t layer = 0; layer < layers_.size(); ++layer) {
    const LayerShape& shape = layers_[layer];
    if (added_.empty() || shape.window != 0) continue;
    const auto units = static_cast<std::uint32_t>(added_.size()) * shape.query_heads;
    const std::uint32_t taken = taken_[layer].load(std::memory_order_relaxed);
    for (std::uint32_t unit = 0; unit < std::min(taken, units); ++unit) {
      const std::uint32_t head = unit % shape.query_heads, at = offset(layer, head);
      const std::size_t i = unit / shape.query_heads;
      const PagedList<float>& list = added_[i].segment->sequence->queries;
      if (list.empty()) continue;
      write_list(list, at, kernels::query_floats(shape.key_size), kept_.get() + i * floats_ + at);
    }
  }
}

}  // namespace quire
