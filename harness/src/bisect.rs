//! Which part of a proof a device gets wrong: each is computed by itself, and beside it by arkworks.
//!
//! A proof is three points, and an error anywhere before them makes it one that nobody accepts. The parts here are what
//! goes into them: the transforms of the quotient, and the five products. Where all are equal and the proof is wrong all
//! the same, what is left is the rows of the constraints, and the order that the proof's own schedule keeps.

use crate::circuits::Problem;
use crate::oracle::{arkworks_domain, msm_by_arkworks};
use ark_bls12_381::{Fr, G1Affine, G1Projective, G2Projective};
use ark_ff::{AdditiveGroup, FftField, Field};
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use gpu_core::Device;
use groth16::{Csr, Product, ProveError};
use msm_gpu::msm;
use ntt_gpu::{Domain, Natural, NttDomain, Shift};
use serde::Serialize;

/// A part of a proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Which: a product by its word, or `transforms`.
    pub name: &'static str,
    /// Whether the device's is arkworks'.
    pub is_equal: bool,
}

/// Computes each part of a problem's proof on a device by itself, and compares it with arkworks'.
///
/// # Errors
/// [`ProveError`], where the device computes nothing.
pub fn bisect(device: &Device, problem: &Problem) -> Result<Vec<Part>, ProveError> {
    let (key, z) = (&problem.key, &problem.assignment[..]);
    let inputs = problem.r1cs.input_count();
    let h = quotient(problem);
    let g1 = |product: Product, bases: &[G1Affine], scalars: &[Fr]| -> Result<Part, ProveError> {
        let found = msm::<G1Projective>(device, bases, scalars)?;
        let is_equal = found == msm_by_arkworks::<G1Projective>(bases, scalars);
        Ok(Part { name: product.word(), is_equal })
    };
    let b_g2 = msm::<G2Projective>(device, &key.b_g2_query, z)?;
    let b_g2_is_equal = b_g2 == msm_by_arkworks::<G2Projective>(&key.b_g2_query, z);
    // Some setups keep a base for the top coefficient, which is zero.
    let top = key.h_query.len().min(h.len() - 1);
    Ok(vec![
        Part { name: "transforms", is_equal: transforms_are_equal(device, &h)? },
        g1(Product::A, &key.a_query, z)?,
        g1(Product::BG1, &key.b_g1_query, z)?,
        Part { name: Product::BG2.word(), is_equal: b_g2_is_equal },
        g1(Product::L, &key.l_query, &z[inputs..])?,
        g1(Product::H, &key.h_query[..top], &h[..top])?,
    ])
}

/// Coefficients of h = (a b - c) / Z by arkworks' transforms, as many as the domain has elements; the top one is zero.
fn quotient(problem: &Problem) -> Vec<Fr> {
    let (r1cs, z) = (&problem.r1cs, &problem.assignment);
    let (rows, inputs, log_n) = (r1cs.constraint_count(), r1cs.input_count(), r1cs.log_n());
    let omega = Radix2EvaluationDomain::<Fr>::new(1 << log_n).expect("a circuit has a domain").group_gen();
    let plain = arkworks_domain(log_n, omega, Fr::ONE);
    let coset = arkworks_domain(log_n, omega, Fr::GENERATOR);
    let on_coset = |matrix: &Csr, inputs: &[Fr]| {
        let row = |row| matrix.row(row).map(|(variable, value)| value * z[variable]).sum::<Fr>();
        let mut values: Vec<Fr> = (0..rows).map(row).chain(inputs.iter().copied()).collect();
        values.resize(1 << log_n, Fr::ZERO);
        coset.fft(&plain.ifft(&values))
    };
    // Each input has a row of its own in A.
    let (a, b, c) = (on_coset(r1cs.a(), &z[..inputs]), on_coset(r1cs.b(), &[]), on_coset(r1cs.c(), &[]));
    let vanishing = Fr::GENERATOR.pow([1 << log_n]) - Fr::ONE;
    let inverse = vanishing.inverse().expect("the coset lies outside of the domain");
    let values: Vec<Fr> = a.iter().zip(&b).zip(&c).map(|((a, b), c)| (*a * b - c) * inverse).collect();
    coset.ifft(&values)
}

/// Each transform of a proof, of the same values: to coefficients, to a coset, and back from it.
fn transforms_are_equal(device: &Device, values: &[Fr]) -> Result<bool, ProveError> {
    let log_n = values.len().trailing_zeros();
    let domain = Domain::arkworks(log_n)?;
    let ntt = NttDomain::new(device, domain)?;
    let shift = Shift::generator();
    let plain = arkworks_domain(log_n, domain.omega(), Fr::ONE);
    let coset = arkworks_domain(log_n, domain.omega(), Fr::GENERATOR);
    let upload = || ntt.upload::<Natural>(values);
    let natural = |poly| Ok::<_, ProveError>(ntt.reorder(poly)?.to_vec()?);
    let to_coefficients = natural(ntt.inverse(upload()?)?)?;
    let to_coset = natural(ntt.coset_forward(shift, upload()?)?)?;
    let from_coset = natural(ntt.coset_inverse(shift, upload()?)?)?;
    Ok(to_coefficients == plain.ifft(values)
        && to_coset == coset.fft(values)
        && from_coset == coset.ifft(values))
}
