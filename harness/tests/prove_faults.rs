//! A device that fails in the middle of a proof, or while a key is loaded: a typed error, everything given back, and the
//! next proof right.

use ark_bls12_381::Fr;
use ark_ff::UniformRand;
use gpu_core::Device;
use gpu_core::sim::{SimBackend, SimOptions};
use groth16::{DeviceKey, ProveConfig, ProveError, Prover, Trust, Upload};
use harness::circuits::{CircuitName, Problem};
use harness::faults::{Call, FaultBackend, Faults};
use harness::oracle::{random_numbers, test_seed};
use std::sync::Arc;

/// Faults of one kind that are tried, spread over all calls of that kind.
const TRIES_MAX: u64 = 6;

fn device() -> (Device, Faults) {
    let backend = FaultBackend::new(Arc::new(SimBackend::new(SimOptions::default())));
    let faults = backend.faults();
    (Device::from_backend(Box::new(backend)), faults)
}

/// Which calls fail, of so many: the first, the last, and some between.
fn tries(count: u64) -> Vec<u64> {
    let tries = count.min(TRIES_MAX);
    (0..tries).map(|i| if tries == 1 { 1 } else { 1 + i * (count - 1) / (tries - 1) }).collect()
}

fn is_the_devices(error: &ProveError) -> bool {
    use groth16::ProveError::{Gpu, Msm, Ntt};
    matches!(error, Gpu(_) | Msm(_) | Ntt(_))
}

#[test]
fn a_proof_that_fails_leaves_the_prover_as_it_was() {
    for upload in [Upload::default(), Upload::Register] {
        fail_proofs(upload);
    }
}

fn fail_proofs(upload: Upload) {
    let seed = test_seed();
    let problem = Problem::new(CircuitName::Mimc(3), seed, None).expect("something to prove");
    let rng = &mut random_numbers(seed, "blinding");
    let (r, s) = (Fr::rand(rng), Fr::rand(rng));
    let (device, faults) = device();
    let key = DeviceKey::new(&device, &problem.key, &problem.r1cs, Trust::Trusted).expect("a key");
    let config = ProveConfig { upload, ..ProveConfig::default() };
    let prover = Prover::with_key(Arc::new(key), &config).expect("a prover");
    let prove = || prover.prove_with(&problem.assignment, r, s);
    let expected = prove().expect("a proof");
    let idle = faults.live();
    let mut struck_count = 0;
    for call in Call::ALL {
        faults.arm(call, 0);
        prove().expect("nothing fails yet");
        for k in tries(faults.count(call)) {
            faults.arm(call, k);
            let outcome = prove();
            let struck = faults.disarm().unwrap_or_else(|| panic!("{call} {k} is reached"));
            let error = outcome.expect_err("a call of it failed");
            assert!(is_the_devices(&error), "{call} {k}, {struck}: {error}");
            assert_eq!(prove().expect("nothing fails any more"), expected, "after {call} {k}, {struck}");
            assert_eq!(faults.live(), idle, "after {call} {k}, {struck}");
            struck_count += 1;
        }
    }
    assert!(struck_count > 20, "{struck_count} faults were tried");
    drop(prover);
    assert_eq!(faults.live(), Default::default(), "everything is given back");
}

#[test]
fn a_key_that_cannot_be_loaded_leaves_nothing() {
    let seed = test_seed();
    let problem = Problem::new(CircuitName::Mimc(3), seed, None).expect("something to prove");
    let load = |device: &Device| Prover::new(device, &problem.key, &problem.r1cs);
    let mut struck_count = 0;
    for call in Call::ALL {
        let (counted, faults) = device();
        faults.arm(call, 0);
        drop(load(&counted).expect("nothing fails yet"));
        for k in tries(faults.count(call)) {
            let (device, faults) = device();
            faults.arm(call, k);
            let outcome = load(&device);
            let Some(struck) = faults.disarm() else { continue };
            match outcome {
                Err(error) => {
                    assert!(is_the_devices(&error), "{call} {k}, {struck}: {error}");
                    struck_count += 1;
                }
                // What fails while something is released is nobody's error.
                Ok(prover) => drop(prover),
            }
            assert_eq!(faults.live(), Default::default(), "after {call} {k}, {struck}");
            let prover = load(&device).expect("nothing fails any more");
            prover.prove(&problem.assignment, &mut random_numbers(seed, "r, s")).expect("a proof");
        }
    }
    assert!(struck_count > 10, "{struck_count} faults were tried");
}
