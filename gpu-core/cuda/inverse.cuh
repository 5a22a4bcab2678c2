// SPDX-License-Identifier: MIT OR Apache-2.0
// Inverses in Fp and Fp2, by the extended Euclidean algorithm in division steps [BY19], with the half delta of
// [Wuille, "The safegcd implementation in libsecp256k1 explained"].
//
// By Fermat an inverse is 460 dependent products, 0.3 ms of a lone thread; this one is 27 rounds of 30 steps on
// single words, and as many linear combinations of four long numbers: a tenth of it.
#pragma once
#include "fp.cuh"
#include "fp2.cuh"

// A signed number: sum of limb[i] * 2^(30 i), limbs in [0, 2^30) but for the top one, which carries the sign.
struct Signed30 {
  static constexpr int LIMBS = 13;   // 390 bits, for numbers between -2p and 2p
  static constexpr u32 MASK = (1u << 30) - 1;
  i32 limb[LIMBS];

  // From a natural number, given by its 32-bit words.
  template <class Words>
  static DEV Signed30 from_words(Words words) {
    Signed30 r;
#pragma unroll
    for (int i = 0; i < LIMBS; i++) {
      const int low = 30 * i / 32, shift = 30 * i % 32;
      const u64 pair = (u64)words(low) | (low + 1 < FpModulus::LIMBS ? (u64)words(low + 1) << 32 : 0);
      r.limb[i] = (i32)((u32)(pair >> shift) & MASK);
    }
    return r;
  }

  DEV bool is_zero() const {
    i32 any = 0;
#pragma unroll
    for (int i = 0; i < LIMBS; i++) any |= limb[i];
    return any == 0;
  }

  DEV bool is_negative() const { return limb[LIMBS - 1] < 0; }
};

// 30 division steps on (f, g), as a matrix: 2^30 * (f', g') = (u*f + v*g, q*f + r*g).  |u| + |v|, |q| + |r| <= 2^30
struct DivisionSteps {
  i32 u, v, q, r;
};

DEV i32 limb_of_modulus(int i) {
  const int low = 30 * i / 32, shift = 30 * i % 32;
  const u64 next = low + 1 < FpModulus::LIMBS ? FpModulus::limb32(low + 1) : 0;
  return (i32)((u32)((FpModulus::limb32(low) | next << 32) >> shift) & Signed30::MASK);
}

// The matrix of 30 steps, from the low words of f and g; eta is minus delta minus a half.
DEV DivisionSteps division_steps(i32* eta, u32 f, u32 g) {
  u32 u = 1, v = 0, q = 0, r = 1;   // as i32; the shifts of negative ones are meant
  i32 minus_delta = *eta;
#pragma unroll 6
  for (int step = 0; step < 30; step++) {
    const bool is_odd = g & 1;
    if (is_odd && minus_delta < 0) {   // (f, g) = (g, -f), so that what is added below is g - f
      u32 old = f;
      f = g, g = 0 - old;
      old = u, u = q, q = 0 - old;
      old = v, v = r, r = 0 - old;
      minus_delta = ~minus_delta;
    }
    if (is_odd) g += f, q += u, r += v;
    minus_delta--;
    g >>= 1;   // of the lowest 32 - step bits, all that the steps to come look at
    u <<= 1;
    v <<= 1;
  }
  *eta = minus_delta;
  return DivisionSteps{(i32)u, (i32)v, (i32)q, (i32)r};
}

// (f, g) = M (f, g) / 2^30, which is exact.
DEV void combine(Signed30& f, Signed30& g, const DivisionSteps& m) {
  i64 f_sum = (i64)m.u * f.limb[0] + (i64)m.v * g.limb[0];
  i64 g_sum = (i64)m.q * f.limb[0] + (i64)m.r * g.limb[0];
#pragma unroll
  for (int i = 1; i < Signed30::LIMBS; i++) {
    f_sum = (f_sum >> 30) + (i64)m.u * f.limb[i] + (i64)m.v * g.limb[i];
    g_sum = (g_sum >> 30) + (i64)m.q * f.limb[i] + (i64)m.r * g.limb[i];
    f.limb[i - 1] = (i32)((u32)f_sum & Signed30::MASK);
    g.limb[i - 1] = (i32)((u32)g_sum & Signed30::MASK);
  }
  f.limb[Signed30::LIMBS - 1] = (i32)(f_sum >> 30);
  g.limb[Signed30::LIMBS - 1] = (i32)(g_sum >> 30);
}

