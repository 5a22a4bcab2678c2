//! The checker: is every pair of accesses to the same bytes ordered, and is every result collected once?
//!
//! Pure: it looks at a [`Schedule`] and at no device. The agents are the host, in program order, and each
//! stream. Order between them is kept in vector clocks, by these rules:
//!
//! * an operation on a stream starts after the host has issued it, so after every earlier host step and host
//!   wait;
//! * operations on one stream run one after another;
//! * a [`Wait`](Action::Wait) or [`HostWait`](Action::HostWait) is bound to the event's last
//!   [`Record`](Action::Record) before it in the list, as CUDA binds it at the call; recording the event
//!   again later changes nothing for it;
//! * an upload from pageable memory reads its source on the host at its issue, one from pinned memory when it
//!   executes;
//! * a download to pageable memory blocks the host until it has executed, with all that its stream had queued
//!   before it;
//! * a copy of no bytes does nothing, and so orders nothing.
//!
//! Nothing is taken for ordered because it would usually take longer. Every edge points from an earlier
//! operation in the list to a later one, so two operations race exactly if the earlier is not ordered before
//! the later.

use crate::error::GpuError;
use crate::schedule::{Action, Arg, BufferId, Op, Region, Schedule, Space};
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::fmt;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HazardKind {
    /// Names something that does not exist, or asks for what no device does. Nothing else is looked at then.
    Malformed,
    /// A wait for an event that nothing before it records: CUDA lets it pass at once.
    NeverRecorded,
    /// Reads bytes that nothing has written. A kernel's [`Arg::Write`] does not count as read.
    Uninitialised,
    /// RAW: reads bytes, unordered with an earlier operation that writes them.
    ReadAfterWrite,
    /// WAR: writes bytes, unordered with an earlier operation that reads them.
    WriteAfterRead,
    /// WAW: writes bytes, unordered with an earlier operation that writes them.
    WriteAfterWrite,
    /// A host step reads a download that the host has not waited for.
    ReadTooEarly,
    /// A host step overwrites the source of an upload that the host has not waited for.
    SourceOverwritten,
    /// Bytes that a download brings are overwritten, or left at the end, without anything having read them.
    Uncollected,
    /// Two host steps of the same name read the same bytes of one download: a result is folded twice.
    CollectedTwice,
}

/// A fault of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hazard {
    /// What is wrong.
    pub kind: HazardKind,
    /// Position of the operation at which it shows; none where the end of the schedule, or a declaration, is
    /// at fault.
    pub at: Option<usize>,
    /// Position of the earlier operation that it is about, where there are two.
    pub earlier: Option<usize>,
    /// The bytes that it is about.
    pub region: Option<Region>,
    /// All of it in a sentence, with the missing order where order is missing.
    pub text: String,
}

impl fmt::Display for Hazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A wait for something that was ordered already: not wrong, but host or device time for nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Surplus {
    /// Position of the wait.
    pub at: usize,
    /// All of it in a sentence.
    pub text: String,
}

impl fmt::Display for Surplus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What the checker found, in the order of the schedule.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Report {
    /// Faults.
    pub hazards: Vec<Hazard>,
    /// Waits that order nothing new. Trusted only where there are no hazards: a missing edge may be what
    /// makes the wait look superfluous.
    pub surplus: Vec<Surplus>,
}

impl Report {
    /// Whether the schedule may run.
    pub fn is_clean(&self) -> bool {
        self.hazards.is_empty()
    }
}

/// Most hazards that a report prints; one missing edge in a loop is a hazard for every batch.
const PRINTED_MAX: usize = 20;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.hazards.len() {
            0 => f.write_str("no hazards")?,
            1 => f.write_str("1 hazard")?,
            count => write!(f, "{count} hazards")?,
        }
        for hazard in self.hazards.iter().take(PRINTED_MAX) {
            write!(f, "\n  {hazard}")?;
        }
        if self.hazards.len() > PRINTED_MAX {
            write!(f, "\n  and {} more", self.hazards.len() - PRINTED_MAX)?;
        }
        for surplus in self.surplus.iter().take(PRINTED_MAX) {
            write!(f, "\n  {surplus}")?;
        }
        if self.surplus.len() > PRINTED_MAX {
            write!(f, "\n  and {} more waits that order nothing new", self.surplus.len() - PRINTED_MAX)?;
        }
        Ok(())
    }
}

