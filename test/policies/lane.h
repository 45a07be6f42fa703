// A made-up lane for tests of policies: only the spans its needs declare exist.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "quire/arena.h"
#include "quire/policy.h"

namespace quire::test {

struct Lane {
  std::vector<Position> position;
  std::vector<float> tap, tap_per_head, key_norm, value_norm;
  std::uint32_t layer = 0, head = 0, group = 1, window_rows = 0;
  Position after_window = 0;  // entries that came after the window's rows

  std::uint32_t live() const { return static_cast<std::uint32_t>(position.size()); }

  EntryView view(const Needs& needs) const {
    EntryView view{
        .live = live(), .layer = layer, .head = head, .group = group, .position = position};
    if (needs.tap != Tap::kNone) view.tap = tap;
    if (needs.tap == Tap::kLastRows && live() > 0) {
      view.window_rows = window_rows;
      view.window_end = position.back() + 1 - after_window;
    }
    if (needs.per_head) view.tap_per_head = tap_per_head;
    if (needs.norms) view.key_norm = key_norm, view.value_norm = value_norm;
    return view;
  }
};

// Positions with gaps (as after evictions) when `gaps`, random features.
inline Lane random_lane(std::mt19937_64& random, std::uint32_t live, bool gaps = true) {
  std::uniform_real_distribution<float> uniform(0, 1);
  Lane lane{.layer = static_cast<std::uint32_t>(random() % 30),
            .head = static_cast<std::uint32_t>(random() % 4),
            .group = static_cast<std::uint32_t>(1 + random() % 4),
            .window_rows = static_cast<std::uint32_t>(1 + random() % 64)};
  Position position = 0;
  for (std::uint32_t i = 0; i < live; ++i) {
    lane.position.push_back(position);
    position += gaps && random() % 4 == 0 ? 1 + random() % 20 : 1;
    lane.tap.push_back(uniform(random));
    lane.key_norm.push_back(10 * uniform(random));
    lane.value_norm.push_back(uniform(random));
  }
  for (std::uint32_t i = 0; i < live * lane.group; ++i)
    lane.tap_per_head.push_back(uniform(random));
  return lane;
}

inline std::vector<float> score_of(const Policy& policy, const Lane& lane) {
  std::vector<float> score(lane.live(), std::numeric_limits<float>::quiet_NaN());
  policy.score(lane.view(policy.needs), score);
  return score;
}

// What the cache does with one lane's scores and quota.
inline std::vector<Ordinal> choose_with(const Policy& policy, const Lane& lane,
                                        const std::vector<float>& score, std::uint32_t quota) {
  Arena scratch(2 * score.size() * sizeof(Ordinal));
  std::vector<Ordinal> kept(quota, ~Ordinal{0});
  if (policy.choose) {
    policy.choose(policy.protect, lane.view(policy.needs), score, kept, scratch);
  } else {
    choose_top(policy.protect, score, kept, scratch);
  }
  return kept;
}

}  // namespace quire::test
