//! The simulated device: the kernels' own sources, compiled as C++, on streams that are queues.
//!
//! Nothing that is queued runs before the [`Order`] says so, and whatever it says is something that a GPU
//! could do. The rules of CUDA's copies are kept: an upload from page-locked memory reads its source when it
//! executes, a download into pageable memory blocks the host.
//!
//! An operation can reach the device memory that it declares and no other: the rest is inaccessible while it
//! runs, what is declared as read is read-only. A kernel that breaks its declaration, or a rule of barriers,
//! makes the operation fail with [`GpuError::Access`]; what is queued behind it on its stream is dropped. The
//! error returns from the call that executed it and from the next wait for the stream, and then the device is
//! as good as new.
//!
//! What executes does so on the calling thread, under one lock; the blocks of a large launch spread over all
//! processors. The host threads of a schedule take turns on the calling thread, in an order that
//! [`SimOptions::host_seed`] decides.

mod memory;
mod queue;
mod runtime;

use crate::Result;
use crate::backend::{Backend, DevicePtr, HostSpan, Kernel, LaunchArg, RawEvent, RawStream};
use crate::device::{DeviceInfo, DeviceKind};
use crate::error::GpuError;
use crate::kernel::ModuleSource;
use crate::model::Profile;
use crate::schedule::Space;
use queue::{HostAddress, Source, State, Work};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use memory::POISON;
pub(crate) use queue::next_random;
pub use runtime::{coverage, reset_coverage};

/// When a queued operation executes, within what streams and events allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// As soon as it can: at the call that queues it.
    #[default]
    Earliest,
    /// As late as it can: only when the host waits for it, or for something that needs it.
    Latest,
    /// At any time: at each call a random few of the operations that are ready. The seed repeats the run.
    Seeded(u64),
}

/// In which order the threads of a block run, between barriers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ThreadOrder {
    /// From the first to the last.
    #[default]
    Forward,
    /// From the last to the first.
    Backward,
    /// In a random order, another one after each barrier. The seed repeats the run.
    Seeded(u64),
}

/// How the simulated device behaves.
#[derive(Debug, Clone)]
pub struct SimOptions {
    /// Device memory. A limit: nothing is reserved.
    pub memory_bytes: u64,
    /// Freed memory that is kept, inaccessible, so that a use after free is named.
    pub quarantine_bytes: u64,
    /// Multiprocessors that planners see; what runs does not depend on it.
    pub sm_count: u32,
    /// When operations execute.
    pub order: Order,
    /// How threads of a block interleave.
    pub thread_order: ThreadOrder,
    /// Decides in which order the host threads of a schedule get on, where nothing else does.
    pub host_seed: u64,
    /// Rates of the virtual clock.
    pub profile: Profile,
}

impl Default for SimOptions {
    fn default() -> Self {
        Self {
            memory_bytes: 16 << 30,
            quarantine_bytes: 256 << 20,
            sm_count: 4,
            order: Order::Earliest,
            thread_order: ThreadOrder::Forward,
            host_seed: 0,
            profile: Profile::h200(),
        }
    }
}

impl SimOptions {
    /// Everything as late, and in as unusual an order, as it can be.
    pub fn latest() -> Self {
        Self { order: Order::Latest, thread_order: ThreadOrder::Backward, ..Self::default() }
    }

    /// Everything in an order that the seed picks.
    pub fn seeded(seed: u64) -> Self {
        let (order, thread_order) = (Order::Seeded(seed), ThreadOrder::Seeded(seed));
        Self { order, thread_order, host_seed: seed, ..Self::default() }
    }
}

/// What a simulated device holds at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Device memory allocated.
    pub device_bytes: u64,
    /// Most device memory that was ever allocated at once.
    pub device_bytes_peak: u64,
    /// Page-locked memory, allocated or registered.
    pub pinned_bytes: u64,
    /// Streams that are not destroyed.
    pub live_streams: usize,
    /// Events that are not destroyed.
    pub live_events: usize,
}

/// A view into a simulated device, for tests; it stays valid after the device is gone.
#[derive(Clone)]
pub struct SimHandle {
    state: Arc<Mutex<State>>,
}

impl fmt::Debug for SimHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimHandle({:?})", self.stats())
    }
}

impl SimHandle {
    /// What is allocated now.
    pub fn stats(&self) -> Stats {
        let state = lock(&self.state);
        let usage = state.memory.usage();
        Stats {
            device_bytes: usage.device,
            device_bytes_peak: usage.device_peak,
            pinned_bytes: usage.pinned,
            live_streams: state.stream_count(),
            live_events: state.event_count(),
        }
    }

    /// Where a pattern of bytes is: in live or freed device memory (as long as it is kept), or in page-locked
    /// memory. One line a buffer; shows that secrets are wiped.
    ///
    /// # Panics
    /// If the pattern is empty.
    pub fn find_bytes(&self, pattern: &[u8]) -> Vec<String> {
        assert!(!pattern.is_empty(), "an empty pattern is everywhere");
        lock(&self.state).memory.find(pattern)
    }
}

/// The simulated device.
#[derive(Debug)]
pub struct SimBackend {
    info: DeviceInfo,
    host_seed: u64,
    state: Arc<Mutex<State>>,
}

