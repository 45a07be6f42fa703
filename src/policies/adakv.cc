// Ada-KV (arXiv 2407.11550, algorithm 1): one choice over all lanes of a layer.  Every lane gets
// `floor` of an equal share, the rest goes to the best entries wherever they are; of equal scores
// the one with fewer above it in its lane.  Scores and needs are those of the policy it wraps.

#include <algorithm>
#include <tuple>

#include "policies/policies.h"

namespace quire::policies {

PolicyKind adakv() {
  return {.name = "adakv",
          .file = "adakv",
          .source = "shares a layer's entries over its lanes by score (Ada-KV, arXiv 2407.11550)",
          .when = "heads of a layer that look at much and at little",
          .when_not = "scores that cannot be compared between heads",
          .cost = "as what it wraps, and a sort of each layer's scores",
          .options = {choice("base", "snapkv",
                             {"snapkv", "snapkv-ahead", "h2o", "h2o-age", "knorm", "keydiff",
                              "lagkv", "expected-attention", "random"}),
                      real("floor", "0.2", 0, 1)},
          .wraps = true,
          .make = [](const Values& values) -> Result<Policy> {
            Result<Policy> base = make_policy(values.text("base") + ":" + values.rest());
            if (!base.ok()) return base.status();
            base->allocate = [floor = values.real("floor")](
                                 const Protection& protect, std::span<const EntryView>,
                                 std::span<const std::span<const float>> scores,
                                 std::uint32_t entries, std::span<std::uint32_t> counts) {
              const auto lanes = static_cast<std::uint32_t>(counts.size());
              std::vector<std::tuple<float, std::uint32_t, std::uint32_t>> rest;  // -score, rank
              std::uint32_t forced = 0;
              for (std::uint32_t h = 0; h < lanes; ++h) {
                const std::vector<float> middle = ranked(protect, scores[h]);
                const auto live = static_cast<std::uint32_t>(scores[h].size());
                const auto fixed = live - static_cast<std::uint32_t>(middle.size());
                const auto share = static_cast<std::uint32_t>(floor * entries / lanes);
                forced += counts[h] = std::min(live, std::max(fixed, share));
                for (std::uint32_t i = counts[h] - fixed; i < middle.size(); ++i) {
                  rest.emplace_back(-middle[i], fixed + i, h);
                }
              }
              std::ranges::sort(rest);
              for (std::uint32_t i = 0; forced + i < entries && i < rest.size(); ++i) {
                ++counts[std::get<2>(rest[i])];
              }
              for (std::uint32_t h = 0; forced > entries && h < lanes; ++h) {
                counts[h] = entries * (h + 1) / lanes - entries * h / lanes;
              }
            };
            return base;
          }};
}

}  // namespace quire::policies
