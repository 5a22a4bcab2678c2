//! The source of an upload is given to the copy: the host has nothing left to overwrite.
use gpu_core::{Device, DeviceBuf, Result, UploadBuf, sim::SimOptions};

fn main() -> Result<()> {
    let device = Device::sim(SimOptions::default());
    let stream = device.stream("upload")?;
    let target = DeviceBuf::<u32>::new(&device, "target", 4)?;
    let mut source = UploadBuf::<u32>::new(&device, "source", 4)?;
    let copy = source.send_to(&stream, &target)?;
    source.as_mut_slice()[0] = 1;
    copy.wait()?;
    Ok(())
}
