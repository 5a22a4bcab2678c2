//! Kernels of products one by one, against arkworks and slow twins: rounds of pairs, multiples of bases, and the sort of
//! more digits than a tile has. Whole products are in `msm_cases` and `msm_properties`.

mod common;
mod support;

use ark_bls12_381::{Fr, G1Projective, G2Projective, g1, g2};
use ark_ec::AffineRepr;
use ark_ec::short_weierstrass::{Affine, SWCurveConfig};
use ark_ff::{AdditiveGroup, Field, UniformRand, Zero};
use common::OneKernel;
use common::sort::{SIGN_BIT, TILE, Way, assert_sorted};
use gpu_core::{Device, DeviceBuf, Xyzz, sim};
use harness::oracle::{random_numbers, test_seed};
use msm_gpu::MsmGroup;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::RngCore;
use std::collections::BTreeMap;
use support::devices;

/// Threads of a block of the kernels of rounds, and of the inversion.
const THREADS: u32 = 128;
const INVERT_THREADS: u32 = 64;
/// An entry that stands for the identity.
const NO_POINT: u32 = u32::MAX;

fn kernel<G: MsmGroup>(stem: &str) -> String {
    format!("{stem}_{}", G::KIND.word())
}

/// A point of the curve whose x is zero, if there is one: a coordinate that is zero, of a point that is not the identity.
/// It is not of the group, and the formulas do not ask.
fn zero_x<C: SWCurveConfig>() -> Option<Affine<C>> {
    Affine::get_point_from_x_unchecked(C::BaseField::ZERO, false)
}

/// Points of which neighbours are often equal, often opposite and often the identity.
fn crowded<G: MsmGroup>(rng: &mut ChaCha20Rng, odd: Option<G::Affine>, n: usize) -> Vec<G::Affine> {
    let few: Vec<G::Affine> = (0..2).map(|_| G::rand(rng).into_affine()).collect();
    let minus = |point: G::Affine| (-point.into_group()).into_affine();
    let mut point = || match rng.next_u32() % 10 {
        0 => G::Affine::default(),
        kind @ 1..=2 => few[kind as usize - 1],
        kind @ 3..=4 => minus(few[kind as usize - 3]),
        5 => odd.unwrap_or_default(),
        6 => odd.map(minus).unwrap_or_default(),
        _ => G::rand(rng).into_affine(),
    };
    (0..n).map(|_| point()).collect()
}

/// A round: what there is of a slice, and who adds it.
#[derive(Debug, Clone, Copy)]
struct Round {
    /// Pairs before the slice, and pairs that fit into it.
    first: usize,
    count: usize,
    /// Entries that there are, of all slices.
    entries: usize,
    threads: usize,
    invert_threads: usize,
}

impl Round {
    /// Pairs of the slice that there are.
    fn pairs(&self, round: u32) -> usize {
        (self.entries >> (round + 1)).saturating_sub(self.first).min(self.count)
    }
}

/// What a thread's kernels know of their items.
enum Items<'a, G: MsmGroup> {
    Entries { bases: &'a DeviceBuf<G::Affine>, entries: &'a DeviceBuf<u32> },
    Points { points: &'a DeviceBuf<G::Coord>, round: u32 },
}

