//! How a benchmark is measured: by criterion, on the device's clock, with what criterion does not keep beside it.

use super::cases::{Cases, Scale};
use super::group::Group;
use super::record::{Amount, Clock, Measurement, Params, Ratio, Run, SCHEMA, Skipped};
use super::{criterion_files, machine, stats};
use crate::circuits::{CircuitName, Problem};
use crate::error::Failure;
use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};
use gpu_core::model::Timeline;
use gpu_core::schedule::Action;
use gpu_core::{Device, DeviceKind, Profile, Schedule, Trace};
use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// What a run is told.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Sizes.
    pub cases: Cases,
    /// Which of them.
    pub scale: Scale,
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Directory of the Sapling keys, where they are not embedded.
    pub params: Option<PathBuf>,
    /// Only ids that contain one of these; all, if there are none.
    pub only: Vec<String>,
    /// Time to add to products on purpose, in percent.
    pub planted_percent: Option<f64>,
}

/// Times of one iteration, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// On the clock of the benchmark.
    pub(super) time_us: f64,
    /// On the host's.
    pub(super) wall_us: f64,
    /// Without a kernel.
    pub(super) idle_us: Option<f64>,
}

impl Sample {
    /// From the trace of a run: from its first operation to its last.
    pub(super) fn of(schedule: &Schedule, trace: &Trace, wall_us: f64) -> Self {
        let timeline = Timeline::new(schedule, &trace.spans);
        Self { time_us: timeline.makespan_us, wall_us, idle_us: Some(timeline.gpu_idle_us) }
    }
}

/// A benchmark that is wanted.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) group: String,
    pub(super) name: String,
    pub(super) params: Params,
    pub(super) clock: Clock,
    pub(super) amount: Option<Amount>,
    pub(super) floor_us: Option<f64>,
}

impl Case {
    pub(super) fn id(&self) -> String {
        format!("{}/{}", self.group, self.name)
    }
}

/// What criterion does not keep of a benchmark.
#[derive(Debug, Clone)]
struct Note {
    case: Case,
    /// Wall time an iteration of each call of the benchmark, those of warming up first.
    wall_us: Vec<f64>,
    idle_us: Vec<f64>,
}

/// A run of benchmarks on one device.
pub struct Session<'a> {
    pub(super) device: Device,
    pub(super) settings: Settings,
    criterion: &'a mut Criterion,
    notes: Vec<Note>,
    measured: Vec<Measurement>,
    skipped: Vec<Skipped>,
    ratios: Vec<Ratio>,
    problems: Vec<Rc<Problem>>,
    conditions: Vec<String>,
}

impl fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({} measured on {})", self.notes.len() + self.measured.len(), self.device.info().id)
    }
}

impl<'a> Session<'a> {
    /// Nothing has been measured yet.
    pub fn new(device: &Device, settings: Settings, criterion: &'a mut Criterion) -> Self {
        Self {
            device: device.clone(),
            settings,
            criterion,
            notes: Vec::new(),
            measured: Vec::new(),
            skipped: Vec::new(),
            ratios: Vec::new(),
            problems: Vec::new(),
            conditions: Vec::new(),
        }
    }

    /// Criterion as the cases want it, before anybody changes that.
    pub fn criterion(settings: &Settings) -> Criterion {
        let (sampling, scale) = (&settings.cases.sampling, settings.scale);
        Criterion::default()
            .sample_size(*sampling.samples.at(scale))
            .warm_up_time(Duration::from_millis(*sampling.warm_up_ms.at(scale)))
            .measurement_time(Duration::from_millis(*sampling.measurement_ms.at(scale)))
            .nresamples(10_000)
            .without_plots()
    }

    /// Runs groups, one after another.
    ///
    /// # Errors
    /// As [`Group::run`].
    pub fn run(&mut self, groups: &[Group]) -> Result<(), Failure> {
        groups.iter().try_for_each(|group| group.run(self))
    }

    /// Whether the clock is the simulated device's.
    pub(super) fn is_virtual(&self) -> bool {
        self.device.info().kind == DeviceKind::Sim
    }

    /// The rates of the device, if there is a profile of it.
    pub(super) fn profile(&self) -> Option<Profile> {
        let info = self.device.info();
        info.profile.clone().or_else(|| Profile::built_in().into_iter().find(|known| info.name == known.name))
    }

