//! The schedule: what will be done, on which stream, to which bytes. Plain data.

use serde::Serialize;
use std::borrow::Cow;
use std::fmt;

/// Index of a buffer in its schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct BufferId(pub u32);
/// Index of a stream in its schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct StreamId(pub u32);
/// Index of an event in its schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct EventId(pub u32);
/// Index of a host thread in its schedule. The default is the first, which every schedule has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize)]
pub struct ThreadId(pub u32);
/// Index of a flag in its schedule: what one host thread signals and others await.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct FlagId(pub u32);

/// The host thread that every schedule has: the one that calls [`run`](crate::run::Workspace::run).
pub const MAIN: ThreadId = ThreadId(0);

/// Where a buffer lives, which decides what a copy to or from it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Space {
    /// Device memory, allocated with the workspace.
    Device,
    /// Device memory that the caller owns and binds (resident bases).
    Resident,
    /// Page-locked host memory that the host writes and the device reads: an upload reads it when it
    /// *executes*.
    PinnedUpload,
    /// Page-locked host memory that the device writes and the host reads.
    PinnedDownload,
    /// Host memory of the caller, page-locked where it lies and bound for a run: an upload reads it when it
    /// executes. Nothing writes it.
    Registered,
    /// Ordinary host memory: an upload reads it before the call returns, a download blocks the host until it
    /// is done.
    Pageable,
}

impl Space {
    /// Whether kernels can reach it.
    pub fn is_device(self) -> bool {
        matches!(self, Space::Device | Space::Resident)
    }

    /// Whether it is the caller's, who binds it for a run, and has filled it by then.
    pub fn is_bound(self) -> bool {
        matches!(self, Space::Resident | Space::Registered)
    }
}

/// A named range of memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Buffer {
    /// Name, unique in the schedule; a slot of a ring carries its index (`rows[1]`).
    pub name: String,
    /// Where it lives.
    pub space: Space,
    /// Size in bytes.
    pub bytes: u64,
    /// Holds secrets: wiped when the workspace is released.
    pub secret: bool,
}

/// Bytes `offset .. offset + bytes` of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Region {
    /// The buffer.
    pub buffer: BufferId,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

impl Region {
    /// Whether two regions share a byte. An empty region shares none.
    pub fn overlaps(&self, other: &Region) -> bool {
        self.buffer == other.buffer && self.offset.max(other.offset) < self.end().min(other.end())
    }

    /// One past the last byte; the largest number where that overflows.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }
}

/// One argument of a kernel, in the kernel's order. Buffers are declared with what the kernel does to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Arg {
    /// A pointer that the kernel only reads (`const T*`).
    Read(Region),
    /// A pointer that the kernel writes, and may read (`T*`).
    Write(Region),
    /// A 32-bit number.
    U32(u32),
    /// A 64-bit number.
    U64(u64),
}

/// How much work an operation is, for the estimator. It decides nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Work {
    /// Multiplications in Fp.
    pub fp_muls: f64,
    /// Bytes moved through device memory.
    pub bytes: f64,
    /// Longest chain of dependent Fp multiplications in one thread: a floor under the time of a small launch.
    pub chain_muls: f64,
}

/// A kernel launch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Launch {
    /// Kernel name, as exported by a module.
    pub kernel: Cow<'static, str>,
    /// Blocks, x and y.
    pub grid: [u32; 2],
    /// Threads per block.
    pub block: u32,
    /// Arguments in order.
    pub args: Vec<Arg>,
    /// For the estimator.
    pub work: Work,
}

/// What an operation does.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Copies host memory to the device, queued on a stream.
    Upload {
        /// Stream.
        stream: StreamId,
        /// Host bytes.
        src: Region,
        /// Device bytes.
        dst: Region,
    },
    /// Copies device memory to the host, queued on a stream.
    Download {
        /// Stream.
        stream: StreamId,
        /// Device bytes.
        src: Region,
        /// Host bytes.
        dst: Region,
    },
    /// Sets device bytes, queued on a stream.
    Fill {
        /// Stream.
        stream: StreamId,
        /// Device bytes.
        dst: Region,
        /// Value of each byte.
        byte: u8,
    },
    /// Runs a kernel, queued on a stream.
    Launch {
        /// Stream.
        stream: StreamId,
        /// What is launched.
        launch: Launch,
    },
    /// Marks a point of a stream: an event's mark is made by the call, and reached when the stream gets
    /// there.
    Record {
        /// Stream.
        stream: StreamId,
        /// Event that the mark is kept in.
        event: EventId,
    },
    /// What is queued on the stream from here on starts after the event's mark, the last one recorded when
    /// the host issues this.
    Wait {
        /// Stream that waits.
        stream: StreamId,
        /// Event waited for.
        event: EventId,
    },
    /// The host thread waits for the event's mark, the last one recorded when it gets here.
    HostWait {
        /// Event waited for.
        event: EventId,
    },
    /// Host code that is handed views of exactly these regions. The operation's name tells the runner which
    /// step.
    HostStep {
        /// Host bytes read.
        reads: Vec<Region>,
        /// Host bytes written.
        writes: Vec<Region>,
        /// Predicted host time, for the estimator.
        host_us: f64,
    },
    /// Tells other host threads that this one has got here. Once a run for each flag.
    Signal {
        /// Flag that is signalled.
        flag: FlagId,
    },
    /// The host thread waits until another has signalled.
    Await {
        /// Flag waited for.
        flag: FlagId,
    },
}

