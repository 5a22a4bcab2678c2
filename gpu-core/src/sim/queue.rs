//! Streams, events, and who runs when.

use super::memory::{Declared, Memory, POISON};
use super::runtime::{self, Threads};
use super::{Order, SimOptions, ThreadOrder};
use crate::backend::{HostSpan, Kernel, LaunchArg};
use crate::error::GpuError;
use crate::schedule::Space;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// What went wrong in an operation. Shared by all who learn of it.
#[derive(Debug)]
pub(super) struct Failure {
    op: String,
    what: String,
    /// Whether a wait for its own stream has returned it.
    is_reported: AtomicBool,
}

impl Failure {
    fn error(&self) -> GpuError {
        GpuError::Access { op: self.op.clone(), what: self.what.clone() }
    }
}

/// One record of an event. Set when it is reached, or when it never will be because of a failure before it.
#[derive(Debug)]
pub(super) struct Mark {
    stream: u64,
    outcome: OnceLock<Option<Arc<Failure>>>,
}

/// Where an upload reads.
#[derive(Debug)]
pub(super) enum Source {
    /// Read at the call.
    Pageable(Vec<u8>),
    /// Read when the copy executes.
    Pinned(HostAddress, u64),
}

/// A host address that is used under the device's lock.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostAddress(pub(super) u64);

/// What an operation does.
#[derive(Debug)]
pub(super) enum Work {
    Upload { dst: u64, src: Source },
    Download { dst: HostAddress, bytes: u64, is_pinned: bool, src: u64 },
    Fill { dst: u64, bytes: u64, byte: u8 },
    Launch { kernel: Kernel, grid: [u32; 2], block: u32, args: Vec<LaunchArg> },
    Record(Arc<Mark>),
    Wait(Arc<Mark>),
}

#[derive(Debug)]
struct Queued {
    op: String,
    work: Work,
}

#[derive(Debug, Default)]
struct StreamState {
    queue: VecDeque<Queued>,
    failure: Option<Arc<Failure>>,
}

/// Everything behind the device's lock.
#[derive(Debug)]
pub(super) struct State {
    order: Order,
    thread_order: ThreadOrder,
    pub(super) memory: Memory,
    streams: BTreeMap<u64, StreamState>,
    events: BTreeMap<u64, Option<Arc<Mark>>>,
    next_id: u64,
    random: u64,
    /// Changes which stream is preferred, under [`Order::Seeded`].
    ranking: u64,
    launch_count: u64,
}

impl State {
    pub(super) fn new(options: &SimOptions) -> Self {
        let random = if let Order::Seeded(seed) = options.order { seed } else { 0 };
        Self {
            order: options.order,
            thread_order: options.thread_order,
            memory: Memory::new(options.memory_bytes, options.quarantine_bytes),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            next_id: 1,
            random,
            ranking: random,
            launch_count: 0,
        }
    }

    pub(super) fn stream_count(&self) -> usize {
        self.streams.len()
    }

    pub(super) fn event_count(&self) -> usize {
        self.events.len()
    }

    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    pub(super) fn create_stream(&mut self) -> u64 {
        let id = self.new_id();
        self.streams.insert(id, StreamState::default());
        id
    }

    /// Executes what is still queued, and removes the stream.
    pub(super) fn destroy_stream(&mut self, stream: u64) {
        self.run_until(stream, None);
        self.streams.remove(&stream);
    }

    pub(super) fn create_event(&mut self) -> u64 {
        let id = self.new_id();
        self.events.insert(id, None);
        id
    }

    pub(super) fn destroy_event(&mut self, event: u64) {
        self.events.remove(&event);
    }

    /// Whether copies execute when they are queued, so that their target needs no poison meanwhile.
    pub(super) fn is_eager(&self) -> bool {
        self.order == Order::Earliest
    }

    /// Queues an operation, and lets the order of execution take its turn.
    pub(super) fn enqueue(&mut self, op: &str, stream: u64, work: Work) -> Result<(), GpuError> {
        let state = self.stream(stream);
        if let Some(failure) = state.failure.clone() {
            if let Work::Record(mark) = work {
                let _ = mark.outcome.set(Some(failure.clone()));
            }
            return Err(failure.error());
        }
        state.queue.push_back(Queued { op: op.into(), work });
        self.take_turn();
        match &self.stream(stream).failure {
            Some(failure) => Err(failure.error()),
            None => Ok(()),
        }
    }

    pub(super) fn record(&mut self, stream: u64, event: u64) -> Result<(), GpuError> {
        let mark = Arc::new(Mark { stream, outcome: OnceLock::new() });
        *self.events.get_mut(&event).expect("a live event of this device") = Some(mark.clone());
        self.enqueue("record", stream, Work::Record(mark))
    }

    pub(super) fn wait(&mut self, stream: u64, event: u64) -> Result<(), GpuError> {
        match self.events.get(&event).expect("a live event of this device").clone() {
            Some(mark) => self.enqueue("wait", stream, Work::Wait(mark)),
            None => Ok(()),
        }
    }

