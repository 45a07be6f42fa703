// The raw score of the SnapKV family: what the prompt's last rows attended to.

#include <algorithm>

#include "policies/policies.h"

namespace quire::policies {

std::uint32_t last_rows_mean(const EntryView& lane, std::span<float> score) {
  if (lane.window_rows == 0) {
    for (std::uint32_t i = 0; i < lane.live; ++i) score[i] = static_cast<float>(i);
    return 0;
  }
  const auto rows = static_cast<float>(lane.window_rows);
  for (std::uint32_t i = 0; i < lane.live; ++i) score[i] = lane.tap[i] / rows;
  const Position window_begin = lane.window_end - std::min(lane.window_rows, lane.window_end);
  const std::uint32_t judged = entries_before(lane, window_begin);
  std::fill(score.begin() + judged, score.end(), kOwnWindow);
  return judged;
}

std::uint32_t entries_before(const EntryView& lane, Position position) {
  return static_cast<std::uint32_t>(std::ranges::lower_bound(lane.position, position) -
                                    lane.position.begin());
}

}  // namespace quire::policies
