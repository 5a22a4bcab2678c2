//! The device beside arkworks and blst on this host's processor: the same problem, in turn, in rounds.
//!
//! All of them take the problem as they like it best: bases and scalars in their own form, made before the clock starts.
//! What the machine does meanwhile meets all of them alike, since they take turns.

use super::inputs::Inputs;
use super::proof::{Ours, problem};
use super::record::{Amount, Clock, Params, Ratio};
use super::session::{Case, Session, micros};
use super::{ntt, stats};
use crate::circuits::CircuitName;
use crate::error::Failure;
use crate::oracle::{ScalarFlavour, msm_by_arkworks};
use crate::prove::proof_by_arkworks;
use ark_bls12_381::{Fq, Fq2, Fr, G1Affine, G1Projective, G2Affine, G2Projective, g1, g2};
use ark_ec::short_weierstrass::Projective;
use ark_ff::{BigInt, BigInteger, FftField, Field, PrimeField};
use ark_poly::EvaluationDomain;
use blst::{MultiPoint, blst_fp, blst_fp2, blst_p1, blst_p1_affine, blst_p2, blst_p2_affine};
use groth16::Upload;
use msm_gpu::{Msm, MsmConfig, MsmGroup};
use std::hint::black_box;
use std::time::Instant;

/// Bits of a scalar.
const SCALAR_BITS: usize = 255;

/// Products, transforms and proofs.
pub(super) fn run(session: &mut Session<'_>) -> Result<(), Failure> {
    let (cases, scale) = (session.settings.cases.peers.clone(), session.settings.scale);
    for log_n in cases.msm_g1.at(scale) {
        msm::<G1Projective>(session, *log_n)?;
    }
    for log_n in cases.msm_g2.at(scale) {
        msm::<G2Projective>(session, *log_n)?;
    }
    for log_n in cases.ntt.at(scale) {
        transform(session, *log_n)?;
    }
    for circuit in cases.proofs.at(scale) {
        proof(session, circuit.0)?;
    }
    Ok(())
}

/// Somebody who solves the problem: the time on its own clock, and the wall time. Results are compared outside of
/// both.
type Solver<'a> = Box<dyn FnMut() -> Result<(f64, f64), Failure> + 'a>;

/// Lets everybody take turns, the device first, and keeps times and ratios.
fn rounds(
    session: &mut Session<'_>,
    name: &str,
    params: &Params,
    amount: u64,
    mut solvers: Vec<(&'static str, Solver<'_>)>,
) -> Result<(), Failure> {
    let rounds = *session.settings.cases.peers.rounds.at(session.settings.scale);
    let mut times: Vec<Vec<(f64, f64)>> = vec![Vec::new(); solvers.len()];
    // The first round shows that everybody is right and has its memory, and is not counted.
    for round in 0..=rounds {
        for ((_, solve), times) in solvers.iter_mut().zip(&mut times) {
            let time = solve()?;
            if round > 0 {
                times.push(time);
            }
        }
    }
    for ((who, _), times) in solvers.iter().zip(&times) {
        let params = Params { who: (*who).into(), ..params.clone() };
        let Some(mut case) = session.case("peers", format!("{name}/{who}"), params) else { continue };
        case.amount = Some(Amount::Elements(amount));
        let (samples_us, mut wall_us): (Vec<_>, Vec<_>) = times.iter().copied().unzip();
        if *who != "gpu" {
            case.clock = Clock::Wall;
            wall_us.clear();
        }
        session.push_rounds(case, samples_us, wall_us);
    }
    if session.is_virtual() {
        // A prediction beside a measurement is no comparison.
        return Ok(());
    }
    let (ours, others) = times.split_first().expect("the device is there");
    for ((peer, _), theirs) in solvers[1..].iter().zip(others) {
        let ratios: Vec<f64> = theirs.iter().zip(ours).map(|(their, our)| their.1 / our.1).collect();
        if let (Some(median), Some(interval)) = (stats::median(&ratios), stats::median_interval(&ratios)) {
            let (id, peer) = (format!("peers/{name}"), (*peer).into());
            session.push_ratio(Ratio { id, peer, median, interval });
        }
    }
    Ok(())
}

