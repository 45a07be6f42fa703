// A cache without a model: 200 positions of random rows, a review, one more row.
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

#include "quire/cache.h"

int main() {
  const quire::LayerShape layer{.kv_heads = 2, .query_heads = 8, .key_size = 64, .value_size = 64};
  auto cache = quire::Cache::open({.layers = {layer, layer}, .budget_bytes = 4 << 20});
  auto policy = quire::make_policy("h2o:recent=16");
  if (!cache.ok() || !policy.ok()) return 1;
  auto sequence = (*cache)->start(policy->needs);
  if (!sequence.ok()) return 1;

  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const auto step = [&](std::uint32_t rows) {
    std::vector<float> q(rows * 8 * 64), k(rows * 2 * 64), v(rows * 2 * 64), out(rows * 8 * 64);
    const quire::Segment segment{.sequence = *sequence, .rows = rows};
    if (!(*cache)->begin({&segment, 1}).ok()) return 0.0f;
    for (std::uint32_t l = 0; l < 2; ++l) {
      for (std::vector<float>* part : {&q, &k, &v}) {
        for (float& x : *part) x = normal(random);
      }
      (*cache)->append(l, k.data(), v.data(), 0, 1);    // from several threads: part, parts,
      (*cache)->attend(l, q.data(), out.data(), 0, 1);  // and a barrier between the two
    }
    (*cache)->commit();
    return out.back();
  };
  step(200);
  auto report = (*cache)->shrink(*sequence, *policy, 64);
  if (!report.ok()) return 1;
  std::printf("dropped %llu of %llu entries, freed %llu bytes, next output %f\n",
              static_cast<unsigned long long>(report->entries_dropped),
              static_cast<unsigned long long>(report->entries_before),
              static_cast<unsigned long long>(report->bytes_freed), step(1));
  return report->entries_dropped == 4 * (200 - 64) ? 0 : 1;
}
