//! Bases by flavour, all with known discrete logarithms.

use ark_bls12_381::Fr;
use ark_ec::CurveGroup;
use ark_ff::{AdditiveGroup, UniformRand};
use rand_chacha::rand_core::RngCore;
use rayon::prelude::*;
use std::fmt;
use std::str::FromStr;

/// Points that one thread makes before it divides: the inversion is shared by all of them.
const POINTS_PER_PART: usize = 1 << 12;

/// Which bases a product gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BaseFlavour {
    /// No two related in a way that an addition could meet by chance.
    Random,
    /// All the same point: every addition of two bases is a doubling.
    AllEqual,
    /// A point beside its negation, again and again: sums that pass through the identity.
    Opposites,
    /// Random, and about one in five the identity.
    SomeIdentities,
    /// The identity.
    Identities,
}

impl BaseFlavour {
    /// Every flavour.
    pub const ALL: [Self; 5] =
        [Self::Random, Self::AllEqual, Self::Opposites, Self::SomeIdentities, Self::Identities];
}

impl fmt::Display for BaseFlavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Random => "random",
            Self::AllEqual => "all-equal",
            Self::Opposites => "opposites",
            Self::SomeIdentities => "some-identities",
            Self::Identities => "identities",
        })
    }
}

impl FromStr for BaseFlavour {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|flavour| flavour.to_string() == text);
        named.ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(Self::to_string).collect();
            format!("`{text}` is not one of {}", names.join(", "))
        })
    }
}

/// Points `logs[i] * G`. Any product over them is one scalar multiplication, so it is known exactly at any size.
#[derive(Debug, Clone)]
pub struct KnownBases<G: CurveGroup> {
    points: Vec<G::Affine>,
    logs: Vec<Fr>,
}

impl<G: CurveGroup<ScalarField = Fr>> KnownBases<G> {
    /// Points `(first + i * step) * G`: a progression, which costs one addition a point.
    pub fn progression(first: Fr, step: Fr, count: usize) -> Self {
        let logs: Vec<Fr> = (0..count as u64).into_par_iter().map(|i| first + step * Fr::from(i)).collect();
        let step_point = (G::generator() * step).into_affine();
        let part = |logs: &[Fr]| {
            let first = G::generator() * logs[0];
            let next = |point: &G| Some(*point + step_point);
            let points: Vec<G> = std::iter::successors(Some(first), next).take(logs.len()).collect();
            G::normalize_batch(&points)
        };
        let points = logs.par_chunks(POINTS_PER_PART).flat_map_iter(part).collect();
        Self { points, logs }
    }

    /// So many points of a flavour.
    pub fn generate(flavour: BaseFlavour, count: usize, rng: &mut impl RngCore) -> Self {
        // A random start and a random step: relations among the points are as rare as among random ones.
        let (first, step) = (Fr::rand(rng), Fr::rand(rng));
        let mut known = match flavour {
            BaseFlavour::Random | BaseFlavour::SomeIdentities => Self::progression(first, step, count),
            BaseFlavour::AllEqual => Self::progression(first, Fr::ZERO, count),
            BaseFlavour::Opposites => {
                let half = Self::progression(first, step, count.div_ceil(2));
                half.points.iter().zip(&half.logs).flat_map(|(p, log)| [(*p, *log), (-*p, -*log)]).collect()
            }
            BaseFlavour::Identities => Self::progression(Fr::ZERO, Fr::ZERO, count),
        };
        known.points.truncate(count);
        known.logs.truncate(count);
        if flavour == BaseFlavour::SomeIdentities {
            for (point, log) in known.points.iter_mut().zip(&mut known.logs) {
                if rng.next_u32().is_multiple_of(5) {
                    (*point, *log) = (G::Affine::default(), Fr::ZERO);
                }
            }
        }
        known
    }

    /// The points.
    pub fn points(&self) -> &[G::Affine] {
        &self.points
    }

    /// Their discrete logarithms.
    pub fn logs(&self) -> &[Fr] {
        &self.logs
    }

    /// The product with these scalars, exactly.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn product(&self, scalars: &[Fr]) -> G {
        assert_eq!(scalars.len(), self.logs.len());
        let log: Fr = self.logs.par_iter().zip(scalars).map(|(log, scalar)| *log * scalar).sum();
        G::generator() * log
    }
}

impl<G: CurveGroup<ScalarField = Fr>> FromIterator<(G::Affine, Fr)> for KnownBases<G> {
    fn from_iter<I: IntoIterator<Item = (G::Affine, Fr)>>(pairs: I) -> Self {
        let (points, logs) = pairs.into_iter().unzip();
        Self { points, logs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{random_numbers, test_seed};
    use ark_bls12_381::{G1Projective, G2Projective};
    use ark_ec::PrimeGroup;
    use ark_ff::Field;

    fn logs_are_true<G: CurveGroup<ScalarField = Fr>>() {
        let seed = test_seed();
        for flavour in BaseFlavour::ALL {
            for count in [0, 1, 2, 7, 50] {
                let known = KnownBases::<G>::generate(flavour, count, &mut random_numbers(seed, "bases"));
                assert_eq!(known.points().len(), count, "{flavour}");
                for (point, log) in known.points().iter().zip(known.logs()) {
                    assert_eq!(*point, (G::generator() * log).into_affine(), "{flavour}");
                }
            }
        }
    }

    #[test]
    fn logs_are_true_in_g1() {
        logs_are_true::<G1Projective>();
    }

    #[test]
    fn logs_are_true_in_g2() {
        logs_are_true::<G2Projective>();
    }

    #[test]
    fn a_progression_goes_on_across_parts() {
        let count = 2 * POINTS_PER_PART + 3;
        let known = KnownBases::<G1Projective>::progression(Fr::from(5), Fr::from(3), count);
        for i in [POINTS_PER_PART - 1, POINTS_PER_PART, 2 * POINTS_PER_PART + 2] {
            let expected = G1Projective::generator() * Fr::from(5 + 3 * i as u64);
            assert_eq!(known.points()[i], expected.into_affine(), "{i}");
        }
    }

    #[test]
    fn a_progression_may_pass_through_the_identity_and_double() {
        // -2G, -G, O, G, 2G: the step from G is a doubling.
        let known = KnownBases::<G1Projective>::progression(-Fr::from(2), Fr::ONE, 5);
        let expected: Vec<_> =
            (-2..=2_i64).map(|i| (G1Projective::generator() * Fr::from(i)).into_affine()).collect();
        assert_eq!(known.points(), expected);
    }

    #[test]
    fn names_read_back() {
        for flavour in BaseFlavour::ALL {
            assert_eq!(flavour.to_string().parse(), Ok(flavour));
        }
        assert!("randomly".parse::<BaseFlavour>().is_err());
    }
}
