// The answer first: two engines that are compared must continue a text alike.
#pragma once

#include <cstdint>
#include <string>

#include "cli/bench_arm.h"

namespace quire::cli {

struct SameText {
  std::uint32_t tokens = 0;     // compared, each after the same text
  std::uint32_t near_ties = 0;  // of those, the engines' likeliest tokens differ by rounding
};

// Both read a text and follow the peer's greedy continuation of it.  kNumeric where their
// likeliest tokens differ by more than rounding can do: the peer's logits of the two are further
// apart than kTieShare of the way from its mean logit to its best.
constexpr double kTieShare = 0.05;
Result<SameText> check_same_text(Arm& ours, Arm& peer, const model::Model& model,
                                 std::uint32_t chunk);

}  // namespace quire::cli
