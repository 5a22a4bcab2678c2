//! A prover in use: many threads, keys that go away, secrets that must not stay.

mod common;

use ark_bls12_381::Fr;
use ark_ff::{AdditiveGroup, Field, UniformRand};
use ark_serialize::CanonicalSerialize;
use common::{Circuit, devices, seeded};
use gpu_core::check::check;
use gpu_core::layout::bytes_of;
use gpu_core::sim::{SimBackend, SimOptions};
use gpu_core::{Device, DeviceBuf, GpuError};
use groth16::{DeviceKey, Proof, ProveConfig, ProveError, Prover, R1cs, Trust, Upload};
use msm_gpu::{MsmConfig, PlanError, Strategy};
use rayon::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

fn bytes(proof: &Proof) -> Vec<u8> {
    let mut bytes = Vec::new();
    proof.serialize_compressed(&mut bytes).expect("a proof has bytes");
    bytes
}

fn load(device: &Device, circuit: &Circuit, rng: &mut rand_chacha::ChaCha20Rng) -> (Arc<DeviceKey>, Vec<Fr>) {
    let key = circuit.key(rng);
    let (r1cs, assignment) = R1cs::synthesize(circuit.clone()).expect("it can be synthesized");
    let key = DeviceKey::new(device, &key, &r1cs, Trust::Checked).expect("a key");
    (Arc::new(key), assignment)
}

/// Rng that panics: what goes wrong in the middle of one job.
struct Broken;

impl ark_std::rand::RngCore for Broken {
    fn next_u32(&mut self) -> u32 {
        panic!("the source of random numbers is gone")
    }

    fn next_u64(&mut self) -> u64 {
        panic!("the source of random numbers is gone")
    }

    fn fill_bytes(&mut self, _: &mut [u8]) {
        panic!("the source of random numbers is gone")
    }

    fn try_fill_bytes(&mut self, _: &mut [u8]) -> Result<(), ark_std::rand::Error> {
        panic!("the source of random numbers is gone")
    }
}

impl ark_std::rand::CryptoRng for Broken {}

/// Proofs from several threads at once, more than run at once, are the proofs made one after another; jobs that fail or
/// panic between them change nothing. With every upload: the threads share one assignment, also where it is page-locked
/// in place.
#[test]
fn threads_share_a_prover() {
    let rng = &mut seeded("threads_share_a_prover");
    let circuit = Circuit::random(rng, 20, 2, 15);
    let blinding: Vec<_> = (0..4).map(|_| (Fr::rand(rng), Fr::rand(rng))).collect();
    for device in devices() {
        let (key, assignment) = load(&device, &circuit, rng);
        for upload in [Upload::default(), Upload::Pageable, Upload::Register] {
            let config = ProveConfig { upload, ..ProveConfig::default() };
            share(&Prover::with_key(key.clone(), &config).expect("a prover"), &assignment, &blinding);
        }
    }
}

fn share(prover: &Prover, assignment: &[Fr], blinding: &[(Fr, Fr)]) {
    let alone: Vec<_> = blinding
        .iter()
        .map(|(r, s)| bytes(&prover.prove_with(assignment, *r, *s).expect("a proof")))
        .collect();
    let mut wrong = assignment.to_vec();
    wrong[3] += Fr::ONE;
    wrong[2] += Fr::ONE;
    std::thread::scope(|scope| {
        for ((r, s), alone) in blinding.iter().zip(&alone) {
            let (prover, wrong) = (prover.clone(), &wrong);
            scope.spawn(move || {
                let refused = prover.prove_with(wrong, *r, *s);
                assert!(matches!(refused, Err(ProveError::Unsatisfied { .. })), "{refused:?}");
                let panicked = catch_unwind(AssertUnwindSafe(|| prover.prove(assignment, &mut Broken)));
                assert!(panicked.is_err());
                let proof = prover.prove_with(assignment, *r, *s).expect("a proof");
                assert_eq!(bytes(&proof), *alone);
            });
        }
    });
}

