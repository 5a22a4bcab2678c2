//! Proofs over the keys of Zcash's ceremony: the bytes of two independent provers, and the word of their verifiers.
#![cfg(feature = "sapling-keys")]

use ark_bls12_381::{Bls12_381, Fr};
use ark_ff::{AdditiveGroup, BigInteger, Field, PrimeField, UniformRand};
use ark_groth16::Groth16;
use bls12_381::{Bls12, Scalar};
use gpu_core::{Device, sim::SimOptions};
use groth16::Prover;
use harness::circuits::{CircuitName, Problem, sapling_output};
use harness::oracle::{random_numbers, test_seed};
use harness::prove::{proof_by_arkworks, proof_bytes, zkcrypto_accepts};

fn zk_scalar(value: Fr) -> Scalar {
    let bytes = value.into_bigint().to_bytes_le().try_into().expect("32 bytes");
    Scalar::from_bytes(&bytes).expect("both fields have the same modulus")
}

fn accepts(problem: &Problem, inputs: &[Fr], bytes: &[u8]) -> bool {
    zkcrypto_accepts(&problem.key, inputs, bytes)
}

#[test]
fn output_proofs_are_those_of_zkcrypto_and_arkworks() {
    let seed = test_seed();
    let name = CircuitName::SaplingOutput;
    let problem = Problem::new(name, seed, None).expect("an Output to prove");
    let (_, file) = wagyu_zcash_parameters::load_sapling_parameters();
    let theirs = zk_groth16::Parameters::<Bls12>::read(&file[..], false).expect("Zcash's own file");
    let device = Device::sim(SimOptions::default());
    let prover = Prover::new(&device, &problem.key, &problem.r1cs).expect("a prover");
    let rng = &mut random_numbers(seed, "blinding");
    let (r, s) = (Fr::rand(rng), Fr::rand(rng));
    for (r, s) in [(r, s), (Fr::ZERO, s), (r, Fr::ZERO)] {
        let proof = prover.prove_with(&problem.assignment, r, s).expect("a proof");
        let bytes = proof_bytes(&proof);
        let circuit = sapling_output(&mut random_numbers(seed, &name.to_string()));
        let zkcrypto = zk_groth16::create_proof(circuit, &theirs, zk_scalar(r), zk_scalar(s));
        let mut zkcrypto_bytes = Vec::new();
        zkcrypto.expect("zkcrypto proves").write(&mut zkcrypto_bytes).expect("a vector takes all bytes");
        assert_eq!(bytes, zkcrypto_bytes, "zkcrypto");
        let arkworks = proof_by_arkworks(&problem, r, s).expect("arkworks proves");
        assert_eq!(bytes, proof_bytes(&arkworks), "arkworks");
        assert!(accepts(&problem, problem.inputs(), &bytes));
    }
}

/// Verification is no formality: with one byte of the proof changed, or one input, or their number, nobody accepts it. A
/// proof that arkworks re-randomises is another one, and valid.
#[test]
fn nothing_but_the_proof_verifies() {
    let seed = test_seed();
    let problem = Problem::new(CircuitName::Mimc(7), seed, None).expect("something to prove");
    let prover = Prover::new(&Device::sim(SimOptions::default()), &problem.key, &problem.r1cs);
    let prover = prover.expect("a prover");
    let rng = &mut random_numbers(seed, "verification");
    let proof = prover.prove(&problem.assignment, rng).expect("a proof");
    let (bytes, inputs) = (proof_bytes(&proof), problem.inputs());
    assert!(accepts(&problem, inputs, &bytes));
    for index in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[index] ^= 1;
        assert!(!accepts(&problem, inputs, &changed), "byte {index}");
    }
    // A as (0, 2) and (0, -2): on the curve, and not of the prime order.
    for sign in [0x80, 0xa0] {
        let mut changed = bytes.clone();
        changed[..48].fill(0);
        changed[0] = sign;
        assert!(!accepts(&problem, inputs, &changed), "wrong order, {sign:#x}");
    }
    for index in 0..inputs.len() {
        let mut changed = inputs.to_vec();
        changed[index] += Fr::ONE;
        assert!(!accepts(&problem, &changed, &bytes), "input {index}");
        assert!(prover.verify(&changed, &proof).is_err(), "input {index}");
    }
    for count in [inputs.len() - 1, inputs.len() + 1] {
        let mut other = inputs.to_vec();
        other.resize(count, Fr::ZERO);
        assert!(prover.verify(&other, &proof).is_err(), "{count} inputs");
    }
    let again = Groth16::<Bls12_381>::rerandomize_proof(&problem.key.vk, &proof, rng);
    prover.verify(inputs, &again).expect("it is valid too");
    assert_ne!(proof_bytes(&again), bytes);
}
