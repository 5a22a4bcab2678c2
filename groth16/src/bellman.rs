//! Reader of bellman's `Parameters` file: the proving key of Zcash Sapling, zkcrypto's `groth16` and bellperson.
//!
//! ```text
//! alpha_g1 | beta_g1 | beta_g2 | gamma_g2 | delta_g1 | delta_g2 | count, gamma_abc_g1
//! count, h_query | count, l_query | count, a_query | count, b_g1_query | count, b_g2_query
//! ```
//!
//! A count is 4 bytes, big-endian. A point is uncompressed in Zcash's encoding: x then y, each coordinate a big-endian
//! integer of 48 bytes below p, of two for G2 with c1 before c0; the three top bits of the first byte are flags. There
//! is no header, and what follows the last point is not the key's (Sapling's files go on with a ceremony transcript).
//!
//! The queries are **compact**, and stay so here: bellman leaves out the identity where a variable does not occur in a
//! polynomial, so the i-th base need not belong to the i-th variable. Who proves needs the circuit's densities as well.

use ark_bls12_381::{Bls12_381, Fq, Fq2, G1Affine, G2Affine};
use ark_ec::AffineRepr;
use ark_ec::short_weierstrass::{Affine, SWCurveConfig};
use ark_ff::{BigInt, PrimeField};
use rayon::prelude::*;
use std::fmt;

const COORDINATE_BYTES: usize = 48;
const COUNT_BYTES: u64 = 4;

/// How much of each point is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validation {
    /// Encoding, and the curve's equation. Enough for a file whose hash is known.
    Curve,
    /// Also membership in the subgroup of prime order, at about a hundred times the cost.
    Subgroup,
}

/// A part of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Section {
    /// `alpha` in G1.
    AlphaG1,
    /// `beta` in G1.
    BetaG1,
    /// `beta` in G2.
    BetaG2,
    /// `gamma` in G2.
    GammaG2,
    /// `delta` in G1.
    DeltaG1,
    /// `delta` in G2.
    DeltaG2,
    /// The bases of the public inputs (bellman: `ic`).
    GammaAbcG1,
    /// Bases for h.
    HQuery,
    /// Bases of the private variables.
    LQuery,
    /// Bases for a.
    AQuery,
    /// Bases for b in G1.
    BG1Query,
    /// Bases for b in G2.
    BG2Query,
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Section::AlphaG1 => "alpha_g1",
            Section::BetaG1 => "beta_g1",
            Section::BetaG2 => "beta_g2",
            Section::GammaG2 => "gamma_g2",
            Section::DeltaG1 => "delta_g1",
            Section::DeltaG2 => "delta_g2",
            Section::GammaAbcG1 => "gamma_abc_g1",
            Section::HQuery => "h_query",
            Section::LQuery => "l_query",
            Section::AQuery => "a_query",
            Section::BG1Query => "b_g1_query",
            Section::BG2Query => "b_g2_query",
        })
    }
}

/// What is wrong with the bytes of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PointFault {
    /// A flag that an uncompressed point cannot carry.
    #[error("flag bits {flags:#05b} in an uncompressed point")]
    Flags {
        /// The three top bits: compressed, infinity, larger y.
        flags: u8,
    },
    /// The infinity flag with other bits set.
    #[error("the infinity flag on bytes that are not zero")]
    DirtyInfinity,
    /// The identity, which a compact key never holds.
    #[error("the identity")]
    Identity,
    /// A coordinate with an integer that is not below p.
    #[error("{coordinate} is not below the field's modulus")]
    Coordinate {
        /// `x` or `y`.
        coordinate: char,
    },
    /// The coordinates do not satisfy the curve's equation.
    #[error("not on the curve")]
    NotOnCurve,
    /// arkworks' decoder refuses the bytes, and does not say which of the above it is.
    #[error("not the encoding of a point in the group")]
    Encoding,
    /// On the curve, and not of the prime order.
    #[error("not in the subgroup of prime order")]
    NotInSubgroup,
}

/// Why a file is not a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file ends too early; also what a hostile count runs into, before anything is allocated for it.
    #[error("{section}: {needed_bytes} bytes needed at offset {offset}, {left_bytes} left")]
    Truncated {
        /// Where.
        section: Section,
        /// Offset in the file at which the bytes should begin.
        offset: u64,
        /// Bytes that the section needs from there.
        needed_bytes: u64,
        /// Bytes that there are from there.
        left_bytes: u64,
    },
    /// A point that cannot be used.
    #[error("{section}[{index}] at offset {offset}: {fault}")]
    Point {
        /// Where.
        section: Section,
        /// 0-based in its section.
        index: usize,
        /// Offset of its first byte in the file.
        offset: u64,
        /// What is wrong.
        fault: PointFault,
    },
}

