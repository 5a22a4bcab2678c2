//! The prover: a key on a device, and as many proofs as are wanted, one after another or at once.

use crate::error::{KeyError, ProveError};
use crate::key::{DeviceKey, KeyPoints, Trust};
use crate::plan::{Product, ProofPlan, ProveConfig, Upload};
use crate::r1cs::R1cs;
use crate::schedule::{self, Resident, STAGE_Z, TOP, VERDICT};
use ark_bls12_381::{Bls12_381, Fr, G1Affine, G1Projective, G2Projective};
use ark_ec::CurveGroup;
use ark_ff::{AdditiveGroup, Field, UniformRand};
use ark_groth16::{Groth16, ProvingKey, VerifyingKey};
use ark_std::rand::{CryptoRng, RngCore};
use gpu_core::run::HostViews;
use gpu_core::schedule::{BufferId, Op};
use gpu_core::{
    Bindings, CheckedSchedule, Device, DeviceBuf, GpuError, Registered, Schedule, Trace, Workspace,
};
use msm_gpu::fold::fold;
use msm_gpu::{Bases, DeviceLimits, MsmError, MsmGroup, MsmPlan};
use rayon::prelude::*;
use rayon::{Scope, join};
use std::cell::Cell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use zeroize::Zeroize;

/// arkworks' own proof type. Compressed, its 192 bytes are bellman's and Zcash's too.
pub type Proof = ark_groth16::Proof<Bls12_381>;

/// Values that one thread copies at a time.
const STAGE_PART: usize = 1 << 14;

/// What a proof took.
#[derive(Debug, Clone)]
pub struct Report {
    /// When each operation of the schedule ran.
    pub trace: Trace,
    /// Host time to put the proof together, in microseconds.
    pub assemble_us: f64,
    /// Host time to verify it, in microseconds; `None` where that is off.
    pub verify_us: Option<f64>,
}

/// Proofs under one key on one device. Clones share everything; it may be used from any number of threads.
#[derive(Debug, Clone)]
pub struct Prover {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    key: Arc<DeviceKey>,
    config: ProveConfig,
    plan: ProofPlan,
    schedule: Arc<CheckedSchedule>,
    bindings: Bindings<'static>,
    z_host: Option<BufferId>,
    jobs: Jobs,
}

impl Prover {
    /// Checks a key, brings it to a device, and checks the schedule of its proofs.
    ///
    /// # Errors
    /// As [`DeviceKey::new`], [`with_key`](Self::with_key).
    pub fn new(device: &Device, key: &ProvingKey<Bls12_381>, r1cs: &R1cs) -> Result<Self, ProveError> {
        let key = DeviceKey::new(device, key, r1cs, Trust::Checked)?;
        Self::with_key(Arc::new(key), &ProveConfig::default())
    }

    /// Proofs under a key that is on a device.
    ///
    /// # Errors
    /// [`KeyError::Reduction`] for a key of another reduction than `config` insists on; [`ProveError::Plan`] for what does
    /// not fit; [`ProveError::Gpu`].
    pub fn with_key(key: Arc<DeviceKey>, config: &ProveConfig) -> Result<Self, ProveError> {
        match (config.reduction, key.reduction()) {
            (Some(expected), found) if expected != found => {
                return Err(KeyError::Reduction { expected, found }.into());
            }
            _ => {}
        }
        let device = key.device();
        let limits = DeviceLimits::of(device)?;
        let plan = ProofPlan::new(key.shape(), config, &limits)?;
        let schedule = Arc::new(CheckedSchedule::new(schedule::build(&plan))?);
        device.load(msm_gpu::modules::ALL)?;
        device.load(ntt_gpu::modules::ALL)?;
        let (bindings, z_host) = bind(&key, &plan)?;
        // The first proof's memory is taken here: what does not fit is known before anybody waits for a proof.
        let workspace = Workspace::new(device, schedule.clone())?;
        let jobs = Jobs::new(config.jobs_max.max(1), workspace);
        Ok(Self { inner: Arc::new(Inner { key, config: *config, plan, schedule, bindings, z_host, jobs }) })
    }

