//! The program's commands, one a file.

pub mod check;
pub mod prove;
pub mod schedule;
pub mod timeline;
