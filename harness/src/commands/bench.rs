//! `harness bench`: the benchmarks, in this process, and a run as a file.

use crate::bench::cases::{Cases, Scale};
use crate::bench::criterion_files::MACHINE_FILE;
use crate::bench::group::Group;
use crate::bench::{Session, Settings, machine};
use crate::devices::DeviceChoice;
use crate::error::{Failure, Judgement};
use crate::oracle::parse_seed;
use crate::report::write_json;
use gpu_core::sim::SimOptions;
use gpu_core::{Device, DeviceKind};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Measures products, transforms, proofs and what they are made of; each result is compared first.
#[derive(Debug, Clone, clap::Args)]
pub struct BenchArgs {
    /// Where to run: `sim`, `cuda` or `cuda:N`; `auto` is the first CUDA device, or the simulated one where there is none
    #[arg(long, default_value_t = DeviceChoice::Auto)]
    pub device: DeviceChoice,
    /// Groups: sync, msm, ntt, field, launch, upload, proof, host, peers; all if not given
    #[arg(long, value_delimiter = ',', value_name = "GROUPS")]
    pub groups: Vec<Group>,
    /// Only ids that contain one of these
    #[arg(long, value_delimiter = ',', value_name = "PARTS")]
    pub only: Vec<String>,
    /// Smoke sizes; those of a full run if not given
    #[arg(long)]
    pub smoke: bool,
    /// File of sizes, instead of the built-in benches/cases.toml
    #[arg(long, value_name = "FILE")]
    pub cases: Option<PathBuf>,
    /// Directory of sapling-output.params and sapling-spend.params, instead of the embedded keys
    #[arg(long, value_name = "DIR")]
    pub params: Option<PathBuf>,
    /// Seed of bases, scalars and circuits
    #[arg(long, default_value = "0x62656e6368", value_parser = parse_seed)]
    pub seed: u64,
    /// Writes the run to a file as JSON, anew after each group
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Where criterion keeps its files, to compare with its own last ones; a directory that is removed if not given
    #[arg(long, value_name = "DIR")]
    pub criterion: Option<PathBuf>,
    /// Slows products down on purpose, by so many percent of their time
    #[arg(long, value_name = "PERCENT", hide = true)]
    pub planted_slowdown: Option<f64>,
}

/// Runs the command.
///
/// # Errors
/// [`Failure`]: without the device, for a result that is not the oracle's, and where files cannot be read or written.
pub fn run(args: &BenchArgs, out: &mut dyn Write) -> Result<Judgement, Failure> {
    let device = device(args.device)?;
    let cases = match &args.cases {
        None => Cases::built_in(),
        Some(path) => read_cases(path)?,
    };
    if args.planted_slowdown.is_some_and(|percent| !(percent > 0.0 && percent <= 1e4)) {
        return Err(Failure::Usage("a slowdown is a positive number of percent".into()));
    }
    let settings = Settings {
        cases,
        scale: if args.smoke { Scale::Smoke } else { Scale::Full },
        seed: args.seed,
        params: args.params.clone(),
        only: args.only.clone(),
        planted_percent: args.planted_slowdown,
    };
    let temporary = match &args.criterion {
        None => Some(tempfile::tempdir().map_err(|source| write_failure(Path::new("a directory"), source))?),
        Some(_) => None,
    };
    let directory = match (&args.criterion, &temporary) {
        (Some(path), _) => path.as_path(),
        (None, Some(temporary)) => temporary.path(),
        (None, None) => unreachable!("one of the two was made"),
    };
    let started = machine::now();
    let mut criterion = Session::criterion(&settings).output_directory(directory);
    let mut session = Session::new(&device, settings, &mut criterion);
    let groups = if args.groups.is_empty() { &Group::ALL } else { args.groups.as_slice() };
    let mut run = session.so_far(directory, &started)?;
    for group in groups {
        session.run(&[*group])?;
        run = session.so_far(directory, &started)?;
        // Now, since a night has only so much time: what was measured is not lost with what was not.
        if let Some(path) = &args.json {
            write_json(path, &run)?;
        }
    }
    if args.criterion.is_some() && directory.is_dir() {
        write_json(&directory.join(MACHINE_FILE), &run.machine)?;
    }
    writeln!(
        out,
        "{} benchmarks on {}; {} skipped",
        run.measurements.len(),
        run.machine.line(),
        run.skipped.len()
    )
    .map_err(Failure::output)?;
    if let Some(path) = &args.json {
        writeln!(out, "written to {}", path.display()).map_err(Failure::output)?;
    }
    Ok(Judgement::Good)
}

/// The device: times of the simulated one say nothing where there is a real one.
///
/// # Errors
/// [`Failure::Gpu`] without the device that was asked for.
pub fn device(choice: DeviceChoice) -> Result<Device, Failure> {
    let opened = choice.open(SimOptions::default())?;
    let cuda = opened.devices.iter().find(|device| device.info().kind == DeviceKind::Cuda);
    Ok(cuda.unwrap_or(&opened.devices[0]).clone())
}

fn read_cases(path: &Path) -> Result<Cases, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
    Cases::from_toml(&text).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
}

fn write_failure(path: &Path, source: std::io::Error) -> Failure {
    Failure::Write { path: path.into(), source }
}
