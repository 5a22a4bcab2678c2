//! Soak: products drawn at random, for as long as one likes, each compared with the oracle's.
//!
//! A [`Draw`] is a pure function of a seed and a number, so a failure is a line that repeats it. It takes
//! sizes from the edges of what kernels cut (warps, blocks, batches), and everything else that a user or a
//! device can vary: group, batches, strategy and buffers, window, form and flavour of the scalars, flavour of
//! the bases, the order in which the simulated device executes what is queued, and the order of threads in a
//! block.

use crate::EVERY_STRATEGY;
use crate::mutants::Mutant;
use crate::oracle::{BaseFlavour, KnownBases, ScalarFlavour, random_numbers};
use ark_bls12_381::{Fr, G1Projective, G2Projective};
use ark_ff::{AdditiveGroup, BigInt, PrimeField};
use gpu_core::sim::{Order, SimBackend, SimHandle, SimOptions, Stats, ThreadOrder};
use gpu_core::{CheckedSchedule, Device, DeviceKind};
use msm_gpu::{
    Bases, Batches, DeviceLimits, GroupKind, Msm, MsmConfig, MsmError, MsmGroup, MsmPlan, ResultMemory,
    Scalar, ScalarForm, Strategy, SyncPattern,
};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::RngCore;
use std::fmt;

/// Largest number of points.
const POINTS_MAX: u64 = 400;
/// Points that bases are picked from, of each group.
const POOL_POINTS: usize = 256;
/// Sizes next to which cuts are: warps, blocks, tiles, and the ends.
const EDGES: [u64; 8] = [1, 2, 32, 64, 128, 256, 384, POINTS_MAX];

/// One product, drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Draw {
    /// Seed of the soak.
    pub seed: u64,
    /// Number in the soak.
    pub iteration: u64,
    /// Group.
    pub group: GroupKind,
    /// Points.
    pub points: usize,
    /// How they are cut.
    pub batches: u32,
    /// Whether the cut is asked for as the memory that it takes.
    pub by_bytes: bool,
    /// Strategy, and whether its work is captured as graphs.
    pub pattern: SyncPattern,
    /// Where results arrive.
    pub result_memory: ResultMemory,
    /// Bits of a window.
    pub window_bits: Option<u32>,
    /// Form of the scalars.
    pub form: ScalarForm,
    /// Flavour of the scalars.
    pub scalars: ScalarFlavour,
    /// Flavour of the bases.
    pub bases: BaseFlavour,
    /// Runs of the same product, each with scalars of its own.
    pub runs: u32,
    /// Which of the devices: this modulo their number.
    pub device: u64,
    /// When a simulated device executes what is queued.
    pub order: Order,
    /// In which order it runs the threads of a block.
    pub thread_order: ThreadOrder,
    /// In which order host threads take turns there.
    pub host_seed: u64,
    /// Multiprocessors that it shows to the planner.
    pub sm_count: u32,
}

impl Draw {
    /// The draw of a number under a seed.
    pub fn new(seed: u64, iteration: u64) -> Self {
        let rng = &mut random_numbers(seed, &format!("soak {iteration}"));
        let group = if below(rng, 4) == 0 { GroupKind::G2 } else { GroupKind::G1 };
        let points = draw_points(rng) as usize;
        let batches_max = (points as u64).clamp(1, 12);
        let batches = match below(rng, 4) {
            0 => 1 + below(rng, batches_max),
            _ => batches_max.min(1 + below(rng, 4)),
        } as u32;
        let pattern = SyncPattern { strategy: draw_strategy(rng), graph: below(rng, 5) == 0 };
        Self {
            seed,
            iteration,
            group,
            points,
            batches,
            by_bytes: below(rng, 8) == 0,
            pattern,
            // A graph can hold no copy to pageable memory.
            result_memory: match below(rng, 6) {
                0 if !pattern.graph => ResultMemory::Pageable,
                _ => ResultMemory::Pinned,
            },
            window_bits: (below(rng, 3) > 0).then(|| 2 + below(rng, 7) as u32),
            form: pick(rng, &[ScalarForm::Montgomery, ScalarForm::Canonical]),
            scalars: pick(rng, &ScalarFlavour::ALL),
            bases: pick(rng, &BaseFlavour::ALL),
            runs: if below(rng, 4) == 0 { 2 } else { 1 },
            device: rng.next_u64(),
            order: match below(rng, 6) {
                0 => Order::Earliest,
                1 => Order::Latest,
                _ => Order::Seeded(rng.next_u64()),
            },
            thread_order: match below(rng, 3) {
                0 => ThreadOrder::Forward,
                1 => ThreadOrder::Backward,
                _ => ThreadOrder::Seeded(rng.next_u64()),
            },
            host_seed: rng.next_u64(),
            sm_count: 1 + below(rng, 8) as u32,
        }
    }

