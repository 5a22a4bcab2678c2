//! arkworks' interface: where a program says `ark_groth16::Groth16<Bls12_381>`, it says [`Groth16`], and proves on a GPU.
//!
//! Keys and proofs are ark-groth16's own types. The device is the first CUDA device, or the one that
//! [`use_device`](Groth16::use_device) names; there is no falling back to another.
//!
//! ```
//! use ark_bls12_381::Fr;
//! use ark_relations::gr1cs::{ConstraintSynthesizer, ConstraintSystemRef, SynthesisError};
//! use ark_snark::SNARK;
//! use ark_std::rand::SeedableRng;
//! use gpu_core::{Device, sim::SimOptions};
//! use groth16::Groth16;
//! use rand_chacha::ChaCha20Rng;
//!
//! /// I know a square root of a public number.
//! #[derive(Clone)]
//! struct Root(Fr);
//!
//! impl ConstraintSynthesizer<Fr> for Root {
//!     fn generate_constraints(self, cs: ConstraintSystemRef<Fr>) -> Result<(), SynthesisError> {
//!         let square = cs.new_input_variable(|| Ok(self.0 * self.0))?;
//!         let root = cs.new_witness_variable(|| Ok(self.0))?;
//!         cs.enforce_r1cs_constraint(|| root.into(), || root.into(), || square.into())
//!     }
//! }
//!
//! Groth16::use_device(Device::sim(SimOptions::default()));
//! let rng = &mut ChaCha20Rng::seed_from_u64(1); // in earnest, from the system: `from_entropy`
//! let (key, vk) = Groth16::circuit_specific_setup(Root(Fr::from(3)), rng)?;
//! let proof = Groth16::prove(&key, Root(Fr::from(3)), rng)?;
//! assert!(Groth16::verify(&vk, &[Fr::from(9)], &proof)?);
//! # Ok::<(), groth16::ProveError>(())
//! ```

use crate::error::ProveError;
use crate::key::{DeviceKey, Trust};
use crate::plan::ProveConfig;
use crate::prover::{Proof, Prover};
use crate::r1cs::{R1cs, R1csError};
use ark_bls12_381::{Bls12_381, Fr};
use ark_groth16::{PreparedVerifyingKey, ProvingKey, VerifyingKey};
use ark_relations::gr1cs::{ConstraintSynthesizer, SynthesisError};
use ark_snark::{CircuitSpecificSetupSNARK, SNARK};
use ark_std::rand::{CryptoRng, RngCore};
use gpu_core::Device;
use gpu_core::layout::bytes_of;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Keys that stay on the device from one proof to the next.
const KEYS_MAX: usize = 2;

/// Groth16 over BLS12-381, with its proofs made on a device.
#[derive(Debug, Clone, Copy)]
pub struct Groth16;

type Ark = ark_groth16::Groth16<Bls12_381>;

/// What the interface, which names no device, has to keep somewhere.
struct State {
    device: Option<Device>,
    /// The most recently used last.
    provers: Vec<([u8; 32], Prover)>,
}

static STATE: Mutex<State> = Mutex::new(State { device: None, provers: Vec::new() });

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Groth16 {
    /// Makes this the device of all later proofs, and releases the keys on the one before.
    pub fn use_device(device: Device) {
        *state() = State { device: Some(device), provers: Vec::new() };
    }

    /// A prover for a key and constraints: the one that was used before if they are the same to the last byte. The lock is
    /// held while a key is loaded, so that it is loaded once.
    fn prover(key: &ProvingKey<Bls12_381>, r1cs: &R1cs) -> Result<Prover, ProveError> {
        let digest = digest(key, r1cs);
        let mut state = state();
        if let Some(index) = state.provers.iter().position(|(known, _)| *known == digest) {
            let known = state.provers.remove(index);
            state.provers.push(known.clone());
            return Ok(known.1);
        }
        let device = match &state.device {
            Some(device) => device.clone(),
            None => state.device.insert(Device::cuda(0)?).clone(),
        };
        if state.provers.len() == KEYS_MAX {
            state.provers.remove(0);
        }
        // A key of this type was checked when it was read, unless its owner chose otherwise; each proof is verified.
        let key = DeviceKey::new(&device, key, r1cs, Trust::Trusted)?;
        let prover = Prover::with_key(Arc::new(key), &ProveConfig::default())?;
        state.provers.push((digest, prover.clone()));
        Ok(prover)
    }
}

/// Of everything that a proof depends on.
fn digest(key: &ProvingKey<Bls12_381>, r1cs: &R1cs) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    let mut add = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    let vk = &key.vk;
    add(bytes_of(&[vk.alpha_g1, key.beta_g1, key.delta_g1]));
    add(bytes_of(&[vk.beta_g2, vk.gamma_g2, vk.delta_g2]));
    for query in [&vk.gamma_abc_g1, &key.h_query, &key.l_query, &key.a_query, &key.b_g1_query] {
        add(bytes_of(query));
    }
    add(bytes_of(&key.b_g2_query));
    for matrix in [r1cs.a(), r1cs.b(), r1cs.c()] {
        add(bytes_of(&matrix.row_offsets));
        add(bytes_of(&matrix.columns));
        add(bytes_of(&matrix.values));
    }
    add(&(r1cs.input_count() as u64).to_le_bytes());
    hasher.finalize().into()
}

fn refused(error: SynthesisError) -> ProveError {
    R1csError::from(error).into()
}

impl SNARK<Fr> for Groth16 {
    type ProvingKey = ProvingKey<Bls12_381>;
    type VerifyingKey = VerifyingKey<Bls12_381>;
    type Proof = Proof;
    type ProcessedVerifyingKey = PreparedVerifyingKey<Bls12_381>;
    type Error = ProveError;

    fn circuit_specific_setup<C: ConstraintSynthesizer<Fr>, R: RngCore + CryptoRng>(
        circuit: C,
        rng: &mut R,
    ) -> Result<(Self::ProvingKey, Self::VerifyingKey), ProveError> {
        let key = Ark::generate_random_parameters_with_reduction(circuit, rng).map_err(refused)?;
        let vk = key.vk.clone();
        Ok((key, vk))
    }

    fn prove<C: ConstraintSynthesizer<Fr>, R: RngCore + CryptoRng>(
        key: &Self::ProvingKey,
        circuit: C,
        rng: &mut R,
    ) -> Result<Proof, ProveError> {
        let (r1cs, assignment) = R1cs::synthesize(circuit)?;
        Groth16::prover(key, &r1cs)?.prove(&assignment, rng)
    }

    fn process_vk(vk: &Self::VerifyingKey) -> Result<Self::ProcessedVerifyingKey, ProveError> {
        Ok(ark_groth16::prepare_verifying_key(vk))
    }

    /// Unlike arkworks, refuses a wrong number of inputs.
    fn verify_with_processed_vk(
        vk: &Self::ProcessedVerifyingKey,
        inputs: &[Fr],
        proof: &Proof,
    ) -> Result<bool, ProveError> {
        let expected = vk.vk.gamma_abc_g1.len().saturating_sub(1);
        if inputs.len() != expected {
            return Err(ProveError::LengthMismatch { expected, found: inputs.len() });
        }
        Ark::verify_proof(vk, proof, inputs).map_err(refused)
    }
}

impl CircuitSpecificSetupSNARK<Fr> for Groth16 {}
