//! The device beside arkworks and blst on this host's processor, and beside sppark and supraseal on the same device: the
//! same problem, in turn, in rounds.
//!
//! All of them take the problem as they like it best: bases and scalars in their own form, made before the clock starts.
//! Those on the device have the bases there before it starts; scalars come from ordinary memory of the host, and the sum
//! is on the host when it stops. Values that are transformed stay on the device. A proof begins with the assignment, for
//! supraseal with the rows of A, B and C at it too, which it leaves to others. What the machine does meanwhile meets all of
//! them alike, since they take turns, and all are timed from call to result: ours without the events that time its
//! operations, which others do not have. Those on the processor leave large problems out, which would take minutes.

mod blst;
mod guest;

use blst::BlstGroup;
use guest::Guest;

use super::cases::CpuLimits;
use super::inputs::Inputs;
use super::proof::{Ours, problem};
use super::record::{Amount, Clock, Params, Ratio};
use super::session::{Case, Sample, Session, micros};
use super::{ntt, stats};
use crate::circuits::{CircuitName, Problem};
use crate::error::Failure;
use crate::oracle::{ScalarFlavour, msm_by_arkworks};
use crate::prove::proof_by_arkworks;
use crate::sapling::{self, KeyName};
use ark_bls12_381::{Fr, G1Projective, G2Projective};
use ark_ff::{BigInteger, FftField, Field, PrimeField};
use ark_poly::EvaluationDomain;
use groth16::Upload;
use msm_gpu::{Msm, MsmConfig};
use std::hint::black_box;
use std::time::Instant;
use supraseal_peer::Witness;

/// Products, transforms and proofs.
pub(super) fn run(session: &mut Session<'_>) -> Result<(), Failure> {
    let (cases, scale) = (session.settings.cases.peers.clone(), session.settings.scale);
    let CpuLimits { msm_g1, msm_g2, ntt } = *cases.cpu_log_n_max.at(scale);
    let (sppark, supraseal) = (&mut Guest::sppark(session), &mut Guest::supraseal(session));
    for log_n in cases.msm_g1.at(scale) {
        msm::<G1Projective>(session, sppark, *log_n, msm_g1)?;
    }
    for log_n in cases.msm_g2.at(scale) {
        msm::<G2Projective>(session, sppark, *log_n, msm_g2)?;
    }
    for log_n in cases.ntt.at(scale) {
        transform(session, sppark, *log_n, ntt)?;
    }
    for circuit in cases.proofs.at(scale) {
        proof(session, supraseal, circuit.0)?;
    }
    Ok(())
}

/// Somebody who solves the problem, and the wall time in microseconds; of the simulated device the virtual time. Results are
/// compared outside of it.
type Solver<'a> = Box<dyn FnMut() -> Result<f64, Failure> + 'a>;

/// Lets everybody take turns, the device first, and keeps times and ratios.
fn rounds(
    session: &mut Session<'_>,
    name: &str,
    params: &Params,
    amount: u64,
    mut solvers: Vec<(&'static str, Solver<'_>)>,
) -> Result<(), Failure> {
    let rounds = *session.settings.cases.peers.rounds.at(session.settings.scale);
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); solvers.len()];
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
        if *who != "gpu" || !session.is_virtual() {
            case.clock = Clock::Wall;
        }
        session.push_rounds(case, times.clone());
    }
    if session.is_virtual() {
        // A prediction beside a measurement is no comparison.
        return Ok(());
    }
    let (ours, others) = times.split_first().expect("the device is there");
    for ((peer, _), theirs) in solvers[1..].iter().zip(others) {
        let ratios: Vec<f64> = theirs.iter().zip(ours).map(|(their, our)| their / our).collect();
        if let (Some(median), Some(interval)) = (stats::median(&ratios), stats::median_interval(&ratios)) {
            let (id, peer) = (format!("peers/{name}"), (*peer).into());
            session.push_ratio(Ratio { id, peer, median, interval });
        }
    }
    Ok(())
}

/// The first of a comparison's ids that is wanted.
fn wanted(session: &Session<'_>, name: &str, everybody: &[&str]) -> Option<Case> {
    everybody.iter().find_map(|who| session.case("peers", format!("{name}/{who}"), Params::default()))
}

/// Who takes turns with the device.
struct Others {
    /// Those on the processor.
    cpu: bool,
    /// A guest, on CUDA's device of this number.
    guest: Option<u32>,
}

impl Others {
    /// `None` if nothing of the comparison is wanted, or there is nobody to compare with.
    fn of(session: &mut Session<'_>, guest: &mut Guest, name: &str, cpu: &[&str]) -> Option<Self> {
        wanted(session, name, &[&["gpu", guest.who], cpu].concat())?;
        let others = Self { cpu: !cpu.is_empty(), guest: guest.device(session) };
        (others.cpu || others.guest.is_some()).then_some(others)
    }
}

/// A result that is not the device's.
fn wrong(name: &str, who: &str) -> Failure {
    Failure::Wrong(format!("peers/{name}: the result of {who} is not the oracle's"))
}

