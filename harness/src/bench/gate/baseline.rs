//! What runs are compared with: the median of several runs on one machine.

use super::RUNS_MIN;
use crate::bench::record::{Clock, Machine, RecordError, Run, SCHEMA, read_json};
use crate::bench::stats::{median, robust_deviation};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Earlier baselines that one remembers.
const PAST_MAX: usize = 60;

/// One benchmark of a baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BaselineEntry {
    /// Whose time it is.
    pub clock: Clock,
    /// Median of the runs' medians, in microseconds: one odd run does not move it.
    pub median_us: f64,
    /// The runs' medians.
    pub run_medians_us: Vec<f64>,
    /// Half of the interval of a run's median as a share of it; the median of the runs.
    pub half_width: f64,
    /// Last run of the older baseline that it was kept from, where the runs lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_from: Option<Source>,
}

impl BaselineEntry {
    /// Standard deviation from run to run, as a share of the median; one odd run does not move it far.
    pub fn deviation(&self) -> f64 {
        robust_deviation(&self.run_medians_us).unwrap_or(0.0) / self.median_us
    }
}

/// A baseline that was replaced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Past {
    /// Date of its last run.
    pub date: String,
    /// Commit of its last run.
    pub commit: Option<String>,
    /// Its medians, in microseconds.
    pub medians_us: BTreeMap<String, f64>,
}

/// Where a run of a baseline comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// Its date.
    pub date: String,
    /// Its commit.
    pub commit: Option<String>,
    /// Its seed.
    pub seed: String,
    /// Machine and clocks at its end.
    pub machine: String,
}

/// The file `benches/baseline/<gpu>.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Where all of its runs were made.
    pub machine: Machine,
    /// The runs.
    pub runs: Vec<Source>,
    /// Their conditions.
    pub conditions: Vec<String>,
    /// Each benchmark that all of them have, by id.
    pub entries: BTreeMap<String, BaselineEntry>,
    /// Earlier baselines, the oldest first.
    #[serde(default)]
    pub past: Vec<Past>,
}

/// Why runs make no baseline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BaselineError {
    /// Fewer than [`RUNS_MIN`].
    #[error("{found} runs: a baseline is made of at least {RUNS_MIN}")]
    TooFew {
        /// How many there are.
        found: usize,
    },
    /// Not all on one machine.
    #[error("runs on different machines: {first}, and {other}")]
    Machines {
        /// One.
        first: String,
        /// Another.
        other: String,
    },
    /// Not all of the same sizes.
    #[error("full and smoke runs make no baseline together")]
    Scales,
    /// A run that was slowed down on purpose.
    #[error("the run of {date} was slowed down on purpose")]
    Planted {
        /// Its date.
        date: String,
    },
}

impl Baseline {
    /// Reads a baseline.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn read(path: &Path) -> Result<Self, RecordError> {
        read_json(path)
    }

    /// From runs; what it replaces is remembered.
    ///
    /// # Errors
    /// [`BaselineError`].
    pub fn new(runs: &[Run], replaced: Option<Self>) -> Result<Self, BaselineError> {
        let [first, .., last] = runs else { return Err(BaselineError::TooFew { found: runs.len() }) };
        if runs.len() < RUNS_MIN {
            return Err(BaselineError::TooFew { found: runs.len() });
        }
        if let Some(planted) = runs.iter().find(|run| run.planted_percent.is_some()) {
            return Err(BaselineError::Planted { date: planted.date.clone() });
        }
        if runs.iter().any(|run| run.scale != first.scale) {
            return Err(BaselineError::Scales);
        }
        let identity = first.machine.identity();
        if let Some(other) = runs.iter().map(|run| run.machine.identity()).find(|other| *other != identity) {
            return Err(BaselineError::Machines { first: identity, other });
        }
        let source = |run: &Run| Source {
            date: run.date.clone(),
            commit: run.commit.clone(),
            seed: run.seed.clone(),
            machine: run.machine.line(),
        };
        let mut past = Vec::new();
        if let Some(replaced) = replaced {
            past = replaced.past;
            let medians = replaced.entries.into_iter().map(|(id, entry)| (id, entry.median_us));
            let (date, commit) =
                replaced.runs.last().map(|run| (run.date.clone(), run.commit.clone())).unwrap_or_default();
            past.push(Past { date, commit, medians_us: medians.collect() });
            past.drain(..past.len().saturating_sub(PAST_MAX));
        }
        Ok(Self {
            schema: SCHEMA,
            machine: last.machine.clone(),
            runs: runs.iter().map(source).collect(),
            conditions: last.conditions.clone(),
            entries: first.measurements.iter().filter_map(|found| entry(runs, &found.id)).collect(),
            past,
        })
    }

    /// With the entries of an older baseline of the same machine whose benchmarks this one lacks.
    ///
    /// # Errors
    /// [`BaselineError::Machines`].
    pub fn keeping(mut self, older: Self) -> Result<Self, BaselineError> {
        let (first, other) = (self.machine.identity(), older.machine.identity());
        if first != other {
            return Err(BaselineError::Machines { first, other });
        }
        let source = older.runs.last();
        for (id, mut entry) in older.entries {
            entry.kept_from = entry.kept_from.or_else(|| source.cloned());
            self.entries.entry(id).or_insert(entry);
        }
        Ok(self)
    }

    /// Machine, commit and date, as a reader takes them in.
    pub fn line(&self) -> String {
        let last = self.runs.last();
        let commit = last.and_then(|run| run.commit.as_deref()).unwrap_or("unknown commit");
        let date = last.map_or("unknown date", |run| run.date.as_str());
        format!("{} (median of {} runs, {commit}, {date})", self.machine.line(), self.runs.len())
    }
}

/// A benchmark's entry, if every run has it.
fn entry(runs: &[Run], id: &str) -> Option<(String, BaselineEntry)> {
    let found: Vec<_> = runs.iter().map(|run| run.measurement(id)).collect::<Option<_>>()?;
    let run_medians_us: Vec<f64> = found.iter().map(|found| found.median_us).collect();
    let half_widths: Vec<f64> =
        found.iter().map(|found| found.median_interval_us.half_width() / found.median_us).collect();
    let entry = BaselineEntry {
        clock: found[0].clock,
        median_us: median(&run_medians_us)?,
        run_medians_us,
        half_width: median(&half_widths)?,
        kept_from: None,
    };
    Some((id.into(), entry))
}
