//! Times transforms pass by pass on every device, and checks that inverses undo them.
//!
//! `cargo run --release --example time_passes -- [LOG_N ...]`; without sizes, some that each device can do. With sizes,
//! and where there is a CUDA device, the simulated one is left out.

use ark_bls12_381::Fr;
use ark_ff::{Field, PrimeField};
use gpu_core::sim::SimOptions;
use gpu_core::{Bindings, CheckedSchedule, Device, DeviceBuf, DeviceKind, Workspace};
use ntt_gpu::schedule::{self, DATA, TABLES};
use ntt_gpu::{Direction, Domain, NttConfig, NttPlan, OrderKind, Shift, Tables, Transform};
use std::error::Error;
use std::sync::Arc;

const RUNS: usize = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let sizes = std::env::args().skip(1).map(|size| size.parse()).collect::<Result<Vec<u32>, _>>()?;
    let mut devices = Device::all(SimOptions::default());
    if !sizes.is_empty() && devices.len() > 1 {
        devices.remove(0);
    }
    for device in &devices {
        let info = device.info();
        println!("{}: {}, {}", info.id, info.name, info.arch);
        let some: &[u32] = match info.kind {
            DeviceKind::Sim => &[10, 16],
            DeviceKind::Cuda => &[10, 13, 16, 18, 20, 22, 24, 26, 27],
        };
        for log_n in if sizes.is_empty() { some } else { &sizes } {
            time(device, *log_n)?;
        }
    }
    Ok(())
}

/// Transforms and their inverses, in both orders, plain and on a coset.
fn time(device: &Device, log_n: u32) -> Result<(), Box<dyn Error>> {
    let domain = Domain::arkworks(log_n)?;
    let plan = NttPlan::new(log_n, 1, &NttConfig::default())?;
    // A geometric sequence has no two equal values, and is made in no time.
    let values: Vec<Fr> =
        std::iter::successors(Some(Fr::ONE), |value| Some(*value * Fr::from(5))).take(1 << log_n).collect();
    let data = DeviceBuf::from_slice(device, "data", &values)?;
    for shift in [None, Some(Shift::generator())] {
        for input in [OrderKind::Natural, OrderKind::BitReversed] {
            for (direction, input) in [(Direction::Forward, input), (Direction::Inverse, input.other())] {
                let transform = Transform { direction, input, shift };
                let tables = Tables::new(device, &domain, &plan, &transform)?;
                let checked = Arc::new(CheckedSchedule::new(schedule::transform(&plan, &transform))?);
                let mut workspace = Workspace::new(device, checked)?;
                workspace.enable_timing()?;
                let bindings = Bindings::new().bind(DATA, &data).bind(TABLES, tables.buffer());
                let mut best: Option<Vec<f64>> = None;
                // As many runs each way: what the forward ones did, the inverse ones undo.
                for _ in 0..RUNS {
                    let trace = workspace.run(&bindings, &|_, _| Ok(()))?;
                    let passes: Vec<f64> =
                        trace.spans.iter().map(|span| (span.end_us - span.start_us) / 1e3).collect();
                    if best.as_ref().is_none_or(|best| passes.iter().sum::<f64>() < best.iter().sum()) {
                        best = Some(passes);
                    }
                }
                let passes = best.unwrap_or_default();
                let coset = if shift.is_some() { " coset" } else { "" };
                let shown: Vec<_> = passes.iter().map(|ms| format!("{ms:.4}")).collect();
                let (total, mib) = (passes.iter().sum::<f64>(), tables.buffer().len() >> 15);
                println!(
                    "2^{log_n} {direction:?}{coset} from {input:?}: {total:.4} ms = {} (tables {mib} MiB)",
                    shown.join(" + ")
                );
            }
        }
    }
    let back = data.to_vec()?;
    if back != values || back.iter().any(|value| value.0 >= Fr::MODULUS) {
        return Err(format!("2^{log_n} on {}: inverses do not undo", device.info().id).into());
    }
    Ok(())
}
