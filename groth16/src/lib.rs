//! Groth16 over BLS12-381 on a GPU: bit for bit the proofs that arkworks, bellman and zkcrypto make, and snarkjs' too.
//!
//! [`Prover`] is made once, from a proving key and its constraints; each proof then costs one schedule on the device.
//! [`r1cs`] takes the constraints of any arkworks circuit, and of bellman's with the feature `bellman`; [`bellman`] reads
//! the parameter files of bellman, zkcrypto's `groth16` and bellperson: those of Zcash Sapling and of Filecoin;
//! [`arkworks`] reads arkworks' own keys, [`circom`] the files of circom and snarkjs, and [`cache`] keeps any key in a file
//! that loads at once. A key carries its [`reduction`]. [`snark`] is arkworks' interface.
//! [`plan`] has the sizes of a proof, [`memory`] what it takes, [`schedule`] what runs, [`key`] what is resident.
//!
//! Secrets pass through: the assignment, and the blinding numbers r and s. What holds them is wiped when it is released,
//! on the device too. All of it is variable-time.
#![deny(unsafe_code)]

pub mod arkworks;
mod batch;
pub mod bellman;
pub mod cache;
pub mod circom;
pub mod error;
pub mod key;
pub mod memory;
pub mod modules {
    //! The kernels of this crate, embedded.
    #![allow(unsafe_code)]
    include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
}
pub mod plan;
pub mod prover;
pub mod r1cs;
#[cfg(feature = "bellman")]
pub mod recorder;
pub mod reduction;
pub mod schedule;
pub mod snark;

pub use bellman::{CompactKey, ReadError, Validation, VerifyingKey};
pub use cache::{CacheError, KeyFile};
pub use circom::{CircomError, Zkey};
pub use error::{KeyError, ProveError};
pub use key::{DeviceKey, PreparedKey, Trust};
pub use memory::MemoryEstimate;
pub use plan::{Product, ProofPlan, ProveConfig, Shape, Upload};
pub use prover::{Proof, Prover};
pub use r1cs::{Csr, R1cs, R1csError};
pub use reduction::Reduction;
pub use snark::Groth16;
