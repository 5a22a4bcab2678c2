// SPDX-License-Identifier: MIT OR Apache-2.0
// 32-bit arithmetic with the carry flag: single instructions, and chains of them.
//
// A chain lives across calls: `_cc` sets the flag, the `c` after the verb reads it. Additions and
// subtractions do not mix in one chain: the PTX manual calls the flag of a subtraction a borrow, but the
// hardware keeps its complement (sm_90: add.cc and then subc computes a - b - 1 + carry). Nothing may come
// between the calls of a chain that touches the flag; only these functions do, and `volatile` keeps their
// order.
//
// Long chains are asm blocks of several instructions: as single ones they would be right too, but a kernel
// has tens of thousands, and the compiler's time grows with the number of blocks.
//
// Beside each stands its twin for the simulated device, so that an algorithm written on these functions is
// run and tested where there is no GPU.
#pragma once
#include "base.cuh"

namespace ptx {

#ifndef __CUDA_ARCH__
inline thread_local u32 carry_flag;

// The low word of a sum of at most 33 bits; bit 32 becomes the flag.
inline u32 set_carry(u64 sum) {
  carry_flag = (u32)(sum >> 32);
  return (u32)sum;
}
#endif

// a + b, sets the carry
DEV u32 add_cc(u32 a, u32 b) {
#ifdef __CUDA_ARCH__
  u32 r;
  asm volatile("add.cc.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
#else
  return set_carry((u64)a + b);
#endif
}

// a + b + carry, sets the carry
DEV u32 addc_cc(u32 a, u32 b) {
#ifdef __CUDA_ARCH__
  u32 r;
  asm volatile("addc.cc.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
#else
  return set_carry((u64)a + b + carry_flag);
#endif
}

// a + b + carry
DEV u32 addc(u32 a, u32 b) {
#ifdef __CUDA_ARCH__
  u32 r;
  asm volatile("addc.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
#else
  return a + b + carry_flag;
#endif
}

// a - b, sets the borrow
DEV u32 sub_cc(u32 a, u32 b) {
#ifdef __CUDA_ARCH__
  u32 r;
  asm volatile("sub.cc.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
#else
  return set_carry((u64)a + (u32)~b + 1);
#endif
}

// a - b - borrow
DEV u32 subc(u32 a, u32 b) {
#ifdef __CUDA_ARCH__
  u32 r;
  asm volatile("subc.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
#else
  return a + ~b + carry_flag;
#endif
}

#define MAD_BLOCK_1(FIRST, LAST)                                       \
  asm volatile(FIRST ".u32 %0, %2, %3, %0;\n\t" LAST ".u32 %1, %2, %3, %1;" \
               : "+r"(acc[0]), "+r"(acc[1])                            \
               : "r"(a[0]), "r"(b))

#define MAD_BLOCK_2(FIRST, LAST)                                                        \
  asm volatile(FIRST ".u32 %0, %4, %6, %0;\n\tmadc.hi.cc.u32 %1, %4, %6, %1;\n\t"        \
               "madc.lo.cc.u32 %2, %5, %6, %2;\n\t" LAST ".u32 %3, %5, %6, %3;"         \
               : "+r"(acc[0]), "+r"(acc[1]), "+r"(acc[2]), "+r"(acc[3])                 \
               : "r"(a[0]), "r"(a[2]), "r"(b))

#define MAD_BLOCK_3(FIRST, LAST)                                                                         \
  asm volatile(FIRST ".u32 %0, %6, %9, %0;\n\tmadc.hi.cc.u32 %1, %6, %9, %1;\n\t"                         \
               "madc.lo.cc.u32 %2, %7, %9, %2;\n\tmadc.hi.cc.u32 %3, %7, %9, %3;\n\t"                     \
               "madc.lo.cc.u32 %4, %8, %9, %4;\n\t" LAST ".u32 %5, %8, %9, %5;"                          \
               : "+r"(acc[0]), "+r"(acc[1]), "+r"(acc[2]), "+r"(acc[3]), "+r"(acc[4]), "+r"(acc[5])      \
               : "r"(a[0]), "r"(a[2]), "r"(a[4]), "r"(b))

#define MAD_BLOCK(BLOCK)                            \
  if constexpr (!CARRY_IN && CARRY_OUT) {           \
    BLOCK("mad.lo.cc", "madc.hi.cc");               \
  } else if constexpr (!CARRY_IN) {                 \
    BLOCK("mad.lo.cc", "madc.hi");                  \
  } else if constexpr (CARRY_OUT) {                 \
    BLOCK("madc.lo.cc", "madc.hi.cc");              \
  } else {                                          \
    BLOCK("madc.lo.cc", "madc.hi");                 \
  }

// acc[0 .. 2*PAIRS] += sum over k < PAIRS of a[2k] * b * 2^(64 k), + carry if CARRY_IN; sets the carry if
// CARRY_OUT, else the sum fits. Each pair becomes one IMAD.WIDE.U32.X.
template <int PAIRS, bool CARRY_IN, bool CARRY_OUT>
DEV void mad_chain(u32* acc, const u32* a, u32 b) {
#ifdef __CUDA_ARCH__
  if constexpr (PAIRS > 3) {
    mad_chain<3, CARRY_IN, true>(acc, a, b);
    mad_chain<PAIRS - 3, true, CARRY_OUT>(acc + 6, a + 6, b);
  } else if constexpr (PAIRS == 3) {
    MAD_BLOCK(MAD_BLOCK_3)
  } else if constexpr (PAIRS == 2) {
    MAD_BLOCK(MAD_BLOCK_2)
  } else {
    static_assert(PAIRS == 1, "a chain has links");
    MAD_BLOCK(MAD_BLOCK_1)
  }
#else
  if (!CARRY_IN) carry_flag = 0;
  for (int k = 0; k < PAIRS; k++) {
    const u64 product = (u64)a[2 * k] * b;
    acc[2 * k] = addc_cc(acc[2 * k], (u32)product);
    acc[2 * k + 1] = addc_cc(acc[2 * k + 1], (u32)(product >> 32));
  }
#endif
}

#undef MAD_BLOCK_1
#undef MAD_BLOCK_2
#undef MAD_BLOCK_3
#undef MAD_BLOCK

#define ADD_BLOCK(FIRST, NEXT)                                                     \
  asm volatile(FIRST ".u32 %0, %0, %4;\n\t" NEXT ".u32 %1, %1, %5;\n\t"            \
               NEXT ".u32 %2, %2, %6;\n\t" NEXT ".u32 %3, %3, %7;"                 \
               : "+r"(acc[0]), "+r"(acc[1]), "+r"(acc[2]), "+r"(acc[3])            \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]))

// acc += a over N words, a multiple of four; + carry if CARRY_IN. Sets the carry.
template <int N, bool CARRY_IN = false>
DEV void add_chain(u32* acc, const u32* a) {
  static_assert(N % 4 == 0, "blocks of four words");
#ifdef __CUDA_ARCH__
  if constexpr (CARRY_IN) {
    ADD_BLOCK("addc.cc", "addc.cc");
  } else {
    ADD_BLOCK("add.cc", "addc.cc");
  }
  if constexpr (N > 4) add_chain<N - 4, true>(acc + 4, a + 4);
#else
  if (!CARRY_IN) carry_flag = 0;
  for (int i = 0; i < N; i++) acc[i] = addc_cc(acc[i], a[i]);
#endif
}

// acc -= a over N words, a multiple of four; - borrow if BORROW_IN. Sets the borrow.
template <int N, bool BORROW_IN = false>
DEV void sub_chain(u32* acc, const u32* a) {
  static_assert(N % 4 == 0, "blocks of four words");
#ifdef __CUDA_ARCH__
  if constexpr (BORROW_IN) {
    ADD_BLOCK("subc.cc", "subc.cc");
  } else {
    ADD_BLOCK("sub.cc", "subc.cc");
  }
  if constexpr (N > 4) sub_chain<N - 4, true>(acc + 4, a + 4);
#else
  if (!BORROW_IN) carry_flag = 1;   // no borrow
  for (int i = 0; i < N; i++) acc[i] = set_carry((u64)acc[i] + (u32)~a[i] + carry_flag);
#endif
}

#undef ADD_BLOCK

}  // namespace ptx
