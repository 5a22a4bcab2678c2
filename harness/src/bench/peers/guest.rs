//! Peers that share our device: whether one can take its turn, and once why it cannot.

use super::Session;
use crate::bench::record::Params;
use gpu_core::{DeviceInfo, DeviceKind};
use std::fmt::Display;

/// A peer on the device, as far as it is there.
#[derive(Debug)]
pub(super) struct Guest {
    /// Its name in ids.
    pub(super) who: &'static str,
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

impl Guest {
    /// Products and transforms.
    pub(super) fn sppark(session: &Session<'_>) -> Self {
        let standing = sppark_standing(sppark_peer::BUILD, session.device.info());
        Self { who: "sppark", standing, is_told: false }
    }

    /// Proofs.
    pub(super) fn supraseal(session: &Session<'_>) -> Self {
        let standing = supraseal_standing(supraseal_peer::BUILD, session.device.info());
        Self { who: "supraseal-c2", standing, is_told: false }
    }

    /// CUDA's number of the device that it takes its turn on. Where it cannot, that is told, once.
    pub(super) fn device(&mut self, session: &mut Session<'_>) -> Option<u32> {
        match self.standing {
            Standing::Ready(device) => return Some(device),
            Standing::Skipped(reason) if !self.is_told => {
                self.is_told = true;
                session.skip_peer(self.who, reason);
            }
            Standing::Skipped(_) | Standing::NotAsked => {}
        }
        None
    }

    /// What it has put on the device; or a note that it could not, which ends nothing.
    pub(super) fn or_skip<T, E: Display>(
        &self,
        session: &mut Session<'_>,
        name: &str,
        made: Result<T, E>,
    ) -> Option<T> {
        let error = match made {
            Ok(object) => return Some(object),
            Err(error) => error,
        };
        if let Some(case) = session.case("peers", format!("{name}/{}", self.who), Params::default()) {
            session.skip(&case, error);
        }
        None
    }
}

/// CUDA's number of a device, if it is one of CUDA's.
fn cuda_number(device: &DeviceInfo) -> Option<u32> {
    let number = device.id.strip_prefix("cuda:").filter(|_| device.kind == DeviceKind::Cuda);
    number.and_then(|number| number.parse().ok())
}

fn sppark_standing(build: sppark_peer::Build, device: &DeviceInfo) -> Standing {
    match (build, cuda_number(device)) {
        (sppark_peer::Build::Off, _) => Standing::NotAsked,
        (sppark_peer::Build::WithoutNvcc, _) => Standing::Skipped("built without nvcc"),
        (sppark_peer::Build::Whole, Some(number)) => Standing::Ready(number),
        (sppark_peer::Build::Whole, None) => Standing::Skipped("it runs on a CUDA device alone"),
    }
}

fn supraseal_standing(build: supraseal_peer::Build, device: &DeviceInfo) -> Standing {
    match (build, cuda_number(device)) {
        (supraseal_peer::Build::Off, _) => Standing::NotAsked,
        (supraseal_peer::Build::Whole, Some(0)) => Standing::Ready(0),
        (supraseal_peer::Build::Whole, Some(_)) => {
            Standing::Skipped("it runs on the first CUDA device alone")
        }
        (supraseal_peer::Build::Whole, None) => Standing::Skipped("it runs on a CUDA device alone"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu_core::Device;
    use gpu_core::sim::SimOptions;

    #[test]
    fn guests_are_told_of_where_they_were_asked_for_and_run_on_cuda_alone() {
        let sim = Device::sim(SimOptions::default()).info().clone();
        let cuda =
            |number| DeviceInfo { id: format!("cuda:{number}"), kind: DeviceKind::Cuda, ..sim.clone() };
        for device in [&sim, &cuda(0), &cuda(3)] {
            assert_eq!(sppark_standing(sppark_peer::Build::Off, device), Standing::NotAsked);
            let without = sppark_standing(sppark_peer::Build::WithoutNvcc, device);
            assert_eq!(without, Standing::Skipped("built without nvcc"));
            assert_eq!(supraseal_standing(supraseal_peer::Build::Off, device), Standing::NotAsked);
        }
        let (sppark, supraseal) = (sppark_peer::Build::Whole, supraseal_peer::Build::Whole);
        let on_cuda_alone = Standing::Skipped("it runs on a CUDA device alone");
        assert_eq!(sppark_standing(sppark, &sim), on_cuda_alone);
        assert_eq!(sppark_standing(sppark, &cuda(3)), Standing::Ready(3));
        assert_eq!(supraseal_standing(supraseal, &sim), on_cuda_alone);
        assert_eq!(supraseal_standing(supraseal, &cuda(0)), Standing::Ready(0));
        let other = Standing::Skipped("it runs on the first CUDA device alone");
        assert_eq!(supraseal_standing(supraseal, &cuda(1)), other);
    }
}
