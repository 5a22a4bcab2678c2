// Number-theoretic transforms over Fr: one sweep over global memory for up to ten stages.
//
// A transform of n = 2^log_n values is cut into passes of at most ten stages. A pass sees the array as blocks
// of (row, column) with 2^log_rows rows and 2^log_stride columns, and transforms each column; the columns of
// one pass are the blocks of the next. Between two passes the value at (row, column) is multiplied by
// w^(reversed(row) * column), w of order 2^(log_rows + log_stride).
//
// Decimation in frequency (DIF) takes natural order to bit-reversed order, from the widest stride to stride
// 1. Decimation in time (DIT) takes bit-reversed order to natural order, the same passes backwards. Both work
// in place and move nothing: a transform and its inverse in opposite order never permute.
//
// What is not a butterfly rides along: twiddles between passes, powers of a coset shift and 1/n are
// multiplied in while a tile is loaded or stored ("scale"), never in a pass of their own.
//
// Shared memory of a pass: uint4 tile[2][1024], the low and the high 16 bytes of each item. Item i lies at
// place(i).
// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base.cuh"
#include "fr.cuh"

typedef Fr<1> Value;

#define TILE_ITEMS_MAX 1024u
#define THREADS_MAX 256
// Of a pass, on one multiprocessor: some compute while one is at a barrier or waits for memory.
#define BLOCKS_MIN 3

// What an item is multiplied by while it is loaded or stored; ntt-gpu/src/tables.rs names the same numbers.
#define SCALE_NONE 0u      // nothing
#define SCALE_ROW 1u       // scales[row]
#define SCALE_POSITION 2u  // scales[position in the block]
#define SCALE_TWIDDLE 3u   // w^(reversed(row) * column), w of order 2^(log_rows + log_stride), in two levels
#define SCALE_POWER 4u     // g^(position, in natural order), in two levels

DEV u64 reversed(u64 index, u32 bits) {
  return bits == 0 ? 0 : __brevll(index) >> (64 - bits);
}

// base^e for e < 2^bits, from powers[0 .. 2^low] = base^i and, after them, powers of base^(2^low):
// low = ceil(bits / 2).
DEV Fr<2> power(const Value* powers, u64 e, u32 bits) {
  const u32 low_bits = (bits + 1) / 2;
  const u64 low_count = (u64)1 << low_bits;
  return mul(load_field(&powers[e & (low_count - 1)]), load_field(&powers[low_count + (e >> low_bits)]));
}

// Where an item lies in shared memory: the low three bits are mixed with all others, so that eight lanes that
// read at a stride of any power of two meet eight different banks of 16 bytes.
DEV u32 place(u32 item) {
  const u32 above = item >> 3;
  return item ^ ((above ^ above >> 3 ^ above >> 6) & 7);
}

DEV u32 limb32(const Value& a, int i) {
  return WORD_BITS == 32 ? (u32)a.limb[i] : (u32)((u64)a.limb[i / 2] >> (32 * (i % 2)));
}

DEV void put(uint4* tile, u32 item, const Value& a) {
  const u32 at = place(item);
  tile[at] = make_uint4(limb32(a, 0), limb32(a, 1), limb32(a, 2), limb32(a, 3));
  tile[TILE_ITEMS_MAX + at] = make_uint4(limb32(a, 4), limb32(a, 5), limb32(a, 6), limb32(a, 7));
}

DEV Value get(const uint4* tile, u32 item) {
  const u32 at = place(item);
  const uint4 low = tile[at], high = tile[TILE_ITEMS_MAX + at];
  const word limbs[] = {PAIR(low.x, low.y), PAIR(low.z, low.w), PAIR(high.x, high.y), PAIR(high.z, high.w)};
  Value a;
#pragma unroll
  for (int i = 0; i < FrModulus::WORDS; i++) a.limb[i] = limbs[i];
  return a;
}

