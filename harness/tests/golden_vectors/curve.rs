//! Groups: additions by the kernels and by arkworks, and encodings by every reader that there is.

use crate::common::{BLOCK, OneKernel, map};
use crate::files::{File, Test, place};
use crate::numbers::{Point, VectorField, bytes};
use crate::support::devices;
use ark_bls12_381::{Bls12_381, G1Affine, G2Affine, g1, g2};
use ark_ec::short_weierstrass::{Affine, Projective, SWCurveConfig};
use ark_ec::{AffineRepr, CurveConfig, CurveGroup};
use ark_ff::{AdditiveGroup, Field};
use ark_groth16::ProvingKey;
use ark_serialize::{CanonicalDeserialize, CanonicalSerialize, Compress, Validate};
use gpu_core::{Device, DeviceBuf, ModuleSource, Pod, Xyzz, modules};
use groth16::arkworks::read_key;
use groth16::bellman::{PointFault, Section};
use groth16::{CompactKey, ReadError, Trust, Validation};
use serde::Deserialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    Compressed,
    Uncompressed,
}

impl Form {
    fn mode(self) -> Compress {
        if self == Form::Compressed { Compress::Yes } else { Compress::No }
    }
}

/// The arguments of a case, by how coordinates are written.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
enum Input<E> {
    Add { p: Point<E>, z_p: E, q: Point<E>, z_q: E },
    AddAffine { p: Point<E>, z_p: E, q: Point<E>, negative: bool },
    Double { p: Point<E>, z_p: E },
    Negate { p: Point<E>, z_p: E },
    Multiple { p: Point<E>, z_p: E, k: u32 },
    Decode { form: Form, encoding: String },
}

type Json<C> = <<C as CurveConfig>::BaseField as VectorField>::Json;
type Case<C> = Test<Input<Json<C>>, Point<Json<C>>>;
type Cases<C> = File<Input<Json<C>>, Point<Json<C>>>;
type Coordinates<C> = Xyzz<<C as CurveConfig>::BaseField>;

/// Names of a group's kernels.
pub struct Kernels {
    module: &'static ModuleSource,
    add: &'static str,
    add_affine: &'static str,
    double: &'static str,
    negate: &'static str,
    multiple: &'static str,
}

/// A group with its kernels, and its place in the files of keys.
pub trait VectorGroup: SWCurveConfig<BaseField: VectorField> {
    const KERNELS: Kernels;
    /// The point of a key that a reader is tried with, and how many points come before it in bellman's file and in
    /// arkworks'.
    const SECTION: (Section, usize, usize);

    /// zkcrypto's word on an encoding: the uncompressed encoding of the point, `None` where it refuses.
    fn by_zkcrypto(form: Form, encoding: &[u8]) -> Option<Vec<u8>>;

    /// The tried point of a key.
    fn of_compact(key: &CompactKey) -> Affine<Self>;

    /// The tried point of a key.
    fn of_arkworks(key: &ProvingKey<Bls12_381>) -> Affine<Self>;
}

impl VectorGroup for g1::Config {
    const KERNELS: Kernels = Kernels {
        module: &modules::CURVE_OPS_G1,
        add: "curve_add_g1",
        add_affine: "curve_add_affine_g1",
        double: "curve_dbl_g1",
        negate: "curve_negate_g1",
        multiple: "curve_mul_small_g1",
    };
    const SECTION: (Section, usize, usize) = (Section::AlphaG1, 0, 0);

    fn by_zkcrypto(form: Form, encoding: &[u8]) -> Option<Vec<u8>> {
        use bls12_381::G1Affine;
        let point: Option<G1Affine> = match form {
            Form::Compressed => G1Affine::from_compressed(encoding.try_into().ok()?).into(),
            Form::Uncompressed => G1Affine::from_uncompressed(encoding.try_into().ok()?).into(),
        };
        point.map(|point| point.to_uncompressed().to_vec())
    }

    fn of_compact(key: &CompactKey) -> G1Affine {
        key.vk.alpha_g1
    }

    fn of_arkworks(key: &ProvingKey<Bls12_381>) -> G1Affine {
        key.vk.alpha_g1
    }
}

impl VectorGroup for g2::Config {
    const KERNELS: Kernels = Kernels {
        module: &modules::CURVE_OPS_G2,
        add: "curve_add_g2",
        add_affine: "curve_add_affine_g2",
        double: "curve_dbl_g2",
        negate: "curve_negate_g2",
        multiple: "curve_mul_small_g2",
    };
    const SECTION: (Section, usize, usize) = (Section::BetaG2, 2, 1);

