//! Entries sorted by bucket: counting, prefix sums and scattering, kernel by kernel.

use crate::common::{BLOCK, OneKernel};
use crate::digits::{recode, window_count};
use crate::files::{File, Test, place};
use crate::numbers::integer;
use crate::support::devices;
use ark_ff::BigInt;
use gpu_core::{Device, DeviceBuf};
use serde::Deserialize;

/// Counters that one block of the prefix sum takes, with 256 threads.
const SCAN_TILE: usize = 2048;
const SCAN_THREADS: u32 = 256;
/// Bit 31 of an entry: the point is subtracted.
const SIGN_BIT: u32 = 1 << 31;

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
        device.load(&[&msm_gpu::modules::MSM_DIGITS]).expect("the module loads");
        let mut tally = file.tally(&device.info().id);
        for test in &file.tests {
            check(&device, test);
            tally.mark(test);
        }
        tally.finish();
    }
}

fn check(device: &Device, test: &Case) {
    let place = place(test, &device.info().id);
    let Input { window_bits, scalars } = &test.input;
    let scalars: Vec<BigInt<4>> = scalars.iter().map(|scalar| integer(scalar)).collect();
    let (windows, buckets) = (window_count(*window_bits), 1u32 << (window_bits - 1));
    let total = (windows * buckets + 1) as usize;
    let mut expected_counts = vec![0u32; total];
    let mut expected_entries = vec![Vec::new(); total];
    for Run { bucket, add, subtract } in &test.output().runs {
        let mut run = add.clone();
        run.extend(subtract.iter().map(|index| index | SIGN_BIT));
        run.sort_unstable();
        expected_counts[*bucket] = run.len() as u32;
        expected_entries[*bucket] = run;
    }
    let expected_offsets: Vec<u32> = std::iter::once(0)
        .chain(expected_counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        }))
        .collect();
    assert_eq!(expected_offsets[total] as usize, test.output().entry_count, "{place}: the file's own count");

    let buffer = |name: &str, len: usize, value: u32| {
        DeviceBuf::from_slice(device, name, &vec![value; len]).expect("a buffer")
    };
    let n = scalars.len();
    let digits = recode(device, &scalars, *window_bits);
    let counts = buffer("counts", total, 0);
    let kernel = |name| OneKernel::new(device, name);
    let count = kernel("msm_count_digits")
        .write(&counts)
        .read(&digits)
        .u32(n as u32)
        .u32(windows)
        .u32(windows)
        .u32(buckets);
    count.rows(windows + 1).run(n, BLOCK).expect("msm_count_digits");
    assert_eq!(counts.to_vec().expect("counts"), expected_counts, "{place}: counts");

    let tiles = total.div_ceil(SCAN_TILE);
    let (offsets, tile_sums) =
        (buffer("offsets", total + 1, u32::MAX), buffer("tile_sums", tiles + 1, u32::MAX));
    let scan =
        kernel("msm_scan_tiles").write(&offsets).write(&tile_sums).read(&counts).u32(total as u32).u32(0);
    scan.run(tiles * SCAN_THREADS as usize, SCAN_THREADS).expect("msm_scan_tiles");
    let sums = kernel("msm_scan_sums").write(&tile_sums).u32(tiles as u32);
    sums.run(1, SCAN_THREADS).expect("msm_scan_sums");
    let add = kernel("msm_scan_add").write(&offsets).read(&tile_sums).u32(total as u32);
    add.run(total + 1, SCAN_THREADS).expect("msm_scan_add");
    assert_eq!(offsets.to_vec().expect("offsets"), expected_offsets, "{place}: offsets");

    let entries = buffer("entries", test.output().entry_count.max(1), u32::MAX);
    let scatter = kernel("msm_scatter_entries").write(&entries).write(&counts).read(&offsets).read(&digits);
    let scatter =
        scatter.u32(n as u32).u32(windows).u32(windows).u32(buckets).u32(n as u32).rows(windows + 1);
    scatter.run(n, BLOCK).expect("msm_scatter_entries");
    assert_eq!(counts.to_vec().expect("counts"), vec![0; total], "{place}: counters are zero again");
    let entries = entries.to_vec().expect("entries");
    for (bucket, expected) in expected_entries.iter().enumerate() {
        let (begin, end) = (expected_offsets[bucket] as usize, expected_offsets[bucket + 1] as usize);
        let mut run = entries[begin..end].to_vec();
        run.sort_unstable();
        assert_eq!(run, *expected, "{place}: bucket {bucket}");
    }
}