/// Checks a schedule. Near linear in the number of operations, where each buffer is cut into few pieces.
pub fn check(schedule: &Schedule) -> Report {
    let hazards = malformed(schedule);
    if !hazards.is_empty() {
        return Report { hazards, surplus: Vec::new() };
    }
    let mut checker = Checker::new(schedule);
    for (index, op) in schedule.ops.iter().enumerate() {
        checker.step(index, op);
    }
    checker.finish()
}

/// A schedule that the checker has passed: the only kind that runs on a CUDA device.
#[derive(Debug, Clone)]
pub struct CheckedSchedule {
    schedule: Schedule,
    simulation_only: bool,
}

impl CheckedSchedule {
    /// Checks a schedule.
    ///
    /// # Errors
    /// [`GpuError::Hazard`] with the report.
    pub fn new(schedule: Schedule) -> Result<Self, GpuError> {
        let report = check(&schedule);
        if report.is_clean() {
            return Ok(Self { schedule, simulation_only: false });
        }
        Err(GpuError::Hazard { schedule: schedule.name, report: Box::new(report) })
    }

    /// Lets a schedule through with its hazards, for the simulated device alone: how the harness shows what a
    /// hazard does.
    ///
    /// # Panics
    /// If the schedule is [malformed](HazardKind::Malformed): the runner relies on names that exist, regions
    /// inside their buffers and disjoint views, on every device.
    pub fn for_simulation_only(schedule: Schedule) -> Self {
        let faults = malformed(&schedule);
        assert!(faults.is_empty(), "schedule {} cannot run on any device: {}", schedule.name, faults[0]);
        Self { schedule, simulation_only: true }
    }

    /// The schedule.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Whether it may run on the simulated device only.
    pub fn is_simulation_only(&self) -> bool {
        self.simulation_only
    }
}

/// What makes a schedule malformed, in order.
fn malformed(schedule: &Schedule) -> Vec<Hazard> {
    let hazard = |at, region, text| {
        let kind = HazardKind::Malformed;
        Hazard { kind, at, earlier: None, region, text }
    };
    let mut hazards = Vec::new();
    let mut names = HashSet::new();
    for buffer in &schedule.buffers {
        if !names.insert(buffer.name.as_str()) {
            hazards.push(hazard(None, None, format!("two buffers are named {}", buffer.name)));
        }
    }
    for (index, op) in schedule.ops.iter().enumerate() {
        for (region, reason) in op_faults(schedule, op) {
            let text = format!("{}: {reason}", schedule.op_name(index));
            hazards.push(hazard(Some(index), region, text));
        }
    }
    hazards
}

fn op_faults(schedule: &Schedule, op: &Op) -> Vec<(Option<Region>, String)> {
    let mut faults = Vec::new();
    if let Some(stream) = op.stream()
        && stream.0 as usize >= schedule.streams.len()
    {
        faults.push((None, format!("there is no {}", schedule.stream_name(stream))));
    }
    let event = match op.action {
        Action::Record { event, .. } | Action::Wait { event, .. } | Action::HostWait { event } => Some(event),
        _ => None,
    };
    if let Some(event) = event
        && event.0 as usize >= schedule.events.len()
    {
        faults.push((None, format!("there is no {}", schedule.event_name(event))));
    }
    let mut expect = |region: &Region, fits: fn(Space) -> bool, what: &str| {
        let name = schedule.region_name(region);
        let Some(buffer) = schedule.buffers.get(region.buffer.0 as usize) else {
            faults.push((Some(*region), format!("there is no {name}")));
            return;
        };
        if region.offset.checked_add(region.bytes).is_none_or(|end| end > buffer.bytes) {
            faults.push((Some(*region), format!("{name} lies outside its {} bytes", buffer.bytes)));
        }
        if !fits(buffer.space) {
            faults.push((Some(*region), format!("{name} is {:?} memory, not {what}", buffer.space)));
        }
    };
    match &op.action {
        Action::Upload { src, dst, .. } => {
            expect(src, is_upload_source, "a source of uploads");
            expect(dst, Space::is_device, "device memory");
        }
        Action::Download { src, dst, .. } => {
            expect(src, Space::is_device, "device memory");
            expect(dst, is_download_target, "a target of downloads");
        }
        Action::Fill { dst, .. } => expect(dst, Space::is_device, "device memory"),
        Action::Launch { .. } => op.reads().iter().for_each(|r| expect(r, Space::is_device, "device memory")),
        Action::HostStep { reads, writes, .. } => {
            reads.iter().chain(writes).for_each(|region| expect(region, is_host, "host memory"));
        }
        Action::Record { .. } | Action::Wait { .. } | Action::HostWait { .. } => {}
    }
    if let Action::Upload { src, dst, .. } | Action::Download { src, dst, .. } = &op.action
        && src.bytes != dst.bytes
    {
        let (from, to) = (schedule.region_name(src), schedule.region_name(dst));
        let (src_bytes, dst_bytes) = (src.bytes, dst.bytes);
        faults.push((Some(*dst), format!("{from} has {src_bytes} bytes and {to} has {dst_bytes}")));
    }
    if matches!(op.action, Action::Launch { .. } | Action::HostStep { .. }) {
        for (i, (region, writes)) in declared(op).iter().enumerate() {
            for (other, other_writes) in &declared(op)[i + 1..] {
                if (*writes || *other_writes) && region.overlaps(other) {
                    let names = (schedule.region_name(region), schedule.region_name(other));
                    let reason = format!("{} and {} overlap, and one is written", names.0, names.1);
                    faults.push((Some(*region), reason));
                }
            }
        }
    }
    faults
}

