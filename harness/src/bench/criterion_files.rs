//! What criterion leaves in its output directory. Only JSON is read: a report's text says nothing that a program may
//! take a number from.

use super::record::{Machine, Measurement, Params, RecordError, SCHEMA};
use super::stats::Interval;
use super::{cases::Scale, record::Clock, record::Run};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// Where a run in a criterion directory says on what machine it was made.
pub const MACHINE_FILE: &str = "machine.json";

#[derive(Debug, Deserialize)]
struct Benchmark {
    full_id: String,
}

#[derive(Debug, Deserialize)]
struct Sample {
    iters: Vec<f64>,
    times: Vec<f64>,
}

#[derive(Debug, Deserialize)]
struct ConfidenceInterval {
    lower_bound: f64,
    upper_bound: f64,
}

#[derive(Debug, Deserialize)]
struct Estimate {
    confidence_interval: ConfidenceInterval,
    point_estimate: f64,
}

#[derive(Debug, Deserialize)]
struct Estimates {
    median: Estimate,
}

/// What criterion keeps of one benchmark.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// Its id.
    pub id: String,
    /// Microseconds an iteration, of each sample; empty where only estimates are there.
    pub samples_us: Vec<f64>,
    /// Iterations of each sample.
    pub iterations: Vec<u64>,
    /// Median.
    pub median_us: f64,
    /// Where the median lies, by criterion's bootstrap.
    pub median_interval_us: Interval,
}

/// Every benchmark in a directory, by id.
///
/// # Errors
/// [`RecordError`]: a file that is not criterion's, or nothing at all.
pub fn read_directory(directory: &Path) -> Result<Vec<Kept>, RecordError> {
    let mut kept = Vec::new();
    let mut directories = vec![directory.to_path_buf()];
    while let Some(current) = directories.pop() {
        let io = |source| RecordError::Io { path: current.clone(), source };
        let mut entries: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(&current).map_err(io)? {
            entries.push(entry.map_err(io)?.path());
        }
        if current.ends_with("new") && current.join("estimates.json").is_file() {
            kept.push(read_benchmark(&current)?);
        }
        directories.extend(entries.into_iter().filter(|path| path.is_dir()));
    }
    if kept.is_empty() {
        return Err(RecordError::Empty { path: directory.into() });
    }
    kept.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(kept)
}

fn read_benchmark(directory: &Path) -> Result<Kept, RecordError> {
    let benchmark: Benchmark = read(&directory.join("benchmark.json"))?;
    let estimates: Estimates = read(&directory.join("estimates.json"))?;
    let sample_path = directory.join("sample.json");
    let sample =
        if sample_path.is_file() { read(&sample_path)? } else { Sample { iters: vec![], times: vec![] } };
    let us = |ns: f64| ns / 1e3;
    let interval = &estimates.median.confidence_interval;
    let each = sample.times.iter().zip(&sample.iters);
    Ok(Kept {
        id: benchmark.full_id,
        samples_us: each.map(|(ns, iterations)| us(ns / iterations)).collect(),
        iterations: sample.iters.iter().map(|iterations| *iterations as u64).collect(),
        median_us: us(estimates.median.point_estimate),
        median_interval_us: Interval { low: us(interval.lower_bound), high: us(interval.upper_bound) },
    })
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, RecordError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| RecordError::Io { path: path.into(), source })?;
    serde_json::from_str(&text).map_err(|source| RecordError::Json { path: path.into(), source })
}

/// A criterion directory as a run, so that the gate takes one: ids and times, and the machine where
/// [`MACHINE_FILE`] says it.
///
/// # Errors
/// [`RecordError`].
pub fn as_run(directory: &Path) -> Result<Run, RecordError> {
    let machine_path = directory.join(MACHINE_FILE);
    let machine: Machine = if machine_path.is_file() { read(&machine_path)? } else { Machine::default() };
    let measurement = |kept: Kept| Measurement {
        clock: if kept.id.starts_with("sim/") { Clock::Virtual } else { Clock::Device },
        id: kept.id,
        params: Params::default(),
        samples_us: kept.samples_us,
        median_us: kept.median_us,
        median_interval_us: kept.median_interval_us,
        wall_us: Vec::new(),
        idle_us: None,
        amount: None,
        floor_us: None,
    };
    Ok(Run {
        schema: SCHEMA,
        harness: env!("CARGO_PKG_VERSION").into(),
        commit: None,
        date: String::new(),
        seed: String::new(),
        scale: Scale::Full,
        machine,
        conditions: Vec::new(),
        planted_percent: None,
        measurements: read_directory(directory)?.into_iter().map(measurement).collect(),
        skipped: Vec::new(),
        ratios: Vec::new(),
    })
}
