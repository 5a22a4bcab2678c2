//! `harness doctor`: what this machine has of what the prover uses, and how to mend what is missing.

use crate::error::{Failure, Judgement};
use crate::oracle::{msm_by_arkworks, random_numbers};
use crate::report::{bytes_text, write_json};
use ark_bls12_381::{Fr, G1Affine, G1Projective};
use ark_ff::UniformRand;
use gpu_core::cuda::cache::{CACHE_ENV, KernelCache};
use gpu_core::cuda::{compile::nvrtc_version, device_count, driver_version};
use gpu_core::sim::SimOptions;
use gpu_core::{Device, GpuError, UploadBuf};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Says what it found of driver, devices, NVRTC, kernel cache, page-locked memory, processor and versions, and how to mend
/// what is missing. Good if the simulated device computes: no GPU is needed for that.
#[derive(Debug, Clone, clap::Args)]
pub struct DoctorArgs {
    /// Writes everything to a file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// How a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// As it should be.
    Good,
    /// It works, and could be better.
    Warning,
    /// Not there: what needs it does not work.
    Missing,
    /// There, and wrong.
    Bad,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Warning => "WARNING",
            Self::Missing => "MISSING",
            Self::Bad => "BAD",
        }
    }
}

/// One part of the machine.
#[derive(Debug, Clone, Serialize)]
struct Finding {
    part: String,
    state: State,
    found: String,
    /// What to do, where there is something to do.
    mend: Option<String>,
}

impl Finding {
    fn new(part: impl Into<String>, state: State, found: impl Into<String>, mend: Option<&str>) -> Self {
        Self { part: part.into(), state, found: found.into(), mend: mend.map(String::from) }
    }
}

/// What `--json` writes.
#[derive(Debug, Serialize)]
struct DoctorReport<'a> {
    harness: &'static str,
    findings: &'a [Finding],
}

/// Page-locked memory that is tried on each device.
const PINNED_TRIED: usize = 256 << 20;

/// Runs the command.
///
/// # Errors
/// [`Failure::Write`] for a report that cannot be written.
pub fn run(args: &DoctorArgs, out: &mut dyn Write) -> Result<Judgement, Failure> {
    let simulated = simulated();
    let judgement = if simulated.state == State::Good { Judgement::Good } else { Judgement::Bad };
    let mut findings = vec![versions(), processor(), simulated];
    findings.extend(cuda());
    findings.extend([compiler(), cache(&KernelCache::from_env()), lock_limit()]);
    for Finding { part, state, found, mend } in &findings {
        writeln!(out, "{part:<16} {:<8} {found}", state.word()).map_err(Failure::output)?;
        if let Some(mend) = mend {
            writeln!(out, "{:<16} {:<8} to mend: {mend}", "", "").map_err(Failure::output)?;
        }
    }
    if let Some(path) = &args.json {
        write_json(path, &DoctorReport { harness: env!("CARGO_PKG_VERSION"), findings: &findings })?;
    }
    Ok(judgement)
}

/// Libraries whose versions matter to what is computed, from the file that the program was built with.
fn versions() -> Finding {
    const LOCK: &str = include_str!("../../../Cargo.lock");
    let version = |name: &str| {
        let entry =
            LOCK.split("[[package]]").find(|entry| entry.contains(&format!("name = \"{name}\"\n")))?;
        let line = entry.lines().find_map(|line| line.strip_prefix("version = \""))?;
        Some(format!("{name} {}", line.trim_end_matches('"')))
    };
    let names = ["ark-ff", "ark-ec", "ark-bls12-381", "ark-groth16", "bls12_381", "cudarc"];
    let libraries: Vec<_> = names.into_iter().filter_map(version).collect();
    let keys = if cfg!(feature = "sapling-keys") { "with" } else { "without" };
    let build = if cfg!(debug_assertions) { "with debug assertions" } else { "release" };
    let found = format!(
        "harness {}, {build}, {keys} the Sapling keys; {}",
        env!("CARGO_PKG_VERSION"),
        libraries.join(", ")
    );
    let mend = cfg!(debug_assertions).then_some("`cargo run --release` is what to measure with");
    Finding::new("program", State::Good, found, mend)
}

