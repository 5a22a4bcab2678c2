// SPDX-License-Identifier: MIT OR Apache-2.0
// Partial sums to buckets, for one group: a thread for each run with few, a block for each with many.
#include "points.cuh"

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

// msm_merge_partials: partial sums -> buckets, one thread per run that spans threads of the accumulation.
//   in      heads, tails, spans, offsets   as msm_accumulate_runs leaves them
//   in/out  buckets  Xyzz[total]         after: complete, but for hot ones
//           hot      u32[1 + hot_max]    hot[0]: number of hot buckets, zero before; hot[1..]: their numbers
//   pre     hot_max >= number of runs that span more than partials_max threads
//   cost    per run: at most partials_max additions of 12M + 2S
extern "C" __global__ void __launch_bounds__(128)
GROUP_NAME(msm_merge_partials)(Xyzz* __restrict__ buckets, u32* __restrict__ hot, const Xyzz* __restrict__ heads,
                               const Xyzz* __restrict__ tails, const u32* __restrict__ spans,
                               const u32* __restrict__ offsets, u32 k, u32 partials_max) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= spans[0]) return;
  const u32 bucket = spans[1 + i];
  const RunThreads threads = run_threads(offsets[bucket], offsets[bucket + 1], k);
  if (threads.last - threads.first >= partials_max) {
    hot[1 + atomicAdd(&hot[0], 1u)] = bucket;
    return;
  }
  Sum sum = Sum::load(&tails[threads.first]);
  for (u32 t = threads.first + 1; t <= threads.last; t++) sum.add(Sum::load(&heads[t]));
  sum.store(&buckets[bucket]);
}
EXPORT_KERNEL(GROUP_NAME(msm_merge_partials))

// Partial sums of a hot bucket that one block adds at a time.
#define SEGMENT 512

// msm_merge_segments: partial sums of the hot buckets -> one for every 512 of them, blocks take segment after segment.
//   in      hot      u32[1 + hot_max]    as msm_merge_partials leaves it
//           offsets                      as msm_accumulate_runs leaves them
//   in/out  heads    Xyzz[threads]       after: the first partial sum of a segment is the sum of all of it
//   cost    per partial sum: 12M + 2S; a chain of four additions, and of seven by four threads each
extern "C" __global__ void __launch_bounds__(128)
GROUP_NAME(msm_merge_segments)(Xyzz* __restrict__ heads, const u32* __restrict__ hot, const u32* __restrict__ offsets,
                               u32 k) {
  const u32 hot_count = hot[0];
  u32 before = 0;  // segments of the buckets before, all over the grid
  for (u32 h = 0; h < hot_count; h++) {
    const u32 bucket = hot[1 + h];
    const RunThreads threads = run_threads(offsets[bucket], offsets[bucket + 1], k);
    const u32 segments = (threads.last - threads.first + SEGMENT - 1) / SEGMENT;
    for (u32 s = (blockIdx.x + gridDim.x - before % gridDim.x) % gridDim.x; s < segments; s += gridDim.x) {
      const u32 first = threads.first + 1 + s * SEGMENT;
      Sum sum = Sum::identity();
      for (u32 t = first + threadIdx.x; t <= threads.last && t < first + SEGMENT; t += 128) {
        sum.add(Sum::load(&heads[t]));
      }
      sum = group_sum<128>(sum, 128);
      if (threadIdx.x == 0) sum.store(&heads[first]);
    }
    before += segments;
  }
}
EXPORT_COLLECTIVE(GROUP_NAME(msm_merge_segments))

// msm_merge_hot: sums of segments -> the hot buckets, one block per hot bucket at a time.
//   in      hot      u32[1 + hot_max]    as msm_merge_partials leaves it
//           heads                        as msm_merge_segments leaves them
//           tails, offsets               as msm_accumulate_runs leaves them
//   in/out  buckets  Xyzz[total]         after: hot ones complete
//   cost    per segment: 12M + 2S; a chain of at most two additions up to 256 segments, and of seven by four threads each
extern "C" __global__ void __launch_bounds__(128)
GROUP_NAME(msm_merge_hot)(Xyzz* __restrict__ buckets, const u32* __restrict__ hot, const Xyzz* __restrict__ heads,
                          const Xyzz* __restrict__ tails, const u32* __restrict__ offsets, u32 k) {
  const u32 hot_count = hot[0];
  for (u32 h = blockIdx.x; h < hot_count; h += gridDim.x) {
    const u32 bucket = hot[1 + h];
    const RunThreads threads = run_threads(offsets[bucket], offsets[bucket + 1], k);
    const u32 segments = (threads.last - threads.first + SEGMENT - 1) / SEGMENT;
    Sum sum = threadIdx.x == 0 ? Sum::load(&tails[threads.first]) : Sum::identity();
    for (u32 s = threadIdx.x; s < segments; s += 128) sum.add(Sum::load(&heads[threads.first + 1 + s * SEGMENT]));
    sum = group_sum<128>(sum, 128);
    if (threadIdx.x == 0) sum.store(&buckets[bucket]);
  }
}
EXPORT_COLLECTIVE(GROUP_NAME(msm_merge_hot))
