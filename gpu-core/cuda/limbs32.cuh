// SPDX-License-Identifier: MIT OR Apache-2.0
// Multi-word integers in 32-bit limbs: the body of every field operation on CUDA.
//
// A product of two limbs is 64 bits wide and lands on two neighbouring words. Products at even positions are summed in
// one accumulator and those at odd positions in another (value = even + odd * 2^32), so each accumulator is one
// uninterrupted carry chain of IMAD.WIDE.U32.X, and the two meet in one addition at the end.
//
// The modulus M gives `limb32(i)`, `m0_32()` = -M^-1 mod 2^32, and LOW_64_SPECIAL if M = 1 - 2^32 modulo 2^64. N is its
// even number of limbs, MONT_R = 2^(32 N).
// Written on ptx.cuh alone, so the same text runs on the simulated device for tests (field_ops.cu, `_limbs32`).
#pragma once
#include "ptx.cuh"

namespace limbs32 {

using namespace ptx;

// r = a + b; returns the carry, 0 or 1.
template <int N>
DEV u32 add(u32* r, const u32* a, const u32* b) {
  r[0] = add_cc(a[0], b[0]);
#pragma unroll
  for (int i = 1; i < N; i++) r[i] = addc_cc(a[i], b[i]);
  return addc(0, 0);
}

// r = a - b; returns 0, or all ones if a < b (then r = a - b + 2^(32 N)).
template <int N>
DEV u32 sub(u32* r, const u32* a, const u32* b) {
  r[0] = sub_cc(a[0], b[0]);
#pragma unroll
  for (int i = 1; i < N; i++) r[i] = subc_cc(a[i], b[i]);
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

// acc[0..N] += sum over even j < N of a[j] * b * 2^(32 j); leaves the carry in the flag.
template <int N>
DEV void mad_row(u32* acc, const u32* a, u32 b) {
  acc[0] = mad_lo_cc(a[0], b, acc[0]);
  acc[1] = madc_hi_cc(a[0], b, acc[1]);
#pragma unroll
  for (int j = 2; j < N; j += 2) {
    acc[j] = madc_lo_cc(a[j], b, acc[j]);
    acc[j + 1] = madc_hi_cc(a[j], b, acc[j + 1]);
  }
}

// As mad_row, where the sum is known to fit: the flag is clear afterwards, and the last instruction does not set it.
template <int N>
DEV void mad_row_last(u32* acc, const u32* a, u32 b) {
  acc[0] = mad_lo_cc(a[0], b, acc[0]);
#pragma unroll
  for (int j = 2; j < N; j += 2) {
    acc[j - 1] = madc_hi_cc(a[j - 2], b, acc[j - 1]);
    acc[j] = madc_lo_cc(a[j], b, acc[j]);
  }
  acc[N - 1] = madc_hi(a[N - 2], b, acc[N - 1]);
}

// acc = acc / 2^64 + sum over even j < N of a[j] * b * 2^(32 j) + carry in the flag. The sum fits.
template <int N>
DEV void madc_row_shifted(u32* acc, const u32* a, u32 b) {
#pragma unroll
  for (int j = 0; j < N - 2; j += 2) {
    acc[j] = madc_lo_cc(a[j], b, acc[j + 2]);
    acc[j + 1] = madc_hi_cc(a[j], b, acc[j + 3]);
  }
  acc[N - 2] = madc_lo_cc(a[N - 2], b, 0);
  acc[N - 1] = madc_hi(a[N - 2], b, 0);
}

// value += a * b, for value = even + odd * 2^32 of N + 1 words.
template <int N>
DEV void mad_limb(u32* even, u32* odd, const u32* a, u32 b) {
  mad_row_last<N>(odd, a + 1, b);
  mad_row<N>(even, a, b);
  odd[N - 1] = addc(odd[N - 1], 0);
}

// value = value / 2^32 + a * b, where the low word of `even` is zero. The accumulators change roles: the argument
// `even` held the odd positions before.
template <int N>
DEV void shift_mad_limb(u32* even, u32* odd, const u32* a, u32 b) {
  even[0] = add_cc(even[0], odd[1]);
  madc_row_shifted<N>(odd, a + 1, b);
  mad_row<N>(even, a, b);
  odd[N - 1] = addc(odd[N - 1], 0);
}

// odd[j] of an accumulator that is to be shifted down by two words.
template <int N, bool SHIFT>
DEV u32 shifted(const u32* odd, int j) {
  if (!SHIFT) return odd[j];
  return j + 2 < N ? odd[j + 2] : 0;
}

// reduce_limb for M = 1 - 2^32 modulo 2^64. There m = -x for the low word x, and with c = (x != 0)
//   m * M = m + (x + (m - c) * 2^32) * 2^32 + m * (M's higher limbs),
// so that the two lowest products and the one by m0 become additions.
template <class M, int N, bool SHIFT>
DEV void reduce_limb_special(u32* even, u32* odd) {
  const u32 pending = SHIFT ? addc(0, 0) : 0;
  const u32 x = even[0];
  const u32 m = mul_lo(x, M::minus_one());   // opaque to the compiler, see there
  (void)sub_cc(0, x);                        // the borrow is c
  const u32 m_less = subc(m, 0);             // m - c
  (void)add_cc(x, m);                        // 0, the carry is c
  even[1] = addc_cc(even[1], 0);
#pragma unroll
  for (int j = 2; j < N; j += 2) {
    even[j] = madc_lo_cc(M::limb32(j), m, even[j]);
    even[j + 1] = madc_hi_cc(M::limb32(j), m, even[j + 1]);
  }
  const u32 top = addc(shifted<N, SHIFT>(odd, N - 1), 0);
  if (SHIFT) (void)add_cc(pending, 0xffffffff);   // back into the flag
  odd[0] = SHIFT ? addc_cc(odd[2], x) : add_cc(odd[0], x);
  odd[1] = addc_cc(shifted<N, SHIFT>(odd, 1), m_less);
#pragma unroll
  for (int j = 2; j < N; j += 2) {
    odd[j] = madc_lo_cc(M::limb32(j + 1), m, shifted<N, SHIFT>(odd, j));
    odd[j + 1] = j + 2 < N ? madc_hi_cc(M::limb32(j + 1), m, shifted<N, SHIFT>(odd, j + 1))
                           : madc_hi(M::limb32(j + 1), m, top);   // the sum fits
  }
}

// value += m * M with the m that clears the low word, which nothing reads afterwards and so is not written.
// With SHIFT, `odd` is first shifted down by two words and takes the carry in the flag.
template <class M, int N, bool SHIFT = false>
DEV void reduce_limb(u32* even, u32* odd) {
  if constexpr (M::LOW_64_SPECIAL) {
    reduce_limb_special<M, N, SHIFT>(even, odd);
    return;
  }
  const u32 m = mul_lo(even[0], M::m0_32());
#pragma unroll
  for (int j = 0; j < N; j += 2) {
    const u32 low = shifted<N, SHIFT>(odd, j), high = shifted<N, SHIFT>(odd, j + 1);
    odd[j] = j == 0 && !SHIFT ? mad_lo_cc(M::limb32(1), m, low) : madc_lo_cc(M::limb32(j + 1), m, low);
    odd[j + 1] = j + 2 < N ? madc_hi_cc(M::limb32(j + 1), m, high)
                           : madc_hi(M::limb32(j + 1), m, high);   // the sum fits
  }
  (void)mad_lo_cc(M::limb32(0), m, even[0]);
  even[1] = madc_hi_cc(M::limb32(0), m, even[1]);
#pragma unroll
  for (int j = 2; j < N; j += 2) {
    even[j] = madc_lo_cc(M::limb32(j), m, even[j]);
    even[j + 1] = madc_hi_cc(M::limb32(j), m, even[j + 1]);
  }
  odd[N - 1] = addc(odd[N - 1], 0);
}

// r = even / 2^32 + odd
template <int N>
DEV void merge_shifted(u32* r, const u32* even, const u32* odd) {
  r[0] = add_cc(odd[0], even[1]);
#pragma unroll
  for (int i = 1; i < N - 1; i++) r[i] = addc_cc(odd[i], even[i + 1]);
  r[N - 1] = addc(odd[N - 1], 0);
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
  t[0] = even[0];
  t[1] = add_cc(even[1], odd[0]);
#pragma unroll
  for (int i = 2; i < 2 * N - 1; i++) t[i] = addc_cc(even[i], odd[i - 1]);
  t[2 * N - 1] = addc(even[2 * N - 1], odd[2 * N - 2]);
}

// t[0..2N] = a * b.  N^2 wide products
template <int N>
DEV void mul_wide(u32* t, const u32* a, const u32* b) {
  u32 even[2 * N] = {}, odd[2 * N] = {};
  mul_row<N>(even, a, b[0]);
  mul_row<N>(odd, a + 1, b[0]);
#pragma unroll
  for (int i = 1; i < N; i++) {
    // Even limbs of a land at position i, odd ones at i + 1; the word above the first kind is new, or holds nothing yet.
    u32* const low = i % 2 ? odd + (i - 1) : even + i;
    u32* const high = i % 2 ? even + (i + 1) : odd + i;
    mad_row<N>(low, a, b[i]);
    low[N] = addc(0, 0);
    mad_row_last<N>(high, a + 1, b[i]);
  }
  merge_wide<N>(t, even, odd);
}

// t[0..2N] = a^2.  N (N - 1) / 2 wide products for the pairs, doubled, and N for the squares
template <int N>
DEV void sqr_wide(u32* t, const u32* a) {
  u32 even[2 * N] = {}, odd[2 * N] = {};
#pragma unroll
  for (int i = 0; i < N - 1; i++) {
    // a[i] * a[j] for j > i: j = i+1, i+3, .. at odd positions, j = i+2, i+4, .. at even ones.
#pragma unroll
    for (int parity = 0; parity < 2; parity++) {
      u32* const acc = parity == 0 ? odd : even;
      const int row = parity == 0 ? i - 1 : i;   // acc[row + j] is at position i + j
      const int first = i + 1 + parity;
#pragma unroll
      for (int j = first; j < N; j += 2) {
        u32* const at = acc + row + j;
        at[0] = j == first ? mad_lo_cc(a[i], a[j], at[0]) : madc_lo_cc(a[i], a[j], at[0]);
        at[1] = j == N - 1 ? madc_hi(a[i], a[j], at[1])   // onto a word that holds nothing yet: no carry
                           : madc_hi_cc(a[i], a[j], at[1]);
      }
      if (first < N - 1 && (N - 1 - first) % 2 != 0) acc[row + N] = addc(0, 0);   // ended at j = N - 2
    }
  }
  u32 pairs[2 * N];
  merge_wide<N>(pairs, even, odd);
  u32 twice[2 * N];
  (void)add<2 * N>(twice, pairs, pairs);
  t[0] = mad_lo_cc(a[0], a[0], twice[0]);
  t[1] = madc_hi_cc(a[0], a[0], twice[1]);
#pragma unroll
  for (int i = 1; i < N; i++) {
    t[2 * i] = madc_lo_cc(a[i], a[i], twice[2 * i]);
    t[2 * i + 1] = i == N - 1 ? madc_hi(a[i], a[i], twice[2 * i + 1]) : madc_hi_cc(a[i], a[i], twice[2 * i + 1]);
  }
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
    even[0] = add_cc(even[0], odd[1]);   // the carry waits for the odd chain of the next line
    reduce_limb<M, N, true>(even, odd);
  }
  merge_shifted<N>(x, y, x);
  (void)add<N>(r, x, t + N);
}

}  // namespace limbs32
