//! Groth16 over BLS12-381: proving keys as files keep them, read into arkworks' own points.
//!
//! [`bellman`] reads the parameter files of bellman, zkcrypto's `groth16` and bellperson: those of Zcash Sapling and of
//! Filecoin. Input is never trusted: every fault of a file is a typed error that names section and offset.
#![deny(unsafe_code)]

pub mod bellman;

pub use bellman::{CompactKey, ReadError, Validation, VerifyingKey};