// (d, e) = M (d, e) / 2^30 modulo p, both between -2p and p before and after.
DEV void combine_modular(Signed30& d, Signed30& e, const DivisionSteps& m) {
  constexpr u32 P_INVERSE = 0u - FP_M0_32;   // modulo 2^30 and more
  // p is added where d or e is negative, and then subtracted as often as clears the lowest limb, less than 2^30 times.
  i32 d_times = (d.is_negative() ? m.u : 0) + (e.is_negative() ? m.v : 0);
  i32 e_times = (d.is_negative() ? m.q : 0) + (e.is_negative() ? m.r : 0);
  i64 d_sum = (i64)m.u * d.limb[0] + (i64)m.v * e.limb[0];
  i64 e_sum = (i64)m.q * d.limb[0] + (i64)m.r * e.limb[0];
  d_times -= (i32)((P_INVERSE * (u32)d_sum + (u32)d_times) & Signed30::MASK);
  e_times -= (i32)((P_INVERSE * (u32)e_sum + (u32)e_times) & Signed30::MASK);
  d_sum += (i64)limb_of_modulus(0) * d_times;
  e_sum += (i64)limb_of_modulus(0) * e_times;
#pragma unroll
  for (int i = 1; i < Signed30::LIMBS; i++) {
    const i64 modulus = limb_of_modulus(i);
    d_sum = (d_sum >> 30) + (i64)m.u * d.limb[i] + (i64)m.v * e.limb[i] + modulus * d_times;
    e_sum = (e_sum >> 30) + (i64)m.q * d.limb[i] + (i64)m.r * e.limb[i] + modulus * e_times;
    d.limb[i - 1] = (i32)((u32)d_sum & Signed30::MASK);
    e.limb[i - 1] = (i32)((u32)e_sum & Signed30::MASK);
  }
  d.limb[Signed30::LIMBS - 1] = (i32)(d_sum >> 30);
  e.limb[Signed30::LIMBS - 1] = (i32)(e_sum >> 30);
}

// a = (negate ? -a : a) + (add_modulus ? p : 0)
DEV void negate_and_lift(Signed30& a, bool negate, bool lift) {
  i32 carry = 0;
#pragma unroll
  for (int i = 0; i < Signed30::LIMBS; i++) {
    const i32 sum = (negate ? -a.limb[i] : a.limb[i]) + (lift ? limb_of_modulus(i) : 0) + carry;
    carry = sum >> 30;
    a.limb[i] = i + 1 < Signed30::LIMBS ? (i32)((u32)sum & Signed30::MASK) : sum;
  }
}

// The 32-bit word i of a number in [0, p).
DEV u32 word_of(const Signed30& a, int i) {
  const int low = 32 * i / 30, shift = 32 * i % 30;
  u64 bits = (u64)(u32)a.limb[low] >> shift | (u64)(u32)a.limb[low + 1] << (30 - shift);
  if (low + 2 < Signed30::LIMBS) bits |= (u64)(u32)a.limb[low + 2] << (60 - shift);
  return (u32)bits;
}

// 1 / a, and 0 for 0. Canonical.  27 rounds of 30 steps and 130 wide products, on the average
FUNCTION Fp<1> inverse(const Fp<1> a) {
  // With the Montgomery form aR as g and R^2 as e, the end is R^2 / (aR) = R / a, the Montgomery form of 1 / a.
  Signed30 f = Signed30::from_words([](int i) { return FpModulus::limb32(i); });
  Signed30 g = Signed30::from_words([&](int i) { return (u32)(a.limb[i * 32 / WORD_BITS] >> (i * 32 % WORD_BITS)); });
  Signed30 d = {};
  Signed30 e = Signed30::from_words(
      [](int i) { return (u32)(FpModulus::mont_r2(i * 32 / WORD_BITS) >> (i * 32 % WORD_BITS)); });
  i32 eta = -1;   // delta = 1/2
  while (!g.is_zero()) {
    const u32 f_low = (u32)f.limb[0] | (u32)f.limb[1] << 30, g_low = (u32)g.limb[0] | (u32)g.limb[1] << 30;
    const DivisionSteps steps = division_steps(&eta, f_low, g_low);
    combine(f, g, steps);
    combine_modular(d, e, steps);
  }
  // Now f is 1 or -1 (or p, for a = 0), and d = f / a.
  negate_and_lift(d, false, d.is_negative());        // -p < d < p
  negate_and_lift(d, f.is_negative(), false);
  negate_and_lift(d, false, d.is_negative());
  Fp<1> r;
#pragma unroll
  for (int i = 0; i < FpModulus::WORDS; i++) r.limb[i] = 0;
#pragma unroll
  for (int i = 0; i < FpModulus::LIMBS; i++) {
    r.limb[i * 32 / WORD_BITS] |= (word)word_of(d, i) << (i * 32 % WORD_BITS);
  }
  return r;
}

// 1 / (c0 + c1*u) = (c0 - c1*u) / (c0^2 + c1^2), and 0 for 0. Canonical.
DEV Fp2<1> inverse(const Fp2<1>& a) {
  const Fp<2> norm = mul_add(a.c0, a.c0, a.c1, a.c1);
  const Fp<1> over_norm = inverse(canonical(norm));
  return canonical(Fp2<2>(mul(a.c0, over_norm), neg(mul(a.c1, over_norm))));
}
