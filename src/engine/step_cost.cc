#include "engine/step_cost.h"

#include <algorithm>
#include <cmath>

namespace quire::engine {
namespace {

constexpr double kFade = 0.98;  // a step weighs half of the one 34 steps later
// Relative to the diagonal: below, the columns tell no more than those before them.
constexpr double kLeastPivot = 1e-9;

using Matrix = std::array<std::array<double, 3>, 3>;
using Vector = std::array<double, 3>;

// Solves the normal equations for the unknowns in `chosen`, the others being 0, by elimination.
// False: they do not say enough, or one would be negative.
bool solve(Matrix a, Vector b, unsigned chosen, Vector& x) {
  x = {};
  std::array<std::size_t, 3> order{};
  std::size_t count = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    if (chosen & (1u << i)) order[count++] = i;
  }
  const Vector diagonal = {a[0][0], a[1][1], a[2][2]};
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t row = order[k];
    const double pivot = a[row][row];
    if (!(pivot > kLeastPivot * diagonal[row])) return false;
    for (std::size_t j = k + 1; j < count; ++j) {
      const std::size_t below = order[j];
      const double share = a[below][row] / pivot;
      for (std::size_t i = k; i < count; ++i) a[below][order[i]] -= share * a[row][order[i]];
      b[below] -= share * b[row];
    }
  }
  for (std::size_t k = count; k-- > 0;) {
    const std::size_t row = order[k];
    double rest = b[row];
    for (std::size_t j = k + 1; j < count; ++j) rest -= a[row][order[j]] * x[order[j]];
    x[row] = rest / a[row][row];
    if (x[row] < 0) return false;
  }
  return true;
}

// By how much less than x = 0 the squares are: x.b, where x solves the equations.
double gain(const Vector& x, const Vector& b) {
  return x[0] * b[0] + x[1] * b[1] + x[2] * b[2];
}

}  // namespace

double pairs_of(std::uint64_t context, std::uint32_t rows) {
  const double n = rows;
  return n * static_cast<double>(context) + n * (n + 1) / 2;
}

// The root of  entry/2 n^2 + (row + entry (context + 1/2)) n = seconds.
std::uint32_t rows_within(const StepCost& cost, std::uint64_t context, double seconds,
                          std::uint32_t most) {
  if (seconds <= 0) return 0;
  const double half = cost.entry_seconds / 2;
  const double each = cost.row_seconds + cost.entry_seconds * (static_cast<double>(context) + 0.5);
  if (each <= 0) return most;
  // The stable form of (sqrt(each^2 + 4 half seconds) - each) / (2 half), right for half = 0, too.
  const double rows = 2 * seconds / (each + std::sqrt(each * each + 4 * half * seconds));
  // A hair more, lest rounding take a row that just fits.
  return static_cast<std::uint32_t>(std::min<double>(std::floor(rows * (1 + 1e-12)), most));
}

void StepFit::observe(double rows, double pairs, bool prompts, double seconds) {
  if (!(seconds > 0)) return;
  Sums& sums = sums_[prompts ? 1 : 0];
  const Vector step = {1 / seconds, rows / seconds, pairs / seconds};
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      sums.matrix[i][j] = kFade * sums.matrix[i][j] + step[i] * step[j];
    }
    sums.right[i] = kFade * sums.right[i] + step[i];
  }
}

StepCost StepFit::cost() const {
  Matrix matrix{};
  Vector right{};
  for (const Sums& sums : sums_) {
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 3; ++j) matrix[i][j] += sums.matrix[i][j];
      right[i] += sums.right[i];
    }
  }
  // Of lines as good as each other the first: what little was seen is put down to rows.
  constexpr unsigned kRows = 2, kFixed = 1, kPairs = 4;
  Vector best{};
  for (const unsigned chosen : {kRows, kFixed | kRows, kRows | kPairs, kFixed | kRows | kPairs,
                                kFixed, kPairs, kFixed | kPairs}) {
    Vector x;
    if (!solve(matrix, right, chosen, x)) continue;
    if (gain(x, right) > gain(best, right) * (1 + 1e-9)) best = x;
  }
  return {best[0], best[1], best[2]};
}

}  // namespace quire::engine
