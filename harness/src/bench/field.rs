//! Multiplications a second on the device: chains of dependent products, enough of them side by side to fill it.

use super::record::{Amount, Params};
use super::session::{Case, Sample, Session, micros};
use crate::error::Failure;
use crate::oracle::random_numbers;
use ark_bls12_381::{Fq, Fq2, Fr};
use ark_ff::{AdditiveGroup, Field};
use gpu_core::schedule::{Action, Arg, Launch, Work};
use gpu_core::{
    Bindings, CheckedSchedule, Device, DeviceBuf, GpuError, Pod, Schedule, Space, Workspace, modules,
};
use rand_chacha::ChaCha20Rng;
use rayon::prelude::*;
use std::sync::Arc;
use std::time::Instant;

/// A product in Fr and in Fp2, and a square in Fp, in products in Fp: by their counts of wide products.
const FR_MUL: f64 = 136.0 / 300.0;
const FP2_MUL: f64 = 744.0 / 300.0;
const FP_SQR: f64 = 234.0 / 300.0;

/// Threads of a block.
const BLOCK: u32 = 256;

/// Every field.
pub(super) fn run(session: &mut Session<'_>) -> Result<(), Failure> {
    let squares = |x: Fq, _: Fq, steps| ((0..steps).fold(x, |x, _| x.square()), Fq::ZERO);
    chain::<Fq>(session, "fp_mul_chain", true, 1.0, products)?;
    chain::<Fq>(session, "fp_sqr_chain", false, FP_SQR, squares)?;
    chain::<Fr>(session, "fr_mul_chain", true, FR_MUL, products)?;
    chain::<Fq2>(session, "fp2_mul_chain", true, FP2_MUL, products)
}

/// The oracle of a chain: arkworks, step by step.
fn products<F: Field>(x: F, y: F, steps: u32) -> (F, F) {
    (0..steps).fold((x, y), |(x, y), _| (x * y, x * y * y))
}

/// Operands of a chain on the device, and the one launch.
struct Chain<F: Pod> {
    workspace: Workspace,
    bindings: Bindings<'static>,
    x: DeviceBuf<F>,
    y: DeviceBuf<F>,
}

impl<F: Pod> Chain<F> {
    fn new(
        device: &Device,
        kernel: &'static str,
        is_pair: bool,
        steps: u32,
        fp_muls: f64,
        [x, y]: [&[F]; 2],
    ) -> Result<Self, GpuError> {
        device.load(&[&modules::FIELD_OPS])?;
        let lanes = x.len() as u32;
        let mut schedule = Schedule::new(kernel);
        let bytes = size_of_val(x) as u64;
        let ids = ["x", "y"].map(|name| schedule.buffer(name, Space::Resident, bytes));
        let (x, y) = (DeviceBuf::from_slice(device, "x", x)?, DeviceBuf::from_slice(device, "y", y)?);
        let bindings = Bindings::new().bind(ids[0], &x).bind(ids[1], &y);
        let stream = schedule.stream("compute");
        let mut args = vec![Arg::Write(schedule.whole(ids[0]))];
        if is_pair {
            args.push(Arg::Write(schedule.whole(ids[1])));
        }
        args.extend([Arg::U32(lanes), Arg::U32(steps)]);
        let work = Work { fp_muls, ..Work::default() };
        let grid = [lanes.div_ceil(BLOCK), 1];
        let launch = Launch { kernel: kernel.into(), grid, block: BLOCK, args, work };
        schedule.push(kernel, None, Action::Launch { stream, launch });
        let mut workspace = Workspace::new(device, Arc::new(CheckedSchedule::new(schedule)?))?;
        workspace.enable_timing()?;
        Ok(Self { workspace, bindings, x, y })
    }

    fn run(&mut self) -> Result<Sample, GpuError> {
        let start = Instant::now();
        let trace = self.workspace.run(&self.bindings, &|_, _| Ok(()))?;
        Ok(Sample::of(self.workspace.schedule(), &trace, micros(start)))
    }
}

fn chain<F: Field + Pod>(
    session: &mut Session<'_>,
    kernel: &'static str,
    is_pair: bool,
    muls: f64,
    oracle: fn(F, F, u32) -> (F, F),
) -> Result<(), Failure> {
    let params =
        Params { who: "gpu".into(), what: "field".into(), variant: Some(kernel.into()), ..Params::default() };
    let Some(case) = session.case("field", kernel.into(), params) else { return Ok(()) };
    let (cases, scale) = (&session.settings.cases.field, session.settings.scale);
    let chains = (1_usize << cases.log_lanes.at(scale), *cases.steps.at(scale));
    let mut shown =
        Shown::new(&session.device, session.settings.seed, kernel, is_pair, muls, chains, oracle)?;
    let floor_us = session.profile().map(|profile| shown.fp_muls / profile.fp_mul_per_s * 1e6);
    let case = Case { amount: Some(Amount::Elements(shown.products)), floor_us, ..case };
    session.measure(case, || Ok(shown.run()?))
}

/// Chains whose results were the oracle's.
pub(super) struct Shown<F: Pod> {
    on_device: Chain<F>,
    /// Products of a run.
    pub(super) products: u64,
    /// What they are worth in products in Fp.
    fp_muls: f64,
}

impl<F: Field + Pod> Shown<F> {
    /// So many chains of so many steps, run once, and compared.
    fn new(
        device: &Device,
        seed: u64,
        kernel: &'static str,
        is_pair: bool,
        muls: f64,
        (lanes, steps): (usize, u32),
        oracle: fn(F, F, u32) -> (F, F),
    ) -> Result<Self, Failure> {
        let rng = &mut random_numbers(seed, &format!("bench {kernel}"));
        let draw = |rng: &mut ChaCha20Rng| -> Vec<F> { (0..lanes).map(|_| F::rand(rng)).collect() };
        let (x, y) = (draw(rng), draw(rng));
        let products = lanes as u64 * u64::from(steps) * if is_pair { 2 } else { 1 };
        let fp_muls = products as f64 * muls;
        let mut on_device = Chain::new(device, kernel, is_pair, steps, fp_muls, [&x, &y])?;
        on_device.run()?;
        let (found_x, found_y) = (on_device.x.to_vec()?, on_device.y.to_vec()?);
        let is_right = (0..lanes).into_par_iter().all(|lane| {
            let (expected_x, expected_y) = oracle(x[lane], y[lane], steps);
            found_x[lane] == expected_x && (!is_pair || found_y[lane] == expected_y)
        });
        if !is_right {
            return Err(Failure::Wrong(format!("{kernel}: the products are not the oracle's")));
        }
        Ok(Self { on_device, products, fp_muls })
    }

    pub(super) fn run(&mut self) -> Result<Sample, GpuError> {
        self.on_device.run()
    }
}

/// Multiplications in Fp.
pub(super) fn fp_mul(device: &Device, seed: u64, chains: (usize, u32)) -> Result<Shown<Fq>, Failure> {
    Shown::new(device, seed, "fp_mul_chain", true, 1.0, chains, products)
}

/// Multiplications in Fr.
pub(super) fn fr_mul(device: &Device, seed: u64, chains: (usize, u32)) -> Result<Shown<Fr>, Failure> {
    Shown::new(device, seed, "fr_mul_chain", true, FR_MUL, chains, products)
}
