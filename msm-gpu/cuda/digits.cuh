// SPDX-License-Identifier: MIT OR Apache-2.0
// Digits, and the buckets that they belong to.
//
// A batch has n scalars and `windows` windows: `wide` of `bits` bits, then others of one bit less, so that the last window
// has about as many different digits as any. Digit rows are numbered 0 .. windows-1 for the windows, least significant
// first; row `windows` marks the scalars equal to one, whose other digits are all zero.
//
// The windows share `sets` sets of buckets. Row w counts for set w % sets with column w / sets of the bases' table: their
// multiples by 2^(first bit of window w - w % sets). Without a table there is one set a window, and one column. Buckets are
// numbered set * buckets + |digit| - 1; the last one, sets * buckets, takes the marks.
#pragma once
#include "base.cuh"

// Bit 31 of a digit or an entry: the point is subtracted.
#define SIGN_BIT 0x80000000u

// Bucket of a digit that is not zero; of zero, some number that nobody uses.
DEV u32 bucket_of(u32 digit, u32 row, u32 windows, u32 sets, u32 buckets) {
  const u32 set = row == windows ? sets : row % sets;
  return set * buckets + (digit & ~SIGN_BIT) - 1;
}

// counters[key] += unit for every lane with `counts`; what the counter was before this lane's turn, or anything without
// `counts`. All lanes of a warp call it. Lanes with one key share one atomic operation: with all scalars equal, one
// atomic a lane took 11 ms at 2^20 points, longer than all additions. [Adi14] warp-aggregated atomics
DEV u32 add_shared(u32* counters, u32 key, bool counts, u32 unit) {
#ifdef SIM
  return counts ? atomicAdd(&counters[key], unit) : 0;
#else
  const u32 peers = __match_any_sync(WARP_ALL, counts ? key : 0xffffffffu);
  const u32 lane = threadIdx.x % WARP_LANES, leader = __ffs(peers) - 1;
  const u32 turn = __popc(peers & ((1u << lane) - 1));
  u32 before = 0;
  if (counts && lane == leader) before = atomicAdd(&counters[key], unit * __popc(peers));
  before = __shfl_sync(WARP_ALL, before, leader);
  return before + unit * turn;
#endif
}

// Exclusive prefix sum over the THREADS threads of a block; every thread of the block calls it. total: sum over all.
//   sums  u32[THREADS] in shared memory, which the next call may use again
template <u32 THREADS>
DEV u32 block_scan(u32* sums, u32 value, u32* total) {
  const u32 t = threadIdx.x;
  sums[t] = value;
  __syncthreads();
  for (u32 stride = 1; stride < THREADS; stride <<= 1) {
    const u32 left = t >= stride ? sums[t - stride] : 0;
    __syncthreads();
    sums[t] += left;
    __syncthreads();
  }
  const u32 inclusive = sums[t];
  *total = sums[THREADS - 1];
  __syncthreads();
  return inclusive - value;
}
