//! Points and scalars as words: what sppark reads and writes.

use crate::device::Compiled;
use ark_bls12_381::{Fq, Fq2, Fr, G1Affine, G2Affine, g1, g2};
use ark_ec::CurveGroup;
use ark_ec::short_weierstrass::Projective;
use ark_ff::BigInt;

/// Limbs of a coordinate in the base field.
const FQ: usize = 6;

/// A group that sppark computes in.
///
/// A point with two coordinates is x and then y; a sum is Jacobian, X, Y, Z with x = X/Z^2 and y = Y/Z^3. Of an element of
/// the extension the constant part comes first.
pub trait Group: CurveGroup + Compiled {
    /// A point with two coordinates. (0, 0), which is not on the curve, is the identity.
    type PointWords: Copy + Send + Sync + 'static;
    /// A sum with three. With Z = 0 it is the identity.
    type SumWords: Copy + 'static;

    /// Room for a sum: the identity.
    const IDENTITY: Self::SumWords;

    /// A point as words.
    fn point_words(point: &Self::Affine) -> Self::PointWords;

    /// A sum from words. They are taken as they are: that they are below the modulus and on the curve is for the caller
    /// to see, by comparing.
    fn sum_from_words(words: &Self::SumWords) -> Self;
}

/// A scalar as words, in Montgomery form.
pub fn fr_words(scalar: &Fr) -> [u64; 4] {
    scalar.0.0
}

/// A scalar from words, which are taken as they are.
pub fn fr_from_words(words: [u64; 4]) -> Fr {
    Fr::new_unchecked(BigInt(words))
}

fn put_fq(words: &mut [u64], values: &[Fq]) {
    for (words, value) in words.chunks_exact_mut(FQ).zip(values) {
        words.copy_from_slice(&value.0.0);
    }
}

fn fq(words: &[u64]) -> Fq {
    let mut limbs = [0; FQ];
    limbs.copy_from_slice(words);
    Fq::new_unchecked(BigInt(limbs))
}

fn fq2(words: &[u64]) -> Fq2 {
    Fq2::new(fq(&words[..FQ]), fq(&words[FQ..]))
}

impl Group for Projective<g1::Config> {
    type PointWords = [u64; 2 * FQ];
    type SumWords = [u64; 3 * FQ];

    const IDENTITY: Self::SumWords = [0; 3 * FQ];

    fn point_words(point: &G1Affine) -> Self::PointWords {
        let mut words = [0; 2 * FQ];
        put_fq(&mut words, &[point.x, point.y]);
        words
    }

    fn sum_from_words(words: &Self::SumWords) -> Self {
        let [x, y, z] = [0, 1, 2].map(|index| fq(&words[index * FQ..][..FQ]));
        Self::new_unchecked(x, y, z)
    }
}

impl Group for Projective<g2::Config> {
    type PointWords = [u64; 4 * FQ];
    type SumWords = [u64; 6 * FQ];

    const IDENTITY: Self::SumWords = [0; 6 * FQ];

    fn point_words(point: &G2Affine) -> Self::PointWords {
        let mut words = [0; 4 * FQ];
        put_fq(&mut words, &[point.x.c0, point.x.c1, point.y.c0, point.y.c1]);
        words
    }

    fn sum_from_words(words: &Self::SumWords) -> Self {
        let [x, y, z] = [0, 1, 2].map(|index| fq2(&words[index * 2 * FQ..][..2 * FQ]));
        Self::new_unchecked(x, y, z)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ark_bls12_381::{G1Projective, G2Projective};
    use ark_ec::{AffineRepr, PrimeGroup};
    use ark_ff::{BigInteger, Field, PrimeField};
    use ark_serialize::CanonicalSerialize;
    use blst::min_pk::{PublicKey, Signature};
    use blst::{MultiPoint, blst_fp, blst_p1_affine, blst_p2_affine};

    /// Bits of a scalar.
    const SCALAR_BITS: usize = 255;

    /// No two alike, of many lengths.
    fn scalars() -> Vec<Fr> {
        (1..24_u64).map(|k| Fr::from(7 + k).pow([3 * k * k]) - Fr::from(k)).collect()
    }

    fn uncompressed(point: &impl CanonicalSerialize) -> Vec<u8> {
        let mut bytes = Vec::new();
        point.serialize_uncompressed(&mut bytes).expect("memory takes all");
        bytes
    }

    fn little_endian(scalar: &Fr) -> Vec<u8> {
        scalar.into_bigint().to_bytes_le()
    }

    /// What blst makes of a point's bytes. It decodes them on its own, and sppark's half on the host is blst's code.
    fn g1_by_blst(point: &G1Affine) -> blst_p1_affine {
        let key = PublicKey::deserialize(&uncompressed(point)).expect("a point");
        *<&blst_p1_affine>::from(&key)
    }

    fn g2_by_blst(point: &G2Affine) -> blst_p2_affine {
        let signature = Signature::deserialize(&uncompressed(point)).expect("a point");
        *<&blst_p2_affine>::from(&signature)
    }

    fn words<const COUNT: usize>(coordinates: &[blst_fp]) -> [u64; COUNT] {
        let all: Vec<u64> = coordinates.iter().flat_map(|coordinate| coordinate.l).collect();
        all.try_into().expect("as many words as coordinates have")
    }

    #[test]
    fn points_have_the_words_that_blst_has_for_them() {
        for scalar in scalars() {
            let point = (G1Projective::generator() * scalar).into_affine();
            let theirs = g1_by_blst(&point);
            assert_eq!(G1Projective::point_words(&point), words(&[theirs.x, theirs.y]), "{scalar}");
            let point = (G2Projective::generator() * scalar).into_affine();
            let theirs = g2_by_blst(&point);
            let coordinates = [theirs.x.fp, theirs.y.fp].concat();
            assert_eq!(G2Projective::point_words(&point), words(&coordinates), "{scalar}");
        }
        assert_eq!(G1Projective::point_words(&G1Affine::zero()), [0; 12]);
        assert_eq!(G2Projective::point_words(&G2Affine::zero()), [0; 24]);
    }

    #[test]
    fn sums_are_read_as_blst_writes_them() {
        let (g1, g2) = (G1Affine::generator(), G2Affine::generator());
        for scalar in scalars() {
            let sum = [g1_by_blst(&g1)][..].mult(&little_endian(&scalar), SCALAR_BITS);
            let read = G1Projective::sum_from_words(&words(&[sum.x, sum.y, sum.z]));
            assert_eq!(read, G1Projective::generator() * scalar);
            let sum = [g2_by_blst(&g2)][..].mult(&little_endian(&scalar), SCALAR_BITS);
            let coordinates = [sum.x.fp, sum.y.fp, sum.z.fp].concat();
            assert_eq!(
                G2Projective::sum_from_words(&words(&coordinates)),
                G2Projective::generator() * scalar
            );
        }
        assert_eq!(G1Projective::sum_from_words(&G1Projective::IDENTITY), G1Affine::zero());
        assert_eq!(G2Projective::sum_from_words(&G2Projective::IDENTITY), G2Affine::zero());
    }

    #[test]
    fn scalars_are_words_times_2_to_256() {
        let factor = Fr::from(2).pow([256]);
        for scalar in scalars() {
            let [a, b, c, d] = fr_words(&scalar);
            assert_eq!((scalar * factor).into_bigint(), BigInt([a, b, c, d]));
            assert_eq!(fr_from_words([a, b, c, d]), scalar);
        }
    }
}
