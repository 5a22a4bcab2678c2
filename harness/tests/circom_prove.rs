//! Proofs under keys of snarkjs: those of the rules that snarkjs has, byte for byte, and accepted by verifiers that are not
//! ours. The fixture's key, witness and proof are circom's and snarkjs' own.

mod circom_files;
mod support;

use ark_bls12_381::{Bls12_381, Fr};
use ark_ff::{AdditiveGroup, Field, UniformRand};
use ark_groth16::{Groth16, prepare_verifying_key};
use circom_files::{Trapdoor, fixture, random_problem, write_zkey};
use gpu_core::Device;
use groth16::circom::json::{ProofJson, VerifyingKeyJson, public_inputs};
use groth16::circom::{Zkey, read_r1cs, read_witness};
use groth16::{
    DeviceKey, KeyError, KeyFile, PreparedKey, Proof, ProveConfig, ProveError, Prover, R1cs, Reduction, Trust,
};
use harness::circuits::Mimc;
use harness::oracle::{proof_by_snarkjs_rules, random_numbers, test_seed};
use harness::prove::{proof_bytes, zkcrypto_accepts};
use std::sync::Arc;
use support::devices;

fn prover(device: &Device, zkey: &Zkey) -> Prover {
    let key: DeviceKey = zkey.prepare().load(device).expect("a key on the device");
    Prover::with_key(key.into(), &ProveConfig::default()).expect("a prover")
}

fn assert_accepted(zkey: &Zkey, proof: &Proof, inputs: &[Fr], what: &str) {
    let vk = zkey.verifying_key();
    let by_arkworks = Groth16::<Bls12_381>::verify_proof(&prepare_verifying_key(vk), proof, inputs);
    assert_eq!(by_arkworks, Ok(true), "{what}");
    assert!(zkcrypto_accepts(vk, inputs, &proof_bytes(proof)), "{what}");
}

#[test]
fn the_fixture_s_proof_is_that_of_snarkjs_rules_and_verifies() {
    let rng = &mut random_numbers(test_seed(), "circom fixture");
    let zkey = Zkey::read(&fixture("mul.zkey"), Trust::Checked).expect("a key");
    let witness = read_witness(&fixture("mul.wtns")).expect("a witness");
    let inputs = &witness[1..3];
    for device in devices() {
        let prover = prover(&device, &zkey);
        let (r, s) = (Fr::rand(rng), Fr::rand(rng));
        for (r, s) in [(r, s), (Fr::ZERO, s), (r, Fr::ZERO)] {
            let proof = prover.prove_with(&witness, r, s).expect("a proof");
            assert_eq!(proof, proof_by_snarkjs_rules(&zkey, &witness, r, s));
            assert_accepted(&zkey, &proof, inputs, &device.info().id);
        }
    }
}

/// The oracle, too, is judged by what snarkjs wrote: its own proof verifies under the key as the reader gives it.
#[test]
fn snarkjs_own_proof_key_and_inputs_agree_with_the_binary_files() {
    let zkey = Zkey::read(&fixture("mul.zkey"), Trust::Checked).expect("a key");
    let witness = read_witness(&fixture("mul.wtns")).expect("a witness");
    let json: ProofJson = serde_json::from_slice(&fixture("proof.json")).expect("JSON");
    let vk: VerifyingKeyJson = serde_json::from_slice(&fixture("verification_key.json")).expect("JSON");
    let texts: Vec<String> = serde_json::from_slice(&fixture("public.json")).expect("JSON");
    let inputs = public_inputs(&texts).expect("canonical");
    assert_eq!(inputs, witness[1..3]);
    assert_eq!(&vk.verifying_key().expect("a key"), zkey.verifying_key());
    assert_eq!(VerifyingKeyJson::from(zkey.verifying_key()), vk);
    let proof = json.proof().expect("a proof");
    assert_eq!(ProofJson::from(&proof), json);
    assert_accepted(&zkey, &proof, &inputs, "snarkjs");
}

/// B69, B56: no public input, no private variable, no constraint, linear constraints alone; both sides of a domain's edge.
#[test]
fn b69_circuits_of_every_shape() {
    let rng = &mut random_numbers(test_seed(), "circom shapes");
    // Constraints, inputs with the constant, private variables.
    let shapes = [
        (1, 1, 1),
        (2, 3, 2),
        (3, 4, 0),
        (0, 1, 1),
        (0, 1, 0),
        (0, 4, 2),
        (1, 6, 3),
        (60, 3, 40),
        (61, 3, 40),
        (62, 3, 40),
    ];
    for (constraints, inputs, witnesses) in shapes {
        let what = format!("{constraints}, {inputs}, {witnesses}");
        let (r1cs, assignment) = random_problem(rng, constraints, inputs, witnesses);
        let bytes = write_zkey(&r1cs, &Trapdoor::random(rng));
        let zkey = Zkey::read(&bytes, Trust::Checked).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!((zkey.a(), zkey.b()), (r1cs.a(), r1cs.b()), "{what}");
        assert_eq!(zkey.shape().log_n, circom_files::log_n(&r1cs), "{what}");
        for device in devices() {
            let (r, s) = (Fr::rand(rng), Fr::rand(rng));
            let proof = prover(&device, &zkey).prove_with(&assignment, r, s);
            let proof = proof.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(proof, proof_by_snarkjs_rules(&zkey, &assignment, r, s), "{what}");
            assert_accepted(&zkey, &proof, &assignment[1..inputs], &what);
        }
    }
}

