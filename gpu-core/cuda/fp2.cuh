// SPDX-License-Identifier: MIT OR Apache-2.0
// Fp2 = Fp[u] / (u^2 + 1).
//
// Products are summed at double width, before reduction: an Fp2 product is three wide products and two
// reductions. A double-width difference d with |d| < p * MONT_R is lifted by p * MONT_R where it is negative,
// which changes nothing modulo p; then 0 <= d < p * MONT_R and its reduction is below 2p.
//
// On CUDA the products are functions, not inlined: a point addition in G2 has about thirty of them, and
// inlined it compiles for minutes.
#pragma once
#include "fp.cuh"

// c0 + c1*u, both any representative < K*p. 96 bytes, canonical in memory.
template <int K>
struct Fp2 {
  Fp<K> c0, c1;

  Fp2() = default;
  DEV Fp2(const Fp<K>& c0_, const Fp<K>& c1_) : c0(c0_), c1(c1_) {}
  template <int A>
  DEV Fp2(const Fp2<A>& a) : c0(a.c0), c1(a.c1) {}

  static DEV Fp2 zero() { return Fp2(Fp<K>::zero(), Fp<K>::zero()); }
  static DEV Fp2 one() { return Fp2(Fp<K>::one(), Fp<K>::zero()); }
};

static_assert(sizeof(Fp2<1>) == 96, "Fp2 in memory is arkworks' Fq2");

DEV Fp2<1> load_field(const Fp2<1>* p) { return Fp2<1>(load_field(&p->c0), load_field(&p->c1)); }

DEV void store_field(Fp2<1>* p, const Fp2<1>& a) {
  store_field(&p->c0, a.c0);
  store_field(&p->c1, a.c1);
}

template <int K>
DEV Fp2<K> select(bool condition, const Fp2<K>& yes, const Fp2<K>& no) {
  return Fp2<K>(select(condition, yes.c0, no.c0), select(condition, yes.c1, no.c1));
}

template <int K>
DEV Fp2<K> add(const Fp2<K>& a, const Fp2<K>& b) {
  return Fp2<K>(add(a.c0, b.c0), add(a.c1, b.c1));
}

template <int K>
DEV Fp2<K> twice(const Fp2<K>& a) {
  return add(a, a);
}

template <int K>
DEV Fp2<K> thrice(const Fp2<K>& a) {
  return add(a, add(a, a));
}

template <int K>
DEV Fp2<K> sub(const Fp2<K>& a, const Fp2<K>& b) {
  return Fp2<K>(sub(a.c0, b.c0), sub(a.c1, b.c1));
}

template <int K>
DEV Fp2<K> neg(const Fp2<K>& a) {
  return Fp2<K>(neg(a.c0), neg(a.c1));
}

template <int K>
DEV Fp2<1> canonical(const Fp2<K>& a) {
  return Fp2<1>(canonical(a.c0), canonical(a.c1));
}

template <int K>
DEV bool is_zero(const Fp2<K>& a) {
  return is_zero(a.c0) && is_zero(a.c1);
}

// A double-width integer, to be reduced once.
struct FpWide {
  word limb[2 * FpModulus::WORDS];
};

template <int A, int B>
DEV FpWide mul_wide(const Fp<A>& a, const Fp<B>& b) {
  static_assert(A * B <= 81, "A*B*p^2 must fit: 9p < 2^384");
  FpWide r;
  limbs::mul_wide<FpModulus::WORDS>(r.limb, a.limb, b.limb);
  return r;
}

// a + b. The sum fits.
DEV FpWide add_wide(const FpWide& a, const FpWide& b) {
  FpWide r;
  (void)limbs::add<2 * FpModulus::WORDS>(r.limb, a.limb, b.limb);
  return r;
}

// a - b, for a >= b.
DEV FpWide sub_wide(const FpWide& a, const FpWide& b) {
  FpWide r;
  (void)limbs::sub<2 * FpModulus::WORDS>(r.limb, a.limb, b.limb);
  return r;
}

// a - b, plus p * MONT_R if a < b.
DEV FpWide sub_wide_lifted(const FpWide& a, const FpWide& b) {
  constexpr int N = FpModulus::WORDS;
  FpWide r;
  const word borrow = limbs::sub<2 * N>(r.limb, a.limb, b.limb);
  Fp<1> lift;
#pragma unroll
  for (int i = 0; i < N; i++) lift.limb[i] = borrow & FpModulus::limb(i);
  (void)limbs::add<N>(r.limb + N, r.limb + N, lift.limb);
  return r;
}

// a / MONT_R modulo p, below 2p for a < p * MONT_R.
DEV Fp<2> redc(const FpWide& a) {
  Fp<2> r;
  limbs::mont_redc<FpModulus, FpModulus::WORDS>(r.limb, a.limb);
  return r;
}

// The operands are passed by value, in registers: by reference they would go through local memory, 20 %
// slower (fp2_mul_chain, H200, NVRTC 13.0).

// a * b by Karatsuba.  3 wide products, 2 reductions
FUNCTION Fp2<2> mul(const Fp2<2> a, const Fp2<2> b) {
  const FpWide t0 = mul_wide(a.c0, b.c0);                                   // < 4p^2
  const FpWide t1 = mul_wide(a.c1, b.c1);                                   // < 4p^2
  const Fp<2> c0 = redc(sub_wide_lifted(t0, t1));
  const FpWide t2 = mul_wide(add_lazy(a.c0, a.c1), add_lazy(b.c0, b.c1));   // < 16p^2
  // a0*b1 + a1*b0 < 8p^2 < p * MONT_R
  return Fp2<2>(c0, redc(sub_wide(t2, add_wide(t0, t1))));
}

// a^2 = (a0 + a1)(a0 - a1) + 2*a0*a1*u.  2 products in Fp
FUNCTION Fp2<2> sqr(const Fp2<2> a) {
  const Fp<2> c0 = mul(sub(a.c0, a.c1), add_lazy(a.c0, a.c1));   // 2 * 4 <= 9
  const Fp<2> c1 = mul(a.c1, add_lazy(a.c0, a.c0));              // 2 * 4 <= 9
  return Fp2<2>(c0, c1);
}

// a*b - c*d.  6 wide products, 2 reductions
FUNCTION Fp2<2> mul_sub(const Fp2<2> a, const Fp2<2> b, const Fp2<2> c, const Fp2<2> d) {
  const FpWide ab0 = mul_wide(a.c0, b.c0);                                  // all four < 4p^2
  const FpWide ab1 = mul_wide(a.c1, b.c1);
  const FpWide cd0 = mul_wide(c.c0, d.c0);
  const FpWide cd1 = mul_wide(c.c1, d.c1);
  const FpWide ab_sum = add_wide(ab0, ab1);
  const FpWide cd_sum = add_wide(cd0, cd1);
  // (ab0 - ab1) - (cd0 - cd1), both sides < 8p^2 < p * MONT_R
  const Fp<2> c0 = redc(sub_wide_lifted(add_wide(ab0, cd1), add_wide(ab1, cd0)));
  const FpWide ab_cross = sub_wide(mul_wide(add_lazy(a.c0, a.c1), add_lazy(b.c0, b.c1)), ab_sum);   // < 8p^2
  const FpWide cd_cross = sub_wide(mul_wide(add_lazy(c.c0, c.c1), add_lazy(d.c0, d.c1)), cd_sum);   // < 8p^2
  return Fp2<2>(c0, redc(sub_wide_lifted(ab_cross, cd_cross)));
}
