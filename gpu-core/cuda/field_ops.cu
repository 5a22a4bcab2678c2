// SPDX-License-Identifier: MIT OR Apache-2.0
// Field operations over arrays, one item a thread: what the laws of harness/tests/field_laws.rs are checked
// on, and chains of dependent products, which measure the multiplier. Inputs and outputs are canonical, in
// Montgomery form.
#include "fp.cuh"
#include "fp2.cuh"
#include "fr.cuh"
#include "inverse.cuh"

DEV u32 thread_index() { return blockIdx.x * blockDim.x + threadIdx.x; }

// fp_add: sum in Fp, one item a thread.
//   in   a, b  Fp[n]
//   out  out   Fp[n]
//   law  out == a + b
//   cost 144 B and a dozen additions an item, bound by memory
extern "C" __global__ void __launch_bounds__(256)
fp_add(Fp<1>* out, const Fp<1>* a, const Fp<1>* b, u32 n) {
  const u32 i = thread_index();
  if (i < n) store_field(out + i, add(load_field(a + i), load_field(b + i)));
}
EXPORT_KERNEL(fp_add)

// fp_sub: difference in Fp, one item a thread.
//   in   a, b  Fp[n]
//   out  out   Fp[n]
//   law  out == a - b
//   cost as fp_add
extern "C" __global__ void __launch_bounds__(256)
fp_sub(Fp<1>* out, const Fp<1>* a, const Fp<1>* b, u32 n) {
  const u32 i = thread_index();
  if (i < n) store_field(out + i, sub(load_field(a + i), load_field(b + i)));
}
EXPORT_KERNEL(fp_sub)

// fp_neg: negation in Fp, one item a thread.
//   in   a    Fp[n]
//   out  out  Fp[n]
//   law  out == -a
//   cost as fp_add
extern "C" __global__ void __launch_bounds__(256)
fp_neg(Fp<1>* out, const Fp<1>* a, u32 n) {
  const u32 i = thread_index();
  if (i < n) store_field(out + i, neg(load_field(a + i)));
}
EXPORT_KERNEL(fp_neg)

// fp_mul: product in Fp, one item a thread.
//   in   a, b  Fp[n]
//   out  out   Fp[n]
//   law  out == a * b
//   cost 144 B and 300 wide products an item
extern "C" __global__ void __launch_bounds__(256)
fp_mul(Fp<1>* out, const Fp<1>* a, const Fp<1>* b, u32 n) {
  const u32 i = thread_index();
  if (i < n) store_field(out + i, canonical(mul(load_field(a + i), load_field(b + i))));
}
EXPORT_KERNEL(fp_mul)

// fp_sqr: square in Fp, one item a thread.
//   in   a    Fp[n]
//   out  out  Fp[n]
//   law  out == a^2
//   cost 96 B and 234 wide products an item
extern "C" __global__ void __launch_bounds__(256)
fp_sqr(Fp<1>* out, const Fp<1>* a, u32 n) {
  const u32 i = thread_index();
  if (i < n) store_field(out + i, canonical(sqr(load_field(a + i))));
}
EXPORT_KERNEL(fp_sqr)

// fp_inverse: inverse in Fp, one item a thread.
//   in   a    Fp[n]
//   out  out  Fp[n]
//   law  out * a == 1, and out == 0 where a == 0
//   cost 27 rounds of 30 division steps, a tenth of the 460 products of Fermat's theorem
extern "C" __global__ void __launch_bounds__(256)
fp_inverse(Fp<1>* out, const Fp<1>* a, u32 n) {
  const u32 i = thread_index();
  if (i < n) store_field(out + i, inverse(load_field(a + i)));
}
EXPORT_KERNEL(fp_inverse)

// fp_mul_sub: difference of two products in Fp, one item a thread.
//   in   a, b, c, d  Fp[n]
//   out  out         Fp[n]
//   law  out == a * b - c * d
//   cost 240 B and 444 wide products an item
extern "C" __global__ void __launch_bounds__(256)
fp_mul_sub(Fp<1>* out, const Fp<1>* a, const Fp<1>* b, const Fp<1>* c, const Fp<1>* d, u32 n) {
  const u32 i = thread_index();
  if (i >= n) return;
  const Fp<2> r = mul_sub(load_field(a + i), load_field(b + i), load_field(c + i), load_field(d + i));
  store_field(out + i, canonical(r));
}
EXPORT_KERNEL(fp_mul_sub)

