//! Bad input is a typed error that names its cause, or a defined result. It never panics, and what follows it is right.

mod support;

use ark_bls12_381::{Fq, Fq2, Fr, G1Affine, G1Projective, G2Affine, G2Projective};
use ark_ff::{AdditiveGroup, BigInt, BigInteger, Field, PrimeField, Zero};
use gpu_core::sim::SimOptions;
use gpu_core::{Device, DeviceBuf, DeviceKind, GpuError, cuda};
use harness::STRATEGIES;
use harness::devices::DeviceChoice;
use harness::oracle::{BaseFlavour, KnownBases, ScalarFlavour, random_numbers, test_seed};
use msm_gpu::{Bases, Batches, Msm, MsmConfig, MsmError, MsmGroup, PlanError, Strategy, msm};
use support::{devices, sim};

fn known<G: MsmGroup>(n: usize) -> (KnownBases<G>, Vec<Fr>) {
    let mut rng = random_numbers(test_seed(), "bad input");
    let known = KnownBases::generate(BaseFlavour::Random, n, &mut rng);
    (known, ScalarFlavour::Uniform.generate(n, &mut rng))
}

/// Shows that a device still computes.
fn assert_usable(device: &Device) {
    let (known, scalars) = known::<G1Projective>(1024);
    let product = msm::<G1Projective>(device, known.points(), &scalars).expect("a product");
    assert_eq!(product, known.product(&scalars), "on {}", device.info().id);
}

#[test]
fn lengths_must_agree() {
    let (known, scalars) = known::<G1Projective>(9);
    for device in devices() {
        let bases = Bases::<G1Projective>::trusted(&device, known.points()).expect("bases");
        let mut product = Msm::<G1Projective, Fr>::new(&bases, &MsmConfig::batches(2)).expect("a plan");
        for wrong in [0, 8, 10] {
            let scalars = vec![Fr::ONE; wrong];
            for error in [product.run(&scalars), msm(&device, known.points(), &scalars)] {
                let error = error.expect_err("another length");
                let found =
                    matches!(error, MsmError::LengthMismatch { bases: 9, scalars } if scalars == wrong);
                assert!(found, "{error}");
            }
        }
        assert_eq!(product.run(&scalars).expect("a product"), known.product(&scalars));
    }
}

#[test]
fn plain_scalars_are_below_the_order() {
    let (known, _) = known::<G1Projective>(5);
    for device in devices() {
        let bases = Bases::<G1Projective>::trusted(&device, known.points()).expect("bases");
        let mut product =
            Msm::<G1Projective, BigInt<4>>::new(&bases, &MsmConfig::batches(5)).expect("a plan");
        let mut scalars = vec![BigInt::from(3_u64); 5];
        (scalars[2], scalars[4]) = (Fr::MODULUS, BigInt([u64::MAX; 4]));
        let error = product.run(&scalars).expect_err("not below the order");
        assert!(matches!(error, MsmError::ScalarNotReduced { index: 2 }), "the first is named: {error}");
    }
}

/// Words from r up as a field element, which only `new_unchecked` makes: they are taken modulo r.
#[test]
fn b46_words_above_the_modulus_are_reduced() {
    let (known, scalars) = known::<G1Projective>(5);
    let mut above = Fr::MODULUS;
    above.0[0] += 1;
    for device in devices() {
        let bases = Bases::<G1Projective>::trusted(&device, known.points()).expect("bases");
        let mut product = Msm::<G1Projective, Fr>::new(&bases, &MsmConfig::batches(2)).expect("a plan");
        for raw in [Fr::MODULUS, above, BigInt([u64::MAX; 4])] {
            let mut value = raw;
            while value >= Fr::MODULUS {
                value.sub_with_borrow(&Fr::MODULUS);
            }
            let with = |word| {
                let mut scalars = scalars.clone();
                (scalars[1], scalars[4]) = (Fr::new_unchecked(word), Fr::new_unchecked(word));
                scalars
            };
            let found = product.run(&with(raw)).expect("a product");
            assert_eq!(found, known.product(&with(value)), "{raw} on {}", device.info().id);
        }
    }
}

