//! What the host does alone: planning, checking, folding.

use super::record::{Amount, Params};
use super::session::{Case, Sample, Session, micros};
use crate::error::Failure;
use crate::oracle::random_numbers;
use ark_bls12_381::{Fr, G1Projective, G2Projective};
use ark_ec::AffineRepr;
use ark_ff::{AdditiveGroup, Field, UniformRand};
use gpu_core::{CheckedSchedule, Xyzz};
use msm_gpu::fold::fold;
use msm_gpu::{DeviceLimits, MsmConfig, MsmError, MsmGroup, MsmPlan, ScalarForm};
use std::hint::black_box;
use std::time::Instant;

/// Plans, checks and folds.
pub(super) fn run(session: &mut Session<'_>) -> Result<(), Failure> {
    let (cases, scale) = (session.settings.cases.host.clone(), session.settings.scale);
    for log_n in cases.log_n.at(scale) {
        for batches in cases.batches.at(scale) {
            group::<G1Projective>(session, *log_n, *batches)?;
            group::<G2Projective>(session, *log_n, *batches)?;
        }
    }
    Ok(())
}

fn group<G: MsmGroup>(session: &mut Session<'_>, log_n: u32, batches: u32) -> Result<(), Failure> {
    let word = G::KIND.word();
    // Limits of a device that holds any of these sizes: a plan asks no device.
    let limits =
        DeviceLimits { free_bytes: 1 << 40, resident_threads: 132 * 2048, costs: msm_gpu::Costs::SM_90 };
    let config = MsmConfig::batches(batches);
    let make = || MsmPlan::new(G::KIND, ScalarForm::Montgomery, 1 << log_n, &config, &limits);
    let plan = make()?;
    let case = |session: &Session<'_>, what: &str| {
        let params = Params {
            who: "cpu".into(),
            what: what.into(),
            group: Some(word.into()),
            log_n: Some(log_n),
            batches: Some(batches),
            ..Params::default()
        };
        session.host_case("host", format!("{what}/{word}/2^{log_n}/{batches}"), params)
    };
    if let Some(case) = case(session, "plan") {
        session.measure(case, || timed(|| Ok(make()?)))?;
    }
    if let Some(case) = case(session, "check") {
        let built = msm_gpu::schedule::build(&plan);
        let amount = Some(Amount::Elements(built.ops.len() as u64));
        let check = || Ok(CheckedSchedule::new(msm_gpu::schedule::build(&plan)).map_err(MsmError::from)?);
        session.measure(Case { amount, ..case }, || timed(check))?;
    }
    if let Some(case) = case(session, "fold") {
        let rng = &mut random_numbers(session.settings.seed, "bench fold");
        let (rows, expected) = rows_of_known_sum::<G>(&plan, rng);
        let amount = Some(Amount::Elements(rows.len() as u64));
        let case = Case { amount, ..case };
        if fold::<G>(&plan, &rows) != expected {
            return Err(Failure::Wrong(format!("{}: the sum is not the oracle's", case.id())));
        }
        session.measure(case, || timed(|| Ok(fold::<G>(&plan, &rows))))?;
    }
    Ok(())
}

fn timed<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<Sample, Failure> {
    let start = Instant::now();
    black_box(work()?);
    let wall_us = micros(start);
    Ok(Sample { time_us: wall_us, wall_us, idle_us: None })
}

/// Rows `logs[i] * G` with random logarithms, and their weighted sum: those of a set count 2^(its first bit) times and
/// doubling, but for the ones beyond its window's bits; the last row counts once.
fn rows_of_known_sum<G: MsmGroup>(
    plan: &MsmPlan,
    rng: &mut impl rand_chacha::rand_core::RngCore,
) -> (Vec<Xyzz<G::Coord>>, G) {
    let logs: Vec<Fr> = (0..plan.rows_total()).map(|_| Fr::rand(rng)).collect();
    let points: Vec<G> = logs.iter().map(|log| G::generator() * log).collect();
    let row = |point: &G| {
        let (x, y) = point.into_affine().xy().expect("a random multiple is not the identity");
        let z = G::Coord::rand(rng);
        let (zz, zzz) = (z.square(), z.square() * z);
        Xyzz { x: x * zz, y: y * zzz, zz, zzz }
    };
    let rows = points.iter().map(row).collect();
    let (ones, bits) = logs.split_last().expect("a batch has rows");
    let sets = bits.chunks_exact(plan.window_bits as usize).zip(0..);
    let of_set = |(logs, set): (&[Fr], u32)| {
        let logs = logs[..plan.window_width(set) as usize].iter().rev();
        logs.fold(Fr::from(0), |sum, log| sum.double() + log)
            * Fr::from(2).pow([plan.window_start(set).into()])
    };
    let sum = sets.map(of_set).sum::<Fr>() + ones;
    (rows, G::generator() * sum)
}