// a + (K-1)*M: the same element by its largest representative < K*M.
template <int K, class M>
DEV Residue<M, K> raised(const Residue<M, 1>& a) {
  if constexpr (K == 1) {
    return a;
  } else {
    return add_lazy(a, Residue<M, K - 1>::bound());
  }
}

template <int K>
DEV void store_reduced(Fp<1>* out, u32 stride, const Fp<1>& a) {
  if constexpr (K > 0) {
    store_field(out + (K - 1) * stride, canonical(raised<K>(a)));
    store_reduced<K - 1>(out, stride, a);
  }
}

// fp_reduce: every lazy representative back to the canonical one, one item a thread.
//   in   a    Fp[n]
//   out  out  Fp[9][n]   row K-1: from a + (K-1)*p
//   law  out[*][i] == a[i]
//   cost 480 B an item
extern "C" __global__ void __launch_bounds__(256)
fp_reduce(Fp<1>* out, const Fp<1>* a, u32 n) {
  const u32 i = thread_index();
  if (i < n) store_reduced<9>(out + i, n, load_field(a + i));
}
EXPORT_KERNEL(fp_reduce)

// fp_is_zero: is it zero, by either representative < 2p? One item a thread.
//   in   a    Fp[n]
//   out  out  u32[n]   bit 0: of a, bit 1: of a as Fp<2>, bit 2: of a + p
//   law  out == 7 where a == 0, else 0
//   cost 52 B an item
extern "C" __global__ void __launch_bounds__(256)
fp_is_zero(u32* out, const Fp<1>* a, u32 n) {
  const u32 i = thread_index();
  if (i >= n) return;
  const Fp<1> x = load_field(a + i);
  out[i] = (u32)is_zero(x) | (u32)is_zero(Fp<2>(x)) << 1 | (u32)is_zero(raised<2>(x)) << 2;
}
EXPORT_KERNEL(fp_is_zero)

// fp_lazy: operations on the largest representatives that their types admit, one item a thread.
//   in   a, b  Fp[n]
//   out  out   Fp[10][n]
//   law  out[0..5] == a * b, out[5] == a^2, out[6] == a*b - b*b, out[7] == a + b, out[8..10] == a - b
//   cost 576 B and about 2200 wide products an item
extern "C" __global__ void __launch_bounds__(256)
fp_lazy(Fp<1>* out, const Fp<1>* a, const Fp<1>* b, u32 n) {
  const u32 i = thread_index();
  if (i >= n) return;
  const Fp<1> x = load_field(a + i);
  const Fp<1> y = load_field(b + i);
  Fp<1>* const row = out + i;
  store_field(row, canonical(mul(raised<9>(x), y)));
  store_field(row + n, canonical(mul(x, raised<9>(y))));
  store_field(row + 2 * n, canonical(mul(raised<2>(x), raised<4>(y))));
  store_field(row + 3 * n, canonical(mul(raised<4>(x), raised<2>(y))));
  store_field(row + 4 * n, canonical(mul(raised<3>(x), raised<3>(y))));
  store_field(row + 5 * n, canonical(sqr(raised<3>(x))));
  store_field(row + 6 * n, canonical(mul_sub(raised<2>(x), raised<2>(y), raised<2>(y), raised<2>(y))));
  store_field(row + 7 * n, canonical(add(raised<4>(x), raised<4>(y))));
  store_field(row + 8 * n, canonical(sub_lazy(raised<4>(x), raised<5>(y))));
  store_field(row + 9 * n, canonical(sub(x, y)));
}
EXPORT_KERNEL(fp_lazy)

template <class M>
DEV void load_limbs32(u32* limb, const Residue<M, 1>* p) {
  const u32* const words = reinterpret_cast<const u32*>(p);
  for (int i = 0; i < M::LIMBS; i++) limb[i] = words[i];
}

// One product in four ways, by the 32-bit limbs of CUDA whatever the device.
template <class M>
DEV void store_limbs32(Residue<M, 1>* out, u32 stride, const Residue<M, 1>* a, const Residue<M, 1>* b) {
  constexpr int N = M::LIMBS;
  u32 x[N], y[N], zero[N] = {}, wide[2 * N], r[4][N];
  load_limbs32(x, a);
  load_limbs32(y, b);
  limbs32::mont_mul<M, N>(r[0], x, y);
  limbs32::mont_mul_add<M, N>(r[1], x, y, zero, y);
  limbs32::mul_wide<N>(wide, x, y);
  limbs32::mont_redc<M, N>(r[2], wide);
  limbs32::sqr_wide<N>(wide, x);
  limbs32::mont_redc<M, N>(r[3], wide);
  for (int row = 0; row < 4; row++) {
    u32 modulus[N], less[N];
    for (int i = 0; i < N; i++) modulus[i] = M::limb32(i);
    const u32 borrow = limbs32::sub<N>(less, r[row], modulus);
    u32* const words = reinterpret_cast<u32*>(out + row * stride);
    for (int i = 0; i < N; i++) words[i] = borrow != 0 ? r[row][i] : less[i];
  }
}

