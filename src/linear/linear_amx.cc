// Linear layers for AMX (8-bit tiles): 16 rows x 16 outputs x 32 inputs in one instruction.  The
// sums are integers, so the results have the bits of every other level.  Few rows go to VNNI.
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

// Below this many rows a tile is mostly empty and unpacking into it costs more than it saves.
constexpr std::uint32_t kFewestRows = 8;

constexpr TileConfig kTiles = [] {
  // 0, 1: sums [16 rows][16 outputs] i32 of two panels.  2, 3: rows [16][32 inputs] i8 of two
  // groups.  4-7: codes [8][16 outputs][4 inputs] of two groups of two panels.
  TileConfig config;
  for (std::uint32_t tile = 0; tile < 8; ++tile) {
    config.row_bytes[tile] = tile == 2 || tile == 3 ? kGroup : 64;
    config.rows[tile] = tile < 4 ? kTileRows : 8;
  }
  return config;
}();

// sums [2 panels][16][16] = rows (16 records) by the codes of group kGroupTile of the tiles.
template <bool kSigned, int kWhich>
void tile_products(const std::byte* records, std::int32_t* sums) {
  _tile_zero(0);
  _tile_zero(1);
  if constexpr (kWhich == 0) {
    _tile_loadd(2, records, kRecordBytes);
    if constexpr (kSigned) {
      _tile_dpbssd(0, 2, 4);
      _tile_dpbssd(1, 2, 5);
    } else {
      _tile_dpbsud(0, 2, 4);
      _tile_dpbsud(1, 2, 5);
    }
  } else {
    _tile_loadd(3, records, kRecordBytes);
    if constexpr (kSigned) {
      _tile_dpbssd(0, 3, 6);
      _tile_dpbssd(1, 3, 7);
    } else {
      _tile_dpbsud(0, 3, 6);
      _tile_dpbsud(1, 3, 7);
    }
  }
  _tile_stored(0, sums, 64);
  _tile_stored(1, sums + kTileRows * kPanel, 64);
}

template <Shape kShape>
struct AmxMultiply : Multiply<Avx512VnniLanes, kShape> {
  using Base = Multiply<Avx512VnniLanes, kShape>;
  using Lanes = Avx512VnniLanes;
  using Scale = typename Base::Scale;
  using Cursor = typename Base::Cursor;
  static constexpr bool kSigned = kShape.zero != 0;

  // Products of 16 rows and one or two groups whose sums wait to be scaled and added: the tiles
  // work on the next ones meanwhile.
  struct Step {
    alignas(64) std::int32_t sums[2][2][kTileRows][kPanel];  // [group][panel]
    const Scale (*scale)[2];                                 // [group][panel]
    const std::byte* records[2];                             // [group]
    float (*acc)[2 * kPanel];
    std::uint32_t rows, groups = 0;
  };

  // A group's codes of both panels into `to` [2][8][64], zero taken off.
  static void unpack(const Cursor* at, std::byte* to) {
    for (std::uint32_t u = 0; u < 2; ++u) {
      typename Base::Codes codes;
      codes.load(at[u].data);
      for (std::uint32_t j = 0; j < 8; ++j) {
        __m512i code = codes.v[j];
        if constexpr (kSigned) {
          code = _mm512_sub_epi8(code, _mm512_set1_epi8(static_cast<char>(kShape.zero)));
        }
        _mm512_store_si512(to + u * 512 + j * 64, code);
      }
    }
  }

  template <std::uint32_t kGroups>
  static void add_groups(const Step& step) {
    for (std::uint32_t r = 0; r < step.rows; ++r) {
      __m512 sum[2] = {_mm512_load_ps(step.acc[r]), _mm512_load_ps(step.acc[r] + kPanel)};
      for (std::uint32_t g = 0; g < kGroups; ++g) {
        const std::byte* record = step.records[g] + r * kRecordBytes;
        const __m512 da = Lanes::all_of(record + offsetof(RowRecord, scale));
        for (std::uint32_t u = 0; u < 2; ++u) {
          const Scale& scale = step.scale[g][u];
          const __m512 dot = Lanes::to_float(_mm512_load_si512(step.sums[g][u][r]));
          sum[u] = Lanes::fma(dot, Lanes::times(scale.d[0], da), sum[u]);
          if constexpr (kShape.minimum()) {
            const __m512 row_sum = Lanes::all_of(record + offsetof(RowRecord, sum));
            sum[u] = Lanes::fma(scale.m, row_sum, sum[u]);
          }
        }
      }
      _mm512_store_ps(step.acc[r], sum[0]);
      _mm512_store_ps(step.acc[r] + kPanel, sum[1]);
    }
  }
  static void add(const Step& step) {
    if (step.groups == 2) add_groups<2>(step);
    if (step.groups == 1) add_groups<1>(step);
  }

