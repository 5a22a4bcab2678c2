//! Proofs of random circuits are arkworks' own, byte for byte, on every device.

mod common;

use ark_bls12_381::{Bls12_381, Fr, G1Affine};
use ark_ec::AffineRepr;
use ark_ff::{AdditiveGroup, BigInt, BigInteger, Field, PrimeField, UniformRand};
use ark_groth16::{Groth16, ProvingKey};
use ark_serialize::CanonicalSerialize;
use common::{Circuit, devices, seeded};
use gpu_core::{Device, sim::SimOptions};
use groth16::{KeyError, ProveError, Prover, R1cs};

fn bytes(proof: &groth16::Proof) -> Vec<u8> {
    let mut bytes = Vec::new();
    proof.serialize_compressed(&mut bytes).expect("a proof has bytes");
    assert_eq!(bytes.len(), 192);
    bytes
}

fn arkworks(circuit: &Circuit, key: &ProvingKey<Bls12_381>, r: Fr, s: Fr) -> Vec<u8> {
    let proof = Groth16::<Bls12_381>::create_proof_with_reduction(circuit.clone(), key, r, s);
    bytes(&proof.expect("arkworks proves"))
}

fn prover(device: &Device, circuit: &Circuit, key: &ProvingKey<Bls12_381>) -> (Prover, Vec<Fr>) {
    let (r1cs, assignment) = R1cs::synthesize(circuit.clone()).expect("it can be synthesized");
    assert_eq!(r1cs.first_failing(&assignment), None, "the circuit is satisfied");
    (Prover::new(device, key, &r1cs).expect("a prover"), assignment)
}

/// Same bytes on each device, for blinding numbers at random, and for 0 where both provers take short cuts. Each proof is
/// verified before it is handed out.
fn assert_equal_proofs(name: &str, circuit: &Circuit, rng: &mut rand_chacha::ChaCha20Rng) {
    let key = circuit.key(rng);
    let (r, s) = (Fr::rand(rng), Fr::rand(rng));
    let cases = [(r, s), (Fr::ZERO, s), (r, Fr::ZERO)];
    let cases = cases.map(|(r, s)| (r, s, arkworks(circuit, &key, r, s)));
    for device in devices() {
        let name = format!("{name} on {}", device.info().id);
        let (prover, assignment) = prover(&device, circuit, &key);
        for (r, s, expected) in &cases {
            let proof = prover.prove_with(&assignment, *r, *s);
            let proof = proof.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(bytes(&proof), *expected, "{name}");
        }
    }
}

#[test]
fn small_shapes() {
    let rng = &mut seeded("small_shapes");
    // Constraints, inputs with the constant, private variables.
    let shapes = [
        (1, 1, 1), // no public input
        (1, 2, 1),
        (2, 2, 2),
        (3, 4, 0), // no private variable: an empty product
        (0, 1, 1), // no constraint: the domain has one value
        (0, 1, 0), // nothing at all
        (1, 5, 3), // most rows carry inputs
        (6, 2, 9), // fills a domain of 8
    ];
    for (constraints, inputs, witnesses) in shapes {
        let circuit = Circuit::random(rng, constraints, inputs, witnesses);
        assert_equal_proofs(&format!("{constraints}, {inputs}, {witnesses}"), &circuit, rng);
    }
}

#[test]
fn both_sides_of_a_domain_boundary() {
    let rng = &mut seeded("both_sides_of_a_domain_boundary");
    // Rows of the public inputs come on top of the constraints. 2^12 at full length, the others between with few variables.
    for log_n in [2, 3, 4, 6, 8, 12] {
        for (rows, log_n) in [((1 << log_n) - 1, log_n), (1 << log_n, log_n), ((1 << log_n) + 1, log_n + 1)] {
            let inputs = 3.min(rows - 1);
            let circuit = Circuit::random(rng, rows - inputs, inputs, 40);
            let (r1cs, _) = R1cs::synthesize(circuit.clone()).expect("it can be synthesized");
            assert_eq!(r1cs.log_n(), log_n, "{rows} rows");
            assert_equal_proofs(&format!("{rows} rows"), &circuit, rng);
        }
    }
}