fn is_host(space: Space) -> bool {
    !space.is_device()
}

fn is_upload_source(space: Space) -> bool {
    matches!(space, Space::PinnedUpload | Space::Pageable)
}

fn is_download_target(space: Space) -> bool {
    matches!(space, Space::PinnedDownload | Space::Pageable)
}

/// Regions that an operation declares, each with whether it writes there.
fn declared(op: &Op) -> Vec<(Region, bool)> {
    let (mut reads, writes) = (op.reads(), op.writes());
    if let Action::Launch { launch, .. } = &op.action {
        // `reads` counts what a kernel writes as read too; here it is one access, and a write conflicts with
        // everything.
        let read = |arg: &Arg| if let Arg::Read(region) = arg { Some(*region) } else { None };
        reads = launch.args.iter().filter_map(read).collect();
    }
    let mut all: Vec<_> = reads.into_iter().map(|region| (region, false)).collect();
    all.extend(writes.into_iter().map(|region| (region, true)));
    all
}

/// Agent number of the host; stream s is agent s + 1.
const HOST: usize = 0;

/// For each agent, how much of the list is known to have executed on it: everything of it before that
/// position.
#[derive(Debug, Clone)]
struct Clock(Vec<u32>);

impl Clock {
    fn join(&mut self, other: &Clock) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
    }

    /// Whether joining `other` would change nothing.
    fn has_seen(&self, other: &Clock) -> bool {
        self.0.iter().zip(&other.0).all(|(mine, theirs)| mine >= theirs)
    }

    /// Whether an access has ended by now.
    fn is_after(&self, access: Access) -> bool {
        self.0[access.agent as usize] > access.op
    }
}

/// An access by the operation at a position, as part of an agent's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Access {
    agent: u32,
    op: u32,
}

/// What is known of a range of bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Cell {
    is_written: bool,
    /// Writes that no later write is ordered after. At most one an agent, and one in all where there is no
    /// race.
    writers: Vec<Access>,
    /// Reads since, that neither a later write nor a later read is ordered after. At most one an agent.
    readers: Vec<Access>,
    /// Download that brought what is there now.
    result: Option<u32>,
    /// Operations on the host that have read that result, one of each name.
    collectors: Vec<u32>,
}

impl Cell {
    /// Notes a read that starts when `clock` has executed; `found` is told of each fault and of the earlier
    /// operation.
    fn read(
        &mut self,
        access: Access,
        clock: &Clock,
        ops: &[Op],
        mut found: impl FnMut(HazardKind, Option<u32>),
    ) {
        if !self.is_written {
            found(HazardKind::Uninitialised, None);
        }
        let on_host = access.agent as usize == HOST;
        let race = if on_host { HazardKind::ReadTooEarly } else { HazardKind::ReadAfterWrite };
        for writer in self.writers.iter().filter(|writer| !clock.is_after(**writer)) {
            found(race, Some(writer.op));
        }
        self.readers.retain(|reader| !clock.is_after(*reader) && reader.op != access.op);
        self.readers.push(access);
        if on_host && self.result.is_some() {
            self.collect(access.op, ops, found);
        }
    }

    /// Notes that an operation on the host reads the result.
    fn collect(&mut self, op: u32, ops: &[Op], mut found: impl FnMut(HazardKind, Option<u32>)) {
        let name = |op: u32| &ops[op as usize].name;
        match self.collectors.iter().find(|collector| name(**collector) == name(op)) {
            None => self.collectors.push(op),
            // An upload passes results on, it does not count them; and a step may be shown the same bytes
            // twice.
            Some(first) if *first == op || !matches!(ops[op as usize].action, Action::HostStep { .. }) => {}
            Some(first) => found(HazardKind::CollectedTwice, Some(*first)),
        }
    }

