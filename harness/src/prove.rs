//! Proofs on one device, shown to verifiers and beside provers that are not ours, and taken apart into phases.

use crate::bisect::{Part, bisect};
use crate::circuits::{self, CircuitError, CircuitName, Problem};
use crate::lanes::{Lane, lanes};
use crate::oracle::{proof_by_snarkjs_rules, random_numbers};
use crate::sapling::{self, KeyName};
use crate::snarkjs::SnarkjsProblem;
use ark_bls12_381::{Bls12_381, Fr, G1Affine, G2Affine};
use ark_ff::{BigInteger, PrimeField, UniformRand};
use ark_groth16::{Groth16, VerifyingKey, prepare_verifying_key};
use ark_serialize::CanonicalSerialize;
use bls12_381::{Bls12, Scalar};
use gpu_core::model::Timeline;
use gpu_core::schedule::{Action, Op};
use gpu_core::{Device, Schedule, Trace};
use groth16::prover::Report;
use groth16::{
    CacheError, DeviceKey, KeyError, KeyFile, PreparedKey, Proof, ProveConfig, ProveError, Prover, Reduction,
    Shape, Trust,
};
use msm_gpu::Batches;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use serde::Serialize;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use zeroize::Zeroizing;

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

/// Something to prove: a key, and an assignment.
pub trait Provable {
    /// What the circuit is called.
    fn name(&self) -> String;
    /// Where the key is from.
    fn key_from(&self) -> &'static str;
    /// Sizes.
    fn shape(&self) -> Shape;
    /// The assignment.
    fn assignment(&self) -> &[Fr];
    /// The verifying key.
    fn verifying_key(&self) -> &VerifyingKey<Bls12_381>;
    /// The key as a device takes it.
    ///
    /// # Errors
    /// [`KeyError`].
    fn prepare(&self, trust: Trust) -> Result<PreparedKey<'_>, KeyError>;
    /// The public inputs, the constant left out.
    fn public(&self) -> &[Fr];
    /// The reduction that the key was made for.
    fn reduction(&self) -> Reduction;
    /// The parts of a proof that nobody accepts, each by itself beside arkworks'; none where there is nothing to compare.
    ///
    /// # Errors
    /// [`ProveError`], where the device computes nothing.
    fn parts_on(&self, device: &Device) -> Result<Vec<Part>, ProveError>;
}

impl Provable for Problem {
    fn name(&self) -> String {
        self.name.to_string()
    }

    fn key_from(&self) -> &'static str {
        self.key_from
    }

    fn shape(&self) -> Shape {
        Shape::of(&self.r1cs)
    }

    fn assignment(&self) -> &[Fr] {
        &self.assignment
    }

    fn verifying_key(&self) -> &VerifyingKey<Bls12_381> {
        &self.key.vk
    }

    fn prepare(&self, trust: Trust) -> Result<PreparedKey<'_>, KeyError> {
        PreparedKey::new(&self.key, &self.r1cs, trust)
    }

    fn public(&self) -> &[Fr] {
        self.inputs()
    }

    fn reduction(&self) -> Reduction {
        Reduction::Libsnark
    }

    fn parts_on(&self, device: &Device) -> Result<Vec<Part>, ProveError> {
        bisect(device, self)
    }
}

/// zkcrypto's proof of a circuit of Zcash's for the same r and s: 192 bytes.
///
/// # Errors
/// What zkcrypto says.
pub fn proof_by_zkcrypto(
    circuit: impl bellman::Circuit<Scalar>,
    parameters: &zk_groth16::Parameters<Bls12>,
    r: Fr,
    s: Fr,
) -> Result<Vec<u8>, String> {
    let proof = zk_groth16::create_proof(circuit, parameters, scalar(&r), scalar(&s));
    let mut bytes = Vec::new();
    proof.map_err(|error| error.to_string())?.write(&mut bytes).expect("a vector takes all bytes");
    Ok(bytes)
}

/// What another prover makes of the same assignment, r and s.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Who.
    pub prover: &'static str,
    /// A proof of 192 bytes for each pair of blinding numbers.
    pub proofs: Vec<Vec<u8>>,
    /// Time of the fastest on this host, in microseconds.
    pub us: f64,
}

impl Peer {
    fn new(
        prover: &'static str,
        blinding: &[(Fr, Fr)],
        prove: impl Fn(Fr, Fr) -> Result<Vec<u8>, String>,
    ) -> Result<Self, ProveError> {
        let mut us = f64::INFINITY;
        let proof = |(r, s): &(Fr, Fr)| {
            let start = Instant::now();
            let proof = prove(*r, *s).map_err(groth16::R1csError::Synthesis)?;
            us = us.min(micros(start));
            Ok(proof)
        };
        let proofs = blinding.iter().map(proof).collect::<Result<_, ProveError>>()?;
        Ok(Self { prover, proofs, us })
    }
}

