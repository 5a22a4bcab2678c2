//! What proofs under keys of snarkjs are judged by: the same proof in arkworks' arithmetic, with snarkjs' own way from
//! constraints to polynomials. Nothing of the prover's is used but the parts of the key, as the reader gives them.

use super::{arkworks_domain, msm_by_arkworks};
use ark_bls12_381::{Bls12_381, Fr, G1Projective, G2Projective};
use ark_ec::CurveGroup;
use ark_ff::{AdditiveGroup, FftField, Field, PrimeField};
use ark_groth16::Proof;
use ark_poly::EvaluationDomain;
use groth16::{Csr, Zkey};

/// snarkjs' root of unity of order 2^log_n: powers of 5, the smallest non-residue, where arkworks has powers of 7.
///
/// # Panics
/// If `log_n` is above 32.
pub fn snarkjs_root(log_n: u32) -> Fr {
    assert!(log_n <= Fr::TWO_ADICITY);
    let root = Fr::from(5).pow(Fr::TRACE);
    (log_n..Fr::TWO_ADICITY).fold(root, |root, _| root.square())
}

/// Values of A B - C at the odd powers of the root of order 2n, where C = A B on the domain.
fn quotient_values(zkey: &Zkey, assignment: &[Fr]) -> Vec<Fr> {
    let shape = zkey.shape();
    let n = 1 << shape.log_n;
    let rows = |matrix: &Csr| -> Vec<Fr> {
        let at = |row| matrix.row(row).map(|(variable, value)| value * assignment[variable]).sum();
        let mut values: Vec<Fr> = (0..matrix.row_count()).map(at).collect();
        values.resize(n, Fr::ZERO);
        values
    };
    let (mut a, b) = (rows(zkey.a()), rows(zkey.b()));
    let inputs = &assignment[..shape.input_count as usize];
    a[zkey.a().row_count()..][..inputs.len()].copy_from_slice(inputs);
    let c = a.iter().zip(&b).map(|(a, b)| *a * b).collect();
    let domain = arkworks_domain(shape.log_n, snarkjs_root(shape.log_n), Fr::ONE);
    let odd = domain.get_coset(snarkjs_root(shape.log_n + 1)).expect("the shift has an inverse");
    let [a, b, c] = [a, b, c].map(|values| odd.fft(&domain.ifft(&values)));
    (0..n).map(|i| a[i] * b[i] - c[i]).collect()
}

/// The proof for given blinding numbers.
///
/// # Panics
/// If the assignment does not have a value for each variable.
pub fn proof_by_snarkjs_rules(zkey: &Zkey, assignment: &[Fr], r: Fr, s: Fr) -> Proof<Bls12_381> {
    let inputs = zkey.shape().input_count as usize;
    let vk = zkey.verifying_key();
    let delta_g1 = *zkey.delta_g1();
    let a = msm_by_arkworks::<G1Projective>(zkey.a_query(), assignment) + vk.alpha_g1 + delta_g1 * r;
    let b = msm_by_arkworks::<G2Projective>(zkey.b_g2_query(), assignment) + vk.beta_g2 + vk.delta_g2 * s;
    let b_g1 = msm_by_arkworks::<G1Projective>(zkey.b_g1_query(), assignment) + zkey.beta_g1() + delta_g1 * s;
    let l = msm_by_arkworks::<G1Projective>(zkey.l_query(), &assignment[inputs..]);
    let h = msm_by_arkworks::<G1Projective>(zkey.h_query(), &quotient_values(zkey, assignment));
    let c = a * s + b_g1 * r - delta_g1 * (r * s) + l + h;
    Proof { a: a.into_affine(), b: b.into_affine(), c: c.into_affine() }
}
