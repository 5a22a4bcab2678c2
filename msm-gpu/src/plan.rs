//! The plan: sizes, windows and bytes of an MSM, from a pure function. The run never asks the driver how much
//! is left.

use crate::cost::{self, Choice, Costs, PAIR_ROUNDS_MAX};
use gpu_core::Device;
use serde::Serialize;
use std::ops::Range;

/// Batches of one product, at most: a schedule has a dozen operations for each, and takes its memory before anything runs.
pub const BATCHES_MAX: u32 = 1 << 14;
/// Bits of a scalar.
pub(crate) const SCALAR_BITS: u32 = 255;
/// Bits of a scalar, and one more so that the carry of the last window is zero.
pub(crate) const RECODED_BITS: u32 = 256;
/// Digits from which on they are sorted by way of partitions: fewer have their places inside the cache.
const PARTITIONED_FROM: u64 = 1 << 22;
/// Bits of the number of buckets of a partition, at most: a block counts them in shared memory.
const PARTITION_BITS: u32 = 11;
/// Bits that a window can have.
pub(crate) const WINDOW_BITS: std::ops::RangeInclusive<u32> = 2..=24;
/// Pairs that one round adds at a time: with more, what it keeps of each would take more memory than it saves time.
const SLICE_PAIRS: u64 = 1 << 25;
/// Points of a table are numbered with 31 bits, and the last number stands for none.
const TABLE_POINTS_MAX: u64 = (1 << 31) - 1;
/// Pairs of one thread of a round, at most: beyond that the share of the inversion is nothing.
const PAIRS_PER_THREAD: u64 = 128;
/// Pairs of one thread that are worth an inversion more, so that threads take turns on the device and it does not wait for
/// the slowest of the only ones.
const PAIRS_PER_TURN: u64 = 24;
/// Products that one thread inverts together, at most.
const INVERT_PER_THREAD: u64 = 16;
/// Threads of a block of the bucket reduction.
pub(crate) const REDUCE_BLOCK: u32 = 64;
/// Counters that one block of the prefix sum takes.
pub(crate) const SCAN_TILE: u64 = 2048;
/// Blocks that merge the buckets with too many partial sums for one thread, and their threads.
pub(crate) const MERGE_HOT_BLOCKS: u32 = 256;
pub(crate) const MERGE_HOT_THREADS: u32 = 128;

/// G1 or G2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupKind {
    /// Points over Fp.
    G1,
    /// Points over Fp2.
    G2,
}

impl GroupKind {
    /// Bytes of an affine point.
    pub fn affine_bytes(self) -> u64 {
        match self {
            GroupKind::G1 => 96,
            GroupKind::G2 => 192,
        }
    }

    /// Bytes of a point in XYZZ coordinates.
    pub fn xyzz_bytes(self) -> u64 {
        2 * self.affine_bytes()
    }

    /// Multiplications in Fp of one addition of an affine point (8M + 2S).
    pub fn add_affine_muls(self) -> f64 {
        10.0 * self.coord_muls()
    }

    /// Multiplications in Fp of one addition of XYZZ points (12M + 2S).
    pub fn add_muls(self) -> f64 {
        14.0 * self.coord_muls()
    }

    /// What one of the four threads of an addition of XYZZ points multiplies (3M and two products with one reduction).
    pub fn add_by_four_muls(self) -> f64 {
        5.0 * self.coord_muls()
    }

    /// Sixteenths of the device's threads that the registers of a round of pairs leave room for.
    fn pair_share(self) -> u64 {
        match self {
            GroupKind::G1 => 4,
            GroupKind::G2 => 2,
        }
    }

    /// Multiplications in Fp of one in the field of the coordinates.
    pub(crate) fn coord_muls(self) -> f64 {
        match self {
            GroupKind::G1 => 1.0,
            GroupKind::G2 => 3.0,
        }
    }

    /// The suffix of its kernels and the word in reports.
    pub fn word(self) -> &'static str {
        match self {
            GroupKind::G1 => "g1",
            GroupKind::G2 => "g2",
        }
    }
}