    /// Notes a write that starts when `clock` has executed; `found` as for reads.
    fn write(
        &mut self,
        access: Access,
        clock: &Clock,
        ops: &[Op],
        mut found: impl FnMut(HazardKind, Option<u32>),
    ) {
        let on_host = access.agent as usize == HOST;
        let race = if on_host { HazardKind::SourceOverwritten } else { HazardKind::WriteAfterRead };
        for reader in self.readers.iter().filter(|reader| !clock.is_after(**reader)) {
            found(race, Some(reader.op));
        }
        for writer in self.writers.iter().filter(|writer| !clock.is_after(**writer)) {
            found(HazardKind::WriteAfterWrite, Some(writer.op));
        }
        // What is ordered before this write is covered by it: whatever is ordered after this one is ordered
        // after that too.
        self.readers.retain(|reader| !clock.is_after(*reader));
        self.writers.retain(|writer| !clock.is_after(*writer));
        self.writers.push(access);
        if let (Some(download), true) = (self.result, self.collectors.is_empty()) {
            found(HazardKind::Uncollected, Some(download));
        }
        let is_result = matches!(ops[access.op as usize].action, Action::Download { .. });
        self.result = is_result.then_some(access.op);
        self.collectors.clear();
        self.is_written = true;
    }
}

/// A fault as the cells find it.
#[derive(Debug)]
struct Fault {
    earlier: Option<u32>,
    kind: HazardKind,
    bytes: Region,
}

/// The cells of a buffer: disjoint, ascending by first byte, together the whole buffer.
#[derive(Debug)]
struct Cells(BTreeMap<u64, (u64, Cell)>);

impl Cells {
    fn new(bytes: u64, is_written: bool) -> Self {
        let cell = Cell { is_written, ..Cell::default() };
        Self(if bytes > 0 { BTreeMap::from([(0, (bytes, cell))]) } else { BTreeMap::new() })
    }

    /// Makes `at` a border between two cells.
    fn split(&mut self, at: u64) {
        if let Some((_, (end, cell))) = self.0.range_mut(..at).next_back()
            && *end > at
        {
            let upper = (std::mem::replace(end, at), cell.clone());
            self.0.insert(at, upper);
        }
    }

    /// Visits the cells of a range with their first and end byte, then joins neighbours that have become
    /// equal.
    fn visit(&mut self, start: u64, end: u64, mut visit: impl FnMut(u64, u64, &mut Cell)) {
        if start == end {
            return;
        }
        self.split(start);
        self.split(end);
        self.0.range_mut(start..end).for_each(|(first, (end, cell))| visit(*first, *end, cell));
        let first = self.0.range(..start).next_back().map_or(start, |(key, _)| *key);
        let keys: Vec<u64> = self.0.range(first..=end).map(|(key, _)| *key).collect();
        let mut kept = first;
        for key in keys.into_iter().skip(1) {
            if self.0[&kept].1 == self.0[&key].1 {
                let (upper_end, _) =
                    self.0.remove(&key).expect("the key was listed and each is removed once");
                self.0.get_mut(&kept).expect("kept keys are not removed").0 = upper_end;
            } else {
                kept = key;
            }
        }
    }
}

struct Checker<'a> {
    schedule: &'a Schedule,
    /// What has executed before the host's next call.
    host: Clock,
    /// What has executed before the next operation that is queued on each stream, apart from what the host
    /// adds at issue.
    streams: Vec<Clock>,
    /// What has executed when each event's last mark is reached.
    events: Vec<Option<Clock>>,
    memory: Vec<Cells>,
    hazards: Vec<Hazard>,
    surplus: Vec<Surplus>,
    /// Downloads that were reported as uncollected.
    uncollected: HashSet<usize>,
}

impl<'a> Checker<'a> {
    fn new(schedule: &'a Schedule) -> Self {
        let clock = Clock(vec![0; schedule.streams.len() + 1]);
        let memory = schedule.buffers.iter().map(|buffer| {
            // What the caller binds is theirs to have filled. All else is filled by the schedule or by
            // nobody.
            Cells::new(buffer.bytes, buffer.space == Space::Resident)
        });
        Self {
            schedule,
            host: clock.clone(),
            streams: vec![clock; schedule.streams.len()],
            events: vec![None; schedule.events.len()],
            memory: memory.collect(),
            hazards: Vec::new(),
            surplus: Vec::new(),
            uncollected: HashSet::new(),
        }
    }

