// The constants of exp and tanh, shared by the reference and every vector level.  The steps are
// theirs alone to spell out; the order is documented in reference.cc.
#pragma once

#include <cstdint>

namespace quire::kernels {

// exp(x), x <= 0: Cephes expf, the polynomial in Horner form on [-ln 2 / 2, ln 2 / 2].
constexpr float kLog2E = 1.44269504088896341f;
constexpr float kRoundMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
constexpr float kExpPoly[7] = {1.9875691500e-4f,
                               1.3981999507e-3f,
                               8.3334519073e-3f,
                               4.1665795894e-2f,
                               1.6666665459e-1f,
                               5.0000001201e-1f,
                               1.0f};
constexpr float kExpZero = -87.0f;  // below, exp is 0: results stay normal numbers
constexpr std::uint32_t kOneBits = 0x3f800000u;

// tanh(x): Cephes tanhf, a polynomial in x^2 below 0.625 and (1 - e) / (1 + e), e = exp(-2 |x|),
// from there on.
constexpr float kTanhSmall = 0.625f;
constexpr float kTanhPoly[5] = {-5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f,
                                1.33314422036e-1f, -3.33332819422e-1f};

}  // namespace quire::kernels
