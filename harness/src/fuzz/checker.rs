//! The checker on schedules that are made of bytes.

#[path = "../../../gpu-core/tests/brute/mod.rs"]
mod brute;

use arbitrary::{Result, Unstructured};
use brute::{
    BYTES, DEVICE, DOWNLOAD_TARGETS, EVENTS, FLAGS, HOST, STREAMS, THREADS, UPLOAD_SOURCES, agrees, with_ops,
};
use gpu_core::check::{HazardKind, check};
use gpu_core::model::{Profile, Timeline, estimate};
use gpu_core::schedule::{
    Action, Arg, BufferId, EventId, FlagId, Launch, Op, Region, Schedule, Space, StreamId, ThreadId, Work,
};
use std::sync::LazyLock;

/// Operations of a schedule that brute force goes through: all interleavings of them.
const BRUTE_OPS_MAX: usize = 8;
/// Operations of any other schedule.
const OPS_MAX: usize = 64;

/// Which names an operation may use.
struct Names {
    streams: u32,
    events: u32,
    threads: u32,
    flags: u32,
    /// Buffers by what they may be used for: device memory, sources, targets, what the host reads and writes.
    device: Vec<u32>,
    sources: Vec<u32>,
    targets: Vec<u32>,
    host: Vec<u32>,
    /// Whether regions may lie anywhere, and the two regions of a copy have lengths of their own.
    is_wild: bool,
}

impl Names {
    fn region(&self, u: &mut Unstructured<'_>, buffers: &[u32]) -> Result<Region> {
        let buffer = BufferId(*u.choose(buffers)?);
        if self.is_wild && u.ratio(1, 16)? {
            return Ok(Region { buffer, offset: u.arbitrary()?, bytes: u.arbitrary()? });
        }
        let (offset, bytes) = match u.int_in_range(0..=5)? {
            0..=2 => (0, BYTES),
            3 | 4 => (u.int_in_range(0..=BYTES - 1)?, u.int_in_range(1..=BYTES)?),
            _ => (u.int_in_range(0..=BYTES - 1)?, 0),
        };
        Ok(Region { buffer, offset, bytes: bytes.min(BYTES - offset) })
    }

    fn copy(&self, u: &mut Unstructured<'_>, from: &[u32], to: &[u32]) -> Result<(Region, Region)> {
        let src = self.region(u, from)?;
        let dst = if self.is_wild {
            self.region(u, to)?
        } else {
            Region { buffer: BufferId(*u.choose(to)?), ..src }
        };
        Ok((src, dst))
    }

    fn stream(&self, u: &mut Unstructured<'_>) -> Result<StreamId> {
        Ok(StreamId(u.int_in_range(0..=self.streams - 1)?))
    }

    fn event(&self, u: &mut Unstructured<'_>) -> Result<EventId> {
        Ok(EventId(u.int_in_range(0..=self.events - 1)?))
    }

    fn flag(&self, u: &mut Unstructured<'_>) -> Result<FlagId> {
        Ok(FlagId(u.int_in_range(0..=self.flags - 1)?))
    }

    fn op(&self, u: &mut Unstructured<'_>) -> Result<Op> {
        let (name, action) = match u.int_in_range(0..=10)? {
            0 => {
                let (src, dst) = self.copy(u, &self.sources, &self.device)?;
                ("upload", Action::Upload { stream: self.stream(u)?, src, dst })
            }
            1 => {
                let (src, dst) = self.copy(u, &self.device, &self.targets)?;
                ("download", Action::Download { stream: self.stream(u)?, src, dst })
            }
            2 => {
                let dst = self.region(u, &self.device)?;
                ("fill", Action::Fill { stream: self.stream(u)?, dst, byte: 0 })
            }
            3 => {
                let (read, write) = (self.region(u, &self.device)?, self.region(u, &self.device)?);
                let mut args = vec![Arg::Write(write), Arg::U32(7)];
                if self.is_wild || !read.overlaps(&write) {
                    args.insert(0, Arg::Read(read));
                }
                let grid = if self.is_wild { u.arbitrary()? } else { [1, 1] };
                let launch = Launch { kernel: "kernel".into(), grid, block: 1, args, work: Work::default() };
                ("launch", Action::Launch { stream: self.stream(u)?, launch })
            }
            4 => ("record", Action::Record { stream: self.stream(u)?, event: self.event(u)? }),
            5 => ("wait", Action::Wait { stream: self.stream(u)?, event: self.event(u)? }),
            6 => ("host_wait", Action::HostWait { event: self.event(u)? }),
            7 => {
                let name = if u.arbitrary()? { "fold" } else { "log" };
                let count = u.int_in_range(1..=2)?;
                let reads = (0..count).map(|_| self.region(u, &self.host)).collect::<Result<_>>()?;
                (name, Action::HostStep { reads, writes: vec![], host_us: 0.0 })
            }
            8 => {
                let writes = vec![self.region(u, &self.host)?];
                ("stage", Action::HostStep { reads: vec![], writes, host_us: 0.0 })
            }
            9 => ("signal", Action::Signal { flag: self.flag(u)? }),
            _ => ("await", Action::Await { flag: self.flag(u)? }),
        };
        let thread = ThreadId(u.int_in_range(0..=self.threads - 1)?);
        Ok(Op { name: name.into(), batch: None, thread, action })
    }