fn processor() -> Finding {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let name = name.map_or(std::env::consts::ARCH, |(_, name)| name).to_string();
    let features = cpu_features();
    let missing: Vec<_> = features.iter().filter(|(_, has)| !has).map(|(name, _)| *name).collect();
    let present: Vec<_> = features.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect();
    let found = format!("{name}, {cores} cores for this process, {}", present.join(" "));
    if missing.is_empty() {
        return Finding::new("processor", State::Good, found, None);
    }
    let mend = format!("it lacks {}: folding and verifying on the host are slower", missing.join(", "));
    Finding::new("processor", State::Warning, found, Some(&mend))
}

/// Instructions that arithmetic on the host is faster with.
#[cfg(target_arch = "x86_64")]
fn cpu_features() -> Vec<(&'static str, bool)> {
    vec![
        ("adx", std::arch::is_x86_feature_detected!("adx")),
        ("bmi2", std::arch::is_x86_feature_detected!("bmi2")),
        ("avx2", std::arch::is_x86_feature_detected!("avx2")),
    ]
}

#[cfg(not(target_arch = "x86_64"))]
fn cpu_features() -> Vec<(&'static str, bool)> {
    Vec::new()
}

/// A small product on the simulated device, against arkworks'.
fn simulated() -> Finding {
    let rng = &mut random_numbers(1, "doctor");
    let points: Vec<G1Affine> = (0..256).map(|_| G1Affine::rand(rng)).collect();
    let scalars: Vec<Fr> = (0..256).map(|_| Fr::rand(rng)).collect();
    let device = Device::sim(SimOptions::default());
    match msm_gpu::msm::<G1Projective>(&device, &points, &scalars) {
        Ok(product) if product == msm_by_arkworks::<G1Projective>(&points, &scalars) => {
            Finding::new("simulated device", State::Good, "a product of 256 points is arkworks'", None)
        }
        Ok(_) => {
            let mend = "build again with another C++ compiler; `harness check --device sim` shows more";
            Finding::new(
                "simulated device",
                State::Bad,
                "a product of 256 points is not arkworks'",
                Some(mend),
            )
        }
        Err(error) => Finding::new("simulated device", State::Bad, error.to_string(), None),
    }
}

/// Why a library is not there, without the dozens of names that it was looked for under.
fn reason(error: &GpuError) -> String {
    match error {
        GpuError::NoDriver { reason, tried } | GpuError::NoCompiler { reason, tried } => {
            format!("{reason} (and under {} other names)", tried.len().saturating_sub(1))
        }
        other => other.to_string(),
    }
}

fn cuda() -> Vec<Finding> {
    let version = match driver_version() {
        Some((major, minor)) => format!("for CUDA {major}.{minor}"),
        None => {
            let found = device_count().map_or_else(|error| reason(&error), |_| "it does not say".into());
            let mend = "install NVIDIA's driver, of CUDA 12.8 or later; in a container, start it with the driver's \
                        libraries (`--gpus all`). Without one the simulated device does everything, slowly";
            return vec![Finding::new("driver", State::Missing, found, Some(mend))];
        }
    };
    let driver = |state, found: String, mend| Finding::new("driver", state, found, mend);
    match device_count() {
        Ok(0) => {
            let mend = "`nvidia-smi -L` shows what the driver sees; CUDA_VISIBLE_DEVICES may hide devices";
            vec![driver(State::Missing, format!("{version}, and it shows no device"), Some(mend))]
        }
        Ok(count) => std::iter::once(driver(State::Good, version, None))
            .chain((0..count).map(|ordinal| device(ordinal, Device::cuda(ordinal))))
            .collect(),
        Err(error) => {
            let mend = "`nvidia-smi` says more; a driver that was updated wants the machine started anew";
            vec![driver(State::Bad, format!("{version}: {error}"), Some(mend))]
        }
    }
}

fn device(ordinal: usize, device: Result<Device, GpuError>) -> Finding {
    let part = format!("cuda:{ordinal}");
    let looked_at = device.and_then(|device| {
        let free_bytes = device.free_bytes()?;
        let pinned = UploadBuf::<u8>::new(&device, "doctor", PINNED_TRIED);
        Ok((device.info().clone(), free_bytes, pinned.map(|_| ())))
    });
    let (info, free_bytes, pinned) = match looked_at {
        Ok(found) => found,
        Err(error) => {
            let mend =
                "`nvidia-smi` shows who uses it, and whether it is in a mode that refuses other processes";
            return Finding::new(part, State::Bad, error.to_string(), Some(mend));
        }
    };
    let found = format!(
        "{}, {}, {} multiprocessors, {} of {} free",
        info.name,
        info.arch,
        info.sm_count,
        bytes_text(free_bytes),
        bytes_text(info.memory_bytes)
    );
    match pinned {
        Err(error) => {
            let mend = "page-locked memory is refused: see the limit below, and the memory of the container";
            Finding::new(part, State::Bad, format!("{found}; {error}"), Some(mend))
        }
        Ok(()) => {
            let found =
                format!("{found}, {} of page-locked memory can be had", bytes_text(PINNED_TRIED as u64));
            let mend = (free_bytes < info.memory_bytes / 2)
                .then_some("something else takes more than half of its memory: `nvidia-smi` shows what");
            let state = if mend.is_some() { State::Warning } else { State::Good };
            Finding::new(part, state, found, mend)
        }
    }
}

