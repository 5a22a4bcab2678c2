//! Mutants: schedules with one mistake each, and who sees it.
//!
//! A [`Mutant`] changes the schedule of a plan in one way. [`observe`] shows it to three judges: the checker,
//! which reads it; the simulated device, which runs it in adversarial orders and compares the product with
//! the oracle's; and the estimator, which predicts whether it is faster than hard synchronisation. Each
//! mutant says who must see it, so a judge that has gone blind is noticed; [`Deletion`] blinds one of them on
//! purpose, to show that each of its checks is needed.

mod edit;
mod set;

pub use set::MUTANTS;

use crate::EVERY_STRATEGY;
use crate::oracle::{BaseFlavour, KnownBases, random_numbers};
use ark_bls12_381::{Fr, G1Affine, G1Projective};
use ark_ff::{AdditiveGroup, Field, UniformRand};
use edit::Edit;
use gpu_core::check::{HazardKind, Report, check};
use gpu_core::model::{Profile, estimate};
use gpu_core::sim::{Order, SimOptions};
use gpu_core::{Bindings, CheckedSchedule, Device, Registered, Schedule, Timeline, Workspace};
use msm_gpu::fold::fold;
use msm_gpu::schedule::{BASES, STAGE, build};
use msm_gpu::{
    BaseSet, Bases, DeviceLimits, GroupKind, Msm, MsmConfig, MsmError, MsmGroup, MsmPlan, ScalarForm,
    Strategy,
};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};

/// Who must see a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Nobody: it is no mutant at all, and whoever reports it is wrong.
    Nothing,
    /// The checker, with hazards of at least these kinds. The simulation must show it as a wrong point or an
    /// error where
    /// `is_visible`; where not, the product is right in every order, by values that happen to agree.
    Hazard {
        /// Kinds that the checker must report, each in a case; and in each case, something.
        kinds: &'static [HazardKind],
        /// Whether the simulation shows it.
        is_visible: bool,
    },
    /// The simulation alone: the order is right, and what is computed is not.
    Wrong,
    /// The checker, as waits that order nothing new. Right, and free of hazards.
    Surplus,
    /// The estimator: right, free of hazards, and no faster than hard synchronisation.
    NoGain,
}

/// Which scalars a mutant is simulated with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inputs {
    /// Every batch has scalars equal to one, and others.
    Mixed,
    /// The same, and the last batch has zeros only: its product is the identity.
    LastBatchZero,
}

/// What the products of a schedule go through, besides what all do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Path {
    /// Digits go straight to their places, entries straight to their buckets; bases are on the device.
    Plain,
    /// Digits are sorted by way of partitions, and entries are added in three rounds of pairs.
    Rounds,
    /// As `Plain`, with bases from the host in every run.
    Streamed,
}

impl Path {
    /// Rounds of pairs.
    fn pair_rounds(self) -> u32 {
        if self == Self::Rounds { 3 } else { 0 }
    }
}

/// A change of a schedule that should not be made, or that should make no difference.
#[derive(Debug, Clone, Copy)]
pub struct Mutant {
    /// Name, unique.
    pub name: &'static str,
    /// The mistake that it stands for, in a sentence.
    pub models: &'static str,
    /// Who must see it.
    pub expected: Expected,
    /// What it is simulated with.
    pub inputs: Inputs,
    /// Which schedules it changes.
    pub path: Path,
    /// Makes the change; `None` where a schedule has no place for it.
    change: fn(&mut Edit<'_>) -> Option<()>,
}

impl Mutant {
    /// A mutant by name.
    pub fn named(name: &str) -> Option<&'static Self> {
        MUTANTS.iter().find(|mutant| mutant.name == name)
    }

    /// The schedule of a plan with the change; `None` where it has no place for it.
    pub fn apply(&self, plan: &MsmPlan) -> Option<Schedule> {
        let mut schedule = build(plan);
        (self.change)(&mut Edit { plan, schedule: &mut schedule })?;
        schedule.name = format!("{} with {}", schedule.name, self.name);
        Some(schedule)
    }
}

/// A strategy and a count of batches that mutants are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Case {
    /// What products go through.
    pub path: Path,
    /// What the host does between batches.
    #[serde(serialize_with = "crate::report::as_text")]
    pub strategy: Strategy,
    /// Number of batches.
    pub batches: u32,
}

