//! `harness prove`: a proof on a device, verified by others.

use crate::bisect::Part;
use crate::circuits::{CircuitName, Problem};
use crate::devices::{DeviceChoice, Devices};
use crate::error::{Failure, Judgement};
use crate::oracle::parse_seed;
use crate::prove::{
    LoadedKey, Peer, ProofRow, Provable, ProveOptions, arkworks, blinding, prove, snarkjs_rules,
    system_blinding, zkcrypto,
};
use crate::report::{bytes_text, new_table, write_json};
use crate::snarkjs::SnarkjsProblem;
use crate::trace_events::{Process, TraceFile};
use ark_bls12_381::Fr;
use ark_serialize::CanonicalDeserialize;
use comfy_table::{CellAlignment, Table};
use gpu_core::sim::SimOptions;
use gpu_core::{Device, DeviceInfo};
use groth16::circom::json::{ProofJson, public_text};
use groth16::{MemoryEstimate, Proof, ProofPlan, ProveConfig, ProveError, Trust, Upload};
use msm_gpu::{DeviceLimits, MsmConfig, Strategy};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Proves a circuit on a device, and shows the proof to arkworks' and zkcrypto's verifiers.
#[derive(Debug, Clone, clap::Args)]
pub struct ProveArgs {
    /// What to prove: `sapling-output`, `sapling-spend` or `mimc:ROUNDS` (two constraints a round)
    #[arg(long, default_value_t = CircuitName::SaplingOutput, value_name = "CIRCUIT")]
    pub circuit: CircuitName,
    /// What to prove instead: proving key of snarkjs over BLS12-381 (`snarkjs groth16 setup`, `snarkjs zkey contribute`)
    #[arg(long, value_name = "FILE", requires = "witness", conflicts_with_all = ["circuit", "params"])]
    pub zkey: Option<PathBuf>,
    /// Witness that circom's generator made for that key's circuit
    #[arg(long, value_name = "FILE", requires = "zkey")]
    pub witness: Option<PathBuf>,
    /// Constraints of that circuit, to check the witness with: the first one that fails is named
    #[arg(long, value_name = "FILE", requires = "zkey")]
    pub r1cs: Option<PathBuf>,
    /// Where to run: `auto` (the simulated device, and every CUDA device), `sim`, `cuda` or `cuda:N`
    #[arg(long, default_value_t = DeviceChoice::Auto, value_name = "DEVICE")]
    pub device: DeviceChoice,
    /// Directory of sapling-output.params and sapling-spend.params, instead of the embedded keys
    #[arg(long, value_name = "DIR")]
    pub params: Option<PathBuf>,
    /// Seed of the assignment, of a synthetic circuit's key, and of the blinding numbers [default: 0x70726f7665; with
    /// --zkey the blinding numbers are the system's, and a seed gives zero knowledge up]
    #[arg(long, value_parser = parse_seed)]
    pub seed: Option<u64>,
    /// Device memory for multiples of the key's bases, in GiB: more of it, fewer additions
    #[arg(long, value_name = "GIB", default_value_t = 0.0)]
    pub table_gib: f64,
    /// Shows the proof to no verifier (the default is to verify it). With --zkey only --r1cs then checks the witness
    #[arg(long)]
    pub no_verify: bool,
    /// Also proves with arkworks, and with zkcrypto where the circuit is Zcash's, and compares the bytes. With --zkey by
    /// snarkjs' rules in arkworks' arithmetic
    #[arg(long)]
    pub compare: bool,
    /// Leaves the points of the key unchecked
    #[arg(long)]
    pub trust_key: bool,
    /// Key file: written if it is not there, and the key is loaded from it
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// How the assignment goes up: `pageable`, `register`, `ring` or `ring:SLOTS:VALUES`; several are measured side by side
    #[arg(long, value_delimiter = ',', default_values_t = [Upload::default()], value_name = "UPLOADS")]
    pub upload: Vec<Upload>,
    /// Batches of each product
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub batches: u32,
    /// What the host does between batches: `hard`, `deferred:N`, `threaded:N` or `on-device`; several are tried in turn
    #[arg(long, value_delimiter = ',', default_values_t = [Strategy::Deferred { buffers: 2 }])]
    pub strategy: Vec<Strategy>,
    /// Pairs of blinding numbers; each makes a proof of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub blindings: u32,
    /// Runs of each proof; after the tenth, device memory must stay as it is
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Writes the first proof's 192 bytes to a file. With --zkey a directory, of proof.json and public.json [default
    /// there: .]
    #[arg(long, value_name = "PATH")]
    pub out: Option<PathBuf>,
    /// Writes the public inputs to a file, in the form of snarkjs' public.json
    #[arg(long, value_name = "FILE")]
    pub public: Option<PathBuf>,
    /// Writes the last runs for Perfetto (ui.perfetto.dev) to a file, in the Trace Event Format
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Writes everything to a file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// What `--json` writes.
#[derive(Debug, Serialize)]
struct ProveReport<'a> {
    harness: &'static str,
    seed: Option<String>,
    devices: Vec<&'a DeviceInfo>,
    no_cuda: Option<String>,
    public: Vec<String>,
    proofs: &'a [ProofRow],
}

