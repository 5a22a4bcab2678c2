// SPDX-License-Identifier: MIT OR Apache-2.0
// Sorted entries to buckets and partial sums, for one group.
//
// Thread t adds entries t*k .. (t+1)*k-1, whatever buckets they belong to: the work of a thread does not depend on how
// scalars are distributed. The entries of one bucket are a run. A run inside one thread's part goes to its bucket at
// once; a run that spans threads leaves one partial sum per thread, merged afterwards (merge.cu).
#include "points.cuh"

// Bit 31 of an entry: the point is subtracted.
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

// The part of one thread.
template <class Items>
DEV void accumulate(Xyzz* buckets, Xyzz* heads, Xyzz* tails, u32* spans, const Items& items, const u32* offsets,
                    u32 total, u32 rounds, u32 k, bool keep) {
  const u32 t = blockIdx.x * blockDim.x + threadIdx.x;
  const u32 item_count = offsets[total] >> rounds;
  const u64 first = (u64)t * k;
  if (first >= item_count) return;
  const u32 begin = (u32)first;
  const u32 end = item_count - begin < k ? item_count : begin + k;
  u32 bucket = bucket_at(offsets, total, begin << rounds);
  u32 run_end = offsets[bucket + 1] >> rounds;
  bool from_before = offsets[bucket] >> rounds < begin;
  Sum sum = keep && !from_before ? Sum::load(&buckets[bucket]) : Sum::identity();
  for (u32 i = begin; i < end; i++) {
    if (i == run_end) {
      sum.store(from_before ? &heads[t] : &buckets[bucket]);
      from_before = false;
      run_end = offsets[++bucket + 1] >> rounds;
      if (run_end == i) {
        // Empty: searched for and not walked to, since with few different digits the next one is 10000 buckets away.
        bucket = bucket_at(offsets, total, i << rounds);
        run_end = offsets[bucket + 1] >> rounds;
      }
      sum = keep ? Sum::load(&buckets[bucket]) : Sum::identity();
    }
    items.add_to(sum, i);
  }
  const bool goes_on = run_end > end;
  if (goes_on && !from_before) spans[1 + atomicAdd(&spans[0], 1u)] = bucket;
  sum.store(from_before ? &heads[t] : goes_on ? &tails[t] : &buckets[bucket]);
}

struct Entries {
  const Affine* bases;
  const u32* entries;

  DEV void add_to(Sum& sum, u32 i) const {
    const u32 entry = entries[i];
    sum.add_affine(bases[entry & ~SIGN_BIT], (entry & SIGN_BIT) != 0);
  }
};

struct Points {
  const Affine* points;

  DEV void add_to(Sum& sum, u32 i) const { sum.add_affine(points[i], false); }
};

// msm_accumulate_runs: entries and bases -> buckets and partial sums, one thread per k entries.
//   in   bases    Affine[..]            identity allowed
//        entries  u32[offsets[total]]   sorted by bucket
//        offsets  u32[total + 1]
//   in/out  buckets  Xyzz[total]        written where the run lies in one thread's part; others not touched
//   out  heads    Xyzz[threads]         sum of the thread's first run, where that run began before its part
//        tails    Xyzz[threads]         sum of the thread's last run, where that run began in its part and goes on after
//   in/out  spans    u32[1 + threads]   spans[0]: number of buckets whose runs span threads, zero before; then their numbers
//   law  a bucket is its written value, or tails[first thread of its run] + heads[each later thread of its run];
//        with keep = 1, the first of these already has the bucket's old value in it
//   cost per entry: 8M + 2S, 4 + sizeof(Affine) B; bound by multiplication in G1 and G2
//   ref  [BDLO12 sec 4]; the cut by entries instead of by buckets is the segmented reduction of [BHZ93]
extern "C" __global__ void __launch_bounds__(128)
GROUP_NAME(msm_accumulate_runs)(Xyzz* __restrict__ buckets, Xyzz* __restrict__ heads, Xyzz* __restrict__ tails,
                                u32* __restrict__ spans, const Affine* __restrict__ bases,
                                const u32* __restrict__ entries, const u32* __restrict__ offsets, u32 total, u32 k,
                                u32 keep) {
  accumulate(buckets, heads, tails, spans, Entries{bases, entries}, offsets, total, 0, k, keep);
}
EXPORT_KERNEL(GROUP_NAME(msm_accumulate_runs))

// msm_accumulate_points: as msm_accumulate_runs, for the points that `rounds` rounds of pairs left (pair.cu).
//   in   points   Affine[offsets[total] >> rounds]
//        offsets  u32[total + 1]        multiples of 2^rounds
//   in/out, out, law, ref   as msm_accumulate_runs, for runs of offsets[b] >> rounds
//   cost per point: 8M + 2S, sizeof(Affine) B
//   share of the multiplier, G1 2^24 on an H200: 86 %
extern "C" __global__ void __launch_bounds__(128)
GROUP_NAME(msm_accumulate_points)(Xyzz* __restrict__ buckets, Xyzz* __restrict__ heads, Xyzz* __restrict__ tails,
                                  u32* __restrict__ spans, const Affine* __restrict__ points,
                                  const u32* __restrict__ offsets, u32 total, u32 rounds, u32 k, u32 keep) {
  accumulate(buckets, heads, tails, spans, Points{points}, offsets, total, rounds, k, keep);
}
EXPORT_KERNEL(GROUP_NAME(msm_accumulate_points))
