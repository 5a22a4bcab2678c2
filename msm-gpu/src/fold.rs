//! The host's share: rows of a batch to a point.
//!
//! A chain of doublings goes through all windows, from the top one down, and only the additions can be taken out of it. So
//! other threads sum windows up, from the lowest one on, while this one goes down the chain; where it meets a window that
//! is ready, one addition is left of it. Nobody waits: a thread that wakes up late finds nothing to do, and a window that
//! is not ready is summed on the way.

use crate::group::MsmGroup;
use crate::plan::MsmPlan;
use gpu_core::Xyzz;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Windows that a helper gets through before the chain arrives, about.
const WINDOWS_PER_HELPER: usize = 5;

/// Folds the rows that a batch sent down: row j of set k has the weight `2^(plan.window_start(k) + j)`, and the last row is
/// the sum of the points with scalar one. The top row of a window that is one bit narrower than its set has no points.
/// Threads of rayon's pool that have nothing else to do help.
///
/// # Panics
/// If there are not `plan.rows_total()` rows.
pub fn fold<G: MsmGroup>(plan: &MsmPlan, rows: &[Xyzz<G::Coord>]) -> G {
    assert_eq!(rows.len() as u64, plan.rows_total(), "rows of a batch");
    let (ones, bits) = rows.split_last().expect("there is at least the last row");
    let of_set = |set: u32| {
        let first = (set * plan.window_bits) as usize;
        first..first + plan.window_width(set) as usize
    };
    let windows: Vec<Range<usize>> = (0..plan.set_count).map(of_set).collect();
    let helpers = (windows.len() / WINDOWS_PER_HELPER).min(rayon::current_num_threads() - 1);
    // The copy is for helpers that have not begun when this is over.
    let chain = Arc::new(Chain::<G>::new(bits.to_vec(), windows));
    for _ in 0..helpers {
        let chain = chain.clone();
        rayon::spawn(move || chain.help());
    }
    chain.go_down() + G::from_xyzz(ones)
}

/// The windows of one fold.
struct Chain<G: MsmGroup> {
    rows: Vec<Xyzz<G::Coord>>,
    /// Rows of each window, least significant first.
    windows: Vec<Range<usize>>,
    /// Sums of windows that helpers are done with.
    sums: Vec<OnceLock<G>>,
    /// The next window that a helper takes, and the one that the chain is at.
    next: AtomicUsize,
    at: AtomicUsize,
}

impl<G: MsmGroup> Chain<G> {
    fn new(rows: Vec<Xyzz<G::Coord>>, windows: Vec<Range<usize>>) -> Self {
        let sums = windows.iter().map(|_| OnceLock::new()).collect();
        let at = AtomicUsize::new(windows.len());
        Self { rows, windows, sums, next: AtomicUsize::new(0), at }
    }

    /// Goes on from `total` through a window.
    fn through(&self, total: G, window: usize) -> G {
        self.rows[self.windows[window].clone()].iter().rev().fold(total, |mut total, row| {
            total.double_in_place();
            total + G::from_xyzz(row)
        })
    }

    /// Sums windows up until the chain is there. Every window is one helper's: its sum is set once.
    fn help(&self) {
        loop {
            let window = self.next.fetch_add(1, Ordering::Relaxed);
            if window >= self.at.load(Ordering::Relaxed) {
                return;
            }
            self.sums[window].get_or_init(|| self.through(G::zero(), window));
        }
    }

    /// All windows, each by its weight.
    fn go_down(&self) -> G {
        (0..self.windows.len()).rev().fold(G::zero(), |mut total, window| {
            self.at.store(window, Ordering::Relaxed);
            match self.sums[window].get() {
                Some(sum) => {
                    for _ in self.windows[window].clone() {
                        total.double_in_place();
                    }
                    total + sum
                }
                None => self.through(total, window),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ark_bls12_381::{Fr, G1Projective, G2Projective};
    use ark_ec::AffineRepr;
    use ark_ff::{AdditiveGroup, Field};

    /// Windows of several widths, rows that are multiples of the generator, the identity and equal ones among them; and
    /// their sum.
    fn chain<G: MsmGroup>() -> (Chain<G>, G) {
        let (mut windows, mut rows, mut log, mut weight) = (Vec::new(), Vec::new(), Fr::ZERO, Fr::ONE);
        for width in [3, 1, 4, 2, 3, 3, 2] {
            windows.push(rows.len()..rows.len() + width);
            for _ in 0..width {
                let multiple = Fr::from(rows.len() as u64 % 4);
                let affine = (G::generator() * multiple).into_affine();
                let zero = G::Coord::ZERO;
                rows.push(match affine.xy() {
                    Some((x, y)) => Xyzz { x, y, zz: G::Coord::ONE, zzz: G::Coord::ONE },
                    None => Xyzz { x: zero, y: zero, zz: zero, zzz: zero },
                });
                log += multiple * weight;
                weight.double_in_place();
            }
        }
        (Chain::new(rows, windows), G::generator() * log)
    }

    fn however_far_helpers_got<G: MsmGroup>() {
        let windows = chain::<G>().0.windows.len();
        for ready in 0..=windows {
            let (chain, expected) = chain::<G>();
            chain.at.store(ready, Ordering::Relaxed);
            chain.help();
            assert_eq!(chain.sums.iter().filter(|sum| sum.get().is_some()).count(), ready);
            assert_eq!(chain.go_down(), expected, "{ready} windows of {windows}");
            // Who comes late finds the chain at its end.
            chain.next.store(0, Ordering::Relaxed);
            chain.help();
            assert_eq!(chain.sums.iter().filter(|sum| sum.get().is_some()).count(), ready);
        }
        for _ in 0..100 {
            let (chain, expected) = chain::<G>();
            let found = std::thread::scope(|scope| {
                (0..3).for_each(|_| drop(scope.spawn(|| chain.help())));
                chain.go_down()
            });
            assert_eq!(found, expected, "beside three helpers");
        }
    }

    #[test]
    fn a_fold_is_the_weighted_sum_however_far_helpers_got() {
        however_far_helpers_got::<G1Projective>();
        however_far_helpers_got::<G2Projective>();
    }
}
