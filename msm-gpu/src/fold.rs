//! The host's share: rows of a batch to a point.

use crate::group::MsmGroup;
use crate::plan::MsmPlan;
use gpu_core::Xyzz;

/// Folds the rows that a batch sent down: `sum_i 2^i * rows[i]`, and the sum of the points with scalar one, which is the
/// last row. Rows of all windows are numbered through: row j of window k has the weight `2^(w*k + j)`.
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
    bits.iter().rev().fold(G::zero(), horner) + G::from_xyzz(ones)
}