/// With one turn at a time, a thread that proves without end does not keep another from its turn.
#[test]
fn b93_no_proof_waits_for_ever_behind_others() {
    let rng = &mut seeded("b93_no_proof_waits");
    let device = Device::sim(SimOptions::default());
    let (key, assignment) = load(&device, &Circuit::random(rng, 4, 2, 3), rng);
    let config = ProveConfig { jobs_max: 1, verify: false, ..ProveConfig::default() };
    let prover = Prover::with_key(key, &config).expect("a prover");
    let (r, s) = (Fr::rand(rng), Fr::rand(rng));
    let prove = || prover.prove_with(&assignment, r, s).expect("a proof");
    let (turns, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    prove();
                    let turns = turns.fetch_add(1, Ordering::Relaxed);
                    assert!(turns < 10_000, "the other thread has had no turn");
                }
            });
        }
        for _ in 0..5 {
            let before = turns.load(Ordering::Relaxed);
            prove();
            // Both others once before it, and what they get done while this thread is not running.
            let others = turns.load(Ordering::Relaxed) - before;
            assert!(others < 100, "{others} turns of others");
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Proofs begun by the threads of a pool, which may begin one while they wait within another, all come to their end.
#[test]
fn a_pool_of_threads_does_not_wait_for_itself() {
    let rng = &mut seeded("a_pool_of_threads");
    let device = Device::sim(SimOptions::default());
    let (key, assignment) = load(&device, &Circuit::random(rng, 20, 2, 15), rng);
    let config = ProveConfig { jobs_max: 1, ..ProveConfig::default() };
    let prover = Prover::with_key(key, &config).expect("a prover");
    let (r, s) = (Fr::rand(rng), Fr::rand(rng));
    let prove = || bytes(&prover.prove_with(&assignment, r, s).expect("a proof"));
    let expected = prove();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("a pool");
    let proofs: Vec<_> = pool.install(|| (0..6).into_par_iter().map(|_| prove()).collect());
    assert!(proofs.iter().all(|proof| *proof == expected));
}

/// Each handle that is dropped while a proof runs leaves what the proof needs.
#[test]
fn a_key_dropped_during_a_proof_stays_until_its_end() {
    let rng = &mut seeded("a_key_dropped_during_a_proof");
    let backend = SimBackend::new(SimOptions::default());
    let sim = backend.handle();
    let device = Device::from_backend(Box::new(backend));
    let before = sim.stats().device_bytes;
    let (key, assignment) = load(&device, &Circuit::random(rng, 20, 2, 15), rng);
    let config = ProveConfig { jobs_max: 1, ..ProveConfig::default() };
    let prover = Prover::with_key(key.clone(), &config).expect("a prover");
    let (r, s) = (Fr::rand(rng), Fr::rand(rng));
    let expected = bytes(&prover.prove_with(&assignment, r, s).expect("a proof"));
    std::thread::scope(|scope| {
        let last = prover.clone();
        let running = scope.spawn(move || last.prove_with(&assignment, r, s).map(|proof| bytes(&proof)));
        drop((prover, key));
        assert_eq!(running.join().expect("no panic").expect("a proof"), expected);
    });
    assert_eq!(sim.stats().device_bytes, before, "everything is released with the last handle");
}

/// A device that is too small says so, before or during the load, and is as it was afterwards.
#[test]
fn what_does_not_fit_is_refused() {
    let rng = &mut seeded("what_does_not_fit_is_refused");
    let circuit = Circuit::random(rng, 20, 2, 15);
    let ark_key = circuit.key(rng);
    let (r1cs, assignment) = R1cs::synthesize(circuit).expect("it can be synthesized");
    let backend = SimBackend::new(SimOptions::default());
    let sim = backend.handle();
    let device = Device::from_backend(Box::new(backend));
    let prover = Prover::new(&device, &ark_key, &r1cs).expect("a prover");
    let needed = sim.stats().device_bytes;
    drop(prover);
    let mut refusals = [0, 0];
    for memory_bytes in [needed - 1, needed * 3 / 4, needed / 2, needed / 100, 1 << 12] {
        let backend = SimBackend::new(SimOptions { memory_bytes, ..SimOptions::default() });
        let sim = backend.handle();
        let device = Device::from_backend(Box::new(backend));
        match Prover::new(&device, &ark_key, &r1cs) {
            Err(ProveError::Plan(PlanError::OutOfMemory { .. })) => refusals[0] += 1,
            Err(ProveError::Gpu(GpuError::OutOfMemory { .. })) => refusals[1] += 1,
            other => panic!("{memory_bytes} of {needed} bytes: {other:?}"),
        }
        assert_eq!(sim.stats().device_bytes, 0, "{memory_bytes} of {needed} bytes");
    }
    assert!(refusals[0] > 0, "the plan is refused where the key fits: {refusals:?}");
    let prover = Prover::new(&device, &ark_key, &r1cs).expect("a prover");
    prover.prove(&assignment, rng).expect("a proof");
}

/// Takes device memory until about so many bytes are left: in ever smaller pieces, as a driver has no single one.
fn leave(device: &Device, left: u64) -> Vec<DeviceBuf<u8>> {
    let (mut held, mut piece) = (Vec::new(), device.info().memory_bytes);
    while piece >= 1 << 10 {
        let fits = device.free_bytes().expect("a number") >= left + piece;
        match fits.then(|| DeviceBuf::new(device, "ballast", piece as usize)) {
            Some(Ok(buf)) => held.push(buf),
            _ => piece /= 2,
        }
    }
    held
}

/// On a device on which others have left less than is needed: a refusal or a valid proof, never another one, and
/// afterwards, when there is room, a proof.
#[test]
fn less_memory_than_needed_is_a_refusal_or_a_proof() {
    let rng = &mut seeded("less_memory_than_needed");
    let circuit = Circuit::random(rng, 1000, 5, 900);
    let ark_key = circuit.key(rng);
    let (r1cs, assignment) = R1cs::synthesize(circuit).expect("it can be synthesized");
    let (r, s) = (Fr::rand(rng), Fr::rand(rng));
    // Ballast is filled on the simulated device: a small one.
    let sim = Device::sim(SimOptions { memory_bytes: 64 << 20, ..SimOptions::default() });
    for device in std::iter::once(sim).chain(devices().into_iter().skip(1)) {
        let prove = || Prover::new(&device, &ark_key, &r1cs)?.prove_with(&assignment, r, s);
        let expected = bytes(&prove().expect("a proof"));
        let prover = Prover::new(&device, &ark_key, &r1cs).expect("a prover");
        let needed = prover.key().device_bytes() + prover.schedule().bytes_in(gpu_core::Space::Device);
        drop(prover);
        let mut refused = 0;
        for left in [needed - (1 << 20), needed - 1, needed / 2, 64 << 10] {
            let _ballast = leave(&device, left);
            match prove() {
                Ok(proof) => assert_eq!(bytes(&proof), expected, "{left} of {needed} bytes"),
                Err(
                    ProveError::Plan(PlanError::OutOfMemory { .. })
                    | ProveError::Gpu(GpuError::OutOfMemory { .. }),
                ) => refused += 1,
                Err(other) => panic!("{left} of {needed} bytes: {other:?}"),
            }
        }
        assert!(refused > 0, "{} needs {needed} bytes, and was never refused", device.info().id);
        assert_eq!(bytes(&prove().expect("a proof")), expected);
    }
}

/// A result for each assignment, in their order: one that cannot be proved costs the others nothing.
#[test]
fn b78_one_of_ten_fails_alone() {
    let rng = &mut seeded("b78_one_of_ten");
    let circuit = Circuit::random(rng, 20, 2, 15);
    for device in devices() {
        let (key, assignment) = load(&device, &circuit, rng);
        let (r1cs, _) = R1cs::synthesize(circuit.clone()).expect("it can be synthesized");
        let wrong = |variable: usize| {
            let mut wrong = assignment.clone();
            wrong[variable] += Fr::ONE;
            r1cs.first_failing(&wrong).map(|constraint| (wrong, constraint))
        };
        let (wrong, failing) = (2..assignment.len()).find_map(wrong).expect("some variable matters");
        for jobs_max in [1, 2, 3] {
            let config = ProveConfig { jobs_max, ..ProveConfig::default() };
            let prover = Prover::with_key(key.clone(), &config).expect("a prover");
            let mut batch = vec![&assignment[..]; 10];
            batch[5] = &wrong;
            batch[8] = &assignment[1..];
            let results = prover.prove_all(&batch, rng);
            let mut proofs = Vec::new();
            for (index, result) in results.into_iter().enumerate() {
                match (index, result) {
                    (5, Err(ProveError::Unsatisfied { constraint })) => assert_eq!(constraint, failing),
                    (8, Err(ProveError::LengthMismatch { .. })) => {}
                    (0..=4 | 6 | 7 | 9, Ok(proof)) => proofs.push(bytes(&proof)),
                    (index, result) => panic!("item {index}: {result:?}"),
                }
            }
            proofs.sort();
            proofs.dedup();
            assert_eq!(proofs.len(), 8, "each is blinded by numbers of its own");
            assert!(prover.prove_all(&[] as &[&[Fr]], rng).is_empty());
        }
    }
}

/// Two keys on one device, each with its own proofs.
#[test]
fn two_keys_at_once() {
    let rng = &mut seeded("two_keys_at_once");
    devices().iter().for_each(|device| two_keys_on(device, rng));
}

fn two_keys_on(device: &Device, rng: &mut rand_chacha::ChaCha20Rng) {
    let provers: Vec<_> = [(20, 2, 15), (70, 5, 30)]
        .map(|(constraints, inputs, witnesses)| {
            let (key, assignment) = load(device, &Circuit::random(rng, constraints, inputs, witnesses), rng);
            (Prover::with_key(key, &ProveConfig::default()).expect("a prover"), assignment)
        })
        .into();
    for _ in 0..2 {
        for (prover, assignment) in &provers {
            // Verified by default.
            prover.prove(assignment, rng).expect("a proof");
        }
    }
}

/// Every way of sending the assignment and of cutting the products gives the same bytes, by a schedule without hazards.
#[test]
fn configurations_change_no_byte() {
    let rng = &mut seeded("configurations_change_no_byte");
    let circuit = Circuit::random(rng, 40, 3, 30);
    let (r, s) = (Fr::rand(rng), Fr::rand(rng));
    for device in devices() {
        let (key, assignment) = load(&device, &circuit, rng);
        configurations_agree(&key, &assignment, r, s);
    }
}

fn configurations_agree(key: &Arc<DeviceKey>, assignment: &[Fr], r: Fr, s: Fr) {
    const VARIABLES: u64 = 33;
    assert_eq!(assignment.len() as u64, VARIABLES);
    let uploads = [
        Upload::default(),
        Upload::Pageable,
        Upload::Register,
        Upload::Ring { slots: 1, chunk: 7 },
        Upload::Ring { slots: 2, chunk: 5 },
        Upload::Ring { slots: 3, chunk: 1 },
        Upload::Ring { slots: 9, chunk: 11 },
        // One value less than there are, as many, and one more.
        Upload::Ring { slots: 2, chunk: VARIABLES - 1 },
        Upload::Ring { slots: 2, chunk: VARIABLES },
        Upload::Ring { slots: 2, chunk: VARIABLES + 1 },
        Upload::Ring { slots: u32::MAX, chunk: u64::MAX },
    ];
    // Batches of about a third, of at most 7 and of 2 points, and of one point each.
    let msms = [
        MsmConfig::default(),
        MsmConfig { strategy: Strategy::Hard, ..MsmConfig::batches(3) },
        MsmConfig::batches(VARIABLES.div_ceil(7) as u32),
        MsmConfig::batches(VARIABLES.div_ceil(2) as u32),
        MsmConfig { strategy: Strategy::Hard, ..MsmConfig::batches(1000) },
        MsmConfig { strategy: Strategy::OnDevice, ..MsmConfig::batches(1000) },
        // Another thread collects: with a slot for each batch the first one waits for no rows, and else it does.
        MsmConfig { strategy: Strategy::Threaded { buffers: 2 }, ..MsmConfig::batches(1) },
        MsmConfig { strategy: Strategy::Threaded { buffers: 2 }, ..MsmConfig::batches(2) },
        MsmConfig { strategy: Strategy::Threaded { buffers: 3 }, ..MsmConfig::batches(7) },
    ];
    let configs = uploads
        .map(|upload| ProveConfig { upload, ..ProveConfig::default() })
        .into_iter()
        .chain(msms.map(|msm| ProveConfig { msm, ..ProveConfig::default() }))
        // Multiples of all bases, of some, and rounds of pairs.
        .chain([1 << 30, 100_000].map(|table_bytes| ProveConfig { table_bytes, ..ProveConfig::default() }))
        .chain([1, 3].map(|pair_rounds| {
            let msm = MsmConfig { pair_rounds: Some(pair_rounds), ..MsmConfig::batches(2) };
            ProveConfig { msm, table_bytes: 1 << 30, ..ProveConfig::default() }
        }));
    let mut proofs = Vec::new();
    for config in configs {
        let prover = Prover::with_key(key.clone(), &config).expect("a prover");
        let report = check(prover.schedule());
        assert!(report.is_clean(), "{config:?}: {report}");
        // A product in batches waits for those before it, and with them for all that came down earlier.
        if config.msm == MsmConfig::default() {
            assert!(report.surplus.is_empty(), "{config:?}: {:?}", report.surplus);
        }
        proofs.push(bytes(&prover.prove_with(assignment, r, s).expect("a proof")));
    }
    assert!(proofs.windows(2).all(|pair| pair[0] == pair[1]));
}

/// After a prover is released no value of the assignment, and neither blinding number, is found in any memory that the
/// device or page-locked memory ever was.
#[test]
fn no_secret_outlives_its_prover() {
    let rng = &mut seeded("no_secret_outlives_its_prover");
    for upload in [Upload::default(), Upload::Pageable, Upload::Register] {
        let backend = SimBackend::new(SimOptions::default());
        let sim = backend.handle();
        let device = Device::from_backend(Box::new(backend));
        let mut circuit = Circuit::random(rng, 20, 2, 15);
        circuit.assignment[5] = Fr::rand(rng);
        let z = circuit.assignment.clone();
        for [a, b, c] in &mut circuit.constraints {
            let at =
                |terms: &[(Fr, usize)]| terms.iter().map(|(value, index)| *value * z[*index]).sum::<Fr>();
            *c = vec![(at(a) * at(b), 0)];
        }
        // A row that holds a secret by itself: it shows up among the values of A.
        circuit.constraints.push([vec![(Fr::from(2), 5)], vec![], vec![]]);
        let (key, assignment) = load(&device, &circuit, rng);
        let (r, s) = (Fr::rand(rng), Fr::rand(rng));
        let config = ProveConfig { upload, ..ProveConfig::default() };
        let prover = Prover::with_key(key.clone(), &config).expect("a prover");
        prover.prove_with(&assignment, r, s).expect("a proof");
        let secrets = [assignment[5], assignment[5].double(), r, s];
        let found = |secret: &Fr| sim.find_bytes(bytes_of(&[*secret]));
        assert!(!found(&secrets[0]).is_empty(), "the search sees the assignment while it is there");
        drop(prover);
        for (index, secret) in secrets.iter().enumerate() {
            let places = found(secret);
            assert!(places.is_empty(), "{upload}: secret {index} in {places:?}");
        }
        drop(key);
    }
}
