// Many inputs to one number per cell, with its interval; and the checks that were written down
// before any run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "eval/measure.h"
#include "eval/statistics.h"

namespace quire::eval {

// Thresholds.  What the machinery must do, whatever the policies are worth:
constexpr double kTwinKlMost = 0;         // an arm that never shrinks: the full cache bit for bit
constexpr double kBytesTolerance = 0.01;  // of the target, where blocks allow
// and what a policy must do to be worth its cost: the 95 % interval of its paired difference to
// `random` at equal bytes lies above 0 (prose: KL; questions: log-probability of the answer).

struct Measure {
  std::string name;
  bool higher_is_better = false;
  bool percent = false;  // a share
  Estimate estimate;
  std::optional<Interval> wilson{};  // shares of yes and no: as if every item were on its own
};

// One policy at one share, on one task in one view.
struct Cell {
  Task task = Task::kProse;
  std::optional<View> view{};  // none: prose
  std::uint32_t block_tokens = 16;
  Arm arm;
  double entries = 0;      // mean over inputs
  double bytes = 0;        // likewise; of a closed gate the full cache's
  double bytes_share = 0;  // of the full cache, mean
  double off_target = 0;   // the largest |bytes / target - 1| of an input
  double grain = 0;        // a block of every lane, of the target
  double open_share = 1;   // of the inputs, that a gate let through
  bool reachable = true, only_protected = false;
  std::vector<Measure> measures;
  std::optional<Estimate> over_random{};  // paired, > 0 is better; none: of random, full and oracle

  std::string task_name() const;  // "prose", "needle, blind" ...
  const Measure* measure(std::string_view name) const;
};

struct Check {
  std::string name, threshold, found;
  bool pass = false;
};

inline constexpr const char* kBytesCheck = "arms of one share take equal bytes";
inline constexpr const char* kOracleCheck = "hindsight beats chance";

struct Summary {
  std::vector<Cell> cells;
  std::vector<Check> checks;
};

Summary summarise(const std::vector<InputResult>& results);

// The measure a task is judged by.
const char* main_measure(Task task);

}  // namespace quire::eval
