// probe.cu: kernels that misbehave on purpose, for the tests of the simulated device.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base.cuh"

// sim_probe_add: out[i] = in[i] + increment, one thread per word. The one that behaves.
//   in   in   u32[n]
//   out  out  u32[n]
//   law  out[i] == in[i] + increment
//   cost 8 B per word; bound by memory
extern "C" __global__ void __launch_bounds__(1024)
sim_probe_add(u32* __restrict__ out, const u32* __restrict__ in, u32 n, u32 increment) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  if (in[i] == 0) COVER(sim_probe_zero);
  out[i] = in[i] + increment;
}
EXPORT_KERNEL(sim_probe_add)
