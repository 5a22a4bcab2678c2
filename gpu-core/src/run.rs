//! The runner: performs a checked schedule on a device, and traces what ran.
//!
//! Each host thread of the schedule is a thread: the first is the one that calls, the others live as long as
//! the run. On a device with a [seed for their order](crate::backend::Backend::host_order_seed), the
//! simulated one, they take turns on the calling thread instead, so that a run with several can be repeated.

use crate::Result;
use crate::backend::{DevicePtr, HostSpan, Kernel, LaunchArg, RawEvent, RawStream};
use crate::buffer::{DeviceBuf, DeviceMemory, PinnedMemory, Registered};
use crate::check::CheckedSchedule;
use crate::device::{Device, DeviceKind, Event, Stream};
use crate::error::GpuError;
use crate::graph::GraphRun;
use crate::layout::{Pod, slice_of, slice_of_mut};
use crate::model::{Span, estimate_with_calls};
use crate::schedule::{
    Action, Arg, Buffer, BufferId, EventId, FlagId, Launch, MAIN, Op, Region, Schedule, Space, StreamId,
    ThreadId,
};
use crate::sim::next_random;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use zeroize::Zeroize;

/// The caller's memory for the [`Space::Resident`] and [`Space::Registered`] buffers of a schedule.
#[derive(Clone, Default)]
pub struct Bindings<'a> {
    resident: HashMap<BufferId, Arc<DeviceMemory>>,
    registered: HashMap<BufferId, (&'a Device, &'a [u8])>,
}

impl fmt::Debug for Bindings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bindings({:?}, {:?})", self.resident.keys(), self.registered.keys())
    }
}

impl<'a> Bindings<'a> {
    /// No bindings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Binds a device buffer; the binding keeps it alive.
    #[must_use]
    pub fn bind<T: Pod>(mut self, id: BufferId, buf: &DeviceBuf<T>) -> Self {
        self.resident.insert(id, buf.memory.clone());
        self
    }

    /// Binds page-locked memory of the caller, which stays as it is while the binding lives.
    #[must_use]
    pub fn bind_registered<T: Pod>(mut self, id: BufferId, memory: &'a Registered<'_, T>) -> Self {
        self.registered.insert(id, (memory.device(), memory.bytes()));
        self
    }
}

/// What a host step sees: exactly the regions that it declares, in their order.
pub struct HostViews<'a> {
    reads: Vec<&'a [u8]>,
    writes: Vec<&'a mut [u8]>,
}

impl fmt::Debug for HostViews<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostViews({} read, {} written)", self.reads.len(), self.writes.len())
    }
}

impl HostViews<'_> {
    /// The i-th region declared as read.
    ///
    /// # Panics
    /// If the step declares fewer, or the bytes are not whole values.
    pub fn read<T: Pod>(&self, i: usize) -> &[T] {
        slice_of(self.reads[i])
    }

    /// The i-th region declared as written.
    ///
    /// # Panics
    /// As [`read`](Self::read).
    pub fn write<T: Pod>(&mut self, i: usize) -> &mut [T] {
        slice_of_mut(self.writes[i])
    }
}

/// Code behind the host steps of a schedule: told the operation, handed its views. Steps of different host
/// threads run at the same time.
pub type HostSteps<'a> = dyn Fn(&Op, HostViews<'_>) -> Result<()> + Sync + 'a;

/// When each operation ran. Its operations are those of the schedule, in the same order.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Trace {
    /// Start and end of each operation, microseconds from the start of the run.
    pub spans: Vec<Span>,
    /// When the host was at each operation: queued it, performed it, or waited in it. On the clock of `spans`.
    pub calls: Vec<Span>,
    /// Whether the times are the simulated device's virtual clock, not a measurement.
    pub is_virtual: bool,
    /// Wall time of the run on the host.
    pub wall_us: f64,
}

enum Memory {
    Device(DeviceMemory),
    Pinned(PinnedMemory),
    Pageable(Vec<u64>),
    Bound,
}

/// The memory, streams and events of one schedule on one device, kept between runs so that a warm run
/// allocates nothing.
pub struct Workspace {
    device: Device,
    schedule: Arc<CheckedSchedule>,
    memory: Vec<Memory>,
    streams: Vec<Stream>,
    events: Vec<Event>,
    kernels: Vec<Option<Kernel>>,
    timers: Vec<(Event, Event)>,
    graphs: Option<GraphRun>,
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Workspace({} on {})", self.schedule().name, self.device.info().id)
    }
}

