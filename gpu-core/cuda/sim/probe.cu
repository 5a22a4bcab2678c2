// probe.cu: kernels that break one rule each, for the tests of the simulated device, and two that break none.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base.cuh"

// sim_probe_add: one thread per word. Breaks no rule.
//   in   in   u32[n]
//   out  out  u32[n]
//   law  out[i] == in[i] + increment mod 2^32
//   cost 8 B per word; bound by memory
extern "C" __global__ void __launch_bounds__(1024)
sim_probe_add(u32* __restrict__ out, const u32* __restrict__ in, u32 n, u32 increment) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  if (in[i] == 0xffffffffu) COVER(sim_probe_all_ones);
  out[i] = in[i] + increment;
}
EXPORT_KERNEL(sim_probe_add)

// sim_probe_read: reads the word at an index that may be out of bounds, or of an address that was not
// declared.
//   in   in       u32, index words away
//        address  added to the address of in; 0 for in itself
//   out  out      u32[1]
//   law  *out == in[(i32)index]
//   cost 8 B
extern "C" __global__ void __launch_bounds__(1)
sim_probe_read(u32* __restrict__ out, const u32* __restrict__ in, u32 index, u64 address) {
  const u32* const from = address == 0 ? in : reinterpret_cast<const u32*>(address);
  *out = from[static_cast<i32>(index)];
}
EXPORT_KERNEL(sim_probe_read)

// sim_probe_write: writes the word at an index that may be out of bounds, or through a pointer to const.
//   in   in         u32, index words away: written if is_const
//   out  out        u32, index words away: written otherwise
//   law  one word == value
//   cost 4 B
extern "C" __global__ void __launch_bounds__(32)
sim_probe_write(u32* out, const u32* in, u32 index, u32 is_const, u32 value) {
  if (threadIdx.x != blockDim.x - 1) return;
  u32* const to = is_const ? const_cast<u32*>(in) : out;
  to[static_cast<i32>(index)] = value;
}
EXPORT_KERNEL(sim_probe_write)

// sim_probe_rotate: every thread takes its neighbour's word through shared memory, with or without the
// barrier.
//   in   in   u32[gridDim.x * blockDim.x]
//   out  out  u32[gridDim.x * blockDim.x]
//   law  with a barrier, out[b][t] == in[b][(t + 1) mod blockDim.x]
//   cost 8 B per word
extern "C" __global__ void __launch_bounds__(256)
sim_probe_rotate(u32* __restrict__ out, const u32* __restrict__ in, u32 has_barrier) {
  __shared__ u32 tile[256];
  const u32 first = blockIdx.x * blockDim.x;
  tile[threadIdx.x] = in[first + threadIdx.x];
  if (has_barrier) __syncthreads();
  out[first + threadIdx.x] = tile[(threadIdx.x + 1) % blockDim.x];
}
EXPORT_COLLECTIVE(sim_probe_rotate)

// sim_probe_diverge: half of the threads meet at another barrier (0), leave without one (1), or wait at a
// warp operation whose other lanes wait at the barrier (2).
//   out  out  u32[blockDim.x]
//   law  kind 1: out[t] == t for the half that stays, which is allowed
//   cost 4 B per word
extern "C" __global__ void __launch_bounds__(64)
sim_probe_diverge(u32* __restrict__ out, u32 kind) {
  if (threadIdx.x >= blockDim.x / 2) {
    if (kind == 1) return;
    if (kind == 0) __syncthreads();
    if (kind == 2) __syncwarp();
  }
  __syncthreads();
  out[threadIdx.x] = threadIdx.x;
}
EXPORT_COLLECTIVE(sim_probe_diverge)

// sim_probe_plain_barrier: a barrier in a kernel that is exported as plain.
//   out  out  u32[blockDim.x]
//   law  none: refused
//   cost none
extern "C" __global__ void __launch_bounds__(64)
sim_probe_plain_barrier(u32* __restrict__ out) {
  __syncthreads();
  out[threadIdx.x] = 1;
}
EXPORT_KERNEL(sim_probe_plain_barrier)