fn msm<G: BlstGroup + sppark_peer::Group>(
    session: &mut Session<'_>,
    sppark: &mut Guest,
    log_n: u32,
    cpu_log_n_max: u32,
) -> Result<(), Failure> {
    let word = G::KIND.word();
    let name = format!("msm-{word}/2^{log_n}");
    let cpu: &[&str] = if log_n <= cpu_log_n_max { &["arkworks", "blst"] } else { &[] };
    let Some(others) = Others::of(session, sppark, &name, cpu) else { return Ok(()) };
    let flavour = ScalarFlavour::Uniform;
    let inputs = Inputs::<G>::new(&session.device, flavour, log_n, session.settings.seed)?;
    let mut product = Msm::<G, Fr>::new(&inputs.bases, &MsmConfig::default())?;
    let is_virtual = session.is_virtual();
    let (points, scalars, expected) = (inputs.known.points(), &inputs.scalars, inputs.expected);
    let check = |found: G, who| if found == expected { Ok(()) } else { Err(wrong(&name, who)) };
    let mut solvers: Vec<(_, Solver<'_>)> = Vec::new();
    let gpu = || {
        let start = Instant::now();
        let found = product.run(scalars)?;
        let wall_us = micros(start);
        check(found, "gpu")?;
        if !is_virtual {
            return Ok(wall_us);
        }
        let (schedule, trace) = (product.schedule(), product.trace());
        let (schedule, trace) = (schedule.expect("there are points"), trace.expect("it has run"));
        Ok(Sample::of(schedule, trace, wall_us).time_us)
    };
    solvers.push(("gpu", Box::new(gpu)));
    if others.cpu {
        let arkworks = || {
            let start = Instant::now();
            let found = msm_by_arkworks::<G>(points, scalars);
            let wall_us = micros(start);
            check(found, "arkworks")?;
            Ok(wall_us)
        };
        solvers.push(("arkworks", Box::new(arkworks)));
        let their_points = G::theirs(points);
        let their_scalars: Vec<u8> =
            scalars.iter().flat_map(|scalar| scalar.into_bigint().to_bytes_le()).collect();
        let blst = move || {
            let start = Instant::now();
            let found = G::mult(&their_points, &their_scalars);
            let wall_us = micros(start);
            check(found, "blst")?;
            Ok(wall_us)
        };
        solvers.push(("blst", Box::new(blst)));
    }
    if let Some(device) = others.guest {
        let who = sppark.who;
        let made = sppark_peer::Product::<G>::new(device, points).map(|mut theirs| {
            let their_scalars: Vec<[u64; 4]> = scalars.iter().map(sppark_peer::fr_words).collect();
            let solve = move || {
                let start = Instant::now();
                let found = theirs.run(&their_scalars)?;
                let wall_us = micros(start);
                check(found, who)?;
                Ok(wall_us)
            };
            Box::new(solve) as Solver<'_>
        });
        solvers.extend(sppark.admit(session, &name, made.map_err(Failure::from)));
    }
    let params = Params {
        what: "msm".into(),
        group: Some(word.into()),
        log_n: Some(log_n),
        scalars: Some(flavour.to_string()),
        ..Params::default()
    };
    rounds(session, &name, &params, 1 << log_n, solvers)
}

fn transform(
    session: &mut Session<'_>,
    sppark: &mut Guest,
    log_n: u32,
    cpu_log_n_max: u32,
) -> Result<(), Failure> {
    let name = format!("ntt/2^{log_n}");
    let cpu: &[&str] = if log_n <= cpu_log_n_max { &["arkworks"] } else { &[] };
    let Some(others) = Others::of(session, sppark, &name, cpu) else { return Ok(()) };
    let values = ntt::values(session.settings.seed, log_n);
    let mut on_device = ntt::OnDevice::new(&session.device, log_n, None, &values)?;
    // All transform in place what they have transformed: after each round they hold the same values.
    on_device.run()?;
    let expected = ntt::by_arkworks(log_n, None, &values);
    if on_device.to_vec()? != expected {
        return Err(wrong(&name, "gpu"));
    }
    let is_virtual = session.is_virtual();
    let gpu = || {
        let sample = on_device.run()?;
        Ok(if is_virtual { sample.time_us } else { sample.wall_us })
    };
    let mut solvers: Vec<(_, Solver<'_>)> = vec![("gpu", Box::new(gpu))];
    if let Some(device) = others.guest {
        let made = sppark_peer::Values::new(device, &values).map_err(Failure::from);
        let made = made.and_then(|mut theirs| {
            theirs.transform()?;
            if theirs.to_vec()? != expected {
                return Err(wrong(&name, sppark.who));
            }
            let solve = move || {
                let start = Instant::now();
                theirs.transform()?;
                let wall_us = micros(start);
                Ok(wall_us)
            };
            Ok(Box::new(solve) as Solver<'_>)
        });
        solvers.extend(sppark.admit(session, &name, made));
    }
    if others.cpu {
        let omega = Fr::get_root_of_unity(1 << log_n).expect("the field has such a root");
        let domain = crate::oracle::arkworks_domain(log_n, omega, Fr::ONE);
        let mut theirs = values;
        let arkworks = move || {
            let start = Instant::now();
            domain.fft_in_place(&mut theirs);
            let wall_us = micros(start);
            black_box(&theirs);
            Ok(wall_us)
        };
        solvers.push(("arkworks", Box::new(arkworks)));
    }
    let params =
        Params { what: "ntt".into(), log_n: Some(log_n), variant: Some("plain".into()), ..Params::default() };
    rounds(session, &name, &params, 1 << log_n, solvers)
}

fn proof(session: &mut Session<'_>, supraseal: &mut Guest, circuit: CircuitName) -> Result<(), Failure> {
    let name = format!("proof/{circuit}");
    let Some(case) = wanted(session, &name, &["gpu", "arkworks", supraseal.who]) else { return Ok(()) };
    let Some(problem) = problem(session, &case, circuit)? else { return Ok(()) };
    let mut ours = Ours::new(session, &case, problem.clone(), Upload::default())?;
    let (blinding, expected, is_virtual) = (ours.blinding, ours.expected.clone(), session.is_virtual());
    let gpu = || {
        let (report, wall_us) = ours.prove(false)?;
        let of_device = || Sample::of(ours.prover.schedule(), &report.trace, wall_us).time_us;
        Ok(if is_virtual { of_device() } else { wall_us })
    };
    let arkworks = || {
        let start = Instant::now();
        black_box(proof_by_arkworks(&problem, blinding.0, blinding.1).map_err(Failure::Wrong)?);
        let wall_us = micros(start);
        Ok(wall_us)
    };
    let mut solvers: Vec<(_, Solver<'_>)> = vec![("gpu", Box::new(gpu)), ("arkworks", Box::new(arkworks))];
    if let Some(made) = supraseal_prover(session, supraseal, &problem) {
        let (name, who) = (&name, supraseal.who);
        let made = made.map(|mut theirs| {
            let solve = move || {
                let start = Instant::now();
                let found = theirs.prove(blinding.0, blinding.1)?;
                let wall_us = micros(start);
                let is_right = (found.a, found.b, found.c) == (expected.a, expected.b, expected.c);
                if is_right { Ok(wall_us) } else { Err(wrong(name, who)) }
            };
            Box::new(solve) as Solver<'_>
        });
        solvers.extend(supraseal.admit(session, name, made));
    }
    let params = Params { what: "proof".into(), variant: Some(circuit.to_string()), ..Params::default() };
    rounds(session, &name, &params, problem.r1cs.constraint_count() as u64, solvers)
}

/// supraseal with the problem's key, of which there has to be a file: Zcash's keys have one. `None` where it takes no turn.
fn supraseal_prover(
    session: &mut Session<'_>,
    supraseal: &mut Guest,
    problem: &Problem,
) -> Option<Result<supraseal_peer::Prover, Failure>> {
    let key = match problem.name {
        CircuitName::SaplingOutput => KeyName::Output,
        CircuitName::SaplingSpend => KeyName::Spend,
        CircuitName::Mimc(_) => return None,
    };
    supraseal.device(session)?;
    let params = session.settings.params.as_deref();
    let prover = || {
        let bytes = sapling::file(key, params)?;
        Ok(supraseal_peer::Prover::new(&bytes, supraseal_witness(problem))?)
    };
    Some(prover())
}

/// The problem as supraseal takes it.
fn supraseal_witness(problem: &Problem) -> Witness {
    let Problem { r1cs, assignment, .. } = problem;
    let rows = [r1cs.a(), r1cs.b(), r1cs.c()].map(|matrix| {
        let value = |row| matrix.row(row).map(|(variable, value)| value * assignment[variable]).sum();
        (0..matrix.row_count()).map(value).collect()
    });
    let [a, b] = [r1cs.a(), r1cs.b()].map(|matrix| matrix.occurrences(r1cs.variable_count()));
    Witness::new(rows, assignment, r1cs.input_count(), [&a, &b])
}

#[cfg(all(test, feature = "sapling-keys"))]
mod tests {
    use super::*;

    /// The lengths that supraseal compares before it begins, and ends the program over.
    #[test]
    fn zcash_s_circuit_has_the_lengths_of_its_key_for_supraseal() {
        let problem = Problem::new(CircuitName::SaplingOutput, 1, None).expect("a problem");
        let bytes = sapling::file(KeyName::Output, None).expect("an embedded key");
        let prover = supraseal_peer::Prover::new(&bytes, supraseal_witness(&problem));
        match (supraseal_peer::BUILD, prover) {
            (supraseal_peer::Build::Off, Err(supraseal_peer::PeerError::NotBuilt)) => {}
            (supraseal_peer::Build::Whole, Ok(_) | Err(supraseal_peer::PeerError::Device { .. })) => {}
            (build, other) => panic!("{build:?}: {other:?}"),
        }
    }
}
