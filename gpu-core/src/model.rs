//! The estimator: the timeline of a schedule on a device profile, predicted; and what a timeline, predicted
//! or measured, says about idle time.
//!
//! A discrete-event model with four resources: the host thread, a compute engine, and a copy engine each way.
//! Streams are queues; an engine takes what is ready first. It leaves out what no profile can know: kernels
//! of different streams share no engine (small ones overlap on a real device), copies do not slow kernels
//! down, clocks do not move.

use crate::schedule::{Action, Launch, Op, Region, Schedule, Space};
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
    /// Host time to record an event, to queue a wait for one, or to see that one has been reached.
    pub event_us: f64,
    /// Host time from the moment that a mark is reached until a host that waits for it goes on.
    pub host_wait_us: f64,
    /// Device time of an empty kernel, the gap to the next one included.
    pub kernel_min_us: f64,
    /// Device time of a copy of one byte.
    pub copy_min_us: f64,
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
    let mut model = Model::new(schedule, profile);
    while let Some(step) = model.next() {
        match step {
            Step::Host(start_us) => model.host(start_us),
            Step::Stream { stream, start_us } => model.stream(stream, start_us),
        }
    }
    assert_eq!(model.issued, schedule.ops.len(), "every wait is bound to an earlier operation");
    model.spans
}

/// What happens next.
enum Step {
    /// The host goes on at this time.
    Host(f64),
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

struct Model<'a> {
    schedule: &'a Schedule,
    profile: &'a Profile,
    /// Operations that the host has issued.
    issued: usize,
    host_us: f64,
    /// Copy that the host waits in.
    blocked_in: Option<usize>,
    queues: Vec<Queue>,
    engine_free_us: [f64; 3],
    /// For each wait, the record that it waits for, if there is one.
    marks: Vec<Option<usize>>,
    is_done: Vec<bool>,
    spans: Vec<Span>,
}

impl<'a> Model<'a> {
    fn new(schedule: &'a Schedule, profile: &'a Profile) -> Self {
        let count = schedule.ops.len();
        let mut last_record = vec![None; schedule.events.len()];
        let mut marks = vec![None; count];
        for (index, op) in schedule.ops.iter().enumerate() {
            match op.action {
                Action::Record { event, .. } => last_record[event.0 as usize] = Some(index),
                Action::Wait { event, .. } | Action::HostWait { event } => {
                    marks[index] = last_record[event.0 as usize];
                }
                _ => {}
            }
        }
        Self {
            schedule,
            profile,
            issued: 0,
            host_us: 0.0,
            blocked_in: None,
            queues: vec![Queue::default(); schedule.streams.len()],
            engine_free_us: [0.0; 3],
            marks,
            is_done: vec![false; count],
            spans: vec![Span::default(); count],
        }
    }

    /// The earliest thing that can happen: of two operations that an engine could start at one time, the one
    /// that has been ready for longer, then the one that was issued first. Time never runs back.
    fn next(&self) -> Option<Step> {
        let mut best = None;
        if let Some(time) = self.host_time() {
            best = Some(((time, f64::NEG_INFINITY, 0), Step::Host(time)));
        }
        for (stream, queue) in self.queues.iter().enumerate() {
            let Some(&(index, issued_us)) = queue.waiting.front() else { continue };
            let Some(reached_us) = self.mark_time(index) else { continue };
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

    /// When the host goes on, if it is known yet and anything is left to issue.
    fn host_time(&self) -> Option<f64> {
        if self.issued == self.schedule.ops.len() {
            return None;
        }
        let free_us = match self.blocked_in {
            Some(copy) if !self.is_done[copy] => return None,
            Some(copy) => self.host_us.max(self.spans[copy].end_us + self.profile.host_wait_us),
            None => self.host_us,
        };
        // To queue a wait on a stream takes no waiting.
        match self.schedule.ops[self.issued].action {
            Action::HostWait { .. } => self.mark_time(self.issued).map(|reached_us| free_us.max(reached_us)),
            _ => Some(free_us),
        }
    }

    /// When the mark that an operation waits for is reached, if it is known yet: at once for what waits for
    /// none.
    fn mark_time(&self, index: usize) -> Option<f64> {
        match self.marks[index] {
            Some(record) => self.is_done[record].then(|| self.spans[record].end_us),
            None => Some(0.0),
        }
    }

    /// The host performs its next operation, or issues it.
    fn host(&mut self, go_us: f64) {
        let (index, op) = (self.issued, &self.schedule.ops[self.issued]);
        let profile = self.profile;
        if let Some(copy) = self.blocked_in.take() {
            self.host_us = self.host_us.max(self.spans[copy].end_us + profile.host_wait_us);
        }
        let start_us = self.host_us;
        self.issued += 1;
        let cost_us = match &op.action {
            // A mark that was reached before is looked at and no more.
            Action::HostWait { .. } if go_us == start_us => profile.event_us,
            Action::HostWait { .. } => profile.host_wait_us,
            Action::HostStep { host_us, .. } => *host_us,
            Action::Launch { .. } | Action::Fill { .. } => profile.launch_us,
            Action::Record { .. } | Action::Wait { .. } => profile.event_us,
            Action::Upload { dst, .. } | Action::Download { dst, .. } if dst.bytes == 0 => 0.0,
            Action::Upload { src, .. } if self.is_staged(src) => {
                profile.copy_issue_us + src.bytes as f64 / profile.pageable_up_bytes_per_s * 1e6
            }
            Action::Upload { .. } | Action::Download { .. } => profile.copy_issue_us,
        };
        self.host_us = go_us + cost_us;
        match op.stream() {
            Some(stream) if !is_empty_copy(op) => {
                self.queues[stream.0 as usize].waiting.push_back((index, self.host_us));
                if self.blocks_host(op) {
                    self.blocked_in = Some(index);
                }
            }
            _ => {
                self.spans[index] = Span { start_us, end_us: self.host_us };
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
                let is_slow = self.is_pageable(src) && !self.is_staged(src);
                let rate =
                    if is_slow { profile.pageable_up_bytes_per_s } else { profile.pinned_up_bytes_per_s };
                profile.copy_us(src.bytes, rate)
            }
            Action::Download { dst, .. } => {
                let is_slow = self.is_pageable(dst);
                let rate =
                    if is_slow { profile.pageable_down_bytes_per_s } else { profile.pinned_down_bytes_per_s };
                profile.copy_us(dst.bytes, rate)
            }
            Action::Record { .. } | Action::Wait { .. } => 0.0,
            Action::HostWait { .. } | Action::HostStep { .. } => unreachable!("not on the device"),
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

    fn is_pageable(&self, region: &Region) -> bool {
        is_pageable(self.schedule, region)
    }

    fn is_staged(&self, src: &Region) -> bool {
        self.is_pageable(src) && src.bytes <= STAGED_BYTES_MAX
    }

    fn blocks_host(&self, op: &Op) -> bool {
        blocks_host(self.schedule, op)
    }
}

fn is_pageable(schedule: &Schedule, region: &Region) -> bool {
    schedule.buffers[region.buffer.0 as usize].space == Space::Pageable
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
    /// Time in which the host waits. A copy that blocks counts from the end of the last host operation before
    /// it, since a trace does not hold the moment of its call: the queueing of what lies between is counted
    /// with it.
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
    for (op, span) in schedule.ops.iter().zip(spans) {
        match op.action {
            Action::HostWait { .. } => blocked_us += span.len_us(),
            Action::HostStep { .. } => {}
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
