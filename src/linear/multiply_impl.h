// Linear layers over any instruction set with integer vectors: one loop, the level's `Lanes` doing
// the arithmetic.  Include only from files compiled for the level.
//
// A group's codes are unpacked into registers once and meet up to 64 rows there, so the same loop
// serves one row, which waits for memory, and a chunk, which waits for the multipliers.
//
// Lanes offers: kCount outputs a vector; kUnits vectors worked on at once; Int, Float; kCodes
// registers of a vector's group; dot(), which adds a group's (or half group's) products.
#pragma once

#include <cstring>

#include "linear/layout.h"
#include "linear/levels.h"
#include "linear/rows_impl.h"

namespace quire::linear {
namespace {

// Where products go: out[r][n] = acc + bias[n] + add[r][n].
struct Target {
  const float* bias;
  const float* add;
  float* out;
  std::uint32_t outputs;
};

template <typename Lanes, Shape kShape>
struct Multiply {
  using Int = typename Lanes::Int;
  using Float = typename Lanes::Float;
  using Codes = typename Lanes::template Codes<kShape.bits>;
  static constexpr std::uint32_t kUnits = Lanes::kUnits;
  static constexpr std::uint32_t kHalves = kShape.scales == Scales::kSuperHalf ? 2 : 1;

  struct Scale {
    Float d[kHalves];
    Float m;
  };

  // Walks a vector's outputs through their panel, group by group: open(g), read, close().
  struct Cursor {
    const std::byte* data = nullptr;    // the group
    const std::byte* header = nullptr;  // what it lies under, if anything
    std::size_t lane = 0;               // first output of the vector in its panel

    Cursor() = default;
    explicit Cursor(const std::byte* panel, std::size_t first = 0) : data(panel), lane(first) {}
    void open(std::uint32_t group) {
      if (!kShape.super() || group % kSuperGroups != 0) return;
      header = data;
      data += kShape.header_bytes();
    }
    void close() { data += kShape.group_bytes(); }
  };

  static Scale read_scale(const Cursor& at) {
    const std::byte* from = at.data + kShape.code_bytes();
    Scale scale;
    if constexpr (kShape.scales == Scales::kPlain) {
      scale.d[0] = Lanes::load_halves(from + 2 * at.lane);
    } else if constexpr (kShape.scales == Scales::kMinimum) {
      scale.d[0] = Lanes::load_halves(from + 2 * at.lane);
      scale.m = Lanes::load_halves(from + 32 + 2 * at.lane);
    } else if constexpr (kShape.scales == Scales::kSuper) {
      const Float d = Lanes::load_halves(at.header + 2 * at.lane);
      const Float m = Lanes::load_halves(at.header + 32 + 2 * at.lane);
      scale.d[0] = Lanes::times(d, Lanes::load_unsigned(from + at.lane));
      scale.m = Lanes::minus(Lanes::times(m, Lanes::load_unsigned(from + 16 + at.lane)));
    } else {
      const Float d = Lanes::load_halves(at.header + 2 * at.lane);
      scale.d[0] = Lanes::times(d, Lanes::load_signed(from + at.lane));
      scale.d[1] = Lanes::times(d, Lanes::load_signed(from + 16 + at.lane));
    }
    return scale;
  }

  // acc of one row, one group further.
  static void add(const Codes& codes, const Scale& scale, const std::byte* record, float* acc) {
    Float sum = Lanes::load(acc);
    const Float da = Lanes::all_of(record + offsetof(RowRecord, scale));
    if constexpr (kHalves == 1) {
      const Int dot = Lanes::template dot<kShape.bits, kShape.zero, 0, 8>(codes, record);
      sum = Lanes::fma(Lanes::to_float(dot), Lanes::times(scale.d[0], da), sum);
    } else {
      const Int low = Lanes::template dot<kShape.bits, kShape.zero, 0, 4>(codes, record);
      const Int high = Lanes::template dot<kShape.bits, kShape.zero, 4, 8>(codes, record);
      sum = Lanes::fma(Lanes::to_float(low), Lanes::times(scale.d[0], da), sum);
      sum = Lanes::fma(Lanes::to_float(high), Lanes::times(scale.d[1], da), sum);
    }
    if constexpr (kShape.minimum()) {
      sum = Lanes::fma(scale.m, Lanes::all_of(record + offsetof(RowRecord, sum)), sum);
    }
    Lanes::store(acc, sum);
  }

