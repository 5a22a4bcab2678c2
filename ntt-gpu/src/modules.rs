//! The kernels of this crate, embedded.

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
