//! Every field and point operation of the kernels against arkworks, on each device: random operands, operands
//! at the edges of limbs and of the modulus, and points in every exceptional case. Equality is of bytes, so
//! each result is also shown to be canonical.

mod common;

use ark_bls12_381::{Fq, Fq2, Fr};
use ark_ec::short_weierstrass::{Affine, Projective, SWCurveConfig};
use ark_ec::{AffineRepr, CurveGroup, PrimeGroup};
use ark_ff::{AdditiveGroup, BigInt, BigInteger, Field, PrimeField, UniformRand, Zero};
use common::{BLOCK, OneKernel, map};
use gpu_core::sim::{self, SimOptions};
use gpu_core::{Device, DeviceBuf, DeviceKind, ModuleSource, Pod, Xyzz, modules};
use harness::oracle::{random_numbers, test_seed};
use rand_chacha::rand_core::RngCore;
use std::collections::BTreeMap;

fn devices(module: &'static ModuleSource) -> Vec<Device> {
    let devices = Device::all(SimOptions::default());
    for device in &devices {
        device.load(&[module]).expect("the module loads");
    }
    devices
}

/// Compares row by row and names the first difference with its operands.
fn assert_rows<T: Pod + std::fmt::Debug, O: PartialEq + std::fmt::Debug>(
    device: &Device,
    kernel: &str,
    inputs: &[&[T]],
    got: &[O],
    expected: &[Vec<O>],
) {
    let n = inputs[0].len();
    assert_eq!(got.len(), expected.len() * n, "{kernel}: rows");
    for (row, expected) in expected.iter().enumerate() {
        for i in 0..n {
            let operands: Vec<_> = inputs.iter().map(|input| &input[i]).collect();
            assert_eq!(
                got[row * n + i],
                expected[i],
                "{kernel} on {}, row {row}, item {i}, operands {operands:?}",
                device.info().id
            );
        }
    }
}

/// Runs and compares; the output is of the inputs' type.
fn check<T: Pod + PartialEq + std::fmt::Debug>(
    device: &Device,
    kernel: &'static str,
    inputs: &[&[T]],
    expected: &[Vec<T>],
) {
    let got = map(device, kernel, inputs, expected.len(), inputs[0][0]);
    assert_rows(device, kernel, inputs, &got, expected);
}

/// Elements whose *memory* has patterns that carries and reductions can get wrong, as Montgomery limbs.
fn edges<F: PrimeField<BigInt = BigInt<N>>, const N: usize>(raw: fn(BigInt<N>) -> F) -> Vec<F> {
    let modulus = F::MODULUS;
    let mut half = modulus;
    half.div2();
    let mut patterns = vec![BigInt::zero(), BigInt::from(1u64), BigInt::from(2u64), half];
    for limb in 0..N {
        for word in [1, u64::from(u32::MAX), 1 << 32, u64::MAX << 32, u64::MAX] {
            let mut single = BigInt::zero();
            single.0[limb] = word;
            let mut below = BigInt::zero();
            below.0[..limb].fill(u64::MAX);
            below.0[limb] = word >> 1;
            let mut missing = modulus;
            missing.0[limb] = 0;
            patterns.extend([single, below, missing]);
        }
    }
    let negated = |pattern: &BigInt<N>| {
        let mut difference = modulus;
        difference.sub_with_borrow(pattern);
        difference
    };
    patterns.retain(|pattern| *pattern < modulus);
    patterns.extend(patterns.clone().iter().map(negated));
    patterns.push(F::one().into_bigint());
    patterns.retain(|pattern| *pattern < modulus);
    patterns.sort();
    patterns.dedup();
    let mut found: Vec<F> = patterns.into_iter().map(raw).collect();
    found.extend([F::one(), -F::one(), F::one().double()]);
    found
}

/// All pairs of edges, then random pairs.
fn pairs<F: Field>(edges: &[F], random_count: usize, label: &str, seed: u64) -> (Vec<F>, Vec<F>) {
    let mut rng = random_numbers(seed, label);
    let mut all: Vec<(F, F)> = edges.iter().flat_map(|a| edges.iter().map(|b| (*a, *b))).collect();
    all.extend((0..random_count).map(|_| (F::rand(&mut rng), F::rand(&mut rng))));
    all.into_iter().unzip()
}

fn rotated<T: Clone>(items: &[T], by: usize) -> Vec<T> {
    let (head, tail) = items.split_at(by % items.len());
    [tail, head].concat()
}

