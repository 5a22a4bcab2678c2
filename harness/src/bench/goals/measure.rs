//! Takes the times of goals.

use super::{FieldName, Interval, Outcome, Product, Row, TableCost, Way, Work};
use crate::bench::cases::{Cases, Scale};
use crate::bench::inputs::Inputs;
use crate::bench::session::Sample;
use crate::bench::ways::{Ready, Tabled, no_room, on_device};
use crate::bench::{field, ntt, stats};
use crate::error::Failure;
use crate::oracle::ScalarFlavour;
use ark_bls12_381::{Fr, G1Projective, G2Projective};
use gpu_core::{Device, DeviceKind, GpuError};
use msm_gpu::{GroupKind, MsmGroup, MsmPlan};
use serde::Serialize;

/// How rows are measured.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Which sizes.
    pub scale: Scale,
    /// Runs of each row, after one that is not counted.
    pub runs: u32,
    /// Seed of bases, scalars and values.
    pub seed: u64,
    /// Device memory of a table at most; a share of what is free if not given.
    pub table_bytes: Option<u64>,
}

/// What a row took.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// The median, or the ratio of two, in the unit of the row's marks.
    pub value: f64,
    /// Where it lies, with 95 % confidence; `None` for a ratio.
    pub interval: Option<Interval>,
    /// Whether it is on the simulated device's virtual clock.
    pub is_virtual: bool,
    /// Each run, in microseconds.
    pub samples_us: Vec<f64>,
    /// Runs of what the row is a ratio to, in microseconds.
    pub over_us: Vec<f64>,
    /// Windows, columns, rounds of a product.
    pub plan: Option<String>,
    /// What the table cost.
    pub table: Option<TableCost>,
}

/// What rows have in common that takes long to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    Operands,
    Values(u32),
    Bases(GroupKind, u32),
}

impl Row {
    fn needs(&self) -> Needs {
        match self.work {
            Work::Msm(product) | Work::MsmOver(product, _) => Needs::Bases(product.group, product.log_n),
            Work::Ntt(log_n) => Needs::Values(log_n),
            Work::Field(_) => Needs::Operands,
        }
    }

    /// Smaller sizes are measured first, and over the same bases the ways without a table before it is made.
    fn place(&self) -> (u32, u8, Way) {
        let way = match self.work {
            Work::Msm(product) | Work::MsmOver(product, _) => product.way,
            Work::Ntt(_) | Work::Field(_) => Way::Host,
        };
        match self.needs() {
            Needs::Operands => (0, 0, way),
            Needs::Values(log_n) => (log_n, 1, way),
            Needs::Bases(GroupKind::G1, log_n) => (log_n, 2, way),
            Needs::Bases(GroupKind::G2, log_n) => (log_n, 3, way),
        }
    }
}

/// Measures rows; each result is compared with the known one before it counts. The answers are in the order of the rows, and
/// each is told as soon as it is there.
///
/// # Errors
/// [`Failure::Wrong`] for a result that is not the oracle's; whatever a device answers, but that it has no memory for a row.
pub fn measure(
    device: &Device,
    rows: &[Row],
    settings: &Settings,
    tell: &mut dyn FnMut(&Outcome),
) -> Result<Vec<Outcome>, Failure> {
    let bench = Bench { device, settings };
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|index| rows[*index].place());
    let mut outcomes: Vec<(usize, Outcome)> = Vec::new();
    for alike in order.chunk_by(|a, b| rows[*a].needs() == rows[*b].needs()) {
        let mut keep = |index: usize, measured: Result<Measured, Failure>| {
            let outcome = bench.outcome(&rows[index], measured)?;
            tell(&outcome);
            outcomes.push((index, outcome));
            Ok::<(), Failure>(())
        };
        match rows[alike[0]].needs() {
            Needs::Bases(GroupKind::G1, log_n) => {
                bench.products::<G1Projective>(log_n, rows, alike, &mut keep)?;
            }
            Needs::Bases(GroupKind::G2, log_n) => {
                bench.products::<G2Projective>(log_n, rows, alike, &mut keep)?;
            }
            Needs::Values(_) | Needs::Operands => {
                for index in alike {
                    keep(*index, bench.part(&rows[*index]))?;
                }
            }
        }
    }
    outcomes.sort_by_key(|(index, _)| *index);
    Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
}

/// Takes what came of the row of this index.
type Keep<'a> = dyn FnMut(usize, Result<Measured, Failure>) -> Result<(), Failure> + 'a;

struct Bench<'a> {
    device: &'a Device,
    settings: &'a Settings,
}