    /// The key.
    pub fn key(&self) -> &DeviceKey {
        &self.inner.key
    }

    /// Proofs that run at once.
    pub(crate) fn jobs_max(&self) -> usize {
        self.inner.jobs.jobs_max
    }

    /// The plan.
    pub fn plan(&self) -> &ProofPlan {
        &self.inner.plan
    }

    /// The schedule that each proof runs.
    pub fn schedule(&self) -> &Schedule {
        self.inner.schedule.schedule()
    }

    /// A proof, blinded by random numbers.
    ///
    /// # Errors
    /// As [`prove_with`](Self::prove_with).
    pub fn prove(
        &self,
        assignment: &[Fr],
        rng: &mut (impl RngCore + CryptoRng),
    ) -> Result<Proof, ProveError> {
        let (mut r, mut s) = (Fr::rand(rng), Fr::rand(rng));
        let proof = self.prove_with(assignment, r, s);
        r.zeroize();
        s.zeroize();
        proof
    }

    /// A proof with given blinding numbers: the same bytes as arkworks' or snarkjs' for the same r and s. Who chooses them
    /// other than at random gives zero knowledge up.
    ///
    /// # Errors
    /// [`ProveError::LengthMismatch`], [`ProveError::FirstNotOne`] before anything runs; [`ProveError::Unsatisfied`] before
    /// any product runs, unless the key has no C; [`ProveError::Invalid`] unless the proof verifies; [`ProveError::Gpu`].
    /// After any of them, the next proof is right again.
    pub fn prove_with(&self, assignment: &[Fr], r: Fr, s: Fr) -> Result<Proof, ProveError> {
        Ok(self.prove_reported(assignment, r, s, false)?.0)
    }

