//! The runner: performs a checked schedule on a device, and traces what ran.

use crate::Result;
use crate::backend::{DevicePtr, HostSpan, Kernel, LaunchArg, RawEvent, RawStream};
use crate::buffer::{DeviceBuf, DeviceMemory, PinnedMemory};
use crate::check::CheckedSchedule;
use crate::device::{Device, DeviceKind, Event, Stream};
use crate::error::GpuError;
use crate::layout::{Pod, slice_of, slice_of_mut};
use crate::model::{Span, estimate};
use crate::schedule::{Action, Arg, Buffer, BufferId, Launch, Op, Region, Schedule, Space};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;
use zeroize::Zeroize;

/// Caller-owned device buffers for the [`Space::Resident`] buffers of a schedule.
#[derive(Default)]
pub struct Bindings {
    resident: HashMap<BufferId, Arc<DeviceMemory>>,
}

impl fmt::Debug for Bindings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bindings({:?})", self.resident.keys())
    }
}

impl Bindings {
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

/// Code behind the host steps of a schedule: told the operation, handed its views.
pub type HostSteps<'a> = dyn FnMut(&Op, HostViews<'_>) -> Result<()> + 'a;

/// When each operation ran. Its operations are those of the schedule, in the same order.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Trace {
    /// Start and end of each operation, microseconds from the start of the run.
    pub spans: Vec<Span>,
    /// Whether the times are the simulated device's virtual clock, not a measurement.
    pub is_virtual: bool,
    /// Wall time of the run on the host.
    pub wall_us: f64,
}

enum Memory {
    Device(DeviceMemory),
    Pinned(PinnedMemory),
    Pageable(Vec<u64>),
    Resident,
}

/// The memory, streams and events of one schedule on one device, kept between runs so that a warm run allocates nothing.
pub struct Workspace {
    device: Device,
    schedule: Arc<CheckedSchedule>,
    memory: Vec<Memory>,
    streams: Vec<Stream>,
    events: Vec<Event>,
    kernels: Vec<Option<Kernel>>,
    timers: Vec<(Event, Event)>,
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Workspace({} on {})", self.schedule().name, self.device.info().id)
    }
}

