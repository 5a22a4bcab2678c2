//! What stands for sppark where it was not compiled: types that nobody can make a value of.

use crate::{Group, PeerError};
use ark_bls12_381::Fr;
use std::convert::Infallible;
use std::marker::PhantomData;

/// A group whose functions would be in this program.
pub trait Compiled {}

impl<G> Compiled for G {}

/// Points on a device.
#[derive(Debug)]
pub struct Product<G: Group> {
    never: Infallible,
    group: PhantomData<G>,
}

impl<G: Group> Product<G> {
    /// Puts points on a device.
    ///
    /// # Errors
    /// [`PeerError::NotBuilt`], always.
    pub fn new(_device: u32, _points: &[G::Affine]) -> Result<Self, PeerError> {
        Err(PeerError::NotBuilt)
    }

    /// The sum of scalars times points.
    ///
    /// # Errors
    /// None: there is no value to call it on.
    pub fn run(&mut self, _scalars: &[[u64; 4]]) -> Result<G, PeerError> {
        match self.never {}
    }
}

/// Values on a device.
#[derive(Debug)]
pub struct Values {
    never: Infallible,
}

impl Values {
    /// Puts values on a device.
    ///
    /// # Errors
    /// [`PeerError::NotBuilt`], always.
    pub fn new(_device: u32, _values: &[Fr]) -> Result<Self, PeerError> {
        Err(PeerError::NotBuilt)
    }

    /// Transforms them in place.
    ///
    /// # Errors
    /// None: there is no value to call it on.
    pub fn transform(&mut self) -> Result<(), PeerError> {
        match self.never {}
    }

    /// The values.
    ///
    /// # Errors
    /// None: there is no value to call it on.
    pub fn to_vec(&self) -> Result<Vec<Fr>, PeerError> {
        match self.never {}
    }
}
