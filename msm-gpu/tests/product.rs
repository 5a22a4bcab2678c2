//! Products against arkworks, over both groups, every strategy, one batch and many. The wide tests are the
//! harness's.

mod common;

use ark_bls12_381::{Fr, G1Affine, G1Projective, G2Projective};
use ark_ec::VariableBaseMSM;
use ark_ff::{BigInt, PrimeField, UniformRand, Zero};
use ark_std::rand::{Rng, SeedableRng};
use common::{STRATEGIES, devices};
use gpu_core::{Device, sim::SimOptions};
use msm_gpu::{Bases, Msm, MsmConfig, MsmGroup, ResultMemory, Strategy, reduced};
use rand_chacha::ChaCha20Rng;

fn scalars(rng: &mut ChaCha20Rng, n: usize) -> Vec<Fr> {
    let scalar = |rng: &mut ChaCha20Rng| match rng.gen_range(0..8) {
        0 => Fr::zero(),
        1 => Fr::from(1),
        2 => -Fr::from(1),
        3 => Fr::from(rng.gen_range(0..100u64)),
        _ => Fr::rand(rng),
    };
    (0..n).map(|_| scalar(rng)).collect()
}

fn agrees<G: MsmGroup>(n: usize, window_bits: Option<u32>) {
    let rng = &mut ChaCha20Rng::seed_from_u64(0x6d_736d + n as u64);
    let mut points: Vec<G::Affine> = (0..n).map(|_| G::rand(rng).into_affine()).collect();
    if n > 4 {
        points[1] = points[0];
        points[2] = (-points[0].into()).into_affine();
        points[3] = G::Affine::default();
    }
    let scalars = scalars(rng, n);
    let expected = G::msm(&points, &scalars).unwrap();
    let plain: Vec<BigInt<4>> = scalars.iter().map(|scalar| scalar.into_bigint()).collect();
    for device in devices(SimOptions::default()) {
        let bases = Bases::<G>::new(&device, &points).unwrap();
        for batches in [1, 2, 3, 8, 31].into_iter().filter(|batches| *batches as usize <= n) {
            for strategy in STRATEGIES {
                let config = MsmConfig { strategy, window_bits, ..MsmConfig::batches(batches) };
                let what =
                    format!("{} n={n} batches={batches} {strategy} w={window_bits:?}", device.info().id);
                let mut msm = Msm::<G, Fr>::new(&bases, &config).unwrap();
                assert_eq!(msm.run(&scalars).unwrap(), expected, "{what}");
                assert_eq!(msm.run(&scalars).unwrap(), expected, "{what}, again");
                let mut msm = Msm::<G, BigInt<4>>::new(&bases, &config).unwrap();
                assert_eq!(msm.run(&plain).unwrap(), expected, "{what}, canonical");
            }
        }
    }
}

#[test]
fn g1_agrees_with_arkworks() {
    for n in [1, 2, 31, 300] {
        agrees::<G1Projective>(n, None);
    }
}

#[test]
fn g2_agrees_with_arkworks() {
    for n in [1, 3, 33] {
        agrees::<G2Projective>(n, None);
    }
}

#[test]
fn every_window_width_agrees() {
    for window_bits in 2..=13 {
        agrees::<G1Projective>(2, Some(window_bits));
    }
}

#[test]
fn one_hot_bucket_is_merged_by_blocks() {
    // All scalars equal: each window has one run, over more threads than a single thread merges.
    let rng = &mut ChaCha20Rng::seed_from_u64(1);
    let point = G1Projective::rand(rng);
    let n = 2000;
    let scalar = Fr::rand(rng);
    for device in devices(SimOptions::default()) {
        let bases = Bases::<G1Projective>::trusted(&device, &vec![point.into(); n]).unwrap();
        for strategy in STRATEGIES {
            let config = MsmConfig { strategy, ..MsmConfig::batches(3) };
            let mut msm = Msm::<G1Projective, Fr>::new(&bases, &config).unwrap();
            assert_eq!(msm.run(&vec![scalar; n]).unwrap(), point * scalar * Fr::from(n as u64), "{strategy}");
        }
    }
}