/// Seed where none is given and none is better.
const SEED: u64 = 0x0070_726f_7665;

/// Runs the command.
///
/// # Errors
/// [`Failure`]: without the device or the key, for sizes that have no plan, and where there is no proof.
pub fn run(args: &ProveArgs, out: &mut dyn Write) -> Result<Judgement, Failure> {
    match (&args.zkey, &args.witness) {
        (Some(zkey), Some(witness)) => prove_snarkjs(args, zkey, witness, out),
        _ => prove_circuit(args, out),
    }
}

fn prove_circuit(args: &ProveArgs, out: &mut dyn Write) -> Result<Judgement, Failure> {
    let seed = args.seed.unwrap_or(SEED);
    let devices = args.device.open(SimOptions::default())?;
    let problem = Problem::new(args.circuit, seed, args.params.as_deref())?;
    let blinding = blinding(seed, problem.name(), args.blindings);
    let mut peers = Vec::new();
    if args.compare {
        peers.push(arkworks(&problem, &blinding)?);
        peers.extend(zkcrypto(&problem, seed, args.params.as_deref(), &blinding)?);
    }
    prove_on(devices, &Task { args, seed: Some(seed), problem: &problem, blinding: &blinding, peers }, out)
}

fn prove_snarkjs(
    args: &ProveArgs,
    zkey: &Path,
    witness: &Path,
    out: &mut dyn Write,
) -> Result<Judgement, Failure> {
    let devices = args.device.open(SimOptions::default())?;
    let problem = SnarkjsProblem::open(zkey, witness, args.r1cs.as_deref(), trust(args))?;
    let blinding = match args.seed {
        Some(seed) => Zeroizing::new(blinding(seed, problem.name(), args.blindings)),
        None => system_blinding(args.blindings).map_err(Failure::Random)?,
    };
    let mut peers = Vec::new();
    if args.compare {
        peers.push(snarkjs_rules(&problem, &blinding)?);
    }
    prove_on(devices, &Task { args, seed: args.seed, problem: &problem, blinding: &blinding, peers }, out)
}

fn trust(args: &ProveArgs) -> Trust {
    if args.trust_key { Trust::Trusted } else { Trust::Checked }
}

/// What is proved, in every way that the arguments ask for.
struct Task<'a, P> {
    args: &'a ProveArgs,
    seed: Option<u64>,
    problem: &'a P,
    blinding: &'a [(Fr, Fr)],
    peers: Vec<Peer>,
}

fn prove_on(
    devices: Devices,
    task: &Task<'_, impl Provable>,
    out: &mut dyn Write,
) -> Result<Judgement, Failure> {
    let Devices { devices, no_cuda } = devices;
    let Task { args, problem, .. } = *task;
    let mut rows: Vec<ProofRow> = Vec::new();
    for device in &devices {
        let loaded = LoadedKey::new(device, problem, trust(args), args.key_file.as_deref())?;
        let choices =
            args.strategy.iter().flat_map(|strategy| args.upload.iter().map(move |up| (strategy, up)));
        for (strategy, upload) in choices {
            let config = ProveConfig {
                upload: *upload,
                msm: MsmConfig { strategy: *strategy, ..MsmConfig::batches(args.batches) },
                table_bytes: (args.table_gib * f64::from(1 << 30)) as u64,
                verify: !args.no_verify,
                ..ProveConfig::default()
            };
            let options =
                ProveOptions { config, runs: args.runs, blinding: task.blinding, peers: &task.peers };
            write_estimate(device, problem, &config, out)?;
            let row = match prove(problem, &loaded, &options) {
                Err(error @ (ProveError::Invalid | ProveError::Quotient)) => {
                    write_parts(&problem.parts_on(device)?, out).map_err(Failure::output)?;
                    return Err(error.into());
                }
                row => row?,
            };
            write_row(&row, out).map_err(Failure::output)?;
            rows.push(row);
        }
    }
    let same = rows.windows(2).all(|pair| pair[0].proofs == pair[1].proofs);
    if !same {
        writeln!(out, "DIFFERENT: the proofs are not the same bytes").map_err(Failure::output)?;
    }
    let public = public_text(problem.public());
    if let Some(row) = rows.first() {
        write_proof(args, &from_hex(&row.proofs[0]), &public)?;
    }
    if let Some(path) = &args.public {
        write_json(path, &public)?;
    }
    if let Some(path) = &args.trace {
        let process = |row: &ProofRow| {
            let clock = if row.is_virtual { " (virtual clock)" } else { "" };
            let name = format!("{} on {}, upload {}{clock}", row.circuit, row.device, row.upload);
            Process { name, lanes: row.lanes.clone(), counters: vec![] }
        };
        write_json(path, &TraceFile::new(&rows.iter().map(process).collect::<Vec<_>>()))?;
    }
    if let Some(path) = &args.json {
        let report = ProveReport {
            harness: env!("CARGO_PKG_VERSION"),
            seed: task.seed.map(|seed| format!("{seed:#x}")),
            devices: devices.iter().map(|device| device.info()).collect(),
            no_cuda: no_cuda.map(|error| error.to_string()),
            public,
            proofs: &rows,
        };
        write_json(path, &report)?;
    }
    let is_right = same && rows.iter().all(ProofRow::is_right);
    Ok(if is_right { Judgement::Good } else { Judgement::Bad })
}