impl Bench<'_> {
    fn is_virtual(&self) -> bool {
        self.device.info().kind == DeviceKind::Sim
    }

    /// # Errors
    /// A failure that is not one of memory.
    fn outcome(&self, row: &Row, measured: Result<Measured, Failure>) -> Result<Outcome, Failure> {
        let (measured, skipped) = match measured {
            Ok(measured) => (Some(measured), None),
            Err(failure) => match no_room(&failure) {
                Some(reason) => (None, Some(reason)),
                None => return Err(failure),
            },
        };
        let is_judged = !self.is_virtual() && self.settings.scale == Scale::Full;
        let standing =
            measured.as_ref().filter(|_| is_judged).map(|measured| row.marks.standing(measured.value));
        Ok(Outcome {
            id: row.id(),
            title: row.title(),
            marks: row.marks.clone(),
            measured,
            skipped,
            standing,
        })
    }

    /// All rows over the same bases.
    fn products<G: MsmGroup>(
        &self,
        log_n: u32,
        rows: &[Row],
        alike: &[usize],
        keep: &mut Keep<'_>,
    ) -> Result<(), Failure> {
        let mut over = OverBases::<G> { bench: self, log_n, inputs: Vec::new(), tabled: None };
        for index in alike {
            let measured = match rows[*index].work {
                Work::Msm(product) => over.product(&rows[*index].id(), product),
                Work::MsmOver(product, other) => over.ratio(&rows[*index].id(), product, other),
                Work::Ntt(_) | Work::Field(_) => unreachable!("it needs no bases"),
            };
            keep(*index, measured)?;
        }
        Ok(())
    }

    /// A transform, or multiplications.
    fn part(&self, row: &Row) -> Result<Measured, Failure> {
        let chains = || {
            let (cases, scale) = (Cases::built_in().field, self.settings.scale);
            (1_usize << cases.log_lanes.at(scale), *cases.steps.at(scale))
        };
        match row.work {
            Work::Field(FieldName::Fp) => {
                let mut shown = field::fp_mul(self.device, self.settings.seed, chains())?;
                self.rate(shown.products, || Ok(shown.run()?))
            }
            Work::Field(FieldName::Fr) => {
                let mut shown = field::fr_mul(self.device, self.settings.seed, chains())?;
                self.rate(shown.products, || Ok(shown.run()?))
            }
            Work::Ntt(log_n) => self.transform(&row.id(), log_n),
            Work::Msm(_) | Work::MsmOver(..) => unreachable!("a product is over bases"),
        }
    }

    fn transform(&self, id: &str, log_n: u32) -> Result<Measured, Failure> {
        self.expect_room(size_of::<Fr>() as u64, log_n)?;
        let values = ntt::values(self.settings.seed, log_n);
        let mut transform = ntt::OnDevice::new(self.device, log_n, None, &values)?;
        if self.is_virtual() {
            transform.enable_timing()?;
        }
        transform.run()?;
        if transform.to_vec()? != ntt::by_arkworks(log_n, None, &values) {
            return Err(Failure::Wrong(format!("{id}: the values are not the oracle's")));
        }
        drop(values);
        // From here on it transforms what it has transformed: the time does not depend on values.
        let samples_us = (0..self.settings.runs).map(|_| Ok(self.time_us(transform.run()?)));
        self.time(samples_us.collect::<Result<_, Failure>>()?)
    }

    /// That the device holds so many bytes for each of 2^log_n, before anything that takes long is made for it.
    fn expect_room(&self, bytes_each: u64, log_n: u32) -> Result<(), Failure> {
        let (needed_bytes, free_bytes) = (bytes_each << log_n, self.device.free_bytes()?);
        match needed_bytes > free_bytes {
            true => Err(GpuError::OutOfMemory { op: "inputs".into(), needed_bytes, free_bytes }.into()),
            false => Ok(()),
        }
    }

    /// What counts of a run: wall time, or what the virtual clock says.
    fn time_us(&self, sample: Sample) -> f64 {
        if self.is_virtual() { sample.time_us } else { sample.wall_us }
    }

    fn measured(&self, value: f64, samples_us: Vec<f64>) -> Measured {
        Measured {
            value,
            interval: None,
            is_virtual: self.is_virtual(),
            samples_us,
            over_us: Vec::new(),
            plan: None,
            table: None,
        }
    }

    /// Times as milliseconds.
    fn time(&self, samples_us: Vec<f64>) -> Result<Measured, Failure> {
        let ms: Vec<f64> = samples_us.iter().map(|us| us / 1e3).collect();
        let (value, interval) = (median(&ms)?, stats::median_interval(&ms));
        Ok(Measured { interval, ..self.measured(value, samples_us) })
    }

    /// Products a second, on the device's clock.
    fn rate(
        &self,
        products: u64,
        mut run: impl FnMut() -> Result<Sample, Failure>,
    ) -> Result<Measured, Failure> {
        let samples_us: Vec<f64> =
            (0..self.settings.runs).map(|_| Ok(run()?.time_us)).collect::<Result<_, Failure>>()?;
        let rates: Vec<f64> = samples_us.iter().map(|us| products as f64 / us / 1e3).collect();
        let (value, interval) = (median(&rates)?, stats::median_interval(&rates));
        Ok(Measured { interval, ..self.measured(value, samples_us) })
    }
}

