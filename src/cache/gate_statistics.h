// The statistics of quire/gate.h, as pure functions of weights that were summed over rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quire/gate.h"
#include "quire/types.h"

namespace quire {

// Entries of a head's set.
inline constexpr std::uint32_t kGateSet = 32;

// One KV head of one layer: of each of its query heads, over the entries.
struct LaneMoments {
  std::span<const float> sum, square;  // [group][live]
  std::uint32_t group = 1, live = 0;
  std::uint32_t rows = 0;  // summed
};

// What is left of a lane, a few numbers.
struct LaneReading {
  std::vector<std::vector<Ordinal>> sets{};  // [group], kPageD and kShuffledD
  double value = 0;                          // the others
};

// Layers [first, end) of `layers`.
struct LayerRange {
  std::uint32_t first = 0, end = 0;
};
std::uint32_t third_of(std::uint32_t layers);
LayerRange middle_third(std::uint32_t layers);
bool reads_layer(Statistic statistic, std::uint32_t layer, std::uint32_t layers);

// The `count` largest, ascending; of equal ones the lower come first.
std::vector<Ordinal> largest(std::span<const float> weights, std::uint32_t count);
// Of two ascending sets, not both empty.
double jaccard(std::span<const Ordinal> a, std::span<const Ordinal> b);
// Mean over all pairs; of fewer than two sets 1.
double agreement(std::span<const std::vector<Ordinal>> sets);

// REQUIRES: live > kGateSinks + rows for the statistics of middle entries.
LaneReading read_lane(Statistic statistic, const LaneMoments& lane);
// lanes[layer]: of the KV heads in order; of layers that are not read nothing.
double statistic_of(Statistic statistic, std::span<const std::vector<LaneReading>> lanes);

}  // namespace quire
