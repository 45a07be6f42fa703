// What gates select from: questions that were measured, by policy and share.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "eval/gate_eval.h"

namespace quire::eval {

// A question that was measured, with what a gate may know of it.
struct GateItem {
  Task task{};
  std::size_t document = 0;
  GateValues values{};
  double first_kl = 0;  // of the first token, behind the review
  bool full_right = false, right = false;
  double bytes_share = 1;  // of the arm, where it is open

  bool harmed() const { return full_right && !right; }
};

// One policy at one share.
struct GatePoint {
  std::string policy;
  double keep = 0;
  std::vector<GateItem> items;
};
std::vector<GatePoint> gate_points(const std::vector<InputResult>& results);

using ByDocument = std::map<std::size_t, std::vector<double>>;
// Which of some documents' values lie above which of others', ties counting half; with an interval
// by drawing documents of both sides anew.
Estimate estimate_auc(const ByDocument& above, const ByDocument& below);

// Adds a gate's rows: of each class, and, as the last one, of all together.  `share`: of questions
// that a gate that looks at nothing leaves open; else `open` is asked.
using IsOpen = std::function<bool(const GateItem&)>;
void add_gate(const GatePoint& point, const std::string& gate, const IsOpen& open,
              std::vector<GatedArm>& arms, std::optional<double> share = {});
// Likewise, and of a gate that is as often open, in expectation, and looks at nothing.
void add_gate_and_random(const GatePoint& point, const std::string& gate, const IsOpen& open,
                         std::vector<GatedArm>& arms);

}  // namespace quire::eval
