//! Products by other people's code, to ask whether the oracle is right; and who is wrong, when they do not agree.
//!
//! arkworks 0.6 is the oracle of everything else. blst shares no code with it; the arkworks of generation 0.3, and the
//! batch-affine buckets and the endomorphism of ark-msm, are other ways through other versions of it; the slow twin does
//! nothing but add. Each is given the same points: the words of a coordinate are the same in all of them.

use ark_bls12_381::{Fq, Fq2, Fr, G1Affine, G1Projective, G2Affine, G2Projective};
use ark_bls12_381_03 as old;
use ark_ec::AffineRepr;
use ark_ec_03::models::SWModelParameters;
use ark_ec_03::models::short_weierstrass_jacobian::{GroupAffine, GroupProjective};
use ark_ff::{BigInteger, PrimeField};
use ark_ff_03::{BigInteger256, BigInteger384, PrimeField as OldPrimeField};
use blst::MultiPoint;
use harness::oracle::{msm_by_arkworks, msm_by_double_and_add};
use msm_gpu::MsmGroup;
use std::fmt;

/// Bits of a scalar.
const SCALAR_BITS: usize = 255;

/// A product of so many points that it can be asked of everyone.
pub type Product<G> = fn(&[<G as ark_ec::CurveGroup>::Affine], &[Fr]) -> G;

/// Who computes products in a group.
#[derive(Clone, Copy)]
pub struct Peer<G: MsmGroup> {
    /// Whose code it is.
    pub name: &'static str,
    /// The product. There is at least one point.
    pub product: Product<G>,
}

/// A group whose points the peers know.
pub trait PeerGroup: MsmGroup {
    /// Everyone who computes products in it, the oracle first.
    fn peers() -> Vec<Peer<Self>>;
}

impl PeerGroup for ark_ec::short_weierstrass::Projective<ark_bls12_381::g1::Config> {
    fn peers() -> Vec<Peer<Self>> {
        let peer = |name, product| Peer { name, product };
        vec![
            peer("arkworks 0.6", msm_by_arkworks::<G1Projective>),
            peer("double and add", msm_by_double_and_add::<G1Projective>),
            peer("blst", by_blst_g1),
            peer("arkworks 0.3", |points, scalars| from_old_g1(by_old_arkworks(&old_g1(points), scalars))),
            peer("ark-msm 0.3", |points, scalars| from_old_g1(by_ark_msm(&old_g1(points), scalars))),
        ]
    }
}

impl PeerGroup for ark_ec::short_weierstrass::Projective<ark_bls12_381::g2::Config> {
    fn peers() -> Vec<Peer<Self>> {
        let peer = |name, product| Peer { name, product };
        vec![
            peer("arkworks 0.6", msm_by_arkworks::<G2Projective>),
            peer("double and add", msm_by_double_and_add::<G2Projective>),
            peer("blst", by_blst_g2),
            peer("arkworks 0.3", |points, scalars| from_old_g2(by_old_arkworks(&old_g2(points), scalars))),
            peer("ark-msm 0.3", |points, scalars| from_old_g2(by_ark_msm(&old_g2(points), scalars))),
        ]
    }
}

/// Scalars as blst takes them: 32 bytes each, little-endian.
fn scalar_bytes(scalars: &[Fr]) -> Vec<u8> {
    scalars.iter().flat_map(|scalar| scalar.into_bigint().to_bytes_le()).collect()
}

fn to_blst(value: &Fq) -> blst::blst_fp {
    blst::blst_fp { l: value.0.0 }
}

fn from_blst(value: &blst::blst_fp) -> Fq {
    Fq::new_unchecked(ark_ff::BigInt(value.l))
}

fn to_blst2(value: &Fq2) -> blst::blst_fp2 {
    blst::blst_fp2 { fp: [to_blst(&value.c0), to_blst(&value.c1)] }
}

fn from_blst2(value: &blst::blst_fp2) -> Fq2 {
    Fq2::new(from_blst(&value.fp[0]), from_blst(&value.fp[1]))
}

fn by_blst_g1(points: &[G1Affine], scalars: &[Fr]) -> G1Projective {
    let point = |point: &G1Affine| blst::blst_p1_affine { x: to_blst(&point.x), y: to_blst(&point.y) };
    let points: Vec<_> = points.iter().map(point).collect();
    let sum = points.mult(&scalar_bytes(scalars), SCALAR_BITS);
    // Jacobian in both; the identity has z = 0.
    G1Projective::new_unchecked(from_blst(&sum.x), from_blst(&sum.y), from_blst(&sum.z))
}

