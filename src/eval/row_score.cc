#include "eval/row_score.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "quire/check.h"

namespace quire::eval {
namespace {

// exp for x <= 0, relative error below 1e-7: plain arithmetic, so that the compiler can do several
// at once; 50,000 libm calls a row would take most of an evaluation.
float exp_below_zero(float x) {
  constexpr float kLog2E = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 x 2^23: adding it rounds to a whole number
  x = x < -87.0f ? -87.0f : x;
  const float shifted = x * kLog2E + kRound, whole = shifted - kRound;
  const float r = (x - whole * kLn2High) - whole * kLn2Low;
  // Cephes' expf polynomial.
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  std::int32_t bits = 0;
  std::memcpy(&bits, &shifted, sizeof(bits));
  bits = static_cast<std::int32_t>(static_cast<std::uint32_t>(bits + 127) << 23);
  float scale = 0;
  std::memcpy(&scale, &bits, sizeof(scale));
  return p * scale;
}

// Sums of 8 neighbours in f32 go to f64: fixed order, and errors far below what is reported.
constexpr std::size_t kTogether = 8;

double log_sum_exp(std::span<const float> logits, float most) {
  double sum = 0;
  std::size_t i = 0;
  for (; i + kTogether <= logits.size(); i += kTogether) {
    float part[kTogether];
    for (std::size_t j = 0; j < kTogether; ++j) part[j] = exp_below_zero(logits[i + j] - most);
    for (std::size_t j = 0; j < kTogether; ++j) sum += static_cast<double>(part[j]);
  }
  for (; i < logits.size(); ++i) sum += static_cast<double>(exp_below_zero(logits[i] - most));
  return std::log(sum) + static_cast<double>(most);
}

}  // namespace

void FullRow::set(std::span<const float> logits) {
  QUIRE_CHECK(!logits.empty());
  logits_.assign(logits.begin(), logits.end());
  top_ = static_cast<std::size_t>(std::ranges::max_element(logits) - logits.begin());
  log_sum_ = log_sum_exp(logits, logits[top_]);
  share_.resize(logits.size());
  const auto log_sum = static_cast<float>(log_sum_ - static_cast<double>(logits[top_]));
  for (std::size_t i = 0; i < logits.size(); ++i) {
    share_[i] = exp_below_zero((logits[i] - logits[top_]) - log_sum);
  }
}

RowScore FullRow::score(std::span<const float> logits, model::Token next) const {
  QUIRE_CHECK(logits.size() == logits_.size());
  const auto at = static_cast<std::size_t>(next);
  QUIRE_CHECK(next >= 0 && at < logits.size());
  const auto top = static_cast<std::size_t>(std::ranges::max_element(logits) - logits.begin());
  const double log_sum = log_sum_exp(logits, logits[top]);
  double cross = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    cross += static_cast<double>(share_[i]) *
             (static_cast<double>(logits_[i]) - static_cast<double>(logits[i]));
  }
  return {.nll = log_sum - static_cast<double>(logits[at]),
          .full_nll = log_sum_ - static_cast<double>(logits_[at]),
          .kl = std::max(0.0, cross - log_sum_ + log_sum),
          .top = static_cast<model::Token>(top),
          .full_top = static_cast<model::Token>(top_)};
}

}  // namespace quire::eval