fn zip<F: Copy>(a: &[F], b: &[F], op: impl Fn(F, F) -> F) -> Vec<F> {
    a.iter().zip(b).map(|(a, b)| op(*a, *b)).collect()
}

fn each<F: Copy>(a: &[F], op: impl Fn(F) -> F) -> Vec<F> {
    a.iter().map(|a| op(*a)).collect()
}

#[test]
fn fp_is_arkworks_fq() {
    let seed = test_seed();
    let (a, b) = pairs(&edges(Fq::new_unchecked), 10_000, "fp", seed);
    let (c, d) = (rotated(&a, 1007), rotated(&b, 3001));
    let product = zip(&a, &b, |a, b| a * b);
    let square = each(&a, |a| a.square());
    let sum = zip(&a, &b, |a, b| a + b);
    let difference = zip(&a, &b, |a, b| a - b);
    let mul_sub: Vec<_> = (0..a.len()).map(|i| a[i] * b[i] - c[i] * d[i]).collect();
    let mut lazy = vec![product.clone(); 5];
    lazy.extend([square.clone(), zip(&a, &b, |a, b| a * b - b * b), sum.clone()]);
    lazy.extend([difference.clone(), difference.clone()]);
    let limbs32 = [product.clone(), product.clone(), product.clone(), square.clone()];
    for device in &devices(&modules::FIELD_OPS) {
        check(device, "fp_add", &[&a, &b], std::slice::from_ref(&sum));
        check(device, "fp_sub", &[&a, &b], std::slice::from_ref(&difference));
        check(device, "fp_neg", &[&a], &[each(&a, |a| -a)]);
        check(device, "fp_mul", &[&a, &b], std::slice::from_ref(&product));
        check(device, "fp_sqr", &[&a], std::slice::from_ref(&square));
        check(device, "fp_inverse", &[&a], &[each(&a, |a| a.inverse().unwrap_or_default())]);
        check(device, "fp_mul_sub", &[&a, &b, &c, &d], std::slice::from_ref(&mul_sub));
        check(device, "fp_reduce", &[&a], &vec![a.clone(); 9]);
        check(device, "fp_lazy", &[&a, &b], &lazy);
        check(device, "fp_limbs32", &[&a, &b], &limbs32);
        let zero_bits = map(device, "fp_is_zero", &[&a], 1, u32::MAX);
        let expected = a.iter().map(|a| if a.is_zero() { 7 } else { 0 }).collect();
        assert_rows(device, "fp_is_zero", &[&a], &zero_bits, &[expected]);
    }
}

#[test]
fn fr_is_arkworks_fr() {
    let seed = test_seed();
    let (a, b) = pairs(&edges(Fr::new_unchecked), 10_000, "fr", seed);
    let product = zip(&a, &b, |a, b| a * b);
    let square = each(&a, |a| a.square());
    let plain = each(&a, |a| Fr::new_unchecked(a.into_bigint()));
    let limbs32 = [product.clone(), product.clone(), product.clone(), square.clone()];
    for device in &devices(&modules::FIELD_OPS) {
        check(device, "fr_add", &[&a, &b], &[zip(&a, &b, |a, b| a + b)]);
        check(device, "fr_sub", &[&a, &b], &[zip(&a, &b, |a, b| a - b)]);
        check(device, "fr_neg", &[&a], &[each(&a, |a| -a)]);
        check(device, "fr_mul", &[&a, &b], &vec![product.clone(); 2]);
        check(device, "fr_sqr", &[&a], std::slice::from_ref(&square));
        check(device, "fr_limbs32", &[&a, &b], &limbs32);
        check(device, "fr_from_mont", &[&a], std::slice::from_ref(&plain));
        check(device, "fr_to_mont", &[&plain], std::slice::from_ref(&a));
    }
}

/// Words that nobody vouches for come out below r, whatever they are.
#[test]
fn any_256_bits_become_a_scalar() {
    let mut rng = random_numbers(test_seed(), "words");
    let add = |mut a: BigInt<4>, b: &BigInt<4>| {
        a.add_with_carry(b);
        a
    };
    let (r, one) = (Fr::MODULUS, BigInt::from(1u64));
    let two_r = add(r, &r);
    let mut below = two_r;
    below.sub_with_borrow(&one);
    let mut words = vec![r, add(r, &one), below, two_r, add(two_r, &one), BigInt([u64::MAX; 4])];
    words.extend((0..2000).map(|_| <BigInt<4> as UniformRand>::rand(&mut rng)));
    let bytes = |words: &BigInt<4>| words.to_bytes_le();
    let expected: Vec<Fr> = words.iter().map(|words| Fr::from_le_bytes_mod_order(&bytes(words))).collect();
    let words: Vec<Fr> = words.into_iter().map(Fr::new_unchecked).collect();
    for device in &devices(&modules::FIELD_OPS) {
        check(device, "fr_to_mont", &[&words], std::slice::from_ref(&expected));
    }
}

