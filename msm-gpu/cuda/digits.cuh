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

// Inclusive prefix sum over the lanes of a warp, all of which call it.
DEV u32 warp_scan(u32 value) {
#pragma unroll
  for (u32 step = 1; step < WARP_LANES; step <<= 1) {
    const u32 left = __shfl_up_sync(WARP_ALL, value, step);
    if (threadIdx.x % WARP_LANES >= step) value += left;
  }
  return value;
}

// Exclusive prefix sum over the THREADS threads of a block; every thread of the block calls it. total: sum over all.
//   sums  u32[THREADS / 32] in shared memory, which the next call may use again
template <u32 THREADS>
DEV u32 block_scan(u32* sums, u32 value, u32* total) {
  const u32 warps = THREADS / WARP_LANES, lane = threadIdx.x % WARP_LANES, warp = threadIdx.x / WARP_LANES;
  static_assert(THREADS % WARP_LANES == 0 && THREADS / WARP_LANES <= WARP_LANES, "one warp scans the sums of all");
  const u32 inclusive = warp_scan(value);
  if (lane == WARP_LANES - 1) sums[warp] = inclusive;
  __syncthreads();
  // Each warp for itself: no other has to wait for it.
  const u32 of_warps = warp_scan(lane < warps ? sums[lane] : 0);
  const u32 before = __shfl_sync(WARP_ALL, of_warps, warp > 0 ? warp - 1 : 0);
  *total = __shfl_sync(WARP_ALL, of_warps, warps - 1);
  __syncthreads();
  return (warp > 0 ? before : 0) + inclusive - value;
}