    fn ops(&self, u: &mut Unstructured<'_>, most: usize) -> Result<Vec<Op>> {
        let mut ops = Vec::new();
        while !u.is_empty() && ops.len() < most {
            ops.push(self.op(u)?);
        }
        Ok(ops)
    }
}

/// A small well-formed schedule: the checker says what brute force says. True if it is clean and does something.
pub(super) fn checker(data: &[u8]) -> bool {
    let names = Names {
        streams: STREAMS,
        events: EVENTS,
        threads: THREADS,
        flags: FLAGS,
        device: DEVICE.to_vec(),
        sources: UPLOAD_SOURCES.to_vec(),
        targets: DOWNLOAD_TARGETS.to_vec(),
        host: HOST.to_vec(),
        is_wild: false,
    };
    let Ok(ops) = names.ops(&mut Unstructured::new(data), BRUTE_OPS_MAX) else { return false };
    let schedule = with_ops(ops);
    agrees(&schedule);
    !schedule.ops.is_empty() && check(&schedule).is_clean()
}

/// Any schedule, of names that do not exist and regions that lie nowhere too: the checker says so, everything prints, and
/// what is not malformed has a timeline. True if it is not malformed.
pub(super) fn checker_any(data: &[u8]) -> bool {
    let u = &mut Unstructured::new(data);
    let extra = u32::from(u.ratio(1, 2).unwrap_or(false));
    let all: Vec<u32> = (0..6 + extra).collect();
    let is_mixed = u.ratio(1, 4).unwrap_or(false);
    let of = |buffers: &[u32]| if is_mixed { all.clone() } else { buffers.to_vec() };
    let names = Names {
        streams: STREAMS + extra,
        events: EVENTS + extra,
        threads: THREADS + extra,
        flags: FLAGS + extra,
        device: of(&DEVICE),
        sources: of(&UPLOAD_SOURCES),
        targets: of(&DOWNLOAD_TARGETS),
        host: of(&HOST),
        is_wild: true,
    };
    let Ok(ops) = names.ops(u, OPS_MAX) else { return false };
    let mut schedule = with_ops(ops);
    let is_well_formed = look_at(&schedule);
    // What is left when the last operation is missing is a schedule too.
    while schedule.ops.pop().is_some() {
        look_at(&schedule);
    }
    is_well_formed
}

/// Checks, prints and, unless it is malformed or deadlocked, estimates.
fn look_at(schedule: &Schedule) -> bool {
    static PROFILE: LazyLock<Profile> = LazyLock::new(Profile::h200);
    let report = check(schedule);
    assert!(!report.to_string().is_empty() && !schedule.to_string().is_empty());
    let has = |kind| report.hazards.iter().any(|hazard| hazard.kind == kind);
    if has(HazardKind::Malformed) {
        assert!(report.hazards.iter().all(|hazard| hazard.kind == HazardKind::Malformed));
        return false;
    }
    let timeline = Timeline::new(schedule, &estimate(schedule, &PROFILE));
    assert!(timeline.makespan_us.is_finite() && timeline.gpu_idle_us >= -1e-6, "{timeline:?}\n{schedule}");
    assert!(schedule.bytes_in(Space::Device) > 0);
    true
}
