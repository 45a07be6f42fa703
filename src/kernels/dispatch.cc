// Which level of kernels runs on this machine.
#include <algorithm>

#include "kernels/kernels.h"
#include "kernels/levels.h"
#include "kernels/row_block.h"

#if !defined(QUIRE_SCALAR_ONLY) && defined(__x86_64__)
#define QUIRE_X86_LEVELS 1
#include <cpuid.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace quire {

const char* name_of(Isa isa) {
  switch (isa) {
    case Isa::kAuto:
      return "auto";
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvxVnni:
      return "avxvnni";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Vnni:
      return "avx512vnni";
    case Isa::kAmx:
      return "amx";
  }
  return "unknown";
}

namespace kernels {
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

bool machine_has_f16c() {  // clang 14 cannot be asked by name
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
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

bool x86_has(Isa isa) {
  constexpr unsigned kAvxVnniBit = 1u << 4, kAvx512VnniBit = 1u << 11;
  constexpr unsigned kAvx512Bf16Bit = 1u << 5;
  constexpr unsigned kAmxBits = 1u << 22 | 1u << 24 | 1u << 25;  // bf16, tiles, 8-bit products
  switch (isa) {
    case Isa::kAvx2:
      // __builtin_cpu_supports also asks the operating system whether it saves the wide registers.
      return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
             machine_has_f16c();
    case Isa::kAvxVnni:
      return x86_has(Isa::kAvx2) && (extended_features(1).a & kAvxVnniBit) != 0;
    case Isa::kAvx512:
      return x86_has(Isa::kAvx2) && __builtin_cpu_supports("avx512f") != 0 &&
             __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
             __builtin_cpu_supports("avx512vl") != 0;
    case Isa::kAvx512Vnni:
      return x86_has(Isa::kAvx512) && (extended_features(0).c & kAvx512VnniBit) != 0;
    case Isa::kAmx:
      return x86_has(Isa::kAvx512Vnni) && (extended_features(1).a & kAvx512Bf16Bit) != 0 &&
             (extended_features(0).d & kAmxBits) == kAmxBits && system_grants_tiles();
    default:
      return false;
  }
}
#endif

}  // namespace

bool machine_has(Isa isa) {
#ifdef QUIRE_X86_LEVELS
  if (x86_has(isa)) return true;
#endif
  return isa == Isa::kAuto || isa == Isa::kScalar;
}

const Kernels* chunk_kernels_for([[maybe_unused]] Isa limit) {
#ifdef QUIRE_X86_LEVELS
  const bool any = limit == Isa::kAuto || limit == Isa::kAmx;
  if (any && machine_has(Isa::kAmx)) return &amx_kernels();
#endif
  return nullptr;
}

const Kernels& kernels_for([[maybe_unused]] Isa limit) {
#ifdef QUIRE_X86_LEVELS
  const bool any = limit == Isa::kAuto;
  if ((any || limit >= Isa::kAvx512) && machine_has(Isa::kAvx512)) return avx512_kernels();
  if ((any || limit >= Isa::kAvx2) && machine_has(Isa::kAvx2)) return avx2_kernels();
#endif
#ifdef QUIRE_SCALAR_ONLY
  return reference_kernels();
#else
  return scalar_kernels();
#endif
}

std::size_t scratch_floats(std::uint32_t key_size, std::uint32_t value_size, std::uint32_t group,
                           std::uint32_t tap_live) {
  // A shorter lane cuts its rows in larger blocks, so the largest need may be another length's.
  const std::size_t most =
      tap_live == 0 ? 0 : std::max(kTapFloats, group * tap_tiles(tap_live) * kTileOrdinals);
  const std::size_t maxima = most / kTileOrdinals + 16;
  const std::size_t taps = tap_live == 0 ? 0 : most + maxima;
  return plan_scratch(key_size, value_size, group, 0).total +
         std::max(taps, plan_chunk(key_size, value_size).total);
}

}  // namespace kernels
}  // namespace quire
