// SPDX-License-Identifier: MIT OR Apache-2.0
// Multi-word integers in 64-bit limbs: the body of every field operation on the simulated device.
// The same functions with the same preconditions as limbs32.cuh; the modulus M gives `limb(i)` and `m0_64()`.
#pragma once
#include "base.cuh"

namespace limbs64 {

typedef unsigned __int128 u128;

// r = a + b; returns the carry, 0 or 1.
template <int N>
DEV u64 add(u64* r, const u64* a, const u64* b) {
  u64 carry = 0;
#pragma GCC unroll 16
  for (int i = 0; i < N; i++) {
    const u128 sum = (u128)a[i] + b[i] + carry;
    r[i] = (u64)sum;
    carry = (u64)(sum >> 64);
  }
  return carry;
}

// r = a - b; returns 0, or all ones if a < b (then r = a - b + 2^(64 N)).
template <int N>
DEV u64 sub(u64* r, const u64* a, const u64* b) {
  u64 borrow = 0;
#pragma GCC unroll 16
  for (int i = 0; i < N; i++) {
    const u128 difference = (u128)a[i] - b[i] - borrow;
    r[i] = (u64)difference;
    borrow = (u64)(difference >> 64) & 1;
  }
  return 0 - borrow;
}

// acc[0..N] += a * b; returns the word above.
template <int N>
DEV u64 mad_limb(u64* acc, const u64* a, u64 b) {
  u64 carry = 0;
#pragma GCC unroll 16
  for (int j = 0; j < N; j++) {
    const u128 sum = (u128)a[j] * b + acc[j] + carry;
    acc[j] = (u64)sum;
    carry = (u64)(sum >> 64);
  }
  return carry;
}

// acc = (acc + a*b + m*M) / 2^64 with the m that clears the low word. The result fits N words.
template <class M, int N>
DEV void mad_reduce_limb(u64* acc, const u64* a, u64 b) {
  u128 sum = (u128)a[0] * b + acc[0];
  u64 carry = (u64)(sum >> 64);
  const u64 m = (u64)sum * M::m0_64();
  u64 carry_m = (u64)(((u128)m * M::limb(0) + (u64)sum) >> 64);
#pragma GCC unroll 16
  for (int j = 1; j < N; j++) {
    sum = (u128)a[j] * b + acc[j] + carry;
    carry = (u64)(sum >> 64);
    const u128 sum_m = (u128)m * M::limb(j) + (u64)sum + carry_m;
    acc[j - 1] = (u64)sum_m;
    carry_m = (u64)(sum_m >> 64);
  }
  acc[N - 1] = carry + carry_m;
}

// acc = (acc + top * 2^(64 N) + m*M) / 2^64 with the m that clears the low word. The result fits N words.
template <class M, int N>
DEV void reduce_limb(u64* acc, u64 top) {
  const u64 m = acc[0] * M::m0_64();
  u64 carry = (u64)(((u128)m * M::limb(0) + acc[0]) >> 64);
#pragma GCC unroll 16
  for (int j = 1; j < N; j++) {
    const u128 sum = (u128)m * M::limb(j) + acc[j] + carry;
    acc[j - 1] = (u64)sum;
    carry = (u64)(sum >> 64);
  }
  acc[N - 1] = top + carry;
}

// The products are functions of their own: inlined into a point addition, the compiler runs out of registers
// and each takes 90 ns instead of 50 (g++ 12, one core of an EPYC server).

// As limbs32::mont_mul.
template <class M, int N>
__noinline__ void mont_mul(u64* r, const u64* a, const u64* b) {
  u64 acc[N] = {};
#pragma GCC unroll 16
  for (int i = 0; i < N; i++) mad_reduce_limb<M, N>(acc, a, b[i]);
  memcpy(r, acc, sizeof(acc));
}

// As limbs32::mont_mul_add.
template <class M, int N>
__noinline__ void mont_mul_add(u64* r, const u64* a, const u64* b, const u64* c, const u64* d) {
  u64 acc[N] = {};
#pragma GCC unroll 16
  for (int i = 0; i < N; i++) {
    const u64 top = mad_limb<N>(acc, c, d[i]);
    mad_reduce_limb<M, N>(acc, a, b[i]);
    acc[N - 1] += top;
  }
  memcpy(r, acc, sizeof(acc));
}

// t[0..2N] = a * b
template <int N>
__noinline__ void mul_wide(u64* t, const u64* a, const u64* b) {
  u64 wide[2 * N] = {};
#pragma GCC unroll 16
  for (int i = 0; i < N; i++) wide[i + N] = mad_limb<N>(wide + i, a, b[i]);
  memcpy(t, wide, sizeof(wide));
}

// t[0..2N] = a^2
template <int N>
DEV void sqr_wide(u64* t, const u64* a) {
  mul_wide<N>(t, a, a);
}

// As limbs32::mont_redc.
template <class M, int N>
__noinline__ void mont_redc(u64* r, const u64* t) {
  u64 low[N];
  memcpy(low, t, sizeof(low));
#pragma GCC unroll 16
  for (int i = 0; i < N; i++) reduce_limb<M, N>(low, 0);
  (void)add<N>(r, low, t + N);
}

}  // namespace limbs64
