//! What brute force says of a small schedule, for comparison with the checker.
//!
//! The executor below knows nothing of clocks. It has host threads that issue their parts of the list in
//! order, and streams that are queues. Its state is how far each of them is; a step lets a host thread issue
//! its next operation, or a stream execute the head of its queue, where flags and the rules of CUDA allow it.
//! An access happens as its operation executes (the read of a pageable upload, as it is issued). Two accesses
//! to a byte, one a write, *race* if some reachable state has the later one done and the earlier one not, by
//! one order in which everything can be issued. The other order is always possible, since that one is legal:
//! so this says the same as "two legal orders of execution disagree about them". All reachable states are
//! visited, and so all legal interleavings.
//!
//! That is so where the order of calls of two host threads decides neither which mark a wait is bound to, nor
//! what comes first on a stream. Where it does, the comparison ends with that: the checker has to say so.
//!
//! What is not about order (bytes never written, results collected never or twice) is compared with a replay
//! of the list byte by byte.
use gpu_core::check::{Hazard, HazardKind, check};
use gpu_core::schedule::{Action, Arg, BufferId, FlagId, Op, Region, Schedule, Space, StreamId, ThreadId};
use std::collections::{BTreeSet, HashSet};

/// Bytes of every buffer.
pub const BYTES: u64 = 4;
/// One buffer of each kind; regions are drawn from all of them.
pub const SPACES: [Space; 6] = [
    Space::Device,
    Space::Device,
    Space::Resident,
    Space::PinnedUpload,
    Space::PinnedDownload,
    Space::Pageable,
];
pub const DEVICE: [u32; 3] = [0, 1, 2];
pub const UPLOAD_SOURCES: [u32; 2] = [3, 5];
pub const DOWNLOAD_TARGETS: [u32; 2] = [4, 5];
pub const HOST: [u32; 3] = [3, 4, 5];
pub const STREAMS: u32 = 3;
pub const EVENTS: u32 = 3;
pub const FLAGS: u32 = 2;
pub const THREADS: u32 = 2;

/// An access to one byte: buffer, byte, whether it writes, whether it happens as the host issues the
/// operation.
type Touch = (u32, u64, bool, bool);

/// Pairs of positions: the earlier one, the later one.
type Pairs = BTreeSet<(usize, usize)>;

/// A schedule of these operations, over one buffer of each kind.
pub fn with_ops(ops: Vec<Op>) -> Schedule {
    let mut schedule = Schedule::new("random");
    for (i, space) in SPACES.into_iter().enumerate() {
        schedule.buffer(format!("{space:?}[{i}]"), space, BYTES);
    }
    for i in 0..STREAMS {
        schedule.stream(format!("stream {i}"));
    }
    for i in 0..EVENTS {
        schedule.event(format!("event {i}"));
    }
    for i in 1..THREADS {
        schedule.thread(format!("thread {i}"));
    }
    for i in 0..FLAGS {
        schedule.flag(format!("flag {i}"));
    }
    schedule.ops = ops;
    schedule
}

fn space(region: &Region) -> Space {
    SPACES[region.buffer.0 as usize]
}

/// Everything that an operation touches, byte by byte.
fn touches(op: &Op) -> Vec<Touch> {
    let bytes = |region: &Region, writes: bool, at_issue: bool| {
        let buffer = region.buffer.0;
        (region.offset..region.offset + region.bytes)
            .map(|byte| (buffer, byte, writes, at_issue))
            .collect::<Vec<_>>()
    };
    match &op.action {
        Action::Upload { src, dst, .. } => {
            [bytes(src, false, space(src) == Space::Pageable), bytes(dst, true, false)].concat()
        }
        Action::Download { src, dst, .. } => [bytes(src, false, false), bytes(dst, true, false)].concat(),
        Action::Fill { dst, .. } => bytes(dst, true, false),
        Action::Launch { launch, .. } => {
            let touch = |arg: &Arg| match arg {
                Arg::Read(region) => bytes(region, false, false),
                Arg::Write(region) => bytes(region, true, false),
                Arg::U32(_) | Arg::U64(_) => vec![],
            };
            launch.args.iter().flat_map(touch).collect()
        }
        Action::HostStep { reads, writes, .. } => {
            let read = reads.iter().flat_map(|region| bytes(region, false, true));
            read.chain(writes.iter().flat_map(|region| bytes(region, true, true))).collect()
        }
        Action::Record { .. }
        | Action::Wait { .. }
        | Action::HostWait { .. }
        | Action::Signal { .. }
        | Action::Await { .. } => vec![],
    }
}

