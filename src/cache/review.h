// What a review works on.  Kept by the cache: once lanes as long were seen, it allocates nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/foresight.h"
#include "core/geometry.h"
#include "kernels/kernels.h"
#include "quire/policy.h"

namespace quire {

// A lane as a policy sees it, with the memory behind the view.
struct ShownLane {
  EntryView view;
  LanePlace at;
  std::vector<Position> position;
  std::vector<float> tap, tap_per_head, state, key_norm, value_norm, alignment;
  std::vector<float> key_spread, value_spread, similarity, twin_cosine, expected, output_norm;
  std::vector<Ordinal> twin;
  std::vector<Role> role;
  std::vector<float> score;
};

// What stays of a lane: Review::kept[first, first + count), and Review::states[state, ...) of all
// its entries, where the policy has some.
struct DecidedLane {
  LanePlace at;
  std::size_t first = 0, state = 0;
  std::uint32_t count = 0, live = 0;
};

struct Review {
  std::vector<ShownLane> lanes;  // those decided together, [0, shown)
  std::uint32_t shown = 0;
  std::vector<EntryView> views;
  std::vector<std::span<const float>> scores;
  std::vector<std::uint32_t> live, counts;
  std::vector<double> pooled, pooled_layer;

  std::vector<DecidedLane> decided;
  std::vector<Ordinal> kept;
  std::vector<float> states;

  std::vector<kernels::BlockView> blocks;
  std::vector<float> features;  // scratch of the kernels
  Foresight foresight;          // of one query head
  std::vector<float> statistics;
  std::vector<Role> roles;                       // of the sequence, by position
  std::vector<std::vector<float>> output_norms;  // [KV head of the layer][live]
  std::vector<float> output_rows, output_columns;

  void clear() {
    decided.clear();
    kept.clear();
    states.clear();
    shown = 0;
  }
};

}  // namespace quire
