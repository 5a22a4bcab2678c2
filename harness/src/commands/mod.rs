//! The program's commands, one a file.

pub mod bench;
pub mod check;
pub mod doctor;
pub mod faults;
pub mod gate;
pub mod goals;
pub mod inspect;
pub mod mutants;
pub mod prove;
pub mod report;
pub mod schedule;
pub mod soak;
pub mod timeline;
pub mod verify;
