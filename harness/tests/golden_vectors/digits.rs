//! Signed digits: the recoding kernels for both forms of a scalar.

use crate::common::{BLOCK, OneKernel};
use crate::files::{File, Test, place};
use crate::numbers::integer;
use crate::support::devices;
use ark_bls12_381::{Fr, G1Affine, G1Projective};
use ark_ec::AffineRepr;
use ark_ff::{BigInt, Field, PrimeField};
use gpu_core::{Device, DeviceBuf};
use msm_gpu::{Bases, Msm, MsmConfig, MsmError, Scalar};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Bit 31 of a digit: it is subtracted.
const SIGN_BIT: u32 = 1 << 31;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    window_bits: u32,
    scalar: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Output {
    is_one: bool,
    /// Least significant first.
    digits: Vec<i32>,
}

type Case = Test<Input, Output>;

/// A digit as the kernels write it.
fn word(digit: i32) -> u32 {
    digit.unsigned_abs() | if digit < 0 { SIGN_BIT } else { 0 }
}

/// Windows that cover 256 bits.
pub fn window_count(window_bits: u32) -> u32 {
    256u32.div_ceil(window_bits)
}

/// Digits of canonical scalars, on a device: one row a window, and one that marks ones.
pub fn recode(device: &Device, scalars: &[BigInt<4>], window_bits: u32) -> DeviceBuf<u32> {
    launch(device, "msm_recode_digits", scalars, window_bits)
}

fn launch<S: Scalar>(
    device: &Device,
    kernel: &'static str,
    scalars: &[S],
    window_bits: u32,
) -> DeviceBuf<u32> {
    let windows = window_count(window_bits);
    let poison = vec![u32::MAX; scalars.len() * (windows as usize + 1)];
    let digits = DeviceBuf::from_slice(device, "digits", &poison).expect("digits");
    let scalars_buf = DeviceBuf::from_slice(device, "scalars", scalars).expect("scalars");
    let launch = OneKernel::new(device, kernel).write(&digits).read(&scalars_buf);
    let numbers = [scalars.len() as u32, window_bits, windows, windows];
    numbers.into_iter().fold(launch, OneKernel::u32).run(scalars.len(), BLOCK).expect(kernel);
    digits
}

/// Runs a file.
pub fn run(text: &str) {
    let file = File::<Input, Output>::read(text);
    by_arkworks(&file);
    for device in devices() {
        device.load(&[&msm_gpu::modules::MSM_DIGITS]).expect("the module loads");
        let mut tally = file.tally(&device.info().id);
        let mut by_width = BTreeMap::<u32, Vec<&Case>>::new();
        for test in file.tests.iter().filter(|test| test.is_valid()) {
            by_width.entry(test.input.window_bits).or_default().push(test);
        }
        for (window_bits, tests) in by_width {
            check(&device, window_bits, &tests);
            tests.into_iter().for_each(|test| tally.mark(test));
        }
        for test in file.tests.iter().filter(|test| !test.is_valid()) {
            refused(&device, test);
            tally.mark(test);
        }
        tally.finish();
    }
}

fn check(device: &Device, window_bits: u32, tests: &[&Case]) {
    let canonical: Vec<BigInt<4>> = tests.iter().map(|test| integer(&test.input.scalar)).collect();
    let montgomery: Vec<Fr> =
        canonical.iter().map(|scalar| Fr::from_bigint(*scalar).expect("below r")).collect();
    let found = [
        ("msm_recode_digits", recode(device, &canonical, window_bits)),
        ("msm_recode_digits_mont", launch(device, "msm_recode_digits_mont", &montgomery, window_bits)),
    ];
    for (kernel, digits) in found {
        let digits = digits.to_vec().expect("digits");
        for (index, test) in tests.iter().enumerate() {
            let column: Vec<u32> = digits.iter().skip(index).step_by(tests.len()).copied().collect();
            let mut expected: Vec<u32> = test.output().digits.iter().map(|digit| word(*digit)).collect();
            expected.push(test.output().is_one.into());
            assert_eq!(column, expected, "{kernel}, {}", place(test, &device.info().id));
        }
    }
}

/// A scalar that is not below r never gets to a device.
fn refused(device: &Device, test: &Case) {
    let place = place(test, &device.info().id);
    assert_eq!(test.refusal(), ("not_reduced", None), "{place}");
    let scalar = integer::<4>(&test.input.scalar);
    assert!(!scalar.is_reduced(), "{place}");
    let bases = Bases::<G1Projective>::new(device, &[G1Affine::generator()]).expect("bases");
    let config = MsmConfig { window_bits: Some(test.input.window_bits), ..MsmConfig::default() };
    let mut msm = Msm::<G1Projective, BigInt<4>>::new(&bases, &config).expect("a plan");
    let error = msm.run(&[scalar]).expect_err("it is not reduced");
    assert!(matches!(error, MsmError::ScalarNotReduced { index: 0 }), "{place}: {error}");
}

/// Digits times their weights add up to the scalar, in arkworks' field.
fn by_arkworks(file: &File<Input, Output>) {
    let mut tally = file.tally("arkworks");
    for test in &file.tests {
        let scalar = Fr::from_bigint(integer(&test.input.scalar));
        assert_eq!(scalar.is_some(), test.is_valid(), "{}", place(test, "arkworks"));
        if let Some(scalar) = scalar {
            let Output { is_one, digits } = test.output();
            assert_eq!(digits.len(), window_count(test.input.window_bits) as usize);
            let range = Fr::from(1u64 << test.input.window_bits);
            let sum = digits.iter().rev().fold(Fr::from(0u64), |sum, digit| sum * range + Fr::from(*digit));
            assert_eq!(sum + Fr::from(u64::from(*is_one)), scalar, "{}", place(test, "arkworks"));
            assert_eq!(*is_one, scalar == Fr::ONE, "{}", place(test, "arkworks"));
        }
        tally.mark(test);
    }
    tally.finish();
}
