//! Benchmarks: what is measured, how, and what a run leaves as data.
//!
//! The functions live here, so that the one program that is carried to a machine with a GPU can run them; criterion drives
//! them there (`harness bench`) and from `cargo bench`. Times are the device's own, from its first operation to its last,
//! with wall time beside them. Nothing is timed before its result has been compared with the oracle's, and each later
//! result is compared too.
//!
//! [`cases`] has the sizes, [`session`] the way of measuring, [`groups`](group) the benchmarks; [`record`] is a run as
//! data, [`criterion_files`] what criterion leaves, [`gate`] compares runs, [`goals`] with what is wanted.

pub mod cases;
pub mod criterion_files;
mod field;
pub mod gate;
pub mod goals;
pub mod group;
mod host;
mod inputs;
pub mod launch;
pub mod machine;
mod msm;
mod ntt;
mod peers;
pub mod planted;
mod proof;
pub mod record;
pub mod session;
pub mod stats;
pub mod ways;

pub use group::Group;
pub use record::{Measurement, Run};
pub use session::{Session, Settings};