impl Workspace {
    /// Allocates everything that the schedule declares, and checks every launch against its kernel's
    /// signature and the device's limits. Nothing can be left half allocated: an error releases what was
    /// taken.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`], [`GpuError::Launch`], [`GpuError::Incomplete`] for a kernel of a module that is not loaded
    /// or a simulation-only schedule on a CUDA device.
    pub fn new(device: &Device, schedule: Arc<CheckedSchedule>) -> Result<Self> {
        let plan = schedule.schedule();
        if schedule.is_simulation_only() && device.info().kind != DeviceKind::Sim {
            let reason = "it was not checked, so it runs on the simulated device only".into();
            return Err(GpuError::Incomplete { schedule: plan.name.clone(), reason });
        }
        let kernels = plan.ops.iter().map(|op| resolve_kernel(device, plan, op)).collect::<Result<_>>()?;
        let memory = plan.buffers.iter().map(|buffer| allocate(device, buffer)).collect::<Result<_>>()?;
        let streams = plan.streams.iter().map(|name| device.stream(name)).collect::<Result<_>>()?;
        let events = plan.events.iter().map(|name| device.event(name)).collect::<Result<_>>()?;
        let (device, timers) = (device.clone(), Vec::new());
        Ok(Self { device, schedule, memory, streams, events, kernels, timers, graphs: None })
    }

    /// The schedule that it is for.
    pub fn schedule(&self) -> &Schedule {
        self.schedule.schedule()
    }

