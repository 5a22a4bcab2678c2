//! Is a run slower than the baseline? Pure: files go in, words and an exit code come out.
//!
//! A benchmark is slower when the whole interval of its change lies above the threshold, and that is a regression when a
//! second run says the same. Everything else has its own words: noise, too few runs, another machine, nothing to compare
//! with, a benchmark that is gone.

mod baseline;
mod output;

pub use baseline::{Baseline, BaselineEntry, BaselineError, Past};
pub use output::{benchmark_action, junit, markdown};

use super::record::{Clock, Measurement, Run};
use super::stats::Interval;
use serde::Serialize;
use std::fmt;

/// Runs that a baseline has to be made of: two do not say which of them is odd.
pub const RUNS_MIN: usize = 3;
/// What a normal variable stays within with 95 %, in standard deviations.
const DEVIATIONS: f64 = 1.96;

/// What a comparison is told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GateSettings {
    /// Change from which on slower is too slow: 0.05 is 5 %.
    pub threshold: f64,
    /// Whether another GPU or driver may be compared.
    pub any_machine: bool,
    /// Whether times by the host's clock are judged too.
    pub wall: bool,
}

impl Default for GateSettings {
    /// 5 %, the same GPU and driver, device times alone.
    fn default() -> Self {
        Self { threshold: 0.05, any_machine: false, wall: false }
    }
}

/// How a comparison ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Nothing is slower.
    Ok,
    /// Something is, and a second run agrees.
    Regression,
    /// There is nothing to compare with.
    NoBaseline,
    /// What should be compared is broken: a file, or a benchmark that is gone.
    ToolError,
    /// It cannot be said.
    Inconclusive,
}

impl Outcome {
    /// The exit code.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Regression => 10,
            Self::NoBaseline => 20,
            Self::ToolError => 30,
            Self::Inconclusive => 40,
        }
    }

    /// Of two outcomes the one that the exit code has to tell: a comparison that is not whole says nothing about speed,
    /// and a regression that was found is one whatever else could not be said.
    fn or(self, other: Self) -> Self {
        let rank = |outcome| match outcome {
            Self::Ok => 0,
            Self::Inconclusive => 1,
            Self::Regression => 2,
            Self::NoBaseline => 3,
            Self::ToolError => 4,
        };
        if rank(other) > rank(self) { other } else { self }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "no regression",
            Self::Regression => "REGRESSION",
            Self::NoBaseline => "no baseline",
            Self::ToolError => "nothing can be said: the comparison is broken",
            Self::Inconclusive => "inconclusive",
        })
    }
}

/// What the interval of one change says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// All of it is above the threshold.
    Slower,
    /// All of it is below minus the threshold.
    Faster,
    /// It holds no change at all.
    Noise,
    /// There is a change, and it is, or may be, within the threshold.
    Small,
}

/// Reads the interval of a change.
pub fn judge(change: Interval, threshold: f64) -> Finding {
    if change.low > threshold {
        Finding::Slower
    } else if change.high < -threshold {
        Finding::Faster
    } else if change.contains(0.0) {
        Finding::Noise
    } else {
        Finding::Small
    }
}

/// What is said of one benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Slower, and every second run agrees.
    Regression,
    /// Slower, and no second run has it.
    Suspected,
    /// Slower, and a second run disagrees.
    NotConfirmed,
    /// Faster.
    Faster,
    /// No change that can be told from none.
    Noise,
    /// A change within the threshold.
    Small,
    /// In the run, and not in the baseline.
    New,
    /// In the baseline, and not in the run.
    Missing,
    /// No positive time.
    Broken,
}

impl Verdict {
    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Regression => "REGRESSION",
            Self::Suspected => "slower: run again",
            Self::NotConfirmed => "slower once, not again",
            Self::Faster => "faster",
            Self::Noise => "noise",
            Self::Small => "within the threshold",
            Self::New => "new: no baseline",
            Self::Missing => "MISSING in this run",
            Self::Broken => "BROKEN: not a time",
        }
    }

    fn outcome(self) -> Outcome {
        match self {
            Self::Regression => Outcome::Regression,
            Self::Suspected => Outcome::Inconclusive,
            Self::Missing | Self::Broken => Outcome::ToolError,
            _ => Outcome::Ok,
        }
    }
}

