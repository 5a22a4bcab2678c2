//! Faults that multi-scalar multiplications of this field have really had, section A of `cases.md` beside this crate: each
//! test has the number of its row. Every product is computed in both groups, on every device, under every strategy.
//!
//! Sizes of 2^16 and more are a CUDA device's; the simulated device gets the same case scaled down.

mod common;
mod support;

use ark_bls12_381::{Fr, G1Projective, G2Projective};
use ark_ec::AffineRepr;
use ark_ff::{AdditiveGroup, BigInt, BigInteger, Field, PrimeField, UniformRand};
use common::OneKernel;
use gpu_core::{Device, DeviceBuf, DeviceKind};
use harness::STRATEGIES;
use harness::oracle::{
    BaseFlavour, KnownBases, ScalarFlavour, msm_by_arkworks, msm_by_double_and_add, random_numbers, test_seed,
};
use msm_gpu::{
    Bases, Batches, GroupKind, Msm, MsmConfig, MsmError, MsmGroup, MsmPlan, PlanError, Strategy, Table,
};
use rand_chacha::rand_core::RngCore;
use std::time::Instant;
use support::{assert_product, assert_product_on, devices, sized, ways};

/// Runs a generic case in both groups.
macro_rules! in_both_groups {
    ($($(#[$doc:meta])* $test:ident: $case:ident;)*) => {
        $($(#[$doc])* #[test]
        fn $test() {
            $case::<G1Projective>();
            $case::<G2Projective>();
        })*
    };
}

in_both_groups! {
    b1_counts_that_fill_no_warp: counts_that_fill_no_warp;
    b2_every_small_count: every_small_count;
    b4_equal_opposite_and_identity_operands: special_operands;
    b5_one_base_and_one_scalar_three_times: thrice_the_same;
    b6_pairs_that_cancel: pairs_that_cancel;
    b8_a_base_and_its_negation_64_times: repeated_negations;
    b9_a_bucket_that_cancels_beside_a_full_one: cancelling_bucket;
    b10_one_identity_among_the_bases: one_identity;
    b12_identities_between_bases: identities_between_bases;
    b13_every_flavour_in_both_groups: every_flavour;
    b14_a_product_is_the_sum_of_its_parts: sum_of_parts;
    b16_windows_that_divide_the_scalar: dividing_windows;
    b18_integers_from_the_order_up: integers_from_the_order_up;
    b20_digits_that_are_all_negative: negative_digits;
    b22_windows_of_zeros_alone: windows_of_zeros;
    b24_large_counts: large_counts;
    b25_skewed_scalars: skewed_scalars;
    b26_one_bucket_takes_all_and_the_next_product_is_right: one_bucket_takes_all;
    b28_powers_of_two_and_their_neighbours: powers_and_neighbours;
    b29_bases_and_scalars_that_are_zero_in_turn: zero_in_turn;
    b34_the_scalar_s_form_is_its_type: form_is_type;
    b36_zero_coordinates_are_the_identity: zero_coordinates;
}

fn times<G: MsmGroup>(scalar: Fr) -> G {
    G::generator() * scalar
}

fn affine<G: MsmGroup>(multiple: i64) -> G::Affine {
    times::<G>(Fr::from(multiple)).into_affine()
}

/// iG for i from `first`.
fn multiples<G: MsmGroup>(first: u64, count: usize) -> Vec<G::Affine> {
    KnownBases::<G>::progression(Fr::from(first), Fr::ONE, count).points().to_vec()
}

/// n bases G with scalars 1 to n: n(n+1)/2 G.
fn assert_triangle<G: MsmGroup>(device: &Device, n: u64, ways: &[(u32, Strategy)]) {
    let points = vec![affine::<G>(1); n as usize];
    let scalars: Vec<Fr> = (1..=n).map(Fr::from).collect();
    let expected = times::<G>(Fr::from(n * (n + 1) / 2));
    assert_product_on::<G>(device, ways, None, "triangle", &points, &scalars, expected);
}

fn counts_that_fill_no_warp<G: MsmGroup>() {
    for device in devices() {
        for n in (1..71).chain([127, 128, 129, 237, 255, 257, 511, 513, 1023, 1025]) {
            // Two of the ways, in turn, but for the count of the report.
            let ways = ways(n as usize);
            let first = n as usize % (ways.len() - 1);
            let some = if n == 237 { &ways[..] } else { &ways[first..first + 2] };
            assert_triangle::<G>(&device, n, some);
        }
        for n in [32_767, 32_769] {
            assert_triangle::<G>(&device, n, &[(3, Strategy::Deferred { buffers: 2 })]);
        }
    }
    assert_eq!(times::<G>(Fr::from(237 * 238 / 2)), times::<G>(Fr::from(28_203)));
}

/// Device memory is poisoned before a run on the simulated device, so a row that nobody wrote is no point.
///
/// The simulated device takes three times as long for G2: beyond 130 points it gets one count in eleven there.
fn every_small_count<G: MsmGroup>() {
    for device in devices() {
        let is_slow = G::KIND == GroupKind::G2 && device.info().kind == DeviceKind::Sim;
        for n in (0..=1024_u64).filter(|n| !is_slow || *n <= 130 || n % 11 == 1024 % 11) {
            // Each count in one way; the ways take turns.
            let ways = ways(n as usize);
            assert_triangle::<G>(&device, n, &[ways[n as usize % ways.len()]]);
        }
    }
}

/// The kernels' own additions are compared one by one in `field_laws`.
fn special_operands<G: MsmGroup>() {
    let seed = test_seed();
    let random = G::rand(&mut random_numbers(seed, "b4")).into_affine();
    let identity = G::Affine::default();
    for p in [affine::<G>(1), affine::<G>(977), random] {
        let minus = (-p.into_group()).into_affine();
        let cases = [(p, p, 2), (p, minus, 0), (identity, p, 1), (p, identity, 1), (identity, identity, 0)];
        for (a, b, sum) in cases {
            for scalar in [Fr::ONE, -Fr::ONE, Fr::from(0x1234_5678_9abc_u64)] {
                let expected = p * (scalar * Fr::from(sum));
                assert_product::<G>("two operands", &[a, b], &[scalar; 2], expected);
            }
        }
    }
}

fn thrice_the_same<G: MsmGroup>() {
    let cases = [(-Fr::from(2), -Fr::from(6)), (-Fr::ONE / Fr::from(2), -Fr::from(3) / Fr::from(2))];
    for (scalar, sum) in cases {
        assert_product::<G>("thrice", &[affine::<G>(1); 3], &[scalar; 3], times::<G>(sum));
    }
    // (r - 1) / 2 as an integer is -1/2 in the field, and (r - 3) / 2 is -3/2.
    let mut half = Fr::MODULUS;
    half.div2();
    assert_eq!(Fr::from_bigint(half), Some(-Fr::ONE / Fr::from(2)));
}

fn shuffle<T>(items: &mut [T], rng: &mut impl RngCore) {
    for i in (1..items.len()).rev() {
        items.swap(i, (rng.next_u64() % (i as u64 + 1)) as usize);
    }
}

fn pairs_that_cancel<G: MsmGroup>() {
    let seed = test_seed();
    for device in devices() {
        let pairs = sized(&device, 4096, 1024);
        let mut rng = random_numbers(seed, "b6");
        let points = KnownBases::<G>::generate(BaseFlavour::Random, pairs, &mut rng).points().to_vec();
        let scalars = ScalarFlavour::Uniform.generate(pairs, &mut rng);
        let minus = |point: &G::Affine| (-point.into_group()).into_affine();
        let negated_bases = points.iter().map(minus).zip(scalars.iter().copied());
        let negated_scalars = points.iter().copied().zip(scalars.iter().map(|scalar| -*scalar));
        for negated in [negated_bases.collect::<Vec<_>>(), negated_scalars.collect()] {
            let mut items: Vec<_> =
                points.iter().copied().zip(scalars.iter().copied()).chain(negated).collect();
            shuffle(&mut items, &mut rng);
            let (points, scalars): (Vec<_>, Vec<_>) = items.into_iter().unzip();
            let ways = ways(points.len());
            assert_product_on::<G>(&device, &ways, None, "cancelling pairs", &points, &scalars, G::zero());
        }
    }
}

fn repeated_negations<G: MsmGroup>() {
    let points: Vec<_> = (0..128).map(|i| affine::<G>(if i % 2 == 0 { 1 } else { -1 })).collect();
    for device in devices() {
        Bases::<G>::new(&device, &points).expect("repeated and negated bases are bases");
    }
    assert_product::<G>("G and -G", &points, &[Fr::from(5); 128], G::zero());
}

fn cancelling_bucket<G: MsmGroup>() {
    let mut points = vec![affine::<G>(7), affine::<G>(-7)];
    points.extend(multiples::<G>(100, 40));
    let scalars: Vec<Fr> = (0..42).map(|i| Fr::from(if i < 2 { 3 } else { 5 })).collect();
    let sum = (100..140).sum::<u64>() * 5;
    assert_product::<G>("P, -P, then 40", &points, &scalars, times::<G>(Fr::from(sum)));
    let (points, scalars): (Vec<_>, Vec<_>) = points.into_iter().zip(scalars).rev().unzip();
    assert_product::<G>("40, then -P, P", &points, &scalars, times::<G>(Fr::from(sum)));
}

fn one_identity<G: MsmGroup>() {
    let mut points = multiples::<G>(1, 64);
    points[17] = G::Affine::default();
    assert_product::<G>("one identity", &points, &[Fr::from(3); 64], times::<G>(Fr::from(6186)));
    points.fill(G::Affine::default());
    assert_product::<G>("identities", &points, &[Fr::from(3); 64], G::zero());
}

fn identities_between_bases<G: MsmGroup>() {
    let identity = G::Affine::default();
    let points = [identity, affine::<G>(1), identity, affine::<G>(2)];
    assert_product::<G>("O G O 2G", &points, &[Fr::from(7); 4], times::<G>(Fr::from(21)));
    let scalar = -Fr::from(7);
    for device in devices() {
        let bases = Bases::<G>::trusted(&device, &points).expect("bases");
        for columns in [2, 16, 32] {
            let bases = bases.with_table(Table { window_bits: 8, columns }).expect("a table");
            let mut msm = Msm::<G, Fr>::new(&bases, &MsmConfig::batches(2)).expect("a plan");
            let product = msm.run(&[scalar; 4]).expect("a product");
            assert_eq!(product, times::<G>(scalar * Fr::from(3)), "{columns} columns");
        }
    }
}

fn every_flavour<G: MsmGroup>() {
    let seed = test_seed();
    for base_flavour in BaseFlavour::ALL {
        for flavour in ScalarFlavour::ALL {
            let mut rng = random_numbers(seed, "b13");
            let known = KnownBases::<G>::generate(base_flavour, 97, &mut rng);
            let scalars = flavour.generate(97, &mut rng);
            let expected = msm_by_arkworks::<G>(known.points(), &scalars);
            assert_product::<G>(&format!("{flavour}, {base_flavour}"), known.points(), &scalars, expected);
        }
    }
}

fn sum_of_parts<G: MsmGroup>() {
    let seed = test_seed();
    for device in devices() {
        for n in [sized(&device, 24_000, 6_000), sized(&device, 65_537, 8_193)] {
            let mut rng = random_numbers(seed, "b14");
            let known = KnownBases::<G>::generate(BaseFlavour::Random, n, &mut rng);
            let scalars = ScalarFlavour::Uniform.generate(n, &mut rng);
            let cut = 1 + rng.next_u64() as usize % (n - 1);
            let product = |from: usize, to: usize| {
                let bases = Bases::<G>::trusted(&device, &known.points()[from..to]).expect("bases");
                let mut msm = Msm::<G, Fr>::new(&bases, &MsmConfig::default()).expect("a plan");
                msm.run(&scalars[from..to]).expect("a product")
            };
            let (whole, sum) = (product(0, n), product(0, cut) + product(cut, n));
            assert_eq!(whole, sum, "{n} points cut at {cut} on {}", device.info().id);
            assert_eq!(whole, known.product(&scalars), "{n} points on {}", device.info().id);
        }
    }
}

/// Windows of 2, 4, 8 and 16 bits divide 256; 3, 5, 15 and 17 are those whose last carry a scalar of 255 bits reaches.
fn dividing_windows<G: MsmGroup>() {
    let seed = test_seed();
    let mut rng = random_numbers(seed, "b16");
    let known = KnownBases::<G>::generate(BaseFlavour::Random, 66, &mut rng);
    let mut scalars = ScalarFlavour::Uniform.generate(66, &mut rng);
    scalars[0] = -Fr::ONE;
    scalars[1] = Fr::from(2).pow([254]);
    let expected = known.product(&scalars);
    for device in devices() {
        for bits in [2, 3, 4, 5, 8, 15, 16, 17] {
            // Wide windows have many buckets: two ways of the five are enough for the slow device.
            let ways = if bits < 10 { ways(66) } else { ways(66)[1..3].to_vec() };
            assert_product_on::<G>(&device, &ways, Some(bits), "windows", known.points(), &scalars, expected);
        }
        let bases = Bases::<G>::trusted(&device, known.points()).expect("bases");
        for window_bits in [0, 1, 25, 32] {
            let config = MsmConfig { window_bits: Some(window_bits), ..MsmConfig::default() };
            let refused = Msm::<G, Fr>::new(&bases, &config).expect_err("no such window");
            assert!(matches!(refused, MsmError::Plan(PlanError::WindowBits { .. })), "{refused}");
        }
    }
}

/// A plain integer from r up is refused with its index, and reduced where that is asked for.
fn integers_from_the_order_up<G: MsmGroup>() {
    let mut order_and_one = Fr::MODULUS;
    order_and_one.add_with_carry(&BigInt::from(1_u64));
    let mut twice_less_one = Fr::MODULUS;
    twice_less_one.mul2();
    twice_less_one.sub_with_borrow(&BigInt::from(1_u64));
    let (two_to_255, largest) = (BigInt([0, 0, 0, 1 << 63]), BigInt([u64::MAX; 4]));
    // 2^255 mod r and (2^256 - 1) mod r, from most to least significant.
    let rest_of_2_to_255 =
        BigInt([0x0000_0000_ffff_ffff, 0xac42_5bfd_0001_a401, 0xccc6_27f7_f65e_27fa, 0x0c12_58ac_d662_82b7]);
    let rest_of_largest =
        BigInt([0x0000_0001_ffff_fffd, 0x5884_b7fa_0003_4802, 0x998c_4fef_ecbc_4ff5, 0x1824_b159_acc5_056f]);
    let rest = |integer| Fr::from_bigint(integer).expect("below the order");
    let cases = [
        (Fr::MODULUS, Fr::ZERO),
        (order_and_one, Fr::ONE),
        (twice_less_one, -Fr::ONE),
        (two_to_255, rest(rest_of_2_to_255)),
        (largest, rest(rest_of_largest)),
    ];
    for device in devices() {
        let bases = Bases::<G>::trusted(&device, &[affine::<G>(1); 2]).expect("bases");
        let mut plain = Msm::<G, BigInt<4>>::new(&bases, &MsmConfig::batches(2)).expect("a plan");
        let mut field = Msm::<G, Fr>::new(&bases, &MsmConfig::batches(2)).expect("a plan");
        for (raw, expected) in cases {
            let refused = plain.run(&[BigInt::from(0_u64), raw]).expect_err("not below the order");
            assert!(matches!(refused, MsmError::ScalarNotReduced { index: 1 }), "{raw}: {refused}");
            let product = field.run(&msm_gpu::reduced(&[BigInt::from(0_u64), raw])).expect("a product");
            assert_eq!(product, times::<G>(expected), "{raw} on {}", device.info().id);
        }
        let largest_scalar = (-Fr::ONE).into_bigint();
        let product = plain.run(&[largest_scalar; 2]).expect("r - 1 is below the order");
        assert_eq!(product, times::<G>(-Fr::from(2)));
    }
}

/// In windows of 4 bits the scalar 0x0EE..EF is -1 in all windows but the last.
fn negative_digits<G: MsmGroup>() {
    let mut limbs = [0xeeee_eeee_eeee_eeee_u64; 4];
    limbs[0] |= 1;
    limbs[3] &= u64::MAX >> 4;
    let scalar = Fr::from_bigint(BigInt(limbs)).expect("below the order");
    let points = multiples::<G>(1, 100);
    let expected = times::<G>(scalar * Fr::from(5050));
    for device in devices() {
        assert_product_on::<G>(&device, &ways(100), Some(4), "0x0EE..EF", &points, &[scalar; 100], expected);
    }
}

/// Nearly all scalars are 1, so that every window has nothing but zeros, but for ten digits in one.
fn windows_of_zeros<G: MsmGroup>() {
    for device in devices() {
        let n = match G::KIND {
            GroupKind::G1 => sized(&device, 1 << 22, 1 << 15),
            GroupKind::G2 => sized(&device, 1 << 20, 1 << 13),
        };
        let (window_bits, window) = (10, 3);
        let other = Fr::from(1_u64 << (window_bits * window));
        let mut scalars = vec![Fr::ONE; n];
        for i in 0..10 {
            scalars[i * (n / 10)] = other;
        }
        let expected = times::<G>(Fr::from(n as u64 - 10) + other * Fr::from(10));
        let points = vec![affine::<G>(1); n];
        let ways = &ways(n)[1..];
        assert_product_on::<G>(&device, ways, Some(window_bits), "ones", &points, &scalars, expected);
    }
}

fn large_counts<G: MsmGroup>() {
    let seed = test_seed();
    for device in devices() {
        let n = match G::KIND {
            GroupKind::G1 => sized(&device, (1 << 24) + 3, (1 << 15) + 3),
            GroupKind::G2 => sized(&device, (1 << 20) + 3, (1 << 12) + 3),
        };
        let mut rng = random_numbers(seed, "b24");
        let few = KnownBases::<G>::generate(BaseFlavour::Random, 1 << 10, &mut rng);
        let pairs = few.points().iter().copied().zip(few.logs().iter().copied());
        let known: KnownBases<G> = pairs.cycle().take(n).collect();
        let scalars = ScalarFlavour::Uniform.generate(n, &mut rng);
        let (ways, expected) = ([(3, STRATEGIES[1])], known.product(&scalars));
        assert_product_on::<G>(&device, &ways, None, "many", known.points(), &scalars, expected);
    }
}

/// Wall time of the fastest of three runs, in microseconds.
fn fastest_us<G: MsmGroup>(bases: &Bases<G>, scalars: &[Fr]) -> f64 {
    let mut msm = Msm::<G, Fr>::new(bases, &MsmConfig::default()).expect("a plan");
    let run = |_| {
        let start = Instant::now();
        msm.run(scalars).expect("a product");
        start.elapsed().as_secs_f64() * 1e6
    };
    (0..3).map(run).fold(f64::INFINITY, f64::min)
}

/// Right for every skew; on a CUDA device also at most five times as slow as uniform scalars.
fn skewed_scalars<G: MsmGroup>() {
    let seed = test_seed();
    let flavours = [
        ScalarFlavour::Zeros,
        ScalarFlavour::Ones,
        ScalarFlavour::MinusOnes,
        ScalarFlavour::WitnessLike,
        ScalarFlavour::AllEqual,
        ScalarFlavour::Small,
    ];
    for device in devices() {
        let n = sized(&device, 1 << 16, 1 << 12);
        let mut rng = random_numbers(seed, "b25");
        let known = KnownBases::<G>::progression(Fr::ONE, Fr::ONE, n);
        let bases = Bases::<G>::trusted(&device, known.points()).expect("bases");
        let uniform = ScalarFlavour::Uniform.generate(n, &mut rng);
        let uniform_us = fastest_us(&bases, &uniform);
        for flavour in flavours {
            let scalars = flavour.generate(n, &mut rng);
            let (what, expected) = (flavour.to_string(), known.product(&scalars));
            assert_product_on::<G>(&device, &ways(n), None, &what, known.points(), &scalars, expected);
            if device.info().kind == DeviceKind::Cuda {
                let us = fastest_us(&bases, &scalars);
                assert!(us < 5.0 * uniform_us, "{flavour}: {us} us, uniform {uniform_us} us");
            }
        }
    }
}

/// The same digit in every window of every scalar; then a random product with the same memory.
fn one_bucket_takes_all<G: MsmGroup>() {
    let seed = test_seed();
    let scalar = Fr::from_bigint(BigInt([0x1111_1111_1111_1111; 4])).expect("below the order");
    for device in devices() {
        let n = sized(&device, 1 << 18, 1 << 13);
        let mut rng = random_numbers(seed, "b26");
        let known = KnownBases::<G>::generate(BaseFlavour::Random, n, &mut rng);
        let bases = Bases::<G>::trusted(&device, known.points()).expect("bases");
        let random = ScalarFlavour::Uniform.generate(n, &mut rng);
        let hot = vec![scalar; n];
        for strategy in STRATEGIES {
            let config = MsmConfig {
                batches: Batches::Count(5),
                strategy,
                window_bits: Some(8),
                ..MsmConfig::default()
            };
            let mut msm = Msm::<G, Fr>::new(&bases, &config).expect("a plan");
            for scalars in [&hot, &random] {
                let product = msm.run(scalars).expect("a product");
                assert_eq!(product, known.product(scalars), "{strategy} on {}", device.info().id);
            }
        }
    }
}

fn powers_and_neighbours<G: MsmGroup>() {
    for device in devices() {
        for log_n in 0..=14_u32 {
            for n in [(1_u64 << log_n) - 1, 1 << log_n, (1 << log_n) + 1] {
                let ways = ways(n as usize);
                assert_triangle::<G>(&device, n, &[ways[log_n as usize % ways.len()]]);
            }
        }
    }
}

/// A key's query where some bases are missing, against a witness where others are zero.
fn zero_in_turn<G: MsmGroup>() {
    let seed = test_seed();
    let mut rng = random_numbers(seed, "b29");
    let known = KnownBases::<G>::generate(BaseFlavour::Random, 200, &mut rng);
    let identity = (G::Affine::default(), Fr::ZERO);
    let pairs = known.points().iter().copied().zip(known.logs().iter().copied());
    let sparse: KnownBases<G> =
        pairs.enumerate().map(|(i, pair)| if i % 2 == 0 { identity } else { pair }).collect();
    let mut scalars = ScalarFlavour::Uniform.generate(200, &mut rng);
    for scalar in scalars.iter_mut().skip(1).step_by(4) {
        *scalar = Fr::ZERO;
    }
    let expected = msm_by_double_and_add::<G>(sparse.points(), &scalars);
    assert_eq!(expected, sparse.product(&scalars));
    assert_product::<G>("zero in turn", sparse.points(), &scalars, expected);
}

/// The same scalars as field elements and as plain integers give the same point; no flag can be wrong.
fn form_is_type<G: MsmGroup>() {
    let seed = test_seed();
    let mut rng = random_numbers(seed, "b34");
    let known = KnownBases::<G>::generate(BaseFlavour::Random, 50, &mut rng);
    let scalars = ScalarFlavour::WitnessLike.generate(50, &mut rng);
    let plain: Vec<BigInt<4>> = scalars.iter().map(|scalar| scalar.into_bigint()).collect();
    // What a mix-up would give: the Montgomery form taken for an integer.
    let mixed_up: Vec<Fr> = scalars.iter().map(|scalar| *scalar * Fr::from(2).pow([256])).collect();
    assert_ne!(known.product(&scalars), known.product(&mixed_up));
    for device in devices() {
        let bases = Bases::<G>::trusted(&device, known.points()).expect("bases");
        for strategy in STRATEGIES {
            let config = MsmConfig { strategy, ..MsmConfig::batches(5) };
            let field = Msm::<G, Fr>::new(&bases, &config).and_then(|mut msm| msm.run(&scalars));
            let integers = Msm::<G, BigInt<4>>::new(&bases, &config).and_then(|mut msm| msm.run(&plain));
            let expected = known.product(&scalars);
            assert_eq!(field.expect("a product"), expected, "{strategy}");
            assert_eq!(integers.expect("a product"), expected, "{strategy}");
        }
    }
}

fn zero_coordinates<G: MsmGroup>() {
    let zero = G::Affine::default();
    assert_eq!(gpu_core::layout::bytes_of(&[zero]), vec![0; size_of::<G::Affine>()]);
    assert_product::<G>("(0, 0)", &[zero, affine::<G>(1)], &[Fr::from(9); 2], times::<G>(Fr::from(9)));
    for device in devices() {
        assert!(Bases::<G>::new(&device, &[zero]).is_ok(), "the identity is a base");
    }
}

/// The scalars that the digits of a kernel stand for, in windows of so many bits each.
fn recomposed(digits: &[u32], n: usize, widths: &[u32]) -> Vec<Fr> {
    let digit = |word: u32| {
        let size = Fr::from(word & !(1 << 31));
        if word >> 31 == 1 { -size } else { size }
    };
    let of = |i: usize| {
        let windows = widths.iter().enumerate().rev();
        let sum = windows
            .fold(Fr::ZERO, |sum, (k, width)| sum * Fr::from(1_u64 << width) + digit(digits[k * n + i]));
        sum + digit(digits[widths.len() * n + i])
    };
    (0..n).map(of).collect()
}

/// Recodes scalars on each device in windows of every width, equal ones and such as fit best, and holds the digits to their
/// law.
fn assert_recoding(scalars: impl Fn(u32) -> Vec<Fr>) {
    for device in devices() {
        device.load(&[&msm_gpu::modules::MSM_DIGITS]).expect("the module loads");
        for window_bits in 2..=20 {
            let scalars = scalars(window_bits);
            let plain: Vec<BigInt<4>> = scalars.iter().map(|scalar| scalar.into_bigint()).collect();
            let (n, window_count) = (scalars.len(), 256_u32.div_ceil(window_bits));
            let rows = window_count as usize + 1;
            let narrow_max = (window_count * window_bits - 256).min(window_count - 1);
            for wide in [window_count - narrow_max, window_count] {
                let place = format!("{window_bits} bits, {wide} of {window_count} windows");
                let digits =
                    DeviceBuf::from_slice(&device, "digits", &vec![u32::MAX; rows * n]).expect("digits");
                let input = DeviceBuf::from_slice(&device, "scalars", &plain).expect("scalars");
                let launch = OneKernel::new(&device, "msm_recode_digits").write(&digits).read(&input);
                let numbers = [n as u32, window_bits, window_count, wide];
                numbers.into_iter().fold(launch, OneKernel::u32).run(n, 256).expect("a launch");
                let digits = digits.to_vec().expect("digits");
                let widths: Vec<u32> =
                    (0..window_count).map(|k| window_bits - u32::from(k >= wide)).collect();
                for (row, width) in digits.chunks_exact(n).zip(&widths) {
                    assert!(row.iter().all(|digit| digit & !(1 << 31) <= 1 << (width - 1)), "{place}");
                }
                assert_eq!(recomposed(&digits, n, &widths), scalars, "{place}");
            }
        }
    }
}

#[test]
fn b17_signed_digits_of_every_width() {
    let seed = test_seed();
    assert_recoding(|bits| {
        let mut rng = random_numbers(seed, "b17");
        let mut scalars = vec![-Fr::ONE, Fr::from(2).pow([254]), Fr::ZERO, Fr::ONE, Fr::from(2)];
        // Digits that are all half, and all half and one: each carries into the next.
        for value in [1_u64 << (bits - 1), (1 << (bits - 1)) + 1] {
            let window = Fr::from(1_u64 << bits);
            scalars.push((0..254 / bits).fold(Fr::ZERO, |sum, _| sum * window + Fr::from(value)));
        }
        scalars.extend(ScalarFlavour::HalfDigits(bits).generate(100, &mut rng));
        scalars.extend(ScalarFlavour::Uniform.generate(100, &mut rng));
        scalars
    });
}

#[test]
fn b33_digits_across_the_edges_of_limbs() {
    let seed = test_seed();
    let patterns = [
        BigInt([u64::MAX, u64::MAX, u64::MAX, u64::MAX >> 2]),
        BigInt([0xaaaa_aaaa_aaaa_aaaa, 0xaaaa_aaaa_aaaa_aaaa, 0xaaaa_aaaa_aaaa_aaaa, 0x2aaa_aaaa_aaaa_aaaa]),
        BigInt([0xffff_ffff << 16, 0, 0, 0]),
        BigInt([u64::MAX << 32, u64::MAX >> 32, 0, 0]),
        BigInt([0, u64::MAX, 0, 1]),
    ];
    assert_recoding(|_| {
        let ones = (0..254).map(|bit| Fr::from(2).pow([bit]));
        let fixed = patterns.iter().map(|pattern| Fr::from_bigint(*pattern).expect("below the order"));
        let mut rng = random_numbers(seed, "b33");
        ones.chain(fixed).chain((0..64).map(|_| Fr::rand(&mut rng))).collect()
    });
}

#[test]
fn b30_windows_and_batches_cover_exactly() {
    let limits = msm_gpu::DeviceLimits {
        free_bytes: u64::MAX,
        resident_threads: 1 << 18,
        costs: msm_gpu::Costs::SM_90,
    };
    for window_bits in 2..=20 {
        for batches in 1..=8 {
            for base_count in [8, 9, 1000, (1 << 20) + 7] {
                let config = MsmConfig { window_bits: Some(window_bits), ..MsmConfig::batches(batches) };
                let form = msm_gpu::ScalarForm::Montgomery;
                let plan = MsmPlan::new(GroupKind::G1, form, base_count, &config, &limits).expect("a plan");
                let (last, end) =
                    [plan.window_count - 1, plan.window_count].map(|k| plan.window_start(k)).into();
                assert!(last < 256 && end >= 256, "{window_bits} bits: {last}, {end}");
                let mut next = 0;
                for batch in 0..batches {
                    let range = plan.batch(batch);
                    assert_eq!(range.start, next, "batch {batch} of {batches} of {base_count}");
                    assert!((1..=plan.batch_len_max()).contains(&(range.end - range.start)));
                    next = range.end;
                }
                assert_eq!(next, base_count);
            }
        }
    }
}
