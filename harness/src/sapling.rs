//! Zcash's Sapling proving keys: real keys from a real ceremony, for circuits that are in use.
//!
//! They come embedded (feature `sapling-keys`), or from a directory that holds the files as Zcash distributes them. Either
//! way the bytes must have the published hash, so checking each point's order again would show nothing new.

use groth16::{CompactKey, ReadError, Validation};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// One of the two keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyName {
    /// The Output circuit: 7 827 constraints, domain 2^13.
    Output,
    /// The Spend circuit: 98 777 constraints, domain 2^17.
    Spend,
}

impl KeyName {
    /// Both keys, the small one first.
    pub const ALL: [Self; 2] = [Self::Output, Self::Spend];

    /// Name of its file.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Output => "sapling-output.params",
            Self::Spend => "sapling-spend.params",
        }
    }

    /// SHA-256 of its file, as published with the Sapling protocol.
    pub fn sha256(self) -> &'static str {
        match self {
            Self::Output => "2f0ebbcbb9bb0bcffe95a397e7eba89c29eb4dde6191c339db88570e3f3fb0e4",
            Self::Spend => "8e48ffd23abb3a5fd9c5589204f32d9c31285a04b78096ba40a79b75677efc13",
        }
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Output => "output",
            Self::Spend => "spend",
        })
    }
}

impl FromStr for KeyName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|name| name.to_string() == text);
        named.ok_or_else(|| format!("`{text}` is not `output` or `spend`"))
    }
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The program holds no keys, and no directory was given.
    #[error("this program was built without the Sapling keys: give the directory of {file} with --params")]
    NotEmbedded {
        /// File name.
        file: &'static str,
    },
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The bytes are not the published ones.
    #[error("{file}: SHA-256 {found} is not the published {published}")]
    Hash {
        /// File name.
        file: &'static str,
        /// What the bytes have.
        found: String,
        /// What they should have.
        published: &'static str,
    },
    /// The bytes are not a key.
    #[error("{file}: {source}")]
    Read {
        /// File name.
        file: &'static str,
        /// Where and why.
        source: ReadError,
    },
}

/// A key by its name.
#[derive(Debug)]
pub struct SaplingKey {
    /// Which of the two.
    pub name: KeyName,
    /// The key.
    pub key: CompactKey,
}

/// Loads keys: from `directory` if there is one, else those embedded.
///
/// # Errors
/// [`KeyError`] for the first that fails.
pub fn load(names: &[KeyName], directory: Option<&Path>) -> Result<Vec<SaplingKey>, KeyError> {
    names.iter().map(|name| parse(*name, &file(*name, directory)?)).collect()
}

/// The bytes of a key's file, not yet compared with the published hash: from `directory` if there is one, else those
/// embedded.
///
/// # Errors
/// [`KeyError::Io`], [`KeyError::NotEmbedded`].
pub fn file(name: KeyName, directory: Option<&Path>) -> Result<Vec<u8>, KeyError> {
    let Some(directory) = directory else { return embedded(name) };
    let path = directory.join(name.file_name());
    std::fs::read(&path).map_err(|source| KeyError::Io { path, source })
}

#[cfg(feature = "sapling-keys")]
fn embedded(name: KeyName) -> Result<Vec<u8>, KeyError> {
    let (spend, output) = wagyu_zcash_parameters::load_sapling_parameters();
    Ok(match name {
        KeyName::Output => output,
        KeyName::Spend => spend,
    })
}

#[cfg(not(feature = "sapling-keys"))]
fn embedded(name: KeyName) -> Result<Vec<u8>, KeyError> {
    Err(KeyError::NotEmbedded { file: name.file_name() })
}

/// A key from the bytes of its file.
///
/// # Errors
/// [`KeyError::Hash`], [`KeyError::Read`].
pub fn parse(name: KeyName, bytes: &[u8]) -> Result<SaplingKey, KeyError> {
    let (file, published) = (name.file_name(), name.sha256());
    let found: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if found != published {
        return Err(KeyError::Hash { file, found, published });
    }
    let key = CompactKey::read(bytes, Validation::Curve).map_err(|source| KeyError::Read { file, source })?;
    Ok(SaplingKey { name, key })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts from the circuits: inputs, private variables, densities of A and B, domain size - 1.
    #[test]
    #[cfg(feature = "sapling-keys")]
    fn the_embedded_keys_have_the_circuits_sizes() {
        let keys = load(&KeyName::ALL, None).expect("embedded keys");
        let sizes: Vec<_> = keys
            .iter()
            .map(|SaplingKey { key, .. }| {
                assert_eq!(key.b_g1_query.len(), key.b_g2_query.len());
                (
                    key.vk.gamma_abc_g1.len(),
                    key.h_query.len(),
                    key.l_query.len(),
                    key.a_query.len(),
                    key.b_g1_query.len(),
                    key.read_bytes,
                )
            })
            .collect();
        let output = (6, 8_191, 7_821, 6 + 6_292, 4_850, 3_540_024);
        let spend = (8, 131_071, 98_638, 8 + 85_382, 61_300, 47_905_560);
        assert_eq!(sizes, [output, spend]);
    }

    #[test]
    fn other_bytes_are_refused_by_their_hash() {
        let error = parse(KeyName::Output, b"not a key").expect_err("the hash differs");
        let text = error.to_string();
        assert!(text.starts_with("sapling-output.params: SHA-256 ") && text.contains("2f0ebbcb"), "{text}");
    }

    #[test]
    fn a_missing_directory_is_an_error_with_the_path() {
        let error = load(&[KeyName::Spend], Some(Path::new("/nowhere"))).expect_err("no such directory");
        assert!(error.to_string().starts_with("/nowhere/sapling-spend.params: "), "{error}");
    }

    #[test]
    fn names_read_back() {
        for name in KeyName::ALL {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        assert!("sprout".parse::<KeyName>().is_err());
    }
}