    fn sim_options(&self) -> SimOptions {
        let Self { order, thread_order, host_seed, sm_count, .. } = *self;
        SimOptions { order, thread_order, host_seed, sm_count, ..SimOptions::default() }
    }

    fn rng(&self, label: &str) -> ChaCha20Rng {
        random_numbers(self.seed, &format!("soak {} {label}", self.iteration))
    }
}

impl fmt::Display for Draw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let batches = if self.by_bytes { "batches by memory" } else { "batches" };
        write!(
            f,
            "{} n={} {} {batches} {} {} results w={:?} {:?} scalars {} bases {} runs {} \
             {:?} {:?} host order {:#x} {} multiprocessors",
            self.group.word(),
            self.points,
            self.batches,
            self.pattern,
            self.result_memory,
            self.window_bits,
            self.form,
            self.scalars,
            self.bases,
            self.runs,
            self.order,
            self.thread_order,
            self.host_seed,
            self.sm_count
        )
    }
}

fn below(rng: &mut ChaCha20Rng, bound: u64) -> u64 {
    rng.next_u64() % bound
}

fn pick<T: Copy>(rng: &mut ChaCha20Rng, from: &[T]) -> T {
    from[below(rng, from.len() as u64) as usize]
}

fn draw_points(rng: &mut ChaCha20Rng) -> u64 {
    match below(rng, 16) {
        0 => 0,
        1..4 => (pick(rng, &EDGES) + below(rng, 3) - 1).min(POINTS_MAX),
        4 => below(rng, POINTS_MAX + 1),
        _ => 1 + below(rng, 40),
    }
}

/// A strategy of any kind, with any number of buffers where it has some.
fn draw_strategy(rng: &mut ChaCha20Rng) -> Strategy {
    match pick(rng, &EVERY_STRATEGY) {
        Strategy::Deferred { .. } => Strategy::Deferred { buffers: 2 + below(rng, 4) as u32 },
        Strategy::Threaded { .. } => Strategy::Threaded { buffers: 2 + below(rng, 4) as u32 },
        other => other,
    }
}

/// A product that is not as it should be.
#[derive(Debug, Clone)]
pub struct SoakFailure {
    /// What was drawn.
    pub draw: Draw,
    /// Device.
    pub device: String,
    /// What is wrong.
    pub what: String,
}

/// Points to pick bases from, and devices to run on.
#[derive(Debug)]
pub struct Soak {
    seed: u64,
    g1: KnownBases<G1Projective>,
    g2: KnownBases<G2Projective>,
    devices: Vec<Device>,
    mutant: Option<&'static Mutant>,
}

impl Soak {
    /// On these devices; for the simulated one among them, each draw makes its own. With a mutant, schedules
    /// are changed by it where they have a place for it, which shows that the soak can fail; a CUDA device
    /// runs no mutants, so it keeps its own.
    ///
    /// # Panics
    /// If there is no device.
    pub fn new(seed: u64, devices: Vec<Device>, mutant: Option<&'static Mutant>) -> Self {
        assert!(!devices.is_empty(), "a soak runs on a device");
        let rng = &mut random_numbers(seed, "soak pool");
        let g1 = KnownBases::generate(BaseFlavour::Random, POOL_POINTS, rng);
        let g2 = KnownBases::generate(BaseFlavour::Random, POOL_POINTS, rng);
        Self { seed, g1, g2, devices, mutant }
    }

    /// Draws a product, runs it, and compares.
    ///
    /// # Errors [`SoakFailure`] for a wrong point, an error of the device, memory that is not released, or a
    /// secret that is left in it.
    pub fn iterate(&self, iteration: u64) -> Result<Draw, Box<SoakFailure>> {
        let draw = Draw::new(self.seed, iteration);
        let device = &self.devices[(draw.device % self.devices.len() as u64) as usize];
        let outcome = match draw.group {
            GroupKind::G1 => self.product(&draw, device, &self.g1),
            GroupKind::G2 => self.product(&draw, device, &self.g2),
        };
        let failure = |what| Box::new(SoakFailure { draw, device: device.info().id.clone(), what });
        outcome.map(|()| draw).map_err(failure)
    }

