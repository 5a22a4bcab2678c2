// SPDX-License-Identifier: MIT OR Apache-2.0
// Scalars to entries sorted by bucket: signed digits, then a counting sort.
#include "base.cuh"
#include "digits.cuh"
#include "fr.cuh"

// The 32-bit limbs of a plain number, least significant first.
DEV void limbs_of(u32 limb[8], const Fr<1>& plain) {
#pragma unroll
  for (int k = 0; k < 8; k++) limb[k] = (u32)(plain.limb[k * 32 / WORD_BITS] >> (k * 32 % WORD_BITS));
}

// Writes the digits of one plain number, item i of n. Limbs pass through a buffer of bits, so that all indices into
// them are known to the compiler and they stay in registers.
DEV void recode(u32* digits, const u32 limb[8], u32 i, u32 n, u32 bits, u32 windows, u32 wide) {
  u32 rest = limb[0] ^ 1;
#pragma unroll
  for (int k = 1; k < 8; k++) rest |= limb[k];
  const bool is_one = rest == 0;
  u64 buffer = 0;       // the next `available` bits of the number, zeros above
  u32 available = 0;
  u32 carry = 0, row = 0;
#pragma unroll
  for (int k = 0; k < 8; k++) {
    buffer |= (u64)limb[k] << available;  // available < bits <= 24: 32 more fit
    available += 32;
    while (row < windows && (available >= bits || k == 7)) {
      const u32 width = row < wide ? bits : bits - 1;
      const u32 half = 1u << width >> 1;
      const u32 value = ((u32)buffer & (2 * half - 1)) + carry;  // 0 ..= 2^width
      carry = value > half;                                      // then the digit is value - 2^width
      const u32 magnitude = carry ? 2 * half - value : value;
      const u32 digit = magnitude | (carry && magnitude ? SIGN_BIT : 0);
      digits[(u64)row * n + i] = is_one ? 0 : digit;
      buffer >>= width;
      available = available > width ? available - width : 0;
      row++;
    }
  }
  digits[(u64)windows * n + i] = is_one;
}

// msm_recode_digits: canonical scalars -> signed digits, one thread per scalar.
//   in   scalars  Fr[n]                  canonical, < r: plain integers in the layout of Fr
//   out  digits   u32[windows + 1][n]    bit 31 = sign, the rest |digit| <= 2^(width-1); the last row marks ones
//   pre  `wide` windows of `bits` bits, those after them one bit less; 256 bits in all or more, 2 <= bits <= 24,
//        1 <= wide <= windows
//   law  sum_k digit[k][i] * 2^(bits*k - max(k - wide, 0)) + digit[windows][i] == scalars[i]
//   cost per scalar: 32 B read, 4*(windows+1) B written; bound by memory
//   share of memory, 2^24 in 12 windows on an H200: 64 %
//   ref  [BDLO12 sec 4]
extern "C" __global__ void __launch_bounds__(256)
msm_recode_digits(u32* __restrict__ digits, const Fr<1>* __restrict__ scalars, u32 n, u32 bits, u32 windows,
                  u32 wide) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  u32 limb[8];
  limbs_of(limb, load_field(&scalars[i]));
  recode(digits, limb, i, n, bits, windows, wide);
}
EXPORT_KERNEL(msm_recode_digits)

// msm_recode_digits_mont: Montgomery scalars -> signed digits, one thread per scalar.
//   in   scalars  Fr[n]                  Montgomery form, < r
//   out  digits, pre, law, ref: as msm_recode_digits, for scalars[i] / 2^256
//   cost as msm_recode_digits, and one Montgomery reduction
extern "C" __global__ void __launch_bounds__(256)
msm_recode_digits_mont(u32* __restrict__ digits, const Fr<1>* __restrict__ scalars, u32 n, u32 bits, u32 windows,
                       u32 wide) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  u32 limb[8];
  limbs_of(limb, from_mont(load_field(&scalars[i])));
  recode(digits, limb, i, n, bits, windows, wide);
}
EXPORT_KERNEL(msm_recode_digits_mont)

// msm_count_digits: digits -> entries per bucket, one thread per digit; blockIdx.y is the row.
//   in   digits   u32[windows + 1][n]
//   out  counts   u32[sets*buckets + 1]   zero before
//   law  counts[b] == number of digits in bucket b
//   cost per digit: 4 B read, one atomic addition; bound by memory
extern "C" __global__ void __launch_bounds__(256)
msm_count_digits(u32* __restrict__ counts, const u32* __restrict__ digits, u32 n, u32 windows, u32 sets,
                 u32 buckets) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  const u32 row = blockIdx.y;
  const u32 digit = i < n ? digits[(u64)row * n + i] : 0;
  add_shared(counts, bucket_of(digit, row, windows, sets, buckets), digit != 0, 1);
}
EXPORT_KERNEL(msm_count_digits)

