// shim.h: what CUDA C++ has built in, for the simulated device.
//
// kernel-build compiles each source inside a namespace of its own, after this header, so two modules may
// define the same helper differently. Threads of a block run on one host thread: one after the other in a
// plain kernel, as fibers that switch at barriers and warp operations in a collective one. Blocks may run on
// several host threads, so atomics on device memory are real ones.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

// Layout shared with gpu-core/src/kernel.rs.
struct SimKernel {
  void (*call)(const void* const* args);  // runs the kernel for the current thread
  const char* signature;                  // a letter an argument: r w 4 8
  uint32_t collective;
  const char* shared_begin;               // initial image of the module's shared memory, in the TLS segment
  const char* shared_end;
};

struct SimIndex {
  unsigned int x, y, z;
};

#define SIM_TLS extern __thread __attribute__((tls_model("initial-exec")))
extern "C" {
SIM_TLS SimIndex sim_thread_idx, sim_block_idx, sim_block_dim, sim_grid_dim;

struct SimCounter {
  const char* word;
  uint64_t count;
  uint32_t is_listed;
  SimCounter* next;
};
void sim_list_counter(SimCounter* counter);

// Meeting points. `site` is a source line: threads that meet at different ones have diverged.
void sim_block_barrier(uint32_t site);
enum SimWarpOp : uint32_t {
  SIM_SYNC, SIM_SHUFFLE, SIM_BALLOT, SIM_MATCH,
  SIM_REDUCE_ADD, SIM_REDUCE_MIN, SIM_REDUCE_MAX, SIM_REDUCE_AND, SIM_REDUCE_OR, SIM_REDUCE_XOR,
};
uint64_t sim_warp_meet(SimWarpOp op, uint32_t site, uint32_t mask, uint64_t value, uint32_t source_lane);
void sim_trap(void) __attribute__((noreturn));
}

// --- marks -------------------------------------------------------------------------------------------------

template <class T> struct SimLetter;
template <class T> struct SimLetter<const T*> { static constexpr char value = 'r'; };
template <class T> struct SimLetter<T*> { static constexpr char value = 'w'; };
template <> struct SimLetter<unsigned int> { static constexpr char value = '4'; };
template <> struct SimLetter<unsigned long long> { static constexpr char value = '8'; };

template <size_t... I> struct SimIndices {};
template <size_t N, size_t... I> struct SimIndicesUpTo : SimIndicesUpTo<N - 1, N - 1, I...> {};
template <size_t... I> struct SimIndicesUpTo<0, I...> { using type = SimIndices<I...>; };

template <class Signature, Signature kernel> struct SimExport;
template <class... Args, void (*kernel)(Args...)> struct SimExport<void (*)(Args...), kernel> {
  static constexpr char signature[] = {SimLetter<Args>::value..., 0};
  static void call(const void* const* args) {
    unpack(args, typename SimIndicesUpTo<sizeof...(Args)>::type{});
  }
  template <size_t... I> static void unpack(const void* const* args, SimIndices<I...>) {
    (void)args;
    kernel(*static_cast<const Args*>(args[I])...);
  }
};

#define SIM_JOIN_(a, b) a##b
#define SIM_JOIN(a, b) SIM_JOIN_(a, b)

#if defined(SIM_LIST)
// The build reads the names of kernels and covered branches off the preprocessed source.
#define EXPORT_KERNEL(name) sim_exported_kernel name;
#define EXPORT_COLLECTIVE(name) sim_exported_kernel name;
#define COVER(word) sim_covered_word word;
#else
#define SIM_EXPORT(name, is_collective)                                                                      \
  extern "C" {                                                                                               \
  extern const SimKernel SIM_JOIN(sim_kernel_, name);                                                        \
  const SimKernel SIM_JOIN(sim_kernel_, name) = {                                                            \
      &SimExport<decltype(&name), &name>::call, SimExport<decltype(&name), &name>::signature, is_collective, \
      SIM_SHARED_BEGIN, SIM_SHARED_END};                                                                     \
  }
