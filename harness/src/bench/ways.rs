//! Ways of a product: where its scalars and its bases are when the clock starts, and whether there is a table.

use super::inputs::Inputs;
use super::session::{Sample, micros};
use crate::error::Failure;
use ark_bls12_381::Fr;
use gpu_core::{DeviceBuf, GpuError, Registered};
use msm_gpu::{
    BaseSet, Bases, DeviceLimits, Msm, MsmConfig, MsmError, MsmGroup, MsmPlan, ScalarForm, Strategy, Table,
};
use ntt_gpu::NttError;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use std::time::Instant;

/// Batches that a streamed product may have here.
const STREAMED_BATCHES: std::ops::RangeInclusive<u32> = 1..=1024;

/// Where scalars and bases are before the clock starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Bases on the device, scalars in memory of the host.
    Host,
    /// Both on the device.
    Resident,
    /// Both in memory of the host, the bases page-locked; they go up batch by batch.
    Streamed {
        /// Batches.
        batches: u32,
    },
    /// Both on the device, and multiples of the bases with them.
    Table,
}

impl Way {
    /// Batches that the way is cut into, where it says.
    pub fn batches(self) -> u32 {
        match self {
            Self::Streamed { batches } => batches,
            Self::Host | Self::Resident | Self::Table => 1,
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Resident => f.write_str("resident"),
            Self::Table => f.write_str("table"),
            Self::Streamed { batches } => write!(f, "streamed:{batches}"),
        }
    }
}

impl FromStr for Way {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(batches) = text.strip_prefix("streamed:") {
            return match batches.parse() {
                Ok(batches) if STREAMED_BATCHES.contains(&batches) => Ok(Self::Streamed { batches }),
                _ => Err(format!("streamed in `{batches}` batches: 1 to 1024 are possible")),
            };
        }
        let named = [Self::Host, Self::Resident, Self::Table].into_iter().find(|way| way.to_string() == text);
        named.ok_or_else(|| format!("`{text}` is not `host`, `resident`, `table` or `streamed:N`"))
    }
}

/// As many batches, with buckets on the device over all of them.
pub(super) fn on_device(batches: u32) -> MsmConfig {
    MsmConfig { strategy: Strategy::OnDevice, ..MsmConfig::batches(batches) }
}

/// Why there is no room for something, where that is why it failed.
pub(super) fn no_room(failure: &Failure) -> Option<String> {
    match failure {
        Failure::Plan(_) | Failure::Msm(MsmError::Plan(_)) => Some(failure.to_string()),
        Failure::Gpu(error) | Failure::Msm(MsmError::Gpu(error)) | Failure::Ntt(NttError::Gpu(error)) => {
            matches!(error, GpuError::OutOfMemory { .. }).then(|| error.to_string())
        }
        _ => None,
    }
}

/// What a table is, and what it took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TableCost {
    /// Bits of a window.
    pub window_bits: u32,
    /// Columns, the bases themselves among them.
    pub columns: u32,
    /// Device memory of all columns.
    pub bytes: u64,
    /// Wall time in which it was computed on the device, in microseconds.
    pub build_us: f64,
}

/// Bases with the best table that there is memory for.
#[derive(Debug)]
pub(super) struct Tabled<G: MsmGroup> {
    pub(super) bases: Bases<G>,
    /// `None` where no table is worth it, or none fits.
    pub(super) cost: Option<TableCost>,
}

impl<G: MsmGroup> Tabled<G> {
    /// With a table of at most so many bytes, or of at most three quarters of the memory that is free; smaller where it
    /// would leave a product of one batch without room.
    pub(super) fn new(bases: &Bases<G>, bytes_max: Option<u64>) -> Result<Self, Failure> {
        let (device, count) = (bases.device(), bases.len() as u64);
        let limits = DeviceLimits::of(device)?;
        let mut bytes_max = bytes_max.unwrap_or(limits.free_bytes / 4 * 3);
        loop {
            let Some(table) = Table::within(G::KIND, count, bytes_max, None, &limits) else {
                return Ok(Self { bases: bases.clone(), cost: None });
            };
            let bytes = count * u64::from(table.columns) * G::KIND.affine_bytes();
            let taken = bytes + count * size_of::<Fr>() as u64;
            let left = DeviceLimits { free_bytes: limits.free_bytes.saturating_sub(taken), ..limits };
            let set = BaseSet { table: Some(table), ..bases.set() };
            if MsmPlan::new(G::KIND, ScalarForm::Montgomery, set, &on_device(1), &left).is_err() {
                bytes_max = bytes - 1;
                continue;
            }
            // Compiling the kernels is not a part of the table's time.
            device.load(&[G::TABLE_MODULE])?;
            let start = Instant::now();
            let bases = bases.with_table(table)?;
            let Table { window_bits, columns } = table;
            let cost = Some(TableCost { window_bits, columns, bytes, build_us: micros(start) });
            return Ok(Self { bases, cost });
        }
    }
}