#[test]
fn many_constraints_over_many_variables() {
    let rng = &mut seeded("many_constraints_over_many_variables");
    for (constraints, inputs, witnesses) in [(256, 7, 300), (1 << 12, 100, 4000)] {
        let circuit = Circuit::random(rng, constraints, inputs, witnesses);
        assert_equal_proofs(&format!("{constraints} constraints"), &circuit, rng);
    }
}

#[test]
fn linear_constraints_only() {
    let rng = &mut seeded("linear_constraints_only");
    let mut circuit = Circuit::random(rng, 20, 3, 15);
    for [a, b, c] in &mut circuit.constraints {
        // The same combination on both sides of * 1.
        *b = vec![(Fr::ONE, 0)];
        c.clone_from(a);
    }
    assert_equal_proofs("linear", &circuit, rng);
}

/// Rows of one term, of as many as a thread adds up alone, and of more, which the warp shares.
#[test]
fn rows_of_every_length() {
    let rng = &mut seeded("rows_of_every_length");
    let mut circuit = Circuit::random(rng, 40, 2, 90);
    let z = circuit.assignment.clone();
    let at = |terms: &[(Fr, usize)]| terms.iter().map(|(value, index)| *value * z[*index]).sum::<Fr>();
    let lengths = [1, 31, 32, 33, 63, 64, 65, 96, 97, 500];
    for (row, len) in lengths.into_iter().cycle().take(circuit.constraints.len()).enumerate() {
        // A variable may occur in a row more than once.
        let terms: Vec<_> = (0..len).map(|i| (Fr::rand(rng), (row + 7 * i) % z.len())).collect();
        let [a, b, c] = &mut circuit.constraints[row];
        *[&mut *a, &mut *b][row % 2] = terms;
        *c = vec![(at(a) * at(b), 0)];
    }
    assert_equal_proofs("long rows", &circuit, rng);
    let reached = |(word, count): &(String, u64)| word == "groth16_long_row" && *count > 0;
    assert!(gpu_core::sim::coverage().iter().any(reached), "no warp shared a row");
}

/// Odd variables never occur in A and even ones never in B (but for the inputs' own rows in A).
#[test]
fn absent_variables() {
    let rng = &mut seeded("absent_variables");
    let mut circuit = Circuit::random(rng, 30, 2, 20);
    let z = circuit.assignment.clone();
    for [a, b, c] in &mut circuit.constraints {
        a.retain(|(_, variable)| variable % 2 == 0);
        b.retain(|(_, variable)| variable % 2 == 1);
        let at = |terms: &[(Fr, usize)]| terms.iter().map(|(value, index)| *value * z[*index]).sum::<Fr>();
        *c = vec![(at(a) * at(b), 0)];
    }
    assert_equal_proofs("absent", &circuit, rng);
}

#[test]
fn unused_inputs() {
    let rng = &mut seeded("unused_inputs");
    let mut circuit = Circuit::random(rng, 9, 5, 9);
    let z = circuit.assignment.clone();
    for [a, b, c] in &mut circuit.constraints {
        let is_input = |variable: &usize| (1..5).contains(variable);
        a.retain(|(_, variable)| !is_input(variable));
        b.retain(|(_, variable)| !is_input(variable));
        let at = |terms: &[(Fr, usize)]| terms.iter().map(|(value, index)| *value * z[*index]).sum::<Fr>();
        *c = vec![(at(a) * at(b), 0)];
    }
    assert_equal_proofs("unused", &circuit, rng);
}

