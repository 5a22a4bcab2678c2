//! What an MSM costs, in multiplications in Fp, and the cheapest way to do it: how wide the windows are, how many rounds of
//! pairs run before the buckets are filled, and how many multiples of the bases are worth their memory.
//!
//! What decides depends on the chip: rows of [`Costs`], one for each chip that was measured.

use crate::plan::{DeviceLimits, Goal, GroupKind, RECODED_BITS, SCALAR_BITS, Table, WINDOW_BITS, Windows};
use gpu_core::{DeviceInfo, DeviceKind};

/// Entries of one thread of the accumulation: at least, where there are few, and at most.
const ENTRIES_MIN: u64 = 8;
const ENTRIES_MAX: u64 = 256;
/// Rounds of pairs, at most: each halves what is left, and fills up runs to twice as many.
pub(crate) const PAIR_ROUNDS_MAX: u32 = 3;
/// What the parts of a product cost on a chip, in multiplications in Fp; measured with `harness timeline --ops`.
#[derive(Debug)]
pub struct Costs {
    /// The chip, as NVRTC calls it.
    pub chip: &'static str,
    /// The addition of a pair in the first round, whose operands are anywhere in memory: 5M + 1S, and what memory adds.
    /// Of multiplications in the coordinates' field, as the next.
    pub first_pair_muls: f64,
    /// The same in the rounds after it.
    pub next_pair_muls: f64,
    /// A round, whatever its size: its launches, and the latency of an inversion.
    pub round_muls: f64,
    /// The sort of one digit.
    pub sort_muls: f64,
    /// What the device could have done while a lone thread does one multiplication.
    pub lone_mul: f64,
    /// What the device could have done while the host folds one row.
    pub fold_muls: f64,
    /// Blocks of the accumulation that a multiprocessor holds, in G1 and in G2: what registers leave room for.
    pub accumulation_blocks: [u64; 2],
}

/// Rows are known by their chip.
impl PartialEq for Costs {
    fn eq(&self, other: &Self) -> bool {
        self.chip == other.chip
    }
}

impl Eq for Costs {}

impl Costs {
    /// An H200, which does 27.5 multiplications in Fp a nanosecond.
    pub const SM_90: &'static Self = &Self {
        chip: "sm_90",
        first_pair_muls: 8.5,
        next_pair_muls: 6.8,
        round_muls: 2.4e6,
        sort_muls: 0.6,
        lone_mul: 2.0e4,
        fold_muls: 7.0e4,
        accumulation_blocks: [3, 2],
    };

    /// All chips that were measured. A new chip is a row here.
    pub const MEASURED: &'static [&'static Self] = &[Self::SM_90];

    /// The row of a device's chip. A chip without one gets the first row and a warning: with any row it is right, and may be
    /// slower than it could be. The simulated device keeps the time of the first row's chip.
    pub fn of(info: &DeviceInfo) -> &'static Self {
        match Self::MEASURED.iter().find(|row| row.chip == info.arch) {
            Some(row) => row,
            None => {
                let first = Self::MEASURED[0];
                if info.kind == DeviceKind::Cuda {
                    let (chip, instead) = (&info.arch, first.chip);
                    tracing::warn!(%chip, instead, "no costs were measured on this chip: windows are chosen for another");
                }
                first
            }
        }
    }
}

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
    pub(crate) costs: &'static Costs,
    pub(crate) goal: Goal,
}

/// Width of windows and rounds of pairs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Choice {
    pub(crate) window_bits: u32,
    pub(crate) pair_rounds: u32,
}

/// What one thread of the accumulation adds of so many entries: enough to fill the device, and beyond that longer parts,
/// since each leaves two partial sums. Where that is little, such that no block is left over for a turn of its own.
pub(crate) fn entries_per_thread(
    costs: &Costs,
    group: GroupKind,
    entries: u64,
    resident_threads: u64,
) -> u64 {
    let even = entries / resident_threads.max(1);
    if even > ENTRIES_MIN {
        return even.min(ENTRIES_MAX);
    }
    let cost = |per_thread: &u64| {
        let merges = entries.div_ceil(*per_thread) as f64 * group.add_muls();
        accumulation_muls(costs, group, entries, *per_thread, resident_threads) + merges
    };
    let counts = ENTRIES_MIN..=2 * ENTRIES_MIN;
    counts.min_by(|a, b| cost(a).total_cmp(&cost(b))).expect("the range is not empty")
}