/// How far each host thread and each stream are.
#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    issued: Vec<usize>,
    executed: Vec<usize>,
}

struct Executor<'a> {
    ops: &'a [Op],
    /// Operations of each host thread, in order.
    threads: Vec<Vec<usize>>,
    /// All operations in an order in which they can be issued, of those that can come next always the first;
    /// short where host threads wait for each other.
    order: Vec<usize>,
    /// Where each operation is in that order.
    rank: Vec<usize>,
    /// Operations queued on each stream, in order.
    queues: Vec<Vec<usize>>,
    /// For each wait, the record that it waits for; for each await, the signals that end it.
    binding: Vec<Vec<usize>>,
}

impl<'a> Executor<'a> {
    fn new(schedule: &'a Schedule) -> Self {
        let ops = &schedule.ops;
        let all = || 0..ops.len();
        let thread = |thread| all().filter(|i| ops[*i].thread == ThreadId(thread)).collect();
        let signals = |flag| all().filter(|i| ops[*i].action == Action::Signal { flag }).collect::<Vec<_>>();
        let mut binding: Vec<Vec<usize>> = all()
            .map(|i| match ops[i].action {
                Action::Await { flag } => signals(flag),
                _ => vec![],
            })
            .collect();

        let mut order: Vec<usize> = vec![];
        while let Some(next) = all().find(|i| {
            let before = |earlier: &usize| ops[*earlier].thread == ops[*i].thread;
            let is_first = (0..*i).filter(before).all(|earlier| order.contains(&earlier));
            let is_free = binding[*i].is_empty() || binding[*i].iter().any(|signal| order.contains(signal));
            !order.contains(i) && is_first && is_free
        }) {
            order.push(next);
        }
        let rank = all().map(|i| order.iter().position(|op| *op == i).unwrap_or(usize::MAX)).collect();

        let queue = |stream| {
            let is_queued =
                |i: &usize| ops[*i].stream() == Some(StreamId(stream)) && !copies_nothing(&ops[*i]);
            order.iter().copied().filter(is_queued).collect()
        };
        let queues = (0..STREAMS).map(queue).collect();
        for (at, i) in order.iter().enumerate() {
            if let Action::Wait { event, .. } | Action::HostWait { event } = ops[*i].action {
                let records =
                    |op: &usize| matches!(ops[*op].action, Action::Record { event: own, .. } if own == event);
                binding[*i] = order[..at].iter().copied().rfind(records).into_iter().collect();
            }
        }
        let threads = (0..THREADS).map(thread).collect();
        Self { ops, threads, order, rank, queues, binding }
    }

    fn is_stuck(&self) -> bool {
        self.order.len() < self.ops.len()
    }

    fn is_issued(&self, state: &State, op: usize) -> bool {
        let thread = self.ops[op].thread.0 as usize;
        self.threads[thread][..state.issued[thread]].contains(&op)
    }

    fn is_executed(&self, state: &State, op: usize) -> bool {
        match self.ops[op].stream() {
            Some(stream) if !copies_nothing(&self.ops[op]) => {
                let queue = &self.queues[stream.0 as usize];
                queue[..state.executed[stream.0 as usize]].contains(&op)
            }
            _ => self.is_issued(state, op),
        }
    }

    fn next(&self, state: &State) -> Vec<State> {
        let mut next = Vec::new();
        let is_passed = |wait: usize| {
            let binding = &self.binding[wait];
            binding.is_empty() || binding.iter().any(|awaited| self.is_executed(state, *awaited))
        };
        for (thread, own) in self.threads.iter().enumerate() {
            let issued = state.issued[thread];
            let is_blocked_by_download = issued > 0 && {
                let last = own[issued - 1];
                let blocks = matches!(&self.ops[last].action,
                    Action::Download { dst, .. } if space(dst) == Space::Pageable && dst.bytes > 0);
                blocks && !self.is_executed(state, last)
            };
            let Some(&op) = own.get(issued) else { continue };
            let waits = matches!(self.ops[op].action, Action::HostWait { .. } | Action::Await { .. });
            if !is_blocked_by_download && (!waits || is_passed(op)) {
                let mut state = state.clone();
                state.issued[thread] += 1;
                next.push(state);
            }
        }
        for (stream, queue) in self.queues.iter().enumerate() {
            if let Some(&head) = queue.get(state.executed[stream])
                && self.is_issued(state, head)
                && is_passed(head)
            {
                let mut state = state.clone();
                state.executed[stream] += 1;
                next.push(state);
            }
        }
        next
    }

    /// Every state that some legal interleaving passes through.
    fn states(&self) -> Vec<State> {
        self.reach(|state| self.next(state))
    }