    fn step(&mut self, index: usize, op: &Op) {
        self.host.0[HOST] = index as u32;
        match &op.action {
            Action::HostWait { event } => self.host_wait(index, event.0 as usize),
            Action::HostStep { .. } => {
                let clock = self.host.clone();
                let accesses =
                    declared(op).into_iter().map(|(region, writes)| (HOST, region, writes)).collect();
                self.access(index, &clock, accesses);
            }
            _ => {
                let stream = op.stream().expect("all other operations are queued on a stream");
                self.queued(index, op, stream.0 as usize);
            }
        }
    }

    fn host_wait(&mut self, index: usize, event: usize) {
        match &self.events[event] {
            None => self.never_recorded(index),
            Some(mark) if self.host.has_seen(mark) => self.orders_nothing(index),
            Some(mark) => self.host.join(mark),
        }
    }

    fn queued(&mut self, index: usize, op: &Op, stream: usize) {
        self.streams[stream].join(&self.host);
        match &op.action {
            Action::Record { event, .. } => {
                self.events[event.0 as usize] = Some(self.streams[stream].clone());
            }
            Action::Wait { event, .. } => match &self.events[event.0 as usize] {
                None => self.never_recorded(index),
                Some(mark) if self.streams[stream].has_seen(mark) => self.orders_nothing(index),
                Some(mark) => self.streams[stream].join(mark),
            },
            // The runner passes over it, so it blocks and marks nothing either.
            Action::Upload { dst, .. } | Action::Download { dst, .. } if dst.bytes == 0 => {}
            _ => self.executed(index, op, stream),
        }
    }

    /// Accesses of a copy, fill or launch, and what is ordered by its having executed.
    fn executed(&mut self, index: usize, op: &Op, stream: usize) {
        let mut clock = self.streams[stream].clone();
        let mut accesses: Vec<_> =
            declared(op).into_iter().map(|(region, writes)| (stream + 1, region, writes)).collect();
        if let Action::Upload { src, .. } = &op.action
            && self.space(src) == Space::Pageable
        {
            let host = self.host.clone();
            let at_issue = accesses.remove(0);
            self.access(index, &host, vec![(HOST, at_issue.1, false)]);
            clock.0[HOST] = index as u32 + 1;
        }
        self.access(index, &clock, accesses);
        clock.0[stream + 1] = index as u32 + 1;
        if let Action::Download { dst, .. } = &op.action
            && self.space(dst) == Space::Pageable
        {
            self.host.join(&clock);
        }
        self.streams[stream] = clock;
    }

    fn space(&self, region: &Region) -> Space {
        self.schedule.buffers[region.buffer.0 as usize].space
    }

    /// Notes accesses (agent, region, writes) of one operation that starts when `clock` has executed.
    fn access(&mut self, index: usize, clock: &Clock, accesses: Vec<(usize, Region, bool)>) {
        let ops = &self.schedule.ops;
        let mut faults = Vec::new();
        for (agent, region, writes) in accesses {
            let access = Access { agent: agent as u32, op: index as u32 };
            self.memory[region.buffer.0 as usize].visit(region.offset, region.end(), |start, end, cell| {
                let bytes = Region { buffer: region.buffer, offset: start, bytes: end - start };
                let found = |kind, earlier| faults.push(Fault { earlier, kind, bytes });
                if writes {
                    cell.write(access, clock, ops, found)
                } else {
                    cell.read(access, clock, ops, found)
                }
            });
        }
        faults.sort_by_key(|fault| (fault.earlier, fault.kind, fault.bytes.buffer, fault.bytes.offset));
        // One hazard for a pair of operations, or for a buffer where there is no pair.
        faults.dedup_by_key(|Fault { earlier, kind, bytes }| {
            (*earlier, *kind, if earlier.is_none() { Some(bytes.buffer) } else { None })
        });
        for fault in faults {
            self.report(index, fault);
        }
    }

