//! What the tests of products share: the devices, the ways of cutting and waiting, and one comparison.

// Each test program uses a part of this.
#![allow(dead_code)]

use ark_bls12_381::Fr;
use gpu_core::sim::SimOptions;
use gpu_core::{Device, DeviceKind};
use harness::STRATEGIES;
use harness::devices::DeviceChoice;
use msm_gpu::{Bases, Batches, Msm, MsmConfig, MsmGroup, Strategy};
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

/// Shows that a product is `expected`, on a device and in some ways.
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
    for (batches, strategy) in ways {
        let config = MsmConfig {
            batches: Batches::Count(*batches),
            strategy: *strategy,
            window_bits,
            ..MsmConfig::default()
        };
        let word = G::KIND.word();
        let n = points.len();
        let place =
            format!("{what}: {word}, n = {n}, {batches} batches, {strategy}, {window_bits:?}, on {id}");
        let product = Msm::<G, Fr>::new(&bases, &config).and_then(|mut msm| msm.run(scalars));
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