/// Off the curve; on the curve with another order; and the identity, which is a base.
#[test]
fn b36_points_outside_the_group_are_refused_with_their_index() {
    let off_g1 = G1Affine::new_unchecked(Fq::ONE, Fq::ONE);
    let off_g2 = G2Affine::new_unchecked(Fq2::ONE, Fq2::ONE);
    let order_g1 = G1Affine::new_unchecked(Fq::ZERO, Fq::from(2));
    let order_g2 = (1_u64..)
        .find_map(|x| G2Affine::get_point_from_x_unchecked(Fq2::new(Fq::from(x), Fq::ONE), false))
        .expect("half of all x serve");
    for device in devices() {
        assert_refused::<G1Projective>(&device, off_g1, order_g1);
        assert_refused::<G2Projective>(&device, off_g2, order_g2);
    }
}

fn assert_refused<G: MsmGroup>(device: &Device, off_curve: G::Affine, wrong_order: G::Affine) {
    let (known, _) = known::<G>(5);
    let with = |index: usize, point: G::Affine| {
        let mut points = known.points().to_vec();
        points[index] = point;
        Bases::<G>::new(device, &points)
    };
    let error = with(3, off_curve).expect_err("not on the curve");
    assert!(matches!(error, MsmError::NotOnCurve { index: 3 }), "{error}");
    let error = with(4, wrong_order).expect_err("another order");
    assert!(matches!(error, MsmError::NotInSubgroup { index: 4 }), "{error}");
    assert_eq!(with(0, G::Affine::default()).expect("the identity is a base").len(), 5);
}

#[test]
fn impossible_plans_say_what_is_possible() {
    let (known, _) = known::<G1Projective>(5);
    for device in devices() {
        let bases = Bases::<G1Projective>::trusted(&device, known.points()).expect("bases");
        let refused = |config: MsmConfig| match Msm::<G1Projective, Fr>::new(&bases, &config) {
            Err(MsmError::Plan(error)) => error,
            other => panic!("expected no plan, not {other:?}"),
        };
        assert_eq!(refused(MsmConfig::batches(0)), PlanError::ZeroBatches);
        let too_many = PlanError::TooManyBatches { batch_count: 6, base_count: 5 };
        assert_eq!(refused(MsmConfig::batches(6)), too_many);
        for buffers in [0, 1] {
            let strategy = Strategy::Deferred { buffers };
            let error = refused(MsmConfig { strategy, ..MsmConfig::default() });
            assert_eq!(error, PlanError::TooFewBuffers { buffers });
        }
        for window_bits in [0, 1, 25, u32::MAX] {
            let error = refused(MsmConfig { window_bits: Some(window_bits), ..MsmConfig::default() });
            assert_eq!(error, PlanError::WindowBits { window_bits });
        }
    }
}

#[test]
fn more_than_the_device_holds_is_refused_before_anything_is_allocated() {
    let (known, scalars) = known::<G1Projective>(1000);
    let device = Device::sim(SimOptions { memory_bytes: 400_000, ..SimOptions::default() });
    let bases = Bases::<G1Projective>::trusted(&device, known.points()).expect("96 kB fit");
    let free = device.free_bytes().expect("free memory");
    let error = Msm::<G1Projective, Fr>::new(&bases, &MsmConfig::default()).expect_err("does not fit");
    let MsmError::Plan(PlanError::OutOfMemory { needed_bytes, free_bytes }) = error else {
        panic!("{error}")
    };
    assert!(needed_bytes > free_bytes && free_bytes == free, "{needed_bytes} {free_bytes} {free}");
    assert_eq!(device.free_bytes().expect("free memory"), free);
    let tiny = Device::sim(SimOptions { memory_bytes: 10_000, ..SimOptions::default() });
    let error = msm::<G1Projective>(&tiny, known.points(), &scalars).expect_err("bases do not fit");
    assert!(matches!(error, MsmError::Gpu(GpuError::OutOfMemory { .. })), "{error}");
}

#[test]
fn b88_a_refused_allocation_leaves_the_device_usable() {
    for device in devices() {
        let free = device.free_bytes().expect("free memory");
        let error = DeviceBuf::<u64>::new(&device, "too much", 1 << 37).expect_err("a terabyte");
        let GpuError::OutOfMemory { op, needed_bytes, .. } = &error else { panic!("{error}") };
        assert!(op.contains("too much") && *needed_bytes == 1 << 40, "{error}");
        assert_usable(&device);
        // Other tests may use a CUDA device at the same time.
        if device.info().kind == DeviceKind::Sim {
            assert_eq!(device.free_bytes().expect("free memory"), free);
        }
    }
}