    fn by_zkcrypto(form: Form, encoding: &[u8]) -> Option<Vec<u8>> {
        use bls12_381::G2Affine;
        let point: Option<G2Affine> = match form {
            Form::Compressed => G2Affine::from_compressed(encoding.try_into().ok()?).into(),
            Form::Uncompressed => G2Affine::from_uncompressed(encoding.try_into().ok()?).into(),
        };
        point.map(|point| point.to_uncompressed().to_vec())
    }

    fn of_compact(key: &CompactKey) -> G2Affine {
        key.vk.beta_g2
    }

    fn of_arkworks(key: &ProvingKey<Bls12_381>) -> G2Affine {
        key.vk.beta_g2
    }
}

/// Runs a file.
pub fn run<C: VectorGroup>(text: &str)
where
    Affine<C>: Pod,
{
    let file = Cases::<C>::read(text);
    let mut tally = file.tally("arkworks and the readers of keys");
    for test in &file.tests {
        by_arkworks::<C>(test);
        tally.mark(test);
    }
    tally.finish();
    for device in devices() {
        device.load(&[C::KERNELS.module]).expect("the module loads");
        on_device::<C>(&device, &file);
    }
}

fn by_arkworks<C: VectorGroup>(test: &Case<C>) {
    let affine = |point: &Point<Json<C>>| point.affine::<C>();
    let found: Projective<C> = match &test.input {
        Input::Add { p, q, .. } => affine(p) + affine(q),
        Input::AddAffine { p, q, negative: false, .. } => affine(p) + affine(q),
        Input::AddAffine { p, q, negative: true, .. } => affine(p).into_group() - affine(q),
        Input::Double { p, .. } => affine(p).into_group().double(),
        Input::Negate { p, .. } => -affine(p).into_group(),
        Input::Multiple { p, k, .. } => affine(p).mul_bigint([u64::from(*k)]),
        Input::Decode { form, encoding } => return decode::<C>(test, *form, &bytes(encoding)),
    };
    assert_eq!(found.into_affine(), affine(test.output()), "{}", place(test, "arkworks"));
}

/// A point over a denominator.
fn over<C: VectorGroup>(point: &Point<Json<C>>, z: &Json<C>) -> Coordinates<C> {
    let (point, z) = (point.affine::<C>(), C::BaseField::canonical(z));
    if point.is_zero() {
        // The identity is ZZ = 0, whatever the other coordinates.
        return Xyzz { x: z, y: z, zz: C::BaseField::ZERO, zzz: C::BaseField::ZERO };
    }
    let (zz, zzz) = (z.square(), z.square() * z);
    Xyzz { x: point.x * zz, y: point.y * zzz, zz, zzz }
}

/// The affine point of coordinates that keep ZZ^3 = ZZZ^2.
fn affine<C: VectorGroup>(point: &Coordinates<C>) -> Affine<C> {
    let (Some(zz), Some(zzz)) = (point.zz.inverse(), point.zzz.inverse()) else {
        return Affine::identity();
    };
    assert_eq!(point.zz.square() * point.zz, point.zzz.square(), "ZZ^3 = ZZZ^2");
    Affine::new_unchecked(point.x * zz, point.y * zzz)
}

/// Cases of one operation.
struct Operation<'t, C: VectorGroup> {
    kernel: &'static str,
    cases: Vec<&'t Case<C>>,
    p: Vec<Coordinates<C>>,
}