    /// As [`prove_with`](Self::prove_with), with what it took; `timed` measures each operation on the device's clock.
    ///
    /// # Errors
    /// As [`prove_with`](Self::prove_with).
    pub fn prove_reported(
        &self,
        assignment: &[Fr],
        r: Fr,
        s: Fr,
        timed: bool,
    ) -> Result<(Proof, Report), ProveError> {
        let inner = &*self.inner;
        let expected = inner.plan.shape.variable_count as usize;
        if assignment.len() != expected {
            return Err(ProveError::LengthMismatch { expected, found: assignment.len() });
        }
        if assignment[0] != Fr::ONE {
            return Err(ProveError::FirstNotOne);
        }
        let _span = tracing::info_span!("prove", device = inner.key.device().info().id).entered();
        let mut job = inner.jobs.take(|| Workspace::new(inner.key.device(), inner.schedule.clone()))?;
        // A job that is used again may have been timed.
        match timed {
            true => job.workspace().enable_timing()?,
            false => job.workspace().disable_timing(),
        }
        let registered = match inner.z_host {
            Some(_) => Some(Registered::new(inner.key.device(), "the assignment", assignment)?),
            None => None,
        };
        let mut bindings = inner.bindings.clone();
        if let (Some(z_host), Some(registered)) = (inner.z_host, &registered) {
            bindings = bindings.bind_registered(z_host, registered);
        }
        let (sums, blinding) = (Mutex::new(Sums::default()), Mutex::new(None));
        let refused = Mutex::new(None);
        // What depends on r and s alone is computed while the device works, and a product is folded while others run.
        let outcome = rayon::in_place_scope(|scope| {
            scope.spawn(|_| *lock(&blinding) = Some(Blinding::new(&inner.key.points, r, s)));
            job.workspace().run(&bindings, &|op: &Op, views: HostViews<'_>| {
                inner.host_step(op, views, assignment, scope, &sums).map_err(|refusal| {
                    let step = GpuError::HostStep { step: op.name.to_string(), cause: refusal.to_string() };
                    *lock(&refused) = Some(refusal);
                    step
                })
            })
        });
        let trace = match (outcome, into_inner(refused)) {
            (_, Some(refusal)) => {
                job.keep();
                return Err(refusal);
            }
            (Ok(trace), None) => trace,
            (Err(error), None) => return Err(error.into()),
        };
        job.keep();
        let start = Instant::now();
        let blinding = into_inner(blinding).expect("the scope has ended, and with it what it began");
        let assembling = tracing::debug_span!("assemble").entered();
        let proof = into_inner(sums).assemble(&inner.key.points, &blinding, r, s);
        drop(assembling);
        let assemble_us = start.elapsed().as_secs_f64() * 1e6;
        let mut verify_us = None;
        if inner.config.verify {
            let start = Instant::now();
            self.verify(&assignment[1..inner.plan.shape.input_count as usize], &proof)?;
            verify_us = Some(start.elapsed().as_secs_f64() * 1e6);
        }
        Ok((proof, Report { trace, assemble_us, verify_us }))
    }

    /// Whether a proof verifies for public inputs, the constant 1 left out.
    ///
    /// # Errors
    /// [`ProveError::Invalid`] if it does not; [`ProveError::LengthMismatch`] for a wrong number of inputs, which
    /// arkworks' verifier does not refuse.
    pub fn verify(&self, inputs: &[Fr], proof: &Proof) -> Result<(), ProveError> {
        let vk = &self.inner.key.vk;
        let expected = vk.vk.gamma_abc_g1.len() - 1;
        if inputs.len() != expected {
            return Err(ProveError::LengthMismatch { expected, found: inputs.len() });
        }
        match Groth16::<Bls12_381>::verify_proof(vk, proof, inputs) {
            Ok(true) => Ok(()),
            _ => Err(ProveError::Invalid),
        }
    }

    /// The verifying key.
    pub fn verifying_key(&self) -> &VerifyingKey<Bls12_381> {
        self.inner.key.verifying_key()
    }
}

/// What has been summed of the products so far.
#[derive(Debug, Default)]
struct Sums {
    a: G1Projective,
    b_g1: G1Projective,
    b_g2: G2Projective,
    l: G1Projective,
    h: G1Projective,
}

impl Sums {
    /// The sum of a product in G1.
    fn g1(&mut self, product: Product) -> &mut G1Projective {
        match product {
            Product::A => &mut self.a,
            Product::BG1 => &mut self.b_g1,
            Product::L => &mut self.l,
            Product::H => &mut self.h,
            Product::BG2 => unreachable!("a product in G2"),
        }
    }

    /// A, B and C.
    ///
    /// ```text
    /// A = alpha + sum z_i a_i + r delta           B = beta + sum z_i b_i + s delta
    /// C = s A + r B - r s delta + sum z_i l_i + sum h_i tau^i Z(tau) / delta
    /// ```
    fn assemble(&self, points: &KeyPoints, blinding: &Blinding, r: Fr, s: Fr) -> Proof {
        let a = self.a + points.alpha_g1 + blinding.r_delta_g1;
        let b_g1 = self.b_g1 + points.beta_g1 + blinding.s_delta_g1;
        let b_g2 = self.b_g2 + points.beta_g2 + blinding.s_delta_g2;
        let (s_a, (r_b, b)) = join(|| a * s, || join(|| b_g1 * r, || b_g2.into_affine()));
        let c = s_a + r_b - blinding.rs_delta_g1 + self.l + self.h;
        Proof { a: a.into_affine(), b, c: c.into_affine() }
    }
}

/// Multiples of delta by the blinding numbers.
#[derive(Debug)]
struct Blinding {
    r_delta_g1: G1Projective,
    s_delta_g1: G1Projective,
    rs_delta_g1: G1Projective,
    s_delta_g2: G2Projective,
}