impl Case {
    /// Every strategy, in 2, 3 and 5 batches. What all do on one stream, whatever the strategy, is looked at where buckets
    /// stay and where they do not.
    pub fn all(path: Path) -> Vec<Self> {
        let (strategies, batches): (&[Strategy], &[u32]) = match path {
            Path::Plain => (&EVERY_STRATEGY, &BATCHES),
            Path::Rounds => (&[Strategy::Deferred { buffers: 2 }, Strategy::OnDevice], &BATCHES[1..2]),
            Path::Streamed => (&EVERY_STRATEGY, &BATCHES[1..]),
        };
        let case = |strategy| batches.iter().map(move |&batches| Self { path, strategy, batches });
        strategies.iter().copied().flat_map(case).collect()
    }

    fn plan(
        self,
        strategy: Strategy,
        base_count: u64,
        window_bits: Option<u32>,
        limits: &DeviceLimits,
    ) -> MsmPlan {
        let config = MsmConfig {
            strategy,
            window_bits,
            pair_rounds: Some(self.path.pair_rounds()),
            partitioned: Some(self.path == Path::Rounds),
            ..MsmConfig::batches(self.batches)
        };
        let bases = match self.path {
            Path::Plain | Path::Rounds => base_count.into(),
            Path::Streamed => BaseSet::streamed(base_count),
        };
        MsmPlan::new(GroupKind::G1, ScalarForm::Montgomery, bases, &config, limits)
            .expect("a small number of batches of a size that any device holds")
    }

    /// The plan that is simulated.
    pub fn simulated_plan(self) -> MsmPlan {
        let limits =
            DeviceLimits { free_bytes: 1 << 30, resident_threads: 1 << 13, costs: msm_gpu::Costs::SM_90 };
        self.plan(self.strategy, SIMULATED_POINTS as u64, Some(SIMULATED_WINDOW_BITS), &limits)
    }

    /// The plan that is estimated, under a strategy.
    fn estimated_plan(self, strategy: Strategy) -> MsmPlan {
        let limits = DeviceLimits {
            free_bytes: 100 << 30,
            resident_threads: 132 * 2048,
            costs: msm_gpu::Costs::SM_90,
        };
        self.plan(strategy, ESTIMATED_POINTS, None, &limits)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} batches {}", self.batches, self.strategy)?;
        match self.path {
            Path::Plain => Ok(()),
            Path::Rounds => f.write_str(", partitions and rounds of pairs"),
            Path::Streamed => f.write_str(", streamed bases"),
        }
    }
}

/// Counts of batches: as many as there are slots, one more, and so many that each slot is used again.
const BATCHES: [u32; 3] = [2, 3, 5];
/// Points of a simulated product: a multiple of every count of batches, so that batches are of one length.
const SIMULATED_POINTS: usize = 30;
/// Narrow windows: few buckets, so that a run takes little time.
const SIMULATED_WINDOW_BITS: u32 = 4;
/// Points of an estimated product: each batch keeps the device busy for long enough to hide what the host
/// does.
const ESTIMATED_POINTS: u64 = 1 << 20;
/// A mutant that keeps less than this share of what its strategy gains over hard synchronisation gains
/// nothing.
const GAIN_MIN: f64 = 0.1;

/// A rule by which the simulated device orders what is queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Adversary {
    /// The order of issue.
    Earliest,
    /// As late as can be.
    Latest,
    /// Random orders.
    Seeded,
}

/// What a simulated run came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome", content = "error")]
pub enum Outcome {
    /// The oracle's point.
    Right,
    /// Another point.
    WrongPoint,
    /// A typed error.
    Error(String),
}

/// One simulated run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Run {
    /// Who ordered it.
    pub adversary: Adversary,
    /// The order's seed, where it has one.
    pub seed: Option<u64>,
    /// What came out.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Outcome::Right => f.write_str("the right point")?,
            Outcome::WrongPoint => f.write_str("a wrong point")?,
            Outcome::Error(error) => write!(f, "error: {error}")?,
        }
        match (self.adversary, self.seed) {
            (Adversary::Earliest, _) => f.write_str(", everything as early as can be"),
            (Adversary::Latest, _) => f.write_str(", everything as late as can be"),
            (Adversary::Seeded, seed) => write!(f, ", in the order of seed {}", seed.unwrap_or_default()),
        }
    }
}

/// Predicted time of a mutant, between that of hard synchronisation and that of the strategy that it was made
/// from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Gain {
    /// Hard synchronisation.
    pub hard_us: f64,
    /// The strategy without the change.
    pub strategy_us: f64,
    /// The mutant.
    pub mutant_us: f64,
}

impl Gain {
    /// The share of the strategy's gain that the mutant keeps; `None` where the strategy gains nothing
    /// itself.
    pub fn share(&self) -> Option<f64> {
        let whole = self.hard_us - self.strategy_us;
        (whole > 0.0).then(|| (self.hard_us - self.mutant_us) / whole)
    }
}

