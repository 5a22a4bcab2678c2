//! Every vector of `golden/vectors`, on every device that there is and by arkworks: what is valid gives the output that is
//! written there, what is invalid is refused with the error that is named.
//!
//! The files are written by `golden/gen/vectors.py` in plain integers, and that they are is tested here too, where there
//! is a `python3`.

#[path = "../common/mod.rs"]
mod common;
#[path = "../support/mod.rs"]
mod support;

mod curve;
mod digits;
mod field;
mod files;
mod groth16;
mod msm;
mod ntt;
mod numbers;
mod sort;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One test for each file, and the list of files. Their text is in the program, which so runs without the source tree.
macro_rules! files {
    ($($name:ident: $run:expr,)*) => {
        const FILES: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                $run(include_str!(concat!("../../../golden/vectors/", stringify!($name), ".json")));
            }
        )*
    };
}

/// `golden/`, where the source tree is.
fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden");
    if !folder.exists() {
        println!("skipped: there is no {}", folder.display());
        return None;
    }
    Some(folder)
}

files! {
    curve_g1: curve::run::<ark_bls12_381::g1::Config>,
    curve_g2: curve::run::<ark_bls12_381::g2::Config>,
    digits: digits::run,
    field_fp: field::run::<ark_bls12_381::Fq>,
    field_fp2: field::run::<ark_bls12_381::Fq2>,
    field_fr: field::run::<ark_bls12_381::Fr>,
    groth16: groth16::run,
    msm_g1: msm::run::<ark_bls12_381::G1Projective>,
    msm_g2: msm::run::<ark_bls12_381::G2Projective>,
    ntt: ntt::run,
    sort: sort::run,
}

#[test]
fn every_file_has_a_test() {
    let Some(folder) = folder().map(|folder| folder.join("vectors")) else { return };
    let found: BTreeSet<String> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a file").file_name().into_string().expect("names are text"))
        .collect();
    let mut expected: BTreeSet<String> = FILES.iter().map(|name| format!("{name}.json")).collect();
    expected.insert("schema.json".into());
    assert_eq!(found, expected, "files of {}", folder.display());
}

#[test]
fn files_are_what_their_generators_write() {
    let Some(folder) = folder() else { return };
    for script in ["vectors.py", "consts.py"] {
        let path = folder.join("gen").join(script);
        match Command::new("python3").arg(&path).arg("--check").output() {
            Err(error) => println!("skipped: python3: {error}"),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(
                    output.status.success(),
                    "{script}: {said}\ngolden/regenerate.sh writes the files anew"
                );
            }
        }
    }
}

#[test]
fn what_is_not_in_the_schema_is_refused() {
    let good = r#"{"id": 1, "comment": "", "flags": [], "input": 7, "result": "valid", "output": 8}"#;
    let read = |text: &str| serde_json::from_str::<files::Test<u32, u32>>(text).map(|test| *test.output());
    assert_eq!(read(good).expect("a test"), 8);
    for (old, new) in [("\"id\"", "\"ids\""), ("8}", "8, \"outputs\": 9}"), ("valid", "acceptable")] {
        assert!(read(&good.replace(old, new)).is_err(), "{new}");
    }
}
