// What the attention of a prompt's last rows says of the prompt: one number, by which a gate
// decides whether anything of this prompt may be dropped at all, before anything is (PAGE, arXiv
// 2609.22157).  It depends on the text alone: not on the policy that would drop, on chunks, on
// neighbours or on what the prefix cache had.
//
// Of rows [T - W, T), W = Needs::gate_rows, and query heads of the L full-attention layers;
// n = max(1, L / 3); "middle" entries are those but the first 4 and the last W.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace quire {

enum class Statistic : std::uint8_t {
  // PAGE's D, from -1 to 1: mean agreement of heads in the first n layers less that in the last n.
  // Agreement: over all pairs of a layer's query heads, the mean Jaccard index of their sets of 32
  // entries with the most weight summed over the rows; of equal weights the older entry counts.
  kPageD,
  // Mean over middle entries, query heads and the middle third of the layers, [n, L - n), of the
  // standard deviation of an entry's weight over the rows, by its mean.
  kRowVariation,
  // Mean over the lanes of log(max / mean) of a lane's score: weights of the middle entries, summed
  // over rows and query heads, averaged over 5 neighbours (as `snapkv` does).
  kLogMaxMean,
  // A negative control, for experiments: kPageD of the same heads, dealt to the same layers in an
  // order that their sets make; it knows nothing of layers.
  kShuffledD,
};

struct StatisticInfo {
  Statistic statistic;
  const char* name;
  bool safe_above;       // whether a large value says that entries may be dropped
  const char* about;     // for people, a line
  bool control = false;  // no gate is judged by it
};
// Every statistic, in the order of the enum.
inline constexpr StatisticInfo kStatistics[] = {
    {Statistic::kPageD, "page-d", true, "PAGE's D: heads agree in early layers, not in late ones"},
    {Statistic::kRowVariation, "row-variation", true, "weights change from row to row"},
    {Statistic::kLogMaxMean, "log-max-mean", false, "one entry stands out of the others"},
    {Statistic::kShuffledD, "shuffled-d", true, "page-d of heads dealt to layers anew", true},
};
constexpr const StatisticInfo& info_of(Statistic statistic) {
  return kStatistics[static_cast<std::size_t>(statistic)];
}
// Of those that gates are judged by.
constexpr std::optional<Statistic> parse_statistic(std::string_view name) {
  for (const StatisticInfo& info : kStatistics) {
    if (name == info.name && !info.control) return info.statistic;
  }
  return {};
}

// W as published, and the first entries that are not in the middle.
inline constexpr std::uint32_t kGateRows = 32;
inline constexpr std::uint32_t kGateSinks = 4;

// Calls work(part, parts) for every part in [0, parts), on threads of the caller's choice, and
// returns when all have returned.
using PartWork = std::function<void(std::uint32_t part, std::uint32_t parts)>;
using RunParts = std::function<void(const PartWork& work)>;

}  // namespace quire