/// One operation of a schedule.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Op {
    /// What it is, the same word in trace, error and report (`msm_accumulate`, `fold`).
    pub name: Cow<'static, str>,
    /// Batch that it works for, if it works for one.
    pub batch: Option<u32>,
    /// Host thread that issues it, or performs it.
    pub thread: ThreadId,
    /// What it does.
    pub action: Action,
}

impl Op {
    /// Stream that the operation is queued on, if it is queued on one.
    pub fn stream(&self) -> Option<StreamId> {
        match self.action {
            Action::Upload { stream, .. }
            | Action::Download { stream, .. }
            | Action::Fill { stream, .. }
            | Action::Launch { stream, .. }
            | Action::Record { stream, .. }
            | Action::Wait { stream, .. } => Some(stream),
            Action::HostWait { .. }
            | Action::HostStep { .. }
            | Action::Signal { .. }
            | Action::Await { .. } => None,
        }
    }

    /// Regions read.
    pub fn reads(&self) -> Vec<Region> {
        match &self.action {
            Action::Upload { src, .. } | Action::Download { src, .. } => vec![*src],
            Action::Launch { launch, .. } => {
                let read = |arg: &Arg| match arg {
                    Arg::Read(region) | Arg::Write(region) => Some(*region),
                    _ => None,
                };
                launch.args.iter().filter_map(read).collect()
            }
            Action::HostStep { reads, .. } => reads.clone(),
            _ => Vec::new(),
        }
    }

    /// Regions written.
    pub fn writes(&self) -> Vec<Region> {
        match &self.action {
            Action::Upload { dst, .. } | Action::Download { dst, .. } | Action::Fill { dst, .. } => {
                vec![*dst]
            }
            Action::Launch { launch, .. } => {
                let written = |arg: &Arg| match arg {
                    Arg::Write(region) => Some(*region),
                    _ => None,
                };
                launch.args.iter().filter_map(written).collect()
            }
            Action::HostStep { writes, .. } => writes.clone(),
            _ => Vec::new(),
        }
    }
}

/// Operations, and the memory, streams, events, host threads and flags that they name.
///
/// Each host thread issues or performs its own operations in the order of the list; what orders those of
/// different threads is flags alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Schedule {
    /// What it computes, with its parameters.
    pub name: String,
    /// Memory, indexed by [`BufferId`].
    pub buffers: Vec<Buffer>,
    /// Stream names, indexed by [`StreamId`].
    pub streams: Vec<String>,
    /// Event names, indexed by [`EventId`].
    pub events: Vec<String>,
    /// Host thread names, indexed by [`ThreadId`]. The first is [`MAIN`].
    pub threads: Vec<String>,
    /// Flag names, indexed by [`FlagId`].
    pub flags: Vec<String>,
    /// Operations; each thread's in the order in which it issues them.
    pub ops: Vec<Op>,
}

