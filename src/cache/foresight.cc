#include "cache/foresight.h"

#include <algorithm>
#include <cmath>

#include "kernels/kernels.h"

namespace quire {
namespace {

// The mean of a pair's rotations over positions: (x, y) becomes (a x - b y, b x + a y).
struct MeanTurn {
  double a, b;
};

// The sum of exp(i f p) over positions p is a geometric one: its middle term times a ratio of
// sines.
MeanTurn mean_turn(double frequency, Position next, std::uint32_t count) {
  const double half = frequency / 2, n = count;
  const double shrunk = std::sin(half) == 0 ? 1 : std::sin(half * n) / (std::sin(half) * n);
  const double middle = frequency * (next + (n - 1) / 2);
  return {shrunk * std::cos(middle), shrunk * std::sin(middle)};
}

}  // namespace

void Foresight::look(const float* statistics, std::uint32_t rows, const RopeShape& rope,
                     std::uint32_t size, float scale, Position next, std::uint32_t count) {
  mean.assign(size, 0.0f);
  form.assign(kernels::query_product(size), 0.0f);
  if (rows == 0) return;
  const float *origin = statistics, *sum = statistics + size, *products = statistics + 2 * size;
  const double n = rows;
  std::vector<double>& covariance = square;
  covariance.resize(std::size_t{size} * size);
  for (std::uint32_t i = 0; i < size; ++i) {
    for (std::uint32_t j = 0; j <= i; ++j) {
      const double product = double{products[kernels::query_product(i) + j]} / n;
      const double value = product - double{sum[i]} / n * (double{sum[j]} / n);
      covariance[i * size + j] = covariance[j * size + i] = value;
    }
  }
  for (std::uint32_t pair = 0; pair < size / 2; ++pair) {
    const std::uint32_t x = rope.halves ? pair : 2 * pair;
    const std::uint32_t y = rope.halves ? pair + size / 2 : 2 * pair + 1;
    const auto [a, b] = mean_turn(double{rope.frequency[pair]}, next, count);
    const double mean_x = double{origin[x]} + double{sum[x]} / n;
    const double mean_y = double{origin[y]} + double{sum[y]} / n;
    mean[x] = static_cast<float>((a * mean_x - b * mean_y) * double{scale});
    mean[y] = static_cast<float>((b * mean_x + a * mean_y) * double{scale});
    const auto turn = [a = a, b = b](double& u, double& v) {
      const double u_before = u;
      u = a * u - b * v;
      v = b * u_before + a * v;
    };
    for (std::uint32_t j = 0; j < size; ++j)
      turn(covariance[x * size + j], covariance[y * size + j]);
    for (std::uint32_t i = 0; i < size; ++i)
      turn(covariance[i * size + x], covariance[i * size + y]);
  }
  const double halved = double{scale} * double{scale} / 2;
  for (std::uint32_t i = 0; i < size; ++i) {
    for (std::uint32_t j = 0; j < i / 16 * 16 + 16; ++j) {
      const double times = j / 16 == i / 16 ? halved : 2 * halved;
      form[kernels::query_product(i) + j] = static_cast<float>(covariance[i * size + j] * times);
    }
  }
}

}  // namespace quire
