//! sppark on the same device: whether it can take its turn, and once why it cannot.

use super::Session;
use crate::bench::record::Params;
use gpu_core::{DeviceInfo, DeviceKind};
use sppark_peer::{Build, PeerError};

/// Its name in ids.
pub(super) const WHO: &str = "sppark";

/// sppark, as far as it is there.
#[derive(Debug)]
pub(super) struct Sppark {
    standing: Standing,
    is_told: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It can run on CUDA's device of this number.
    Ready(u32),
    /// Nobody has asked for it.
    NotAsked,
    /// It was asked for, and cannot.
    Skipped(&'static str),
}

impl Sppark {
    pub(super) fn new(session: &Session<'_>) -> Self {
        Self { standing: standing(sppark_peer::BUILD, session.device.info()), is_told: false }
    }

    /// CUDA's number of the device that it takes its turn on. Where it cannot, that is told, once.
    pub(super) fn device(&mut self, session: &mut Session<'_>) -> Option<u32> {
        match self.standing {
            Standing::Ready(device) => return Some(device),
            Standing::Skipped(reason) if !self.is_told => {
                self.is_told = true;
                session.skip_peer(WHO, reason);
            }
            Standing::Skipped(_) | Standing::NotAsked => {}
        }
        None
    }
}

fn standing(build: Build, device: &DeviceInfo) -> Standing {
    let number = device.id.strip_prefix("cuda:").and_then(|number| number.parse().ok());
    match (build, device.kind, number) {
        (Build::Off, ..) => Standing::NotAsked,
        (Build::WithoutNvcc, ..) => Standing::Skipped("built without nvcc"),
        (Build::Whole, DeviceKind::Cuda, Some(number)) => Standing::Ready(number),
        (Build::Whole, ..) => Standing::Skipped("it runs on a CUDA device alone"),
    }
}

/// What sppark has put on the device; or a note that it could not, which ends nothing.
pub(super) fn or_skip<T>(session: &mut Session<'_>, name: &str, made: Result<T, PeerError>) -> Option<T> {
    match made {
        Ok(object) => Some(object),
        Err(error) => {
            if let Some(case) = session.case("peers", format!("{name}/{WHO}"), Params::default()) {
                session.skip(&case, error);
            }
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu_core::Device;
    use gpu_core::sim::SimOptions;

    #[test]
    fn sppark_is_told_of_where_it_was_asked_for_and_runs_on_cuda_alone() {
        let sim = Device::sim(SimOptions::default()).info().clone();
        let cuda = DeviceInfo { id: "cuda:3".into(), kind: DeviceKind::Cuda, ..sim.clone() };
        for device in [&sim, &cuda] {
            assert_eq!(standing(Build::Off, device), Standing::NotAsked);
            assert_eq!(standing(Build::WithoutNvcc, device), Standing::Skipped("built without nvcc"));
        }
        assert_eq!(standing(Build::Whole, &cuda), Standing::Ready(3));
        assert_eq!(standing(Build::Whole, &sim), Standing::Skipped("it runs on a CUDA device alone"));
    }
}