    fn product<G: MsmGroup>(&self, draw: &Draw, device: &Device, pool: &KnownBases<G>) -> Result<(), String> {
        let bases = pick_bases(draw, pool);
        let (device, handle) = match device.info().kind {
            DeviceKind::Cuda => (device.clone(), None),
            DeviceKind::Sim => {
                let backend = SimBackend::new(draw.sim_options());
                let handle = backend.handle();
                (Device::from_backend(Box::new(backend)), Some(handle))
            }
        };
        let mut rng = draw.rng("scalars");
        let runs: Vec<Vec<Fr>> =
            (0..draw.runs).map(|_| draw.scalars.generate(draw.points, &mut rng)).collect();
        match draw.form {
            ScalarForm::Montgomery => self.run::<G, Fr>(draw, &device, &bases, &runs, |scalar| *scalar)?,
            ScalarForm::Canonical => {
                self.run::<G, BigInt<4>>(draw, &device, &bases, &runs, |scalar| scalar.into_bigint())?;
            }
        }
        handle.map_or(Ok(()), |handle| nothing_is_left(&handle, draw, &runs))
    }

    fn run<G: MsmGroup, S: Scalar>(
        &self,
        draw: &Draw,
        device: &Device,
        known: &KnownBases<G>,
        runs: &[Vec<Fr>],
        given: fn(&Fr) -> S,
    ) -> Result<(), String> {
        let fail = |error: MsmError| error.to_string();
        let bases = Bases::<G>::trusted(device, known.points()).map_err(fail)?;
        let mut msm = self.msm::<G, S>(draw, &bases).map_err(fail)?;
        for (i, scalars) in runs.iter().enumerate() {
            let given: Vec<S> = scalars.iter().map(given).collect();
            let found = msm.run(&given).map_err(fail)?;
            let expected = known.product(scalars);
            if found != expected {
                let (found, expected) = (found.into_affine(), expected.into_affine());
                return Err(format!("run {i}: expected {expected}, found {found}"));
            }
        }
        Ok(())
    }

    fn msm<G: MsmGroup, S: Scalar>(&self, draw: &Draw, bases: &Bases<G>) -> Result<Msm<G, S>, MsmError> {
        let Draw { window_bits, result_memory, .. } = *draw;
        let counted = MsmConfig { window_bits, result_memory, ..MsmConfig::batches(draw.batches) }
            .with_pattern(draw.pattern);
        let limits = DeviceLimits::of(bases.device())?;
        let plan = MsmPlan::new(G::KIND, S::FORM, bases.len() as u64, &counted, &limits)?;
        // What these batches take: fewer may fit it as well, if they are not longer.
        let bytes = Batches::FitBytes(plan.device_bytes());
        let batches = if draw.by_bytes { bytes } else { counted.batches };
        let config = MsmConfig { batches, ..counted };
        let may_mutate = bases.device().info().kind == DeviceKind::Sim;
        let plan = MsmPlan::new(G::KIND, S::FORM, bases.len() as u64, &config, &limits)?;
        match self
            .mutant
            .filter(|_| may_mutate && plan.batch_count > 0)
            .and_then(|mutant| mutant.apply(&plan))
        {
            None => Msm::new(bases, &config),
            Some(schedule) => Msm::with_schedule(bases, plan, CheckedSchedule::for_simulation_only(schedule)),
        }
    }
}

/// Bases of the draw's flavour, from the pool: their logarithms are known, and none is computed.
fn pick_bases<G: MsmGroup>(draw: &Draw, pool: &KnownBases<G>) -> KnownBases<G> {
    let rng = &mut draw.rng("bases");
    let any = |rng: &mut ChaCha20Rng| {
        let i = below(rng, pool.points().len() as u64) as usize;
        (pool.points()[i], pool.logs()[i])
    };
    let identity = (G::Affine::default(), Fr::ZERO);
    let (mut last, one) = (identity, any(rng));
    let next = |i: usize| match draw.bases {
        BaseFlavour::Random => any(rng),
        BaseFlavour::AllEqual => one,
        BaseFlavour::Opposites if i % 2 == 1 => (-last.0, -last.1),
        BaseFlavour::Opposites => {
            last = any(rng);
            last
        }
        BaseFlavour::SomeIdentities if below(rng, 5) == 0 => identity,
        BaseFlavour::SomeIdentities => any(rng),
        BaseFlavour::Identities => identity,
    };
    (0..draw.points).map(next).collect()
}

