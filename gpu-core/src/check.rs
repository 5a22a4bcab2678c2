//! The checker: is every pair of accesses to the same bytes ordered, and is every result collected once?
//!
//! Pure: it looks at a [`Schedule`] and at no device. The agents are the host threads, each in program order,
//! and the streams. Order between them is kept in vector clocks, by these rules:
//!
//! * an operation on a stream starts after its host thread has issued it, so after every earlier host step
//!   and host wait of that thread;
//! * operations on one stream run one after another, in the order of issue;
//! * what follows an [`Await`](Action::Await) comes after what precedes the flag's
//!   [`Signal`](Action::Signal), and nothing else orders two host threads;
//! * a [`Wait`](Action::Wait) or [`HostWait`](Action::HostWait) is bound to the event's last
//!   [`Record`](Action::Record) before it, as CUDA binds it at the call; recording the event again later
//!   changes nothing for it;
//! * an upload from pageable memory reads its source on the host at its issue, one from pinned memory when it
//!   executes;
//! * a download to pageable memory blocks the host until it has executed, with all that its stream had queued
//!   before it;
//! * a copy of no bytes does nothing, and so orders nothing.
//!
//! Nothing is taken for ordered because it would usually take longer. Operations are looked at in an order in
//! which the host threads can issue them: that of the list, where the list is one. Every edge points forward
//! in it, so two operations race exactly if the earlier is not ordered before the later. Where order between
//! host threads decides which mark a wait is bound to, or what comes first on a stream, it has to be there:
//! its lack is a hazard of its own, and then what else is reported holds for one of the possible orders.

use crate::error::GpuError;
use crate::schedule::{Action, Arg, BufferId, MAIN, Op, Region, Schedule, Space};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet, VecDeque};
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
    /// Two host threads record an event, or one records and one waits for it, in no order: which mark the
    /// wait is bound to is left to chance.
    UnorderedMark,
    /// Two host threads issue operations on one stream in no order: which runs first is left to chance.
    UnorderedIssue,
    /// Awaits a flag that nothing signals: the host thread never goes on.
    NeverSignalled,
    /// Signals a flag that was signalled before.
    SignalledTwice,
    /// Host threads wait for each other in a circle.
    Deadlock,
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
    let issue = issue_order(schedule);
    let mut checker = Checker::new(schedule);
    issue.circles.iter().for_each(|circle| checker.deadlock(circle));
    for (rank, index) in issue.order.into_iter().enumerate() {
        checker.step(rank, index, &schedule.ops[index]);
    }
    checker.finish()
}

/// An order in which the host threads can issue their operations.
#[derive(Debug)]
pub(crate) struct Issue {
    /// All positions of the list: of those that can come next, always the first. So the list itself, where it
    /// is such an order.
    pub(crate) order: Vec<usize>,
    /// For each wait, the record or the signal that it waits for, if there is one before it.
    pub(crate) awaited: Vec<Option<usize>>,
    /// Positions of awaits that wait for each other. The first of each was then let pass.
    circles: Vec<Vec<usize>>,
}

/// Finds the order of issue of a schedule that is not malformed.
pub(crate) fn issue_order(schedule: &Schedule) -> Issue {
    let ops = &schedule.ops;
    let mut queues = vec![VecDeque::new(); schedule.threads.len()];
    // The first signal of each flag, in the list and in the order of issue.
    let mut signals = vec![None; schedule.flags.len()];
    let mut signalled = vec![None; schedule.flags.len()];
    for (index, op) in ops.iter().enumerate() {
        queues[op.thread.0 as usize].push_back(index);
        if let Action::Signal { flag } = op.action {
            signals[flag.0 as usize].get_or_insert(index);
        }
    }
    let mut last_record = vec![None; schedule.events.len()];
    let (order, awaited) = (Vec::with_capacity(ops.len()), vec![None; ops.len()]);
    let mut issue = Issue { order, awaited, circles: Vec::new() };
    while issue.order.len() < ops.len() {
        let heads = || queues.iter().filter_map(|queue| queue.front().copied());
        // A signal that an operation is held up for, if there is one.
        let held_for = |op: usize| match ops[op].action {
            Action::Await { flag } if signalled[flag.0 as usize].is_none() => signals[flag.0 as usize],
            _ => None,
        };
        let next = heads().filter(|op| held_for(*op).is_none()).min().unwrap_or_else(|| {
            let circle = circle(heads().min().expect("an operation is left"), |op| {
                let signal = held_for(op).expect("every thread waits");
                *queues[ops[signal].thread.0 as usize].front().expect("its signal is left")
            });
            let first = *circle.iter().min().expect("a circle has a member");
            issue.circles.push(circle);
            first
        });
        match ops[next].action {
            Action::Record { event, .. } => last_record[event.0 as usize] = Some(next),
            Action::Wait { event, .. } | Action::HostWait { event } => {
                issue.awaited[next] = last_record[event.0 as usize];
            }
            Action::Signal { flag } => {
                signalled[flag.0 as usize].get_or_insert(next);
            }
            Action::Await { flag } => issue.awaited[next] = signalled[flag.0 as usize],
            _ => {}
        }
        queues[ops[next].thread.0 as usize].pop_front();
        issue.order.push(next);
    }
    issue
}

