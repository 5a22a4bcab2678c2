// SPDX-License-Identifier: MIT OR Apache-2.0
// Multiples of bases, computed once and kept, for one group: column j+1 of a table is 2^bits times column j.
#include "points.cuh"
#include "inverse.cuh"

typedef Group::F Coord;
typedef Group::template Field<2> Lazy;

// msm_double_bases: affine points -> 2^bits times them, one thread per point.
//   in   bases    Affine[n]   identity allowed
//   out  doubled  Xyzz[n]
//   cost per point: bits * (6M + 3S)
extern "C" __global__ void __launch_bounds__(128)
GROUP_NAME(msm_double_bases)(Xyzz* __restrict__ doubled, const Affine* __restrict__ bases, u32 n, u32 bits) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Sum sum = Sum::identity();
  sum.add_affine(bases[i], false);
  for (u32 bit = 0; bit < bits; bit++) sum.dbl();
  sum.store(&doubled[i]);
}
EXPORT_KERNEL(GROUP_NAME(msm_double_bases))

// Points whose denominators one thread inverts together.
#define NORMALIZE_PER_THREAD 16

// msm_normalize: XYZZ -> affine, one thread per every threads-th point.
//   in   points  Xyzz[n]
//   out  affine  Affine[n]   (0, 0) for the identity
//   pre  n <= 16 * threads
//   cost per point: 7M + 1S; per thread: one inversion
//   ref  [Montgomery 1987 sec 10.3.1]
extern "C" __global__ void __launch_bounds__(128)
GROUP_NAME(msm_normalize)(Affine* __restrict__ affine, const Xyzz* __restrict__ points, u32 n, u32 threads) {
  const u32 t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= threads) return;
  Coord prefixes[NORMALIZE_PER_THREAD];
  Lazy product = Lazy::one();
  u32 taken = 0;
  for (u32 i = t; i < n; i += threads) {
    prefixes[taken++] = canonical(product);
    const Coord zzz = load_field(&points[i].zzz);
    if (!is_zero(zzz)) product = mul(product, Lazy(zzz));
  }
  Lazy rest = inverse(canonical(product));
  while (taken > 0) {
    const u32 i = t + --taken * threads;
    const Coord zzz = load_field(&points[i].zzz);
    Coord x = Coord::zero(), y = Coord::zero();
    if (!is_zero(zzz)) {
      const Lazy over_zzz = mul(rest, Lazy(prefixes[taken]));
      rest = mul(rest, Lazy(zzz));
      const Lazy over_z = mul(Lazy(load_field(&points[i].zz)), over_zzz);  // ZZ / ZZZ, whose square is 1 / ZZ
      x = canonical(mul(Lazy(load_field(&points[i].x)), sqr(over_z)));
      y = canonical(mul(Lazy(load_field(&points[i].y)), over_zzz));
    }
    store_field(&affine[i].x, x);
    store_field(&affine[i].y, y);
  }
}
EXPORT_KERNEL(GROUP_NAME(msm_normalize))
