//! The files of circom and snarkjs over BLS12-381: keys (`.zkey`), witnesses (`.wtns`), constraints (`.r1cs`), and the JSON
//! of proofs, public inputs and verifying keys.
//!
//! ```no_run
//! use groth16::circom::{Zkey, read_witness};
//! use groth16::{DeviceKey, ProveConfig, Prover, Trust};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let zkey = Zkey::read(&std::fs::read("circuit.zkey")?, Trust::Checked)?;
//! let witness = read_witness(&std::fs::read("circuit.wtns")?)?;
//! let key: DeviceKey = zkey.prepare().load(&gpu_core::Device::cuda(0)?)?;
//! let prover = Prover::with_key(key.into(), &ProveConfig::default())?;
//! # let rng = &mut <rand_chacha::ChaCha20Rng as ark_std::rand::SeedableRng>::seed_from_u64(1);
//! let proof = prover.prove(&witness, rng)?;
//! # let _ = proof;
//! # Ok(())
//! # }
//! ```
//!
//! All three binary formats are a container of numbered sections, in any order:
//!
//! ```text
//! magic, 4 bytes | version, u32 | number of sections, u32 | sections: number, u32 | length, u64 | bytes
//! ```
//!
//! Integers are little-endian. A section must be there once and have exactly the length that its contents ask for: no
//! count is believed before the bytes are there. What has another number is not looked at.

mod container;
pub mod json;
mod r1cs;
mod wtns;
mod zkey;

pub use container::Kind;
pub use r1cs::read_r1cs;
pub use wtns::read_witness;
pub use zkey::Zkey;

use crate::bellman::PointFault;
use crate::r1cs::R1csError;
use ark_bls12_381::{Fq, Fr};
use ark_ff::{BigInt, PrimeField};

/// Why a file of circom or snarkjs cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CircomError {
    /// The first four bytes are those of another kind of file.
    #[error("not a .{expected} file: it starts with \"{}\"", found.escape_ascii())]
    Magic {
        /// What was to be read.
        expected: Kind,
        /// The first bytes, four at most.
        found: Vec<u8>,
    },
    /// A version that is not known here.
    #[error("version {found} of .{kind} files is not known, version {expected} is")]
    Version {
        /// The kind of file.
        kind: Kind,
        /// The version that can be read.
        expected: u32,
        /// The file's.
        found: u32,
    },
    /// The file ends too early; also what a hostile length runs into, before anything is allocated for it.
    #[error("{section}: {needed_bytes} bytes needed at offset {offset}, {left_bytes} left")]
    Truncated {
        /// Where.
        section: &'static str,
        /// Offset in the file at which the bytes should begin.
        offset: u64,
        /// Bytes that are needed from there.
        needed_bytes: u64,
        /// Bytes that there are from there, in the section or in the file.
        left_bytes: u64,
    },
    /// A section that has to be there is not.
    #[error("there is no section {number}: {section}")]
    Missing {
        /// Which.
        section: &'static str,
        /// Its number.
        number: u32,
    },
    /// A section is there twice.
    #[error("{section}: the section is there again at offset {offset}")]
    Duplicate {
        /// Which.
        section: &'static str,
        /// Offset of the second one's bytes.
        offset: u64,
    },
    /// A section is longer or shorter than the sizes in the header ask for.
    #[error("{section} at offset {offset}: {found_bytes} bytes, the header asks for {expected_bytes}")]
    Length {
        /// Which.
        section: &'static str,
        /// Offset of its first byte.
        offset: u64,
        /// Bytes that it should have.
        expected_bytes: u64,
        /// Bytes that it has.
        found_bytes: u64,
    },
    /// The file is over another field: most often of another curve.
    #[error("{section} at offset {offset}: the file is over {found}, not over BLS12-381")]
    Field {
        /// Where.
        section: &'static str,
        /// Offset of the modulus.
        offset: u64,
        /// The field's curve, where it is a well-known one.
        found: &'static str,
    },
    /// The key is one for another proof system.
    #[error("{section} at offset {offset}: the key is one for {found}, not for Groth16")]
    Protocol {
        /// Where.
        section: &'static str,
        /// Offset of the number.
        offset: u64,
        /// The proof system, where its number is known.
        found: &'static str,
    },
    /// A scalar that is not below r.
    #[error("{section}[{index}] at offset {offset}: not below the order of the group")]
    Scalar {
        /// Where.
        section: &'static str,
        /// 0-based in its section.
        index: usize,
        /// Offset of its first byte.
        offset: u64,
    },
    /// A point that cannot be used.
    #[error("{section}[{index}] at offset {offset}: {fault}")]
    Point {
        /// Where.
        section: &'static str,
        /// 0-based in its section.
        index: usize,
        /// Offset of its first byte.
        offset: u64,
        /// What is wrong.
        fault: PointFault,
    },
    /// Sizes or indices that cannot be.
    #[error("{section} at offset {offset}: {reason}")]
    Structure {
        /// Where.
        section: &'static str,
        /// Offset of what is wrong.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// The constraints cannot be taken.
    #[error(transparent)]
    R1cs(#[from] R1csError),
}

/// Bytes of an element of Fr, and of a coordinate in Fp.
const FR_BYTES: usize = 32;
const FQ_BYTES: usize = 48;

/// An integer of little-endian limbs.
///
/// # Panics
/// Unless there are 8 N bytes.
fn integer<const N: usize>(bytes: &[u8]) -> BigInt<N> {
    assert_eq!(bytes.len(), 8 * N);
    let mut limbs = [0; N];
    for (limb, chunk) in limbs.iter_mut().zip(bytes.chunks_exact(8)) {
        *limb = u64::from_le_bytes(chunk.try_into().expect("chunks of eight bytes"));
    }
    BigInt(limbs)
}

/// An element of Fr from its integer; `None` at r and above.
fn fr(bytes: &[u8]) -> Option<Fr> {
    Fr::from_bigint(integer(bytes))
}

/// An element of Fr whose Montgomery form the bytes are; `None` at r and above.
fn fr_montgomery(bytes: &[u8]) -> Option<Fr> {
    let limbs = integer(bytes);
    (limbs < Fr::MODULUS).then(|| Fr::new_unchecked(limbs))
}

/// An element of Fp whose Montgomery form the bytes are; `None` at p and above.
fn fq_montgomery(bytes: &[u8]) -> Option<Fq> {
    let limbs = integer(bytes);
    (limbs < Fq::MODULUS).then(|| Fq::new_unchecked(limbs))
}