/// Forward, inversion, backward, as a schedule launches them; each held to its law on the way.
fn add_pairs<G: MsmGroup>(
    device: &Device,
    items: &Items<'_, G>,
    round: &Round,
    is_last: bool,
) -> Vec<G::Coord> {
    let Round { first, count, threads, invert_threads, entries } = *round;
    // Only the last offset is read: how many entries there are.
    let offsets = DeviceBuf::from_slice(device, "offsets", &[7, 7, 7, entries as u32]).expect("offsets");
    let poison = G::Coord::from(0xdead_u64);
    let buffer =
        |name: &str, len: usize| DeviceBuf::from_slice(device, name, &vec![poison; len]).expect("a buffer");
    let (prefixes, totals) = (buffer("prefixes", count), buffer("totals", threads));
    let sums = buffer("sums", 2 * count);
    let (stem, number) = match items {
        Items::Entries { .. } => ("entries", 0),
        Items::Points { round, .. } => ("points", *round),
    };
    let launch = |name: &str, outputs: &dyn Fn(OneKernel) -> OneKernel, last: Option<u32>| {
        let name = kernel::<G>(&format!("msm_pair_{stem}_{name}"));
        let launch = outputs(OneKernel::new(device, &name));
        let launch = match items {
            Items::Entries { bases, entries } => launch.read(bases).read(entries).read(&offsets).u32(3),
            Items::Points { points, round } => launch.read(points).read(&offsets).u32(3).u32(*round),
        };
        let launch = launch.u32(first as u32).u32(count as u32).u32(threads as u32);
        let launch = last.into_iter().fold(launch, OneKernel::u32);
        launch.run(threads, THREADS).unwrap_or_else(|error| panic!("{name}: {error}"));
    };
    launch("forward", &|launch| launch.write(&prefixes).write(&totals), None);
    let before = totals.to_vec().expect("totals");
    assert!(before.iter().all(|total| !total.is_zero()), "no product is zero: {round:?}");
    // The first pair of a thread has nothing before it; a thread without pairs has the product of none.
    let found = prefixes.to_vec().expect("prefixes");
    let pairs = round.pairs(number);
    assert!(found[..pairs.min(threads)].iter().all(|prefix| *prefix == G::Coord::ONE), "{round:?}");
    assert!(before[pairs.min(threads)..].iter().all(|total| *total == G::Coord::ONE), "{round:?}");
    assert!(found[pairs..].iter().all(|prefix| *prefix == poison), "nothing beyond the pairs: {round:?}");
    invert::<G>(device, &totals, invert_threads);
    let last = Some(is_last.into());
    launch("backward", &|launch| launch.write(&sums).read(&prefixes).read(&totals), last);
    sums.to_vec().expect("sums")
}

fn invert<G: MsmGroup>(device: &Device, totals: &DeviceBuf<G::Coord>, threads: usize) {
    let before = totals.to_vec().expect("totals");
    let launch = OneKernel::new(device, &kernel::<G>("msm_invert_totals")).write(totals);
    let launch = launch.u32(before.len() as u32).u32(threads as u32);
    launch.run(threads, INVERT_THREADS).expect("msm_invert_totals");
    for (index, (before, after)) in before.iter().zip(totals.to_vec().expect("totals")).enumerate() {
        assert_eq!(before.inverse().expect("not zero"), after, "{index} of {}", totals.len());
    }
}

/// The coordinates of a point, (0, 0) for the identity.
fn coordinates<C: SWCurveConfig>(point: &Affine<C>) -> [C::BaseField; 2] {
    point.xy().map_or([C::BaseField::ZERO; 2], |(x, y)| [x, y])
}

