// SPDX-License-Identifier: MIT OR Apache-2.0
// Arithmetic modulo a prime in Montgomery form, with every bound in the type.
//
// Residue<M, K> is an element of GF(M) times MONT_R, by any representative < K*M. Operations add bounds up
// and the compiler refuses what would not fit; nothing is reduced that need not be. Memory holds Residue<M,
// 1> alone: one value, one byte pattern (arkworks' own).
//
// The modulus M gives WORDS (of the machine word), LIMBS (of 32 bits), BOUND_MAX = floor(MONT_R / M),
// limb(i), multiple<K>(i), mont_r(i), mont_r2(i) and the Montgomery constants.
#pragma once
#include "word.cuh"
#include "limbs32.cuh"
#ifdef SIM
#include "limbs64.cuh"
namespace limbs = limbs64;
#else
namespace limbs = limbs32;
#endif

template <class M, int K>
struct alignas(16) Residue {
  static_assert(1 <= K && K <= M::BOUND_MAX, "K times the modulus must fit the words");
  word limb[M::WORDS];

  Residue() = default;

  // A smaller bound is also a larger one.
  template <int A>
  DEV Residue(const Residue<M, A>& a) {
    static_assert(A <= K, "a bound cannot shrink by conversion: shrink, reduce or canonical");
#pragma unroll
    for (int i = 0; i < M::WORDS; i++) limb[i] = a.limb[i];
  }

  static DEV Residue zero() {
    Residue r;
#pragma unroll
    for (int i = 0; i < M::WORDS; i++) r.limb[i] = 0;
    return r;
  }

  // 1 in Montgomery form.
  static DEV Residue one() {
    Residue r;
#pragma unroll
    for (int i = 0; i < M::WORDS; i++) r.limb[i] = M::mont_r(i);
    return r;
  }

  // K*M itself, one past the largest value.
  static DEV Residue bound() {
    Residue r;
#pragma unroll
    for (int i = 0; i < M::WORDS; i++) r.limb[i] = M::template multiple<K>(i);
    return r;
  }
};

// From memory, in 16-byte pieces.
template <class M>
DEV Residue<M, 1> load_field(const Residue<M, 1>* p) {
#ifdef SIM
  return *p;
#else
  Residue<M, 1> r;
#pragma unroll
  for (int i = 0; i < M::WORDS / 4; i++) {
    const uint4 v = reinterpret_cast<const uint4*>(p)[i];
    r.limb[4 * i] = v.x;
    r.limb[4 * i + 1] = v.y;
    r.limb[4 * i + 2] = v.z;
    r.limb[4 * i + 3] = v.w;
  }
  return r;
#endif
}

// To memory, in 16-byte pieces.
template <class M>
DEV void store_field(Residue<M, 1>* p, const Residue<M, 1>& a) {
#ifdef SIM
  *p = a;
#else
#pragma unroll
  for (int i = 0; i < M::WORDS / 4; i++) {
    reinterpret_cast<uint4*>(p)[i] =
        make_uint4(a.limb[4 * i], a.limb[4 * i + 1], a.limb[4 * i + 2], a.limb[4 * i + 3]);
  }
#endif
}

template <class M, int K>
DEV Residue<M, K> select(bool condition, const Residue<M, K>& yes, const Residue<M, K>& no) {
  Residue<M, K> r;
#pragma unroll
  for (int i = 0; i < M::WORDS; i++) r.limb[i] = condition ? yes.limb[i] : no.limb[i];
  return r;
}

// a + b
template <class M, int A, int B>
DEV Residue<M, A + B> add_lazy(const Residue<M, A>& a, const Residue<M, B>& b) {
  Residue<M, A + B> r;
  (void)limbs::add<M::WORDS>(r.limb, a.limb, b.limb);   // < (A+B)*M, which fits
  return r;
}

// a - b + B*M
template <class M, int A, int B>
DEV Residue<M, A + B> sub_lazy(const Residue<M, A>& a, const Residue<M, B>& b) {
  word minus_b[M::WORDS];
  (void)limbs::sub<M::WORDS>(minus_b, Residue<M, B>::bound().limb, b.limb);   // 0 < B*M - b <= B*M
  Residue<M, A + B> r;
  (void)limbs::add<M::WORDS>(r.limb, a.limb, minus_b);   // < A*M + B*M
  return r;
}

// The same value below T*M, by one conditional subtraction.
template <int T, class M, int K>
DEV Residue<M, T> shrink(const Residue<M, K>& a) {
  static_assert(K <= 2 * T, "one subtraction of T*M brings only values < 2*T*M below T*M");
  if constexpr (K <= T) {
    return a;
  } else {
    Residue<M, T> low, high;
    const word borrow = limbs::sub<M::WORDS>(low.limb, a.limb, Residue<M, T>::bound().limb);
#pragma unroll
    for (int i = 0; i < M::WORDS; i++) high.limb[i] = a.limb[i];   // taken only when it is < T*M
    return select(borrow != 0, high, low);
  }
}

// The same value below 2*M.
template <class M, int K>
DEV Residue<M, 2> reduce(const Residue<M, K>& a) {
  if constexpr (K <= 4) {
    return shrink<2>(a);
  } else {
    return reduce(shrink<(K + 1) / 2>(a));
  }
}

// The same value below M: what memory holds.
template <class M, int K>
DEV Residue<M, 1> canonical(const Residue<M, K>& a) {
  if constexpr (K <= 2) {
    return shrink<1>(a);
  } else {
    return canonical(shrink<(K + 1) / 2>(a));
  }
}

