// SPDX-License-Identifier: MIT OR Apache-2.0
// The machine word that multi-word integers are made of: 32 bits on CUDA, 64 on the simulated device.
// In memory both are the same little-endian bytes.
#pragma once
#include "base.cuh"

#ifdef SIM
typedef u64 word;
#define PAIR(lo, hi) ((u64)(hi) << 32 | (lo))   // two 32-bit limbs of a constant, as words
#else
typedef u32 word;
#define PAIR(lo, hi) lo, hi
#endif

constexpr int WORD_BITS = 8 * (int)sizeof(word);

// A device function that is called and not inlined, where inlining would multiply code and compile time.
#define FUNCTION inline __device__ __noinline__
