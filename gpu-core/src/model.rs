//! The estimator: the timeline of a schedule on a device profile, predicted; and what a timeline, predicted
//! or measured, says about idle time.
//!
//! A discrete-event model of the host threads, a compute engine, and a copy engine each way. Streams are
//! queues; an engine takes what is ready first. It leaves out what no profile can know: kernels of different
//! streams share no engine (small ones overlap on a real device), copies do not slow kernels down, host
//! threads do not slow each other down, clocks do not move.

use crate::check::issue_order;
use crate::schedule::{Action, Launch, MAIN, Op, Region, Schedule, Space};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Rates and latencies of a device and its host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Device name.
    pub name: String,
    /// Where the numbers come from: measured, on what; or a data sheet.
    pub source: String,
    /// How single numbers were derived.
    pub notes: Vec<String>,
    /// Streaming multiprocessors.
    pub sm_count: u32,
    /// Their clock under load, in hertz.
    pub sm_clock_hz: f64,
    /// Device memory in all.
    pub memory_bytes: u64,
    /// Fp multiplications a second, all multiprocessors full.
    pub fp_mul_per_s: f64,
    /// Latency of one Fp multiplication that depends on the last, in a lone warp.
    pub chain_mul_us: f64,
    /// Bytes a second through device memory, reads and writes together.
    pub memory_bytes_per_s: f64,
    /// Bytes a second from page-locked memory to the device.
    pub pinned_up_bytes_per_s: f64,
    /// Bytes a second from the device to page-locked memory.
    pub pinned_down_bytes_per_s: f64,
    /// Bytes a second from pageable memory to the device.
    pub pageable_up_bytes_per_s: f64,
    /// Bytes a second from the device to pageable memory.
    pub pageable_down_bytes_per_s: f64,
    /// Host time to queue a kernel or a fill.
    pub launch_us: f64,
    /// Host time to queue a copy.
    pub copy_issue_us: f64,
    /// Host time to record an event, to queue a wait for one, or to see that one has been reached; and the
    /// same of a flag.
    pub event_us: f64,
    /// Host time from the moment that a mark is reached, or a flag signalled, until a host thread that waits
    /// for it goes on.
    pub host_wait_us: f64,
    /// Device time of an empty kernel, the gap to the next one included.
    pub kernel_min_us: f64,
    /// Device time of a copy of one byte.
    pub copy_min_us: f64,
    /// How much longer an upload of 4 MiB or more from page-locked memory takes than its rate says: the host's cores
    /// still hold what they have just written there. Less in proportion for a smaller one.
    pub staged_up_us: f64,
}

/// Why a profile was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// It is not the JSON of a profile.
    #[error("device profile: {0}")]
    Json(#[from] serde_json::Error),
    /// A number that no device has.
    #[error("device profile {name}: {field} is {value}")]
    Value {
        /// Device name.
        name: String,
        /// Field.
        field: &'static str,
        /// Its value.
        value: f64,
    },
}

impl Profile {
    /// Reads a profile.
    ///
    /// # Errors
    /// [`ProfileError`] for text that is no profile, rates that are not positive, latencies that are
    /// negative, and numbers that are not finite.
    pub fn from_json(text: &str) -> Result<Self, ProfileError> {
        let profile: Self = serde_json::from_str(text)?;
        let rates = [
            ("sm_count", f64::from(profile.sm_count)),
            ("sm_clock_hz", profile.sm_clock_hz),
            ("fp_mul_per_s", profile.fp_mul_per_s),
            ("memory_bytes_per_s", profile.memory_bytes_per_s),
            ("pinned_up_bytes_per_s", profile.pinned_up_bytes_per_s),
            ("pinned_down_bytes_per_s", profile.pinned_down_bytes_per_s),
            ("pageable_up_bytes_per_s", profile.pageable_up_bytes_per_s),
            ("pageable_down_bytes_per_s", profile.pageable_down_bytes_per_s),
        ];
        let latencies = [
            ("chain_mul_us", profile.chain_mul_us),
            ("launch_us", profile.launch_us),
            ("copy_issue_us", profile.copy_issue_us),
            ("event_us", profile.event_us),
            ("host_wait_us", profile.host_wait_us),
            ("kernel_min_us", profile.kernel_min_us),
            ("copy_min_us", profile.copy_min_us),
            ("staged_up_us", profile.staged_up_us),
        ];
        let bad_rate = rates.iter().find(|(_, value)| !value.is_finite() || *value <= 0.0);
        let bad_latency = latencies.iter().find(|(_, value)| !value.is_finite() || *value < 0.0);
        match bad_rate.or(bad_latency) {
            Some(&(field, value)) => Err(ProfileError::Value { name: profile.name, field, value }),
            None => Ok(profile),
        }
    }

