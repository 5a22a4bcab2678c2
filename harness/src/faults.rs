//! Faults on purpose: a device whose k-th call of a kind fails, and what a product makes of it.
//!
//! [`FaultBackend`] stands between a device's handle and any backend. [`inject`] fails each call of each kind
//! in turn, in every strategy, and holds what comes out to four promises: the error is typed and names the
//! operation; nothing that was taken is kept; the same product run again is right; the next product on the
//! device is right.

mod backend;

pub use backend::FaultBackend;

use crate::oracle::{BaseFlavour, KnownBases, random_numbers};
use ark_bls12_381::{Fr, G1Projective};
use ark_ff::{AdditiveGroup, UniformRand};
use gpu_core::backend::Backend;
use gpu_core::schedule::{Action, Op};
use gpu_core::sim::{SimBackend, SimHandle, SimOptions};
use gpu_core::{Bindings, CheckedSchedule, Device, DeviceBuf, GpuError, Result, Workspace};
use msm_gpu::schedule::{BASES, FOLD, STAGE, build};
use msm_gpu::{Bases, DeviceLimits, Msm, MsmConfig, MsmError, MsmGroup, MsmPlan, ScalarForm, SyncPattern};
use serde::Serialize;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A kind of call to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(usize)]
pub enum Call {
    /// Asking for the free memory.
    FreeBytes,
    /// Device memory.
    AllocDevice,
    /// Page-locked memory.
    AllocPinned,
    /// Page-locking of memory that is there.
    Register,
    /// A stream.
    CreateStream,
    /// An event.
    CreateEvent,
    /// Compiling and loading a module.
    Load,
    /// A copy to the device.
    Upload,
    /// A copy to the host.
    Download,
    /// A fill.
    Fill,
    /// A kernel.
    Launch,
    /// Recording an event.
    Record,
    /// A stream's wait for an event.
    Wait,
    /// The host's wait for an event. It waits, and then it fails: what such a failure reports has happened on
    /// the device.
    SyncEvent,
    /// The host's wait for a stream; as for an event.
    SyncStream,
    /// Reading a clock.
    Elapsed,
    /// The begin or the end of a capture.
    Capture,
    /// A graph.
    LaunchGraph,
}

impl Call {
    /// Every kind.
    pub const ALL: [Self; 18] = [
        Self::FreeBytes,
        Self::AllocDevice,
        Self::AllocPinned,
        Self::Register,
        Self::CreateStream,
        Self::CreateEvent,
        Self::Load,
        Self::Upload,
        Self::Download,
        Self::Fill,
        Self::Launch,
        Self::Record,
        Self::Wait,
        Self::SyncEvent,
        Self::SyncStream,
        Self::Elapsed,
        Self::Capture,
        Self::LaunchGraph,
    ];
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FreeBytes => "free memory",
            Self::AllocDevice => "device memory",
            Self::AllocPinned => "page-locked memory",
            Self::Register => "page-locking",
            Self::CreateStream => "new stream",
            Self::CreateEvent => "new event",
            Self::Load => "module",
            Self::Upload => "upload",
            Self::Download => "download",
            Self::Fill => "fill",
            Self::Launch => "launch",
            Self::Record => "record",
            Self::Wait => "wait",
            Self::SyncEvent => "host wait for an event",
            Self::SyncStream => "host wait for a stream",
            Self::Elapsed => "clock",
            Self::Capture => "capture",
            Self::LaunchGraph => "graph",
        })
    }
}

/// What a device has given out and not got back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Live {
    /// Bytes of device memory.
    pub device_bytes: u64,
    /// Bytes of page-locked memory.
    pub pinned_bytes: u64,
    /// Streams.
    pub streams: u64,
    /// Events.
    pub events: u64,
    /// Graphs.
    pub graphs: u64,
}

/// Which call fails, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Armed {
    call: Call,
    k: u64,
    panics: bool,
}

#[derive(Debug, Default)]
struct Books {
    counts: [u64; Call::ALL.len()],
    armed: Option<Armed>,
    struck: Option<String>,
    live: Live,
}

/// The controls of a [`FaultBackend`], which stay in hand when it has disappeared behind a device.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    books: Arc<Mutex<Books>>,
}

impl Faults {
    /// Counts from zero, and lets the k-th call of a kind fail, once. The first is 1.
    pub fn arm(&self, call: Call, k: u64) {
        self.set(Armed { call, k, panics: false });
    }

