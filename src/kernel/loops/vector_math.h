// Elementwise functions written so that a compiler turns a loop over them into vector code: no branch, no call.
// Included by loops/*.cpp only, which are compiled once a level; hence the level's own namespace and no standard
// function.
#pragma once

#include <cstdint>

#include "kernel/loops/loops.h"

namespace weft::kernel::WEFT_LEVEL {

inline uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
inline float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }

inline float load(float x) { return x; }
inline float load(BFloat16 x) { return float_of(static_cast<uint32_t>(x.bits) << 16); }

inline void store(float x, float& to) { to = x; }
// Round to nearest, ties to even; a NaN stays one.
inline void store(float x, BFloat16& to) {
  const uint32_t bits = bits_of(x);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  to.bits = static_cast<uint16_t>(x != x ? 0x7fc0u : rounded);
}

// Within 2 units in the last place; 0 below -87.3, infinity above 88.3, where 2^n still is a number. Cephes' polynomial
// on
// [-ln 2 / 2, ln 2 / 2].
inline float exponential(float x) {
  const float low = -87.336544f;
  const float high = 88.3f;
  float y = x < low ? low : x;
  y = y > high ? high : y;
  const float shifter = 12582912.0f;  // 1.5 * 2^23: adding it leaves the rounded integer in the low bits
  const float shifted = y * 1.44269504f + shifter;
  const float n = shifted - shifter;
  float r = y - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + (r + 1.0f);
  const float result = float_of(bits_of(p) + (bits_of(shifted) << 23));
  return x < low ? 0.0f : (x > high ? __builtin_inff() : result);
}

inline float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

struct ValueAndDerivative {
  float value, derivative;
};

// x * Phi(x). Phi's tail is exp(-x^2 / 2) * t * polynomial(t) / 2 with t = 1 / (1 + 0.38 |x| / sqrt 2): a polynomial of
// degree 8 fitted to exp(z^2) erfc(z) / t at Chebyshev nodes for z in [0, 12]; relative error 3e-8.
inline ValueAndDerivative gelu_erf(float x) {
  const float magnitude = x < 0 ? -x : x;
  const float t = 1.0f / (1.0f + magnitude * 0.26870058f);
  float p = 0.05998505495f;
  p = p * t - 0.2671968988f;
  p = p * t + 0.3739088038f;
  p = p * t - 0.1727734745f;
  p = p * t + 0.2376734789f;
  p = p * t + 0.1354841701f;
  p = p * t + 0.2046873643f;
  p = p * t + 0.2138147416f;
  p = p * t + 0.2144167830f;
  const float gauss = exponential(-0.5f * x * x);
  const float tail = 0.5f * gauss * (p * t);
  const float phi = x < 0 ? tail : 1.0f - tail;
  return {x * phi, phi + x * (gauss * 0.39894228f)};
}

// 0.5 x (1 + tanh(u)) = x * sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3).
inline ValueAndDerivative gelu_tanh(float x) {
  const float square = x * x;
  const float s = sigmoid(1.5957691216f * (x + 0.044715f * x * square));
  return {x * s, s + x * s * (1.0f - s) * 1.5957691216f * (1.0f + 0.134145f * square)};
}

}  // namespace weft::kernel::WEFT_LEVEL
