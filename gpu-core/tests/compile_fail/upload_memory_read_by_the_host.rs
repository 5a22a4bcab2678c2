//! Memory for uploads may be write-combined: it has no way to read.
use gpu_core::{Device, Result, UploadBuf, sim::SimOptions};

fn main() -> Result<()> {
    let device = Device::sim(SimOptions::default());
    let source = UploadBuf::<u32>::new(&device, "source", 4)?;
    println!("{:?}", source.as_slice());
    Ok(())
}