/// Form in which scalars arrive. The API decides it by type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ScalarForm {
    /// arkworks' `Fr`: Montgomery form.
    Montgomery,
    /// Plain integers below the group order.
    Canonical,
}

/// What the host does between batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// Waits for every batch and folds it before the next one is launched.
    Hard,
    /// Waits for a batch when its result slot is needed again: with n slots, n batches can be on the way.
    Deferred {
        /// Result slots, at least 2.
        buffers: u32,
    },
    /// Leaves the waiting and the folding to a host thread of its own: the one that queues the work waits for
    /// nothing but a free slot.
    Threaded {
        /// Result slots, at least 2.
        buffers: u32,
    },
    /// Keeps the buckets on the device across batches: one reduction and one download, after the last.
    OnDevice,
}

impl Strategy {
    /// Slots for results, and for scalars on their way up.
    pub fn buffers(self) -> u32 {
        match self {
            Strategy::Hard => 1,
            Strategy::Deferred { buffers } | Strategy::Threaded { buffers } => buffers,
            Strategy::OnDevice => 2,
        }
    }
}

impl std::fmt::Display for Strategy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Strategy::Hard => f.write_str("hard"),
            Strategy::Deferred { buffers } => write!(f, "deferred:{buffers}"),
            Strategy::Threaded { buffers } => write!(f, "threaded:{buffers}"),
            Strategy::OnDevice => f.write_str("on-device"),
        }
    }
}

impl std::str::FromStr for Strategy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ring = |buffers: &str| buffers.parse().map_err(|error| format!("`{buffers}` buffers: {error}"));
        match text.split_once(':') {
            None if text == "hard" => Ok(Strategy::Hard),
            None if text == "on-device" => Ok(Strategy::OnDevice),
            Some(("deferred", buffers)) => Ok(Strategy::Deferred { buffers: ring(buffers)? }),
            Some(("threaded", buffers)) => Ok(Strategy::Threaded { buffers: ring(buffers)? }),
            _ => Err(format!("`{text}` is not `hard`, `deferred:N`, `threaded:N` or `on-device`")),
        }
    }
}

/// A strategy, with its work queued anew in each run or captured once in graphs. Reads `graph:deferred:2` and
/// `deferred:2`, prints `graph(deferred:2)` and `deferred:2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct SyncPattern {
    /// What the host does between batches.
    pub strategy: Strategy,
    /// Whether what it queues between two waits is a graph.
    pub graph: bool,
}

impl From<Strategy> for SyncPattern {
    fn from(strategy: Strategy) -> Self {
        Self { strategy, graph: false }
    }
}

impl std::fmt::Display for SyncPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.graph {
            true => write!(f, "graph({})", self.strategy),
            false => self.strategy.fmt(f),
        }
    }
}

impl std::str::FromStr for SyncPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let printed = text.strip_prefix("graph(").and_then(|rest| rest.strip_suffix(')'));
        match printed.or_else(|| text.strip_prefix("graph:")) {
            Some(strategy) => Ok(Self { strategy: strategy.parse()?, graph: true }),
            None => Ok(text.parse::<Strategy>()?.into()),
        }
    }
}

/// Where results arrive on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultMemory {
    /// Page-locked memory: a download is queued, and the host goes on.
    #[default]
    Pinned,
    /// Ordinary memory: a download blocks the host until it is done, so that every strategy is
    /// [`Strategy::Hard`] under another name. For comparison.
    Pageable,
}

impl std::fmt::Display for ResultMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ResultMemory::Pinned => "pinned",
            ResultMemory::Pageable => "pageable",
        })
    }
}

impl std::str::FromStr for ResultMemory {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "pinned" => Ok(ResultMemory::Pinned),
            "pageable" => Ok(ResultMemory::Pageable),
            _ => Err(format!("`{text}` is not `pinned` or `pageable`")),
        }
    }
}