#define EXPORT_KERNEL(name) SIM_EXPORT(name, 0)
#define EXPORT_COLLECTIVE(name) SIM_EXPORT(name, 1)
#define COVER(word)                                                                                          \
  do {                                                                                                       \
    static SimCounter sim_counter = {#word, 0, 0, nullptr};                                                  \
    if (__atomic_fetch_add(&sim_counter.count, 1, __ATOMIC_RELAXED) == 0) sim_list_counter(&sim_counter);    \
  } while (0)
#endif

// --- qualifiers --------------------------------------------------------------------------------------------

// Shared memory is the host thread's own; the module's section lets the runtime poison all of it before each
// block.
#if defined(SIM_MODULE) && !defined(SIM_LIST)
extern "C" {
extern const char SIM_JOIN(__start_sim_shared_, SIM_MODULE)[] __attribute__((weak, visibility("hidden")));
extern const char SIM_JOIN(__stop_sim_shared_, SIM_MODULE)[] __attribute__((weak, visibility("hidden")));
}
#define SIM_SHARED_BEGIN SIM_JOIN(__start_sim_shared_, SIM_MODULE)
#define SIM_SHARED_END SIM_JOIN(__stop_sim_shared_, SIM_MODULE)
#define SIM_STRING_(x) #x
#define SIM_STRING(x) SIM_STRING_(x)
#define SIM_SHARED_SECTION SIM_STRING(SIM_JOIN(sim_shared_, SIM_MODULE))
#define __shared__ static thread_local __attribute__((section(SIM_SHARED_SECTION)))
#else
#define __shared__ static thread_local
#endif

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __launch_bounds__(...)
#undef __forceinline__
#define __forceinline__ inline __attribute__((always_inline))
#undef __noinline__
#define __noinline__ __attribute__((noinline))
#ifndef __restrict__
#define __restrict__ __restrict
#endif

#define threadIdx sim_thread_idx
#define blockIdx sim_block_idx
#define blockDim sim_block_dim
#define gridDim sim_grid_dim

// --- vector types ------------------------------------------------------------------------------------------

struct alignas(8) uint2 { unsigned int x, y; };
struct alignas(16) uint4 { unsigned int x, y, z, w; };
struct alignas(16) ulonglong2 { unsigned long long x, y; };
inline uint2 make_uint2(unsigned int x, unsigned int y) { return {x, y}; }
inline uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w) {
  return {x, y, z, w};
}
inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return {x, y}; }

// --- arithmetic --------------------------------------------------------------------------------------------

