//! What results are judged by: arkworks, a slow twin of ten lines, and bases whose discrete logarithms are known.
//!
//! Nothing here uses a constant or a function of the code that it judges. The generators are here too: scalars and bases
//! in the flavours that have broken other provers, each a pure function of a seed.

mod bases;
mod ntt;
mod scalars;
mod snarkjs;

pub use bases::{BaseFlavour, KnownBases};
pub use ntt::{arkworks_domain, bit_reversed, coeffs_by_sums, values_by_horner};
pub use scalars::ScalarFlavour;
pub use snarkjs::{proof_by_snarkjs_rules, snarkjs_root};

use ark_bls12_381::Fr;
use ark_ec::CurveGroup;
use ark_ff::{BigInteger, PrimeField};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

/// arkworks' own product. Exact, and fast enough for a whole proving key.
///
/// # Panics
/// If the lengths differ.
pub fn msm_by_arkworks<G: CurveGroup<ScalarField = Fr>>(bases: &[G::Affine], scalars: &[Fr]) -> G {
    G::msm(bases, scalars).expect("as many bases as scalars")
}

/// The slow twin: double-and-add for each base, and the sum.
///
/// # Panics
/// If the lengths differ.
pub fn msm_by_double_and_add<G: CurveGroup<ScalarField = Fr>>(bases: &[G::Affine], scalars: &[Fr]) -> G {
    assert_eq!(bases.len(), scalars.len());
    let mut total = G::zero();
    for (base, scalar) in bases.iter().zip(scalars) {
        let mut product = G::zero();
        for bit in scalar.into_bigint().to_bits_be() {
            product.double_in_place();
            if bit {
                product += base;
            }
        }
        total += product;
    }
    total
}

/// The random numbers of one purpose under one seed. Purposes with different labels share no numbers.
pub fn random_numbers(seed: u64, label: &str) -> ChaCha20Rng {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    // FNV-1a over the label picks one of the generator's 2^64 streams.
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    rng.set_stream(label.bytes().fold(0xcbf2_9ce4_8422_2325, hash));
    rng
}

/// The seed of a random test: the environment variable `TEST_SEED` (decimal, or hexadecimal with `0x`), or else the clock.
/// Printed, so that a failure can be run again.
///
/// # Panics
/// If `TEST_SEED` is not a number.
pub fn test_seed() -> u64 {
    let seed = match std::env::var("TEST_SEED") {
        Ok(text) => parse_seed(&text).expect("TEST_SEED is a number"),
        Err(_) => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.expect("the clock is after 1970").as_nanos() as u64
        }
    };
    println!("TEST_SEED={seed:#x}");
    seed
}

/// A seed as a user writes it: decimal, or hexadecimal with `0x`.
///
/// # Errors
/// A sentence for the user.
pub fn parse_seed(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|error| format!("`{text}` is not a seed: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ark_bls12_381::{G1Projective, G2Projective};

    fn the_three_oracles_agree<G: CurveGroup<ScalarField = Fr>>() {
        let seed = test_seed();
        for flavour in ScalarFlavour::ALL {
            for base_flavour in BaseFlavour::ALL {
                let mut rng = random_numbers(seed, "oracles");
                let bases = KnownBases::<G>::generate(base_flavour, 33, &mut rng);
                let scalars = flavour.generate(33, &mut rng);
                let expected = msm_by_double_and_add::<G>(bases.points(), &scalars);
                assert_eq!(
                    msm_by_arkworks::<G>(bases.points(), &scalars),
                    expected,
                    "{flavour} {base_flavour}"
                );
                assert_eq!(bases.product(&scalars), expected, "{flavour} {base_flavour}");
            }
        }
    }

    #[test]
    fn the_three_oracles_agree_in_g1() {
        the_three_oracles_agree::<G1Projective>();
    }

    #[test]
    fn the_three_oracles_agree_in_g2() {
        the_three_oracles_agree::<G2Projective>();
    }

    #[test]
    fn labels_and_seeds_choose_the_numbers() {
        use rand_chacha::rand_core::RngCore;
        let first = |seed, label| random_numbers(seed, label).next_u64();
        assert_eq!(first(1, "a"), first(1, "a"));
        assert_ne!(first(1, "a"), first(1, "b"));
        assert_ne!(first(1, "a"), first(2, "a"));
    }

    #[test]
    fn seeds_are_decimal_or_hexadecimal() {
        assert_eq!(parse_seed("17"), Ok(17));
        assert_eq!(parse_seed("0x1f"), Ok(31));
        assert!(parse_seed("1f").is_err() && parse_seed("").is_err() && parse_seed("-1").is_err());
    }
}