/// What the three judges saw of a mutant in one case.
#[derive(Debug, Clone, Serialize)]
pub struct Sight {
    /// The case.
    pub case: Case,
    /// The checker's report.
    pub report: Report,
    /// The simulation's runs: each adversary until one of its orders shows the mutant. None for a malformed
    /// schedule, which runs on no device.
    pub runs: Vec<Run>,
    /// The estimate; `None` for a malformed schedule.
    pub gain: Option<Gain>,
}

/// What the three judges saw of a mutant in all cases that have a place for it.
#[derive(Debug, Clone)]
pub struct Observation {
    /// The mutant.
    pub mutant: &'static Mutant,
    /// One for each case; at least one.
    pub sights: Vec<Sight>,
}

/// A judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Judge {
    /// `gpu_core::check`.
    Checker,
    /// The simulated device, and the oracle.
    Simulation,
    /// `gpu_core::model`.
    Estimator,
}

impl fmt::Display for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Checker => "checker",
            Self::Simulation => "simulation",
            Self::Estimator => "estimator",
        })
    }
}

/// One check of one judge, to be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// The checker reports no hazard of a kind.
    Hazard(HazardKind),
    /// The checker reports no surplus waits.
    SurplusWaits,
    /// The simulation runs no orders of an adversary.
    Orders(Adversary),
    /// The simulation's product is compared with nothing.
    Comparison,
    /// The simulated device lets through what it should refuse.
    Errors,
    /// Nothing is estimated.
    Estimate,
}

impl Deletion {
    /// Every check.
    pub fn all() -> Vec<Self> {
        let kinds = HAZARD_KINDS.into_iter().map(Self::Hazard);
        let orders = [Adversary::Earliest, Adversary::Latest, Adversary::Seeded].map(Self::Orders);
        let rest = [Self::Comparison, Self::Errors, Self::Estimate];
        kinds.chain([Self::SurplusWaits]).chain(orders).chain(rest).collect()
    }

    /// Whose check it is.
    pub fn judge(self) -> Judge {
        match self {
            Self::Hazard(_) | Self::SurplusWaits => Judge::Checker,
            Self::Orders(_) | Self::Comparison | Self::Errors => Judge::Simulation,
            Self::Estimate => Judge::Estimator,
        }
    }
}

impl fmt::Display for Deletion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hazard(kind) => write!(f, "hazards {kind:?}"),
            Self::SurplusWaits => f.write_str("surplus waits"),
            Self::Orders(adversary) => write!(f, "orders {adversary:?}"),
            Self::Comparison => f.write_str("comparison of points"),
            Self::Errors => f.write_str("errors of the device"),
            Self::Estimate => f.write_str("estimate"),
        }
    }
}

/// Every kind of hazard.
pub const HAZARD_KINDS: [HazardKind; 15] = [
    HazardKind::Malformed,
    HazardKind::NeverRecorded,
    HazardKind::Uninitialised,
    HazardKind::ReadAfterWrite,
    HazardKind::WriteAfterRead,
    HazardKind::WriteAfterWrite,
    HazardKind::ReadTooEarly,
    HazardKind::SourceOverwritten,
    HazardKind::Uncollected,
    HazardKind::CollectedTwice,
    HazardKind::UnorderedMark,
    HazardKind::UnorderedIssue,
    HazardKind::NeverSignalled,
    HazardKind::SignalledTwice,
    HazardKind::Deadlock,
];

impl Sight {
    fn is_reported(&self, without: Option<Deletion>) -> bool {
        self.report.hazards.iter().any(|hazard| without != Some(Deletion::Hazard(hazard.kind)))
    }

    fn is_surplus(&self, without: Option<Deletion>) -> bool {
        !self.report.surplus.is_empty() && without != Some(Deletion::SurplusWaits)
    }

    fn is_slow(&self, without: Option<Deletion>) -> bool {
        let share = self.gain.and_then(|gain| gain.share());
        share.is_some_and(|share| share < GAIN_MIN) && without != Some(Deletion::Estimate)
    }

    /// The first run that shows the mutant.
    pub fn shown(&self, without: Option<Deletion>) -> Option<&Run> {
        self.runs.iter().find(|run| {
            let is_seen = match run.outcome {
                Outcome::Right => false,
                Outcome::WrongPoint => without != Some(Deletion::Comparison),
                Outcome::Error(_) => without != Some(Deletion::Errors),
            };
            is_seen && without != Some(Deletion::Orders(run.adversary))
        })
    }
}