    /// As [`arm`](Self::arm), with a panic in the place of an error.
    pub fn arm_panic(&self, call: Call, k: u64) {
        self.set(Armed { call, k, panics: true });
    }

    fn set(&self, armed: Armed) {
        let mut books = self.books();
        books.counts = Default::default();
        books.struck = None;
        books.armed = Some(armed);
    }

    /// Lets nothing fail any more. The operation of the call that did, if it came to that.
    pub fn disarm(&self) -> Option<String> {
        let mut books = self.books();
        books.armed = None;
        books.struck.take()
    }

    /// Calls of a kind since the last [`arm`](Self::arm).
    pub fn count(&self, call: Call) -> u64 {
        self.books().counts[call as usize]
    }

    /// What is given out now.
    pub fn live(&self) -> Live {
        self.books().live
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        // A panic under the lock is impossible: what is done under it is counting.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call; an error says that this one fails.
    fn enter(&self, call: Call, op: &str, needed_bytes: u64) -> Result<()> {
        let mut books = self.books();
        books.counts[call as usize] += 1;
        let k = books.counts[call as usize];
        let Some(armed) = books.armed.filter(|armed| (armed.call, armed.k) == (call, k)) else {
            return Ok(());
        };
        books.struck = Some(op.into());
        if armed.panics {
            drop(books);
            resume_unwind(Box::new(Deliberate));
        }
        Err(match call {
            Call::AllocDevice | Call::AllocPinned => {
                GpuError::OutOfMemory { op: op.into(), needed_bytes, free_bytes: 0 }
            }
            _ => GpuError::Driver { op: op.into(), cause: format!("{call} {k} fails on purpose") },
        })
    }
}

/// What faults are injected into: the simulated device, made anew for each, or a CUDA device.
#[derive(Debug, Clone)]
pub enum Target {
    /// Simulated devices, in an order of execution that changes from fault to fault.
    Sim,
    /// A backend that is kept: its modules are loaded once.
    Kept(Arc<dyn Backend>),
}

impl Target {
    /// How it is called in reports.
    pub fn id(&self) -> String {
        match self {
            Self::Sim => "sim".into(),
            Self::Kept(backend) => backend.info().id.clone(),
        }
    }

    /// A device for the k-th fault, on which nothing is loaded.
    fn device(&self, k: u64) -> (Device, Faults, Option<SimHandle>) {
        let (inner, handle): (Arc<dyn Backend>, _) = match self {
            Self::Sim => {
                let options = match k % 3 {
                    0 => SimOptions::default(),
                    1 => SimOptions::latest(),
                    _ => SimOptions::seeded(k),
                };
                let backend = SimBackend::new(options);
                let handle = backend.handle();
                (Arc::new(backend), Some(handle))
            }
            Self::Kept(backend) => (backend.clone(), None),
        };
        let backend = FaultBackend::new(inner);
        let faults = backend.faults();
        (Device::from_backend(Box::new(backend)), faults, handle)
    }
}

/// What was done to a strategy with one kind of fault, and what is wrong with what came out.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Device.
    pub device: String,
    /// Strategy, and whether its work is captured as graphs.
    #[serde(serialize_with = "crate::report::as_text")]
    pub pattern: SyncPattern,
    /// What failed: a kind of call, or a host step.
    pub what: String,
    /// Calls of that kind in a run in which none fails.
    pub calls: u64,
    /// Faults that were injected.
    pub faults: u64,
    /// One of the errors, as a caller sees it.
    pub example: Option<String>,
    /// Broken promises.
    pub problems: Vec<String>,
}

/// Points, scalars and result of the product that faults are injected into.
#[derive(Debug)]
pub struct Problem {
    bases: KnownBases<G1Projective>,
    scalars: Vec<Fr>,
    product: G1Projective,
}

/// Batches of the product: more than there are slots.
const BATCHES: u32 = 3;
const POINTS: usize = 12;
/// Operations whose failure nobody can be told of, because they belong to a release.
const RELEASES: [&str; 3] = ["release of a stream", "wipe", "stream wipe"];

