//! What a run has to say about the machine that it was made on.

use super::record::Machine;
use crate::meter::{nvml, nvml_device};
use gpu_core::{Device, DeviceInfo, DeviceKind};
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};

/// The machine as it is now. NVML is asked about a CUDA device, if the driver comes with it; never about the simulated
/// one.
pub fn machine(device: &Device) -> Machine {
    let info = device.info();
    let mut machine = Machine {
        device: info.id.clone(),
        gpu: info.name.clone(),
        arch: info.arch.clone(),
        cpu: cpu(),
        cpu_threads: std::thread::available_parallelism().map_or(1, usize::from),
        ..Machine::default()
    };
    if info.kind == DeviceKind::Cuda
        && let Err(error) = ask_nvml(&mut machine, info)
    {
        tracing::warn!(%error, "driver version and clocks are not known");
    }
    machine
}

fn ask_nvml(machine: &mut Machine, info: &DeviceInfo) -> Result<(), nvml_wrapper::error::NvmlError> {
    let nvml = nvml()?;
    machine.driver = Some(nvml.sys_driver_version()?);
    let Some(device) = nvml_device(&nvml, info)? else { return Ok(()) };
    machine.sm_clock_max_mhz = device.max_clock_info(Clock::SM).ok();
    machine.sm_clock_mhz = device.clock_info(Clock::SM).ok();
    machine.memory_clock_mhz = device.clock_info(Clock::Memory).ok();
    machine.temperature_c = device.temperature(TemperatureSensor::Gpu).ok();
    machine.power_limit_w = device.enforced_power_limit().ok().map(|milliwatts| f64::from(milliwatts) / 1e3);
    Ok(())
}

fn cpu() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().into())
}

/// The commit: `HARNESS_COMMIT` where a packed program was told it, or what git says of the current directory.
pub fn commit() -> Option<String> {
    if let Ok(commit) = std::env::var("HARNESS_COMMIT") {
        return Some(commit).filter(|commit| !commit.is_empty());
    }
    let git = |args: &[&str]| {
        let output = std::process::Command::new("git").args(args).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let is_clean = git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Some(if is_clean { commit } else { commit + " with changes" })
}

/// Now, as RFC 3339, to the second.
pub fn now() -> String {
    let now = jiff::Timestamp::now();
    jiff::Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}
