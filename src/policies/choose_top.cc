// Keeps the sinks, the recent window, and between them the entries scored highest.

#include <algorithm>
#include <numeric>

#include "quire/arena.h"
#include "quire/check.h"
#include "quire/policy.h"

namespace quire {
namespace {

// With at most one victim in so many entries, a heap of victims beats a selection of survivors.
constexpr std::uint32_t kFew = 8;

// Fills `victims` with the lowest of the entries [begin, end), ascending.  Of equal scores the
// older goes, so a newer entry becomes a victim only where it scores less than the best of them.
void find_lowest(std::span<const float> score, Ordinal begin, Ordinal end,
                 std::span<Ordinal> victims) {
  const auto outlives = [&](Ordinal a, Ordinal b) {  // the best victim is at the heap's top
    return score[a] != score[b] ? score[a] < score[b] : a < b;
  };
  const auto count = static_cast<std::uint32_t>(victims.size());
  std::iota(victims.begin(), victims.end(), begin);
  std::make_heap(victims.begin(), victims.end(), outlives);
  float best = score[victims[0]];
  for (Ordinal i = begin + count; i < end; ++i) {
    if (score[i] >= best) continue;
    // i takes the top's place and sinks to where it belongs.
    std::size_t hole = 0;
    for (std::size_t child; (child = 2 * hole + 1) < count; hole = child) {
      if (child + 1 < count && outlives(victims[child], victims[child + 1])) ++child;
      if (!outlives(i, victims[child])) break;
      victims[hole] = victims[child];
    }
    victims[hole] = i;
    best = score[victims[0]];
  }
  std::ranges::sort(victims);
}

// `kept` becomes every entry but the victims.
void keep_others(std::span<const Ordinal> victims, std::uint32_t live, std::span<Ordinal> kept) {
  Ordinal* to = kept.data();
  Ordinal from = 0;
  for (std::size_t v = 0; v <= victims.size(); ++v) {
    const Ordinal stop = v < victims.size() ? victims[v] : live;
    std::iota(to, to + (stop - from), from);
    to += stop - from;
    from = stop + 1;
  }
}

}  // namespace

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

  if (live - quota <= live / kFew) {
    const std::span<Ordinal> victims = scratch.take<Ordinal>(live - quota);
    find_lowest(score, sinks, live - recent, victims);
    return keep_others(victims, live, kept);
  }
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