/// How an MSM is cut into batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Batches {
    /// So many, from 1 to the number of points, and to [`BATCHES_MAX`].
    Count(u32),
    /// As few as keep the device memory of the run under so many bytes.
    FitBytes(u64),
}

/// How the bits of a scalar are cut: `count` windows, `wide` of them of `bits` bits, then those of one bit less.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Windows {
    pub(crate) bits: u32,
    pub(crate) count: u32,
    pub(crate) wide: u32,
}

impl Windows {
    /// The fewest windows of at most so many bits. Their widths are as equal as can be, since buckets of a last window of
    /// few bits have long runs; but all have the same where several sets of buckets are shared by several columns.
    pub(crate) fn new(bits: u32, columns: u32) -> Self {
        let count = RECODED_BITS.div_ceil(bits);
        let is_one_to_one = columns == 1 || columns == count;
        let narrow = if is_one_to_one { (bits * count - RECODED_BITS).min(count - 1) } else { 0 };
        Self { bits, count, wide: count - narrow }
    }

    /// First bit of a window.
    pub(crate) fn start(&self, window: u32) -> u32 {
        self.bits * window - window.saturating_sub(self.wide)
    }
}

/// Multiples of bases that are kept on the device: column j holds `2^column_start(j)` times them, column 0 the bases
/// themselves. Windows that are `set_count` apart then share their buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Table {
    /// Bits of a window, 2 to 24, of every product with it.
    pub window_bits: u32,
    /// Columns, at most as many as there are windows.
    pub columns: u32,
}

impl Table {
    /// The cheapest table of at most `bytes` for products of all `count` bases at once, with windows of so many bits or of
    /// any number; `None` where the bases alone are as good, or nothing fits.
    pub fn within(
        group: GroupKind,
        count: u64,
        bytes: u64,
        window_bits: Option<u32>,
        limits: &DeviceLimits,
    ) -> Option<Self> {
        let window_bits = window_bits.map(|bits| bits.clamp(*WINDOW_BITS.start(), *WINDOW_BITS.end()));
        cost::cheapest_table(group, count, bytes, window_bits, limits)
    }

    /// Windows of a scalar.
    pub fn window_count(&self) -> u32 {
        Windows::new(self.window_bits, self.columns).count
    }

    /// Sets of buckets: windows that have none in common.
    pub fn set_count(&self) -> u32 {
        self.window_count().div_ceil(self.columns)
    }

    /// Bit of a scalar at which the windows of a column begin.
    pub fn column_start(&self, column: u32) -> u32 {
        Windows::new(self.window_bits, self.columns).start(column * self.set_count())
    }
}

/// Bases as a plan sees them. A bare number stands for so many without a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct BaseSet {
    /// Number of bases.
    pub count: u64,
    /// Multiples of them.
    pub table: Option<Table>,
    /// Whether they come from the host in every run, batch by batch, instead of staying on the device.
    pub streamed: bool,
}

impl BaseSet {
    /// So many bases that come from the host in every run.
    pub fn streamed(count: u64) -> Self {
        Self { count, table: None, streamed: true }
    }

    pub(crate) fn check(&self) -> Result<(), PlanError> {
        let Some(table @ Table { window_bits, columns }) = self.table else { return Ok(()) };
        if self.streamed {
            return Err(PlanError::StreamedTable);
        }
        check_window(window_bits)?;
        let (window_count, base_count) = (table.window_count(), self.count);
        if !(1..=window_count).contains(&columns) {
            return Err(PlanError::TableColumns { columns, window_count });
        }
        match base_count.checked_mul(columns.into()) {
            Some(points) if points <= TABLE_POINTS_MAX => Ok(()),
            _ => Err(PlanError::TableTooLong { columns, base_count }),
        }
    }
}

impl From<u64> for BaseSet {
    fn from(count: u64) -> Self {
        Self { count, table: None, streamed: false }
    }
}

fn check_window(window_bits: u32) -> Result<(), PlanError> {
    match WINDOW_BITS.contains(&window_bits) {
        true => Ok(()),
        false => Err(PlanError::WindowBits { window_bits }),
    }
}

