//! Files of `golden/` that a test compares with, and writes anew under `UPDATE_GOLDEN=1`.

use std::path::{Path, PathBuf};

/// A place in `golden/`.
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden").join(name)
}

/// Whether files are to be written anew.
pub fn is_update() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

/// The text of a file; empty where there is none yet and it is about to be written.
pub fn read(path: &Path) -> String {
    match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(_) if is_update() => String::new(),
        Err(error) => panic!("{}: {error}; UPDATE_GOLDEN=1 writes it", path.display()),
    }
}
