// What stands between the products, row by row: norms, activations, rotations, rounding to records.
// Include only from files compiled for the level; Vector is the level's of room kernels.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/softmax_impl.h"
#include "linear/layout.h"
#include "linear/levels.h"

namespace quire::linear {
namespace {

// 1 / sqrt(mean square + epsilon); 16 partial sums by (index mod 16), then a fixed tree.
template <typename Vector>
float norm_factor(const float* x, std::uint32_t count, float epsilon) {
  Vector sum = Vector::all(0);
  for (std::uint32_t i = 0; i < count; i += 16) {
    const Vector v = Vector::load(x + i);
    sum = Vector::fma(v, v, sum);
  }
  return 1.0f / __builtin_sqrtf(sum.add_lanes() / static_cast<float>(count) + epsilon);
}

// x / (1 + exp(-x)) and, with the tanh approximation of arXiv 1606.08415, gelu: both are
// x * sigmoid(z).
template <typename Vector, Activation kActivation>
Vector activated(Vector x) {
  Vector z = x;
  if constexpr (kActivation == Activation::kGelu) {
    const Vector inner = Vector::fma(x * x, Vector::all(0.044715f), Vector::all(1.0f));
    z = x * inner * Vector::all(2 * 0.79788456080286535588f);
  }
  // exp of the negative magnitude cannot overflow.
  const Vector e = kernels::exp_of(Vector::all(0.0f) - Vector::abs(z));
  const Vector one = Vector::all(1.0f);
  return x * Vector::where_less(z, Vector::all(0.0f), e, one) / (one + e);
}

// Where a group of a row goes as 8-bit codes.
template <typename Lanes>
struct CodeRecords {
  static constexpr std::uint32_t kBytes = kRecordBytes, kRows = 1;
  static std::size_t offset(std::uint32_t rows, std::uint32_t inputs, std::uint32_t row,
                            std::uint32_t group) {
    return record_offset(rows, inputs, row, group);
  }
  static void write(const float* x, std::byte* to) { Lanes::quantize_group(x, to); }
};

template <typename Lanes, typename Records = CodeRecords<Lanes>>
struct RowWork {
  using Vector = typename Lanes::Vector;

  // Each row's groups, as `group(row, first input, to[32])` gives them, to their records.
  template <typename Group>
  static void to_records(std::uint32_t rows, std::uint32_t inputs, std::uint32_t begin,
                         std::uint32_t end, std::byte* records, const Group& group) {
    float values[kGroup];
    for (std::uint32_t row = begin; row < end; ++row) {
      for (std::uint32_t g = 0; g < inputs / kGroup; ++g) {
        group(row, g * kGroup, values);
        Records::write(values, records + Records::offset(rows, inputs, row, g));
      }
    }
  }

  static void quantize(const float* x, std::uint32_t rows, std::uint32_t inputs,
                       std::uint32_t begin, std::uint32_t end, std::byte* records) {
    for (std::uint32_t row = begin; row < end; ++row) {
      for (std::uint32_t g = 0; g < inputs / kGroup; ++g) {
        Records::write(x + std::size_t{row} * inputs + g * kGroup,
                       records + Records::offset(rows, inputs, row, g));
      }
    }
  }

  static void normalize(const float* x, const float* weight, float epsilon, std::uint32_t rows,
                        std::uint32_t inputs, std::uint32_t begin, std::uint32_t end,
                        std::byte* records) {
    std::uint32_t last = ~0u;
    Vector factor = Vector::all(0);
    to_records(rows, inputs, begin, end, records,
               [&](std::uint32_t row, std::uint32_t first, float* to) {
                 const float* from = x + std::size_t{row} * inputs;
                 if (row != last) {
                   factor = Vector::all(norm_factor<Vector>(from, inputs, epsilon));
                   last = row;
                 }
                 for (std::uint32_t i = 0; i < kGroup; i += 16) {
                   const Vector v = Vector::load(from + first + i) * factor;
                   (v * Vector::load(weight + first + i)).store(to + i);
                 }
               });
  }

  template <Activation kActivation>
  static void activate_as(const float* gate, const float* up, std::uint32_t rows,
                          std::uint32_t inputs, std::uint32_t begin, std::uint32_t end,
                          std::byte* records) {
    to_records(rows, inputs, begin, end, records,
               [&](std::uint32_t row, std::uint32_t first, float* to) {
                 const std::size_t at = std::size_t{row} * inputs + first;
                 for (std::uint32_t i = 0; i < kGroup; i += 16) {
                   const Vector g = activated<Vector, kActivation>(Vector::load(gate + at + i));
                   (g * Vector::load(up + at + i)).store(to + i);
                 }
               });
  }
  static void activate(Activation activation, const float* gate, const float* up,
                       std::uint32_t rows, std::uint32_t inputs, std::uint32_t begin,
                       std::uint32_t end, std::byte* records) {
    const auto as = activation == Activation::kSilu ? activate_as<Activation::kSilu>
                                                    : activate_as<Activation::kGelu>;
    as(gate, up, rows, inputs, begin, end, records);
  }

  static void rotate(const Heads& heads, const float* table, std::uint32_t begin,
                     std::uint32_t end) {
    const std::uint32_t size = heads.size, dims = heads.dims;
    float normed[kMostHead];
    for (std::uint32_t row = begin; row < end; ++row) {
      const float* turn = table + std::size_t{row} * dims;
      for (std::uint32_t h = 0; h < heads.heads; ++h) {
        const std::size_t at = (std::size_t{row} * heads.heads + h) * size;
        const float* x = heads.x + at;
        if (heads.norm != nullptr) {
          const float factor = norm_factor<Vector>(x, size, heads.epsilon);
          for (std::uint32_t i = 0; i < size; ++i) normed[i] = x[i] * factor * heads.norm[i];
          x = normed;
        }
        float* __restrict to = heads.out + at;
        if (heads.halves) {
          const std::uint32_t half = dims / 2;
          for (std::uint32_t i = 0; i < half; ++i) {
            to[i] = x[i] * turn[i] - x[i + half] * turn[i + half];
            to[i + half] = x[i] * turn[i + half] + x[i + half] * turn[i];
          }
        } else {
          for (std::uint32_t i = 0; i < dims; i += 2) {
            to[i] = x[i] * turn[i] - x[i + 1] * turn[i + 1];
            to[i + 1] = x[i] * turn[i + 1] + x[i + 1] * turn[i];
          }
        }
        std::copy(x + dims, x + size, to + dims);
      }
    }
  }
};

}  // namespace
}  // namespace quire::linear
