// A statistic for a gate: the last rows' weights, computed once more from the keys in the cache.
#include <algorithm>
#include <atomic>
#include <cmath>

#include "cache/gate_statistics.h"
#include "cache/paged_cache.h"

namespace quire {

Status PagedCache::keep_queries(SequenceId id, bool on) {
  if (const Status status = between_steps("keep_queries"); !status.ok()) return status;
  const Result<Sequence*> sequence = find(id);
  if (!sequence.ok()) return sequence.status();
  tables_.keep_queries(**sequence, on);
  return {};
}

Status PagedCache::check_measure(const Sequence& sequence) const {
  const std::uint32_t rows = sequence.needs.gate_rows;
  if (rows == 0) return {Code::kInvalidArgument, "measure: start() was not asked for gate_rows"};
  if (sequence.gate_rows < rows || sequence.gate_end != sequence.length) {
    return {Code::kInvalidArgument, "measure: it takes the queries of the last " +
                                        std::to_string(rows) + " rows; Segment::gate_rows named " +
                                        std::to_string(sequence.gate_rows) + " up to position " +
                                        std::to_string(sequence.gate_end)};
  }
  std::uint32_t least = sequence.length, full = 0;
  for (std::uint32_t l = 0; l < options_.layers.size(); ++l) {
    if (options_.layers[l].window != 0) continue;
    ++full;
    for (std::uint32_t head = 0; head < options_.layers[l].kv_heads; ++head) {
      least = std::min(least, tables_.live(sequence, tables_.geometry().place(l, head)));
    }
  }
  if (full == 0) return {Code::kUnsupported, "measure: every layer has a window"};
  if (least <= kGateSinks + rows) {
    return {Code::kInvalidArgument, "measure: a lane has " + std::to_string(least) +
                                        " entries; there must be some beside " +
                                        std::to_string(kGateSinks) + " first and " +
                                        std::to_string(rows) + " last ones"};
  }
  return {};
}

// The moments of one lane's weights, as a few numbers.
LaneReading PagedCache::read_gate_lane(const Sequence& sequence, Statistic statistic,
                                       std::uint32_t layer, std::uint32_t head,
                                       Scratch& scratch) const {
  const LayerShape& shape = options_.layers[layer];
  const std::uint32_t group = shape.query_heads / shape.kv_heads, rows = sequence.needs.gate_rows;
  const LanePlace at = tables_.geometry().place(layer, head);
  const std::uint32_t live = tables_.live(sequence, at);
  scratch.reserve({kernels::scratch_floats(shape.key_size, shape.value_size, group, live),
                   tables_.block_count(sequence, at)});
  std::vector<float> q(std::size_t{rows} * group * shape.key_size);
  last_queries_.read(sequence, layer, head, rows, q.data());
  std::vector<float> sum(std::size_t{group} * live), square(sum.size());

  kernels::QueryView view_of_rows = query_view(layer, head);
  view_of_rows.q = q.data();
  view_of_rows.q_stride = std::size_t{group} * shape.key_size;
  view_of_rows.tokens = rows;
  view_of_rows.first_position = sequence.gate_end - rows;
  const kernels::LaneView lane = view(sequence, layer, head, 0, sequence.length, scratch.blocks());
  kernels_.add_moments(lane, view_of_rows, {sum.data(), square.data(), live}, scratch.kernel());
  // Such weights say nothing, and cannot be ordered.
  const auto finite = [](float weight) { return std::isfinite(weight); };
  if (!std::ranges::all_of(sum, finite)) return {.value = NAN};
  return read_lane(statistic,
                   {.sum = sum, .square = square, .group = group, .live = live, .rows = rows});
}

Result<double> PagedCache::measure(SequenceId id, Statistic statistic, const RunParts& run) {
  if (const Status status = between_steps("measure"); !status.ok()) return status;
  const Result<Sequence*> found = find(id);
  if (!found.ok()) return found.status();
  const Sequence& sequence = **found;
  if (const Status status = check_measure(sequence); !status.ok()) return status;

  struct Item {
    std::uint32_t layer, head;
    LaneReading* out;
  };
  std::vector<std::uint32_t> full;
  for (std::uint32_t l = 0; l < options_.layers.size(); ++l) {
    if (options_.layers[l].window == 0) full.push_back(l);
  }
  std::vector<std::vector<LaneReading>> lanes(full.size());
  std::vector<Item> items;
  for (std::uint32_t i = 0; i < full.size(); ++i) {
    if (!reads_layer(statistic, i, static_cast<std::uint32_t>(full.size()))) continue;
    lanes[i].resize(options_.layers[full[i]].kv_heads);
    for (std::uint32_t head = 0; head < lanes[i].size(); ++head) {
      items.push_back({full[i], head, &lanes[i][head]});
    }
  }
  std::atomic<std::size_t> taken = 0;
  const PartWork work = [&](std::uint32_t part, std::uint32_t) {
    const ScratchSlots::Use scratch = scratch_.take(part);
    for (std::size_t i = 0; (i = taken.fetch_add(1, std::memory_order_relaxed)) < items.size();) {
      const Item& item = items[i];
      *item.out = read_gate_lane(sequence, statistic, item.layer, item.head, *scratch);
    }
  };
  run ? run(work) : work(0, 1);
  for (const Item& item : items) {
    if (std::isfinite(item.out->value)) continue;
    return Status(Code::kNumeric, "measure: weights of layer " + std::to_string(item.layer) +
                                      " head " + std::to_string(item.head) + " are not finite");
  }
  return statistic_of(statistic, lanes);
}

}  // namespace quire