/// The circle that is reached from `start` in the end.
fn circle(start: usize, next: impl Fn(usize) -> usize) -> Vec<usize> {
    let mut path = vec![start];
    loop {
        let op = next(path[path.len() - 1]);
        match path.iter().position(|seen| *seen == op) {
            Some(first) => return path.split_off(first),
            None => path.push(op),
        }
    }
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
        let _span = tracing::info_span!("check schedule", schedule = schedule.name, ops = schedule.ops.len())
            .entered();
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
    if op.thread.0 as usize >= schedule.threads.len() {
        faults.push((None, format!("there is no {}", schedule.thread_name(op.thread))));
    }
    if let Action::Signal { flag } | Action::Await { flag } = op.action
        && flag.0 as usize >= schedule.flags.len()
    {
        faults.push((None, format!("there is no {}", schedule.flag_name(flag))));
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
            reads.iter().for_each(|region| expect(region, is_host, "host memory"));
            writes.iter().for_each(|region| expect(region, is_own_host, "host memory of the schedule"));
        }
        Action::Record { .. }
        | Action::Wait { .. }
        | Action::HostWait { .. }
        | Action::Signal { .. }
        | Action::Await { .. } => {}
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

fn is_own_host(space: Space) -> bool {
    is_host(space) && !space.is_bound()
}

fn is_upload_source(space: Space) -> bool {
    matches!(space, Space::PinnedUpload | Space::Registered | Space::Pageable)
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

/// For each agent, how much of the order of issue is known to have executed on it: everything of it before
/// that rank. Agents are the host threads, then the streams.
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
        self.0[access.agent as usize] > access.rank
    }
}

