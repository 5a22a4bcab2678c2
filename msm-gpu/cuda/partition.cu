// SPDX-License-Identifier: MIT OR Apache-2.0
// Digits to entries sorted by bucket, for sorts that do not fit a cache: first to partitions of neighbouring buckets, then
// inside each. Straight to their places, each of 4 bytes, entries take 68 ps; this way they take 20 (2^24 points, H200).
//
// A partition is 2^partition_bits buckets of one set. Blocks take tiles of digits, or of what the first step made of them,
// count them in shared memory, reserve places for all of a counter at once, and write runs.
#include "base.cuh"
#include "digits.cuh"

// Threads of a block, and what each takes of a tile.
#define TILE_THREADS 512
#define PER_THREAD 16
#define TILE (TILE_THREADS * PER_THREAD)

// Counters of a block: partitions of a set, and buckets of a partition.
#define COUNTERS 4096

// What a place holds that no digit took.
#define NO_BUCKET 0xffffffffu

// The partitions of one row of digits: `first`, and the others of its set after it.
DEV u32 first_partition(u32 row, u32 windows, u32 sets, u32 buckets, u32 partition_bits) {
  const u32 set = row == windows ? sets : row % sets;
  return set * (buckets >> partition_bits);
}

// The partition of a digit that is not zero, among those of its set.
DEV u32 partition_of(u32 digit, u32 partition_bits) { return ((digit & ~SIGN_BIT) - 1) >> partition_bits; }

DEV void clear(u32* counters, u32 count) {
  for (u32 k = threadIdx.x; k < count; k += TILE_THREADS) counters[k] = 0;
}

// msm_count_partitions: digits -> entries per partition; blockIdx.y is the row, blocks of a row take tile after tile.
//   in      digits  u32[windows + 1][n]
//   in/out  counts  u32[partitions + 1]  zero before; counts[p]: digits of partition p, the last one not touched
//   pre     buckets >> partition_bits <= 4096
//   cost    per digit: 4 B read; bound by memory
extern "C" __global__ void __launch_bounds__(TILE_THREADS)
msm_count_partitions(u32* __restrict__ counts, const u32* __restrict__ digits, u32 n, u32 windows, u32 sets, u32 buckets,
                     u32 partition_bits) {
  __shared__ u32 counters[COUNTERS];
  const u32 row = blockIdx.y, partitions = buckets >> partition_bits;
  const u32 first = first_partition(row, windows, sets, buckets, partition_bits);
  clear(counters, partitions);
  __syncthreads();
  for (u32 i = blockIdx.x * TILE_THREADS + threadIdx.x; i < n; i += gridDim.x * TILE_THREADS) {
    const u32 digit = digits[(u64)row * n + i];
    if (digit != 0) atomicAdd(&counters[partition_of(digit, partition_bits)], 1u);
  }
  __syncthreads();
  for (u32 k = threadIdx.x; k < partitions; k += TILE_THREADS) {
    if (counters[k] != 0) atomicAdd(&counts[first + k], counters[k]);
  }
}
EXPORT_COLLECTIVE(msm_count_partitions)

// msm_partition_digits: digits -> entries with their buckets, partition after partition; blockIdx.y is the row, one block
// per tile of 8192 digits of it.
//   in      digits   u32[windows + 1][n]
//   in/out  cursors  u32[partitions + 1]  before: where each partition begins; after: where it ends; the last one, the number
//                                         of entries, stays
//   out     keys     u32[entries]         bucket
//           items    u32[entries]         bit 31 = sign, the rest column * stride + the point's index in the batch
//   law     places of partition p hold its entries in any order
//   cost    per digit: 4 B read, 8 B written in runs; bound by memory
extern "C" __global__ void __launch_bounds__(TILE_THREADS)
msm_partition_digits(u32* __restrict__ keys, u32* __restrict__ items, u32* __restrict__ cursors,
                     const u32* __restrict__ digits, u32 n, u32 windows, u32 sets, u32 buckets, u32 partition_bits,
                     u32 stride) {
  __shared__ u32 counters[COUNTERS];
  const u32 row = blockIdx.y, partitions = buckets >> partition_bits;
  const u32 first = first_partition(row, windows, sets, buckets, partition_bits);
  const u32 tile = blockIdx.x * TILE + threadIdx.x;
  clear(counters, partitions);
  __syncthreads();
  u32 digit[PER_THREAD], turn[PER_THREAD];
#pragma unroll
  for (u32 k = 0; k < PER_THREAD; k++) {
    const u32 i = tile + k * TILE_THREADS;
    digit[k] = i < n ? digits[(u64)row * n + i] : 0;
  }
#pragma unroll
  for (u32 k = 0; k < PER_THREAD; k++) {
    if (digit[k] != 0) turn[k] = atomicAdd(&counters[partition_of(digit[k], partition_bits)], 1u);
  }
  __syncthreads();
  for (u32 k = threadIdx.x; k < partitions; k += TILE_THREADS) {
    if (counters[k] != 0) counters[k] = atomicAdd(&cursors[first + k], counters[k]);
  }
  __syncthreads();
  const u32 column = row == windows ? 0 : row / sets;
#pragma unroll
  for (u32 k = 0; k < PER_THREAD; k++) {
    if (digit[k] == 0) continue;
    const u32 place = counters[partition_of(digit[k], partition_bits)] + turn[k];
    keys[place] = bucket_of(digit[k], row, windows, sets, buckets);
    items[place] = (column * stride + tile + k * TILE_THREADS) | (digit[k] & SIGN_BIT);
  }
}
EXPORT_COLLECTIVE(msm_partition_digits)

