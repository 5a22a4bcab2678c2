//! Files that a user hands in: what kind each is, told from its bytes, and what can be read from it.

use ark_bls12_381::{Bls12_381, Fr};
use ark_groth16::VerifyingKey;
use ark_serialize::{CanonicalDeserialize, Compress};
use groth16::circom::json::{JsonError, ProofJson, VerifyingKeyJson, public_inputs};
use groth16::circom::{CircomError, Kind, Zkey, read_r1cs, read_witness};
use groth16::{CacheError, KeyFile, Proof, R1cs, ReadError, Trust, bellman};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A proving key of arkworks, or a verifying key, compressed.
    ArkworksCompressed,
    /// A proving key of arkworks, or a verifying key, uncompressed.
    Arkworks,
    /// Parameters of bellman, zkcrypto or bellperson: Zcash's and Filecoin's.
    Bellman,
    /// A key file of this prover.
    KeyFile,
    /// A proving key of snarkjs.
    Zkey,
    /// A witness of circom.
    Wtns,
    /// Constraints of circom.
    R1cs,
    /// Text that begins as JSON does.
    Json,
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ArkworksCompressed => "key of arkworks, compressed",
            Self::Arkworks => "key of arkworks, uncompressed",
            Self::Bellman => "parameters of bellman",
            Self::KeyFile => "key file of this prover",
            Self::Zkey => "proving key of snarkjs (.zkey)",
            Self::Wtns => "witness of circom (.wtns)",
            Self::R1cs => "constraints of circom (.r1cs)",
            Self::Json => "JSON",
        })
    }
}

impl FileKind {
    /// Tells the kind from the bytes: by what they start with, or, as keys of arkworks and bellman start with a point, by
    /// which format has its next points where they are.
    ///
    /// # Errors
    /// [`FileFault::Unknown`].
    pub fn of(bytes: &[u8]) -> Result<Self, FileFault> {
        if KeyFile::is_one(bytes) {
            return Ok(Self::KeyFile);
        }
        match Kind::of(bytes) {
            Some(Kind::Zkey) => return Ok(Self::Zkey),
            Some(Kind::Wtns) => return Ok(Self::Wtns),
            Some(Kind::R1cs) => return Ok(Self::R1cs),
            None => {}
        }
        let is_compressed = bytes.first().is_some_and(|byte| *byte >= 0x80);
        let compress = if is_compressed { Compress::Yes } else { Compress::No };
        let arkworks = match arkworks_key(bytes, compress) {
            Ok(_) if is_compressed => return Ok(Self::ArkworksCompressed),
            Ok(_) => return Ok(Self::Arkworks),
            Err(error) => error,
        };
        let bellman = match bellman::VerifyingKey::read(bytes) {
            Ok(_) => return Ok(Self::Bellman),
            Err(error) => error,
        };
        match bytes.trim_ascii_start().first() {
            Some(b'{' | b'[') => Ok(Self::Json),
            _ => Err(FileFault::Unknown { arkworks, bellman }),
        }
    }
}

