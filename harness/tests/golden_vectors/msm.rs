//! Products in both groups: by the device in every strategy, by arkworks, and by double-and-add.

use crate::files::{File, Test, place};
use crate::numbers::{Point, VectorField, integer};
use crate::support::{assert_product_on, devices, ways};
use ark_bls12_381::{Fr, G1Affine, G2Affine, g1, g2};
use ark_ec::CurveGroup;
use ark_ec::short_weierstrass::Projective;
use ark_ff::{BigInt, PrimeField};
use gpu_core::Device;
use harness::oracle::{msm_by_arkworks, msm_by_double_and_add};
use msm_gpu::{Bases, Msm, MsmConfig, MsmError, MsmGroup};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Indices into the table of points.
    bases: Vec<usize>,
    scalars: Vec<String>,
}

/// A row of the table of points.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row<E> {
    log: Option<String>,
    point: Point<E>,
}

/// A group that vectors are written for.
pub trait VectorGroup: MsmGroup<BaseField: VectorField> {
    /// A point from the file.
    fn affine(point: &Point<Json<Self>>) -> Self::Affine;
}

impl VectorGroup for Projective<g1::Config> {
    fn affine(point: &Point<Json<Self>>) -> G1Affine {
        point.affine()
    }
}

impl VectorGroup for Projective<g2::Config> {
    fn affine(point: &Point<Json<Self>>) -> G2Affine {
        point.affine()
    }
}

type Json<G> = <<G as CurveGroup>::BaseField as VectorField>::Json;
type Case<G> = Test<Input, Point<Json<G>>>;

/// Runs a file.
pub fn run<G: VectorGroup>(text: &str) {
    let file = File::<Input, Point<Json<G>>>::read(text);
    let table: Vec<Row<Json<G>>> = file.points();
    let points: Vec<G::Affine> = table.iter().map(|row| G::affine(&row.point)).collect();
    for (row, point) in table.iter().zip(&points) {
        if let Some(log) = &row.log {
            let log = Fr::from_bigint(integer(log)).expect("below r");
            assert_eq!(
                (G::generator() * log).into_affine(),
                *point,
                "a point is its log times the generator"
            );
        }
    }
    let bases =
        |test: &Case<G>| -> Vec<G::Affine> { test.input.bases.iter().map(|index| points[*index]).collect() };
    let mut tally = file.tally("arkworks");
    for test in &file.tests {
        by_arkworks::<G>(test, &bases(test));
        tally.mark(test);
    }
    tally.finish();
    for device in devices() {
        let mut tally = file.tally(&device.info().id);
        for test in &file.tests {
            let bases = bases(test);
            match test.is_valid() {
                true => on_device::<G>(&device, test, &bases),
                false => refused::<G>(&device, test, &bases),
            }
            tally.mark(test);
        }
        tally.finish();
    }
}

fn canonical<G: VectorGroup>(test: &Case<G>) -> Vec<BigInt<4>> {
    test.input.scalars.iter().map(|scalar| integer(scalar)).collect()
}

/// The scalars as field elements; `None` if one is not below r.
fn scalars<G: VectorGroup>(test: &Case<G>) -> Option<Vec<Fr>> {
    canonical::<G>(test).into_iter().map(Fr::from_bigint).collect()
}

fn expected<G: VectorGroup>(test: &Case<G>) -> G {
    G::affine(test.output()).into()
}

fn by_arkworks<G: VectorGroup>(test: &Case<G>, bases: &[G::Affine]) {
    let place = place(test, "arkworks");
    let scalars = scalars::<G>(test);
    if !test.is_valid() {
        match test.refusal() {
            ("scalar_not_reduced", Some(_)) => assert!(scalars.is_none(), "{place}"),
            ("length_mismatch", None) => {
                let scalars = scalars.expect("below r");
                assert!(G::msm(bases, &scalars).is_err(), "{place}");
            }
            ("not_on_curve" | "not_in_subgroup", Some(index)) => {
                assert!(G::check_member(index, &bases[index]).is_err(), "{place}");
            }
            other => panic!("{place}: there is no error {other:?}"),
        }
        return;
    }
    let scalars = scalars.expect("below r");
    assert_eq!(msm_by_arkworks::<G>(bases, &scalars), expected::<G>(test), "{place}");
    assert_eq!(msm_by_double_and_add::<G>(bases, &scalars), expected::<G>(test), "{place}");
}

fn on_device<G: VectorGroup>(device: &Device, test: &Case<G>, bases: &[G::Affine]) {
    let (place, expected) = (place(test, &device.info().id), expected::<G>(test));
    let scalars = scalars::<G>(test).expect("below r");
    for window_bits in [None, Some(8)] {
        let ways = ways(bases.len());
        assert_product_on::<G>(device, &ways, window_bits, &place, bases, &scalars, expected);
    }
    let bases = Bases::<G>::new(device, bases).expect("members of the group");
    let msm = Msm::<G, BigInt<4>>::new(&bases, &MsmConfig::default());
    let product = msm.and_then(|mut msm| msm.run(&canonical::<G>(test)));
    assert_eq!(product.expect("a product"), expected, "{place}: canonical scalars");
}

fn refused<G: VectorGroup>(device: &Device, test: &Case<G>, bases: &[G::Affine]) {
    let place = place(test, &device.info().id);
    let product = Bases::<G>::new(device, bases).and_then(|bases| {
        let mut msm = Msm::<G, BigInt<4>>::new(&bases, &MsmConfig::default())?;
        msm.run(&canonical::<G>(test))
    });
    let (error, index) = match product.expect_err(&place) {
        MsmError::ScalarNotReduced { index } => ("scalar_not_reduced", Some(index)),
        MsmError::LengthMismatch { bases: some, scalars } => {
            assert_eq!((some, scalars), (bases.len(), test.input.scalars.len()), "{place}");
            ("length_mismatch", None)
        }
        MsmError::NotOnCurve { index } => ("not_on_curve", Some(index)),
        MsmError::NotInSubgroup { index } => ("not_in_subgroup", Some(index)),
        other => panic!("{place}: {other}"),
    };
    assert_eq!((error, index), test.refusal(), "{place}");
}
