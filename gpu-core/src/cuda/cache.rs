//! Compiled kernels on disk, so that only the first start of a version on a machine compiles.
//!
//! An entry's name is a hash of everything that decides the machine code: sources, headers, options (the chip
//! is one), compiler version. An entry's content begins with the hash of the rest, so a file that was cut
//! short or damaged is compiled again. Files appear by renaming, so processes that start together never read
//! half of one. The cache only ever saves time: a directory that cannot be used is warned about once, and
//! kernels are compiled.

use crate::Result;
use crate::kernel::ModuleSource;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Once;

/// Directory of the cache, in place of the user's cache directory; empty for none.
pub const CACHE_ENV: &str = "GPU_GROTH16_CACHE";

/// Changes with the format of the entries or of the key.
const FORMAT: &str = "gpu-groth16 kernel 1";

/// A directory of compiled kernels, or none.
#[derive(Debug, Clone)]
pub struct KernelCache {
    dir: Option<PathBuf>,
}

impl KernelCache {
    /// The user's cache: `$GPU_GROTH16_CACHE/kernels`, else `gpu-groth16/kernels` in the platform's cache
    /// directory.
    pub fn from_env() -> Self {
        let root = match std::env::var_os(CACHE_ENV) {
            Some(root) if root.is_empty() => None,
            Some(root) => Some(PathBuf::from(root)),
            None => dirs::cache_dir().map(|dir| dir.join("gpu-groth16")),
        };
        Self { dir: root.map(|root| root.join("kernels")) }
    }

    /// A cache in this directory, which is made when the first entry is stored.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: Some(dir.into()) }
    }

    /// The directory; `None` where there is no cache.
    pub fn dir(&self) -> Option<&Path> {
        self.dir.as_deref()
    }

    /// Name of a module's entry under these compiler options and this compiler version (major, minor).
    pub fn key(source: &ModuleSource, options: &[String], compiler: (u32, u32)) -> String {
        let mut hasher = blake3::Hasher::new();
        // Each field goes in with its length, so that no two lists of fields have the same bytes.
        let mut field = |text: &str| {
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        };
        field(FORMAT);
        field(&format!("nvrtc {}.{}", compiler.0, compiler.1));
        field(source.file);
        field(source.source);
        for (name, text) in source.headers {
            field(name);
            field(text);
        }
        field("options");
        options.iter().for_each(|option| field(option));
        hasher.finalize().to_hex().to_string()
    }

    /// The entry `key`, made and stored if it is not there or damaged.
    ///
    /// # Errors
    /// Those of `make` alone.
    pub fn fetch(&self, key: &str, make: impl FnOnce() -> Result<Vec<u8>>) -> Result<Vec<u8>> {
        let Some(dir) = &self.dir else { return make() };
        let path = dir.join(format!("{key}.cubin"));
        match read(&path) {
            Ok(Some(image)) => return Ok(image),
            Ok(None) => {}
            Err(error) => warn_once(&path, &error),
        }
        let image = make()?;
        if let Err(error) = store(dir, &path, &image) {
            warn_once(dir, &error);
        }
        Ok(image)
    }
}

/// A whole entry; nothing if there is none or it is damaged.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut content = match std::fs::read(path) {
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if content.len() < blake3::OUT_LEN {
        return Ok(None);
    }
    let image = content.split_off(blake3::OUT_LEN);
    Ok((blake3::hash(&image).as_bytes() == content.as_slice()).then_some(image))
}

fn store(dir: &Path, path: &Path, image: &[u8]) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    // In the same directory, so that the rename stays within one file system and is atomic.
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    file.write_all(blake3::hash(image).as_bytes())?;
    file.write_all(image)?;
    file.persist(path)?;
    Ok(())
}

fn warn_once(path: &Path, error: &io::Error) {
    static WARNED: Once = Once::new();
    WARNED.call_once(|| {
        tracing::warn!(path = %path.display(), %error, "no kernel cache: every start compiles");
    });
}
