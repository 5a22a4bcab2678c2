//! Many small launches: with the host waiting for each, and queued all at once.
//!
//! Waiting for each is what a measurement of small kernels easily measures instead of them; and a host that queues
//! thousands without waiting is held up when the device's queue is full, so its first calls and its last ones are told
//! apart.

use super::record::{Amount, Params};
use super::session::{Case, Sample, Session, micros};
use super::stats::median;
use crate::error::Failure;
use crate::oracle::random_numbers;
use ark_bls12_381::Fq;
use ark_ff::{Field, UniformRand};
use gpu_core::schedule::{Action, Arg, Launch, Work};
use gpu_core::{
    Bindings, CheckedSchedule, Device, DeviceBuf, GpuError, Schedule, Space, Trace, Workspace, modules,
};
use std::sync::Arc;
use std::time::Instant;

/// Values that a launch squares: a kernel of a few microseconds.
const LANES: u32 = 256;

/// Whether the host waits for each launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// For each.
    Each,
    /// At the end.
    Once,
}

/// So many squarings of the same values, one launch each.
pub struct Launches {
    workspace: Workspace,
    bindings: Bindings<'static>,
    values: DeviceBuf<Fq>,
}

impl std::fmt::Debug for Launches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Launches({:?})", self.workspace)
    }
}

impl Launches {
    /// On a device, with values to begin with.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn new(device: &Device, count: u32, waiting: Waiting, values: &[Fq]) -> Result<Self, GpuError> {
        device.load(&[&modules::FIELD_OPS])?;
        let mut schedule = Schedule::new(format!("{count} launches"));
        let id = schedule.buffer("values", Space::Resident, size_of_val(values) as u64);
        let (stream, event) = (schedule.stream("compute"), schedule.event("squared"));
        let lanes = values.len() as u32;
        for index in 0..count {
            let args = vec![Arg::Write(schedule.whole(id)), Arg::U32(lanes), Arg::U32(1)];
            let work = Work { fp_muls: f64::from(lanes), chain_muls: 1.0, ..Work::default() };
            let grid = [lanes.div_ceil(LANES), 1];
            let launch = Launch { kernel: "fp_sqr_chain".into(), grid, block: LANES, args, work };
            schedule.push("fp_sqr_chain", None, Action::Launch { stream, launch });
            if waiting == Waiting::Each || index + 1 == count {
                schedule.push("squared", None, Action::Record { stream, event });
                schedule.push("squared", None, Action::HostWait { event });
            }
        }
        let values = DeviceBuf::from_slice(device, "values", values)?;
        let bindings = Bindings::new().bind(id, &values);
        let workspace = Workspace::new(device, Arc::new(CheckedSchedule::new(schedule)?))?;
        Ok(Self { workspace, bindings, values })
    }

    /// Runs all of them. Operations are not timed one by one: two events around each would be measured with it.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn run(&mut self) -> Result<Trace, GpuError> {
        self.workspace.run(&self.bindings, &|_, _| Ok(()))
    }

    /// The values now.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn values(&self) -> Result<Vec<Fq>, GpuError> {
        self.values.to_vec()
    }

    /// Microseconds that the host is in a call of a launch: median of the first tenth of them, and of the last.
    pub fn call_us(&self, trace: &Trace) -> (f64, f64) {
        let ops = self.workspace.schedule().ops.iter().zip(&trace.calls);
        let launches = ops.filter(|(op, _)| matches!(op.action, Action::Launch { .. }));
        let calls: Vec<f64> = launches.map(|(_, call)| call.end_us - call.start_us).collect();
        let tenth = calls.len().div_ceil(10);
        let of = |part: &[f64]| median(part).unwrap_or(0.0);
        (of(&calls[..tenth]), of(&calls[calls.len() - tenth..]))
    }
}

/// Waited for one by one, and at once.
pub(super) fn run(session: &mut Session<'_>) -> Result<(), Failure> {
    let scale = session.settings.scale;
    for count in session.settings.cases.launch.counts.at(scale).clone() {
        for (word, waiting) in [("waited", Waiting::Each), ("queued", Waiting::Once)] {
            let params = Params {
                who: "gpu".into(),
                what: "launch".into(),
                variant: Some(format!("{count} {word}")),
                ..Params::default()
            };
            if let Some(case) = session.case("launch", format!("{count}/{word}"), params) {
                measure(session, case, count, waiting)?;
            }
        }
    }
    Ok(())
}

fn measure(session: &mut Session<'_>, case: Case, count: u32, waiting: Waiting) -> Result<(), Failure> {
    let rng = &mut random_numbers(session.settings.seed, "bench launch");
    let values: Vec<Fq> = (0..LANES).map(|_| Fq::rand(rng)).collect();
    let mut launches = Launches::new(&session.device, count, waiting, &values)?;
    launches.run()?;
    let squared = |value: &Fq| (0..count).fold(*value, |value, _| value.square());
    if launches.values()? != values.iter().map(squared).collect::<Vec<_>>() {
        return Err(Failure::Wrong(format!("{}: the squares are not the oracle's", case.id())));
    }
    let (mut first_us, mut last_us) = (Vec::new(), Vec::new());
    let case = Case { amount: Some(Amount::Elements(count.into())), ..case };
    let id = case.id();
    session.measure(case, || {
        let start = Instant::now();
        let trace = launches.run()?;
        let wall_us = micros(start);
        let (first, last) = launches.call_us(&trace);
        first_us.push(first);
        last_us.push(last);
        // Untimed operations have no span on the device: the end of the last wait is the end of all.
        let time_us = trace.spans.iter().map(|span| span.end_us).fold(0.0, f64::max);
        Ok(Sample { time_us, wall_us, idle_us: None })
    })?;
    if let (Some(first), Some(last)) = (median(&first_us), median(&last_us)) {
        session.note(format!("{id}: a call takes {first:.2} us at first, {last:.2} us in the end"));
    }
    Ok(())
}
