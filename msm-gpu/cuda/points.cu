// Sorted entries to the rows of a batch, for one group: accumulation, merge of partial sums, reduction of buckets to
// one row per bit.
//
// Thread t of the accumulation adds entries t*k .. (t+1)*k-1, whatever buckets they belong to: the work of a thread
// does not depend on how scalars are distributed. The entries of one bucket are a run. A run inside one thread's part
// goes to its bucket at once; a run that spans threads leaves one partial sum per thread, merged afterwards.
#include "base.cuh"
#include "curve.cuh"

typedef Point<Group> Sum;
typedef Sum::Affine Affine;  // 96 B in G1, 192 B in G2
typedef Sum::Xyzz Xyzz;      // 192 B, 384 B

#define SIGN_BIT 0x80000000u

// The bucket whose run holds an entry: the last b with offsets[b] <= entry. offsets ascend, entry < offsets[total].
DEV u32 bucket_at(const u32* offsets, u32 total, u32 entry) {
  u32 low = 0, high = total;  // offsets[low] <= entry < offsets[high]
  while (high - low > 1) {
    const u32 middle = low + (high - low) / 2;
    if (offsets[middle] <= entry) low = middle;
    else high = middle;
  }
  return low;
}

// msm_accumulate_runs: entries and bases -> buckets and partial sums, one thread per k entries.
//   in   bases    Affine[n]             identity allowed
//        entries  u32[offsets[total]]   sorted by bucket
//        offsets  u32[total + 1]
//   in/out  buckets  Xyzz[total]        written where the run lies in one thread's part; others not touched
//   out  heads    Xyzz[threads]         sum of the thread's first run, where that run began before its part
//        tails    Xyzz[threads]         sum of the thread's last run, where that run began in its part and goes on after
//   law  a bucket is its written value, or tails[first thread of its run] + heads[each later thread of its run];
//        with keep = 1, the first of these already has the bucket's old value in it
//   cost per entry: 8M + 2S, 4 + sizeof(Affine) B; bound by multiplication in G1 and G2
//   ref  [BDLO12 sec 4]; the cut by entries instead of by buckets is the segmented reduction of [BHZ93]
extern "C" __global__ void __launch_bounds__(128)
GROUP_NAME(msm_accumulate_runs)(Xyzz* __restrict__ buckets, Xyzz* __restrict__ heads, Xyzz* __restrict__ tails,
                                const Affine* __restrict__ bases, const u32* __restrict__ entries,
                                const u32* __restrict__ offsets, u32 total, u32 k, u32 keep) {
  const u32 t = blockIdx.x * blockDim.x + threadIdx.x;
  const u32 entry_count = offsets[total];
  const u64 first = (u64)t * k;
  if (first >= entry_count) return;
  const u32 begin = (u32)first;
  const u32 end = entry_count - begin < k ? entry_count : begin + k;
  u32 bucket = bucket_at(offsets, total, begin);
  u32 run_end = offsets[bucket + 1];
  bool from_before = offsets[bucket] < begin;
  Sum sum = keep && !from_before ? Sum::load(&buckets[bucket]) : Sum::identity();
  for (u32 i = begin; i < end; i++) {
    if (i == run_end) {
      sum.store(from_before ? &heads[t] : &buckets[bucket]);
      from_before = false;
      do run_end = offsets[++bucket + 1];
      while (run_end == i);
      sum = keep ? Sum::load(&buckets[bucket]) : Sum::identity();
    }
    const u32 entry = entries[i];
    sum.add_affine(bases[entry & ~SIGN_BIT], (entry & SIGN_BIT) != 0);
  }
  const bool goes_on = run_end > end;
  sum.store(from_before ? &heads[t] : goes_on ? &tails[t] : &buckets[bucket]);
}
EXPORT_KERNEL(GROUP_NAME(msm_accumulate_runs))

// Threads of the accumulation that hold the run of a bucket: first .. last.
struct RunThreads {
  u32 first, last;
};

DEV RunThreads run_threads(u32 run_begin, u32 run_end, u32 k) {
  RunThreads threads;
  threads.first = run_begin / k;
  threads.last = (run_end - 1) / k;
  return threads;
}

