// SPDX-License-Identifier: MIT OR Apache-2.0
// What the kernels on points share: the types of one group, and sums over neighbouring threads.
#pragma once
#include "base.cuh"
#include "curve.cuh"

typedef Point<Group> Sum;
typedef Sum::Affine Affine;  // 96 B in G1, 192 B in G2
typedef Sum::Xyzz Xyzz;      // 192 B, 384 B

// left = left + right by four neighbouring threads, in the time of five products: an addition is four steps of products that
// do not wait for each other. Complete; leaves nothing of `right`. Every thread of the warp calls it, and a barrier
// follows before another thread reads the sum.
//   [EFD xyzz add-2008-s] in the letters of Point::add
// In G2 about 1 KB a thread spills around the calls of products: it stays in the first cache, where they wait for each other
// anyway (318 to 183 us a reduction of 2^18 buckets to bits all the same).
DEV void add_by_four(Xyzz* left, Xyzz* right, bool is_active) {
  typedef Sum::Coord Coord;
  Group::F* const a = &left->x;  // x, y, zz, zzz
  Group::F* const b = &right->x;
  const u32 part = threadIdx.x % 4;
  const bool has_left = is_active && !is_zero(a[2]), has_right = is_active && !is_zero(b[2]);
  const bool is_sum = has_left && has_right;
  Coord first, own_left, own_right;
  if (is_sum) {
    Group::F* const of = part < 2 ? a : b;
    first = mul(Coord(of[part % 2]), Coord((part < 2 ? b : a)[2 + part % 2]));  // U1, S1, U2, S2
    of[part % 2] = canonical(first);
    if (part >= 2) {  // now, since others write to these places after the barrier
      own_left = a[part];
      own_right = b[part];
    }
  }
  __syncwarp();
  Coord P, R, second;
  bool is_distinct = false;
  if (is_sum) {
    P = sub(b[0], a[0]);
    R = sub(b[1], a[1]);
    is_distinct = !is_zero(P);
    if (part < 2) own_left = own_right = part == 0 ? P : R;
    second = mul(own_left, own_right);  // PP, R^2, ZZ1*ZZ2, ZZZ1*ZZZ2
    if (is_distinct && part < 2) (part == 0 ? a : b)[2] = canonical(second);
  }
  __syncwarp();
  Coord third;
  if (is_distinct) {
    third = mul(part == 0 ? first : part == 1 ? P : second, Coord(a[2]));  // Q, PPP, ZZ3
    if (part < 2) b[part] = canonical(third);
  }
  __syncwarp();
  if (is_distinct) {
    const Coord Q = b[0], PPP = b[1];
    const Coord x3 = sub(sub(Coord(b[2]), PPP), twice(Q));
    const bool is_y = part == 1;  // R*(Q-X3)-S1*PPP, or ZZZ1*ZZZ2*PPP
    const Coord last = mul_sub(is_y ? R : second, is_y ? sub(Q, x3) : PPP, first, is_y ? PPP : Coord::zero());
    a[part] = canonical(part == 0 ? x3 : part == 2 ? third : last);
  } else if (is_sum) {
    if (part == 0) {
      Sum sum;  // `left` over the denominators of both
      sum.x = a[0];
      sum.y = a[1];
      sum.zz = mul(Coord(a[2]), Coord(b[2]));
      sum.zzz = mul(Coord(a[3]), Coord(b[3]));
      if (is_zero(R)) {
        COVER(point_add_by_four_double);
        sum.dbl();
      } else {
        COVER(point_add_by_four_cancel);
        sum = Sum::identity();
      }
      sum.store(left);
    }
  } else if (has_right) {
    COVER(point_add_by_four_identity_left);
    a[part] = b[part];
  }
}

// Sums over groups of `group` neighbouring threads, powers of two as THREADS, the most that a block can have; valid in the
// first thread of each group. Every thread of the block calls it. No addition is one thread's: fourteen products that wait
// for each other, while the others wait for it.
template <u32 THREADS>
DEV Sum group_sum(const Sum& sum, u32 group) {
  alignas(16) __shared__ Xyzz slots[THREADS];
  const u32 fours = blockDim.x / 4, in_warp = threadIdx.x / 4 % (WARP_LANES / 4);
  sum.store(&slots[threadIdx.x]);
  for (u32 stride = group / 2; stride > 0; stride >>= 1) {
    __syncthreads();
    const u32 pairs = blockDim.x / group * stride;
    for (u32 pair = threadIdx.x / 4; pair - in_warp < pairs; pair += fours) {  // all of a warp or none
      const bool is_active = pair < pairs;
      Xyzz* const left = &slots[is_active ? pair / stride * group + pair % stride : 0];
      add_by_four(left, left + stride, is_active);
    }
  }
  __syncthreads();
  const Sum total = Sum::load(&slots[threadIdx.x / group * group]);
  __syncthreads();
  return total;
}
