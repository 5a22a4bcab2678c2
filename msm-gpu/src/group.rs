//! G1 and G2 as the MSM sees them.

use crate::modules;
use crate::msm::{MsmError, check_point};
use crate::plan::GroupKind;
use ark_bls12_381::{Fq, Fq2, Fr, g1, g2};
use ark_ec::CurveGroup;
use ark_ec::short_weierstrass::{Projective, SWCurveConfig};
use ark_ff::{AdditiveGroup, Field};
use gpu_core::{ModuleSource, Pod, Xyzz};

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Projective<super::g1::Config> {}
    impl Sealed for super::Projective<super::g2::Config> {}
}

/// A group that the kernels are compiled for: arkworks' `G1Projective` or `G2Projective`.
pub trait MsmGroup:
    sealed::Sealed + CurveGroup<ScalarField = Fr, BaseField = Self::Coord, Affine: Pod>
{
    /// Field of the coordinates.
    type Coord: Field + Pod;
    /// Which of the two it is.
    const KIND: GroupKind;
    /// Its kernels.
    const MODULES: [&'static ModuleSource; 4];
    /// Kernels that compute tables of its points.
    const TABLE_MODULE: &'static ModuleSource;

    /// XYZZ to arkworks' Jacobian coordinates, without an inversion: with Z = ZZ, x = X*ZZ/ZZ^2 and y = Y*ZZZ/ZZ^3.
    fn from_xyzz(point: &Xyzz<Self::Coord>) -> Self;

    /// Whether a point is in the group; the index goes into the error.
    ///
    /// # Errors
    /// [`MsmError::NotOnCurve`], [`MsmError::NotInSubgroup`].
    fn check_member(index: usize, point: &Self::Affine) -> Result<(), MsmError>;
}

impl MsmGroup for Projective<g1::Config> {
    type Coord = Fq;
    const KIND: GroupKind = GroupKind::G1;
    const MODULES: [&'static ModuleSource; 4] =
        [&modules::MSM_PAIR_G1, &modules::MSM_ACCUMULATE_G1, &modules::MSM_MERGE_G1, &modules::MSM_REDUCE_G1];
    const TABLE_MODULE: &'static ModuleSource = &modules::MSM_TABLE_G1;

    fn from_xyzz(point: &Xyzz<Fq>) -> Self {
        jacobian(point)
    }

    fn check_member(index: usize, point: &Self::Affine) -> Result<(), MsmError> {
        check_point(index, point)
    }
}

impl MsmGroup for Projective<g2::Config> {
    type Coord = Fq2;
    const KIND: GroupKind = GroupKind::G2;
    const MODULES: [&'static ModuleSource; 4] =
        [&modules::MSM_PAIR_G2, &modules::MSM_ACCUMULATE_G2, &modules::MSM_MERGE_G2, &modules::MSM_REDUCE_G2];
    const TABLE_MODULE: &'static ModuleSource = &modules::MSM_TABLE_G2;

    fn from_xyzz(point: &Xyzz<Fq2>) -> Self {
        jacobian(point)
    }

    fn check_member(index: usize, point: &Self::Affine) -> Result<(), MsmError> {
        check_point(index, point)
    }
}

fn jacobian<C: SWCurveConfig>(point: &Xyzz<C::BaseField>) -> Projective<C> {
    if point.zz == C::BaseField::ZERO {
        return Projective::default();
    }
    Projective::new_unchecked(point.x * point.zz, point.y * point.zzz, point.zz)
}