impl Problem {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        let rng = &mut random_numbers(seed, "faults");
        let bases = KnownBases::generate(BaseFlavour::Random, POINTS, rng);
        let scalars: Vec<Fr> = (0..POINTS).map(|_| Fr::rand(rng)).collect();
        let product = bases.product(&scalars);
        Self { bases, scalars, product }
    }

    fn config(pattern: SyncPattern) -> MsmConfig {
        MsmConfig { window_bits: Some(4), ..MsmConfig::batches(BATCHES) }.with_pattern(pattern)
    }

    fn run(&self, msm: &mut Msm<G1Projective>) -> Result<(), Wrong> {
        self.compare(msm.run(&self.scalars)?)
    }

    fn compare(&self, point: G1Projective) -> Result<(), Wrong> {
        if point == self.product { Ok(()) } else { Err(Wrong::Point) }
    }

    /// A product from the first allocation to the last release, undisturbed.
    fn whole(&self, device: &Device, pattern: SyncPattern) -> Result<(), Wrong> {
        let bases = Bases::trusted(device, self.bases.points())?;
        let mut msm = Msm::new(&bases, &Self::config(pattern))?;
        msm.enable_timing()?;
        self.run(&mut msm)
    }
}

/// Why a product is not the right point.
#[derive(Debug, thiserror::Error)]
enum Wrong {
    #[error("the point is wrong")]
    Point,
    #[error(transparent)]
    Msm(#[from] MsmError),
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

impl Wrong {
    fn gpu(&self) -> Option<&GpuError> {
        match self {
            Self::Gpu(error) | Self::Msm(MsmError::Gpu(error)) => Some(error),
            _ => None,
        }
    }
}

/// Fails each call of each kind, and each host step, of a pattern, at most `limit` of a kind, spread evenly.
///
/// # Panics
/// If `limit` is 0.
pub fn inject(target: &Target, pattern: SyncPattern, problem: &Problem, limit: u64) -> Vec<Row> {
    let calls = Call::ALL.into_iter().map(|call| inject_calls(target, pattern, problem, call, limit));
    let steps = [StepFault::Error, StepFault::Panic]
        .into_iter()
        .map(|fault| inject_steps(target, pattern, problem, fault, limit));
    calls.chain(steps).collect()
}

/// Which of so many things to fail: all, or so many of them, the first and the last included; and the one
/// after the last, which does not exist and must not be missed.
fn chosen(count: u64, limit: u64) -> Vec<u64> {
    assert!(limit > 0, "a limit of 0 faults shows nothing");
    let mut chosen: Vec<u64> = match (count, limit) {
        (0, _) => Vec::new(),
        (_, 1) => vec![count],
        _ if count <= limit => (1..=count).collect(),
        _ => (0..limit).map(|i| 1 + i * (count - 1) / (limit - 1)).collect(),
    };
    chosen.push(count + 1);
    chosen
}

fn inject_calls(target: &Target, pattern: SyncPattern, problem: &Problem, call: Call, limit: u64) -> Row {
    let what = call.to_string();
    let mut row =
        Row { device: target.id(), pattern, what, calls: 0, faults: 0, example: None, problems: vec![] };
    let (device, faults, _) = target.device(0);
    faults.arm(call, u64::MAX);
    if let Err(error) = problem.whole(&device, pattern) {
        row.problems.push(format!("without a fault: {error}"));
        return row;
    }
    row.calls = faults.count(call);
    for k in chosen(row.calls, limit) {
        // A module stays loaded: that its loading fails can only be seen on a device that has none.
        let fresh;
        let (device, faults, handle) = match target {
            Target::Kept(_) if call != Call::Load => (&device, &faults, None),
            _ => {
                fresh = target.device(k);
                (&fresh.0, &fresh.1, fresh.2.as_ref())
            }
        };
        let before = faults.live();
        let (struck, result) = fail_call(device, faults, pattern, problem, call, k);
        row.faults += u64::from(struck.is_some());
        match result {
            Ok(error) => row.example = row.example.take().or(error),
            Err(broken) => row.problems.push(format!("{call} {k}: {broken}")),
        }
        if struck.is_some() != (k <= row.calls) {
            row.problems.push(format!("{call} {k} of {}: the run made another number of calls", row.calls));
        }
        row.problems.extend(aftermath(
            device,
            faults,
            handle,
            pattern,
            problem,
            before,
            &format!("{call} {k}"),
        ));
    }
    row
}

/// Fails one call. The operation that failed, if one did; and the error that came of it, or the promise that
/// it broke.
fn fail_call(
    device: &Device,
    faults: &Faults,
    pattern: SyncPattern,
    problem: &Problem,
    call: Call,
    k: u64,
) -> (Option<String>, Result<Option<String>, String>) {
    faults.arm(call, k);
    // Held until the fault has been looked at, so that a run again can show that it leaves nothing behind.
    let mut msm = None;
    let outcome = (|| {
        let bases = Bases::trusted(device, problem.bases.points())?;
        let msm = msm.insert(Msm::new(&bases, &Problem::config(pattern))?);
        msm.enable_timing()?;
        problem.run(msm)
    })();
    let again = match (&outcome, &mut msm) {
        (Err(_), Some(msm)) => {
            let struck = faults.disarm();
            let again = problem.run(msm).map_err(|error| format!("run again: {error}"));
            (struck, again)
        }
        _ => (None, Ok(())),
    };
    drop(msm);
    let struck = again.0.or_else(|| faults.disarm());
    let result = judge(outcome, struck.as_deref(), call, k).and_then(|error| again.1.map(|()| error));
    (struck, result)
}

fn judge(
    outcome: Result<(), Wrong>,
    struck: Option<&str>,
    call: Call,
    k: u64,
) -> Result<Option<String>, String> {
    match (outcome, struck) {
        (Ok(()), None) => Ok(None),
        (Ok(()), Some(op)) if RELEASES.contains(&op) => Ok(None),
        (Ok(()), Some(op)) => Err(format!("the failure of {op} is not noticed")),
        (Err(error), None) => Err(format!("nothing failed, and yet: {error}")),
        (Err(error), Some(struck)) => {
            let is_named = match error.gpu() {
                Some(GpuError::OutOfMemory { op, .. }) => op == struck,
                Some(GpuError::Driver { op, cause }) => {
                    op == struck && *cause == format!("{call} {k} fails on purpose")
                }
                _ => false,
            };
            if is_named {
                Ok(Some(error.to_string()))
            } else {
                Err(format!("the failure of {struck} is reported as: {error}"))
            }
        }
    }
}

/// What a fault must not leave behind.
fn aftermath(
    device: &Device,
    faults: &Faults,
    handle: Option<&SimHandle>,
    pattern: SyncPattern,
    problem: &Problem,
    before: Live,
    what: &str,
) -> Vec<String> {
    let mut problems = Vec::new();
    let mut still = |when: &str| {
        let live = faults.live();
        if live != before {
            problems.push(format!("{what}: {when}, {live:?} is not released; before, there was {before:?}"));
        }
        if let Some(stats) = handle.map(SimHandle::stats) {
            let seen = Live {
                device_bytes: stats.device_bytes,
                pinned_bytes: stats.pinned_bytes,
                streams: stats.live_streams as u64,
                events: stats.live_events as u64,
                graphs: 0,
            };
            if seen != live {
                problems
                    .push(format!("{what}: {when}, the device holds {seen:?} where {live:?} was given out"));
            }
        }
    };
    still("after the fault");
    let next = problem.whole(device, pattern);
    still("after the next product");
    if let Err(error) = next {
        problems.push(format!("{what}: the next product: {error}"));
    }
    problems
}

/// How a host step fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepFault {
    Error,
    Panic,
}

fn inject_steps(
    target: &Target,
    pattern: SyncPattern,
    problem: &Problem,
    fault: StepFault,
    limit: u64,
) -> Row {
    let what = match fault {
        StepFault::Error => "host step, error",
        StepFault::Panic => "host step, panic",
    };
    let mut row = Row {
        device: target.id(),
        pattern,
        what: what.into(),
        calls: 0,
        faults: 0,
        example: None,
        problems: vec![],
    };
    let (device, faults, handle) = target.device(1);
    let before = faults.live();
    let mut inject = || -> Result<(), Wrong> {
        let mut stepped = Stepped::new(&device, pattern, problem)?;
        row.calls = stepped.step_count();
        for k in chosen(row.calls, limit) {
            let outcome = catch_unwind(AssertUnwindSafe(|| stepped.run(Some((fault, k)))));
            row.faults += u64::from(k <= row.calls);
            let problem = match (outcome, k <= row.calls) {
                (Ok(Ok(())), false) => None,
                (Ok(Err(Wrong::Gpu(error @ GpuError::HostStep { .. }))), true)
                    if fault == StepFault::Error =>
                {
                    row.example.get_or_insert(error.to_string());
                    None
                }
                (Err(payload), true) if fault == StepFault::Panic && payload.is::<Deliberate>() => {
                    row.example.get_or_insert("the panic, to the caller".into());
                    None
                }
                (Ok(Ok(())), true) => Some("is not noticed".into()),
                (Ok(Err(error)), _) => Some(format!("is reported as: {error}")),
                (Err(_), _) => Some("is another panic".into()),
            };
            row.problems.extend(problem.map(|problem| format!("{what} {k} {problem}")));
            if let Err(error) = stepped.run(None) {
                row.problems.push(format!("{what} {k}, run again: {error}"));
            }
        }
        Ok(())
    };
    if let Err(error) = inject() {
        row.problems.push(format!("without a fault: {error}"));
    }
    row.problems.extend(aftermath(&device, &faults, handle.as_ref(), pattern, problem, before, what));
    row
}

/// What a step or a call that panics on purpose throws. It goes past the panic hook, so nothing is printed.
struct Deliberate;

/// The product with host steps of our own.
struct Stepped<'a> {
    problem: &'a Problem,
    plan: MsmPlan,
    workspace: Workspace,
    bindings: Bindings<'static>,
}

