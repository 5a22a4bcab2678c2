//! blst: products on all cores of the host.

use ark_bls12_381::{Fq, Fq2, G1Affine, G1Projective, G2Affine, G2Projective, g1, g2};
use ark_ec::short_weierstrass::Projective;
use ark_ff::BigInt;
use blst::{MultiPoint, blst_fp, blst_fp2, blst_p1, blst_p1_affine, blst_p2, blst_p2_affine};
use msm_gpu::MsmGroup;

/// Bits of a scalar.
const SCALAR_BITS: usize = 255;

/// A group that blst computes in.
pub(super) trait BlstGroup: MsmGroup {
    type Theirs;

    fn theirs(points: &[Self::Affine]) -> Vec<Self::Theirs>;
    /// The product, by blst on all cores.
    fn mult(points: &[Self::Theirs], scalars: &[u8]) -> Self;
}

/// Both keep coordinates in Montgomery form with the same factor, the lowest limb first.
fn fp(value: &Fq) -> blst_fp {
    blst_fp { l: value.0.0 }
}

fn fq(value: &blst_fp) -> Fq {
    Fq::new_unchecked(BigInt(value.l))
}

fn fp2(value: &Fq2) -> blst_fp2 {
    blst_fp2 { fp: [fp(&value.c0), fp(&value.c1)] }
}

fn fq2(value: &blst_fp2) -> Fq2 {
    Fq2::new(fq(&value.fp[0]), fq(&value.fp[1]))
}

impl BlstGroup for Projective<g1::Config> {
    type Theirs = blst_p1_affine;

    fn theirs(points: &[G1Affine]) -> Vec<blst_p1_affine> {
        points.iter().map(|point| blst_p1_affine { x: fp(&point.x), y: fp(&point.y) }).collect()
    }

    fn mult(points: &[blst_p1_affine], scalars: &[u8]) -> Self {
        let blst_p1 { x, y, z } = points.mult(scalars, SCALAR_BITS);
        G1Projective::new_unchecked(fq(&x), fq(&y), fq(&z))
    }
}

impl BlstGroup for Projective<g2::Config> {
    type Theirs = blst_p2_affine;

    fn theirs(points: &[G2Affine]) -> Vec<blst_p2_affine> {
        points.iter().map(|point| blst_p2_affine { x: fp2(&point.x), y: fp2(&point.y) }).collect()
    }

    fn mult(points: &[blst_p2_affine], scalars: &[u8]) -> Self {
        let blst_p2 { x, y, z } = points.mult(scalars, SCALAR_BITS);
        G2Projective::new_unchecked(fq2(&x), fq2(&y), fq2(&z))
    }
}
