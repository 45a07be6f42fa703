// Which level of linear kernels runs on this machine.
#include "kernels/kernels.h"
#include "linear/levels.h"

#if !defined(QUIRE_SCALAR_ONLY) && defined(__x86_64__)
#define QUIRE_X86_LEVELS 1
#endif

namespace quire::linear {

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
    if (kernels::machine_has(level.isa)) return level.kernels();
  }
#endif
  return scalar_kernels();
}

}  // namespace quire::linear
