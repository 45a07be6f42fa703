#include "cache/tap_undo.h"

#include <algorithm>

namespace quire {
namespace {

std::size_t count_sums(const Sequence& sequence, const Geometry& geometry) {
  std::size_t count = 0;
  for (std::uint32_t l = 0; l < geometry.lanes; ++l)
    count += sequence.lanes(geometry)[l].taps.size();
  return count;
}

// Room for the largest step so far, whichever it keeps: a steady state allocates nothing, and what
// is not written takes no memory.
template <typename T>
void make_room(std::vector<T>& list, std::size_t count) {
  list.clear();
  if (list.capacity() < count) list.reserve(count + count / 4);
}

}  // namespace

void TapUndo::open(std::span<const StepSegment> segments, const Tables& tables,
                   std::span<const LayerShape> layers) {
  records_.clear();
  layer_offset_.assign(1, 0);
  for (const LayerShape& layer : layers) {
    const std::size_t floats = std::size_t{layer.query_heads} * layer.key_size;
    layer_offset_.push_back(layer_offset_.back() + (layer.window == 0 ? floats : 0));
  }
  std::size_t all_queries = 0, all_sums = 0, queries = 0;
  for (const StepSegment& segment : segments) {
    const Sequence& sequence = *segment.sequence;
    Record record{Kept::kNothing, segment.rows - segment.tap_begin, sequence.window_rows, 0};
    if (record.rows > 0 && sequence.taps == TapState::kOn) {
      const std::size_t rows = record.rows * layer_offset_.back();
      const std::size_t sums = count_sums(sequence, tables.geometry());
      const bool few =
          sequence.needs.tap != Tap::kLastRows && rows * sizeof(float) < sums * sizeof(sums_[0]);
      record.kept = few ? Kept::kQueries : Kept::kSums;
      record.offset = queries;
      queries += few ? rows : 0;
      all_queries += rows;
      all_sums += sums;
    }
    records_.push_back(record);
  }
  make_room(queries_, all_queries);
  make_room(sums_, all_sums);
  queries_.resize(queries);
  for (std::size_t s = 0; s < segments.size(); ++s) {
    if (records_[s].kept != Kept::kSums) continue;
    records_[s].offset = sums_.size();
    keep_sums(*segments[s].sequence, tables);
  }
}

void TapUndo::keep_sums(const Sequence& sequence, const Tables& tables) {
  for (std::uint32_t l = 0; l < tables.geometry().lanes; ++l) {
    const PagedList<std::int64_t>& taps = sequence.lanes(tables.geometry())[l].taps;
    taps.for_each_run(0, taps.size(),
                      [&](std::uint32_t, const std::int64_t* run, std::uint32_t count) {
                        sums_.insert(sums_.end(), run, run + count);
                      });
  }
}

float* TapUndo::queries(std::uint32_t segment, std::uint32_t layer) {
  const Record& record = records_[segment];
  if (record.kept != Kept::kQueries) return nullptr;
  return queries_.data() + record.offset + record.rows * layer_offset_[layer];
}

void TapUndo::restore(std::span<const StepSegment> segments, const Tables& tables) const {
  const Geometry& geometry = tables.geometry();
  for (std::size_t s = 0; s < segments.size(); ++s) {
    Sequence& sequence = *segments[s].sequence;
    sequence.window_rows = records_[s].window_rows;
    if (records_[s].kept != Kept::kSums) continue;
    const std::int64_t* from = sums_.data() + records_[s].offset;
    for (std::uint32_t l = 0; l < geometry.lanes; ++l) {
      const PagedList<std::int64_t>& taps = sequence.lanes(geometry)[l].taps;
      taps.for_each_run(0, taps.size(), [&](std::uint32_t, std::int64_t* run, std::uint32_t count) {
        std::copy_n(from, count, run);
        from += count;
      });
    }
  }
}

}  // namespace quire