    /// NVIDIA H200, measured.
    pub fn h200() -> Self {
        Self::built_in_json(include_str!("../../harness/profiles/h200.json"))
    }

    /// NVIDIA GeForce RTX 4090 (24 GB), from its data sheet.
    pub fn rtx_4090() -> Self {
        Self::built_in_json(include_str!("../../harness/profiles/rtx_4090.json"))
    }

    /// NVIDIA GeForce RTX 4080 (16 GB), from its data sheet.
    pub fn rtx_4080() -> Self {
        Self::built_in_json(include_str!("../../harness/profiles/rtx_4080.json"))
    }

    /// All profiles that come with the program.
    pub fn built_in() -> Vec<Self> {
        vec![Self::h200(), Self::rtx_4090(), Self::rtx_4080()]
    }

    fn built_in_json(text: &str) -> Self {
        Self::from_json(text).expect("a test reads every built-in profile")
    }

    /// Device time of a kernel. Products are done at the rate of the multiprocessors that its blocks reach.
    fn kernel_us(&self, launch: &Launch) -> f64 {
        let work = &launch.work;
        let blocks = f64::from(launch.grid[0]) * f64::from(launch.grid[1]);
        let share = (blocks / f64::from(self.sm_count)).min(1.0);
        let products_us =
            if work.fp_muls > 0.0 { work.fp_muls / (self.fp_mul_per_s * share) * 1e6 } else { 0.0 };
        products_us
            .max(work.chain_muls * self.chain_mul_us)
            .max(work.bytes / self.memory_bytes_per_s * 1e6)
            .max(self.kernel_min_us)
    }

    fn copy_us(&self, bytes: u64, bytes_per_s: f64) -> f64 {
        (bytes as f64 / bytes_per_s * 1e6).max(self.copy_min_us)
    }
}

/// Bytes of an upload that come late from the host's caches.
const STAGED_UP_BYTES: f64 = (4 << 20) as f64;

/// An upload from pageable memory of up to this size returns when the driver has taken a copy; a larger one
/// is staged piece by piece, and the host is in it until the last piece [CUDA driver API, API synchronization
/// behavior].
const STAGED_BYTES_MAX: u64 = 64 << 10;

/// Start and end of an operation, in microseconds from the start of the schedule.
///
/// What runs on the device has the time on the device; host steps and host waits have the host's.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Span {
    /// Start.
    pub start_us: f64,
    /// End.
    pub end_us: f64,
}

impl Span {
    fn len_us(&self) -> f64 {
        self.end_us - self.start_us
    }
}

/// Predicts start and end of every operation, in the schedule's order.
///
/// # Panics
/// On a schedule that [`check`](crate::check::check) calls malformed.
pub fn estimate(schedule: &Schedule, profile: &Profile) -> Vec<Span> {
    estimate_with_calls(schedule, profile).0
}