impl<'t, C: VectorGroup> Operation<'t, C> {
    /// The cases whose first operand `pick` knows.
    fn new(
        kernel: &'static str,
        file: &'t Cases<C>,
        pick: impl Fn(&'t Input<Json<C>>) -> Option<(&'t Point<Json<C>>, &'t Json<C>)>,
    ) -> Self {
        let picked =
            file.tests.iter().filter_map(|test| pick(&test.input).map(|(p, z)| (test, over::<C>(p, z))));
        let (cases, p): (Vec<_>, Vec<_>) = picked.unzip();
        assert!(!cases.is_empty(), "{kernel} has cases");
        Self { kernel, cases, p }
    }

    fn check(&self, device: &Device, got: &[Coordinates<C>]) {
        assert_eq!(got.len(), self.cases.len());
        for (test, got) in self.cases.iter().zip(got) {
            let place = place(test, &device.info().id);
            assert_eq!(affine::<C>(got), test.output().affine(), "{}, {place}", self.kernel);
        }
    }

    /// Runs `kernel(out, p, other, numbers, n)`, and checks what comes out.
    fn run<T: Pod>(&self, device: &Device, other: Option<&[T]>, numbers: Option<&[u32]>) {
        let out = DeviceBuf::from_slice(device, "out", &self.p).expect("out");
        let mut launch = OneKernel::new(device, self.kernel).write(&out);
        launch = launch.read(&DeviceBuf::from_slice(device, "p", &self.p).expect("p"));
        if let Some(other) = other {
            launch = launch.read(&DeviceBuf::from_slice(device, "q", other).expect("q"));
        }
        if let Some(numbers) = numbers {
            launch = launch.read(&DeviceBuf::from_slice(device, "numbers", numbers).expect("numbers"));
        }
        launch.u32(self.p.len() as u32).run(self.p.len(), BLOCK).expect(self.kernel);
        self.check(device, &out.to_vec().expect("out"));
    }
}

fn on_device<C: VectorGroup>(device: &Device, file: &Cases<C>)
where
    Affine<C>: Pod,
{
    let mut tally = file.tally(&device.info().id);
    let Kernels { add, add_affine, double, negate, multiple, .. } = C::KERNELS;

    let operation = Operation::<C>::new(add, file, |input| match input {
        Input::Add { p, z_p, .. } => Some((p, z_p)),
        _ => None,
    });
    let other = |test: &&Case<C>| match &test.input {
        Input::Add { q, z_q, .. } => over::<C>(q, z_q),
        _ => unreachable!("picked above"),
    };
    let others: Vec<_> = operation.cases.iter().map(other).collect();
    operation.run(device, Some(&others), None);
    operation.cases.iter().for_each(|test| tally.mark(test));

    let operation = Operation::<C>::new(add_affine, file, |input| match input {
        Input::AddAffine { p, z_p, .. } => Some((p, z_p)),
        _ => None,
    });
    let other = |test: &&Case<C>| match &test.input {
        Input::AddAffine { q, negative, .. } => (q.affine::<C>(), u32::from(*negative)),
        _ => unreachable!("picked above"),
    };
    let (others, signs): (Vec<_>, Vec<_>) = operation.cases.iter().map(other).unzip();
    operation.run(device, Some(&others), Some(&signs));
    operation.cases.iter().for_each(|test| tally.mark(test));

    let operation = Operation::<C>::new(double, file, |input| match input {
        Input::Double { p, z_p } => Some((p, z_p)),
        _ => None,
    });
    operation.run::<u32>(device, None, None);
    operation.cases.iter().for_each(|test| tally.mark(test));

    let operation = Operation::<C>::new(negate, file, |input| match input {
        Input::Negate { p, z_p } => Some((p, z_p)),
        _ => None,
    });
    operation.check(device, &map(device, negate, &[&operation.p], 1, operation.p[0]));
    operation.cases.iter().for_each(|test| tally.mark(test));

    let operation = Operation::<C>::new(multiple, file, |input| match input {
        Input::Multiple { p, z_p, .. } => Some((p, z_p)),
        _ => None,
    });
    let factor = |test: &&Case<C>| match &test.input {
        Input::Multiple { k, .. } => *k,
        _ => unreachable!("picked above"),
    };
    let factors: Vec<_> = operation.cases.iter().map(factor).collect();
    operation.run::<u32>(device, None, Some(&factors));
    operation.cases.iter().for_each(|test| tally.mark(test));

    // Encodings are read on the host.
    file.tests
        .iter()
        .filter(|test| matches!(test.input, Input::Decode { .. }))
        .for_each(|test| tally.mark(test));
    tally.finish();
}

/// Reads an encoding in every way.
fn decode<C: VectorGroup>(test: &Case<C>, form: Form, encoding: &[u8]) {
    let place = place(test, "the host");
    let by_arkworks = |mut bytes: &[u8]| {
        let point = Affine::<C>::deserialize_with_mode(&mut bytes, form.mode(), Validate::Yes);
        point.ok().filter(|_| bytes.is_empty())
    };
    let zkcrypto = C::by_zkcrypto(form, encoding);
    let (from_bellman, from_arkworks) = (bellman_file::<C>(encoding), arkworks_file::<C>(form, encoding));
    let compact = CompactKey::read(&from_bellman, Validation::Subgroup);
    let ours = read_key(&from_arkworks, form.mode(), Trust::Checked);
    if test.is_valid() {
        let expected: Affine<C> = test.output().affine();
        assert_eq!(by_arkworks(encoding), Some(expected), "{place}: arkworks");
        assert_eq!(zkcrypto, Some(encoded(&expected, Compress::No)), "{place}: zkcrypto");
        assert_eq!(encoded(&expected, form.mode()), encoding, "{place}: as arkworks writes it");
        assert_eq!(C::of_arkworks(&ours.expect("a key")), expected, "{place}: the reader of arkworks' keys");
        match compact {
            _ if form == Form::Compressed => {}
            Ok(key) => assert_eq!(C::of_compact(&key), expected, "{place}: the reader of bellman's keys"),
            Err(error) => {
                assert!(expected.is_zero(), "{place}: {error}");
                assert_eq!(fault::<C>(&error), Some(PointFault::Identity), "{place}: keys hold no identity");
            }
        }
        return;
    }
    let (error, _) = test.refusal();
    assert_eq!(zkcrypto, None, "{place}: zkcrypto");
    // arkworks keeps the identity as (0, 0) and takes these bytes for it; the reader of its keys does not.
    let by_its_own = test.has("zero_coordinates").then(Affine::identity);
    assert_eq!(by_arkworks(encoding), by_its_own, "{place}: arkworks");
    let expected = if error == "truncated" { None } else { Some(PointFault::Encoding) };
    assert_eq!(fault::<C>(&ours.expect_err("no key")), expected, "{place}: the reader of arkworks' keys");
    if form == Form::Uncompressed {
        let fault = fault::<C>(&compact.expect_err("no key"));
        let expected = match error {
            "flags" => Some(PointFault::Flags { flags: encoding[0] >> 5 }),
            "dirty_infinity" => Some(PointFault::DirtyInfinity),
            "coordinate_x" => Some(PointFault::Coordinate { coordinate: 'x' }),
            "coordinate_y" => Some(PointFault::Coordinate { coordinate: 'y' }),
            "not_on_curve" => Some(PointFault::NotOnCurve),
            "not_in_subgroup" => Some(PointFault::NotInSubgroup),
            "truncated" => None,
            other => panic!("{place}: there is no error {other}"),
        };
        assert_eq!(fault, expected, "{place}: the reader of bellman's keys");
    }
}

/// What is wrong with the tried point; `None` where the file ends in it.
fn fault<C: VectorGroup>(error: &ReadError) -> Option<PointFault> {
    match error {
        ReadError::Point { section, index: 0, fault, .. } if *section == C::SECTION.0 => Some(*fault),
        ReadError::Truncated { section, .. } if *section == C::SECTION.0 => None,
        other => panic!("another fault: {other}"),
    }
}

fn encoded(point: &impl CanonicalSerialize, mode: Compress) -> Vec<u8> {
    let mut bytes = Vec::new();
    point.serialize_with_mode(&mut bytes, mode).expect("a vector takes all bytes");
    bytes
}

/// A key of bellman's whose point is this one; the file ends with it if it is too short.
fn bellman_file<C: VectorGroup>(encoding: &[u8]) -> Vec<u8> {
    let g1 = encoded(&G1Affine::generator(), Compress::No);
    let g2 = encoded(&G2Affine::generator(), Compress::No);
    // alpha_g1, beta_g1, beta_g2, gamma_g2, delta_g1, delta_g2, and six counts of zero.
    let points = [&g1, &g1, &g2, &g2, &g1, &g2].map(Vec::as_slice);
    let counts = [0; 6 * 4];
    with_point(&points, C::SECTION.1, encoding, &counts)
}

/// A key of arkworks' whose point is this one; the file ends with it if it is too short.
fn arkworks_file<C: VectorGroup>(form: Form, encoding: &[u8]) -> Vec<u8> {
    let g1 = encoded(&G1Affine::generator(), form.mode());
    let g2 = encoded(&G2Affine::generator(), form.mode());
    // alpha_g1, beta_g2, gamma_g2, delta_g2, a count of zero, beta_g1, delta_g1, and five counts of zero.
    let points = [&g1, &g2, &g2, &g2].map(Vec::as_slice);
    let rest = [&[0; 8][..], &g1, &g1, &[0; 5 * 8]].concat();
    with_point(&points, C::SECTION.2, encoding, &rest)
}

/// Points with one in the place of another, and the rest of the file unless that one is too short.
fn with_point(points: &[&[u8]], index: usize, encoding: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut file = points[..index].concat();
    file.extend_from_slice(encoding);
    if encoding.len() == points[index].len() {
        file.extend(points[index + 1..].concat());
        file.extend_from_slice(rest);
    }
    file
}
