//! The CUDA device: the driver API behind [`Backend`], and kernels compiled by NVRTC for the exact chip.
//!
//! The driver and the compiler are loaded when they are first asked for ([`device_count`],
//! [`compile::compile`]); a machine without them gets an error that says what was looked for. Nothing here
//! waits or tracks on its own: order is the schedule's, and the only hidden wait is the one of an allocation.
//!
//! An operation that a kernel or copy breaks *while it executes* (an illegal address) takes the context with
//! it: CUDA then fails every later call of the process on that device with the same error. Refused operations
//! (memory, launch limits, bad images) leave nothing behind.

pub mod cache;
pub mod compile;
mod library;

use crate::backend::{
    Backend, DevicePtr, Graphs, HostSpan, Kernel, LaunchArg, RawEvent, RawGraph, RawStream,
};
use crate::error::GpuError;
use crate::kernel::ModuleSource;
use crate::schedule::Space;
use crate::{DeviceInfo, DeviceKind, Result};
use cache::KernelCache;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUdevice_attribute_enum as Attribute, CUresult};
use std::ffi::{CString, c_void};
use std::sync::{Mutex, PoisonError};

/// Number of devices that the driver shows; 0 for a driver without any.
///
/// # Errors
/// [`GpuError::NoDriver`] without a driver, or with one that does not start.
pub fn device_count() -> Result<usize> {
    library::require_driver()?;
    let no_driver =
        |error| GpuError::NoDriver { tried: vec!["libcuda.so.1".into()], reason: describe(error) };
    match result::init() {
        Ok(()) => result::device::get_count().map(|count| count as usize).map_err(no_driver),
        Err(DriverError(CUresult::CUDA_ERROR_NO_DEVICE)) => Ok(0),
        Err(error) => Err(no_driver(error)),
    }
}

/// A CUDA device.
#[derive(Debug)]
pub struct CudaBackend {
    info: DeviceInfo,
    context: Context,
    /// Allocates and frees, in its own order; synchronised after each allocation, so that memory is usable on
    /// all streams.
    housekeeping: sys::CUstream,
    /// The device's pool, where it has one. Kept from giving memory back at every synchronisation.
    pool: Option<sys::CUmemoryPool>,
    modules: Mutex<Vec<Module>>,
    cache: KernelCache,
}

// SAFETY: the handles are the driver's, which any thread may use once the context is current on it; every
// method makes it so. The driver locks its own state.
unsafe impl Send for CudaBackend {}
// SAFETY: as above.
unsafe impl Sync for CudaBackend {}

/// The device's primary context, shared with every other user of the device in this process.
#[derive(Debug)]
struct Context {
    device: sys::CUdevice,
    handle: sys::CUcontext,
}

impl Context {
    fn retain(device: sys::CUdevice) -> Result<Self, DriverError> {
        // SAFETY: `device` came from the driver.
        Ok(Self { device, handle: unsafe { result::primary_ctx::retain(device)? } })
    }

    /// Makes it current on this thread. Cheap, so every call does; threads of a pool keep what the last call
    /// left.
    fn bind(&self) -> Result<(), DriverError> {
        // SAFETY: retained until `self` is dropped.
        unsafe { result::ctx::set_current(self.handle) }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained once, in `retain`. All that lives in it is destroyed before it, by
        // `CudaBackend::drop`.
        warn_failed("release of the context", unsafe { result::primary_ctx::release(self.device) });
    }
}

#[derive(Debug)]
struct Module(sys::CUmodule);

// SAFETY: a driver handle; see `CudaBackend`.
unsafe impl Send for Module {}

impl CudaBackend {
    /// Opens a device.
    ///
    /// # Errors
    /// [`GpuError::NoDriver`], [`GpuError::NoDevice`], [`GpuError::Driver`] if the device does not start.
    pub fn new(ordinal: usize) -> Result<Self> {
        let count = device_count()?;
        if ordinal >= count {
            return Err(GpuError::NoDevice { ordinal, count });
        }
        Self::open(ordinal).map_err(|error| driver_error(format!("opening CUDA device {ordinal}"), error))
    }