/// As [`estimate`], and when the host was at each operation: queued it, performed it, or waited in it.
///
/// # Panics
/// As [`estimate`].
pub fn estimate_with_calls(schedule: &Schedule, profile: &Profile) -> (Vec<Span>, Vec<Span>) {
    let mut model = Model::new(schedule, profile);
    while let Some(step) = model.next() {
        match step {
            Step::Host { thread, go_us } => model.host(thread, go_us),
            Step::Stream { stream, start_us } => model.stream(stream, start_us),
        }
    }
    let is_done = model.hosts.iter().all(|host| host.ops.is_empty());
    assert!(is_done, "every wait is for what can be issued before it");
    (model.spans, model.calls)
}

/// What happens next.
enum Step {
    /// A host thread goes on at this time.
    Host { thread: usize, go_us: f64 },
    /// The head of a stream's queue starts, or passes, at this time.
    Stream { stream: usize, start_us: f64 },
}

/// One of the device's engines.
#[derive(Debug, Clone, Copy)]
enum Engine {
    Compute,
    Up,
    Down,
}

#[derive(Default, Clone)]
struct Queue {
    /// Operations with the time from which the host has issued them.
    waiting: VecDeque<(usize, f64)>,
    /// When the last one that left the queue ended.
    free_us: f64,
}

/// A host thread.
#[derive(Default, Clone)]
struct Host {
    /// Operations that it has still to issue or perform.
    ops: VecDeque<usize>,
    /// When the last one was issued or done.
    now_us: f64,
    /// Copy that it waits in.
    blocked_in: Option<usize>,
}

struct Model<'a> {
    schedule: &'a Schedule,
    profile: &'a Profile,
    hosts: Vec<Host>,
    queues: Vec<Queue>,
    /// For each stream, what has still to be queued on it. Queued in this order, whichever thread is first:
    /// two threads that queue in no order are a hazard, and any order will do.
    to_queue: Vec<VecDeque<usize>>,
    engine_free_us: [f64; 3],
    /// For each wait, the record or the signal that it waits for, if there is one.
    awaited: Vec<Option<usize>>,
    is_done: Vec<bool>,
    spans: Vec<Span>,
    calls: Vec<Span>,
}

impl<'a> Model<'a> {
    fn new(schedule: &'a Schedule, profile: &'a Profile) -> Self {
        let count = schedule.ops.len();
        let issue = issue_order(schedule);
        let mut hosts = vec![Host::default(); schedule.threads.len()];
        let mut to_queue = vec![VecDeque::new(); schedule.streams.len()];
        for index in issue.order {
            let op = &schedule.ops[index];
            hosts[op.thread.0 as usize].ops.push_back(index);
            if let Some(stream) = queued_on(op) {
                to_queue[stream].push_back(index);
            }
        }
        Self {
            schedule,
            profile,
            hosts,
            queues: vec![Queue::default(); schedule.streams.len()],
            to_queue,
            engine_free_us: [0.0; 3],
            awaited: issue.awaited,
            is_done: vec![false; count],
            spans: vec![Span::default(); count],
            calls: vec![Span::default(); count],
        }
    }

    /// The earliest thing that can happen: of two operations that an engine could start at one time, the one
    /// that has been ready for longer, then the one that was issued first. Time never runs back.
    fn next(&self) -> Option<Step> {
        let mut best = None;
        for (thread, host) in self.hosts.iter().enumerate() {
            let Some(go_us) = self.host_time(host) else { continue };
            let key = (go_us, f64::NEG_INFINITY, thread);
            if best.as_ref().is_none_or(|(best_key, _)| key < *best_key) {
                best = Some((key, Step::Host { thread, go_us }));
            }
        }
        for (stream, queue) in self.queues.iter().enumerate() {
            let Some(&(index, issued_us)) = queue.waiting.front() else { continue };
            let Some(reached_us) = self.awaited_time(index) else { continue };
            let ready_us = issued_us.max(queue.free_us).max(reached_us);
            let engine = self.engine(&self.schedule.ops[index]);
            let engine_us = engine.map_or(0.0, |engine| self.engine_free_us[engine as usize]);
            let start_us = ready_us.max(engine_us);
            let key = (start_us, ready_us, index);
            if best.as_ref().is_none_or(|(best_key, _)| key < *best_key) {
                best = Some((key, Step::Stream { stream, start_us }));
            }
        }
        best.map(|(_, step)| step)
    }

