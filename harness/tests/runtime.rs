//! A process that lives long: many proofs, many errors, little memory, other orders of execution. What it holds afterwards
//! is what it held before, and what it computes is the same.
//!
//! The tests take turns: they measure memory.

mod support;

use ark_bls12_381::{Fr, G1Projective};
use ark_ff::{Field, UniformRand};
use ark_serialize::{CanonicalSerialize, Compress};
use gpu_core::sim::{SimBackend, SimOptions};
use gpu_core::{Device, DeviceBuf, DeviceKind, UploadBuf};
use groth16::{DeviceKey, MemoryEstimate, ProveConfig, ProveError, Prover, Trust};
use harness::EVERY_STRATEGY;
use harness::circuits::{CircuitName, Problem};
use harness::faults::{Call, FaultBackend, Faults};
use harness::oracle::{BaseFlavour, KnownBases, ScalarFlavour, random_numbers, test_seed};
use harness::prove::{proof_by_arkworks, proof_bytes};
use msm_gpu::{Bases, Msm, MsmConfig, ResultMemory, Strategy, SyncPattern};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;
use support::{devices, sized};

const MIB: u64 = 1 << 20;

fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn problem(rounds: u32) -> Problem {
    Problem::new(CircuitName::Mimc(rounds), 7, None).expect("something to prove")
}

fn blinding(seed: u64, circuit: CircuitName) -> (Fr, Fr) {
    harness::prove::blinding(seed, circuit, 1)[0]
}

fn with_strategy(key: &Arc<DeviceKey>, strategy: Strategy, batches: u32) -> Prover {
    let msm = MsmConfig { strategy, ..MsmConfig::batches(batches) };
    Prover::with_key(key.clone(), &ProveConfig { msm, ..ProveConfig::default() }).expect("a prover")
}

fn loaded(device: &Device, problem: &Problem) -> Arc<DeviceKey> {
    let key = DeviceKey::new(device, &problem.key, &problem.r1cs, Trust::Checked);
    Arc::new(key.unwrap_or_else(|error| panic!("{}: {error}", device.info().id)))
}

/// A number of this process's state, in bytes.
#[cfg(target_os = "linux")]
fn status_bytes(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("the state of a process");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("its number");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number") << 10
}

/// Memory that this process has now, in bytes.
#[cfg(target_os = "linux")]
fn resident_bytes() -> u64 {
    status_bytes("VmRSS:")
}

/// On CUDA two hundred under each strategy, on the simulated device fifteen.
#[test]
fn b85_two_hundred_proofs_are_one_and_take_the_memory_of_ten() {
    let _turn = turn();
    let problem = problem(2);
    let (r, s) = blinding(test_seed(), problem.name);
    let expected = proof_bytes(&proof_by_arkworks(&problem, r, s).expect("arkworks proves"));
    for device in devices() {
        let key = loaded(&device, &problem);
        for strategy in EVERY_STRATEGY {
            let prover = with_strategy(&key, strategy, 3);
            let (count, mut after_ten) = (sized(&device, 200, 15), 0);
            for index in 1..=count {
                let proof = prover.prove_with(&problem.assignment, r, s).expect("a proof");
                assert_eq!(
                    proof_bytes(&proof),
                    expected,
                    "{strategy}, proof {index} on {}",
                    device.info().id
                );
                if index == 10 {
                    after_ten = device.free_bytes().expect("free memory");
                }
            }
            let taken = after_ten.abs_diff(device.free_bytes().expect("free memory"));
            let allowed = if device.info().kind == DeviceKind::Sim { 0 } else { MIB };
            assert!(taken <= allowed, "{strategy} on {}: {taken} bytes after {count}", device.info().id);
        }
    }
}

/// On CUDA 2^18 constraints.
#[test]
fn b60_a_large_circuit_gives_one_proof_again_and_again() {
    let _turn = turn();
    for device in devices() {
        let problem = problem(sized(&device, 1 << 17, 1 << 8) as u32);
        let (r, s) = blinding(test_seed(), problem.name);
        let expected = proof_by_arkworks(&problem, r, s).expect("arkworks proves");
        let prover = Prover::new(&device, &problem.key, &problem.r1cs).expect("a prover");
        for index in 0..20 {
            // Verified before it is handed out.
            let proof = prover.prove_with(&problem.assignment, r, s).expect("a proof");
            assert_eq!(proof, expected, "proof {index} on {}", device.info().id);
        }
    }
}