fn by_blst_g2(points: &[G2Affine], scalars: &[Fr]) -> G2Projective {
    let point = |point: &G2Affine| blst::blst_p2_affine { x: to_blst2(&point.x), y: to_blst2(&point.y) };
    let points: Vec<_> = points.iter().map(point).collect();
    let sum = points.mult(&scalar_bytes(scalars), SCALAR_BITS);
    G2Projective::new_unchecked(from_blst2(&sum.x), from_blst2(&sum.y), from_blst2(&sum.z))
}

// --- arkworks 0.3: a coordinate is made of its words in Montgomery form

fn old_fq(value: &Fq) -> old::Fq {
    old::Fq::new(BigInteger384::new(value.0.0))
}

fn old_fq2(value: &Fq2) -> old::Fq2 {
    old::Fq2::new(old_fq(&value.c0), old_fq(&value.c1))
}

fn new_fq(value: &old::Fq) -> Fq {
    Fq::new_unchecked(ark_ff::BigInt(value.0.0))
}

fn new_fq2(value: &old::Fq2) -> Fq2 {
    Fq2::new(new_fq(&value.c0), new_fq(&value.c1))
}

fn old_g1(points: &[G1Affine]) -> Vec<old::G1Affine> {
    let convert = |point: &G1Affine| match point.is_zero() {
        true => old::G1Affine::default(),
        false => old::G1Affine::new(old_fq(&point.x), old_fq(&point.y), false),
    };
    points.iter().map(convert).collect()
}

fn old_g2(points: &[G2Affine]) -> Vec<old::G2Affine> {
    let convert = |point: &G2Affine| match point.is_zero() {
        true => old::G2Affine::default(),
        false => old::G2Affine::new(old_fq2(&point.x), old_fq2(&point.y), false),
    };
    points.iter().map(convert).collect()
}

fn from_old_g1(sum: old::G1Projective) -> G1Projective {
    G1Projective::new_unchecked(new_fq(&sum.x), new_fq(&sum.y), new_fq(&sum.z))
}

fn from_old_g2(sum: old::G2Projective) -> G2Projective {
    G2Projective::new_unchecked(new_fq2(&sum.x), new_fq2(&sum.y), new_fq2(&sum.z))
}

/// Curves of arkworks 0.3 whose scalars have four words.
trait OldCurve: SWModelParameters<ScalarField: OldPrimeField<BigInt = BigInteger256>> {}

impl<C: SWModelParameters<ScalarField: OldPrimeField<BigInt = BigInteger256>>> OldCurve for C {}

fn old_scalars(scalars: &[Fr]) -> Vec<BigInteger256> {
    scalars.iter().map(|scalar| BigInteger256::new(scalar.into_bigint().0)).collect()
}

fn by_old_arkworks<C: OldCurve>(points: &[GroupAffine<C>], scalars: &[Fr]) -> GroupProjective<C> {
    ark_ec_03::msm::VariableBaseMSM::multi_scalar_mul(points, &old_scalars(scalars))
}

fn by_ark_msm<C: OldCurve>(points: &[GroupAffine<C>], scalars: &[Fr]) -> GroupProjective<C> {
    ark_msm::msm::VariableBaseMSM::multi_scalar_mul::<C>(points, &old_scalars(scalars))
}

/// What several results of one question say of those who gave them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// All are equal.
    Agreed,
    /// More than half are equal, and these are not among them.
    Odd(Vec<String>),
    /// No result has a majority; who is wrong cannot be said.
    Split,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agreed => f.write_str("all agree"),
            Self::Odd(names) => write!(f, "against the majority: {}", names.join(", ")),
            Self::Split => f.write_str("no majority"),
        }
    }
}

/// Who is in the minority, if there is a majority.
pub fn verdict<T: PartialEq>(results: &[(String, T)]) -> Verdict {
    let alike = |result: &T| results.iter().filter(|(_, other)| other == result).count();
    let Some((_, common)) = results.iter().max_by_key(|(_, result)| alike(result)) else {
        return Verdict::Agreed;
    };
    let odd: Vec<_> =
        results.iter().filter(|(_, result)| result != common).map(|(name, _)| name.clone()).collect();
    match 2 * odd.len() {
        0 => Verdict::Agreed,
        twice if twice < results.len() => Verdict::Odd(odd),
        _ => Verdict::Split,
    }
}
