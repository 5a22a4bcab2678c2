//! A run as data: what was measured, on what, under which conditions. The gate and the report read it.

use super::cases::Scale;
use super::stats::Interval;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Version of the format; others are refused.
pub const SCHEMA: u32 = 1;

/// Whose clock a time is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// The device's: from the first operation to the last, by events.
    Device,
    /// The simulated device's virtual one: a prediction by a profile.
    Virtual,
    /// The host's.
    Wall,
}

/// Where a run was made. What is not known is `None`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Machine {
    /// Device, as `sim` or `cuda:0`.
    pub device: String,
    /// Product name of the device.
    pub gpu: String,
    /// Target architecture.
    pub arch: String,
    /// Version of the driver.
    pub driver: Option<String>,
    /// Highest clock of the multiprocessors in MHz.
    pub sm_clock_max_mhz: Option<u32>,
    /// Clock of the multiprocessors right after the last benchmark, in MHz.
    pub sm_clock_mhz: Option<u32>,
    /// Clock of the memory right after the last benchmark, in MHz.
    pub memory_clock_mhz: Option<u32>,
    /// Temperature of the device then, in degrees Celsius.
    pub temperature_c: Option<u32>,
    /// Power that it may take, in watts.
    pub power_limit_w: Option<f64>,
    /// Processor of the host.
    pub cpu: Option<String>,
    /// Threads that the host runs at once.
    pub cpu_threads: usize,
}

impl Machine {
    /// GPU and driver: what must be the same for times to be compared.
    pub fn identity(&self) -> String {
        match &self.driver {
            Some(driver) => format!("{}, driver {driver}", self.gpu),
            None => self.gpu.clone(),
        }
    }

    /// As a reader takes it in.
    pub fn line(&self) -> String {
        let mut parts = vec![self.identity()];
        if let (Some(now), Some(max)) = (self.sm_clock_mhz, self.sm_clock_max_mhz) {
            parts.push(format!("SM clock {now} of {max} MHz"));
        }
        parts.extend(self.memory_clock_mhz.map(|mhz| format!("memory {mhz} MHz")));
        parts.extend(self.temperature_c.map(|celsius| format!("{celsius} C")));
        parts.extend(self.power_limit_w.map(|watts| format!("limit {watts:.0} W")));
        let cpu = self.cpu.as_deref().unwrap_or("unknown processor");
        parts.push(format!("{cpu}, {} threads", self.cpu_threads));
        parts.join("; ")
    }
}

/// What a benchmark varies. Only what applies is there.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Params {
    /// Who computed it: `gpu`, `cpu` for the host's part of our own work, or a peer, as `arkworks`.
    pub who: String,
    /// What is computed: `msm`, `ntt`, `proof`, ...
    pub what: String,
    /// `g1` or `g2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Size as a power of two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_n: Option<u32>,
    /// Batches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batches: Option<u32>,
    /// What the host does between batches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    /// Where results arrive: `pinned` or `pageable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub results: Option<String>,
    /// Flavour of the scalars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scalars: Option<String>,
    /// Circuit, transform, kernel, or way up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

/// What one iteration gets through.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// Points, values, products, constraints.
    Elements(u64),
    /// Bytes.
    Bytes(u64),
}

/// One benchmark's times, in microseconds an iteration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// What distinguishes it from all others of a run. Begins with `sim/` where the clock is virtual.
    pub id: String,
    /// What it varies.
    pub params: Params,
    /// Whose time it is.
    pub clock: Clock,
    /// Each sample.
    pub samples_us: Vec<f64>,
    /// Median of them.
    pub median_us: f64,
    /// Where the median lies, with 95 % confidence.
    pub median_interval_us: Interval,
    /// Wall time beside each sample, from call to result; empty where the clock is the wall's.
    #[serde(default)]
    pub wall_us: Vec<f64>,
    /// Median time in which the device ran no kernel between its first and its last operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_us: Option<f64>,
    /// What an iteration gets through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<Amount>,
    /// Time that the device would take at least, by the work that its kernels declare and the rates of its profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor_us: Option<f64>,
}

impl Measurement {
    /// Elements or bytes a second.
    pub fn rate_per_s(&self) -> Option<f64> {
        let (Amount::Elements(count) | Amount::Bytes(count)) = self.amount?;
        Some(count as f64 / self.median_us * 1e6)
    }

