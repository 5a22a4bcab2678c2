//! A prepared key as a file: mapped into memory, hashed, and brought to a device as it is.
//!
//! ```text
//! page 0    magic, hash of everything after it, sizes, whether the points were checked, the reduction, and where each
//!           section lies
//! pages     one section after another, each from a page's start: little-endian, Montgomery, as the device keeps it
//! ```
//!
//! Reading a key anew takes seconds to minutes, for each point is decoded and checked. Here the hash shows that the bytes
//! are those that were written, and the file says whether the points had been checked by then. Whoever can write the
//! file can write a hash to it as well: it guards against damage, not against an enemy.

use crate::error::KeyError;
use crate::key::{PreparedKey, Trust};
use crate::plan::{Product, Shape};
use crate::reduction::Reduction;
use ark_bls12_381::{Bls12_381, Fr, G1Affine, G2Affine};
use ark_ff::PrimeField;
use ark_groth16::VerifyingKey;
use gpu_core::Pod;
use gpu_core::layout::{bytes_of, slice_of};
use memmap2::Mmap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// First bytes of a file. The number at the end is the version: another layout gets another one.
const MAGIC: [u8; 16] = *b"groth16-key-v002";
const PAGE: usize = 4096;
const HASH: Range<usize> = 16..48;
/// Numbers of the header: six sizes, whether points were checked, the reduction, and offset and bytes of each section.
const NUMBERS: Range<usize> = 48..48 + 8 * (PLACES + 2 * SECTION_COUNT);
/// Where, among the numbers, offset and bytes of the first section are.
const PLACES: usize = 8;
const SECTION_COUNT: usize = 12;

const _: () = assert!(NUMBERS.end <= PAGE && PAGE.is_multiple_of(16) && cfg!(target_endian = "little"));

/// Names of the sections, in the order of the file.
const SECTIONS: [&str; SECTION_COUNT] = [
    "points_g1",
    "points_g2",
    "gamma_abc_g1",
    "row_offsets",
    "columns",
    "factors",
    "coefficients",
    "h_query",
    "l_query",
    "a_query",
    "b_g1_query",
    "b_g2_query",
];

/// Why a file gives no key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Not such a file, or one of another version.
    #[error("not a key file of this version")]
    Magic,
    /// The file ends too early, or the header says what cannot be.
    #[error("{section}: {bytes} bytes at offset {offset} of a file of {file_bytes} bytes")]
    Truncated {
        /// Where.
        section: &'static str,
        /// First byte, as the header has it.
        offset: u64,
        /// Length, as the header has it.
        bytes: u64,
        /// Length of the file.
        file_bytes: u64,
    },
    /// The bytes are not those that were written.
    #[error("the file is damaged: its hash is another")]
    Hash,
    /// The constraints name what does not exist.
    #[error("{section}: {reason}")]
    Structure {
        /// Where.
        section: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The key is another circuit's.
    #[error("{}: the key of a circuit of other sizes", path.display())]
    OtherCircuit {
        /// The file's path.
        path: PathBuf,
    },
    /// The points are not a key's.
    #[error(transparent)]
    Key(#[from] KeyError),
}

impl PreparedKey<'_> {
    /// Writes it to a file, which [`KeyFile`] opens. The file is complete or not there: it is written beside its place
    /// and then moved.
    ///
    /// # Errors
    /// [`CacheError::Io`].
    pub fn write(&self, path: &Path) -> Result<(), CacheError> {
        let beside = path.with_extension("part");
        let failed = |source| CacheError::Io { path: path.into(), source };
        let written = self.write_to(&beside).and_then(|()| std::fs::rename(&beside, path));
        written.inspect_err(|_| drop(std::fs::remove_file(&beside))).map_err(failed)
    }

    fn write_to(&self, path: &Path) -> io::Result<()> {
        let vk = &self.vk;
        let points_g1 = [vk.alpha_g1, self.beta_g1, self.delta_g1];
        let points_g2 = [vk.beta_g2, vk.gamma_g2, vk.delta_g2];
        let sections: [&[u8]; SECTION_COUNT] = [
            bytes_of(&points_g1),
            bytes_of(&points_g2),
            bytes_of(&vk.gamma_abc_g1),
            bytes_of(&self.row_offsets),
            bytes_of(&self.columns),
            bytes_of(&self.factors),
            bytes_of(&self.coefficients),
            bytes_of(&self.h_query),
            bytes_of(&self.l_query),
            bytes_of(&self.a_query),
            bytes_of(&self.b_g1_query),
            bytes_of(&self.b_g2_query),
        ];
        let shape = &self.shape;
        let sizes = [
            shape.constraint_count,
            shape.input_count,
            shape.variable_count,
            shape.term_count,
            shape.coefficient_count,
            shape.log_n,
            u32::from(self.trust == Trust::Checked),
            u32::from(shape.reduction == Reduction::Snarkjs),
        ];
        let mut numbers: Vec<u64> = sizes.map(u64::from).to_vec();
        let mut offset = PAGE;
        for section in sections {
            numbers.extend([offset as u64, section.len() as u64]);
            offset += section.len().next_multiple_of(PAGE);
        }
        let mut header = [0; PAGE];
        header[..MAGIC.len()].copy_from_slice(&MAGIC);
        header[NUMBERS].copy_from_slice(bytes_of(&numbers));
        let mut hasher = blake3::Hasher::new();
        hasher.update(&header[HASH.end..]);
        let padding =
            |section: &[u8]| [0; PAGE][..section.len().next_multiple_of(PAGE) - section.len()].to_vec();
        for section in sections {
            hasher.update(section).update(&padding(section));
        }
        header[HASH].copy_from_slice(hasher.finalize().as_bytes());
        let mut file = BufWriter::new(File::create(path)?);
        file.write_all(&header)?;
        for section in sections {
            file.write_all(section)?;
            file.write_all(&padding(section))?;
        }
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }
}

