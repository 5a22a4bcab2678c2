//! The API: bases that stay on a device, and products over them.

use crate::fold::fold;
use crate::group::MsmGroup;
use crate::modules;
use crate::plan::{BaseSet, DeviceLimits, MsmConfig, MsmPlan, PlanError, ScalarForm, Table};
use crate::schedule::{self, BASES, FOLD, SCALARS, STAGE};
use crate::table;
use ark_bls12_381::{Fq, Fr};
use ark_ec::AffineRepr;
use ark_ff::{BigInt, PrimeField};
use gpu_core::layout::{bytes_of, slice_of};
use gpu_core::{Bindings, CheckedSchedule, Device, DeviceBuf, GpuError, Pod, Registered, Trace, Workspace};
use rayon::prelude::*;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

/// Scalars that one thread copies at a time: one core alone fills page-locked memory ten times slower than it
/// goes up.
const STAGE_PART: usize = 1 << 14;

/// What can go wrong in an MSM.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MsmError {
    /// Bases and scalars differ in number.
    #[error("{bases} bases and {scalars} scalars")]
    LengthMismatch {
        /// Number of bases.
        bases: usize,
        /// Number of scalars.
        scalars: usize,
    },
    /// A canonical scalar that is not below the group order. [`reduced`] reduces, if that is meant.
    #[error("scalar {index} is not below the group order")]
    ScalarNotReduced {
        /// Its index.
        index: usize,
    },
    /// A run with operands elsewhere than the product was made for.
    #[error("the product was made for {expected}, and was run with {found}")]
    WrongOperands {
        /// What it was made for.
        expected: Operands,
        /// What it got.
        found: Operands,
    },
    /// A base that is not on the curve.
    #[error("base {index} is not on the curve")]
    NotOnCurve {
        /// Its index.
        index: usize,
    },
    /// A base on the curve that is not of the prime order.
    #[error("base {index} is not in the subgroup of prime order")]
    NotInSubgroup {
        /// Its index.
        index: usize,
    },
    /// No plan for these sizes: nothing was allocated.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The device failed.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

/// Where the operands of a product are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operands {
    /// Bases on the device, scalars in host memory: [`Msm::new`] and [`Msm::run`].
    HostScalars,
    /// Both on the device: [`Msm::over_resident`] and [`Msm::run_resident`].
    Resident,
    /// Both in host memory, the bases page-locked: [`Msm::streaming`] and [`Msm::run_streamed`].
    Streamed,
}

impl std::fmt::Display for Operands {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Operands::HostScalars => "scalars from the host",
            Operands::Resident => "scalars on the device",
            Operands::Streamed => "bases and scalars from the host",
        })
    }
}

/// A form in which scalars are given: the type decides it, and no flag.
pub trait Scalar: Pod + sealed::Sealed {
    /// The form.
    const FORM: ScalarForm;

    /// Whether it is below the group order.
    fn is_reduced(&self) -> bool;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for ark_bls12_381::Fr {}
    impl Sealed for ark_ff::BigInt<4> {}
}

/// arkworks' field element, in Montgomery form; reduced by construction.
impl Scalar for Fr {
    const FORM: ScalarForm = ScalarForm::Montgomery;

    fn is_reduced(&self) -> bool {
        true
    }
}

/// A plain integer, which must be below the group order.
impl Scalar for BigInt<4> {
    const FORM: ScalarForm = ScalarForm::Canonical;

    fn is_reduced(&self) -> bool {
        *self < Fr::MODULUS
    }
}

/// Integers of 256 bits reduced modulo the group order.
pub fn reduced(raw: &[BigInt<4>]) -> Vec<Fr> {
    use ark_ff::BigInteger;
    raw.par_iter().map(|integer| Fr::from_le_bytes_mod_order(&integer.to_bytes_le())).collect()
}

/// Bases on a device, and multiples of them where they have a table. Clones share them.
#[derive(Debug, Clone)]
pub struct Bases<G: MsmGroup> {
    /// Columns of the table, one after another; the bases themselves are the first.
    points: DeviceBuf<G::Affine>,
    set: BaseSet,
}

