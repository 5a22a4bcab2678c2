//! Order: what the schedule's edges are for, shown by taking one away; and that results do not depend on what is left
//! open.

mod support;

use ark_bls12_381::{Fr, G1Projective, G2Projective};
use gpu_core::check::{HazardKind, check};
use gpu_core::schedule::Action;
use gpu_core::sim::SimOptions;
use gpu_core::{CheckedSchedule, Device, Schedule};
use harness::STRATEGIES;
use harness::oracle::{BaseFlavour, KnownBases, ScalarFlavour, random_numbers, test_seed};
use msm_gpu::{Bases, Msm, MsmConfig, MsmGroup, MsmPlan, Strategy};
use std::time::Instant;
use support::{assert_product_on, devices, sized};

const POINTS: usize = 96;
const BATCHES: u32 = 6;

fn plan<G: MsmGroup>(bases: &Bases<G>, strategy: Strategy) -> MsmPlan {
    let config = MsmConfig { strategy, ..MsmConfig::batches(BATCHES) };
    *Msm::<G, Fr>::new(bases, &config).expect("a plan").plan()
}

/// The schedule without its waits of one name, and how many there were.
fn without(mut schedule: Schedule, name: &str) -> (Schedule, usize) {
    let before = schedule.ops.len();
    schedule.ops.retain(|op| op.name != name);
    let removed = before - schedule.ops.len();
    (schedule, removed)
}

/// Products of one schedule on devices of every temper: the latest order, and some seeds.
fn products<G: MsmGroup>(
    known: &KnownBases<G>,
    scalars: &[Fr],
    strategy: Strategy,
    seeds: std::ops::Range<u64>,
    change: impl Fn(Schedule) -> CheckedSchedule,
) -> Vec<(String, G)> {
    let tempers = std::iter::once(("latest".to_string(), SimOptions::latest()));
    let seeded = seeds.map(|seed| (format!("seed {seed}"), SimOptions::seeded(seed)));
    let run = |(name, options)| {
        let device = Device::sim(options);
        let bases = Bases::<G>::trusted(&device, known.points()).expect("bases");
        let plan = plan(&bases, strategy);
        let schedule = change(msm_gpu::schedule::build(&plan));
        let mut msm = Msm::<G, Fr>::with_schedule(&bases, plan, schedule).expect("memory");
        (name, msm.run(scalars).expect("a run"))
    };
    tempers.chain(seeded).map(run).collect()
}

fn the_edge_matters<G: MsmGroup>(strategy: Strategy) {
    let seed = test_seed();
    let mut rng = random_numbers(seed, "edge");
    let known = KnownBases::<G>::generate(BaseFlavour::Random, POINTS, &mut rng);
    let scalars = ScalarFlavour::Uniform.generate(POINTS, &mut rng);
    let expected = known.product(&scalars);

    let bases = Bases::<G>::trusted(&support::sim(), known.points()).expect("bases");
    let schedule = msm_gpu::schedule::build(&plan(&bases, strategy));
    assert!(check(&schedule).is_clean(), "{}", check(&schedule));
    let (bare, removed) = without(schedule, "rows_free");
    assert_eq!(removed as u32, BATCHES - 1, "an edge for each batch but the first");

    // The checker names the kernel that writes the rows and the download that still reads them.
    let report = check(&bare);
    assert!(!report.is_clean());
    for hazard in &report.hazards {
        assert_eq!(hazard.kind, HazardKind::WriteAfterRead, "{hazard}");
        let [earlier, later] = [hazard.earlier, hazard.at].map(|op| &bare.ops[op.expect("two operations")]);
        let region = hazard.region.expect("the bytes");
        assert_eq!(
            (earlier.name.as_ref(), later.batch),
            ("download_rows", earlier.batch.map(|batch| batch + 1))
        );
        assert!(matches!(later.action, Action::Launch { .. }), "{hazard}");
        assert_eq!(bare.region_name(&region), "rows", "{hazard}");
    }
    assert!(CheckedSchedule::new(bare).is_err(), "such a schedule does not run on a real device");

    // The simulator shows what such a schedule does: some legal order gives another point.
    let bare = products(&known, &scalars, strategy, 0..20, |schedule| {
        CheckedSchedule::for_simulation_only(without(schedule, "rows_free").0)
    });
    let wrong: Vec<_> = bare.iter().filter(|(_, point)| *point != expected).map(|(name, _)| name).collect();
    println!("{strategy} without the edge: wrong under {} of {} orders: {wrong:?}", wrong.len(), bare.len());
    assert!(!wrong.is_empty(), "no order was adverse enough");

    let whole = products(&known, &scalars, strategy, 0..20, |schedule| {
        CheckedSchedule::new(schedule).expect("no hazards")
    });
    for (name, point) in whole {
        assert_eq!(point, expected, "{strategy} with the edge, {name}, TEST_SEED={seed:#x}");
    }
}

