//! Groth16 with a known trapdoor: the device's proof, arkworks' proof and the file's have the same bytes.

use crate::files::{File, Test, place};
use crate::numbers::{bytes, elements, integer};
use crate::support::devices;
use ark_bls12_381::{Bls12_381, Fr, G1Affine, G1Projective, G2Affine, G2Projective};
use ark_ec::{CurveGroup, PrimeGroup};
use ark_ff::PrimeField;
use ark_groth16::{Groth16, ProvingKey, VerifyingKey};
use ark_serialize::CanonicalDeserialize;
use gpu_core::Device;
use groth16::{Csr, Proof, ProveError, Prover, R1cs};
use harness::prove::{proof_bytes, zkcrypto_accepts};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A row of terms: variable and coefficient.
type Rows = Vec<Vec<(usize, String)>>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Circuit {
    name: String,
    input_count: usize,
    variable_count: usize,
    log_n: u32,
    a: Rows,
    b: Rows,
    c: Rows,
    trapdoor: Trapdoor,
    key_logs: KeyLogs,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Trapdoor {
    tau: String,
    alpha: String,
    beta: String,
    gamma: String,
    delta: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyLogs {
    gamma_abc_g1: Vec<String>,
    a_query: Vec<String>,
    b_query: Vec<String>,
    h_query: Vec<String>,
    l_query: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
enum Input {
    Prove { circuit: String, assignment: Vec<String>, r: String, s: String },
    Verify { circuit: String, inputs: Vec<String>, proof: String },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Output {
    logs: ProofLogs,
    proof: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProofLogs {
    a: String,
    b: String,
    c: String,
}

type Case = Test<Input, Output>;

fn number(digits: &str) -> Fr {
    Fr::from_bigint(integer(digits)).expect("below r")
}

fn g1(log: &str) -> G1Affine {
    (G1Projective::generator() * number(log)).into_affine()
}

fn g2(log: &str) -> G2Affine {
    (G2Projective::generator() * number(log)).into_affine()
}

impl Circuit {
    fn r1cs(&self) -> R1cs {
        let csr = |rows: &Rows| {
            let term = |(variable, value): &(usize, String)| (number(value), *variable);
            let rows: Vec<Vec<_>> = rows.iter().map(|terms| terms.iter().map(term).collect()).collect();
            Csr::from_rows(&rows, self.variable_count).expect("well formed")
        };
        let (a, b, c) = (csr(&self.a), csr(&self.b), csr(&self.c));
        let r1cs = R1cs::new(a, b, c, self.input_count, self.variable_count).expect("well formed");
        assert_eq!(r1cs.log_n(), self.log_n, "{}: size of the domain", self.name);
        r1cs
    }

    fn key(&self) -> ProvingKey<Bls12_381> {
        let (logs, trapdoor) = (&self.key_logs, &self.trapdoor);
        // Whoever has tau can forge: it is written for who computes the vectors again.
        assert_ne!(number(&trapdoor.tau), Fr::from(0u64));
        let all = |logs: &[String]| logs.iter().map(|log| g1(log)).collect::<Vec<_>>();
        ProvingKey {
            vk: VerifyingKey {
                alpha_g1: g1(&trapdoor.alpha),
                beta_g2: g2(&trapdoor.beta),
                gamma_g2: g2(&trapdoor.gamma),
                delta_g2: g2(&trapdoor.delta),
                gamma_abc_g1: all(&logs.gamma_abc_g1),
            },
            beta_g1: g1(&trapdoor.beta),
            delta_g1: g1(&trapdoor.delta),
            a_query: all(&logs.a_query),
            b_g1_query: all(&logs.b_query),
            b_g2_query: logs.b_query.iter().map(|log| g2(log)).collect(),
            h_query: all(&logs.h_query),
            l_query: all(&logs.l_query),
        }
    }
}

/// A circuit, ready to prove with.
struct Ready {
    r1cs: R1cs,
    key: ProvingKey<Bls12_381>,
}

/// Runs a file.
pub fn run(text: &str) {
    let file = File::<Input, Output>::read(text);
    let circuits: Vec<Circuit> = file.circuits();
    let ready: BTreeMap<&str, Ready> = circuits
        .iter()
        .map(|circuit| (circuit.name.as_str(), Ready { r1cs: circuit.r1cs(), key: circuit.key() }))
        .collect();
    assert_eq!(ready.len(), circuits.len(), "each circuit has its own name");
    let mut tally = file.tally("arkworks and zkcrypto");
    for test in &file.tests {
        by_others(&ready, test);
        tally.mark(test);
    }
    tally.finish();
    for device in devices() {
        let prover = |ready: &Ready| Prover::new(&device, &ready.key, &ready.r1cs).expect("a prover");
        let provers: BTreeMap<&str, Prover> =
            ready.iter().map(|(name, ready)| (*name, prover(ready))).collect();
        let mut tally = file.tally(&device.info().id);
        for test in &file.tests {
            on_device(&device, &provers, test);
            tally.mark(test);
        }
        tally.finish();
    }
}

fn on_device(device: &Device, provers: &BTreeMap<&str, Prover>, test: &Case) {
    let place = place(test, &device.info().id);
    let outcome = match &test.input {
        Input::Prove { circuit, assignment, r, s } => {
            let prover = &provers[circuit.as_str()];
            let proof = prover.prove_with(&elements::<Fr>(assignment), number(r), number(s));
            proof.map(|proof| assert_eq!(proof_bytes(&proof), bytes(&test.output().proof), "{place}"))
        }
        Input::Verify { circuit, inputs, proof } => {
            let proof = Proof::deserialize_compressed(&bytes(proof)[..]).expect("points of the groups");
            provers[circuit.as_str()].verify(&elements::<Fr>(inputs), &proof)
        }
    };
    let (error, index) = match outcome {
        Ok(()) => return assert!(test.is_valid(), "{place}: it is to be refused"),
        Err(ProveError::Unsatisfied { constraint }) => ("unsatisfied", Some(constraint)),
        Err(ProveError::LengthMismatch { .. }) => ("length_mismatch", None),
        Err(ProveError::FirstNotOne) => ("first_not_one", None),
        Err(ProveError::Invalid) => ("invalid_proof", None),
        Err(other) => panic!("{place}: {other}"),
    };
    assert!(!test.is_valid(), "{place}: {error}");
    assert_eq!((error, index), test.refusal(), "{place}");
}

/// arkworks' prover, and zkcrypto's verifier.
fn by_others(ready: &BTreeMap<&str, Ready>, test: &Case) {
    let place = place(test, "the host");
    match &test.input {
        Input::Prove { circuit, assignment, r, s } if test.is_valid() => {
            let Ready { r1cs, key } = &ready[circuit.as_str()];
            let (assignment, output) = (elements::<Fr>(assignment), test.output());
            assert_eq!(r1cs.first_failing(&assignment), None, "{place}");
            let proof = Groth16::<Bls12_381>::create_proof_with_reduction_and_matrices(
                key,
                number(r),
                number(s),
                &r1cs.to_matrices(),
                r1cs.input_count(),
                r1cs.constraint_count(),
                &assignment,
            );
            let expected = bytes(&output.proof);
            assert_eq!(proof_bytes(&proof.expect("a proof")), expected, "{place}: arkworks");
            let by_logs = Proof { a: g1(&output.logs.a), b: g2(&output.logs.b), c: g1(&output.logs.c) };
            assert_eq!(proof_bytes(&by_logs), expected, "{place}: its logs");
            let inputs = &assignment[1..r1cs.input_count()];
            assert!(zkcrypto_accepts(&key.vk, inputs, &expected), "{place}: zkcrypto");
        }
        Input::Prove { .. } => {}
        Input::Verify { circuit, inputs, proof } => {
            let accepts =
                zkcrypto_accepts(&ready[circuit.as_str()].key.vk, &elements::<Fr>(inputs), &bytes(proof));
            assert_eq!(accepts, test.is_valid(), "{place}: zkcrypto");
        }
    }
}
