//! What products are measured with, and that it is what it says.

use crate::error::Failure;
use crate::oracle::{BaseFlavour, KnownBases, ScalarFlavour, random_numbers};
use ark_bls12_381::Fr;
use ark_ff::{BigInteger, PrimeField};
use gpu_core::Device;
use msm_gpu::{Bases, MsmGroup};
use std::sync::Arc;

/// Bases on a device, scalars, and the product.
#[derive(Debug)]
pub(super) struct Inputs<G: MsmGroup> {
    pub(super) known: Arc<KnownBases<G>>,
    pub(super) bases: Bases<G>,
    pub(super) flavour: ScalarFlavour,
    pub(super) scalars: Vec<Fr>,
    pub(super) expected: G,
}

impl<G: MsmGroup> Inputs<G> {
    /// Draws them, and looks at the scalars' lengths.
    pub(super) fn new(
        device: &Device,
        flavour: ScalarFlavour,
        log_n: u32,
        seed: u64,
    ) -> Result<Self, Failure> {
        let rng = &mut random_numbers(seed, &format!("bench bases {} {log_n}", G::KIND.word()));
        let known = Arc::new(KnownBases::<G>::generate(BaseFlavour::Random, 1 << log_n, rng));
        let bases = Bases::<G>::trusted(device, known.points())?;
        Self::over(known, bases, flavour, seed)
    }

    /// The same bases with other scalars, beside these.
    pub(super) fn beside(&self, flavour: ScalarFlavour, seed: u64) -> Result<Self, Failure> {
        Self::over(self.known.clone(), self.bases.clone(), flavour, seed)
    }

    /// The same bases with other scalars.
    pub(super) fn with_scalars(self, flavour: ScalarFlavour, seed: u64) -> Result<Self, Failure> {
        Self::over(self.known, self.bases, flavour, seed)
    }

    fn over(
        known: Arc<KnownBases<G>>,
        bases: Bases<G>,
        flavour: ScalarFlavour,
        seed: u64,
    ) -> Result<Self, Failure> {
        let rng = &mut random_numbers(seed, &format!("bench scalars {flavour} {}", bases.len()));
        let scalars = scalars(flavour, bases.len(), rng)?;
        let expected = known.product(&scalars);
        Ok(Self { known, bases, flavour, scalars, expected })
    }
}

/// Scalars whose lengths have been looked at.
fn scalars(
    flavour: ScalarFlavour,
    count: usize,
    rng: &mut impl rand_chacha::rand_core::RngCore,
) -> Result<Vec<Fr>, Failure> {
    let scalars = flavour.generate(count, rng);
    check_lengths(flavour, &scalars).map_err(Failure::Wrong)?;
    Ok(scalars)
}

/// That scalars are as long as their flavour says: shorter ones are faster, and a time with them is no time.
///
/// # Errors
/// What is short.
fn check_lengths(flavour: ScalarFlavour, scalars: &[Fr]) -> Result<(), String> {
    let mut counts = [0_usize; 256];
    for scalar in scalars {
        counts[scalar.into_bigint().num_bits() as usize] += 1;
    }
    let share = |range: std::ops::RangeInclusive<usize>| {
        counts[range].iter().sum::<usize>() as f64 / scalars.len() as f64
    };
    // Shares that a flavour has on the average, with six standard deviations of a draw of this size either way.
    let is_near = |share: f64, expected: f64| {
        (share - expected).abs() <= 6.0 * (expected * (1.0 - expected) / scalars.len() as f64).sqrt() + 1e-9
    };
    // r is 1.81 times 2^254: 44.8 % of the numbers below it have 255 bits, and all but 17 in a million at least 240.
    let times_2_254 = 0x73ed_a753_299d_7d48_u64 as f64 / (1_u64 << 62) as f64;
    let at_least = |bits: i32| 1.0 - 2_f64.powi(bits - 255) / times_2_254;
    let (top, full) = (share(255..=255), share(240..=255));
    let is_right = match flavour {
        ScalarFlavour::Uniform => is_near(top, at_least(255)) && is_near(full, at_least(240)),
        ScalarFlavour::WitnessLike => is_near(share(0..=1), 0.7) && is_near(full, 0.2 * at_least(240)),
        ScalarFlavour::AllEqual => full == 1.0,
        _ => return Ok(()),
    };
    // Of few scalars shares say little, but that some are long.
    if is_right && (full > 0.0 || scalars.len() < 64) {
        return Ok(());
    }
    Err(format!(
        "{} scalars that are called {flavour}: {:.1} % have 255 bits, {:.1} % at least 240, {:.1} % are 0 or 1",
        scalars.len(),
        100.0 * top,
        100.0 * full,
        100.0 * share(0..=1)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::test_seed;

    #[test]
    fn b32_short_scalars_are_refused_before_anything_is_timed() {
        let rng = &mut random_numbers(test_seed(), "lengths");
        for flavour in [ScalarFlavour::Uniform, ScalarFlavour::WitnessLike, ScalarFlavour::AllEqual] {
            for count in [64, 1_000, 10_000, 1 << 22] {
                let scalars = scalars(flavour, count, rng).expect("what it draws is what it says");
                // The same numbers, 64 bits of each.
                let short: Vec<Fr> =
                    scalars.iter().map(|scalar| Fr::from(scalar.into_bigint().0[0])).collect();
                let error = check_lengths(flavour, &short).expect_err("64 bits");
                assert!(error.contains(&flavour.to_string()), "{error}");
            }
        }
        let small = ScalarFlavour::Small.generate(100, rng);
        assert!(check_lengths(ScalarFlavour::Small, &small).is_ok(), "short ones may be called short");
    }
}