/// A key file, mapped into memory. Nobody may change it meanwhile.
#[derive(Debug)]
pub struct KeyFile {
    map: Mmap,
    path: PathBuf,
}

impl KeyFile {
    /// Whether these are the first bytes of such a file, of any version.
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC[..13])
    }

    /// Maps a file.
    ///
    /// # Errors
    /// [`CacheError::Io`], [`CacheError::Magic`].
    pub fn open(path: &Path) -> Result<Self, CacheError> {
        let failed = |source| CacheError::Io { path: path.into(), source };
        let file = File::open(path).map_err(failed)?;
        // SAFETY: the file was moved into place complete, and whoever keeps keys does not write into them; [`KeyFile`]
        // says so. What is read is plain data, of which any bytes are values.
        #[allow(unsafe_code)]
        let map = unsafe { Mmap::map(&file) }.map_err(failed)?;
        if map.len() < PAGE || map[..MAGIC.len()] != MAGIC {
            return Err(CacheError::Magic);
        }
        Ok(Self { map, path: path.into() })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The key. Lengths, indices and coefficients are always checked, for the device relies on them. Unless trusted, so is
    /// the hash, and the points too if they had not been when the file was written.
    ///
    /// # Errors
    /// [`CacheError`].
    pub fn key(&self, trust: Trust) -> Result<PreparedKey<'_>, CacheError> {
        let numbers: &[u64] = slice_of(&self.map[NUMBERS]);
        if trust == Trust::Checked && blake3::hash(&self.map[HASH.end..]).as_bytes() != &self.map[HASH] {
            return Err(CacheError::Hash);
        }
        let shape = shape(numbers)?;
        let was_checked = numbers[6] == 1;
        let lens = lengths(&shape);
        let points_g1 = self.section::<G1Affine>(0, 3)?;
        let points_g2 = self.section::<G2Affine>(1, 3)?;
        let key = PreparedKey {
            shape,
            trust: if was_checked { Trust::Checked } else { trust },
            vk: VerifyingKey::<Bls12_381> {
                alpha_g1: points_g1[0],
                beta_g2: points_g2[0],
                gamma_g2: points_g2[1],
                delta_g2: points_g2[2],
                gamma_abc_g1: self.section(2, lens[2])?.to_vec(),
            },
            beta_g1: points_g1[1],
            delta_g1: points_g1[2],
            row_offsets: self.section(3, lens[3])?.into(),
            columns: self.section(4, lens[4])?.into(),
            factors: self.section(5, lens[5])?.into(),
            coefficients: self.section(6, lens[6])?.into(),
            h_query: self.section(7, lens[7])?.into(),
            l_query: self.section(8, lens[8])?.into(),
            a_query: self.section(9, lens[9])?.into(),
            b_g1_query: self.section(10, lens[10])?.into(),
            b_g2_query: self.section(11, lens[11])?.into(),
        };
        check_indices(&key)?;
        if trust == Trust::Checked && !was_checked {
            key.check_points()?;
        }
        Ok(key)
    }

    /// A section, which must have as many items as the sizes ask for, and lie in the file.
    fn section<T: Pod>(&self, index: usize, len: u64) -> Result<&[T], CacheError> {
        let numbers: &[u64] = slice_of(&self.map[NUMBERS]);
        let (offset, bytes) = (numbers[PLACES + 2 * index], numbers[PLACES + 1 + 2 * index]);
        let (section, file_bytes) = (SECTIONS[index], self.map.len() as u64);
        let expected = len.checked_mul(size_of::<T>() as u64);
        let end = offset.checked_add(bytes).filter(|end| *end <= file_bytes);
        if end.is_none() || expected != Some(bytes) || offset % PAGE as u64 != 0 {
            return Err(CacheError::Truncated { section, offset, bytes, file_bytes });
        }
        Ok(slice_of(&self.map[offset as usize..(offset + bytes) as usize]))
    }
}

