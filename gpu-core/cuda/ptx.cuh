// SPDX-License-Identifier: MIT OR Apache-2.0
// One function, one instruction: 32-bit arithmetic with the carry flag.
//
// A chain lives across calls: `_cc` sets the flag, the `c` after the verb reads it. Additions and subtractions do not
// mix in one chain: the PTX manual calls the flag of a subtraction a borrow, but the hardware keeps its complement
// (sm_90: add.cc and then subc computes a - b - 1 + carry). Nothing may come between the calls of a chain that touches
// the flag; only these functions do, and `volatile` keeps their order. A neighbouring mad_lo_cc / mad_hi_cc of the same factors becomes one IMAD.WIDE.U32.X.
//
// Beside each instruction stands its twin for the simulated device, so that an algorithm written on these functions
// is run and tested where there is no GPU.
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

// a - b - borrow, sets the borrow
DEV u32 subc_cc(u32 a, u32 b) {
#ifdef __CUDA_ARCH__
  u32 r;
  asm volatile("subc.cc.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
#else
  return set_carry((u64)a + (u32)~b + carry_flag);
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

// low half of a * b
DEV u32 mul_lo(u32 a, u32 b) { return a * b; }

// high half of a * b
DEV u32 mul_hi(u32 a, u32 b) {
#ifdef __CUDA_ARCH__
  return __umulhi(a, b);
#else
  return (u32)((u64)a * b >> 32);
#endif
}

// low half of a * b, + c, sets the carry
DEV u32 mad_lo_cc(u32 a, u32 b, u32 c) {
#ifdef __CUDA_ARCH__
  u32 r;
  asm volatile("mad.lo.cc.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
#else
  return set_carry((u64)mul_lo(a, b) + c);
#endif
}

// low half of a * b, + c + carry, sets the carry
DEV u32 madc_lo_cc(u32 a, u32 b, u32 c) {
#ifdef __CUDA_ARCH__
  u32 r;
  asm volatile("madc.lo.cc.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
#else
  return set_carry((u64)mul_lo(a, b) + c + carry_flag);
#endif
}

// high half of a * b, + c + carry, sets the carry
DEV u32 madc_hi_cc(u32 a, u32 b, u32 c) {
#ifdef __CUDA_ARCH__
  u32 r;
  asm volatile("madc.hi.cc.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
#else
  return set_carry((u64)mul_hi(a, b) + c + carry_flag);
#endif
}

// high half of a * b, + c + carry
DEV u32 madc_hi(u32 a, u32 b, u32 c) {
#ifdef __CUDA_ARCH__
  u32 r;
  asm volatile("madc.hi.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
#else
  return mul_hi(a, b) + c + carry_flag;
#endif
}

}  // namespace ptx
