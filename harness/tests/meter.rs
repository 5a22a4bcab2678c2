//! Power and clock of a real device.

mod support;

use harness::meter::{Meter, counters};
use std::time::{Duration, Instant};

#[test]
fn a_cuda_device_says_what_it_takes() {
    for device in support::cuda() {
        let id = &device.info().id;
        let start = Instant::now();
        let Some(meter) = Meter::start(device.info()) else {
            println!("skipped on {id}: no NVML");
            continue;
        };
        std::thread::sleep(Duration::from_millis(100));
        let readings = meter.stop();
        println!("{id}: {} readings, the last {:?}", readings.len(), readings.last());
        assert!(readings.len() > 1, "{id}");
        let wall_us = start.elapsed().as_secs_f64() * 1e6;
        let found = counters(&readings, start, wall_us);
        assert!(!found.is_empty(), "{id}: neither power nor clock");
        for counter in &found {
            // Watts and megahertz of anything that is switched on.
            assert!(counter.points.iter().all(|(_, value)| (1.0..10_000.0).contains(value)), "{counter:?}");
            assert!(counter.points.iter().all(|(us, _)| (0.0..=wall_us).contains(us)), "{counter:?}");
        }
    }
}
