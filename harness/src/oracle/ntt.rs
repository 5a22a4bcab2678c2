//! What transforms are judged by: sums of ten lines, and arkworks with any root. Natural order throughout.

use ark_bls12_381::Fr;
use ark_ff::{AdditiveGroup, Field};
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};

/// The slow twin: a polynomial at `shift * omega^k` for each k, by Horner's rule.
pub fn values_by_horner(coeffs: &[Fr], omega: Fr, shift: Fr) -> Vec<Fr> {
    let points = std::iter::successors(Some(shift), |point| Some(*point * omega));
    let value = |point: Fr| coeffs.iter().rfold(Fr::ZERO, |sum, coeff| sum * point + coeff);
    points.take(coeffs.len()).map(value).collect()
}

/// The slow twin of the inverse: coefficient i is `shift^-i / n * sum of values[k] * omega^(-i*k)`.
///
/// # Panics
/// If omega or the shift is zero, or there are no values.
pub fn coeffs_by_sums(values: &[Fr], omega: Fr, shift: Fr) -> Vec<Fr> {
    let inverse = |element: Fr| element.inverse().expect("not zero");
    let sums = values_by_horner(values, inverse(omega), Fr::ONE);
    let scales = std::iter::successors(Some(inverse(Fr::from(values.len() as u64))), |scale| {
        Some(*scale * inverse(shift))
    });
    sums.into_iter().zip(scales).map(|(sum, scale)| sum * scale).collect()
}

/// arkworks' domain with any root and shift; its own constructor knows one root alone.
///
/// # Panics
/// If omega or the shift is zero.
pub fn arkworks_domain(log_n: u32, omega: Fr, shift: Fr) -> Radix2EvaluationDomain<Fr> {
    let inverse = |element: Fr| element.inverse().expect("not zero");
    let size = Fr::from(1u64 << log_n);
    let plain = Radix2EvaluationDomain {
        size: 1 << log_n,
        log_size_of_group: log_n,
        size_as_field_element: size,
        size_inv: inverse(size),
        group_gen: omega,
        group_gen_inv: inverse(omega),
        offset: Fr::ONE,
        offset_inv: Fr::ONE,
        offset_pow_size: Fr::ONE,
    };
    plain.get_coset(shift).expect("the shift has an inverse")
}

/// Values in the other order: value i goes to the position whose bits are those of i reversed.
///
/// # Panics
/// If their number is not a power of two.
pub fn bit_reversed(values: &[Fr]) -> Vec<Fr> {
    assert!(values.len().is_power_of_two());
    let unused_bits = usize::BITS - values.len().ilog2();
    // Shifting out all bits of a one-value vector's index would overflow: there is nothing to permute.
    let source = |i: usize| i.reverse_bits().checked_shr(unused_bits).unwrap_or(0);
    (0..values.len()).map(|i| values[source(i)]).collect()
}
