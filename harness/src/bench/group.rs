//! The groups of benchmarks by name.

use super::{Session, field, host, launch, msm, ntt, peers, proof};
use crate::error::Failure;
use std::fmt;
use std::str::FromStr;

/// A group of benchmarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Products in batches: strategies, batches, memory of results.
    Sync,
    /// Products in one batch, over size.
    Msm,
    /// Transforms.
    Ntt,
    /// Multiplications a second on the device.
    Field,
    /// Many small launches, waited for and queued.
    Launch,
    /// Ways of an assignment up to the device.
    Upload,
    /// Proofs.
    Proof,
    /// Planning, checking and folding on the host.
    Host,
    /// The device beside arkworks and blst.
    Peers,
}

impl Group {
    /// Every group.
    pub const ALL: [Self; 9] = [
        Self::Sync,
        Self::Msm,
        Self::Ntt,
        Self::Field,
        Self::Launch,
        Self::Upload,
        Self::Proof,
        Self::Host,
        Self::Peers,
    ];

    /// Runs its benchmarks.
    ///
    /// # Errors
    /// [`Failure::Wrong`] for a result that is not the oracle's; whatever a device or a key answers.
    pub fn run(self, session: &mut Session<'_>) -> Result<(), Failure> {
        match self {
            Self::Sync => msm::sync(session),
            Self::Msm => msm::sizes(session),
            Self::Ntt => ntt::run(session),
            Self::Field => field::run(session),
            Self::Launch => launch::run(session),
            Self::Upload => proof::uploads(session),
            Self::Proof => proof::proofs(session),
            Self::Host => host::run(session),
            Self::Peers => peers::run(session),
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sync => "sync",
            Self::Msm => "msm",
            Self::Ntt => "ntt",
            Self::Field => "field",
            Self::Launch => "launch",
            Self::Upload => "upload",
            Self::Proof => "proof",
            Self::Host => "host",
            Self::Peers => "peers",
        })
    }
}

impl FromStr for Group {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|group| group.to_string() == text);
        named.ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(Self::to_string).collect();
            format!("`{text}` is not one of {}", names.join(", "))
        })
    }
}
