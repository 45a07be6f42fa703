#include "cache/last_queries.h"

#include <algorithm>

namespace quire {
namespace {

std::uint64_t layer_floats(const LayerShape& layer) {
  return layer.window != 0 ? 0 : std::uint64_t{layer.query_heads} * layer.key_size;
}

}  // namespace

std::uint64_t LastQueries::floats(std::span<const LayerShape> layers) {
  std::uint64_t floats = 0;
  for (const LayerShape& layer : layers) floats += layer_floats(layer);
  return floats;
}

LastQueries::LastQueries(std::span<const LayerShape> layers) : layers_(layers) {
  for (const LayerShape& layer : layers) {
    offset_.push_back(floats_);
    floats_ += static_cast<std::uint32_t>(layer_floats(layer));
  }
}

void LastQueries::open(std::span<const StepSegment> segments) {
  kept_.clear();
  std::size_t floats = 0;
  for (const StepSegment& segment : segments) {
    const Sequence& sequence = *segment.sequence;
    const std::uint32_t rows = std::min(sequence.gate_rows_pending, sequence.needs.gate_rows);
    if (rows == 0) continue;
    kept_.push_back({&segment, rows, floats});
    floats += std::size_t{rows} * floats_;
  }
  if (queries_.size() < floats) queries_.resize(floats);
}

void LastQueries::keep(std::uint32_t layer, const float* q) {
  const std::size_t size = layer_floats(layers_[layer]);
  if (size == 0) return;
  for (const Kept& kept : kept_) {
    const std::size_t first = kept.segment->first_row + kept.segment->rows - kept.rows;
    float* to = queries_.data() + kept.offset + offset_[layer];
    for (std::size_t row = 0; row < kept.rows; ++row, to += floats_) {
      std::copy_n(q + (first + row) * size, size, to);
    }
  }
}

void LastQueries::publish() const {
  for (const Kept& kept : kept_) {
    const Sequence& sequence = *kept.segment->sequence;
    const Position first = sequence.length + kept.segment->rows - kept.rows;
    for (std::uint32_t row = 0; row < kept.rows; ++row) {
      const float* from = queries_.data() + kept.offset + std::size_t{row} * floats_;
      const std::uint32_t at = (first + row) % sequence.needs.gate_rows * floats_;
      sequence.gate_queries.for_each_run(at, at + floats_,
                                         [&](std::uint32_t begin, float* run, std::uint32_t count) {
                                           std::copy_n(from + (begin - at), count, run);
                                         });
    }
  }
}

void LastQueries::read(const Sequence& sequence, std::uint32_t layer, std::uint32_t head,
                       std::uint32_t rows, float* to) const {
  const LayerShape& shape = layers_[layer];
  const std::uint32_t size = shape.query_heads / shape.kv_heads * shape.key_size;
  for (std::uint32_t row = 0; row < rows; ++row, to += size) {
    const Position position = sequence.gate_end - rows + row;
    const std::uint32_t at =
        position % sequence.needs.gate_rows * floats_ + offset_[layer] + head * size;
    sequence.gate_queries.for_each_run(
        at, at + size, [&](std::uint32_t begin, const float* run, std::uint32_t count) {
          std::copy_n(run, count, to + (begin - at));
        });
  }
}

}  // namespace quire
