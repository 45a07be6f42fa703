// Gates: whether a review may happen, decided for each input before it.  A closed gate keeps the
// full cache, so a gated result is a selection of what was measured: an input's own, or the full
// cache's.  These are the controls that any statistic is compared with.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "eval/measure.h"

namespace quire::eval {

// What a gate decides about.  A question that is read before the review is an input of its own; of
// one that is read after it, the document is, and all its questions share the decision.
struct GateCase {
  const InputResult& input;
  const ArmResult& arm;
  std::optional<View> view{};  // none: text that goes on
  std::size_t question = 0;    // kAware
};

struct Gate {
  std::string name;
  std::function<bool(const GateCase&)> open;
};

//  open        every review happens
//  closed      none does
//  oracle      not those that take an answer from the full cache
//  random:P%   a share P of them, by the input alone: what a statistic must beat at its open rate
// kInvalidArgument: none of these.
Result<Gate> make_gate(std::string_view spec);

// `plain` as the gate leaves it.  A second question has its first one's decision.
ArmResult gated(const InputResult& input, const ArmResult& plain, const Gate& gate);

// Every arm but the full cache, behind each of the gates; without `open`, plain arms go.
void apply_gates(const std::vector<Gate>& gates, std::vector<InputResult>& results);

}  // namespace quire::eval
