// LagKV (kvpress): an entry whose channels differ, measured beside the next chunk's range, says
// something new.  Spread of K and of V, each as a softmax over the chunk, then their rank in it.
// The sinks, the last whole chunk and what follows it stay.

#include <algorithm>
#include <numeric>

#include "policies/policies.h"

namespace quire::policies {

PolicyKind lagkv() {
  return {.name = "lagkv",
          .file = "lagkv",
          .source = "K and V spread beside the next chunk's range (LagKV, as kvpress computes it)",
          .when = "where attention must not be watched; prompts and answers, chunk by chunk",
          .when_not = "texts under three chunks: nothing is judged, and the newest stay",
          .cost = "two passes over K and V at a review",
          .options = {whole("chunk", 128, 4, 256)},
          .make = [](const Values& values) -> Result<Policy> {
            const auto chunk = static_cast<std::uint32_t>(values.whole("chunk"));
            const auto skip = static_cast<std::uint32_t>(values.whole("sinks"));
            return Policy{.needs = {.lag_chunk = chunk, .lag_skip = skip},
                          .score = [=](const EntryView& lane, std::span<float> score) {
                            std::ranges::fill(score, 1.0f);
                            std::vector<float> k(chunk), v(chunk);
                            std::vector<std::uint32_t> order(chunk);
                            for (std::uint32_t from = skip; from + 2 * chunk <= lane.live;
                                 from += chunk) {
                              std::ranges::copy(lane.key_spread.subspan(from, chunk), k.begin());
                              std::ranges::copy(lane.value_spread.subspan(from, chunk), v.begin());
                              softmax(1, k);
                              softmax(1, v);
                              for (std::uint32_t i = 0; i < chunk; ++i) k[i] += v[i];
                              std::iota(order.begin(), order.end(), 0u);
                              std::ranges::stable_sort(order, {}, [&](auto i) { return k[i]; });
                              for (std::uint32_t rank = 0; rank < chunk; ++rank) {
                                score[from + order[rank]] =
                                    static_cast<float>(rank) / static_cast<float>(chunk);
                              }
                            }
                          }};
          }};
}

}  // namespace quire::policies