/// arkworks' proofs of a problem.
///
/// # Errors
/// arkworks' refusal as [`groth16::R1csError::Synthesis`].
pub fn arkworks(problem: &Problem, blinding: &[(Fr, Fr)]) -> Result<Peer, ProveError> {
    let prove = |r, s| proof_by_arkworks(problem, r, s).map(|proof| proof_bytes(&proof));
    Peer::new("arkworks", blinding, prove)
}

/// Proofs of a problem of snarkjs' by snarkjs' rules, in arkworks' arithmetic.
///
/// # Errors
/// None: it has the signature of the others.
pub fn snarkjs_rules(problem: &SnarkjsProblem, blinding: &[(Fr, Fr)]) -> Result<Peer, ProveError> {
    let prove = |r, s| Ok(proof_bytes(&proof_by_snarkjs_rules(problem.zkey(), problem.assignment(), r, s)));
    Peer::new("snarkjs' rules in arkworks' arithmetic", blinding, prove)
}

/// zkcrypto's proofs of a problem, if it is a circuit of Zcash's. `seed` and `params` are those of the problem.
///
/// # Errors
/// [`CircuitError`]: zkcrypto's refusal as [`groth16::R1csError::Synthesis`].
pub fn zkcrypto(
    problem: &Problem,
    seed: u64,
    params: Option<&Path>,
    blinding: &[(Fr, Fr)],
) -> Result<Option<Peer>, CircuitError> {
    let parameters = |key| -> Result<_, CircuitError> {
        // Compared with the published hash when the problem was made.
        let file = sapling::file(key, params)?;
        let refuse =
            |error: std::io::Error| ProveError::from(groth16::R1csError::Synthesis(error.to_string()));
        Ok(zk_groth16::Parameters::<Bls12>::read(&file[..], false).map_err(refuse)?)
    };
    let rng = || random_numbers(seed, &problem.name.to_string());
    let peer = match problem.name {
        CircuitName::SaplingOutput => {
            let parameters = parameters(KeyName::Output)?;
            let prove = |r, s| proof_by_zkcrypto(circuits::sapling_output(&mut rng()), &parameters, r, s);
            Peer::new("zkcrypto", blinding, prove)?
        }
        CircuitName::SaplingSpend => {
            let parameters = parameters(KeyName::Spend)?;
            let prove = |r, s| proof_by_zkcrypto(circuits::sapling_spend(&mut rng()), &parameters, r, s);
            Peer::new("zkcrypto", blinding, prove)?
        }
        CircuitName::Mimc(_) => return Ok(None),
    };
    Ok(Some(peer))
}

