//! What the tests of products share: the devices, the ways of cutting and waiting, and one comparison.

// Each test program uses a part of this.
#![allow(dead_code)]

use ark_bls12_381::Fr;
use gpu_core::sim::SimOptions;
use gpu_core::{Device, DeviceKind};
use harness::STRATEGIES;
use harness::devices::DeviceChoice;
use msm_gpu::{Bases, Batches, Msm, MsmConfig, MsmGroup, Strategy, Table};
use std::cell::Cell;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Every CUDA device, opened once. Says so where there is none, and fails there if `REQUIRE_GPU` is 1.
fn cuda_devices() -> &'static [Device] {
    static DEVICES: OnceLock<Vec<Device>> = OnceLock::new();
    let devices = DEVICES.get_or_init(|| match DeviceChoice::Cuda.open(SimOptions::default()) {
        Ok(found) => found.devices,
        Err(error) => {
            let required = std::env::var("REQUIRE_GPU").is_ok_and(|value| value == "1");
            assert!(!required, "REQUIRE_GPU is 1: {error}");
            Vec::new()
        }
    });
    if devices.is_empty() {
        tell_skipped();
    }
    devices
}

/// Counts the tests that have asked for a CUDA device in vain, each once: a test has a thread of its own. Written past the
/// capture of output, so that `cargo test` shows how many there were.
fn tell_skipped() {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static IS_TOLD: Cell<bool> = const { Cell::new(false) });
    if !IS_TOLD.replace(true) {
        println!("skipped: no CUDA device");
        let count = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        let _ = writeln!(
            std::io::stderr(),
            "skipped on CUDA, of which there is no device: {test} (test {count})"
        );
    }
}

/// A simulated device of the test's own, and every CUDA device.
pub fn devices() -> Vec<Device> {
    std::iter::once(sim()).chain(cuda_devices().iter().cloned()).collect()
}

/// The CUDA devices alone.
pub fn cuda() -> Vec<Device> {
    cuda_devices().to_vec()
}

/// A simulated device that nothing else uses.
pub fn sim() -> Device {
    Device::sim(SimOptions::default())
}

/// A size by device: the case's own on CUDA, a smaller one on the simulated device.
pub fn sized(device: &Device, cuda: usize, sim: usize) -> usize {
    match device.info().kind {
        DeviceKind::Cuda => cuda,
        DeviceKind::Sim => sim,
    }
}

/// Every strategy with so many batches that each ring slot is used again, and one batch.
pub fn ways(n: usize) -> Vec<(u32, Strategy)> {
    let batches = (n as u32).clamp(1, 5);
    let mut ways = vec![(1, Strategy::Hard)];
    ways.extend(STRATEGIES.map(|strategy| (batches, strategy)));
    ways
}

/// What a product goes through: rounds of pairs, partitions of the sort, a table of its bases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// Rounds of pairs; by cost where `None`.
    pub pair_rounds: Option<u32>,
    /// Whether digits are sorted by way of partitions; by their number where `None`.
    pub partitioned: Option<bool>,
    /// The table of the bases.
    pub table: TableKind,
}

/// A table of multiples, for windows of any width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableKind {
    /// The bases alone.
    None,
    /// A column for each window.
    Full,
    /// Three columns: windows three sets apart share their buckets.
    Partial,
}

impl TableKind {
    /// The table for windows of so many bits, 6 where it is left open.
    pub fn table(self, window_bits: Option<u32>) -> Option<Table> {
        let window_bits = window_bits.unwrap_or(6);
        let columns = match self {
            TableKind::None => return None,
            TableKind::Full => 256_u32.div_ceil(window_bits),
            TableKind::Partial => 3,
        };
        Some(Table { window_bits, columns })
    }
}

impl Path {
    /// Everything by cost, no table.
    pub const AUTO: Self = Self { pair_rounds: None, partitioned: None, table: TableKind::None };

    /// One of the paths, by turns. Most are what a plan takes by itself: rounds that do not pay take the simulated device
    /// long, and so do tables of many points and partitions of many rows, which are for few points there.
    pub fn turn(device: &Device, n: usize, turn: usize) -> Self {
        let is_small = n <= sized(device, 1 << 14, 48);
        let rounds = |pair_rounds| Self { pair_rounds: Some(pair_rounds), ..Self::AUTO };
        let path = match turn % 16 {
            1 => rounds(1),
            4 => Self { table: TableKind::Full, ..rounds(2) },
            7 => rounds(3),
            9 => Self { table: TableKind::Partial, ..rounds(0) },
            11 => Self { partitioned: Some(true), ..rounds(2) },
            14 => Self { partitioned: Some(true), table: TableKind::Partial, ..rounds(1) },
            _ => Self::AUTO,
        };
        match is_small {
            true => path,
            false => Self { pair_rounds: path.pair_rounds, ..Self::AUTO },
        }
    }
}

/// Shows that a product is `expected`, on a device and in some ways; paths take turns over sizes and ways.
pub fn assert_product_on<G: MsmGroup>(
    device: &Device,
    ways: &[(u32, Strategy)],
    window_bits: Option<u32>,
    what: &str,
    points: &[G::Affine],
    scalars: &[Fr],
    expected: G,
) {
    let id = &device.info().id;
    let bases = Bases::<G>::trusted(device, points).unwrap_or_else(|error| panic!("{what} on {id}: {error}"));
    let n = points.len();
    for (turn, (batches, strategy)) in ways.iter().enumerate() {
        let path = Path::turn(device, n, n + 7 * turn);
        let table = path.table.table(window_bits);
        let config = MsmConfig {
            batches: Batches::Count(*batches),
            strategy: *strategy,
            window_bits: table.map_or(window_bits, |table| Some(table.window_bits)),
            pair_rounds: path.pair_rounds,
            partitioned: path.partitioned,
            ..MsmConfig::default()
        };
        let word = G::KIND.word();
        let place = format!(
            "{what}: {word}, n = {n}, {batches} batches, {strategy}, {window_bits:?}, {path:?}, on {id}"
        );
        let bases = table.map_or(Ok(bases.clone()), |table| bases.with_table(table));
        let product =
            bases.and_then(|bases| Msm::<G, Fr>::new(&bases, &config)).and_then(|mut msm| msm.run(scalars));
        let product = product.unwrap_or_else(|error| panic!("{place}: {error}"));
        assert_eq!(product, expected, "{place}");
    }
}

/// Shows that a product is `expected`: on all devices, under all strategies.
pub fn assert_product<G: MsmGroup>(what: &str, points: &[G::Affine], scalars: &[Fr], expected: G) {
    for device in devices() {
        assert_product_on::<G>(&device, &ways(points.len()), None, what, points, scalars, expected);
    }
}