impl Schedule {
    /// An empty schedule of one host thread, `host`.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            buffers: Vec::new(),
            streams: Vec::new(),
            events: Vec::new(),
            threads: vec!["host".into()],
            flags: Vec::new(),
            ops: Vec::new(),
        }
    }

    /// Declares a buffer.
    pub fn buffer(&mut self, name: impl Into<String>, space: Space, bytes: u64) -> BufferId {
        self.buffers.push(Buffer { name: name.into(), space, bytes, secret: false });
        BufferId(self.buffers.len() as u32 - 1)
    }

    /// Declares a buffer that holds secrets.
    pub fn secret_buffer(&mut self, name: impl Into<String>, space: Space, bytes: u64) -> BufferId {
        let id = self.buffer(name, space, bytes);
        self.buffers[id.0 as usize].secret = true;
        id
    }

    /// Declares a stream.
    pub fn stream(&mut self, name: impl Into<String>) -> StreamId {
        self.streams.push(name.into());
        StreamId(self.streams.len() as u32 - 1)
    }

    /// Declares an event.
    pub fn event(&mut self, name: impl Into<String>) -> EventId {
        self.events.push(name.into());
        EventId(self.events.len() as u32 - 1)
    }

    /// Declares a host thread beside [`MAIN`].
    pub fn thread(&mut self, name: impl Into<String>) -> ThreadId {
        self.threads.push(name.into());
        ThreadId(self.threads.len() as u32 - 1)
    }

    /// Declares a flag.
    pub fn flag(&mut self, name: impl Into<String>) -> FlagId {
        self.flags.push(name.into());
        FlagId(self.flags.len() as u32 - 1)
    }

    /// The whole of a buffer.
    pub fn whole(&self, buffer: BufferId) -> Region {
        Region { buffer, offset: 0, bytes: self.buffers[buffer.0 as usize].bytes }
    }

    /// Appends an operation of the first host thread.
    pub fn push(&mut self, name: impl Into<Cow<'static, str>>, batch: Option<u32>, action: Action) {
        self.push_on(MAIN, name, batch, action);
    }

    /// Appends an operation of a host thread.
    pub fn push_on(
        &mut self,
        thread: ThreadId,
        name: impl Into<Cow<'static, str>>,
        batch: Option<u32>,
        action: Action,
    ) {
        self.ops.push(Op { name: name.into(), batch, thread, action });
    }

    /// Bytes of all buffers in a space.
    pub fn bytes_in(&self, space: Space) -> u64 {
        self.buffers.iter().filter(|buffer| buffer.space == space).map(|buffer| buffer.bytes).sum()
    }

    /// A region as a reader names it: the buffer, and the range where it is not the whole. Names in a
    /// malformed schedule that stand for nothing are given by number, here and below: a report on one must be
    /// printable.
    pub fn region_name(&self, region: &Region) -> String {
        match self.buffers.get(region.buffer.0 as usize) {
            Some(buffer) if region.offset == 0 && region.bytes == buffer.bytes => buffer.name.clone(),
            Some(buffer) => format!("{}+{}..{}", buffer.name, region.offset, region.end()),
            None => format!("buffer {}+{}..{}", region.buffer.0, region.offset, region.end()),
        }
    }

    /// A stream as a reader names it.
    pub fn stream_name(&self, stream: StreamId) -> Cow<'_, str> {
        let unknown = || format!("stream {}", stream.0).into();
        self.streams.get(stream.0 as usize).map_or_else(unknown, |name| name.as_str().into())
    }

    /// An event as a reader names it.
    pub fn event_name(&self, event: EventId) -> Cow<'_, str> {
        let unknown = || format!("event {}", event.0).into();
        self.events.get(event.0 as usize).map_or_else(unknown, |name| name.as_str().into())
    }

    /// A host thread as a reader names it.
    pub fn thread_name(&self, thread: ThreadId) -> Cow<'_, str> {
        let unknown = || format!("thread {}", thread.0).into();
        self.threads.get(thread.0 as usize).map_or_else(unknown, |name| name.as_str().into())
    }

    /// A flag as a reader names it.
    pub fn flag_name(&self, flag: FlagId) -> Cow<'_, str> {
        let unknown = || format!("flag {}", flag.0).into();
        self.flags.get(flag.0 as usize).map_or_else(unknown, |name| name.as_str().into())
    }

    /// Where an operation runs: its stream, with the host thread that issues it where that is not the first;
    /// or its thread.
    pub fn place_name(&self, op: &Op) -> Cow<'_, str> {
        match op.stream() {
            Some(stream) if op.thread == MAIN => self.stream_name(stream),
            Some(stream) => format!("{} by {}", self.stream_name(stream), self.thread_name(op.thread)).into(),
            None => self.thread_name(op.thread),
        }
    }

    /// An operation as a reader names it: position, name, batch, where it runs.
    pub fn op_name(&self, index: usize) -> String {
        let op = &self.ops[index];
        let batch = op.batch.map(|batch| format!(" of batch {batch}")).unwrap_or_default();
        format!("#{index} {}{batch} on {}", op.name, self.place_name(op))
    }
}

/// The table that a person reviews: one line an operation.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "schedule {}", self.name)?;
        for buffer in &self.buffers {
            let secret = if buffer.secret { "  secret" } else { "" };
            let space = format!("{:?}", buffer.space);
            writeln!(f, "  buffer {:<16} {space:<14} {:>12} B{secret}", buffer.name, buffer.bytes)?;
        }
        writeln!(
            f,
            "{:>4}  {:<24} {:>5}  {:<9} reads -> writes, waits",
            "#", "operation", "batch", "stream"
        )?;
        for (index, op) in self.ops.iter().enumerate() {
            let batch = op.batch.map(|batch| batch.to_string()).unwrap_or_default();
            write!(f, "{index:>4}  {:<24} {batch:>5}  {:<9}", op.name, self.place_name(op))?;
            match &op.action {
                Action::Record { event: id, .. } => writeln!(f, " record {}", self.event_name(*id))?,
                Action::Wait { event: id, .. } | Action::HostWait { event: id } => {
                    writeln!(f, " wait {}", self.event_name(*id))?;
                }
                Action::Signal { flag } => writeln!(f, " signal {}", self.flag_name(*flag))?,
                Action::Await { flag } => writeln!(f, " await {}", self.flag_name(*flag))?,
                _ => {
                    let writes = op.writes();
                    let names = |regions: Vec<Region>| {
                        let names: Vec<_> = regions.iter().map(|region| self.region_name(region)).collect();
                        names.join(" ")
                    };
                    let only_read =
                        op.reads().into_iter().filter(|region| !writes.contains(region)).collect();
                    let accesses = format!(" {} -> {}", names(only_read), names(writes));
                    writeln!(f, "{}", accesses.trim_end())?;
                }
            }
        }
        Ok(())
    }
}