/// What windows and rounds are chosen for, where they are chosen by cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// The shortest time of a product that has the device for itself: nothing else runs while it waits.
    #[default]
    Alone,
    /// The least work: others run beside it, as in a proof.
    BesideOthers,
}

/// What a caller can choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct MsmConfig {
    /// Batches.
    pub batches: Batches,
    /// What the host does between them.
    pub strategy: Strategy,
    /// Bits of a window, 2 to 24; chosen by cost where `None`, and given where the bases have a table.
    pub window_bits: Option<u32>,
    /// Rounds of affine additions of pairs before the buckets are filled, 0 to 3; chosen by cost where `None`, and fewer
    /// where the memory for them is not there.
    pub pair_rounds: Option<u32>,
    /// Whether digits are sorted by way of partitions; chosen by their number where `None`.
    pub partitioned: Option<bool>,
    /// What windows and rounds are chosen for.
    pub goal: Goal,
    /// Where results arrive.
    pub result_memory: ResultMemory,
    /// Whether the work is captured as graphs in the first run, and launched as such in every run.
    pub graph: bool,
}

impl MsmConfig {
    /// So many batches, deferred with two buffers.
    pub fn batches(count: u32) -> Self {
        Self { batches: Batches::Count(count), ..Self::default() }
    }

    /// The same with another pattern.
    #[must_use]
    pub fn with_pattern(self, pattern: impl Into<SyncPattern>) -> Self {
        let SyncPattern { strategy, graph } = pattern.into();
        Self { strategy, graph, ..self }
    }
}

impl Default for MsmConfig {
    /// One batch, deferred with two buffers, window by cost, results in page-locked memory, no graph.
    fn default() -> Self {
        Self {
            batches: Batches::Count(1),
            strategy: Strategy::Deferred { buffers: 2 },
            window_bits: None,
            pair_rounds: None,
            partitioned: None,
            goal: Goal::Alone,
            result_memory: ResultMemory::Pinned,
            graph: false,
        }
    }
}

/// What a plan needs to know of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DeviceLimits {
    /// Device memory that the run may take.
    pub free_bytes: u64,
    /// Threads that the device holds at once.
    pub resident_threads: u64,
    /// What the parts of a product cost on its chip.
    #[serde(skip)]
    pub costs: &'static Costs,
}

