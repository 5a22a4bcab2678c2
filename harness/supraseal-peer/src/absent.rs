//! What stands for supraseal where it was not compiled: a prover that nobody can make.

use crate::key::Counts;
use crate::{PeerError, Proof, Witness};
use ark_bls12_381::Fr;
use std::convert::Infallible;

/// A key that is loaded, and a circuit to prove with it.
#[derive(Debug)]
pub struct Prover {
    never: Infallible,
}

impl Prover {
    /// Loads a key from its bytes.
    ///
    /// # Errors
    /// For a key that is not whole or another circuit's as with supraseal; else [`PeerError::NotBuilt`].
    pub fn new(key: &[u8], witness: Witness) -> Result<Self, PeerError> {
        Counts::read(key)?.check(&witness)?;
        Err(PeerError::NotBuilt)
    }

    /// Proves.
    ///
    /// # Errors
    /// None: there is no value to call it on.
    pub fn prove(&mut self, _r: Fr, _s: Fr) -> Result<Proof, PeerError> {
        match self.never {}
    }
}
