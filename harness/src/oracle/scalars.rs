//! Scalars by flavour.

use ark_bls12_381::Fr;
use ark_ff::{AdditiveGroup, BigInt, Field, PrimeField, UniformRand};
use rand_chacha::rand_core::RngCore;
use std::fmt;
use std::str::FromStr;

/// Which scalars a product gets. Each has broken some prover, but for the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScalarFlavour {
    /// Uniform below r.
    Uniform,
    /// As a real witness: 70 % zeros and ones, one in ten of 16 bits, the rest uniform.
    WitnessLike,
    /// All 0.
    Zeros,
    /// All 1.
    Ones,
    /// All r - 1.
    MinusOnes,
    /// All equal to one uniform scalar: one bucket a window takes everything.
    AllEqual,
    /// Only bits 248 and up, so that all windows but the last are empty.
    TopWindow,
    /// Windows of so many bits that hold `2^(bits - 1)` or a neighbour: where a signed digit changes its sign.
    HalfDigits(u32),
    /// One uniform scalar, all others 0.
    OneHot,
    /// 16 bits.
    Small,
}

impl ScalarFlavour {
    /// Every flavour, one of its kind.
    pub const ALL: [Self; 10] = [
        Self::Uniform,
        Self::WitnessLike,
        Self::Zeros,
        Self::Ones,
        Self::MinusOnes,
        Self::AllEqual,
        Self::TopWindow,
        Self::HalfDigits(7),
        Self::OneHot,
        Self::Small,
    ];

    /// So many scalars of the flavour.
    pub fn generate(self, count: usize, rng: &mut impl RngCore) -> Vec<Fr> {
        match self {
            Self::Uniform => (0..count).map(|_| Fr::rand(rng)).collect(),
            Self::WitnessLike => (0..count).map(|_| witness_like(rng)).collect(),
            Self::Zeros => vec![Fr::ZERO; count],
            Self::Ones => vec![Fr::ONE; count],
            Self::MinusOnes => vec![-Fr::ONE; count],
            Self::AllEqual => vec![Fr::rand(rng); count],
            // r begins with the byte 0x73.
            Self::TopWindow => {
                (0..count).map(|_| Fr::from(1 + rng.next_u64() % 0x72) * Fr::from(2).pow([248])).collect()
            }
            Self::HalfDigits(bits) => (0..count).map(|_| half_digits(bits, rng)).collect(),
            Self::OneHot => {
                let mut scalars = vec![Fr::ZERO; count];
                if count > 0 {
                    scalars[rng.next_u64() as usize % count] = Fr::rand(rng);
                }
                scalars
            }
            Self::Small => (0..count).map(|_| Fr::from(rng.next_u64() & 0xffff)).collect(),
        }
    }
}

fn witness_like(rng: &mut impl RngCore) -> Fr {
    match rng.next_u32() % 100 {
        0..70 => Fr::from(rng.next_u32() & 1),
        70..80 => Fr::from(rng.next_u32() & 0xffff),
        _ => Fr::rand(rng),
    }
}

/// Windows below bit 254, so that the scalar is below r, each 2^(bits-1) - 1, or that, or that and 1.
fn half_digits(bits: u32, rng: &mut impl RngCore) -> Fr {
    let mut limbs = [0_u64; 4];
    for window in 0..254 / bits {
        let value = (1 << (bits - 1)) - 1 + u64::from(rng.next_u32() % 3);
        for bit in (0..bits).filter(|bit| value >> bit & 1 == 1) {
            let position = window * bits + bit;
            limbs[position as usize / 64] |= 1 << (position % 64);
        }
    }
    Fr::from_bigint(BigInt(limbs)).expect("below 2^254, so below r")
}

impl fmt::Display for ScalarFlavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::WitnessLike => f.write_str("witness-like"),
            Self::Zeros => f.write_str("zeros"),
            Self::Ones => f.write_str("ones"),
            Self::MinusOnes => f.write_str("minus-ones"),
            Self::AllEqual => f.write_str("all-equal"),
            Self::TopWindow => f.write_str("top-window"),
            Self::HalfDigits(bits) => write!(f, "half-digits:{bits}"),
            Self::OneHot => f.write_str("one-hot"),
            Self::Small => f.write_str("small"),
        }
    }
}

impl FromStr for ScalarFlavour {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(bits) = text.strip_prefix("half-digits:") {
            return match bits.parse() {
                Ok(bits) if (2..=32).contains(&bits) => Ok(Self::HalfDigits(bits)),
                _ => Err(format!("half-digits of `{bits}` bits: 2 to 32 are possible")),
            };
        }
        let named = Self::ALL.into_iter().find(|flavour| flavour.to_string() == text);
        named.ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(Self::to_string).collect();
            format!("`{text}` is not one of {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::random_numbers;
    use ark_ff::BigInteger;

    fn generate(flavour: ScalarFlavour, count: usize) -> Vec<Fr> {
        flavour.generate(count, &mut random_numbers(7, "scalars"))
    }

    #[test]
    fn names_read_back() {
        for flavour in ScalarFlavour::ALL {
            assert_eq!(flavour.to_string().parse(), Ok(flavour));
        }
        assert!("half-digits:1".parse::<ScalarFlavour>().is_err());
        let error = "uniformly".parse::<ScalarFlavour>().expect_err("not a flavour");
        assert!(error.contains("witness-like"), "{error}");
    }

    #[test]
    fn no_count_is_special() {
        for flavour in ScalarFlavour::ALL {
            for count in [0, 1, 2, 100] {
                assert_eq!(generate(flavour, count).len(), count, "{flavour}");
            }
        }
    }

    #[test]
    fn witness_like_is_mostly_zero_and_one() {
        let scalars = generate(ScalarFlavour::WitnessLike, 10_000);
        let bits = scalars.iter().filter(|scalar| **scalar == Fr::ZERO || **scalar == Fr::ONE).count();
        assert!((6_800..7_200).contains(&bits), "{bits} of 10000");
        assert!(scalars.iter().any(|scalar| scalar.into_bigint().num_bits() > 240));
    }

    #[test]
    fn uniform_fills_all_255_bits() {
        let scalars = generate(ScalarFlavour::Uniform, 1_000);
        let longest = scalars.iter().map(|scalar| scalar.into_bigint().num_bits()).max();
        assert_eq!(longest, Some(255));
    }

    #[test]
    fn top_window_leaves_the_rest_empty() {
        for scalar in generate(ScalarFlavour::TopWindow, 100) {
            let limbs = scalar.into_bigint().0;
            assert_eq!((limbs[0], limbs[1], limbs[2], limbs[3] << 8), (0, 0, 0, 0));
            assert_ne!(limbs[3], 0);
        }
    }

    #[test]
    fn half_digits_are_around_the_half() {
        let mut seen = [0; 3];
        for scalar in generate(ScalarFlavour::HalfDigits(4), 100) {
            for window in 0..63 {
                let digit = scalar.into_bigint().0[window / 16] >> (4 * (window % 16)) & 0xf;
                seen[digit as usize - 7] += 1;
            }
        }
        assert!(seen.iter().all(|count| *count > 1_000), "{seen:?}");
    }

    #[test]
    fn one_hot_has_one() {
        let scalars = generate(ScalarFlavour::OneHot, 50);
        assert_eq!(scalars.iter().filter(|scalar| **scalar != Fr::ZERO).count(), 1);
    }
}
