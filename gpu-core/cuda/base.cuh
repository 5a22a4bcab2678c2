// base.cuh: the vocabulary that every kernel source shares, on both devices.
//
// A source is compiled twice: by NVRTC as CUDA C++17, and by the host's C++ compiler for the simulated
// device, where SIM is defined and sim/shim.h supplies what CUDA has built in. Three habits serve both:
//   - alignas comes before __shared__ (alignas(16) __shared__ u32 tile[256]): both compilers take that order;
//   - every kernel is extern "C" __global__ and is followed by its mark, alone on the line:
//     EXPORT_KERNEL(name), or EXPORT_COLLECTIVE(name) if threads of a block meet (barriers, warp operations);
//   - kernels take const T*, T*, u32 and u64 only: the marks read the signature off the C++ type.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#ifdef SIM
#include "sim/shim.h"
#endif

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

#ifdef SIM
#define DEV inline
#else
#define DEV __device__ __forceinline__
#define EXPORT_KERNEL(name)
#define EXPORT_COLLECTIVE(name)
// Counts how often a branch is taken, on the simulated device only: tests show with it that they reach it.
#define COVER(word)
#endif

// A source that is compiled once per group names its kernels GROUP_NAME(msm_foo): msm_foo_g1 and msm_foo_g2.
#if defined(GROUP_G1)
#define GROUP_NAME(stem) stem##_g1
#elif defined(GROUP_G2)
#define GROUP_NAME(stem) stem##_g2
#endif

// Lanes of a warp, on every device so far.
#define WARP_LANES 32u
#define WARP_ALL 0xffffffffu