/// The simulated device with faults, in the latest order; and each CUDA device with them.
fn faulty() -> Vec<(Device, Faults)> {
    let sim: Arc<dyn gpu_core::backend::Backend> = Arc::new(SimBackend::new(SimOptions::latest()));
    let cuda = (0..support::cuda().len()).map(|ordinal| -> Arc<dyn gpu_core::backend::Backend> {
        Arc::new(gpu_core::cuda::CudaBackend::new(ordinal).expect("it was there before"))
    });
    let with_faults = |inner| {
        let backend = FaultBackend::new(inner);
        let faults = backend.faults();
        (Device::from_backend(Box::new(backend)), faults)
    };
    std::iter::once(sim).chain(cuda).map(with_faults).collect()
}

/// Assignments that do not satisfy, and calls of the device that fail, in turn.
#[test]
fn b73_a_thousand_errors_leave_nothing_behind() {
    let _turn = turn();
    let problem = problem(1);
    let rng = &mut random_numbers(test_seed(), "errors");
    let (r, s) = (Fr::rand(rng), Fr::rand(rng));
    let mut wrong = problem.assignment.clone();
    wrong[2] += Fr::ONE;
    for (device, faults) in faulty() {
        let prover = Prover::new(&device, &problem.key, &problem.r1cs).expect("a prover");
        let prove = || prover.prove_with(&problem.assignment, r, s);
        let expected = prove().expect("a proof");
        let (idle, free) = (faults.live(), device.free_bytes().expect("free memory"));
        let kinds = [Call::Upload, Call::Launch, Call::Record, Call::SyncEvent, Call::Download].map(|call| {
            faults.arm(call, 0);
            prove().expect("nothing fails yet");
            (call, faults.count(call))
        });
        for index in 0..1000u64 {
            if index % 4 > 0 {
                let error = prover.prove_with(&wrong, r, s).expect_err("it is not satisfied");
                assert!(matches!(error, ProveError::Unsatisfied { .. }), "{error}");
            } else {
                let (call, count) = kinds[(index / 4) as usize % kinds.len()];
                faults.arm(call, 1 + index / 20 % count);
                let error = prove().expect_err("a call fails");
                faults.disarm().unwrap_or_else(|| panic!("nothing failed, and yet: {error}"));
            }
            // A prover whose device failed makes its memory anew, when it is used again.
            let live = faults.live();
            assert!(live.device_bytes <= idle.device_bytes && live.streams <= idle.streams, "{live:?}");
            assert!(live.events <= idle.events && live.pinned_bytes <= idle.pinned_bytes, "{live:?}");
        }
        assert_eq!(prove().expect("a proof"), expected);
        assert_eq!(faults.live(), idle, "on {}", device.info().id);
        let taken = free.abs_diff(device.free_bytes().expect("free memory"));
        let allowed = if device.info().kind == DeviceKind::Sim { 0 } else { MIB };
        assert!(taken <= allowed, "{taken} bytes on {}", device.info().id);
    }
}

/// A job that panics in the middle of its turn ends its turn: the next job is right, from any thread.
#[test]
fn b90_a_panic_in_a_turn_poisons_nothing() {
    let _turn = turn();
    let problem = problem(2);
    let (r, s) = blinding(test_seed(), problem.name);
    for (device, faults) in faulty() {
        let config = ProveConfig { jobs_max: 1, ..ProveConfig::default() };
        let prover = Prover::with_key(loaded(&device, &problem), &config).expect("a prover");
        let prove = || prover.prove_with(&problem.assignment, r, s);
        let expected = prove().expect("a proof");
        let idle = faults.live();
        for (call, k) in [(Call::Upload, 1), (Call::Launch, 1), (Call::Launch, 9), (Call::Download, 2)] {
            faults.arm_panic(call, k);
            catch_unwind(AssertUnwindSafe(prove)).expect_err("it panics in the middle");
            faults.disarm().expect("it was this call");
            let there = std::thread::scope(|scope| scope.spawn(prove).join().expect("no panic"));
            assert_eq!(there.expect("a proof"), expected, "after a panic in {call} {k}");
            assert_eq!(prove().expect("a proof"), expected);
            assert_eq!(faults.live(), idle, "after a panic in {call} {k}");
        }
    }
}