// The part of the array that one block of threads works on: whole columns. With stride 1 the tile is a row of
// blocks; else it is 2^column_bits neighbouring columns of one block, and item = (row, column).
struct Tile {
  u64 base;         // position of item 0
  u32 items;        // 2^log_tile, or less at the end of the array
  u32 log_rows;
  u32 log_stride;   // 0, or >= column_bits
  u32 column_bits;  // log2 of the distance between rows, in items

  DEV Tile(u64 count, u32 log_rows, u32 log_stride, u32 log_tile)
      : log_rows(log_rows), log_stride(log_stride) {
    const u64 index = blockIdx.x;
    column_bits = log_stride == 0 ? 0 : log_tile - log_rows;
    if (log_stride == 0) {
      base = index << log_tile;
      items = (u32)min((u64)1 << log_tile, (u64)(count - base));
    } else {
      const u32 tile_bits = log_stride - column_bits;   // tiles of one block
      const u64 block = index >> tile_bits;
      base = block << (log_rows + log_stride) | (index & (((u64)1 << tile_bits) - 1)) << column_bits;
      items = 1u << log_tile;
    }
  }

  DEV u32 row(u32 item) const { return item >> column_bits & ((1u << log_rows) - 1); }

  DEV u64 position(u32 item) const {
    if (log_stride == 0) return base + item;
    return base + ((u64)(item >> column_bits) << log_stride) + (item & ((1u << column_bits) - 1));
  }
};

// value * scale, both directions of a pass. `kind` is the same for all threads.
DEV Value scaled(const Value& value, u32 kind, const Value* scales, const Tile& tile, u32 item, u32 log_n,
                 bool is_reversed) {
  const u32 block_bits = tile.log_rows + tile.log_stride;
  const u64 position = tile.position(item);
  if (kind == SCALE_ROW) return canonical(mul(load_field(&scales[tile.row(item)]), value));
  if (kind == SCALE_POSITION) {
    return canonical(mul(load_field(&scales[position & (((u64)1 << block_bits) - 1)]), value));
  }
  u64 e;
  u32 bits;
  if (kind == SCALE_TWIDDLE) {
    bits = block_bits;
    e = reversed(tile.row(item), tile.log_rows) * (position & (((u64)1 << tile.log_stride) - 1));
  } else {
    bits = log_n;
    const u64 index = position & (((u64)1 << log_n) - 1);
    e = is_reversed ? reversed(index, log_n) : index;
  }
  return canonical(mul(value, power(scales, e, bits)));
}

// A thread moves four items, all of a warp's lanes at neighbouring ones.
#define ITEMS_PER_THREAD 4

DEV void load_tile(uint4* shared, const Value* data, const Tile& tile, u32 kind, const Value* scales,
                   u32 log_n, bool is_reversed) {
  if (kind == SCALE_NONE) {
    Value values[ITEMS_PER_THREAD];   // all on their way before the first is needed
#pragma unroll
    for (u32 k = 0; k < ITEMS_PER_THREAD; k++) {
      const u32 item = threadIdx.x + k * blockDim.x;
      if (item < tile.items) values[k] = load_field(&data[tile.position(item)]);
    }
#pragma unroll
    for (u32 k = 0; k < ITEMS_PER_THREAD; k++) {
      const u32 item = threadIdx.x + k * blockDim.x;
      if (item < tile.items) put(shared, item, values[k]);
    }
  } else {
#pragma unroll 2
    for (u32 k = 0; k < ITEMS_PER_THREAD; k++) {
      const u32 item = threadIdx.x + k * blockDim.x;
      if (item >= tile.items) continue;
      const Value value = load_field(&data[tile.position(item)]);
      put(shared, item, scaled(value, kind, scales, tile, item, log_n, is_reversed));
    }
  }
}

