//! Whole proofs, and the way of their assignments to the device.

use super::record::{Amount, Params};
use super::session::{Case, Sample, Session, floor_us, micros};
use crate::circuits::{CircuitError, CircuitName, Problem};
use crate::error::Failure;
use crate::prove::{blinding, proof_by_arkworks};
use crate::sapling::KeyError;
use ark_bls12_381::Fr;
use gpu_core::schedule::Action;
use gpu_core::{Device, DeviceKind, Registered, Schedule, Trace};
use groth16::prover::Report;
use groth16::schedule::STAGE_Z;
use groth16::{DeviceKey, Proof, ProveConfig, Prover, Trust, Upload};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// Circuits, each with the default configuration, verification apart.
pub(super) fn proofs(session: &mut Session<'_>) -> Result<(), Failure> {
    let scale = session.settings.scale;
    for circuit in session.settings.cases.proof.circuits.at(scale).clone() {
        let circuit = circuit.0;
        let params = params("proof", circuit, None);
        let Some(mut case) = session.case("proof", circuit.to_string(), params) else { continue };
        let Some(problem) = problem(session, &case, circuit)? else { continue };
        let mut ours = Ours::new(session, &case, problem, Upload::default())?;
        case.amount = Some(Amount::Elements(ours.problem.r1cs.constraint_count() as u64));
        case.floor_us = session.profile().map(|profile| floor_us(ours.prover.schedule(), &profile));
        session.measure(case, || {
            let (report, wall_us) = ours.prove(true)?;
            Ok(Sample::of(ours.prover.schedule(), &report.trace, wall_us))
        })?;
    }
    Ok(())
}

/// Ways up: from the first byte that the host touches until the last one is on the device, in a proof.
pub(super) fn uploads(session: &mut Session<'_>) -> Result<(), Failure> {
    let scale = session.settings.scale;
    let cases = session.settings.cases.upload.clone();
    for circuit in cases.circuits.at(scale) {
        for upload in cases.uploads.at(scale) {
            let (circuit, upload) = (circuit.0, upload.0);
            let params = params("upload", circuit, Some(upload));
            let Some(mut case) = session.case("upload", format!("{circuit}/{upload}"), params) else {
                continue;
            };
            let Some(problem) = problem(session, &case, circuit)? else { continue };
            let mut ours = Ours::new(session, &case, problem, upload)?;
            let bytes = 32 * ours.problem.assignment.len() as u64;
            case.amount = Some(Amount::Bytes(bytes));
            case.floor_us =
                session.profile().map(|profile| bytes as f64 / profile.pinned_up_bytes_per_s * 1e6);
            let device = session.device.clone();
            session.measure(case, || {
                let (report, wall_us) = ours.prove(true)?;
                let time_us =
                    upload_us(ours.prover.schedule(), &report.trace) + page_lock_us(&device, upload, &ours)?;
                Ok(Sample { time_us, wall_us, idle_us: None })
            })?;
        }
    }
    Ok(())
}

fn params(what: &str, circuit: CircuitName, upload: Option<Upload>) -> Params {
    let variant = match upload {
        Some(upload) => format!("{circuit}, {upload}"),
        None => circuit.to_string(),
    };
    Params { who: "gpu".into(), what: what.into(), variant: Some(variant), ..Params::default() }
}

/// The problem, or a note that this program has no key for it.
pub(super) fn problem(
    session: &mut Session<'_>,
    case: &Case,
    circuit: CircuitName,
) -> Result<Option<Rc<Problem>>, Failure> {
    match session.problem(circuit) {
        Ok(problem) => Ok(Some(problem)),
        Err(Failure::Circuit(CircuitError::Key(error @ KeyError::NotEmbedded { .. }))) => {
            session.skip(case, error);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// A problem with its key on the device, and the proof that every run has to make.
pub(super) struct Ours {
    pub(super) problem: Rc<Problem>,
    pub(super) prover: Prover,
    pub(super) blinding: (Fr, Fr),
    pub(super) expected: Proof,
    id: String,
}

impl Ours {
    /// Brings the key up, and shows that a proof is arkworks'.
    pub(super) fn new(
        session: &Session<'_>,
        case: &Case,
        problem: Rc<Problem>,
        upload: Upload,
    ) -> Result<Self, Failure> {
        let key = DeviceKey::new(&session.device, &problem.key, &problem.r1cs, Trust::Trusted)?;
        let config = ProveConfig { upload, verify: false, ..ProveConfig::default() };
        let prover = Prover::with_key(Arc::new(key), &config)?;
        let pairs = blinding(session.settings.seed, problem.name, 1);
        let blinding = *pairs.first().expect("one pair was asked for");
        let expected = proof_by_arkworks(&problem, blinding.0, blinding.1).map_err(Failure::Wrong)?;
        let mut ours = Self { problem, prover, blinding, expected, id: case.id() };
        ours.prove(false)?;
        Ok(ours)
    }

    /// One proof, compared, and its wall time; with `timed`, what each operation takes on the device is measured in it.
    pub(super) fn prove(&mut self, timed: bool) -> Result<(Report, f64), Failure> {
        let start = Instant::now();
        let (r, s) = self.blinding;
        let (proof, report) = self.prover.prove_reported(&self.problem.assignment, r, s, timed)?;
        let wall_us = micros(start);
        if proof != self.expected {
            return Err(Failure::Wrong(format!("{}: the proof is not the oracle's", self.id)));
        }
        Ok((report, wall_us))
    }
}

/// Time to page-lock the assignment and to let go of it again, where the way up does so: it is no operation of the
/// schedule, so it is done once more to be measured. The virtual clock does not know it.
fn page_lock_us(device: &Device, upload: Upload, ours: &Ours) -> Result<f64, Failure> {
    if upload != Upload::Register || device.info().kind == DeviceKind::Sim {
        return Ok(0.0);
    }
    let start = Instant::now();
    drop(Registered::new(device, "the assignment", &ours.problem.assignment)?);
    Ok(micros(start))
}

/// From the start of the first operation that has to do with the upload to the end of the last.
fn upload_us(schedule: &Schedule, trace: &Trace) -> f64 {
    let is_upload = |action: &Action| matches!(action, Action::Upload { .. });
    let of_upload =
        schedule.ops.iter().zip(&trace.spans).filter(|(op, _)| op.name == STAGE_Z || is_upload(&op.action));
    let (first, last) = of_upload.fold((f64::INFINITY, 0.0_f64), |(first, last), (_, span)| {
        (first.min(span.start_us), last.max(span.end_us))
    });
    last - first
}
