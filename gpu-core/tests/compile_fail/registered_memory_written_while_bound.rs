//! Memory that a run reads where it lies is borrowed for as long as it is bound.
use gpu_core::schedule::BufferId;
use gpu_core::{Bindings, Device, Registered, Result, sim::SimOptions};

fn main() -> Result<()> {
    let device = Device::sim(SimOptions::default());
    let mut numbers = vec![1u64, 2, 3];
    let locked = Registered::new(&device, "numbers", &numbers)?;
    let bindings = Bindings::new().bind_registered(BufferId(0), &locked);
    numbers[0] = 4;
    drop(bindings);
    Ok(())
}