impl DeviceLimits {
    /// As queried from a device now.
    ///
    /// # Errors
    /// [`gpu_core::GpuError::Driver`].
    pub fn of(device: &Device) -> gpu_core::Result<Self> {
        let info = device.info();
        let resident_threads = u64::from(info.sm_count) * u64::from(info.sm_threads_max);
        Ok(Self { free_bytes: device.free_bytes()?, resident_threads, costs: Costs::of(info) })
    }
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Zero batches.
    #[error("an MSM has at least one batch")]
    ZeroBatches,
    /// More batches than points, or more than [`BATCHES_MAX`].
    #[error(
        "{batch_count} batches of {base_count} points: at most one batch a point, and {BATCHES_MAX} in all"
    )]
    TooManyBatches {
        /// Batches asked for.
        batch_count: u32,
        /// Points.
        base_count: u64,
    },
    /// Points that no memory holds.
    #[error("{base_count} points: their bytes are not a number of 64 bits")]
    TooManyBases {
        /// Points.
        base_count: u64,
    },
    /// With one buffer nothing can be deferred.
    #[error("deferred and threaded synchronisation need at least 2 buffers, not {buffers}")]
    TooFewBuffers {
        /// Buffers asked for.
        buffers: u32,
    },
    /// A copy to pageable memory needs the host, so it is no part of a graph.
    #[error("a graph cannot bring results to pageable memory: page-locked result slots, or no graph")]
    PageableGraph,
    /// A window width outside 2 to 24.
    #[error("windows of {window_bits} bits: 2 to 24 are possible")]
    WindowBits {
        /// Bits asked for.
        window_bits: u32,
    },
    /// Another window width than that of the bases' table.
    #[error("windows of {window_bits} bits, with a table for windows of {table_bits}")]
    TableWindow {
        /// Bits asked for.
        window_bits: u32,
        /// Bits of the table.
        table_bits: u32,
    },
    /// A table goes up for every run in longer than it saves.
    #[error("bases that are streamed from the host have no table")]
    StreamedTable,
    /// A table of no columns, or of more than there are windows.
    #[error("a table of {columns} columns for {window_count} windows")]
    TableColumns {
        /// Columns asked for.
        columns: u32,
        /// Windows.
        window_count: u32,
    },
    /// A table whose points 31 bits do not number.
    #[error("{columns} columns of {base_count} points: a table has less than 2^31 points")]
    TableTooLong {
        /// Columns asked for.
        columns: u32,
        /// Points of a column.
        base_count: u64,
    },
    /// More rounds of pairs than there are.
    #[error("{pair_rounds} rounds of pairs: 0 to 3 are possible")]
    PairRounds {
        /// Rounds asked for.
        pair_rounds: u32,
    },
    /// A batch whose sorted entries could not be numbered with 32 bits.
    #[error("a batch of {batch_len} points in {window_count} windows is over 2^32 entries: use more batches")]
    BatchTooLong {
        /// Points of the longest batch.
        batch_len: u64,
        /// Windows.
        window_count: u32,
    },
    /// The device does not hold it.
    #[error("the MSM needs {needed_bytes} bytes of device memory, {free_bytes} may be used")]
    OutOfMemory {
        /// Bytes that the plan needs.
        needed_bytes: u64,
        /// Bytes allowed.
        free_bytes: u64,
    },
}

/// Sizes of an MSM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MsmPlan {
    /// Group.
    pub group: GroupKind,
    /// Form of the scalars.
    pub form: ScalarForm,
    /// Points.
    pub base_count: u64,
    /// Batches; 0 for no points.
    pub batch_count: u32,
    /// What the host does between batches.
    pub strategy: Strategy,
    /// Where results arrive.
    pub result_memory: ResultMemory,
    /// Whether the work is captured as graphs.
    pub graph: bool,
    /// Whether bases come from the host, batch by batch.
    pub streamed: bool,
    /// Bits of a window, at most.
    pub window_bits: u32,
    /// Windows: as few as cover 256 bits.
    pub window_count: u32,
    /// Windows that have `window_bits` bits; those after them have one less.
    pub wide_count: u32,
    /// Columns of the bases' table: multiples of the bases, 1 for themselves alone.
    pub column_count: u32,
    /// Sets of buckets: `window_count / column_count`, rounded up.
    pub set_count: u32,
    /// Buckets of one set: `2^(window_bits - 1)`.
    pub bucket_count: u32,
    /// Buckets of a partition of the sort: 2 to this power, or 0 where digits go straight to their places.
    pub partition_bits: u32,
    /// Rounds of affine additions of pairs before the buckets are filled.
    pub pair_rounds: u32,
    /// Threads of the device that hold pairs at once.
    pub pair_threads: u32,
    /// What one thread of the accumulation adds: sorted entries, or what the rounds left of them.
    pub entries_per_thread: u32,
    /// Partial sums of one bucket that a single thread still merges; more go to a whole block.
    pub merge_partials_max: u32,
    /// Threads that sum up one row of buckets in the reduction.
    pub line_threads: u32,
}