impl Workspace {
    /// Allocates everything that the schedule declares, and checks every launch against its kernel's signature and the
    /// device's limits. Nothing can be left half allocated: an error releases what was taken.
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
        Ok(Self { device: device.clone(), schedule, memory, streams, events, kernels, timers: Vec::new() })
    }

    /// The schedule that it is for.
    pub fn schedule(&self) -> &Schedule {
        self.schedule.schedule()
    }

    /// Makes the timing events, so that runs are traced on the device's clock. Costs two events an operation.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    pub fn enable_timing(&mut self) -> Result<()> {
        let needed = if self.device.info().profile.is_some() { 0 } else { self.schedule().ops.len() + 1 };
        while self.timers.len() < needed {
            self.timers.push((self.device.event("start")?, self.device.event("end")?));
        }
        Ok(())
    }

    /// Runs the schedule. When it returns, with or without an error, nothing is in flight.
    ///
    /// # Errors
    /// The first failure, of a device operation or a host step; [`GpuError::Incomplete`] for a resident buffer that is not
    /// bound or has another size.
    pub fn run(&mut self, bindings: &Bindings, steps: &mut HostSteps<'_>) -> Result<Trace> {
        let resident = self.resident(bindings)?;
        let start = Instant::now();
        if let Some((origin, _)) = self.timers.last() {
            let stream = &self.streams[0];
            origin.record(stream)?;
            origin.synchronize("timing origin")?;
        }
        let mut host_spans = vec![Span::default(); self.schedule().ops.len()];
        let schedule = self.schedule.clone();
        let mut outcome = Ok(());
        for (index, op) in schedule.schedule().ops.iter().enumerate() {
            let begun = start.elapsed();
            outcome = self.perform(index, op, &resident, steps);
            host_spans[index] = Span { start_us: micros(begun), end_us: micros(start.elapsed()) };
            if outcome.is_err() {
                break;
            }
        }
        // Drain every stream, also after an error: memory is released only when nothing can touch it any more.
        for (stream, name) in self.streams.iter().zip(&self.schedule().streams) {
            let drained = stream.synchronize(name);
            outcome = outcome.and(drained);
        }
        outcome?;
        self.trace(host_spans, micros(start.elapsed()))
    }

    fn trace(&self, host_spans: Vec<Span>, wall_us: f64) -> Result<Trace> {
        let schedule = self.schedule();
        if let Some(profile) = &self.device.info().profile {
            return Ok(Trace { spans: estimate(schedule, profile), is_virtual: true, wall_us });
        }
        let mut spans = host_spans;
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
        Ok(Trace { spans, is_virtual: false, wall_us })
    }

    fn resident(&self, bindings: &Bindings) -> Result<HashMap<BufferId, DevicePtr>> {
        let schedule = self.schedule();
        let mut found = HashMap::new();
        for (index, buffer) in schedule.buffers.iter().enumerate() {
            if buffer.space != Space::Resident {
                continue;
            }
            let id = BufferId(index as u32);
            let refuse = |reason| GpuError::Incomplete { schedule: schedule.name.clone(), reason };
            let memory = bindings
                .resident
                .get(&id)
                .ok_or_else(|| refuse(format!("buffer {} is not bound", buffer.name)))?;
            if memory.bytes != buffer.bytes {
                let (bytes, needed) = (memory.bytes, buffer.bytes);
                return Err(refuse(format!(
                    "buffer {} is bound to {bytes} bytes, not {needed}",
                    buffer.name
                )));
            }
            if !memory.device.is_same(&self.device) {
                return Err(refuse(format!("buffer {} is on another device", buffer.name)));
            }
            found.insert(id, memory.ptr);
        }
        Ok(found)
    }

    fn device_ptr(&self, region: &Region, resident: &HashMap<BufferId, DevicePtr>) -> DevicePtr {
        let base = match &self.memory[region.buffer.0 as usize] {
            Memory::Device(memory) => memory.ptr,
            Memory::Resident => resident[&region.buffer],
            Memory::Pinned(_) | Memory::Pageable(_) => {
                unreachable!("checked: kernels and fills name device memory")
            }
        };
        DevicePtr(base.0 + region.offset)
    }

    fn host_span(&mut self, region: &Region) -> HostSpan {
        let whole = match &mut self.memory[region.buffer.0 as usize] {
            Memory::Pinned(memory) => memory.span(),
            Memory::Pageable(words) => {
                HostSpan { ptr: words.as_mut_ptr().cast(), bytes: words.len() * 8, space: Space::Pageable }
            }
            Memory::Device(_) | Memory::Resident => {
                unreachable!("checked: host ends of copies name host memory")
            }
        };
        assert!(region.offset + region.bytes <= whole.bytes as u64, "checked: regions lie in their buffer");
        // SAFETY: the offset lies in the allocation, by the assertion above.
        let ptr = unsafe { whole.ptr.add(region.offset as usize) };
        HostSpan { ptr, bytes: region.bytes as usize, space: whole.space }
    }

    fn raw_stream(&self, id: crate::schedule::StreamId) -> RawStream {
        self.streams[id.0 as usize].raw()
    }

    fn raw_event(&self, id: crate::schedule::EventId) -> RawEvent {
        self.events[id.0 as usize].raw()
    }

    fn time(&self, index: usize, op: &Op, is_end: bool) -> Result<()> {
        if self.timers.is_empty() || !is_timed(op) {
            return Ok(());
        }
        let (start, end) = &self.timers[index];
        let event = if is_end { end } else { start };
        let stream = op.stream().expect("timed operations are on a stream");
        self.device.backend().record(self.raw_stream(stream), event.raw())
    }

    fn perform(
        &mut self,
        index: usize,
        op: &Op,
        resident: &HashMap<BufferId, DevicePtr>,
        steps: &mut HostSteps<'_>,
    ) -> Result<()> {
        let device = self.device.clone();
        let backend = device.backend();
        let name = op.name.as_ref();
        self.time(index, op, false)?;
        match &op.action {
            Action::Upload { stream, src, dst } if src.bytes > 0 => {
                let (stream, dst, src) =
                    (self.raw_stream(*stream), self.device_ptr(dst, resident), self.host_span(src));
                // SAFETY: the checked schedule has equal lengths and orders all accesses; the memory outlives `run`, which
                // drains the streams before it returns.
                unsafe { backend.upload(name, stream, dst, src)? };
            }
            Action::Download { stream, src, dst } if src.bytes > 0 => {
                let (stream, src, dst) =
                    (self.raw_stream(*stream), self.device_ptr(src, resident), self.host_span(dst));
                // SAFETY: as for uploads.
                unsafe { backend.download(name, stream, dst, src)? };
            }
            Action::Fill { stream, dst, byte } if dst.bytes > 0 => {
                let (stream, ptr) = (self.raw_stream(*stream), self.device_ptr(dst, resident));
                // SAFETY: the region lies in its buffer; memory outlives the run.
                unsafe { backend.fill(name, stream, ptr, dst.bytes, *byte)? };
            }
            Action::Upload { .. } | Action::Download { .. } | Action::Fill { .. } => {}
            Action::Launch { stream, launch } => {
                self.launch(index, name, self.raw_stream(*stream), launch, resident)?
            }
            Action::Record { stream, event } => {
                backend.record(self.raw_stream(*stream), self.raw_event(*event))?
            }
            Action::Wait { stream, event } => {
                backend.wait(self.raw_stream(*stream), self.raw_event(*event))?
            }
            Action::HostWait { event } => backend.sync_event(name, self.raw_event(*event))?,
            Action::HostStep { reads, writes, .. } => {
                let views = self.views(reads, writes);
                steps(op, views)?;
            }
        }
        self.time(index, op, true)
    }

    fn launch(
        &self,
        index: usize,
        name: &str,
        stream: RawStream,
        launch: &Launch,
        resident: &HashMap<BufferId, DevicePtr>,
    ) -> Result<()> {
        let kernel = self.kernels[index].as_ref().expect("resolved in `new`");
        let pointer = |region: &Region, write| LaunchArg::Buffer {
            ptr: self.device_ptr(region, resident),
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
        // SAFETY: `new` matched the arguments with the kernel's signature and the grid with the device's limits; regions lie
        // in live buffers; the checked schedule orders all accesses.
        unsafe { self.device.backend().launch(name, stream, kernel, launch.grid, launch.block, &args) }
    }

    /// Views of the declared regions. A checked schedule has no two views of one step that overlap with one writing.
    fn views(&mut self, reads: &[Region], writes: &[Region]) -> HostViews<'_> {
        for (i, write) in writes.iter().enumerate() {
            let clash = reads.iter().chain(&writes[i + 1..]).find(|other| other.overlaps(write));
            assert!(
                clash.is_none(),
                "checked: a host step's written regions overlap nothing else that it declares"
            );
        }
        let reads = reads.iter().map(|region| self.host_span(region)).collect::<Vec<_>>();
        let writes = writes.iter().map(|region| self.host_span(region)).collect::<Vec<_>>();
        // SAFETY: each span lies in a buffer of this workspace, which is borrowed for the life of the views; written spans
        // overlap no other span (asserted). What the device does to these bytes meanwhile is ordered by the checked schedule
        // (on the simulated device, which alone runs unchecked ones, operations run on the thread that calls the backend,
        // so never while a step runs).
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
        if self.schedule().buffers.iter().any(|buffer| buffer.secret) {
            if let Err(error) = self.wipe() {
                tracing::warn!(%error, "secrets on the device were not wiped");
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
        Space::Resident => Memory::Resident,
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