    /// Makes the timing events, so that runs are traced on the device's clock. Costs two events an operation. After an
    /// error runs are as untimed as before.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    pub fn enable_timing(&mut self) -> Result<()> {
        if self.device.info().profile.is_none() && self.timers.is_empty() {
            let pair = |_| Ok((self.device.event("start")?, self.device.event("end")?));
            self.timers = (0..=self.schedule().ops.len()).map(pair).collect::<Result<_>>()?;
        }
        // What was captured without timing stays without.
        if let Some(graphs) = &mut self.graphs {
            graphs.forget();
        }
        Ok(())
    }

    /// Gives the timing events up: runs take no longer than they must.
    pub fn disable_timing(&mut self) {
        if !self.timers.is_empty() {
            self.timers.clear();
            if let Some(graphs) = &mut self.graphs {
                graphs.forget();
            }
        }
    }

    /// From now on, what a host thread queues between two host operations is one graph: captured in the first
    /// run, launched by one call in each. All graphs are launched on one stream, so they run one after
    /// another, and a host wait waits for the end of the graph that holds its mark. Where the device
    /// [has no graphs](crate::backend::Backend::graphs), runs stay as they are.
    ///
    /// # Errors
    /// [`GpuError::Incomplete`] for a copy from or to pageable memory, which needs the host; [`GpuError::Driver`].
    pub fn enable_graphs(&mut self) -> Result<()> {
        let graphs = GraphRun::new(&self.device, self.schedule.schedule())?;
        self.graphs = self.device.backend().graphs().and(Some(graphs));
        Ok(())
    }

    /// Runs the schedule. When it returns, with or without an error, nothing is in flight.
    ///
    /// # Errors
    /// The first failure, of a device operation or a host step, which ends all host threads; [`GpuError::Incomplete`] for a
    /// buffer of the caller's that is not bound or has another size; [`GpuError::HostThread`].
    ///
    /// # Panics
    /// With the panic of a host step, once nothing is in flight any more.
    pub fn run(&mut self, bindings: &Bindings<'_>, steps: &HostSteps<'_>) -> Result<Trace> {
        let _span = tracing::debug_span!("run schedule", schedule = self.schedule().name).entered();
        let places = self.places(bindings)?;
        if let Some(graphs) = &mut self.graphs {
            graphs.prepare(self.schedule.schedule(), &places);
        }
        let start = Instant::now();
        if let Some((origin, _)) = self.timers.last() {
            let stream = &self.streams[0];
            origin.record(stream)?;
            origin.synchronize("timing origin")?;
        }
        let running = Running {
            device: &self.device,
            schedule: self.schedule.schedule(),
            places: &places,
            streams: &self.streams,
            events: &self.events,
            kernels: &self.kernels,
            timers: &self.timers,
            graphs: self.graphs.as_ref(),
            gate: Gate::new(self.schedule().flags.len()),
            start,
        };
        // Unchecked schedules, whose host steps may be handed overlapping views, never run on several
        // threads.
        let seed = self.device.backend().host_order_seed();
        let seed = if self.schedule.is_simulation_only() { Some(seed.unwrap_or(0)) } else { seed };
        let ended = catch_unwind(AssertUnwindSafe(|| match seed {
            Some(seed) => running.take_turns(seed, steps),
            None => running.run_threads(steps),
        }));
        let mut outcome = running.gate.into_outcome();
        // Drain every stream, also after an error: memory is released only when nothing can touch it any
        // more.
        let own = self.streams.iter().zip(&self.schedule().streams);
        let graphs = self.graphs.iter().map(|graphs| (graphs.stream(), "graphs"));
        for (stream, name) in own.map(|(stream, name)| (stream, name.as_str())).chain(graphs) {
            let drained = stream.synchronize(name);
            outcome = outcome.and(drained);
        }
        let host_spans = ended.unwrap_or_else(|panic| resume_unwind(panic));
        outcome?;
        self.trace(host_spans, micros(start.elapsed()))
    }

    fn trace(&self, host_spans: Vec<Span>, wall_us: f64) -> Result<Trace> {
        let schedule = self.schedule();
        if let Some(profile) = &self.device.info().profile {
            let (spans, calls) = estimate_with_calls(schedule, profile);
            return Ok(Trace { spans, calls, is_virtual: true, wall_us });
        }
        let (mut spans, calls) = (host_spans.clone(), host_spans);
        if let Some((origin, _)) = self.timers.last() {
            let since = |event: &Event| self.device.backend().elapsed_us(origin.raw(), event.raw());
            for (index, op) in schedule.ops.iter().enumerate() {
                if is_timed(op) {
                    let (start, end) = &self.timers[index];
                    if let (Some(start_us), Some(end_us)) = (since(start)?, since(end)?) {
                        spans[index] = Span { start_us, end_us };
                    }
                }
            }
        }
        Ok(Trace { spans, calls, is_virtual: false, wall_us })
    }

    /// Where each buffer lies in this run.
    fn places(&mut self, bindings: &Bindings<'_>) -> Result<Vec<Place>> {
        let schedule = self.schedule.schedule();
        let place = |(index, memory): (usize, &mut Memory)| {
            Ok(match memory {
                Memory::Device(memory) => Place::Device(memory.ptr),
                Memory::Bound => bound(&self.device, schedule, BufferId(index as u32), bindings)?,
                Memory::Pinned(memory) => Place::Host(memory.span()),
                Memory::Pageable(words) => {
                    let (ptr, bytes) = (words.as_mut_ptr().cast(), words.len() * 8);
                    Place::Host(HostSpan { ptr, bytes, space: Space::Pageable })
                }
            })
        };
        self.memory.iter_mut().enumerate().map(place).collect()
    }

    /// Overwrites what held secrets.
    fn wipe(&mut self) -> Result<()> {
        let stream = self.device.stream("wipe")?;
        let schedule = self.schedule.clone();
        for (memory, buffer) in self.memory.iter_mut().zip(&schedule.schedule().buffers) {
            match memory {
                Memory::Device(memory) if buffer.secret && memory.bytes > 0 => {
                    // SAFETY: the memory is alive until this workspace is dropped, after the wait below.
                    unsafe { self.device.backend().fill("wipe", stream.raw(), memory.ptr, memory.bytes, 0)? };
                }
                Memory::Pageable(words) if buffer.secret => words.zeroize(),
                _ => {}
            }
        }
        stream.synchronize("wipe")
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if self.schedule().buffers.iter().any(|buffer| buffer.secret)
            && let Err(error) = self.wipe()
        {
            tracing::warn!(%error, "secrets on the device were not wiped");
        }
    }
}