    /// A benchmark on the device's clock, if it is wanted.
    pub(super) fn case(&self, group: &str, name: String, params: Params) -> Option<Case> {
        let (group, clock) = match self.is_virtual() {
            true => (format!("sim/{group}"), Clock::Virtual),
            false => (group.into(), Clock::Device),
        };
        self.wanted(Case { group, name, params, clock, amount: None, floor_us: None })
    }

    /// A benchmark of the host alone, if it is wanted.
    pub(super) fn host_case(&self, group: &str, name: String, params: Params) -> Option<Case> {
        let group = group.into();
        self.wanted(Case { group, name, params, clock: Clock::Wall, amount: None, floor_us: None })
    }

    fn wanted(&self, case: Case) -> Option<Case> {
        let (id, only) = (case.id(), &self.settings.only);
        (only.is_empty() || only.iter().any(|part| id.contains(part))).then_some(case)
    }

    /// Notes that a benchmark is not run.
    pub(super) fn skip(&mut self, case: &Case, reason: impl ToString) {
        let (id, reason) = (case.id(), reason.to_string());
        eprintln!("skipped: {id}: {reason}");
        self.skipped.push(Skipped { id, reason });
    }

    /// What was skipped so far.
    #[cfg(test)]
    pub(super) fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// Notes that somebody takes no turn in any comparison.
    pub(super) fn skip_peer(&mut self, peer: &str, reason: &str) {
        eprintln!("{peer}: skipped, {reason}");
        self.skipped.push(Skipped { id: format!("peers/{peer}"), reason: reason.into() });
    }

    /// Keeps a sentence for the reader of the run.
    pub(super) fn note(&mut self, sentence: String) {
        self.conditions.push(sentence);
    }

    /// A circuit with its key, made once. `None` where this program has no such key.
    pub(super) fn problem(&mut self, name: CircuitName) -> Result<Rc<Problem>, Failure> {
        if let Some(made) = self.problems.iter().find(|problem| problem.name == name) {
            return Ok(made.clone());
        }
        let made = Rc::new(Problem::new(name, self.settings.seed, self.settings.params.as_deref())?);
        self.problems.push(made.clone());
        Ok(made)
    }

    /// Has criterion measure an iteration whose result has been checked.
    ///
    /// # Errors
    /// What an iteration answers.
    pub(super) fn measure(
        &mut self,
        case: Case,
        mut iteration: impl FnMut() -> Result<Sample, Failure>,
    ) -> Result<(), Failure> {
        let calls: RefCell<(Vec<f64>, Vec<f64>)> = RefCell::default();
        let mut failure = None;
        let mut group = self.criterion.benchmark_group(&case.group);
        group.sampling_mode(SamplingMode::Flat);
        if let Some(amount) = case.amount {
            group.throughput(match amount {
                Amount::Elements(count) => Throughput::Elements(count),
                Amount::Bytes(count) => Throughput::Bytes(count),
            });
        }
        // A name of one word and no parameter, so that criterion's id is ours.
        group.bench_function(BenchmarkId::from_parameter(&case.name), |bencher| {
            bencher.iter_custom(|iterations| {
                let (mut time_us, mut wall_us) = (0.0, 0.0);
                for _ in 0..iterations {
                    if failure.is_some() {
                        break;
                    }
                    match iteration() {
                        Ok(sample) => {
                            time_us += sample.time_us;
                            wall_us += sample.wall_us;
                            calls.borrow_mut().1.extend(sample.idle_us);
                        }
                        Err(error) => failure = Some(error),
                    }
                }
                calls.borrow_mut().0.push(wall_us / iterations as f64);
                // Nothing takes no time: after a failure criterion still wants to come to its end.
                Duration::from_secs_f64((time_us / 1e6).max(1e-9))
            });
        });
        group.finish();
        let (wall_us, idle_us) = calls.into_inner();
        self.notes.push(Note { case, wall_us, idle_us });
        failure.map_or(Ok(()), Err)
    }

