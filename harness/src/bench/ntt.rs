//! Transforms of one polynomial, in place on the device: natural order in, bit-reversed order out.

use super::record::{Amount, Params};
use super::session::{Case, Sample, Session, floor_us, micros};
use crate::error::Failure;
use crate::oracle::{arkworks_domain, bit_reversed, random_numbers};
use ark_bls12_381::Fr;
use ark_ff::{FftField, Field, UniformRand};
use ark_poly::EvaluationDomain;
use gpu_core::{Bindings, CheckedSchedule, Device, DeviceBuf, Workspace};
use ntt_gpu::schedule::{self, DATA, TABLES};
use ntt_gpu::{Direction, Domain, NttConfig, NttError, NttPlan, OrderKind, Shift, Tables, Transform};
use std::sync::Arc;
use std::time::Instant;

/// Plain and on a coset, over size.
pub(super) fn run(session: &mut Session<'_>) -> Result<(), Failure> {
    let scale = session.settings.scale;
    for log_n in session.settings.cases.ntt.log_n.at(scale).clone() {
        for (word, shift) in [("plain", None), ("coset", Some(Shift::generator()))] {
            let params = Params {
                who: "gpu".into(),
                what: "ntt".into(),
                log_n: Some(log_n),
                variant: Some(word.into()),
                ..Params::default()
            };
            if let Some(case) = session.case("ntt", format!("{word}/2^{log_n}"), params) {
                measure(session, case, log_n, shift)?;
            }
        }
    }
    Ok(())
}

/// A polynomial on the device, and what transforms it.
pub(super) struct OnDevice {
    pub(super) workspace: Workspace,
    bindings: Bindings<'static>,
    data: DeviceBuf<Fr>,
}

impl OnDevice {
    pub(super) fn new(
        device: &Device,
        log_n: u32,
        shift: Option<Shift>,
        values: &[Fr],
    ) -> Result<Self, NttError> {
        let plan = NttPlan::new(log_n, 1, &NttConfig::default())?;
        device.load(ntt_gpu::modules::ALL)?;
        let transform = Transform { direction: Direction::Forward, input: OrderKind::Natural, shift };
        let tables = Tables::new(device, &Domain::arkworks(log_n)?, &plan, &transform)?;
        let data = DeviceBuf::from_slice(device, "data", values)?;
        let checked = Arc::new(CheckedSchedule::new(schedule::transform(&plan, &transform))?);
        let workspace = Workspace::new(device, checked)?;
        let bindings = Bindings::new().bind(DATA, &data).bind(TABLES, tables.buffer());
        Ok(Self { workspace, bindings, data })
    }

    /// Measures each operation on the device's clock from now on.
    pub(super) fn enable_timing(&mut self) -> Result<(), NttError> {
        Ok(self.workspace.enable_timing()?)
    }

    /// Transforms what is there.
    pub(super) fn run(&mut self) -> Result<Sample, NttError> {
        let start = Instant::now();
        let trace = self.workspace.run(&self.bindings, &|_, _| Ok(()))?;
        Ok(Sample::of(self.workspace.schedule(), &trace, micros(start)))
    }

    pub(super) fn to_vec(&self) -> Result<Vec<Fr>, NttError> {
        Ok(self.data.to_vec()?)
    }
}

/// arkworks' transform of the same values, in bit-reversed order.
pub(super) fn by_arkworks(log_n: u32, shift: Option<Shift>, values: &[Fr]) -> Vec<Fr> {
    let omega = Fr::get_root_of_unity(1 << log_n).expect("the field has such a root");
    let offset = if shift.is_some() { Fr::GENERATOR } else { Fr::ONE };
    bit_reversed(&arkworks_domain(log_n, omega, offset).fft(values))
}

pub(super) fn values(seed: u64, log_n: u32) -> Vec<Fr> {
    let rng = &mut random_numbers(seed, &format!("bench ntt {log_n}"));
    (0..1_u64 << log_n).map(|_| Fr::rand(rng)).collect()
}

fn measure(
    session: &mut Session<'_>,
    mut case: Case,
    log_n: u32,
    shift: Option<Shift>,
) -> Result<(), Failure> {
    let values = values(session.settings.seed, log_n);
    let mut transform = OnDevice::new(&session.device, log_n, shift, &values)?;
    transform.enable_timing()?;
    transform.run()?;
    if transform.to_vec()? != by_arkworks(log_n, shift, &values) {
        return Err(Failure::Wrong(format!("{}: the values are not the oracle's", case.id())));
    }
    drop(values);
    case.amount = Some(Amount::Elements(1 << log_n));
    case.floor_us = session.profile().map(|profile| floor_us(transform.workspace.schedule(), &profile));
    // From here on it transforms what it has transformed: the time does not depend on values.
    session.measure(case, || Ok(transform.run()?))
}