/// The part of the key that a verifier needs, and the two points that only a prover does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyingKey {
    /// `alpha` in G1.
    pub alpha_g1: G1Affine,
    /// `beta` in G1.
    pub beta_g1: G1Affine,
    /// `beta` in G2.
    pub beta_g2: G2Affine,
    /// `gamma` in G2.
    pub gamma_g2: G2Affine,
    /// `delta` in G1.
    pub delta_g1: G1Affine,
    /// `delta` in G2.
    pub delta_g2: G2Affine,
    /// One base for the constant, and one for each public input.
    pub gamma_abc_g1: Vec<G1Affine>,
}

/// A proving key as bellman stores it: its queries hold no identities (see the [module](self)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactKey {
    /// The verifying key.
    pub vk: VerifyingKey,
    /// Bases for h: domain size - 1.
    pub h_query: Vec<G1Affine>,
    /// Bases of the private variables, all of them.
    pub l_query: Vec<G1Affine>,
    /// Bases for a: the public variables, and the private ones that occur in A.
    pub a_query: Vec<G1Affine>,
    /// Bases for b in G1: the variables that occur in B.
    pub b_g1_query: Vec<G1Affine>,
    /// The same variables in G2.
    pub b_g2_query: Vec<G2Affine>,
    /// Bytes that were read; what follows them in the file was not looked at.
    pub read_bytes: u64,
}

impl CompactKey {
    /// Reads a key from the bytes of a file. Points are decoded in parallel.
    ///
    /// # Errors
    /// [`ReadError`], naming the first fault in the order of the file.
    pub fn read(bytes: &[u8], validation: Validation) -> Result<Self, ReadError> {
        let mut reader = Reader { bytes, offset: 0, validation };
        let vk = reader.verifying_key()?;
        Ok(Self {
            vk,
            h_query: reader.points(Section::HQuery)?,
            l_query: reader.points(Section::LQuery)?,
            a_query: reader.points(Section::AQuery)?,
            b_g1_query: reader.points(Section::BG1Query)?,
            b_g2_query: reader.points(Section::BG2Query)?,
            read_bytes: reader.offset as u64,
        })
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
    validation: Validation,
}

impl VerifyingKey {
    /// Reads a verifying key: a file of its own, or the beginning of a proving key. Every point is checked.
    ///
    /// # Errors
    /// As [`CompactKey::read`].
    pub fn read(bytes: &[u8]) -> Result<Self, ReadError> {
        Reader { bytes, offset: 0, validation: Validation::Subgroup }.verifying_key()
    }

    /// The same key as arkworks has it.
    pub fn to_arkworks(&self) -> ark_groth16::VerifyingKey<Bls12_381> {
        ark_groth16::VerifyingKey {
            alpha_g1: self.alpha_g1,
            beta_g2: self.beta_g2,
            gamma_g2: self.gamma_g2,
            delta_g2: self.delta_g2,
            gamma_abc_g1: self.gamma_abc_g1.clone(),
        }
    }
}

impl<'a> Reader<'a> {
    fn verifying_key(&mut self) -> Result<VerifyingKey, ReadError> {
        Ok(VerifyingKey {
            alpha_g1: self.point(Section::AlphaG1)?,
            beta_g1: self.point(Section::BetaG1)?,
            beta_g2: self.point(Section::BetaG2)?,
            gamma_g2: self.point(Section::GammaG2)?,
            delta_g1: self.point(Section::DeltaG1)?,
            delta_g2: self.point(Section::DeltaG2)?,
            gamma_abc_g1: self.points(Section::GammaAbcG1)?,
        })
    }

    /// The next `len` bytes, and their offset.
    fn take(&mut self, section: Section, needed_bytes: u64) -> Result<(&'a [u8], usize), ReadError> {
        let offset = self.offset;
        let left = &self.bytes[offset..];
        let taken = usize::try_from(needed_bytes).ok().and_then(|len| left.get(..len));
        let Some(taken) = taken else {
            let left_bytes = left.len() as u64;
            return Err(ReadError::Truncated { section, offset: offset as u64, needed_bytes, left_bytes });
        };
        self.offset += taken.len();
        Ok((taken, offset))
    }