/// The memory that is bound to a buffer of the caller's.
fn bound(device: &Device, schedule: &Schedule, id: BufferId, bindings: &Bindings<'_>) -> Result<Place> {
    let buffer = &schedule.buffers[id.0 as usize];
    let refuse = |reason| GpuError::Incomplete { schedule: schedule.name.clone(), reason };
    let resident =
        bindings.resident.get(&id).map(|memory| (&memory.device, memory.bytes, Place::Device(memory.ptr)));
    let registered = bindings.registered.get(&id).map(|(device, memory)| {
        let (ptr, bytes) = (memory.as_ptr().cast_mut(), memory.len());
        (*device, bytes as u64, Place::Host(HostSpan { ptr, bytes, space: Space::Registered }))
    });
    let found = if buffer.space == Space::Resident { resident } else { registered };
    let (owner, bytes, place) =
        found.ok_or_else(|| refuse(format!("buffer {} is not bound", buffer.name)))?;
    if bytes != buffer.bytes {
        let needed = buffer.bytes;
        return Err(refuse(format!("buffer {} is bound to {bytes} bytes, not {needed}", buffer.name)));
    }
    if !owner.is_same(device) {
        return Err(refuse(format!("buffer {} is on another device", buffer.name)));
    }
    Ok(place)
}

/// Where a buffer lies.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    Device(DevicePtr),
    Host(HostSpan),
}

// SAFETY: an address, which says nothing about who may use it. It is of memory of a workspace that is
// borrowed exclusively for the run, or of the caller's that is bound, and only read; whoever goes through
// it argues for that there (`Running::views`, and the copies in `Running::queue`).
unsafe impl Send for Place {}
// SAFETY: as above.
unsafe impl Sync for Place {}

/// What the host threads of a run tell each other.
#[derive(Debug)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug)]
struct GateState {
    is_signalled: Vec<bool>,
    /// Nobody begins another operation.
    is_stopped: bool,
    /// The first.
    failure: Option<GpuError>,
}

impl Gate {
    fn new(flags: usize) -> Self {
        let state = GateState { is_signalled: vec![false; flags], is_stopped: false, failure: None };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Nothing panics under the lock, and what is changed there is changed by one assignment each.
    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal(&self, flag: FlagId) {
        self.lock().is_signalled[flag.0 as usize] = true;
        self.changed.notify_all();
    }

    fn is_signalled(&self, flag: FlagId) -> bool {
        self.lock().is_signalled[flag.0 as usize]
    }

    /// Blocks until the flag is signalled, or everything stops.
    fn wait(&self, flag: FlagId) {
        let is_waiting = |state: &mut GateState| !state.is_signalled[flag.0 as usize] && !state.is_stopped;
        drop(self.changed.wait_while(self.lock(), is_waiting).unwrap_or_else(PoisonError::into_inner));
    }

    fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }

    /// Ends the run; waits end too. Of several failures the first is kept.
    fn stop(&self, failure: Option<GpuError>) {
        let mut state = self.lock();
        state.is_stopped = true;
        if state.failure.is_none() {
            state.failure = failure;
        }
        drop(state);
        self.changed.notify_all();
    }

    fn into_outcome(self) -> Result<()> {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).failure.map_or(Ok(()), Err)
    }
}

/// Stops the run if its thread panics.
struct StopOnPanic<'a>(&'a Gate);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop(None);
        }
    }
}

/// A run in progress: what its host threads share.
pub(crate) struct Running<'a> {
    pub(crate) device: &'a Device,
    pub(crate) schedule: &'a Schedule,
    places: &'a [Place],
    streams: &'a [Stream],
    events: &'a [Event],
    kernels: &'a [Option<Kernel>],
    timers: &'a [(Event, Event)],
    graphs: Option<&'a GraphRun>,
    gate: Gate,
    start: Instant,
}

