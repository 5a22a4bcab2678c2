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

// Counters of a block, at most: partitions of a set.
#define COUNTER_BITS 12
#define COUNTERS (1u << COUNTER_BITS)
// Buckets of a partition, at most.
#define SPAN_MAX 2048

// A thread's item of a tile is a slot: its counter, and above it the item's turn among those of its counter, or where it is
// in the sorted tile. NONE where there is no item.
#define NONE 0xffffffffu
DEV u32 counter_of(u32 slot) { return slot & (COUNTERS - 1); }
DEV u32 position_of(u32 slot) { return slot >> COUNTER_BITS; }

DEV void clear(u32* counters, u32 count) {
  for (u32 k = threadIdx.x; k < count; k += TILE_THREADS) counters[k] = 0;
}

// Gives each item its turn at its counter. Every thread of the block calls it.
//   slots     before: counters alone; after: with turns
//   counters  u32[COUNTERS] in shared memory, zero before; after: items of each
DEV void take_turns(u32 slots[PER_THREAD], u32* counters) {
  // Two loops: what waits for an answer stands behind all that ask.
  u32 turn[PER_THREAD];
#pragma unroll
  for (u32 k = 0; k < PER_THREAD; k++) {
    if (slots[k] != NONE) turn[k] = atomicAdd(&counters[slots[k]], 1u);
  }
#pragma unroll
  for (u32 k = 0; k < PER_THREAD; k++) {
    if (slots[k] != NONE) slots[k] |= turn[k] << COUNTER_BITS;
  }
  __syncthreads();
}

// Sorts a tile by counter, after take_turns. Every thread of the block calls it, and has a barrier before it reads the
// counters.
//   slots     before: with turns; after: with positions
//   counters  u32[COUNTERS]; before: items of each of PER * TILE_THREADS; after: add the position of an item to the
//             counter's for its place
//   scratch   u32[TILE_THREADS / 32] in shared memory
//   reserve   reserve(counter, count, &base, &offset): `count` places that nobody else has begin at base + offset, or with
//             DOWN end there; called for counts that are not zero, all of a thread before the first is needed
// Returns the number of items in the tile.
template <u32 PER, bool DOWN, class Reserve>
DEV u32 sort_tile(u32 slots[PER_THREAD], u32* counters, u32* scratch, Reserve reserve) {
  u32 count[PER], base[PER], offset[PER];
#pragma unroll
  for (u32 k = 0; k < PER; k++) {
    const u32 counter = k * TILE_THREADS + threadIdx.x;  // neighbours ask for neighbours
    count[k] = counters[counter];
    base[k] = offset[k] = 0;
    if (count[k] != 0) reserve(counter, count[k], base[k], offset[k]);
  }
  u32 in_row[PER], sum = 0, total;
#pragma unroll
  for (u32 k = 0; k < PER; k++) {
    in_row[k] = counters[threadIdx.x * PER + k];
    sum += in_row[k];
  }
  u32 begin = block_scan<TILE_THREADS>(scratch, sum, &total);
#pragma unroll
  for (u32 k = 0; k < PER; k++) {
    counters[threadIdx.x * PER + k] = begin;
    begin += in_row[k];
  }
  __syncthreads();
#pragma unroll
  for (u32 k = 0; k < PER_THREAD; k++) {
    const u32 first = counters[counter_of(slots[k])];  // NONE reads the last counter
    if (slots[k] != NONE) slots[k] += first << COUNTER_BITS;
  }
#pragma unroll
  for (u32 k = 0; k < PER; k++) {
    base[k] += offset[k] - (DOWN ? count[k] : 0) - counters[k * TILE_THREADS + threadIdx.x];
  }
  __syncthreads();
#pragma unroll
  for (u32 k = 0; k < PER; k++) counters[k * TILE_THREADS + threadIdx.x] = base[k];
  return total;
}