// A tile of sorted-by-partition entries: most are of the partition of the first one, and are counted in shared memory.
struct Tile {
  u32 begin, end;   // its places
  u32 base;         // first bucket of that partition

  DEV Tile(const u32* keys, u32 count, u32 partition_bits) {
    begin = blockIdx.x * TILE;
    end = count < begin + TILE ? count : begin + TILE;
    base = begin < end ? keys[begin] >> partition_bits << partition_bits : 0;
  }
};

// msm_count_keys: entries with their buckets -> entries per bucket, one block per tile of 8192.
//   in      keys    u32[entries]
//           ends    u32[partitions + 1]  the last one is the number of entries; others not read
//   in/out  counts  u32[total]           zero before
//   pre     2^partition_bits <= 4096
//   cost    per entry: 4 B read; bound by memory
extern "C" __global__ void __launch_bounds__(TILE_THREADS)
msm_count_keys(u32* __restrict__ counts, const u32* __restrict__ keys, const u32* __restrict__ ends, u32 partitions,
               u32 partition_bits) {
  __shared__ u32 counters[COUNTERS];
  const Tile tile(keys, ends[partitions], partition_bits);
  const u32 span = 1u << partition_bits;
  clear(counters, span);
  __syncthreads();
#pragma unroll
  for (u32 k = 0; k < PER_THREAD; k++) {
    const u32 i = tile.begin + k * TILE_THREADS + threadIdx.x;
    if (i >= tile.end) continue;
    const u32 key = keys[i];
    if (key - tile.base < span) atomicAdd(&counters[key - tile.base], 1u);
    else atomicAdd(&counts[key], 1u);
  }
  __syncthreads();
  for (u32 k = threadIdx.x; k < span; k += TILE_THREADS) {
    if (counters[k] != 0) atomicAdd(&counts[tile.base + k], counters[k]);
  }
}
EXPORT_COLLECTIVE(msm_count_keys)

// msm_scatter_keys: entries with their buckets -> entries sorted by bucket, one block per tile of 8192.
//   in      keys, items  u32[entries]
//           ends         u32[partitions + 1]  the last one is the number of entries; others not read
//           offsets      u32[total + 1]
//   in/out  counts       u32[total]           entries per bucket before, zero after: ready for the next batch
//   out     entries      u32[offsets[total]]  as msm_scatter_entries leaves them
//   pre     2^partition_bits <= 4096
//   cost    per entry: 8 B read, 4 B written inside the partition's run; bound by memory
extern "C" __global__ void __launch_bounds__(TILE_THREADS)
msm_scatter_keys(u32* __restrict__ entries, u32* __restrict__ counts, const u32* __restrict__ offsets,
                 const u32* __restrict__ keys, const u32* __restrict__ items, const u32* __restrict__ ends,
                 u32 partitions, u32 partition_bits) {
  __shared__ u32 counters[COUNTERS];
  const Tile tile(keys, ends[partitions], partition_bits);
  const u32 span = 1u << partition_bits;
  clear(counters, span);
  __syncthreads();
  u32 key[PER_THREAD], turn[PER_THREAD];
#pragma unroll
  for (u32 k = 0; k < PER_THREAD; k++) {
    const u32 i = tile.begin + k * TILE_THREADS + threadIdx.x;
    key[k] = i < tile.end ? keys[i] : NO_BUCKET;
  }
#pragma unroll
  for (u32 k = 0; k < PER_THREAD; k++) {
    if (key[k] != NO_BUCKET && key[k] - tile.base < span) turn[k] = atomicAdd(&counters[key[k] - tile.base], 1u);
  }
  __syncthreads();
  for (u32 k = threadIdx.x; k < span; k += TILE_THREADS) {
    const u32 taken = counters[k];
    if (taken == 0) continue;
    const u32 left = atomicSub(&counts[tile.base + k], taken);
    counters[k] = offsets[tile.base + k] + left - taken;
  }
  __syncthreads();
#pragma unroll
  for (u32 k = 0; k < PER_THREAD; k++) {
    if (key[k] == NO_BUCKET) continue;
    const u32 item = items[tile.begin + k * TILE_THREADS + threadIdx.x];
    const bool is_near = key[k] - tile.base < span;
    const u32 place = is_near ? counters[key[k] - tile.base] + turn[k]
                              : offsets[key[k]] + atomicSub(&counts[key[k]], 1u) - 1;
    entries[place] = item;
  }
}
EXPORT_COLLECTIVE(msm_scatter_keys)