    fn point<C: Curve>(&mut self, section: Section) -> Result<Affine<C>, ReadError> {
        let (bytes, offset) = self.take(section, C::POINT_BYTES as u64)?;
        let fault = |fault| ReadError::Point { section, index: 0, offset: offset as u64, fault };
        C::decode(bytes, self.validation).map_err(fault)
    }

    fn points<C: Curve>(&mut self, section: Section) -> Result<Vec<Affine<C>>, ReadError> {
        let (count, _) = self.take(section, COUNT_BYTES)?;
        let count = u32::from_be_bytes(count.try_into().expect("four bytes were taken"));
        // The bytes are there before anything is allocated for their points, whatever the count says.
        let (bytes, offset) = self.take(section, u64::from(count) * C::POINT_BYTES as u64)?;
        let validation = self.validation;
        let decode = |chunk: &[u8]| C::decode(chunk, validation);
        let points: Result<Vec<_>, _> = bytes.par_chunks_exact(C::POINT_BYTES).map(decode).collect();
        points.map_err(|_| {
            // Which of several bad points stopped the parallel pass is chance: look again for the first.
            let faults = bytes.par_chunks_exact(C::POINT_BYTES).map(decode).enumerate();
            let first = faults.find_map_first(|(index, point)| point.err().map(|fault| (index, fault)));
            let (index, fault) = first.expect("the pass before found one");
            let offset = (offset + index * C::POINT_BYTES) as u64;
            ReadError::Point { section, index, offset, fault }
        })
    }
}

/// G1 or G2 as the file encodes it.
trait Curve: SWCurveConfig {
    const POINT_BYTES: usize;

    /// A coordinate from its bytes, the flags cleared; `None` where an integer is not below p.
    fn coordinate(bytes: &[u8]) -> Option<Self::BaseField>;

    fn has_prime_order(point: &Affine<Self>) -> bool;

    fn decode(bytes: &[u8], validation: Validation) -> Result<Affine<Self>, PointFault> {
        let flags = bytes[0] >> 5;
        match flags {
            0b000 => {}
            0b010 if bytes[0] == 0x40 && bytes[1..].iter().all(|byte| *byte == 0) => {
                return Err(PointFault::Identity);
            }
            0b010 => return Err(PointFault::DirtyInfinity),
            _ => return Err(PointFault::Flags { flags }),
        }
        let (x, y) = bytes.split_at(Self::POINT_BYTES / 2);
        let half = |coordinate, bytes| Self::coordinate(bytes).ok_or(PointFault::Coordinate { coordinate });
        let (x, y) = (half('x', x)?, half('y', y)?);
        let point = Affine::<Self>::new_unchecked(x, y);
        // arkworks keeps the identity as (0, 0), which is not on either curve and has no business here.
        if point.is_zero() || !point.is_on_curve() {
            return Err(PointFault::NotOnCurve);
        }
        if validation == Validation::Subgroup && !Self::has_prime_order(&point) {
            return Err(PointFault::NotInSubgroup);
        }
        Ok(point)
    }
}

impl Curve for ark_bls12_381::g1::Config {
    const POINT_BYTES: usize = 2 * COORDINATE_BYTES;

    fn coordinate(bytes: &[u8]) -> Option<Fq> {
        fq(bytes)
    }

    fn has_prime_order(point: &G1Affine) -> bool {
        point.is_in_correct_subgroup_assuming_on_curve()
    }
}

impl Curve for ark_bls12_381::g2::Config {
    const POINT_BYTES: usize = 4 * COORDINATE_BYTES;

    fn coordinate(bytes: &[u8]) -> Option<Fq2> {
        let (c1, c0) = bytes.split_at(COORDINATE_BYTES);
        Some(Fq2 { c0: fq(c0)?, c1: fq(c1)? })
    }

    fn has_prime_order(point: &G2Affine) -> bool {
        point.is_in_correct_subgroup_assuming_on_curve()
    }
}

/// An element of Fp from a big-endian integer; `None` at p and above.
fn fq(bytes: &[u8]) -> Option<Fq> {
    let mut limbs = [0; COORDINATE_BYTES / 8];
    for (limb, chunk) in limbs.iter_mut().rev().zip(bytes.chunks_exact(8)) {
        *limb = u64::from_be_bytes(chunk.try_into().expect("chunks of eight bytes"));
    }
    Fq::from_bigint(BigInt(limbs))
}
