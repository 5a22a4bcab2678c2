// SPDX-License-Identifier: MIT OR Apache-2.0
// Point operations over arrays, one item a thread, compiled once per group: what the laws of
// harness/tests/field_laws.rs are checked on, and a chain of additions, which measures them.
#include "curve.cuh"

typedef AffineMem<Group::F> Affine;
typedef XyzzMem<Group::F> Xyzz;

DEV u32 thread_index() { return blockIdx.x * blockDim.x + threadIdx.x; }

// curve_add_affine: point plus or minus affine point, one item a thread.
//   in   p    Xyzz[n], q Affine[n], negative u32[n]   0 or 1
//   out  out  Xyzz[n]   canonical
//   law  out == p + (-1)^negative * q
//   cost G1 484 B and 2712 wide products an item, G2 964 B and 7416
extern "C" __global__ void __launch_bounds__(128)
GROUP_NAME(curve_add_affine)(Xyzz* out, const Xyzz* p, const Affine* q, const u32* negative, u32 n) {
  const u32 i = thread_index();
  if (i >= n) return;
  Point<Group> point = Point<Group>::load(p + i);
  point.add_affine(q[i], negative[i] != 0);
  point.store(out + i);
}
EXPORT_KERNEL(GROUP_NAME(curve_add_affine))

// curve_add: sum of two points, one item a thread.
//   in   p, q  Xyzz[n]
//   out  out   Xyzz[n]   canonical
//   law  out == p + q
//   cost G1 576 B and 3912 wide products an item, G2 1152 B and 10392
extern "C" __global__ void __launch_bounds__(128)
GROUP_NAME(curve_add)(Xyzz* out, const Xyzz* p, const Xyzz* q, u32 n) {
  const u32 i = thread_index();
  if (i >= n) return;
  Point<Group> point = Point<Group>::load(p + i);
  point.add(Point<Group>::load(q + i));
  point.store(out + i);
}
EXPORT_KERNEL(GROUP_NAME(curve_add))

// curve_dbl: twice a point, one item a thread.
//   in   p    Xyzz[n]
//   out  out  Xyzz[n]   canonical
//   law  out == 2 * p
//   cost G1 384 B and 2346 wide products an item, G2 768 B and 6696
extern "C" __global__ void __launch_bounds__(128)
GROUP_NAME(curve_dbl)(Xyzz* out, const Xyzz* p, u32 n) {
  const u32 i = thread_index();
  if (i >= n) return;
  Point<Group> point = Point<Group>::load(p + i);
  point.dbl();
  point.store(out + i);
}
EXPORT_KERNEL(GROUP_NAME(curve_dbl))

// curve_negate: minus a point, one item a thread.
//   in   p    Xyzz[n]
//   out  out  Xyzz[n]   canonical
//   law  out == -p
//   cost G1 384 B an item, G2 768 B, bound by memory
extern "C" __global__ void __launch_bounds__(128)
GROUP_NAME(curve_negate)(Xyzz* out, const Xyzz* p, u32 n) {
  const u32 i = thread_index();
  if (i >= n) return;
  Point<Group> point = Point<Group>::load(p + i);
  point.negate();
  point.store(out + i);
}
EXPORT_KERNEL(GROUP_NAME(curve_negate))

// curve_mul_small: multiple of a point by a 32-bit number, one item a thread.
//   in   p    Xyzz[n], k u32[n]
//   out  out  Xyzz[n]   canonical
//   law  out == k * p
//   cost a doubling for each bit of k and an addition for each bit that is 1
extern "C" __global__ void __launch_bounds__(128)
GROUP_NAME(curve_mul_small)(Xyzz* out, const Xyzz* p, const u32* k, u32 n) {
  const u32 i = thread_index();
  if (i >= n) return;
  Point<Group> point = Point<Group>::load(p + i);
  point.mul_small(k[i]);
  point.store(out + i);
}
EXPORT_KERNEL(GROUP_NAME(curve_mul_small))

// curve_add_affine_chain: a chain of dependent affine additions, one a thread: the rate of accumulation
// without its memory traffic.
//   in   q    Affine[q_count]   thread i adds q[i], q[i+1], .. cyclically, `steps` of them
//   io   p    Xyzz[n]           canonical
//   law  p becomes p + sum over j < steps of q[(i + j) mod q_count]
//   cost G1 2712 wide products a step, G2 7416
extern "C" __global__ void __launch_bounds__(128)
GROUP_NAME(curve_add_affine_chain)(Xyzz* p, const Affine* q, u32 q_count, u32 n, u32 steps) {
  const u32 i = thread_index();
  if (i >= n) return;
  Point<Group> point = Point<Group>::load(p + i);
  u32 at = i % q_count;
  for (u32 step = 0; step < steps; step++) {
    point.add_affine(q[at], false);
    at = at + 1 == q_count ? 0 : at + 1;
  }
  point.store(p + i);
}
EXPORT_KERNEL(GROUP_NAME(curve_add_affine_chain))

// curve_add_chain: a chain of dependent additions, one a thread: the rate of bucket reduction.
//   in   q    Xyzz[q_count]   thread i adds q[i], q[i+1], .. cyclically, `steps` of them
//   io   p    Xyzz[n]         canonical
//   law  p becomes p + sum over j < steps of q[(i + j) mod q_count]
//   cost G1 3912 wide products a step, G2 10392
extern "C" __global__ void __launch_bounds__(128)
GROUP_NAME(curve_add_chain)(Xyzz* p, const Xyzz* q, u32 q_count, u32 n, u32 steps) {
  const u32 i = thread_index();
  if (i >= n) return;
  Point<Group> point = Point<Group>::load(p + i);
  u32 at = i % q_count;
  for (u32 step = 0; step < steps; step++) {
    point.add(Point<Group>::load(q + at));
    at = at + 1 == q_count ? 0 : at + 1;
  }
  point.store(p + i);
}
EXPORT_KERNEL(GROUP_NAME(curve_add_chain))