/// What a product is handed in every run.
enum Operands<'a, G: MsmGroup> {
    Host(&'a [Fr]),
    Resident(DeviceBuf<Fr>),
    Streamed(Registered<'a, G::Affine>, &'a [Fr]),
}

/// A product that has its plan and its memory.
pub(super) struct Ready<'a, G: MsmGroup> {
    pub(super) msm: Msm<G, Fr>,
    operands: Operands<'a, G>,
    expected: G,
}

impl<'a, G: MsmGroup> Ready<'a, G> {
    /// For one way. Bases with a table are for the way that has one; without them it has none.
    pub(super) fn new(
        way: Way,
        inputs: &'a Inputs<G>,
        tabled: Option<&Tabled<G>>,
        config: &MsmConfig,
    ) -> Result<Self, Failure> {
        let (device, scalars) = (inputs.bases.device(), inputs.scalars.as_slice());
        let resident = || DeviceBuf::from_slice(device, "scalars", scalars);
        let (msm, operands) = match way {
            Way::Host => (Msm::new(&inputs.bases, config)?, Operands::Host(scalars)),
            Way::Resident => (Msm::over_resident(&inputs.bases, config)?, Operands::Resident(resident()?)),
            Way::Table => {
                let bases = tabled.map_or(&inputs.bases, |tabled| &tabled.bases);
                (Msm::over_resident(bases, config)?, Operands::Resident(resident()?))
            }
            Way::Streamed { .. } => {
                let points = Registered::new(device, "bases", inputs.known.points())?;
                (Msm::streaming(device, scalars.len(), config)?, Operands::Streamed(points, scalars))
            }
        };
        Ok(Self { msm, operands, expected: inputs.expected })
    }

    /// A product that was made elsewhere, with scalars from the host.
    pub(super) fn from_host(msm: Msm<G, Fr>, inputs: &'a Inputs<G>) -> Self {
        Self { msm, operands: Operands::Host(&inputs.scalars), expected: inputs.expected }
    }

    /// One run, whose result is compared with the known product. Times on the device's clock say something only after
    /// [`Msm::enable_timing`].
    pub(super) fn run(&mut self, what: &str) -> Result<Sample, Failure> {
        let start = Instant::now();
        let product = match &self.operands {
            Operands::Host(scalars) => self.msm.run(scalars)?,
            Operands::Resident(scalars) => self.msm.run_resident(scalars)?,
            Operands::Streamed(bases, scalars) => self.msm.run_streamed(bases, scalars)?,
        };
        let wall_us = micros(start);
        if product != self.expected {
            return Err(Failure::Wrong(format!("{what}: the product is not the oracle's")));
        }
        let (schedule, trace) = (self.msm.schedule(), self.msm.trace());
        Ok(Sample::of(schedule.expect("there are points"), trace.expect("it has run"), wall_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{ScalarFlavour, test_seed};
    use ark_bls12_381::G1Projective;
    use gpu_core::Device;
    use gpu_core::sim::SimOptions;

    #[test]
    fn words_read_back() {
        for way in [Way::Host, Way::Resident, Way::Table, Way::Streamed { batches: 8 }] {
            assert_eq!(way.to_string().parse(), Ok(way));
        }
        for text in ["", "streamed", "streamed:0", "streamed:x", "tables"] {
            assert!(text.parse::<Way>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_way_is_right_and_a_table_is_no_larger_than_its_memory() {
        let device = Device::sim(SimOptions::default());
        let inputs =
            Inputs::<G1Projective>::new(&device, ScalarFlavour::Uniform, 7, test_seed()).expect("inputs");
        let column_bytes = 96 << 7;
        let of = |bytes| Tabled::new(&inputs.bases, Some(bytes)).expect("a table or none");
        assert_eq!(of(2 * column_bytes - 1).cost, None, "one column is no table");
        let tabled = of(5 * column_bytes);
        let cost = tabled.cost.expect("a table");
        assert!((2..=5).contains(&cost.columns) && cost.bytes <= 5 * column_bytes, "{cost:?}");
        for way in [Way::Host, Way::Resident, Way::Table, Way::Streamed { batches: 8 }] {
            let config = on_device(way.batches());
            let mut ready = Ready::new(way, &inputs, Some(&tabled), &config).expect("a plan");
            ready.run(&way.to_string()).expect("the known product");
            let plan = ready.msm.plan();
            assert_eq!(plan.column_count > 1, way == Way::Table, "{way}");
            assert_eq!(plan.batch_count, way.batches(), "{way}");
        }
    }
}
