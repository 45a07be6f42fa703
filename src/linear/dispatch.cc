// Which level of linear kernels runs on this machine.
#include "kernels/kernels.h"
#include "linear/levels.h"

#if !defined(QUIRE_SCALAR_ONLY) && defined(__x86_64__)
#define QUIRE_X86_LEVELS 1
#include <cpuid.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace quire::linear {
namespace {

#ifdef QUIRE_X86_LEVELS
struct Leaf {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Leaf extended_features(unsigned part) {
  Leaf leaf;
  if (__get_cpuid_count(7, part, &leaf.a, &leaf.b, &leaf.c, &leaf.d) == 0) return {};
  return leaf;
}

// Linux hands out the 8 KiB of tile state to processes that ask for it.
bool system_grants_tiles() {
#ifdef __linux__
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // asm/prctl.h, from Linux 5.16
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

bool find(Isa isa) {
  constexpr unsigned kAvxVnniBit = 1u << 4, kAvx512VnniBit = 1u << 11;
  constexpr unsigned kAmxBits = 1u << 24 | 1u << 25;  // tiles, 8-bit products
  switch (isa) {
    case Isa::kAvxVnni:
      return find(Isa::kAvx2) && (extended_features(1).a & kAvxVnniBit) != 0;
    case Isa::kAvx512Vnni:
      return find(Isa::kAvx512) && (extended_features(0).c & kAvx512VnniBit) != 0;
    case Isa::kAmx:
      return find(Isa::kAvx512Vnni) && (extended_features(0).d & kAmxBits) == kAmxBits &&
             system_grants_tiles();
    default:
      return kernels::machine_has(isa);
  }
}
#endif

}  // namespace

bool machine_has(Isa isa) {
#ifdef QUIRE_X86_LEVELS
  return find(isa);
#else
  return isa == Isa::kAuto || isa == Isa::kScalar;
#endif
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
