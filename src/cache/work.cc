#include "cache/work.h"

#include <algorithm>
#include <tuple>

#include "kernels/kernels.h"

namespace quire {
namespace {

using kernels::kTileOrdinals;

// A lane is split over its tiles only where whole lanes would leave threads idle at the end, and
// only for the few rows of a decode step: partial results of more rows cost more than they give.
constexpr std::uint32_t kSplitItems = 24;  // items a layer should have: 8 for each of 3 threads
constexpr std::uint32_t kSplitRows = 4;

struct LaneSpan {
  Ordinal first, end;  // ordinals the segment's rows can read
  std::uint32_t tiles() const {
    return (end + kTileOrdinals - 1) / kTileOrdinals - first / kTileOrdinals;
  }
};

LaneSpan span_of(const Tables& tables, const StepSegment& segment, LanePlace at) {
  const Ordinal first = tables.first_ordinal(*segment.sequence, at);
  return {first, first + tables.live(*segment.sequence, at)};
}

// Entries that rows [begin, end) of the segment read, roughly.
std::uint64_t cost_of(const LaneSpan& lane, const LayerShape& shape, const StepSegment& segment,
                      std::uint32_t begin, std::uint32_t end) {
  const std::uint64_t later = segment.rows - end;  // entries that come after the item's last row
  std::uint64_t seen = lane.end - lane.first - later;
  if (shape.window != 0) seen = std::min<std::uint64_t>(seen, shape.window + (end - begin));
  return (seen + 16) * (end - begin);
}

}  // namespace

void Work::build(std::span<const StepSegment> segments, const Tables& tables,
                 std::span<const LayerShape> layers) {
  items_.clear();
  layers_.clear();
  splits_.clear();
  need_ = {};
  partials_needed_ = 0;
  // Splits come and go with what a step is made of; a layer that has any has fewer whole items.
  splits_.reserve(layers.size() * kSplitItems);
  items_.reserve(layers.size() * 2 * kSplitItems);
  for (std::uint32_t layer = 0; layer < layers.size(); ++layer) {
    build_layer(segments, tables, layers[layer], layer);
  }
  if (partials_.size() < partials_needed_) partials_.resize(partials_needed_);
  reset_counters(layers.size());
}

void Work::build_layer(std::span<const StepSegment> segments, const Tables& tables,
                       const LayerShape& shape, std::uint32_t layer) {
  const auto first = static_cast<std::uint32_t>(items_.size());
  std::uint64_t whole_items = 0, tiles = 0;
  for (const StepSegment& segment : segments) {
    whole_items += std::uint64_t{shape.kv_heads} * ((segment.rows + kItemRows - 1) / kItemRows);
    for (std::uint32_t head = 0; head < shape.kv_heads; ++head) {
      tiles += span_of(tables, segment, tables.geometry().place(layer, head)).tiles();
    }
  }
  const std::uint32_t tiles_an_item =
      whole_items >= kSplitItems
          ? WorkItem::kWhole
          : static_cast<std::uint32_t>((tiles + kSplitItems - 1) / kSplitItems);
  layer_partials_ = 0;
  for (std::uint32_t s = 0; s < segments.size(); ++s) {
    for (std::uint32_t head = 0; head < shape.kv_heads; ++head) {
      add_lane(tables, shape, layer, segments[s], s, head, tiles_an_item);
    }
  }
  partials_needed_ = std::max(partials_needed_, layer_partials_);
  // Longest first, so that the last to be taken are short.
  std::sort(items_.begin() + first, items_.end(), [](const WorkItem& a, const WorkItem& b) {
    return std::tie(b.cost, a.segment, a.head, a.row_begin, a.tile_begin) <
           std::tie(a.cost, b.segment, b.head, b.row_begin, b.tile_begin);
  });
  layers_.push_back({first, static_cast<std::uint32_t>(items_.size()) - first});
}

void Work::add_lane(const Tables& tables, const LayerShape& shape, std::uint32_t layer,
                    const StepSegment& segment, std::uint32_t index, std::uint32_t head,
                    std::uint32_t tiles_an_item) {
  const LanePlace at = tables.geometry().place(layer, head);
  const LaneSpan lane = span_of(tables, segment, at);
  const std::uint32_t group = shape.query_heads / shape.kv_heads;
  const bool taps = segment.tap_begin < segment.rows && shape.window == 0;
  const std::uint32_t live = lane.end - lane.first;
  const std::uint32_t tap_live = taps ? live : 0;
  need_.raise_to({kernels::scratch_floats(shape.key_size, shape.value_size, group, tap_live),
                  tables.block_count(*segment.sequence, at),
                  std::size_t{tap_live} * (taps ? tables.tap_stride(*segment.sequence, at) : 0)});

  WorkItem item{.segment = index, .head = head};
  if (!taps && segment.rows <= kSplitRows && lane.tiles() > tiles_an_item) {
    item.row_end = segment.rows;
    item.split = static_cast<std::uint32_t>(splits_.size());
    const std::uint32_t first = lane.first / kTileOrdinals, end = first + lane.tiles();
    splits_.push_back({layer_partials_, first, lane.tiles(), 0});
    layer_partials_ += std::size_t{segment.rows} * group * lane.tiles() *
                       kernels::partial_floats(shape.value_size);
    for (std::uint32_t tile = first; tile < end; tile += tiles_an_item) {
      item.tile_begin = tile;
      item.tile_end = std::min(end, tile + tiles_an_item);
      item.cost = std::uint64_t{item.tile_end - tile} * kTileOrdinals * segment.rows;
      items_.push_back(item);
      ++splits_.back().items;
    }
    return;
  }
  for (std::uint32_t row = 0; row < segment.rows; row += kItemRows) {
    item.row_begin = row;
    item.row_end = std::min(row + kItemRows, segment.rows);
    item.cost = cost_of(lane, shape, segment, item.row_begin, item.row_end);
    items_.push_back(item);
  }
}

void Work::reset_counters(std::size_t layers) {
  if (taken_capacity_ < layers) {
    taken_capacity_ = layers;
    taken_ = std::make_unique<std::atomic<std::uint32_t>[]>(layers);
  }
  if (finished_capacity_ < splits_.size()) {
    finished_capacity_ = splits_.capacity();
    finished_ = std::make_unique<std::atomic<std::uint32_t>[]>(finished_capacity_);
  }
  for (std::size_t l = 0; l < layers; ++l) taken_[l].store(0, std::memory_order_relaxed);
  for (std::size_t s = 0; s < splits_.size(); ++s) {
    finished_[s].store(0, std::memory_order_relaxed);
  }
}

}  // namespace quire
