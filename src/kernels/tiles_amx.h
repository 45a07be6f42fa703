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
