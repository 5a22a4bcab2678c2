//! `harness report`: measurements as one page for a browser.

use crate::bench::gate::Baseline;
use crate::bench::record::{RecordError, Run};
use crate::commands::gate::{file_name, read_run};
use crate::error::{Failure, Judgement};
use crate::page::{Sources, TimelineEntry, TimelineFile, page, timeline_picture};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes measurements as one page: no script, no network.
#[derive(Debug, Clone, clap::Args)]
pub struct ReportArgs {
    /// Files of `harness bench --json`, parts of one run with commas between them; the page is about the last run, and shows
    /// the others as history
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<String>,
    /// Files of `harness timeline --json`
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub timeline: Vec<PathBuf>,
    /// The baseline; it is found by the GPU's name in benches/baseline if not given, and left out if there is none
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Where baselines are
    #[arg(long, value_name = "DIR", default_value = "benches/baseline")]
    pub baselines: PathBuf,
    /// Second runs of what the last run found slower
    #[arg(long, value_name = "RUN", num_args = 1..)]
    pub rerun: Vec<String>,
    /// Writes the timelines alone as an SVG picture too
    #[arg(long, value_name = "FILE", requires = "timeline")]
    pub picture: Option<PathBuf>,
    /// The page
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    pub out: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// [`Failure::Record`] for a file that cannot be read, [`Failure::Write`].
pub fn run(args: &ReportArgs, out: &mut dyn Write) -> Result<Judgement, Failure> {
    let read = |names: &[String]| names.iter().map(|name| read_run(name)).collect::<Result<Vec<Run>, _>>();
    let (runs, again) = (read(&args.runs)?, read(&args.rerun)?);
    let mut timelines: Vec<TimelineEntry> = Vec::new();
    for path in &args.timeline {
        timelines.extend(read_timelines(path)?.entries);
    }
    let write = |path: &Path, text: String| {
        std::fs::write(path, text).map_err(|source| Failure::Write { path: path.into(), source })
    };
    if let Some(path) = &args.picture {
        write(path, timeline_picture(&timelines))?;
    }
    let last = runs.last().ok_or_else(|| Failure::Usage("a page is about a run".into()))?;
    let found = args.baselines.join(file_name(&last.machine.gpu));
    let baseline = match &args.baseline {
        Some(path) => Some(Baseline::read(path)?),
        None if found.exists() => Some(Baseline::read(&found)?),
        None => None,
    };
    let sources = Sources { runs: &runs, timelines: &timelines, baseline: baseline.as_ref(), again: &again };
    write(&args.out, page(&sources))?;
    writeln!(out, "{}", args.out.display()).map_err(Failure::output)?;
    Ok(Judgement::Good)
}

fn read_timelines(path: &Path) -> Result<TimelineFile, RecordError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| RecordError::Io { path: path.into(), source })?;
    serde_json::from_str(&text).map_err(|source| RecordError::Json { path: path.into(), source })
}
