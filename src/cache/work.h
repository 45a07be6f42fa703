// The work of one step's attention, cut at fixed borders.  Nothing here changes a bit of the
// result: the order of additions is the kernels', wherever the cuts are.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/scratch.h"
#include "core/tables.h"
#include "quire/cache.h"

namespace quire {

// Rows of a work item.  K and V are read and converted once for all rows of an item (or every 256
// rows x heads); more rows would leave too few items to balance over threads in a chunk of 512.
constexpr std::uint32_t kItemRows = 64;

// A segment with what the step needs of its sequence.
struct StepSegment {
  Sequence* sequence = nullptr;
  std::uint32_t rows = 0;
  std::uint32_t first_row = 0;    // in the step
  std::uint32_t tap_begin = 0;    // rows [tap_begin, rows) are summed; rows = none
  std::uint32_t query_begin = 0;  // likewise of those in the statistics of queries
};

// Rows [row_begin, row_end) of a segment for one KV head; of split lanes, tiles
// [tile_begin, tile_end) only.
struct WorkItem {
  std::uint64_t cost = 0;
  std::uint32_t segment = 0, head = 0;
  std::uint32_t row_begin = 0, row_end = 0;
  std::uint32_t split = kWhole;  // index into Work::splits
  std::uint32_t tile_begin = 0, tile_end = 0;

  static constexpr std::uint32_t kWhole = 0xFFFFFFFFu;
};

// A lane whose tiles several items share; the last of them to finish merges.
struct Split {
  std::size_t partials = 0;  // offset in Work::partials
  std::uint32_t first_tile = 0, tiles = 0;
  std::uint32_t items = 0;
};

class Work {
 public:
  void build(std::span<const StepSegment> segments, const Tables& tables,
             std::span<const LayerShape> layers);

  std::span<const WorkItem> items(std::uint32_t layer) const {
    return {items_.data() + layers_[layer].first, layers_[layer].count};
  }
  const WorkItem* next(std::uint32_t layer) {
    const std::uint32_t i = taken_[layer].fetch_add(1, std::memory_order_relaxed);
    return i < layers_[layer].count ? &items_[layers_[layer].first + i] : nullptr;
  }
  bool begun(std::uint32_t layer) const {
    return taken_[layer].load(std::memory_order_relaxed) > 0;
  }
  const Split& split(const WorkItem& item) const { return splits_[item.split]; }
  float* partials(const Split& split) { return partials_.data() + split.partials; }
  // True for the call that makes the lane complete; it then sees every other's partials.
  bool finish(const WorkItem& item) {
    const std::uint32_t before = finished_[item.split].fetch_add(1, std::memory_order_acq_rel);
    return before + 1 == splits_[item.split].items;
  }
  const ScratchNeed& need() const { return need_; }

 private:
  struct Range {
    std::uint32_t first = 0, count = 0;
  };
  void build_layer(std::span<const StepSegment> segments, const Tables& tables,
                   const LayerShape& shape, std::uint32_t layer);
  void add_lane(const Tables& tables, const LayerShape& shape, std::uint32_t layer,
                const StepSegment& segment, std::uint32_t index, std::uint32_t head,
                std::uint32_t tiles_an_item);
  void reset_counters(std::size_t layers);

  std::vector<WorkItem> items_;
  std::vector<Range> layers_;  // of items_
  std::vector<Split> splits_;
  std::vector<float> partials_;  // every layer uses it again: a barrier lies between two layers
  std::size_t layer_partials_ = 0, partials_needed_ = 0;
  std::unique_ptr<std::atomic<std::uint32_t>[]> taken_, finished_;
  std::size_t taken_capacity_ = 0, finished_capacity_ = 0;
  ScratchNeed need_;
};

}  // namespace quire
