//! The room of the benchmarks: `prover.rs` runs them, `cases.toml` has their sizes, `baseline/` what a GPU took, and
//! `history.md` what was tried. What they measure is in `harness::bench`.
