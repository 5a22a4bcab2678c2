//! One proof on one device, shown to verifiers that are not ours, and taken apart into phases.

use crate::circuits::{CircuitName, Problem};
use ark_bls12_381::{Bls12_381, Fr, G1Affine, G2Affine};
use ark_ff::{BigInteger, PrimeField};
use ark_groth16::{Groth16, ProvingKey, prepare_verifying_key};
use ark_serialize::CanonicalSerialize;
use bls12_381::{Bls12, Scalar};
use gpu_core::schedule::{Action, Op};
use gpu_core::{Device, Schedule, Trace};
use groth16::prover::Report;
use groth16::{
    CacheError, DeviceKey, KeyFile, PreparedKey, Proof, ProveConfig, ProveError, Prover, Shape, Trust,
};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// The proof's 192 bytes: those of arkworks, bellman and Zcash.
pub fn proof_bytes(proof: &Proof) -> Vec<u8> {
    let mut bytes = Vec::new();
    proof.serialize_compressed(&mut bytes).expect("a vector takes all bytes");
    bytes
}

/// arkworks' proof for the same r and s.
///
/// # Errors
/// What arkworks says.
pub fn proof_by_arkworks(problem: &Problem, r: Fr, s: Fr) -> Result<Proof, String> {
    let proof = Groth16::<Bls12_381>::create_proof_with_reduction_and_matrices(
        &problem.key,
        r,
        s,
        &problem.r1cs.to_matrices(),
        problem.r1cs.input_count(),
        problem.r1cs.constraint_count(),
        &problem.assignment,
    );
    proof.map_err(|error| error.to_string())
}

/// Whether zkcrypto's verifier, which shares no code with arkworks, accepts the bytes of a proof.
pub fn zkcrypto_accepts(key: &ProvingKey<Bls12_381>, inputs: &[Fr], bytes: &[u8]) -> bool {
    let Ok(proof) = zk_groth16::Proof::<Bls12>::read(bytes) else { return false };
    let vk = &key.vk;
    let vk = zk_groth16::VerifyingKey::<Bls12> {
        alpha_g1: g1(&vk.alpha_g1),
        beta_g1: g1(&key.beta_g1),
        beta_g2: g2(&vk.beta_g2),
        gamma_g2: g2(&vk.gamma_g2),
        delta_g1: g1(&key.delta_g1),
        delta_g2: g2(&vk.delta_g2),
        ic: vk.gamma_abc_g1.iter().map(g1).collect(),
    };
    let inputs: Vec<_> = inputs.iter().map(scalar).collect();
    zk_groth16::verify_proof(&zk_groth16::prepare_verifying_key(&vk), &proof, &inputs).is_ok()
}

fn uncompressed<const N: usize>(point: &impl CanonicalSerialize) -> [u8; N] {
    let mut bytes = [0; N];
    point.serialize_uncompressed(&mut bytes[..]).expect("a point has this many bytes");
    bytes
}

fn g1(point: &G1Affine) -> bls12_381::G1Affine {
    bls12_381::G1Affine::from_uncompressed(&uncompressed(point)).expect("a point of G1 is one for both")
}

fn g2(point: &G2Affine) -> bls12_381::G2Affine {
    bls12_381::G2Affine::from_uncompressed(&uncompressed(point)).expect("a point of G2 is one for both")
}

fn scalar(value: &Fr) -> Scalar {
    let bytes = value.into_bigint().to_bytes_le().try_into().expect("32 bytes");
    Scalar::from_bytes(&bytes).expect("both fields have the same modulus")
}

/// What a verifier says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Opinion {
    /// Who.
    pub verifier: &'static str,
    /// Whether it accepts the proof.
    pub accepts: bool,
}

/// Time of a part of a proof.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Phase {
    /// Which part.
    pub name: String,
    /// Where it ran: the device, or `host`.
    pub backend: String,
    /// Microseconds from its first operation to its last. Phases overlap.
    pub span_us: f64,
    /// Sum of the times of its operations, in microseconds.
    pub busy_us: f64,
}

