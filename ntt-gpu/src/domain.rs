//! Domains, coset shifts, and which transform is meant. Numbers only, no device.

use crate::error::NttError;
use ark_bls12_381::Fr;
use ark_ff::{AdditiveGroup, FftField, Field, PrimeField};
use serde::Serialize;

/// log2 of the largest domain.
pub const LOG_N_MAX: u32 = 32;

const _: () = assert!(Fr::TWO_ADICITY == LOG_N_MAX);

/// A subgroup of Fr of size n = 2^log_n, with its generator omega.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Domain {
    log_n: u32,
    omega: Fr,
}

impl Domain {
    /// The domain of arkworks, bellman and sppark: omega is a power of 7^t, t = (r - 1) / 2^32.
    ///
    /// # Errors
    /// [`NttError::DomainTooLarge`].
    pub fn arkworks(log_n: u32) -> Result<Self, NttError> {
        Self::from_two_adic_root(log_n, Fr::TWO_ADIC_ROOT_OF_UNITY)
    }

    /// The domain of snarkjs: omega is a power of 5^t, for 5 is the smallest non-residue.
    ///
    /// # Errors
    /// [`NttError::DomainTooLarge`].
    pub fn snarkjs(log_n: u32) -> Result<Self, NttError> {
        Self::from_two_adic_root(log_n, Fr::from(5).pow(Fr::TRACE))
    }

    /// The domain that a given omega generates.
    ///
    /// # Errors
    /// [`NttError::DomainTooLarge`]; [`NttError::NotARoot`] unless omega has order 2^log_n.
    pub fn with_root(log_n: u32, omega: Fr) -> Result<Self, NttError> {
        if log_n > LOG_N_MAX {
            return Err(NttError::DomainTooLarge { log_n });
        }
        let has_order = match log_n {
            0 => omega == Fr::ONE,
            _ => squared(omega, log_n - 1) == -Fr::ONE,
        };
        if has_order { Ok(Self { log_n, omega }) } else { Err(NttError::NotARoot { log_n }) }
    }

    fn from_two_adic_root(log_n: u32, root: Fr) -> Result<Self, NttError> {
        match LOG_N_MAX.checked_sub(log_n) {
            Some(squarings) => Ok(Self { log_n, omega: squared(root, squarings) }),
            None => Err(NttError::DomainTooLarge { log_n }),
        }
    }

    /// log2 of the size of the domain that holds exactly `len` values.
    ///
    /// # Errors
    /// [`NttError::Empty`], [`NttError::NotPowerOfTwo`], [`NttError::DomainTooLarge`].
    pub fn log_n_for(len: u64) -> Result<u32, NttError> {
        match len {
            0 => Err(NttError::Empty),
            _ if !len.is_power_of_two() => Err(NttError::NotPowerOfTwo { len }),
            _ if len.ilog2() > LOG_N_MAX => Err(NttError::DomainTooLarge { log_n: len.ilog2() }),
            _ => Ok(len.ilog2()),
        }
    }

    /// log2 of the size.
    pub fn log_n(&self) -> u32 {
        self.log_n
    }

    /// The size n, 1 to 2^32.
    pub fn len(&self) -> u64 {
        1 << self.log_n
    }

    /// Never: a domain has at least one element.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The generator.
    pub fn omega(&self) -> Fr {
        self.omega
    }

    /// X^n - 1 at a point; on a coset it is the same at each element.
    pub fn vanishing(&self, at: Fr) -> Fr {
        squared(at, self.log_n) - Fr::ONE
    }
}

/// A coset shift g: the coset is g * H. It is not zero, and g^n != 1 for the domain that it was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shift(Fr);

impl Shift {
    /// A shift for a domain, and for all smaller ones.
    ///
    /// # Errors
    /// [`NttError::ShiftIsZero`], [`NttError::ShiftInDomain`].
    pub fn new(domain: &Domain, shift: Fr) -> Result<Self, NttError> {
        if shift == Fr::ZERO {
            return Err(NttError::ShiftIsZero);
        }
        if domain.vanishing(shift) == Fr::ZERO {
            return Err(NttError::ShiftInDomain { log_n: domain.log_n });
        }
        Ok(Self(shift))
    }

    /// The shift that arkworks and bellman use, 7: it lies in no domain.
    pub fn generator() -> Self {
        Self(Fr::GENERATOR)
    }

    /// g.
    pub fn value(&self) -> Fr {
        self.0
    }
}

/// Coefficients to values, or values to coefficients with 1/n.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// X\[k\] = sum of x\[i\] * (g * omega^k)^i
    Forward,
    /// x\[i\] = g^-i / n * sum of X\[k\] * omega^(-i*k)
    Inverse,
}

/// Order of a vector in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderKind {
    /// Value i at position i.
    Natural,
    /// Value i at the position whose log_n bits are those of i reversed.
    BitReversed,
}

impl OrderKind {
    /// The other one: what a transform turns it into.
    pub fn other(self) -> Self {
        match self {
            OrderKind::Natural => OrderKind::BitReversed,
            OrderKind::BitReversed => OrderKind::Natural,
        }
    }
}

/// Which transform: direction, order of its input (its output has the other one), and the coset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Transform {
    /// Direction.
    pub direction: Direction,
    /// Order of the input.
    pub input: OrderKind,
    /// The coset; `None` for the domain itself.
    pub shift: Option<Shift>,
}

impl Transform {
    /// A transform on the domain itself.
    pub fn plain(direction: Direction, input: OrderKind) -> Self {
        Self { direction, input, shift: None }
    }

    /// A transform on a coset.
    pub fn coset(direction: Direction, input: OrderKind, shift: Shift) -> Self {
        Self { direction, input, shift: Some(shift) }
    }
}

fn squared(base: Fr, squarings: u32) -> Fr {
    (0..squarings).fold(base, |power, _| power.square())
}
