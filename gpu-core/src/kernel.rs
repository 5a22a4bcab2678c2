//! Kernel sources and what they export.
//!
//! A `.cu` file marks each kernel with `EXPORT_KERNEL(name)` or, where its threads meet at barriers,
//! `EXPORT_COLLECTIVE(name)`. The build compiles the file for the simulated device, where the mark becomes a
//! [`SimKernel`] with the kernel's signature read off its C++ type, and embeds it for NVRTC, where the mark is empty.
//! So both devices check a launch against the same signature.

use crate::error::GpuError;
use crate::schedule::Arg;
use std::ffi::{CStr, c_char, c_void};
use std::fmt;

/// A CUDA source with its headers, embedded in the binary.
pub struct ModuleSource {
    /// Module name: the file's stem, with the group where it is compiled once per group (`msm_accumulate_g2`).
    pub name: &'static str,
    /// File name of the source, for compiler messages.
    pub file: &'static str,
    /// Text of the source.
    pub source: &'static str,
    /// Headers that it can include: name as included, text.
    pub headers: &'static [(&'static str, &'static str)],
    /// Preprocessor definitions (`GROUP_G2`).
    pub defines: &'static [&'static str],
    /// Kernels that it exports.
    pub kernels: &'static [KernelEntry],
}

impl fmt::Debug for ModuleSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ModuleSource({})", self.name)
    }
}

/// A kernel that a module exports.
pub struct KernelEntry {
    /// The `extern "C"` name.
    pub name: &'static str,
    /// Its twin on the simulated device.
    pub sim: &'static SimKernel,
}

impl fmt::Debug for KernelEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KernelEntry({}: {})", self.name, self.signature())
    }
}

/// What `EXPORT_KERNEL` leaves in the simulated device's object file. Layout shared with `cuda/sim/shim.h`.
#[repr(C)]
#[derive(Debug)]
pub struct SimKernel {
    /// Calls the kernel for the current thread: `args[i]` points to the i-th argument's value.
    pub call: unsafe extern "C" fn(args: *const *const c_void),
    /// One letter an argument: `r` pointer to const, `w` pointer, `4` u32, `8` u64. NUL-terminated, static.
    pub signature: *const c_char,
    /// 1 where threads of a block meet at barriers.
    pub collective: u32,
    /// Begin of the module's shared memory in the initial image of the thread-local segment; null if it has none.
    pub shared_begin: *const c_char,
    /// End of the same.
    pub shared_end: *const c_char,
}

// SAFETY: a SimKernel is immutable static data; `signature` points to a string literal, `call` to a function;
// the addresses of shared memory are compared, never dereferenced.
unsafe impl Sync for SimKernel {}

impl KernelEntry {
    /// One letter an argument; see [`SimKernel::signature`].
    pub fn signature(&self) -> &'static str {
        // SAFETY: `EXPORT_KERNEL` initialises `signature` with a NUL-terminated literal that lives as long as the program.
        let text = unsafe { CStr::from_ptr(self.sim.signature) };
        text.to_str().expect("signature letters are ASCII")
    }

    /// Whether these arguments have the kernel's types. An error says which one has not.
    ///
    /// # Errors
    /// [`GpuError::Launch`] with the position and both letters.
    pub fn check_args(&self, args: &[Arg]) -> Result<(), GpuError> {
        let given: String = args
            .iter()
            .map(|arg| match arg {
                Arg::Read(_) => 'r',
                Arg::Write(_) => 'w',
                Arg::U32(_) => '4',
                Arg::U64(_) => '8',
            })
            .collect();
        if given == self.signature() {
            return Ok(());
        }
        let reason = format!("arguments {given} do not match the signature {}", self.signature());
        Err(GpuError::Launch { kernel: self.name.into(), reason })
    }
}