/// One round of entries, and a second of what it left: every sum is arkworks', and nothing is written beyond them.
fn rounds_of_pairs<G, C>()
where
    C: SWCurveConfig<BaseField = G::Coord>,
    G: MsmGroup<Affine = Affine<C>>,
{
    let rng = &mut random_numbers(test_seed(), "pairs");
    let odd = zero_x::<C>();
    // Pairs of the first round before the slice and in it, entries in all, threads: fewer pairs than threads, as many,
    // many more; a slice that is full, one that is not, one that is empty, and none at all.
    let cases = [
        (0, 4, 8, 1, 1),
        (0, 6, 12, 40, 5),
        (0, 64, 128, 64, 4),
        (0, 300, 600, 17, 2),
        (0, 302, 452, 31, 2),
        (20, 100, 240, 33, 33),
        (20, 100, 140, 33, 3),
        (20, 100, 40, 16, 1),
        (0, 10, 0, 3, 1),
    ];
    for device in devices() {
        device.load(&[G::MODULES[0]]).expect("the module loads");
        for (first, count, entries, threads, invert_threads) in cases {
            let round = Round { first, count, entries, threads, invert_threads };
            let points = crowded::<G>(rng, odd, 50);
            let bases = DeviceBuf::from_slice(&device, "bases", &points).expect("bases");
            // Entries of the slice alone; beyond those that there are, anything.
            let mut words: Vec<u32> = (0..2 * count).map(|_| rng.next_u32()).collect();
            let mut items = vec![G::zero(); 2 * round.pairs(0)];
            for (index, item) in items.iter_mut().enumerate() {
                let word = rng.next_u32();
                let base = (word >> 8) as usize % points.len();
                // Of a pair, the second is often the first again, or its negative.
                let (entry, point) = match word % 8 {
                    0 => (NO_POINT, G::zero()),
                    1..=2 if index % 2 == 1 && words[index - 1] != NO_POINT => {
                        let entry = words[index - 1] ^ (word & SIGN_BIT);
                        let point: G = points[(entry & !SIGN_BIT) as usize].into();
                        (entry, if entry & SIGN_BIT == 0 { point } else { -point })
                    }
                    3..=4 => (base as u32 | SIGN_BIT, -G::from(points[base])),
                    _ => (base as u32, points[base].into()),
                };
                (words[index], *item) = (entry, point);
            }
            let entries = DeviceBuf::from_slice(&device, "entries", &words).expect("entries");
            let source = Items::Entries { bases: &bases, entries: &entries };
            let sums = |items: &[G]| -> Vec<G::Affine> {
                items.chunks_exact(2).map(|pair| (pair[0] + pair[1]).into_affine()).collect()
            };
            let expected = sums(&items);
            let found = add_pairs::<G>(&device, &source, &round, true);
            let what = format!("{} on {}: {round:?}", kernel::<G>("entries"), device.info().id);
            for (p, point) in expected.iter().enumerate() {
                assert_eq!(found[2 * p..2 * p + 2], coordinates(point), "{what}, pair {p}");
            }
            assert!(found[2 * expected.len()..].iter().all(|word| *word == G::Coord::from(0xdead_u64)));
            // Not the last round: all x, then all y.
            let found = add_pairs::<G>(&device, &source, &round, false);
            for (p, point) in expected.iter().enumerate() {
                assert_eq!([found[p], found[count + p]], coordinates(point), "{what}, pair {p}, planar");
            }
            // Then two and two of them.
            let planar = DeviceBuf::from_slice(&device, "points", &found).expect("points");
            let next = Round { first: first / 2, count: count / 2, ..round };
            let source = Items::Points { points: &planar, round: 1 };
            let items: Vec<G> = expected.iter().map(|point| (*point).into()).collect();
            let expected = sums(&items);
            assert_eq!(expected.len(), next.pairs(1), "{what}");
            let found = add_pairs::<G>(&device, &source, &next, true);
            for (p, point) in expected.iter().enumerate() {
                assert_eq!(found[2 * p..2 * p + 2], coordinates(point), "{what}, pair {p} of round 1");
            }
        }
        for (count, threads) in [(1, 1), (16, 1), (17, 2), (45, 3), (45, 45), (45, 64)] {
            let numbers: Vec<G::Coord> = (0..count).map(|_| G::Coord::rand(rng)).collect();
            let totals = DeviceBuf::from_slice(&device, "totals", &numbers).expect("totals");
            invert::<G>(&device, &totals, threads);
        }
    }
}

#[test]
fn a_curve_has_points_with_x_zero_where_its_constant_is_a_square() {
    // 2^2 = 4 in Fp.
    let point = zero_x::<g1::Config>().expect("(0, 2)");
    assert!(point.is_on_curve() && !point.is_in_correct_subgroup_assuming_on_curve());
    assert_eq!(zero_x::<g2::Config>().is_some(), g2::Config::COEFF_B.sqrt().is_some());
}

#[test]
fn g1_rounds_of_pairs_are_arkworks_sums() {
    rounds_of_pairs::<G1Projective, g1::Config>();
}

#[test]
fn g2_rounds_of_pairs_are_arkworks_sums() {
    rounds_of_pairs::<G2Projective, g2::Config>();
}

/// A point over a random denominator.
fn over_any_denominator<G, C>(point: &Affine<C>, rng: &mut ChaCha20Rng) -> Xyzz<G::Coord>
where
    C: SWCurveConfig<BaseField = G::Coord>,
    G: MsmGroup<Affine = Affine<C>>,
{
    let [x, y] = coordinates(point);
    let z = G::Coord::rand(rng);
    let (zz, zzz) = (z.square(), z.square() * z);
    match point.is_zero() {
        true => Xyzz { x: z, y: z, zz: G::Coord::ZERO, zzz: G::Coord::ZERO },
        false => Xyzz { x: x * zz, y: y * zzz, zz, zzz },
    }
}