/// After the product: no memory, stream or event is held, and one of the scalars is nowhere.
fn nothing_is_left(handle: &SimHandle, draw: &Draw, runs: &[Vec<Fr>]) -> Result<(), String> {
    let Stats { device_bytes, pinned_bytes, live_streams, live_events, .. } = handle.stats();
    if (device_bytes, pinned_bytes, live_streams, live_events) != (0, 0, 0, 0) {
        return Err(format!("not released: {:?}", handle.stats()));
    }
    // A search through all memory costs as much as a product, so it is not for each. What is mostly zeros would be
    // found by chance.
    let is_unlikely = |scalar: &&Fr| scalar.into_bigint().0.iter().all(|limb| *limb != 0);
    let secret = runs.iter().flatten().find(is_unlikely);
    if let (Some(secret), true) = (secret, draw.iteration.is_multiple_of(8)) {
        let bytes = match draw.form {
            ScalarForm::Montgomery => gpu_core::layout::bytes_of(std::slice::from_ref(secret)).to_vec(),
            ScalarForm::Canonical => gpu_core::layout::bytes_of(&secret.into_bigint().0).to_vec(),
        };
        let found = handle.find_bytes(&bytes);
        if !found.is_empty() {
            return Err(format!("a scalar is left in memory: {}", found.join(", ")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu_core::DeviceBuf;
    use std::collections::BTreeSet;

    #[test]
    fn a_draw_is_a_function_of_seed_and_number() {
        assert_eq!(Draw::new(3, 17), Draw::new(3, 17));
        assert_ne!(Draw::new(3, 17).device, Draw::new(3, 18).device);
        assert_ne!(Draw::new(3, 17).device, Draw::new(4, 17).device);
    }

    #[test]
    fn what_is_left_is_found_and_what_looks_like_it_is_not() {
        let backend = SimBackend::new(SimOptions::default());
        let handle = backend.handle();
        let device = Device::from_backend(Box::new(backend));
        let draw = Draw { form: ScalarForm::Montgomery, ..Draw::new(1, 8) };
        let stream = device.stream("left").expect("a stream");
        let left = nothing_is_left(&handle, &draw, &[]).expect_err("a stream is left");
        assert!(left.starts_with("not released"), "{left}");
        drop(stream);
        // Freed without being wiped, as no secret may be.
        let (secret, short) = (-Fr::from(2), Fr::from(2));
        let freed = [secret, short].map(|scalar| DeviceBuf::from_slice(&device, "left", &[scalar]));
        drop(freed.map(|buf| buf.expect("memory")));
        let left = nothing_is_left(&handle, &draw, &[vec![short, secret]]).expect_err("a secret is left");
        assert!(left.contains("freed buffer left"), "{left}");
        assert_eq!(nothing_is_left(&handle, &draw, &[vec![short]]), Ok(()));
    }

    #[test]
    fn everything_is_drawn() {
        let draws: Vec<Draw> = (0..2_000).map(|i| Draw::new(1, i)).collect();
        let values = |value: fn(&Draw) -> String| draws.iter().map(value).collect::<BTreeSet<_>>();
        assert_eq!(values(|draw| draw.group.word().into()).len(), 2);
        assert_eq!(values(|draw| draw.scalars.to_string()).len(), ScalarFlavour::ALL.len());
        assert_eq!(values(|draw| draw.bases.to_string()).len(), BaseFlavour::ALL.len());
        assert!(values(|draw| draw.pattern.strategy.to_string()).len() > EVERY_STRATEGY.len());
        for points in [0, 1, 31, 32, 33, 129, 255, 400] {
            assert!(draws.iter().any(|draw| draw.points == points), "{points} points");
        }
        for draw in &draws {
            assert!(draw.batches >= 1 && draw.batches as usize <= draw.points.max(1), "{draw}");
        }
    }
}
