//! The container that all three binary formats are, and a cursor over one of its sections.

use super::{CircomError, FR_BYTES};
use ark_bls12_381::{Fq, Fr};
use ark_ff::{BigInteger, PrimeField};
use serde::Serialize;
use std::fmt;

/// Which kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A proving key of snarkjs, with the matrices A and B.
    Zkey,
    /// A witness.
    Wtns,
    /// Constraints.
    R1cs,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Zkey => "zkey",
            Self::Wtns => "wtns",
            Self::R1cs => "r1cs",
        })
    }
}

impl Kind {
    /// The kind of file that starts so, if it is one of these.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        [Self::Zkey, Self::Wtns, Self::R1cs].into_iter().find(|kind| bytes.starts_with(&kind.magic()))
    }

    fn magic(self) -> [u8; 4] {
        match self {
            Self::Zkey => *b"zkey",
            Self::Wtns => *b"wtns",
            Self::R1cs => *b"r1cs",
        }
    }

    /// The version that is read here: the one that circom 2 and snarkjs 0.7 write.
    fn version(self) -> u32 {
        match self {
            Self::Zkey | Self::R1cs => 1,
            Self::Wtns => 2,
        }
    }
}

/// Name of what is outside of all sections.
const CONTAINER: &str = "container";

/// A file's sections that somebody asked for, each where it lies.
#[derive(Debug)]
pub(super) struct Container<'a> {
    sections: Vec<Option<Cursor<'a>>>,
    names: &'static [(u32, &'static str)],
}

impl<'a> Container<'a> {
    /// Finds the sections that have these numbers. All of the file's sections must lie in it.
    pub(super) fn open(
        bytes: &'a [u8],
        kind: Kind,
        names: &'static [(u32, &'static str)],
    ) -> Result<Self, CircomError> {
        if !bytes.starts_with(&kind.magic()) {
            let found = bytes[..bytes.len().min(4)].to_vec();
            return Err(CircomError::Magic { expected: kind, found });
        }
        let mut cursor = Cursor { section: CONTAINER, bytes, start: 0, at: kind.magic().len() };
        let (expected, found) = (kind.version(), cursor.u32()?);
        if found != expected {
            return Err(CircomError::Version { kind, expected, found });
        }
        let mut sections: Vec<Option<Cursor<'a>>> = names.iter().map(|_| None).collect();
        // However many are promised: each takes twelve bytes at least, or the file ends.
        for _ in 0..cursor.u32()? {
            let number = cursor.u32()?;
            let index = names.iter().position(|(known, _)| *known == number);
            let section = index.map_or(CONTAINER, |index| names[index].1);
            let len = cursor.u64()?;
            let start = cursor.offset();
            let body = Cursor { section, ..cursor }.take(len)?;
            cursor.at += body.len();
            if let Some(slot) = index.map(|index| &mut sections[index]) {
                if slot.is_some() {
                    return Err(CircomError::Duplicate { section, offset: start });
                }
                *slot = Some(Cursor { section, bytes: body, start, at: 0 });
            }
        }
        Ok(Self { sections, names })
    }

    /// A section that may be absent.
    pub(super) fn optional(&self, number: u32) -> Option<Cursor<'a>> {
        let index = self.names.iter().position(|(known, _)| *known == number);
        self.sections[index.expect("the section was asked for when the file was opened")]
    }

    /// A section that has to be there.
    pub(super) fn section(&self, number: u32) -> Result<Cursor<'a>, CircomError> {
        self.optional(number).ok_or_else(|| {
            let (_, section) = self.names.iter().find(|(known, _)| *known == number).expect("as above");
            CircomError::Missing { section, number }
        })
    }
}

/// What is left of a section.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    pub(super) section: &'static str,
    bytes: &'a [u8],
    /// Offset of the section's first byte in the file.
    start: u64,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Offset in the file of what comes next.
    pub(super) fn offset(&self) -> u64 {
        self.start + self.at as u64
    }

    /// Bytes that are left.
    pub(super) fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    pub(super) fn take(&mut self, needed_bytes: u64) -> Result<&'a [u8], CircomError> {
        let left = &self.bytes[self.at..];
        let taken = usize::try_from(needed_bytes).ok().and_then(|len| left.get(..len));
        let taken = taken.ok_or(CircomError::Truncated {
            section: self.section,
            offset: self.offset(),
            needed_bytes,
            left_bytes: left.len() as u64,
        })?;
        self.at += taken.len();
        Ok(taken)
    }

    pub(super) fn u32(&mut self) -> Result<u32, CircomError> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes(bytes.try_into().expect("four bytes were taken")))
    }

    pub(super) fn u64(&mut self) -> Result<u64, CircomError> {
        let bytes = self.take(8)?;
        Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes were taken")))
    }

    /// All that is left, which must be so many items of so many bytes.
    pub(super) fn rest(&mut self, count: u64, item_bytes: usize) -> Result<&'a [u8], CircomError> {
        let expected = u128::from(count) * item_bytes as u128;
        if u128::from(self.left()) != expected {
            return Err(CircomError::Length {
                section: self.section,
                offset: self.start,
                expected_bytes: u64::try_from(expected).unwrap_or(u64::MAX) + self.at as u64,
                found_bytes: self.bytes.len() as u64,
            });
        }
        self.take(self.left())
    }

    /// That nothing is left.
    pub(super) fn end(&mut self) -> Result<(), CircomError> {
        self.rest(0, 0).map(|_| ())
    }

    /// A fault at what came `back` bytes ago.
    pub(super) fn fault(&self, back: u64, reason: impl Into<String>) -> CircomError {
        CircomError::Structure { section: self.section, offset: self.offset() - back, reason: reason.into() }
    }

    /// A field by its size in bytes and its modulus, which must be Fr's.
    pub(super) fn scalar_field(&mut self) -> Result<(), CircomError> {
        self.field(&Fr::MODULUS.to_bytes_le())
    }

    /// As [`scalar_field`](Self::scalar_field), of the field that coordinates are in.
    pub(super) fn base_field(&mut self) -> Result<(), CircomError> {
        self.field(&Fq::MODULUS.to_bytes_le())
    }

    fn field(&mut self, expected: &[u8]) -> Result<(), CircomError> {
        let len = self.u32()?;
        let offset = self.offset();
        // A size that no field has is no modulus to look for: whatever it says, it is another field.
        let modulus = if len > 128 { &[] } else { self.take(len.into())? };
        if modulus == expected {
            return Ok(());
        }
        let starts = |start: [u8; 8]| modulus.len() == FR_BYTES && modulus.starts_with(&start);
        let found = match () {
            // Low limbs of r and p of the curve that circom has by default.
            () if starts(0x43e1_f593_f000_0001_u64.to_le_bytes()) => "bn128 (BN254)",
            () if starts(0x3c20_8c16_d87c_fd47_u64.to_le_bytes()) => "bn128 (BN254)",
            () => "an unknown field",
        };
        Err(CircomError::Field { section: self.section, offset, found })
    }
}
