//! The host's share: rows of a batch to a point.

use crate::group::MsmGroup;
use crate::plan::MsmPlan;
use gpu_core::Xyzz;

/// Folds the rows that a batch sent down: `sum_k 2^(w*k) * (sum of the rows of window k)`, and the sum of the points with
/// scalar one, which is the last row.
///
/// # Panics
/// If there are not `plan.rows_total()` rows.
pub fn fold<G: MsmGroup>(plan: &MsmPlan, rows: &[Xyzz<G::Coord>]) -> G {
    assert_eq!(rows.len() as u64, plan.rows_total(), "rows of a batch");
    let (ones, rows) = rows.split_last().expect("there is at least the last row");
    let mut total = G::zero();
    for window in rows.chunks(plan.rows_per_window as usize).rev() {
        for _ in 0..plan.window_bits {
            total.double_in_place();
        }
        total += window.iter().map(G::from_xyzz).sum::<G>();
    }
    total + G::from_xyzz(ones)
}