impl Observation {
    /// Who sees the mutant, if one check is left out. The checker has to see it in every case, the estimator
    /// in every case in which the strategy gains something, the simulation in one.
    pub fn seen_by(&self, without: Option<Deletion>) -> BTreeSet<Judge> {
        let all =
            |sees: fn(&Sight, Option<Deletion>) -> bool| self.sights.iter().all(|sight| sees(sight, without));
        let checker = match self.mutant.expected {
            Expected::Surplus => all(Sight::is_surplus),
            _ => all(Sight::is_reported),
        };
        let estimator = self.mutant.expected == Expected::NoGain && all(Sight::is_slow);
        let simulation = self.sights.iter().any(|sight| sight.shown(without).is_some());
        let judges =
            [(Judge::Checker, checker), (Judge::Simulation, simulation), (Judge::Estimator, estimator)];
        judges.into_iter().filter(|(_, sees)| *sees).map(|(judge, _)| judge).collect()
    }

    /// Who must see it.
    pub fn must_see(&self) -> BTreeSet<Judge> {
        match self.mutant.expected {
            Expected::Nothing => BTreeSet::new(),
            Expected::Hazard { is_visible: true, .. } => [Judge::Checker, Judge::Simulation].into(),
            Expected::Hazard { is_visible: false, .. } | Expected::Surplus => [Judge::Checker].into(),
            Expected::Wrong => [Judge::Simulation].into(),
            Expected::NoGain => [Judge::Estimator].into(),
        }
    }

    /// What is not as it should be; nothing for a mutant that is seen by whoever must see it, as what it is,
    /// and by nobody else.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let seen = self.seen_by(None);
        for judge in self.must_see().difference(&seen) {
            problems.push(format!("survives the {judge}"));
        }
        if let Expected::Hazard { kinds, .. } = self.mutant.expected {
            let hazards = || self.sights.iter().flat_map(|sight| &sight.report.hazards);
            let is_missing = |kind: &&HazardKind| hazards().all(|hazard| hazard.kind != **kind);
            let missing = kinds.iter().filter(is_missing);
            problems.extend(missing.map(|kind| format!("the checker reports no {kind:?}")));
        }
        for Sight { case, report, runs, .. } in &self.sights {
            let unfounded = match self.mutant.expected {
                Expected::Hazard { .. } => None,
                Expected::Nothing => report.hazards.first().map(|hazard| &hazard.text).or_else(|| {
                    let surplus = report.surplus.first();
                    surplus.map(|surplus| &surplus.text)
                }),
                _ => report.hazards.first().map(|hazard| &hazard.text),
            };
            problems.extend(unfounded.map(|text| format!("{case}: the checker reports: {text}")));
            let is_right = !self.must_see().contains(&Judge::Simulation);
            if let Some(run) = runs.iter().find(|run| is_right && run.outcome != Outcome::Right) {
                problems.push(format!("{case}: the simulation shows {run}"));
            }
        }
        problems
    }
}

/// How mutants are simulated.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Seed of the points and scalars.
    pub seed: u64,
    /// Random orders for each case, apart from the earliest and the latest.
    pub orders: u64,
}

