//! Rounds of pairs and tables of multiples change no product, whatever the points are.

mod common;

use ark_bls12_381::{Fr, G1Projective, G2Projective};
use ark_ff::UniformRand;
use ark_std::rand::{Rng, SeedableRng};
use gpu_core::{Device, sim::SimOptions};
use msm_gpu::{Bases, Msm, MsmConfig, MsmError, MsmGroup, PlanError, Strategy, Table};
use rand_chacha::ChaCha20Rng;

const STRATEGIES: [Strategy; 3] = [Strategy::Hard, Strategy::Deferred { buffers: 2 }, Strategy::OnDevice];

/// Points among which sums of two are often doublings, often the identity, and often of the identity.
fn crowded<G: MsmGroup>(rng: &mut ChaCha20Rng, n: usize) -> Vec<G::Affine> {
    let few: Vec<G> = (0..4).map(|_| G::rand(rng)).collect();
    let point = |rng: &mut ChaCha20Rng| match rng.gen_range(0..12) {
        0 => G::zero(),
        kind @ 1..=4 => few[kind - 1],
        kind @ 5..=8 => -few[kind - 5],
        _ => G::rand(rng),
    };
    (0..n).map(|_| point(rng).into_affine()).collect()
}

fn scalars(rng: &mut ChaCha20Rng, n: usize) -> Vec<Fr> {
    let scalar = |rng: &mut ChaCha20Rng| match rng.gen_range(0..8) {
        0 => Fr::from(0),
        1 | 2 => Fr::from(1),
        3 => -Fr::from(1),
        4 | 5 => Fr::from(rng.gen_range(0..4u64)),
        _ => Fr::rand(rng),
    };
    (0..n).map(|_| scalar(rng)).collect()
}

/// Every table, number of rounds, number of batches and strategy; and each pair of them in some product. All combinations
/// would show no more: what each changes is a part of the schedule of its own.
fn agrees<G: MsmGroup>(n: usize, rng: &mut ChaCha20Rng) {
    let (points, scalars) = (crowded::<G>(rng, n), scalars(rng, n));
    let expected = G::msm(&points, &scalars).unwrap();
    for device in common::devices(SimOptions::default()) {
        let bases = Bases::<G>::trusted(&device, &points).unwrap();
        let tables = [(5, 52), (7, 3), (4, 33), (14, 2)];
        let with_table = |(window_bits, columns)| bases.with_table(Table { window_bits, columns }).unwrap();
        let mut all: Vec<_> = tables.into_iter().map(with_table).collect();
        all.push(bases.clone());
        let batch_counts: Vec<u32> = [1, 2, 5].into_iter().filter(|count| *count as usize <= n).collect();
        for (index, bases) in all.iter().enumerate() {
            for pair_rounds in 0..=3 {
                for (turn, batches) in batch_counts.iter().enumerate() {
                    // As many strategies as counts of batches: a Latin square in both.
                    let strategy = STRATEGIES[(turn + index + pair_rounds as usize) % STRATEGIES.len()];
                    let window_bits = bases.set().table.map_or(Some(3), |table| Some(table.window_bits));
                    let config = MsmConfig {
                        window_bits,
                        pair_rounds: Some(pair_rounds),
                        partitioned: Some(*batches == 2 && pair_rounds % 2 == 1),
                        strategy,
                        ..MsmConfig::batches(*batches)
                    };
                    let mut msm = Msm::<G, Fr>::new(bases, &config).unwrap();
                    let what = format!("{} n={n} {:?} {config:?}", device.info().id, bases.set());
                    for run in 0..2 {
                        assert_eq!(msm.run(&scalars).unwrap(), expected, "{what}, run {run}");
                    }
                }
            }
        }
    }
}

fn rng() -> ChaCha20Rng {
    let seed = match std::env::var("TEST_SEED") {
        Ok(text) => text.parse().expect("TEST_SEED is a decimal number"),
        Err(_) => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.expect("after 1970").as_nanos() as u64
        }
    };
    println!("TEST_SEED={seed}");
    ChaCha20Rng::seed_from_u64(seed)
}