/// Whether zkcrypto's verifier, which shares no code with arkworks, accepts the bytes of a proof.
pub fn zkcrypto_accepts(vk: &VerifyingKey<Bls12_381>, inputs: &[Fr], bytes: &[u8]) -> bool {
    let Ok(proof) = zk_groth16::Proof::<Bls12>::read(bytes) else { return false };
    // Two points that its format has for provers, and that no verifier reads.
    let unread = bls12_381::G1Affine::generator();
    let vk = zk_groth16::VerifyingKey::<Bls12> {
        alpha_g1: g1(&vk.alpha_g1),
        beta_g1: unread,
        beta_g2: g2(&vk.beta_g2),
        gamma_g2: g2(&vk.gamma_g2),
        delta_g1: unread,
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

/// What verifiers that are not ours say of proofs: that they accept all of them, or not.
pub fn opinions(vk: &VerifyingKey<Bls12_381>, inputs: &[Fr], proofs: &[Proof]) -> Vec<Opinion> {
    // arkworks' verifier does not look at what is missing among the inputs.
    let is_complete = inputs.len() + 1 == vk.gamma_abc_g1.len();
    let prepared = prepare_verifying_key(vk);
    let arkworks = |proof| Groth16::<Bls12_381>::verify_proof(&prepared, proof, inputs) == Ok(true);
    let zkcrypto = |proof| zkcrypto_accepts(vk, inputs, &proof_bytes(proof));
    vec![
        Opinion { verifier: "arkworks", accepts: is_complete && proofs.iter().all(arkworks) },
        Opinion { verifier: "zkcrypto", accepts: proofs.iter().all(zkcrypto) },
    ]
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

/// Another prover's bytes beside ours.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Who.
    pub prover: &'static str,
    /// Whether all its proofs are ours, byte for byte.
    pub equal: bool,
    /// Time of its fastest on this host, in microseconds.
    pub us: f64,
}

/// One configuration of the prover on one device.
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
    /// What the host did between batches, as `deferred:2`.
    pub strategy: String,
    /// Batches of each product, at most.
    pub batches: u32,
    /// The proofs, each 192 bytes in hexadecimal: one for each pair of blinding numbers.
    pub proofs: Vec<String>,
    /// What verifiers say of all of them; none where that is off.
    pub opinions: Vec<Opinion>,
    /// Whether every run made the same bytes.
    pub runs_agree: bool,
    /// The same by other provers; none where that was not asked.
    pub comparisons: Vec<Comparison>,
    /// Time to check the key and bring it to the device, in microseconds.
    pub key_us: f64,
    /// Time to bring it to the device from a key file, its hash checked, in microseconds; `None` without one.
    pub key_file_us: Option<f64>,
    /// Wall time of the proof, without verifying it, in microseconds: each run's, the first one's memory cold.
    pub prove_us: Vec<f64>,
    /// Device memory free after each run, in bytes.
    pub free_bytes: Vec<u64>,
    /// Whether the times of the phases are a prediction by the device's profile, not a measurement.
    pub is_virtual: bool,
    /// From the last run's first operation to its last, in microseconds.
    pub makespan_us: f64,
    /// Share of that in which a kernel runs.
    pub gpu_busy_share: f64,
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
    /// The last run.
    #[serde(skip)]
    pub lanes: Vec<Lane>,
}

/// Runs after which a prover has taken all the memory that it will ever take.
const WARM_RUNS: usize = 10;
/// Bytes by which free device memory may differ afterwards: a driver's own housekeeping.
const MEMORY_SLACK: u64 = 1 << 20;

impl ProofRow {
    /// Whether every run made it, every verifier accepts it, its bytes are other provers' if that was asked, and device
    /// memory after the last run is what it was after the tenth.
    pub fn is_right(&self) -> bool {
        let accepted = self.opinions.iter().all(|opinion| opinion.accepts);
        let equal = self.comparisons.iter().all(|comparison| comparison.equal);
        self.runs_agree && accepted && equal && self.memory_lost() <= MEMORY_SLACK
    }

    /// Bytes of device memory that runs after the tenth have taken and not given back.
    pub fn memory_lost(&self) -> u64 {
        let warm = self.free_bytes.get(WARM_RUNS - 1).copied().unwrap_or(0);
        warm.saturating_sub(self.free_bytes.last().copied().unwrap_or(0))
    }
}

/// A key on a device, and the time that it took.
#[derive(Debug, Clone)]
pub struct LoadedKey {
    /// The key.
    pub key: Arc<DeviceKey>,
    /// Time to check it and bring it to the device, in microseconds.
    pub us: f64,
    /// Time to bring it to the device from a key file, its hash checked, in microseconds; `None` without one.
    pub file_us: Option<f64>,
}

impl LoadedKey {
    /// Brings a problem's key to a device. With a key file, which is written if it is not there, it is loaded from that
    /// once more, and that one is kept.
    ///
    /// # Errors
    /// [`ProveError`].
    pub fn new(
        device: &Device,
        problem: &impl Provable,
        trust: Trust,
        key_file: Option<&Path>,
    ) -> Result<Self, ProveError> {
        let start = Instant::now();
        let key = problem.prepare(trust)?.load(device)?;
        let us = micros(start);
        let Some(path) = key_file else { return Ok(Self { key: Arc::new(key), us, file_us: None }) };
        drop(key);
        let (key, file_us) = key_from_file(device, problem, trust, path)?;
        Ok(Self { key: Arc::new(key), us, file_us: Some(file_us) })
    }
}

/// How proofs are made and looked at.
#[derive(Debug, Clone)]
pub struct ProveOptions<'a> {
    /// The prover's configuration.
    pub config: ProveConfig,
    /// Runs, at least 1, for each pair of blinding numbers.
    pub runs: u32,
    /// Blinding numbers, at least one pair.
    pub blinding: &'a [(Fr, Fr)],
    /// What other provers make of the same.
    pub peers: &'a [Peer],
}

