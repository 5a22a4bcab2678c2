//! Which devices a command runs on.

use gpu_core::sim::SimOptions;
use gpu_core::{Device, GpuError, cuda};
use std::fmt;
use std::str::FromStr;

/// Devices as a user asks for them. There is no falling back: what is named is used, or its absence is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The simulated device, and every CUDA device that there is.
    Auto,
    /// The simulated device. No CUDA library is looked for.
    Sim,
    /// Every CUDA device; an error if there is none.
    Cuda,
    /// One CUDA device.
    CudaOrdinal(usize),
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Sim => f.write_str("sim"),
            Self::Cuda => f.write_str("cuda"),
            Self::CudaOrdinal(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => return Ok(Self::Auto),
            "sim" => return Ok(Self::Sim),
            "cuda" => return Ok(Self::Cuda),
            _ => {}
        }
        let ordinal = text.strip_prefix("cuda:").and_then(|ordinal| ordinal.parse().ok());
        ordinal
            .map(Self::CudaOrdinal)
            .ok_or_else(|| format!("`{text}` is not `auto`, `sim`, `cuda` or `cuda:N`"))
    }
}

/// Devices, opened.
#[derive(Debug)]
pub struct Devices {
    /// At least one.
    pub devices: Vec<Device>,
    /// Why there is no CUDA device, where one was looked for without being insisted on.
    pub no_cuda: Option<GpuError>,
}

impl DeviceChoice {
    /// Opens the devices.
    ///
    /// # Errors
    /// [`GpuError::NoDriver`] or [`GpuError::NoDevice`] where a CUDA device was asked for by name; whatever a CUDA device
    /// that the driver shows answers when it is opened.
    pub fn open(self, sim: SimOptions) -> Result<Devices, GpuError> {
        let only = |device| Ok(Devices { devices: vec![device], no_cuda: None });
        match self {
            Self::Sim => only(Device::sim(sim)),
            Self::CudaOrdinal(ordinal) => only(Device::cuda(ordinal)?),
            Self::Cuda => Ok(Devices { devices: every_cuda_device()?, no_cuda: None }),
            Self::Auto => {
                let mut devices = vec![Device::sim(sim)];
                let no_cuda = match every_cuda_device() {
                    Ok(found) => {
                        devices.extend(found);
                        None
                    }
                    Err(error @ (GpuError::NoDriver { .. } | GpuError::NoDevice { .. })) => Some(error),
                    Err(error) => return Err(error),
                };
                Ok(Devices { devices, no_cuda })
            }
        }
    }
}

/// All CUDA devices, at least one.
fn every_cuda_device() -> Result<Vec<Device>, GpuError> {
    match cuda::device_count()? {
        0 => Err(GpuError::NoDevice { ordinal: 0, count: 0 }),
        count => (0..count).map(Device::cuda).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_read_back() {
        let choices =
            [DeviceChoice::Auto, DeviceChoice::Sim, DeviceChoice::Cuda, DeviceChoice::CudaOrdinal(3)];
        for choice in choices {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        for text in ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "sim:0"] {
            assert!(text.parse::<DeviceChoice>().is_err(), "{text}");
        }
    }
}