impl Running<'_> {
    /// Each host thread is a thread; the first is the calling one. Gives the time of every operation on its
    /// host thread.
    fn run_threads(&self, steps: &HostSteps<'_>) -> Vec<Span> {
        let mut spans = vec![Span::default(); self.schedule.ops.len()];
        std::thread::scope(|scope| {
            let mut others = Vec::new();
            for (index, name) in self.schedule.threads.iter().enumerate().skip(1) {
                let body = move || self.run_thread(ThreadId(index as u32), steps);
                match std::thread::Builder::new().name(name.clone()).spawn_scoped(scope, body) {
                    Ok(thread) => others.push(thread),
                    Err(error) => self.gate.stop(Some(GpuError::HostThread {
                        thread: name.clone(),
                        reason: format!("cannot be started: {error}"),
                    })),
                }
            }
            let mut all = vec![self.run_thread(MAIN, steps)];
            for thread in others {
                all.push(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
            all.into_iter().flatten().for_each(|(index, span)| spans[index] = span);
        });
        spans
    }

    /// Performs the operations of one host thread, until the run stops.
    fn run_thread(&self, thread: ThreadId, steps: &HostSteps<'_>) -> Vec<(usize, Span)> {
        let _stop = StopOnPanic(&self.gate);
        let mut spans = Vec::new();
        let own = self.schedule.ops.iter().enumerate().filter(|(_, op)| op.thread == thread);
        for (index, op) in own {
            if self.gate.is_stopped() {
                break;
            }
            let start_us = micros(self.start.elapsed());
            let outcome = match (&op.action, self.graphs) {
                (Action::Await { flag }, _) => {
                    self.gate.wait(*flag);
                    Ok(())
                }
                (Action::HostWait { .. }, Some(graphs)) => graphs.host_wait(self, index),
                (_, Some(graphs)) if op.stream().is_some() => graphs.queued(self, index),
                _ => self.perform(index, op, steps),
            };
            spans.push((index, Span { start_us, end_us: micros(self.start.elapsed()) }));
            if let Err(error) = outcome {
                self.gate.stop(Some(error));
            }
        }
        spans
    }

    /// The host threads take turns on this one: which comes next is decided by the seed. Gives times as
    /// [`run_threads`](Self::run_threads).
    fn take_turns(&self, seed: u64, steps: &HostSteps<'_>) -> Vec<Span> {
        let ops = &self.schedule.ops;
        let mut spans = vec![Span::default(); ops.len()];
        let mut queues = vec![VecDeque::new(); self.schedule.threads.len()];
        ops.iter().enumerate().for_each(|(index, op)| queues[op.thread.0 as usize].push_back(index));
        let (mut random, mut last) = (seed, 0);
        // For how long the same goes on, as the seed has it: one operation, or some dozens, so that a thread can get far
        // behind another, and also just in between two operations of another.
        let patience = 1 << (2 * (next_random(&mut random) % 4));
        while queues.iter().any(|queue| !queue.is_empty()) && !self.gate.is_stopped() {
            let can_go = |thread: &usize| {
                queues[*thread].front().is_some_and(|index: &usize| match ops[*index].action {
                    Action::Await { flag } => self.gate.is_signalled(flag),
                    _ => true,
                })
            };
            let ready: Vec<usize> = (0..queues.len()).filter(can_go).collect();
            if ready.is_empty() {
                let stuck = queues.iter().find_map(|queue| queue.front()).expect("a queue is not empty");
                self.gate.stop(Some(self.stuck(*stuck)));
                break;
            }
            let random = next_random(&mut random);
            if !ready.contains(&last) || random.is_multiple_of(patience) {
                last = ready[((random >> 32) % ready.len() as u64) as usize];
            }
            let index = queues[last].pop_front().expect("it is ready");
            let start_us = micros(self.start.elapsed());
            let outcome = self.perform(index, &ops[index], steps);
            spans[index] = Span { start_us, end_us: micros(self.start.elapsed()) };
            if let Err(error) = outcome {
                self.gate.stop(Some(error));
            }
        }
        spans
    }

    fn stuck(&self, index: usize) -> GpuError {
        let op = &self.schedule.ops[index];
        let Action::Await { flag } = op.action else { unreachable!("only awaits hold a host thread up") };
        let flag = self.schedule.flag_name(flag);
        let reason = format!("waits for flag {flag}, which no other thread gets to signal");
        GpuError::HostThread { thread: self.schedule.thread_name(op.thread).into(), reason }
    }

    fn device_ptr(&self, region: &Region) -> DevicePtr {
        match self.places[region.buffer.0 as usize] {
            Place::Device(base) => DevicePtr(base.0 + region.offset),
            Place::Host(_) => unreachable!("checked: kernels and fills name device memory"),
        }
    }

    fn host_span(&self, region: &Region) -> HostSpan {
        let Place::Host(whole) = self.places[region.buffer.0 as usize] else {
            unreachable!("checked: host ends of copies name host memory")
        };
        assert!(region.offset + region.bytes <= whole.bytes as u64, "checked: regions lie in their buffer");
        // SAFETY: the offset lies in the allocation, by the assertion above.
        let ptr = unsafe { whole.ptr.add(region.offset as usize) };
        HostSpan { ptr, bytes: region.bytes as usize, space: whole.space }
    }

    pub(crate) fn raw_stream(&self, id: StreamId) -> RawStream {
        self.streams[id.0 as usize].raw()
    }

    fn raw_event(&self, id: EventId) -> RawEvent {
        self.events[id.0 as usize].raw()
    }

    /// The events between which an operation is timed, if it is.
    pub(crate) fn timers(&self, index: usize) -> Option<&(Event, Event)> {
        self.timers.get(index).filter(|_| is_timed(&self.schedule.ops[index]))
    }

    /// Performs an operation that is not an [`Action::Await`], and times it where that is on.
    fn perform(&self, index: usize, op: &Op, steps: &HostSteps<'_>) -> Result<()> {
        let backend = self.device.backend();
        match &op.action {
            Action::HostWait { event } => backend.sync_event(&op.name, self.raw_event(*event)),
            Action::HostStep { reads, writes, .. } => steps(op, self.views(reads, writes)),
            Action::Signal { flag } => {
                self.gate.signal(*flag);
                Ok(())
            }
            // Its thread's turn has come, so it has been signalled.
            Action::Await { .. } => Ok(()),
            _ => {
                let stream = op.stream().expect("all others are on a stream");
                let timers = self.timers(index);
                timers.map_or(Ok(()), |(start, _)| backend.record(self.raw_stream(stream), start.raw()))?;
                self.queue(index, op)?;
                timers.map_or(Ok(()), |(_, end)| backend.record(self.raw_stream(stream), end.raw()))
            }
        }
    }

    /// Queues an operation on its stream.
    pub(crate) fn queue(&self, index: usize, op: &Op) -> Result<()> {
        let (backend, name) = (self.device.backend(), op.name.as_ref());
        match &op.action {
            Action::Upload { stream, src, dst } if src.bytes > 0 => {
                let (stream, dst, src) =
                    (self.raw_stream(*stream), self.device_ptr(dst), self.host_span(src));
                // SAFETY: the checked schedule has equal lengths and orders all accesses; the memory outlives
                // `run`, which drains the streams before it returns.
                unsafe { backend.upload(name, stream, dst, src) }
            }
            Action::Download { stream, src, dst } if src.bytes > 0 => {
                let (stream, src, dst) =
                    (self.raw_stream(*stream), self.device_ptr(src), self.host_span(dst));
                // SAFETY: as for uploads.
                unsafe { backend.download(name, stream, dst, src) }
            }
            Action::Fill { stream, dst, byte } if dst.bytes > 0 => {
                let (stream, ptr) = (self.raw_stream(*stream), self.device_ptr(dst));
                // SAFETY: the region lies in its buffer; memory outlives the run.
                unsafe { backend.fill(name, stream, ptr, dst.bytes, *byte) }
            }
            Action::Upload { .. } | Action::Download { .. } | Action::Fill { .. } => Ok(()),
            Action::Launch { stream, launch } => self.launch(index, name, self.raw_stream(*stream), launch),
            Action::Record { stream, event } => {
                backend.record(self.raw_stream(*stream), self.raw_event(*event))
            }
            Action::Wait { stream, event } => backend.wait(self.raw_stream(*stream), self.raw_event(*event)),
            Action::HostWait { .. }
            | Action::HostStep { .. }
            | Action::Signal { .. }
            | Action::Await { .. } => unreachable!("not on a stream"),
        }
    }

    fn launch(&self, index: usize, name: &str, stream: RawStream, launch: &Launch) -> Result<()> {
        let kernel = self.kernels[index].as_ref().expect("resolved in `new`");
        let pointer = |region: &Region, write| LaunchArg::Buffer {
            ptr: self.device_ptr(region),
            bytes: region.bytes,
            write,
        };
        let args: Vec<_> = launch
            .args
            .iter()
            .map(|arg| match arg {
                Arg::Read(region) => pointer(region, false),
                Arg::Write(region) => pointer(region, true),
                Arg::U32(value) => LaunchArg::U32(*value),
                Arg::U64(value) => LaunchArg::U64(*value),
            })
            .collect();
        // SAFETY: `new` matched the arguments with the kernel's signature and the grid with the device's
        // limits; regions lie in live buffers; the checked schedule orders all accesses.
        unsafe { self.device.backend().launch(name, stream, kernel, launch.grid, launch.block, &args) }
    }

    /// Views of the declared regions. A checked schedule has no two views of one step that overlap with one
    /// writing.
    fn views(&self, reads: &[Region], writes: &[Region]) -> HostViews<'_> {
        for (i, write) in writes.iter().enumerate() {
            let clash = reads.iter().chain(&writes[i + 1..]).find(|other| other.overlaps(write));
            assert!(
                clash.is_none(),
                "checked: a host step's written regions overlap nothing else that it declares"
            );
        }
        let reads = reads.iter().map(|region| self.host_span(region)).collect::<Vec<_>>();
        let writes = writes.iter().map(|region| self.host_span(region)).collect::<Vec<_>>();
        // SAFETY: each span lies in a buffer of the workspace, which is borrowed exclusively for the run and
        // makes no other reference to its bytes meanwhile, or in memory of the caller's, which is borrowed
        // shared for the run and which no checked schedule writes; a step gives its views up before it returns.
        // Within the step, written spans overlap no other span (asserted). Steps of other host threads that
        // touch these bytes are ordered before or after this one by flags, whose lock makes what was written
        // visible: the checked schedule has no race, and unchecked ones run on one thread, a step at a time
        // (`run`). What the device does to these bytes meanwhile is ordered by the checked schedule too (on
        // the simulated device, which alone runs unchecked ones, operations run on the thread that calls the
        // backend, so never while a step runs).
        unsafe {
            HostViews {
                reads: reads.iter().map(|span| std::slice::from_raw_parts(span.ptr, span.bytes)).collect(),
                writes: writes
                    .iter()
                    .map(|span| std::slice::from_raw_parts_mut(span.ptr, span.bytes))
                    .collect(),
            }
        }
    }
}