/// One proof on one device.
#[derive(Debug, Clone, Serialize)]
pub struct ProofRow {
    /// Device, as `sim` or `cuda:0`.
    pub device: String,
    /// Circuit, as `sapling-output`.
    pub circuit: String,
    /// Where the key is from.
    pub key_from: &'static str,
    /// Sizes.
    pub shape: Shape,
    /// How the assignment went up.
    pub upload: String,
    /// The proof, 192 bytes in hexadecimal.
    pub proof: String,
    /// What verifiers say; none where that is off.
    pub opinions: Vec<Opinion>,
    /// Whether every run made the same bytes.
    pub runs_agree: bool,
    /// Whether arkworks makes the same bytes for the same r and s; `None` where it was not asked.
    pub equals_arkworks: Option<bool>,
    /// Time to check the key and bring it to the device, in microseconds.
    pub key_us: f64,
    /// Time to bring it to the device from a key file, its hash checked, in microseconds; `None` without one.
    pub key_file_us: Option<f64>,
    /// Wall time of the proof, without verifying it, in microseconds: each run's, the first one's memory cold.
    pub prove_us: Vec<f64>,
    /// Time of arkworks on this host, in microseconds.
    pub arkworks_us: Option<f64>,
    /// Whether the times of the phases are a prediction by the device's profile, not a measurement.
    pub is_virtual: bool,
    /// Parts of the last run.
    pub phases: Vec<Phase>,
    /// Bytes that go to the device for a proof.
    pub uploaded_bytes: u64,
    /// Bytes that come back.
    pub downloaded_bytes: u64,
    /// Device memory of the key.
    pub key_bytes: u64,
    /// Device memory of a proof that runs.
    pub run_bytes: u64,
}

impl ProofRow {
    /// Whether every run made it, every verifier accepts it, and its bytes are arkworks' if that was asked.
    pub fn is_right(&self) -> bool {
        let accepted = self.opinions.iter().all(|opinion| opinion.accepts);
        self.runs_agree && accepted && self.equals_arkworks != Some(false)
    }
}

/// How a proof is made and looked at.
#[derive(Debug, Clone)]
pub struct ProveOptions {
    /// The prover's configuration.
    pub config: ProveConfig,
    /// Whether the key's points are checked.
    pub trust: Trust,
    /// Whether arkworks proves the same, to compare.
    pub compare: bool,
    /// Runs, at least 1. All have the same blinding numbers.
    pub runs: u32,
    /// Blinding numbers.
    pub blinding: (Fr, Fr),
    /// A key file, written if it is not there: the key is loaded from it once more, and that one proves.
    pub key_file: Option<PathBuf>,
}

/// Proves a problem on a device.
///
/// # Errors
/// [`ProveError`]; arkworks' refusal as [`groth16::R1csError::Synthesis`].
pub fn prove(device: &Device, problem: &Problem, options: &ProveOptions) -> Result<ProofRow, ProveError> {
    let (r, s) = options.blinding;
    let start = Instant::now();
    let key = Arc::new(DeviceKey::new(device, &problem.key, &problem.r1cs, options.trust)?);
    let key_us = micros(start);
    let (key, key_file_us) = match &options.key_file {
        None => (key, None),
        Some(path) => {
            let (key, us) = key_from_file(device, problem, options.trust, path)?;
            (Arc::new(key), Some(us))
        }
    };
    let prover = Prover::with_key(key.clone(), &options.config)?;
    let mut prove_us = Vec::new();
    let mut runs_agree = true;
    let mut last: Option<(Proof, Report)> = None;
    for _ in 0..options.runs.max(1) {
        let start = Instant::now();
        let (proof, report) = prover.prove_reported(&problem.assignment, r, s, true)?;
        prove_us.push(micros(start) - report.verify_us.unwrap_or(0.0));
        runs_agree &= last.as_ref().is_none_or(|(before, _)| *before == proof);
        last = Some((proof, report));
    }
    let (proof, report) = last.expect("there is at least one run");
    let bytes = proof_bytes(&proof);
    let mut opinions = Vec::new();
    if options.config.verify {
        let vk = &problem.key.vk;
        let by_arkworks =
            Groth16::<Bls12_381>::verify_proof(&prepare_verifying_key(vk), &proof, problem.inputs());
        opinions.push(Opinion { verifier: "arkworks", accepts: by_arkworks == Ok(true) });
        let by_zkcrypto = zkcrypto_accepts(&problem.key, problem.inputs(), &bytes);
        opinions.push(Opinion { verifier: "zkcrypto", accepts: by_zkcrypto });
    }
    let (mut equals_arkworks, mut arkworks_us) = (None, None);
    if options.compare {
        let start = Instant::now();
        let theirs = proof_by_arkworks(problem, r, s).map_err(groth16::R1csError::Synthesis)?;
        arkworks_us = Some(micros(start));
        equals_arkworks = Some(proof_bytes(&theirs) == bytes);
    }
    let schedule = prover.schedule();
    let (uploaded_bytes, downloaded_bytes) = copied_bytes(schedule);
    Ok(ProofRow {
        device: device.info().id.clone(),
        circuit: problem.name.to_string(),
        key_from: problem.key_from,
        shape: *key.shape(),
        upload: options.config.upload.to_string(),
        proof: bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        opinions,
        runs_agree,
        equals_arkworks,
        key_us,
        key_file_us,
        prove_us,
        arkworks_us,
        is_virtual: report.trace.is_virtual,
        phases: phases(schedule, &report, &device.info().id),
        uploaded_bytes,
        downloaded_bytes,
        key_bytes: key.device_bytes(),
        run_bytes: schedule.bytes_in(gpu_core::Space::Device),
    })
}

