//! Proofs over the keys of Zcash's ceremony: the bytes of two independent provers, and the word of their verifiers.
#![cfg(feature = "sapling-keys")]

mod support;

use ark_bls12_381::{Bls12_381, Fr};
use ark_ec::CurveGroup;
use ark_ff::{AdditiveGroup, BigInteger, Field, PrimeField, UniformRand};
use ark_groth16::Groth16;
use ark_serialize::CanonicalDeserialize;
use bls12_381::Scalar;
use gpu_core::{Device, DeviceKind, sim::SimOptions};
use groth16::{Proof, ProveConfig, ProveError, Prover, Trust};
use harness::STRATEGIES;
use harness::circuits::{CircuitName, Problem};
use harness::oracle::{random_numbers, test_seed};
use harness::prove::{
    LoadedKey, ProveOptions, arkworks, blinding, proof_bytes, prove, zkcrypto, zkcrypto_accepts,
};
use msm_gpu::{MsmConfig, Strategy};

fn accepts(problem: &Problem, inputs: &[Fr], bytes: &[u8]) -> bool {
    zkcrypto_accepts(&problem.key.vk, inputs, bytes)
}

/// The same under each strategy, whole and in batches. Spend, whose proof takes a minute here, is
/// `harness prove --circuit sapling-spend --compare --blindings 3 --batches 3 --strategy hard,deferred:2,on-device`.
#[test]
fn output_proofs_are_those_of_zkcrypto_and_arkworks() {
    let seed = test_seed();
    let problem = Problem::new(CircuitName::SaplingOutput, seed, None).expect("an Output to prove");
    let rng = &mut random_numbers(seed, "blinding");
    let (r, s) = (Fr::rand(rng), Fr::rand(rng));
    let blinding = [(r, s), (Fr::ZERO, s), (r, Fr::ZERO)];
    let zkcrypto =
        zkcrypto(&problem, seed, None, &blinding).expect("zkcrypto proves").expect("it is Zcash's");
    let arkworks = arkworks(&problem, &blinding).expect("arkworks proves");
    assert_eq!(zkcrypto.proofs, arkworks.proofs, "they agree");
    for device in support::devices() {
        let loaded = LoadedKey::new(&device, &problem, Trust::Trusted, None).expect("a key");
        for (batches, strategy) in
            [(1, STRATEGIES[0]), (3, STRATEGIES[0]), (3, STRATEGIES[1]), (3, Strategy::OnDevice)]
        {
            let msm = MsmConfig { strategy, ..MsmConfig::batches(batches) };
            let config = ProveConfig { msm, ..ProveConfig::default() };
            let peers = [zkcrypto.clone(), arkworks.clone()];
            let options = ProveOptions { config, runs: 1, blinding: &blinding, peers: &peers };
            let row = prove(&problem, &loaded, &options).expect("proofs");
            assert!(row.is_right() && row.comparisons.len() == 2, "{strategy}, {batches}: {row:?}");
            assert!(row.opinions.iter().all(|opinion| opinion.accepts) && row.opinions.len() == 2);
        }
    }
}

/// Two hundred proofs in one process: one string of bytes, and device memory as it was after the tenth. On a CUDA device
/// of Output, on the simulated one of a small circuit.
#[test]
fn two_hundred_proofs_are_one() {
    let seed = test_seed();
    for device in support::devices() {
        let (name, runs) = match device.info().kind {
            DeviceKind::Cuda => (CircuitName::SaplingOutput, 200),
            DeviceKind::Sim => (CircuitName::Mimc(3), 200),
        };
        let problem = Problem::new(name, seed, None).expect("something to prove");
        let loaded = LoadedKey::new(&device, &problem, Trust::Trusted, None).expect("a key");
        let blinding = blinding(seed, name, 1);
        let options = ProveOptions { config: ProveConfig::default(), runs, blinding: &blinding, peers: &[] };
        let row = prove(&problem, &loaded, &options).expect("proofs");
        assert!(row.runs_agree, "{name} on {}: the runs differ", row.device);
        assert!(row.is_right(), "{name} on {}: {} bytes lost", row.device, row.memory_lost());
    }
}

/// A public input is a number below r, and has no other name: as bytes, x + r is no field element to any reader, and the
/// inputs that are looked at are exactly those that there are.
#[test]
fn b66_an_input_and_the_same_plus_the_order() {
    let seed = test_seed();
    // Values below 2^256 - r have an alias in 32 bytes.
    let problem = Problem::new(CircuitName::Mimc(3), seed, None).expect("something to prove");
    let mut small = [Fr::ONE.into_bigint(), Fr::ZERO.into_bigint(), problem.inputs()[0].into_bigint()];
    small[2].0[3] >>= 3;
    for value in small {
        let mut alias = value;
        assert!(!alias.add_with_carry(&Fr::MODULUS), "it still has 256 bits");
        let (value_bytes, alias_bytes) = (value.to_bytes_le(), alias.to_bytes_le());
        let decoded = Fr::deserialize_compressed(&value_bytes[..]).expect("below r");
        assert_eq!(decoded.into_bigint(), value);
        Fr::deserialize_compressed(&alias_bytes[..]).expect_err("arkworks refuses it");
        assert!(Fr::from_bigint(alias).is_none(), "as does the conversion of integers");
        let by_zkcrypto =
            |bytes: &[u8]| bool::from(Scalar::from_bytes(bytes.try_into().expect("32 bytes")).is_some());
        assert!(by_zkcrypto(&value_bytes) && !by_zkcrypto(&alias_bytes));
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
        // Most bytes are no point any more; what still is one must not verify.
        if let Ok(decoded) = Proof::deserialize_compressed(&changed[..]) {
            assert!(prover.verify(inputs, &decoded).is_err(), "byte {index}");
        }
    }
    // A as (0, 2) and (0, -2): on the curve, and not of the prime order.
    for sign in [0x80, 0xa0] {
        let mut changed = bytes.clone();
        changed[..48].fill(0);
        changed[0] = sign;
        assert!(!accepts(&problem, inputs, &changed), "wrong order, {sign:#x}");
        Proof::deserialize_compressed(&changed[..]).expect_err("nor does arkworks decode it");
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
        let refused = prover.verify(&other, &proof);
        let is_counted =
            matches!(refused, Err(ProveError::LengthMismatch { expected: 1, found }) if found == count);
        assert!(is_counted, "{count} inputs: {refused:?}");
        assert!(!accepts(&problem, &other, &bytes), "{count} inputs");
    }
    // Who knows a proof can make another one of the same statement: (A t, B / t, C).
    let t = Fr::from(5);
    let scaled = Proof {
        a: (proof.a * t).into_affine(),
        b: (proof.b * t.inverse().expect("5 is not 0")).into_affine(),
        c: proof.c,
    };
    prover.verify(inputs, &scaled).expect("it is valid too");
    assert!(accepts(&problem, inputs, &proof_bytes(&scaled)));
    assert_ne!(proof_bytes(&scaled), bytes);
    let unbalanced = Proof { b: proof.b, ..scaled };
    assert!(matches!(prover.verify(inputs, &unbalanced), Err(ProveError::Invalid)));
    let again = Groth16::<Bls12_381>::rerandomize_proof(&problem.key.vk, &proof, rng);
    prover.verify(inputs, &again).expect("it is valid too");
    assert_ne!(proof_bytes(&again), bytes);
}
