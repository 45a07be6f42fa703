// Compiled for AMX and called only where the machine has it.
#ifdef __x86_64__

#include "cli/bench_peaks.h"
#include "kernels/tiles_amx.h"

namespace quire::cli {

double amx_dot(std::uint64_t rounds) {
  constexpr kernels::TileConfig kConfig = kernels::full_tiles();
  const kernels::Tiles tiles(kConfig);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    asm volatile(
        "tdpbusd %tmm6, %tmm4, %tmm0\n\ttdpbusd %tmm7, %tmm4, %tmm1\n\t"
        "tdpbusd %tmm6, %tmm5, %tmm2\n\ttdpbusd %tmm7, %tmm5, %tmm3");
  }
  return static_cast<double>(rounds) * 4 * (16 * 16 * 64) * 2;
}

}  // namespace quire::cli

#endif  // __x86_64__