    fn report(&mut self, at: usize, fault: Fault) {
        let schedule = self.schedule;
        let (kind, mut bytes) = (fault.kind, fault.bytes);
        let (name, target) = (schedule.op_name(at), schedule.region_name(&bytes));
        let Some(earlier) = fault.earlier.map(|op| op as usize) else {
            let text = format!("{name} reads {target}, which nothing has written");
            return self.hazards.push(Hazard {
                kind,
                at: Some(at),
                earlier: None,
                region: Some(bytes),
                text,
            });
        };
        let text = match kind {
            HazardKind::Uncollected => return self.uncollected(earlier, Some(at), bytes),
            HazardKind::CollectedTwice => {
                let first = schedule.op_name(earlier);
                format!("{name} reads {target} again: {first} has read what the download brought there")
            }
            _ => {
                let is_read = |op| match kind {
                    HazardKind::WriteAfterRead | HazardKind::SourceOverwritten => op == earlier,
                    HazardKind::ReadAfterWrite | HazardKind::ReadTooEarly => op == at,
                    _ => false,
                };
                let part = |op: usize| {
                    let mut all = declared(&schedule.ops[op]).into_iter();
                    let (own, writes) = all
                        .find(|(own, writes)| *writes != is_read(op) && own.overlaps(&bytes))
                        .expect("an access that races is declared");
                    let verb = if writes { "writes" } else { "reads" };
                    (own, format!("{} ({verb} {})", schedule.op_name(op), schedule.region_name(&own)))
                };
                let ((first, first_text), (second, second_text)) = (part(earlier), part(at));
                let (start, end) = (first.offset.max(second.offset), first.end().min(second.end()));
                bytes = Region { buffer: bytes.buffer, offset: start, bytes: end - start };
                let edge = self.missing_edge(earlier, at);
                match kind {
                    HazardKind::ReadTooEarly => {
                        format!("the host has not waited for {first_text} before {second_text}; {edge}")
                    }
                    HazardKind::SourceOverwritten => {
                        format!("{second_text} may overwrite what {first_text} has still to copy; {edge}")
                    }
                    _ => format!("no order between {first_text} and {second_text}; {edge}"),
                }
            }
        };
        self.hazards.push(Hazard { kind, at: Some(at), earlier: Some(earlier), region: Some(bytes), text });
    }

    fn missing_edge(&self, earlier: usize, later: usize) -> String {
        let stream =
            |op: usize| self.schedule.ops[op].stream().map(|stream| self.schedule.stream_name(stream));
        let from = stream(earlier).expect("the host's earlier operations are ordered before everything");
        let waits = match stream(later) {
            Some(to) => format!("{to} waits"),
            None => "the host waits".into(),
        };
        format!("missing: an event recorded on {from} after #{earlier}, for which {waits} before #{later}")
    }

    fn uncollected(&mut self, download: usize, at: Option<usize>, region: Region) {
        if !self.uncollected.insert(download) {
            return;
        }
        let until = match at {
            Some(index) => format!("before {} overwrites it", self.schedule.op_name(index)),
            None => "before the schedule ends".into(),
        };
        let (name, target) = (self.schedule.op_name(download), self.schedule.region_name(&region));
        let text = format!("nothing reads what {name} brings to {target} {until}");
        let kind = HazardKind::Uncollected;
        self.hazards.push(Hazard { kind, at, earlier: Some(download), region: Some(region), text });
    }

    fn never_recorded(&mut self, index: usize) {
        let text = format!(
            "{} waits for event {}, which nothing before it records",
            self.schedule.op_name(index),
            self.waited_event(index)
        );
        let kind = HazardKind::NeverRecorded;
        self.hazards.push(Hazard { kind, at: Some(index), earlier: None, region: None, text });
    }

    fn orders_nothing(&mut self, index: usize) {
        let text = format!(
            "{} waits for event {}, which orders nothing new",
            self.schedule.op_name(index),
            self.waited_event(index)
        );
        self.surplus.push(Surplus { at: index, text });
    }

    fn waited_event(&self, index: usize) -> String {
        match self.schedule.ops[index].action {
            Action::Wait { event, .. } | Action::HostWait { event } => self.schedule.event_name(event).into(),
            _ => unreachable!("called for waits"),
        }
    }

    fn finish(mut self) -> Report {
        let mut left = Vec::new();
        for (number, cells) in self.memory.iter().enumerate() {
            for (start, (end, cell)) in &cells.0 {
                if let (Some(download), true) = (cell.result, cell.collectors.is_empty()) {
                    let buffer = BufferId(number as u32);
                    left.push((download, Region { buffer, offset: *start, bytes: end - start }));
                }
            }
        }
        left.sort_by_key(|(download, region)| (*download, region.offset));
        for (download, region) in left {
            self.uncollected(download as usize, None, region);
        }
        Report { hazards: self.hazards, surplus: self.surplus }
    }
}
