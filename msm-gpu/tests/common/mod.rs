//! Devices and strategies for tests of products.

use gpu_core::{Device, sim::SimOptions};
use msm_gpu::Strategy;

/// Strategies of every kind, with two and three slots.
#[allow(dead_code, reason = "each test program includes this file, and not all go through strategies")]
pub const STRATEGIES: [Strategy; 6] = [
    Strategy::Hard,
    Strategy::Deferred { buffers: 2 },
    Strategy::Deferred { buffers: 3 },
    Strategy::Threaded { buffers: 2 },
    Strategy::Threaded { buffers: 3 },
    Strategy::OnDevice,
];

/// A simulated device and every CUDA device. Says so where there is none of those, and fails there if `REQUIRE_GPU` is 1.
pub fn devices(options: SimOptions) -> Vec<Device> {
    let devices = Device::all(options);
    if devices.len() == 1 {
        let required = std::env::var("REQUIRE_GPU").is_ok_and(|value| value == "1");
        assert!(!required, "REQUIRE_GPU is 1, and there is no CUDA device");
        println!("skipped: no CUDA device");
    }
    devices
}
