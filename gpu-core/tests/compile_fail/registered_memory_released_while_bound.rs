//! A binding keeps what it binds page-locked.
use gpu_core::schedule::BufferId;
use gpu_core::{Bindings, Device, Registered, Result, sim::SimOptions};

fn main() -> Result<()> {
    let device = Device::sim(SimOptions::default());
    let numbers = vec![1u64, 2, 3];
    let locked = Registered::new(&device, "numbers", &numbers)?;
    let bindings = Bindings::new().bind_registered(BufferId(0), &locked);
    drop(locked);
    drop(bindings);
    Ok(())
}
