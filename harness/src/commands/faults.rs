//! `harness faults`: the k-th call fails, for every k of every kind in every strategy.

use crate::EVERY_STRATEGY;
use crate::devices::DeviceChoice;
use crate::error::{Failure, Judgement};
use crate::faults::{Problem, Row, Target, inject};
use crate::oracle::parse_seed;
use crate::report::{new_table, write_json};
use gpu_core::cuda::CudaBackend;
use gpu_core::sim::SimOptions;
use gpu_core::{DeviceKind, GpuError};
use msm_gpu::SyncPattern;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// Fails the k-th allocation, copy, launch, event, wait and host step, for every k of every strategy, and
/// exits with 1 if an error is not typed, something leaks, or a later product is wrong.
#[derive(Debug, Clone, clap::Args)]
pub struct FaultsArgs {
    /// Where to run: `auto` (the simulated device, and every CUDA device), `sim`, `cuda` or `cuda:N`
    #[arg(long, default_value_t = DeviceChoice::Auto, value_name = "DEVICE")]
    pub device: DeviceChoice,
    /// Strategies, separated by commas, `graph:` before one that is to be captured; one of each kind if not
    /// given
    #[arg(long, value_delimiter = ',', value_name = "STRATEGIES")]
    pub strategies: Vec<SyncPattern>,
    /// At most so many faults of a kind in a strategy, spread evenly; all if not given
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// Seed of points and scalars
    #[arg(long, default_value = "0x6661756c7400", value_parser = parse_seed)]
    pub seed: u64,
    /// Writes everything to a file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// What `--json` writes.
#[derive(Debug, Serialize)]
struct Report<'a> {
    harness: &'static str,
    seed: String,
    rows: &'a [Row],
}

/// Runs the command.
///
/// # Errors
/// [`Failure`] where there is no such device, or the report cannot be written.
pub fn run(args: &FaultsArgs, out: &mut dyn Write) -> Result<Judgement, Failure> {
    let targets = targets(args.device)?;
    let graph = SyncPattern { strategy: EVERY_STRATEGY[1], graph: true };
    let every = EVERY_STRATEGY.map(SyncPattern::from).into_iter().chain([graph]);
    let patterns = if args.strategies.is_empty() { every.collect() } else { args.strategies.clone() };
    let (problem, limit) = (Problem::new(args.seed), args.limit.unwrap_or(u64::MAX));
    let mut rows = Vec::new();
    for target in &targets {
        for pattern in &patterns {
            rows.extend(inject(target, *pattern, &problem, limit));
        }
    }
    write_text(&rows, out).map_err(Failure::output)?;
    if let Some(path) = &args.json {
        let report =
            Report { harness: env!("CARGO_PKG_VERSION"), seed: format!("{:#x}", args.seed), rows: &rows };
        write_json(path, &report)?;
    }
    let is_good = rows.iter().all(|row| row.problems.is_empty());
    Ok(if is_good { Judgement::Good } else { Judgement::Bad })
}

/// Opens what is chosen. A backend of its own for each CUDA device, since faults go between it and its
/// handle.
fn targets(choice: DeviceChoice) -> Result<Vec<Target>, GpuError> {
    let target = |device: &gpu_core::Device| match device.info().kind {
        DeviceKind::Sim => Ok(Target::Sim),
        DeviceKind::Cuda => {
            let ordinal = device.info().id.strip_prefix("cuda:").and_then(|ordinal| ordinal.parse().ok());
            let backend = CudaBackend::new(ordinal.expect("the id of a CUDA device is cuda:N"))?;
            Ok(Target::Kept(Arc::new(backend)))
        }
    };
    choice.open(SimOptions::default())?.devices.iter().map(target).collect()
}

fn write_text(rows: &[Row], out: &mut dyn Write) -> std::io::Result<()> {
    let mut table = new_table();
    table.set_header([
        "device",
        "strategy",
        "what fails",
        "calls",
        "faults",
        "an error, as the caller sees it",
        "verdict",
    ]);
    for row in rows {
        let verdict = match (row.faults, row.problems.len()) {
            (0, 0) => "not called".into(),
            (_, 0) => "typed, released, next right".into(),
            (_, count) => format!("{count} PROBLEMS"),
        };
        table.add_row([
            row.device.clone(),
            row.pattern.to_string(),
            row.what.clone(),
            row.calls.to_string(),
            row.faults.to_string(),
            row.example.clone().unwrap_or_default(),
            verdict,
        ]);
    }
    writeln!(out, "{table}")?;
    let mut problems = 0;
    for row in rows {
        for problem in &row.problems {
            problems += 1;
            writeln!(out, "PROBLEM on {} with {}: {problem}", row.device, row.pattern)?;
        }
    }
    let faults: u64 = rows.iter().map(|row| row.faults).sum();
    writeln!(out, "{faults} faults, {problems} problems")
}
