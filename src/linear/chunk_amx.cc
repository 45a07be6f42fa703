// Chunks of many rows on AMX: weights and activations as bf16, sums in f32 tiles.  No group's sum
// is scaled on its own, which is what the 8-bit kernels spend most of their time on; the price is
// that a row's bits are not those of the same row alone, so only the default mode comes here.
//
// Rows lie in tiles: group g (32 inputs) of row r at ((r / 16 * groups + g) * 16 + r % 16) * 64
// bytes, 32 bf16.
#ifdef __x86_64__

#include <algorithm>
#include <cstring>

#include "kernels/tiles_amx.h"
#include "linear/lanes_avx512vnni.h"
#include "linear/multiply_impl.h"

namespace quire::linear {
namespace {

using kernels::fence;
using kernels::kTileRows;
using kernels::TileConfig;
using kernels::Tiles;

constexpr std::size_t kTileBytes = 1024;
constexpr std::uint32_t kInputTiles = 16;  // weights unpacked at a time: 512 inputs of two panels
constexpr std::uint32_t kRowTiles = 32;    // rows at a time

constexpr TileConfig kTiles = kernels::full_tiles();

struct BfloatRows {
  static constexpr std::uint32_t kBytes = 64, kRows = kTileRows;
  static std::size_t offset(std::uint32_t, std::uint32_t inputs, std::uint32_t row,
                            std::uint32_t group) {
    const std::size_t tile = std::size_t{row} / kTileRows * (inputs / kGroup) + group;
    return tile * kTileBytes + row % kTileRows * 64;
  }
  static void write(const float* x, std::byte* to) {
    _mm512_storeu_si512(to, kernels::bfloats(_mm512_loadu_ps(x + 16), _mm512_loadu_ps(x)));
  }
};

// The codes of a group as weights: input pairs of 16 outputs in one vector each, [16][16][2] bf16.
template <Shape kShape>
void unpack_group(const typename Multiply<Avx512VnniLanes, kShape>::Cursor& at, std::byte* to) {
  using Lanes = Avx512VnniLanes;
  using Base = Multiply<Lanes, kShape>;
  const auto scale = Base::read_scale(at);
  typename Base::Codes codes;
  codes.load(at.data);
  constexpr float kZero = static_cast<float>(kShape.zero);
  const __m512i byte = _mm512_set1_epi32(255);
  for (std::uint32_t j = 0; j < 8; ++j) {
    const __m512 d = scale.d[j / 4 * (Base::kHalves - 1)];
    __m512 shift;  // value of code 0
    if constexpr (kShape.minimum()) {
      shift = scale.m;
    } else {
      shift = Lanes::times(d, _mm512_set1_ps(-kZero));
    }
    const __m512i v = codes.v[j];
    const __m512i code[4] = {
        _mm512_and_si512(v, byte), _mm512_and_si512(_mm512_srli_epi32(v, 8), byte),
        _mm512_and_si512(_mm512_srli_epi32(v, 16), byte), _mm512_srli_epi32(v, 24)};
    __m512 weight[4];
    for (std::uint32_t b = 0; b < 4; ++b) {
      weight[b] = Lanes::fma(Lanes::to_float(code[b]), d, shift);
    }
    for (std::uint32_t pair = 0; pair < 2; ++pair) {
      const __m512i both = kernels::bfloats(weight[2 * pair + 1], weight[2 * pair]);
      _mm512_store_si512(to + (2 * j + pair) * 64, kernels::interleaved(both));
    }
  }
}

// Tiles 0-3: sums of two row tiles by two panels; 4, 5: rows; 6, 7: weights.
struct Block {
  const std::byte* rows;  // of the first row tile and input tile
  std::size_t row_tile_bytes;
  const std::byte* weights;  // [2][kInputTiles][1024]
  std::uint32_t input_tiles;
  float (*sums)[2][kTileRows][kPanel];  // [row tile][panel]
  bool first;                           // sums start from 0
};

template <bool kTwo>  // row tiles
void tile_block(const Block& block) {
  if (block.first) {
    _tile_zero(0);
    _tile_zero(1);
    if constexpr (kTwo) {
      _tile_zero(2);
      _tile_zero(3);
    }
  } else {
    _tile_loadd(0, block.sums[0][0], 64);
    _tile_loadd(1, block.sums[0][1], 64);
    if constexpr (kTwo) {
      _tile_loadd(2, block.sums[1][0], 64);
      _tile_loadd(3, block.sums[1][1], 64);
    }
  }
  for (std::uint32_t k = 0; k < block.input_tiles; ++k) {
    _tile_loadd(6, block.weights + k * kTileBytes, 64);
    _tile_loadd(7, block.weights + (kInputTiles + k) * kTileBytes, 64);
    _tile_loadd(4, block.rows + k * kTileBytes, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (kTwo) {
      _tile_loadd(5, block.rows + block.row_tile_bytes + k * kTileBytes, 64);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, block.sums[0][0], 64);
  _tile_stored(1, block.sums[0][1], 64);
  if constexpr (kTwo) {
    _tile_stored(2, block.sums[1][0], 64);
    _tile_stored(3, block.sums[1][1], 64);
  }
}

void store_rows(const Target& to, std::uint32_t panel, std::uint32_t panels, std::uint32_t first,
                std::uint32_t rows, const float (*sums)[2][kTileRows][kPanel]) {
  for (std::uint32_t u = 0; u < panels; ++u) {
    const std::uint32_t output = (panel + u) * kPanel;
    const std::uint32_t count = std::min(kPanel, to.outputs - output);
    const auto mask = static_cast<__mmask16>((1u << count) - 1);
    const __m512 bias =
        to.bias == nullptr ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(mask, to.bias + output);
    for (std::uint32_t r = 0; r < rows; ++r) {
      const std::size_t at = std::size_t{first + r} * to.outputs + output;
      __m512 sum = _mm512_add_ps(_mm512_load_ps(sums[r / kTileRows][u][r % kTileRows]), bias);
      if (to.add != nullptr) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, to.add + at));
      _mm512_mask_storeu_ps(to.out + at, mask, sum);
    }
  }
}

template <Shape kShape>
void multiply_chunk(const Matrix& weight, const Target& to, const std::byte* records,
                    std::uint32_t rows, std::uint32_t begin, std::uint32_t end) {
  using Cursor = typename Multiply<Avx512VnniLanes, kShape>::Cursor;
  alignas(64) std::byte unpacked[2][kInputTiles][kTileBytes];
  alignas(64) float sums[kRowTiles][2][kTileRows][kPanel];
  const std::uint32_t groups = weight.inputs / kGroup;
  const std::size_t bytes = kShape.panel_bytes(weight.inputs);
  const std::size_t row_tile_bytes = groups * kTileBytes;
  const Tiles tiles(kTiles);
  for (std::uint32_t panel = begin; panel < end; panel += 2) {
    // The last panel of an odd number is multiplied twice; the copy is not stored.
    const std::uint32_t panels[2] = {panel, std::min(panel + 1, end - 1)};
    for (std::uint32_t first = 0; first < rows; first += kRowTiles * kTileRows) {
      const std::uint32_t now = std::min(kRowTiles * kTileRows, rows - first);
      const std::uint32_t row_tiles = (now + kTileRows - 1) / kTileRows;
      Cursor at[2] = {Cursor(weight.data + panels[0] * bytes),
                      Cursor(weight.data + panels[1] * bytes)};
      for (std::uint32_t g = 0; g < groups; g += kInputTiles) {
        const std::uint32_t input_tiles = std::min(kInputTiles, groups - g);
        for (std::uint32_t k = 0; k < input_tiles; ++k) {
          for (std::uint32_t u = 0; u < 2; ++u) {
            at[u].open(g + k);
            unpack_group<kShape>(at[u], unpacked[u][k]);
            at[u].close();
          }
        }
        fence();
        for (std::uint32_t t = 0; t < row_tiles; t += 2) {
          const Block block{
              .rows = records + (first / kTileRows + t) * row_tile_bytes + g * kTileBytes,
              .row_tile_bytes = row_tile_bytes,
              .weights = unpacked[0][0],
              .input_tiles = input_tiles,
              .sums = sums + t,
              .first = g == 0};
          if (t + 1 < row_tiles) {
            tile_block<true>(block);
          } else {
            tile_block<false>(block);
          }
        }
        fence();
      }
      store_rows(to, panel, std::min(2u, end - panel), first, now, sums);
    }
  }
}

void multiply_bfloats(const Matrix& weight, const float* bias, const float* add,
                      const std::byte* records, std::uint32_t rows, std::uint32_t begin,
                      std::uint32_t end, float* out) {
  const Target to{.bias = bias, .add = add, .out = out, .outputs = weight.outputs};
  with_shape(weight.format, [&]<Shape kShape>() {
    multiply_chunk<kShape>(weight, to, records, rows, begin, end);
  });
}

constexpr Kernels kTable = table_of<Avx512VnniLanes, BfloatRows>(Isa::kAmx, multiply_bfloats);

}  // namespace

const Kernels& amx_chunk_kernels() {
  return kTable;
}

}  // namespace quire::linear

#endif  // __x86_64__