    /// Every state that host threads could reach on a device where everything executes at its call.
    fn calls(&self) -> Vec<State> {
        self.reach(|state| {
            let next = |(thread, own): (usize, &Vec<usize>)| {
                let op = *own.get(state.issued[thread])?;
                let is_await = matches!(self.ops[op].action, Action::Await { .. });
                let signals = &self.binding[op];
                let is_free =
                    signals.is_empty() || signals.iter().any(|signal| self.is_issued(state, *signal));
                let mut state = state.clone();
                state.issued[thread] += 1;
                (!is_await || is_free).then_some(state)
            };
            self.threads.iter().enumerate().filter_map(next).collect()
        })
    }

    /// Everything that steps lead to.
    fn reach(&self, next: impl Fn(&State) -> Vec<State>) -> Vec<State> {
        let start = State { issued: vec![0; self.threads.len()], executed: vec![0; self.queues.len()] };
        let mut seen = HashSet::from([start.clone()]);
        let mut todo = vec![start];
        let mut all = Vec::new();
        while let Some(state) = todo.pop() {
            todo.extend(next(&state).into_iter().filter(|next| seen.insert(next.clone())));
            all.push(state);
        }
        all
    }

    fn is_done(&self, state: &State, op: usize, at_issue: bool) -> bool {
        if at_issue { self.is_issued(state, op) } else { self.is_executed(state, op) }
    }

    /// Pairs of positions, in the order of issue.
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        let order = &self.order;
        (0..order.len()).flat_map(move |later| (0..later).map(move |earlier| (order[earlier], order[later])))
    }

    /// Pairs of calls on one stream, and pairs of calls about one event of which one records it, that host
    /// threads can make in either order. Only flags order calls: what a host wait waits for is what is asked.
    fn unordered_calls(&self) -> (Pairs, Pairs) {
        let (mut issues, mut marks) = (BTreeSet::new(), BTreeSet::new());
        let event = |op: usize| match self.ops[op].action {
            Action::Record { event, .. } => Some((event, true)),
            Action::Wait { event, .. } | Action::HostWait { event } => Some((event, false)),
            _ => None,
        };
        let stream = |op: usize| if copies_nothing(&self.ops[op]) { None } else { self.ops[op].stream() };
        for state in self.calls() {
            for (earlier, later) in self.pairs() {
                if !self.is_issued(&state, later) || self.is_issued(&state, earlier) {
                    continue;
                }
                if stream(earlier).is_some() && stream(earlier) == stream(later) {
                    issues.insert((earlier, later));
                }
                if let (Some((a, records)), Some((b, also_records))) = (event(earlier), event(later))
                    && a == b
                    && (records || also_records)
                {
                    marks.insert((earlier, later));
                }
            }
        }
        (issues, marks)
    }

    /// Pairs of positions that some interleaving executes in this order: both directions of what is not ordered. With
    /// everything that they could touch, not only what they do.
    fn sequences(&self) -> Pairs {
        let mut pairs = BTreeSet::new();
        for state in self.states() {
            let (done, left): (Vec<_>, Vec<_>) =
                self.order.iter().copied().partition(|op| self.is_executed(&state, *op));
            pairs.extend(done.iter().flat_map(|first| left.iter().map(|second| (*first, *second))));
        }
        pairs
    }

    /// Pairs of operations that race, with what they do: (earlier, earlier writes, later, later writes).
    fn races(&self) -> BTreeSet<(usize, bool, usize, bool)> {
        let all: Vec<Vec<Touch>> = self.ops.iter().map(touches).collect();
        let mut races = BTreeSet::new();
        for state in self.states() {
            for later in 0..self.ops.len() {
                for &(buffer, byte, writes, at_issue) in &all[later] {
                    if !self.is_done(&state, later, at_issue) {
                        continue;
                    }
                    let is_earlier = |(i, _): &(usize, _)| self.rank[*i] < self.rank[later];
                    for (earlier, touched) in all.iter().enumerate().filter(is_earlier) {
                        for &(other_buffer, other_byte, other_writes, other_at_issue) in touched {
                            if (buffer, byte) == (other_buffer, other_byte)
                                && (writes || other_writes)
                                && !self.is_done(&state, earlier, other_at_issue)
                            {
                                races.insert((earlier, other_writes, later, writes));
                            }
                        }
                    }
                }
            }
        }
        races
    }
}