inline unsigned int min(unsigned int a, unsigned int b) { return b < a ? b : a; }
inline unsigned int max(unsigned int a, unsigned int b) { return a < b ? b : a; }
inline int min(int a, int b) { return b < a ? b : a; }
inline int max(int a, int b) { return a < b ? b : a; }
inline unsigned long long min(unsigned long long a, unsigned long long b) { return b < a ? b : a; }
inline unsigned long long max(unsigned long long a, unsigned long long b) { return a < b ? b : a; }
inline int __clz(int x) { return x ? __builtin_clz((unsigned int)x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __popc(unsigned int x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline unsigned int __umulhi(unsigned int a, unsigned int b) {
  return (unsigned int)((unsigned long long)a * b >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline unsigned int __funnelshift_l(unsigned int low, unsigned int high, unsigned int shift) {
  return (unsigned int)(((unsigned long long)high << 32 | low) << (shift & 31) >> 32);
}
inline unsigned int __funnelshift_r(unsigned int low, unsigned int high, unsigned int shift) {
  return (unsigned int)(((unsigned long long)high << 32 | low) >> (shift & 31));
}
inline unsigned int __brev(unsigned int x) {
  x = (x & 0x55555555u) << 1 | (x >> 1 & 0x55555555u);
  x = (x & 0x33333333u) << 2 | (x >> 2 & 0x33333333u);
  x = (x & 0x0f0f0f0fu) << 4 | (x >> 4 & 0x0f0f0f0fu);
  return __builtin_bswap32(x);
}
inline unsigned long long __brevll(unsigned long long x) {
  return (unsigned long long)__brev((unsigned int)x) << 32 | __brev((unsigned int)(x >> 32));
}

// --- memory ------------------------------------------------------------------------------------------------

template <class T> inline T __ldg(const T* p) { return *p; }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() {}
inline void __trap() { sim_trap(); }

#define SIM_ATOMIC(T)                                                                                        \
  inline T atomicAdd(T* p, T value) { return __atomic_fetch_add(p, value, __ATOMIC_RELAXED); }               \
  inline T atomicSub(T* p, T value) { return __atomic_fetch_sub(p, value, __ATOMIC_RELAXED); }               \
  inline T atomicOr(T* p, T value) { return __atomic_fetch_or(p, value, __ATOMIC_RELAXED); }                 \
  inline T atomicAnd(T* p, T value) { return __atomic_fetch_and(p, value, __ATOMIC_RELAXED); }               \
  inline T atomicXor(T* p, T value) { return __atomic_fetch_xor(p, value, __ATOMIC_RELAXED); }               \
  inline T atomicExch(T* p, T value) { return __atomic_exchange_n(p, value, __ATOMIC_RELAXED); }             \
  inline T atomicCAS(T* p, T expected, T value) {                                                            \
    __atomic_compare_exchange_n(p, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);             \
    return expected;                                                                                         \
  }                                                                                                          \
  inline T atomicMax(T* p, T value) {                                                                        \
    T seen = __atomic_load_n(p, __ATOMIC_RELAXED);                                                           \
    while (seen < value &&                                                                                   \
           !__atomic_compare_exchange_n(p, &seen, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {        \
    }                                                                                                        \
    return seen;                                                                                             \
  }                                                                                                          \
  inline T atomicMin(T* p, T value) {                                                                        \
    T seen = __atomic_load_n(p, __ATOMIC_RELAXED);                                                           \
    while (value < seen &&                                                                                   \
           !__atomic_compare_exchange_n(p, &seen, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {        \
    }                                                                                                        \
    return seen;                                                                                             \
  }
SIM_ATOMIC(unsigned int)
SIM_ATOMIC(unsigned long long)
SIM_ATOMIC(int)

// --- meetings ----------------------------------------------------------------------------------------------

template <class T> inline unsigned long long sim_bits(T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "warp operations move 4 or 8 bytes");
  unsigned long long bits = 0;
  memcpy(&bits, &value, sizeof(T));
  return bits;
}
template <class T> inline T sim_from_bits(unsigned long long bits) {
  T value;
  memcpy(&value, &bits, sizeof(T));
  return value;
}
inline unsigned int sim_lane() { return sim_thread_idx.x & 31; }

template <class T>
inline T sim_shfl(uint32_t site, unsigned int mask, T value, unsigned int lane, unsigned int width = 32) {
  const unsigned int source = (sim_lane() & ~(width - 1)) + (lane & (width - 1));
  return sim_from_bits<T>(sim_warp_meet(SIM_SHUFFLE, site, mask, sim_bits(value), source));
}
template <class T>
inline T sim_shfl_up(uint32_t site, unsigned int mask, T value, unsigned int delta, unsigned int width = 32) {
  const unsigned int lane = sim_lane(), first = lane & ~(width - 1);
  const unsigned int source = lane - first < delta ? lane : lane - delta;
  return sim_from_bits<T>(sim_warp_meet(SIM_SHUFFLE, site, mask, sim_bits(value), source));
}
template <class T>
inline T sim_shfl_down(uint32_t site, unsigned int mask, T value, unsigned int delta,
                       unsigned int width = 32) {
  const unsigned int lane = sim_lane(), end = (lane & ~(width - 1)) + width;
  const unsigned int source = lane + delta >= end ? lane : lane + delta;
  return sim_from_bits<T>(sim_warp_meet(SIM_SHUFFLE, site, mask, sim_bits(value), source));
}
template <class T>
inline T sim_shfl_xor(uint32_t site, unsigned int mask, T value, unsigned int flip, unsigned int width = 32) {
  const unsigned int lane = sim_lane(), end = (lane & ~(width - 1)) + width;
  const unsigned int source = (lane ^ flip) >= end ? lane : lane ^ flip;
  return sim_from_bits<T>(sim_warp_meet(SIM_SHUFFLE, site, mask, sim_bits(value), source));
}
inline unsigned int sim_ballot(uint32_t site, unsigned int mask, int predicate) {
  return (unsigned int)sim_warp_meet(SIM_BALLOT, site, mask, predicate != 0, 0);
}
struct SimSyncWarp {
  uint32_t site;
  void operator()(unsigned int mask = 0xffffffffu) const { sim_warp_meet(SIM_SYNC, site, mask, 0, 0); }
};

#define __syncthreads() sim_block_barrier(__LINE__)
#define __syncwarp(...) SimSyncWarp{__LINE__}(__VA_ARGS__)
#define __shfl_sync(...) sim_shfl(__LINE__, __VA_ARGS__)
#define __shfl_up_sync(...) sim_shfl_up(__LINE__, __VA_ARGS__)
#define __shfl_down_sync(...) sim_shfl_down(__LINE__, __VA_ARGS__)
#define __shfl_xor_sync(...) sim_shfl_xor(__LINE__, __VA_ARGS__)
#define __ballot_sync(mask, predicate) sim_ballot(__LINE__, mask, predicate)
#define __any_sync(mask, predicate) (sim_ballot(__LINE__, mask, predicate) != 0)
#define __all_sync(mask, predicate) (sim_ballot(__LINE__, mask, !(predicate)) == 0)
#define __match_any_sync(mask, value) \
  ((unsigned int)sim_warp_meet(SIM_MATCH, __LINE__, mask, sim_bits(value), 0))
#define __reduce_add_sync(mask, value) ((unsigned int)sim_warp_meet(SIM_REDUCE_ADD, __LINE__, mask, value, 0))
#define __reduce_min_sync(mask, value) ((unsigned int)sim_warp_meet(SIM_REDUCE_MIN, __LINE__, mask, value, 0))
#define __reduce_max_sync(mask, value) ((unsigned int)sim_warp_meet(SIM_REDUCE_MAX, __LINE__, mask, value, 0))
#define __reduce_and_sync(mask, value) ((unsigned int)sim_warp_meet(SIM_REDUCE_AND, __LINE__, mask, value, 0))
#define __reduce_or_sync(mask, value) ((unsigned int)sim_warp_meet(SIM_REDUCE_OR, __LINE__, mask, value, 0))
#define __reduce_xor_sync(mask, value) ((unsigned int)sim_warp_meet(SIM_REDUCE_XOR, __LINE__, mask, value, 0))