  // Up to 64 rows by two panels.
  static void block(Cursor* at, std::uint32_t groups, const std::byte* records, std::uint32_t rows,
                    float (*acc)[2 * kPanel]) {
    alignas(64) std::byte codes[2][2 * 512];
    alignas(64) std::byte last[2][kTileRows * kRecordBytes];
    Scale scales[2][2][2];  // of this pair of groups and the one before: [pair][group][panel]
    Step steps[2];
    std::uint32_t turn = 0;
    for (std::uint32_t r = 0; r < rows; ++r) std::fill(acc[r], acc[r] + 2 * kPanel, 0.0f);
    const std::uint32_t whole = rows / kTileRows * kTileRows, rest = rows - whole;
    for (std::uint32_t g = 0; g < groups; g += 2, records += 2 * rows * kRecordBytes) {
      const std::uint32_t now = std::min(2u, groups - g);
      Scale(*scale)[2] = scales[g / 2 % 2];
      for (std::uint32_t i = 0; i < now; ++i) {
        for (std::uint32_t u = 0; u < 2; ++u) {
          at[u].open(g + i);
          scale[i][u] = Base::read_scale(at[u]);
        }
        unpack(at, codes[i]);
        for (std::uint32_t u = 0; u < 2; ++u) at[u].close();
        if (rest != 0) {
          std::memcpy(last[i], records + (i * rows + whole) * kRecordBytes, rest * kRecordBytes);
        }
      }
      fence();
      _tile_loadd(4, codes[0], 64);
      _tile_loadd(5, codes[0] + 512, 64);
      if (now == 2) {
        _tile_loadd(6, codes[1], 64);
        _tile_loadd(7, codes[1] + 512, 64);
      }
      for (std::uint32_t first = 0; first < rows; first += kTileRows, turn ^= 1) {
        Step& step = steps[turn];
        step.rows = std::min(kTileRows, rows - first);
        step.groups = now;
        step.acc = acc + first;
        step.scale = scale;
        for (std::uint32_t i = 0; i < now; ++i) {
          step.records[i] = records + (i * rows + first) * kRecordBytes;
        }
        const bool partial = step.rows < kTileRows;
        tile_products<kSigned, 0>(partial ? last[0] : step.records[0], step.sums[0][0][0]);
        if (now == 2) {
          tile_products<kSigned, 1>(partial ? last[1] : step.records[1], step.sums[1][0][0]);
        }
        fence();
        add(steps[turn ^ 1]);
      }
    }
    add(steps[turn ^ 1]);
  }

  static void run(const Matrix& weight, const Target& to, const std::byte* records,
                  std::uint32_t rows, std::uint32_t begin, std::uint32_t end) {
    // The last rows of a chunk may be few: VNNI takes them, to the same bits.
    const std::uint32_t rest = rows % kBlockRows;
    const std::uint32_t tiled = rest >= kFewestRows ? rows : rows - rest;
    const std::uint32_t groups = weight.inputs / kGroup;
    const std::size_t bytes = kShape.panel_bytes(weight.inputs);
    alignas(64) float acc[kBlockRows][2 * kPanel];
    const Tiles tiles(kTiles);
    std::uint32_t panel = begin;
    for (; panel + 2 <= end; panel += 2) {
      for (std::uint32_t first = 0; first < tiled; first += kBlockRows) {
        const std::uint32_t count = std::min(kBlockRows, tiled - first);
        Cursor at[2] = {Cursor(weight.data + panel * bytes),
                        Cursor(weight.data + (panel + 1) * bytes)};
        block(at, groups, records + std::size_t{first} * groups * kRecordBytes, count, acc);
        Base::store(to, panel * kPanel, 2 * kPanel, acc, first, count);
      }
    }
    if (panel < end) Base::run(weight, to, records, 0, rows, panel, end);
    if (tiled < rows) Base::run(weight, to, records, tiled, rows, begin, panel);
  }
};

void multiply_amx(const Matrix& weight, const float* bias, const float* add,
                  const std::byte* records, std::uint32_t rows, std::uint32_t begin,
                  std::uint32_t end, float* out) {
  const Target to{.bias = bias, .add = add, .out = out, .outputs = weight.outputs};
  with_shape(weight.format, [&]<Shape kShape>() {
    // A scale per 16 inputs would fill half a tile.
    if constexpr (kShape.scales == Scales::kSuperHalf) {
      Multiply<Avx512VnniLanes, kShape>::run(weight, to, records, 0, rows, begin, end);
    } else if (rows < kFewestRows) {
      Multiply<Avx512VnniLanes, kShape>::run(weight, to, records, 0, rows, begin, end);
    } else {
      AmxMultiply<kShape>::run(weight, to, records, rows, begin, end);
    }
  });
}

constexpr Kernels kTable = table_of<Avx512VnniLanes>(Isa::kAmx, multiply_amx);

}  // namespace

const Kernels& amx_kernels() {
  static const Kernels table = [] {
    Kernels with_chunks = kTable;
    with_chunks.chunk = &amx_chunk_kernels();
    return with_chunks;
  }();
  return table;
}

}  // namespace quire::linear

#endif  // __x86_64__
