//! What can go wrong in a transform.

use gpu_core::GpuError;

/// What can go wrong in a transform. All but [`Gpu`](Self::Gpu) are found before anything runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NttError {
    /// The field has roots of unity of order 2^32 at most.
    #[error("no domain of size 2^{log_n}: the field's two-adicity is 32")]
    DomainTooLarge {
        /// log2 of the size asked for.
        log_n: u32,
    },
    /// The given root does not generate a group of the domain's size.
    #[error("the root does not have order 2^{log_n}")]
    NotARoot {
        /// log2 of the domain's size.
        log_n: u32,
    },
    /// A coset shift of zero.
    #[error("the coset shift is zero")]
    ShiftIsZero,
    /// The shift lies in the domain, so the coset is the domain itself and Z_H is zero there.
    #[error("the coset shift lies in the domain of size 2^{log_n}: shift^n = 1")]
    ShiftInDomain {
        /// log2 of the domain's size.
        log_n: u32,
    },
    /// A length that is the size of no domain.
    #[error("{len} values are not a power of two")]
    NotPowerOfTwo {
        /// The length.
        len: u64,
    },
    /// No values, or no jobs.
    #[error("nothing to transform: no values")]
    Empty,
    /// The values do not fill the domain: whole jobs are needed, or at most one where zeros are appended.
    #[error("{len} values for a domain of size {domain_len}")]
    LengthMismatch {
        /// Values given.
        len: u64,
        /// Size of the domain.
        domain_len: u64,
    },
    /// A value whose limbs are not below the modulus.
    #[error("value {index} is not below the modulus")]
    NotReduced {
        /// Its index.
        index: usize,
    },
    /// More values than one launch can cover, or than 64-bit byte offsets reach.
    #[error("{job_count} jobs of 2^{log_n} values are too many for one launch")]
    TooManyJobs {
        /// Jobs asked for.
        job_count: u64,
        /// log2 of the domain's size.
        log_n: u32,
    },
    /// A number of stages per pass that no kernel can do.
    #[error("passes of up to {pass_bits_max} stages: 1 to 10 are possible")]
    PassBits {
        /// Stages asked for.
        pass_bits_max: u32,
    },
    /// The device failed.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}
