//! Circuits to prove: Zcash's own, over the keys of its ceremony, and a synthetic one of any size.

use crate::oracle::random_numbers;
use crate::sapling::{self, KeyError, KeyName};
use ark_bls12_381::{Bls12_381, Fr};
use ark_ff::{Field, UniformRand};
use ark_groth16::{Groth16, ProvingKey};
use ark_relations::gr1cs::{
    ConstraintSynthesizer, ConstraintSystemRef, LinearCombination, SynthesisError, Variable,
};
use bls12_381::Scalar;
use groth16::{ProveError, R1cs};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::RngCore;
use sapling_crypto::circuit::{Output, Spend, ValueCommitmentOpening};
use sapling_crypto::keys::ExpandedSpendingKey;
use sapling_crypto::value::NoteValue;
use sapling_crypto::{Diversifier, PaymentAddress, ProofGenerationKey};
use serde::Serialize;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// Levels of Sapling's tree of notes.
const TREE_DEPTH: usize = 32;

/// A circuit by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CircuitName {
    /// Zcash Sapling's Output: 7 827 constraints, domain 2^13.
    SaplingOutput,
    /// Zcash Sapling's Spend: 98 777 constraints, domain 2^17.
    SaplingSpend,
    /// So many rounds of [`Mimc`], of two constraints each.
    Mimc(u32),
}

impl fmt::Display for CircuitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SaplingOutput => f.write_str("sapling-output"),
            Self::SaplingSpend => f.write_str("sapling-spend"),
            Self::Mimc(rounds) => write!(f, "mimc:{rounds}"),
        }
    }
}

impl FromStr for CircuitName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rounds = |text: &str| text.strip_prefix("mimc:")?.parse().ok().filter(|rounds| *rounds > 0);
        match text {
            "sapling-output" => Ok(Self::SaplingOutput),
            "sapling-spend" => Ok(Self::SaplingSpend),
            _ => rounds(text)
                .map(Self::Mimc)
                .ok_or_else(|| format!("`{text}` is not `sapling-output`, `sapling-spend` or `mimc:ROUNDS`")),
        }
    }
}

/// Why there is nothing to prove.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CircuitError {
    /// No key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The circuit and its key do not become a problem.
    #[error(transparent)]
    Prove(#[from] ProveError),
    /// arkworks made no key.
    #[error("arkworks' setup: {0}")]
    Setup(String),
}

/// A circuit, an assignment that satisfies it, and a key.
#[derive(Debug, Clone)]
pub struct Problem {
    /// Which circuit.
    pub name: CircuitName,
    /// Its constraints.
    pub r1cs: R1cs,
    /// The assignment.
    pub assignment: Vec<Fr>,
    /// The key, with a point for each variable.
    pub key: ProvingKey<Bls12_381>,
    /// Where the key is from.
    pub key_from: &'static str,
}

impl Problem {
    /// Makes the circuit with values from a seed, and its key: Zcash's from its file or the program, or one by arkworks.
    ///
    /// # Errors
    /// [`CircuitError`].
    pub fn new(name: CircuitName, seed: u64, params: Option<&Path>) -> Result<Self, CircuitError> {
        let random = || random_numbers(seed, &name.to_string());
        let (r1cs, assignment) = constraints(name, &mut random())?;
        let ceremony = |key| -> Result<_, CircuitError> {
            let [found] = &sapling::load(&[key], params)?[..] else { unreachable!("one key was asked for") };
            Ok((found.key.expand(&r1cs).map_err(ProveError::from)?, "Zcash's ceremony"))
        };
        let (key, key_from) = match name {
            CircuitName::SaplingOutput => ceremony(KeyName::Output)?,
            CircuitName::SaplingSpend => ceremony(KeyName::Spend)?,
            CircuitName::Mimc(rounds) => {
                let rng = &mut random();
                let circuit = Mimc::random(rounds, rng);
                let key = Groth16::<Bls12_381>::generate_random_parameters_with_reduction(circuit, rng);
                (key.map_err(|error| CircuitError::Setup(error.to_string()))?, "arkworks' setup")
            }
        };
        Ok(Self { name, r1cs, assignment, key, key_from })
    }

    /// The public inputs, the constant left out.
    pub fn inputs(&self) -> &[Fr] {
        &self.assignment[1..self.r1cs.input_count()]
    }
}

/// A circuit's constraints, and an assignment that satisfies them.
///
/// # Errors
/// [`CircuitError::Prove`].
pub fn constraints(name: CircuitName, rng: &mut ChaCha20Rng) -> Result<(R1cs, Vec<Fr>), CircuitError> {
    let recorded = match name {
        CircuitName::SaplingOutput => R1cs::record(sapling_output(rng)),
        CircuitName::SaplingSpend => R1cs::record(sapling_spend(rng)),
        CircuitName::Mimc(rounds) => R1cs::synthesize(Mimc::random(rounds, rng)),
    };
    Ok(recorded.map_err(ProveError::from)?)
}

/// 64 random bytes, for numbers that are reduced from them.
fn wide(rng: &mut ChaCha20Rng) -> [u8; 64] {
    let mut bytes = [0; 64];
    rng.fill_bytes(&mut bytes);
    bytes
}

fn jubjub_scalar(rng: &mut ChaCha20Rng) -> jubjub::Fr {
    jubjub::Fr::from_bytes_wide(&wide(rng))
}

