//! Snapshots in `golden/snapshots`, compared by folder: what a folder has is what one test makes.
//!
//! insta compares and shows the difference. Beside that, a snapshot that is not there and a file that no test makes are
//! failures, whatever `INSTA_UPDATE` says but `always`: nothing is accepted because nobody looked.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// How all that is recorded is written anew.
pub const HOW: &str = "golden/regenerate.sh writes all of them anew, or INSTA_UPDATE=always with this test";

/// What one snapshot is, and its text.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// A sentence that stands in the file's head.
    pub description: String,
    /// The text.
    pub text: String,
}

impl Snapshot {
    /// A snapshot.
    pub fn new(description: impl Into<String>, text: impl Into<String>) -> Self {
        Self { description: description.into(), text: text.into() }
    }
}

/// A folder's snapshots by name, the ending left out.
pub type Snapshots = BTreeMap<String, Snapshot>;

/// Whether files are written anew, by whoever asks for it.
pub fn is_update() -> bool {
    std::env::var("INSTA_UPDATE").is_ok_and(|value| ["always", "force", "1"].contains(&value.as_str()))
}

/// A folder of snapshots.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden/snapshots").join(name)
}

/// Fails unless a folder of `golden/snapshots` has these snapshots and no other file.
pub fn assert_folder(name: &str, snapshots: &Snapshots) {
    if let Err(faults) = compare(&folder(name), snapshots) {
        panic!("golden/snapshots/{name}: {faults}");
    }
}

/// What is wrong with a folder, in words. Differences are shown by insta as they are found.
pub fn compare(folder: &Path, snapshots: &Snapshots) -> Result<(), String> {
    let mut faults = String::new();
    for file in others(folder, snapshots) {
        if is_update() {
            std::fs::remove_file(folder.join(&file)).expect("a snapshot is ours to remove");
        } else {
            let _ = write!(faults, "\n  {file} is a file that no test makes");
        }
    }
    for (name, snapshot) in snapshots {
        if !is_update() && !folder.join(format!("{name}.snap")).exists() {
            let _ = write!(faults, "\n  {name}.snap is not there");
        } else if std::panic::catch_unwind(|| assert_snapshot(folder, name, snapshot)).is_err() {
            let _ = write!(faults, "\n  {name}.snap differs");
        }
    }
    if faults.is_empty() {
        Ok(())
    } else {
        Err(format!("{faults}\n{HOW}; read the diff before it is committed"))
    }
}

fn assert_snapshot(folder: &Path, name: &str, snapshot: &Snapshot) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(folder);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_description(snapshot.description.as_str());
    settings.bind(|| insta::assert_snapshot!(name, snapshot.text));
}

/// Files of a folder that are none of the snapshots. What insta left of a failure is not counted.
fn others(folder: &Path, snapshots: &Snapshots) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let names =
        entries.map(|entry| entry.expect("a file").file_name().into_string().expect("names are text"));
    let is_known =
        |file: &String| file.strip_suffix(".snap").is_some_and(|name| snapshots.contains_key(name));
    let mut others: Vec<_> = names.filter(|file| !is_known(file) && !file.ends_with(".snap.new")).collect();
    others.sort();
    others
}