/// Whether any of a comparison's ids is wanted.
fn wanted(session: &Session<'_>, name: &str) -> Option<Case> {
    ["gpu", "arkworks", "blst"]
        .into_iter()
        .find_map(|who| session.case("peers", format!("{name}/{who}"), Params::default()))
}

/// A result that is not the device's.
fn wrong(name: &str, who: &str) -> Failure {
    Failure::Wrong(format!("peers/{name}: the result of {who} is not the oracle's"))
}

/// A group that blst computes in.
trait BlstGroup: MsmGroup {
    type Theirs;

    fn theirs(points: &[Self::Affine]) -> Vec<Self::Theirs>;
    /// The product, by blst on all cores.
    fn mult(points: &[Self::Theirs], scalars: &[u8]) -> Self;
}

/// Both keep coordinates in Montgomery form with the same factor, the lowest limb first.
fn fp(value: &Fq) -> blst_fp {
    blst_fp { l: value.0.0 }
}

fn fq(value: &blst_fp) -> Fq {
    Fq::new_unchecked(BigInt(value.l))
}

fn fp2(value: &Fq2) -> blst_fp2 {
    blst_fp2 { fp: [fp(&value.c0), fp(&value.c1)] }
}

fn fq2(value: &blst_fp2) -> Fq2 {
    Fq2::new(fq(&value.fp[0]), fq(&value.fp[1]))
}

impl BlstGroup for Projective<g1::Config> {
    type Theirs = blst_p1_affine;

    fn theirs(points: &[G1Affine]) -> Vec<blst_p1_affine> {
        points.iter().map(|point| blst_p1_affine { x: fp(&point.x), y: fp(&point.y) }).collect()
    }

    fn mult(points: &[blst_p1_affine], scalars: &[u8]) -> Self {
        let blst_p1 { x, y, z } = points.mult(scalars, SCALAR_BITS);
        G1Projective::new_unchecked(fq(&x), fq(&y), fq(&z))
    }
}

impl BlstGroup for Projective<g2::Config> {
    type Theirs = blst_p2_affine;

    fn theirs(points: &[G2Affine]) -> Vec<blst_p2_affine> {
        points.iter().map(|point| blst_p2_affine { x: fp2(&point.x), y: fp2(&point.y) }).collect()
    }

    fn mult(points: &[blst_p2_affine], scalars: &[u8]) -> Self {
        let blst_p2 { x, y, z } = points.mult(scalars, SCALAR_BITS);
        G2Projective::new_unchecked(fq2(&x), fq2(&y), fq2(&z))
    }
}