// fp_limbs32: the product in 32-bit limbs, which is CUDA's body, on either device. One item a thread.
//   in   a, b  Fp[n]
//   out  out   Fp[4][n]
//   law  out[0..3] == a * b, out[3] == a^2
//   cost 288 B and about 1300 wide products an item
extern "C" __global__ void __launch_bounds__(128)
fp_limbs32(Fp<1>* out, const Fp<1>* a, const Fp<1>* b, u32 n) {
  const u32 i = thread_index();
  if (i < n) store_limbs32(out + i, n, a + i, b + i);
}
EXPORT_KERNEL(fp_limbs32)

// fr_limbs32: as fp_limbs32, in Fr.
//   in   a, b  Fr[n]
//   out  out   Fr[4][n]
//   law  out[0..3] == a * b, out[3] == a^2
//   cost 192 B and about 600 wide products an item
extern "C" __global__ void __launch_bounds__(128)
fr_limbs32(Fr<1>* out, const Fr<1>* a, const Fr<1>* b, u32 n) {
  const u32 i = thread_index();
  if (i < n) store_limbs32(out + i, n, a + i, b + i);
}
EXPORT_KERNEL(fr_limbs32)

// fr_add: sum in Fr, one item a thread.
//   in   a, b  Fr[n]
//   out  out   Fr[n]
//   law  out == a + b
//   cost 96 B an item, bound by memory
extern "C" __global__ void __launch_bounds__(256)
fr_add(Fr<1>* out, const Fr<1>* a, const Fr<1>* b, u32 n) {
  const u32 i = thread_index();
  if (i < n) store_field(out + i, add(load_field(a + i), load_field(b + i)));
}
EXPORT_KERNEL(fr_add)

// fr_sub: difference in Fr, one item a thread.
//   in   a, b  Fr[n]
//   out  out   Fr[n]
//   law  out == a - b
//   cost as fr_add
extern "C" __global__ void __launch_bounds__(256)
fr_sub(Fr<1>* out, const Fr<1>* a, const Fr<1>* b, u32 n) {
  const u32 i = thread_index();
  if (i < n) store_field(out + i, sub(load_field(a + i), load_field(b + i)));
}
EXPORT_KERNEL(fr_sub)

// fr_neg: negation in Fr, one item a thread.
//   in   a    Fr[n]
//   out  out  Fr[n]
//   law  out == -a
//   cost as fr_add
extern "C" __global__ void __launch_bounds__(256)
fr_neg(Fr<1>* out, const Fr<1>* a, u32 n) {
  const u32 i = thread_index();
  if (i < n) store_field(out + i, neg(load_field(a + i)));
}
EXPORT_KERNEL(fr_neg)

// fr_mul: product in Fr, one item a thread; and with one factor not reduced.
//   in   a, b  Fr[n]
//   out  out   Fr[2][n]   second row: (a + r) * b
//   law  out[*] == a * b
//   cost 128 B and 272 wide products an item
extern "C" __global__ void __launch_bounds__(256)
fr_mul(Fr<1>* out, const Fr<1>* a, const Fr<1>* b, u32 n) {
  const u32 i = thread_index();
  if (i >= n) return;
  const Fr<1> x = load_field(a + i);
  const Fr<1> y = load_field(b + i);
  store_field(out + i, canonical(mul(x, y)));
  store_field(out + n + i, canonical(mul(raised<2>(x), y)));
}
EXPORT_KERNEL(fr_mul)

// fr_sqr: square in Fr, one item a thread.
//   in   a    Fr[n]
//   out  out  Fr[n]
//   law  out == a^2
//   cost 64 B and 108 wide products an item
extern "C" __global__ void __launch_bounds__(256)
fr_sqr(Fr<1>* out, const Fr<1>* a, u32 n) {
  const u32 i = thread_index();
  if (i < n) store_field(out + i, canonical(sqr(load_field(a + i))));
}
EXPORT_KERNEL(fr_sqr)

