// Uniformly random victims: what every other policy has to beat (arXiv 2609.03430 finds few do).
//
// The number of an entry depends on seed, lane and position alone, so neighbours, reviews and
// repacking never change it, and an entry that survived one review is as safe in the next.

#include "policies/policies.h"

namespace quire::policies {
namespace {

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection with full avalanche.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace

PolicyKind random_choice() {
  return {.name = "random",
          .source = "uniformly random per lane: the baseline every score must beat",
          .options = {whole("seed", 0, 0, ~std::uint64_t{0})},
          .make = [](const Values& values) -> Result<Policy> {
            return Policy{.score = [seed = mix(values.whole("seed"))](const EntryView& lane,
                                                                      std::span<float> score) {
              const std::uint64_t key =
                  mix(seed ^ (std::uint64_t{lane.layer} << 32 | std::uint64_t{lane.head}));
              for (std::uint32_t i = 0; i < lane.live; ++i) {
                score[i] = static_cast<float>(mix(key ^ lane.position[i]) >> 40) * 0x1p-24f;
              }
            }};
          }};
}

}  // namespace quire::policies
