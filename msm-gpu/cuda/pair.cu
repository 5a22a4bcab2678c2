// SPDX-License-Identifier: MIT OR Apache-2.0
// Sorted entries to half as many points, again and again, for one group: affine additions with a shared inversion.
//
// A round adds neighbours: items 2p and 2p+1 become point p. Runs of a bucket begin at multiples of 2^rounds and are
// filled up with identities, so that neighbours are always of one bucket. An affine addition costs 2M + 1S and an
// inversion; by Montgomery's trick the inversion costs 3M a pair, and one inversion for all pairs together:
//
//   forward    denominators of a thread's pairs -> their products up to each, and of all
//   invert     products of all of a thread -> their inverses, by the same trick once more
//   backward   from the last pair to the first: its inverse out of the rest's, the sum of the pair
//
// 5M + 1S instead of the 8M + 2S of an addition to an XYZZ sum. [Montgomery 1987 sec 10.3.1]
#include "points.cuh"
#include "inverse.cuh"

typedef Group::F Coord;                 // canonical, as in memory
typedef Group::template Field<2> Lazy;  // in registers

// Blocks that share the registers of a multiprocessor: 512 threads of 128 in G1, 256 of 255 in G2.
#define BLOCKS_PER_SM (Group::IN_REGISTERS ? 4 : 2)

// Bit 31 of an entry: the point is subtracted. All ones: the identity, which fills up a run.
#define SIGN_BIT 0x80000000u
#define NO_POINT 0xffffffffu

// A point in memory or its negative; no addresses for the identity.
struct Operand {
  const Coord* x_at;
  const Coord* y_at;
  bool is_negative;

  DEV Coord x() const { return x_at ? load_field(x_at) : Coord::zero(); }
  DEV Coord y() const {
    if (!y_at) return Coord::zero();
    const Coord y = load_field(y_at);
    return is_negative ? neg(y) : y;
  }
};

// Items of the first round.
struct Entries {
  const Affine* bases;
  const u32* entries;

  DEV Operand operator[](u32 i) const {
    const u32 entry = entries[i];
    if (entry == NO_POINT) return Operand{nullptr, nullptr, false};
    const Affine* const base = &bases[entry & ~SIGN_BIT];
    return Operand{&base->x, &base->y, (entry & SIGN_BIT) != 0};
  }
};

// Items of the rounds after it: all x coordinates before all y.
struct Points {
  const Coord* xs;
  const Coord* ys;

  DEV Operand operator[](u32 i) const { return Operand{xs + i, ys + i, false}; }
};

// Where sums go: all x coordinates before all y, for the next round; or points, after the last.
struct Sums {
  Coord* at;
  u32 y_offset, stride;

  DEV Sums(Coord* sums, u32 count, u32 is_last) : at(sums), y_offset(is_last ? 1 : count), stride(is_last ? 2 : 1) {}

  DEV void store(u32 p, const Coord& x, const Coord& y) const {
    store_field(&at[(u64)p * stride], x);
    store_field(&at[(u64)p * stride + y_offset], y);
  }
};

// How the sum of a pair comes about: by the chord through both points, by the tangent where they are the same, or as one of
// three points for which nothing is divided.
enum class PairKind { CHORD, TANGENT, LEFT, RIGHT, IDENTITY };

struct Pair {
  Operand left, right;
  Coord x1, x2;
  PairKind kind;
  Lazy denominator;  // of the slope of chord or tangent

  DEV bool is_divided() const { return kind == PairKind::CHORD || kind == PairKind::TANGENT; }
};

// Every case but the usual one, which needs y coordinates to be told. Complete.
DEV void classify(Pair& pair, bool same_x) {
  const Coord y1 = pair.left.y(), y2 = pair.right.y();
  if (is_zero(pair.x1) && is_zero(y1)) {
    COVER(pair_left_identity);
    pair.kind = PairKind::RIGHT;
  } else if (is_zero(pair.x2) && is_zero(y2)) {
    COVER(pair_right_identity);
    pair.kind = PairKind::LEFT;
  } else if (!same_x) {
    pair.kind = PairKind::CHORD;  // one x is zero, of a point that is not the identity
  } else if (is_zero(sub(y2, y1))) {
    COVER(pair_double);
    pair.kind = PairKind::TANGENT;
    pair.denominator = twice(Lazy(y1));  // no point of the group has y = 0
  } else {
    COVER(pair_cancel);
    pair.kind = PairKind::IDENTITY;
  }
}