/// An input that no constraint has is a row of A like every other: the setup gives it a point that is not the identity, a
/// proof binds it, and the verifier takes no other value. A key that has the identity there is not this circuit's.
#[test]
fn b64_an_unused_input_is_bound_by_setup_prover_and_verifier() {
    let rng = &mut seeded("b64_an_unused_input");
    let mut circuit = Circuit::random(rng, 6, 3, 6);
    let z = circuit.assignment.clone();
    for [a, b, c] in &mut circuit.constraints {
        let is_used = |(_, variable): &(Fr, usize)| *variable != 2;
        a.retain(is_used);
        b.retain(is_used);
        let at = |terms: &[(Fr, usize)]| terms.iter().map(|(value, index)| *value * z[*index]).sum::<Fr>();
        *c = vec![(at(a) * at(b), 0)];
    }
    let mut key = circuit.key(rng);
    assert!(key.vk.gamma_abc_g1.iter().all(|point| !point.is_zero()), "a point for each input");
    let (prover, assignment) = prover(&Device::sim(SimOptions::default()), &circuit, &key);
    let proof = prover.prove(&assignment, rng).expect("a proof");
    prover.verify(&assignment[1..3], &proof).expect("it is valid");
    let other = [assignment[1], assignment[2] + Fr::ONE];
    assert!(matches!(prover.verify(&other, &proof), Err(ProveError::Invalid)), "the input is bound");
    // Another value of it is another statement, and as true.
    let mut changed = assignment.clone();
    changed[2] += Fr::ONE;
    let proof = prover.prove(&changed, rng).expect("the constraints do not see it");
    prover.verify(&other, &proof).expect("it is valid");

    key.vk.gamma_abc_g1[2] = G1Affine::zero();
    let (r1cs, _) = R1cs::synthesize(circuit).expect("it can be synthesized");
    let device = Device::sim(SimOptions::default());
    let prover = Prover::new(&device, &key, &r1cs).expect("the identity is in the group");
    let refused = prover.prove(&assignment, rng);
    assert!(assignment[2] == Fr::ZERO || matches!(refused, Err(ProveError::Invalid)), "{refused:?}");
}

#[test]
fn the_first_failing_constraint_is_named_before_any_product_runs() {
    let rng = &mut seeded("the_first_failing_constraint_is_named");
    let circuit = Circuit::random(rng, 40, 3, 30);
    let key = circuit.key(rng);
    let (r1cs, assignment) = R1cs::synthesize(circuit.clone()).expect("it can be synthesized");
    for device in devices() {
        let prover = Prover::new(&device, &key, &r1cs).expect("a prover");
        let mut refused = 0;
        for variable in 1..assignment.len() {
            let mut wrong = assignment.clone();
            wrong[variable] += Fr::ONE;
            let outcome = prover.prove_with(&wrong, Fr::ONE, Fr::ONE);
            match (r1cs.first_failing(&wrong), outcome) {
                (None, outcome) => assert!(outcome.is_ok(), "{variable} occurs nowhere"),
                (Some(first), Err(ProveError::Unsatisfied { constraint })) => {
                    assert_eq!(constraint, first, "variable {variable}");
                    refused += 1;
                }
                (Some(_), other) => panic!("variable {variable}: {other:?}"),
            }
        }
        assert!(refused > 20, "{refused} of the variables matter");
        // The schedule has the verdict before the first kernel of a product.
        let ops = &prover.schedule().ops;
        let verdict = ops.iter().position(|op| op.name == groth16::schedule::VERDICT).expect("a verdict");
        let product = ops.iter().position(|op| op.name.starts_with("msm_")).expect("a product");
        assert!(verdict < product);
        // And the next proof is right.
        let proof = prover.prove_with(&assignment, Fr::ONE, Fr::ONE).expect("a proof");
        assert_eq!(bytes(&proof), arkworks(&circuit, &key, Fr::ONE, Fr::ONE));
    }
}

#[test]
fn malformed_assignments_are_refused() {
    let rng = &mut seeded("malformed_assignments_are_refused");
    let circuit = Circuit::random(rng, 5, 2, 5);
    let key = circuit.key(rng);
    let device = Device::sim(SimOptions::default());
    let (prover, assignment) = prover(&device, &circuit, &key);
    let refusal = |assignment: &[Fr]| prover.prove_with(assignment, Fr::ONE, Fr::ONE).unwrap_err();
    for len in [0, assignment.len() - 1] {
        let error = refusal(&assignment[..len]);
        assert!(
            matches!(error, ProveError::LengthMismatch { expected: 7, found } if found == len),
            "{error}"
        );
    }
    let longer = [&assignment[..], &[Fr::ONE]].concat();
    assert!(matches!(refusal(&longer), ProveError::LengthMismatch { expected: 7, found: 8 }));
    for first in [Fr::ZERO, -Fr::ONE, Fr::from(2)] {
        let mut scaled = assignment.clone();
        scaled[0] = first;
        assert!(matches!(refusal(&scaled), ProveError::FirstNotOne));
    }
}