impl<'a> Stepped<'a> {
    fn new(device: &Device, pattern: SyncPattern, problem: &'a Problem) -> Result<Self, Wrong> {
        device.load(msm_gpu::modules::ALL)?;
        let limits = DeviceLimits::of(device)?;
        let config = Problem::config(pattern);
        let plan = MsmPlan::new(G1Projective::KIND, ScalarForm::Montgomery, POINTS as u64, &config, &limits)
            .map_err(MsmError::from)?;
        let mut workspace = Workspace::new(device, Arc::new(CheckedSchedule::new(build(&plan))?))?;
        if plan.graph {
            workspace.enable_graphs()?;
        }
        let points = DeviceBuf::from_slice(device, "bases", problem.bases.points())?;
        Ok(Self { problem, plan, workspace, bindings: Bindings::new().bind(BASES, &points) })
    }

    fn step_count(&self) -> u64 {
        let is_step = |op: &&Op| matches!(op.action, Action::HostStep { .. });
        self.workspace.schedule().ops.iter().filter(is_step).count() as u64
    }

    /// Runs it, and lets the k-th host step fail. The first is 1.
    fn run(&mut self, fault: Option<(StepFault, u64)>) -> Result<(), Wrong> {
        let (plan, scalars) = (self.plan, &self.problem.scalars);
        let (total, step) = (Mutex::new(G1Projective::ZERO), AtomicU64::new(0));
        self.workspace.run(&self.bindings, &|op, mut views| {
            let step = 1 + step.fetch_add(1, Ordering::Relaxed);
            match fault {
                Some((StepFault::Panic, k)) if k == step => resume_unwind(Box::new(Deliberate)),
                Some((StepFault::Error, k)) if k == step => {
                    let (step, cause) = (op.name.to_string(), "fails on purpose".into());
                    return Err(GpuError::HostStep { step, cause });
                }
                _ => {}
            }
            let batch = plan.batch(op.batch.expect("host steps of an MSM belong to a batch"));
            match op.name.as_ref() {
                STAGE => {
                    views.write::<Fr>(0).copy_from_slice(&scalars[batch.start as usize..batch.end as usize])
                }
                FOLD => {
                    let product = msm_gpu::fold::fold::<G1Projective>(&plan, views.read(0));
                    *total.lock().unwrap_or_else(PoisonError::into_inner) += product;
                }
                other => unreachable!("an MSM schedule has no host step {other}"),
            }
            Ok(())
        })?;
        self.problem.compare(total.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_chosen_or_the_ends_and_some_between_and_one_that_does_not_exist() {
        assert_eq!(chosen(0, 5), [1]);
        assert_eq!(chosen(3, 5), [1, 2, 3, 4]);
        assert_eq!(chosen(100, 4), [1, 34, 67, 100, 101]);
        assert_eq!(chosen(100, 1), [100, 101]);
    }

    #[test]
    fn a_kind_is_its_place_in_the_counters() {
        for (place, call) in Call::ALL.into_iter().enumerate() {
            assert_eq!(call as usize, place, "{call}");
        }
    }
}
