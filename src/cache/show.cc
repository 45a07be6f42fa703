// A lane as a policy sees it: only what its needs name is computed.
#include <algorithm>
#include <bit>

#include "cache/paged_cache.h"

namespace quire {

void PagedCache::fill_positions(const Sequence& sequence, LanePlace at,
                                std::vector<Position>& positions) const {
  positions.resize(tables_.live(sequence, at));
  Position* to = positions.data();
  tables_.for_each_entry(sequence, at, [&](Position position) { *to++ = position; });
}

void PagedCache::fill_taps(const Sequence& sequence, LanePlace at, std::uint32_t column,
                           std::span<float> sums) const {
  const PagedList<std::int64_t>& taps = tables_.lane(sequence, at).taps;
  if (taps.empty()) {  // no row was summed
    std::ranges::fill(sums, 0.0f);
    return;
  }
  const std::uint32_t stride = tables_.tap_stride(sequence, at);
  taps.for_each_run(
      0, taps.size(), [&](std::uint32_t first, const std::int64_t* run, std::uint32_t count) {
        if (stride == 1) {
          for (std::uint32_t i = 0; i < count; ++i) {
            sums[first + i] = static_cast<float>(static_cast<double>(run[i]) * kernels::kTapUnit);
          }
          return;
        }
        std::uint32_t i = (stride - (first + stride - column) % stride) % stride;
        for (std::uint32_t entry = (first + i) / stride; i < count; i += stride, ++entry) {
          sums[entry] = static_cast<float>(static_cast<double>(run[i]) * kernels::kTapUnit);
        }
      });
}

void PagedCache::fill_states(const Sequence& sequence, LanePlace at,
                             std::span<float> states) const {
  const PagedList<std::int64_t>& taps = tables_.lane(sequence, at).taps;
  const std::uint32_t stride = tables_.tap_stride(sequence, at);
  for (std::uint32_t i = 0; i < states.size(); ++i) {
    states[i] =
        taps.empty()
            ? 0.0f
            : std::bit_cast<float>(static_cast<std::uint32_t>(taps[i * stride + stride - 1]));
  }
}

void PagedCache::keep_states(Sequence& sequence, LanePlace at, std::span<const float> states) {
  const PagedList<std::int64_t>& taps = tables_.lane(sequence, at).taps;
  if (taps.empty()) return;
  const std::uint32_t stride = tables_.tap_stride(sequence, at);
  for (std::uint32_t i = 0; i < states.size(); ++i) {
    taps[i * stride + stride - 1] = std::bit_cast<std::uint32_t>(states[i]);
  }
}

void PagedCache::show_features(const Sequence& sequence, const Needs& needs, ShownLane& lane) {
  const std::uint32_t live = lane.view.live;
  review_.blocks.resize(tables_.block_count(sequence, lane.at));
  const kernels::LaneView seen =
      view(sequence, lane.view.layer, lane.view.head, 0, sequence.length, review_.blocks.data());
  const auto room = [&](std::uint32_t run) {
    const std::size_t floats = kernels::feature_floats(seen, run);
    if (review_.features.size() < floats) review_.features.resize(floats);
    return review_.features.data();
  };
  if (needs.norms) {
    lane.key_norm.resize(live);
    lane.value_norm.resize(live);
    kernels_.norms(seen, lane.key_norm.data(), lane.value_norm.data());
    lane.view.key_norm = lane.key_norm;
    lane.view.value_norm = lane.value_norm;
  }
  if (needs.alignment) {
    lane.alignment.resize(live);
    kernels_.alignment(seen, lane.alignment.data(), room(0));
    lane.view.alignment = lane.alignment;
  }
  if (needs.lag_chunk != 0) {
    lane.key_spread.resize(live);
    lane.value_spread.resize(live);
    kernels_.spread(seen, needs.lag_chunk, needs.lag_skip, lane.key_spread.data(),
                    lane.value_spread.data(), room(needs.lag_chunk));
    lane.view.key_spread = lane.key_spread;
    lane.view.value_spread = lane.value_spread;
  }
  if (needs.similar_run != 0) {
    lane.similarity.resize(live);
    lane.twin.resize(live);
    lane.twin_cosine.resize(live);
    kernels_.similarity(seen, needs.similar_run, lane.similarity.data(), lane.twin.data(),
                        lane.twin_cosine.data(), room(needs.similar_run));
    lane.view.similarity = lane.similarity;
    lane.view.twin = lane.twin;
    lane.view.twin_cosine = lane.twin_cosine;
  }
  if (needs.future != 0) {
    room(0);
    show_expected(sequence, needs, seen, lane);
  }
}

void PagedCache::show_lane(const Sequence& sequence, std::uint32_t layer, std::uint32_t head,
                           const Needs& needs, ShownLane& lane) {
  lane.at = tables_.geometry().place(layer, head);
  const LayerShape& shape = options_.layers[layer];
  fill_positions(sequence, lane.at, lane.position);
  const auto live = static_cast<std::uint32_t>(lane.position.size());
  const bool last_rows = needs.tap == Tap::kLastRows;
  lane.view = {.live = live,
               .layer = layer,
               .head = head,
               .group = shape.query_heads / shape.kv_heads,
               .block_tokens = options_.block_tokens,
               .prompt_end = sequence.prompt_end,
               .reviewed = sequence.reviewed,
               .window_rows = last_rows ? sequence.window_rows : 0,
               .window_end = last_rows ? sequence.window_end : 0,
               .position = lane.position};
  if (needs.tap != Tap::kNone) {
    lane.tap.resize(live);
    fill_taps(sequence, lane.at, 0, lane.tap);
    lane.view.tap = lane.tap;
  }
  if (needs.per_head) {
    lane.tap_per_head.resize(std::size_t{lane.view.group} * live);
    for (std::uint32_t g = 0; g < lane.view.group; ++g) {
      fill_taps(sequence, lane.at, 1 + g, {&lane.tap_per_head[std::size_t{g} * live], live});
    }
    lane.view.tap_per_head = lane.tap_per_head;
  }
  if (needs.state) {
    lane.state.resize(live);
    fill_states(sequence, lane.at, lane.state);
    lane.view.state = lane.state;
  }
  if (needs.output_norm) {
    lane.output_norm = review_.output_norms[head];
    lane.view.output_norm = lane.output_norm;
  }
  if (needs.roles) {
    lane.role.resize(live);
    for (std::uint32_t i = 0; i < live; ++i) lane.role[i] = review_.roles[lane.position[i]];
    lane.view.role = lane.role;
    lane.view.structured = static_cast<float>(sequence.structured) /
                           static_cast<float>(std::max(1u, sequence.roles.size()));
  }
  if (needs.norms || needs.alignment || needs.lag_chunk != 0 || needs.similar_run != 0 ||
      needs.future != 0) {
    show_features(sequence, needs, lane);
  }
}

}  // namespace quire