fn msm<G: BlstGroup>(session: &mut Session<'_>, log_n: u32) -> Result<(), Failure> {
    let word = G::KIND.word();
    let name = format!("msm-{word}/2^{log_n}");
    if wanted(session, &name).is_none() {
        return Ok(());
    }
    let flavour = ScalarFlavour::Uniform;
    let inputs = Inputs::<G>::new(&session.device, flavour, log_n, session.settings.seed)?;
    let mut product = Msm::<G, Fr>::new(&inputs.bases, &MsmConfig::default())?;
    product.enable_timing()?;
    let their_points = G::theirs(inputs.known.points());
    let their_scalars: Vec<u8> =
        inputs.scalars.iter().flat_map(|scalar| scalar.into_bigint().to_bytes_le()).collect();
    let expected = inputs.expected;
    let check = |found: G, who| if found == expected { Ok(()) } else { Err(wrong(&name, who)) };
    let gpu = || {
        let start = Instant::now();
        let found = product.run(&inputs.scalars)?;
        let wall_us = micros(start);
        check(found, "gpu")?;
        let (schedule, trace) = (product.schedule(), product.trace());
        let (schedule, trace) = (schedule.expect("there are points"), trace.expect("it has run"));
        Ok((super::session::Sample::of(schedule, trace, wall_us).time_us, wall_us))
    };
    let arkworks = || {
        let start = Instant::now();
        let found = msm_by_arkworks::<G>(inputs.known.points(), &inputs.scalars);
        let wall_us = micros(start);
        check(found, "arkworks")?;
        Ok((wall_us, wall_us))
    };
    let blst = || {
        let start = Instant::now();
        let found = G::mult(&their_points, &their_scalars);
        let wall_us = micros(start);
        check(found, "blst")?;
        Ok((wall_us, wall_us))
    };
    let params = Params {
        what: "msm".into(),
        group: Some(word.into()),
        log_n: Some(log_n),
        scalars: Some(flavour.to_string()),
        ..Params::default()
    };
    let solvers: Vec<(_, Solver<'_>)> =
        vec![("gpu", Box::new(gpu)), ("arkworks", Box::new(arkworks)), ("blst", Box::new(blst))];
    rounds(session, &name, &params, 1 << log_n, solvers)
}

fn transform(session: &mut Session<'_>, log_n: u32) -> Result<(), Failure> {
    let name = format!("ntt/2^{log_n}");
    if wanted(session, &name).is_none() {
        return Ok(());
    }
    let values = ntt::values(session.settings.seed, log_n);
    let mut on_device = ntt::OnDevice::new(session, log_n, None, &values)?;
    // Both transform in place what they have transformed: after each round they hold the same values.
    on_device.run()?;
    let expected = ntt::by_arkworks(log_n, None, &values);
    if on_device.to_vec()? != expected {
        return Err(wrong(&name, "gpu"));
    }
    let gpu = || {
        let sample = on_device.run()?;
        Ok((sample.time_us, sample.wall_us))
    };
    let omega = Fr::get_root_of_unity(1 << log_n).expect("the field has such a root");
    let domain = crate::oracle::arkworks_domain(log_n, omega, Fr::ONE);
    let mut theirs = values;
    let arkworks = || {
        let start = Instant::now();
        domain.fft_in_place(&mut theirs);
        let wall_us = micros(start);
        black_box(&theirs);
        Ok((wall_us, wall_us))
    };
    let params =
        Params { what: "ntt".into(), log_n: Some(log_n), variant: Some("plain".into()), ..Params::default() };
    let solvers: Vec<(_, Solver<'_>)> = vec![("gpu", Box::new(gpu)), ("arkworks", Box::new(arkworks))];
    rounds(session, &name, &params, 1 << log_n, solvers)
}

fn proof(session: &mut Session<'_>, circuit: CircuitName) -> Result<(), Failure> {
    let name = format!("proof/{circuit}");
    let Some(case) = wanted(session, &name) else { return Ok(()) };
    let Some(problem) = problem(session, &case, circuit)? else { return Ok(()) };
    let mut ours = Ours::new(session, &case, problem.clone(), Upload::default())?;
    let blinding = ours.blinding;
    let gpu = || {
        let (report, wall_us) = ours.prove()?;
        let sample = super::session::Sample::of(ours.prover.schedule(), &report.trace, wall_us);
        Ok((sample.time_us, wall_us))
    };
    let arkworks = || {
        let start = Instant::now();
        black_box(proof_by_arkworks(&problem, blinding.0, blinding.1).map_err(Failure::Wrong)?);
        let wall_us = micros(start);
        Ok((wall_us, wall_us))
    };
    let params = Params { what: "proof".into(), variant: Some(circuit.to_string()), ..Params::default() };
    let solvers: Vec<(_, Solver<'_>)> = vec![("gpu", Box::new(gpu)), ("arkworks", Box::new(arkworks))];
    rounds(session, &name, &params, problem.r1cs.constraint_count() as u64, solvers)
}
