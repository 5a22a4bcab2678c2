//! Number-theoretic transforms over the scalar field of BLS12-381: forward, inverse, and both on a coset.
//!
//! The root of unity and the coset shift are parameters: arkworks and snarkjs use different roots on this
//! curve. The order of a vector is its type, and every transform turns [`Natural`] into [`BitReversed`] or
//! back, so that a transform and its inverse never permute.
//!
//! ```
//! use ark_bls12_381::Fr;
//! use gpu_core::{Device, sim::SimOptions};
//! use ntt_gpu::{Domain, Natural, NttDomain, Poly};
//!
//! let device = Device::sim(SimOptions::default());
//! let ntt = NttDomain::new(&device, Domain::arkworks(2)?)?;
//! let coeffs = [1, 2, 3, 4].map(Fr::from);
//! let values = ntt.forward(ntt.upload::<Natural>(&coeffs)?)?;
//! let back: Poly<Natural> = ntt.inverse(values)?;
//! assert_eq!(back.to_vec()?, coeffs);
//! # Ok::<(), ntt_gpu::NttError>(())
//! ```
//!
//! [`domain`] has the numbers, [`plan`] the sizes, [`tables`] what is resident, [`schedule`] the launches,
//! [`ntt`] the API.
//!
//! Time depends on sizes alone: a reduction's last subtraction is a selection, and values decide no branch. A
//! [`Poly`] is not wiped when it is dropped: what is secret belongs in a secret buffer of a schedule.

pub mod domain;
pub mod error;
pub mod modules;
pub mod ntt;
pub mod plan;
pub mod schedule;
pub mod tables;

pub use domain::{Direction, Domain, OrderKind, Shift, Transform};
pub use error::NttError;
pub use ntt::{BitReversed, Natural, NttDomain, Order, Poly};
pub use plan::{NttConfig, NttPlan, Pass};
pub use tables::{TableLayout, Tables};