/// Buckets of which neighbours are often equal, opposite or empty, to lines and bits: the sum of their weighted rows is the
/// sum of the weighted buckets, with one thread a line and with several.
fn sums_of_buckets<G, C>()
where
    C: SWCurveConfig<BaseField = G::Coord>,
    G: MsmGroup<Affine = Affine<C>>,
{
    let rng = &mut random_numbers(test_seed(), "sums of buckets");
    // Bits of a window, sets, threads of a row.
    let cases = [
        (2, 3, 1),
        (3, 2, 2),
        (4, 2, 1),
        (4, 1, 2),
        (6, 3, 4),
        (7, 2, 8),
        (9, 1, 2),
        (10, 1, 16),
        (12, 1, 32),
    ];
    for device in devices() {
        device.load(&G::MODULES).expect("the modules load");
        for (bits, sets, group) in cases {
            let (low, high) = ((bits - 1) / 2, bits - 1 - (bits - 1) / 2);
            let in_set = 1_usize << (bits - 1);
            let points = crowded::<G>(rng, None, sets * in_set + 1);
            let buckets: Vec<_> =
                points.iter().map(|point| over_any_denominator::<G, C>(point, rng)).collect();
            let buckets = DeviceBuf::from_slice(&device, "buckets", &buckets).expect("buckets");
            let poison = Xyzz { x: G::Coord::ONE, y: G::Coord::ONE, zz: G::Coord::ONE, zzz: G::Coord::ONE };
            let buffer =
                |len: usize| DeviceBuf::from_slice(&device, "sums", &vec![poison; len]).expect("sums");
            let (lines, rows) = (buffer(sets * ((1 << low) + (1 << high))), buffer(sets * bits + 1));
            let blocks = |lines: usize, threads: usize| (lines * threads).div_ceil(64);
            let threads = 64 * (blocks(1 << high, group) + blocks(1 << low, group << (high - low)));
            let launch = OneKernel::new(&device, &kernel::<G>("msm_sum_lines")).write(&lines).read(&buckets);
            let launch = launch.u32(low as u32).u32(high as u32).u32(group as u32).rows(sets as u32);
            launch.run(threads, 64).expect("msm_sum_lines");
            let launch = OneKernel::new(&device, &kernel::<G>("msm_sum_bits")).write(&rows).read(&lines);
            let launch = launch.read(&buckets).u32(sets as u32).u32(low as u32).u32(high as u32);
            let block = ((1 << high) / 2).clamp(32, 128);
            launch.rows(sets as u32 + 1).run(bits * block, block as u32).expect("msm_sum_bits");

            let rows = rows.to_vec().expect("rows");
            let what = format!("{bits} bits, {sets} sets, {group} threads, {}", device.info().id);
            for set in 0..sets {
                let found = rows[set * bits..(set + 1) * bits].iter().rev();
                let found = found.fold(G::zero(), |sum, row| sum + sum + G::from_xyzz(row));
                let weighted = points[set * in_set..(set + 1) * in_set].iter().zip(1_u64..);
                let expected: G = weighted.map(|(point, weight)| G::from(*point) * Fr::from(weight)).sum();
                assert_eq!(found, expected, "set {set}: {what}");
            }
            assert_eq!(G::from_xyzz(rows.last().expect("ones")), points[sets * in_set].into(), "{what}");
        }
    }
}

/// Both groups in one test, since the counters of branches are the process's.
#[test]
fn sums_of_buckets_are_arkworks_sums_and_take_every_branch() {
    sim::reset_coverage();
    for check in
        [sums_of_buckets::<G1Projective, g1::Config>, sums_of_buckets::<G2Projective, g2::Config> as fn()]
    {
        check();
        let counts: BTreeMap<String, u64> = sim::coverage().into_iter().collect();
        let branches = msm_gpu::modules::COVERED.iter().filter(|word| word.starts_with("point_add_by_four"));
        let missing: Vec<_> = branches.clone().filter(|word| !counts.contains_key(**word)).collect();
        assert!(branches.count() == 3 && missing.is_empty(), "{missing:?} of {counts:?}");
        sim::reset_coverage();
    }
}