impl MsmPlan {
    /// Pure: the same inputs give the same plan on every machine.
    ///
    /// # Errors
    /// [`PlanError`], before anything is allocated.
    pub fn new(
        group: GroupKind,
        form: ScalarForm,
        bases: impl Into<BaseSet>,
        config: &MsmConfig,
        limits: &DeviceLimits,
    ) -> Result<Self, PlanError> {
        let bases = bases.into();
        let base_count = bases.count;
        if let Strategy::Deferred { buffers } | Strategy::Threaded { buffers } = config.strategy
            && buffers < 2
        {
            return Err(PlanError::TooFewBuffers { buffers });
        }
        if config.graph && config.result_memory == ResultMemory::Pageable {
            return Err(PlanError::PageableGraph);
        }
        if base_count.checked_mul(group.affine_bytes()).is_none() {
            return Err(PlanError::TooManyBases { base_count });
        }
        config.window_bits.map_or(Ok(()), check_window)?;
        if let Some(pair_rounds) = config.pair_rounds.filter(|rounds| *rounds > PAIR_ROUNDS_MAX) {
            return Err(PlanError::PairRounds { pair_rounds });
        }
        bases.check()?;
        if let (Some(window_bits), Some(table)) = (config.window_bits, bases.table)
            && window_bits != table.window_bits
        {
            return Err(PlanError::TableWindow { window_bits, table_bits: table.window_bits });
        }
        let plan = match config.batches {
            Batches::Count(0) => return Err(PlanError::ZeroBatches),
            Batches::Count(batch_count)
                if u64::from(batch_count) > base_count.clamp(1, BATCHES_MAX.into()) =>
            {
                return Err(PlanError::TooManyBatches { batch_count, base_count });
            }
            Batches::Count(batch_count) => {
                let plan = |pair_rounds| {
                    let config = MsmConfig { pair_rounds, ..*config };
                    Self::with_batches(group, form, bases, batch_count, &config, limits)
                };
                let mut chosen = plan(config.pair_rounds)?;
                // Rounds that nobody asked for are given up where there is no memory for them.
                while chosen.device_bytes() > limits.free_bytes
                    && config.pair_rounds.is_none()
                    && chosen.pair_rounds > 0
                {
                    chosen = plan(Some(chosen.pair_rounds - 1))?;
                }
                chosen
            }
            Batches::FitBytes(bytes) => {
                let limits = DeviceLimits { free_bytes: bytes.min(limits.free_bytes), ..*limits };
                return Self::fitting(group, form, bases, config, &limits);
            }
        };
        let (needed_bytes, free_bytes) = (plan.device_bytes(), limits.free_bytes);
        match needed_bytes > free_bytes {
            true => Err(PlanError::OutOfMemory { needed_bytes, free_bytes }),
            false => Ok(plan),
        }
    }

    /// Fewest batches, doubling from 1, whose memory fits.
    fn fitting(
        group: GroupKind,
        form: ScalarForm,
        bases: BaseSet,
        config: &MsmConfig,
        limits: &DeviceLimits,
    ) -> Result<Self, PlanError> {
        let mut batch_count = 1;
        loop {
            let counted = MsmConfig { batches: Batches::Count(batch_count), ..*config };
            let plan = Self::new(group, form, bases, &counted, limits);
            let next = (u64::from(batch_count) * 2).min(bases.count).min(u64::from(BATCHES_MAX)) as u32;
            let too_big = matches!(plan, Err(PlanError::OutOfMemory { .. } | PlanError::BatchTooLong { .. }));
            if !too_big || next <= batch_count {
                return plan;
            }
            batch_count = next;
        }
    }

