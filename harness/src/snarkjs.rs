//! A problem that comes as files of circom and snarkjs.

use crate::bisect::Part;
use crate::files::{FileError, FileFault, read_constraints, read_wtns, read_zkey, with_path};
use crate::prove::Provable;
use ark_bls12_381::{Bls12_381, Fr};
use ark_ff::Field;
use ark_groth16::VerifyingKey;
use gpu_core::Device;
use groth16::{KeyError, PreparedKey, ProveError, Reduction, Shape, Trust, Zkey};
use std::path::Path;
use zeroize::Zeroizing;

/// A key of snarkjs and a witness of circom.
#[derive(Debug)]
pub struct SnarkjsProblem {
    name: String,
    zkey: Zkey,
    witness: Zeroizing<Vec<Fr>>,
}

/// Why there is nothing to prove.
#[derive(Debug, thiserror::Error)]
pub enum SnarkjsError {
    /// A file.
    #[error(transparent)]
    File(#[from] FileError),
    /// The witness is none.
    #[error(transparent)]
    Witness(#[from] ProveError),
}

impl SnarkjsProblem {
    /// Reads both. With the constraints, which the key does not have in whole, the witness is checked too.
    ///
    /// # Errors
    /// [`SnarkjsError::File`], also for files of different circuits; [`ProveError::Unsatisfied`] with the first constraint
    /// that the witness does not satisfy.
    pub fn open(
        zkey_path: &Path,
        witness_path: &Path,
        r1cs_path: Option<&Path>,
        trust: Trust,
    ) -> Result<Self, SnarkjsError> {
        let zkey = read_zkey(zkey_path, trust)?;
        let witness = read_wtns(witness_path)?;
        let shape = zkey.shape();
        let mismatch = |path, text| with_path(path, Err::<(), _>(FileFault::Mismatch(text)));
        if witness.len() != shape.variable_count as usize {
            let (found, needed) = (witness.len(), shape.variable_count);
            let text = format!("{found} values, and the key is for a circuit of {needed} variables");
            mismatch(witness_path, text)?;
        }
        if witness[0] != Fr::ONE {
            return Err(ProveError::FirstNotOne.into());
        }
        if let Some(path) = r1cs_path {
            let r1cs = read_constraints(path)?;
            let sizes = (r1cs.input_count(), r1cs.variable_count(), r1cs.constraint_count());
            let [inputs, variables, constraints] =
                [shape.input_count, shape.variable_count, shape.constraint_count].map(|size| size as usize);
            if sizes != (inputs, variables, constraints) {
                mismatch(path, "the constraints of a circuit of other sizes than the key's".into())?;
            }
            if let Some(constraint) = r1cs.first_failing(&witness) {
                return Err(ProveError::Unsatisfied { constraint }.into());
            }
        }
        let name = zkey_path.file_name().map_or("zkey".into(), |name| name.to_string_lossy().into_owned());
        Ok(Self { name, zkey, witness })
    }

    /// The key.
    pub fn zkey(&self) -> &Zkey {
        &self.zkey
    }
}

impl Provable for SnarkjsProblem {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn key_from(&self) -> &'static str {
        "snarkjs"
    }

    fn shape(&self) -> Shape {
        *self.zkey.shape()
    }

    fn assignment(&self) -> &[Fr] {
        &self.witness
    }

    fn verifying_key(&self) -> &VerifyingKey<Bls12_381> {
        self.zkey.verifying_key()
    }

    /// Points were checked, or trusted, when the key was read.
    fn prepare(&self, _: Trust) -> Result<PreparedKey<'_>, KeyError> {
        Ok(self.zkey.prepare())
    }

    fn public(&self) -> &[Fr] {
        &self.witness[1..self.zkey.shape().input_count as usize]
    }

    fn reduction(&self) -> Reduction {
        Reduction::Snarkjs
    }

    /// Without C, a witness that is none looks as a device does that is wrong.
    fn parts_on(&self, _: &Device) -> Result<Vec<Part>, ProveError> {
        Ok(Vec::new())
    }
}