    fn open(ordinal: usize) -> Result<Self, DriverError> {
        let device = result::device::get(ordinal as i32)?;
        // SAFETY: `device` came from the driver.
        let attribute = |which| unsafe { result::device::get_attribute(device, which) };
        let limit = |which| attribute(which).map(|value| value as u32);
        let major = limit(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = limit(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let info = DeviceInfo {
            id: format!("cuda:{ordinal}"),
            kind: DeviceKind::Cuda,
            name: result::device::get_name(device)?,
            arch: format!("sm_{major}{minor}"),
            // SAFETY: as above.
            memory_bytes: unsafe { result::device::total_mem(device)? } as u64,
            sm_count: limit(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            sm_threads_max: limit(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
            block_shared_bytes_max: limit(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)?,
            profile: None,
        };
        let context = Context::retain(device)?;
        context.bind()?;
        let pool = match attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? {
            0 => None,
            // SAFETY: as above.
            _ => Some(unsafe { result::device::get_default_mem_pool(device)? }),
        };
        if let Some(pool) = pool {
            // The default threshold is 0: each synchronisation would give unused memory back to the driver,
            // and whatever is measured across one would measure the allocator.
            let mut threshold = u64::MAX;
            let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
            // SAFETY: this attribute is a 64-bit number.
            unsafe { result::mem_pool::set_attribute(pool, attribute, (&raw mut threshold).cast())? };
        }
        let housekeeping = result::stream::create(result::stream::StreamKind::NonBlocking)?;
        let cache = KernelCache::from_env();
        Ok(Self { info, context, housekeeping, pool, modules: Mutex::default(), cache })
    }

    fn bind(&self, op: &str) -> Result<()> {
        self.context.bind().map_err(|error| driver_error(op, error))
    }

    /// Bytes that the pool holds and nobody uses.
    fn pool_free_bytes(&self) -> Result<u64, DriverError> {
        let Some(pool) = self.pool else { return Ok(0) };
        let read = |attribute| {
            let mut bytes = 0u64;
            // SAFETY: both attributes read here are 64-bit numbers.
            unsafe { result::mem_pool::get_attribute(pool, attribute, (&raw mut bytes).cast())? };
            Ok(bytes)
        };
        let reserved = read(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
        let used = read(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
        Ok(reserved.saturating_sub(used))
    }

    /// The context is current.
    fn query_free_bytes(&self) -> Result<u64, DriverError> {
        // Frees are queued: they count once they have executed.
        // SAFETY: our own stream, alive as long as `self`.
        unsafe { result::stream::synchronize(self.housekeeping)? };
        let (free, _) = result::mem_get_info()?;
        Ok(free as u64 + self.pool_free_bytes()?)
    }

    /// One attempt; the context is current.
    fn allocate(&self, bytes: usize) -> Result<sys::CUdeviceptr, DriverError> {
        // SAFETY: pool and stream live as long as `self`; `bytes` is not 0. The wait makes the memory usable
        // on every stream; if it fails the device is lost, and the memory with it.
        unsafe {
            let Some(pool) = self.pool else { return result::malloc_sync(bytes) };
            let ptr = result::mem_pool::alloc_async(pool, bytes, self.housekeeping)?;
            result::stream::synchronize(self.housekeeping)?;
            Ok(ptr)
        }
    }

    /// Gives what the pool holds unused back to the driver; the context is current.
    fn trim(&self) -> Result<(), DriverError> {
        // SAFETY: stream and pool live as long as `self`. The wait lets queued frees execute first.
        unsafe {
            result::stream::synchronize(self.housekeeping)?;
            self.pool.map_or(Ok(()), |pool| result::mem_pool::trim_to(pool, 0))
        }
    }
}

impl Drop for CudaBackend {
    fn drop(&mut self) {
        warn_failed("making the context current", self.context.bind());
        let modules = self.modules.get_mut().unwrap_or_else(PoisonError::into_inner);
        for Module(module) in modules.drain(..) {
            // SAFETY: loaded once, unloaded once; its kernels cannot be launched without `self`.
            warn_failed("unloading a module", unsafe { result::module::unload(module) });
        }
        // SAFETY: our own stream, destroyed once. Frees still queued on it execute all the same.
        warn_failed("destroying a stream", unsafe { result::stream::destroy(self.housekeeping) });
    }
}

impl Backend for CudaBackend {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn free_bytes(&self) -> Result<u64> {
        let op = "query of free memory";
        self.bind(op)?;
        self.query_free_bytes().map_err(|error| driver_error(op, error))
    }

    fn alloc_device(&self, name: &str, bytes: u64) -> Result<DevicePtr> {
        let op = format!("device buffer {name}");
        self.bind(&op)?;
        let refuse = |error: DriverError| match error.0 {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => GpuError::OutOfMemory {
                op: op.clone(),
                needed_bytes: bytes,
                free_bytes: self.query_free_bytes().unwrap_or(0),
            },
            _ => driver_error(op.clone(), error),
        };
        if bytes > self.info.memory_bytes {
            // Not left to the driver, which may call an absurd size an invalid value.
            return Err(refuse(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY)));
        }
        let allocated = self.allocate(bytes as usize).or_else(|error| match error.0 {
            // What other pools or `cuMemAlloc` users could have may be held by ours, in pieces of other
            // sizes.
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => self.trim().and_then(|()| self.allocate(bytes as usize)),
            _ => Err(error),
        });
        allocated.map(DevicePtr).map_err(refuse)
    }

    unsafe fn free_device(&self, ptr: DevicePtr, _bytes: u64) {
        // SAFETY: the caller's contract: ours, freed once, in no queued operation. Stream order of the
        // housekeeping stream puts the free before any allocation that reuses the memory.
        let freed = self.context.bind().and_then(|()| unsafe {
            match self.pool {
                Some(_) => result::free_async(ptr.0, self.housekeeping),
                None => result::free_sync(ptr.0),
            }
        });
        warn_failed("freeing device memory", freed);
    }

    fn alloc_pinned(&self, name: &str, bytes: usize, space: Space) -> Result<*mut u8> {
        let op = format!("page-locked buffer {name}");
        self.bind(&op)?;
        let refuse =
            |free_bytes| GpuError::OutOfMemory { op: op.clone(), needed_bytes: bytes as u64, free_bytes };
        // Page-locked memory cannot be swapped out: the kernel ends processes rather than refuse, so we
        // refuse.
        if let Some(free_bytes) = host_free_bytes().filter(|free_bytes| bytes as u64 > *free_bytes) {
            return Err(refuse(free_bytes));
        }
        let flags = match space {
            // Written by the host in order and never read by it.
            Space::PinnedUpload => sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_WRITECOMBINED,
            _ => sys::CU_MEMHOSTALLOC_PORTABLE,
        };
        // SAFETY: the context is current; on success the memory is ours and holds `bytes`.
        unsafe {
            match result::malloc_host(bytes, flags) {
                Ok(ptr) => {
                    ptr.write_bytes(0, bytes);
                    Ok(ptr.cast())
                }
                Err(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => {
                    Err(refuse(host_free_bytes().unwrap_or(0)))
                }
                Err(error) => Err(driver_error(op, error)),
            }
        }
    }

    unsafe fn free_pinned(&self, ptr: *mut u8, _bytes: usize) {
        // SAFETY: the caller's contract: ours, freed once, in no queued operation.
        let freed = self.context.bind().and_then(|()| unsafe { result::free_host(ptr.cast()) });
        warn_failed("freeing page-locked memory", freed);
    }

    unsafe fn register_host(&self, name: &str, ptr: *const u8, bytes: usize) -> Result<()> {
        let op = format!("page-locking {name}");
        self.bind(&op)?;
        // SAFETY: the caller's contract: the memory is allocated, and stays so.
        unsafe { sys::cuMemHostRegister_v2(ptr.cast_mut().cast(), bytes, sys::CU_MEMHOSTREGISTER_PORTABLE) }
            .result()
            .map_err(|error| driver_error(op, error))
    }

    unsafe fn unregister_host(&self, ptr: *const u8, _bytes: usize) {
        // SAFETY: the caller's contract: registered, unregistered once, in no queued operation.
        let done = self
            .context
            .bind()
            .and_then(|()| unsafe { sys::cuMemHostUnregister(ptr.cast_mut().cast()) }.result());
        warn_failed("unregistering host memory", done);
    }

    fn create_stream(&self, name: &str) -> Result<RawStream> {
        let op = format!("stream {name}");
        self.bind(&op)?;
        match result::stream::create(result::stream::StreamKind::NonBlocking) {
            Ok(stream) => Ok(RawStream(stream as u64)),
            Err(error) => Err(driver_error(op, error)),
        }
    }

    unsafe fn destroy_stream(&self, stream: RawStream) {
        // SAFETY: the caller's contract: ours, destroyed once.
        let destroyed =
            self.context.bind().and_then(|()| unsafe { result::stream::destroy(cu_stream(stream)) });
        warn_failed("destroying a stream", destroyed);
    }

    fn create_event(&self, name: &str) -> Result<RawEvent> {
        let op = format!("event {name}");
        self.bind(&op)?;
        // Default flags: with timing, and a host wait that spins rather than sleeps (the latency is what we
        // measure).
        match result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT) {
            Ok(event) => Ok(RawEvent(event as u64)),
            Err(error) => Err(driver_error(op, error)),
        }
    }

    unsafe fn destroy_event(&self, event: RawEvent) {
        // SAFETY: the caller's contract: ours, destroyed once.
        let destroyed = self.context.bind().and_then(|()| unsafe { result::event::destroy(cu_event(event)) });
        warn_failed("destroying an event", destroyed);
    }

    unsafe fn upload(&self, op: &str, stream: RawStream, dst: DevicePtr, src: HostSpan) -> Result<()> {
        self.bind(op)?;
        // SAFETY: the caller's contract: `dst` holds the bytes, both ends stay alive until the copy has
        // executed.
        let copied = unsafe {
            sys::cuMemcpyHtoDAsync_v2(dst.0, src.ptr.cast_const().cast(), src.bytes, cu_stream(stream))
                .result()
        };
        copied.and_then(|()| self.finish_pageable(stream, &src)).map_err(|error| driver_error(op, error))
    }

    unsafe fn download(&self, op: &str, stream: RawStream, dst: HostSpan, src: DevicePtr) -> Result<()> {
        self.bind(op)?;
        // SAFETY: the caller's contract, as for `upload`.
        let copied = unsafe {
            sys::cuMemcpyDtoHAsync_v2(dst.ptr.cast(), src.0, dst.bytes, cu_stream(stream)).result()
        };
        copied.and_then(|()| self.finish_pageable(stream, &dst)).map_err(|error| driver_error(op, error))
    }

    unsafe fn fill(&self, op: &str, stream: RawStream, dst: DevicePtr, bytes: u64, byte: u8) -> Result<()> {
        self.bind(op)?;
        // SAFETY: the caller's contract: `dst` holds the bytes and stays alive until the fill has executed.
        let filled = unsafe { result::memset_d8_async(dst.0, byte, bytes as usize, cu_stream(stream)) };
        filled.map_err(|error| driver_error(op, error))
    }

    unsafe fn launch(
        &self,
        op: &str,
        stream: RawStream,
        kernel: &Kernel,
        grid: [u32; 2],
        block: u32,
        args: &[LaunchArg],
    ) -> Result<()> {
        self.bind(op)?;
        // The driver copies each value before it returns, and only reads through these pointers.
        let mut values: Vec<*mut c_void> = args
            .iter()
            .map(|arg| match arg {
                LaunchArg::Buffer { ptr, .. } => (&raw const ptr.0).cast_mut().cast(),
                LaunchArg::U32(value) => (value as *const u32).cast_mut().cast(),
                LaunchArg::U64(value) => (value as *const u64).cast_mut().cast(),
            })
            .collect();
        // SAFETY: the handle is a kernel of a module that lives as long as `self`; the caller has matched
        // number, order and types of the arguments with its signature, so each pointer is to a value of the
        // size that the driver reads.
        let launched = unsafe {
            result::launch_kernel(
                kernel.handle as sys::CUfunction,
                (grid[0], grid[1], 1),
                (block, 1, 1),
                0,
                cu_stream(stream),
                &mut values,
            )
        };
        launched.map_err(|error| {
            let name = kernel.entry.name;
            driver_error(format!("{op} (kernel {name}, grid {grid:?}, block {block})"), error)
        })
    }

    fn record(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        let op = "recording an event";
        self.bind(op)?;
        // SAFETY: both handles are ours and alive, as their owners are.
        let recorded = unsafe { result::event::record(cu_event(event), cu_stream(stream)) };
        recorded.map_err(|error| driver_error(op, error))
    }

    fn wait(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        let op = "making a stream wait for an event";
        self.bind(op)?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: both handles are ours and alive, as their owners are.
        let queued = unsafe { result::stream::wait_event(cu_stream(stream), cu_event(event), flags) };
        queued.map_err(|error| driver_error(op, error))
    }

    fn sync_event(&self, op: &str, event: RawEvent) -> Result<()> {
        self.bind(op)?;
        // SAFETY: the handle is ours and alive, as its owner is.
        unsafe { result::event::synchronize(cu_event(event)) }.map_err(|error| driver_error(op, error))
    }

    fn sync_stream(&self, op: &str, stream: RawStream) -> Result<()> {
        self.bind(op)?;
        // SAFETY: the handle is ours and alive, as its owner is.
        unsafe { result::stream::synchronize(cu_stream(stream)) }.map_err(|error| driver_error(op, error))
    }

    fn elapsed_us(&self, start: RawEvent, end: RawEvent) -> Result<Option<f64>> {
        let op = "time between two events";
        self.bind(op)?;
        // SAFETY: both handles are ours and alive, as their owners are; our events are made with timing.
        match unsafe { result::event::elapsed(cu_event(start), cu_event(end)) } {
            Ok(milliseconds) => Ok(Some(f64::from(milliseconds) * 1e3)),
            Err(error) => Err(driver_error(op, error)),
        }
    }

    fn load(&self, source: &'static ModuleSource) -> Result<Vec<Kernel>> {
        let arch = self.info.arch.as_str();
        let compiler = compile::nvrtc_version()?;
        let key = KernelCache::key(source, &compile::options(source, arch), compiler);
        let image = self.cache.fetch(&key, || compile::compile(source, arch))?;

        let op = format!("loading module {}", source.name);
        self.bind(&op)?;
        // SAFETY: the context is current; the image is a whole cubin (from the compiler, or its hash matched)
        // and is copied.
        let module = unsafe { result::module::load_data(image.as_ptr().cast()) }.map_err(|error| {
            let driver =
                driver_version().map_or("unknown".into(), |(major, minor)| format!("{major}.{minor}"));
            let versions = format!(
                "compiled for {arch} by NVRTC {}.{}, driver for CUDA {driver}",
                compiler.0, compiler.1
            );
            driver_error(
                format!("{op} ({versions}; NVRTC must not be of a newer CUDA than the driver)"),
                error,
            )
        })?;
        self.modules.lock().unwrap_or_else(PoisonError::into_inner).push(Module(module));
        let kernel = |entry: &'static crate::KernelEntry| {
            let name = CString::new(entry.name).expect("kernel names have no NUL");
            let block_max = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
            // SAFETY: the module is loaded and stays so as long as `self`; the function is of this module.
            let (handle, block_max) = unsafe {
                let handle = result::module::get_function(module, name)?;
                (handle, result::function::get_function_attribute(handle, block_max)?)
            };
            Ok(Kernel { entry, handle: handle as u64, block_max: block_max as u32 })
        };
        let named = |entry: &'static crate::KernelEntry| {
            kernel(entry).map_err(|error| driver_error(format!("{op}, kernel {}", entry.name), error))
        };
        source.kernels.iter().map(named).collect()
    }

    fn graphs(&self) -> Option<&dyn Graphs> {
        Some(self)
    }
}

impl Graphs for CudaBackend {
    fn begin_capture(&self, op: &str, stream: RawStream) -> Result<()> {
        self.bind(op)?;
        // Other threads of the process go on allocating and waiting: they are no part of the capture.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the handle is ours and alive, as its owner is.
        unsafe { result::stream::begin_capture(cu_stream(stream), mode) }
            .map_err(|error| driver_error(format!("capture of the {op}"), error))
    }

    fn end_capture(&self, op: &str, stream: RawStream) -> Result<RawGraph> {
        self.bind(op)?;
        // SAFETY: the handle is ours and alive. The driver gives no graph for a capture in which something
        // failed. The captured graph is destroyed once, also when no launchable one can be made of it.
        let graph = unsafe {
            result::stream::end_capture(cu_stream(stream)).and_then(|captured| {
                if captured.is_null() {
                    return Err(DriverError(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED));
                }
                let mut graph = std::ptr::null_mut();
                let made = sys::cuGraphInstantiateWithFlags(&mut graph, captured, 0).result();
                warn_failed("destroying a captured graph", result::graph::destroy(captured));
                made.map(|()| graph)
            })
        };
        match graph {
            Ok(graph) => Ok(RawGraph(graph as u64)),
            Err(error) => Err(driver_error(format!("capture of the {op}"), error)),
        }
    }

    fn record_in_graph(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        let op = "recording an event in a graph";
        self.bind(op)?;
        let flags = sys::CUevent_record_flags_enum::CU_EVENT_RECORD_EXTERNAL as u32;
        // SAFETY: both handles are ours and alive, as their owners are.
        unsafe { sys::cuEventRecordWithFlags(cu_event(event), cu_stream(stream), flags) }
            .result()
            .map_err(|error| driver_error(op, error))
    }

    unsafe fn launch_graph(&self, op: &str, stream: RawStream, graph: RawGraph) -> Result<()> {
        self.bind(op)?;
        // SAFETY: the caller's contract; both handles are ours and alive.
        unsafe { result::graph::launch(cu_graph(graph), cu_stream(stream)) }
            .map_err(|error| driver_error(op, error))
    }

    unsafe fn destroy_graph(&self, graph: RawGraph) {
        // SAFETY: the caller's contract: ours, destroyed once, and no launch of it is running.
        let destroyed =
            self.context.bind().and_then(|()| unsafe { result::graph::exec_destroy(cu_graph(graph)) });
        warn_failed("destroying a graph", destroyed);
    }
}

impl CudaBackend {
    /// Makes a copy with pageable memory keep the contract: source read, or target written, when the call
    /// returns.
    ///
    /// CUDA's "API synchronization behavior" promises neither for the asynchronous calls: with pageable
    /// memory they
    /// *might* be synchronous with respect to the host. The driver stages large copies and so waits anyway.
    fn finish_pageable(&self, stream: RawStream, host: &HostSpan) -> Result<(), DriverError> {
        match host.space {
            // SAFETY: the handle is ours and alive: its owner has just queued on it.
            Space::Pageable => unsafe { result::stream::synchronize(cu_stream(stream)) },
            _ => Ok(()),
        }
    }
}

fn cu_stream(stream: RawStream) -> sys::CUstream {
    stream.0 as sys::CUstream
}

fn cu_event(event: RawEvent) -> sys::CUevent {
    event.0 as sys::CUevent
}

fn cu_graph(graph: RawGraph) -> sys::CUgraphExec {
    graph.0 as sys::CUgraphExec
}

/// CUDA version of the driver: major, minor; `None` without one.
pub fn driver_version() -> Option<(u32, u32)> {
    library::require_driver().ok()?;
    let mut version = 0;
    // SAFETY: the pointer is to a live integer.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result().ok()?;
    Some((version as u32 / 1000, version as u32 % 1000 / 10))
}

/// Host memory that can be taken without swapping, where the system says.
fn host_free_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

fn describe(error: DriverError) -> String {
    let text = |part: Result<&std::ffi::CStr, DriverError>| {
        part.map_or_else(|_| format!("{:?}", error.0), |text| text.to_string_lossy().into_owned())
    };
    format!("{} ({})", text(error.error_name()), text(error.error_string()))
}

fn driver_error(op: impl Into<String>, error: DriverError) -> GpuError {
    GpuError::Driver { op: op.into(), cause: describe(error) }
}

/// For releases, whose failure leaves nothing to do: it is a sign of an earlier failure that was reported.
fn warn_failed(op: &str, outcome: Result<(), DriverError>) {
    if let Err(error) = outcome {
        tracing::warn!(cause = describe(error), "{op} failed");
    }
}