/// What the operations say byte by byte, in the order of issue: (kind, earlier operation, operation).
fn replay(ops: &[Op], order: &[usize]) -> BTreeSet<(HazardKind, Option<usize>, Option<usize>)> {
    #[derive(Clone, Default)]
    struct Byte {
        is_written: bool,
        download: Option<usize>,
        readers: Vec<usize>,
    }
    let mut memory = vec![vec![Byte::default(); BYTES as usize]; SPACES.len()];
    for (bytes, space) in memory.iter_mut().zip(SPACES) {
        bytes.iter_mut().for_each(|byte| byte.is_written = space == Space::Resident);
    }
    let mut found = BTreeSet::new();
    let mut uncollected = BTreeSet::new();
    for (index, op) in order.iter().map(|index| (*index, &ops[*index])) {
        // Reads come before writes in the list of touches, except in a launch, whose arguments do not
        // overlap.
        for (buffer, at, writes, _) in touches(op) {
            let byte = &mut memory[buffer as usize][at as usize];
            if writes {
                if let (Some(download), true) = (byte.download, byte.readers.is_empty())
                    && uncollected.insert(download)
                {
                    found.insert((HazardKind::Uncollected, Some(download), Some(index)));
                }
                let is_download = matches!(op.action, Action::Download { .. });
                *byte = Byte { is_written: true, download: is_download.then_some(index), readers: vec![] };
                continue;
            }
            if !byte.is_written {
                found.insert((HazardKind::Uninitialised, None, Some(index)));
            }
            if matches!(op.action, Action::HostStep { .. })
                && byte.download.is_some()
                && let Some(first) = byte.readers.iter().find(|reader| ops[**reader].name == op.name)
                && *first != index
            {
                found.insert((HazardKind::CollectedTwice, Some(*first), Some(index)));
            }
            byte.readers.push(index);
        }
    }
    for byte in memory.iter().flatten() {
        if let (Some(download), true) = (byte.download, byte.readers.is_empty())
            && uncollected.insert(download)
        {
            found.insert((HazardKind::Uncollected, Some(download), None));
        }
    }
    found
}

fn copies_nothing(op: &Op) -> bool {
    matches!(&op.action, Action::Upload { dst, .. } | Action::Download { dst, .. } if dst.bytes == 0)
}

/// Whether it is about order.
pub fn is_race(hazard: &Hazard) -> bool {
    use HazardKind::*;
    matches!(
        hazard.kind,
        ReadAfterWrite | WriteAfterRead | WriteAfterWrite | ReadTooEarly | SourceOverwritten
    )
}

/// What the two operations of a race do: (earlier writes, later writes).
fn roles(kind: HazardKind) -> (bool, bool) {
    match kind {
        HazardKind::ReadAfterWrite | HazardKind::ReadTooEarly => (true, false),
        HazardKind::WriteAfterRead | HazardKind::SourceOverwritten => (false, true),
        _ => (true, true),
    }
}

/// Compares the checker with brute force on a schedule that [`with_ops`] made.
///
/// # Panics
/// If they disagree.
pub fn agrees(schedule: &Schedule) {
    let report = check(schedule);
    let executor = Executor::new(schedule);
    if !host_threads_agree(schedule, &executor, &report.hazards) {
        return;
    }
    let races = executor.races();

    // Every reported pair races as reported. Of several earlier operations that race with one, the checker
    // may name only the last of a chain; but no operation that races is left without a report.
    let reported: BTreeSet<_> = report
        .hazards
        .iter()
        .filter(|hazard| is_race(hazard))
        .map(|hazard| {
            let ((first, second), op) = (roles(hazard.kind), hazard.at.expect("races have a place"));
            (hazard.earlier.expect("races have two sides"), first, op, second)
        })
        .collect();
    assert!(reported.is_subset(&races), "reported {reported:?}, found {races:?}\n{schedule}{report}");
    let at = |set: &BTreeSet<(usize, bool, usize, bool)>| -> BTreeSet<_> {
        set.iter().map(|(_, _, later, writes)| (*later, *writes)).collect()
    };
    assert_eq!(at(&reported), at(&races), "\n{}{}", schedule, report);

    let never: BTreeSet<_> = (0..schedule.ops.len())
        .filter(|i| matches!(schedule.ops[*i].action, Action::Wait { .. } | Action::HostWait { .. }))
        .filter(|i| executor.binding[*i].is_empty())
        .collect();
    let reported_never: BTreeSet<_> = report
        .hazards
        .iter()
        .filter(|hazard| hazard.kind == HazardKind::NeverRecorded)
        .filter_map(|hazard| hazard.at)
        .collect();
    assert_eq!(reported_never, never, "\n{}{}", schedule, report);

    use HazardKind::{CollectedTwice, Uncollected, Uninitialised};
    let reported: BTreeSet<_> = report
        .hazards
        .iter()
        .filter(|hazard| matches!(hazard.kind, CollectedTwice | Uncollected | Uninitialised))
        .map(|hazard| (hazard.kind, hazard.earlier, hazard.at))
        .collect();
    assert_eq!(reported, replay(&schedule.ops, &executor.order), "\n{}{}", schedule, report);

    surplus_agrees(schedule, &executor, &report.surplus.iter().map(|surplus| surplus.at).collect());
}

