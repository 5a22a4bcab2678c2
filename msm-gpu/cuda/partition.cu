// SPDX-License-Identifier: MIT OR Apache-2.0
// Digits to entries sorted by bucket, for sorts that do not fit a cache: first to partitions of neighbouring buckets, then
// inside each.
//
// A partition is 2^partition_bits buckets of one set. Blocks take tiles of digits, or of what the first step made of them:
// they sort a tile in shared memory and reserve places for all of a counter at once, so that neighbouring threads write to
// neighbouring places.
#include "base.cuh"
#include "digits.cuh"

// Threads of a block, and what each takes of a tile.
#define TILE_THREADS 512
#define PER_THREAD 16
#define TILE (TILE_THREADS * PER_THREAD)

// Counters of a block: partitions of a set, or buckets of a partition.
#define COUNTERS 4096
#define COUNTERS_PER_THREAD (COUNTERS / TILE_THREADS)

// A counter that there is not, for what is not counted.
#define NONE 0xffffffffu

DEV void clear(u32* counters, u32 count) {
  for (u32 k = threadIdx.x; k < count; k += TILE_THREADS) counters[k] = 0;
}

// Sorts a tile by counter. Every thread of the block calls it, with the counters of its items, NONE where it has none.
//   counters  u32[COUNTERS] in shared memory, zero before; after: add the position of an item to the counter's for its place
//   scratch   u32[TILE_THREADS] in shared memory
//   reserve   reserve(counter, count) -> first of `count` places that nobody else has
//   position  where each item is in the sorted tile
// Returns the number of items in the tile.
template <class Reserve>
DEV u32 sort_tile(u32 position[PER_THREAD], u32* counters, u32* scratch, const u32 counter[PER_THREAD],
                  Reserve reserve) {
#pragma unroll
  for (u32 k = 0; k < PER_THREAD; k++) {
    if (counter[k] != NONE) position[k] = atomicAdd(&counters[counter[k]], 1u);
  }
  __syncthreads();
  const u32 first = threadIdx.x * COUNTERS_PER_THREAD;
  u32 count[COUNTERS_PER_THREAD], sum = 0, total;
#pragma unroll
  for (u32 k = 0; k < COUNTERS_PER_THREAD; k++) {
    count[k] = counters[first + k];
    sum += count[k];
  }
  u32 begin = block_scan<TILE_THREADS>(scratch, sum, &total);
  u32 places[COUNTERS_PER_THREAD];
#pragma unroll
  for (u32 k = 0; k < COUNTERS_PER_THREAD; k++) {
    places[k] = count[k] ? reserve(first + k, count[k]) - begin : 0;
    counters[first + k] = begin;
    begin += count[k];
  }
  __syncthreads();
#pragma unroll
  for (u32 k = 0; k < PER_THREAD; k++) {
    if (counter[k] != NONE) position[k] += counters[counter[k]];
  }
  __syncthreads();
#pragma unroll
  for (u32 k = 0; k < COUNTERS_PER_THREAD; k++) counters[first + k] = places[k];
  __syncthreads();
  return total;
}

// Hands words of a tile over from their threads to those of their positions. Every thread of the block calls it.
DEV void exchange(u32* buffer, u32 word[PER_THREAD], const u32 position[PER_THREAD], const u32 counter[PER_THREAD]) {
#pragma unroll
  for (u32 k = 0; k < PER_THREAD; k++) {
    if (counter[k] != NONE) buffer[position[k]] = word[k];
  }
  __syncthreads();
#pragma unroll
  for (u32 k = 0; k < PER_THREAD; k++) word[k] = buffer[k * TILE_THREADS + threadIdx.x];
  __syncthreads();
}

// The partitions of one row of digits: `first`, and the others of its set after it.
DEV u32 first_partition(u32 row, u32 windows, u32 sets, u32 buckets, u32 partition_bits) {
  const u32 set = row == windows ? sets : row % sets;
  return set * (buckets >> partition_bits);
}

// The partition of a digit that is not zero, among those of its set.
DEV u32 partition_of(u32 digit, u32 partition_bits) { return ((digit & ~SIGN_BIT) - 1) >> partition_bits; }

