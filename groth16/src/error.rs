//! What can go wrong between a circuit and a proof.

use crate::bellman::Section;
use crate::cache::CacheError;
use crate::r1cs::R1csError;
use crate::reduction::Reduction;
use gpu_core::GpuError;
use msm_gpu::{MsmError, PlanError};
use ntt_gpu::NttError;

/// Why a key cannot be used, or not with these constraints.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A query does not have the length that the constraints ask for.
    #[error("{section} has {found} points, the circuit needs {expected}")]
    Length {
        /// Which query.
        section: Section,
        /// Points that the circuit needs.
        expected: usize,
        /// Points that there are.
        found: usize,
    },
    /// The key was made for another way from constraints to polynomials than the caller asks for.
    #[error("the key is one for the reduction of {found}, and that of {expected} was asked for")]
    Reduction {
        /// What was asked for.
        expected: Reduction,
        /// What the key was made for.
        found: Reduction,
    },
    /// A point that is not on its curve.
    #[error("{section}[{index}] is not on the curve")]
    NotOnCurve {
        /// Which query.
        section: Section,
        /// 0-based in its query.
        index: usize,
    },
    /// A point on the curve that is not of the prime order.
    #[error("{section}[{index}] is not in the subgroup of prime order")]
    NotInSubgroup {
        /// Which query.
        section: Section,
        /// 0-based in its query.
        index: usize,
    },
}

/// Why there is no proof. No variant carries a part of the witness.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProveError {
    /// The assignment does not have one value a variable.
    #[error("the assignment has {found} values, the circuit has {expected} variables")]
    LengthMismatch {
        /// Variables of the circuit.
        expected: usize,
        /// Values given.
        found: usize,
    },
    /// The first value of an assignment is the constant 1.
    #[error("the first value of the assignment is not 1")]
    FirstNotOne,
    /// The assignment does not satisfy the constraints. No product was begun.
    #[error("constraint {constraint} is not satisfied")]
    Unsatisfied {
        /// The first one that is not.
        constraint: usize,
    },
    /// The constraints hold, and yet the quotient has a term too many: the device computed something wrong.
    #[error(
        "the quotient's top coefficient is not zero though every constraint holds: the device is at fault"
    )]
    Quotient,
    /// The proof does not verify: the key is not this circuit's, or the device is at fault. Under a key of snarkjs, which
    /// holds no C to check an assignment with, also an assignment that does not satisfy the constraints ends here. The proof
    /// is not handed out.
    #[error("the proof does not verify under its own key")]
    Invalid,
    /// The constraints cannot be taken.
    #[error(transparent)]
    R1cs(#[from] R1csError),
    /// The key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The key's file cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A product has no plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A product.
    #[error(transparent)]
    Msm(#[from] MsmError),
    /// A transform.
    #[error(transparent)]
    Ntt(#[from] NttError),
    /// The device failed.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}