/// B53: who insists on the other reduction is refused before anything reaches the device; the matching one proves.
#[test]
fn b53_a_key_has_one_reduction() {
    let rng = &mut random_numbers(test_seed(), "b53");
    let zkey = Zkey::read(&fixture("mul.zkey"), Trust::Trusted).expect("a key");
    let witness = read_witness(&fixture("mul.wtns")).expect("a witness");
    let circuit = Mimc::random(9, rng);
    let (r1cs, assignment) = R1cs::synthesize(circuit.clone()).expect("it can be synthesized");
    let key = Groth16::<Bls12_381>::generate_random_parameters_with_reduction(circuit, rng).expect("a key");
    let ours = PreparedKey::new(&key, &r1cs, Trust::Trusted).expect("a key");
    let keys = [
        (zkey.prepare(), &witness[..], Reduction::Snarkjs, Reduction::Libsnark),
        (ours, &assignment, Reduction::Libsnark, Reduction::Snarkjs),
    ];
    for device in devices() {
        for (prepared, assignment, right, wrong) in &keys {
            let key = Arc::new(prepared.load(&device).expect("a key on the device"));
            assert_eq!(key.reduction(), *right);
            let free = device.free_bytes().expect("the device answers");
            let insist = |reduction| ProveConfig { reduction: Some(reduction), ..ProveConfig::default() };
            match Prover::with_key(key.clone(), &insist(*wrong)) {
                Err(ProveError::Key(KeyError::Reduction { expected, found })) => {
                    assert_eq!((expected, found), (*wrong, *right));
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(device.free_bytes().expect("the device answers"), free, "nothing was taken");
            let prover = Prover::with_key(key, &insist(*right)).expect("a prover");
            prover.prove(assignment, rng).expect("a proof that verifies");
        }
    }
}

#[test]
fn what_is_no_witness_gives_no_proof() {
    let zkey = Zkey::read(&fixture("mul.zkey"), Trust::Trusted).expect("a key");
    let witness = read_witness(&fixture("mul.wtns")).expect("a witness");
    let r1cs = read_r1cs(&fixture("mul.r1cs")).expect("constraints");
    assert_eq!(r1cs.first_failing(&witness), None);
    for device in devices() {
        let prover = prover(&device, &zkey);
        let refusal = |assignment: &[Fr]| prover.prove_with(assignment, Fr::ONE, Fr::ONE).unwrap_err();
        let short = refusal(&witness[..witness.len() - 1]);
        assert!(matches!(short, ProveError::LengthMismatch { expected: 203, found: 202 }), "{short}");
        let long = refusal(&[&witness[..], &[Fr::ONE]].concat());
        assert!(matches!(long, ProveError::LengthMismatch { expected: 203, found: 204 }), "{long}");
        let mut wrong = witness.to_vec();
        wrong[0] = Fr::ZERO;
        assert!(matches!(refusal(&wrong), ProveError::FirstNotOne));
        // s[100] is the square of s[99]: without C the device cannot know, and the verifier does.
        let mut wrong = witness.to_vec();
        wrong[103] += Fr::ONE;
        assert!(matches!(refusal(&wrong), ProveError::Invalid));
        assert_eq!(r1cs.first_failing(&wrong), Some(99));
        prover.prove_with(&witness, Fr::ONE, Fr::ONE).expect("the next proof is right");
    }
}

/// A key file keeps the reduction, and a proof from it has the same bytes.
#[test]
fn a_key_file_of_a_zkey_proves_the_same() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("key");
    let zkey = Zkey::read(&fixture("mul.zkey"), Trust::Checked).expect("a key");
    let witness = read_witness(&fixture("mul.wtns")).expect("a witness");
    zkey.prepare().write(&path).expect("a key file");
    let file = KeyFile::open(&path).expect("a key file");
    let key: PreparedKey<'_> = file.key(Trust::Checked).expect("a key");
    assert_eq!(key.shape(), zkey.shape());
    let (r, s) = (Fr::from(111), Fr::from(222));
    for device in devices() {
        let key = key.load(&device).expect("a key on the device");
        let prover = Prover::with_key(key.into(), &ProveConfig::default()).expect("a prover");
        let proof = prover.prove_with(&witness, r, s).expect("a proof");
        assert_eq!(proof, proof_by_snarkjs_rules(&zkey, &witness, r, s));
    }
}

/// Both ways to the device and several batches give the same bytes, and no schedule has a hazard.
#[test]
fn every_upload_and_strategy_gives_the_same_proof() {
    let zkey = Zkey::read(&fixture("mul.zkey"), Trust::Trusted).expect("a key");
    let witness = read_witness(&fixture("mul.wtns")).expect("a witness");
    let expected = proof_by_snarkjs_rules(&zkey, &witness, Fr::from(3), Fr::from(4));
    let key = Arc::new(zkey.prepare().load(&support::sim()).expect("a key on the device"));
    for upload in ["pageable", "register", "ring:1:50", "ring:3:7"] {
        for strategy in harness::EVERY_STRATEGY {
            let config = ProveConfig {
                upload: upload.parse().expect("an upload"),
                msm: msm_gpu::MsmConfig { strategy, ..msm_gpu::MsmConfig::batches(3) },
                ..ProveConfig::default()
            };
            let prover = Prover::with_key(key.clone(), &config).expect("a prover");
            let report = gpu_core::check::check(prover.schedule());
            assert!(report.is_clean(), "{report}");
            let proof = prover.prove_with(&witness, Fr::from(3), Fr::from(4)).expect("a proof");
            assert_eq!(proof, expected, "{upload} {strategy}");
        }
    }
    // A host that waits for batches makes waits on the device needless; where it does not, there is no surplus one.
    let prover = Prover::with_key(key, &ProveConfig::default()).expect("a prover");
    let report = gpu_core::check::check(prover.schedule()).to_string();
    assert!(!report.contains("nothing new"), "{report}");
}