fn compiler() -> Finding {
    match nvrtc_version() {
        Ok((major, minor)) => match driver_version() {
            Some(driver) if driver < (major, minor) => {
                let found = format!("{major}.{minor}, newer than the driver");
                let mend = format!("install NVRTC {}.{} or older, or a newer driver", driver.0, driver.1);
                Finding::new("NVRTC", State::Warning, found, Some(&mend))
            }
            _ => Finding::new("NVRTC", State::Good, format!("{major}.{minor}"), None),
        },
        Err(error) => {
            let mend = "install a CUDA toolkit, or `pip install nvidia-cuda-nvrtc` and set LD_LIBRARY_PATH to the \
                        directory of libnvrtc.so. Only CUDA devices need it";
            Finding::new("NVRTC", State::Missing, reason(&error), Some(mend))
        }
    }
}

fn cache(cache: &KernelCache) -> Finding {
    let mend =
        format!("set {CACHE_ENV} to a directory that can be written: without a cache every start compiles");
    let Some(directory) = cache.dir() else {
        return Finding::new("kernel cache", State::Warning, "none", Some(&mend));
    };
    let shown = directory.display();
    let entries: Vec<u64> = std::fs::read_dir(directory)
        .map(|entries| entries.flatten().filter_map(|entry| Some(entry.metadata().ok()?.len())).collect())
        .unwrap_or_default();
    let bytes = bytes_text(entries.iter().sum());
    match can_write(directory) {
        Ok(()) => {
            let found = format!("{shown}: {} entries, {bytes}, can be written", entries.len());
            Finding::new("kernel cache", State::Good, found, None)
        }
        Err(error) => Finding::new("kernel cache", State::Warning, format!("{shown}: {error}"), Some(&mend)),
    }
}

/// Makes the directory, as the first compilation would, and a file in it that goes again.
fn can_write(directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let path = directory.join(format!(".doctor-{}", std::process::id()));
    std::fs::write(&path, b"can this be written?")?;
    std::fs::remove_file(path)
}

/// What the system lets a process lock, as `ulimit -l` says.
fn lock_limit() -> Finding {
    let part = "memory locks";
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let Some(soft) = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max locked memory"))
        .and_then(|line| line.split_whitespace().next())
    else {
        return Finding::new(part, State::Warning, "this system does not say what a process may lock", None);
    };
    match soft.parse::<u64>() {
        Ok(bytes) => {
            let found = format!("a process may lock {} by itself (ulimit -l)", bytes_text(bytes));
            // CUDA's own page-locked memory does not count against it on most systems: what counts is tried above.
            let mend =
                "only if page-locked memory is refused: `ulimit -l unlimited`, or memlock in limits.conf";
            Finding::new(part, State::Good, found, Some(mend))
        }
        Err(_) => Finding::new(part, State::Good, "a process may lock any amount (ulimit -l)", None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_that_cannot_be_written_is_a_warning_with_its_remedy() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = directory.path().join("file");
        std::fs::write(&file, b"in the way").expect("a file");
        let finding = cache(&KernelCache::at(file.join("kernels")));
        assert_eq!(finding.state, State::Warning, "{}", finding.found);
        assert!(finding.mend.expect("a remedy").contains(CACHE_ENV));
        let good = cache(&KernelCache::at(directory.path().join("kernels")));
        assert_eq!(good.state, State::Good, "{}", good.found);
        assert!(good.found.contains("0 entries"), "{}", good.found);
    }

    #[test]
    fn versions_are_those_that_the_program_was_built_with() {
        let found = versions().found;
        assert!(found.contains("ark-groth16 0.6.0, bls12_381 0.9.0, cudarc 0."), "{found}");
    }
}
