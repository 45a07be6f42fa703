#include "cache/gate_statistics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

namespace quire {
namespace {

constexpr std::uint32_t kPool = 5;  // neighbours, itself included

double mean(double sum, std::size_t count) {
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

// Of one query head's middle entries; those that got nothing have no mean to divide by.
double variation(std::span<const float> sum, std::span<const float> square, std::uint32_t rows) {
  const double count = rows;
  double total = 0;
  std::size_t entries = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    if (!(sum[i] > 0)) continue;
    const double average = double{sum[i]} / count;
    const double variance = double{square[i]} / count - average * average;
    total += std::sqrt(std::max(variance, 0.0)) / average;
    ++entries;
  }
  return mean(total, entries);
}

// Of a lane's middle entries; neighbours at the ends are fewer.
double log_max_mean(std::span<const double> score) {
  constexpr std::size_t kSide = kPool / 2;
  double most = 0, total = 0;
  for (std::size_t i = 0; i < score.size(); ++i) {
    const std::size_t first = i - std::min(i, kSide), end = std::min(score.size(), i + kSide + 1);
    double sum = 0;
    for (std::size_t j = first; j < end; ++j) sum += score[j];
    const double pooled = sum / static_cast<double>(end - first);
    most = std::max(most, pooled);
    total += pooled;
  }
  return total > 0 ? std::log(most / mean(total, score.size())) : 0;
}

using Sets = std::vector<std::vector<Ordinal>>;  // of a layer's query heads

// [layer]; of layers that are not read nothing.
std::vector<Sets> sets_of(std::span<const std::vector<LaneReading>> lanes) {
  std::vector<Sets> sets(lanes.size());
  for (std::size_t layer = 0; layer < lanes.size(); ++layer) {
    for (const LaneReading& lane : lanes[layer]) {
      sets[layer].insert(sets[layer].end(), lane.sets.begin(), lane.sets.end());
    }
  }
  return sets;
}

// Every head in the place of another, by a seed that the sets make: equal prompts, equal orders.
void deal_anew(std::vector<Sets>& layers) {
  std::vector<std::vector<Ordinal>*> heads;
  std::uint64_t seed = 0;
  for (Sets& layer : layers) {
    for (std::vector<Ordinal>& head : layer) {
      heads.push_back(&head);
      for (const Ordinal entry : head) seed = (seed ^ entry) * 0x100000001b3;  // FNV-1
    }
  }
  std::mt19937_64 random(seed);
  for (std::size_t left = heads.size(); left > 1; --left) {
    std::swap(*heads[left - 1], *heads[random() % left]);
  }
}

double page_d(const std::vector<Sets>& layers) {
  const std::uint32_t third = third_of(static_cast<std::uint32_t>(layers.size()));
  double early = 0, late = 0;
  for (std::uint32_t i = 0; i < third; ++i) {
    early += agreement(layers[i]);
    late += agreement(layers[layers.size() - third + i]);
  }
  return mean(early, third) - mean(late, third);
}

bool compares_sets(Statistic statistic) {
  return statistic == Statistic::kPageD || statistic == Statistic::kShuffledD;
}

}  // namespace

std::uint32_t third_of(std::uint32_t layers) {
  return std::max(1u, layers / 3);
}

// Of one or two layers the last.
LayerRange middle_third(std::uint32_t layers) {
  const std::uint32_t third = third_of(layers);
  if (layers > 2 * third) return {third, layers - third};
  return {layers - 1, layers};
}

bool reads_layer(Statistic statistic, std::uint32_t layer, std::uint32_t layers) {
  const LayerRange middle = middle_third(layers);
  const bool inside = layer >= middle.first && layer < middle.end;
  if (statistic == Statistic::kRowVariation) return inside;
  if (!compares_sets(statistic)) return true;
  return layer < third_of(layers) || layer >= layers - third_of(layers);
}

std::vector<Ordinal> largest(std::span<const float> weights, std::uint32_t count) {
  std::vector<Ordinal> kept;
  count = std::min(count, static_cast<std::uint32_t>(weights.size()));
  if (count == 0) return kept;
  std::vector<float> order(weights.begin(), weights.end());
  std::ranges::nth_element(order, order.begin() + (count - 1), std::greater<>());
  const float least = order[count - 1];
  auto equal = count - static_cast<std::uint32_t>(
                           std::count_if(weights.begin(), weights.end(),
                                         [least](float weight) { return weight > least; }));
  kept.reserve(count);
  for (Ordinal i = 0; kept.size() < count; ++i) {
    if (weights[i] < least || (weights[i] == least && equal == 0)) continue;
    equal -= weights[i] == least ? 1 : 0;
    kept.push_back(i);
  }
  return kept;
}

double jaccard(std::span<const Ordinal> a, std::span<const Ordinal> b) {
  std::size_t both = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    both += a[i] == b[j] ? 1 : 0;
    const bool first = a[i] <= b[j], second = b[j] <= a[i];
    i += first ? 1 : 0;
    j += second ? 1 : 0;
  }
  return static_cast<double>(both) / static_cast<double>(a.size() + b.size() - both);
}

double agreement(std::span<const std::vector<Ordinal>> sets) {
  if (sets.size() < 2) return 1;
  double total = 0;
  for (std::size_t a = 0; a < sets.size(); ++a) {
    for (std::size_t b = a + 1; b < sets.size(); ++b) total += jaccard(sets[a], sets[b]);
  }
  return mean(total, sets.size() * (sets.size() - 1) / 2);
}

LaneReading read_lane(Statistic statistic, const LaneMoments& lane) {
  LaneReading reading;
  const std::size_t middle = lane.live - kGateSinks - lane.rows;
  const auto head = [&](std::span<const float> all, std::uint32_t g) {
    return all.subspan(std::size_t{g} * lane.live, lane.live);
  };
  switch (statistic) {
    case Statistic::kPageD:
    case Statistic::kShuffledD:
      for (std::uint32_t g = 0; g < lane.group; ++g) {
        reading.sets.push_back(largest(head(lane.sum, g), kGateSet));
      }
      break;
    case Statistic::kRowVariation:
      for (std::uint32_t g = 0; g < lane.group; ++g) {
        reading.value += variation(head(lane.sum, g).subspan(kGateSinks, middle),
                                   head(lane.square, g).subspan(kGateSinks, middle), lane.rows);
      }
      reading.value /= lane.group;
      break;
    case Statistic::kLogMaxMean: {
      std::vector<double> score(middle, 0);
      for (std::uint32_t g = 0; g < lane.group; ++g) {
        const std::span<const float> sum = head(lane.sum, g).subspan(kGateSinks, middle);
        for (std::size_t i = 0; i < middle; ++i) score[i] += double{sum[i]};
      }
      reading.value = log_max_mean(score);
      break;
    }
  }
  return reading;
}

double statistic_of(Statistic statistic, std::span<const std::vector<LaneReading>> lanes) {
  if (compares_sets(statistic)) {
    std::vector<Sets> layers = sets_of(lanes);
    if (statistic == Statistic::kShuffledD) deal_anew(layers);
    return page_d(layers);
  }
  double total = 0;
  std::size_t count = 0;
  for (const std::vector<LaneReading>& layer : lanes) {
    for (const LaneReading& lane : layer) total += lane.value;
    count += layer.size();
  }
  return mean(total, count);
}

}  // namespace quire
