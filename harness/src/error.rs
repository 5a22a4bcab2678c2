//! Why a command stops, and with which exit code.

use crate::bench::record::RecordError;
use crate::circuits::CircuitError;
use crate::files::FileError;
use crate::sapling::KeyError;
use crate::snarkjs::SnarkjsError;
use gpu_core::GpuError;
use groth16::ProveError;
use msm_gpu::{MsmError, PlanError};
use ntt_gpu::NttError;
use std::path::PathBuf;

/// What `--help` says of the exit code.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  everything is as it should be
  1  a result differs from the oracle's, a proof does not verify, a schedule has hazards, a mutant survives, a fault
     leaves a trace, or a goal is missed
  2  the command line asks for something that does not exist or cannot be
  3  no such device, no driver, or no NVRTC to compile the kernels with
  4  any other failure: a key that cannot be read, a device that runs out of memory";

/// How a command that came to its end judges what it saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// All as it should be.
    Good,
    /// A result differs, a schedule has hazards, or a goal is missed.
    Bad,
    /// Nothing differs, and something could not be computed.
    Incomplete,
}

impl Judgement {
    /// The exit code.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Good => 0,
            Self::Bad => 1,
            Self::Incomplete => 4,
        }
    }
}

/// Why a command did not come to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// A command line that parses and asks for the impossible.
    #[error("{0}")]
    Usage(String),
    /// The sizes asked for have no plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A device.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// A product.
    #[error(transparent)]
    Msm(#[from] MsmError),
    /// A proving key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A circuit.
    #[error(transparent)]
    Circuit(#[from] CircuitError),
    /// A proof.
    #[error(transparent)]
    Prove(#[from] ProveError),
    /// A transform.
    #[error(transparent)]
    Ntt(#[from] NttError),
    /// sppark, where it stopped in the middle of its turns.
    #[error(transparent)]
    Sppark(#[from] sppark_peer::PeerError),
    /// supraseal, likewise.
    #[error(transparent)]
    Supraseal(#[from] supraseal_peer::PeerError),
    /// A benchmark whose result or whose inputs are not what they should be: nothing is timed.
    #[error("{0}")]
    Wrong(String),
    /// A file of measurements that cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A file that was handed in.
    #[error(transparent)]
    File(#[from] FileError),
    /// The system has no random numbers.
    #[error("random numbers of the system: {0}")]
    Random(getrandom::Error),
    /// A report that could not be written.
    #[error("{}: {source}", path.display())]
    Write {
        /// Where to.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl Failure {
    /// The exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Plan(_) | Self::Prove(ProveError::Plan(_)) => 2,
            // A proof that no verifier accepts is a wrong result.
            Self::Prove(ProveError::Invalid | ProveError::Quotient) | Self::Wrong(_) => 1,
            Self::Gpu(error)
            | Self::Msm(MsmError::Gpu(error))
            | Self::Ntt(NttError::Gpu(error))
            | Self::Prove(ProveError::Gpu(error)) => gpu_exit_code(error),
            _ => 4,
        }
    }

    /// A failed write to standard output.
    pub fn output(source: std::io::Error) -> Self {
        Self::Write { path: "standard output".into(), source }
    }
}

impl From<SnarkjsError> for Failure {
    fn from(error: SnarkjsError) -> Self {
        match error {
            SnarkjsError::File(error) => Self::File(error),
            SnarkjsError::Witness(error) => Self::Prove(error),
        }
    }
}

fn gpu_exit_code(error: &GpuError) -> u8 {
    match error {
        GpuError::NoDriver { .. } | GpuError::NoDevice { .. } | GpuError::NoCompiler { .. } => 3,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_documented_and_used() {
        let no_driver = || GpuError::NoDriver { tried: vec!["libcuda.so.1".into()], reason: "absent".into() };
        let lost = GpuError::Driver { op: "fold".into(), cause: "lost".into() };
        let codes = [
            Judgement::Good.exit_code(),
            Judgement::Bad.exit_code(),
            Failure::Usage("no product is called so".into()).exit_code(),
            Failure::Gpu(no_driver()).exit_code(),
            Failure::Gpu(lost).exit_code(),
        ];
        assert_eq!(codes, [0, 1, 2, 3, 4]);
        for code in codes {
            assert!(EXIT_CODES.contains(&format!("\n  {code}  ")), "{code}");
        }
        assert_eq!(Judgement::Incomplete.exit_code(), 4);
        assert_eq!(Failure::Msm(MsmError::Gpu(no_driver())).exit_code(), 3);
        assert_eq!(Failure::Plan(PlanError::ZeroBatches).exit_code(), 2);
    }
}
