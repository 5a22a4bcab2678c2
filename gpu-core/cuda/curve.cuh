// SPDX-License-Identifier: MIT OR Apache-2.0
// Points of the two groups of BLS12-381, y^2 = x^3 + b over Fp (G1) and over Fp2 (G2), and their complete
// addition.
//
// The accumulator is in XYZZ coordinates: x = X/ZZ, y = Y/ZZZ, ZZ^3 = ZZZ^2; the identity has ZZ = 0. An
// affine operand is (x, y) with (0, 0) for the identity, which is on neither curve.
//
// The formulas keep the paper's letters and hold for the case in their name alone; `add`, `add_affine` and
// `dbl` are complete. No point of the groups' curves has y = 0 (both orders are odd), so doubling has no
// exceptional case but the identity. All coordinates in registers are < 2p, in memory canonical.
#pragma once
#include "fp.cuh"
#include "fp2.cuh"

// (x, y) in Montgomery form, canonical; (0, 0) is the identity. F is Fp<1> or Fp2<1>.
template <class F>
struct alignas(16) AffineMem {
  F x, y;
};

// (X, Y, ZZ, ZZZ) in Montgomery form, canonical; ZZ = 0 is the identity.
template <class F>
struct alignas(16) XyzzMem {
  F x, y, zz, zzz;
};

// A group: its coordinate field by bound, and whether a point (48 registers in G1, 96 in G2) is kept in
// registers through an addition or read from local memory operand by operand.
struct G1 {
  static constexpr bool IN_REGISTERS = true;
  template <int K>
  using Field = Fp<K>;
  typedef Fp<1> F;
};

struct G2 {
  static constexpr bool IN_REGISTERS = false;
  template <int K>
  using Field = Fp2<K>;
  typedef Fp2<1> F;
};

static_assert(sizeof(AffineMem<G1::F>) == 96 && sizeof(XyzzMem<G1::F>) == 192, "G1 in memory");
static_assert(sizeof(AffineMem<G2::F>) == 192 && sizeof(XyzzMem<G2::F>) == 384, "G2 in memory");

#if defined(GROUP_G1)
using Group = G1;
#elif defined(GROUP_G2)
using Group = G2;
#endif

// 3a: a function of its own, since inside Point the name `add` is a member's.
template <class F>
DEV F thrice(const F& a) {
  return add(a, twice(a));
}

// A point in registers.
template <class G>
struct Point {
  using Coord = typename G::template Field<2>;
  using Affine = AffineMem<typename G::F>;
  using Xyzz = XyzzMem<typename G::F>;

  Coord x, y, zz, zzz;

  static DEV Point identity() {
    Point r;
    r.x = Coord::zero();
    r.y = Coord::zero();
    r.zz = Coord::zero();
    r.zzz = Coord::zero();
    return r;
  }

  static DEV Point load(const Xyzz* p) {
    Point r;
    r.x = load_field(&p->x);
    r.y = load_field(&p->y);
    r.zz = load_field(&p->zz);
    r.zzz = load_field(&p->zzz);
    return r;
  }

  DEV void store(Xyzz* p) const {
    store_field(&p->x, canonical(x));
    store_field(&p->y, canonical(y));
    store_field(&p->zz, canonical(zz));
    store_field(&p->zzz, canonical(zzz));
  }

  DEV bool is_identity() const { return is_zero(zz); }

  // p = -p
  DEV void negate() { y = neg(y); }

  // p = p + q, or p - q where `negative`. Complete.  8M + 2S, one reduction less  [EFD xyzz madd-2008-s]
  DEV void add_affine(const Affine& q, bool negative) {
    if constexpr (G::IN_REGISTERS) {
      add_affine_inlined(q, negative);
    } else {
      add_affine_function(*this, q, negative);
    }
  }

  // p = p + q. Complete.  12M + 2S, one reduction less  [EFD xyzz add-2008-s]
  DEV void add(const Point& q) {
    if constexpr (G::IN_REGISTERS) {
      add_inlined(q);
    } else {
      add_function(*this, q);
    }
  }

  // As add, where it is not the work of the kernel: one call instead of 3900 instructions.
  DEV void add_rarely(const Point& q) {
    Point sum = *this;   // copies, so that no address of a point in registers is taken
    const Point term = q;
    add_function(sum, term);
    *this = sum;
  }

  // p = 2p. Complete.  6M + 3S, one reduction less  [EFD xyzz dbl-2008-s-1] with a = 0
  DEV void dbl() {
    Point p = *this;
    dbl_function(p);
    *this = p;
  }