impl<G: MsmGroup> Bases<G> {
    /// Checks that each point is in the group (the identity is), and uploads them.
    ///
    /// # Errors
    /// [`MsmError::NotOnCurve`], [`MsmError::NotInSubgroup`] for the first bad point; [`MsmError::Gpu`].
    pub fn new(device: &Device, points: &[G::Affine]) -> Result<Self, MsmError> {
        let bad = points
            .par_iter()
            .enumerate()
            .find_map_first(|(index, point)| G::check_member(index, point).err());
        match bad {
            Some(error) => Err(error),
            None => Self::trusted(device, points),
        }
    }

    /// Uploads points that are known to be in the group. With others the product is undefined, though nothing
    /// worse.
    ///
    /// # Errors
    /// [`MsmError::Gpu`].
    pub fn trusted(device: &Device, points: &[G::Affine]) -> Result<Self, MsmError> {
        Ok(Self::from_buffer(DeviceBuf::from_slice(device, "bases", points)?))
    }

    /// Bases that are on a device already, trusted as those of [`trusted`](Self::trusted) are.
    pub fn from_buffer(points: DeviceBuf<G::Affine>) -> Self {
        let set = (points.len() as u64).into();
        Self { points, set }
    }

    /// The same bases with a table of multiples, computed on the device: `table.columns` times their memory, and fewer
    /// additions in every product. [`Table::within`] finds the table for so much memory.
    ///
    /// # Errors
    /// [`MsmError::Plan`] for a table that no product could use; [`MsmError::Gpu`].
    pub fn with_table(&self, table: Table) -> Result<Self, MsmError> {
        let set = BaseSet { table: Some(table), ..self.set };
        set.check()?;
        Ok(Self { points: table::build::<G>(self.device(), &self.points, self.len(), &table)?, set })
    }

    /// Number of bases.
    pub fn len(&self) -> usize {
        self.set.count as usize
    }

    /// The bases where they are: columns of their table one after another, the bases themselves first.
    pub fn buffer(&self) -> &DeviceBuf<G::Affine> {
        &self.points
    }

    /// Number of bases, and their table.
    pub fn set(&self) -> BaseSet {
        self.set
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.set.count == 0
    }

    /// The device that they are on.
    pub fn device(&self) -> &Device {
        self.points.device()
    }
}

/// Products over fixed bases: plan, schedule and memory are made once, and [`run`](Self::run) allocates
/// nothing.
#[derive(Debug)]
pub struct Msm<G: MsmGroup, S: Scalar = Fr> {
    plan: MsmPlan,
    bindings: Bindings<'static>,
    operands: Operands,
    workspace: Option<Workspace>,
    trace: Option<Trace>,
    kind: PhantomData<(G, S)>,
}

impl<G: MsmGroup, S: Scalar> Msm<G, S> {
    /// Plans, checks the schedule, loads the kernels and takes the memory.
    ///
    /// # Errors
    /// [`MsmError::Plan`] before anything is allocated; [`MsmError::Gpu`].
    pub fn new(bases: &Bases<G>, config: &MsmConfig) -> Result<Self, MsmError> {
        let plan = Self::planned(bases.device(), bases.set, config)?;
        Self::with_schedule(bases, plan, CheckedSchedule::new(schedule::build(&plan))?)
    }

