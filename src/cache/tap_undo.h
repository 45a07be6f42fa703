// What cancel() needs to take a running step out of the tap sums again.
//
// Of a segment with few rows its query rows are kept: sums are integers, so computing its share
// once more and subtracting it leaves no trace.  Else, and where a window may begin anew, the sums
// there were are kept.  Whichever is smaller: an answer's step copies its query rows, not its
// lanes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cache/work.h"
#include "core/tables.h"
#include "quire/cache.h"

namespace quire {

class TapUndo {
 public:
  // Before the tables grow for these segments.
  void open(std::span<const StepSegment> segments, const Tables& tables,
            std::span<const LayerShape> layers);

  // Where the layer's query rows [tap_begin, rows) of a segment are kept,
  // [row][query_heads][key_size], or null.
  float* queries(std::uint32_t segment, std::uint32_t layer);

  // After the tables took the step's rows back: the sums that were kept, and the windows' rows.
  void restore(std::span<const StepSegment> segments, const Tables& tables) const;

 private:
  enum class Kept : std::uint8_t { kNothing, kQueries, kSums };
  struct Record {
    Kept kept;
    std::uint32_t rows, window_rows;
    std::size_t offset;  // in queries_ or sums_
  };
  void keep_sums(const Sequence& sequence, const Tables& tables);

  std::vector<Record> records_;            // [segment]
  std::vector<std::size_t> layer_offset_;  // [layer + 1] floats of a row before the layer
  std::vector<float> queries_;             // by segment: [layer][row][query_heads][key_size]
  std::vector<std::int64_t> sums_;         // by segment: lane after lane
};

}  // namespace quire
