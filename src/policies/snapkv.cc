// SnapKV (arXiv 2404.14469): the prompt's last rows point at what its answer will need.  Their
// attention is averaged over `pool` neighbouring positions, so that a hit keeps its surroundings.
//
// Differs from kvpress: the average counts the neighbours that exist, never padding, so the first
// entries are not under-scored; and neighbours are neighbours in the text, also after evictions.

#include <vector>

#include "policies/policies.h"

namespace quire::policies {
namespace {

void average(const EntryView& lane, std::uint32_t reach, std::span<float> score) {
  const std::vector<float> raw(score.begin(), score.end());
  const auto count = static_cast<std::uint32_t>(score.size());
  for (std::uint32_t i = 0, first = 0; i < count; ++i) {
    while (lane.position[first] + reach < lane.position[i]) ++first;
    double sum = 0;
    std::uint32_t j = first;
    for (; j < count && lane.position[j] <= lane.position[i] + reach; ++j) sum += raw[j];
    score[i] = static_cast<float>(sum / (j - first));
  }
}

}  // namespace

PolicyKind snapkv() {
  return {.name = "snapkv",
          .file = "snapkv",
          .source = "what the prompt's last rows attend to, averaged (SnapKV, arXiv 2404.14469)",
          .when = "long prompts that end with their question; to compare with published numbers",
          .when_not = "answers of several tokens: snapkv-ahead keeps them whole",
          .cost = "attention of the prompt's last rows; 8 bytes an entry",
          .options = {whole("window", 64, 8, 128), odd("pool", 5, 1, 15)},
          .make = [](const Values& values) -> Result<Policy> {
            const auto window = static_cast<std::uint32_t>(values.whole("window"));
            const auto reach = static_cast<std::uint32_t>(values.whole("pool") / 2);
            return Policy{
                .needs = {.tap = Tap::kLastRows, .group = Reduce::kMean, .window = window},
                .score = [=](const EntryView& lane, std::span<float> score) {
                  average(lane, reach, score.first(last_rows_mean(lane, score)));
                }};
          }};
}

}  // namespace quire::policies
