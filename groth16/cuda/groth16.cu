// What a proof computes in Fr beside its transforms: the rows of the R1CS at a witness, whether they hold, and the
// quotient's values on a coset. A key without C has its rows multiplied in place of the check.
//
// A, B and C are one sparse matrix in compressed rows, one below the other: row k of matrix m is row m * constraint_count
// + k. Their values lie in one array of three jobs of n = 2^log_n, as the transforms take them.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base.cuh"
#include "fr.cuh"

typedef Fr<1> Value;

#define THREADS 256
#define ALONE_MAX 32u   // terms of a row that one thread adds up by itself

// A term of a row: coefficient * z[column].
DEV Value term_value(u32 term, const u32* columns, const u32* factors, const Value* coefficients, const Value* z) {
  return canonical(mul(load_field(&coefficients[factors[term]]), load_field(&z[columns[term]])));
}

// The sum of all lanes' values, in every lane.
DEV Value warp_sum(Value sum) {
  for (u32 distance = WARP_LANES / 2; distance > 0; distance /= 2) {
    Value other;
#pragma unroll
    for (int k = 0; k < FrModulus::WORDS; k++) {
      other.limb[k] = __shfl_xor_sync(WARP_ALL, sum.limb[k], distance);
    }
    sum = add(sum, other);
  }
  return sum;
}

// groth16_eval_rows: rows of A, B and C at an assignment, one thread per row and matrix (blockIdx.y).
//   in   row_offsets  u32[3 * constraint_count + 1]  where the terms of each row start
//        columns      u32[term_count]                variable of each term, < variable_count
//        factors      u32[term_count]                where its coefficient lies among the coefficients
//        coefficients Value[coefficient_count]       Montgomery, each once
//        z            Value[variable_count]          Montgomery; z[0 .. input_count] are the inputs, z[0] = 1
//   out  values       Value[gridDim.y][n]            Montgomery
//   pre  constraint_count + input_count <= n
//   law  values[m][k] = sum of coefficient * z[column] over the terms of row k of matrix m, for k < constraint_count;
//        values[0][constraint_count + i] = z[i] for i < input_count (it keeps the inputs' polynomials independent);
//        all others are 0. A grid of two rows of blocks leaves C out
//   cost per term: 8 B of indices, 64 B gathered mostly from cache, one product; bound by memory latency. Circuits have
//        a few rows of hundreds of terms: what a thread leaves of its row, its warp adds up together
//   ref  [Gro16 sec 3.1], the inputs' rows [BCTV14 sec E.1]
extern "C" __global__ void __launch_bounds__(THREADS)
groth16_eval_rows(Value* __restrict__ values, const u32* __restrict__ row_offsets, const u32* __restrict__ columns,
                  const u32* __restrict__ factors, const Value* __restrict__ coefficients,
                  const Value* __restrict__ z, u32 n, u32 constraint_count, u32 input_count) {
  const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
  const u32 lane = threadIdx.x % WARP_LANES;
  const u32 matrix = blockIdx.y;
  const bool is_constraint = row < constraint_count;
  const u64 stacked = (u64)matrix * constraint_count + row;
  u32 term = is_constraint ? row_offsets[stacked] : 0;
  const u32 end = is_constraint ? row_offsets[stacked + 1] : 0;
  const u32 alone_end = min(end, term + ALONE_MAX);
  Value sum = Value::zero();
  for (; term < alone_end; term++) sum = add(sum, term_value(term, columns, factors, coefficients, z));
  for (u32 long_rows = __ballot_sync(WARP_ALL, term < end); long_rows != 0;) {
    const u32 owner = 31 - __clz(long_rows);
    long_rows ^= 1u << owner;
    const u32 first = __shfl_sync(WARP_ALL, term, owner);
    const u32 last = __shfl_sync(WARP_ALL, end, owner);
    COVER(groth16_long_row);
    Value part = Value::zero();
    for (u32 t = first + lane; t < last; t += WARP_LANES) {
      part = add(part, term_value(t, columns, factors, coefficients, z));
    }
    part = warp_sum(part);
    if (lane == owner) sum = add(sum, part);
  }
  if (row >= n) return;
  if (matrix == 0 && !is_constraint && row - constraint_count < input_count) {
    sum = load_field(&z[row - constraint_count]);
  }
  store_field(&values[(u64)matrix * n + row], sum);
}
EXPORT_COLLECTIVE(groth16_eval_rows)

// groth16_check_rows: whether each constraint holds, one thread per row.
//   in   values   Value[3][n]  of A, B and C, Montgomery
//   out  failing  u32[1]       0 before the launch
//   law  failing = the largest constraint_count - k with values[0][k] * values[1][k] != values[2][k]; 0 if there is none:
//        the first constraint that does not hold
//   cost per row: 96 B read, one product; bound by memory
extern "C" __global__ void __launch_bounds__(THREADS)
groth16_check_rows(u32* __restrict__ failing, const Value* __restrict__ values, u32 n, u32 constraint_count) {
  const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= constraint_count) return;
  const Value a = load_field(&values[row]);
  const Value b = load_field(&values[(u64)n + row]);
  const Value c = load_field(&values[2 * (u64)n + row]);
  if (!is_zero(sub(canonical(mul(a, b)), c))) atomicMax(failing, constraint_count - row);
}
EXPORT_KERNEL(groth16_check_rows)

// groth16_multiply_rows: products of the rows of A and B, one thread per row: what the rows of C are at an assignment that
// satisfies the constraints, where a key has no C.
//   out  c     Value[n]  Montgomery
//   in   a, b  Value[n]  Montgomery
//   law  c[i] = a[i] * b[i]
//   cost per row: 96 B moved, one product; bound by memory
extern "C" __global__ void __launch_bounds__(THREADS)
groth16_multiply_rows(Value* __restrict__ c, const Value* __restrict__ a, const Value* __restrict__ b, u32 n) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  store_field(&c[i], canonical(mul(load_field(&a[i]), load_field(&b[i]))));
}
EXPORT_KERNEL(groth16_multiply_rows)

// groth16_quotient: values of (a*b - c) / Z on a coset, one thread per value, in place of a's. 1 for 1/Z leaves the quotient
// to the bases of a key that has it in them.
//   io   a                Value[n]  Montgomery
//   in   b, c             Value[n]  Montgomery, in the order of a
//        z_inv0 .. z_inv3           1/Z on the coset, where Z = X^n - 1 is constant: Montgomery, low limb first
//   law  a'[i] = (a[i] * b[i] - c[i]) * z_inv
//   cost per value: 128 B moved, two products; bound by memory
//   ref  [Gro16 sec 3.1]
extern "C" __global__ void __launch_bounds__(THREADS)
groth16_quotient(Value* __restrict__ a, const Value* __restrict__ b, const Value* __restrict__ c, u64 z_inv0,
                 u64 z_inv1, u64 z_inv2, u64 z_inv3, u32 n) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const u64 limbs[4] = {z_inv0, z_inv1, z_inv2, z_inv3};
  Value z_inv;
#pragma unroll
  for (int k = 0; k < FrModulus::WORDS; k++) {
    z_inv.limb[k] = WORD_BITS == 64 ? (word)limbs[k] : (word)(limbs[k / 2] >> (32 * (k % 2)));
  }
  const Value product = canonical(mul(load_field(&a[i]), load_field(&b[i])));
  const Value difference = sub(product, load_field(&c[i]));
  store_field(&a[i], canonical(mul(difference, z_inv)));
}
EXPORT_KERNEL(groth16_quotient)
