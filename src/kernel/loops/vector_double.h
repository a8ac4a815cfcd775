// Functions of double precision, as vector_math.h has them of single: within a unit in the last place or so, by the
// polynomials of fdlibm (Sun Microsystems, 1993).
#pragma once

#include <cstdint>

namespace weft::kernel::WEFT_LEVEL {

// Of a positive normal number: ln(2^k (1 + f)), 1 + f between sqrt(1/2) and sqrt(2).
inline double logarithm(double x) {
  const uint64_t bits = __builtin_bit_cast(uint64_t, x);
  // The exponent's step moved from 1 to sqrt(1/2).
  const uint64_t moved = bits - 0x3fe6a09e667f3bcdull;
  // The sum puts the signed exponent, in its low bits, into a double without a conversion of integers.
  const uint64_t exponent = static_cast<uint64_t>(static_cast<int64_t>(moved) >> 52);
  const double k = __builtin_bit_cast(double, 0x4338000000000000ull + exponent) - 6755399441055744.0;
  const double f = __builtin_bit_cast(double, bits - (exponent << 52)) - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  double r = 1.479819860511658591e-01;
  r = r * z + 1.531383769920937332e-01;
  r = r * z + 1.818357216161805012e-01;
  r = r * z + 2.222219843214978396e-01;
  r = r * z + 2.857142874366239149e-01;
  r = r * z + 3.999999999940941908e-01;
  r = r * z + 6.666666666666735130e-01;
  const double half = 0.5 * f * f;
  return k * 6.93147180369123816490e-01 - ((half - (s * (half + r * z) + k * 1.90821492927058770002e-10)) - f);
}

struct SineAndCosine {
  double sine, cosine;
};

// Of an angle from 0 to 2 pi: the rest from the nearest multiple of pi / 2 as a sum of two doubles.
inline SineAndCosine sine_and_cosine(double x) {
  const double shifter = 6755399441055744.0;  // 1.5 * 2^52: adding it leaves the rounded integer in the low bits
  const double shifted = x * 0.6366197723675814 + shifter;
  const uint64_t quadrant = __builtin_bit_cast(uint64_t, shifted);
  const double n = shifted - shifter;
  const double near = x - n * 1.57079632673412561417;  // exact: the factor has 33 bits
  const double low = n * 6.07710050650619224932e-11;
  const double y = near - low;
  const double rest = (near - y) - low;
  const double z = y * y;
  double p = 1.58969099521155010221e-10;
  p = p * z - 2.50507602534068634195e-08;
  p = p * z + 2.75573137070700676789e-06;
  p = p * z - 1.98412698298579493134e-04;
  p = p * z + 8.33333333332248946124e-03;
  const double cube = z * y;
  const double sine = y - ((z * (0.5 * rest - cube * p) - rest) + cube * 1.66666666666666324348e-01);
  double q = -1.13596475577881948265e-11;
  q = q * z + 2.08757232129817482790e-09;
  q = q * z - 2.75573143513906633035e-07;
  q = q * z + 2.48015872894767294178e-05;
  q = q * z - 1.38888888888741095749e-03;
  q = q * z + 4.16666666666666019037e-02;
  const double half = 0.5 * z;
  const double one = 1.0 - half;
  const double cosine = one + (((1.0 - one) - half) + (z * z * q - y * rest));
  const bool swapped = (quadrant & 1) != 0;
  const uint64_t sine_sign = (quadrant & 2) << 62, cosine_sign = ((quadrant + 1) & 2) << 62;
  return {__builtin_bit_cast(double, __builtin_bit_cast(uint64_t, swapped ? cosine : sine) ^ sine_sign),
          __builtin_bit_cast(double, __builtin_bit_cast(uint64_t, swapped ? sine : cosine) ^ cosine_sign)};
}

}  // namespace weft::kernel::WEFT_LEVEL