/// Words that are no field element, as only `new_unchecked` makes them, give a typed error or the right proof.
#[test]
fn b46_an_assignment_of_words_above_the_modulus_gives_no_wrong_proof() {
    let rng = &mut seeded("b46_an_assignment_of_words");
    let circuit = Circuit::random(rng, 12, 2, 9);
    let key = circuit.key(rng);
    let (prover, assignment) = prover(&Device::sim(SimOptions::default()), &circuit, &key);
    let (r, s) = (Fr::rand(rng), Fr::rand(rng));
    let mut above = Fr::MODULUS;
    above.0[0] += 1;
    for raw in [Fr::MODULUS, above, BigInt([u64::MAX; 4])] {
        for variable in 1..assignment.len() {
            let mut words = assignment.clone();
            words[variable] = Fr::new_unchecked(raw);
            match prover.prove_with(&words, r, s) {
                Ok(proof) => {
                    // The value that the words stand for, each less the modulus until it is below.
                    let mut value = raw;
                    while value >= Fr::MODULUS {
                        value.sub_with_borrow(&Fr::MODULUS);
                    }
                    words[variable] = Fr::new_unchecked(value);
                    let expected = prover.prove_with(&words, r, s).expect("they are satisfied");
                    assert_eq!(proof, expected, "{raw} as variable {variable}");
                }
                Err(ProveError::Unsatisfied { .. } | ProveError::Invalid) => {}
                Err(error) => panic!("{raw} as variable {variable}: {error}"),
            }
        }
        let next = prover.prove_with(&assignment, r, s).expect("the next proof is right");
        assert_eq!(bytes(&next), arkworks(&circuit, &key, r, s));
    }
}

/// A setup makes no base for the top coefficient of the quotient, which is zero. A query with one more gives the same
/// proof; one that is short is refused.
#[test]
fn lengths_of_the_h_query() {
    let rng = &mut seeded("lengths_of_the_h_query");
    let circuit = Circuit::random(rng, 10, 2, 8);
    let key = circuit.key(rng);
    let (r1cs, assignment) = R1cs::synthesize(circuit.clone()).expect("it can be synthesized");
    let (r, s) = (Fr::rand(rng), Fr::rand(rng));
    let expected = arkworks(&circuit, &key, r, s);
    assert_eq!(key.h_query.len(), (1 << r1cs.log_n()) - 1);
    let mut longer = key.clone();
    longer.h_query.push(key.a_query[0]);
    let device = Device::sim(SimOptions::default());
    let prover = Prover::new(&device, &longer, &r1cs).expect("one more is allowed");
    assert_eq!(bytes(&prover.prove_with(&assignment, r, s).expect("a proof")), expected);
    let mut shorter = key.clone();
    shorter.h_query.pop();
    let error = Prover::new(&device, &shorter, &r1cs).expect_err("one less is not");
    assert!(matches!(error, ProveError::Key(KeyError::Length { expected: 15, found: 14, .. })), "{error}");
}

/// The key of another circuit of the same shape: the proof does not verify, and is not handed out.
#[test]
fn an_invalid_proof_is_an_error() {
    let rng = &mut seeded("an_invalid_proof_is_an_error");
    let circuit = Circuit::random(rng, 10, 2, 8);
    let other = Circuit::random(rng, 10, 2, 8).key(rng);
    for device in devices() {
        let (prover, assignment) = prover(&device, &circuit, &other);
        let error = prover.prove_with(&assignment, Fr::rand(rng), Fr::rand(rng)).unwrap_err();
        assert!(matches!(error, ProveError::Invalid), "{error}");
    }
}