  // p = k*p, by double-and-add from the top bit.
  DEV void mul_small(u32 k) {
    const Point p = *this;
    *this = identity();
    for (int bit = 31 - __clz((i32)k); bit >= 0; bit--) {
      dbl();
      if (k >> bit & 1) add_rarely(p);
    }
  }

 private:
  DEV void set_affine(const Coord& x2, const Coord& y2) {
    x = x2;
    y = y2;
    zz = Coord::one();
    zzz = Coord::one();
  }

  // The rest of both additions, from P = U2-X1 and R = S2-Y1 on, for P != 0.
  DEV void finish_add_distinct(const Coord& P, const Coord& R) {
    const Coord PP = sqr(P);                 // PP  = P^2
    const Coord PPP = mul(P, PP);            // PPP = P*PP
    const Coord Q = mul(x, PP);              // Q   = X1*PP
    x = sub(sub(sqr(R), PPP), twice(Q));     // X3  = R^2-PPP-2*Q
    y = mul_sub(R, sub(Q, x), y, PPP);       // Y3  = R*(Q-X3)-Y1*PPP
    zz = mul(zz, PP);                        // ZZ3  = ZZ1*PP
    zzz = mul(zzz, PPP);                     // ZZZ3 = ZZZ1*PPP
  }

  DEV void add_affine_inlined(const Affine& q, bool negative) {
    const typename G::F q_x = load_field(&q.x);
    const typename G::F q_y = load_field(&q.y);
    if (is_zero(q_x) && is_zero(q_y)) {
      COVER(point_add_affine_identity_right);
      return;
    }
    const Coord x2 = q_x;
    const Coord y2 = negative ? neg(Coord(q_y)) : Coord(q_y);
    if (is_identity()) {
      COVER(point_add_affine_identity_left);
      set_affine(x2, y2);
      return;
    }
    const Coord P = sub(mul(x2, zz), x);    // P = U2-X1, U2 = X2*ZZ1
    const Coord R = sub(mul(y2, zzz), y);   // R = S2-Y1, S2 = Y2*ZZZ1
    if (!is_zero(P)) {
      finish_add_distinct(P, R);
    } else if (is_zero(R)) {
      COVER(point_add_affine_double);
      set_affine(x2, y2);
      dbl();
    } else {
      COVER(point_add_affine_cancel);
      *this = identity();
    }
  }

  DEV void add_inlined(const Point& q) {
    if (q.is_identity()) {
      COVER(point_add_identity_right);
      return;
    }
    if (is_identity()) {
      COVER(point_add_identity_left);
      *this = q;
      return;
    }
    const Coord U1 = mul(x, q.zz);            // U1 = X1*ZZ2
    const Coord S1 = mul(y, q.zzz);           // S1 = Y1*ZZZ2
    const Coord P = sub(mul(q.x, zz), U1);    // P  = U2-U1, U2 = X2*ZZ1
    const Coord R = sub(mul(q.y, zzz), S1);   // R  = S2-S1, S2 = Y2*ZZZ1
    if (!is_zero(P)) {
      x = U1;                                 // the same point, over the denominators of both
      y = S1;
      zz = mul(zz, q.zz);                     // ZZ1*ZZ2
      zzz = mul(zzz, q.zzz);                  // ZZZ1*ZZZ2
      finish_add_distinct(P, R);
    } else if (is_zero(R)) {
      COVER(point_add_double);
      dbl();
    } else {
      COVER(point_add_cancel);
      *this = identity();
    }
  }

  static FUNCTION void add_affine_function(Point& p, const Affine& q, bool negative) {
    p.add_affine_inlined(q, negative);
  }

  static FUNCTION void add_function(Point& p, const Point& q) { p.add_inlined(q); }

  static FUNCTION void dbl_function(Point& p) {
    if (p.is_identity()) {
      COVER(point_dbl_identity);
      return;
    }
    const Coord U = twice(p.y);                 // U = 2*Y1
    const Coord V = sqr(U);                     // V = U^2
    const Coord W = mul(U, V);                  // W = U*V
    const Coord S = mul(p.x, V);                // S = X1*V
    const Coord M = thrice(sqr(p.x));           // M = 3*X1^2
    p.x = sub(sqr(M), twice(S));                // X3 = M^2-2*S
    p.y = mul_sub(M, sub(S, p.x), W, p.y);      // Y3 = M*(S-X3)-W*Y1
    p.zz = mul(V, p.zz);                        // ZZ3 = V*ZZ1
    p.zzz = mul(W, p.zzz);                      // ZZZ3 = W*ZZZ1
  }
};
