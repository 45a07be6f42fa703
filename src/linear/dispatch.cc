// Which level of linear kernels runs on this machine.
#include "kernels/kernels.h"
#include "linear/levels.h"

#if !defined(QUIRE_SCALAR_ONLY) && defined(__x86_64__)
#define QUIRE_X86_LEVELS 1
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace quire::linear {
namespace {

#ifdef QUIRE_X86_LEVELS
// Linux hands out the 8 KiB of tile state to processes that ask for it.
bool system_grants_tiles() {
#ifdef __linux__
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // asm/prctl.h, from Linux 5.16
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

#endif

}  // namespace

bool machine_has(Isa isa) {
#ifdef QUIRE_X86_LEVELS
  if (isa == Isa::kAmx && kernels::machine_has(isa)) return system_grants_tiles();
#endif
  return kernels::machine_has(isa);
}

const Kernels& kernels_for([[maybe_unused]] Isa limit) {
#ifdef QUIRE_X86_LEVELS
  struct Level {
    Isa isa;
    const Kernels& (*kernels)();
  };
  constexpr Level kLevels[] = {{Isa::kAmx, amx_kernels},
                               {Isa::kAvx512Vnni, avx512vnni_kernels},
                               {Isa::kAvx512, avx512_kernels},
                               {Isa::kAvxVnni, avxvnni_kernels},
                               {Isa::kAvx2, avx2_kernels}};
  for (const Level& level : kLevels) {
    if (limit != Isa::kAuto && level.isa > limit) continue;
    if (machine_has(level.isa)) return level.kernels();
  }
#endif
  return scalar_kernels();
}

}  // namespace quire::linear