/// Proves a problem under a key that is on a device.
///
/// # Errors
/// [`ProveError`].
///
/// # Panics
/// Without a pair of blinding numbers.
pub fn prove(
    problem: &impl Provable,
    loaded: &LoadedKey,
    options: &ProveOptions<'_>,
) -> Result<ProofRow, ProveError> {
    let (key, device) = (&loaded.key, loaded.key.device());
    let config = ProveConfig { reduction: Some(problem.reduction()), ..options.config };
    let prover = Prover::with_key(key.clone(), &config)?;
    let (mut prove_us, mut free_bytes, mut proofs) = (Vec::new(), Vec::new(), Vec::new());
    let mut runs_agree = true;
    let mut last: Option<Report> = None;
    for (r, s) in options.blinding {
        let mut first: Option<Proof> = None;
        for _ in 0..options.runs.max(1) {
            let start = Instant::now();
            let (proof, report) = prover.prove_reported(problem.assignment(), *r, *s, true)?;
            prove_us.push(micros(start) - report.verify_us.unwrap_or(0.0));
            free_bytes.push(device.free_bytes()?);
            runs_agree &= *first.get_or_insert_with(|| proof.clone()) == proof;
            last = Some(report);
        }
        proofs.extend(first);
    }
    let report = last.expect("there is at least one pair of blinding numbers");
    let bytes: Vec<_> = proofs.iter().map(proof_bytes).collect();
    let opinions = match options.config.verify {
        true => opinions(problem.verifying_key(), problem.public(), &proofs),
        false => Vec::new(),
    };
    let compare = |peer: &Peer| Comparison { prover: peer.prover, equal: peer.proofs == bytes, us: peer.us };
    let schedule = prover.schedule();
    let (uploaded_bytes, downloaded_bytes) = copied_bytes(schedule);
    let timeline = Timeline::new(schedule, &report.trace.spans);
    let hex = |bytes: &Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(ProofRow {
        device: device.info().id.clone(),
        circuit: problem.name(),
        key_from: problem.key_from(),
        shape: *key.shape(),
        upload: options.config.upload.to_string(),
        strategy: options.config.msm.strategy.to_string(),
        batches: match options.config.msm.batches {
            Batches::Count(count) => count,
            Batches::FitBytes(_) => 0,
        },
        proofs: bytes.iter().map(hex).collect(),
        opinions,
        runs_agree,
        comparisons: options.peers.iter().map(compare).collect(),
        key_us: loaded.us,
        key_file_us: loaded.file_us,
        prove_us,
        free_bytes,
        is_virtual: report.trace.is_virtual,
        makespan_us: timeline.makespan_us,
        gpu_busy_share: timeline.compute_busy_us / timeline.makespan_us,
        phases: phases(schedule, &report, &device.info().id),
        uploaded_bytes,
        downloaded_bytes,
        key_bytes: key.device_bytes(),
        run_bytes: schedule.bytes_in(gpu_core::Space::Device),
        lanes: lanes(schedule, &report.trace.spans, &report.trace.calls),
    })
}

/// The key from a file, written first if there is none, and the time that it takes, in microseconds.
fn key_from_file(
    device: &Device,
    problem: &impl Provable,
    trust: Trust,
    path: &Path,
) -> Result<(DeviceKey, f64), ProveError> {
    if !path.exists() {
        problem.prepare(trust)?.write(path)?;
    }
    let start = Instant::now();
    let file = KeyFile::open(path)?;
    let key = file.key(trust)?;
    let (expected, found) = (problem.reduction(), key.shape().reduction);
    if expected != found {
        return Err(KeyError::Reduction { expected, found }.into());
    }
    if *key.shape() != problem.shape() {
        return Err(CacheError::OtherCircuit { path: path.into() }.into());
    }
    let key = key.load(device)?;
    Ok((key, micros(start)))
}

/// Pairs of blinding numbers of a seed, the same on every device.
pub fn blinding(seed: u64, circuit: impl Display, count: u32) -> Vec<(Fr, Fr)> {
    pairs(&mut random_numbers(seed, &format!("blinding {circuit}")), count)
}

/// Pairs of blinding numbers that nobody knows.
///
/// # Errors
/// If the system has no random numbers.
pub fn system_blinding(count: u32) -> Result<Zeroizing<Vec<(Fr, Fr)>>, getrandom::Error> {
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *seed)?;
    Ok(Zeroizing::new(pairs(&mut ChaCha20Rng::from_seed(*seed), count)))
}

fn pairs(rng: &mut ChaCha20Rng, count: u32) -> Vec<(Fr, Fr)> {
    (0..count).map(|_| (Fr::rand(rng), Fr::rand(rng))).collect()
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
            "groth16_eval_rows" | "groth16_check_rows" | "groth16_multiply_rows" => "rows of a, b, c".into(),
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