impl Blinding {
    fn new(points: &KeyPoints, r: Fr, s: Fr) -> Self {
        Self {
            r_delta_g1: points.delta_g1 * r,
            s_delta_g1: points.delta_g1 * s,
            rs_delta_g1: points.delta_g1 * (r * s),
            s_delta_g2: points.delta_g2 * s,
        }
    }
}

impl Inner {
    /// Does what an operation asks of the host. Folding is left to other threads, until the end of `scope`.
    fn host_step<'scope>(
        &'scope self,
        op: &Op,
        mut views: HostViews<'_>,
        assignment: &[Fr],
        scope: &Scope<'scope>,
        sums: &'scope Mutex<Sums>,
    ) -> Result<(), ProveError> {
        match op.name.as_ref() {
            STAGE_Z => {
                let chunk = match self.plan.upload {
                    Upload::Pageable | Upload::Register => assignment.len(),
                    Upload::Ring { chunk, .. } => chunk.max(1) as usize,
                };
                let start = op.batch.expect("a part of the assignment has a number") as usize * chunk;
                let slot = views.write::<Fr>(0);
                let source = &assignment[start..start + slot.len()];
                let parts = slot.par_chunks_mut(STAGE_PART).zip(source.par_chunks(STAGE_PART));
                parts.for_each(|(slot, source)| slot.copy_from_slice(source));
            }
            VERDICT => {
                let failing = views.read::<u32>(0)[0];
                if failing != 0 {
                    let constraint = (self.plan.shape.constraint_count - failing) as usize;
                    return Err(ProveError::Unsatisfied { constraint });
                }
            }
            TOP => {
                if views.read::<Fr>(0)[0] != Fr::ZERO {
                    return Err(ProveError::Quotient);
                }
            }
            other => {
                let product = schedule::folded(other).expect("a proof's schedule has no other host step");
                let plan = self.plan.product(product).expect("a product that is folded has points");
                match product {
                    Product::BG2 => {
                        let rows = views.read(0).to_vec();
                        scope.spawn(move |_| {
                            let part = fold::<G2Projective>(plan, &rows);
                            lock(sums).b_g2 += part;
                        });
                    }
                    _ => {
                        let rows = views.read(0).to_vec();
                        scope.spawn(move |_| {
                            let part = fold::<G1Projective>(plan, &rows);
                            *lock(sums).g1(product) += part;
                        });
                    }
                }
            }
        }
        Ok(())
    }
}

/// Binds what is resident to the buffers of the plan's schedule; and the buffer that a proof's assignment is bound to,
/// if one is.
fn bind(key: &DeviceKey, plan: &ProofPlan) -> Result<(Bindings<'static>, Option<BufferId>), ProveError> {
    let resident = Resident::declare(plan, &mut Schedule::new("resident"));
    let [row_offsets, columns, factors, coefficients] = resident.constraints;
    let bindings = Bindings::new()
        .bind(row_offsets, &key.row_offsets)
        .bind(columns, &key.columns)
        .bind(factors, &key.factors)
        .bind(coefficients, &key.coefficients);
    let tables = resident.tables.iter().zip(&key.tables);
    let bindings = tables.fold(bindings, |bindings, (id, tables)| bindings.bind(*id, tables.buffer()));
    let mut bindings = bindings;
    for ((product, id), (_, msm)) in resident.bases.iter().zip(&plan.products) {
        let g1 = |query: &DeviceBuf<G1Affine>| expanded::<G1Projective>(query, msm);
        bindings = match product {
            Product::A => bindings.bind(*id, &g1(&key.a_query)?),
            Product::BG1 => bindings.bind(*id, &g1(&key.b_g1_query)?),
            Product::BG2 => bindings.bind(*id, &expanded::<G2Projective>(&key.b_g2_query, msm)?),
            Product::L => bindings.bind(*id, &g1(&key.l_query)?),
            Product::H => bindings.bind(*id, &g1(&key.h_query)?),
        };
    }
    Ok((bindings, resident.z_host))
}

