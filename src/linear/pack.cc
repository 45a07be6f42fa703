// GGUF blocks to panels and back.  The blocks are the file format's (gguf-py/gguf/quants.py of
// llama.cpp describes them); every code and scale is moved as it is.
#include <algorithm>
#include <cstring>

#include "kernels/half.h"
#include "linear/layout.h"

namespace quire::linear {
namespace {

using kernels::float_of_half;

// Up to 8 groups of one output: what a source block holds, whatever its format.
struct Codes {
  // Of each group: byte i holds the low 4 bits of the codes of inputs i and i + 16 (the file's own
  // order in the formats with groups of 32), or 32 codes of 8 bits.
  std::uint8_t low[kSuperGroups][kGroup];
  std::uint8_t top[kSuperGroups][kGroup];  // the codes' further bits
  std::uint16_t d, m;                    // f16 as stored; of the super-block under Scales::kSuper*
  std::uint8_t scale[2 * kSuperGroups];  // kSuper: [8] scales; kSuperHalf: two a group
  std::uint8_t minimum[kSuperGroups];
};

std::uint32_t block_groups(Format format) {
  return shape_of(format).super() ? kSuperGroups : 1;
}

std::size_t block_bytes(Format format) {
  switch (format) {
    case Format::kQ4_0:
      return 18;
    case Format::kQ4_1:
      return 20;
    case Format::kQ5_0:
      return 22;
    case Format::kQ5_1:
      return 24;
    case Format::kQ8_0:
      return 34;
    case Format::kQ4_K:
      return 144;
    case Format::kQ5_K:
      return 176;
    case Format::kQ6_K:
      break;
  }
  return 210;
}

std::uint16_t half_at(const std::uint8_t* from) {
  return static_cast<std::uint16_t>(from[0] | from[1] << 8);
}

// Q4_0, Q4_1, Q5_0, Q5_1: d (m) (high bits) nibbles; the low ones are inputs 0-15.
void read_legacy(const std::uint8_t* from, bool minimum, bool five, Codes& to) {
  to.d = half_at(from);
  from += 2;
  if (minimum) {
    to.m = half_at(from);
    from += 2;
  }
  std::uint32_t high = 0;
  if (five) {
    std::memcpy(&high, from, sizeof high);
    from += 4;
  }
  std::copy(from, from + 16, to.low[0]);
  if (!five) return;
  for (std::uint32_t i = 0; i < kGroup; ++i) {
    to.top[0][i] = static_cast<std::uint8_t>(high >> i & 1);
  }
}

// Q4_K, Q5_K: d, dmin, 8 scales and 8 minima of 6 bits in 12 bytes, (high bits), nibbles: of 64
// inputs, the low ones are the first 32.
void read_super(const std::uint8_t* from, bool five, Codes& to) {
  to.d = half_at(from);
  to.m = half_at(from + 2);
  const std::uint8_t* packed = from + 4;
  for (std::uint32_t g = 0; g < 4; ++g) {
    to.scale[g] = packed[g] & 63;
    to.minimum[g] = packed[g + 4] & 63;
    to.scale[g + 4] = static_cast<std::uint8_t>((packed[g + 8] & 15) | packed[g] >> 6 << 4);
    to.minimum[g + 4] = static_cast<std::uint8_t>(packed[g + 8] >> 4 | packed[g + 4] >> 6 << 4);
  }
  const std::uint8_t* high = from + 16;
  const std::uint8_t* low = five ? high + 32 : high;
  for (std::uint32_t g = 0; g < kSuperGroups; ++g) {
    const std::uint8_t* from_group = low + g / 2 * kGroup;
    for (std::uint32_t i = 0; i < 16; ++i) {
      const std::uint32_t a = from_group[i], b = from_group[i + 16];
      to.low[g][i] =
          static_cast<std::uint8_t>(g % 2 == 0 ? (a & 15) | (b & 15) << 4 : a >> 4 | (b & 0xf0));
    }
    if (!five) continue;
    for (std::uint32_t i = 0; i < kGroup; ++i) {
      to.top[g][i] = static_cast<std::uint8_t>(high[i] >> g & 1);
    }
  }
}

// Q6_K: per 128 inputs 64 bytes of nibbles and 32 of pairs of bits; 16 signed scales; d.
void read_six(const std::uint8_t* from, Codes& to) {
  const std::uint8_t *low = from, *high = from + 128, *scales = from + 192;
  to.d = half_at(from + 208);
  std::copy(scales, scales + 16, to.scale);
  for (std::uint32_t g = 0; g < kSuperGroups; ++g) {
    const std::uint32_t quarter = g % 4;
    const std::uint8_t* nibbles = low + g / 4 * 64 + quarter % 2 * kGroup;
    const std::uint8_t* pairs = high + g / 4 * kGroup;
    for (std::uint32_t i = 0; i < 16; ++i) {
      const std::uint32_t a = nibbles[i], b = nibbles[i + 16];
      to.low[g][i] =
          static_cast<std::uint8_t>(quarter < 2 ? (a & 15) | (b & 15) << 4 : a >> 4 | (b & 0xf0));
    }
    for (std::uint32_t i = 0; i < kGroup; ++i) {
      to.top[g][i] = static_cast<std::uint8_t>(pairs[i] >> 2 * quarter & 3);
    }
  }
}

void read_block(Format format, const std::byte* source, Codes& to) {
  const auto* from = reinterpret_cast<const std::uint8_t*>(source);
  switch (format) {
    case Format::kQ4_0:
      return read_legacy(from, false, false, to);
    case Format::kQ4_1:
      return read_legacy(from, true, false, to);
    case Format::kQ5_0:
      return read_legacy(from, false, true, to);
    case Format::kQ5_1:
      return read_legacy(from, true, true, to);
    case Format::kQ8_0:
      to.d = half_at(from);
      for (std::uint32_t i = 0; i < kGroup; ++i) {
        to.low[0][i] = static_cast<std::uint8_t>(from[2 + i] ^ 128u);
      }
      return;
    case Format::kQ4_K:
      return read_super(from, false, to);
    case Format::kQ5_K:
      return read_super(from, true, to);
    case Format::kQ6_K:
      return read_six(from, to);
  }
}

// Where code `input` of output `n` lies in a group.
struct Place {
  std::size_t low, high;  // bytes from the group's start
  std::uint32_t low_shift, high_shift;
};

Place place_of(std::uint32_t bits, std::uint32_t n, std::uint32_t input) {
  const std::uint32_t vector = input / 4, byte = n * 4 + input % 4;
  if (bits == 8) return {vector * 64 + byte, 0, 0, 0};
  const std::uint32_t pairs = bits == 6 ? vector / 4 : 0;
  return {vector % 4 * 64 + byte, 256 + pairs * 64 + byte, vector / 4 * 4,
          bits == 6 ? 2 * (vector % 4) : vector};
}

void put_half(std::uint8_t* to, std::uint32_t n, std::uint16_t half) {
  std::memcpy(to + n * std::size_t{2}, &half, sizeof half);
}

// Codes of one group of output n: four inputs of a vector are four bytes side by side.
void put_codes(std::uint8_t* group, std::uint32_t bits, std::uint32_t n, const std::uint8_t* low,
               const std::uint8_t* top) {
  for (std::uint32_t j = 0; j < (bits == 8 ? 8u : 4u); ++j) {
    std::memcpy(group + j * 64 + n * 4, low + 4 * j, 4);
  }
  if (bits != 5 && bits != 6) return;
  for (std::uint32_t b = 0; b < 4; ++b) {
    std::uint32_t byte[2] = {0, 0};
    for (std::uint32_t j = 0; j < 8; ++j) {
      byte[bits == 6 ? j / 4 : 0] |= std::uint32_t{top[4 * j + b]} << (bits == 6 ? 2 * (j % 4) : j);
    }
    group[256 + n * 4 + b] = static_cast<std::uint8_t>(byte[0]);
    if (bits == 6) group[320 + n * 4 + b] = static_cast<std::uint8_t>(byte[1]);
  }
}

std::uint32_t get_code(const std::uint8_t* group, std::uint32_t bits, std::uint32_t n,
                       std::uint32_t input) {
  const Place place = place_of(bits, n, input);
  if (bits == 8) return group[place.low];
  const std::uint32_t low = group[place.low] >> place.low_shift & 15u;
  if (bits == 4) return low;
  return low | (group[place.high] >> place.high_shift & (bits == 6 ? 3u : 1u)) << 4;
}

float half_of(const std::uint8_t* from, std::uint32_t n) {
  return float_of_half(half_at(from + n * std::size_t{2}));
}

}  // namespace

std::uint32_t row_inputs(Format format) {
  return block_groups(format) * kGroup;
}

std::size_t source_bytes(Format format, std::uint32_t inputs) {
  return inputs / row_inputs(format) * block_bytes(format);
}

std::size_t panel_bytes(Format format, std::uint32_t inputs) {
  return shape_of(format).panel_bytes(inputs);
}

void pack_panel(Format format, const std::byte* source, std::uint32_t inputs, std::uint32_t outputs,
                std::uint32_t panel, std::byte* data) {
  const Shape shape = shape_of(format);
  const std::size_t bytes = shape.panel_bytes(inputs), row = source_bytes(format, inputs);
  auto* to = reinterpret_cast<std::uint8_t*>(data + panel * bytes);
  std::fill(to, to + bytes, std::uint8_t{0});
  const std::uint32_t groups = block_groups(format), blocks = inputs / (groups * kGroup);
  const std::uint32_t columns = std::min(kPanel, outputs - panel * kPanel);
  Codes codes;
  for (std::uint32_t block = 0; block < blocks; ++block) {
    std::uint8_t* header = to;
    std::uint8_t* first = to + shape.header_bytes();
    for (std::uint32_t n = 0; n < columns; ++n) {
      read_block(format, source + (panel * kPanel + n) * row + block * block_bytes(format), codes);
      if (shape.super()) put_half(header, n, codes.d);
      if (shape.scales == Scales::kSuper) put_half(header + 32, n, codes.m);
      for (std::uint32_t g = 0; g < groups; ++g) {
        std::uint8_t* group = first + g * shape.group_bytes();
        put_codes(group, shape.bits, n, codes.low[g], codes.top[g]);
        std::uint8_t* scales = group + shape.code_bytes();
        if (!shape.super()) put_half(scales, n, codes.d);
        if (shape.scales == Scales::kMinimum) put_half(scales + 32, n, codes.m);
        if (shape.scales == Scales::kSuper) {
          scales[n] = codes.scale[g];
          scales[16 + n] = codes.minimum[g];
        }
        if (shape.scales == Scales::kSuperHalf) {
          scales[n] = codes.scale[2 * g];
          scales[16 + n] = codes.scale[2 * g + 1];
        }
      }
    }
    to = first + groups * shape.group_bytes();
  }
}

void unpack_output(const Matrix& weight, std::uint32_t output, float* to) {
  const Shape shape = shape_of(weight.format);
  const std::uint32_t n = output % kPanel;
  const auto* group = reinterpret_cast<const std::uint8_t*>(
      weight.data + output / kPanel * shape.panel_bytes(weight.inputs));
  const std::uint8_t* header = group;
  for (std::uint32_t g = 0; g < weight.inputs / kGroup; ++g) {
    if (shape.super() && g % kSuperGroups == 0) {
      header = group;
      group += shape.header_bytes();
    }
    const std::uint8_t* scales = group + shape.code_bytes();
    float d[2], m = 0;
    switch (shape.scales) {
      case Scales::kMinimum:
        m = half_of(scales + 32, n);
        [[fallthrough]];
      case Scales::kPlain:
        d[0] = d[1] = half_of(scales, n);
        break;
      case Scales::kSuper:
        d[0] = d[1] = half_of(header, n) * static_cast<float>(scales[n]);
        m = -(half_of(header + 32, n) * static_cast<float>(scales[16 + n]));
        break;
      case Scales::kSuperHalf:
        for (std::uint32_t half = 0; half < 2; ++half) {
          d[half] = half_of(header, n) *
                    static_cast<float>(static_cast<std::int8_t>(scales[16 * half + n]));
        }
        break;
    }
    for (std::uint32_t i = 0; i < kGroup; ++i) {
      const auto code = static_cast<std::int32_t>(get_code(group, shape.bits, n, i));
      *to++ = d[i / 16] * static_cast<float>(code - static_cast<std::int32_t>(shape.zero)) + m;
    }
    group += shape.group_bytes();
  }
}

}  // namespace quire::linear