#[test]
fn fp2_is_arkworks_fq2() {
    let seed = test_seed();
    let few: Vec<Fq> = edges(Fq::new_unchecked).into_iter().step_by(19).collect();
    let edges: Vec<Fq2> = few.iter().flat_map(|c0| few.iter().map(|c1| Fq2::new(*c0, *c1))).collect();
    let (a, b) = pairs(&edges, 10_000, "fp2", seed);
    let (c, d) = (rotated(&a, 1007), rotated(&b, 3001));
    let product = zip(&a, &b, |a, b| a * b);
    let mul_sub: Vec<_> = (0..a.len()).map(|i| a[i] * b[i] - c[i] * d[i]).collect();
    for device in &devices(&modules::FIELD_OPS) {
        check(device, "fp2_add", &[&a, &b], &[zip(&a, &b, |a, b| a + b)]);
        check(device, "fp2_sub", &[&a, &b], &[zip(&a, &b, |a, b| a - b)]);
        check(device, "fp2_neg", &[&a], &[each(&a, |a| -a)]);
        check(device, "fp2_mul", &[&a, &b], &vec![product.clone(); 2]);
        check(device, "fp2_sqr", &[&a], &vec![each(&a, |a| a.square()); 2]);
        check(device, "fp2_inverse", &[&a], &[each(&a, |a| a.inverse().unwrap_or_default())]);
        check(device, "fp2_mul_sub", &[&a, &b, &c, &d], &vec![mul_sub.clone(); 2]);
    }
}

fn check_chain<F: Field + Pod>(device: &Device, kernel: &'static str, seed: u64) {
    let mut rng = random_numbers(seed, kernel);
    let (n, steps) = (200, 9);
    let draw = |rng: &mut _| (0..n).map(|_| F::rand(rng)).collect::<Vec<_>>();
    let (mut x, mut y) = (draw(&mut rng), draw(&mut rng));
    let x_buf = DeviceBuf::from_slice(device, "x", &x).expect("x");
    let y_buf = DeviceBuf::from_slice(device, "y", &y).expect("y");
    let launch = OneKernel::new(device, kernel).write(&x_buf).write(&y_buf).u32(n as u32).u32(steps);
    launch.run(n, BLOCK).expect(kernel);
    for (x, y) in x.iter_mut().zip(&mut y) {
        for _ in 0..steps {
            *x *= *y;
            *y *= *x;
        }
    }
    assert_rows(device, kernel, &[&x], &x_buf.to_vec().expect("x"), &[x.clone()]);
    assert_rows(device, kernel, &[&y], &y_buf.to_vec().expect("y"), &[y.clone()]);
}

/// The kernels that measure the multiplier compute what they say.
#[test]
fn chains_are_the_products_that_they_measure() {
    let seed = test_seed();
    for device in &devices(&modules::FIELD_OPS) {
        check_chain::<Fq>(device, "fp_mul_chain", seed);
        check_chain::<Fr>(device, "fr_mul_chain", seed);
        check_chain::<Fq2>(device, "fp2_mul_chain", seed);
        let x = edges(Fq::new_unchecked);
        let buf = DeviceBuf::from_slice(device, "x", &x).expect("x");
        let launch = OneKernel::new(device, "fp_sqr_chain").write(&buf).u32(x.len() as u32).u32(5);
        launch.run(x.len(), BLOCK).expect("fp_sqr_chain");
        assert_rows(device, "fp_sqr_chain", &[&x], &buf.to_vec().expect("x"), &[each(&x, |x| x.pow([32]))]);
    }
}

/// A group as the kernels see it.
struct GroupKernels {
    add_affine: &'static str,
    add: &'static str,
    dbl: &'static str,
    negate: &'static str,
    mul_small: &'static str,
    add_affine_chain: &'static str,
    add_chain: &'static str,
}

const G1_KERNELS: GroupKernels = GroupKernels {
    add_affine: "curve_add_affine_g1",
    add: "curve_add_g1",
    dbl: "curve_dbl_g1",
    negate: "curve_negate_g1",
    mul_small: "curve_mul_small_g1",
    add_affine_chain: "curve_add_affine_chain_g1",
    add_chain: "curve_add_chain_g1",
};