fn median(values: &[f64]) -> Result<f64, Failure> {
    stats::median(values).ok_or_else(|| Failure::Usage("a median of no runs".into()))
}

/// What products over the same bases share.
struct OverBases<'a, G: MsmGroup> {
    bench: &'a Bench<'a>,
    log_n: u32,
    /// The bases, with each flavour of scalars that was asked for.
    inputs: Vec<Inputs<G>>,
    tabled: Option<Tabled<G>>,
}

impl<G: MsmGroup> OverBases<'_, G> {
    /// Makes what a product needs, and says where its inputs are.
    fn prepare(&mut self, product: Product) -> Result<usize, Failure> {
        let Settings { seed, table_bytes, .. } = *self.bench.settings;
        let has = |inputs: &Inputs<G>, flavour: ScalarFlavour| inputs.flavour == flavour;
        let index = match self.inputs.iter().position(|inputs| has(inputs, product.scalars)) {
            Some(index) => index,
            None => {
                let made = match self.inputs.first() {
                    Some(inputs) => inputs.beside(product.scalars, seed)?,
                    None => {
                        let bytes_each = G::KIND.affine_bytes() + size_of::<Fr>() as u64;
                        self.bench.expect_room(bytes_each, self.log_n)?;
                        Inputs::new(self.bench.device, product.scalars, self.log_n, seed)?
                    }
                };
                self.inputs.push(made);
                self.inputs.len() - 1
            }
        };
        if product.way == Way::Table && self.tabled.is_none() {
            self.tabled = Some(Tabled::new(&self.inputs[index].bases, table_bytes)?);
        }
        Ok(index)
    }

    fn ready(&self, product: Product, inputs: usize) -> Result<Ready<'_, G>, Failure> {
        let config = on_device(product.batches);
        let mut ready = Ready::new(product.way, &self.inputs[inputs], self.tabled.as_ref(), &config)?;
        if self.bench.is_virtual() {
            ready.msm.enable_timing()?;
        }
        Ok(ready)
    }

    fn table(&self, product: Product) -> Option<TableCost> {
        self.tabled.as_ref().filter(|_| product.way == Way::Table)?.cost
    }

    fn product(&mut self, id: &str, product: Product) -> Result<Measured, Failure> {
        let inputs = self.prepare(product)?;
        let mut ready = self.ready(product, inputs)?;
        ready.run(id)?;
        let runs = (0..self.bench.settings.runs).map(|_| Ok(self.bench.time_us(ready.run(id)?)));
        let samples_us = runs.collect::<Result<_, Failure>>()?;
        let plan = Some(plan_text(ready.msm.plan()));
        Ok(Measured { plan, table: self.table(product), ..self.bench.time(samples_us)? })
    }

    /// Two products in turn, so that what the machine does meanwhile meets both alike.
    fn ratio(&mut self, id: &str, product: Product, other: Product) -> Result<Measured, Failure> {
        let [ours, theirs] = [self.prepare(product)?, self.prepare(other)?];
        let (mut ours, mut theirs) = (self.ready(product, ours)?, self.ready(other, theirs)?);
        ours.run(id)?;
        theirs.run(id)?;
        let (mut samples_us, mut over_us) = (Vec::new(), Vec::new());
        for _ in 0..self.bench.settings.runs {
            samples_us.push(self.bench.time_us(ours.run(id)?));
            over_us.push(self.bench.time_us(theirs.run(id)?));
        }
        let value = median(&samples_us)? / median(&over_us)?;
        let (plan, table) = (Some(plan_text(ours.msm.plan())), self.table(product));
        Ok(Measured { over_us, plan, table, ..self.bench.measured(value, samples_us) })
    }
}

/// Windows, and what makes them cheaper.
fn plan_text(plan: &MsmPlan) -> String {
    let mut text = format!("{} bits", plan.window_bits);
    if plan.pair_rounds > 0 {
        text += &format!(", {} rounds", plan.pair_rounds);
    }
    text
}
