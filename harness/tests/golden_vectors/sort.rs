//! Entries sorted by bucket: counting, prefix sums and scattering, and the way by partitions, kernel by kernel.

use crate::common::sort::{SIGN_BIT, Way, assert_sorted};
use crate::digits::{recode, window_count};
use crate::files::{File, Test, place};
use crate::numbers::integer;
use crate::support::devices;
use ark_ff::BigInt;
use gpu_core::Device;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    window_bits: u32,
    scalars: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Output {
    entry_count: usize,
    runs: Vec<Run>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    bucket: usize,
    add: Vec<u32>,
    subtract: Vec<u32>,
}

type Case = Test<Input, Output>;

/// Runs a file.
pub fn run(text: &str) {
    let file = File::<Input, Output>::read(text);
    for device in devices() {
        let modules = [&msm_gpu::modules::MSM_DIGITS, &msm_gpu::modules::MSM_PARTITION];
        device.load(&modules).expect("the modules load");
        let mut tally = file.tally(&device.info().id);
        for test in &file.tests {
            check(&device, test);
            tally.mark(test);
        }
        tally.finish();
    }
}

/// Straight to the buckets; by way of partitions, one of a set and several; with sets that windows share; with runs that are
/// filled up.
fn ways(n: usize, window_bits: u32) -> Vec<Way> {
    let (windows, buckets) = (window_count(window_bits), 1 << (window_bits - 1));
    let plain = Way { n, windows, sets: windows, buckets, stride: n as u32, rounds: 0, partition_bits: None };
    // Windows that the sets do not divide, and columns that are longer than the batch.
    let shared = Way { sets: windows.div_ceil(3), stride: n as u32 + 5, ..plain };
    let (one, several) = (Some((window_bits - 1).min(11)), Some((window_bits - 1) / 2));
    vec![
        plain,
        Way { partition_bits: one, ..plain },
        Way { partition_bits: several, rounds: 1, ..plain },
        Way { rounds: 3, ..shared },
        Way { partition_bits: several, rounds: 2, ..shared },
        Way { sets: 1, partition_bits: one, ..shared },
    ]
}

fn check(device: &Device, test: &Case) {
    let place = place(test, &device.info().id);
    let Input { window_bits, scalars } = &test.input;
    let scalars: Vec<BigInt<4>> = scalars.iter().map(|scalar| integer(scalar)).collect();
    let digits = recode(device, &scalars, *window_bits);
    for way in ways(scalars.len(), *window_bits) {
        let mut expected = vec![Vec::new(); way.total()];
        let mut entry_count = 0;
        for Run { bucket, add, subtract } in &test.output().runs {
            // In the file each window has buckets of its own.
            let (row, magnitude) = (*bucket as u32 / way.buckets, *bucket as u32 % way.buckets + 1);
            for (indices, sign) in [(add, 0), (subtract, SIGN_BIT)] {
                for index in indices {
                    let (bucket, entry) = way.place(row, magnitude, *index);
                    expected[bucket].push(entry | sign);
                    entry_count += 1;
                }
            }
        }
        assert_eq!(entry_count, test.output().entry_count, "{place}: the file's own count");
        assert_sorted(device, &digits, &way, &expected, &place);
    }
}