const G2_KERNELS: GroupKernels = GroupKernels {
    add_affine: "curve_add_affine_g2",
    add: "curve_add_g2",
    dbl: "curve_dbl_g2",
    negate: "curve_negate_g2",
    mul_small: "curve_mul_small_g2",
    add_affine_chain: "curve_add_affine_chain_g2",
    add_chain: "curve_add_chain_g2",
};

/// The point over the denominator z.
fn over<P: SWCurveConfig>(point: &Affine<P>, z: P::BaseField) -> Xyzz<P::BaseField> {
    if point.is_zero() {
        // The identity is ZZ = 0, whatever the other coordinates.
        return Xyzz { x: z, y: z.square(), zz: P::BaseField::ZERO, zzz: P::BaseField::ZERO };
    }
    let (zz, zzz) = (z.square(), z.square() * z);
    Xyzz { x: point.x * zz, y: point.y * zzz, zz, zzz }
}

/// The affine point of a device's result, after its invariants: canonical memory, ZZ^3 = ZZZ^2.
fn affine<P: SWCurveConfig>(point: &Xyzz<P::BaseField>) -> Affine<P> {
    for coordinate in [&point.x, &point.y, &point.zz, &point.zzz] {
        let canonical = coordinate.to_base_prime_field_elements().all(|element| {
            // Equality in arkworks compares limbs, and its arithmetic gives canonical ones.
            element + <P::BaseField as Field>::BasePrimeField::ZERO == element
        });
        assert!(canonical, "a coordinate is not canonical: {point:?}");
    }
    if point.zz.is_zero() {
        return Affine::zero();
    }
    assert_eq!(point.zz.square() * point.zz, point.zzz.square(), "ZZ^3 = ZZZ^2");
    let x = point.x * point.zz.inverse().expect("not zero");
    let y = point.y * point.zzz.inverse().expect("not zero, by the equation above");
    let affine = Affine::new_unchecked(x, y);
    assert!(affine.is_on_curve());
    affine
}

fn assert_points<P: SWCurveConfig>(
    device: &Device,
    kernel: &str,
    got: &[Xyzz<P::BaseField>],
    expected: &[Projective<P>],
) {
    assert_eq!(got.len(), expected.len());
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert_eq!(affine::<P>(got), expected.into_affine(), "{kernel} on {}, item {i}", device.info().id);
    }
}

/// Points that stand in every exceptional relation to one another, then random ones.
fn special_points<P: SWCurveConfig>(rng: &mut impl RngCore) -> Vec<Affine<P>> {
    let generator = Projective::<P>::generator();
    let p = Projective::<P>::rand(rng);
    let q = Projective::<P>::rand(rng);
    let mut points = vec![Projective::ZERO, generator, -generator, generator.double(), p, -p, p.double()];
    points.extend([-p.double(), q, p + q, -(p + q), p - q]);
    points.extend((0..6).map(|_| Projective::rand(rng)));
    Projective::normalize_batch(&points)
}