    fn with_batches(
        group: GroupKind,
        form: ScalarForm,
        bases: BaseSet,
        batch_count: u32,
        config: &MsmConfig,
        limits: &DeviceLimits,
    ) -> Result<Self, PlanError> {
        let base_count = bases.count;
        let batch_len = base_count.div_ceil(u64::from(batch_count));
        let column_count = bases.table.map_or(1, |table| table.columns);
        let fixed_bits = bases.table.map_or(config.window_bits, |table| Some(table.window_bits));
        let batches_per_reduction = match config.strategy {
            Strategy::OnDevice => batch_count,
            Strategy::Hard | Strategy::Deferred { .. } | Strategy::Threaded { .. } => 1,
        };
        let work = cost::Product {
            group,
            batch_len,
            batches_per_reduction,
            costs: limits.costs,
            goal: config.goal,
            columns: column_count,
            resident_threads: limits.resident_threads,
        };
        let Choice { window_bits, pair_rounds } = cost::cheapest(&work, fixed_bits, config.pair_rounds);
        let windows = Windows::new(window_bits, column_count);
        let window_count = windows.count;
        let set_count = window_count.div_ceil(column_count);
        let bucket_count = 1u32 << (window_bits - 1);
        let bucket_total = u64::from(set_count) * u64::from(bucket_count) + 1;
        let filled_up = (bucket_total + 1) * ((1 << pair_rounds) - 1);
        if batch_len >= 1 << 31 || batch_len * u64::from(window_count) + filled_up > u64::from(u32::MAX) {
            return Err(PlanError::BatchTooLong { batch_len, window_count });
        }
        let entries = (batch_len * u64::from(window_count) + filled_up / 2) >> pair_rounds;
        let resident = limits.resident_threads.max(1);
        let entries_per_thread = cost::entries_per_thread(limits.costs, group, entries, resident) as u32;
        let partials = entries / (u64::from(entries_per_thread) * (bucket_total - 1));
        let merge_partials_max = (4 * partials).max(8) as u32;
        // A quarter of the device's threads: each holds a point in registers. Lines are at most 64 threads
        // wide, rows and columns alike.
        let lines = u64::from(set_count) << (1 + (window_bits - 1).div_ceil(2));
        let low_bits = (window_bits - 1) / 2;
        let line_threads = 1 << (resident / 4 / lines).max(1).ilog2().min(5).min(low_bits);
        let batch_count = if base_count == 0 { 0 } else { batch_count };
        let digits = batch_len * u64::from(window_count);
        let is_partitioned = config.partitioned.unwrap_or(digits >= PARTITIONED_FROM);
        Ok(Self {
            group,
            form,
            base_count,
            batch_count,
            strategy: config.strategy,
            result_memory: config.result_memory,
            graph: config.graph,
            streamed: bases.streamed,
            window_bits,
            window_count,
            wide_count: windows.wide,
            column_count,
            set_count,
            bucket_count,
            partition_bits: if is_partitioned { PARTITION_BITS.min(window_bits - 1) } else { 0 },
            pair_rounds,
            pair_threads: (resident.min(1 << 40) * group.pair_share() / 16).clamp(1, 1 << 20) as u32,
            entries_per_thread,
            merge_partials_max,
            line_threads,
        })
    }

    /// The table of the bases, where they have one.
    pub fn table(&self) -> Option<Table> {
        let (window_bits, columns) = (self.window_bits, self.column_count);
        (columns > 1).then_some(Table { window_bits, columns })
    }

    /// First bit of a window.
    pub fn window_start(&self, window: u32) -> u32 {
        Windows { bits: self.window_bits, count: self.window_count, wide: self.wide_count }.start(window)
    }

    /// Bits of a window.
    pub fn window_width(&self, window: u32) -> u32 {
        self.window_start(window + 1) - self.window_start(window)
    }

    /// Points of a batch. Lengths differ by at most one.
    pub fn batch(&self, batch_index: u32) -> Range<u64> {
        let cut = |i: u32| {
            (u128::from(self.base_count) * u128::from(i) / u128::from(self.batch_count.max(1))) as u64
        };
        cut(batch_index)..cut(batch_index + 1)
    }

    /// Points of the longest batch.
    pub fn batch_len_max(&self) -> u64 {
        self.base_count.div_ceil(u64::from(self.batch_count.max(1)))
    }

    /// Slots of the rings: never more than there are batches.
    pub fn slot_count(&self) -> u32 {
        self.strategy.buffers().min(self.batch_count)
    }

    /// Slots for results: one where they come down once.
    pub fn result_slot_count(&self) -> u32 {
        match self.strategy {
            Strategy::OnDevice => self.batch_count.min(1),
            Strategy::Hard | Strategy::Deferred { .. } | Strategy::Threaded { .. } => self.slot_count(),
        }
    }

