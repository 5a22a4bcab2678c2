//! Fields: each operation's kernel, and arkworks.

use crate::common::map;
use crate::files::{File, Test, place};
use crate::numbers::{VectorField, bytes};
use crate::support::devices;
use ark_bls12_381::{Fq, Fq2, Fr};
use ark_ff::{BigInt, PrimeField};
use gpu_core::{Device, modules};
use serde::Deserialize;

/// An element in both forms.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Both<E> {
    canonical: E,
    montgomery: E,
}

impl<E> Both<E> {
    /// The element, whose forms agree.
    fn element<F: VectorField<Json = E>>(&self) -> F {
        let element = F::canonical(&self.canonical);
        assert_eq!(element, F::from_words(&self.montgomery), "both forms are of one element");
        element
    }
}

#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
enum Input<E> {
    Add { a: Both<E>, b: Both<E> },
    Sub { a: Both<E>, b: Both<E> },
    Mul { a: Both<E>, b: Both<E> },
    Sqr { a: Both<E> },
    Neg { a: Both<E> },
    Inv { a: Both<E> },
    Reduce { words: E },
}

type Case<E> = Test<Input<E>, Both<E>>;

/// A kernel, and rows of its output.
type Kernel = (&'static str, usize);

/// A kernel that takes any words, and arkworks' way to reduce them.
type Reduction<F> = (Kernel, fn(&<F as VectorField>::Json) -> F);

/// Chooses the cases of an operation: one or two operands.
type Pick<'p, F> = &'p dyn Fn(&Input<<F as VectorField>::Json>) -> Option<(F, F)>;

/// A field with its kernels.
pub trait FieldKernels: VectorField {
    const ADD: Kernel;
    const SUB: Kernel;
    const MUL: Kernel;
    const SQR: Kernel;
    const NEG: Kernel;
    /// The kernel that inverts, where the field has one. Zero gives zero.
    const INVERSE: Option<Kernel> = None;
    /// The kernel that takes any words, and what arkworks makes of them.
    const REDUCE: Option<Reduction<Self>> = None;
    /// The element whose words are the integer one: a Montgomery product with it gives canonical words.
    const WORDS_ONE: Option<Self> = None;
}

impl FieldKernels for Fq {
    const ADD: Kernel = ("fp_add", 1);
    const SUB: Kernel = ("fp_sub", 1);
    const MUL: Kernel = ("fp_mul", 1);
    const SQR: Kernel = ("fp_sqr", 1);
    const NEG: Kernel = ("fp_neg", 1);
    const INVERSE: Option<Kernel> = Some(("fp_inverse", 1));
    const WORDS_ONE: Option<Self> = Some(Fq::new_unchecked(BigInt::one()));
}

impl FieldKernels for Fr {
    const ADD: Kernel = ("fr_add", 1);
    const SUB: Kernel = ("fr_sub", 1);
    const MUL: Kernel = ("fr_mul", 2);
    const SQR: Kernel = ("fr_sqr", 1);
    const NEG: Kernel = ("fr_neg", 1);
    const REDUCE: Option<Reduction<Self>> =
        Some((("fr_to_mont", 1), |words| Fr::from_be_bytes_mod_order(&bytes(words))));
    const WORDS_ONE: Option<Self> = Some(Fr::new_unchecked(BigInt::one()));
}

impl FieldKernels for Fq2 {
    const ADD: Kernel = ("fp2_add", 1);
    const SUB: Kernel = ("fp2_sub", 1);
    const MUL: Kernel = ("fp2_mul", 2);
    const SQR: Kernel = ("fp2_sqr", 2);
    const NEG: Kernel = ("fp2_neg", 1);
    const INVERSE: Option<Kernel> = Some(("fp2_inverse", 1));
}

/// Shows that a kernel makes `expected` of the operands, in each row of its output.
fn check<F: FieldKernels>(
    device: &Device,
    (kernel, rows): Kernel,
    operands: &[&[F]],
    expected: &[(String, F)],
) {
    assert!(!expected.is_empty(), "{kernel} has cases");
    let got = map(device, kernel, operands, rows, F::ZERO);
    for (row, got) in got.chunks(expected.len()).enumerate() {
        for (got, (what, expected)) in got.iter().zip(expected) {
            assert_eq!(got, expected, "{kernel}, row {row}, {what}");
        }
    }
}

/// Cases of one operation on one device: their operands, and what comes out.
struct Operation<F> {
    operands: [Vec<F>; 2],
    expected: Vec<(String, F)>,
}

/// The cases that `pick` knows.
fn collect<'t, F: FieldKernels>(
    tests: &'t [Case<F::Json>],
    device: &str,
    pick: impl Fn(&'t Input<F::Json>) -> Option<(F, F)>,
) -> (Operation<F>, Vec<&'t Case<F::Json>>) {
    let mut found = Operation { operands: [Vec::new(), Vec::new()], expected: Vec::new() };
    let mut cases = Vec::new();
    for test in tests.iter().filter(|test| test.is_valid()) {
        if let Some((a, b)) = pick(&test.input) {
            found.operands[0].push(a);
            found.operands[1].push(b);
            found.expected.push((place(test, device), test.output().element()));
            cases.push(test);
        }
    }
    (found, cases)
}

/// Runs a file.
pub fn run<F: FieldKernels>(text: &str) {
    let file = File::<Input<F::Json>, Both<F::Json>>::read(text);
    by_arkworks::<F>(&file);
    for device in devices() {
        device.load(&[&modules::FIELD_OPS]).expect("the module loads");
        on_device::<F>(&device, &file);
    }
}

fn on_device<F: FieldKernels>(device: &Device, file: &File<Input<F::Json>, Both<F::Json>>) {
    let id = &device.info().id;
    let mut tally = file.tally(id);
    let mut run = |kernel: Kernel, count: usize, pick: Pick<'_, F>| {
        let (Operation { operands: [a, b], expected }, cases) = collect::<F>(&file.tests, id, pick);
        let operands = [&a[..], &b[..]];
        check(device, kernel, &operands[..count], &expected);
        cases.into_iter().for_each(|test| tally.mark(test));
    };
    let both = |a: &Both<F::Json>, b: &Both<F::Json>| Some((a.element(), b.element()));
    let one = |a: &Both<F::Json>| Some((a.element(), F::ZERO));
    run(F::ADD, 2, &|input| if let Input::Add { a, b } = input { both(a, b) } else { None });
    run(F::SUB, 2, &|input| if let Input::Sub { a, b } = input { both(a, b) } else { None });
    run(F::MUL, 2, &|input| if let Input::Mul { a, b } = input { both(a, b) } else { None });
    run(F::SQR, 1, &|input| if let Input::Sqr { a } = input { one(a) } else { None });
    run(F::NEG, 1, &|input| if let Input::Neg { a } = input { one(a) } else { None });
    if let Some((kernel, _)) = F::REDUCE {
        let words = |words: &F::Json| Some((F::from_words(words), F::ZERO));
        run(kernel, 1, &|input| if let Input::Reduce { words: w } = input { words(w) } else { None });
    }
    // By the kernel, where there is one; and the product with the inverse is one. What has no inverse is zero.
    let (mut elements, mut inverses, mut by_kernel) = (Vec::new(), Vec::new(), Vec::new());
    let mut without = Vec::new();
    for test in &file.tests {
        let Input::Inv { a } = &test.input else { continue };
        tally.mark(test);
        match test.is_valid() {
            true => {
                elements.push(a.element::<F>());
                inverses.push(test.output().element::<F>());
                by_kernel.push((place(test, id), test.output().element()));
            }
            false => without.push((place(test, id), a.element::<F>())),
        }
    }
    assert!(without.iter().all(|(_, element)| *element == F::ZERO), "zero alone has no inverse");
    if let Some(kernel) = F::INVERSE {
        check(device, kernel, &[&elements], &by_kernel);
        let zeros = vec![F::ZERO; without.len()];
        check(device, kernel, &[&zeros], &without);
    }
    let ones = vec![("an element times its inverse".to_string(), F::ONE); elements.len()];
    check(device, F::MUL, &[&elements, &inverses], &ones);
    // Out of Montgomery form, on the device.
    if let Some(words_one) = F::WORDS_ONE {
        let expected: Vec<_> =
            outputs(file).map(|(place, both)| (place, F::from_words(&both.canonical))).collect();
        let words: Vec<F> = outputs(file).map(|(_, both)| F::from_words(&both.montgomery)).collect();
        check(device, F::MUL, &[&words, &vec![words_one; words.len()]], &expected);
    }
    tally.finish();
}

