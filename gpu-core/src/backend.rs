//! What a device must be able to do: the one trait under [`Device`](crate::Device).
//!
//! Raw and unsafe on purpose. Ownership, lifetimes and order belong to the callers ([`crate::buffer`],
//! [`crate::run`]); a backend promises only to do what is asked, in stream order, and to name the operation
//! when it cannot.

use crate::error::GpuError;
use crate::kernel::{KernelEntry, ModuleSource};
use crate::schedule::Space;
use crate::{DeviceInfo, Result};
use std::fmt;

/// Address in device memory. Zero-sized buffers have the address 0 and own nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DevicePtr(pub u64);

/// A stream, as its backend names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RawStream(pub u64);

/// An event, as its backend names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RawEvent(pub u64);

/// A graph of captured operations, as its backend names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RawGraph(pub u64);

/// Host bytes that a copy reads or writes.
#[derive(Debug, Clone, Copy)]
pub struct HostSpan {
    /// First byte.
    pub ptr: *mut u8,
    /// Length in bytes.
    pub bytes: usize,
    /// One of the host spaces; it decides when the copy touches the bytes.
    pub space: Space,
}

/// A loaded kernel.
#[derive(Clone, Copy)]
pub struct Kernel {
    /// What the source exports.
    pub entry: &'static KernelEntry,
    /// The backend's handle (a `CUfunction`; unused by the simulated device).
    pub handle: u64,
    /// Most threads per block that this kernel can be launched with on this device.
    pub block_max: u32,
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({})", self.entry.name)
    }
}

/// One argument of a launch. `allocation` is the start of the allocation that the pointer lies in.
#[derive(Debug, Clone, Copy)]
pub enum LaunchArg {
    /// A pointer to `bytes` declared bytes.
    Buffer {
        /// First declared byte.
        ptr: DevicePtr,
        /// Declared length.
        bytes: u64,
        /// Whether the kernel may write.
        write: bool,
    },
    /// A 32-bit number.
    U32(u32),
    /// A 64-bit number.
    U64(u64),
}

/// A device behind [`Device`](crate::Device).
///
/// Every method may be called from any thread.
pub trait Backend: Send + Sync + fmt::Debug {
    /// Name and limits.
    fn info(&self) -> &DeviceInfo;

    /// Bytes of device memory free now.
    fn free_bytes(&self) -> Result<u64>;

    /// Allocates device memory, aligned to 256 bytes. `bytes` is not 0. Contents are undefined.
    fn alloc_device(&self, name: &str, bytes: u64) -> Result<DevicePtr>;

    /// Frees device memory.
    ///
    /// # Safety
    /// `ptr` came from [`alloc_device`](Self::alloc_device) of this backend, is freed once, and no queued operation uses it.
    unsafe fn free_device(&self, ptr: DevicePtr, bytes: u64);

    /// Allocates page-locked host memory, aligned to 64 bytes, zeroed. `bytes` is not 0; `space` is one of
    /// the two pinned ones.
    fn alloc_pinned(&self, name: &str, bytes: usize, space: Space) -> Result<*mut u8>;

    /// Frees page-locked host memory.
    ///
    /// # Safety
    /// As [`free_device`](Self::free_device), for [`alloc_pinned`](Self::alloc_pinned).
    unsafe fn free_pinned(&self, ptr: *mut u8, bytes: usize);

    /// Page-locks host memory that is somebody else's, where it lies. `bytes` is not 0.
    ///
    /// # Safety
    /// The memory stays allocated until it is [unregistered](Self::unregister_host).
    unsafe fn register_host(&self, name: &str, ptr: *const u8, bytes: usize) -> Result<()>;

    /// Undoes [`register_host`](Self::register_host).
    ///
    /// # Safety
    /// The range was registered with this backend as it is given here, is unregistered once, and no queued
    /// operation uses it.
    unsafe fn unregister_host(&self, ptr: *const u8, bytes: usize);

    /// Makes a stream that runs beside all others.
    fn create_stream(&self, name: &str) -> Result<RawStream>;

    /// Destroys a stream.
    ///
    /// # Safety
    /// It came from this backend, is destroyed once, and nothing is queued on it.
    unsafe fn destroy_stream(&self, stream: RawStream);

    /// Makes an event that can be timed.
    fn create_event(&self, name: &str) -> Result<RawEvent>;

