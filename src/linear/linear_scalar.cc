// The slow obvious twin of every level: same results bit for bit, one loop per formula.
#include <cmath>
#include <cstring>

#include "kernels/half.h"
#include "kernels/vector_scalar.h"
#include "linear/layout.h"
#include "linear/levels.h"
#include "linear/multiply_impl.h"

namespace quire::linear {
namespace {

using kernels::bits_of_float;
using kernels::float_of_bits;
using kernels::float_of_half;

std::uint16_t half_at(const std::uint8_t* from, std::uint32_t n) {
  std::uint16_t half;
  std::memcpy(&half, from + 2 * n, sizeof half);
  return half;
}

struct ScalarLanes {
  using Vector = kernels::ScalarVector;

  static void quantize_group(const float* x, std::byte* record) {
    std::uint32_t most = 0;  // compared as bits, so that a NaN is the largest
    for (std::uint32_t i = 0; i < kGroup; ++i) {
      most = std::max(most, bits_of_float(x[i]) & 0x7fffffffu);
    }
    const float amax = float_of_bits(most);
    const bool finite = most < 0x7f800000u;
    const float inverse = finite && amax > 0 ? 127.0f / amax : 0;
    std::int8_t code[kGroup];
    std::int32_t low = 0, sum = 0;
    for (std::uint32_t i = 0; i < kGroup; ++i) {
      const float scaled = finite ? std::nearbyintf(x[i] * inverse) : 0;
      code[i] = static_cast<std::int8_t>(std::min(std::max(scaled, -127.0f), 127.0f));
      sum += code[i];
      if (i < kGroup / 2) low += code[i];
    }
    std::memcpy(record, code, sizeof code);
    write_sums(record, amax / 127.0f, sum, low);
  }
};

// The codes of one group of one panel as [32 inputs][16 outputs], zero taken off, and its scales.
struct Group {
  std::int32_t weight[kGroup][kPanel];
  float scale[2][kPanel], minimum[kPanel];
};

void read_codes(const std::uint8_t* from, const Shape& shape, Group& to) {
  const std::uint8_t* high = from + 256;
  for (std::uint32_t i = 0; i < kGroup; ++i) {
    const std::uint32_t vector = i / 4;
    for (std::uint32_t n = 0; n < kPanel; ++n) {
      const std::uint32_t byte = 4 * n + i % 4;
      std::uint32_t code = shape.bits == 8 ? from[vector * 64 + byte]
                                           : from[vector % 4 * 64 + byte] >> vector / 4 * 4 & 15u;
      if (shape.bits == 5) code |= (high[byte] >> vector & 1u) << 4;
      if (shape.bits == 6) code |= (high[vector / 4 * 64 + byte] >> 2 * (vector % 4) & 3u) << 4;
      to.weight[i][n] = static_cast<std::int32_t>(code) - static_cast<std::int32_t>(shape.zero);
    }
  }
}

void read_scales(const std::uint8_t* header, const std::uint8_t* from, const Shape& shape,
                 Group& to) {
  for (std::uint32_t n = 0; n < kPanel; ++n) {
    switch (shape.scales) {
      case Scales::kMinimum:
        to.minimum[n] = float_of_half(half_at(from + 32, n));
        [[fallthrough]];
      case Scales::kPlain:
        to.scale[0][n] = to.scale[1][n] = float_of_half(half_at(from, n));
        break;
      case Scales::kSuper:
        to.scale[0][n] = to.scale[1][n] =
            float_of_half(half_at(header, n)) * static_cast<float>(from[n]);
        to.minimum[n] =
            -(float_of_half(half_at(header + 32, n)) * static_cast<float>(from[16 + n]));
        break;
      case Scales::kSuperHalf:
        for (std::uint32_t half = 0; half < 2; ++half) {
          to.scale[half][n] = float_of_half(half_at(header, n)) *
                              static_cast<float>(static_cast<std::int8_t>(from[16 * half + n]));
        }
        break;
    }
  }
}

// acc[16] of one row, one group further.
void add_group(const Group& group, const Shape& shape, const RowRecord& row, float* acc) {
  const std::uint32_t parts = shape.scales == Scales::kSuperHalf ? 2 : 1;
  for (std::uint32_t n = 0; n < kPanel; ++n) {
    for (std::uint32_t part = 0; part < parts; ++part) {
      std::int32_t sum = 0;
      for (std::uint32_t i = part * kGroup / parts; i < (part + 1) * kGroup / parts; ++i) {
        sum += group.weight[i][n] * row.code[i];
      }
      acc[n] = std::fmaf(static_cast<float>(sum), group.scale[part][n] * row.scale, acc[n]);
    }
    if (shape.minimum()) acc[n] = std::fmaf(group.minimum[n], row.sum, acc[n]);
  }
}

void multiply(const Matrix& weight, const float* bias, const float* add, const std::byte* records,
              std::uint32_t rows, std::uint32_t begin, std::uint32_t end, float* out) {
  const Shape shape = shape_of(weight.format);
  const std::size_t bytes = shape.panel_bytes(weight.inputs);
  Group group{};
  float acc[kBlockRows][kPanel];
  for (std::uint32_t panel = begin; panel < end; ++panel) {
    const std::uint32_t columns = std::min(kPanel, weight.outputs - panel * kPanel);
    for (std::uint32_t first = 0; first < rows; first += kBlockRows) {
      const std::uint32_t block = std::min(kBlockRows, rows - first);
      const auto* from = reinterpret_cast<const std::uint8_t*>(weight.data + panel * bytes);
      const std::uint8_t* header = from;
      std::fill(&acc[0][0], &acc[0][0] + block * kPanel, 0.0f);
      for (std::uint32_t g = 0; g < weight.inputs / kGroup; ++g) {
        if (shape.super() && g % kSuperGroups == 0) {
          header = from;
          from += shape.header_bytes();
        }
        read_codes(from, shape, group);
        read_scales(header, from + shape.code_bytes(), shape, group);
        from += shape.group_bytes();
        for (std::uint32_t r = 0; r < block; ++r) {
          RowRecord record;
          std::memcpy(&record, records + record_offset(rows, weight.inputs, first + r, g),
                      sizeof record);
          add_group(group, shape, record, acc[r]);
        }
      }
      for (std::uint32_t r = 0; r < block; ++r) {
        for (std::uint32_t n = 0; n < columns; ++n) {
          const std::uint32_t output = panel * kPanel + n;
          const std::size_t at = std::size_t{first + r} * weight.outputs + output;
          float value = acc[r][n] + (bias == nullptr ? 0.0f : bias[output]);
          if (add != nullptr) value += add[at];
          out[at] = value;
        }
      }
    }
  }
}

constexpr Kernels kTable = table_of<ScalarLanes>(Isa::kScalar, multiply);

}  // namespace

const Kernels& scalar_kernels() {
  return kTable;
}

}  // namespace quire::linear
