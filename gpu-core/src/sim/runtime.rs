//! The door to `cuda/sim/runtime.cpp`, which runs the blocks of a kernel.

use crate::kernel::SimKernel;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

/// A launch that runs longer than this spreads its other blocks over the processors.
const SPREAD_AFTER: Duration = Duration::from_micros(100);

/// What went wrong in a kernel. Layout shared with `runtime.cpp`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fault {
    /// Address of a bad access.
    pub(super) address: u64,
    kind: u32,
    access: u32,
    block_x: u32,
    block_y: u32,
    thread: u32,
    site: u32,
    other_site: u32,
    waiting: u32,
}

const FAULT_ACCESS: u32 = 1;
const FAULT_PLAIN_MEETS: u32 = 2;
const FAULT_BARRIER: u32 = 3;
const FAULT_WARP: u32 = 4;
const FAULT_STACK: u32 = 5;
const FAULT_ARITHMETIC: u32 = 6;
const FAULT_TRAP: u32 = 7;

impl Fault {
    /// Whether it is about [`address`](Self::address).
    pub(super) fn is_access(&self) -> bool {
        self.kind == FAULT_ACCESS
    }

    pub(super) fn is_write(&self) -> bool {
        self.access == 2
    }

    /// `reads`, `writes`, or `accesses` where the processor does not say.
    pub(super) fn verb(&self) -> &'static str {
        match self.access {
            1 => "reads",
            2 => "writes",
            _ => "accesses",
        }
    }

    /// The thread that met it.
    pub(super) fn place(&self) -> String {
        format!("block ({}, {}), thread {}", self.block_x, self.block_y, self.thread)
    }

    /// A sentence after the kernel's name, for every kind but a bad access.
    pub(super) fn text(&self) -> String {
        let Self { site, other_site, waiting, .. } = self;
        match self.kind {
            FAULT_PLAIN_MEETS => {
                format!("meets other threads at line {site}, but is marked EXPORT_KERNEL")
            }
            FAULT_BARRIER if *other_site != 0 => format!(
                "has diverged: {waiting} threads wait at the barrier at line {site}, others at line \
                 {other_site}"
            ),
            FAULT_BARRIER => format!(
                "has diverged: {waiting} threads wait at the barrier at line {site}, others at a warp \
                 operation"
            ),
            FAULT_WARP => {
                format!("has diverged: lanes named by the warp operation at line {site} are not at it")
            }
            FAULT_STACK => "overflows a thread's stack".into(),
            FAULT_ARITHMETIC => "divides by zero".into(),
            FAULT_TRAP => "traps".into(),
            _ => "cannot run: the host has no memory for its stacks".into(),
        }
    }
}

/// Order of the threads of a block, as `runtime.cpp` counts it.
#[derive(Debug, Clone, Copy)]
#[repr(u32)]
pub(super) enum Threads {
    Forward = 0,
    Backward = 1,
    Seeded = 2,
}

/// Layout shared with `runtime.cpp`.
#[repr(C)]
struct Launch {
    kernel: *const SimKernel,
    args: *const *const c_void,
    seed: u64,
    next_block: *const AtomicU64,
    is_stopped: *const AtomicU32,
    block_end: u64,
    grid_x: u32,
    grid_y: u32,
    block: u32,
    order: u32,
}

/// Layout shared with `shim.h`.
#[repr(C)]
struct Counter {
    word: *const c_char,
    count: AtomicU64,
    is_listed: u32,
    next: *const Counter,
}

enum Opaque {}

unsafe extern "C" {
    fn sim_install_handlers() -> c_int;
    fn sim_worker_new() -> *mut Opaque;
    fn sim_run_blocks(launch: *const Launch, worker: *mut Opaque, fault: *mut Fault);
    fn sim_counters() -> *const Counter;
}

/// Stacks of a host thread that runs blocks. Taken from a pool and given back: a stack is worth keeping.
struct Worker(*mut Opaque);

// SAFETY: a worker is plain memory without ties to a thread; one thread uses it at a time, who owns this
// value.
unsafe impl Send for Worker {}

static IDLE: Mutex<Vec<Worker>> = Mutex::new(Vec::new());

