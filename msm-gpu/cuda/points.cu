// Sorted entries to the rows of a batch, for one group: accumulation, merge of partial sums, bucket reduction.
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

// Sum over the 64 threads of a block, valid in thread 0; every thread of the block calls it.
DEV Sum block_sum(Sum sum) {
  __shared__ Xyzz partial[64];
  const u32 t = threadIdx.x;
  for (u32 stride = 32; stride > 0; stride >>= 1) {
    if (t >= stride && t < 2 * stride) sum.store(&partial[t]);
    __syncthreads();
    if (t < stride) sum.add(Sum::load(&partial[t + stride]));
    __syncthreads();
  }
  return sum;
}

// msm_merge_hot: partial sums of the hot buckets -> buckets, one block per hot bucket at a time.
//   in      hot      u32[1 + hot_max]    as msm_merge_partials leaves it
//           heads, tails, offsets        as msm_accumulate_runs leaves them
//   in/out  buckets  Xyzz[total]         after: hot ones complete
//   cost    per partial sum: 12M + 2S; bound by the longest run / 64
extern "C" __global__ void __launch_bounds__(64)
GROUP_NAME(msm_merge_hot)(Xyzz* __restrict__ buckets, const u32* __restrict__ hot, const Xyzz* __restrict__ heads,
                          const Xyzz* __restrict__ tails, const u32* __restrict__ offsets, u32 k) {
  const u32 hot_count = hot[0];
  for (u32 h = blockIdx.x; h < hot_count; h += gridDim.x) {
    const u32 bucket = hot[1 + h];
    const RunThreads threads = run_threads(offsets[bucket], offsets[bucket + 1], k);
    Sum sum = threadIdx.x == 0 ? Sum::load(&tails[threads.first]) : Sum::identity();
    for (u32 t = threads.first + 1 + threadIdx.x; t <= threads.last; t += 64) sum.add(Sum::load(&heads[t]));
    sum = block_sum(sum);
    if (threadIdx.x == 0) sum.store(&buckets[bucket]);
  }
}
EXPORT_COLLECTIVE(GROUP_NAME(msm_merge_hot))

// msm_reduce_buckets: buckets -> rows, one block of 64 threads per row; blockIdx.y is the window.
//   in   buckets  Xyzz[windows*count + 1]
//   out  rows     Xyzz[windows*rows_per_window + 1]   the last row is the last bucket: points with scalar one
//   law  sum over the rows of window k == sum_b (b + 1) * buckets[k*count + b]
//   cost per bucket: two additions of 12M + 2S; a thread also multiplies by the number of its first bucket
//   ref  [BDLO12 sec 4], running sums, cut into parts
extern "C" __global__ void __launch_bounds__(64)
GROUP_NAME(msm_reduce_buckets)(Xyzz* __restrict__ rows, const Xyzz* __restrict__ buckets, u32 windows, u32 count,
                               u32 rows_per_window) {
  const u32 window = blockIdx.y;
  if (window == windows) {
    if (blockIdx.x == 0 && threadIdx.x == 0) rows[windows * rows_per_window] = buckets[windows * count];
    return;
  }
  const u32 parts = rows_per_window * 64;
  const u32 part = blockIdx.x * 64 + threadIdx.x;
  const u32 begin = (u32)((u64)count * part / parts), end = (u32)((u64)count * (part + 1) / parts);
  Sum running = Sum::identity();   // sum of buckets[j] for j >= b
  Sum weighted = Sum::identity();  // sum of (j - begin + 1) * buckets[j] for j >= b
  for (u32 b = end; b > begin; b--) {
    running.add(Sum::load(&buckets[window * count + b - 1]));
    weighted.add(running);
  }
  running.mul_small(begin);
  weighted.add(running);
  const Sum sum = block_sum(weighted);
  if (threadIdx.x == 0) sum.store(&rows[window * rows_per_window + blockIdx.x]);
}
EXPORT_COLLECTIVE(GROUP_NAME(msm_reduce_buckets))