// fr_from_mont: Montgomery form to plain number, one item a thread.
//   in   a    Fr[n]
//   out  out  256 bits[n], < r
//   law  out * 2^256 == a mod r
//   cost 64 B and 72 wide products an item
extern "C" __global__ void __launch_bounds__(256)
fr_from_mont(Fr<1>* out, const Fr<1>* a, u32 n) {
  const u32 i = thread_index();
  if (i < n) store_field(out + i, from_mont(load_field(a + i)));
}
EXPORT_KERNEL(fr_from_mont)

// fr_to_mont: plain number to Montgomery form, one item a thread.
//   in   a    256 bits[n], any
//   out  out  Fr[n]
//   law  out == a * 2^256 mod r
//   cost 64 B and 136 wide products an item
extern "C" __global__ void __launch_bounds__(256)
fr_to_mont(Fr<1>* out, const Fr<1>* a, u32 n) {
  const u32 i = thread_index();
  if (i < n) store_field(out + i, canonical(to_mont(fr_from_any(a + i))));
}
EXPORT_KERNEL(fr_to_mont)

// fp2_add: sum in Fp2, one item a thread.
//   in   a, b  Fp2[n]
//   out  out   Fp2[n]
//   law  out == a + b
//   cost 288 B an item, bound by memory
extern "C" __global__ void __launch_bounds__(256)
fp2_add(Fp2<1>* out, const Fp2<1>* a, const Fp2<1>* b, u32 n) {
  const u32 i = thread_index();
  if (i < n) store_field(out + i, add(load_field(a + i), load_field(b + i)));
}
EXPORT_KERNEL(fp2_add)

// fp2_sub: difference in Fp2, one item a thread.
//   in   a, b  Fp2[n]
//   out  out   Fp2[n]
//   law  out == a - b
//   cost as fp2_add
extern "C" __global__ void __launch_bounds__(256)
fp2_sub(Fp2<1>* out, const Fp2<1>* a, const Fp2<1>* b, u32 n) {
  const u32 i = thread_index();
  if (i < n) store_field(out + i, sub(load_field(a + i), load_field(b + i)));
}
EXPORT_KERNEL(fp2_sub)

// fp2_neg: negation in Fp2, one item a thread.
//   in   a    Fp2[n]
//   out  out  Fp2[n]
//   law  out == -a
//   cost as fp2_add
extern "C" __global__ void __launch_bounds__(256)
fp2_neg(Fp2<1>* out, const Fp2<1>* a, u32 n) {
  const u32 i = thread_index();
  if (i < n) store_field(out + i, neg(load_field(a + i)));
}
EXPORT_KERNEL(fp2_neg)

DEV Fp2<2> raised(const Fp2<1>& a) {
  return Fp2<2>(raised<2>(a.c0), raised<2>(a.c1));
}

// fp2_mul: product in Fp2, one item a thread; and with every coordinate raised by p.
//   in   a, b  Fp2[n]
//   out  out   Fp2[2][n]   second row: from the larger representatives
//   law  out[*] == a * b
//   cost 384 B and 1488 wide products an item
extern "C" __global__ void __launch_bounds__(256)
fp2_mul(Fp2<1>* out, const Fp2<1>* a, const Fp2<1>* b, u32 n) {
  const u32 i = thread_index();
  if (i >= n) return;
  const Fp2<1> x = load_field(a + i);
  const Fp2<1> y = load_field(b + i);
  store_field(out + i, canonical(mul(x, y)));
  store_field(out + n + i, canonical(mul(raised(x), raised(y))));
}
EXPORT_KERNEL(fp2_mul)

// fp2_sqr: square in Fp2, one item a thread; and with every coordinate raised by p.
//   in   a    Fp2[n]
//   out  out  Fp2[2][n]   second row: from the larger representatives
//   law  out[*] == a^2
//   cost 288 B and 1200 wide products an item
extern "C" __global__ void __launch_bounds__(256)
fp2_sqr(Fp2<1>* out, const Fp2<1>* a, u32 n) {
  const u32 i = thread_index();
  if (i >= n) return;
  const Fp2<1> x = load_field(a + i);
  store_field(out + i, canonical(sqr(x)));
  store_field(out + n + i, canonical(sqr(raised(x))));
}
EXPORT_KERNEL(fp2_sqr)

// fp2_inverse: inverse in Fp2, one item a thread.
//   in   a    Fp2[n]
//   out  out  Fp2[n]
//   law  out * a == 1, and out == 0 where a == 0
//   cost 27 rounds of 30 division steps, a tenth of the 460 products of Fermat's theorem
extern "C" __global__ void __launch_bounds__(256)
fp2_inverse(Fp2<1>* out, const Fp2<1>* a, u32 n) {
  const u32 i = thread_index();
  if (i < n) store_field(out + i, inverse(load_field(a + i)));
}
EXPORT_KERNEL(fp2_inverse)