fn micros(duration: std::time::Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

fn is_timed(op: &Op) -> bool {
    matches!(
        op.action,
        Action::Upload { .. } | Action::Download { .. } | Action::Fill { .. } | Action::Launch { .. }
    )
}

fn allocate(device: &Device, buffer: &Buffer) -> Result<Memory> {
    Ok(match buffer.space {
        Space::Device => Memory::Device(DeviceMemory::new(device, &buffer.name, buffer.bytes)?),
        Space::Resident | Space::Registered => Memory::Bound,
        Space::PinnedUpload | Space::PinnedDownload => {
            Memory::Pinned(PinnedMemory::new(device, &buffer.name, buffer.bytes as usize, buffer.space)?)
        }
        Space::Pageable => Memory::Pageable(vec![0; buffer.bytes.div_ceil(8) as usize]),
    })
}

fn resolve_kernel(device: &Device, schedule: &Schedule, op: &Op) -> Result<Option<Kernel>> {
    let Action::Launch { launch, .. } = &op.action else { return Ok(None) };
    let kernel = device.kernel(&launch.kernel).ok_or_else(|| GpuError::Incomplete {
        schedule: schedule.name.clone(),
        reason: format!("kernel {} is in no loaded module", launch.kernel),
    })?;
    kernel.entry.check_args(&launch.args)?;
    let refuse = |reason| Err(GpuError::Launch { kernel: launch.kernel.to_string(), reason });
    if launch.block == 0 || launch.grid.contains(&0) {
        return refuse(format!("empty launch: grid {:?}, block {}", launch.grid, launch.block));
    }
    if launch.block > kernel.block_max {
        return refuse(format!("{} threads per block, at most {} fit", launch.block, kernel.block_max));
    }
    if launch.grid[1] > 65_535 || launch.grid[0] > i32::MAX as u32 {
        return refuse(format!("grid {:?} is over the limit", launch.grid));
    }
    Ok(Some(kernel))
}
