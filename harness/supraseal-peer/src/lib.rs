//! supraseal-c2, somebody else's Groth16 prover on a CUDA device, for measurements beside ours. Proofs are for the caller to
//! compare: what a peer computes is not the oracle.
//!
//! It takes a key in bellman's file format, and of a circuit what bellman's provers keep: values of A, B and C at each
//! constraint, the assignment, and which variables occur in A and B ([`Witness`]). It proves on CUDA's first device with all
//! cores of the host beside it, and bases in page-locked memory of the host. With the same blinding numbers it makes the
//! same proof as anybody.
//!
//! Its sources are compiled with nvcc by the feature `supraseal`, whose build fails without one; [`BUILD`] says whether they
//! were. Code that it has no chip for is compiled by the driver when it is first needed: `NVCC_APPEND_FLAGS` can add chips.
#![forbid(unsafe_code)]

mod key;
#[cfg_attr(feature = "supraseal", path = "prover.rs")]
#[cfg_attr(not(feature = "supraseal"), path = "absent.rs")]
mod prover;
mod witness;

pub use prover::Prover;
pub use witness::Witness;

use ark_bls12_381::{G1Affine, G2Affine};

/// Whether supraseal is in this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// It is not: the feature is off.
    Off,
    /// It is.
    Whole,
}

/// How this program was built.
pub const BUILD: Build = if cfg!(feature = "supraseal") { Build::Whole } else { Build::Off };

/// A proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    /// A.
    pub a: G1Affine,
    /// B.
    pub b: G2Affine,
    /// C.
    pub c: G1Affine,
}

/// Why supraseal has no proof.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// It is not in this program.
    #[error("built without supraseal")]
    NotBuilt,
    /// A key that ends before it is whole.
    #[error("supraseal: the key ends at {bytes} bytes, before its {section}")]
    Truncated {
        /// Length of the key.
        bytes: usize,
        /// What is not whole.
        section: &'static str,
    },
    /// A key for another circuit.
    #[error("supraseal: {section} of the key has {found} points, and the circuit {expected}")]
    OtherCircuit {
        /// A query.
        section: &'static str,
        /// Points in the key.
        found: usize,
        /// Points that the circuit needs.
        expected: usize,
    },
    /// The key's file could not be written for supraseal to read.
    #[error("supraseal: a file for the key: {0}")]
    File(#[from] std::io::Error),
    /// The device, or the driver, or their absence.
    #[error("supraseal: {op}: {cause}")]
    Device {
        /// What was to be done.
        op: &'static str,
        /// What supraseal said.
        cause: String,
    },
}