    pub(super) fn sync_event(&mut self, event: u64) -> Result<(), GpuError> {
        let Some(mark) = self.events.get(&event).expect("a live event of this device").clone() else {
            return Ok(());
        };
        self.take_turn();
        self.run_until(mark.stream, Some(&mark));
        match mark.outcome.get() {
            Some(Some(failure)) => Err(failure.error()),
            _ => Ok(()),
        }
    }

    pub(super) fn sync_stream(&mut self, stream: u64) -> Result<(), GpuError> {
        self.take_turn();
        self.run_until(stream, None);
        match self.stream(stream).failure.take() {
            Some(failure) => {
                failure.is_reported.store(true, Ordering::Relaxed);
                Err(failure.error())
            }
            None => Ok(()),
        }
    }

    fn stream(&mut self, stream: u64) -> &mut StreamState {
        self.streams.get_mut(&stream).expect("a live stream of this device")
    }

    fn is_ready(state: &StreamState) -> bool {
        match state.queue.front() {
            Some(Queued { work: Work::Wait(mark), .. }) => mark.outcome.get().is_some(),
            head => head.is_some(),
        }
    }

    /// What executes without being asked for, at a call of the host.
    pub(super) fn take_turn(&mut self) {
        match self.order {
            Order::Latest => {}
            Order::Earliest => while self.run_one_ready(|ready| ready[0]) {},
            Order::Seeded(seed) => {
                // As the seed has it: only when the host waits, or behind the host, abreast of it, or ahead where it can.
                // A device that always keeps up has nothing queued to choose from.
                let pace = [1, 2, 4, 16][(seed >> 2) as usize % 4];
                for _ in 0..next_random(&mut self.random) % pace {
                    self.run_random();
                }
            }
        }
    }

    /// Executes the operation that comes first in the present ranking of streams. A ranking stays for one operation, or for
    /// some dozens, as the seed has it: at random in each step no stream would ever run far ahead of another.
    fn run_random(&mut self) -> bool {
        let random = next_random(&mut self.random);
        let Order::Seeded(seed) = self.order else { unreachable!("only seeded orders are random") };
        if random.is_multiple_of(1 << (2 * (seed % 4))) {
            self.ranking = random;
        }
        let ranking = self.ranking;
        let rank = |stream: &u64| next_random(&mut (ranking ^ stream.rotate_left(32)));
        self.run_one_ready(|ready| *ready.iter().min_by_key(|stream| rank(stream)).expect("there is one"))
    }

    /// Executes one of the operations that are ready; false if none is.
    fn run_one_ready(&mut self, choose: impl FnOnce(&[u64]) -> u64) -> bool {
        let ready: Vec<u64> =
            self.streams.iter().filter(|(_, state)| Self::is_ready(state)).map(|(id, _)| *id).collect();
        if ready.is_empty() {
            return false;
        }
        self.run_head(choose(&ready));
        true
    }

    /// Executes until the mark is reached, or without one until the stream has nothing queued.
    fn run_until(&mut self, stream: u64, mark: Option<&Arc<Mark>>) {
        if let Order::Seeded(_) = self.order {
            while !self.is_done(stream, mark) && self.run_random() {}
            return;
        }
        // The smallest set of operations that gets there: of each stream only what its mark is behind.
        let mut goals = vec![(stream, mark.cloned())];
        while let Some((stream, mark)) = goals.last().cloned() {
            if self.is_done(stream, mark.as_ref()) {
                goals.pop();
                continue;
            }
            match self.streams.get(&stream).and_then(|state| state.queue.front()) {
                Some(Queued { work: Work::Wait(blocking), .. }) if blocking.outcome.get().is_none() => {
                    goals.push((blocking.stream, Some(blocking.clone())));
                }
                Some(_) => self.run_head(stream),
                None => unreachable!("a mark that is not reached is queued on its stream"),
            }
        }
    }

    fn is_done(&self, stream: u64, mark: Option<&Arc<Mark>>) -> bool {
        match mark {
            Some(mark) => mark.outcome.get().is_some(),
            None => self.streams.get(&stream).is_none_or(|state| state.queue.is_empty()),
        }
    }

    /// Executes the oldest operation of a stream, which is ready.
    fn run_head(&mut self, stream: u64) {
        let Some(Queued { op, work }) = self.stream(stream).queue.pop_front() else { return };
        let outcome = match work {
            Work::Record(mark) => {
                let _ = mark.outcome.set(None);
                return;
            }
            Work::Wait(mark) => {
                // A failure spreads to who waits for it, until the host has been told.
                let failure = mark.outcome.get().cloned().flatten();
                if let Some(failure) = failure.filter(|failure| !failure.is_reported.load(Ordering::Relaxed))
                {
                    self.fail(stream, &failure);
                }
                return;
            }
            Work::Upload { dst, src } => self.run_upload(dst, &src),
            Work::Download { dst, bytes, is_pinned, src } => self.run_download(dst, bytes, is_pinned, src),
            Work::Fill { dst, bytes, byte } => self.run_fill(dst, bytes, byte),
            Work::Launch { kernel, grid, block, args } => self.run_launch(&kernel, grid, block, &args),
        };
        if let Err(what) = outcome {
            self.fail(stream, &Arc::new(Failure { op, what, is_reported: AtomicBool::new(false) }));
        }
    }

