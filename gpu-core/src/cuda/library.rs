//! Are the driver and the compiler there, and new enough?
//!
//! Both are loaded when they are first asked for, so that the program starts on a machine that has neither.
//! The bindings panic on a missing library or symbol; so everything that this crate calls is looked up here
//! first, and what is missing becomes an error that names it.

use crate::Result;
use crate::error::GpuError;
use cudarc::{driver, get_lib_name_candidates, nvrtc};
use std::ffi::{CStr, CString, c_void};
use std::sync::OnceLock;

/// Driver functions that this crate calls. The newest of them are of CUDA 12.8.
const DRIVER_SYMBOLS: &[&str] = &[
    "cuCtxSetCurrent",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetDefaultMemPool",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime_v2",
    "cuEventRecord",
    "cuEventRecordWithFlags",
    "cuEventSynchronize",
    "cuFuncGetAttribute",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAllocFromPoolAsync",
    "cuMemAlloc_v2",
    "cuMemFreeAsync",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuMemPoolGetAttribute",
    "cuMemPoolSetAttribute",
    "cuMemPoolTrimTo",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuStreamBeginCapture_v2",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamEndCapture",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
];

/// NVRTC functions that this crate calls.
const COMPILER_SYMBOLS: &[&str] = &[
    "nvrtcCompileProgram",
    "nvrtcCreateProgram",
    "nvrtcDestroyProgram",
    "nvrtcGetCUBIN",
    "nvrtcGetCUBINSize",
    "nvrtcGetNumSupportedArchs",
    "nvrtcGetProgramLog",
    "nvrtcGetProgramLogSize",
    "nvrtcGetSupportedArchs",
    "nvrtcVersion",
];

/// Whether the driver can be called. A success is remembered, a failure is looked into again.
///
/// # Errors
/// [`GpuError::NoDriver`] with the names looked for and what the loader said, or the functions that the
/// driver lacks.
pub(super) fn require_driver() -> Result<()> {
    static FOUND: OnceLock<()> = OnceLock::new();
    if FOUND.get().is_some() {
        return Ok(());
    }
    let tried: Vec<String> = ["cuda", "nvcuda"].into_iter().flat_map(get_lib_name_candidates).collect();
    // SAFETY: loading the driver runs its initialisers, which NVIDIA makes safe to run in any process.
    if !unsafe { driver::sys::is_culib_present() } {
        return Err(GpuError::NoDriver { reason: loader_says("libcuda.so.1"), tried });
    }
    let is_missing = |name: &&&str| {
        let symbol = CString::new(**name).expect("symbol names have no NUL");
        // SAFETY: the library is present (above), so `culib` does not panic; the address is only compared,
        // never called.
        unsafe { driver::sys::culib().get::<*const c_void>(symbol.as_bytes_with_nul()).is_err() }
    };
    let missing: Vec<&str> = DRIVER_SYMBOLS.iter().filter(is_missing).copied().collect();
    if !missing.is_empty() {
        let reason =
            format!("the driver is too old: it lacks {} (CUDA 12.8 has them all)", missing.join(", "));
        return Err(GpuError::NoDriver { tried, reason });
    }
    FOUND.get_or_init(|| ());
    Ok(())
}

/// Whether NVRTC can be called. A success is remembered, a failure is looked into again.
///
/// # Errors
/// [`GpuError::NoCompiler`], as [`require_driver`].
pub(super) fn require_compiler() -> Result<()> {
    static FOUND: OnceLock<()> = OnceLock::new();
    if FOUND.get().is_some() {
        return Ok(());
    }
    let tried = get_lib_name_candidates("nvrtc");
    // SAFETY: loading NVRTC runs its initialisers, which NVIDIA makes safe to run in any process.
    if !unsafe { nvrtc::sys::is_culib_present() } {
        return Err(GpuError::NoCompiler { reason: loader_says("libnvrtc.so.13"), tried });
    }
    let is_missing = |name: &&&str| {
        let symbol = CString::new(**name).expect("symbol names have no NUL");
        // SAFETY: the library is present (above), so `culib` does not panic; the address is only compared,
        // never called.
        unsafe { nvrtc::sys::culib().get::<*const c_void>(symbol.as_bytes_with_nul()).is_err() }
    };
    let missing: Vec<&str> = COMPILER_SYMBOLS.iter().filter(is_missing).copied().collect();
    if !missing.is_empty() {
        let reason = format!("NVRTC is too old: it lacks {}", missing.join(", "));
        return Err(GpuError::NoCompiler { tried, reason });
    }
    FOUND.get_or_init(|| ());
    Ok(())
}

/// The loader's own words on why a library does not load: the bindings keep only that none did.
fn loader_says(name: &str) -> String {
    let name = CString::new(name).expect("library names have no NUL");
    // SAFETY: the name is a C string; loading runs initialisers, as above. `dlerror` gives this thread's last
    // message or null; it is copied before the next call of the loader.
    unsafe {
        if libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL).is_null() {
            let text = libc::dlerror();
            if !text.is_null() {
                return CStr::from_ptr(text).to_string_lossy().into_owned();
            }
        }
    }
    "it is there, but under none of the names tried".into()
}
