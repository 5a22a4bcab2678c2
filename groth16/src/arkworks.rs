//! Reader of ark-groth16's proving keys, as `CanonicalSerialize` writes them, compressed or not.
//!
//! ```text
//! alpha_g1 | beta_g2 | gamma_g2 | delta_g2 | count, gamma_abc_g1 | beta_g1 | delta_g1
//! count, a_query | count, b_g1_query | count, b_g2_query | count, h_query | count, l_query
//! ```
//!
//! A count is 8 bytes, little-endian; a point has the bytes that it has in Zcash's encoding. arkworks' own reader gives
//! the same key: this one decodes points in parallel, believes no count before the bytes are there, takes nothing but the
//! identity's own encoding for the identity, and says where a fault is.

use crate::bellman::{PointFault, ReadError, Section};
use crate::key::Trust;
use ark_bls12_381::Bls12_381;
use ark_groth16::{ProvingKey, VerifyingKey};
use ark_serialize::{CanonicalDeserialize, CanonicalSerialize, Compress, Validate};
use rayon::prelude::*;

const COUNT_BYTES: usize = 8;

/// In the first byte of a point: it is the identity.
const INFINITY: u8 = 0x40;

/// Reads a proving key. Unless trusted, each point must be on its curve and of the prime order. What follows the key is
/// not looked at.
///
/// # Errors
/// [`ReadError`], naming the first fault in the order of the file.
pub fn read_key(bytes: &[u8], compress: Compress, trust: Trust) -> Result<ProvingKey<Bls12_381>, ReadError> {
    let mut reader = Reader::new(bytes, compress, trust);
    let vk = reader.verifying_key()?;
    Ok(ProvingKey {
        vk,
        beta_g1: reader.point(Section::BetaG1)?,
        delta_g1: reader.point(Section::DeltaG1)?,
        a_query: reader.points(Section::AQuery)?,
        b_g1_query: reader.points(Section::BG1Query)?,
        b_g2_query: reader.points(Section::BG2Query)?,
        h_query: reader.points(Section::HQuery)?,
        l_query: reader.points(Section::LQuery)?,
    })
}

/// Reads a verifying key: a file of its own, or the beginning of a proving key. Every point is checked.
///
/// # Errors
/// As [`read_key`].
pub fn read_verifying_key(bytes: &[u8], compress: Compress) -> Result<VerifyingKey<Bls12_381>, ReadError> {
    Reader::new(bytes, compress, Trust::Checked).verifying_key()
}

struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
    compress: Compress,
    validate: Validate,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8], compress: Compress, trust: Trust) -> Self {
        let validate = if trust == Trust::Checked { Validate::Yes } else { Validate::No };
        Self { bytes, offset: 0, compress, validate }
    }

    fn verifying_key(&mut self) -> Result<VerifyingKey<Bls12_381>, ReadError> {
        Ok(VerifyingKey {
            alpha_g1: self.point(Section::AlphaG1)?,
            beta_g2: self.point(Section::BetaG2)?,
            gamma_g2: self.point(Section::GammaG2)?,
            delta_g2: self.point(Section::DeltaG2)?,
            gamma_abc_g1: self.points(Section::GammaAbcG1)?,
        })
    }

    /// The next bytes, and their offset.
    fn take(&mut self, section: Section, needed: u128) -> Result<(&'a [u8], usize), ReadError> {
        let offset = self.offset;
        let left = &self.bytes[offset..];
        let taken = usize::try_from(needed).ok().and_then(|len| left.get(..len));
        let Some(taken) = taken else {
            let needed_bytes = u64::try_from(needed).unwrap_or(u64::MAX);
            let (offset, left_bytes) = (offset as u64, left.len() as u64);
            return Err(ReadError::Truncated { section, offset, needed_bytes, left_bytes });
        };
        self.offset += taken.len();
        Ok((taken, offset))
    }

    fn point<P: Point>(&mut self, section: Section) -> Result<P, ReadError> {
        let len = P::default().serialized_size(self.compress);
        let (bytes, offset) = self.take(section, len as u128)?;
        let (offset, fault) = (offset as u64, PointFault::Encoding);
        self.decode(bytes).ok_or(ReadError::Point { section, index: 0, offset, fault })
    }

    /// A point, unless arkworks refuses it. Zeros without the flag of the identity are none, though arkworks takes them for
    /// it where points are not compressed: a part of a file that was never written is no key.
    fn decode<P: Point>(&self, bytes: &[u8]) -> Option<P> {
        let point = P::deserialize_with_mode(bytes, self.compress, self.validate).ok()?;
        (point != P::default() || bytes[0] & INFINITY != 0).then_some(point)
    }

    fn points<P: Point>(&mut self, section: Section) -> Result<Vec<P>, ReadError> {
        let len = P::default().serialized_size(self.compress);
        let (count, _) = self.take(section, COUNT_BYTES as u128)?;
        let count = u64::from_le_bytes(count.try_into().expect("eight bytes were taken"));
        // The bytes are there before anything is allocated for their points, whatever the count says.
        let (bytes, offset) = self.take(section, u128::from(count) * len as u128)?;
        let points: Option<Vec<P>> = bytes.par_chunks_exact(len).map(|bytes| self.decode(bytes)).collect();
        points.ok_or_else(|| {
            // Which of several bad points stopped the parallel pass is chance: look again for the first.
            let first = bytes.par_chunks_exact(len).position_first(|bytes| self.decode::<P>(bytes).is_none());
            let index = first.expect("the pass before found one");
            let (offset, fault) = ((offset + index * len) as u64, PointFault::Encoding);
            ReadError::Point { section, index, offset, fault }
        })
    }
}

/// A point as arkworks reads it. Its default is the identity.
trait Point: CanonicalSerialize + CanonicalDeserialize + Default + PartialEq + Send {}

impl<P: CanonicalSerialize + CanonicalDeserialize + Default + PartialEq + Send> Point for P {}