    /// Drops what is queued behind a failed operation.
    fn fail(&mut self, stream: u64, failure: &Arc<Failure>) {
        let state = self.stream(stream);
        state.failure = Some(failure.clone());
        for queued in state.queue.drain(..) {
            if let Work::Record(mark) = queued.work {
                let _ = mark.outcome.set(Some(failure.clone()));
            }
        }
    }

    fn run_upload(&mut self, dst: u64, src: &Source) -> Result<(), String> {
        let (from, bytes) = match src {
            Source::Pageable(copied) => (copied.as_ptr(), copied.len() as u64),
            Source::Pinned(HostAddress(ptr), bytes) => {
                self.memory.check_pinned(*ptr, *bytes)?;
                (*ptr as *const u8, *bytes)
            }
        };
        self.memory.open(&[Declared { ptr: dst, bytes, write: true }])?;
        // SAFETY: `open` found the target in one live allocation and opened it; the source is our copy, or
        // page-locked memory that is alive (checked above). `copy` reads it even where the host writes it too
        // early: that is the mistake to be shown, and both happen on one thread at a time.
        unsafe { std::ptr::copy_nonoverlapping(from, dst as *mut u8, bytes as usize) };
        Ok(())
    }

    fn run_download(
        &mut self,
        dst: HostAddress,
        bytes: u64,
        is_pinned: bool,
        src: u64,
    ) -> Result<(), String> {
        if is_pinned {
            self.memory.check_pinned(dst.0, bytes)?;
        }
        self.memory.open(&[Declared { ptr: src, bytes, write: false }])?;
        // SAFETY: `open` found the source in one live allocation and opened it; the target is page-locked
        // memory that is alive (checked above), or the caller's bytes, and then the caller is still in the
        // call.
        unsafe { std::ptr::copy_nonoverlapping(src as *const u8, dst.0 as *mut u8, bytes as usize) };
        Ok(())
    }

    fn run_fill(&mut self, dst: u64, bytes: u64, byte: u8) -> Result<(), String> {
        self.memory.open(&[Declared { ptr: dst, bytes, write: true }])?;
        // SAFETY: `open` found the target in one live allocation and opened it.
        unsafe { std::ptr::write_bytes(dst as *mut u8, byte, bytes as usize) };
        Ok(())
    }

    fn run_launch(
        &mut self,
        kernel: &Kernel,
        grid: [u32; 2],
        block: u32,
        args: &[LaunchArg],
    ) -> Result<(), String> {
        let name = kernel.entry.name;
        let of_kernel = |what: String| format!("kernel {name} {what}");
        let declared: Vec<Declared> = args
            .iter()
            .filter_map(|arg| match *arg {
                LaunchArg::Buffer { ptr, bytes, write } if bytes > 0 => {
                    Some(Declared { ptr: ptr.0, bytes, write })
                }
                _ => None,
            })
            .collect();
        let values: Vec<u64> = args
            .iter()
            .map(|arg| match *arg {
                LaunchArg::Buffer { ptr, .. } => ptr.0,
                // In memory order: the argument's four bytes come first on any host.
                LaunchArg::U32(value) => u64::from_ne_bytes(first_bytes(value)),
                LaunchArg::U64(value) => value,
            })
            .collect();
        self.memory.open(&declared).map_err(of_kernel)?;
        let snapshot = self.memory.snapshot(&declared);
        let (order, seed) = match self.thread_order {
            ThreadOrder::Forward => (Threads::Forward, 0),
            ThreadOrder::Backward => (Threads::Backward, 0),
            ThreadOrder::Seeded(seed) => (Threads::Seeded, seed ^ self.launch_count.rotate_left(32)),
        };
        self.launch_count += 1;
        // SAFETY: the caller of `Backend::launch` has matched the arguments with the signature; declared
        // memory is open, all other device memory faults.
        let fault = unsafe { runtime::run(kernel.entry.sim, grid, block, &values, order, seed) };
        let compared = self.memory.compare(&snapshot, &declared).map_err(of_kernel);
        match fault {
            Some(fault) if fault.is_access() => {
                let place = self.memory.describe_fault(&fault, &declared);
                Err(of_kernel(format!("{} {place} ({})", fault.verb(), fault.place())))
            }
            Some(fault) => Err(of_kernel(format!("{} ({})", fault.text(), fault.place()))),
            None => compared,
        }
    }
}

/// Poisons the target of a queued download.
///
/// # Safety
/// The span is page-locked memory that is alive.
pub(super) unsafe fn poison_target(dst: HostSpan) {
    debug_assert!(dst.space != Space::Pageable);
    // SAFETY: by this function's contract.
    unsafe { std::ptr::write_bytes(dst.ptr, POISON, dst.bytes) };
}

fn first_bytes(value: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&value.to_ne_bytes());
    bytes
}

/// splitmix64.
pub(crate) fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
