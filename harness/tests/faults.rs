//! Faults on purpose, in two strategies: one that is alone with the device, and one with a thread that
//! collects.

use gpu_core::{Device, GpuError, sim::SimBackend, sim::SimOptions};
use harness::faults::{Call, FaultBackend, Problem, Row, Target, inject};
use harness::oracle::test_seed;
use msm_gpu::Strategy;
use std::sync::Arc;

fn rows(strategy: Strategy) -> Vec<Row> {
    let rows = inject(&Target::Sim, strategy.into(), &Problem::new(test_seed()), 6);
    for row in &rows {
        assert!(row.problems.is_empty(), "{} with {strategy}: {:#?}", row.what, row.problems);
    }
    rows
}

#[test]
fn deferred_products_take_any_fault() {
    let rows = rows(Strategy::Deferred { buffers: 2 });
    // Everything is called, and so fails, but the clock and graphs, of which the simulated device has none, and page-locking
    // in place, which is for proofs.
    let spared: Vec<_> = rows.iter().filter(|row| row.faults == 0).map(|row| row.what.as_str()).collect();
    let expected = [Call::Register, Call::Elapsed, Call::Capture, Call::LaunchGraph];
    assert_eq!(spared, expected.map(|call| call.to_string()));
    assert!(
        rows.iter().filter(|row| row.faults > 0).all(|row| row.example.is_some()),
        "an error of each kind"
    );
}

#[test]
fn products_with_a_collector_take_any_fault() {
    rows(Strategy::Threaded { buffers: 2 });
}

#[test]
fn a_fault_strikes_once_and_is_counted() {
    let backend = FaultBackend::new(Arc::new(SimBackend::new(SimOptions::default())));
    let faults = backend.faults();
    let device = Device::from_backend(Box::new(backend));
    faults.arm(Call::CreateStream, 2);
    let first = device.stream("a").expect("the first is spared");
    let Err(GpuError::Driver { op, cause }) = device.stream("b") else { panic!("the second is to fail") };
    assert_eq!((op.as_str(), cause.as_str()), ("stream b", "new stream 2 fails on purpose"));
    let third = device.stream("c").expect("the third is spared");
    assert_eq!((faults.count(Call::CreateStream), faults.live().streams), (3, 2));
    assert_eq!(faults.disarm().as_deref(), Some("stream b"));
    drop((first, third));
    assert_eq!(faults.live().streams, 0);
}