/// The key from a file, written first if there is none, and the time that it takes, in microseconds.
fn key_from_file(
    device: &Device,
    problem: &Problem,
    trust: Trust,
    path: &Path,
) -> Result<(DeviceKey, f64), ProveError> {
    if !path.exists() {
        PreparedKey::new(&problem.key, &problem.r1cs, trust)?.write(path)?;
    }
    let start = Instant::now();
    let file = KeyFile::open(path)?;
    let key = file.key(trust)?;
    if *key.shape() != Shape::of(&problem.r1cs) {
        return Err(CacheError::OtherCircuit { path: path.into() }.into());
    }
    let key = key.load(device)?;
    Ok((key, micros(start)))
}

/// Blinding numbers of a seed, the same on every device.
pub fn blinding(seed: u64, circuit: CircuitName) -> (Fr, Fr) {
    use ark_ff::UniformRand;
    let rng = &mut crate::oracle::random_numbers(seed, &format!("blinding {circuit}"));
    (Fr::rand(rng), Fr::rand(rng))
}

fn micros(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e6
}

fn copied_bytes(schedule: &Schedule) -> (u64, u64) {
    schedule.ops.iter().fold((0, 0), |(up, down), op| match &op.action {
        Action::Upload { src, .. } => (up + src.bytes, down),
        Action::Download { dst, .. } => (up, down + dst.bytes),
        _ => (up, down),
    })
}

/// The phase that an operation belongs to; waits and marks belong to none.
fn phase_of(schedule: &Schedule, op: &Op) -> Option<String> {
    let stream = op.stream().map(|stream| schedule.stream_name(stream).into_owned());
    Some(match &op.action {
        Action::HostStep { .. } if op.name == groth16::schedule::STAGE_Z => "stage assignment".into(),
        Action::HostStep { .. } if op.name.ends_with("fold") => "fold".into(),
        Action::Upload { .. } => "upload assignment".into(),
        Action::Download { .. } => "download".into(),
        Action::Launch { launch, .. } => match launch.kernel.as_ref() {
            "groth16_eval_rows" | "groth16_check_rows" => "rows of a, b, c".into(),
            "groth16_quotient" => "transforms and quotient".into(),
            kernel if kernel.starts_with("ntt_") => "transforms and quotient".into(),
            _ => match stream.as_deref() {
                Some("compute") | None => "product h".into(),
                Some(product) => format!("product {product}"),
            },
        },
        _ => return None,
    })
}

fn phases(schedule: &Schedule, report: &Report, device: &str) -> Vec<Phase> {
    let Trace { spans, .. } = &report.trace;
    let mut phases: Vec<(Phase, f64, f64)> = Vec::new();
    for (op, span) in schedule.ops.iter().zip(spans) {
        let Some(name) = phase_of(schedule, op) else { continue };
        let index = phases.iter().position(|(phase, ..)| phase.name == name).unwrap_or_else(|| {
            let is_host = matches!(op.action, Action::HostStep { .. });
            let backend = if is_host { "host".into() } else { device.into() };
            phases.push((Phase { name, backend, span_us: 0.0, busy_us: 0.0 }, f64::INFINITY, 0.0));
            phases.len() - 1
        });
        let (phase, start, end) = &mut phases[index];
        (*start, *end) = (start.min(span.start_us), end.max(span.end_us));
        phase.span_us = *end - *start;
        phase.busy_us += span.end_us - span.start_us;
    }
    let host =
        |name: &str, us: f64| Phase { name: name.into(), backend: "host".into(), span_us: us, busy_us: us };
    let mut phases: Vec<_> = phases.into_iter().map(|(phase, ..)| phase).collect();
    phases.push(host("assemble", report.assemble_us));
    phases.extend(report.verify_us.map(|us| host("verify", us)));
    phases
}