// fp2_mul_sub: difference of two products in Fp2, one item a thread; and with every coordinate raised by p.
//   in   a, b, c, d  Fp2[n]
//   out  out         Fp2[2][n]   second row: from the larger representatives
//   law  out[*] == a * b - c * d
//   cost 576 B and 2352 wide products an item
extern "C" __global__ void __launch_bounds__(256)
fp2_mul_sub(Fp2<1>* out, const Fp2<1>* a, const Fp2<1>* b, const Fp2<1>* c, const Fp2<1>* d, u32 n) {
  const u32 i = thread_index();
  if (i >= n) return;
  const Fp2<1> x = load_field(a + i);
  const Fp2<1> y = load_field(b + i);
  const Fp2<1> z = load_field(c + i);
  const Fp2<1> w = load_field(d + i);
  store_field(out + i, canonical(mul_sub(x, y, z, w)));
  store_field(out + n + i, canonical(mul_sub(raised(x), raised(y), raised(z), raised(w))));
}
EXPORT_KERNEL(fp2_mul_sub)

// (x, y) -> (x*y, x*y^2), `steps` times: two dependent products a step, on operands that change, since with a
// fixed factor a compiler may turn the products into additions.
template <class F>
DEV void mul_chain(F& x, F& y, u32 steps) {
  for (u32 step = 0; step < steps; step++) {
    x = mul(x, y);
    y = mul(y, x);
  }
}

// fp_mul_chain: a chain of dependent products in Fp, one a thread: the multiplier's rate.
//   io   x, y   Fp[n]
//   law  one step: (x, y) becomes (x*y, x*y^2)
//   cost 600 wide products a step, bound by the multiplier
extern "C" __global__ void __launch_bounds__(256)
fp_mul_chain(Fp<1>* x, Fp<1>* y, u32 n, u32 steps) {
  const u32 i = thread_index();
  if (i >= n) return;
  Fp<2> u = load_field(x + i), v = load_field(y + i);
  mul_chain(u, v, steps);
  store_field(x + i, canonical(u));
  store_field(y + i, canonical(v));
}
EXPORT_KERNEL(fp_mul_chain)

// fp_sqr_chain: a chain of dependent squares in Fp, one a thread.
//   io   x  Fp[n]
//   law  one step: x becomes x^2
//   cost 234 wide products a step, bound by the multiplier
extern "C" __global__ void __launch_bounds__(256)
fp_sqr_chain(Fp<1>* x, u32 n, u32 steps) {
  const u32 i = thread_index();
  if (i >= n) return;
  Fp<2> u = load_field(x + i);
  for (u32 step = 0; step < steps; step++) u = sqr(u);
  store_field(x + i, canonical(u));
}
EXPORT_KERNEL(fp_sqr_chain)

// fr_mul_chain: as fp_mul_chain, in Fr.
//   io   x, y   Fr[n]
//   law  one step: (x, y) becomes (x*y, x*y^2)
//   cost 272 wide products a step, bound by the multiplier
extern "C" __global__ void __launch_bounds__(256)
fr_mul_chain(Fr<1>* x, Fr<1>* y, u32 n, u32 steps) {
  const u32 i = thread_index();
  if (i >= n) return;
  Fr<1> u = load_field(x + i), v = load_field(y + i);
  for (u32 step = 0; step < steps; step++) {
    u = canonical(mul(u, v));
    v = canonical(mul(v, u));
  }
  store_field(x + i, u);
  store_field(y + i, v);
}
EXPORT_KERNEL(fr_mul_chain)

// fp2_mul_chain: as fp_mul_chain, in Fp2.
//   io   x, y   Fp2[n]
//   law  one step: (x, y) becomes (x*y, x*y^2)
//   cost 1488 wide products a step, bound by the multiplier
extern "C" __global__ void __launch_bounds__(256)
fp2_mul_chain(Fp2<1>* x, Fp2<1>* y, u32 n, u32 steps) {
  const u32 i = thread_index();
  if (i >= n) return;
  Fp2<2> u = load_field(x + i), v = load_field(y + i);
  mul_chain(u, v, steps);
  store_field(x + i, canonical(u));
  store_field(y + i, canonical(v));
}
EXPORT_KERNEL(fp2_mul_chain)
