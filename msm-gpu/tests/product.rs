//! Products against arkworks, over both groups, every strategy, one batch and many. The wide tests are the harness's.

use ark_bls12_381::{Fr, G1Projective, G2Projective};
use ark_ff::{BigInt, PrimeField, UniformRand, Zero};
use ark_std::rand::{Rng, SeedableRng};
use gpu_core::{Device, sim::SimOptions};
use msm_gpu::{Bases, Msm, MsmConfig, MsmGroup, Strategy, reduced};
use rand_chacha::ChaCha20Rng;

const STRATEGIES: [Strategy; 4] = [
    Strategy::Hard,
    Strategy::Deferred { buffers: 2 },
    Strategy::Deferred { buffers: 3 },
    Strategy::OnDevice,
];

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
    for device in Device::all(SimOptions::default()) {
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
    for device in Device::all(SimOptions::default()) {
        let bases = Bases::<G1Projective>::trusted(&device, &vec![point.into(); n]).unwrap();
        for strategy in STRATEGIES {
            let config = MsmConfig { strategy, ..MsmConfig::batches(3) };
            let mut msm = Msm::<G1Projective, Fr>::new(&bases, &config).unwrap();
            assert_eq!(msm.run(&vec![scalar; n]).unwrap(), point * scalar * Fr::from(n as u64), "{strategy}");
        }
    }
}

#[test]
fn raw_integers_are_reduced_on_request() {
    let raw = [BigInt::new([u64::MAX; 4]), Fr::MODULUS, BigInt::new([1, 0, 0, 0])];
    let two_to_256 = ark_ff::Field::pow(&Fr::from(2), [256u64]);
    assert_eq!(reduced(&raw), [two_to_256 - Fr::from(1), Fr::zero(), Fr::from(1)]);
}