// Reads a pair, as far as its case and its denominator need.
template <class Items>
DEV Pair read_pair(const Items& items, u32 p) {
  Pair pair;
  pair.left = items[2 * p];
  pair.right = items[2 * p + 1];
  pair.x1 = pair.left.x();
  pair.x2 = pair.right.x();
  pair.kind = PairKind::CHORD;
  const Coord difference = sub(pair.x2, pair.x1);
  pair.denominator = difference;
  const bool same_x = is_zero(difference);
  if (same_x || is_zero(pair.x1) || is_zero(pair.x2)) classify(pair, same_x);
  return pair;
}

// Pairs of a slice that there are: `count` at most, from pair `first` of the round on.
DEV u32 pairs_of(const u32* offsets, u32 total, u32 round, u32 first, u32 count) {
  const u32 all = offsets[total] >> (round + 1);
  return all <= first ? 0 : all - first < count ? all - first : count;
}

template <class Items>
DEV void forward(Coord* prefixes, Coord* totals, const Items& items, u32 pairs, u32 threads) {
  const u32 t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= threads) return;
  Lazy product = Lazy::one();
  for (u32 p = t; p < pairs; p += threads) {
    store_field(&prefixes[p], canonical(product));
    const Pair pair = read_pair(items, p);
    if (pair.is_divided()) product = mul(product, pair.denominator);
  }
  store_field(&totals[t], canonical(product));
}

template <class Items>
DEV void backward(const Sums& sums, const Coord* prefixes, const Coord* inverses, const Items& items, u32 pairs,
                  u32 threads) {
  const u32 t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= threads || t >= pairs) return;
  Lazy rest = load_field(&inverses[t]);  // inverse of the product of the denominators of pairs t, t + threads, .. p
  for (u32 p = t + (pairs - 1 - t) / threads * threads;; p -= threads) {
    const Pair pair = read_pair(items, p);
    Coord x = Coord::zero(), y = Coord::zero();
    if (pair.is_divided()) {
      // In G1 they are on their way while the first products are computed; in G2 there are no registers for them yet.
      Coord y1, y2;
      if (Group::IN_REGISTERS) y1 = pair.left.y(), y2 = pair.right.y();
      const Lazy inverse = mul(rest, Lazy(load_field(&prefixes[p])));
      rest = mul(rest, pair.denominator);
      if (!Group::IN_REGISTERS) y1 = pair.left.y(), y2 = pair.right.y();
      const Lazy x1 = pair.x1;
      const Lazy numerator = pair.kind == PairKind::CHORD ? Lazy(sub(y2, y1)) : thrice(sqr(x1));
      const Lazy slope = mul(numerator, inverse);
      const Lazy x3 = sub(sub(sqr(slope), x1), Lazy(pair.x2));
      x = canonical(x3);
      y = canonical(sub(mul(slope, sub(x1, x3)), Lazy(y1)));
    } else if (pair.kind == PairKind::LEFT) {
      x = pair.x1;
      y = pair.left.y();
    } else if (pair.kind == PairKind::RIGHT) {
      x = pair.x2;
      y = pair.right.y();
    }
    sums.store(p, x, y);
    if (p < threads) return;
  }
}

// msm_pair_entries_forward: denominators of pairs of entries -> products, one thread per every threads-th pair.
//   in   bases    Affine[..]          identity allowed
//        entries  u32[2 * count]      those of the slice
//        offsets  u32[total + 1]      the last one alone is read: how many entries there are
//   out  prefixes F[count]            product of the denominators of the thread's pairs before this one
//        totals   F[threads]          product of all of the thread's, never zero
//   pre  first + count pairs are at most as many as half of the entries that there can be
//   cost per pair: 1M, 8 + 2 * sizeof(F) B read and sizeof(F) written; bound by memory
//   share of memory, G1 2^24 on an H200: 22.6 G coordinates a second from anywhere, which is what there is
extern "C" __global__ void __launch_bounds__(128, BLOCKS_PER_SM)
GROUP_NAME(msm_pair_entries_forward)(Coord* __restrict__ prefixes, Coord* __restrict__ totals,
                                     const Affine* __restrict__ bases, const u32* __restrict__ entries,
                                     const u32* __restrict__ offsets, u32 total, u32 first, u32 count, u32 threads) {
  forward(prefixes, totals, Entries{bases, entries}, pairs_of(offsets, total, 0, first, count), threads);
}
EXPORT_KERNEL(GROUP_NAME(msm_pair_entries_forward))