/// Operations that run when they are queued, as under `CUDA_LAUNCH_BLOCKING=1`, as late as they may, and whenever a seed
/// says; and everything released at once behind the last of them.
#[test]
fn b86_blocking_or_not_changes_no_byte() {
    const TEST: &str = "b86_blocking_or_not_changes_no_byte";
    const ROLE: &str = "RUNTIME_TEST_BLOCKING";
    let _turn = turn();
    let problem = problem(3);
    let (r, s) = blinding(1, problem.name);
    let expected = proof_bytes(&proof_by_arkworks(&problem, r, s).expect("arkworks proves"));
    let assert_proofs = |device: &Device| {
        for strategy in EVERY_STRATEGY {
            let prover = with_strategy(&loaded(device, &problem), strategy, 2);
            let proof = prover.prove_with(&problem.assignment, r, s);
            // The key, the memory and the streams go before the proof is looked at.
            drop(prover);
            assert_eq!(proof_bytes(&proof.expect("a proof")), expected, "{strategy} on {}", device.info().id);
        }
    };
    if std::env::var_os(ROLE).is_some() {
        return support::cuda().iter().for_each(assert_proofs);
    }
    let seed = test_seed();
    for options in [SimOptions::default(), SimOptions::latest(), SimOptions::seeded(seed)] {
        assert_proofs(&Device::sim(options));
    }
    for device in support::cuda() {
        assert_proofs(&device);
    }
    if !support::cuda().is_empty() {
        let mut child = Command::new(std::env::current_exe().expect("path of this test"));
        child.args(["--exact", TEST, "--nocapture"]).env(ROLE, "").env("CUDA_LAUNCH_BLOCKING", "1");
        let output = child.output().expect("it starts");
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let text = text.concat();
        assert!(output.status.success() && text.contains("1 passed"), "{}\n{text}", output.status);
    }
}

/// One thread that goes from device to device, and back: no call depends on which was used last.
#[test]
fn b98_one_thread_serves_all_devices() {
    let _turn = turn();
    let rng = &mut random_numbers(test_seed(), "devices");
    let known = KnownBases::<G1Projective>::generate(BaseFlavour::Random, 200, rng);
    let scalars = ScalarFlavour::Uniform.generate(200, rng);
    let mut all = devices();
    all.push(support::sim());
    let product = |device: &Device| {
        let bases = Bases::<G1Projective>::trusted(device, known.points()).expect("bases");
        Msm::<G1Projective, Fr>::new(&bases, &MsmConfig::batches(2)).expect("a plan")
    };
    let mut products: Vec<_> = all.iter().map(product).collect();
    let there_and_back = (0..all.len()).chain((0..all.len()).rev()).chain([0, all.len() - 1, 0]);
    for index in there_and_back {
        let found = products[index].run(&scalars).expect("a product");
        assert_eq!(found, known.product(&scalars), "{index}: {}", all[index].info().id);
    }
    while let Some(product) = products.pop() {
        drop(product);
        if let Some(first) = products.first_mut() {
            assert_eq!(first.run(&scalars).expect("a product"), known.product(&scalars));
        }
    }
}

/// On CUDA 64 MiB each (also `gpu-core/tests/cuda_device.rs::freed_memory_is_free`).
#[test]
#[cfg(target_os = "linux")]
fn b104_memory_that_is_freed_can_be_had_again() {
    let _turn = turn();
    for device in devices() {
        let bytes = sized(&device, 64 << 20, 64 << 10);
        let free = device.free_bytes().expect("free memory");
        let mut lowest = free;
        let mut resident = Vec::new();
        for round in 0..10_000 {
            drop(DeviceBuf::<u8>::new(&device, "round", bytes).expect("it fits"));
            if round % 1000 == 999 {
                lowest = lowest.min(device.free_bytes().expect("free memory"));
                resident.push(resident_bytes());
            }
        }
        let taken = free.saturating_sub(lowest);
        assert!(taken < 4 * bytes as u64, "{taken} bytes gone on {}", device.info().id);
        // What was freed is closed for a while on the simulated device, and then given back.
        let (first, last) = (resident[4], resident[9]);
        assert!(last < first + 16 * MIB, "the process has grown: {resident:?}");
    }
}