/// Shows mutants to the three judges in every case that has a place for them.
///
/// # Panics
/// If a mutant has a place in no case.
pub fn observe(mutants: &[&'static Mutant], options: &Options) -> Vec<Observation> {
    let problem = Problem::new(options.seed);
    let profile = Profile::h200();
    let jobs: Vec<(usize, Case, Schedule)> = mutants
        .iter()
        .enumerate()
        .flat_map(|(i, mutant)| {
            let place = move |case: Case| Some((i, case, mutant.apply(&case.simulated_plan())?));
            Case::all(mutant.path).into_iter().filter_map(place)
        })
        .collect();
    let sights: Vec<(usize, Sight)> = jobs
        .into_par_iter()
        .map(|(i, case, schedule)| (i, sight(mutants[i], case, schedule, &problem, &profile, options.orders)))
        .collect();
    let mut observations: Vec<_> =
        mutants.iter().map(|mutant| Observation { mutant, sights: Vec::new() }).collect();
    for (i, sight) in sights {
        observations[i].sights.push(sight);
    }
    for Observation { mutant, sights } in &observations {
        assert!(!sights.is_empty(), "{} has a place in no schedule", mutant.name);
    }
    observations
}

fn sight(
    mutant: &'static Mutant,
    case: Case,
    schedule: Schedule,
    problem: &Problem,
    profile: &Profile,
    orders: u64,
) -> Sight {
    let report = check(&schedule);
    if report.hazards.iter().any(|hazard| hazard.kind == HazardKind::Malformed) {
        return Sight { case, report, runs: Vec::new(), gain: None };
    }
    let makespan_us = |schedule: &Schedule| {
        let spans = estimate(schedule, profile);
        Timeline::new(schedule, &spans).makespan_us
    };
    let of_strategy = |strategy| makespan_us(&build(&case.estimated_plan(strategy)));
    let large = mutant.apply(&case.estimated_plan(case.strategy)).expect("a place does not depend on sizes");
    let gain = Gain {
        hard_us: of_strategy(Strategy::Hard),
        strategy_us: of_strategy(case.strategy),
        mutant_us: makespan_us(&large),
    };
    let mut runs = vec![problem.run(mutant.inputs, case, &schedule, Order::Earliest)];
    runs.push(problem.run(mutant.inputs, case, &schedule, Order::Latest));
    for seed in 0..orders {
        let run = problem.run(mutant.inputs, case, &schedule, Order::Seeded(seed));
        let is_shown = run.outcome != Outcome::Right;
        runs.push(run);
        if is_shown {
            break;
        }
    }
    Sight { case, report, runs, gain: Some(gain) }
}

/// Points and scalars of the simulated products.
struct Problem {
    bases: KnownBases<G1Projective>,
    scalars: Vec<Fr>,
}

impl Problem {
    fn new(seed: u64) -> Self {
        let rng = &mut random_numbers(seed, "mutants");
        let bases = KnownBases::generate(BaseFlavour::Random, SIMULATED_POINTS, rng);
        // In the shortest batch, two of six scalars are one.
        let scalar = |i: usize| if i % 3 == 1 { Fr::ONE } else { Fr::rand(rng) };
        let scalars = (0..SIMULATED_POINTS).map(scalar).collect();
        Self { bases, scalars }
    }

    fn run(&self, inputs: Inputs, case: Case, schedule: &Schedule, order: Order) -> Run {
        let plan = case.simulated_plan();
        let mut scalars = self.scalars.clone();
        if inputs == Inputs::LastBatchZero {
            scalars[plan.batch(plan.batch_count - 1).start as usize..].fill(Fr::ZERO);
        }
        let (adversary, seed, options) = match order {
            Order::Earliest => (Adversary::Earliest, None, SimOptions::default()),
            Order::Latest => (Adversary::Latest, None, SimOptions::latest()),
            Order::Seeded(seed) => (Adversary::Seeded, Some(seed), SimOptions::seeded(seed)),
        };
        let device = Device::sim(options);
        let product = || -> Result<G1Projective, MsmError> {
            let schedule = CheckedSchedule::for_simulation_only(schedule.clone());
            if plan.streamed {
                return run_streamed(&device, &plan, schedule, self.bases.points(), &scalars);
            }
            let bases = Bases::trusted(&device, self.bases.points())?;
            Msm::<G1Projective, Fr>::with_schedule(&bases, plan, schedule)?.run(&scalars)
        };
        let outcome = match product() {
            Ok(point) if point == self.bases.product(&scalars) => Outcome::Right,
            Ok(_) => Outcome::WrongPoint,
            Err(error) => Outcome::Error(error.to_string()),
        };
        Run { adversary, seed, outcome }
    }
}

/// A product over bases from the host by a schedule that is not the plan's own.
fn run_streamed(
    device: &Device,
    plan: &MsmPlan,
    schedule: CheckedSchedule,
    points: &[G1Affine],
    scalars: &[Fr],
) -> Result<G1Projective, MsmError> {
    let mut modules = G1Projective::MODULES.to_vec();
    modules.extend([&msm_gpu::modules::MSM_DIGITS, &msm_gpu::modules::MSM_PARTITION]);
    device.load(&modules)?;
    let registered = Registered::new(device, "bases", points)?;
    let bindings = Bindings::new().bind_registered(BASES, &registered);
    let total = Mutex::new(G1Projective::ZERO);
    Workspace::new(device, Arc::new(schedule))?.run(&bindings, &|op, mut views| {
        let range = plan.batch(op.batch.expect("host steps of a product belong to a batch"));
        match op.name.as_ref() {
            STAGE => {
                let batch = &scalars[range.start as usize..range.end as usize];
                views.write::<Fr>(0).copy_from_slice(batch);
            }
            _ => *total.lock().expect("no step panics") += fold::<G1Projective>(plan, views.read(0)),
        }
        Ok(())
    })?;
    Ok(total.into_inner().expect("no step panicked"))
}