// msm_count_partitions: digits -> entries per partition; blockIdx.y is the row, blocks of a row take tile after tile.
//   in      digits  u32[windows + 1][n]
//   in/out  counts  u32[partitions + 1]  zero before; counts[p]: digits of partition p, the last one not touched
//   pre     buckets >> partition_bits <= 4096
//   cost    per digit: 4 B read; bound by memory
//   share   of memory, 2^24 in 12 windows on an H200: 42 %
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
//   in/out  cursors  u32[partitions + 1]  before: where each partition begins; after: where it ends; the last one, the
//                                         number of entries, stays
//   out     keys     u32[entries]         bucket
//           items    u32[entries]         bit 31 = sign, the rest column * stride + the point's index in the batch
//   law     places of partition p hold its entries in any order
//   cost    per digit: 4 B read, 8 B written in runs; bound by memory
//   share   of memory, the same: 18 %, since runs are short
extern "C" __global__ void __launch_bounds__(TILE_THREADS, 2)
msm_partition_digits(u32* __restrict__ keys, u32* __restrict__ items, u32* __restrict__ cursors,
                     const u32* __restrict__ digits, u32 n, u32 windows, u32 sets, u32 buckets, u32 partition_bits,
                     u32 stride) {
  __shared__ u32 counters[COUNTERS], buffer[TILE];
  const u32 row = blockIdx.y;
  const u32 first = first_partition(row, windows, sets, buckets, partition_bits);
  const u32 column = row == windows ? 0 : row / sets;
  clear(counters, COUNTERS);
  __syncthreads();
  u32 counter[PER_THREAD], position[PER_THREAD], key[PER_THREAD], item[PER_THREAD];
#pragma unroll
  for (u32 k = 0; k < PER_THREAD; k++) {
    const u32 i = blockIdx.x * TILE + k * TILE_THREADS + threadIdx.x;
    const u32 digit = i < n ? digits[(u64)row * n + i] : 0;
    counter[k] = digit != 0 ? partition_of(digit, partition_bits) : NONE;
    key[k] = bucket_of(digit, row, windows, sets, buckets);
    item[k] = (column * stride + i) | (digit & SIGN_BIT);
  }
  const u32 count = sort_tile(position, counters, buffer, counter, [&](u32 partition, u32 places) {
    return atomicAdd(&cursors[first + partition], places);
  });
  exchange(buffer, key, position, counter);
  exchange(buffer, item, position, counter);
#pragma unroll
  for (u32 k = 0; k < PER_THREAD; k++) {
    const u32 i = k * TILE_THREADS + threadIdx.x;
    if (i >= count) continue;
    const u32 place = counters[(key[k] >> partition_bits) - first] + i;
    keys[place] = key[k];
    items[place] = item[k];
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
//   share   of memory, the same: 43 %
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
//   share   of memory, the same: 22 %
extern "C" __global__ void __launch_bounds__(TILE_THREADS, 2)
msm_scatter_keys(u32* __restrict__ entries, u32* __restrict__ counts, const u32* __restrict__ offsets,
                 const u32* __restrict__ keys, const u32* __restrict__ items, const u32* __restrict__ ends,
                 u32 partitions, u32 partition_bits) {
  __shared__ u32 counters[COUNTERS], buffer[TILE];
  const Tile tile(keys, ends[partitions], partition_bits);
  const u32 span = 1u << partition_bits;
  clear(counters, COUNTERS);
  __syncthreads();
  u32 counter[PER_THREAD], position[PER_THREAD], near[PER_THREAD], item[PER_THREAD];
#pragma unroll
  for (u32 k = 0; k < PER_THREAD; k++) {
    const u32 i = tile.begin + k * TILE_THREADS + threadIdx.x;
    counter[k] = NONE;
    if (i >= tile.end) continue;
    const u32 key = keys[i];
    item[k] = items[i];
    if (key - tile.base < span) counter[k] = near[k] = key - tile.base;
    else entries[offsets[key] + atomicSub(&counts[key], 1u) - 1] = item[k];
  }
  const u32 count = sort_tile(position, counters, buffer, counter, [&](u32 k, u32 places) {
    return offsets[tile.base + k] + atomicSub(&counts[tile.base + k], places) - places;
  });
  exchange(buffer, near, position, counter);
  exchange(buffer, item, position, counter);
#pragma unroll
  for (u32 k = 0; k < PER_THREAD; k++) {
    const u32 i = k * TILE_THREADS + threadIdx.x;
    if (i < count) entries[counters[near[k]] + i] = item[k];
  }
}
EXPORT_COLLECTIVE(msm_scatter_keys)