/// What is on its way owns its source, and waits for its end when it is dropped.
#[test]
fn b102_a_source_lives_until_the_copy_has_read_it() {
    let _turn = turn();
    let latest = Device::sim(SimOptions::latest());
    for device in std::iter::once(latest).chain(support::cuda()) {
        let n = sized(&device, 1 << 22, 1 << 12);
        let stream = device.stream("copies").expect("a stream");
        let words: Vec<u32> = (0..n as u32).map(|i| i.wrapping_mul(0x9e37_79b9)).collect();
        let target = DeviceBuf::<u32>::new(&device, "target", n).expect("memory");
        for is_kept in [false, true] {
            let mut source = UploadBuf::<u32>::new(&device, "source", n).expect("page-locked memory");
            source.as_mut_slice().copy_from_slice(&words);
            let sent = source.send_to(&stream, &target).expect("queued");
            match is_kept {
                true => sent.wait().expect("copied").as_mut_slice().fill(0),
                false => drop(sent),
            }
            // The memory is wiped, and another's.
            let mut next = UploadBuf::<u32>::new(&device, "next", n).expect("page-locked memory");
            next.as_mut_slice().fill(0xdead);
            assert_eq!(target.to_vec().expect("readable"), words, "{is_kept} on {}", device.info().id);
        }
    }
}

/// There is no callback in which memory could be released; and this is what one would leak.
#[test]
#[cfg(target_os = "linux")]
fn b114_twenty_thousand_uploads_leave_no_host_memory_behind() {
    let _turn = turn();
    for device in devices() {
        let stream = device.stream("uploads").expect("a stream");
        let target = DeviceBuf::<u8>::new(&device, "target", 4096).expect("memory");
        let mut resident = Vec::new();
        for round in 0..20_000u32 {
            let mut upload = UploadBuf::<u8>::new(&device, "part", 4096).expect("page-locked memory");
            upload.as_mut_slice().fill(round as u8);
            drop(upload.send_to(&stream, &target).expect("queued").wait().expect("copied"));
            if round % 5000 == 4999 {
                resident.push(resident_bytes());
                assert_eq!(target.to_vec().expect("readable"), vec![round as u8; 4096]);
            }
        }
        let (first, last) = (resident[0], resident[3]);
        assert!(last < first + 10 * MIB, "the process has grown on {}: {resident:?}", device.info().id);
    }
}

/// Every strategy, captured as graphs and not, with results in either memory, all alive at once, by turns.
#[test]
fn b106_strategies_change_while_others_are_alive() {
    let _turn = turn();
    let rng = &mut random_numbers(test_seed(), "strategies");
    for device in devices() {
        let n = sized(&device, 1 << 12, 60);
        let known = KnownBases::<G1Projective>::generate(BaseFlavour::Random, n, rng);
        let scalars = ScalarFlavour::Uniform.generate(n, rng);
        let expected = known.product(&scalars);
        let bases = Bases::<G1Projective>::trusted(&device, known.points()).expect("bases");
        let patterns = EVERY_STRATEGY.into_iter().flat_map(|strategy| {
            let plain = MsmConfig { strategy, ..MsmConfig::batches(4) };
            let pageable = MsmConfig { result_memory: ResultMemory::Pageable, ..plain };
            [plain, pageable, plain.with_pattern(SyncPattern { strategy, graph: true })]
        });
        let mut products: Vec<_> = patterns
            .map(|config| (config, Msm::<G1Projective, Fr>::new(&bases, &config).expect("a plan")))
            .collect();
        let (done, is_done) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for round in 0..4 {
                    let count = products.len();
                    for index in 0..count {
                        // Another order in each round.
                        let (config, product) = &mut products[(index * (2 * round + 1)) % count];
                        let found = product.run(&scalars).expect("a product");
                        assert_eq!(found, expected, "{config:?}, round {round}");
                    }
                }
                done.send(()).expect("somebody waits");
            });
            is_done.recv_timeout(Duration::from_secs(60)).expect("it hangs, or has failed");
        });
    }
}