fn arkworks_key(bytes: &[u8], compress: Compress) -> Result<VerifyingKey<Bls12_381>, ReadError> {
    groth16::arkworks::read_verifying_key(bytes, compress)
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub fault: FileFault,
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileFault {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It is of no kind that is known here.
    #[error(
        "neither a key, a witness nor constraints. As a key of arkworks: {arkworks}. As parameters of bellman: {bellman}"
    )]
    Unknown {
        /// Why it is no key of arkworks.
        arkworks: ReadError,
        /// Why it is no key of bellman.
        bellman: ReadError,
    },
    /// It is of another kind.
    #[error("this is a {found}; needed is a {needed}")]
    Kind {
        /// What is needed.
        needed: &'static str,
        /// What it is.
        found: FileKind,
    },
    /// A file of circom or snarkjs.
    #[error(transparent)]
    Circom(#[from] CircomError),
    /// A key of arkworks or bellman.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A key file.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// JSON that does not parse.
    #[error(transparent)]
    Parse(#[from] serde_json::Error),
    /// JSON of snarkjs.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// A proof that is no three points.
    #[error("not a proof: {0}")]
    Proof(&'static str),
    /// Two files that do not belong together.
    #[error("{0}")]
    Mismatch(String),
}

/// A file's bytes.
///
/// # Errors
/// [`FileError`].
pub fn read_bytes(path: &Path) -> Result<Vec<u8>, FileError> {
    with_path(path, std::fs::read(path))
}

/// Says of a fault which file has it.
pub(crate) fn with_path<T, E: Into<FileFault>>(path: &Path, result: Result<T, E>) -> Result<T, FileError> {
    result.map_err(|fault| FileError { path: path.into(), fault: fault.into() })
}

/// A proving key of snarkjs.
///
/// # Errors
/// [`FileError`].
pub fn read_zkey(path: &Path, trust: Trust) -> Result<Zkey, FileError> {
    with_path(path, Zkey::read(&read_bytes(path)?, trust))
}

/// A witness of circom. It is wiped when it is dropped.
///
/// # Errors
/// [`FileError`].
pub fn read_wtns(path: &Path) -> Result<Zeroizing<Vec<Fr>>, FileError> {
    let bytes = Zeroizing::new(read_bytes(path)?);
    with_path(path, read_witness(&bytes))
}

/// Constraints of circom.
///
/// # Errors
/// [`FileError`].
pub fn read_constraints(path: &Path) -> Result<R1cs, FileError> {
    with_path(path, read_r1cs(&read_bytes(path)?))
}

/// The verifying key of a key of any kind: of a proving key, or alone. Each point of it is checked.
///
/// # Errors
/// [`FileError`].
pub fn read_verifying_key(path: &Path) -> Result<VerifyingKey<Bls12_381>, FileError> {
    let bytes = read_bytes(path)?;
    let key = || -> Result<_, FileFault> {
        Ok(match FileKind::of(&bytes)? {
            FileKind::ArkworksCompressed => arkworks_key(&bytes, Compress::Yes)?,
            FileKind::Arkworks => arkworks_key(&bytes, Compress::No)?,
            FileKind::Bellman => bellman::VerifyingKey::read(&bytes)?.to_arkworks(),
            FileKind::KeyFile => KeyFile::open(path)?.key(Trust::Checked)?.verifying_key().clone(),
            FileKind::Zkey => Zkey::read_verifying_key(&bytes)?,
            FileKind::Json => serde_json::from_slice::<VerifyingKeyJson>(&bytes)?.verifying_key()?,
            found @ (FileKind::Wtns | FileKind::R1cs) => {
                return Err(FileFault::Kind { needed: "key", found });
            }
        })
    };
    with_path(path, key())
}

/// A proof: 192 bytes as arkworks, bellman and Zcash have them, or JSON of snarkjs. Its points are checked.
///
/// # Errors
/// [`FileError`].
pub fn read_proof(path: &Path) -> Result<Proof, FileError> {
    let bytes = read_bytes(path)?;
    let proof = || -> Result<_, FileFault> {
        if bytes.trim_ascii_start().starts_with(b"{") {
            return Ok(serde_json::from_slice::<ProofJson>(&bytes)?.proof()?);
        }
        if bytes.len() != 192 {
            return Err(FileFault::Proof("it is neither JSON nor 192 bytes long"));
        }
        let points = Proof::deserialize_compressed(&bytes[..]);
        points.map_err(|_| FileFault::Proof("a point is not encoded as one, or not in the group"))
    };
    with_path(path, proof())
}

/// Public inputs as snarkjs writes them, the constant left out. Each is canonical.
///
/// # Errors
/// [`FileError`].
pub fn read_public(path: &Path) -> Result<Vec<Fr>, FileError> {
    let texts: Vec<String> = read_json(path)?;
    with_path(path, public_inputs(&texts))
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, FileError> {
    with_path(path, serde_json::from_slice(&read_bytes(path)?))
}
