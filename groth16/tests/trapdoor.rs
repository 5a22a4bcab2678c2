//! A key whose trapdoor is known turns a whole proof into three scalars that are computed without a transform or a product.

mod common;

use ark_bls12_381::{Bls12_381, Fr, G1Affine, G1Projective, G2Affine, G2Projective};
use ark_ec::{CurveGroup, PrimeGroup};
use ark_ff::{Field, UniformRand};
use ark_groth16::{ProvingKey, VerifyingKey};
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use common::{Circuit, devices, seeded};
use groth16::{Prover, R1cs};

struct Trapdoor {
    tau: Fr,
    alpha: Fr,
    beta: Fr,
    gamma: Fr,
    delta: Fr,
}

/// Polynomials of the variables at tau, from Lagrange's coefficients there.
struct AtTau {
    a: Vec<Fr>,
    b: Vec<Fr>,
    c: Vec<Fr>,
    vanishing: Fr,
}

impl AtTau {
    fn new(r1cs: &R1cs, tau: Fr) -> Self {
        let rows = r1cs.constraint_count() + r1cs.input_count();
        let domain = Radix2EvaluationDomain::<Fr>::new(rows).expect("a domain");
        let lagrange = domain.evaluate_all_lagrange_coefficients(tau);
        let mut columns = [(); 3].map(|()| vec![Fr::from(0); r1cs.variable_count()]);
        for (column, matrix) in columns.iter_mut().zip([r1cs.a(), r1cs.b(), r1cs.c()]) {
            for (row, at_tau) in lagrange[..r1cs.constraint_count()].iter().enumerate() {
                matrix.row(row).for_each(|(variable, value)| column[variable] += value * at_tau);
            }
        }
        let [mut a, b, c] = columns;
        for input in 0..r1cs.input_count() {
            a[input] += lagrange[r1cs.constraint_count() + input];
        }
        Self { a, b, c, vanishing: domain.evaluate_vanishing_polynomial(tau) }
    }

    fn combined(&self, trapdoor: &Trapdoor, variable: usize) -> Fr {
        trapdoor.beta * self.a[variable] + trapdoor.alpha * self.b[variable] + self.c[variable]
    }
}

fn g1(logs: impl IntoIterator<Item = Fr>) -> Vec<G1Affine> {
    logs.into_iter().map(|log| (G1Projective::generator() * log).into_affine()).collect()
}

fn g2(log: Fr) -> G2Affine {
    (G2Projective::generator() * log).into_affine()
}

fn key(r1cs: &R1cs, trapdoor: &Trapdoor, at_tau: &AtTau) -> ProvingKey<Bls12_381> {
    let inverse = |value: Fr| value.inverse().expect("a random number is not zero");
    let (inputs, n) = (r1cs.input_count(), 1u64 << r1cs.log_n());
    let divided = |range: std::ops::Range<usize>, by: Fr| {
        g1(range.map(|variable| at_tau.combined(trapdoor, variable) * inverse(by)))
    };
    let one = |log: Fr| g1([log])[0];
    ProvingKey {
        vk: VerifyingKey {
            alpha_g1: one(trapdoor.alpha),
            beta_g2: g2(trapdoor.beta),
            gamma_g2: g2(trapdoor.gamma),
            delta_g2: g2(trapdoor.delta),
            gamma_abc_g1: divided(0..inputs, trapdoor.gamma),
        },
        beta_g1: one(trapdoor.beta),
        delta_g1: one(trapdoor.delta),
        a_query: g1(at_tau.a.iter().copied()),
        b_g1_query: g1(at_tau.b.iter().copied()),
        b_g2_query: at_tau.b.iter().map(|log| g2(*log)).collect(),
        h_query: g1((0..n - 1).map(|i| trapdoor.tau.pow([i]) * at_tau.vanishing * inverse(trapdoor.delta))),
        l_query: divided(inputs..r1cs.variable_count(), trapdoor.delta),
    }
}

#[test]
fn a_proof_is_three_scalars_to_who_knows_the_trapdoor() {
    let rng = &mut seeded("a_proof_is_three_scalars");
    let circuit = Circuit::random(rng, 90, 4, 70);
    let (r1cs, z) = R1cs::synthesize(circuit).expect("it can be synthesized");
    let [tau, alpha, beta, gamma, delta, r, s] = [(); 7].map(|()| Fr::rand(rng));
    let trapdoor = Trapdoor { tau, alpha, beta, gamma, delta };
    let at_tau = AtTau::new(&r1cs, tau);
    let key = key(&r1cs, &trapdoor, &at_tau);
    let sum = |logs: &[Fr]| logs.iter().zip(&z).map(|(log, value)| *log * value).sum::<Fr>();
    let (a_tau, b_tau, c_tau) = (sum(&at_tau.a), sum(&at_tau.b), sum(&at_tau.c));
    let (a, b) = (alpha + a_tau + r * delta, beta + b_tau + s * delta);
    let private = r1cs.input_count()..r1cs.variable_count();
    let l = private.map(|variable| at_tau.combined(&trapdoor, variable) * z[variable]).sum::<Fr>();
    let h_times_vanishing = a_tau * b_tau - c_tau;
    let delta_inverse = delta.inverse().expect("a random number is not zero");
    let c = s * a + r * b - r * s * delta + (l + h_times_vanishing) * delta_inverse;
    for device in devices() {
        let prover = Prover::new(&device, &key, &r1cs).expect("a prover");
        let proof = prover.prove_with(&z, r, s).expect("a proof");
        let id = &device.info().id;
        assert_eq!(proof.a, g1([a])[0], "{id}");
        assert_eq!(proof.b, g2(b), "{id}");
        assert_eq!(proof.c, g1([c])[0], "{id}");
    }
}