/// Multiplications of the accumulation, and what else the device could do meanwhile: blocks of 128 threads on
/// multiprocessors that hold a few at once, and are idle for a part of the time with a single one.
fn accumulation_muls(
    costs: &Costs,
    group: GroupKind,
    entries: u64,
    per_thread: u64,
    resident_threads: u64,
) -> f64 {
    let one_each = (resident_threads / 16).max(1); // threads, where each multiprocessor has one block
    let [in_g1, in_g2] = costs.accumulation_blocks;
    let at_once = match group {
        GroupKind::G1 => in_g1,
        GroupKind::G2 => in_g2,
    };
    // Blocks that would just fit do not: the device spreads them a little unevenly.
    let blocks = entries.saturating_add(entries / 50).div_ceil(per_thread).div_ceil(one_each);
    let turns = if blocks % at_once == 1 { blocks as f64 + 0.9 } else { blocks as f64 };
    turns * one_each as f64 * per_thread as f64 * group.add_affine_muls()
}

/// Multiplications of one batch: additions of every digit's point to a bucket, then two additions a bucket in the reduction;
/// and what the device waits for, the chains of additions of one thread in merges and in the reduction.
pub(crate) fn muls(product: &Product, choice: Choice) -> f64 {
    let Choice { window_bits, pair_rounds } = choice;
    let (group, columns, costs) = (product.group, product.columns, product.costs);
    let cut = Windows::new(window_bits, columns);
    let windows = cut.count;
    let buckets = f64::from(windows.div_ceil(columns)) * f64::from(1u32 << (window_bits - 1));
    let filled_up = if pair_rounds > 0 { buckets * f64::from((1 << pair_rounds) - 1) / 2.0 } else { 0.0 };
    let digits = product.batch_len as f64 * f64::from(windows);
    let entries = digits + filled_up;
    let left = entries / f64::from(1u32 << pair_rounds);
    let first = if pair_rounds > 0 { entries / 2.0 } else { 0.0 };
    let pairs = first * costs.first_pair_muls + (entries - first - left) * costs.next_pair_muls;
    let entries_each = entries_per_thread(costs, group, left as u64, product.resident_threads);
    let per_thread = entries_each as f64;
    let merged = left / buckets / per_thread;
    // The last window can have far fewer bits than the others: its few buckets have so long runs that blocks merge them.
    let last_bits = (SCALAR_BITS - cut.start(windows - 1)).min(window_bits - 1);
    let last_run = product.batch_len as f64 / f64::from(1u32 << last_bits);
    let last_merged = last_run / f64::from(1u32 << pair_rounds) / per_thread;
    let hot = if last_merged > 8.0 * merged.max(1.0) { 12.0 + last_merged / 256.0 } else { 0.0 };
    // Merges, then rows and columns of buckets, summed by up to 32 threads each. Fitted to windows of 13 to 22 bits.
    let chain = 2.0 * merged + 2.0 + hot + 7.3 + 0.01 * f64::from(1u32 << window_bits).sqrt();
    let waits = chain * group.add_muls() * costs.lone_mul;
    let fold = f64::from(windows.div_ceil(columns) * window_bits) * costs.fold_muls * group.coord_muls();
    let alone = match product.goal {
        Goal::Alone => waits + fold,
        Goal::BesideOthers => waits / SIDE_BY_SIDE,
    };
    let reduction = (2.0 * buckets + left / per_thread) * group.add_muls() + alone;
    digits * costs.sort_muls
        + pairs * group.coord_muls()
        + accumulation_muls(costs, group, left as u64, entries_each, product.resident_threads)
        + f64::from(pair_rounds) * costs.round_muls
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
    limits: &DeviceLimits,
) -> Option<Table> {
    let column_bytes = count.saturating_mul(group.affine_bytes()).max(1);
    let columns_max = (bytes / column_bytes).min(u64::from(RECODED_BITS)) as u32;
    let (resident_threads, costs) = (limits.resident_threads, limits.costs);
    let goal = Goal::Alone;
    let of = |columns| Product {
        group,
        batch_len: count,
        batches_per_reduction: 1,
        columns,
        resident_threads,
        costs,
        goal,
    };
    let mut best = (muls(&of(1), cheapest(&of(1), window_bits, None)), None);
    for window_bits in window_bits.map_or(WINDOW_BITS, |bits| bits..=bits) {
        let windows = Windows::new(window_bits, 1).count;
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
