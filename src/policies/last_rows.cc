// The raw score of the SnapKV family: what the prompt's last rows attended to.

#include <algorithm>

#include "policies/policies.h"

namespace quire::policies {

std::uint32_t last_rows_mean(const EntryView& lane, std::uint32_t window, std::span<float> score) {
  if (lane.window_rows == 0) {
    for (std::uint32_t i = 0; i < lane.live; ++i) score[i] = -static_cast<float>(i);
    return 0;
  }
  const auto rows = static_cast<float>(lane.window_rows);
  for (std::uint32_t i = 0; i < lane.live; ++i) score[i] = lane.tap[i] / rows;
  const std::uint32_t own = std::min({window, lane.window_rows, lane.live});
  std::fill(score.end() - own, score.end(), kOwnWindow);
  return own;
}

}  // namespace quire::policies