// msm_merge_partials: partial sums -> buckets, one thread per bucket.
//   in      heads, tails, offsets        as msm_accumulate_runs leaves them
//   in/out  buckets  Xyzz[total]         after: complete; where the run is empty, as before with keep = 1, else the
//                                        identity; hot ones not touched
//           hot      u32[1 + hot_max]    hot[0]: number of hot buckets, zero before; hot[1..]: their numbers
//   pre     hot_max >= number of runs that span more than partials_max threads
//   cost    per bucket: at most partials_max additions of 12M + 2S; most buckets need none
extern "C" __global__ void __launch_bounds__(128)
GROUP_NAME(msm_merge_partials)(Xyzz* __restrict__ buckets, u32* __restrict__ hot, const Xyzz* __restrict__ heads,
                               const Xyzz* __restrict__ tails, const u32* __restrict__ offsets, u32 total, u32 k,
                               u32 partials_max, u32 keep) {
  const u32 bucket = blockIdx.x * blockDim.x + threadIdx.x;
  if (bucket >= total) return;
  const u32 run_begin = offsets[bucket], run_end = offsets[bucket + 1];
  if (run_begin == run_end) {
    if (!keep) Sum::identity().store(&buckets[bucket]);
    return;
  }
  const RunThreads threads = run_threads(run_begin, run_end, k);
  if (threads.first == threads.last) return;  // already in its bucket
  if (threads.last - threads.first >= partials_max) {
    hot[1 + atomicAdd(&hot[0], 1u)] = bucket;
    return;
  }
  Sum sum = Sum::load(&tails[threads.first]);
  for (u32 t = threads.first + 1; t <= threads.last; t++) sum.add(Sum::load(&heads[t]));
  sum.store(&buckets[bucket]);
}
EXPORT_KERNEL(GROUP_NAME(msm_merge_partials))

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
    if (lane < stride) sum.add(Sum::load(&slots[lane]));
    __syncthreads();
  }
  return sum;
}

// msm_merge_hot: partial sums of the hot buckets -> buckets, one block per hot bucket at a time.
//   in      hot      u32[1 + hot_max]    as msm_merge_partials leaves it
//           heads, tails, offsets        as msm_accumulate_runs leaves them
//   in/out  buckets  Xyzz[total]         after: hot ones complete
//   cost    per partial sum: 12M + 2S; bound by the longest run / 256
extern "C" __global__ void __launch_bounds__(256)
GROUP_NAME(msm_merge_hot)(Xyzz* __restrict__ buckets, const u32* __restrict__ hot, const Xyzz* __restrict__ heads,
                          const Xyzz* __restrict__ tails, const u32* __restrict__ offsets, u32 k) {
  const u32 hot_count = hot[0];
  for (u32 h = blockIdx.x; h < hot_count; h += gridDim.x) {
    const u32 bucket = hot[1 + h];
    const RunThreads threads = run_threads(offsets[bucket], offsets[bucket + 1], k);
    Sum sum = threadIdx.x == 0 ? Sum::load(&tails[threads.first]) : Sum::identity();
    for (u32 t = threads.first + 1 + threadIdx.x; t <= threads.last; t += 256) sum.add(Sum::load(&heads[t]));
    sum = group_sum<256>(sum, 256);
    if (threadIdx.x == 0) sum.store(&buckets[bucket]);
  }
}
EXPORT_COLLECTIVE(GROUP_NAME(msm_merge_hot))

// A bucket's weight v = 1 .. 2^(low+high) is written v = h * 2^low + l. The sum of weighted buckets of a window is then
// a sum of few lines with few weights: rows R[h] = sum_l bucket, columns C[l] = sum_h bucket, and
//   sum_v v * bucket(v) = sum_h h * 2^low * R[h] + sum_l l * C[l],
// which is taken bit by bit of h and l. The largest weight, 2^(low+high), has a bit of its own and is in no line.

// msm_sum_lines: buckets -> sums of rows and columns, `group` threads per row; blockIdx.y is the window.
//   in   buckets  Xyzz[windows*2^(low+high) + 1]
//   out  lines    Xyzz[windows][2^high + 2^low]    rows, then columns
//   pre  group a power of two <= 64, group <= 2^low, group << (high-low) <= 64; high - low is 0 or 1
//   cost per bucket: two additions of 12M + 2S; bound by multiplication
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

// msm_sum_bits: lines -> one row per bit, one block of 64 threads per row; blockIdx.y is the window.
//   in   lines    Xyzz[windows][2^high + 2^low]
//        buckets  Xyzz[windows*2^(low+high) + 1]
//   out  rows     Xyzz[windows*(low+high+1) + 1]   the last row is the last bucket: points with scalar one
//   law  sum_j 2^j * rows[window][j] == sum_b (b + 1) * buckets[window][b]
//   cost per line and bit: half an addition of 12M + 2S; small
extern "C" __global__ void __launch_bounds__(64)
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
  for (u32 k = threadIdx.x; k < half; k += 64) {
    const u32 line = (k >> place << 1 | 1) << place | (k & ((1u << place) - 1));  // k with a one put in at `place`
    sum.add(Sum::load(&first[line]));
  }
  sum = group_sum<64>(sum, 64);
  if (threadIdx.x == 0) sum.store(row);
}
EXPORT_COLLECTIVE(GROUP_NAME(msm_sum_bits))
