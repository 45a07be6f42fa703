#include "cli/bench_peaks.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "model/model.h"

namespace quire::cli {
namespace {

// Operands come from here and results go here, so that no loop can be computed beforehand.
volatile float g_decay = 0.99f, g_gain = 0.01f, g_sink;
volatile int g_bytes = 0x03030303;

// Independent sums: two instructions a cycle of four cycles latency need eight, some machines more.
constexpr int kChains = 12;

double plain_f32(std::uint64_t rounds) {
  constexpr int kLanes = 64;
  float sum[kLanes] = {};
  const float a = g_decay, b = g_gain;
  for (std::uint64_t i = 0; i < rounds; ++i) {
    for (float& s : sum) s = s * a + b;
  }
  float all = 0;
  for (const float s : sum) all += s;
  g_sink = all;
  return static_cast<double>(rounds) * kLanes * 2;
}

#if defined(__x86_64__)

__attribute__((target("avx2,fma"))) double avx2_f32(std::uint64_t rounds) {
  __m256 sum[kChains];
  for (__m256& s : sum) s = _mm256_set1_ps(1);
  const __m256 a = _mm256_set1_ps(g_decay), b = _mm256_set1_ps(g_gain);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    for (int c = 0; c < kChains; ++c) sum[c] = _mm256_fmadd_ps(sum[c], a, b);
  }
  for (int c = 1; c < kChains; ++c) sum[0] = _mm256_add_ps(sum[0], sum[c]);
  g_sink = _mm256_cvtss_f32(sum[0]);
  return static_cast<double>(rounds) * kChains * 8 * 2;
}

__attribute__((target("avx2"))) double avx2_dot(std::uint64_t rounds) {
  __m256i sum[kChains];
  for (__m256i& s : sum) s = _mm256_set1_epi32(1);
  const __m256i a = _mm256_set1_epi32(g_bytes), ones = _mm256_set1_epi16(1);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    // Each product takes its sum as an operand, or it would be computed once.
    for (int c = 0; c < kChains; ++c) {
      const __m256i pairs = _mm256_maddubs_epi16(a, sum[c]);
      sum[c] = _mm256_add_epi32(sum[c], _mm256_madd_epi16(pairs, ones));
    }
  }
  for (int c = 1; c < kChains; ++c) sum[0] = _mm256_add_epi32(sum[0], sum[c]);
  g_sink = static_cast<float>(_mm256_extract_epi32(sum[0], 0));
  return static_cast<double>(rounds) * kChains * 32 * 2;
}

__attribute__((target("avx2,avxvnni"))) double avx_vnni_dot(std::uint64_t rounds) {
  __m256i sum[kChains];
  for (__m256i& s : sum) s = _mm256_set1_epi32(1);
  const __m256i a = _mm256_set1_epi32(g_bytes), b = _mm256_set1_epi8(1);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    for (int c = 0; c < kChains; ++c) sum[c] = _mm256_dpbusd_avx_epi32(sum[c], a, b);
  }
  for (int c = 1; c < kChains; ++c) sum[0] = _mm256_add_epi32(sum[0], sum[c]);
  g_sink = static_cast<float>(_mm256_extract_epi32(sum[0], 0));
  return static_cast<double>(rounds) * kChains * 32 * 2;
}

__attribute__((target("avx512f"))) double avx512_f32(std::uint64_t rounds) {
  __m512 sum[kChains];
  for (__m512& s : sum) s = _mm512_set1_ps(1);
  const __m512 a = _mm512_set1_ps(g_decay), b = _mm512_set1_ps(g_gain);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    for (int c = 0; c < kChains; ++c) sum[c] = _mm512_fmadd_ps(sum[c], a, b);
  }
  for (int c = 1; c < kChains; ++c) sum[0] = _mm512_add_ps(sum[0], sum[c]);
  g_sink = _mm512_cvtss_f32(sum[0]);
  return static_cast<double>(rounds) * kChains * 16 * 2;
}

__attribute__((target("avx512f,avx512vnni"))) double avx512_vnni_dot(std::uint64_t rounds) {
  __m512i sum[kChains];
  for (__m512i& s : sum) s = _mm512_set1_epi32(1);
  const __m512i a = _mm512_set1_epi32(g_bytes), b = _mm512_set1_epi32(0x01010101);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    for (int c = 0; c < kChains; ++c) sum[c] = _mm512_dpbusd_epi32(sum[c], a, b);
  }
  for (int c = 1; c < kChains; ++c) sum[0] = _mm512_add_epi32(sum[0], sum[c]);
  int lanes[16];
  _mm512_storeu_si512(lanes, sum[0]);
  g_sink = static_cast<float>(lanes[0]);
  return static_cast<double>(rounds) * kChains * 64 * 2;
}

#endif

}  // namespace

std::vector<PeakLoop> peak_loops() {
  std::vector<PeakLoop> loops;
#if defined(__x86_64__)
  const bool avx2 = model::machine_has(Isa::kAvx2), avx512 = model::machine_has(Isa::kAvx512);
  loops.push_back({"f32 fma", avx512 ? avx512_f32 : avx2 ? avx2_f32 : plain_f32});
  if (model::machine_has(Isa::kAvx512Vnni)) {
    loops.push_back({"int8 dot", avx512_vnni_dot});
  } else if (model::machine_has(Isa::kAvxVnni)) {
    loops.push_back({"int8 dot", avx_vnni_dot});
  } else if (avx2) {
    loops.push_back({"int8 dot", avx2_dot});
  }
  if (model::machine_has(Isa::kAmx)) loops.push_back({"int8 tiles", amx_dot});
#else
  loops.push_back({"f32 fma", plain_f32});
#endif
  return loops;
}

}  // namespace quire::cli
