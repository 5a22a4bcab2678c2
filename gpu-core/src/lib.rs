//! What the kernels share: devices, memory, kernels, and the *schedule*.
//!
//! A [`Schedule`] is plain data: operations on streams, with the bytes that each one reads and writes.
//! Nothing runs when one is built. The same value is [checked](check::check) for stream races,
//! [estimated](model::estimate) on a device profile, and [run](run::run) on one of two devices:
//!
//! * **CUDA**, through the driver API, with kernels compiled by NVRTC for the exact chip;
//! * **the simulated device**, which runs the same kernel sources compiled as C++, interleaves streams by a seed,
//!   and enforces every declared access.
//!
//! Who promises what: a planner (in `msm-gpu`) promises that sizes and declarations are right; [`check`] proves that
//! the declared accesses are ordered; [`run`] performs exactly what is declared; the simulated device faults when a
//! kernel does anything else. Errors exist for what a caller cannot foresee; a wrong length from our own code asserts.
//!
//! All device code is variable-time. The secrets that pass through are the scalars of an MSM (a witness): buffers
//! that hold them are marked [`Buffer::secret`](schedule::Buffer) and wiped on release.

pub mod backend;
pub mod buffer;
pub mod check;
pub mod cuda;
pub mod device;
pub mod error;
pub mod kernel;
pub mod layout;
pub mod model;
pub mod run;
pub mod schedule;
pub mod sim;

pub use buffer::{DeviceBuf, DownloadBuf, InFlight, UploadBuf};
pub use check::{CheckedSchedule, Hazard, Report};
pub use device::{Device, DeviceInfo, DeviceKind};
pub use error::GpuError;
pub use kernel::{KernelEntry, ModuleSource};
pub use layout::{Pod, Xyzz};
pub use run::{Bindings, Trace, Workspace};
pub use schedule::{Schedule, Space};

/// Result of everything that can fail on a device.
pub type Result<T, E = GpuError> = std::result::Result<T, E>;