#[test]
fn b135_without_the_edge_the_checker_names_the_pair_and_the_point_is_wrong() {
    for buffers in [2, 3] {
        the_edge_matters::<G1Projective>(Strategy::Deferred { buffers });
    }
    the_edge_matters::<G2Projective>(Strategy::Deferred { buffers: 2 });
}

/// Hard synchronisation has no such edge, because the host's wait is one.
#[test]
fn the_hard_strategy_needs_no_edge_on_the_device() {
    let known = KnownBases::<G1Projective>::generate(
        BaseFlavour::Random,
        POINTS,
        &mut random_numbers(test_seed(), "hard"),
    );
    let bases = Bases::<G1Projective>::trusted(&support::sim(), known.points()).expect("bases");
    let schedule = msm_gpu::schedule::build(&plan(&bases, Strategy::Hard));
    let (same, removed) = without(schedule.clone(), "rows_free");
    assert_eq!((removed, &same), (0, &schedule));
    assert!(check(&schedule).is_clean());
}

/// On the simulated device under adverse and random orders; on a CUDA device again and again at many sizes.
#[test]
fn b117_every_strategy_is_right_in_every_order() {
    let seed = test_seed();
    let mut rng = random_numbers(seed, "soak");
    for n in [1, 5, 257, 1024] {
        let known = KnownBases::<G1Projective>::generate(BaseFlavour::Random, n, &mut rng);
        let scalars = ScalarFlavour::WitnessLike.generate(n, &mut rng);
        let expected = known.product(&scalars);
        let ways = support::ways(n);
        for temper in 0..8 {
            let options = if temper == 0 { SimOptions::latest() } else { SimOptions::seeded(seed ^ temper) };
            let (device, what) = (Device::sim(options), format!("temper {temper}"));
            assert_product_on(&device, &ways, None, &what, known.points(), &scalars, expected);
        }
    }
    for device in support::cuda() {
        for log_n in (10..=20).step_by(2) {
            let known = KnownBases::<G1Projective>::generate(BaseFlavour::Random, 1 << log_n, &mut rng);
            let scalars = ScalarFlavour::Uniform.generate(1 << log_n, &mut rng);
            let expected = known.product(&scalars);
            let bases = Bases::<G1Projective>::trusted(&device, known.points()).expect("bases");
            for strategy in STRATEGIES {
                let config = MsmConfig { strategy, ..MsmConfig::batches(8) };
                let mut msm = Msm::<G1Projective, Fr>::new(&bases, &config).expect("a plan");
                for run in 0..100 {
                    let product = msm.run(&scalars).expect("a product");
                    assert_eq!(product, expected, "2^{log_n}, {strategy}, run {run}");
                }
            }
        }
    }
}

#[test]
fn b100_made_here_run_there_dropped_elsewhere() {
    let seed = test_seed();
    for device in devices() {
        let n = sized(&device, 1 << 14, 300);
        let mut rng = random_numbers(seed, "threads");
        let known = KnownBases::<G1Projective>::generate(BaseFlavour::Random, n, &mut rng);
        let scalars = ScalarFlavour::Uniform.generate(n, &mut rng);
        let expected = known.product(&scalars);
        let bases = Bases::<G1Projective>::trusted(&device, known.points()).expect("bases");
        let mut msm = Msm::<G1Projective, Fr>::new(&bases, &MsmConfig::batches(3)).expect("a plan");
        let (msm, product) = std::thread::scope(|scope| {
            let there = scope.spawn(|| {
                let product = msm.run(&scalars).expect("a product");
                (msm, product)
            });
            there.join().expect("no panic")
        });
        assert_eq!(product, expected);
        std::thread::scope(|scope| scope.spawn(move || drop((msm, bases))).join().expect("no panic"));
        // Several threads, each with its own product on the same device.
        let start = Instant::now();
        std::thread::scope(|scope| {
            for strategy in STRATEGIES {
                let (device, known, scalars) = (&device, &known, &scalars);
                scope.spawn(move || {
                    let ways = [(3, strategy)];
                    assert_product_on(device, &ways, None, "threads", known.points(), scalars, expected);
                });
            }
        });
        println!("four products at once on {}: {:?}", device.info().id, start.elapsed());
    }
}