    /// When a host thread goes on, if it is known yet and anything is left for it to do.
    fn host_time(&self, host: &Host) -> Option<f64> {
        let &index = host.ops.front()?;
        let free_us = match host.blocked_in {
            Some(copy) if !self.is_done[copy] => return None,
            Some(copy) => host.now_us.max(self.spans[copy].end_us + self.profile.host_wait_us),
            None => host.now_us,
        };
        let op = &self.schedule.ops[index];
        // To queue a wait on a stream takes no waiting.
        match op.action {
            Action::HostWait { .. } | Action::Await { .. } => {
                self.awaited_time(index).map(|reached_us| free_us.max(reached_us))
            }
            _ if queued_on(op).is_some_and(|stream| self.to_queue[stream].front() != Some(&index)) => None,
            _ => Some(free_us),
        }
    }

    /// When what an operation waits for has come, if it is known yet: at once for what waits for nothing.
    fn awaited_time(&self, index: usize) -> Option<f64> {
        match self.awaited[index] {
            Some(awaited) => self.is_done[awaited].then(|| self.spans[awaited].end_us),
            None => Some(0.0),
        }
    }

    /// A host thread performs its next operation, or issues it.
    fn host(&mut self, thread: usize, go_us: f64) {
        let profile = self.profile;
        let host = &mut self.hosts[thread];
        let index = host.ops.pop_front().expect("the step was made for it");
        let op = &self.schedule.ops[index];
        if let Some(copy) = host.blocked_in.take() {
            host.now_us = host.now_us.max(self.spans[copy].end_us + profile.host_wait_us);
        }
        let start_us = host.now_us;
        let cost_us = match &op.action {
            // A mark that was reached before is looked at and no more.
            Action::HostWait { .. } | Action::Await { .. } if go_us == start_us => profile.event_us,
            Action::HostWait { .. } | Action::Await { .. } => profile.host_wait_us,
            Action::HostStep { host_us, .. } => *host_us,
            Action::Launch { .. } | Action::Fill { .. } => profile.launch_us,
            Action::Record { .. } | Action::Wait { .. } | Action::Signal { .. } => profile.event_us,
            Action::Upload { dst, .. } | Action::Download { dst, .. } if dst.bytes == 0 => 0.0,
            Action::Upload { src, .. } if is_staged(self.schedule, src) => {
                profile.copy_issue_us + src.bytes as f64 / profile.pageable_up_bytes_per_s * 1e6
            }
            Action::Upload { .. } | Action::Download { .. } => profile.copy_issue_us,
        };
        host.now_us = go_us + cost_us;
        let is_wait = matches!(op.action, Action::HostWait { .. } | Action::Await { .. });
        let called_us = if is_wait { start_us } else { go_us };
        self.calls[index] = Span { start_us: called_us, end_us: host.now_us };
        match queued_on(op) {
            Some(stream) => {
                self.to_queue[stream].pop_front();
                self.queues[stream].waiting.push_back((index, host.now_us));
                if blocks_host(self.schedule, op) {
                    host.blocked_in = Some(index);
                }
            }
            None => {
                self.spans[index] = Span { start_us, end_us: host.now_us };
                self.is_done[index] = true;
            }
        }
    }

    /// The head of a stream's queue runs.
    fn stream(&mut self, stream: usize, start_us: f64) {
        let queue = &mut self.queues[stream];
        let (index, issued_us) = queue.waiting.pop_front().expect("the step was made for its head");
        let op = &self.schedule.ops[index];
        let reached_us = issued_us.max(queue.free_us);
        let span = match &op.action {
            // A stream stands in a wait from when it gets there.
            Action::Wait { .. } => Span { start_us: reached_us, end_us: start_us },
            _ => Span { start_us, end_us: start_us + self.device_us(op) },
        };
        if let Some(engine) = self.engine(op) {
            self.engine_free_us[engine as usize] = span.end_us;
        }
        self.queues[stream].free_us = span.end_us;
        self.spans[index] = span;
        self.is_done[index] = true;
    }

