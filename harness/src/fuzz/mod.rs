//! What a fuzzer runs: for each parser, for the plans and for the checker a function that takes any bytes, and panics
//! where a promise is broken.
//!
//! Each says whether it took the bytes for what they should be. Two programs call them: libFuzzer with coverage
//! (`fuzz/`, `ci/fuzz.sh`), and a test that changes the files of `fuzz/corpus` at random, a bounded number of times
//! (`harness/tests/fuzz_corpus.rs`). Promises are stronger than "no panic" where that is cheap: what two readers read is
//! the same, what is printed reads back, what is planned fits, and the checker says what brute force says.

mod checker;
mod files;
mod plans;

pub use files::{KEY_HEADER_BYTES, unpacked_key_file};

/// One function for a fuzzer.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name: of the folder in `fuzz/corpus`, and of the program in `fuzz/fuzz_targets`.
    pub name: &'static str,
    /// Runs it. True if the bytes are what they should be, false if they were refused.
    ///
    /// # Panics
    /// If a promise is broken: that is what is looked for.
    pub run: fn(&[u8]) -> bool,
    /// Inputs that the bounded run makes, by what one costs.
    pub bounded_runs: u32,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "bellman_key", run: files::bellman_key, bounded_runs: 3_000 },
    Target { name: "arkworks_key", run: files::arkworks_key, bounded_runs: 400 },
    Target { name: "key_file", run: files::key_file, bounded_runs: 2_000 },
    Target { name: "zkey", run: files::zkey, bounded_runs: 2_000 },
    Target { name: "wtns", run: files::wtns, bounded_runs: 20_000 },
    Target { name: "r1cs", run: files::r1cs, bounded_runs: 20_000 },
    Target { name: "snarkjs_json", run: files::snarkjs_json, bounded_runs: 3_000 },
    Target { name: "device_profile", run: files::device_profile, bounded_runs: 20_000 },
    Target { name: "words", run: files::words, bounded_runs: 50_000 },
    Target { name: "msm_plan", run: plans::msm_plan, bounded_runs: 5_000 },
    Target { name: "ntt_plan", run: plans::ntt_plan, bounded_runs: 5_000 },
    Target { name: "proof_plan", run: plans::proof_plan, bounded_runs: 500 },
    Target { name: "checker", run: checker::checker, bounded_runs: 5_000 },
    Target { name: "checker_any", run: checker::checker_any, bounded_runs: 10_000 },
];

/// The target of a name.
///
/// # Panics
/// If there is none.
pub fn target(name: &str) -> &'static Target {
    TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| panic!("no target {name}"))
}
