//! Bases and scalars from where they are: products do not depend on it, and schedules wait for nothing in vain.

mod common;

use ark_bls12_381::{Fr, G1Projective, G2Projective};
use ark_ff::UniformRand;
use ark_std::rand::SeedableRng;
use common::{STRATEGIES, devices};
use gpu_core::check::check;
use gpu_core::sim::SimOptions;
use gpu_core::{Device, DeviceBuf, Registered};
use msm_gpu::schedule::{build, build_resident};
use msm_gpu::{
    BaseSet, Bases, DeviceLimits, GroupKind, Msm, MsmConfig, MsmError, MsmGroup, MsmPlan, Operands,
    PlanError, ScalarForm, Table,
};
use rand_chacha::ChaCha20Rng;

fn agrees<G: MsmGroup>(n: usize) {
    let rng = &mut ChaCha20Rng::seed_from_u64(n as u64);
    let points: Vec<G::Affine> = (0..n).map(|_| G::rand(rng).into_affine()).collect();
    let [first, second]: [Vec<Fr>; 2] = std::array::from_fn(|_| (0..n).map(|_| Fr::rand(rng)).collect());
    let expected = |scalars: &[Fr]| G::msm(&points, scalars).unwrap();
    for options in [SimOptions::latest(), SimOptions::seeded(n as u64)] {
        for device in devices(options) {
            let bases = Bases::<G>::trusted(&device, &points).unwrap();
            let registered = Registered::new(&device, "bases", &points).unwrap();
            for batches in [1, 2, 3, 7].into_iter().filter(|batches| *batches as usize <= n) {
                for (turn, strategy) in STRATEGIES.into_iter().enumerate() {
                    let pair_rounds = (batches + turn as u32) % 3;
                    let config = MsmConfig {
                        strategy,
                        pair_rounds: Some(pair_rounds),
                        window_bits: Some(5),
                        ..MsmConfig::batches(batches)
                    };
                    let what = format!("{} n={n} {batches} {strategy} {pair_rounds}", device.info().id);
                    let mut streaming = Msm::<G, Fr>::streaming(&device, n, &config).unwrap();
                    let mut resident = Msm::<G, Fr>::over_resident(&bases, &config).unwrap();
                    for scalars in [&first, &second] {
                        let expected = expected(scalars);
                        assert_eq!(streaming.run_streamed(&registered, scalars).unwrap(), expected, "{what}");
                        let scalars = DeviceBuf::from_slice(&device, "scalars", scalars).unwrap();
                        assert_eq!(resident.run_resident(&scalars).unwrap(), expected, "{what}, resident");
                    }
                }
            }
        }
    }
}

#[test]
fn g1_products_do_not_depend_on_where_operands_are() {
    for n in [1, 2, 13] {
        agrees::<G1Projective>(n);
    }
}

#[test]
fn g2_products_do_not_depend_on_where_operands_are() {
    agrees::<G2Projective>(9);
}

#[test]
fn schedules_wait_for_what_they_need_and_no_more() {
    let limits =
        DeviceLimits { free_bytes: 1 << 40, resident_threads: 1 << 18, costs: msm_gpu::Costs::SM_90 };
    for strategy in STRATEGIES {
        for batches in [1, 2, 3, 5, 8] {
            let config = MsmConfig { strategy, ..MsmConfig::batches(batches) };
            let plan = |bases: BaseSet| {
                MsmPlan::new(GroupKind::G1, ScalarForm::Montgomery, bases, &config, &limits).unwrap()
            };
            let streamed = plan(BaseSet::streamed(1000));
            let resident = plan(1000.into());
            for schedule in [build(&streamed), build_resident(&streamed), build_resident(&resident)] {
                let report = check(&schedule);
                assert!(report.is_clean(), "{schedule}{report}");
            }
        }
    }
}

#[test]
fn operands_that_a_product_was_not_made_for_are_refused() {
    let device = Device::sim(SimOptions::default());
    let points = [G1Projective::default().into(); 3];
    let (bases, scalars) = (Bases::<G1Projective>::trusted(&device, &points).unwrap(), [Fr::from(5); 3]);
    let on_device = DeviceBuf::from_slice(&device, "scalars", &scalars).unwrap();
    let registered = Registered::new(&device, "bases", &points).unwrap();
    let config = MsmConfig::default();
    let mut host = Msm::<G1Projective>::new(&bases, &config).unwrap();
    let mut resident = Msm::<G1Projective>::over_resident(&bases, &config).unwrap();
    let mut streaming = Msm::<G1Projective>::streaming(&device, 3, &config).unwrap();
    let refused = |result: Result<G1Projective, MsmError>, expected, found| {
        let error = result.unwrap_err();
        assert!(
            matches!(&error, MsmError::WrongOperands { expected: e, found: f } if (*e, *f) == (expected, found)),
            "{error}"
        );
    };
    use Operands::{HostScalars, Resident, Streamed};
    refused(host.run_resident(&on_device), HostScalars, Resident);
    refused(host.run_streamed(&registered, &scalars), HostScalars, Streamed);
    refused(resident.run(&scalars), Resident, HostScalars);
    refused(streaming.run(&scalars), Streamed, HostScalars);
    let two = [points[0]; 2];
    let few = Registered::new(&device, "bases", &two).unwrap();
    let error = streaming.run_streamed(&few, &scalars).unwrap_err();
    assert!(matches!(error, MsmError::LengthMismatch { bases: 2, scalars: 3 }), "{error}");

    let table = Some(Table { window_bits: 8, columns: 2 });
    let bases = BaseSet { table, ..BaseSet::streamed(3) };
    let limits = DeviceLimits::of(&device).unwrap();
    let error = MsmPlan::new(GroupKind::G1, ScalarForm::Montgomery, bases, &config, &limits).unwrap_err();
    assert_eq!(error, PlanError::StreamedTable);
}
