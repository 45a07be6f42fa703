// Attention that a policy watches: sums per key, and how a step leaves them again.
#include <algorithm>
#include <atomic>

#include "cache/paged_cache.h"

namespace quire {

void PagedCache::attend_with_taps(const kernels::LaneView& lane, const kernels::QueryView& rows,
                                  const WorkItem& item, std::uint32_t layer, Scratch& scratch) {
  const StepSegment& segment = segments_[item.segment];
  const LanePlace at = tables_.geometry().place(layer, item.head);
  const std::uint32_t first_token = std::max(segment.tap_begin, item.row_begin) - item.row_begin;
  keep_queries(rows, segment, item, layer, first_token);
  sum_taps(whole_kernels(rows), lane, rows, *segment.sequence, at, first_token, scratch);
  // Integers, so that it does not matter which of a lane's items comes first.
  add_sums(lane.live, *segment.sequence, at, scratch.taps(), segment.rows <= kItemRows);
}

// For cancel(): see TapUndo.
void PagedCache::keep_queries(const kernels::QueryView& rows, const StepSegment& segment,
                              const WorkItem& item, std::uint32_t layer,
                              std::uint32_t first_token) {
  float* kept = undo_.queries(item.segment, layer);
  if (kept == nullptr) return;
  const LayerShape& shape = options_.layers[layer];
  const std::size_t size = std::size_t{rows.group} * shape.key_size;
  for (std::uint32_t t = first_token; t < rows.tokens; ++t) {
    const std::size_t row = item.row_begin + t - segment.tap_begin;
    std::copy_n(rows.q + t * rows.q_stride, size, kept + row * rows.q_stride + item.head * size);
  }
}

// Sums of an entry; what is left of the stride is the policy's own.
std::uint32_t PagedCache::tap_columns(const Sequence& sequence, LanePlace at) const {
  return tables_.tap_stride(sequence, at) - (sequence.needs.state ? 1 : 0);
}

// scratch.taps(): [columns][live] what the rows from `first_token` on add to the lane's sums.
void PagedCache::sum_taps(const kernels::Kernels& kernels, const kernels::LaneView& lane,
                          const kernels::QueryView& rows, const Sequence& sequence, LanePlace at,
                          std::uint32_t first_token, Scratch& scratch) {
  const std::uint32_t columns = tap_columns(sequence, at);
  std::int64_t* sums = scratch.taps();
  std::fill_n(sums, std::size_t{columns} * lane.live, 0);
  kernels.attend(lane, rows,
                 {.sum = sums,
                  .per_head = columns > 1 ? sums + lane.live : nullptr,
                  .per_head_stride = lane.live,
                  .group = sequence.needs.group,
                  .first_token = first_token},
                 scratch.kernel());
}

// `alone`: no other call adds to the lane at the same time.
void PagedCache::add_sums(std::uint32_t live, const Sequence& sequence, LanePlace at,
                          const std::int64_t* sums, bool alone) const {
  const std::uint32_t stride = tables_.tap_stride(sequence, at);
  const std::uint32_t columns = tap_columns(sequence, at);
  const PagedList<std::int64_t>& taps = tables_.lane(sequence, at).taps;
  const auto add = [&](std::int64_t& total, std::int64_t sum) {
    if (alone) {
      total += sum;
    } else if (sum != 0) {
      std::atomic_ref(total).fetch_add(sum, std::memory_order_relaxed);
    }
  };
  taps.for_each_run(0, live * stride,
                    [&](std::uint32_t first, std::int64_t* run, std::uint32_t count) {
                      if (stride == 1) {
                        for (std::uint32_t i = 0; i < count; ++i) add(run[i], sums[first + i]);
                        return;
                      }
                      for (std::uint32_t i = 0; i < count; ++i) {
                        const std::uint32_t entry = (first + i) / stride, s = (first + i) % stride;
                        if (s < columns) add(run[i], sums[std::size_t{s} * live + entry]);
                      }
                    });
}

// What the layers that have attended added to the sums from the query rows kept.
void PagedCache::subtract_taps() {
  const ScratchSlots::Use scratch = scratch_.take(0);
  (*scratch).reserve(work_.need());
  std::vector<float> out;
  for (std::uint32_t s = 0; s < segments_.size(); ++s) {
    for (std::uint32_t layer = 0; layer < options_.layers.size(); ++layer) {
      const LayerShape& shape = options_.layers[layer];
      const float* kept = undo_.queries(s, layer);
      if (kept == nullptr || shape.window != 0 || !work_.begun(layer)) continue;
      for (std::uint32_t head = 0; head < shape.kv_heads; ++head) {
        subtract_taps(s, layer, head, kept, *scratch, out);
      }
    }
  }
}

void PagedCache::subtract_taps(std::uint32_t index, std::uint32_t layer, std::uint32_t head,
                               const float* kept, Scratch& scratch, std::vector<float>& out) {
  const LayerShape& shape = options_.layers[layer];
  const StepSegment& segment = segments_[index];
  const Sequence& sequence = *segment.sequence;
  const std::uint32_t group = shape.query_heads / shape.kv_heads;
  kernels::QueryView rows = query_view(layer, head);
  rows.q = kept + std::size_t{head} * group * shape.key_size;
  rows.tokens = segment.rows - segment.tap_begin;
  rows.first_position = sequence.length + segment.tap_begin;
  out.resize(std::max(out.size(), rows.tokens * rows.out_stride));
  rows.out = out.data();
  const LanePlace at = tables_.geometry().place(layer, head);
  const kernels::LaneView lane =
      view(sequence, layer, head, 0, sequence.length + segment.rows, scratch.blocks());
  sum_taps(kernels_, lane, rows, sequence, at, 0, scratch);
  const std::size_t count = std::size_t{tap_columns(sequence, at)} * lane.live;
  for (std::size_t i = 0; i < count; ++i) scratch.taps()[i] = -scratch.taps()[i];
  add_sums(lane.live, sequence, at, scratch.taps(), true);
}

}  // namespace quire
