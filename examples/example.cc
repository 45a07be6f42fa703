// A cache without a model: 200 positions of random rows, a review, one more row.
#include <algorithm>
#include <iostream>
#include <random>

#include "quire/cache.h"

int main() {
  const quire::LayerShape layer{.kv_heads = 2, .query_heads = 8, .key_size = 64, .value_size = 64};
  // A refusal is a Status; * of one ends the program with its message.
  const auto cache = *quire::Cache::open({.layers = {layer, layer}, .budget_bytes = 4 << 20});
  const auto policy = *quire::make_policy("h2o:recent=16");
  const auto sequence = *cache->start(policy.needs);
  std::vector<float> q(200 * 8 * 64), k(200 * 2 * 64), v(200 * 2 * 64), out(200 * 8 * 64);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const auto step = [&](std::uint32_t rows) {
    const quire::Segment segment{.sequence = sequence, .rows = rows};
    if (!cache->begin({&segment, 1}).ok()) std::exit(1);
    for (std::uint32_t l = 0; l < 2; ++l) {
      for (auto* x : {&q, &k, &v}) std::ranges::generate(*x, [&] { return normal(random); });
      cache->append(l, k.data(), v.data(), 0, 1);    // from several threads: part, parts,
      cache->attend(l, q.data(), out.data(), 0, 1);  // and a barrier between the two
    }
    cache->commit();
  };
  step(200);
  const auto report = *cache->shrink(sequence, policy, 64);
  step(1);
  std::cout << "dropped " << report.entries_dropped << " of " << report.entries_before
            << " entries, the next row's first output is " << out[0] << "\n";
  return report.entries_dropped == 4 * (200 - 64) ? 0 : 1;
}
