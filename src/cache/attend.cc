// Attention of one layer over the step's work items.
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

// Without rows: what they share.
kernels::QueryView PagedCache::query_view(std::uint32_t layer, std::uint32_t head) const {
  const LayerShape& shape = options_.layers[layer];
  const std::uint32_t group = shape.query_heads / shape.kv_heads;
  return {.q = nullptr,
          .out = nullptr,
          .q_stride = std::size_t{shape.query_heads} * shape.key_size,
          .out_stride = std::size_t{shape.query_heads} * shape.value_size,
          .tokens = 0,
          .group = group,
          .first_position = 0,
          .scale = scale_[layer],
          .softcap = shape.softcap,
          .window = shape.window,
          .sinks = shape.sinks.empty() ? nullptr : shape.sinks.data() + head * group};
}

const kernels::Kernels& PagedCache::whole_kernels(const kernels::QueryView& rows) const {
  return rows.tokens * rows.group < options_.attend_chunk_rows ? kernels_ : chunk_kernels_;
}

void PagedCache::attend(std::uint32_t layer, const float* q, float* out, std::uint32_t part,
                        std::uint32_t parts) {
  QUIRE_CHECK(tables_.growing() && layer < options_.layers.size() && part < parts);
  const ScratchSlots::Use scratch = scratch_.take(part);
  queries_.add(layer, q, kernels_, *scratch);
  if (part == 0) last_queries_.keep(layer, q);
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
  kernels::QueryView rows = query_view(layer, item.head);
  rows.q = q + (first_row * shape.query_heads + first_head) * shape.key_size;
  rows.out = out + (first_row * shape.query_heads + first_head) * shape.value_size;
  rows.tokens = item.row_end - item.row_begin;
  rows.first_position = position;
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
    attend_with_taps(lane, rows, item, layer, scratch);
  } else {
    whole_kernels(rows).attend(lane, rows, {}, scratch.kernel());
  }
}

}  // namespace quire
