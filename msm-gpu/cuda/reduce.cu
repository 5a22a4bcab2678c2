// SPDX-License-Identifier: MIT OR Apache-2.0
// Buckets to the rows of a batch, one for each bit of a scalar, for one group.
//
// A bucket's weight v = 1 .. 2^(low+high) is written v = h * 2^low + l. The sum of weighted buckets of a window is then
// a sum of few lines with few weights: rows R[h] = sum_l bucket, columns C[l] = sum_h bucket, and
//   sum_v v * bucket(v) = sum_h h * 2^low * R[h] + sum_l l * C[l],
// which is taken bit by bit of h and l. The largest weight, 2^(low+high), has a bit of its own and is in no line.
#include "points.cuh"

// msm_sum_lines: buckets -> sums of rows and columns, `group` threads per row; blockIdx.y is the window.
//   in   buckets  Xyzz[windows*2^(low+high) + 1]
//   out  lines    Xyzz[windows][2^high + 2^low]    rows, then columns
//   pre  group a power of two <= 64, group <= 2^low, group << (high-low) <= 64; high - low is 0 or 1
//   cost per bucket: two additions of 12M + 2S; bound by multiplication
//   share of the multiplier on an H200: 85 % with 2^21 buckets, 76 % with 2^18; latency below
extern "C" __global__ void __launch_bounds__(64)
GROUP_NAME(msm_sum_lines)(Xyzz* __restrict__ lines, const Xyzz* __restrict__ buckets, u32 low, u32 high, u32 group) {
  const u32 rows = 1u << high, columns = 1u << low;
  const u32 row_blocks = (rows * group + 63) / 64;
  const bool is_row = blockIdx.x < row_blocks;
  const u32 thread = (is_row ? blockIdx.x : blockIdx.x - row_blocks) * 64 + threadIdx.x;
  const u32 width = is_row ? group : group << (high - low);  // threads per line: each adds equally many buckets
  const u32 line = thread / width;
  const Xyzz* const window = &buckets[(u64)blockIdx.y << (low + high)];
  Sum sum = Sum::identity();
  if (line < (is_row ? rows : columns)) {
    for (u32 k = thread % width; k < (is_row ? columns : rows); k += width) {
      const u32 weight = is_row ? line << low | k : k << low | line;
      if (weight != 0) sum.add(Sum::load(&window[weight - 1]));
    }
  }
  sum = group_sum<64>(sum, width);
  if (thread % width == 0 && line < (is_row ? rows : columns)) {
    sum.store(&lines[(u64)blockIdx.y * (rows + columns) + (is_row ? line : rows + line)]);
  }
}
EXPORT_COLLECTIVE(GROUP_NAME(msm_sum_lines))

// msm_sum_bits: lines -> one row per bit, one block per row; blockIdx.y is the window.
//   in   lines    Xyzz[windows][2^high + 2^low]
//        buckets  Xyzz[windows*2^(low+high) + 1]
//   out  rows     Xyzz[windows*(low+high+1) + 1]   the last row is the last bucket: points with scalar one
//   pre  blocks of a power of two of threads, 32 to 128
//   law  sum_j 2^j * rows[window][j] == sum_b (b + 1) * buckets[window][b]
//   cost per line and bit: half an addition of 12M + 2S; small
extern "C" __global__ void __launch_bounds__(128)
GROUP_NAME(msm_sum_bits)(Xyzz* __restrict__ rows, const Xyzz* __restrict__ lines, const Xyzz* __restrict__ buckets,
                         u32 windows, u32 low, u32 high) {
  const u32 window = blockIdx.y, bit = blockIdx.x, bits = low + high + 1;
  Xyzz* const row = &rows[window * bits + bit];
  if (window == windows || bit == bits - 1) {
    const u64 bucket = window == windows ? (u64)windows << (bits - 1) : ((u64)(window + 1) << (bits - 1)) - 1;
    if (threadIdx.x == 0 && (window < windows || bit == 0)) *row = buckets[bucket];
    return;
  }
  const bool is_high = bit >= low;
  const u32 place = is_high ? bit - low : bit;
  const u32 half = 1u << (is_high ? high : low) >> 1;
  const Xyzz* const first = &lines[((u64)window << low) + ((u64)window << high) + (is_high ? 0 : 1u << high)];
  Sum sum = Sum::identity();
  for (u32 k = threadIdx.x; k < half; k += blockDim.x) {
    const u32 line = (k >> place << 1 | 1) << place | (k & ((1u << place) - 1));  // k with a one put in at `place`
    sum.add_rarely(Sum::load(&first[line]));
  }
  sum = group_sum<128>(sum, blockDim.x);
  if (threadIdx.x == 0) sum.store(row);
}
EXPORT_COLLECTIVE(GROUP_NAME(msm_sum_bits))
