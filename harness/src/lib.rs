//! The verification harness: shows that the prover's products are right, under every strategy and on every
//! device.
//!
//! [`oracle`] says what is right; [`sapling`] brings real proving keys, [`circuits`] what they prove,
//! [`prove`] the proofs, [`bisect`] which part of one is wrong; [`files`] and [`snarkjs`] take what a user has;
//! [`devices`] finds what there is to run on; [`mutants`], [`faults`], [`soak`] and [`fuzz`] show that what is wrong is
//! noticed; [`mod@bench`] measures, [`meter`] reads power and clock meanwhile; [`commands`] are the program's, [`report`],
//! [`progress`], [`lanes`], [`trace_events`] and [`page`] what they show, [`error`] how they end.
#![deny(unsafe_code)]

pub mod bench;
pub mod bisect;
pub mod circuits;
pub mod commands;
pub mod devices;
pub mod error;
pub mod faults;
pub mod files;
pub mod fuzz;
pub mod lanes;
pub mod meter;
pub mod mutants;
pub mod oracle;
pub mod page;
pub mod progress;
pub mod prove;
pub mod report;
pub mod sapling;
pub mod snarkjs;
pub mod soak;
pub mod trace_events;

use msm_gpu::Strategy;

/// Counts of batches that a check uses: one, two and three slots' worth, and more than there are slots.
pub const BATCHES: [u32; 4] = [1, 2, 3, 8];

/// Strategies that a check compares.
pub const STRATEGIES: [Strategy; 4] = [
    Strategy::Hard,
    Strategy::Deferred { buffers: 2 },
    Strategy::Deferred { buffers: 3 },
    Strategy::OnDevice,
];

/// Strategies of every kind: what mutants, faults and the soak go through.
pub const EVERY_STRATEGY: [Strategy; 5] =
    [STRATEGIES[0], STRATEGIES[1], STRATEGIES[2], STRATEGIES[3], Strategy::Threaded { buffers: 2 }];