/// Multiples of bases by powers of two, and affine points of any XYZZ ones.
fn multiples_of_bases<G: MsmGroup>() {
    let rng = &mut random_numbers(test_seed(), "multiples");
    for device in devices() {
        device.load(&[G::TABLE_MODULE]).expect("the module loads");
        for (n, bits, threads) in [(1, 0, 1), (2, 1, 2), (17, 13, 2), (130, 7, 9), (45, 64, 3), (31, 5, 40)] {
            let points = crowded::<G>(rng, None, n);
            let bases = DeviceBuf::from_slice(&device, "bases", &points).expect("bases");
            let zero = Xyzz { x: G::Coord::ONE, y: G::Coord::ONE, zz: G::Coord::ONE, zzz: G::Coord::ONE };
            let doubled = DeviceBuf::from_slice(&device, "doubled", &vec![zero; n]).expect("doubled");
            let launch = OneKernel::new(&device, &kernel::<G>("msm_double_bases")).write(&doubled);
            launch.read(&bases).u32(n as u32).u32(bits).run(n, THREADS).expect("msm_double_bases");
            let factor = Fr::from(2).pow([u64::from(bits)]);
            let expected: Vec<G> = points.iter().map(|point| *point * factor).collect();
            let what = format!("{n} points, {bits} bits, {} on {}", G::KIND.word(), device.info().id);
            for (index, (found, expected)) in
                doubled.to_vec().expect("sums").iter().zip(&expected).enumerate()
            {
                assert_eq!(G::from_xyzz(found), *expected, "{what}: point {index}");
            }
            let affine = DeviceBuf::from_slice(&device, "affine", &vec![G::Affine::generator(); n]);
            let affine = affine.expect("affine points");
            let launch = OneKernel::new(&device, &kernel::<G>("msm_normalize")).write(&affine).read(&doubled);
            launch.u32(n as u32).u32(threads).run(threads as usize, THREADS).expect("msm_normalize");
            let expected: Vec<G::Affine> = expected.iter().map(|point| point.into_affine()).collect();
            assert_eq!(affine.to_vec().expect("points"), expected, "{what}: affine");
        }
    }
}

#[test]
fn g1_multiples_of_bases_are_arkworks_multiples() {
    multiples_of_bases::<G1Projective>();
}

#[test]
fn g2_multiples_of_bases_are_arkworks_multiples() {
    multiples_of_bases::<G2Projective>();
}

/// More digits than a tile has: dense, where a tile of the second step has one partition or two, and sparse, where it has
/// many.
#[test]
fn digits_of_several_tiles_are_sorted() {
    let rng = &mut random_numbers(test_seed(), "tiles");
    for device in devices() {
        let modules = [&msm_gpu::modules::MSM_DIGITS, &msm_gpu::modules::MSM_PARTITION];
        device.load(&modules).expect("the modules load");
        // One digit in so many is not zero; sets that three windows share; buckets; partitions.
        for (n, one_in, sets, buckets, bits) in [
            (2 * TILE + 33, 1, 1, 64, 5),
            (TILE, 1, 2, 1024, 10),
            (TILE + 1, 5, 3, 256, 1),
            (2 * TILE - 1, 900, 2, 4096, 3),
            (TILE + 700, 1, 1, 8192, 1),
            (2 * TILE, 2, 2, 4096, 11),
        ] {
            let windows = 3;
            let mut digits: Vec<u32> = (0..(windows + 1) as usize * n)
                .map(|_| match rng.next_u32() % one_in {
                    0 => (1 + rng.next_u32() % buckets) | (rng.next_u32() & SIGN_BIT),
                    _ => 0,
                })
                .collect();
            // One scalar in five is one, and so has no digits.
            for i in 0..n {
                let is_one = rng.next_u32().is_multiple_of(5);
                (0..windows as usize).filter(|_| is_one).for_each(|row| digits[row * n + i] = 0);
                digits[windows as usize * n + i] = is_one.into();
            }
            let buffer = DeviceBuf::from_slice(&device, "digits", &digits).expect("digits");
            let plain =
                Way { n, windows, sets, buckets, stride: n as u32 + 3, rounds: 2, partition_bits: None };
            let place = format!("one digit in {one_in} on {}", device.info().id);
            for way in [plain, Way { partition_bits: Some(bits), ..plain }] {
                assert_sorted(&device, &buffer, &way, &way.entries_of(&digits), &place);
            }
        }
    }
}
