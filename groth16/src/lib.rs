//! Groth16 keys, the quotient polynomial, the proof.
