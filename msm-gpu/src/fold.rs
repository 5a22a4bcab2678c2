//! The host's share: rows of a batch to a point.

use crate::group::MsmGroup;
use crate::plan::MsmPlan;
use gpu_core::Xyzz;

/// Folds the rows that a batch sent down: row j of set k has the weight `2^(plan.window_start(k) + j)`, and the last row is
/// the sum of the points with scalar one. The top row of a window that is one bit narrower than its set has no points.
///
/// # Panics
/// If there are not `plan.rows_total()` rows.
pub fn fold<G: MsmGroup>(plan: &MsmPlan, rows: &[Xyzz<G::Coord>]) -> G {
    assert_eq!(rows.len() as u64, plan.rows_total(), "rows of a batch");
    let (ones, bits) = rows.split_last().expect("there is at least the last row");
    let horner = |mut total: G, row| {
        total.double_in_place();
        total + G::from_xyzz(row)
    };
    let of_set = |set: u32| {
        let first = (set * plan.window_bits) as usize;
        bits[first..first + plan.window_width(set) as usize].iter().rev()
    };
    (0..plan.set_count).rev().flat_map(of_set).fold(G::zero(), horner) + G::from_xyzz(ones)
}
