//! The API: polynomials on a device, and a domain that transforms them.

use crate::domain::{Direction, Domain, OrderKind, Shift, Transform};
use crate::error::NttError;
use crate::modules;
use crate::plan::{NttConfig, NttPlan};
use crate::schedule::{self, DATA, TABLES};
use crate::tables::Tables;
use ark_bls12_381::Fr;
use ark_ff::{AdditiveGroup, PrimeField};
use gpu_core::{Bindings, CheckedSchedule, Device, DeviceBuf, Workspace};
use rayon::prelude::*;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

/// An order of values in memory, as a type.
pub trait Order: sealed::Sealed + 'static {
    /// The order that a transform turns it into.
    type Other: Order<Other = Self>;
    /// The same, as a value.
    const KIND: OrderKind;
}

/// Value i at position i.
#[derive(Debug, Clone, Copy)]
pub struct Natural;
/// Value i at the position whose log_n bits are those of i reversed.
#[derive(Debug, Clone, Copy)]
pub struct BitReversed;

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Natural {}
    impl Sealed for super::BitReversed {}
}

impl Order for Natural {
    type Other = BitReversed;
    const KIND: OrderKind = OrderKind::Natural;
}

impl Order for BitReversed {
    type Other = Natural;
    const KIND: OrderKind = OrderKind::BitReversed;
}

/// Polynomials on a device, by coefficients or values, in the order O: one job after another.
///
/// A transform takes it and gives its memory back in the other order, so there is one name for it at a time.
pub struct Poly<O> {
    values: DeviceBuf<Fr>,
    log_n: u32,
    order: PhantomData<O>,
}

impl<O: Order> fmt::Debug for Poly<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Poly({} jobs of 2^{}, {:?})", self.job_count(), self.log_n, O::KIND)
    }
}

impl<O: Order> Poly<O> {
    /// Values of all jobs, in the order O within each.
    ///
    /// # Errors
    /// [`NttError::Gpu`].
    pub fn to_vec(&self) -> Result<Vec<Fr>, NttError> {
        Ok(self.values.to_vec()?)
    }

    /// Polynomials.
    pub fn job_count(&self) -> u64 {
        self.values.len() as u64 >> self.log_n
    }

    /// log2 of the values of one.
    pub fn log_n(&self) -> u32 {
        self.log_n
    }

    /// The memory, to bind to a schedule. What a schedule does to it is not seen in the type.
    pub fn buffer(&self) -> &DeviceBuf<Fr> {
        &self.values
    }

    fn with_order<P: Order>(self) -> Poly<P> {
        Poly { values: self.values, log_n: self.log_n, order: PhantomData }
    }
}

/// A domain on a device. Tables are made at the first transform that needs them and stay until the domain is
/// dropped; transforms of one domain run one at a time, whatever thread they come from.
#[derive(Debug)]
pub struct NttDomain {
    device: Device,
    domain: Domain,
    config: NttConfig,
    made: Mutex<Made>,
}

/// What is kept from one transform to the next. A workspace holds no memory here: data and tables are bound.
#[derive(Debug, Default)]
struct Made {
    tables: HashMap<Transform, Tables>,
    workspaces: HashMap<(Option<Transform>, u64), Workspace>,
}

impl NttDomain {
    /// A domain with the default configuration. Compiles the kernels at the first use of the device.
    ///
    /// # Errors
    /// [`NttError::Gpu`].
    pub fn new(device: &Device, domain: Domain) -> Result<Self, NttError> {
        Self::with_config(device, domain, NttConfig::default())
    }

    /// A domain on a device.
    ///
    /// # Errors
    /// [`NttError::PassBits`], [`NttError::Gpu`].
    pub fn with_config(device: &Device, domain: Domain, config: NttConfig) -> Result<Self, NttError> {
        NttPlan::new(domain.log_n(), 1, &config)?;
        device.load(modules::ALL)?;
        Ok(Self { device: device.clone(), domain, config, made: Mutex::default() })
    }

    /// The domain.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The plan for so many polynomials.
    ///
    /// # Errors
    /// [`NttError::Empty`], [`NttError::TooManyJobs`].
    pub fn plan(&self, job_count: u64) -> Result<NttPlan, NttError> {
        NttPlan::new(self.domain.log_n(), job_count, &self.config)
    }

    /// Copies polynomials to the device: whole ones, one after another.
    ///
    /// # Errors
    /// [`NttError::Empty`], [`NttError::LengthMismatch`], [`NttError::NotReduced`] for limbs that are no
    /// value below the modulus, [`NttError::Gpu`].
    pub fn upload<O: Order>(&self, values: &[Fr]) -> Result<Poly<O>, NttError> {
        let (len, domain_len) = (values.len() as u64, self.domain.len());
        if len == 0 {
            return Err(NttError::Empty);
        }
        if len % domain_len != 0 {
            return Err(NttError::LengthMismatch { len, domain_len });
        }
        if let Some(index) = values.par_iter().position_first(|value| value.0 >= Fr::MODULUS) {
            return Err(NttError::NotReduced { index });
        }
        let values = DeviceBuf::from_slice(&self.device, "poly", values)?;
        Ok(Poly { values, log_n: self.domain.log_n(), order: PhantomData })
    }