/// Compares what is about calls of host threads; false if the rest depends on their order.
fn host_threads_agree(schedule: &Schedule, executor: &Executor<'_>, hazards: &[Hazard]) -> bool {
    use HazardKind::{Deadlock, NeverSignalled, SignalledTwice, UnorderedIssue, UnorderedMark};
    let of = |kind| hazards.iter().filter(move |hazard| hazard.kind == kind);
    let at = |kind| of(kind).filter_map(|hazard| hazard.at).collect::<BTreeSet<_>>();
    let pairs = |kind| of(kind).filter_map(|hazard| hazard.earlier.zip(hazard.at)).collect::<BTreeSet<_>>();
    let text = || format!("{schedule}{hazards:#?}");

    let is_never = |i: &usize| {
        matches!(schedule.ops[*i].action, Action::Await { .. }) && executor.binding[*i].is_empty()
    };
    assert_eq!(at(NeverSignalled), (0..schedule.ops.len()).filter(is_never).collect(), "{}", text());
    assert_eq!(of(Deadlock).count() > 0, executor.is_stuck(), "{}", text());
    if executor.is_stuck() {
        return false;
    }
    let flags = (0..FLAGS).map(FlagId);
    let signals = |flag| schedule.ops.iter().filter(|op| op.action == Action::Signal { flag }).count();
    let again: usize = flags.clone().map(|flag| signals(flag).saturating_sub(1)).sum();
    assert_eq!(of(SignalledTwice).count(), again, "{}", text());
    if again > 0 {
        return false;
    }
    // Of several pairs the checker may name only one of a chain. And once it has taken one of two operations
    // for the first on a stream, it takes for ordered what that would order.
    let (issues, marks) = executor.unordered_calls();
    for (kind, found) in [(UnorderedIssue, &issues), (UnorderedMark, &marks)] {
        let reported = pairs(kind);
        assert!(reported.is_subset(found), "{kind:?}: {reported:?}, found {found:?}\n{}", text());
        if kind == UnorderedIssue || issues.is_empty() {
            assert_eq!(reported.is_empty(), found.is_empty(), "{:?}: {:?}\n{}", kind, found, text());
        }
    }
    issues.is_empty() && marks.is_empty()
}

/// A wait is surplus exactly if taking it out orders everything as before, also an access that would come
/// right after it.
fn surplus_agrees(schedule: &Schedule, executor: &Executor<'_>, surplus: &BTreeSet<usize>) {
    for wait in 0..schedule.ops.len() {
        let action = match schedule.ops[wait].action {
            Action::Wait { stream, .. } => {
                Action::Fill { stream, dst: Region { buffer: BufferId(0), offset: 0, bytes: 1 }, byte: 0 }
            }
            Action::HostWait { .. } | Action::Await { .. } => nothing(),
            _ => continue,
        };
        if executor.binding[wait].is_empty() {
            assert!(!surplus.contains(&wait));
            continue;
        }
        let mut with = schedule.clone();
        let thread = schedule.ops[wait].thread;
        with.ops.insert(wait + 1, Op { name: "probe".into(), batch: None, thread, action });
        let mut without = with.clone();
        // A step that does nothing takes the place of the wait, so that positions stay.
        without.ops[wait] = Op { name: "gone".into(), batch: None, thread, action: nothing() };
        let gone = wait;
        // A signal is something to be ordered: by it a thread learns that another has got there.
        let does = |i: usize, op: &Op| {
            let is_order = matches!(
                op.action,
                Action::Record { .. } | Action::Wait { .. } | Action::HostWait { .. } | Action::Await { .. }
            );
            i != gone && !is_order && !copies_nothing(op)
        };
        let order = |schedule: &Schedule| -> BTreeSet<_> {
            let sequences = Executor::new(schedule).sequences().into_iter();
            sequences.filter(|(a, b)| does(*a, &schedule.ops[*a]) && does(*b, &schedule.ops[*b])).collect()
        };
        let is_same = order(&with) == order(&without);
        assert_eq!(surplus.contains(&wait), is_same, "wait #{}\n{}", wait, schedule);
    }
}

/// A step that touches nothing.
fn nothing() -> Action {
    Action::HostStep { reads: vec![], writes: vec![], host_us: 0.0 }
}