/// A key that can spend, and an address that it receives at. Not every random string is one.
fn keys(rng: &mut ChaCha20Rng) -> (ProofGenerationKey, PaymentAddress) {
    loop {
        let mut seed = [0; 32];
        rng.fill_bytes(&mut seed);
        let Some(expanded) = ExpandedSpendingKey::from_spending_key(&seed) else { continue };
        let key = expanded.proof_generation_key();
        let mut diversifier = [0; 11];
        rng.fill_bytes(&mut diversifier);
        if let Some(address) = key.to_viewing_key().to_payment_address(Diversifier(diversifier)) {
            return (key, address);
        }
    }
}

/// An Output with random values: any values satisfy it.
pub fn sapling_output(rng: &mut ChaCha20Rng) -> Output {
    let (_, address) = keys(rng);
    let randomness = jubjub_scalar(rng);
    let value = NoteValue::from_raw(rng.next_u64() >> 20);
    Output {
        value_commitment_opening: Some(ValueCommitmentOpening { value, randomness }),
        payment_address: Some(address),
        commitment_randomness: Some(jubjub_scalar(rng)),
        esk: Some(jubjub_scalar(rng)),
    }
}

/// A Spend of a note of value zero, for which any path through the tree satisfies the circuit.
pub fn sapling_spend(rng: &mut ChaCha20Rng) -> Spend {
    let (key, address) = keys(rng);
    let randomness = jubjub_scalar(rng);
    let step =
        |rng: &mut ChaCha20Rng| (Scalar::from_bytes_wide(&wide(rng)), rng.next_u32().is_multiple_of(2));
    Spend {
        value_commitment_opening: Some(ValueCommitmentOpening { value: NoteValue::from_raw(0), randomness }),
        proof_generation_key: Some(key),
        payment_address: Some(address),
        commitment_randomness: Some(jubjub_scalar(rng)),
        ar: Some(jubjub_scalar(rng)),
        auth_path: (0..TREE_DEPTH).map(|_| Some(step(rng))).collect(),
        anchor: Some(Scalar::from_bytes_wide(&wide(rng))),
    }
}

/// Rounds of MiMC's Feistel network: (left, right) becomes (right + (left + k)^3, left) with a constant k for each round.
/// Public is what comes out on the left. Every witness value is as good as random.
#[derive(Debug, Clone)]
pub struct Mimc {
    constants: Vec<Fr>,
    left: Fr,
    right: Fr,
}

impl Mimc {
    /// Random constants and values.
    pub fn random(rounds: u32, rng: &mut ChaCha20Rng) -> Self {
        let constants = (0..rounds).map(|_| Fr::rand(rng)).collect();
        Self { constants, left: Fr::rand(rng), right: Fr::rand(rng) }
    }

    fn output(&self) -> Fr {
        let round = |(left, right): (Fr, Fr), constant: &Fr| {
            let sum = left + constant;
            (right + sum.square() * sum, left)
        };
        self.constants.iter().fold((self.left, self.right), round).0
    }
}

impl ConstraintSynthesizer<Fr> for Mimc {
    fn generate_constraints(self, cs: ConstraintSystemRef<Fr>) -> Result<(), SynthesisError> {
        let output = cs.new_input_variable(|| Ok(self.output()))?;
        let (mut left_value, mut right_value) = (self.left, self.right);
        let mut left = cs.new_witness_variable(|| Ok(left_value))?;
        let mut right = cs.new_witness_variable(|| Ok(right_value))?;
        for (index, constant) in self.constants.iter().enumerate() {
            let sum_value = left_value + constant;
            let square_value = sum_value.square();
            let next_value = right_value + square_value * sum_value;
            let sum = || LinearCombination::zero() + left + (*constant, Variable::One);
            // (left + k)^2 = square, square * (left + k) = next - right.
            let square = cs.new_witness_variable(|| Ok(square_value))?;
            cs.enforce_r1cs_constraint(sum, sum, || LinearCombination::from(square))?;
            let is_last = index + 1 == self.constants.len();
            let next = if is_last { output } else { cs.new_witness_variable(|| Ok(next_value))? };
            let difference = || LinearCombination::from(next) + (-Fr::ONE, right);
            cs.enforce_r1cs_constraint(|| LinearCombination::from(square), sum, difference)?;
            (right, left) = (left, next);
            (right_value, left_value) = (left_value, next_value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for name in [CircuitName::SaplingOutput, CircuitName::SaplingSpend, CircuitName::Mimc(511)] {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        for text in ["sapling", "mimc", "mimc:", "mimc:0", "mimc:x", "mimc:-1"] {
            assert!(text.parse::<CircuitName>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_circuit_is_satisfied_and_has_its_published_size() {
        let rng = &mut random_numbers(1, "circuits");
        let mimc = R1cs::synthesize(Mimc::random(15, rng)).expect("it can be synthesized");
        let output = R1cs::record(sapling_output(rng)).expect("it can be recorded");
        let spend = R1cs::record(sapling_spend(rng)).expect("it can be recorded");
        let sizes = [mimc, output, spend].map(|(r1cs, assignment)| {
            assert_eq!(r1cs.first_failing(&assignment), None);
            (r1cs.constraint_count(), r1cs.input_count(), r1cs.variable_count(), r1cs.log_n())
        });
        assert_eq!(sizes, [(30, 2, 33, 5), (7_827, 6, 6 + 7_821, 13), (98_777, 8, 8 + 98_638, 17)]);
    }
}
