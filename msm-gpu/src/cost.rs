//! What an MSM costs, in multiplications in Fp, and the cheapest way to do it: how wide the windows are, how many rounds of
//! pairs run before the buckets are filled, and how many multiples of the bases are worth their memory.

use crate::plan::{GroupKind, RECODED_BITS, Table, WINDOW_BITS};

/// Rounds of pairs, at most: each halves what is left, and fills up runs to twice as many.
pub(crate) const PAIR_ROUNDS_MAX: u32 = 3;
/// Multiplications of an affine addition with a shared inversion, 5M + 1S, and of that share.
const PAIR_MULS: f64 = 6.2;
/// What a round costs whatever its size: its launches, and the latency of an inversion. 90 us of an H200's 27.5 products a
/// nanosecond, measured with `harness timeline`.
const ROUND_MULS: f64 = 2.5e6;

/// Width of windows and rounds of pairs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Choice {
    pub(crate) window_bits: u32,
    pub(crate) pair_rounds: u32,
}

/// Multiplications of one batch: additions of every digit's point to a bucket, then two additions a bucket in the reduction,
/// and one more where partial sums are merged.
pub(crate) fn muls(group: GroupKind, batch_len: u64, columns: u32, choice: Choice) -> f64 {
    let Choice { window_bits, pair_rounds } = choice;
    let windows = RECODED_BITS.div_ceil(window_bits);
    let buckets = f64::from(windows.div_ceil(columns)) * f64::from(1u32 << (window_bits - 1));
    let filled_up = if pair_rounds > 0 { buckets * f64::from((1 << pair_rounds) - 1) / 2.0 } else { 0.0 };
    let entries = batch_len as f64 * f64::from(windows) + filled_up;
    let left = entries / f64::from(1u32 << pair_rounds);
    (entries - left) * PAIR_MULS * group.coord_muls()
        + left * group.add_affine_muls()
        + f64::from(pair_rounds) * ROUND_MULS
        + 3.0 * buckets * group.add_muls()
}

/// The choice with the fewest multiplications, among those that the caller leaves open.
pub(crate) fn cheapest(
    group: GroupKind,
    batch_len: u64,
    columns: u32,
    window_bits: Option<u32>,
    pair_rounds: Option<u32>,
) -> Choice {
    let of = |fixed: Option<u32>, all: std::ops::RangeInclusive<u32>| fixed.map_or(all, |one| one..=one);
    let choices = of(window_bits, WINDOW_BITS).flat_map(|window_bits| {
        of(pair_rounds, 0..=PAIR_ROUNDS_MAX).map(move |pair_rounds| Choice { window_bits, pair_rounds })
    });
    let cost = |choice: &Choice| muls(group, batch_len, columns, *choice);
    choices.min_by(|a, b| cost(a).total_cmp(&cost(b))).expect("the ranges are not empty")
}

/// The table with the fewest multiplications for products of `count` points at once, among those of at most `bytes`,
/// column 0, the bases themselves, included. `None` where none is worth it.
pub(crate) fn cheapest_table(
    group: GroupKind,
    count: u64,
    bytes: u64,
    window_bits: Option<u32>,
) -> Option<Table> {
    let column_bytes = count.saturating_mul(group.affine_bytes()).max(1);
    let columns_max = (bytes / column_bytes).min(u64::from(RECODED_BITS)) as u32;
    let without = cheapest(group, count, 1, window_bits, None);
    let mut best = (muls(group, count, 1, without), None);
    for window_bits in window_bits.map_or(WINDOW_BITS, |bits| bits..=bits) {
        let windows = RECODED_BITS.div_ceil(window_bits);
        // A column more that saves no set of buckets is for nothing.
        for sets in 1..windows {
            let columns = windows.div_ceil(sets);
            if columns <= columns_max && columns > 1 {
                let cost =
                    muls(group, count, columns, cheapest(group, count, columns, Some(window_bits), None));
                if cost < best.0 {
                    best = (cost, Some(Table { window_bits, columns }));
                }
            }
        }
    }
    best.1
}
