//! How constraints become polynomials: which domain, which coset, and what the bases for h are bases of.
//!
//! A key works with the reduction that it was made for and with no other: with another one every product is computed
//! without complaint, and the proof does not verify. So a key carries its reduction, and this value is what the plan and
//! the schedule of a proof ask.
//!
//! | | [`Libsnark`](Reduction::Libsnark) | [`Snarkjs`](Reduction::Snarkjs) |
//! |---|---|---|
//! | keys of | arkworks, bellman, zkcrypto, bellperson | snarkjs, and what reads its `.zkey` files |
//! | omega | a power of 7^t | a power of 5^t, t = (r - 1) / 2^32 |
//! | coset | 7 H | omega' H, where omega'^2 = omega: the odd elements of the domain of twice the size |
//! | C | from the constraints | A * B, row by row: the key does not have it |
//! | bases for h | n - 1, of the coefficients of (A B - C) / Z | n, of the values of A B - C on the coset |
//! | a witness that is none | the device names the constraint | the proof does not verify |

use ark_bls12_381::Fr;
use ark_ff::Field;
use ntt_gpu::{Direction, Domain, NttError, OrderKind, Shift, Transform};
use serde::Serialize;
use std::fmt;

/// How constraints become polynomials (see the [module](self)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reduction {
    /// That of libsnark, arkworks and bellman.
    #[default]
    Libsnark,
    /// That of snarkjs.
    Snarkjs,
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Libsnark => "libsnark",
            Self::Snarkjs => "snarkjs",
        })
    }
}

impl Reduction {
    /// Matrices that the key comes with: A and B, and C unless it is their product.
    pub fn matrix_count(self) -> u32 {
        if self.has_c() { 3 } else { 2 }
    }

    /// Whether C comes from the constraints, so that the device sees whether they hold.
    pub(crate) fn has_c(self) -> bool {
        self == Self::Libsnark
    }

    /// Bases for h on a domain of n values.
    pub(crate) fn h_count(self, n: u64) -> u64 {
        match self {
            // The top coefficient is zero.
            Self::Libsnark => n - 1,
            Self::Snarkjs => n,
        }
    }

    /// The domain of 2^log_n values.
    ///
    /// # Errors
    /// [`NttError::DomainTooLarge`].
    pub(crate) fn domain(self, log_n: u32) -> Result<Domain, NttError> {
        match self {
            Self::Libsnark => Domain::arkworks(log_n),
            Self::Snarkjs => Domain::snarkjs(log_n),
        }
    }

    /// The coset on which A B - C is taken.
    ///
    /// # Errors
    /// [`NttError::DomainTooLarge`].
    fn shift(self, log_n: u32) -> Result<Shift, NttError> {
        match self {
            Self::Libsnark => Ok(Shift::generator()),
            Self::Snarkjs => Shift::new(&self.domain(log_n)?, Domain::snarkjs(log_n + 1)?.omega()),
        }
    }

    /// The transforms of a proof: of the values of A, B and C to coefficients, of those to values on the coset, and, where
    /// the bases for h are of coefficients, of h back to them. Values are in natural order, coefficients bit-reversed:
    /// nothing is permuted but the bases for coefficients of h, once, when a key is loaded.
    ///
    /// # Errors
    /// [`NttError::DomainTooLarge`].
    pub(crate) fn transforms(self, log_n: u32) -> Result<Vec<Transform>, NttError> {
        let shift = self.shift(log_n)?;
        let mut transforms = vec![
            Transform::plain(Direction::Inverse, OrderKind::Natural),
            Transform::coset(Direction::Forward, OrderKind::BitReversed, shift),
        ];
        if self == Self::Libsnark {
            transforms.push(Transform::coset(Direction::Inverse, OrderKind::Natural, shift));
        }
        Ok(transforms)
    }

    /// What A B - C is multiplied with on the coset: 1 / Z, which is the same at each element of it, or 1 where the bases
    /// for h have it in them.
    ///
    /// # Errors
    /// [`NttError::DomainTooLarge`].
    pub(crate) fn quotient_factor(self, log_n: u32) -> Result<Fr, NttError> {
        match self {
            Self::Libsnark => {
                let vanishing = self.domain(log_n)?.vanishing(self.shift(log_n)?.value());
                Ok(vanishing.inverse().expect("the coset lies outside the domain"))
            }
            Self::Snarkjs => Ok(Fr::ONE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coset_of_snarkjs_is_the_odd_half_of_the_domain_of_twice_the_size() {
        for log_n in 0..=31 {
            let domain = Reduction::Snarkjs.domain(log_n).expect("a domain");
            let shift = Reduction::Snarkjs.shift(log_n).expect("a coset").value();
            assert_eq!(shift.square(), domain.omega(), "2^{log_n}");
            assert_eq!(domain.vanishing(shift), -Fr::from(2), "2^{log_n}");
        }
        assert!(matches!(Reduction::Snarkjs.shift(32), Err(NttError::DomainTooLarge { log_n: 33 })));
    }

    #[test]
    fn the_two_have_different_domains_from_eight_values_on() {
        for log_n in 0..=31 {
            let omegas = [Reduction::Libsnark, Reduction::Snarkjs]
                .map(|reduction| reduction.domain(log_n).expect("a domain").omega());
            assert_eq!(omegas[0] == omegas[1], log_n < 3, "2^{log_n}");
        }
    }
}