    fn device_us(&self, op: &Op) -> f64 {
        let profile = self.profile;
        match &op.action {
            Action::Launch { launch, .. } => profile.kernel_us(launch),
            Action::Fill { dst, .. } => {
                (dst.bytes as f64 / profile.memory_bytes_per_s * 1e6).max(profile.kernel_min_us)
            }
            Action::Upload { src, .. } => {
                let is_slow = is_pageable(self.schedule, src) && !is_staged(self.schedule, src);
                if is_slow {
                    return profile.copy_us(src.bytes, profile.pageable_up_bytes_per_s);
                }
                let late = (src.bytes as f64 / STAGED_UP_BYTES).min(1.0);
                profile.copy_us(src.bytes, profile.pinned_up_bytes_per_s) + late * profile.staged_up_us
            }
            Action::Download { dst, .. } => {
                let is_slow = is_pageable(self.schedule, dst);
                let rate =
                    if is_slow { profile.pageable_down_bytes_per_s } else { profile.pinned_down_bytes_per_s };
                profile.copy_us(dst.bytes, rate)
            }
            Action::Record { .. } | Action::Wait { .. } => 0.0,
            Action::HostWait { .. }
            | Action::HostStep { .. }
            | Action::Signal { .. }
            | Action::Await { .. } => unreachable!("not on the device"),
        }
    }

    fn engine(&self, op: &Op) -> Option<Engine> {
        match op.action {
            Action::Launch { .. } | Action::Fill { .. } => Some(Engine::Compute),
            Action::Upload { .. } => Some(Engine::Up),
            Action::Download { .. } => Some(Engine::Down),
            _ => None,
        }
    }
}

fn is_pageable(schedule: &Schedule, region: &Region) -> bool {
    schedule.buffers[region.buffer.0 as usize].space == Space::Pageable
}

/// Whether the driver takes a copy of this source at the call.
fn is_staged(schedule: &Schedule, src: &Region) -> bool {
    is_pageable(schedule, src) && src.bytes <= STAGED_BYTES_MAX
}

/// The stream on which an operation takes a place.
fn queued_on(op: &Op) -> Option<usize> {
    op.stream().filter(|_| !is_empty_copy(op)).map(|stream| stream.0 as usize)
}

/// Whether it is a copy of no bytes, which the runner passes over.
fn is_empty_copy(op: &Op) -> bool {
    matches!(&op.action, Action::Upload { dst, .. } | Action::Download { dst, .. } if dst.bytes == 0)
}

/// Whether the host is in this copy until it has executed.
fn blocks_host(schedule: &Schedule, op: &Op) -> bool {
    match &op.action {
        Action::Upload { src, .. } => is_pageable(schedule, src) && src.bytes > STAGED_BYTES_MAX,
        Action::Download { dst, .. } => is_pageable(schedule, dst) && dst.bytes > 0,
        _ => false,
    }
}

/// What a timeline says: one that was [estimated](estimate), or the spans of a measured
/// [`Trace`](crate::run::Trace).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Timeline {
    /// From the first start to the last end.
    pub makespan_us: f64,
    /// Time in which a kernel or a fill runs.
    pub compute_busy_us: f64,
    /// Time between the device's first and last activity, copies included, in which no kernel runs.
    pub gpu_idle_us: f64,
    /// Time without a kernel between the last kernel of a batch and the first of the next batch, over all
    /// batches.
    pub idle_between_batches_us: f64,
    /// Time in which the first host thread, which queues the work, waits: for the device, or for another
    /// thread. A copy that blocks counts from the end of the last host operation before it, since a trace
    /// does not hold the moment of its call: the queueing of what lies between is counted with it.
    pub host_blocked_us: f64,
}

