//! What the tests share: devices, random circuits, keys for them, and seeds. Each test takes a part of it.
#![allow(dead_code)]

use ark_bls12_381::{Bls12_381, Fr};
use ark_ff::{AdditiveGroup, Field, UniformRand};
use ark_groth16::{Groth16, ProvingKey};
use ark_relations::gr1cs::{
    ConstraintSynthesizer, ConstraintSystemRef, LinearCombination, SynthesisError, Variable,
};
use ark_std::rand::{Rng, SeedableRng};
use gpu_core::sim::SimOptions;
use gpu_core::{Device, DeviceKind};
use rand_chacha::ChaCha20Rng;
use std::sync::OnceLock;

/// Random numbers of a test. The seed is printed, and taken back from TEST_SEED.
pub fn seeded(name: &str) -> ChaCha20Rng {
    let seed = match std::env::var("TEST_SEED") {
        Ok(text) => text.parse().expect("TEST_SEED is a number"),
        Err(_) => 20_260_101,
    };
    println!("{name}: TEST_SEED={seed}");
    ChaCha20Rng::seed_from_u64(seed)
}

/// A simulated device of the test's own, and every CUDA device, opened once. Says so where there is none, and fails there
/// if `REQUIRE_GPU` is 1.
pub fn devices() -> Vec<Device> {
    static DEVICES: OnceLock<Vec<Device>> = OnceLock::new();
    let cuda = DEVICES.get_or_init(|| {
        let mut devices = Device::all(SimOptions::default());
        devices.retain(|device| device.info().kind == DeviceKind::Cuda);
        if devices.is_empty() {
            let required = std::env::var("REQUIRE_GPU").is_ok_and(|value| value == "1");
            assert!(!required, "REQUIRE_GPU is 1, and there is no CUDA device");
            println!("skipped: no CUDA device");
        }
        devices
    });
    std::iter::once(Device::sim(SimOptions::default())).chain(cuda.iter().cloned()).collect()
}

/// Terms of a linear combination: coefficient, and variable by its place in the assignment.
pub type Terms = Vec<(Fr, usize)>;

/// A circuit given by its constraints and its whole assignment.
#[derive(Debug, Clone)]
pub struct Circuit {
    /// Public inputs, the constant among them.
    pub input_count: usize,
    /// The assignment; the first value is 1.
    pub assignment: Vec<Fr>,
    /// Rows of A, B and C.
    pub constraints: Vec<[Terms; 3]>,
}

impl Circuit {
    /// Random sparse constraints over a random assignment of which half is 0 and 1, as in real circuits. All but the last
    /// private variable can occur, if there are several.
    pub fn random(rng: &mut impl Rng, constraints: usize, inputs: usize, witnesses: usize) -> Self {
        let variables = inputs + witnesses;
        let value = |rng: &mut _| match Rng::gen_range(rng, 0..4) {
            0 => Fr::ZERO,
            1 => Fr::ONE,
            _ => Fr::rand(rng),
        };
        let mut assignment: Vec<_> = (0..variables).map(|_| value(rng)).collect();
        assignment[0] = Fr::ONE;
        let used = if witnesses > 1 { variables - 1 } else { variables };
        let terms = |rng: &mut _| -> Terms {
            let count = Rng::gen_range(rng, 0..4);
            let coefficient = |rng: &mut _| match Rng::gen_range(rng, 0..3) {
                0 => Fr::ONE,
                1 => -Fr::ONE,
                _ => Fr::rand(rng),
            };
            (0..count).map(|_| (coefficient(rng), Rng::gen_range(rng, 0..used))).collect()
        };
        let at = |terms: &Terms| terms.iter().map(|(value, index)| *value * assignment[*index]).sum::<Fr>();
        let constraint = |_| {
            let (a, b, mut c) = (terms(rng), terms(rng), terms(rng));
            let missing = at(&a) * at(&b) - at(&c);
            c.push((missing, 0));
            [a, b, c]
        };
        let constraints = (0..constraints).map(constraint).collect();
        Self { input_count: inputs, assignment, constraints }
    }

    /// A key for it, from arkworks.
    pub fn key(&self, rng: &mut ChaCha20Rng) -> ProvingKey<Bls12_381> {
        Groth16::<Bls12_381>::generate_random_parameters_with_reduction(self.clone(), rng).expect("a key")
    }
}

impl ConstraintSynthesizer<Fr> for Circuit {
    fn generate_constraints(self, cs: ConstraintSystemRef<Fr>) -> Result<(), SynthesisError> {
        let mut variables = vec![Variable::One];
        for (index, value) in self.assignment.iter().enumerate().skip(1) {
            variables.push(match index < self.input_count {
                true => cs.new_input_variable(|| Ok(*value))?,
                false => cs.new_witness_variable(|| Ok(*value))?,
            });
        }
        let combine = |terms: &Terms| {
            terms
                .iter()
                .fold(LinearCombination::zero(), |sum, (value, index)| sum + (*value, variables[*index]))
        };
        for [a, b, c] in &self.constraints {
            cs.enforce_r1cs_constraint(|| combine(a), || combine(b), || combine(c))?;
        }
        Ok(())
    }
}