#[test]
fn g1_agrees_with_arkworks() {
    let rng = &mut rng();
    for n in [1, 2, 3, 65, 200] {
        agrees::<G1Projective>(n, rng);
    }
}

#[test]
fn g2_agrees_with_arkworks() {
    let rng = &mut rng();
    for n in [1, 2, 21] {
        agrees::<G2Projective>(n, rng);
    }
}

#[test]
fn every_case_of_a_pair_is_reached() {
    let rng = &mut rng();
    let device = Device::sim(SimOptions::default());
    let points = crowded::<G1Projective>(rng, 600);
    let bases = Bases::<G1Projective>::trusted(&device, &points).unwrap();
    let config = MsmConfig { window_bits: Some(2), pair_rounds: Some(3), ..MsmConfig::batches(1) };
    let mut msm = Msm::<G1Projective, Fr>::new(&bases, &config).unwrap();
    for _ in 0..3 {
        let scalars = scalars(rng, points.len());
        assert_eq!(
            msm.run(&scalars).unwrap(),
            <G1Projective as ark_ec::VariableBaseMSM>::msm(&points, &scalars).unwrap()
        );
    }
    let counts: std::collections::BTreeMap<_, _> = gpu_core::sim::coverage().into_iter().collect();
    for word in ["pair_left_identity", "pair_right_identity", "pair_double", "pair_cancel"] {
        assert!(counts.get(word).is_some_and(|count| *count > 0), "{word}: {counts:?}");
    }
}

#[test]
fn a_table_in_the_place_of_another_is_of_the_same_bases() {
    let rng = &mut rng();
    let (points, scalars) = (crowded::<G1Projective>(rng, 40), scalars(rng, 40));
    let expected = <G1Projective as ark_ec::VariableBaseMSM>::msm(&points, &scalars).unwrap();
    for device in common::devices(SimOptions::default()) {
        let bases = Bases::<G1Projective>::trusted(&device, &points).unwrap();
        let first = bases.with_table(Table { window_bits: 7, columns: 3 }).unwrap();
        let second = first.with_table(Table { window_bits: 9, columns: 29 }).unwrap();
        assert_eq!((second.len(), second.buffer().len()), (40, 29 * 40));
        for bases in [first, second] {
            let mut msm = Msm::<G1Projective, Fr>::new(&bases, &MsmConfig::default()).unwrap();
            assert_eq!(msm.run(&scalars).unwrap(), expected, "{:?}", bases.set());
        }
    }
}

#[test]
fn a_table_that_no_product_can_use_is_refused() {
    let device = Device::sim(SimOptions::default());
    let bases = Bases::<G1Projective>::trusted(&device, &[Default::default(); 4]).unwrap();
    for (table, expected) in [
        (Table { window_bits: 1, columns: 2 }, PlanError::WindowBits { window_bits: 1 }),
        (Table { window_bits: 25, columns: 2 }, PlanError::WindowBits { window_bits: 25 }),
        (Table { window_bits: 8, columns: 0 }, PlanError::TableColumns { columns: 0, window_count: 32 }),
        (Table { window_bits: 8, columns: 33 }, PlanError::TableColumns { columns: 33, window_count: 32 }),
    ] {
        assert!(
            matches!(bases.with_table(table), Err(MsmError::Plan(error)) if error == expected),
            "{table:?}"
        );
    }
    let bases = bases.with_table(Table { window_bits: 8, columns: 32 }).unwrap();
    let config = MsmConfig { window_bits: Some(9), ..MsmConfig::default() };
    let error = Msm::<G1Projective, Fr>::new(&bases, &config).unwrap_err();
    let expected = PlanError::TableWindow { window_bits: 9, table_bits: 8 };
    assert!(matches!(error, MsmError::Plan(error) if error == expected));
    let config = MsmConfig { pair_rounds: Some(4), ..MsmConfig::default() };
    let error = Msm::<G1Projective, Fr>::new(&bases, &config).unwrap_err();
    assert!(matches!(error, MsmError::Plan(PlanError::PairRounds { pair_rounds: 4 })));
}
