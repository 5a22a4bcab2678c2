// SPDX-License-Identifier: MIT OR Apache-2.0
// Fp: the base field of BLS12-381, 381 bits in 384.  MONT_R = 2^384, 9*p < MONT_R < 10*p.
#pragma once
#include "consts.cuh"
#include "residue.cuh"

struct FpModulus {
  static constexpr int LIMBS = 12;
  static constexpr int WORDS = LIMBS * 32 / WORD_BITS;
  static constexpr int BOUND_MAX = 9;
  static constexpr bool LOW_64_SPECIAL = false;

  template <int K>
  static DEV word multiple(int i) {
    static_assert(1 <= K && K <= BOUND_MAX, "no such multiple");
    if constexpr (K == 1) return FP_MODULUS_X1(i);
    if constexpr (K == 2) return FP_MODULUS_X2(i);
    if constexpr (K == 3) return FP_MODULUS_X3(i);
    if constexpr (K == 4) return FP_MODULUS_X4(i);
    if constexpr (K == 5) return FP_MODULUS_X5(i);
    if constexpr (K == 6) return FP_MODULUS_X6(i);
    if constexpr (K == 7) return FP_MODULUS_X7(i);
    if constexpr (K == 8) return FP_MODULUS_X8(i);
    if constexpr (K == 9) return FP_MODULUS_X9(i);
  }
  static DEV word limb(int i) { return FP_MODULUS_X1(i); }
  static DEV u32 limb32(int i) {
    return WORD_BITS == 32 ? (u32)FP_MODULUS_X1(i) : (u32)((u64)FP_MODULUS_X1(i / 2) >> (32 * (i % 2)));
  }
  static DEV word mont_r(int i) { return FP_MONT_R(i); }
  static DEV word mont_r2(int i) { return FP_MONT_R2(i); }
  static DEV u32 m0_32() { return FP_M0_32; }
  static DEV u64 m0_64() { return FP_M0_64; }
};

// An element of Fp, any representative < K*p. 48 bytes, canonical (K = 1) in memory.
template <int K>
using Fp = Residue<FpModulus, K>;

static_assert(sizeof(Fp<1>) == 48 && alignof(Fp<1>) == 16, "Fp in memory is arkworks' Fq, 16-byte aligned");