fn check_group<P>(device: &Device, kernels: &GroupKernels, seed: u64)
where
    P: SWCurveConfig<BaseField: Pod>,
    Affine<P>: Pod,
{
    let mut rng = random_numbers(seed, kernels.add);
    let points = special_points::<P>(&mut rng);
    // Each point twice: over one, and over a random denominator.
    let one = P::BaseField::ONE;
    let forms: Vec<(Affine<P>, Xyzz<P::BaseField>)> = points
        .iter()
        .flat_map(|point| [one, P::BaseField::rand(&mut rng)].map(|z| (*point, over(point, z))))
        .collect();
    let poison = forms[1].1;

    // p +- q over all pairs of forms.
    let all: Vec<_> = forms.iter().flat_map(|p| forms.iter().map(move |q| (*p, *q))).collect();
    let p: Vec<_> = all.iter().map(|(p, _)| p.1).collect();
    let q: Vec<_> = all.iter().map(|(_, q)| q.1).collect();
    let sums: Vec<_> = all.iter().map(|(p, q)| p.0 + q.0).collect();
    let got = map(device, kernels.add, &[&p, &q], 1, poison);
    assert_points::<P>(device, kernels.add, &got, &sums);

    for sign in [0u32, 1] {
        let n = all.len();
        let out = DeviceBuf::from_slice(device, "out", &vec![poison; n]).expect("out");
        let p = DeviceBuf::from_slice(device, "p", &p).expect("p");
        let bases: Vec<_> = all.iter().map(|(_, q)| q.0).collect();
        let q = DeviceBuf::from_slice(device, "q", &bases).expect("q");
        let negative = DeviceBuf::from_slice(device, "negative", &vec![sign; n]).expect("signs");
        let launch = OneKernel::new(device, kernels.add_affine).write(&out).read(&p).read(&q);
        launch.read(&negative).u32(n as u32).run(n, BLOCK).expect(kernels.add_affine);
        let expected: Vec<Projective<P>> =
            all.iter().map(|(p, q)| if sign == 0 { p.0 + q.0 } else { p.0.into_group() - q.0 }).collect();
        assert_points::<P>(device, kernels.add_affine, &out.to_vec().expect("out"), &expected);
    }

    let p: Vec<_> = forms.iter().map(|form| form.1).collect();
    let got = map(device, kernels.dbl, &[&p], 1, poison);
    let twice: Vec<_> = forms.iter().map(|form| form.0.into_group().double()).collect();
    assert_points::<P>(device, kernels.dbl, &got, &twice);
    let got = map(device, kernels.negate, &[&p], 1, poison);
    let minus: Vec<_> = forms.iter().map(|form| -form.0.into_group()).collect();
    assert_points::<P>(device, kernels.negate, &got, &minus);

    check_multiples::<P>(device, kernels, &forms, &mut rng);
    check_addition_chains::<P>(device, kernels, &forms);
}

fn check_multiples<P>(
    device: &Device,
    kernels: &GroupKernels,
    forms: &[(Affine<P>, Xyzz<P::BaseField>)],
    rng: &mut impl RngCore,
) where
    P: SWCurveConfig<BaseField: Pod>,
{
    let mut factors = vec![0, 1, 2, 3, 4, 7, 1 << 16, 1 << 31, u32::MAX];
    factors.extend((0..8).map(|_| rng.next_u32()));
    let all: Vec<_> = factors.iter().flat_map(|k| forms.iter().map(move |form| (*k, *form))).collect();
    let p: Vec<_> = all.iter().map(|(_, form)| form.1).collect();
    let k: Vec<_> = all.iter().map(|(k, _)| *k).collect();
    let p = DeviceBuf::from_slice(device, "p", &p).expect("p");
    let k_buf = DeviceBuf::from_slice(device, "k", &k).expect("k");
    let out = DeviceBuf::from_slice(device, "out", &vec![forms[1].1; k.len()]).expect("out");
    let launch = OneKernel::new(device, kernels.mul_small).write(&out).read(&p).read(&k_buf);
    launch.u32(k.len() as u32).run(k.len(), BLOCK).expect(kernels.mul_small);
    let expected: Vec<_> =
        all.iter().map(|(k, form)| form.0.into_group().mul_bigint([u64::from(*k)])).collect();
    assert_points::<P>(device, kernels.mul_small, &out.to_vec().expect("out"), &expected);
}

fn check_addition_chains<P>(
    device: &Device,
    kernels: &GroupKernels,
    forms: &[(Affine<P>, Xyzz<P::BaseField>)],
) where
    P: SWCurveConfig<BaseField: Pod>,
    Affine<P>: Pod,
{
    let n = forms.len();
    let steps = 2 * n + 3; // more than once around
    let points: Vec<_> = forms.iter().map(|form| form.0).collect();
    let start: Vec<_> = forms.iter().map(|form| form.1).collect();
    let sum = |i: usize| (0..steps).fold(points[i].into_group(), |sum, j| sum + points[(i + j) % n]);
    let expected: Vec<_> = (0..n).map(sum).collect();
    let affine_terms = DeviceBuf::from_slice(device, "q", &points).expect("q");
    let terms = DeviceBuf::from_slice(device, "q", &start).expect("q");
    for kernel in [kernels.add_affine_chain, kernels.add_chain] {
        let p = DeviceBuf::from_slice(device, "p", &start).expect("p");
        let launch = OneKernel::new(device, kernel).write(&p);
        let launch =
            if kernel == kernels.add_chain { launch.read(&terms) } else { launch.read(&affine_terms) };
        launch.u32(n as u32).u32(n as u32).u32(steps as u32).run(n, BLOCK).expect(kernel);
        assert_points::<P>(device, kernel, &p.to_vec().expect("p"), &expected);
    }
}

