//! The plan: how stages are cut into passes, and what each launch looks like. A pure function.

use crate::domain::LOG_N_MAX;
use crate::error::NttError;
use serde::Serialize;

/// Stages that one pass can do: a tile of 2^10 values is the 32 KiB of shared memory that every device has.
pub const PASS_BITS_MAX: u32 = 10;
/// log2 of the smallest tile: 64 threads, two warps.
const TILE_BITS_MIN: u32 = 8;
/// From this many values on there are enough of the largest tiles for every multiprocessor.
const LARGE_TILES_FROM: u64 = 1 << 19;
/// Bytes of a value.
pub const VALUE_BYTES: u64 = 32;
/// Threads of a block, where each takes one value.
pub(crate) const THREADS: u32 = 256;
/// Blocks that a launch can have.
const GRID_MAX: u64 = i32::MAX as u64;

/// What a caller can choose. Results do not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct NttConfig {
    /// Most stages of a pass, 1 to 10.
    pub pass_bits_max: u32,
    /// log2 of the largest table of scales between two passes. Beyond it, scales are made from powers in two
    /// levels: one product more for each value, and no table.
    pub table_bits_max: u32,
}

impl Default for NttConfig {
    /// Ten stages a pass; tables up to 2^24 values (512 MiB).
    fn default() -> Self {
        Self { pass_bits_max: PASS_BITS_MAX, table_bits_max: 24 }
    }
}

/// One sweep over the array: columns of 2^log_rows values at distance 2^log_stride.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Pass {
    /// Stages.
    pub log_rows: u32,
    /// log2 of the distance between the rows of a column.
    pub log_stride: u32,
    /// log2 of the values that a block of threads takes.
    pub log_tile: u32,
}

impl Pass {
    /// log2 of the block of values that the pass cuts into rows and columns.
    pub fn block_bits(&self) -> u32 {
        self.log_rows + self.log_stride
    }

    /// Threads of a block: one for four values.
    pub fn threads(&self) -> u32 {
        1 << self.log_tile.saturating_sub(2)
    }
}

/// Sizes of a transform of some jobs at once: independent polynomials, one after another in memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NttPlan {
    /// log2 of the domain's size.
    pub log_n: u32,
    /// Polynomials.
    pub job_count: u64,
    /// What the caller chose.
    pub config: NttConfig,
    /// Passes from the widest stride to stride 1: the order of a transform from natural order; the other one
    /// goes back. None for n = 1.
    pub passes: Vec<Pass>,
}

impl NttPlan {
    /// Pure: the same inputs give the same plan on every machine.
    ///
    /// # Errors
    /// [`NttError::DomainTooLarge`], [`NttError::Empty`] for no jobs, [`NttError::TooManyJobs`],
    /// [`NttError::PassBits`].
    pub fn new(log_n: u32, job_count: u64, config: &NttConfig) -> Result<Self, NttError> {
        if log_n > LOG_N_MAX {
            return Err(NttError::DomainTooLarge { log_n });
        }
        if job_count == 0 {
            return Err(NttError::Empty);
        }
        let pass_bits_max = config.pass_bits_max;
        if !(1..=PASS_BITS_MAX).contains(&pass_bits_max) {
            return Err(NttError::PassBits { pass_bits_max });
        }
        let too_many = NttError::TooManyJobs { job_count, log_n };
        let items = match job_count.checked_mul(1 << log_n) {
            Some(items) if items.checked_mul(VALUE_BYTES).is_some() => items,
            _ => return Err(too_many),
        };
        let pass_count = log_n.div_ceil(pass_bits_max);
        let log_rows = |index| log_n / pass_count + u32::from(index < log_n % pass_count);
        let tile_bits = match items {
            0..LARGE_TILES_FROM => TILE_BITS_MIN.max(log_n.div_ceil(pass_count.max(1))),
            LARGE_TILES_FROM.. => PASS_BITS_MAX,
        };
        let mut log_stride = log_n;
        let passes: Vec<_> = (0..pass_count)
            .map(|index| {
                let log_rows = log_rows(index);
                log_stride -= log_rows;
                // Columns of one block where there are some, else neighbouring blocks, of other jobs too.
                let log_columns_max = match log_stride {
                    0 => ceil_log2(items) - log_rows,
                    _ => log_stride,
                };
                let log_tile = tile_bits.min(log_rows + log_columns_max);
                Pass { log_rows, log_stride, log_tile }
            })
            .collect();
        if items.div_ceil(THREADS.into()) > GRID_MAX
            || passes.iter().any(|pass| tiles(items, pass) > GRID_MAX)
        {
            return Err(too_many);
        }
        Ok(Self { log_n, job_count, config: *config, passes })
    }

    /// Values of all jobs.
    pub fn items(&self) -> u64 {
        self.job_count << self.log_n
    }

    /// Bytes of all jobs.
    pub fn data_bytes(&self) -> u64 {
        self.items() * VALUE_BYTES
    }

    /// Blocks of threads of a pass.
    pub fn tiles(&self, pass: &Pass) -> u64 {
        tiles(self.items(), pass)
    }

    /// First byte of a value: `index` of job `job`, in whatever order the vector is.
    ///
    /// # Panics
    /// If there is no such value.
    pub fn byte_offset(&self, job: u64, index: u64) -> u64 {
        assert!(job < self.job_count && index < 1 << self.log_n, "value {index} of job {job}");
        ((job << self.log_n) + index) * VALUE_BYTES
    }
}

fn tiles(items: u64, pass: &Pass) -> u64 {
    items.div_ceil(1 << pass.log_tile)
}

fn ceil_log2(items: u64) -> u32 {
    items.next_power_of_two().ilog2()
}
