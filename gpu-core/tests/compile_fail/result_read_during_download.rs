//! A download owns its target: it cannot be read before the wait.
use gpu_core::{Device, DeviceBuf, DownloadBuf, Result, sim::SimOptions};

fn main() -> Result<()> {
    let device = Device::sim(SimOptions::default());
    let stream = device.stream("download")?;
    let source = DeviceBuf::<u32>::new(&device, "source", 4)?;
    let target = DownloadBuf::<u32>::new(&device, "target", 4)?;
    let copy = target.fill_from(&stream, &source)?;
    println!("{:?}", target.as_slice());
    copy.wait()?;
    Ok(())
}