    /// Copies one polynomial's lowest coefficients to the device, in natural order; the others are zero.
    ///
    /// # Errors
    /// [`NttError::LengthMismatch`] for more than n coefficients; as [`upload`](Self::upload).
    pub fn upload_padded(&self, coeffs: &[Fr]) -> Result<Poly<Natural>, NttError> {
        let (len, domain_len) = (coeffs.len() as u64, self.domain.len());
        if len == 0 {
            return Err(NttError::Empty);
        }
        if len > domain_len {
            return Err(NttError::LengthMismatch { len, domain_len });
        }
        let mut padded = coeffs.to_vec();
        padded.resize(domain_len as usize, Fr::ZERO);
        self.upload(&padded)
    }

    /// Coefficients to values on the domain.
    ///
    /// # Errors
    /// As [`transform`](Self::transform).
    pub fn forward<O: Order>(&self, coeffs: Poly<O>) -> Result<Poly<O::Other>, NttError> {
        self.transform(Direction::Forward, None, coeffs)
    }

    /// Values on the domain to coefficients.
    ///
    /// # Errors
    /// As [`transform`](Self::transform).
    pub fn inverse<O: Order>(&self, values: Poly<O>) -> Result<Poly<O::Other>, NttError> {
        self.transform(Direction::Inverse, None, values)
    }

    /// Coefficients to values on a coset.
    ///
    /// # Errors
    /// As [`transform`](Self::transform).
    pub fn coset_forward<O: Order>(&self, shift: Shift, coeffs: Poly<O>) -> Result<Poly<O::Other>, NttError> {
        self.transform(Direction::Forward, Some(shift), coeffs)
    }

    /// Values on a coset to coefficients.
    ///
    /// # Errors
    /// As [`transform`](Self::transform).
    pub fn coset_inverse<O: Order>(&self, shift: Shift, values: Poly<O>) -> Result<Poly<O::Other>, NttError> {
        self.transform(Direction::Inverse, Some(shift), values)
    }

    /// Any transform, in place, of all jobs. On an error the polynomials are gone: they may be half
    /// transformed.
    ///
    /// # Errors
    /// [`NttError::ShiftInDomain`] for a shift of a smaller domain, [`NttError::LengthMismatch`] for
    /// polynomials of another domain's size, [`NttError::Gpu`].
    pub fn transform<O: Order>(
        &self,
        direction: Direction,
        shift: Option<Shift>,
        poly: Poly<O>,
    ) -> Result<Poly<O::Other>, NttError> {
        let transform = Transform { direction, input: O::KIND, shift };
        let tables = self.tables(&transform)?;
        self.run(Some(&tables), &poly)?;
        Ok(poly.with_order())
    }

    /// The same polynomials in the other order: the only operation that permutes.
    ///
    /// # Errors
    /// [`NttError::LengthMismatch`], [`NttError::Gpu`].
    pub fn reorder<O: Order>(&self, poly: Poly<O>) -> Result<Poly<O::Other>, NttError> {
        self.run(None, &poly)?;
        Ok(poly.with_order())
    }

    /// The tables of a transform, made at the first call.
    ///
    /// # Errors
    /// [`NttError::ShiftInDomain`] for a shift of a smaller domain, [`NttError::Gpu`].
    pub fn tables(&self, transform: &Transform) -> Result<Tables, NttError> {
        let made = &mut self.made.lock().unwrap_or_else(PoisonError::into_inner).tables;
        if let Some(tables) = made.get(transform) {
            return Ok(tables.clone());
        }
        let tables = Tables::new(&self.device, &self.domain, &self.plan(1)?, transform)?;
        made.insert(*transform, tables.clone());
        Ok(tables)
    }

    fn run<O: Order>(&self, tables: Option<&Tables>, poly: &Poly<O>) -> Result<(), NttError> {
        let (len, domain_len) = (poly.values.len() as u64, self.domain.len());
        if poly.log_n != self.domain.log_n() {
            return Err(NttError::LengthMismatch { len, domain_len });
        }
        let plan = self.plan(poly.job_count())?;
        // A panic while the map is held leaves it valid: a workspace is kept between runs and nothing else.
        let made = &mut self.made.lock().unwrap_or_else(PoisonError::into_inner).workspaces;
        let workspace = match made.entry((tables.map(|tables| *tables.transform()), plan.job_count)) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let schedule = match tables {
                    Some(tables) => schedule::transform(&plan, tables.transform()),
                    None => schedule::reverse_order(&plan),
                };
                let schedule = Arc::new(CheckedSchedule::new(schedule)?);
                entry.insert(Workspace::new(&self.device, schedule)?)
            }
        };
        let bindings = Bindings::new().bind(DATA, &poly.values);
        let bindings = match tables {
            Some(tables) => bindings.bind(TABLES, tables.buffer()),
            None => bindings,
        };
        workspace.run(&bindings, &|op, _| unreachable!("a transform has no host step {}", op.name))?;
        Ok(())
    }
}
