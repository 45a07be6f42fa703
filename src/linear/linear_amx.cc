// Linear layers for AMX (8-bit tiles): 16 rows x 16 outputs x 32 inputs in one instruction.  The
// sums are integers, so the results have the bits of every other level.  Few rows go to VNNI.
#ifdef __x86_64__

#include <algorithm>
#include <cstring>

#include "linear/lanes_avx512vnni.h"
#include "linear/multiply_impl.h"

namespace quire::linear {
namespace {

constexpr std::uint32_t kTileRows = 16;
// Below this many rows a tile is mostly empty and unpacking into it costs more than it saves.
constexpr std::uint32_t kFewestRows = 8;

// Palette 1 of the architecture: bytes a row and rows of each of 8 tiles.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

// Tiles 0-3: sums [16 rows][16 outputs] i32.  4, 5: rows [16][32 inputs] i8.  6, 7: codes of two
// panels [8][16 outputs][4 inputs].
class Tiles {
 public:
  Tiles() {
    TileConfig config;
    for (std::uint32_t tile = 0; tile < 8; ++tile) {
      config.row_bytes[tile] = tile == 4 || tile == 5 ? kGroup : 64;
      config.rows[tile] = tile < 6 ? kTileRows : 8;
    }
    // g++ 12's own intrinsic names 8 bytes as its input and lets the other stores go.
    asm volatile("ldtilecfg %0" : : "m"(config));
  }
  ~Tiles() { asm volatile("tilerelease"); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
};

void fence() {  // the intrinsics do not say which memory they touch
  asm volatile("" : : : "memory");
}

// sums[2][16][16] = rows [16] records by the two panels' codes in tiles 6 and 7.
template <bool kSigned>
void tile_products(const std::byte* records, std::int32_t* sums) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_loadd(4, records, kRecordBytes);
  if constexpr (kSigned) {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
  } else {
    _tile_dpbsud(0, 4, 6);
    _tile_dpbsud(1, 4, 7);
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

  // A group's codes of both panels into `to` [2][8][64], zero taken off.
  static void unpack(const Cursor* at, std::byte* to) {
    for (std::uint32_t u = 0; u < 2; ++u) {
      typename Base::Codes codes;
      codes.load(at[u].data);
      for (std::uint32_t j = 0; j < 8; ++j) {
        __m512i code = codes.v[j];
        if constexpr (kSigned)
          code = _mm512_sub_epi8(code, _mm512_set1_epi8(static_cast<char>(kShape.zero)));
        _mm512_store_si512(to + u * 512 + j * 64, code);
      }
    }
  }

  static void add(const std::int32_t* sums, const Scale* scale, const std::byte* records,
                  std::uint32_t rows, float (*acc)[2 * kPanel]) {
    for (std::uint32_t r = 0; r < rows; ++r, records += kRecordBytes) {
      const __m512 da = Lanes::all_of(records + offsetof(RowRecord, scale));
      for (std::uint32_t u = 0; u < 2; ++u) {
        __m512 sum = _mm512_load_ps(acc[r] + u * kPanel);
        const __m512i dot = _mm512_load_si512(sums + (u * kTileRows + r) * kPanel);
        sum = Lanes::fma(Lanes::to_float(dot), Lanes::times(scale[u].d[0], da), sum);
        if constexpr (kShape.minimum()) {
          sum = Lanes::fma(scale[u].m, Lanes::all_of(records + offsetof(RowRecord, sum)), sum);
        }
        _mm512_store_ps(acc[r] + u * kPanel, sum);
      }
    }
  }

  // Up to 64 rows by two panels.
  static void block(Cursor* at, std::uint32_t groups, const std::byte* records, std::uint32_t rows,
                    float (*acc)[2 * kPanel]) {
    alignas(64) std::byte codes[2 * 512];
    alignas(64) std::int32_t sums[2][2 * kTileRows * kPanel];
    alignas(64) std::byte last[kTileRows * kRecordBytes];
    for (std::uint32_t r = 0; r < rows; ++r) std::fill(acc[r], acc[r] + 2 * kPanel, 0.0f);
    const std::uint32_t whole = rows / kTileRows, rest = rows % kTileRows;
    for (std::uint32_t g = 0; g < groups; ++g, records += rows * kRecordBytes) {
      Scale scale[2];
      for (std::uint32_t u = 0; u < 2; ++u) {
        if (kShape.super() && g % kSuperGroups == 0) {
          at[u].header = at[u].data;
          at[u].data += kShape.header_bytes();
        }
        scale[u] = Base::read_scale(at[u]);
      }
      unpack(at, codes);
      for (std::uint32_t u = 0; u < 2; ++u) at[u].data += kShape.group_bytes();
      if (rest != 0) {
        std::memcpy(last, records + whole * kTileRows * kRecordBytes, rest * kRecordBytes);
      }
      fence();
      _tile_loadd(6, codes, 64);
      _tile_loadd(7, codes + 512, 64);
      // The next tile's products are under way while this one's sums are added.
      const std::uint32_t tiles = whole + (rest != 0 ? 1 : 0);
      for (std::uint32_t t = 0; t <= tiles; ++t) {
        if (t < tiles) {
          const std::byte* from = t < whole ? records + t * kTileRows * kRecordBytes : last;
          tile_products<kSigned>(from, sums[t % 2]);
        }
        fence();
        if (t == 0) continue;
        const std::uint32_t first = (t - 1) * kTileRows;
        add(sums[(t - 1) % 2], scale, records + first * kRecordBytes,
            std::min(kTileRows, rows - first), acc + first);
      }
    }
  }

  static void run(const Matrix& weight, const Target& to, const std::byte* records,
                  std::uint32_t rows, std::uint32_t begin, std::uint32_t end) {
    // The last rows of a chunk may be few: VNNI takes them, to the same bits.
    const std::uint32_t rest = rows % kBlockRows;
    const std::uint32_t tiled = rest >= kFewestRows ? rows : rows - rest;
    const std::uint32_t groups = weight.inputs / kGroup;
    const std::size_t bytes = kShape.panel_bytes(weight.inputs);
    alignas(64) float acc[kBlockRows][2 * kPanel];
    const Tiles tiles;
    std::uint32_t panel = begin;
    for (; panel + 2 <= end; panel += 2) {
      for (std::uint32_t first = 0; first < tiled; first += kBlockRows) {
        const std::uint32_t count = std::min(kBlockRows, tiled - first);
        Cursor at[2];
        for (std::uint32_t u = 0; u < 2; ++u) {
          at[u].data = at[u].header = weight.data + (panel + u) * bytes;
          at[u].lane = 0;
        }
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

constexpr Kernels kTable = [] {
  Kernels table = table_of<Avx512VnniLanes>(Isa::kAmx);
  table.multiply = multiply_amx;
  return table;
}();

}  // namespace

const Kernels& amx_kernels() {
  return kTable;
}

}  // namespace quire::linear

#endif  // __x86_64__
