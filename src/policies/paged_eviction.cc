// PagedEviction (arXiv 2509.04377): a token is worth |v| / |k|, no attention is watched.  After a
// prompt the worst tokens go; while an answer is written, the blocks of the worst mean.
//
// A block is block_tokens entries of the lane in order: after a prompt's review its survivors,
// packed.  Blocks that hold a protected entry stay, and so does the newest.  With a budget and a
// cadence in whole blocks exactly blocks go; else the quota is met with part of one, its oldest
// entries.  The paper's tables are shared by all lanes (scope=sequence); here every lane has its
// own (scope=lane).  `score` has the forms of the authors' code, and their opposites.

#include <algorithm>
#include <cmath>

#include "policies/policies.h"

namespace quire::policies {

PolicyKind paged_eviction() {
  return {
      .name = "paged-eviction",
      .file = "paged_eviction",
      .source = "|v| / |k|, tokens of the prompt, then whole blocks (arXiv 2509.04377)",
      .when = "many requests at once: whole blocks go back, no attention is watched",
      .when_not = "single facts: a strong token dies in a weak block",
      .cost = "norms of K and V at a review",
      .options = {choice("score", "v_over_k",
                         {"v_over_k", "k_over_v", "inv_k", "v", "k_plus_v", "knorm_high", "keydiff",
                          "random"}),
                  choice("scope", "lane", {"lane", "layer", "sequence"}),
                  real("eps", "1e-6", 0, 1e-3), whole("seed", 0, 0, ~std::uint64_t{0})},
      .make = [](const Values& values) -> Result<Policy> {
        const std::string form = values.text("score"), scope = values.text("scope");
        const auto eps = static_cast<float>(values.real("eps"));
        const std::uint64_t seed = values.whole("seed"), sinks = values.whole("sinks");
        const std::uint64_t newest = std::max<std::uint64_t>(values.whole("recent"), 1);
        const auto score = [=](const EntryView& lane, std::uint32_t i) -> float {
          if (form == "keydiff") return -lane.alignment[i];
          if (form == "random") return uniform_of(seed, lane, lane.position[i]);
          const float k = lane.key_norm[i], v = lane.value_norm[i];
          if (form == "v_over_k") return v / (k + eps);
          if (form == "k_over_v") return k / (v + eps);
          return form == "inv_k" ? 1 / (k + eps) : form == "v" ? v : form == "k_plus_v" ? k + v : k;
        };
        const auto score_all = [=](const EntryView& lane, std::span<float> out) {
          for (std::uint32_t i = 0; i < lane.live; ++i) out[i] = finite_or(score(lane, i), -2);
          if (lane.position.back() < lane.prompt_end) return;
          const std::uint64_t run = lane.block_tokens, live = lane.live;
          average_runs(lane.block_tokens, out);
          std::ranges::fill(out.first(std::min(live, (sinks + run - 1) / run * run)), kOwnWindow);
          std::ranges::fill(out.subspan((live - std::min(live, newest)) / run * run), kOwnWindow);
        };
        return Policy{.needs = {.norms = form != "keydiff" && form != "random",
                                .alignment = form == "keydiff"},
                      .decides = scope == "lane"    ? Scope::kLane
                                 : scope == "layer" ? Scope::kLayer
                                                    : Scope::kSequence,
                      .score = score_all};
      }};
}

}  // namespace quire::policies
