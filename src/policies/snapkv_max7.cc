// SnapKV as role-conditional budgets take it (arXiv 2607.13205 and its authors' code): the sums of
// the prompt's last rows, the largest of `pool` neighbours counting, and no window kept for itself.
//
// The authors score each query head; here those that share a KV head must agree.  heads=each pools
// every head's sums, then takes their mean (8 bytes an entry and head more); mean and max pool the
// mean or the largest of the heads' weights.
// Differs: the answer, which they never evict, goes last, and its oldest entries first.

#include <algorithm>
#include <vector>

#include "policies/policies.h"

namespace quire::policies {
namespace {

void pool_heads(const EntryView& lane, std::uint32_t reach, std::span<float> score) {
  std::vector<float> head(score.size());
  std::ranges::fill(score, 0.0f);
  for (std::uint32_t g = 0; g < lane.group; ++g) {
    std::ranges::copy(lane.tap_per_head.subspan(std::size_t{g} * lane.live, score.size()),
                      head.begin());
    largest_near(lane, reach, head);
    for (std::size_t i = 0; i < score.size(); ++i) score[i] += head[i];
  }
}

}  // namespace

PolicyKind snapkv_max7() {
  return {.name = "snapkv-max7",
          .file = "snapkv_max7",
          .source = "SnapKV, the largest of neighbours, no window of its own (arXiv 2607.13205)",
          .when = "to compare role-conditional with what it scores by",
          .when_not = "else: snapkv-ahead keeps answers whole",
          .cost = "attention of the prompt's last rows; 8 bytes an entry, heads=each more",
          .options = {whole("window", 64, 16, 128), odd("pool", 7, 1, 15),
                      choice("heads", "mean", {"mean", "max", "each"})},
          .make = [](const Values& values) -> Result<Policy> {
            const std::string& heads = values.text("heads");
            const Needs needs{.tap = Tap::kLastRows,
                              .group = heads == "max" ? Reduce::kMax : Reduce::kMean,
                              .window = static_cast<std::uint32_t>(values.whole("window")),
                              .per_head = heads == "each"};
            const auto reach = static_cast<std::uint32_t>(values.whole("pool") / 2);
            return Policy{.needs = needs,
                          .score = [=](const EntryView& lane, std::span<float> score) {
                            if (last_rows_mean(lane, score); lane.window_rows == 0) return;
                            const std::span<float> prompt =
                                score.first(entries_before(lane, lane.window_end));
                            if (needs.per_head) return pool_heads(lane, reach, prompt);
                            std::ranges::copy(lane.tap.first(prompt.size()), prompt.begin());
                            largest_near(lane, reach, prompt);
                          }};
          }};
}

}  // namespace quire::policies
