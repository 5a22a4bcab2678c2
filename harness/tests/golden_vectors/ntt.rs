//! Transforms: by the device in both orders and with narrow passes, and by arkworks' domain.

use crate::files::{File, Test, place};
use crate::numbers::{VectorField, elements};
use crate::support::devices;
use ark_bls12_381::Fr;
use ark_ff::Field;
use ark_poly::EvaluationDomain;
use gpu_core::Device;
use harness::oracle::{arkworks_domain, bit_reversed};
use ntt_gpu::{BitReversed, Direction, Domain, Natural, NttConfig, NttDomain, NttError, Shift};
use serde::Deserialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Root {
    Arkworks,
    Snarkjs,
    Custom,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Way {
    Forward,
    Inverse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Form {
    Canonical,
    Montgomery,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    domain: Root,
    log_n: u32,
    omega: String,
    direction: Way,
    shift: Option<String>,
    form: Form,
    values: Vec<String>,
}

impl Input {
    fn domain(&self) -> Result<Domain, NttError> {
        match self.domain {
            Root::Arkworks => Domain::arkworks(self.log_n),
            Root::Snarkjs => Domain::snarkjs(self.log_n),
            Root::Custom => Domain::with_root(self.log_n, Fr::canonical(&self.omega)),
        }
    }

    fn shift(&self) -> Option<Fr> {
        self.shift.as_ref().map(Fr::canonical)
    }

    fn values(&self) -> Vec<Fr> {
        match self.form {
            Form::Canonical => elements(&self.values),
            Form::Montgomery => self.values.iter().map(Fr::from_words).collect(),
        }
    }

    /// The transform on a device, from natural order to natural order; and once more from reversed to reversed order.
    fn transform(&self, device: &Device, config: NttConfig) -> Result<[Vec<Fr>; 2], NttError> {
        let domain = self.domain()?;
        assert_eq!(domain.omega(), Fr::canonical(&self.omega), "the domain's root is the file's");
        let shift = self.shift().map(|shift| Shift::new(&domain, shift)).transpose()?;
        let direction = if self.direction == Way::Forward { Direction::Forward } else { Direction::Inverse };
        let ntt = NttDomain::with_config(device, domain, config)?;
        let natural = ntt.upload::<Natural>(&self.values())?;
        let natural = ntt.reorder(ntt.transform(direction, shift, natural)?)?.to_vec()?;
        let reversed = ntt.upload::<BitReversed>(&bit_reversed(&self.values()))?;
        let reversed = ntt.reorder(ntt.transform(direction, shift, reversed)?)?.to_vec()?;
        Ok([natural, bit_reversed(&reversed)])
    }
}

type Case = Test<Input, Vec<String>>;

/// Runs a file.
pub fn run(text: &str) {
    let file = File::<Input, Vec<String>>::read(text);
    let mut tally = file.tally("arkworks");
    for test in &file.tests {
        if test.is_valid() {
            by_arkworks(test);
        }
        tally.mark(test);
    }
    tally.finish();
    for device in devices() {
        let mut tally = file.tally(&device.info().id);
        for test in &file.tests {
            on_device(&device, test);
            tally.mark(test);
        }
        tally.finish();
    }
}

fn by_arkworks(test: &Case) {
    let input = &test.input;
    let omega = Fr::canonical(&input.omega);
    assert_eq!(omega.pow([1u64 << input.log_n]), Fr::ONE, "{}", place(test, "arkworks"));
    let domain = arkworks_domain(input.log_n, omega, input.shift().unwrap_or(Fr::ONE));
    let found = match input.direction {
        Way::Forward => domain.fft(&input.values()),
        Way::Inverse => domain.ifft(&input.values()),
    };
    assert_eq!(found, elements::<Fr>(test.output()), "{}", place(test, "arkworks"));
}

fn on_device(device: &Device, test: &Case) {
    let place = place(test, &device.info().id);
    let wide = NttConfig::default();
    let narrow = NttConfig { pass_bits_max: 2, table_bits_max: 3 };
    for config in [wide, narrow] {
        let found = test.input.transform(device, config);
        if test.is_valid() {
            let expected = elements::<Fr>(test.output());
            let found = found.unwrap_or_else(|error| panic!("{place}: {error}"));
            assert_eq!(found, [expected.clone(), expected], "{place}, {config:?}");
            continue;
        }
        let (error, index) = match found.expect_err(&place) {
            NttError::NotARoot { log_n } => {
                assert_eq!(log_n, test.input.log_n);
                ("not_a_root", None)
            }
            NttError::ShiftIsZero => ("shift_is_zero", None),
            NttError::ShiftInDomain { .. } => ("shift_in_domain", None),
            NttError::NotReduced { index } => ("not_reduced", Some(index)),
            NttError::LengthMismatch { .. } => ("length_mismatch", None),
            NttError::Empty => ("empty", None),
            NttError::DomainTooLarge { .. } => ("domain_too_large", None),
            other => panic!("{place}: {other}"),
        };
        assert_eq!((error, index), test.refusal(), "{place}");
    }
}
