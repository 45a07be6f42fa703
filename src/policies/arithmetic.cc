// Arithmetic that several policies share.

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

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

float uniform_of(std::uint64_t seed, const EntryView& lane, Position position) {
  const std::uint64_t key = mix(mix(seed) ^ (std::uint64_t{lane.layer} << 32 | lane.head));
  return static_cast<float>(mix(key ^ position) >> 40) * 0x1p-24f;
}

void average_runs(std::uint32_t run, std::span<float> score) {
  for (std::size_t begin = 0; begin < score.size(); begin += run) {
    const std::span<float> part =
        score.subspan(begin, std::min<std::size_t>(run, score.size() - begin));
    double sum = 0;
    for (const float s : part) sum += double{s};
    std::ranges::fill(part, static_cast<float>(sum / static_cast<double>(part.size())));
  }
}

void largest_near(const EntryView& lane, std::uint32_t reach, std::span<float> score) {
  const std::vector<float> raw(score.begin(), score.end());
  for (std::size_t i = 0, first = 0; i < raw.size(); ++i) {
    while (lane.position[first] + reach < lane.position[i]) ++first;
    for (std::size_t j = first; j < raw.size(); ++j) {
      if (lane.position[j] > lane.position[i] + reach) break;
      score[i] = std::max(score[i], raw[j]);
    }
  }
}

void softmax(float temperature, std::span<float> x) {
  constexpr float kLeast = std::numeric_limits<float>::lowest();
  float most = kLeast;
  for (float& value : x) most = std::max(most, value = finite_or(value, kLeast));
  double sum = 0;
  for (float& value : x) {
    sum += double{
        value = static_cast<float>(std::exp((double{value} - double{most}) / double{temperature}))};
  }
  for (float& value : x) value = static_cast<float>(double{value} / sum);
}

float finite_or(float x, float otherwise) {
  return std::isfinite(x) ? x : otherwise;
}

std::vector<float> ranked(const Protection& protect, std::span<const float> score) {
  const std::size_t sinks = std::min<std::size_t>(protect.sinks, score.size());
  const std::size_t recent = std::min<std::size_t>(protect.recent, score.size() - sinks);
  std::vector<float> middle(score.begin() + sinks, score.end() - recent);
  std::ranges::sort(middle, std::greater{});
  return middle;
}

Choose keep_newest(std::uint64_t percent) {
  if (percent == 0) return {};
  return [percent](const Protection& protect, const EntryView&, std::span<const float> score,
                   std::span<Ordinal> kept, Arena& scratch) {
    const auto newest = static_cast<std::uint32_t>(kept.size() * percent / 100);
    choose_top({protect.sinks, std::max(protect.recent, newest)}, score, kept, scratch);
  };
}

}  // namespace quire::policies