/// A second run takes nothing from the device: what is measured is the work.
#[test]
fn b136_a_warm_run_takes_no_memory() {
    let _turn = turn();
    let problem = problem(2);
    let (r, s) = blinding(test_seed(), problem.name);
    let rng = &mut random_numbers(test_seed(), "warm");
    let known = KnownBases::<G1Projective>::generate(BaseFlavour::Random, 100, rng);
    let scalars = ScalarFlavour::Uniform.generate(100, rng);
    let expected = known.product(&scalars);
    let takes = [
        Call::FreeBytes,
        Call::AllocDevice,
        Call::AllocPinned,
        Call::CreateStream,
        Call::CreateEvent,
        Call::Load,
        Call::Capture,
    ];
    for (device, faults) in faulty() {
        let assert_nothing_taken = |what: &str| {
            for call in takes {
                assert_eq!(faults.count(call), 0, "{call} in {what} on {}", device.info().id);
            }
            assert!(faults.count(Call::Launch) + faults.count(Call::LaunchGraph) > 0, "{what} did something");
        };
        let bases = Bases::<G1Projective>::trusted(&device, known.points()).expect("bases");
        let key = loaded(&device, &problem);
        for strategy in EVERY_STRATEGY {
            for graph in [false, true] {
                let config = MsmConfig::batches(3).with_pattern(SyncPattern { strategy, graph });
                let mut product = Msm::<G1Projective, Fr>::new(&bases, &config).expect("a plan");
                product.enable_timing().expect("events");
                let cold = product.run(&scalars).expect("a product");
                faults.arm(Call::FreeBytes, 0);
                let warm = product.run(&scalars).expect("a product");
                assert_eq!((cold, warm), (expected, expected));
                assert_nothing_taken(&format!("a product with {strategy}, graph {graph}"));
            }
            let prover = with_strategy(&key, strategy, 2);
            prover.prove_with(&problem.assignment, r, s).expect("a proof");
            faults.arm(Call::FreeBytes, 0);
            prover.prove_with(&problem.assignment, r, s).expect("a proof");
            assert_nothing_taken(&format!("a proof with {strategy}"));
        }
    }
}

/// What `harness prove` says before it proves, against the peak of a process that does nothing else. Device memory of the
/// simulated device is the process's own.
#[test]
#[cfg(target_os = "linux")]
fn b77_a_proof_takes_the_memory_that_is_estimated() {
    const TEST: &str = "b77_a_proof_takes_the_memory_that_is_estimated";
    const ROLE: &str = "RUNTIME_TEST_KEY";
    const SEED: u64 = 77;
    // Two constraints a round: just below 2^14 of them.
    const CIRCUIT: CircuitName = CircuitName::Mimc((1 << 13) - 2);
    let _turn = turn();
    if let Some(path) = std::env::var_os(ROLE) {
        // The circuit is made and forgotten first: what it leaves in the allocator is there before and after.
        let rng = &mut random_numbers(SEED, &CIRCUIT.to_string());
        let device = Device::sim(SimOptions::default());
        let warm = problem(1);
        Prover::new(&device, &warm.key, &warm.r1cs)
            .expect("a prover")
            .prove(&warm.assignment, rng)
            .expect("a proof");
        let before = resident_bytes();
        let (r1cs, assignment) = {
            let rng = &mut random_numbers(SEED, &CIRCUIT.to_string());
            harness::circuits::constraints(CIRCUIT, rng).expect("a circuit")
        };
        let key = {
            let bytes = std::fs::read(path).expect("the key's file");
            groth16::arkworks::read_key(&bytes, Compress::No, Trust::Trusted).expect("a key")
        };
        // From here on the system counts the peak anew.
        std::fs::write("/proc/self/clear_refs", "5").expect("a process may do so");
        let prover = Prover::new(&device, &key, &r1cs).expect("a prover");
        prover.prove(&assignment, rng).expect("a proof");
        let peak = status_bytes("VmHWM:");
        let memory = MemoryEstimate::new(prover.plan());
        let estimated = memory.resident_bytes + memory.run_bytes + memory.host_peak_bytes(1);
        println!("{memory:?}: {estimated} bytes estimated, {} taken", peak - before);
        assert!(
            (peak - before) as f64 <= 1.3 * estimated as f64,
            "{} taken, {estimated} estimated",
            peak - before
        );
        assert!(
            (peak - before) as f64 >= 0.7 * estimated as f64,
            "{} taken, {estimated} estimated",
            peak - before
        );
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("key");
    let problem = Problem::new(CIRCUIT, SEED, None).expect("something to prove");
    let mut bytes = Vec::new();
    problem.key.serialize_uncompressed(&mut bytes).expect("a vector takes all bytes");
    std::fs::write(&path, bytes).expect("a file");
    let mut child = Command::new(std::env::current_exe().expect("path of this test"));
    let output = child.args(["--exact", TEST, "--nocapture"]).env(ROLE, &path).output().expect("it starts");
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    println!("{text}");
    assert!(output.status.success() && text.contains("1 passed"), "{}", output.status);
}
