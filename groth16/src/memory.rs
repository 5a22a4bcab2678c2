//! What proofs take of memory, known before anything is taken.

use crate::plan::{FR_BYTES, ProofPlan, Shape};
use gpu_core::{Schedule, Space};
use serde::Serialize;

/// Bytes that a key and its proofs take, by where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MemoryEstimate {
    /// On the device, as long as the key is: bases, constraints, tables of the transforms.
    pub resident_bytes: u64,
    /// On the device, for each proof that runs.
    pub run_bytes: u64,
    /// Page-locked on the host, for each proof that runs.
    pub pinned_bytes: u64,
    /// Of the host's ordinary memory, when most is in use: the key as arkworks keeps it, the constraints, one assignment,
    /// and what is made of them for the device while they are loaded. What synthesizes the circuit comes on top.
    pub host_bytes: u64,
}

impl MemoryEstimate {
    /// For proofs by a plan.
    pub fn new(plan: &ProofPlan) -> Self {
        Self::of(plan, &crate::schedule::build(plan))
    }

    /// For proofs by a plan whose schedule is at hand.
    pub fn of(plan: &ProofPlan, schedule: &Schedule) -> Self {
        let pinned = [Space::PinnedUpload, Space::PinnedDownload];
        let pageable = schedule.bytes_in(Space::Pageable);
        Self {
            resident_bytes: schedule.bytes_in(Space::Resident),
            run_bytes: schedule.bytes_in(Space::Device),
            pinned_bytes: pinned.map(|space| schedule.bytes_in(space)).iter().sum(),
            host_bytes: host_bytes(&plan.shape) + pageable,
        }
    }

    /// All of the host's: ordinary and page-locked memory, with so many proofs at once.
    pub fn host_peak_bytes(&self, jobs: u64) -> u64 {
        self.host_bytes + jobs * self.pinned_bytes
    }
}

fn host_bytes(shape: &Shape) -> u64 {
    let (rows, terms) = (u64::from(shape.constraint_count), u64::from(shape.term_count));
    let loaded = shape.resident_bytes();
    let indices = 4 * (3 * rows + 1 + 2 * terms) + FR_BYTES * u64::from(shape.coefficient_count);
    let points = loaded - indices;
    let public = shape.input_count as u64 * msm_gpu::GroupKind::G1.affine_bytes();
    // Three matrices: where rows begin, and column and value of each term.
    let constraints = 3 * 4 * (rows + 1) + (4 + FR_BYTES) * terms;
    let assignment = FR_BYTES * u64::from(shape.variable_count);
    // The matrices as one, and the bases for h in another order.
    let prepared = indices + msm_gpu::GroupKind::G1.affine_bytes() * (shape.domain_len() - 1);
    points + public + constraints + assignment + prepared
}
