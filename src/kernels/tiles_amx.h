// The tile registers of AMX.  Include only from *_amx.cc.
#pragma once

#if defined(__AMX_TILE__) || defined(__AMXTILE__)

#include <immintrin.h>

#include <cstdint>

namespace quire::kernels {
namespace {

constexpr std::uint32_t kTileRows = 16;

// Palette 1 of the architecture: bytes a row and rows of each of 8 tiles.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

// All tiles of 16 rows of 64 bytes.
[[maybe_unused]] constexpr TileConfig full_tiles() {
  TileConfig config;
  for (std::uint32_t tile = 0; tile < 8; ++tile) {
    config.row_bytes[tile] = 64;
    config.rows[tile] = kTileRows;
  }
  return config;
}

// 32 floats as bf16, `low` in words 0-15.
[[maybe_unused]] inline __m512i bfloats(__m512 high, __m512 low) {
  return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}
// Of bfloats(odd, even): the pairs (even[n], odd[n]), as a row of a tile's second operand holds
// them.
[[maybe_unused]] inline __m512i interleaved(__m512i words) {
  alignas(64) static constexpr auto kOrder = [] {
    struct {
      std::uint16_t word[32];
    } order{};
    for (std::uint16_t n = 0; n < 16; ++n) {
      order.word[2 * n] = n;
      order.word[2 * n + 1] = static_cast<std::uint16_t>(n + 16);
    }
    return order;
  }();
  return _mm512_permutexvar_epi16(_mm512_load_si512(kOrder.word), words);
}

// Configures the calling thread's tiles for its lifetime.
class Tiles {
 public:
  explicit Tiles(const TileConfig& config) {
    // g++ 12's own intrinsic names 8 bytes as its input and lets the other stores go.
    asm volatile("ldtilecfg %0" : : "m"(config));
  }
  ~Tiles() { asm volatile("tilerelease"); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
};

[[maybe_unused]] void fence() {  // the intrinsics do not say which memory they touch
  asm volatile("" : : : "memory");
}

}  // namespace
}  // namespace quire::kernels

#endif  // AMX
