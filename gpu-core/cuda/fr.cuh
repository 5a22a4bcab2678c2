// SPDX-License-Identifier: MIT OR Apache-2.0
// Fr: the scalar field of BLS12-381, 255 bits in 256.  MONT_R = 2^256, 2*r < MONT_R < 3*r: a factor < 2r
// meets one < r, so lazy reduction buys one subtraction and no more.
#pragma once
#include "consts.cuh"
#include "residue.cuh"

// -1 modulo 2^32 in a place that the compiler does not look into. Where it sees that m = -x, it rewrites the
// products of m as products of x, which have no wide form with carry: 28 % more instructions (NVRTC 13.0,
// sm_90).
__constant__ u32 fr_minus_one = 0xffffffff;

struct FrModulus {
  static constexpr int LIMBS = 8;
  static constexpr int WORDS = LIMBS * 32 / WORD_BITS;
  static constexpr int BOUND_MAX = 2;
  static constexpr bool LOW_64_SPECIAL = true;   // r ends in 0xffffffff00000001

  template <int K>
  static DEV word multiple(int i) {
    static_assert(1 <= K && K <= BOUND_MAX, "no such multiple");
    if constexpr (K == 1) return FR_MODULUS_X1(i);
    if constexpr (K == 2) return FR_MODULUS_X2(i);
  }
  static DEV word limb(int i) { return FR_MODULUS_X1(i); }
  static DEV u32 limb32(int i) {
    return WORD_BITS == 32 ? (u32)FR_MODULUS_X1(i) : (u32)((u64)FR_MODULUS_X1(i / 2) >> (32 * (i % 2)));
  }
  static DEV word mont_r(int i) { return FR_MONT_R(i); }
  static DEV word mont_r2(int i) { return FR_MONT_R2(i); }
  static DEV u32 m0_32() { return FR_M0_32; }
  static DEV u32 minus_one() { return fr_minus_one; }
  static DEV u64 m0_64() { return FR_M0_64; }
};

// An element of Fr, any representative < K*r. 32 bytes, canonical (K = 1) in memory.
template <int K>
using Fr = Residue<FrModulus, K>;

static_assert(sizeof(Fr<1>) == 32 && alignof(Fr<1>) == 16, "Fr in memory is arkworks' Fr, 16-byte aligned");

// Any 256-bit number, brought below r: memory that nobody vouches for. 2^256 < 3r, so two subtractions do.
DEV Fr<1> fr_from_any(const Fr<1>* words) {
  Fr<1> value = load_field(words);
#pragma unroll
  for (int step = 0; step < 2; step++) {
    Fr<1> less;
    const word borrow = limbs::sub<FrModulus::WORDS>(less.limb, value.limb, Fr<1>::bound().limb);
    value = select(borrow != 0, value, less);
  }
  return value;
}