    /// First batch whose results are left to collect when the last batch has been queued: none where that is
    /// another thread's business.
    pub fn first_uncollected(&self) -> u32 {
        match self.strategy {
            Strategy::Threaded { .. } => self.batch_count,
            Strategy::Hard | Strategy::Deferred { .. } | Strategy::OnDevice => {
                self.batch_count - self.result_slot_count()
            }
        }
    }

    /// The strategy, and whether it runs as graphs.
    pub fn pattern(&self) -> SyncPattern {
        SyncPattern { strategy: self.strategy, graph: self.graph }
    }

    /// Rows of digits of a batch: the windows, and one that marks scalars equal to one.
    pub fn digit_rows(&self) -> u32 {
        self.window_count + 1
    }

    /// Buckets of all sets, and one for scalars equal to one.
    pub fn bucket_total(&self) -> u64 {
        u64::from(self.set_count) * u64::from(self.bucket_count) + 1
    }

    /// Sorted entries of a batch of `len` points, at most: a digit that is not zero, or a scalar equal to one; and what
    /// fills up each bucket's run to a multiple of `2^pair_rounds`, of which the sum is one too.
    pub fn entries_of(&self, len: u64) -> u64 {
        let run = 1 << self.pair_rounds;
        (len * u64::from(self.window_count) + self.bucket_total() * (run - 1)).div_ceil(run) * run
    }

    /// Sorted entries of the longest batch, at most.
    pub fn entries_max(&self) -> u64 {
        self.entries_of(self.batch_len_max())
    }

    /// Partitions of the sort of a batch, one for scalars equal to one among them; 0 for none.
    pub fn partition_count(&self) -> u64 {
        match self.partition_bits {
            0 => 0,
            bits => u64::from(self.set_count) * u64::from(self.bucket_count >> bits) + 1,
        }
    }

    /// Threads of the accumulation of a batch of `len` points.
    pub fn accumulate_threads(&self, len: u64) -> u64 {
        (self.entries_of(len) >> self.pair_rounds).div_ceil(u64::from(self.entries_per_thread))
    }

    /// Entries of a slice: what goes through all rounds of pairs at once. A multiple of `2^pair_rounds`.
    pub fn slice_entries(&self) -> u64 {
        (2 * SLICE_PAIRS).min(self.entries_max())
    }

    /// Threads of a round of `pairs` pairs, and of its inversion: what the device holds at once, or up to four times as many
    /// where there is enough for each, or more where each would have too much.
    pub(crate) fn round_threads(&self, pairs: u64) -> (u64, u64) {
        let all = u64::from(self.pair_threads);
        let turns = (pairs / (all * PAIRS_PER_TURN)).clamp(1, 4).max(pairs.div_ceil(all * PAIRS_PER_THREAD));
        let threads = (all * turns).min(pairs.div_ceil(4));
        (threads, threads.div_ceil(INVERT_PER_THREAD).max((all / 4).min(threads)))
    }

    /// Points that a batch sends down: a row for each bit of each set of buckets, and the sum of points with scalar
    /// one.
    pub fn rows_total(&self) -> u64 {
        u64::from(self.set_count) * u64::from(self.window_bits) + 1
    }

    /// How the bits of a bucket's weight are split in the reduction: low bits, high bits; the last bit stands
    /// alone.
    pub fn line_bits(&self) -> (u32, u32) {
        let low = (self.window_bits - 1) / 2;
        (low, self.window_bits - 1 - low)
    }

    /// Rows and columns of the buckets of all sets.
    pub fn lines_total(&self) -> u64 {
        let (low, high) = self.line_bits();
        u64::from(self.set_count) * ((1 << low) + (1 << high))
    }

    /// Memory of the bases, with all columns of their table.
    pub fn bases_bytes(&self) -> u64 {
        self.base_count * u64::from(self.column_count) * self.group.affine_bytes()
    }

    /// Device memory of the run, resident bases apart.
    pub fn device_bytes(&self) -> u64 {
        crate::schedule::device_bytes(self)
    }
}