/// An access by an operation, as part of an agent's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Access {
    /// Agent that executes it.
    agent: u32,
    /// Whether that is a host thread.
    on_host: bool,
    /// Where the operation comes in the order of issue.
    rank: u32,
    /// Its position in the list.
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
        for writer in self.writers.iter().filter(|writer| !clock.is_after(**writer)) {
            let is_early = access.on_host && !writer.on_host;
            let race = if is_early { HazardKind::ReadTooEarly } else { HazardKind::ReadAfterWrite };
            found(race, Some(writer.op));
        }
        self.readers.retain(|reader| !clock.is_after(*reader) && reader.op != access.op);
        self.readers.push(access);
        if access.on_host && self.result.is_some() {
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
        for reader in self.readers.iter().filter(|reader| !clock.is_after(**reader)) {
            let is_source = access.on_host && !reader.on_host;
            let race = if is_source { HazardKind::SourceOverwritten } else { HazardKind::WriteAfterRead };
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

/// A mark of an event.
#[derive(Debug)]
struct Mark {
    /// The call that records it.
    record: Access,
    /// What has executed when it is reached.
    reached: Clock,
}

/// What is known of an event: to record it is to write it, and to wait for it is to read it, when the host
/// thread gets there.
#[derive(Debug, Default)]
struct EventCell {
    mark: Option<Mark>,
    /// Waits since the mark was recorded, the last of each thread.
    waits: Vec<Access>,
}

struct Checker<'a> {
    schedule: &'a Schedule,
    /// What has executed before each host thread's next call.
    hosts: Vec<Clock>,
    /// What has executed before the next operation that is queued on each stream, apart from what the host
    /// adds at issue.
    streams: Vec<Clock>,
    /// The last call that queued something on each stream.
    issued: Vec<Option<Access>>,
    events: Vec<EventCell>,
    /// What has executed when each flag is signalled, and the signal.
    flags: Vec<Option<(Clock, usize)>>,
    memory: Vec<Cells>,
    hazards: Vec<Hazard>,
    surplus: Vec<Surplus>,
    /// Downloads that were reported as uncollected.
    uncollected: HashSet<usize>,
    /// Awaits that were let pass, since they wait in a circle.
    let_pass: HashSet<usize>,
}

impl<'a> Checker<'a> {
    fn new(schedule: &'a Schedule) -> Self {
        let clock = Clock(vec![0; schedule.threads.len() + schedule.streams.len()]);
        let memory = schedule.buffers.iter().map(|buffer| {
            // What the caller binds is theirs to have filled. All else is filled by the schedule or by
            // nobody.
            Cells::new(buffer.bytes, buffer.space.is_bound())
        });
        Self {
            schedule,
            hosts: vec![clock.clone(); schedule.threads.len()],
            streams: vec![clock; schedule.streams.len()],
            issued: vec![None; schedule.streams.len()],
            events: schedule.events.iter().map(|_| EventCell::default()).collect(),
            flags: vec![None; schedule.flags.len()],
            memory: memory.collect(),
            hazards: Vec::new(),
            surplus: Vec::new(),
            uncollected: HashSet::new(),
            let_pass: HashSet::new(),
        }
    }

    fn step(&mut self, rank: usize, index: usize, op: &Op) {
        let thread = op.thread.0 as usize;
        self.hosts[thread].0[thread] = rank as u32;
        let call = Access { agent: thread as u32, on_host: true, rank: rank as u32, op: index as u32 };
        match &op.action {
            Action::HostWait { event } => {
                if let Some(reached) = self.bound_mark(call, event.0 as usize) {
                    match self.hosts[thread].has_seen(&reached) {
                        true => self.orders_nothing(index),
                        false => self.hosts[thread].join(&reached),
                    }
                }
            }
            Action::HostStep { .. } => {
                let clock = self.hosts[thread].clone();
                let accesses = declared(op).into_iter().map(|(region, writes)| (call, region, writes));
                self.access(index, &clock, accesses.collect());
            }
            Action::Signal { flag } => self.signal(call, flag.0 as usize),
            Action::Await { flag } => self.await_flag(call, flag.0 as usize),
            // The runner passes over it, so it blocks and marks nothing either.
            Action::Upload { dst, .. } | Action::Download { dst, .. } if dst.bytes == 0 => {}
            _ => {
                let stream = op.stream().expect("all other operations are queued on a stream");
                self.queued(call, op, stream.0 as usize);
            }
        }
    }

    fn signal(&mut self, call: Access, flag: usize) {
        let (index, thread) = (call.op as usize, call.agent as usize);
        match &self.flags[flag] {
            Some((_, first)) => {
                let (first, name) = (*first, &self.schedule.flags[flag]);
                let (again, signal) = (self.schedule.op_name(index), self.schedule.op_name(first));
                let text = format!("{again} signals flag {name}, which {signal} has signalled");
                self.hazard(HazardKind::SignalledTwice, index, Some(first), text);
            }
            None => {
                let mut clock = self.hosts[thread].clone();
                clock.0[thread] = call.rank + 1;
                self.flags[flag] = Some((clock, index));
            }
        }
    }

    fn await_flag(&mut self, call: Access, flag: usize) {
        let (index, thread) = (call.op as usize, call.agent as usize);
        match &self.flags[flag] {
            Some((clock, _)) if self.hosts[thread].has_seen(clock) => self.orders_nothing(index),
            Some((clock, _)) => self.hosts[thread].join(clock),
            None if self.let_pass.contains(&index) => {}
            None => {
                let (name, flag) = (self.schedule.op_name(index), &self.schedule.flags[flag]);
                let text = format!("{name} awaits flag {flag}, which nothing signals");
                self.hazard(HazardKind::NeverSignalled, index, None, text);
            }
        }
    }

    /// Reports awaits that wait for each other; each is followed by the one that holds up its signal.
    fn deadlock(&mut self, circle: &[usize]) {
        let schedule = self.schedule;
        let first = *circle.iter().min().expect("a circle has a member");
        let parts: Vec<_> = circle
            .iter()
            .map(|index| {
                let Action::Await { flag } = schedule.ops[*index].action else {
                    unreachable!("only awaits hold a host thread up")
                };
                let signals = |op: &Op| op.action == Action::Signal { flag };
                let signal = schedule.ops.iter().position(signals).expect("it is signalled, too late");
                let (name, flag) = (schedule.op_name(*index), schedule.flag_name(flag));
                format!("{name} awaits {flag} from {}", schedule.op_name(signal))
            })
            .collect();
        let text = format!("host threads wait for each other: {}", parts.join(", "));
        self.let_pass.insert(first);
        self.hazard(HazardKind::Deadlock, first, None, text);
    }

    /// What has executed when the mark that a wait is bound to is reached, if order decides which that is.
    fn bound_mark(&mut self, call: Access, event: usize) -> Option<Clock> {
        let host = &self.hosts[call.agent as usize];
        let cell = &mut self.events[event];
        cell.waits.retain(|wait| wait.agent != call.agent);
        cell.waits.push(call);
        match &cell.mark {
            None => {
                self.never_recorded(call.op as usize);
                None
            }
            Some(mark) if !host.is_after(mark.record) => {
                let record = mark.record;
                self.unordered_mark(record, call, event);
                None
            }
            Some(mark) => Some(mark.reached.clone()),
        }
    }

    fn queued(&mut self, call: Access, op: &Op, stream: usize) {
        let thread = call.agent as usize;
        if let Some(last) = self.issued[stream].replace(call)
            && !self.hosts[thread].is_after(last)
        {
            self.unordered_issue(last, call, stream);
        }
        self.streams[stream].join(&self.hosts[thread]);
        match &op.action {
            Action::Record { event, .. } => self.record(call, stream, event.0 as usize),
            Action::Wait { event, .. } => {
                if let Some(reached) = self.bound_mark(call, event.0 as usize) {
                    match self.streams[stream].has_seen(&reached) {
                        true => self.orders_nothing(call.op as usize),
                        false => self.streams[stream].join(&reached),
                    }
                }
            }
            _ => self.executed(call, op, stream),
        }
    }

    fn record(&mut self, call: Access, stream: usize, event: usize) {
        let host = &self.hosts[call.agent as usize];
        let cell = &mut self.events[event];
        let calls = cell.mark.iter().map(|mark| mark.record).chain(cell.waits.drain(..));
        let unordered: Vec<_> = calls.filter(|earlier| !host.is_after(*earlier)).collect();
        cell.mark = Some(Mark { record: call, reached: self.streams[stream].clone() });
        unordered.into_iter().for_each(|earlier| self.unordered_mark(earlier, call, event));
    }

    /// Accesses of a copy, fill or launch, and what is ordered by its having executed.
    fn executed(&mut self, call: Access, op: &Op, stream: usize) {
        let (index, thread) = (call.op as usize, call.agent as usize);
        let agent = self.hosts.len() + stream;
        let on_stream = Access { agent: agent as u32, on_host: false, ..call };
        let mut clock = self.streams[stream].clone();
        let mut accesses: Vec<_> =
            declared(op).into_iter().map(|(region, writes)| (on_stream, region, writes)).collect();
        if let Action::Upload { src, .. } = &op.action
            && self.space(src) == Space::Pageable
        {
            let host = self.hosts[thread].clone();
            let at_issue = accesses.remove(0);
            self.access(index, &host, vec![(call, at_issue.1, false)]);
            clock.0[thread] = call.rank + 1;
        }
        self.access(index, &clock, accesses);
        clock.0[agent] = call.rank + 1;
        if let Action::Download { dst, .. } = &op.action
            && self.space(dst) == Space::Pageable
        {
            self.hosts[thread].join(&clock);
        }
        self.streams[stream] = clock;
    }

    fn space(&self, region: &Region) -> Space {
        self.schedule.buffers[region.buffer.0 as usize].space
    }

    /// Notes accesses (access, region, writes) of one operation that starts when `clock` has executed.
    fn access(&mut self, index: usize, clock: &Clock, accesses: Vec<(Access, Region, bool)>) {
        let ops = &self.schedule.ops;
        let mut faults = Vec::new();
        for (access, region, writes) in accesses {
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
                let edge = match self.is_on_host(earlier, &bytes) {
                    true => self.missing_flag(earlier, at),
                    false => self.missing_event(earlier, at),
                };
                match kind {
                    HazardKind::ReadTooEarly => {
                        let host = self.host_name(at);
                        format!("{host} has not waited for {first_text} before {second_text}; {edge}")
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

    /// Whether an operation's access to these bytes is made by its host thread.
    fn is_on_host(&self, op: usize, bytes: &Region) -> bool {
        match &self.schedule.ops[op].action {
            Action::HostStep { .. } => true,
            Action::Upload { src, .. } => self.space(src) == Space::Pageable && src.overlaps(bytes),
            _ => false,
        }
    }

    /// The host thread of an operation in a sentence.
    fn host_name(&self, op: usize) -> Cow<'_, str> {
        match self.schedule.ops[op].thread {
            MAIN => "the host".into(),
            thread => self.schedule.thread_name(thread),
        }
    }

    fn missing_event(&self, earlier: usize, later: usize) -> String {
        let stream =
            |op: usize| self.schedule.ops[op].stream().map(|stream| self.schedule.stream_name(stream));
        let from = stream(earlier).expect("what the host did not do is on a stream");
        let to = stream(later).unwrap_or_else(|| self.host_name(later));
        format!("missing: an event recorded on {from} after #{earlier}, for which {to} waits before #{later}")
    }

    fn missing_flag(&self, earlier: usize, later: usize) -> String {
        let (from, to) = (self.host_name(earlier), self.host_name(later));
        format!("missing: a flag that {from} signals after #{earlier} and {to} awaits before #{later}")
    }

    fn unordered_mark(&mut self, earlier: Access, later: Access, event: usize) {
        let (first, second) = (earlier.op as usize, later.op as usize);
        let text = format!(
            "no order between {} and {}, and so no telling which mark of event {} is waited for; {}",
            self.schedule.op_name(first),
            self.schedule.op_name(second),
            self.schedule.events[event],
            self.missing_flag(first, second)
        );
        self.hazard(HazardKind::UnorderedMark, second, Some(first), text);
    }

    fn unordered_issue(&mut self, earlier: Access, later: Access, stream: usize) {
        let (first, second) = (earlier.op as usize, later.op as usize);
        let text = format!(
            "no order between {} and {}, and so no telling which comes first on {}; {}",
            self.schedule.op_name(first),
            self.schedule.op_name(second),
            self.schedule.streams[stream],
            self.missing_flag(first, second)
        );
        self.hazard(HazardKind::UnorderedIssue, second, Some(first), text);
    }

    /// Notes a hazard that is about no bytes.
    fn hazard(&mut self, kind: HazardKind, at: usize, earlier: Option<usize>, text: String) {
        self.hazards.push(Hazard { kind, at: Some(at), earlier, region: None, text });
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
        let (name, event) = (self.schedule.op_name(index), self.waited_for(index));
        let text = format!("{name} waits for {event}, which nothing before it records");
        self.hazard(HazardKind::NeverRecorded, index, None, text);
    }

    fn orders_nothing(&mut self, index: usize) {
        let (name, awaited) = (self.schedule.op_name(index), self.waited_for(index));
        self.surplus.push(Surplus {
            at: index,
            text: format!("{name} waits for {awaited}, which orders nothing new"),
        });
    }

    fn waited_for(&self, index: usize) -> String {
        match self.schedule.ops[index].action {
            Action::Wait { event, .. } | Action::HostWait { event } => {
                format!("event {}", self.schedule.event_name(event))
            }
            Action::Await { flag } => format!("flag {}", self.schedule.flag_name(flag)),
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