// sim_probe_warp: one result a warp operation, and a block sum that uses them. Breaks no rule.
//   in   in   u32[blockDim.x]
//   out  out  u32[14][blockDim.x]
//   law  rows: sum of the block; value of lane 3, of the lane above, below (by 2), beside (xor 1); ballot of
//        odd values; lanes with an equal value; 1 if any value is 1, else 2 if all are more; sum, min, max,
//        and, or, xor over the lanes of the same half of the warp
//   cost 60 B per word
extern "C" __global__ void __launch_bounds__(1024)
sim_probe_warp(u32* __restrict__ out, const u32* __restrict__ in) {
  __shared__ u64 warp_sums[32];
  const u32 t = threadIdx.x, n = blockDim.x;
  const u32 value = in[t];
  u64 sum = value;
  for (u32 step = 16; step > 0; step /= 2) {
    const u64 other = __shfl_down_sync(WARP_ALL, sum, step);
    if (t % WARP_LANES + step < WARP_LANES) sum += other;
  }
  if (t % WARP_LANES == 0) warp_sums[t / WARP_LANES] = sum;
  __syncthreads();
  u64 total = 0;
  for (u32 i = 0; i < n / WARP_LANES; i++) total += warp_sums[i];
  out[0 * n + t] = static_cast<u32>(total);
  out[1 * n + t] = __shfl_sync(WARP_ALL, value, 3);
  out[2 * n + t] = __shfl_up_sync(WARP_ALL, value, 1);
  out[3 * n + t] = __shfl_down_sync(WARP_ALL, value, 2);
  out[4 * n + t] = __shfl_xor_sync(WARP_ALL, value, 1);
  out[5 * n + t] = __ballot_sync(WARP_ALL, value & 1);
  out[6 * n + t] = __match_any_sync(WARP_ALL, value);
  out[7 * n + t] = __any_sync(WARP_ALL, value == 1) ? 1 : __all_sync(WARP_ALL, value > 1) ? 2 : 0;
  const u32 half = t & 16 ? 0xffff0000u : 0x0000ffffu;
  out[8 * n + t] = __reduce_add_sync(half, value);
  out[9 * n + t] = __reduce_min_sync(half, value);
  out[10 * n + t] = __reduce_max_sync(half, value);
  out[11 * n + t] = __reduce_and_sync(half, value);
  out[12 * n + t] = __reduce_or_sync(half, value);
  out[13 * n + t] = __reduce_xor_sync(half, value);
}
EXPORT_COLLECTIVE(sim_probe_warp)

// Needs a frame of its own for each n.
__noinline__ __device__ u32 sum_up_to(u32 n, volatile u32* out) {
  volatile u32 frame[64];
  for (u32 i = 0; i < 64; i++) frame[i] = n + *out;
  return n == 0 ? 0 : sum_up_to(n - 1, out) + frame[n % 64] - *out;
}

// sim_probe_recurse: depth calls deep, each with its own array: overflows a thread's stack.
//   out  out  u32[1]
//   law  *out == depth * (depth + 1) / 2 mod 2^32
//   cost depth calls
extern "C" __global__ void __launch_bounds__(32)
sim_probe_recurse(u32* out, u32 depth) {
  if (threadIdx.x == 0) *out = 0;
  __syncthreads();
  if (threadIdx.x == 0) *out = sum_up_to(depth, out);
}
EXPORT_COLLECTIVE(sim_probe_recurse)

// sim_probe_trap: the last thread divides by zero (0), or traps (1).
//   out  out  u32[blockDim.x]
//   law  none: refused, where the processor faults on a division by zero
//   cost none
extern "C" __global__ void __launch_bounds__(64)
sim_probe_trap(u32* __restrict__ out, u32 kind) {
  const u32 zero = blockDim.x - 1 - threadIdx.x;
  if (kind == 1 && zero == 0) __trap();
  out[threadIdx.x] = kind == 0 ? 100 / zero : 0;
}
EXPORT_KERNEL(sim_probe_trap)

// sim_probe_count: every thread of the grid adds one, with an atomic.
//   out  out  u32[1], counted up; u32 per block at 1 + block
//   law  out[0] grows by all threads, out[1 + b] == blockDim.x
//   cost one atomic a thread
extern "C" __global__ void __launch_bounds__(256)
sim_probe_count(u32* out) {
  atomicAdd(&out[0], 1u);
  atomicAdd(&out[1 + blockIdx.y * gridDim.x + blockIdx.x], 1u);
}
EXPORT_KERNEL(sim_probe_count)

// sim_probe_shared: what shared memory holds before anything is written to it.
//   out  out  u32[gridDim.x]
//   law  on the simulated device, poison in every block
//   cost 4 B a block
extern "C" __global__ void __launch_bounds__(1)
sim_probe_shared(u32* __restrict__ out) {
  __shared__ u32 tile[4];
  out[blockIdx.x] = tile[3];
  tile[3] = blockIdx.x;
}
EXPORT_COLLECTIVE(sim_probe_shared)