DEV void store_tile(Value* data, const uint4* shared, const Tile& tile, u32 kind, const Value* scales,
                    u32 log_n, bool is_reversed) {
  if (kind == SCALE_NONE) {
#pragma unroll
    for (u32 k = 0; k < ITEMS_PER_THREAD; k++) {
      const u32 item = threadIdx.x + k * blockDim.x;
      if (item < tile.items) store_field(&data[tile.position(item)], get(shared, item));
    }
  } else {
#pragma unroll 2
    for (u32 k = 0; k < ITEMS_PER_THREAD; k++) {
      const u32 item = threadIdx.x + k * blockDim.x;
      if (item >= tile.items) continue;
      const Value value = get(shared, item);
      store_field(&data[tile.position(item)], scaled(value, kind, scales, tile, item, log_n, is_reversed));
    }
  }
}

// The stage whose butterflies are neighbouring rows, by itself: its only twiddle is 1. Two pairs a thread.
DEV void pair_stage(uint4* shared, const Tile& tile) {
  const u32 c = tile.column_bits;
  for (u32 k = 0; k < ITEMS_PER_THREAD / 2; k++) {
    const u32 pair = threadIdx.x + k * blockDim.x;
    const u32 i0 = pair >> c << (c + 1) | (pair & ((1u << c) - 1)), i1 = i0 + (1u << c);
    if (i1 >= tile.items) continue;
    const Value x0 = get(shared, i0), x1 = get(shared, i1);
    put(shared, i0, add(x0, x1));
    put(shared, i1, sub(x0, x1));
  }
}

// Four items at distance q rows, and the column of butterflies that they belong to.
struct Quad {
  u32 first;     // item
  u32 distance;  // in items
  u32 j;         // row of the first one, modulo q

  // Quad t of a tile. Where q is small, neighbouring threads have the same j: then whole warps have j = 0,
  // whose twiddles are 1, and skip the products.
  DEV Quad(const Tile& tile, u32 t, u32 log_q, u32 log_tile) {
    const u32 c = tile.column_bits;
    distance = 1u << (log_q + c);
    u32 block, low;
    if (log_q <= 4) {
      const u32 rest_bits = log_tile - 2 - log_q;
      const u32 rest = t & ((1u << rest_bits) - 1);
      j = t >> rest_bits;
      block = rest >> c;
      low = j << c | (rest & ((1u << c) - 1));
    } else {
      block = t >> (log_q + c);
      low = t & (distance - 1);
      j = low >> c;
    }
    first = block << (log_q + 2 + c) | low;
  }
};

// The twiddles of a quad: w of order 2 * (2q) for the wide stage, w^2 for the narrow one.
//   twiddles[e] = (root of order 2^twiddle_bits)^e, e < 2^(twiddle_bits - 1)
struct QuadTwiddles {
  Value wide, wide_q, narrow;   // w^j, w^(j + q), w^(2j)
  DEV QuadTwiddles(const Value* twiddles, u32 j, u32 log_q, u32 twiddle_bits) {
    const u32 step = twiddle_bits - log_q - 2;
    wide = load_field(&twiddles[j << step]);
    wide_q = load_field(&twiddles[(j + (1u << log_q)) << step]);
    narrow = load_field(&twiddles[j << (step + 1)]);
  }
};

// Two stages of a transform from natural order: differences are multiplied, the wide stage first.
DEV void dif_quad(uint4* shared, const Quad& quad, const QuadTwiddles& w) {
  const u32 i0 = quad.first, i1 = i0 + quad.distance, i2 = i1 + quad.distance, i3 = i2 + quad.distance;
  const Value x0 = get(shared, i0), x1 = get(shared, i1), x2 = get(shared, i2), x3 = get(shared, i3);
  const Value y0 = add(x0, x2), y1 = add(x1, x3);
  const Value y3 = canonical(mul(w.wide_q, sub_lazy(x1, x3)));
  put(shared, i0, add(y0, y1));
  if (quad.j == 0) {
    const Value y2 = sub(x0, x2);
    put(shared, i1, sub(y0, y1));
    put(shared, i2, add(y2, y3));
    put(shared, i3, sub(y2, y3));
  } else {
    const Value y2 = canonical(mul(w.wide, sub_lazy(x0, x2)));
    put(shared, i1, canonical(mul(w.narrow, sub_lazy(y0, y1))));
    put(shared, i2, add(y2, y3));
    put(shared, i3, canonical(mul(w.narrow, sub_lazy(y2, y3))));
  }
}

