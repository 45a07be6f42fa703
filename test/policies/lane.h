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
  std::vector<float> tap, tap_per_head, state, key_norm, value_norm, alignment;
  std::vector<float> key_spread, value_spread, similarity, twin_cosine, expected, output_norm;
  std::vector<Ordinal> twin;
  std::vector<Role> role;
  float structured = 0;
  std::uint32_t layer = 0, head = 0, group = 1, window_rows = 0, block_tokens = 16;
  Position after_window = 0;  // entries that came after the window's rows
  Position prompt_end = 1u << 30, reviewed = 0;

  std::uint32_t live() const { return static_cast<std::uint32_t>(position.size()); }

  EntryView view(const Needs& needs) const {
    EntryView view{.live = live(),
                   .layer = layer,
                   .head = head,
                   .group = group,
                   .block_tokens = block_tokens,
                   .prompt_end = prompt_end,
                   .reviewed = reviewed,
                   .position = position};
    if (needs.tap != Tap::kNone) view.tap = tap;
    if (needs.tap == Tap::kLastRows && live() > 0) {
      view.window_rows = window_rows;
      view.window_end = position.back() + 1 - after_window;
    }
    if (needs.per_head) view.tap_per_head = tap_per_head;
    if (needs.state) view.state = state;
    if (needs.norms) view.key_norm = key_norm, view.value_norm = value_norm;
    if (needs.alignment) view.alignment = alignment;
    if (needs.lag_chunk != 0) view.key_spread = key_spread, view.value_spread = value_spread;
    if (needs.similar_run != 0) {
      view.similarity = similarity, view.twin = twin, view.twin_cosine = twin_cosine;
    }
    if (needs.future != 0) view.expected = expected;
    if (needs.output_norm) view.output_norm = output_norm;
    if (needs.roles) view.role = role, view.structured = structured;
    return view;
  }
};

// Positions with gaps (as after evictions) when `gaps`, random features; of an answer that began
// somewhere, or of a prompt.
inline Lane random_lane(std::mt19937_64& random, std::uint32_t live, bool gaps = true) {
  std::uniform_real_distribution<float> uniform(0, 1);
  Lane lane{.layer = static_cast<std::uint32_t>(random() % 30),
            .head = static_cast<std::uint32_t>(random() % 4),
            .group = static_cast<std::uint32_t>(1 + random() % 4),
            .window_rows = static_cast<std::uint32_t>(1 + random() % 64),
            .block_tokens = random() % 2 == 0 ? 16u : 8u};
  Position position = 0;
  for (std::uint32_t i = 0; i < live; ++i) {
    lane.position.push_back(position);
    position += gaps && random() % 4 == 0 ? 1 + random() % 20 : 1;
    for (std::vector<float>* feature : {&lane.tap, &lane.state, &lane.value_norm, &lane.key_spread,
                                        &lane.value_spread, &lane.output_norm}) {
      feature->push_back(uniform(random));
    }
    lane.role.push_back(static_cast<Role>(random() % kRoles));
    lane.key_norm.push_back(10 * uniform(random));
    lane.alignment.push_back(2 * uniform(random) - 1);
    lane.similarity.push_back(static_cast<float>(live) * (2 * uniform(random) - 1));
    lane.twin.push_back(static_cast<Ordinal>(random() % (live + 1)));
    lane.twin_cosine.push_back(lane.twin.back() == live ? 0 : 0.5f + uniform(random) / 2);
  }
  lane.structured = uniform(random);
  if (random() % 2 == 0) lane.prompt_end = static_cast<Position>(random() % (position + 1));
  lane.reviewed = static_cast<Position>(random() % (position + 1));
  for (std::uint32_t i = 0; i < live * lane.group; ++i) {
    lane.tap_per_head.push_back(uniform(random));
    lane.expected.push_back(20 * uniform(random) - 10);
  }
  return lane;
}

// The lane's state after a review, where the policy has one.
inline std::vector<float> state_of(const Policy& policy, const Lane& lane) {
  std::vector<float> state = lane.state;
  if (policy.update) policy.update(lane.view(policy.needs), state);
  return state;
}

inline std::vector<float> score_of(const Policy& policy, const Lane& lane) {
  std::vector<float> score(lane.live(), std::numeric_limits<float>::quiet_NaN());
  Lane updated = lane;
  updated.state = state_of(policy, lane);
  policy.score(updated.view(policy.needs), score);
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
