//! Typed errors: each names the operation and its cause.

use crate::check::Report;

/// What can go wrong between a caller and a device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// No CUDA driver, or none that answers.
    #[error("no CUDA driver: {reason} (tried {})", tried.join(", "))]
    NoDriver {
        /// Library names that were looked for.
        tried: Vec<String>,
        /// What the loader or the driver said.
        reason: String,
    },
    /// The driver is there, the device is not.
    #[error("no CUDA device {ordinal}: the driver shows {count}")]
    NoDevice {
        /// Ordinal asked for.
        ordinal: usize,
        /// Number of devices that the driver shows.
        count: usize,
    },
    /// NVRTC, which compiles the kernels, is not there.
    #[error("no NVRTC library: {reason} (tried {})", tried.join(", "))]
    NoCompiler {
        /// Library names that were looked for.
        tried: Vec<String>,
        /// What the loader said.
        reason: String,
    },
    /// The device or the page-locked host memory does not hold what was asked.
    #[error("out of memory: {op} needs {needed_bytes} bytes, {free_bytes} are free")]
    OutOfMemory {
        /// What was being allocated.
        op: String,
        /// Bytes asked for.
        needed_bytes: u64,
        /// Bytes free when it was refused.
        free_bytes: u64,
    },
    /// The driver refused an operation.
    #[error("{op}: {cause}")]
    Driver {
        /// The operation, with the kernel, buffer or stream that it was about.
        op: String,
        /// The driver's name and text for the error.
        cause: String,
    },
    /// NVRTC refused a kernel source.
    #[error("compiling {module} for {arch}: {log}")]
    Compile {
        /// Module name.
        module: String,
        /// Target, such as `sm_90`.
        arch: String,
        /// The compiler's whole log.
        log: String,
    },
    /// A launch that can never work on this device: refused before it is queued.
    #[error("launch of {kernel}: {reason}")]
    Launch {
        /// Kernel name.
        kernel: String,
        /// Which limit or signature it breaks.
        reason: String,
    },
    /// The simulated device saw an access that was not declared, out of bounds, or after free.
    #[error("{op}: {what}")]
    Access {
        /// Kernel or copy at fault.
        op: String,
        /// Buffer and kind of access.
        what: String,
    },
    /// The schedule has hazards: nothing was run.
    #[error("schedule {schedule} is not safe to run: {report}")]
    Hazard {
        /// Schedule name.
        schedule: String,
        /// The checker's report.
        report: Box<Report>,
    },
    /// A host step of a schedule failed.
    #[error("host step {step}: {cause}")]
    HostStep {
        /// Step name.
        step: String,
        /// What it said.
        cause: String,
    },
    /// A host thread of a schedule could not be started, or waits for what never comes.
    #[error("host thread {thread}: {reason}")]
    HostThread {
        /// Thread name.
        thread: String,
        /// Why.
        reason: String,
    },
    /// The schedule needs something that was not given: an unbound buffer, an unknown kernel.
    #[error("schedule {schedule}: {reason}")]
    Incomplete {
        /// Schedule name.
        schedule: String,
        /// What is missing.
        reason: String,
    },
}
