//! What is in flight shows nothing of its memory.
use gpu_core::{Device, DeviceBuf, DownloadBuf, Result, sim::SimOptions};

fn main() -> Result<()> {
    let device = Device::sim(SimOptions::default());
    let stream = device.stream("download")?;
    let source = DeviceBuf::<u32>::new(&device, "source", 4)?;
    let copy = DownloadBuf::<u32>::new(&device, "target", 4)?.fill_from(&stream, &source)?;
    println!("{:?}", copy.as_slice());
    Ok(())
}