/// Items of each section.
fn lengths(shape: &Shape) -> [u64; SECTION_COUNT] {
    let terms = u64::from(shape.term_count);
    let (inputs, variables) = (u64::from(shape.input_count), u64::from(shape.variable_count));
    let rows = shape.row_count() + 1;
    let (h, l) = (shape.base_count(Product::H), variables - inputs);
    [3, 3, inputs, rows, terms, terms, shape.coefficient_count.into(), h, l, variables, variables, variables]
}

/// The sizes, which must be those of some circuit.
fn shape(numbers: &[u64]) -> Result<Shape, CacheError> {
    let refuse = |reason: String| CacheError::Structure { section: "sizes", reason };
    let size = |index: usize| {
        u32::try_from(numbers[index]).map_err(|_| refuse(format!("{} is no size", numbers[index])))
    };
    let shape = Shape {
        constraint_count: size(0)?,
        input_count: size(1)?,
        variable_count: size(2)?,
        term_count: size(3)?,
        coefficient_count: size(4)?,
        log_n: size(5)?,
        reduction: match numbers[7] {
            0 => Reduction::Libsnark,
            1 => Reduction::Snarkjs,
            other => return Err(refuse(format!("{other} is no reduction"))),
        },
    };
    let is_circuit =
        (1..=shape.variable_count).contains(&shape.input_count) && shape.log_n <= 31 && shape.fits_domain();
    if is_circuit { Ok(shape) } else { Err(refuse(format!("{shape:?} is no circuit"))) }
}

fn check_indices(key: &PreparedKey<'_>) -> Result<(), CacheError> {
    let shape = &key.shape;
    let refuse = |section, reason: &str| Err(CacheError::Structure { section, reason: reason.into() });
    let offsets = &key.row_offsets;
    if offsets[0] != 0 || offsets.last() != Some(&shape.term_count) || !offsets.is_sorted() {
        return refuse("row_offsets", "they do not rise from 0 to the number of terms");
    }
    if key.columns.iter().any(|column| *column >= shape.variable_count) {
        return refuse("columns", "a variable that does not exist");
    }
    if key.factors.iter().any(|factor| *factor >= shape.coefficient_count) {
        return refuse("factors", "a coefficient that does not exist");
    }
    if key.coefficients.iter().any(|value| value.0 >= Fr::MODULUS) {
        return refuse("coefficients", "a value that is not below r");
    }
    Ok(())
}