/// More partial sums of one bucket than a block adds at a time, in one run and in three beside each other.
#[test]
fn hot_buckets_are_merged_segment_by_segment() {
    let rng = &mut ChaCha20Rng::seed_from_u64(2);
    let few: Vec<G1Projective> = (0..7).map(|_| G1Projective::rand(rng)).collect();
    let n = 20_000;
    let points: Vec<G1Affine> = (0..n).map(|i| few[i % 7].into()).collect();
    let mut sums = [G1Projective::zero(); 3];
    for i in 0..n {
        sums[i * 3 / n] += few[i % 7];
    }
    for device in devices(SimOptions::default()) {
        let bases = Bases::<G1Projective>::trusted(&device, &points).unwrap();
        for (numbers, pair_rounds) in [([1, 1, 1], 0), ([1, 2, 3], 0), ([2, 3, 4], 1)] {
            let scalars: Vec<Fr> = (0..n).map(|i| Fr::from(numbers[i * 3 / n])).collect();
            let expected: G1Projective =
                sums.iter().zip(numbers).map(|(sum, number)| *sum * Fr::from(number)).sum();
            let config = MsmConfig {
                window_bits: Some(8),
                pair_rounds: Some(pair_rounds),
                strategy: Strategy::Hard,
                ..MsmConfig::default()
            };
            let mut msm = Msm::<G1Projective, Fr>::new(&bases, &config).unwrap();
            assert_eq!(msm.run(&scalars).unwrap(), expected, "{} {numbers:?}", device.info().id);
        }
    }
}

#[test]
fn raw_integers_are_reduced_on_request() {
    let raw = [BigInt::new([u64::MAX; 4]), Fr::MODULUS, BigInt::new([1, 0, 0, 0])];
    let two_to_256 = ark_ff::Field::pow(&Fr::from(2), [256u64]);
    assert_eq!(reduced(&raw), [two_to_256 - Fr::from(1), Fr::zero(), Fr::from(1)]);
}

#[test]
fn graphs_and_pageable_results_change_no_product() {
    let rng = &mut ChaCha20Rng::seed_from_u64(7);
    let points: Vec<_> = (0..40).map(|_| G1Projective::rand(rng).into()).collect();
    let (first, second) = (scalars(rng, 40), scalars(rng, 40));
    for device in devices(SimOptions::default()) {
        let bases = Bases::<G1Projective>::new(&device, &points).unwrap();
        for batches in [1, 2, 5] {
            for strategy in STRATEGIES {
                let plain = MsmConfig { strategy, ..MsmConfig::batches(batches) };
                let graph = MsmConfig { graph: true, ..plain };
                let pageable = MsmConfig { result_memory: ResultMemory::Pageable, ..plain };
                for config in [graph, pageable] {
                    let mut msm = Msm::<G1Projective, Fr>::new(&bases, &config).unwrap();
                    let what = format!("{} {}", device.info().id, msm.schedule().unwrap().name);
                    // A graph is captured in the first run, and again when it is to be timed.
                    for scalars in [&first, &second, &first] {
                        assert_eq!(msm.run(scalars).unwrap(), product(&points, scalars), "{what}");
                    }
                    msm.enable_timing().unwrap();
                    for scalars in [&second, &first] {
                        assert_eq!(msm.run(scalars).unwrap(), product(&points, scalars), "{what}, timed");
                    }
                }
            }
        }
    }
}

fn product(points: &[G1Affine], scalars: &[Fr]) -> G1Projective {
    G1Projective::msm(points, scalars).unwrap()
}

/// The seed of this run: `TEST_SEED` (decimal, or hexadecimal with `0x`), or one that is new each time.
fn seed() -> u64 {
    let seed = match std::env::var("TEST_SEED") {
        Ok(text) => match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).expect("TEST_SEED is a number"),
            None => text.parse().expect("TEST_SEED is a number"),
        },
        Err(_) => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.expect("after 1970").as_nanos() as u64
        }
    };
    println!("TEST_SEED={seed:#x}");
    seed
}

#[test]
fn a_collector_thread_is_right_in_every_order() {
    let seed = seed();
    let rng = &mut ChaCha20Rng::seed_from_u64(seed);
    let points: Vec<_> = (0..24).map(|_| G1Projective::rand(rng).into()).collect();
    for round in 0..50 {
        let seed = seed.wrapping_add(round);
        let latest = SimOptions { host_seed: seed, ..SimOptions::latest() };
        for options in [latest, SimOptions::seeded(seed)] {
            let device = Device::sim(options);
            let bases = Bases::<G1Projective>::trusted(&device, &points).unwrap();
            let (batches, buffers) = (rng.gen_range(1..=7), rng.gen_range(2..=4));
            let strategy = Strategy::Threaded { buffers };
            let config = MsmConfig { strategy, window_bits: Some(3), ..MsmConfig::batches(batches) };
            let mut msm = Msm::<G1Projective, Fr>::new(&bases, &config).unwrap();
            for _ in 0..2 {
                let scalars = scalars(rng, points.len());
                let found = msm.run(&scalars).unwrap();
                assert_eq!(found, product(&points, &scalars), "{strategy}, {batches} batches, round {round}");
            }
        }
    }
}