/// What the proof will take of memory, before it takes any.
fn write_estimate(
    device: &Device,
    problem: &impl Provable,
    config: &ProveConfig,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let plan = ProofPlan::new(&problem.shape(), config, &DeviceLimits::of(device)?)?;
    let memory = MemoryEstimate::new(&plan);
    writeln!(
        out,
        "memory that {} on {} takes: {} of the device for the key, {} for a proof; {} of the host, {} page-locked",
        problem.name(),
        device.info().id,
        bytes_text(memory.resident_bytes),
        bytes_text(memory.run_bytes),
        bytes_text(memory.host_bytes),
        bytes_text(memory.pinned_bytes)
    )
    .map_err(Failure::output)
}

/// Which parts of a proof that nobody accepts the device gets wrong.
fn write_parts(parts: &[Part], out: &mut dyn Write) -> std::io::Result<()> {
    if parts.is_empty() {
        return Ok(());
    }
    writeln!(out, "the proof does not verify; its parts, each by itself beside arkworks':")?;
    for part in parts {
        writeln!(out, "  {:<10} {}", part.name, if part.is_equal { "equal" } else { "DIFFERENT" })?;
    }
    Ok(())
}

/// The proof's files: 192 bytes, or those that snarkjs reads.
fn write_proof(args: &ProveArgs, bytes: &[u8], public: &[String]) -> Result<(), Failure> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| Failure::Write { path, source }
    };
    if args.zkey.is_some() {
        let directory = args.out.as_deref().unwrap_or(Path::new("."));
        std::fs::create_dir_all(directory).map_err(failed(directory))?;
        let proof = Proof::deserialize_compressed_unchecked(bytes).expect("these were a proof's points");
        write_json(&directory.join("proof.json"), &ProofJson::from(&proof))?;
        return write_json(&directory.join("public.json"), &public);
    }
    let Some(path) = &args.out else { return Ok(()) };
    std::fs::write(path, bytes).map_err(failed(path))
}

fn from_hex(text: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("written as hexadecimal");
    (0..text.len()).step_by(2).map(byte).collect()
}

/// A proof as a reader takes it in.
pub(crate) fn write_row(row: &ProofRow, out: &mut dyn Write) -> std::io::Result<()> {
    let shape = &row.shape;
    let ProofRow { circuit, device, key_from, strategy, batches, upload, .. } = row;
    writeln!(
        out,
        "{circuit} on {device}, key from {key_from}; {strategy}, batches {batches}, upload {upload}"
    )?;
    writeln!(
        out,
        "  {} constraints, {} inputs, {} variables, {} terms, domain 2^{}",
        shape.constraint_count, shape.input_count, shape.variable_count, shape.term_count, shape.log_n
    )?;
    writeln!(out, "  proof {} ms; key loaded in {:.0} ms", times_text(&row.prove_us), row.key_us / 1e3)?;
    if let Some(us) = row.key_file_us {
        writeln!(out, "  key loaded from its file in {:.1} ms", us / 1e3)?;
    }
    writeln!(
        out,
        "  up {}, down {}; on the device: key {}, run {}",
        bytes_text(row.uploaded_bytes),
        bytes_text(row.downloaded_bytes),
        bytes_text(row.key_bytes),
        bytes_text(row.run_bytes)
    )?;
    let share = 100.0 * row.gpu_busy_share;
    let mark = if row.is_virtual { ", predicted" } else { "" };
    writeln!(out, "  a kernel runs in {share:.0} % of {:.2} ms{mark}", row.makespan_us / 1e3)?;
    if row.free_bytes.len() > 10 {
        let runs = row.free_bytes.len();
        let lost = bytes_text(row.memory_lost());
        writeln!(out, "  device memory taken and kept between runs 10 and {runs}: {lost}")?;
    }
    if !row.runs_agree {
        writeln!(out, "  DIFFERENT: the runs did not make the same bytes")?;
    }
    for opinion in &row.opinions {
        let word = if opinion.accepts { "accepts" } else { "REFUSES" };
        let what = if row.proofs.len() == 1 { "the proof" } else { "the proofs" };
        writeln!(out, "  {} {word} {what}", opinion.verifier)?;
    }
    for comparison in &row.comparisons {
        let word = if comparison.equal { "equal" } else { "DIFFERENT" };
        let (prover, ms) = (comparison.prover, comparison.us / 1e3);
        writeln!(out, "  {word}: the 192 bytes of {prover} for the same r and s, in {ms:.0} ms here")?;
    }
    writeln!(out, "{}", phase_table(row))
}

