//! supraseal itself.

use crate::key::Counts;
use crate::witness::Words;
use crate::{PeerError, Proof, Witness};
use ark_bls12_381::{Fq, Fq2, Fr, G1Affine, G2Affine};
use ark_ff::BigInt;
use std::any::Any;
use std::fmt;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use supraseal_c2::{Assignment, SRS};

// Its host code calls blst, which is linked if somebody names it.
use blst as _;

/// Words of an element of the base field.
type FqWords = [u64; 6];

/// A proof as supraseal writes it: coordinates in Montgomery form, the lowest limb first.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ProofWords {
    a: [FqWords; 2],
    b: [[FqWords; 2]; 2],
    c: [FqWords; 2],
}

/// A key that is loaded, and a circuit to prove with it.
pub struct Prover {
    key: SRS,
    witness: Witness,
}

impl fmt::Debug for Prover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Prover({} inputs)", self.witness.inputs.len())
    }
}

impl Prover {
    /// Loads a key from its bytes, by way of a temporary file, and decodes its points without checking them.
    ///
    /// # Errors
    /// [`PeerError::Truncated`], [`PeerError::OtherCircuit`], [`PeerError::File`]; [`PeerError::Device`] without a device.
    pub fn new(key: &[u8], witness: Witness) -> Result<Self, PeerError> {
        Counts::read(key)?.check(&witness)?;
        let mut file = tempfile::NamedTempFile::new()?;
        file.write_all(key)?;
        file.flush()?;
        let loaded = SRS::try_new(file.path().to_path_buf(), false);
        let key = loaded.map_err(|error| PeerError::Device { op: "key", cause: error.into() })?;
        Ok(Self { key, witness })
    }

    /// Proves, blinded with r and s.
    ///
    /// # Errors
    /// [`PeerError::Device`].
    pub fn prove(&mut self, r: Fr, s: Fr) -> Result<Proof, PeerError> {
        let Witness { rows: [a, b, c], inputs, private, a_private, b_inputs, b_private } = &self.witness;
        // What is pointed to lives in `self` until the call ends, with the lengths that are said; that these are the key's
        // was checked when it was loaded.
        let assignment = Assignment::<Words> {
            a_aux_density: a_private.words.as_ptr(),
            a_aux_bit_len: a_private.len,
            a_aux_popcount: a_private.ones,
            b_inp_density: b_inputs.words.as_ptr(),
            b_inp_bit_len: b_inputs.len,
            b_inp_popcount: b_inputs.ones,
            b_aux_density: b_private.words.as_ptr(),
            b_aux_bit_len: b_private.len,
            b_aux_popcount: b_private.ones,
            a: a.as_ptr(),
            b: b.as_ptr(),
            c: c.as_ptr(),
            abc_size: a.len(),
            inp_assignment_data: inputs.as_ptr(),
            inp_assignment_size: inputs.len(),
            aux_assignment_data: private.as_ptr(),
            aux_assignment_size: private.len(),
        };
        let mut proof = [ProofWords::default()];
        // Its errors are panics.
        catch_unwind(AssertUnwindSafe(|| {
            supraseal_c2::generate_groth16_proofs(&[assignment], &[r.0.0], &[s.0.0], &mut proof, &self.key);
        }))
        .map_err(|panic| PeerError::Device { op: "proof", cause: words_of(&*panic) })?;
        let [ProofWords { a, b, c }] = proof;
        Ok(Proof { a: g1(a), b: G2Affine::new_unchecked(fq2(b[0]), fq2(b[1])), c: g1(c) })
    }
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words").into()
}

fn fq(words: FqWords) -> Fq {
    Fq::new_unchecked(BigInt(words))
}

fn fq2([c0, c1]: [FqWords; 2]) -> Fq2 {
    Fq2::new(fq(c0), fq(c1))
}

fn g1([x, y]: [FqWords; 2]) -> G1Affine {
    G1Affine::new_unchecked(fq(x), fq(y))
}