#define SCAN_THREADS 256
#define SCAN_PER_THREAD 8
#define SCAN_TILE (SCAN_THREADS * SCAN_PER_THREAD)

// msm_scan_tiles: prefix sums inside tiles of 2048 counters, one block per tile. Counters are rounded up to multiples of
// 2^rounds.
//   in   counts     u32[total]
//   out  offsets    u32[total + 1]       offsets[i]: sum of the counters of i's tile before i; the last not written
//        tile_sums  u32[tiles + 1]       sum of each tile; the last not written
//   cost per counter: 4 B read, 4 B written; bound by memory
//   ref  [HSO07] step-efficient scan
extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
msm_scan_tiles(u32* __restrict__ offsets, u32* __restrict__ tile_sums, const u32* __restrict__ counts, u32 total,
               u32 rounds) {
  const u32 rest = (1u << rounds) - 1;
  const u32 first = blockIdx.x * SCAN_TILE + threadIdx.x * SCAN_PER_THREAD;
  u32 count[SCAN_PER_THREAD];
  u32 sum = 0;
  for (u32 k = 0; k < SCAN_PER_THREAD; k++) {
    count[k] = first + k < total ? (counts[first + k] + rest) & ~rest : 0;
    sum += count[k];
  }
  __shared__ u32 sums[SCAN_THREADS / WARP_LANES];
  u32 tile_sum;
  u32 before = block_scan<SCAN_THREADS>(sums, sum, &tile_sum);
  for (u32 k = 0; k < SCAN_PER_THREAD; k++) {
    if (first + k < total) offsets[first + k] = before;
    before += count[k];
  }
  if (threadIdx.x == 0) tile_sums[blockIdx.x] = tile_sum;
}
EXPORT_COLLECTIVE(msm_scan_tiles)

// msm_scan_sums: prefix sums of the tile sums, in place, by one block.
//   in/out  tile_sums  u32[tiles + 1]    sums before; exclusive prefix sums and their total after
//   cost per tile: 8 B; one block, so bound by latency
extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
msm_scan_sums(u32* __restrict__ tile_sums, u32 tiles) {
  __shared__ u32 sums[SCAN_THREADS / WARP_LANES];
  u32 carry = 0;
  for (u32 first = 0; first < tiles; first += SCAN_THREADS) {
    const u32 i = first + threadIdx.x;
    const u32 value = i < tiles ? tile_sums[i] : 0;
    u32 sum;
    const u32 before = block_scan<SCAN_THREADS>(sums, value, &sum);
    if (i < tiles) tile_sums[i] = carry + before;
    carry += sum;
  }
  if (threadIdx.x == 0) tile_sums[tiles] = carry;
}
EXPORT_COLLECTIVE(msm_scan_sums)

// msm_scan_add: prefix sums inside tiles -> prefix sums, one thread per counter.
//   in      tile_sums  u32[tiles + 1]    exclusive prefix sums, total last
//   in/out  offsets    u32[total + 1]    after: exclusive prefix sums, offsets[total] = number of entries
//   cost per counter: 8 B; bound by memory
extern "C" __global__ void __launch_bounds__(256)
msm_scan_add(u32* __restrict__ offsets, const u32* __restrict__ tile_sums, u32 total) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < total) offsets[i] += tile_sums[i / SCAN_TILE];
  if (i == total) offsets[total] = tile_sums[(total + SCAN_TILE - 1) / SCAN_TILE];
}
EXPORT_KERNEL(msm_scan_add)

// msm_scatter_entries: digits -> entries sorted by bucket, one thread per digit; blockIdx.y is the row.
//   in      digits   u32[windows + 1][n]
//           offsets  u32[total + 1]
//   in/out  counts   u32[total]          entries per bucket before, zero after: ready for the next batch
//   out     entries  u32[offsets[total]] bit 31 = sign, the rest column * stride + the point's index in the batch; what a
//                                        run was rounded up by is not written
//   law     the first entries of bucket b, from offsets[b] on, are the digits of bucket b in any order
//   cost    per digit: 4 B read, one atomic addition, 4 B written apart; bound by memory
extern "C" __global__ void __launch_bounds__(256)
msm_scatter_entries(u32* __restrict__ entries, u32* __restrict__ counts, const u32* __restrict__ offsets,
                    const u32* __restrict__ digits, u32 n, u32 windows, u32 sets, u32 buckets, u32 stride) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  const u32 row = blockIdx.y;
  const u32 digit = i < n ? digits[(u64)row * n + i] : 0;
  const u32 bucket = bucket_of(digit, row, windows, sets, buckets);
  const u32 left = add_shared(counts, bucket, digit != 0, 0xffffffffu);  // adds -1: counts go back to zero
  const u32 column = row == windows ? 0 : row / sets;
  if (digit != 0) entries[offsets[bucket] + left - 1] = (column * stride + i) | (digit & SIGN_BIT);
}
EXPORT_KERNEL(msm_scatter_entries)