// msm_pair_points_forward: as msm_pair_entries_forward, for round 1 and those after it.
//   in   points   F[2][2 * count]     what the round before left of the slice: x coordinates, y coordinates
//        offsets, total, first, count, threads  as there; first and count in pairs of this round
//   out  prefixes, totals             as there
//   cost per pair: 1M, 2 * sizeof(F) B read and sizeof(F) written; bound by memory
//   share of memory, G1 2^24 on an H200: 65 %
extern "C" __global__ void __launch_bounds__(128, BLOCKS_PER_SM)
GROUP_NAME(msm_pair_points_forward)(Coord* __restrict__ prefixes, Coord* __restrict__ totals,
                                    const Coord* __restrict__ points, const u32* __restrict__ offsets, u32 total,
                                    u32 round, u32 first, u32 count, u32 threads) {
  const Points items{points, points + 2 * count};
  forward(prefixes, totals, items, pairs_of(offsets, total, round, first, count), threads);
}
EXPORT_KERNEL(GROUP_NAME(msm_pair_points_forward))

// Products that one thread inverts together.
#define INVERT_PER_THREAD 16

// msm_invert_totals: numbers -> their inverses, in place, one thread per every threads-th one.
//   in/out  totals  F[count]   none is zero
//   pre     count <= 16 * threads
//   cost    per number: 3M; per thread: one inversion, which is all latency
extern "C" __global__ void __launch_bounds__(64)
GROUP_NAME(msm_invert_totals)(Coord* __restrict__ totals, u32 count, u32 threads) {
  const u32 t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= threads) return;
  Coord prefixes[INVERT_PER_THREAD];
  Lazy product = Lazy::one();
  u32 taken = 0;
  for (u32 i = t; i < count; i += threads) {
    prefixes[taken++] = canonical(product);
    product = mul(product, Lazy(load_field(&totals[i])));
  }
  Lazy rest = inverse(canonical(product));
  while (taken > 0) {
    Coord* const total = &totals[t + --taken * threads];
    const Lazy value = load_field(total);
    store_field(total, canonical(mul(rest, Lazy(prefixes[taken]))));
    rest = mul(rest, value);
  }
}
EXPORT_KERNEL(GROUP_NAME(msm_invert_totals))

// msm_pair_entries_backward: pairs of entries -> their sums, one thread per every threads-th pair.
//   in   prefixes  F[count]           as msm_pair_entries_forward left them
//        inverses  F[threads]         of its totals
//        bases, entries, offsets, total, first, count, threads  as there
//   out  sums      F[2][count], x coordinates and y coordinates; Affine[count] with is_last = 1
//   law  sums[p] == item 2p + item 2p+1, exactly, whatever the points are
//   cost per pair: 4M + 1S, 8 + 2 * sizeof(Affine) + sizeof(F) B read and sizeof(Affine) written
//   share of the multiplier, G1 2^24 on an H200: 77 %; the rest waits for points from anywhere
extern "C" __global__ void __launch_bounds__(128, BLOCKS_PER_SM)
GROUP_NAME(msm_pair_entries_backward)(Coord* __restrict__ sums, const Coord* __restrict__ prefixes,
                                      const Coord* __restrict__ inverses, const Affine* __restrict__ bases,
                                      const u32* __restrict__ entries, const u32* __restrict__ offsets, u32 total,
                                      u32 first, u32 count, u32 threads, u32 is_last) {
  const Entries items{bases, entries};
  backward(Sums(sums, count, is_last), prefixes, inverses, items, pairs_of(offsets, total, 0, first, count), threads);
}
EXPORT_KERNEL(GROUP_NAME(msm_pair_entries_backward))

// msm_pair_points_backward: as msm_pair_entries_backward, for round 1 and those after it.
//   in   prefixes, inverses, points, offsets, total, round, first, count, threads  as msm_pair_points_forward
//   out  sums      as there
//   law  as there
//   cost per pair: 4M + 1S, 2 * sizeof(Affine) + sizeof(F) B read and sizeof(Affine) written; bound by multiplication
//   share of the multiplier, G1 2^24 on an H200: 89 %
extern "C" __global__ void __launch_bounds__(128, BLOCKS_PER_SM)
GROUP_NAME(msm_pair_points_backward)(Coord* __restrict__ sums, const Coord* __restrict__ prefixes,
                                     const Coord* __restrict__ inverses, const Coord* __restrict__ points,
                                     const u32* __restrict__ offsets, u32 total, u32 round, u32 first, u32 count,
                                     u32 threads, u32 is_last) {
  const Points items{points, points + 2 * count};
  const u32 pairs = pairs_of(offsets, total, round, first, count);
  backward(Sums(sums, count, is_last), prefixes, inverses, items, pairs, threads);
}
EXPORT_KERNEL(GROUP_NAME(msm_pair_points_backward))