    /// Median of the wall times.
    pub fn wall_median_us(&self) -> Option<f64> {
        match self.clock {
            Clock::Wall => Some(self.median_us),
            _ => super::stats::median(&self.wall_us),
        }
    }
}

/// A benchmark that was not run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Skipped {
    /// Its id.
    pub id: String,
    /// Why.
    pub reason: String,
}

/// How many times longer somebody took than the device, from rounds in which both took their turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// What was computed.
    pub id: String,
    /// Who took so many times longer.
    pub peer: String,
    /// Median of the ratios of all rounds.
    pub median: f64,
    /// Where the median lies, with 95 % confidence; the range of the rounds where they are fewer than six.
    pub interval: Interval,
}

/// One run of the benchmarks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of the harness.
    pub harness: String,
    /// Commit that it was built from, if that is known.
    pub commit: Option<String>,
    /// Start of the run, as RFC 3339.
    pub date: String,
    /// Seed of bases, scalars and circuits, hexadecimal.
    pub seed: String,
    /// Which sizes.
    pub scale: Scale,
    /// Where.
    pub machine: Machine,
    /// What else a reader has to know.
    pub conditions: Vec<String>,
    /// Time that was added on purpose to products, in percent, to see that it is noticed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planted_percent: Option<f64>,
    /// What was measured.
    pub measurements: Vec<Measurement>,
    /// What was not.
    pub skipped: Vec<Skipped>,
    /// Others, beside the device.
    pub ratios: Vec<Ratio>,
}

/// Why a file is no run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is not the JSON that it should be.
    #[error("{}: {source}", path.display())]
    Json {
        /// Which.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// Another version's.
    #[error("{}: version {found} of the format; this program reads {SCHEMA}", path.display())]
    Schema {
        /// Which.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// Parts that do not belong to one run.
    #[error("parts of different runs: {first}; {other}")]
    Parts {
        /// Machine and sizes of one.
        first: String,
        /// Machine and sizes of another.
        other: String,
    },
    /// A directory without a benchmark of criterion's.
    #[error("{}: no benchmark of criterion's in this directory", path.display())]
    Empty {
        /// Which.
        path: PathBuf,
    },
}

/// Reads a JSON file of any of this module's kinds, whose version is looked at first.
///
/// # Errors
/// [`RecordError`].
pub fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T, RecordError> {
    #[derive(Deserialize)]
    struct Version {
        schema: u32,
    }
    let text =
        std::fs::read_to_string(path).map_err(|source| RecordError::Io { path: path.into(), source })?;
    let refuse = |source| RecordError::Json { path: path.into(), source };
    let Version { schema } = serde_json::from_str(&text).map_err(refuse)?;
    if schema != SCHEMA {
        return Err(RecordError::Schema { path: path.into(), found: schema });
    }
    serde_json::from_str(&text).map_err(refuse)
}

impl Run {
    /// Reads a run: a file of `harness bench --json`.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn read(path: &Path) -> Result<Self, RecordError> {
        read_json(path)
    }

    /// What parts of one run have in common, for a reader.
    fn kind(&self) -> String {
        let planted = if self.planted_percent.is_some() { ", slowed down on purpose" } else { "" };
        format!("{}, {:?} sizes{planted}", self.machine.identity(), self.scale)
    }

    /// Parts of one run, of different groups of benchmarks, as one: everything else is the last one's.
    ///
    /// # Errors
    /// [`RecordError::Parts`] for parts that were not made on one machine with the same sizes.
    pub fn joined(parts: Vec<Self>) -> Result<Option<Self>, RecordError> {
        let mut whole: Option<Self> = None;
        for mut part in parts {
            if let Some(before) = whole {
                let same = |run: &Self| (run.machine.identity(), run.scale, run.planted_percent.is_some());
                if same(&before) != same(&part) {
                    let (first, other) = (before.kind(), part.kind());
                    return Err(RecordError::Parts { first, other });
                }
                part.measurements.splice(0..0, before.measurements);
                part.skipped.splice(0..0, before.skipped);
                part.ratios.splice(0..0, before.ratios);
            }
            whole = Some(part);
        }
        Ok(whole)
    }

    /// A measurement by its id.
    pub fn measurement(&self, id: &str) -> Option<&Measurement> {
        self.measurements.iter().find(|measurement| measurement.id == id)
    }
}