/// A change with its interval, as shares: 0.2 is 20 % slower.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// Of the medians.
    pub estimate: f64,
    /// Where it lies, with 95 % confidence.
    pub interval: Interval,
}

/// One benchmark compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Its id.
    pub id: String,
    /// Median of the baseline, in microseconds.
    pub baseline_us: Option<f64>,
    /// Median of the run, in microseconds.
    pub head_us: Option<f64>,
    /// From the one to the other.
    pub change: Option<Change>,
    /// The same of each second run that has it.
    pub again: Vec<Change>,
    /// What is said of it.
    pub verdict: Verdict,
}

/// A comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GateReport {
    /// How it ends.
    pub outcome: Outcome,
    /// Why, in sentences.
    pub reasons: Vec<String>,
    /// The threshold, as a share.
    pub threshold: f64,
    /// Machine, commit and date of the run.
    pub head: String,
    /// The same of the baseline.
    pub baseline: Option<String>,
    /// Each benchmark; what matters most comes first.
    pub rows: Vec<Row>,
}

impl GateReport {
    /// A comparison that did not come about.
    pub fn broken(outcome: Outcome, reason: String, threshold: f64) -> Self {
        let (head, baseline, rows) = (String::new(), None, Vec::new());
        Self { outcome, reasons: vec![reason], threshold, head, baseline, rows }
    }
}

/// The change of one benchmark. Its uncertainty is that of the run's median, that of the baseline's, and what differs
/// from run to run, which no number of samples in one run shows.
fn change(entry: &BaselineEntry, head: &Measurement) -> Option<Change> {
    let is_time = |us: f64| us.is_finite() && us > 0.0;
    if !is_time(entry.median_us) || !is_time(head.median_us) {
        return None;
    }
    let ratio = head.median_us / entry.median_us;
    let in_head = head.median_interval_us.half_width() / head.median_us;
    let (between, within, runs) = (entry.deviation(), entry.half_width, entry.run_medians_us.len() as f64);
    // A median of n runs has pi/2 times the variance of their mean.
    let from_runs = DEVIATIONS * between * (1.0 + std::f64::consts::FRAC_PI_2 / runs).sqrt();
    let half = ratio * (in_head.powi(2) + within.powi(2) / runs + from_runs.powi(2)).sqrt();
    let estimate = ratio - 1.0;
    half.is_finite()
        .then_some(Change { estimate, interval: Interval { low: estimate - half, high: estimate + half } })
}

/// Whether a benchmark is one of those that are run in turn with somebody else's: a few rounds, for a ratio.
fn is_ratio(id: &str) -> bool {
    id.strip_prefix("sim/").unwrap_or(id).starts_with("peers/")
}