    /// As [`new`](Self::new), for scalars that are on the device already: [`run_resident`](Self::run_resident) takes them.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn over_resident(bases: &Bases<G>, config: &MsmConfig) -> Result<Self, MsmError> {
        let plan = Self::planned(bases.device(), bases.set, config)?;
        let schedule = CheckedSchedule::new(schedule::build_resident(&plan))?;
        Ok(Self { operands: Operands::Resident, ..Self::with_schedule(bases, plan, schedule)? })
    }

    /// As [`new`](Self::new), for `count` bases that stay in host memory and go up batch by batch in every run:
    /// [`run_streamed`](Self::run_streamed) takes them. For sets that the device has no room for; with several batches all
    /// but the first go up while the device is busy with those before.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn streaming(device: &Device, count: usize, config: &MsmConfig) -> Result<Self, MsmError> {
        let plan = Self::planned(device, BaseSet::streamed(count as u64), config)?;
        let schedule = CheckedSchedule::new(schedule::build(&plan))?;
        Self::on(device, Bindings::new(), plan, schedule, Operands::Streamed)
    }

    fn planned(device: &Device, bases: BaseSet, config: &MsmConfig) -> Result<MsmPlan, MsmError> {
        let limits = DeviceLimits::of(device)?;
        Ok(MsmPlan::new(G::KIND, S::FORM, bases, config, &limits)?)
    }

    /// As [`new`](Self::new), with a schedule that is not the plan's own: how the harness runs what it has
    /// changed.
    ///
    /// # Errors
    /// [`MsmError::Gpu`].
    ///
    /// # Panics
    /// If the schedule's bases are not its first buffer.
    pub fn with_schedule(
        bases: &Bases<G>,
        plan: MsmPlan,
        schedule: CheckedSchedule,
    ) -> Result<Self, MsmError> {
        assert_eq!(schedule.schedule().buffers[BASES.0 as usize].name, "bases");
        let bindings = Bindings::new().bind(BASES, &bases.points);
        Self::on(bases.device(), bindings, plan, schedule, Operands::HostScalars)
    }

    fn on(
        device: &Device,
        bindings: Bindings<'static>,
        plan: MsmPlan,
        schedule: CheckedSchedule,
        operands: Operands,
    ) -> Result<Self, MsmError> {
        let workspace = match plan.batch_count {
            0 => None,
            _ => {
                let [pair, accumulate, merge, reduce] = G::MODULES;
                device.load(&[
                    &modules::MSM_DIGITS,
                    &modules::MSM_PARTITION,
                    pair,
                    accumulate,
                    merge,
                    reduce,
                ])?;
                let mut workspace = Workspace::new(device, Arc::new(schedule))?;
                if plan.graph {
                    workspace.enable_graphs()?;
                }
                Some(workspace)
            }
        };
        Ok(Self { plan, bindings, operands, workspace, trace: None, kind: PhantomData })
    }

    /// Measures each operation on the device's clock from now on.
    ///
    /// # Errors
    /// [`MsmError::Gpu`].
    pub fn enable_timing(&mut self) -> Result<(), MsmError> {
        self.workspace.as_mut().map_or(Ok(()), |workspace| Ok(workspace.enable_timing()?))
    }

    /// The plan.
    pub fn plan(&self) -> &MsmPlan {
        &self.plan
    }

    /// The schedule that runs; `None` for no points.
    pub fn schedule(&self) -> Option<&gpu_core::Schedule> {
        self.workspace.as_ref().map(Workspace::schedule)
    }

    /// Trace of the last run; `None` before the first, and for no points.
    pub fn trace(&self) -> Option<&Trace> {
        self.trace.as_ref()
    }

    /// The sum of `scalars[i] * bases[i]`. No points give the identity.
    ///
    /// # Errors
    /// [`MsmError::LengthMismatch`], [`MsmError::ScalarNotReduced`] and [`MsmError::WrongOperands`] before anything runs;
    /// [`MsmError::Gpu`], after which the next run is right again.
    pub fn run(&mut self, scalars: &[S]) -> Result<G, MsmError> {
        self.expect(scalars.len(), Operands::HostScalars)?;
        check_reduced(scalars)?;
        self.run_bound(self.bindings.clone(), scalars)
    }

    /// As [`run`](Self::run), with bases from page-locked host memory, which are trusted as those of [`Bases::trusted`] are.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_streamed(&mut self, bases: &Registered<'_, G::Affine>, scalars: &[S]) -> Result<G, MsmError> {
        self.expect(scalars.len(), Operands::Streamed)?;
        if bases.len() != scalars.len() {
            return Err(MsmError::LengthMismatch { bases: bases.len(), scalars: scalars.len() });
        }
        check_reduced(scalars)?;
        self.run_bound(Bindings::new().bind_registered(BASES, bases), scalars)
    }

    /// As [`run`](Self::run), with scalars on the device. Canonical ones must be below the group order: nobody looks.
    ///
    /// # Errors
    /// As [`run`](Self::run), but for the look at the scalars.
    pub fn run_resident(&mut self, scalars: &DeviceBuf<S>) -> Result<G, MsmError> {
        self.expect(scalars.len(), Operands::Resident)?;
        self.run_bound(self.bindings.clone().bind(SCALARS, scalars), &[])
    }

    fn expect(&self, scalars: usize, found: Operands) -> Result<(), MsmError> {
        let bases = self.plan.base_count as usize;
        if scalars != bases {
            return Err(MsmError::LengthMismatch { bases, scalars });
        }
        match found == self.operands {
            true => Ok(()),
            false => Err(MsmError::WrongOperands { expected: self.operands, found }),
        }
    }

    fn run_bound(&mut self, bindings: Bindings<'_>, scalars: &[S]) -> Result<G, MsmError> {
        let plan = self.plan;
        let Some(workspace) = &mut self.workspace else { return Ok(G::zero()) };
        // Nothing panics under the lock but the addition itself, and then the run panics too.
        let total = Mutex::new(G::zero());
        let trace = workspace.run(&bindings, &|op, mut views| {
            let batch = op.batch.expect("host steps of an MSM belong to a batch");
            match op.name.as_ref() {
                STAGE => {
                    let range = plan.batch(batch);
                    let source = &scalars[range.start as usize..range.end as usize];
                    let parts =
                        views.write::<S>(0).par_chunks_mut(STAGE_PART).zip(source.par_chunks(STAGE_PART));
                    parts.for_each(|(slot, source)| slot.copy_from_slice(source));
                }
                FOLD => {
                    let part = fold::<G>(&plan, views.read(0));
                    *total.lock().unwrap_or_else(PoisonError::into_inner) += part;
                }
                other => unreachable!("an MSM schedule has no host step {other}"),
            }
            Ok(())
        })?;
        self.trace = Some(trace);
        Ok(total.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

fn check_reduced<S: Scalar>(scalars: &[S]) -> Result<(), MsmError> {
    match scalars.par_iter().position_first(|scalar| !scalar.is_reduced()) {
        Some(index) => Err(MsmError::ScalarNotReduced { index }),
        None => Ok(()),
    }
}

/// The sum of `scalars[i] * bases[i]` on a device, once: arkworks' `msm` with a device in front.
///
/// # Errors
/// As [`Bases::trusted`], [`Msm::new`] and [`Msm::run`].
pub fn msm<G: MsmGroup>(device: &Device, bases: &[G::Affine], scalars: &[Fr]) -> Result<G, MsmError> {
    if bases.len() != scalars.len() {
        return Err(MsmError::LengthMismatch { bases: bases.len(), scalars: scalars.len() });
    }
    let bases = Bases::<G>::trusted(device, bases)?;
    Msm::<G, Fr>::new(&bases, &MsmConfig::default())?.run(scalars)
}

/// Membership checks, per curve because arkworks puts them on the concrete affine type. A coordinate that is not below p, as
/// bytes from elsewhere can be, is on no curve: arkworks' arithmetic is not made for one.
pub(crate) fn check_point<C: ark_ec::short_weierstrass::SWCurveConfig>(
    index: usize,
    point: &ark_ec::short_weierstrass::Affine<C>,
) -> Result<(), MsmError>
where
    ark_ec::short_weierstrass::Affine<C>: Pod,
{
    let coordinates: &[BigInt<6>] = slice_of(bytes_of(std::slice::from_ref(point)));
    if coordinates.iter().any(|coordinate| *coordinate >= Fq::MODULUS) || !point.is_on_curve() {
        return Err(MsmError::NotOnCurve { index });
    }
    if !point.is_zero() && !point.is_in_correct_subgroup_assuming_on_curve() {
        return Err(MsmError::NotInSubgroup { index });
    }
    Ok(())
}