// Hands words of a tile over from their threads to those of their positions. Every thread of the block calls it, again only
// after a barrier.
//   word  word(k) -> the word of this thread's item k
template <class Word>
DEV void exchange(u32* buffer, u32 sorted[PER_THREAD], const u32 slots[PER_THREAD], Word word) {
#pragma unroll
  for (u32 k = 0; k < PER_THREAD; k++) {
    if (slots[k] != NONE) buffer[position_of(slots[k])] = word(k);
  }
  __syncthreads();
#pragma unroll
  for (u32 k = 0; k < PER_THREAD; k++) sorted[k] = buffer[k * TILE_THREADS + threadIdx.x];
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
//   share   of memory, 2^24 in 12 windows on an H200: 88 %
extern "C" __global__ void __launch_bounds__(TILE_THREADS)
msm_count_partitions(u32* __restrict__ counts, const u32* __restrict__ digits, u32 n, u32 windows, u32 sets, u32 buckets,
                     u32 partition_bits) {
  __shared__ u32 counters[COUNTERS];
  const u32 row = blockIdx.y, partitions = buckets >> partition_bits;
  const u32 first = first_partition(row, windows, sets, buckets, partition_bits);
  clear(counters, partitions);
  __syncthreads();
  for (u32 tile = blockIdx.x; tile * TILE < n; tile += gridDim.x) {
    const u32 begin = tile * TILE + threadIdx.x;
    const u32* mine = digits + (u64)row * n + begin;
    u32 digit[PER_THREAD];
#pragma unroll
    for (u32 k = 0; k < PER_THREAD; k++) digit[k] = begin + k * TILE_THREADS < n ? mine[k * TILE_THREADS] : 0;
#pragma unroll
    for (u32 k = 0; k < PER_THREAD; k++) {
      if (digit[k] != 0) atomicAdd(&counters[partition_of(digit[k], partition_bits)], 1u);
    }
  }
  __syncthreads();
  for (u32 k = threadIdx.x; k < partitions; k += TILE_THREADS) {
    if (counters[k] != 0) atomicAdd(&counts[first + k], counters[k]);
  }
}
EXPORT_COLLECTIVE(msm_count_partitions)

// One tile of msm_partition_digits, of a set with at most PER * TILE_THREADS partitions.
template <u32 PER>
DEV void partition_tile(u32* keys, u32* items, u32* cursors, const u32* __restrict__ digits, u32* counters, u32* buffer,
                        u32 n, u32 windows, u32 sets, u32 buckets, u32 partition_bits, u32 stride) {
  const u32 row = blockIdx.y, begin = blockIdx.x * TILE + threadIdx.x;
  const u32 first = first_partition(row, windows, sets, buckets, partition_bits);
  const u32 point = (row == windows ? 0 : row / sets) * stride + begin;
  const u32* mine = digits + (u64)row * n + begin;
  u32 bucket[PER_THREAD], slots[PER_THREAD];  // of the set, bit 31 = sign
#pragma unroll
  for (u32 k = 0; k < PER_THREAD; k++) {
    const u32 digit = begin + k * TILE_THREADS < n ? mine[k * TILE_THREADS] : 0;
    bucket[k] = digit - 1;
    slots[k] = digit != 0 ? bucket[k] << 1 >> (partition_bits + 1) : NONE;
  }
  clear(counters, PER * TILE_THREADS);
  __syncthreads();
  take_turns(slots, counters);
  const auto reserve = [&](u32 partition, u32 count, u32& base, u32&) {
    base = atomicAdd(&cursors[first + partition], count);
  };
  const u32 count = sort_tile<PER, false>(slots, counters, buffer, reserve);
  u32 key[PER_THREAD], item[PER_THREAD];
  exchange(buffer, key, slots, [&](u32 k) { return (first << partition_bits) + (bucket[k] & ~SIGN_BIT); });
  __syncthreads();
  exchange(buffer, item, slots, [&](u32 k) { return (point + k * TILE_THREADS) | (bucket[k] & SIGN_BIT); });
#pragma unroll
  for (u32 k = 0; k < PER_THREAD; k++) {
    const u32 i = k * TILE_THREADS + threadIdx.x;
    const u32 place = counters[counter_of((key[k] >> partition_bits) - first)] + i;
    if (i < count) {
      keys[place] = key[k];
      items[place] = item[k];
    }
  }
}

// msm_partition_digits: digits -> entries with their buckets, partition after partition; blockIdx.y is the row, one block
// per tile of 8192 digits of it.
//   in      digits   u32[windows + 1][n]
//   in/out  cursors  u32[partitions + 1]  before: where each partition begins; after: where it ends; the last one, the
//                                         number of entries, stays
//   out     keys     u32[entries]         bucket
//           items    u32[entries]         bit 31 = sign, the rest column * stride + the point's index in the batch
//   law     places of partition p hold its entries in any order
//   pre     buckets >> partition_bits <= 4096
//   cost    per digit: 4 B read, 8 B written in runs; bound by how many runs there are
//   share   of memory, the same, 1024 partitions: 29 %
extern "C" __global__ void __launch_bounds__(TILE_THREADS, 2)
msm_partition_digits(u32* __restrict__ keys, u32* __restrict__ items, u32* __restrict__ cursors,
                     const u32* __restrict__ digits, u32 n, u32 windows, u32 sets, u32 buckets, u32 partition_bits,
                     u32 stride) {
  __shared__ u32 counters[COUNTERS], buffer[TILE];
  if (buckets >> partition_bits <= 2 * TILE_THREADS) {
    partition_tile<2>(keys, items, cursors, digits, counters, buffer, n, windows, sets, buckets, partition_bits, stride);
  } else {
    partition_tile<COUNTERS / TILE_THREADS>(keys, items, cursors, digits, counters, buffer, n, windows, sets, buckets,
                                            partition_bits, stride);
  }
}
EXPORT_COLLECTIVE(msm_partition_digits)

// A tile of sorted-by-partition entries: most are of the partition of the first one, and are counted in shared memory.
struct Tile {
  u32 begin, end;   // its places
  u32 base, span;   // first bucket of that partition, and how many there are

  DEV Tile(const u32* keys, u32 count, u32 partition_bits) {
    begin = blockIdx.x * TILE;
    end = count < begin + TILE ? count : begin + TILE;
    span = 1u << partition_bits;
    base = begin < end ? keys[begin] >> partition_bits << partition_bits : 0;
  }

  DEV bool has(u32 k) const { return begin + k * TILE_THREADS + threadIdx.x < end; }
  DEV bool is_near(u32 key) const { return key - base < span; }

  // This thread's words of the tile, all asked for before the first is needed; zero where there is none.
  DEV void load(u32 word[PER_THREAD], const u32* words) const {
    const u32* mine = words + begin + threadIdx.x;
#pragma unroll
    for (u32 k = 0; k < PER_THREAD; k++) word[k] = has(k) ? mine[k * TILE_THREADS] : 0;
  }
};

// msm_count_keys: entries with their buckets -> entries per bucket, one block per tile of 8192.
//   in      keys    u32[entries]
//           ends    u32[partitions + 1]  the last one is the number of entries; others not read
//   in/out  counts  u32[total]           zero before
//   pre     2^partition_bits <= 2048
//   cost    per entry: 4 B read; bound by memory
//   share   of memory, the same: 53 %
extern "C" __global__ void __launch_bounds__(TILE_THREADS)
msm_count_keys(u32* __restrict__ counts, const u32* __restrict__ keys, const u32* __restrict__ ends, u32 partitions,
               u32 partition_bits) {
  __shared__ u32 counters[SPAN_MAX];
  const Tile tile(keys, ends[partitions], partition_bits);
  clear(counters, tile.span);
  __syncthreads();
  u32 key[PER_THREAD];
  tile.load(key, keys);
#pragma unroll
  for (u32 k = 0; k < PER_THREAD; k++) {
    if (!tile.has(k)) continue;
    if (tile.is_near(key[k])) atomicAdd(&counters[key[k] - tile.base], 1u);
    else atomicAdd(&counts[key[k]], 1u);
  }
  __syncthreads();
  for (u32 k = threadIdx.x; k < tile.span; k += TILE_THREADS) {
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
//   pre     2^partition_bits <= 2048
//   cost    per entry: 8 B read, 4 B written inside the partition's run; bound by the second cache, which has 80 % of the
//           accesses that it can
//   share   of memory, the same: 33 %
extern "C" __global__ void __launch_bounds__(TILE_THREADS, 2)
msm_scatter_keys(u32* __restrict__ entries, u32* __restrict__ counts, const u32* __restrict__ offsets,
                 const u32* __restrict__ keys, const u32* __restrict__ items, const u32* __restrict__ ends,
                 u32 partitions, u32 partition_bits) {
  __shared__ u32 counters[COUNTERS], buffer[TILE];
  const Tile tile(keys, ends[partitions], partition_bits);
  clear(counters, SPAN_MAX);
  const u32* mine = items + tile.begin + threadIdx.x;
  u32 slots[PER_THREAD];
  tile.load(slots, keys);
#pragma unroll
  for (u32 k = 0; k < PER_THREAD; k++) {
    if (tile.has(k) && !tile.is_near(slots[k])) {
      entries[offsets[slots[k]] + atomicSub(&counts[slots[k]], 1u) - 1] = mine[k * TILE_THREADS];
    }
    slots[k] = tile.has(k) && tile.is_near(slots[k]) ? slots[k] - tile.base : NONE;
  }
  __syncthreads();
  take_turns(slots, counters);
  const auto reserve = [&](u32 k, u32 count, u32& base, u32& offset) {
    base = atomicSub(&counts[tile.base + k], count);
    offset = offsets[tile.base + k];
  };
  const u32 count = sort_tile<SPAN_MAX / TILE_THREADS, true>(slots, counters, buffer, reserve);
  u32 near[PER_THREAD], item[PER_THREAD], sorted[PER_THREAD];
  exchange(buffer, near, slots, [&](u32 k) { return counter_of(slots[k]); });
  tile.load(item, items);
  __syncthreads();
  exchange(buffer, sorted, slots, [&](u32 k) { return item[k]; });
#pragma unroll
  for (u32 k = 0; k < PER_THREAD; k++) {
    const u32 i = k * TILE_THREADS + threadIdx.x;
    const u32 place = counters[counter_of(near[k])] + i;
    if (i < count) entries[place] = sorted[k];
  }
}
EXPORT_COLLECTIVE(msm_scatter_keys)