/// A query with the multiples that a plan wants of it.
fn expanded<G: MsmGroup>(
    query: &DeviceBuf<G::Affine>,
    msm: &MsmPlan,
) -> Result<DeviceBuf<G::Affine>, ProveError> {
    match msm.table() {
        None => Ok(query.clone()),
        Some(table) => match Bases::<G>::from_buffer(query.clone()).with_table(table) {
            Ok(bases) => Ok(bases.buffer().clone()),
            Err(MsmError::Gpu(error)) => Err(error.into()),
            Err(MsmError::Plan(error)) => Err(error.into()),
            Err(other) => unreachable!("a table of points on a device: {other}"),
        },
    }
}

thread_local! {
    /// Turns that this thread has.
    static TURNS: Cell<usize> = const { Cell::new(0) };
}

/// Memory of proofs: what runs, up to a limit, and what waits to be used again.
#[derive(Debug)]
struct Jobs {
    jobs_max: usize,
    state: Mutex<JobsState>,
    changed: Condvar,
}

#[derive(Debug)]
struct JobsState {
    running: usize,
    idle: Vec<Workspace>,
    /// Who comes next takes this number, and waits until it is `called`.
    next: u64,
    called: u64,
}

impl Jobs {
    fn new(jobs_max: usize, first: Workspace) -> Self {
        let state = Mutex::new(JobsState { running: 0, idle: vec![first], next: 0, called: 0 });
        Self { jobs_max, state, changed: Condvar::new() }
    }

    /// Waits for a turn, and takes memory: what an earlier proof left, or new. Turns come in the order in which they are
    /// asked for, so that none waits for ever behind others that begin again and again.
    ///
    /// A thread of rayon's that waits for its own tasks may begin another proof meanwhile. That one does not wait, or it
    /// might for the one below it: there can be more proofs at once than the limit says, by such ones.
    fn take(&self, make: impl FnOnce() -> gpu_core::Result<Workspace>) -> gpu_core::Result<Job<'_>> {
        let is_nested = TURNS.get() > 0;
        let mut state = lock(&self.state);
        if !is_nested {
            let number = state.next;
            state.next += 1;
            let may_not = |state: &mut JobsState| state.running >= self.jobs_max || state.called != number;
            state = self.changed.wait_while(state, may_not).unwrap_or_else(PoisonError::into_inner);
            state.called += 1;
            self.changed.notify_all();
        }
        state.running += 1;
        TURNS.set(TURNS.get() + 1);
        let idle = state.idle.pop();
        drop(state);
        let mut job = Job { jobs: self, workspace: idle, is_kept: false };
        if job.workspace.is_none() {
            job.workspace = Some(make()?);
        }
        Ok(job)
    }
}

/// A proof's turn. Ends with it, however the proof ends, and on the thread that it began on.
struct Job<'a> {
    jobs: &'a Jobs,
    workspace: Option<Workspace>,
    is_kept: bool,
}

impl Job<'_> {
    fn workspace(&mut self) -> &mut Workspace {
        self.workspace.as_mut().expect("a turn has memory until it ends")
    }

    /// The memory is good for another proof. It is not after a failure of the device, or a panic.
    fn keep(&mut self) {
        self.is_kept = true;
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        // Released, and wiped, before the turn ends: whoever comes next finds the memory free.
        let kept = self.workspace.take().filter(|_| self.is_kept);
        let mut state = lock(&self.jobs.state);
        state.running -= 1;
        TURNS.set(TURNS.get() - 1);
        state.idle.extend(kept);
        drop(state);
        self.jobs.changed.notify_all();
    }
}

/// What a lock here guards is whole after each change, so that a panic elsewhere poisons nothing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
}
