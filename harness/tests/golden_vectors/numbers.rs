//! Numbers and points as vectors write them.

use ark_bls12_381::{Fq, Fq2, Fr};
use ark_ec::short_weierstrass::{Affine, SWCurveConfig};
use ark_ff::{BigInt, Field, PrimeField};
use gpu_core::Pod;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// Bytes from hexadecimal digits.
pub fn bytes(digits: &str) -> Vec<u8> {
    assert!(digits.len().is_multiple_of(2) && digits.is_ascii(), "{digits}: whole bytes");
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal");
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// An integer of N limbs from hexadecimal digits, as many as it is wide.
pub fn integer<const N: usize>(digits: &str) -> BigInt<N> {
    assert_eq!(digits.len(), 16 * N, "{digits}: digits of {N} limbs");
    let mut limbs = [0; N];
    for (limb, at) in limbs.iter_mut().rev().zip((0..digits.len()).step_by(16)) {
        *limb = u64::from_str_radix(&digits[at..at + 16], 16).expect("hexadecimal");
    }
    BigInt(limbs)
}

/// A field whose elements vectors write.
pub trait VectorField: Field + Pod {
    /// How an element is written.
    type Json: DeserializeOwned + Debug + Clone;

    /// The element of a canonical number.
    fn canonical(json: &Self::Json) -> Self;

    /// The element whose words in memory are these, whether they are reduced or not.
    fn from_words(json: &Self::Json) -> Self;
}

impl VectorField for Fq {
    type Json = String;

    fn canonical(json: &String) -> Self {
        Self::from_bigint(integer(json)).unwrap_or_else(|| panic!("{json} is below p"))
    }

    fn from_words(json: &String) -> Self {
        Self::new_unchecked(integer(json))
    }
}

impl VectorField for Fr {
    type Json = String;

    fn canonical(json: &String) -> Self {
        Self::from_bigint(integer(json)).unwrap_or_else(|| panic!("{json} is below r"))
    }

    fn from_words(json: &String) -> Self {
        Self::new_unchecked(integer(json))
    }
}

impl VectorField for Fq2 {
    type Json = [String; 2];

    fn canonical([c0, c1]: &[String; 2]) -> Self {
        Self::new(Fq::canonical(c0), Fq::canonical(c1))
    }

    fn from_words([c0, c1]: &[String; 2]) -> Self {
        Self::new(Fq::from_words(c0), Fq::from_words(c1))
    }
}

/// Canonical elements.
pub fn elements<F: VectorField>(json: &[F::Json]) -> Vec<F> {
    json.iter().map(F::canonical).collect()
}

/// A point with coordinates.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coordinates<E> {
    x: E,
    y: E,
}

/// A point: the word `infinity`, or coordinates, which need not be on the curve.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Point<E> {
    /// `infinity`.
    Word(String),
    /// Canonical coordinates.
    Coordinates(Coordinates<E>),
}

impl<E> Point<E> {
    /// As arkworks has it.
    pub fn affine<C: SWCurveConfig>(&self) -> Affine<C>
    where
        C::BaseField: VectorField<Json = E>,
    {
        match self {
            Self::Word(word) => {
                assert_eq!(word, "infinity");
                Affine::identity()
            }
            Self::Coordinates(Coordinates { x, y }) => {
                Affine::new_unchecked(VectorField::canonical(x), VectorField::canonical(y))
            }
        }
    }
}
