//! What an MSM costs, in multiplications in Fp, and the cheapest way to do it: how wide the windows are, how many rounds of
//! pairs run before the buckets are filled, and how many multiples of the bases are worth their memory.
//!
//! The constants are an H200's, which does 27.5 products a nanosecond; they were measured with `harness timeline --ops`.
//! Other chips differ in the rate of everything more than in the ratios, and a choice that is not the best one is still
//! right.

use crate::plan::{Goal, GroupKind, RECODED_BITS, SCALAR_BITS, Table, WINDOW_BITS};

/// Rounds of pairs, at most: each halves what is left, and fills up runs to twice as many.
pub(crate) const PAIR_ROUNDS_MAX: u32 = 3;
/// Multiplications in the coordinates' field of the addition of a pair: 5M + 1S, and what memory adds to it, more where the
/// operands are anywhere.
const FIRST_PAIR_MULS: f64 = 8.7;
const NEXT_PAIR_MULS: f64 = 7.5;
/// What a round costs whatever its size: its launches, and the latency of an inversion.
const ROUND_MULS: f64 = 2.0e6;
/// What the sort of one digit costs.
const SORT_MULS: f64 = 1.0;
/// What the device could have done while a lone thread does one multiplication.
const LONE_MUL: f64 = 2.0e4;

/// What the device could have done while the host folds one row.
const FOLD_MULS: f64 = 7.0e4;

/// Products that run beside each other in a proof.
const SIDE_BY_SIDE: f64 = 5.0;

/// A batch of a product.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Product {
    pub(crate) group: GroupKind,
    pub(crate) batch_len: u64,
    /// Batches that share one reduction of their buckets.
    pub(crate) batches_per_reduction: u32,
    /// Columns of the bases' table.
    pub(crate) columns: u32,
    pub(crate) resident_threads: u64,
    pub(crate) goal: Goal,
}

/// Width of windows and rounds of pairs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Choice {
    pub(crate) window_bits: u32,
    pub(crate) pair_rounds: u32,
}

/// What one thread of the accumulation adds of so many entries.
pub(crate) fn entries_per_thread(entries: u64, resident_threads: u64) -> u64 {
    (entries / resident_threads.max(1)).clamp(8, 256)
}

/// Multiplications of one batch: additions of every digit's point to a bucket, then two additions a bucket in the reduction;
/// and what the device waits for, the chains of additions of one thread in merges and in the reduction.
pub(crate) fn muls(product: &Product, choice: Choice) -> f64 {
    let Choice { window_bits, pair_rounds } = choice;
    let (group, columns) = (product.group, product.columns);
    let windows = RECODED_BITS.div_ceil(window_bits);
    let buckets = f64::from(windows.div_ceil(columns)) * f64::from(1u32 << (window_bits - 1));
    let filled_up = if pair_rounds > 0 { buckets * f64::from((1 << pair_rounds) - 1) / 2.0 } else { 0.0 };
    let digits = product.batch_len as f64 * f64::from(windows);
    let entries = digits + filled_up;
    let left = entries / f64::from(1u32 << pair_rounds);
    let first = if pair_rounds > 0 { entries / 2.0 } else { 0.0 };
    let pairs = first * FIRST_PAIR_MULS + (entries - first - left) * NEXT_PAIR_MULS;
    let per_thread = entries_per_thread(left as u64, product.resident_threads) as f64;
    let merged = left / buckets / per_thread;
    // The last window has fewer bits than the others: its few buckets can have so long runs that blocks merge them.
    let last_bits = (SCALAR_BITS - window_bits * (windows - 1)).min(window_bits - 1);
    let last_run = product.batch_len as f64 / f64::from(1u32 << last_bits);
    let last_merged = last_run / f64::from(1u32 << pair_rounds) / per_thread;
    let hot = if last_merged > 8.0 * merged.max(1.0) { 12.0 + last_merged / 256.0 } else { 0.0 };
    // Rows and columns of buckets, summed by up to 32 threads each.
    let chain = 2.0 * merged.ceil() + hot + f64::from(1u32 << (window_bits / 2)) / 32.0 + 18.0;
    let waits = chain * group.add_muls() * LONE_MUL;
    let fold = f64::from(windows.div_ceil(columns) * window_bits) * FOLD_MULS * group.coord_muls();
    let alone = match product.goal {
        Goal::Alone => waits + fold,
        Goal::BesideOthers => waits / SIDE_BY_SIDE,
    };
    let reduction = 2.0 * buckets * group.add_muls() + alone;
    digits * SORT_MULS
        + pairs * group.coord_muls()
        + left * group.add_affine_muls()
        + f64::from(pair_rounds) * ROUND_MULS
        + reduction / f64::from(product.batches_per_reduction.max(1))
}

/// The choice with the fewest multiplications, among those that the caller leaves open.
pub(crate) fn cheapest(product: &Product, window_bits: Option<u32>, pair_rounds: Option<u32>) -> Choice {
    let of = |fixed: Option<u32>, all: std::ops::RangeInclusive<u32>| fixed.map_or(all, |one| one..=one);
    let choices = of(window_bits, WINDOW_BITS).flat_map(|window_bits| {
        of(pair_rounds, 0..=PAIR_ROUNDS_MAX).map(move |pair_rounds| Choice { window_bits, pair_rounds })
    });
    let cost = |choice: &Choice| muls(product, *choice);
    choices.min_by(|a, b| cost(a).total_cmp(&cost(b))).expect("the ranges are not empty")
}

/// The table with the fewest multiplications for products of `count` points at once, among those of at most `bytes`,
/// column 0, the bases themselves, included. `None` where none is worth it.
pub(crate) fn cheapest_table(
    group: GroupKind,
    count: u64,
    bytes: u64,
    window_bits: Option<u32>,
    resident_threads: u64,
) -> Option<Table> {
    let column_bytes = count.saturating_mul(group.affine_bytes()).max(1);
    let columns_max = (bytes / column_bytes).min(u64::from(RECODED_BITS)) as u32;
    let of = |columns| Product {
        group,
        batch_len: count,
        batches_per_reduction: 1,
        columns,
        resident_threads,
        goal: Goal::Alone,
    };
    let mut best = (muls(&of(1), cheapest(&of(1), window_bits, None)), None);
    for window_bits in window_bits.map_or(WINDOW_BITS, |bits| bits..=bits) {
        let windows = RECODED_BITS.div_ceil(window_bits);
        // A column more that saves no set of buckets is for nothing.
        for sets in 1..windows {
            let columns = windows.div_ceil(sets);
            if columns <= columns_max && columns > 1 {
                let product = of(columns);
                let cost = muls(&product, cheapest(&product, Some(window_bits), None));
                if cost < best.0 {
                    best = (cost, Some(Table { window_bits, columns }));
                }
            }
        }
    }
    best.1
}