/// Both groups in one test, since the counters of branches are the process's.
#[test]
fn points_are_arkworks_points_and_every_exceptional_branch_is_taken() {
    let seed = test_seed();
    for (module, check) in [
        (&modules::CURVE_OPS_G1, check_group::<ark_bls12_381::g1::Config> as fn(&Device, &GroupKernels, u64)),
        (&modules::CURVE_OPS_G2, check_group::<ark_bls12_381::g2::Config>),
    ] {
        let kernels = if module.name == "curve_ops_g1" { &G1_KERNELS } else { &G2_KERNELS };
        for device in &devices(module) {
            sim::reset_coverage();
            check(device, kernels, seed);
            if device.info().kind == DeviceKind::Sim {
                let counts: BTreeMap<String, u64> = sim::coverage().into_iter().collect();
                let branches: Vec<_> =
                    modules::COVERED.iter().filter(|word| word.starts_with("point_")).collect();
                assert!(branches.len() >= 9, "{branches:?}");
                for branch in branches {
                    assert!(
                        counts.get(*branch).is_some_and(|count| *count > 0),
                        "{branch} in {}",
                        module.name
                    );
                }
            }
        }
    }
}

/// The text of a header that the kernels include.
fn header(name: &str) -> &'static str {
    modules::HEADERS.iter().find(|(header, _)| *header == name).expect("an embedded header").1
}

/// Constants of a header: name, definition in its comment, limbs of 32 bits from the lowest.
fn constants(text: &str) -> Vec<(String, String, Vec<u32>)> {
    let mut found = Vec::new();
    for part in text.split("// ").filter(|part| part.starts_with("FP_") || part.starts_with("FR_")) {
        let (title, body) = part.split_once('\n').expect("a title line");
        let (name, definition) = title.split_once(" = ").expect("name = definition");
        let mut limbs = Vec::new();
        for digits in body.split("0x").skip(1) {
            let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
            let value = u64::from_str_radix(&digits[..end], 16).expect("hexadecimal");
            limbs.push(value as u32);
            if end == 16 {
                limbs.push((value >> 32) as u32);
            }
        }
        assert!(body.contains(name), "the comment of {name} stands above it");
        found.push((name.to_string(), definition.to_string(), limbs));
    }
    found
}

fn limbs32(words: &[u64]) -> Vec<u32> {
    words.iter().flat_map(|word| [*word as u32, (word >> 32) as u32]).collect()
}

/// -m^-1 mod 2^64 by searching bit by bit: no formula shared with what is judged.
fn minus_inverse(low: u64) -> u64 {
    let mut inverse = 0u64;
    for bit in 0..64 {
        if (low.wrapping_mul(inverse) ^ u64::MAX) >> bit & 1 == 1 {
            inverse |= 1 << bit;
        }
    }
    assert_eq!(low.wrapping_mul(inverse), u64::MAX);
    inverse
}

/// What the constants of a field must be, from arkworks' modulus alone.
fn derived<F: PrimeField<BigInt = BigInt<N>>, const N: usize>(
    prefix: &str,
    letter: &str,
    multiples: u64,
) -> Vec<(String, String, Vec<u32>)> {
    let bits = 64 * N as u64;
    let inverse = minus_inverse(F::MODULUS.0[0]);
    let mut all = vec![
        (format!("{prefix}_M0_32"), format!("-{letter}^-1 mod 2^32"), vec![inverse as u32]),
        (format!("{prefix}_M0_64"), format!("-{letter}^-1 mod 2^64"), limbs32(&[inverse])),
    ];
    let mut multiple = BigInt::zero();
    for k in 1..=multiples {
        assert!(!multiple.add_with_carry(&F::MODULUS), "{k} times the modulus fits");
        all.push((format!("{prefix}_MODULUS_X{k}"), format!("{k}*{letter}"), limbs32(&multiple.0)));
    }
    assert!(multiple.add_with_carry(&F::MODULUS), "one more does not fit");
    for (name, exponent) in [("MONT_R", bits), ("MONT_R2", 2 * bits)] {
        let power = F::from(2u64).pow([exponent]).into_bigint();
        all.push((
            format!("{prefix}_{name}"),
            format!("2^{exponent} mod {letter}"),
            limbs32(power.0.as_slice()),
        ));
    }
    all
}

#[test]
fn every_constant_is_derived_again() {
    let mut expected = derived::<Fq, 6>("FP", "p", 9);
    expected.extend(derived::<Fr, 4>("FR", "r", 2));
    assert_eq!(constants(header("consts.cuh")), expected);
}