impl Timeline {
    /// Sums up spans of a schedule's operations.
    ///
    /// # Panics
    /// If there is not one span for each operation.
    pub fn new(schedule: &Schedule, spans: &[Span]) -> Self {
        assert_eq!(schedule.ops.len(), spans.len(), "one span for each operation of {}", schedule.name);
        let all = || schedule.ops.iter().zip(spans);
        let is_kernel = |op: &Op| matches!(op.action, Action::Launch { .. } | Action::Fill { .. });
        let is_copy = |op: &Op| {
            matches!(op.action, Action::Upload { .. } | Action::Download { .. }) && !is_empty_copy(op)
        };
        let kernels = union(all().filter(|(op, _)| is_kernel(op)).map(|(_, span)| *span).collect());
        let compute_busy_us = total_us(kernels.iter().map(Span::len_us));
        let active = extent(all().filter(|(op, _)| is_kernel(op) || is_copy(op)).map(|(_, span)| *span));
        let mut batches = BTreeMap::<u32, Span>::new();
        for (op, span) in all().filter(|(op, _)| is_kernel(op)) {
            if let Some(batch) = op.batch {
                let whole = batches.entry(batch).or_insert(*span);
                *whole = extent([*whole, *span].into_iter()).expect("two spans have an extent");
            }
        }
        let batches: Vec<Span> = batches.into_values().collect();
        let gaps = batches.windows(2).map(|pair| Span { start_us: pair[0].end_us, end_us: pair[1].start_us });
        let idle_in =
            |gap: Span| gap.len_us() - total_us(kernels.iter().map(|kernel| overlap_us(kernel, &gap)));
        Self {
            makespan_us: extent(spans.iter().copied()).map_or(0.0, |span| span.len_us()),
            compute_busy_us,
            gpu_idle_us: active.map_or(0.0, |span| span.len_us() - compute_busy_us),
            idle_between_batches_us: total_us(gaps.filter(|gap| gap.len_us() > 0.0).map(idle_in)),
            host_blocked_us: host_blocked_us(schedule, spans),
        }
    }
}

fn host_blocked_us(schedule: &Schedule, spans: &[Span]) -> f64 {
    let mut blocked_us = 0.0;
    let mut host_us = extent(spans.iter().copied()).map_or(0.0, |span| span.start_us);
    for (op, span) in schedule.ops.iter().zip(spans).filter(|(op, _)| op.thread == MAIN) {
        match op.action {
            Action::HostWait { .. } | Action::Await { .. } => blocked_us += span.len_us(),
            Action::HostStep { .. } | Action::Signal { .. } => {}
            _ if blocks_host(schedule, op) => blocked_us += (span.end_us - host_us).max(0.0),
            _ => continue,
        }
        host_us = host_us.max(span.end_us);
    }
    blocked_us
}

/// A sum that is 0 for nothing, where `Iterator::sum` gives -0.
fn total_us(parts: impl Iterator<Item = f64>) -> f64 {
    parts.fold(0.0, |total, part| total + part)
}

/// From the first start to the last end.
fn extent(spans: impl Iterator<Item = Span>) -> Option<Span> {
    spans.reduce(|a, b| Span { start_us: a.start_us.min(b.start_us), end_us: a.end_us.max(b.end_us) })
}

fn overlap_us(a: &Span, b: &Span) -> f64 {
    (a.end_us.min(b.end_us) - a.start_us.max(b.start_us)).max(0.0)
}

/// The same time as disjoint spans, ascending.
fn union(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by(|a, b| a.start_us.total_cmp(&b.start_us));
    let mut joined: Vec<Span> = Vec::new();
    for span in spans {
        match joined.last_mut() {
            Some(last) if span.start_us <= last.end_us => last.end_us = last.end_us.max(span.end_us),
            _ => joined.push(span),
        }
    }
    joined
}