    /// Times that were taken without criterion, in rounds.
    pub(super) fn push_rounds(&mut self, case: Case, samples_us: Vec<f64>) {
        let (Some(median_us), Some(median_interval_us)) =
            (stats::median(&samples_us), stats::median_interval(&samples_us))
        else {
            return;
        };
        let id = case.id();
        println!("{id:<60} median {:.3} ms of {} rounds", median_us / 1e3, samples_us.len());
        let Case { params, clock, amount, floor_us, .. } = case;
        let (wall_us, idle_us) = (Vec::new(), None);
        self.measured.push(Measurement {
            id,
            params,
            clock,
            samples_us,
            median_us,
            median_interval_us,
            wall_us,
            idle_us,
            amount,
            floor_us,
        });
    }

    pub(super) fn push_ratio(&mut self, ratio: Ratio) {
        println!("{:<60} {} takes {:.1} times as long", ratio.id, ratio.peer, ratio.median);
        self.ratios.push(ratio);
    }

    /// What was measured so far as data, from what criterion has left in its directory.
    ///
    /// # Errors
    /// [`Failure::Record`] if it left nothing that can be read.
    pub fn so_far(&self, criterion_directory: &Path, started: &str) -> Result<Run, Failure> {
        let mut measurements = self.measured.clone();
        if !self.notes.is_empty() {
            let kept = criterion_files::read_directory(criterion_directory)?;
            for note in &self.notes {
                let id = note.case.id();
                let found = kept.iter().find(|kept| kept.id == id);
                measurements.extend(found.map(|kept| joined(note.clone(), kept)));
            }
        }
        let machine = machine::machine(&self.device);
        let mut conditions = self.conditions.clone();
        if let Some(profile) = &self.device.info().profile {
            conditions.insert(0, format!("virtual clock: predicted for {}", profile.name));
        }
        if cfg!(debug_assertions) {
            conditions.push("built with assertions: wall times say little".into());
        }
        if let Some(percent) = self.settings.planted_percent {
            conditions.push(format!("products slowed down by {percent} % on purpose"));
        }
        Ok(Run {
            schema: SCHEMA,
            harness: env!("CARGO_PKG_VERSION").into(),
            commit: machine::commit(),
            date: started.into(),
            seed: format!("{:#x}", self.settings.seed),
            scale: self.settings.scale,
            machine,
            conditions,
            planted_percent: self.settings.planted_percent,
            measurements,
            skipped: self.skipped.clone(),
            ratios: self.ratios.clone(),
        })
    }
}

fn joined(note: Note, kept: &criterion_files::Kept) -> Measurement {
    let Note { case, mut wall_us, idle_us } = note;
    // The last calls are the samples.
    let warm_up_calls = wall_us.len().saturating_sub(kept.samples_us.len());
    wall_us.drain(..warm_up_calls);
    if case.clock == Clock::Wall {
        wall_us.clear();
    }
    Measurement {
        id: case.id(),
        params: case.params,
        clock: case.clock,
        samples_us: kept.samples_us.clone(),
        median_us: kept.median_us,
        median_interval_us: kept.median_interval_us,
        wall_us,
        idle_us: stats::median(&idle_us),
        amount: case.amount,
        floor_us: case.floor_us,
    }
}

/// The least time that a schedule's work takes on a device: its products at the multiplier's full rate, its traffic at the
/// memory's, or its copies at the bus's; whichever is longest, with nothing waiting for anything.
pub(super) fn floor_us(schedule: &Schedule, profile: &Profile) -> f64 {
    let (mut muls, mut bytes, mut up, mut down) = (0.0, 0.0, 0.0, 0.0);
    for op in &schedule.ops {
        match &op.action {
            Action::Launch { launch, .. } => {
                muls += launch.work.fp_muls;
                bytes += launch.work.bytes;
            }
            Action::Upload { src, .. } => up += src.bytes as f64,
            Action::Download { dst, .. } => down += dst.bytes as f64,
            _ => {}
        }
    }
    let seconds = (muls / profile.fp_mul_per_s)
        .max(bytes / profile.memory_bytes_per_s)
        .max(up / profile.pinned_up_bytes_per_s)
        .max(down / profile.pinned_down_bytes_per_s);
    seconds * 1e6
}

/// Microseconds since a moment.
pub(super) fn micros(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e6
}