/// All times where they are few, else the least, the median and the most.
fn times_text(us: &[f64]) -> String {
    let text = |us: f64| format!("{:.2}", us / 1e3);
    if us.len() <= 8 {
        return us.iter().map(|us| text(*us)).collect::<Vec<_>>().join(", ");
    }
    let mut sorted = us.to_vec();
    sorted.sort_by(f64::total_cmp);
    let [least, median, most] = [0, sorted.len() / 2, sorted.len() - 1].map(|index| text(sorted[index]));
    format!("{least} to {most}, median {median} of {}", us.len())
}

fn phase_table(row: &ProofRow) -> Table {
    let mut table = new_table();
    let mark = if row.is_virtual { " (predicted)" } else { "" };
    table.set_header(["phase", "backend", &format!("span, ms{mark}"), &format!("busy, ms{mark}")]);
    for phase in &row.phases {
        let ms = |us: f64| format!("{:.3}", us / 1e3);
        table.add_row([phase.name.clone(), phase.backend.clone(), ms(phase.span_us), ms(phase.busy_us)]);
    }
    for column in [2, 3] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::path::Path;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ProveArgs,
    }

    fn print(line: &[&str]) -> Result<(Judgement, String), Failure> {
        let args = Line::parse_from([&["prove", "--device", "sim"], line].concat()).args;
        let mut out = Vec::new();
        let judgement = run(&args, &mut out)?;
        Ok((judgement, String::from_utf8(out).expect("the report is text")))
    }

    fn text(path: &Path) -> &str {
        path.to_str().expect("temporary paths are text")
    }

    #[test]
    fn a_proof_is_reported_written_and_the_same_every_time() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let [proof, json, key] = ["proof", "report.json", "key"].map(|name| directory.path().join(name));
        let line = ["--circuit", "mimc:7", "--compare", "--runs", "2", "--upload", "ring:2:5,pageable"];
        let files = ["--out", text(&proof), "--json", text(&json), "--key-file", text(&key)];
        let (judgement, report) = print(&[&line[..], &files[..]].concat()).expect("a proof");
        assert_eq!(judgement, Judgement::Good, "{report}");
        for word in
            ["arkworks accepts", "zkcrypto accepts", "equal: the 192 bytes of arkworks", "product b_g2"]
        {
            assert_eq!(report.matches(word).count(), 2, "{word} in\n{report}");
        }
        let bytes = std::fs::read(&proof).expect("the proof");
        assert_eq!(bytes.len(), 192);
        let json: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&json).expect("the report")).expect("JSON");
        let entry = &json["proofs"][1];
        assert_eq!(from_hex(entry["proofs"][0].as_str().expect("text")), bytes);
        assert_eq!(entry["comparisons"][0]["equal"], true);
        assert_eq!(entry["shape"]["constraint_count"], 14);
        let phases = entry["phases"].as_array().expect("phases");
        assert!(phases.iter().any(|phase| phase["name"] == "verify" && phase["backend"] == "host"));
        // Made again from the key file that the first command wrote.
        let again = directory.path().join("again");
        let (_, _) = print(&["--circuit", "mimc:7", "--out", text(&again), "--key-file", text(&key)])
            .expect("a proof from the file");
        assert_eq!(std::fs::read(&again).expect("the proof"), bytes);
    }

    #[test]
    fn what_cannot_be_proved_ends_with_its_exit_code() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let key = directory.path().join("key");
        print(&["--circuit", "mimc:3", "--no-verify", "--key-file", text(&key)]).expect("a proof");
        let other = print(&["--circuit", "mimc:5", "--key-file", text(&key)]).expect_err("another circuit");
        assert!(other.to_string().contains("other sizes"), "{other}");
        assert_eq!(other.exit_code(), 4);
        let missing = print(&["--params", "/nowhere"]).expect_err("no such directory");
        assert!(missing.to_string().starts_with("/nowhere/sapling-output.params"), "{missing}");
        let impossible = print(&["--circuit", "mimc:3", "--strategy", "deferred:1"]).expect_err("no plan");
        assert_eq!(impossible.exit_code(), 2);
    }
}
