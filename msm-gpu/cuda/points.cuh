// SPDX-License-Identifier: MIT OR Apache-2.0
// What the kernels on points share: the types of one group, and sums over neighbouring threads.
#pragma once
#include "base.cuh"
#include "curve.cuh"

typedef Point<Group> Sum;
typedef Sum::Affine Affine;  // 96 B in G1, 192 B in G2
typedef Sum::Xyzz Xyzz;      // 192 B, 384 B

// Sums over groups of `group` neighbouring threads, a power of two that divides THREADS; valid in the first thread of
// each group. Every thread of the block calls it.
template <u32 THREADS>
DEV Sum group_sum(Sum sum, u32 group) {
  alignas(16) __shared__ Xyzz partial[THREADS / 2];
  const u32 lane = threadIdx.x % group;
  Xyzz* const slots = &partial[threadIdx.x / group * (group / 2)];
  for (u32 stride = group / 2; stride > 0; stride >>= 1) {
    if (lane >= stride && lane < 2 * stride) sum.store(&slots[lane - stride]);
    __syncthreads();
    if (lane < stride) sum.add_rarely(Sum::load(&slots[lane]));
    __syncthreads();
  }
  return sum;
}