impl Worker {
    fn take() -> Self {
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.unwrap_or_else(|| {
            // SAFETY: allocates zeroed memory, without preconditions.
            let worker = unsafe { sim_worker_new() };
            assert!(!worker.is_null(), "no memory for a worker of the simulated device");
            Self(worker)
        })
    }

    fn run(&mut self, launch: &Launch) -> Fault {
        let mut fault = Fault::default();
        // SAFETY: `launch` and all that it points to outlive the call; the worker is ours for its time. A
        // kernel's bad access ends the call with a fault, as the handlers are installed.
        unsafe { sim_run_blocks(launch, self.0, &mut fault) };
        fault
    }

    fn give_back(self) {
        IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(self);
    }
}

/// Makes faults inside kernels errors instead of the end of the process. Signals from elsewhere go where they
/// went before.
pub(super) fn install_handlers() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: the handler touches thread-locals and async-signal-safe functions only, and is installed
        // once.
        let error = unsafe { sim_install_handlers() };
        assert_eq!(error, 0, "sigaction refuses a valid handler");
    });
}

/// Runs a kernel to its end, or to its first fault. Small launches run on the calling thread, large ones on
/// all processors.
///
/// # Safety `args` are values of the kernel's parameter types, and pointers among them point to what the
/// kernel's contract asks, or to memory that faults.
pub(super) unsafe fn run(
    kernel: &SimKernel,
    grid: [u32; 2],
    block: u32,
    args: &[u64],
    order: Threads,
    seed: u64,
) -> Option<Fault> {
    let pointers: Vec<&u64> = args.iter().collect();
    let (next_block, is_stopped) = (AtomicU64::new(0), AtomicU32::new(0));
    let blocks = u64::from(grid[0]) * u64::from(grid[1]);
    let launch = |block_end| Launch {
        kernel,
        args: pointers.as_ptr().cast(),
        seed,
        next_block: &next_block,
        is_stopped: &is_stopped,
        block_end,
        grid_x: grid[0],
        grid_y: grid[1],
        block,
        order: order as u32,
    };
    let mut worker = Worker::take();
    let start = Instant::now();
    let (mut end, mut fault) = (0, Fault::default());
    while end < blocks && fault.kind == 0 && start.elapsed() < SPREAD_AFTER {
        end = blocks.min(2 * end + 1);
        fault = worker.run(&launch(end));
    }
    if end < blocks && fault.kind == 0 {
        let helpers = std::thread::available_parallelism().map_or(1, usize::from) - 1;
        let helpers = helpers.min((blocks - end) as usize - 1);
        let help = || {
            let mut worker = Worker::take();
            let fault = worker.run(&launch(blocks));
            worker.give_back();
            fault
        };
        fault = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..helpers).map(|_| scope.spawn(help)).collect();
            let own = worker.run(&launch(blocks));
            let theirs =
                threads.into_iter().map(|thread| thread.join().expect("running blocks does not panic"));
            let first = std::iter::once(own).chain(theirs).filter(|fault| fault.kind != 0);
            first.min_by_key(|fault| (fault.block_y, fault.block_x)).unwrap_or_default()
        });
    }
    worker.give_back();
    (fault.kind != 0).then_some(fault)
}

fn counters() -> impl Iterator<Item = &'static Counter> {
    // SAFETY: the list's nodes are statics of the object files; a node is published after its `next` is set,
    // and neither changes afterwards (the count is atomic).
    let first = unsafe { sim_counters().as_ref() };
    // SAFETY: as above.
    std::iter::successors(first, |counter| unsafe { counter.next.as_ref() })
}

/// How often each `COVER(word)` branch of the kernels was taken in this process, by word. Words never reached
/// are absent; the modules' `COVERED` lists all.
pub fn coverage() -> Vec<(String, u64)> {
    let mut by_word = std::collections::BTreeMap::new();
    for counter in counters() {
        // SAFETY: the word is a string literal.
        let word = unsafe { CStr::from_ptr(counter.word) };
        let count = counter.count.load(Ordering::Relaxed);
        *by_word.entry(word.to_string_lossy().into_owned()).or_insert(0) += count;
    }
    by_word.into_iter().filter(|(_, count)| *count > 0).collect()
}

/// Sets the counts of [`coverage`] back to zero.
pub fn reset_coverage() {
    for counter in counters() {
        counter.count.store(0, Ordering::Relaxed);
    }
}