/// A panic under the lock (an assertion about a handle) leaves the state whole: it is changed by complete
/// steps.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SimBackend {
    /// Makes one.
    pub fn new(options: SimOptions) -> Self {
        runtime::install_handlers();
        let state = Arc::new(Mutex::new(State::new(&options)));
        let info = DeviceInfo {
            id: "sim".into(),
            kind: DeviceKind::Sim,
            name: "simulated device".into(),
            arch: "host".into(),
            memory_bytes: options.memory_bytes,
            sm_count: options.sm_count,
            sm_threads_max: 2048,
            block_shared_bytes_max: 48 << 10,
            profile: Some(options.profile),
        };
        Self { info, host_seed: options.host_seed, state }
    }

    /// A view into the device, to be taken before it disappears behind a [`Device`](crate::Device).
    pub fn handle(&self) -> SimHandle {
        SimHandle { state: self.state.clone() }
    }
}

fn access_error(op: &str) -> impl Fn(String) -> GpuError + '_ {
    move |what| GpuError::Access { op: op.into(), what }
}

impl Backend for SimBackend {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn free_bytes(&self) -> Result<u64> {
        Ok(lock(&self.state).memory.free_bytes())
    }

    fn alloc_device(&self, name: &str, bytes: u64) -> Result<DevicePtr> {
        lock(&self.state).memory.alloc_device(name, bytes).map(DevicePtr)
    }

    unsafe fn free_device(&self, ptr: DevicePtr, bytes: u64) {
        lock(&self.state).memory.free_device(ptr.0, bytes);
    }

    fn alloc_pinned(&self, name: &str, bytes: usize, space: Space) -> Result<*mut u8> {
        Ok(lock(&self.state).memory.alloc_pinned(name, bytes as u64, space)? as *mut u8)
    }

    unsafe fn free_pinned(&self, ptr: *mut u8, bytes: usize) {
        lock(&self.state).memory.free_pinned(ptr as u64, bytes as u64);
    }

    unsafe fn register_host(&self, name: &str, ptr: *const u8, bytes: usize) -> Result<()> {
        lock(&self.state).memory.register(name, ptr as u64, bytes as u64)
    }

    unsafe fn unregister_host(&self, ptr: *const u8, bytes: usize) {
        lock(&self.state).memory.unregister(ptr as u64, bytes as u64);
    }

    fn create_stream(&self, _name: &str) -> Result<RawStream> {
        Ok(RawStream(lock(&self.state).create_stream()))
    }

    unsafe fn destroy_stream(&self, stream: RawStream) {
        lock(&self.state).destroy_stream(stream.0);
    }

    fn create_event(&self, _name: &str) -> Result<RawEvent> {
        Ok(RawEvent(lock(&self.state).create_event()))
    }

    unsafe fn destroy_event(&self, event: RawEvent) {
        lock(&self.state).destroy_event(event.0);
    }

    unsafe fn upload(&self, op: &str, stream: RawStream, dst: DevicePtr, src: HostSpan) -> Result<()> {
        let mut state = lock(&self.state);
        let src = if src.space == Space::Pageable {
            // SAFETY: the caller's source is alive and holds `bytes`; it is read now, as CUDA does.
            Source::Pageable(unsafe { std::slice::from_raw_parts(src.ptr, src.bytes) }.to_vec())
        } else {
            state.memory.check_pinned(src.ptr as u64, src.bytes as u64).map_err(access_error(op))?;
            Source::Pinned(HostAddress(src.ptr as u64), src.bytes as u64)
        };
        state.enqueue(op, stream.0, Work::Upload { dst: dst.0, src })
    }

    unsafe fn download(&self, op: &str, stream: RawStream, dst: HostSpan, src: DevicePtr) -> Result<()> {
        let mut state = lock(&self.state);
        let is_pinned = dst.space != Space::Pageable;
        if is_pinned {
            state.memory.check_pinned(dst.ptr as u64, dst.bytes as u64).map_err(access_error(op))?;
            if !state.is_eager() {
                // SAFETY: checked to lie in live page-locked memory; the caller gives the bytes to the copy
                // from now on.
                unsafe { queue::poison_target(dst) };
            }
        }
        let target = HostAddress(dst.ptr as u64);
        let work = Work::Download { dst: target, bytes: dst.bytes as u64, is_pinned, src: src.0 };
        state.enqueue(op, stream.0, work)?;
        if is_pinned { Ok(()) } else { state.sync_stream(stream.0) }
    }

    unsafe fn fill(&self, op: &str, stream: RawStream, dst: DevicePtr, bytes: u64, byte: u8) -> Result<()> {
        lock(&self.state).enqueue(op, stream.0, Work::Fill { dst: dst.0, bytes, byte })
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
        if block == 0 || block > kernel.block_max || grid.contains(&0) {
            let reason = format!("grid {grid:?} with {block} threads a block is empty or over the limit");
            return Err(GpuError::Launch { kernel: kernel.entry.name.into(), reason });
        }
        let work = Work::Launch { kernel: *kernel, grid, block, args: args.to_vec() };
        lock(&self.state).enqueue(op, stream.0, work)
    }

    fn record(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        lock(&self.state).record(stream.0, event.0)
    }

    fn wait(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        lock(&self.state).wait(stream.0, event.0)
    }

    fn sync_event(&self, _op: &str, event: RawEvent) -> Result<()> {
        lock(&self.state).sync_event(event.0)
    }

    fn sync_stream(&self, _op: &str, stream: RawStream) -> Result<()> {
        lock(&self.state).sync_stream(stream.0)
    }

    fn elapsed_us(&self, _start: RawEvent, _end: RawEvent) -> Result<Option<f64>> {
        Ok(None)
    }

    fn load(&self, source: &'static ModuleSource) -> Result<Vec<Kernel>> {
        let kernel = |entry| Kernel { entry, handle: 0, block_max: 1024 };
        Ok(source.kernels.iter().map(kernel).collect())
    }

    fn host_order_seed(&self) -> Option<u64> {
        Some(self.host_seed)
    }
}
