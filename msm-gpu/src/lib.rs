//! Multi-scalar multiplication over BLS12-381, G1 and G2, streamed through a device in batches.
//!
//! [`msm()`] is the call for one product. [`Msm`] keeps bases, plan and memory on the device for many:
//!
//! ```
//! use ark_bls12_381::{Fr, G1Affine, G1Projective};
//! use ark_ec::{AffineRepr, PrimeGroup};
//! use gpu_core::{Device, sim::SimOptions};
//! use msm_gpu::{Bases, Msm, MsmConfig, Strategy};
//!
//! let device = Device::sim(SimOptions::default());
//! let bases = Bases::new(&device, &[G1Affine::generator(); 3])?;
//! let config = MsmConfig { strategy: Strategy::Deferred { buffers: 2 }, ..MsmConfig::batches(3) };
//! let mut msm = Msm::<G1Projective, Fr>::new(&bases, &config)?;
//! assert_eq!(msm.run(&[Fr::from(1), Fr::from(2), Fr::from(3)])?, G1Projective::generator() * Fr::from(6));
//! # Ok::<(), msm_gpu::MsmError>(())
//! ```
//!
//! The work of a batch, kernel by kernel, and the schedules around it are in [`schedule`]; sizes are in [`plan`].
//! All of it is variable-time in the scalars.

mod cost;
pub mod fold;
pub mod group;
pub mod modules;
pub mod msm;
pub mod plan;
pub mod schedule;
mod table;

pub use cost::Costs;
pub use group::MsmGroup;
pub use msm::{Bases, Msm, MsmError, Operands, Scalar, msm, reduced};
pub use plan::{
    BaseSet, Batches, DeviceLimits, Goal, GroupKind, MsmConfig, MsmPlan, PlanError, ResultMemory, ScalarForm,
    Strategy, SyncPattern, Table,
};
