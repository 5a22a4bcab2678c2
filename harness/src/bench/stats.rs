//! Medians, and how far they can be trusted. No random numbers: the same samples give the same intervals.

use serde::{Deserialize, Serialize};

/// A range that a value lies in, with a confidence of 95 % where nothing else is said.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Half of its width.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Whether a value lies in it.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// The value in the middle, the mean of two where there are two; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// Standard deviation, by the median of distances from the median: half of the values may be anything without moving it
/// far. The factor makes it the standard deviation of normally distributed values.
pub fn robust_deviation(values: &[f64]) -> Option<f64> {
    let middle = median(values)?;
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    median(&distances).map(|distance| 1.4826 * distance)
}

/// An interval of at least 95 % for the median of whatever the samples are from, by their order alone [the sign test]: each
/// sample is below the median with probability 1/2. With fewer than six samples no interval is that sure, and all of
/// their range is taken.
pub fn median_interval(values: &[f64]) -> Option<Interval> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (first, last) = (*sorted.first()?, *sorted.last()?);
    let n = sorted.len();
    // The largest rank k with P(at most k - 1 of n coins show heads) at most 2.5 %.
    let (mut probability, mut tail, mut rank) = (0.5_f64.powi(n as i32), 0.0, 0);
    while rank < n / 2 && tail + probability <= 0.025 {
        tail += probability;
        probability *= (n - rank) as f64 / (rank + 1) as f64;
        rank += 1;
    }
    Some(match rank {
        0 => Interval { low: first, high: last },
        _ => Interval { low: sorted[rank - 1], high: sorted[n - rank] },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
    }

    #[test]
    fn intervals_have_the_ranks_of_the_tables() {
        // Ranks of the sign test's interval at 95 %, as tables have them.
        for (n, rank) in [(5, 0), (6, 1), (8, 1), (9, 2), (12, 3), (15, 4), (20, 6), (25, 8)] {
            let values: Vec<f64> = (1..=n).map(f64::from).collect();
            let expected = match rank {
                0 => Interval { low: 1.0, high: f64::from(n) },
                _ => Interval { low: f64::from(rank), high: f64::from(n + 1 - rank) },
            };
            assert_eq!(median_interval(&values), Some(expected), "{n} samples");
        }
    }

    #[test]
    fn one_wild_value_moves_neither_median_nor_deviation() {
        let calm = [100.0, 101.0, 99.0, 100.5, 99.5];
        let wild = [100.0, 101.0, 99.0, 100.5, 900.0];
        let near = |a: Option<f64>, b: Option<f64>, by: f64| (a.expect("a") - b.expect("b")).abs() <= by;
        assert!(near(median(&calm), median(&wild), 0.5));
        assert!(near(robust_deviation(&calm), robust_deviation(&wild), 1.5));
    }

    proptest! {
        #[test]
        fn the_interval_holds_the_median_and_scales(
            values in proptest::collection::vec(1.0_f64..1e6, 1..40),
            factor in 0.5_f64..8.0,
        ) {
            let interval = median_interval(&values).expect("there are values");
            prop_assert!(interval.contains(median(&values).expect("there are values")));
            let scaled: Vec<f64> = values.iter().map(|value| value * factor).collect();
            let other = median_interval(&scaled).expect("there are values");
            prop_assert!((other.low - interval.low * factor).abs() < 1e-6 * other.low);
            prop_assert!((other.high - interval.high * factor).abs() < 1e-6 * other.high);
        }
    }
}
