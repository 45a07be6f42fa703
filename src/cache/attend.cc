// Attention of one layer over the step's work items.
#include <algorithm>
#include <atomic>
#include <bit>

#include "cache/paged_cache.h"

namespace quire {

kernels::LaneView PagedCache::view(const Sequence& sequence, std::uint32_t layer,
                                   std::uint32_t head, Position begin, Position end,
                                   kernels::BlockView* blocks) const {
  const LanePlace at = tables_.geometry().place(layer, head);
  const LayerGroup& group = tables_.geometry().groups[at.group];
  kernels::LaneView lane{.blocks = blocks,
                         .block_count = 0,
                         .position = nullptr,
                         .first = 0,
                         .live = 0,
                         .block_tokens = options_.block_tokens,
                         .key_type = options_.key_type,
                         .value_type = options_.value_type,
                         .key_size = group.key_size,
                         .value_size = group.value_size,
                         .value_offset = group.value_offset};
  tables_.for_each_block(sequence, at, begin, end,
                         [&](BlockId block, std::uint64_t live, Position base, Ordinal first) {
                           blocks[lane.block_count++] = {pool_.address(block), live, base, first};
                           lane.live += static_cast<std::uint32_t>(std::popcount(live));
                         });
  if (lane.block_count > 0) lane.first = blocks[0].first_ordinal;
  return lane;
}

void PagedCache::attend(std::uint32_t layer, const float* q, float* out, std::uint32_t part,
                        std::uint32_t parts) {
  QUIRE_CHECK(tables_.growing() && layer < options_.layers.size() && part < parts);
  const ScratchSlots::Use scratch = scratch_.take(part);
  (*scratch).reserve(work_.need());
  while (const WorkItem* item = work_.next(layer)) attend_item(layer, *item, q, out, *scratch);
}

void PagedCache::attend_item(std::uint32_t layer, const WorkItem& item, const float* q, float* out,
                             Scratch& scratch) {
  const LayerShape& shape = options_.layers[layer];
  const StepSegment& segment = segments_[item.segment];
  const std::uint32_t group = shape.query_heads / shape.kv_heads;
  const std::size_t first_row = segment.first_row + item.row_begin;
  const std::uint32_t first_head = item.head * group;
  const Position position = segment.sequence->length + item.row_begin;
  const kernels::QueryView rows{
      .q = q + (first_row * shape.query_heads + first_head) * shape.key_size,
      .out = out + (first_row * shape.query_heads + first_head) * shape.value_size,
      .q_stride = std::size_t{shape.query_heads} * shape.key_size,
      .out_stride = std::size_t{shape.query_heads} * shape.value_size,
      .tokens = item.row_end - item.row_begin,
      .group = group,
      .first_position = position,
      .scale = scale_[layer],
      .softcap = shape.softcap,
      .window = shape.window,
      .sinks = shape.sinks.empty() ? nullptr : shape.sinks.data() + first_head};
  const Position end = segment.sequence->length + item.row_end;

  if (item.split != WorkItem::kWhole) {
    const kernels::LaneView lane =
        view(*segment.sequence, layer, item.head, 0, end, scratch.blocks());
    const Split& split = work_.split(item);
    const std::size_t tile_floats = kernels::partial_floats(shape.value_size);
    float* partials = work_.partials(split);
    kernels_.attend_tiles(lane, rows, item.tile_begin, item.tile_end,
                          partials + (item.tile_begin - split.first_tile) * tile_floats,
                          split.tiles * tile_floats, scratch.kernel());
    if (work_.finish(item)) {
      kernels_.merge(rows, shape.value_size, partials, split.tiles * tile_floats, split.tiles);
    }
    return;
  }
  const bool windowed = shape.window != 0 && position >= shape.window;
  const Position begin = windowed ? position - shape.window + 1 : 0;
  const kernels::LaneView lane =
      view(*segment.sequence, layer, item.head, begin, end, scratch.blocks());
  if (shape.window == 0 && segment.tap_begin < item.row_end) {
    const LanePlace at = tables_.geometry().place(layer, item.head);
    attend_with_taps(lane, rows, segment, item, at, scratch);
  } else {
    chunk_kernels_.attend(lane, rows, {}, scratch.kernel());
  }
}

void PagedCache::attend_with_taps(const kernels::LaneView& lane, const kernels::QueryView& rows,
                                  const StepSegment& segment, const WorkItem& item, LanePlace at,
                                  Scratch& scratch) {
  const Sequence& sequence = *segment.sequence;
  const std::uint32_t stride = tables_.tap_stride(sequence, at);
  const std::uint32_t columns = stride - (sequence.needs.state ? 1 : 0);
  std::int64_t* sums = scratch.taps();  // [columns][live]
  std::fill_n(sums, std::size_t{columns} * lane.live, 0);
  chunk_kernels_.attend(
      lane, rows,
      {.sum = sums,
       .per_head = columns > 1 ? sums + lane.live : nullptr,
       .per_head_stride = lane.live,
       .group = sequence.needs.group,
       .first_token = std::max(segment.tap_begin, item.row_begin) - item.row_begin},
      scratch.kernel());
  // Integers, so that it does not matter which of a lane's items comes first.
  const bool alone = segment.rows <= kItemRows;
  const PagedList<std::int64_t>& taps = tables_.lane(sequence, at).taps;
  const auto add = [&](std::int64_t& total, std::int64_t sum) {
    if (alone) {
      total += sum;
    } else if (sum != 0) {
      std::atomic_ref(total).fetch_add(sum, std::memory_order_relaxed);
    }
  };
  taps.for_each_run(0, lane.live * stride,
                    [&](std::uint32_t first, std::int64_t* run, std::uint32_t count) {
                      if (stride == 1) {
                        for (std::uint32_t i = 0; i < count; ++i) add(run[i], sums[first + i]);
                        return;
                      }
                      for (std::uint32_t i = 0; i < count; ++i) {
                        const std::uint32_t entry = (first + i) / stride, s = (first + i) % stride;
                        if (s < columns) add(run[i], sums[std::size_t{s} * lane.live + entry]);
                      }
                    });
}

}  // namespace quire
