// Keeps the sinks, the recent window, and between them the entries scored highest.

#include <algorithm>
#include <numeric>

#include "quire/arena.h"
#include "quire/check.h"
#include "quire/policy.h"

namespace quire {

void choose_top(const Protection& protect, std::span<const float> score, std::span<Ordinal> kept,
                Arena& scratch) {
  const auto live = static_cast<std::uint32_t>(score.size());
  const auto quota = static_cast<std::uint32_t>(kept.size());
  QUIRE_CHECK(0 < quota);
  QUIRE_CHECK(quota < live);

  // A tight quota eats the recent window before the sinks: without a recent token the answer
  // loses detail; without the sinks every other token's weight is wrong.
  const std::uint32_t sinks = std::min(protect.sinks, quota);
  const std::uint32_t recent = std::min(protect.recent, quota - sinks);
  const std::uint32_t best = quota - sinks - recent;

  const std::span<Ordinal> middle = scratch.take<Ordinal>(live - sinks - recent);
  std::iota(middle.begin(), middle.end(), sinks);

  // Equal scores keep the newer entry: a total order, so every standard library agrees.
  const auto outranks = [&](Ordinal a, Ordinal b) {
    return score[a] != score[b] ? score[a] > score[b] : a > b;
  };
  std::nth_element(middle.begin(), middle.begin() + best, middle.end(), outranks);
  std::sort(middle.begin(), middle.begin() + best);

  std::iota(kept.begin(), kept.begin() + sinks, Ordinal{0});
  std::copy_n(middle.begin(), best, kept.begin() + sinks);
  std::iota(kept.end() - recent, kept.end(), live - recent);
}

}  // namespace quire
