//! Random products on simulated devices of every temper equal arkworks'. A case is a few numbers and words, from which its
//! points and scalars follow: it shrinks over those, and prints as a line.

mod support;

use ark_bls12_381::{Fr, G1Projective, G2Projective};
use gpu_core::Device;
use gpu_core::sim::{Order, SimOptions, ThreadOrder};
use harness::STRATEGIES;
use harness::oracle::{BaseFlavour, KnownBases, ScalarFlavour, msm_by_arkworks, random_numbers};
use msm_gpu::{Bases, Batches, Msm, MsmConfig, MsmGroup, Strategy as SyncStrategy};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRng, TestRunner};
use support::{Path, TableKind};

#[derive(Debug, Clone)]
struct Case {
    seed: u64,
    points: usize,
    /// Of the points, in 1 to all of them.
    batches: u32,
    strategy: SyncStrategy,
    scalars: ScalarFlavour,
    bases: BaseFlavour,
    window_bits: Option<u32>,
    path: Path,
    order: Order,
    thread_order: ThreadOrder,
}

fn cases() -> impl Strategy<Value = Case> {
    let edges = select(vec![0, 1, 2, 3, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513]);
    let points = prop_oneof![3 => edges, 2 => 0..=600_usize];
    let window_bits = prop_oneof![Just(None), (2..=12_u32).prop_map(Some)];
    let rounds = prop_oneof![1 => Just(None), 3 => (0..=3_u32).prop_map(Some)];
    let partitioned = prop_oneof![5 => Just(None), 1 => Just(Some(true))];
    let table =
        prop_oneof![4 => Just(TableKind::None), 1 => Just(TableKind::Full), 1 => Just(TableKind::Partial)];
    let path = (rounds, partitioned, table).prop_map(|(pair_rounds, partitioned, table)| Path {
        pair_rounds,
        partitioned,
        table,
    });
    let order = prop_oneof![Just(Order::Earliest), Just(Order::Latest), any::<u64>().prop_map(Order::Seeded)];
    let thread_order = prop_oneof![
        Just(ThreadOrder::Forward),
        Just(ThreadOrder::Backward),
        any::<u64>().prop_map(ThreadOrder::Seeded)
    ];
    let strategies: Vec<_> = STRATEGIES.into_iter().chain([SyncStrategy::Deferred { buffers: 9 }]).collect();
    let flavours = (select(ScalarFlavour::ALL.to_vec()), select(BaseFlavour::ALL.to_vec()));
    let ways = (select(strategies), window_bits, path, order, thread_order);
    (any::<u64>(), points, 0..=u32::MAX, flavours, ways).prop_map(|(seed, points, cut, flavours, ways)| {
        // A few batches; and one time in four as many as there are points, where those are few.
        let (scalars, bases) = flavours;
        let (strategy, window_bits, path, order, thread_order) = ways;
        // A table of many points takes the simulated device long.
        let table = if points <= 65 { path.table } else { TableKind::None };
        let path = Path { table, ..path };
        let batches = match cut % 4 {
            0 if points <= 33 => points.max(1) as u32,
            _ => 1 + cut / 4 % points.clamp(1, 9) as u32,
        };
        Case { seed, points, batches, strategy, scalars, bases, window_bits, path, order, thread_order }
    })
}

fn equals_arkworks<G: MsmGroup>(case: &Case) -> Result<(), TestCaseError> {
    let mut rng = random_numbers(case.seed, "property");
    let known = KnownBases::<G>::generate(case.bases, case.points, &mut rng);
    let scalars = case.scalars.generate(case.points, &mut rng);
    let expected = msm_by_arkworks::<G>(known.points(), &scalars);
    let options = SimOptions { order: case.order, thread_order: case.thread_order, ..SimOptions::default() };
    let device = Device::sim(options);
    let fail = |error: msm_gpu::MsmError| TestCaseError::fail(error.to_string());
    let bases = Bases::<G>::new(&device, known.points()).map_err(fail)?;
    let batches = Batches::Count(case.batches);
    let table = case.path.table.table(case.window_bits);
    let bases = table.map_or(Ok(bases.clone()), |table| bases.with_table(table)).map_err(fail)?;
    let config = MsmConfig {
        batches,
        strategy: case.strategy,
        window_bits: table.map_or(case.window_bits, |table| Some(table.window_bits)),
        pair_rounds: case.path.pair_rounds,
        partitioned: case.path.partitioned,
        ..MsmConfig::default()
    };
    let mut msm = Msm::<G, Fr>::new(&bases, &config).map_err(fail)?;
    prop_assert_eq!(msm.run(&scalars).map_err(fail)?, expected);
    // The second run meets the memory that the first one left.
    prop_assert_eq!(msm.run(&scalars).map_err(fail)?, expected);
    Ok(())
}

fn check<G: MsmGroup>(cases_count: u32) {
    let seed = harness::oracle::test_seed();
    let config = Config { cases: cases_count, failure_persistence: None, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(config.rng_algorithm, &bytes);
    let outcome = TestRunner::new_with_rng(config, rng).run(&cases(), |case| equals_arkworks::<G>(&case));
    outcome.unwrap_or_else(|error| panic!("TEST_SEED={seed:#x}: {error}"));
}

#[test]
fn g1_products_equal_arkworks() {
    check::<G1Projective>(120);
}

#[test]
fn g2_products_equal_arkworks() {
    check::<G2Projective>(40);
}

/// The same case on a CUDA device, where the order is the hardware's.
#[test]
fn products_on_cuda_equal_arkworks() {
    for device in support::cuda() {
        for seed in 0..40 {
            let mut rng = random_numbers(seed, "cuda property");
            let points = 1 + seed as usize * 37;
            let flavour = ScalarFlavour::ALL[seed as usize % ScalarFlavour::ALL.len()];
            let known = KnownBases::<G1Projective>::generate(BaseFlavour::SomeIdentities, points, &mut rng);
            let scalars = flavour.generate(points, &mut rng);
            let expected = msm_by_arkworks::<G1Projective>(known.points(), &scalars);
            let ways = support::ways(points);
            let what = flavour.to_string();
            support::assert_product_on(&device, &ways, None, &what, known.points(), &scalars, expected);
        }
    }
}
