//! The plan: sizes, windows and bytes of an MSM, from a pure function. The run never asks the driver how much
//! is left.

use gpu_core::Device;
use serde::Serialize;
use std::ops::Range;

/// Batches of one product, at most: a schedule has a dozen operations for each, and takes its memory before anything runs.
pub const BATCHES_MAX: u32 = 1 << 14;
/// Bits of a scalar, and one more so that the carry of the last window is zero.
const RECODED_BITS: u32 = 256;
/// Threads of a block of the bucket reduction.
pub(crate) const REDUCE_BLOCK: u32 = 64;
/// Counters that one block of the prefix sum takes.
pub(crate) const SCAN_TILE: u64 = 2048;
/// Blocks that merge the buckets with too many partial sums for one thread, and their threads.
pub(crate) const MERGE_HOT_BLOCKS: u32 = 128;
pub(crate) const MERGE_HOT_THREADS: u32 = 256;

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

    fn coord_muls(self) -> f64 {
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

/// What a caller can choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct MsmConfig {
    /// Batches.
    pub batches: Batches,
    /// What the host does between them.
    pub strategy: Strategy,
    /// Bits of a window, 2 to 20; chosen by cost where `None`.
    pub window_bits: Option<u32>,
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
}

impl DeviceLimits {
    /// As queried from a device now.
    ///
    /// # Errors
    /// [`gpu_core::GpuError::Driver`].
    pub fn of(device: &Device) -> gpu_core::Result<Self> {
        let info = device.info();
        let resident_threads = u64::from(info.sm_count) * u64::from(info.sm_threads_max);
        Ok(Self { free_bytes: device.free_bytes()?, resident_threads })
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
    /// A window width outside 2 to 20.
    #[error("windows of {window_bits} bits: 2 to 20 are possible")]
    WindowBits {
        /// Bits asked for.
        window_bits: u32,
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
    /// Bits of a window.
    pub window_bits: u32,
    /// Windows; `window_bits * window_count >= 256`.
    pub window_count: u32,
    /// Buckets of one window: `2^(window_bits - 1)`.
    pub bucket_count: u32,
    /// Sorted entries that one thread of the accumulation adds.
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
        base_count: u64,
        config: &MsmConfig,
        limits: &DeviceLimits,
    ) -> Result<Self, PlanError> {
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
        let plan = match config.batches {
            Batches::Count(0) => return Err(PlanError::ZeroBatches),
            Batches::Count(batch_count)
                if u64::from(batch_count) > base_count.clamp(1, BATCHES_MAX.into()) =>
            {
                return Err(PlanError::TooManyBatches { batch_count, base_count });
            }
            Batches::Count(batch_count) => {
                Self::with_batches(group, form, base_count, batch_count, config, limits)?
            }
            Batches::FitBytes(bytes) => {
                let limits = DeviceLimits { free_bytes: bytes.min(limits.free_bytes), ..*limits };
                return Self::fitting(group, form, base_count, config, &limits);
            }
        };
        let (needed_bytes, free_bytes) = (plan.device_bytes(), limits.free_bytes);
        if needed_bytes > free_bytes {
            return Err(PlanError::OutOfMemory { needed_bytes, free_bytes });
        }
        Ok(plan)
    }

    /// Fewest batches, doubling from 1, whose memory fits.
    fn fitting(
        group: GroupKind,
        form: ScalarForm,
        base_count: u64,
        config: &MsmConfig,
        limits: &DeviceLimits,
    ) -> Result<Self, PlanError> {
        let mut batch_count = 1;
        loop {
            let counted = MsmConfig { batches: Batches::Count(batch_count), ..*config };
            let plan = Self::new(group, form, base_count, &counted, limits);
            let next = (u64::from(batch_count) * 2).min(base_count).min(u64::from(BATCHES_MAX)) as u32;
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
        base_count: u64,
        batch_count: u32,
        config: &MsmConfig,
        limits: &DeviceLimits,
    ) -> Result<Self, PlanError> {
        let batch_len = base_count.div_ceil(u64::from(batch_count));
        let window_bits = match config.window_bits {
            Some(bits) if !(2..=20).contains(&bits) => {
                return Err(PlanError::WindowBits { window_bits: bits });
            }
            Some(bits) => bits,
            None => cheapest_window(group, batch_len),
        };
        let window_count = RECODED_BITS.div_ceil(window_bits);
        if batch_len >= 1 << 31 || batch_len * u64::from(window_count) > u64::from(u32::MAX) {
            return Err(PlanError::BatchTooLong { batch_len, window_count });
        }
        let bucket_count = 1u32 << (window_bits - 1);
        // Enough threads to fill the device; beyond that longer parts, since each leaves two partial sums.
        let entries = batch_len * u64::from(window_count);
        let resident = limits.resident_threads.max(1);
        let entries_per_thread = (entries / resident).clamp(8, 256) as u32;
        let partials =
            entries / (u64::from(entries_per_thread) * u64::from(window_count) * u64::from(bucket_count));
        let merge_partials_max = (4 * partials).max(8) as u32;
        // A quarter of the device's threads: each holds a point in registers. Lines are at most 64 threads
        // wide, rows and columns alike.
        let lines = u64::from(window_count) << (1 + (window_bits - 1).div_ceil(2));
        let low_bits = (window_bits - 1) / 2;
        let line_threads = 1 << (resident / 4 / lines).max(1).ilog2().min(5).min(low_bits);
        let batch_count = if base_count == 0 { 0 } else { batch_count };
        Ok(Self {
            group,
            form,
            base_count,
            batch_count,
            strategy: config.strategy,
            result_memory: config.result_memory,
            graph: config.graph,
            window_bits,
            window_count,
            bucket_count,
            entries_per_thread,
            merge_partials_max,
            line_threads,
        })
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

    /// Buckets of all windows, and one for scalars equal to one.
    pub fn bucket_total(&self) -> u64 {
        u64::from(self.window_count) * u64::from(self.bucket_count) + 1
    }

    /// Sorted entries of the longest batch, at most: a digit that is not zero, or a scalar equal to one.
    pub fn entries_max(&self) -> u64 {
        self.batch_len_max() * u64::from(self.window_count)
    }

    /// Threads of the accumulation of the longest batch.
    pub fn accumulate_threads_max(&self) -> u64 {
        self.entries_max().div_ceil(u64::from(self.entries_per_thread))
    }

    /// Points that a batch sends down: a row for each bit of each window, and the sum of points with scalar
    /// one.
    pub fn rows_total(&self) -> u64 {
        u64::from(self.window_count) * u64::from(self.window_bits) + 1
    }

    /// How the bits of a bucket's weight are split in the reduction: low bits, high bits; the last bit stands
    /// alone.
    pub fn line_bits(&self) -> (u32, u32) {
        let low = (self.window_bits - 1) / 2;
        (low, self.window_bits - 1 - low)
    }

    /// Rows and columns of the buckets of all windows.
    pub fn lines_total(&self) -> u64 {
        let (low, high) = self.line_bits();
        u64::from(self.window_count) * ((1 << low) + (1 << high))
    }

    /// Device memory of the run, resident bases apart.
    pub fn device_bytes(&self) -> u64 {
        crate::schedule::device_bytes(self)
    }
}

/// The window width with the fewest multiplications for a batch of `batch_len` points: each window adds every
/// point to a bucket, and then reduces its buckets with two additions each (and one more where partial sums
/// are merged).
fn cheapest_window(group: GroupKind, batch_len: u64) -> u32 {
    let cost = |bits: &u32| {
        let windows = f64::from(RECODED_BITS.div_ceil(*bits));
        let buckets = f64::from(1u32 << (bits - 1));
        windows * (batch_len as f64 * group.add_affine_muls() + 3.0 * buckets * group.add_muls())
    };
    (2..=20).min_by(|a, b| cost(a).total_cmp(&cost(b))).expect("the range is not empty")
}