/// All outputs of a file.
fn outputs<E>(file: &File<Input<E>, Both<E>>) -> impl Iterator<Item = (String, &Both<E>)> {
    file.tests.iter().filter(|test| test.is_valid()).map(|test| (place(test, "the output"), test.output()))
}

fn by_arkworks<F: FieldKernels>(file: &File<Input<F::Json>, Both<F::Json>>) {
    let mut tally = file.tally("arkworks");
    for test in &file.tests {
        let element = |both: &Both<F::Json>| both.element::<F>();
        let found = match &test.input {
            Input::Add { a, b } => Some(element(a) + element(b)),
            Input::Sub { a, b } => Some(element(a) - element(b)),
            Input::Mul { a, b } => Some(element(a) * element(b)),
            Input::Sqr { a } => Some(element(a).square()),
            Input::Neg { a } => Some(-element(a)),
            Input::Inv { a } => element(a).inverse(),
            Input::Reduce { words } => F::REDUCE.map(|(_, reduce)| reduce(words)),
        };
        let place = place(test, "arkworks");
        match found {
            Some(found) => assert_eq!(found, element(test.output()), "{place}"),
            None => assert_eq!(test.refusal(), ("no_inverse", None), "{place}"),
        }
        tally.mark(test);
    }
    tally.finish();
}
