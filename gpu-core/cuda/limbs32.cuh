// SPDX-License-Identifier: MIT OR Apache-2.0
// Multi-word integers in 32-bit limbs: the body of every field operation on CUDA.
//
// A product of two limbs is 64 bits wide and lands on two neighbouring words. Products at even positions are
// summed in one accumulator and those at odd positions in another (value = even + odd * 2^32), so each
// accumulator is one uninterrupted carry chain of IMAD.WIDE.U32.X, and the two meet in one addition at the
// end.
//
// The modulus M gives `limb32(i)`, `m0_32()` = -M^-1 mod 2^32, and LOW_64_SPECIAL if M = 1 - 2^32 modulo
// 2^64. N is its even number of limbs, MONT_R = 2^(32 N).
// Written on ptx.cuh alone, so the same text runs on the simulated device for tests (field_ops.cu,
// `_limbs32`).
#pragma once
#include "ptx.cuh"

namespace limbs32 {

using namespace ptx;

template <int N>
DEV void copy(u32* r, const u32* a) {
#pragma unroll
  for (int i = 0; i < N; i++) r[i] = a[i];
}

// r = a + b; returns the carry, 0 or 1.
template <int N>
DEV u32 add(u32* r, const u32* a, const u32* b) {
  u32 sum[N];
  copy<N>(sum, a);
  add_chain<N>(sum, b);
  copy<N>(r, sum);
  return addc(0, 0);
}

// r = a - b; returns 0, or all ones if a < b (then r = a - b + 2^(32 N)).
template <int N>
DEV u32 sub(u32* r, const u32* a, const u32* b) {
  u32 difference[N];
  copy<N>(difference, a);
  sub_chain<N>(difference, b);
  copy<N>(r, difference);
  return subc(0, 0);
}

// acc[0..N] = sum over even j < N of a[j] * b * 2^(32 j)
template <int N>
DEV void mul_row(u32* acc, const u32* a, u32 b) {
#pragma unroll
  for (int j = 0; j < N; j += 2) {
    const u64 product = (u64)a[j] * b;   // one IMAD.WIDE
    acc[j] = (u32)product;
    acc[j + 1] = (u32)(product >> 32);
  }
}

// value += a * b, for value = even + odd * 2^32 of N + 1 words.
template <int N>
DEV void mad_limb(u32* even, u32* odd, const u32* a, u32 b) {
  mad_chain<N / 2, false, false>(odd, a + 1, b);
  mad_chain<N / 2, false, true>(even, a, b);
  odd[N - 1] = addc(odd[N - 1], 0);
}

// acc /= 2^64
template <int N>
DEV void shift_pair(u32* acc) {
#pragma unroll
  for (int j = 0; j < N; j++) acc[j] = j + 2 < N ? acc[j + 2] : 0;
}

// value = value / 2^32 + a * b, where the low word of `even` is zero. The accumulators change roles: the
// argument `even` held the odd positions before.
template <int N>
DEV void shift_mad_limb(u32* even, u32* odd, const u32* a, u32 b) {
  even[0] = add_cc(even[0], odd[1]);
  shift_pair<N>(odd);
  mad_chain<N / 2, true, false>(odd, a + 1, b);
  mad_chain<N / 2, false, true>(even, a, b);
  odd[N - 1] = addc(odd[N - 1], 0);
}

// value += m * M for M = 1 - 2^32 modulo 2^64. There m = -x for the low word x, and with c = (x != 0)
//   m * M = m + (x + (m - c) * 2^32) * 2^32 + m * (M's higher limbs),
// so that the two lowest products and the one by m0 become additions.
template <class M, int N, bool CARRY_IN>
DEV void reduce_limb_special(u32* even, u32* odd, const u32* modulus) {
  const u32 pending = CARRY_IN ? addc(0, 0) : 0;
  const u32 x = even[0];
  const u32 m = x * M::minus_one();   // opaque to the compiler, see there
  (void)sub_cc(0, x);                 // the borrow is c
  const u32 m_less = subc(m, 0);      // m - c
  (void)add_cc(x, m);                 // 0, the carry is c
  even[1] = addc_cc(even[1], 0);
  mad_chain<N / 2 - 1, true, true>(even + 2, modulus + 2, m);
  odd[N - 1] = addc(odd[N - 1], 0);
  if (CARRY_IN) (void)add_cc(pending, 0xffffffff);   // back into the flag
  odd[0] = CARRY_IN ? addc_cc(odd[0], x) : add_cc(odd[0], x);
  odd[1] = addc_cc(odd[1], m_less);
  mad_chain<N / 2 - 1, true, false>(odd + 2, modulus + 3, m);
}

// value += m * M with the m that clears the low word; with CARRY_IN, + carry * 2^32. The low word is not to
// be read afterwards: it may be left as it was.
template <class M, int N, bool CARRY_IN = false>
DEV void reduce_limb(u32* even, u32* odd) {
  u32 modulus[N];
#pragma unroll
  for (int i = 0; i < N; i++) modulus[i] = M::limb32(i);
  if constexpr (M::LOW_64_SPECIAL) {
    reduce_limb_special<M, N, CARRY_IN>(even, odd, modulus);
  } else {
    const u32 m = even[0] * M::m0_32();
    mad_chain<N / 2, CARRY_IN, false>(odd, modulus + 1, m);
    mad_chain<N / 2, false, true>(even, modulus, m);
    odd[N - 1] = addc(odd[N - 1], 0);
  }
}

// r = even / 2^32 + odd
template <int N>
DEV void merge_shifted(u32* r, const u32* even, const u32* odd) {
  u32 shifted[N], sum[N];
#pragma unroll
  for (int i = 0; i < N; i++) shifted[i] = i + 1 < N ? even[i + 1] : 0;
  copy<N>(sum, odd);
  add_chain<N>(sum, shifted);
  copy<N>(r, sum);
}

// r = (a*b + k*M) / MONT_R for some k < MONT_R.
//   pre  (a / M + 1) * M <= MONT_R, so that after each limb of b the value, < a + M, fits N words
//   cost 2 N^2 wide and N low products
template <class M, int N>
DEV void mont_mul(u32* r, const u32* a, const u32* b) {
  u32 x[N], y[N];
  mul_row<N>(x, a, b[0]);
  mul_row<N>(y, a + 1, b[0]);
  reduce_limb<M, N>(x, y);
#pragma unroll
  for (int i = 1; i < N; i++) {
    u32* const even = i % 2 ? y : x;
    u32* const odd = i % 2 ? x : y;
    shift_mad_limb<N>(even, odd, a, b[i]);
    reduce_limb<M, N>(even, odd);
  }
  merge_shifted<N>(r, y, x);
}

// r = (a*b + c*d + k*M) / MONT_R for some k < MONT_R: two products for one reduction.
//   pre  (a / M + c / M + 1) * M <= MONT_R
//   cost 3 N^2 wide and N low products
template <class M, int N>
DEV void mont_mul_add(u32* r, const u32* a, const u32* b, const u32* c, const u32* d) {
  u32 x[N], y[N];
  mul_row<N>(x, a, b[0]);
  mul_row<N>(y, a + 1, b[0]);
  mad_limb<N>(x, y, c, d[0]);
  reduce_limb<M, N>(x, y);
#pragma unroll
  for (int i = 1; i < N; i++) {
    u32* const even = i % 2 ? y : x;
    u32* const odd = i % 2 ? x : y;
    shift_mad_limb<N>(even, odd, a, b[i]);
    mad_limb<N>(even, odd, c, d[i]);
    reduce_limb<M, N>(even, odd);
  }
  merge_shifted<N>(r, y, x);
}

// t[0..2N] = even + odd * 2^32
template <int N>
DEV void merge_wide(u32* t, const u32* even, const u32* odd) {
  u32 shifted[2 * N];
#pragma unroll
  for (int i = 0; i < 2 * N; i++) shifted[i] = i > 0 ? odd[i - 1] : 0;
  copy<2 * N>(t, even);
  add_chain<2 * N>(t, shifted);
}

// t[0..2N] = a * b.  N^2 wide products
template <int N>
DEV void mul_wide(u32* t, const u32* a, const u32* b) {
  u32 even[2 * N] = {}, odd[2 * N] = {};
  mul_row<N>(even, a, b[0]);
  mul_row<N>(odd, a + 1, b[0]);
#pragma unroll
  for (int i = 1; i < N; i++) {
    // Even limbs of a land at position i, odd ones at i + 1; the word above the first kind is new, or holds
    // nothing yet.
    u32* const low = i % 2 ? odd + (i - 1) : even + i;
    u32* const high = i % 2 ? even + (i + 1) : odd + i;
    mad_chain<N / 2, false, true>(low, a, b[i]);
    low[N] = addc(0, 0);
    mad_chain<N / 2, false, false>(high, a + 1, b[i]);
  }
  merge_wide<N>(t, even, odd);
}

// Adds a[I] * a[j] * 2^(32 (I + j)) for all j > I to even + odd * 2^32, and the same for all larger I.
template <int N, int I>
DEV void add_pairs(u32* even, u32* odd, const u32* a) {
  if constexpr (I < N - 1) {
    // j = I+1, I+3, .. land at odd positions, j = I+2, I+4, .. at even ones. The chain that ends at j = N-1
    // ends on a word that holds nothing yet; the other one carries into such a word.
    constexpr int odd_pairs = (N - I) / 2, even_pairs = (N - 1 - I) / 2;
    constexpr bool odd_carries = I + 2 * odd_pairs - 1 < N - 1;
    mad_chain<odd_pairs, false, odd_carries>(odd + 2 * I, a + I + 1, a[I]);
    if constexpr (odd_carries) odd[I + N - 1] = addc(0, 0);
    if constexpr (even_pairs > 0) {
      mad_chain<even_pairs, false, !odd_carries>(even + 2 * I + 2, a + I + 2, a[I]);
      if constexpr (!odd_carries) even[I + N] = addc(0, 0);
    }
    add_pairs<N, I + 1>(even, odd, a);
  }
}

// t[0..2N] = a^2.  N (N - 1) / 2 wide products for the pairs, doubled, and N for the squares
template <int N>
DEV void sqr_wide(u32* t, const u32* a) {
  u32 even[2 * N] = {}, odd[2 * N] = {}, pairs[2 * N];
  add_pairs<N, 0>(even, odd, a);
  merge_wide<N>(pairs, even, odd);
  copy<2 * N>(t, pairs);
  add_chain<2 * N>(t, pairs);
  mad_chain<1, false, true>(t, a, a[0]);
#pragma unroll
  for (int i = 1; i < N - 1; i++) mad_chain<1, true, true>(t + 2 * i, a + i, a[i]);
  mad_chain<1, true, false>(t + 2 * N - 2, a + N - 1, a[N - 1]);
}

// r = (t + k*M) / MONT_R for some k < MONT_R, t of 2N words. At most t / MONT_R + M, which must fit N words.
//   cost N^2 wide and N low products
template <class M, int N>
DEV void mont_redc(u32* r, const u32* t) {
  u32 x[N], y[N];
#pragma unroll
  for (int i = 0; i < N; i++) {
    x[i] = t[i];
    y[i] = 0;
  }
  reduce_limb<M, N>(x, y);
#pragma unroll
  for (int i = 1; i < N; i++) {
    u32* const even = i % 2 ? y : x;
    u32* const odd = i % 2 ? x : y;
    even[0] = add_cc(even[0], odd[1]);   // the carry is the next line's
    shift_pair<N>(odd);
    reduce_limb<M, N, true>(even, odd);
  }
  merge_shifted<N>(x, y, x);
  (void)add<N>(r, x, t + N);
}

}  // namespace limbs32
