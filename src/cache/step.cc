// A step: begin, append, commit or cancel.
#include <algorithm>
#include <limits>

#include "cache/paged_cache.h"

namespace quire {

Status PagedCache::between_steps(const char* call) const {
  if (!tables_.growing()) return {};
  return {Code::kInvalidArgument, std::string(call) + "() between begin() and commit()"};
}

Status PagedCache::out_of_room(const char* what, std::size_t slabs) const {
  return {Code::kOutOfMemory, std::string(what) + ": " +
                                  std::to_string(slabs * pool_.slab_bytes()) + " bytes needed, " +
                                  std::to_string(bytes_free()) + " free of a budget of " +
                                  std::to_string(options_.budget_bytes)};
}

Status PagedCache::check_segments(std::span<const Segment> segments) {
  if (segments.empty()) return {Code::kInvalidArgument, "segments: none"};
  std::uint64_t rows = 0;
  named_.clear();
  for (const Segment& segment : segments) {
    const Result<Sequence*> sequence = find(segment.sequence);
    if (!sequence.ok()) return sequence.status();
    if (segment.rows == 0) return {Code::kInvalidArgument, "segments: a segment with no rows"};
    if (segment.window_rows > segment.rows) {
      return {Code::kInvalidArgument, "segments: window_rows (" +
                                          std::to_string(segment.window_rows) + ") over rows (" +
                                          std::to_string(segment.rows) + ")"};
    }
    if (segment.gate_rows > segment.rows) {
      return {Code::kInvalidArgument, "segments: gate_rows (" + std::to_string(segment.gate_rows) +
                                          ") over rows (" + std::to_string(segment.rows) + ")"};
    }
    if (std::uint64_t{(*sequence)->length} + segment.rows > std::uint64_t{1} << 31) {
      return {Code::kInvalidArgument, "segments: a sequence would pass 2^31 positions"};
    }
    rows += segment.rows;
    named_.push_back(segment.sequence);
  }
  if (rows > options_.max_rows) {
    return {Code::kInvalidArgument, "segments: " + std::to_string(rows) + " rows, over max_rows (" +
                                        std::to_string(options_.max_rows) + ")"};
  }
  std::ranges::sort(named_);
  if (std::ranges::adjacent_find(named_) != named_.end()) {
    return {Code::kInvalidArgument, "segments: a sequence is named twice"};
  }
  return {};
}

Status PagedCache::begin(std::span<const Segment> segments) {
  if (const Status status = between_steps("begin"); !status.ok()) return status;
  if (const Status status = check_segments(segments); !status.ok()) return status;
  install_moves();
  segments_.clear();
  growth_.clear();
  append_blocks_.assign(1, 0);
  std::uint32_t first_row = 0;
  for (const Segment& segment : segments) {
    Sequence* sequence = tables_.find(segment.sequence);
    const bool last_rows = sequence->needs.tap == Tap::kLastRows;
    const std::uint32_t window_rows = last_rows ? segment.window_rows : 0;
    std::uint32_t tap_begin = segment.rows;
    if (sequence->needs.tap == Tap::kAllRows) tap_begin = 0;
    if (sequence->needs.tap == Tap::kDecodeRows && segment.answer) tap_begin = 0;
    if (last_rows) tap_begin = segment.rows - window_rows;
    std::uint32_t query_begin = segment.rows;
    if (sequence->needs.future != 0 && !segment.answer) {
      const std::uint32_t skip = std::max(sequence->needs.query_skip, sequence->length);
      query_begin = std::min(segment.rows, skip - sequence->length);
    }
    segments_.push_back({sequence, segment.rows, first_row, tap_begin, query_begin});
    growth_.push_back({sequence, segment.rows, window_rows, segment.answer,
                       segment.rows - query_begin, segment.gate_rows});
    const std::uint32_t slot = sequence->length % options_.block_tokens;
    append_blocks_.push_back(append_blocks_.back() +
                             (slot + segment.rows - 1) / options_.block_tokens + 1);
    first_row += segment.rows;
  }
  undo_.open(segments_, tables_, options_.layers);
  if (!tables_.grow(growth_)) {
    return out_of_room("begin", tables_.slabs_needed(growth_).slabs);
  }
  queries_.open(segments_);
  last_queries_.open(segments_);
  work_.build(segments_, tables_, options_.layers);
  return {};
}

void PagedCache::append(std::uint32_t layer, const float* k, const float* v, std::uint32_t part,
                        std::uint32_t parts) {
  QUIRE_CHECK(tables_.growing() && layer < options_.layers.size() && part < parts);
  const LayerShape& shape = options_.layers[layer];
  const std::uint32_t block_tokens = options_.block_tokens;
  // A unit is a block of a lane, so that no two parts write into one block.
  const std::uint64_t units = std::uint64_t{append_blocks_.back()} * shape.kv_heads;
  const auto begin = static_cast<std::uint32_t>(units * part / parts);
  const auto end = static_cast<std::uint32_t>(units * (part + 1) / parts);
  std::size_t s = 0;
  for (std::uint32_t unit = begin; unit < end; ++unit) {
    const std::uint32_t head = unit % shape.kv_heads, block = unit / shape.kv_heads;
    while (append_blocks_[s + 1] <= block) ++s;
    const StepSegment& segment = segments_[s];
    const Position length = segment.sequence->length;
    const std::uint32_t ordinal = length / block_tokens + block - append_blocks_[s];
    const Position from = std::max(length, ordinal * block_tokens);
    const Position to = std::min(length + segment.rows, (ordinal + 1) * block_tokens);
    const std::size_t row = segment.first_row + (from - length);
    const LanePlace at = tables_.geometry().place(layer, head);
    const LayerGroup& group = tables_.geometry().groups[at.group];
    kernels_.append(pool_.address(tables_.block_at(*segment.sequence, at, ordinal)), block_tokens,
                    group.value_offset, options_.key_type, options_.value_type, shape.key_size,
                    shape.value_size, from % block_tokens, to - from,
                    k + (row * shape.kv_heads + head) * shape.key_size,
                    std::size_t{shape.kv_heads} * shape.key_size,
                    v + (row * shape.kv_heads + head) * shape.value_size,
                    std::size_t{shape.kv_heads} * shape.value_size);
  }
}

void PagedCache::commit() {
  QUIRE_CHECK(tables_.growing());
  last_queries_.publish();
  tables_.publish();
}

void PagedCache::cancel() {
  if (!tables_.growing()) return;
  subtract_taps();  // while the step's keys are there
  tables_.retract();
  undo_.restore(segments_, tables_);
  queries_.restore();
}

}  // namespace quire