    /// Destroys an event.
    ///
    /// # Safety
    /// As [`destroy_stream`](Self::destroy_stream).
    unsafe fn destroy_event(&self, event: RawEvent);

    /// Queues a copy to the device. From pageable memory the source is read before the call returns, from
    /// pinned memory when the copy executes.
    ///
    /// # Safety
    /// `dst` holds `src.bytes`; both stay alive, and for pinned memory unchanged, until the copy has executed.
    unsafe fn upload(&self, op: &str, stream: RawStream, dst: DevicePtr, src: HostSpan) -> Result<()>;

    /// Queues a copy to the host. To pageable memory the call returns after the copy has executed.
    ///
    /// # Safety
    /// As [`upload`](Self::upload).
    unsafe fn download(&self, op: &str, stream: RawStream, dst: HostSpan, src: DevicePtr) -> Result<()>;

    /// Queues a fill of device memory.
    ///
    /// # Safety
    /// `dst` holds `bytes` and stays alive until the fill has executed.
    unsafe fn fill(&self, op: &str, stream: RawStream, dst: DevicePtr, bytes: u64, byte: u8) -> Result<()>;

    /// Queues a kernel. The caller has matched `args` with the kernel's signature.
    ///
    /// # Safety
    /// Each buffer argument stays alive until the kernel has executed, and holds what the kernel's contract asks.
    unsafe fn launch(
        &self,
        op: &str,
        stream: RawStream,
        kernel: &Kernel,
        grid: [u32; 2],
        block: u32,
        args: &[LaunchArg],
    ) -> Result<()>;

    /// Records an event on a stream.
    fn record(&self, stream: RawStream, event: RawEvent) -> Result<()>;

    /// Makes a stream wait for an event's last recorded mark; for none, if it was never recorded.
    fn wait(&self, stream: RawStream, event: RawEvent) -> Result<()>;

    /// Blocks the host until an event's last recorded mark has been reached.
    fn sync_event(&self, op: &str, event: RawEvent) -> Result<()>;

    /// Blocks the host until everything queued on a stream has executed.
    fn sync_stream(&self, op: &str, stream: RawStream) -> Result<()>;

    /// Microseconds between two recorded and reached events, on the device's clock. `None` where the device
    /// has no clock.
    fn elapsed_us(&self, start: RawEvent, end: RawEvent) -> Result<Option<f64>>;

    /// Compiles (or takes from the cache) and loads a module; returns its kernels in the order of
    /// `source.kernels`.
    fn load(&self, source: &'static ModuleSource) -> Result<Vec<Kernel>, GpuError>;

    /// Where this is a number, host threads of a schedule do not run at once: their operations are performed
    /// one by one on the calling thread, in an order that the number decides.
    fn host_order_seed(&self) -> Option<u64> {
        None
    }

    /// Its graphs, if it has any: without them the operations of a graph are queued again in each run.
    fn graphs(&self) -> Option<&dyn Graphs> {
        None
    }
}

/// Operations that are captured once, and launched together as often as wanted.
pub trait Graphs {
    /// From now on, what the calling thread queues on the stream is kept and not executed, and so is what it
    /// queues on any stream after a wait for a mark that was recorded on a stream so captured.
    fn begin_capture(&self, op: &str, stream: RawStream) -> Result<()>;

    /// Ends the capture that began on the stream, also one in which something failed, and makes the graph. By
    /// then the stream waits for all others that have joined.
    fn end_capture(&self, op: &str, stream: RawStream) -> Result<RawGraph>;

    /// Makes the recording of an event, on a stream that is being captured, a part of the graph, so that the
    /// event can be timed after each launch. A plain [`record`](Backend::record) there marks a place in the
    /// capture, and no time.
    fn record_in_graph(&self, stream: RawStream, event: RawEvent) -> Result<()>;

    /// Queues a graph on a stream.
    ///
    /// # Safety
    /// As for each operation in it: memory stays alive, and sources unchanged, until it has executed.
    unsafe fn launch_graph(&self, op: &str, stream: RawStream, graph: RawGraph) -> Result<()>;

    /// Destroys a graph.
    ///
    /// # Safety
    /// It came from this backend, is destroyed once, and every launch of it has executed.
    unsafe fn destroy_graph(&self, graph: RawGraph);
}