// Two stages of a transform from bit-reversed order: what comes in is multiplied, the narrow stage first.
DEV void dit_quad(uint4* shared, const Quad& quad, const QuadTwiddles& w) {
  const u32 i0 = quad.first, i1 = i0 + quad.distance, i2 = i1 + quad.distance, i3 = i2 + quad.distance;
  const Value x0 = get(shared, i0), x2 = get(shared, i2);
  Value x1 = get(shared, i1), x3 = get(shared, i3);
  if (quad.j != 0) {
    x1 = canonical(mul(w.narrow, x1));
    x3 = canonical(mul(w.narrow, x3));
  }
  Value y2 = add(x2, x3);
  if (quad.j != 0) y2 = canonical(mul(w.wide, y2));
  const Value y0 = add(x0, x1), y1 = sub(x0, x1);
  const Value y3 = canonical(mul(w.wide_q, sub_lazy(x2, x3)));
  put(shared, i0, add(y0, y2));
  put(shared, i2, sub(y0, y2));
  put(shared, i1, add(y1, y3));
  put(shared, i3, sub(y1, y3));
}

// ntt_dif_pass: one pass of a transform from natural to bit-reversed order, in place; one block per tile.
//   in/out  data      Fr[count]            canonical, Montgomery; count = jobs * 2^log_n
//   in   twiddles     Fr[2^(twiddle_bits-1)]  powers of a root of order 2^twiddle_bits >= 2^log_rows
//        load_scales, store_scales         as load_scale and store_scale say; not read for SCALE_NONE
//   pre  1 <= log_rows <= log_tile <= 10; log_stride = 0, or >= log_tile - log_rows;
//        grid = count / 2^log_tile, rounded up; blocks of 2^log_tile / 4 threads, at least 1
//   law  column x of each block becomes X[reversed(k)] = store_scale * sum_i w^(i*k) * load_scale * x[i],
//        w of order 2^log_rows
//   cost per item: 64 B of data and 32 B for each scale; log_rows / 2 products less 1, and those of the
//        scales; bound by multiplication
//   share of the multiplier in Fr, 2^24 on an H200, all passes: 84 %
//   ref  [GS66]; the cut into passes is [Bai90]
extern "C" __global__ void __launch_bounds__(THREADS_MAX, BLOCKS_MIN)
ntt_dif_pass(Value* data, const Value* __restrict__ twiddles, const Value* __restrict__ load_scales,
             const Value* __restrict__ store_scales, u64 count, u32 log_n, u32 log_rows, u32 log_stride,
             u32 log_tile, u32 twiddle_bits, u32 load_scale, u32 store_scale) {
  alignas(16) __shared__ uint4 shared[2 * TILE_ITEMS_MAX];
  const Tile tile(count, log_rows, log_stride, log_tile);
  load_tile(shared, data, tile, load_scale, load_scales, log_n, false);
  __syncthreads();
  for (i32 log_q = (i32)log_rows - 2; log_q >= 0; log_q -= 2) {
    const Quad quad(tile, threadIdx.x, log_q, log_tile);
    if (quad.first < tile.items) dif_quad(shared, quad, QuadTwiddles(twiddles, quad.j, log_q, twiddle_bits));
    __syncthreads();
  }
  if (log_rows % 2 != 0) {
    pair_stage(shared, tile);
    __syncthreads();
  }
  store_tile(data, shared, tile, store_scale, store_scales, log_n, true);
}
EXPORT_COLLECTIVE(ntt_dif_pass)