/// Compares a run, and second runs of the same, with a baseline.
pub fn compare(baseline: &Baseline, head: &Run, again: &[Run], settings: &GateSettings) -> GateReport {
    let mut outcome = Outcome::Ok;
    let mut reasons = Vec::new();
    let mut conclude = |found: Outcome, reason: Option<String>| {
        outcome = outcome.or(found);
        reasons.extend(reason);
    };
    let is_judged = |id: &str, clock| !is_ratio(id) && (settings.wall || clock != Clock::Wall);
    let mut rows: Vec<Row> = Vec::new();
    for (id, entry) in baseline.entries.iter().filter(|(id, entry)| is_judged(id, entry.clock)) {
        rows.push(row(id, entry, head, again, settings));
    }
    if rows.is_empty() {
        conclude(
            Outcome::NoBaseline,
            Some("the baseline has no benchmark: there is nothing to compare with".into()),
        );
    }
    for found in head.measurements.iter().filter(|found| is_judged(&found.id, found.clock)) {
        if !baseline.entries.contains_key(&found.id) {
            let (id, head_us) = (found.id.clone(), Some(found.median_us));
            let (baseline_us, change, again, verdict) = (None, None, Vec::new(), Verdict::New);
            rows.push(Row { id, baseline_us, head_us, change, again, verdict });
        }
    }
    // What cannot be compared is not judged by its numbers.
    let machines = [&head.machine].into_iter().chain(again.iter().map(|run| &run.machine));
    let other =
        machines.map(|machine| machine.identity()).find(|found| *found != baseline.machine.identity());
    let is_comparable = match (&other, baseline.runs.len()) {
        (Some(found), _) if !settings.any_machine => {
            let theirs = baseline.machine.identity();
            let reason = format!("the baseline was made on {theirs}, this run on {found}");
            conclude(Outcome::Inconclusive, Some(reason));
            false
        }
        (_, runs) if runs < RUNS_MIN && !rows.is_empty() => {
            let reason = format!(
                "the baseline is made of {runs} runs: {RUNS_MIN} are needed to tell noise from change"
            );
            conclude(Outcome::Inconclusive, Some(reason));
            false
        }
        _ => true,
    };
    for (verdict, words) in [
        (Verdict::Missing, "in the baseline and not in this run"),
        (Verdict::Broken, "without a time"),
        (Verdict::Regression, "slower, in this run and in every second one"),
        (Verdict::Suspected, "slower, and not run a second time"),
    ] {
        let ids: Vec<&str> =
            rows.iter().filter(|row| row.verdict == verdict).map(|row| row.id.as_str()).collect();
        let is_about_files = matches!(verdict, Verdict::Missing | Verdict::Broken);
        if !ids.is_empty() && (is_comparable || is_about_files) {
            conclude(verdict.outcome(), Some(format!("{words}: {}", listed(&ids))));
        }
    }
    rows.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| by_change(b, a)).then_with(|| a.id.cmp(&b.id)));
    let line = |run: &Run| {
        format!(
            "{} ({}, {})",
            run.machine.line(),
            run.commit.as_deref().unwrap_or("unknown commit"),
            run.date
        )
    };
    let (head, baseline) = (line(head), Some(baseline.line()));
    GateReport { outcome, reasons, threshold: settings.threshold, head, baseline, rows }
}

fn row(id: &str, entry: &BaselineEntry, head: &Run, again: &[Run], settings: &GateSettings) -> Row {
    let baseline_us = Some(entry.median_us);
    let Some(found) = head.measurement(id) else {
        let (head_us, change, again, verdict) = (None, None, Vec::new(), Verdict::Missing);
        return Row { id: id.into(), baseline_us, head_us, change, again, verdict };
    };
    let first = change(entry, found);
    let again: Vec<Change> = again.iter().filter_map(|run| change(entry, run.measurement(id)?)).collect();
    let is_slower = |change: &Change| judge(change.interval, settings.threshold) == Finding::Slower;
    let verdict = match first.map(|change| judge(change.interval, settings.threshold)) {
        None => Verdict::Broken,
        Some(Finding::Faster) => Verdict::Faster,
        Some(Finding::Noise) => Verdict::Noise,
        Some(Finding::Small) => Verdict::Small,
        Some(Finding::Slower) if again.is_empty() => Verdict::Suspected,
        Some(Finding::Slower) if again.iter().all(is_slower) => Verdict::Regression,
        Some(Finding::Slower) => Verdict::NotConfirmed,
    };
    Row { id: id.into(), baseline_us, head_us: Some(found.median_us), change: first, again, verdict }
}

fn listed(ids: &[&str]) -> String {
    const SHOWN: usize = 5;
    let shown = ids.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match ids.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}, and {more} more"),
    }
}

fn rank(row: &Row) -> u8 {
    match row.verdict {
        Verdict::Missing | Verdict::Broken => 0,
        Verdict::Regression => 1,
        Verdict::Suspected => 2,
        Verdict::NotConfirmed => 3,
        Verdict::Faster => 4,
        Verdict::Small | Verdict::Noise => 5,
        Verdict::New => 6,
    }
}

fn by_change(a: &Row, b: &Row) -> std::cmp::Ordering {
    let estimate = |row: &Row| row.change.map_or(0.0, |change| change.estimate);
    estimate(a).total_cmp(&estimate(b))
}
