//! Peers that share our device: whether one can take its turn, and once why it cannot.

use super::{Session, Solver};
use crate::bench::record::Params;
use crate::error::Failure;
use gpu_core::{DeviceInfo, DeviceKind};

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

    /// Its turn, once it has shown that it is right; or a note that it could not, which ends nothing: it is not for us to
    /// answer for a peer that finds no memory, or whose result is wrong.
    pub(super) fn admit<'s>(
        &self,
        session: &mut Session<'_>,
        name: &str,
        made: Result<Solver<'s>, Failure>,
    ) -> Option<(&'static str, Solver<'s>)> {
        let tried = made.and_then(|mut solve| {
            solve()?;
            Ok(solve)
        });
        match tried {
            Ok(solve) => Some((self.who, solve)),
            Err(error) => {
                let case = session.case("peers", format!("{name}/{}", self.who), Params::default());
                case.into_iter().for_each(|case| session.skip(&case, &error));
                None
            }
        }
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
    use crate::bench::Settings;
    use crate::bench::cases::{Cases, Scale};
    use gpu_core::Device;
    use gpu_core::sim::SimOptions;

    #[test]
    fn a_guest_that_is_wrong_takes_no_turn_and_ends_nothing() {
        let device = Device::sim(SimOptions::default());
        let settings = Settings {
            cases: Cases::built_in(),
            scale: Scale::Smoke,
            seed: 1,
            params: None,
            only: Vec::new(),
            planted_percent: None,
        };
        let criterion = &mut Session::criterion(&settings);
        let session = &mut Session::new(&device, settings, criterion);
        let guest = Guest::sppark(session);
        let mut turns = 0;
        let right: Solver<'_> = Box::new(|| {
            turns += 1;
            Ok(1.0)
        });
        let admitted = guest.admit(session, "msm-g1/2^6", Ok(right)).map(|(who, _)| who);
        assert_eq!(admitted, Some("sppark"));
        let wrong: Solver<'_> = Box::new(|| Err(Failure::Wrong("not the oracle's".into())));
        assert!(guest.admit(session, "msm-g1/2^6", Ok(wrong)).is_none());
        let no_memory = Err(Failure::Sppark(sppark_peer::PeerError::NotBuilt));
        assert!(guest.admit(session, "msm-g2/2^6", no_memory).is_none());
        assert_eq!(turns, 1);
        let skipped: Vec<_> =
            session.skipped().iter().map(|found| (found.id.as_str(), found.reason.as_str())).collect();
        let (first, second) = ("sim/peers/msm-g1/2^6/sppark", "sim/peers/msm-g2/2^6/sppark");
        assert_eq!(skipped, [(first, "not the oracle's"), (second, "built without sppark")]);
    }

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