// ntt_dit_pass: one pass of a transform from bit-reversed to natural order, in place; one block per tile.
//   in/out  data      Fr[count]            canonical, Montgomery; count = jobs * 2^log_n
//   in   twiddles     Fr[2^(twiddle_bits-1)]  powers of a root of order 2^twiddle_bits >= 2^log_rows
//        load_scales, store_scales         as load_scale and store_scale say; not read for SCALE_NONE
//   pre  as ntt_dif_pass
//   law  column x of each block becomes X[k] = store_scale * sum_i w^(reversed(i)*k) * load_scale * x[i],
//        w of order 2^log_rows
//   cost as ntt_dif_pass
//   ref  [CT65]; the cut into passes is [Bai90]
extern "C" __global__ void __launch_bounds__(THREADS_MAX, BLOCKS_MIN)
ntt_dit_pass(Value* data, const Value* __restrict__ twiddles, const Value* __restrict__ load_scales,
             const Value* __restrict__ store_scales, u64 count, u32 log_n, u32 log_rows, u32 log_stride,
             u32 log_tile, u32 twiddle_bits, u32 load_scale, u32 store_scale) {
  alignas(16) __shared__ uint4 shared[2 * TILE_ITEMS_MAX];
  const Tile tile(count, log_rows, log_stride, log_tile);
  load_tile(shared, data, tile, load_scale, load_scales, log_n, true);
  __syncthreads();
  if (log_rows % 2 != 0) {
    pair_stage(shared, tile);
    __syncthreads();
  }
  for (u32 log_q = log_rows % 2; log_q + 2 <= log_rows; log_q += 2) {
    const Quad quad(tile, threadIdx.x, log_q, log_tile);
    if (quad.first < tile.items) dit_quad(shared, quad, QuadTwiddles(twiddles, quad.j, log_q, twiddle_bits));
    __syncthreads();
  }
  store_tile(data, shared, tile, store_scale, store_scales, log_n, false);
}
EXPORT_COLLECTIVE(ntt_dit_pass)

// ntt_fill_scales: the scales between two passes, powers of a coset shift folded in; one thread per position.
//   in   omega_powers, shift_powers  powers in two levels: exponents < 2^log_n, of omega and of the shift g
//   out  scales  Fr[2^(log_rows + log_stride)]   canonical, Montgomery
//   law  scales[row][column] == omega^(2^(log_n - log_rows - log_stride) * reversed(row) * column)
//                               * g^(by_row ? reversed(row) << row_shift : column) * (scale of shift_powers)
//   cost three products and 160 B per position, once per table
extern "C" __global__ void __launch_bounds__(THREADS_MAX)
ntt_fill_scales(Value* __restrict__ scales, const Value* __restrict__ omega_powers,
                const Value* __restrict__ shift_powers, u32 log_n, u32 log_rows, u32 log_stride, u32 by_row,
                u32 row_shift) {
  const u32 block_bits = log_rows + log_stride;
  const u64 position = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  if (position >= (u64)1 << block_bits) return;
  const u64 row = reversed(position >> log_stride, log_rows);
  const u64 column = position & (((u64)1 << log_stride) - 1);
  const Value twiddle = canonical(power(omega_powers, row * column << (log_n - block_bits), log_n));
  const Fr<2> shift = power(shift_powers, by_row != 0 ? row << row_shift : column, log_n);
  store_field(&scales[position], canonical(mul(twiddle, shift)));
}
EXPORT_KERNEL(ntt_fill_scales)

// ntt_reverse_order: natural to bit-reversed order and back, in place; one thread per position.
//   in/out  data  Fr[count]   count = jobs * 2^log_n
//   law  data[job][i] and data[job][reversed(i)] change places; twice is the identity
//   cost 64 B per item, half of them scattered by 32 B; bound by memory
extern "C" __global__ void __launch_bounds__(THREADS_MAX)
ntt_reverse_order(Value* data, u64 count, u32 log_n) {
  const u64 position = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  if (position >= count) return;
  const u64 index = position & (((u64)1 << log_n) - 1);
  const u64 other = reversed(index, log_n);
  if (index >= other) return;
  Value* const first = &data[position];
  Value* const second = &data[position - index + other];
  const Value held = load_field(first);
  store_field(first, load_field(second));
  store_field(second, held);
}
EXPORT_KERNEL(ntt_reverse_order)
