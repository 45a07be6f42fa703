// What layers of a made-up model say beside their sizes, so that every policy can run on them.
#pragma once

#include <cmath>
#include <cstdint>

#include "quire/cache.h"

namespace quire::test {

inline RopeShape made_up_rope(bool halves, std::uint32_t size, float base = 10'000) {
  RopeShape rope{.halves = halves};
  for (std::uint32_t i = 0; i < size / 2; ++i) {
    rope.frequency.push_back(
        std::pow(base, -2.0f * static_cast<float>(i) / static_cast<float>(size)));
  }
  return rope;
}

inline float output_weight(std::uint32_t output, std::size_t input) {
  return std::sin(static_cast<float>(7 * output + 1) * 0.37f + static_cast<float>(input) * 1.13f);
}

// Reads layers of `inputs` = query_heads x value_size values; its size is no multiple of anything.
inline OutputShape made_up_output(std::size_t inputs, std::uint32_t size = 83) {
  return {.size = size, .rows = [inputs](std::uint32_t begin, std::uint32_t end, float* rows) {
            for (std::uint32_t n = begin; n < end; ++n) {
              for (std::size_t i = 0; i < inputs; ++i) *rows++ = output_weight(n, i);
            }
          }};
}

}  // namespace quire::test
