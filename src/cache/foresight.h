// What a head's next queries are expected to be: a Gaussian with mean and covariance of those of
// the prompt, turned to the positions ahead, on average over them (ExpectedAttention in NVIDIA's
// kvpress).
#pragma once

#include <cstdint>
#include <vector>

#include "quire/cache.h"

namespace quire {

struct Foresight {
  std::vector<float> mean;     // [key_size], times the scale
  std::vector<float> form;     // the covariance as Kernels::expect wants it
  std::vector<double> square;  // [key_size][key_size] scratch

  // From the statistics of `rows` queries (layout: kernels.h), for positions [next, next + count).
  // Without rows all zeros.
  void look(const float* statistics, std::uint32_t rows, const RopeShape& rope, std::uint32_t size,
            float scale, Position next, std::uint32_t count);
};

}  // namespace quire
