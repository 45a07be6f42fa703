// What a policy may be shown of a lane beyond its own K and V: what the prompt's queries say of
// those to come, and what values are worth to the layer's output.
#include <algorithm>

#include "cache/paged_cache.h"

namespace quire {

// Outputs at a time: their weights stay in the second-level cache, and the sums of a lane are read
// and written rarely.
constexpr std::uint32_t kOutputsAtOnce = 64;

// The layers must have said what the needs take.
Status PagedCache::check_shapes(const Needs& needs) const {
  if (needs.future != 0 && queries_.floats() > QuerySums::kFloatsMost) {
    return {Code::kUnsupported, "needs.future: the statistics of a sequence's queries would take " +
                                    std::to_string(queries_.floats() * sizeof(float)) + " bytes"};
  }
  for (std::size_t l = 0; l < options_.layers.size(); ++l) {
    const LayerShape& layer = options_.layers[l];
    const char* missing = nullptr;
    if (needs.future != 0 && layer.rope.frequency.empty()) missing = ".rope";
    if (needs.output_norm && layer.output.size == 0) missing = ".output";
    if (missing == nullptr || layer.window != 0) continue;
    return {Code::kInvalidArgument, "the policy takes layers[" + std::to_string(l) + "]" + missing +
                                        ", which open() was not given"};
  }
  return {};
}

// REQUIRES: review_.features holds kernels::feature_floats() of the lane.
void PagedCache::show_expected(const Sequence& sequence, const Needs& needs,
                               const kernels::LaneView& seen, ShownLane& lane) {
  const std::uint32_t layer = lane.view.layer, group = lane.view.group;
  const LayerShape& shape = options_.layers[layer];
  review_.statistics.resize(kernels::query_floats(shape.key_size));
  lane.expected.resize(std::size_t{group} * lane.view.live);
  for (std::uint32_t g = 0; g < group; ++g) {
    if (sequence.query_rows > 0) {
      queries_.read(sequence, layer, lane.view.head * group + g, review_.statistics.data());
    }
    Foresight& foresight = review_.foresight;
    foresight.look(review_.statistics.data(), sequence.query_rows, shape.rope, shape.key_size,
                   scale_[layer], sequence.length, needs.future);
    kernels_.expect(seen, foresight.mean.data(), foresight.form.data(),
                    lane.expected.data() + std::size_t{g} * lane.view.live,
                    review_.features.data());
  }
  lane.view.expected = lane.expected;
}

// review_.output_norms of the layer's lanes; together, as each takes all weights of the projection.
void PagedCache::weigh_values(const Sequence& sequence, std::uint32_t layer) {
  const LayerShape& shape = options_.layers[layer];
  const std::uint32_t group = shape.query_heads / shape.kv_heads;
  const std::size_t inputs = std::size_t{shape.query_heads} * shape.value_size;
  Review& review = review_;
  if (review.output_norms.size() < shape.kv_heads) review.output_norms.resize(shape.kv_heads);
  for (std::uint32_t head = 0; head < shape.kv_heads; ++head) {
    const std::uint32_t live = tables_.live(sequence, tables_.geometry().place(layer, head));
    review.output_norms[head].assign(live, 0.0f);
  }
  review.output_rows.resize(kOutputsAtOnce * inputs);
  review.output_columns.resize(kOutputsAtOnce * inputs);
  for (std::uint32_t begin = 0; begin < shape.output.size; begin += kOutputsAtOnce) {
    const std::uint32_t count = std::min(kOutputsAtOnce, shape.output.size - begin);
    const std::uint32_t outputs = (count + 15) / 16 * 16;
    shape.output.rows(begin, begin + count, review.output_rows.data());
    for (std::size_t i = 0; i < inputs; ++i) {
      float* column = review.output_columns.data() + i * outputs;
      for (std::uint32_t n = 0; n < outputs; ++n) {
        column[n] = n < count ? review.output_rows[n * inputs + i] : 0.0f;
      }
    }
    for (std::uint32_t head = 0; head < shape.kv_heads; ++head) {
      review.blocks.resize(tables_.block_count(sequence, tables_.geometry().place(layer, head)));
      const kernels::LaneView seen =
          view(sequence, layer, head, 0, sequence.length, review.blocks.data());
      const std::size_t floats = kernels::feature_floats(seen, 0);
      if (review.features.size() < floats) review.features.resize(floats);
      kernels_.add_output_norms(
          seen, review.output_columns.data() + head * group * shape.value_size * outputs, group,
          outputs, review.output_norms[head].data(), review.features.data());
    }
  }
  for (std::uint32_t head = 0; head < shape.kv_heads; ++head) {
    for (float& norm : review.output_norms[head]) norm /= static_cast<float>(group);
  }
}

}  // namespace quire