/// The product does not depend on the memory that it may use; only the number of batches does.
#[test]
fn b97_a_memory_limit_costs_batches_and_not_the_result() {
    for device in devices() {
        let n = support::sized(&device, 1 << 20, 1 << 13);
        let (known, scalars) = known::<G1Projective>(n);
        let expected = known.product(&scalars);
        let bases = Bases::<G1Projective>::trusted(&device, known.points()).expect("bases");
        let whole = Msm::<G1Projective, Fr>::new(&bases, &MsmConfig::default()).expect("a plan");
        let needed = whole.plan().device_bytes();
        drop(whole);
        let mut counts = Vec::new();
        // Of its own need, and of a small card's memory.
        let cards = [1 << 28, 1 << 30, 1 << 32];
        for limit in [needed, needed / 2, needed / 5].into_iter().chain(cards) {
            for strategy in STRATEGIES {
                let config = MsmConfig {
                    batches: Batches::FitBytes(limit),
                    strategy,
                    window_bits: None,
                    ..MsmConfig::default()
                };
                let mut product = Msm::<G1Projective, Fr>::new(&bases, &config).expect("a plan");
                assert!(product.plan().device_bytes() <= limit, "{strategy} in {limit} bytes");
                counts.push(product.plan().batch_count);
                assert_eq!(
                    product.run(&scalars).expect("a product"),
                    expected,
                    "{strategy} in {limit} bytes"
                );
            }
        }
        let fifth = 2 * STRATEGIES.len();
        assert!(counts[fifth] > counts[0], "less memory, more batches: {counts:?}");
        let config = MsmConfig { batches: Batches::FitBytes(1000), ..MsmConfig::default() };
        let error = Msm::<G1Projective, Fr>::new(&bases, &config).expect_err("1000 bytes");
        assert!(matches!(error, MsmError::Plan(PlanError::OutOfMemory { free_bytes: 1000, .. })), "{error}");
    }
}

#[test]
fn b108_nothing_in_nothing_out() {
    for device in devices() {
        let empty = DeviceBuf::<u64>::from_slice(&device, "nothing", &[]).expect("no bytes");
        assert_eq!(empty.to_vec().expect("no bytes"), Vec::<u64>::new());
        for strategy in STRATEGIES {
            let bases = Bases::<G2Projective>::new(&device, &[]).expect("no bases");
            let config = MsmConfig { strategy, ..MsmConfig::default() };
            let mut product = Msm::<G2Projective, Fr>::new(&bases, &config).expect("a plan");
            assert!(product.run(&[]).expect("the identity").is_zero());
            assert!(product.run(&[Fr::ONE]).is_err(), "a scalar too many");
            assert!(product.trace().is_none(), "nothing ran");
        }
        assert_usable(&device);
    }
}

/// Where there is a driver, an ordinal beyond its devices; where there is none, every ordinal.
#[test]
fn b109_no_driver_and_no_such_device_are_typed_errors() {
    let error = DeviceChoice::CudaOrdinal(9999).open(SimOptions::default()).expect_err("device 9999");
    match (cuda::device_count(), &error) {
        (Ok(found), GpuError::NoDevice { ordinal: 9999, count }) => assert_eq!(found, *count),
        (Err(_), GpuError::NoDriver { tried, reason }) => {
            assert!(!tried.is_empty() && !reason.is_empty(), "{error}");
        }
        (count, error) => panic!("{error}, where the count is {count:?}"),
    }
    let automatic = DeviceChoice::Auto.open(SimOptions::default()).expect("the simulated device is there");
    let with_cuda = automatic.devices.len() > 1;
    assert_eq!(automatic.no_cuda.is_none(), with_cuda, "either devices, or why there are none");
}

#[test]
fn a_bad_scalar_costs_nothing_that_follows() {
    let device = sim();
    let (known, scalars) = known::<G1Projective>(64);
    let bases = Bases::<G1Projective>::trusted(&device, known.points()).expect("bases");
    for strategy in STRATEGIES {
        let config = MsmConfig { strategy, ..MsmConfig::batches(4) };
        let mut product = Msm::<G1Projective, BigInt<4>>::new(&bases, &config).expect("a plan");
        let good: Vec<_> = scalars.iter().map(|scalar| scalar.into_bigint()).collect();
        let mut bad = good.clone();
        bad[63] = Fr::MODULUS;
        product.run(&bad).expect_err("not below the order");
        assert_eq!(product.run(&good).expect("a product"), known.product(&scalars), "{strategy}");
    }
}
