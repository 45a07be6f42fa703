// How long a step takes: a line over what it computes, given or fitted to the steps that were.
// Pure; times come in as numbers.
#pragma once

#include <array>
#include <cstdint>

namespace quire::engine {

// Predicted seconds of a step.
struct StepCost {
  double fixed_seconds = 0;
  double row_seconds = 0;    // each row
  double entry_seconds = 0;  // each row x entry it attends to

  double seconds(double rows, double pairs) const {
    return fixed_seconds + row_seconds * rows + entry_seconds * pairs;
  }
  bool known() const { return fixed_seconds > 0 || row_seconds > 0 || entry_seconds > 0; }
};

// Row x entry pairs of the next `rows` rows of a sequence with `context` entries: every row sees
// those, and the rows before it.
double pairs_of(std::uint64_t context, std::uint32_t rows);

// The most rows, up to `most`, of a sequence with `context` entries that take at most `seconds`.
std::uint32_t rows_within(const StepCost& cost, std::uint64_t context, double seconds,
                          std::uint32_t most);

// The line of least squares through the steps seen, by relative error, none of its numbers
// negative.  Newer steps count more; steps with rows of prompts and steps without fade apart, so
// that a long time without prompts does not make their cost forgotten.
class StepFit {
 public:
  void observe(double rows, double pairs, bool prompts, double seconds);
  // Known from the first step on.
  StepCost cost() const;

 private:
  // Of the least squares over (1, rows, pairs): normal equations, weighted.
  struct Sums {
    std::array<std::array<double, 3>, 3> matrix{};
    std::array<double, 3> right{};
  };
  Sums sums_[2];  // without and with rows of prompts
};

}  // namespace quire::engine