// a + b, within the operands' own bound.
template <class M, int K>
DEV Residue<M, K> add(const Residue<M, K>& a, const Residue<M, K>& b) {
  return shrink<K>(add_lazy(a, b));
}

template <class M, int K>
DEV Residue<M, K> twice(const Residue<M, K>& a) {
  return add(a, a);
}

template <class M, int K>
DEV Residue<M, K> thrice(const Residue<M, K>& a) {
  return add(a, add(a, a));
}

// a - b, within the operands' own bound.
template <class M, int K>
DEV Residue<M, K> sub(const Residue<M, K>& a, const Residue<M, K>& b) {
  Residue<M, K> difference, lifted;
  const word borrow = limbs::sub<M::WORDS>(difference.limb, a.limb, b.limb);
  (void)limbs::add<M::WORDS>(lifted.limb, difference.limb, Residue<M, K>::bound().limb);
  return select(borrow != 0, lifted, difference);
}

// -a, within the operand's own bound.
template <class M, int K>
DEV Residue<M, K> neg(const Residue<M, K>& a) {
  return sub(Residue<M, K>::zero(), a);
}

// a * b.  (ab + kM) / MONT_R with k < MONT_R is below (A*B*M / MONT_R + 1) * M <= 2*M.
template <class M, int A, int B>
DEV Residue<M, 2> mul(const Residue<M, A>& a, const Residue<M, B>& b) {
  static_assert(A * B <= M::BOUND_MAX, "the product of the bounds is too large for a result below 2*M");
  static_assert((A < B ? A : B) + 1 <= M::BOUND_MAX, "intermediate values must fit the words");
  Residue<M, 2> r;
  if constexpr (A <= B) {
    limbs::mont_mul<M, M::WORDS>(r.limb, a.limb, b.limb);
  } else {
    limbs::mont_mul<M, M::WORDS>(r.limb, b.limb, a.limb);
  }
  return r;
}

// a^2
template <class M, int A>
DEV Residue<M, 2> sqr(const Residue<M, A>& a) {
  static_assert(A * A <= M::BOUND_MAX, "the square of the bound is too large for a result below 2*M");
  Residue<M, 2> r;
#ifdef SIM
  limbs::mont_mul<M, M::WORDS>(r.limb, a.limb, a.limb);
#else
  word t[2 * M::WORDS];
  limbs::sqr_wide<M::WORDS>(t, a.limb);
  limbs::mont_redc<M, M::WORDS>(r.limb, t);
#endif
  return r;
}

// a*b + c*d with one reduction.
template <class M, int A, int B, int C, int D>
DEV Residue<M, 2> mul_add(const Residue<M, A>& a, const Residue<M, B>& b, const Residue<M, C>& c,
                          const Residue<M, D>& d) {
  static_assert(A * B + C * D <= M::BOUND_MAX, "the sum of the products is too large for a result below 2*M");
  static_assert(A + C + 1 <= M::BOUND_MAX, "intermediate values must fit the words");
  Residue<M, 2> r;
  limbs::mont_mul_add<M, M::WORDS>(r.limb, a.limb, b.limb, c.limb, d.limb);
  return r;
}

// a*b - c*d with one reduction: a*b + c*(D*M - d).
template <class M, int A, int B, int C, int D>
DEV Residue<M, 2> mul_sub(const Residue<M, A>& a, const Residue<M, B>& b, const Residue<M, C>& c,
                          const Residue<M, D>& d) {
  static_assert(A * B + C * D <= M::BOUND_MAX, "the sum of the products is too large for a result below 2*M");
  static_assert(A + C + 1 <= M::BOUND_MAX, "intermediate values must fit the words");
  word minus_d[M::WORDS];
  (void)limbs::sub<M::WORDS>(minus_d, Residue<M, D>::bound().limb, d.limb);   // 0 < D*M - d <= D*M
  Residue<M, 2> r;
  limbs::mont_mul_add<M, M::WORDS>(r.limb, a.limb, b.limb, c.limb, minus_d);
  return r;
}

// Whether a is 0 modulo M: 0 or M itself. Most values fail on one word.
template <class M, int K>
DEV bool is_zero(const Residue<M, K>& a) {
  static_assert(K <= 2, "reduce first: there are more multiples of M to compare with");
  if (a.limb[0] != 0 && (K == 1 || a.limb[0] != M::limb(0))) return false;
  word zero = 0, modulus = 0;
#pragma unroll
  for (int i = 0; i < M::WORDS; i++) {
    zero |= a.limb[i];
    modulus |= a.limb[i] ^ M::limb(i);
  }
  return zero == 0 || (K > 1 && modulus == 0);
}

// Montgomery form of a plain number < A*M.
template <class M, int A>
DEV Residue<M, 2> to_mont(const Residue<M, A>& plain) {
  Residue<M, 1> square;
#pragma unroll
  for (int i = 0; i < M::WORDS; i++) square.limb[i] = M::mont_r2(i);
  return mul(square, plain);
}

// The plain number < M of a Montgomery form.
template <class M, int A>
DEV Residue<M, 1> from_mont(const Residue<M, A>& a) {
  word t[2 * M::WORDS];
#pragma unroll
  for (int i = 0; i < M::WORDS; i++) {
    t[i] = a.limb[i];
    t[i + M::WORDS] = 0;
  }
  Residue<M, 2> r;
  limbs::mont_redc<M, M::WORDS>(r.limb, t);   // <= M
  return canonical(r);
}