  // One block of rows by kUnitsNow vectors of outputs.
  template <std::uint32_t kNow>
  static void block(Cursor* at, std::uint32_t groups, const std::byte* records, std::uint32_t rows,
                    float (*acc)[kUnits * Lanes::kCount]) {
    for (std::uint32_t r = 0; r < rows; ++r) std::fill(acc[r], acc[r] + kNow * Lanes::kCount, 0.0f);
    for (std::uint32_t g = 0; g < groups; ++g) {
      Codes codes[kNow];
      Scale scale[kNow];
      for (std::uint32_t u = 0; u < kNow; ++u) {
        at[u].open(g);
        codes[u].load(at[u].data + 4 * at[u].lane);
        scale[u] = read_scale(at[u]);
        at[u].close();
      }
      for (std::uint32_t r = 0; r < rows; ++r, records += kRecordBytes) {
        for (std::uint32_t u = 0; u < kNow; ++u) {
          add(codes[u], scale[u], records, acc[r] + u * Lanes::kCount);
        }
      }
    }
  }

  static void store(const Target& to, std::uint32_t output, std::uint32_t count,
                    const float (*acc)[kUnits * Lanes::kCount], std::uint32_t first,
                    std::uint32_t rows) {
    if (output >= to.outputs) return;
    count = std::min(count, to.outputs - output);
    for (std::uint32_t r = 0; r < rows; ++r) {
      const std::size_t at = std::size_t{first + r} * to.outputs + output;
      for (std::uint32_t n = 0; n < count; ++n) {
        float value = acc[r][n] + (to.bias == nullptr ? 0.0f : to.bias[output + n]);
        if (to.add != nullptr) value += to.add[at + n];
        to.out[at + n] = value;
      }
    }
  }

  static void run(const Matrix& weight, const Target& to, const std::byte* records,
                  std::uint32_t rows_begin, std::uint32_t rows, std::uint32_t begin,
                  std::uint32_t end) {
    constexpr std::uint32_t kParts = kPanel / Lanes::kCount;  // vectors of a panel
    const std::uint32_t groups = weight.inputs / kGroup;
    const std::size_t bytes = kShape.panel_bytes(weight.inputs);
    alignas(64) float acc[kBlockRows][kUnits * Lanes::kCount];
    for (std::uint32_t unit = begin * kParts; unit < end * kParts; unit += kUnits) {
      const std::uint32_t now = std::min(kUnits, end * kParts - unit);
      for (std::uint32_t first = rows_begin; first < rows; first += kBlockRows) {
        const std::uint32_t count = std::min(kBlockRows, rows - first);
        Cursor at[kUnits];
        for (std::uint32_t u = 0; u < now; ++u) {
          at[u] = Cursor(weight.data + (unit + u) / kParts * bytes,
                         (unit + u) % kParts * Lanes::kCount);
        }
        const std::byte* from = records + std::size_t{first} * groups * kRecordBytes;
        if (now == kUnits) {
          block<kUnits>(at, groups, from, count, acc);
        } else {
          block<1>(at, groups, from, count, acc);
        }
        store(to, unit * Lanes::kCount, now * Lanes::kCount, acc, first, count);
      }
    }
  }
};

// Calls `run` with the weight's shape as a constant.
template <typename Run>
void with_shape(Format format, const Run& run) {
  switch (format) {
    case Format::kQ4_0:
      return run.template operator()<shape_of(Format::kQ4_0)>();
    case Format::kQ4_1:
      return run.template operator()<shape_of(Format::kQ4_1)>();
    case Format::kQ5_0:
      return run.template operator()<shape_of(Format::kQ5_0)>();
    case Format::kQ5_1:
      return run.template operator()<shape_of(Format::kQ5_1)>();
    case Format::kQ8_0:
      return run.template operator()<shape_of(Format::kQ8_0)>();
    case Format::kQ4_K:
      return run.template operator()<shape_of(Format::kQ4_K)>();
    case Format::kQ5_K:
      return run.template operator()<shape_of(Format::kQ5_K)>();
    case Format::kQ6_K:
      return run.template operator()<shape_of(Format::kQ6_K)>();
  }
}

template <typename Lanes>
void multiply(const Matrix& weight, const float* bias, const float* add, const std::byte* records,
              std::uint32_t rows, std::uint32_t begin, std::uint32_t end, float* out) {
  const Target to{.bias = bias, .add = add, .out = out, .outputs = weight.outputs};
  with_shape(weight.format, [&]<Shape kShape>() {
    Multiply<Lanes, kShape>::run(weight, to, records, 0, rows, begin, end);
  });
}

template <typename Lanes, typename Records = CodeRecords<Lanes>>
constexpr Kernels table_of(Isa isa, decltype(Kernels::multiply) multiply_rows = multiply<Lanes>) {
  using Work = RowWork<Lanes, Records>;
  return {.isa = isa,
          .record_bytes = Records::kBytes,
          .record_rows = Records::kRows,
          .quantize = Work::quantize,
          .normalize = Work::normalize,
          .activate = Work::activate,
          .rotate = Work::rotate,
          .multiply = multiply_rows};
}

}  // namespace
}  // namespace quire::linear
