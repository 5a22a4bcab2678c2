//! `harness gate`: is a run slower than the baseline?

use crate::bench::criterion_files;
use crate::bench::gate::{
    Baseline, GateReport, GateSettings, Outcome, benchmark_action, compare, junit, markdown,
};
use crate::bench::record::{RecordError, Run};
use crate::error::Failure;
use crate::report::write_json;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What `harness gate --help` says of the exit code.
pub const GATE_EXIT_CODES: &str = "\
Exit codes:
   0  nothing is slower
   2  the command line asks for something that does not exist or cannot be
  10  a regression: slower than the threshold beyond doubt, in this run and in every second one
  20  no baseline
  30  the comparison is broken: a file that cannot be read, or a benchmark that is gone
  40  inconclusive: another GPU or driver, fewer than three runs in the baseline, or no second run yet";

/// Compares a run with a baseline, or makes a baseline of runs.
#[derive(Debug, Clone, clap::Args)]
pub struct GateArgs {
    /// The run: a file of `harness bench --json`, or a directory of criterion's; parts of one run with commas between them;
    /// with --make-baseline, the runs
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<String>,
    /// The baseline; it is found by the GPU's name in benches/baseline if not given
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Where baselines are
    #[arg(long, value_name = "DIR", default_value = "benches/baseline")]
    pub baselines: PathBuf,
    /// Second runs, of what the first one found slower
    #[arg(long, value_name = "RUN", num_args = 1..)]
    pub rerun: Vec<String>,
    /// Percent from which on slower is too slow
    #[arg(long, default_value_t = 5.0, value_name = "PERCENT")]
    pub threshold: f64,
    /// Compares although the GPU or the driver is another
    #[arg(long)]
    pub any_machine: bool,
    /// Judges times by the host's clock too
    #[arg(long)]
    pub wall: bool,
    /// Writes Markdown, for the summary of a job
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Writes JUnit XML
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Writes JSON for github-action-benchmark (customSmallerIsBetter)
    #[arg(long, value_name = "FILE")]
    pub action_json: Option<PathBuf>,
    /// Writes the comparison to a file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Writes ids that are slower and have no second run, as `harness bench --only` takes them
    #[arg(long, value_name = "FILE")]
    pub suspects: Option<PathBuf>,
    /// Makes a baseline of these runs and writes it here; one that is there is remembered in it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["baseline", "rerun"])]
    pub make_baseline: Option<PathBuf>,
    /// Keeps entries of the baseline that is there for benchmarks that these runs lack: runs of some groups alone
    #[arg(long, requires = "make_baseline")]
    pub keep_others: bool,
}

/// Runs the command, and gives its exit code.
///
/// # Errors
/// [`Failure::Usage`], [`Failure::Write`]. What is wrong with the files that it reads is an outcome.
pub fn run(args: &GateArgs, out: &mut dyn Write) -> Result<u8, Failure> {
    if let Some(path) = &args.make_baseline {
        return make_baseline(args, path, out);
    }
    let [head] = &args.runs[..] else {
        return Err(Failure::Usage(
            "one run is compared; second runs of the same are given with --rerun".into(),
        ));
    };
    let settings =
        GateSettings { threshold: args.threshold / 100.0, any_machine: args.any_machine, wall: args.wall };
    let head = read_run(head);
    let report = report(args, &head, &settings);
    write_reports(args, &report, head.as_ref().ok())?;
    write!(out, "{}", markdown(&report)).map_err(Failure::output)?;
    Ok(report.outcome.exit_code())
}

fn report(args: &GateArgs, head: &Result<Run, RecordError>, settings: &GateSettings) -> GateReport {
    let broken = |reason: String| GateReport::broken(Outcome::ToolError, reason, settings.threshold);
    let head = match head {
        Ok(head) => head,
        Err(error) => return broken(error.to_string()),
    };
    let again: Vec<Run> = match args.rerun.iter().map(|named| read_run(named)).collect() {
        Ok(again) => again,
        Err(error) => return broken(RecordError::to_string(&error)),
    };
    let path = args.baseline.clone().unwrap_or_else(|| args.baselines.join(file_name(&head.machine.gpu)));
    if !path.exists() {
        let reason = format!("{}: there is no baseline for this GPU", path.display());
        return GateReport::broken(Outcome::NoBaseline, reason, settings.threshold);
    }
    match Baseline::read(&path) {
        Ok(baseline) => compare(&baseline, head, &again, settings),
        Err(error) => broken(error.to_string()),
    }
}

/// The file of a GPU's baseline: its name in lower case, with hyphens.
pub fn file_name(gpu: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = gpu.chars().map(letter).collect();
    let parts: Vec<&str> = name.split('-').filter(|part| !part.is_empty()).collect();
    format!("{}.json", if parts.is_empty() { "unknown".into() } else { parts.join("-") })
}

/// A run as it is named on the command line: a file or a directory, or several with commas between them, which are parts of
/// one run.
///
/// # Errors
/// [`RecordError`] for the first part that cannot be read.
pub fn read_run(named: &str) -> Result<Run, RecordError> {
    let part = |part: &str| {
        let path = Path::new(part);
        if path.is_dir() { criterion_files::as_run(path) } else { Run::read(path) }
    };
    let parts = named.split(',').map(part).collect::<Result<Vec<_>, _>>()?;
    Ok(Run::joined(parts)?.expect("a text has at least one part"))
}

fn write_reports(args: &GateArgs, report: &GateReport, head: Option<&Run>) -> Result<(), Failure> {
    let write = |path: &Option<PathBuf>, text: &dyn Fn() -> String| match path {
        Some(path) => {
            std::fs::write(path, text()).map_err(|source| Failure::Write { path: path.clone(), source })
        }
        None => Ok(()),
    };
    write(&args.markdown, &|| markdown(report))?;
    write(&args.junit, &|| junit(report))?;
    write(&args.suspects, &|| {
        let suspects = report.rows.iter().filter(|row| row.verdict == crate::bench::gate::Verdict::Suspected);
        suspects.map(|row| row.id.as_str()).collect::<Vec<_>>().join(",")
    })?;
    if let Some(head) = head {
        write(&args.action_json, &|| benchmark_action(head))?;
    }
    args.json.as_ref().map_or(Ok(()), |path| write_json(path, report))
}

fn make_baseline(args: &GateArgs, path: &Path, out: &mut dyn Write) -> Result<u8, Failure> {
    let runs: Vec<Run> = args.runs.iter().map(|named| read_run(named)).collect::<Result<_, _>>()?;
    let replaced = if path.exists() { Some(Baseline::read(path)?) } else { None };
    let kept = if args.keep_others { replaced.clone() } else { None };
    let baseline = Baseline::new(&runs, replaced)
        .and_then(|baseline| match kept {
            Some(older) => baseline.keeping(older),
            None => Ok(baseline),
        })
        .map_err(|error| Failure::Usage(error.to_string()))?;
    write_json(path, &baseline)?;
    writeln!(out, "{}: {} benchmarks, {}", path.display(), baseline.entries.len(), baseline.line())
        .map_err(Failure::output)?;
    Ok(0)
}
