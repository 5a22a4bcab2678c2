//! Build-time half of a kernel crate.
