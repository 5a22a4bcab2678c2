//! arkworks' interface, used as a program that came from ark-groth16 uses it.

mod common;

use ark_bls12_381::{Bls12_381, Fr, G1Affine};
use ark_ec::{AffineRepr, CurveGroup};
use ark_ff::{AdditiveGroup, Field};
use ark_snark::{CircuitSpecificSetupSNARK, SNARK};
use common::{Circuit, seeded};
use gpu_core::Device;
use gpu_core::sim::{SimBackend, SimOptions};
use groth16::{Groth16, ProveError, R1cs};

/// What any implementation of the trait has to do.
fn round_trip<S>(circuit: &Circuit, rng: &mut rand_chacha::ChaCha20Rng)
where
    S: CircuitSpecificSetupSNARK<Fr>,
    S::Error: std::fmt::Debug,
{
    let (key, vk) = S::setup(circuit.clone(), rng).expect("a key");
    let proof = S::prove(&key, circuit.clone(), rng).expect("a proof");
    let inputs = &circuit.assignment[1..circuit.input_count];
    assert!(S::verify(&vk, inputs, &proof).expect("a verdict"));
    let mut wrong = inputs.to_vec();
    wrong[0] += Fr::ONE;
    assert!(!S::verify(&vk, &wrong, &proof).expect("a verdict"));
}

/// One test, for the interface has one device for the whole program.
#[test]
fn one_type_name_is_all_that_changes() {
    let rng = &mut seeded("one_type_name_is_all_that_changes");
    let backend = SimBackend::new(SimOptions::default());
    let sim = backend.handle();
    Groth16::use_device(Device::from_backend(Box::new(backend)));
    let circuits: Vec<_> = (0..3).map(|index| Circuit::random(rng, 8 + 10 * index, 3, 9)).collect();
    for circuit in &circuits {
        round_trip::<ark_groth16::Groth16<Bls12_381>>(circuit, rng);
        round_trip::<Groth16>(circuit, rng);
    }

    // Each implementation verifies the other's proofs: keys and proofs are the same types.
    let circuit = &circuits[0];
    let inputs = &circuit.assignment[1..circuit.input_count];
    let (key, vk) = ark_groth16::Groth16::<Bls12_381>::setup(circuit.clone(), rng).expect("a key");
    let ours = Groth16::prove(&key, circuit.clone(), rng).expect("a proof");
    assert!(ark_groth16::Groth16::<Bls12_381>::verify(&vk, inputs, &ours).expect("a verdict"));

    // The key stays on the device: another proof with it takes no more memory.
    let before = sim.stats().device_bytes;
    Groth16::prove(&key, circuit.clone(), rng).expect("a proof");
    assert_eq!(sim.stats().device_bytes, before);

    // One base changed is another key, and its proofs do not verify: no proof is handed out.
    let mut changed = key.clone();
    let private = &circuit.assignment[circuit.input_count..];
    let used = private.iter().position(|value| *value != Fr::ZERO).expect("half of them are random");
    changed.l_query[used] = (changed.l_query[used] + G1Affine::generator()).into_affine();
    let refused = Groth16::prove(&changed, circuit.clone(), rng);
    assert!(matches!(refused, Err(ProveError::Invalid)), "{refused:?}");
    Groth16::prove(&key, circuit.clone(), rng).expect("the old key is not confused with it");

    let with_wrong = |variable: usize| {
        let mut unsatisfied = circuit.clone();
        unsatisfied.assignment[variable] += Fr::ONE;
        unsatisfied
    };
    let fails = |circuit: &Circuit| {
        let (r1cs, assignment) = R1cs::synthesize(circuit.clone()).expect("it can be synthesized");
        r1cs.first_failing(&assignment).is_some()
    };
    let mut wrong = (1..circuit.assignment.len()).map(with_wrong);
    let unsatisfied = wrong.find(fails).expect("some variable matters");
    let refused = Groth16::prove(&key, unsatisfied, rng);
    assert!(matches!(refused, Err(ProveError::Unsatisfied { .. })), "{refused:?}");
    let refused = Groth16::verify(&vk, &inputs[1..], &ours);
    assert!(matches!(refused, Err(ProveError::LengthMismatch { expected: 2, found: 1 })), "{refused:?}");

    // Another device: what the keys took on the first one is released.
    Groth16::use_device(Device::sim(SimOptions::default()));
    assert_eq!(sim.stats().device_bytes, 0);
}
