// Queries of a sequence's last rows, for Cache::measure(): of all query heads of the full-attention
// layers, as attend() gets them.  A step's are kept beside it until commit(), so that cancel() has
// nothing to take back; then they are the pool's (Sequence::gate_queries).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/work.h"
#include "core/tables.h"
#include "quire/cache.h"

namespace quire {

class LastQueries {
 public:
  // Floats of a row, over all layers; 0: there is no full-attention layer.
  static std::uint64_t floats(std::span<const LayerShape> layers);
  // A sequence's take no more than this: 1 GiB.
  static constexpr std::uint64_t kFloatsMost = std::uint64_t{1} << 28;

  explicit LastQueries(std::span<const LayerShape> layers);

  // After the tables grew for these segments, all of which outlive the step.
  void open(std::span<const StepSegment> segments);
  // One thread, for each layer: q as attend() gets it.
  void keep(std::uint32_t layer, const float* q);
  // Before the tables publish the step.
  void publish() const;
  // The rows [gate_end - rows, gate_end) of a KV head's query heads, [row][group][key_size].
  void read(const Sequence& sequence, std::uint32_t layer, std::uint32_t head, std::uint32_t rows,
            float* to) const;

 private:
  struct Kept {
    const StepSegment* segment;
    std::uint32_t rows;  // the segment's last so many
    std::size_t offset;  // in queries_
  };

  std::span<const LayerShape> layers_;
  std::vector<std::uint32_t> offset_;  // [layer] in a row
  std::uint32_t floats_ = 0;
  std::vector<Kept> kept_;
  std::vector<float> queries_;  // by segment: [row][floats_]
};

}  // namespace quire
