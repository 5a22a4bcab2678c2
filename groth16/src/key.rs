//! A proving key on a device, with the constraints that it is for.

use crate::bellman::{CompactKey, Section};
use crate::error::{KeyError, ProveError};
use crate::modules;
use crate::plan::{Product, Shape};
use crate::r1cs::{R1cs, stack};
use crate::reduction::Reduction;
use ark_bls12_381::{Bls12_381, Fr, G1Affine, G1Projective, G2Affine, G2Projective};
use ark_ec::AffineRepr;
use ark_groth16::{PreparedVerifyingKey, ProvingKey, VerifyingKey, prepare_verifying_key};
use gpu_core::{Device, DeviceBuf};
use msm_gpu::{MsmError, MsmGroup};
use ntt_gpu::{NttConfig, NttError, NttPlan, Tables};
use rayon::prelude::*;
use std::borrow::Cow;

/// Whether the points of a key are looked at before they are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trust {
    /// Every point must be on its curve and of the prime order.
    #[default]
    Checked,
    /// The key comes from where nobody could have changed it: nothing but lengths is checked. A proof from a wrong key
    /// does not verify, so verifying it still shows the fault.
    Trusted,
}

/// The small points of a key, on the host: what a proof is put together with.
#[derive(Debug, Clone)]
pub(crate) struct KeyPoints {
    pub(crate) alpha_g1: G1Affine,
    pub(crate) beta_g1: G1Affine,
    pub(crate) beta_g2: G2Affine,
    pub(crate) delta_g1: G1Affine,
    pub(crate) delta_g2: G2Affine,
}

/// A proving key and its constraints, resident on a device. Immutable, and shared by all proofs that run.
pub struct DeviceKey {
    pub(crate) shape: Shape,
    pub(crate) points: KeyPoints,
    pub(crate) vk: PreparedVerifyingKey<Bls12_381>,
    pub(crate) row_offsets: DeviceBuf<u32>,
    pub(crate) columns: DeviceBuf<u32>,
    pub(crate) factors: DeviceBuf<u32>,
    pub(crate) coefficients: DeviceBuf<Fr>,
    /// Of the transforms of the reduction, in its order.
    pub(crate) tables: Vec<Tables>,
    pub(crate) h_query: DeviceBuf<G1Affine>,
    pub(crate) l_query: DeviceBuf<G1Affine>,
    pub(crate) a_query: DeviceBuf<G1Affine>,
    pub(crate) b_g1_query: DeviceBuf<G1Affine>,
    pub(crate) b_g2_query: DeviceBuf<G2Affine>,
    device: Device,
}

impl std::fmt::Debug for DeviceKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DeviceKey({:?} on {})", self.shape, self.device.info().id)
    }
}

impl DeviceKey {
    /// Checks a key against the constraints, and brings both to a device.
    ///
    /// # Errors
    /// As [`PreparedKey::new`] and [`PreparedKey::load`].
    pub fn new(
        device: &Device,
        key: &ProvingKey<Bls12_381>,
        r1cs: &R1cs,
        trust: Trust,
    ) -> Result<Self, ProveError> {
        PreparedKey::new(key, r1cs, trust)?.load(device)
    }

    /// Sizes.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The verifying key.
    pub fn verifying_key(&self) -> &VerifyingKey<Bls12_381> {
        &self.vk.vk
    }

    /// The device that it is on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The reduction that it was made for.
    pub fn reduction(&self) -> Reduction {
        self.shape.reduction
    }

    /// Device memory that it takes.
    pub fn device_bytes(&self) -> u64 {
        self.shape.resident_bytes()
    }
}

/// A key and its constraints as the device takes them: on the host, or in a file that is mapped into memory.
#[derive(Debug)]
pub struct PreparedKey<'a> {
    pub(crate) shape: Shape,
    pub(crate) trust: Trust,
    pub(crate) vk: VerifyingKey<Bls12_381>,
    pub(crate) beta_g1: G1Affine,
    pub(crate) delta_g1: G1Affine,
    pub(crate) row_offsets: Cow<'a, [u32]>,
    pub(crate) columns: Cow<'a, [u32]>,
    pub(crate) factors: Cow<'a, [u32]>,
    pub(crate) coefficients: Cow<'a, [Fr]>,
    /// In the order in which the transforms leave h: its coefficients bit-reversed, or its values as they are.
    pub(crate) h_query: Cow<'a, [G1Affine]>,
    pub(crate) l_query: Cow<'a, [G1Affine]>,
    pub(crate) a_query: Cow<'a, [G1Affine]>,
    pub(crate) b_g1_query: Cow<'a, [G1Affine]>,
    pub(crate) b_g2_query: Cow<'a, [G2Affine]>,
}

impl<'a> PreparedKey<'a> {
    /// Checks a key against the constraints.
    ///
    /// # Errors
    /// [`KeyError::Length`] for a query of a wrong length and, unless trusted, [`KeyError::NotOnCurve`] or
    /// [`KeyError::NotInSubgroup`] for the first bad point of the first bad query.
    pub fn new(key: &'a ProvingKey<Bls12_381>, r1cs: &R1cs, trust: Trust) -> Result<Self, KeyError> {
        check_lengths(key, r1cs)?;
        if trust == Trust::Checked {
            check_points(key)?;
        }
        let stacked = stack(&r1cs.matrices());
        let shape = Shape::new(r1cs, stacked.coefficients.len());
        Ok(Self {
            shape,
            trust,
            vk: key.vk.clone(),
            beta_g1: key.beta_g1,
            delta_g1: key.delta_g1,
            row_offsets: stacked.row_offsets.into(),
            columns: stacked.columns.into(),
            factors: stacked.factors.into(),
            coefficients: stacked.coefficients.into(),
            h_query: in_reversed_order(&key.h_query, shape.log_n).into(),
            l_query: (&key.l_query[..]).into(),
            a_query: (&key.a_query[..]).into(),
            b_g1_query: (&key.b_g1_query[..]).into(),
            b_g2_query: (&key.b_g2_query[..]).into(),
        })
    }

    /// Brings it to a device.
    ///
    /// # Errors
    /// [`ProveError::Gpu`], [`ProveError::Ntt`].
    pub fn load(&self, device: &Device) -> Result<DeviceKey, ProveError> {
        device.load(modules::ALL)?;
        let shape = self.shape;
        let domain = shape.reduction.domain(shape.log_n)?;
        let plan = NttPlan::new(shape.log_n, 1, &NttConfig::default())?;
        let transforms = shape.reduction.transforms(shape.log_n)?;
        let tables = |transform| match Tables::new(device, &domain, &plan, transform) {
            Err(NttError::Gpu(error)) => Err(ProveError::Gpu(error)),
            other => Ok(other?),
        };
        Ok(DeviceKey {
            shape,
            points: KeyPoints {
                alpha_g1: self.vk.alpha_g1,
                beta_g1: self.beta_g1,
                beta_g2: self.vk.beta_g2,
                delta_g1: self.delta_g1,
                delta_g2: self.vk.delta_g2,
            },
            vk: prepare_verifying_key(&self.vk),
            row_offsets: DeviceBuf::from_slice(device, "row_offsets", &self.row_offsets)?,
            columns: DeviceBuf::from_slice(device, "columns", &self.columns)?,
            factors: DeviceBuf::from_slice(device, "factors", &self.factors)?,
            coefficients: DeviceBuf::from_slice(device, "coefficients", &self.coefficients)?,
            tables: transforms.iter().map(tables).collect::<Result<_, _>>()?,
            h_query: DeviceBuf::from_slice(device, "h_query", &self.h_query)?,
            l_query: DeviceBuf::from_slice(device, "l_query", &self.l_query)?,
            a_query: DeviceBuf::from_slice(device, "a_query", &self.a_query)?,
            b_g1_query: DeviceBuf::from_slice(device, "b_g1_query", &self.b_g1_query)?,
            b_g2_query: DeviceBuf::from_slice(device, "b_g2_query", &self.b_g2_query)?,
            device: device.clone(),
        })
    }

    /// Sizes.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The verifying key.
    pub fn verifying_key(&self) -> &VerifyingKey<Bls12_381> {
        &self.vk
    }

    /// The bases of a product in G1, in the order in which they go up; none for the product in G2.
    pub fn bases_g1(&self, product: Product) -> &[G1Affine] {
        match product {
            Product::A => &self.a_query,
            Product::BG1 => &self.b_g1_query,
            Product::BG2 => &[],
            Product::L => &self.l_query,
            Product::H => &self.h_query,
        }
    }

    /// The bases of the product in G2.
    pub fn bases_g2(&self) -> &[G2Affine] {
        &self.b_g2_query
    }

    /// Checks every point, as [`new`](Self::new) does.
    pub(crate) fn check_points(&self) -> Result<(), KeyError> {
        check_vk(&self.vk, &self.beta_g1, &self.delta_g1)?;
        members::<G1Projective>(Section::HQuery, &self.h_query)?;
        members::<G1Projective>(Section::LQuery, &self.l_query)?;
        members::<G1Projective>(Section::AQuery, &self.a_query)?;
        members::<G1Projective>(Section::BG1Query, &self.b_g1_query)?;
        members::<G2Projective>(Section::BG2Query, &self.b_g2_query)
    }
}

/// The first n - 1 bases for h, each where its coefficient lies. The top coefficient, which is zero, is at the end in
/// either order.
fn in_reversed_order(h_query: &[G1Affine], log_n: u32) -> Vec<G1Affine> {
    let reversed = |index: usize| if log_n == 0 { 0 } else { index.reverse_bits() >> (usize::BITS - log_n) };
    (0..(1usize << log_n) - 1).map(|index| h_query[reversed(index)]).collect()
}

fn check_lengths(key: &ProvingKey<Bls12_381>, r1cs: &R1cs) -> Result<(), KeyError> {
    let variables = r1cs.variable_count();
    let h_expected = (1 << r1cs.log_n()) - 1;
    // Some setups keep a base for the top coefficient, which is always zero.
    let h_found = if key.h_query.len() == h_expected + 1 { h_expected } else { key.h_query.len() };
    let lengths = [
        (Section::GammaAbcG1, r1cs.input_count(), key.vk.gamma_abc_g1.len()),
        (Section::HQuery, h_expected, h_found),
        (Section::LQuery, variables - r1cs.input_count(), key.l_query.len()),
        (Section::AQuery, variables, key.a_query.len()),
        (Section::BG1Query, variables, key.b_g1_query.len()),
        (Section::BG2Query, variables, key.b_g2_query.len()),
    ];
    match lengths.into_iter().find(|(_, expected, found)| expected != found) {
        Some((section, expected, found)) => Err(KeyError::Length { section, expected, found }),
        None => Ok(()),
    }
}

fn check_points(key: &ProvingKey<Bls12_381>) -> Result<(), KeyError> {
    check_vk(&key.vk, &key.beta_g1, &key.delta_g1)?;
    members::<G1Projective>(Section::HQuery, &key.h_query)?;
    members::<G1Projective>(Section::LQuery, &key.l_query)?;
    members::<G1Projective>(Section::AQuery, &key.a_query)?;
    members::<G1Projective>(Section::BG1Query, &key.b_g1_query)?;
    members::<G2Projective>(Section::BG2Query, &key.b_g2_query)
}

fn check_vk(vk: &VerifyingKey<Bls12_381>, beta_g1: &G1Affine, delta_g1: &G1Affine) -> Result<(), KeyError> {
    use std::slice::from_ref;
    members::<G1Projective>(Section::AlphaG1, from_ref(&vk.alpha_g1))?;
    members::<G1Projective>(Section::BetaG1, from_ref(beta_g1))?;
    members::<G2Projective>(Section::BetaG2, from_ref(&vk.beta_g2))?;
    members::<G2Projective>(Section::GammaG2, from_ref(&vk.gamma_g2))?;
    members::<G1Projective>(Section::DeltaG1, from_ref(delta_g1))?;
    members::<G2Projective>(Section::DeltaG2, from_ref(&vk.delta_g2))?;
    members::<G1Projective>(Section::GammaAbcG1, &vk.gamma_abc_g1)
}

fn members<G: MsmGroup>(section: Section, points: &[G::Affine]) -> Result<(), KeyError> {
    let bad = |(index, point): (usize, &G::Affine)| match G::check_member(index, point) {
        Ok(()) => None,
        Err(MsmError::NotInSubgroup { .. }) => Some(KeyError::NotInSubgroup { section, index }),
        Err(_) => Some(KeyError::NotOnCurve { section, index }),
    };
    points.par_iter().enumerate().find_map_first(bad).map_or(Ok(()), Err)
}

impl CompactKey {
    /// The key as arkworks keeps it, with the identity for each variable that a query leaves out.
    ///
    /// # Errors
    /// [`KeyError::Length`] if the queries are not those of this circuit.
    pub fn expand(&self, r1cs: &R1cs) -> Result<ProvingKey<Bls12_381>, KeyError> {
        let variables = r1cs.variable_count();
        let mut in_a = r1cs.a().occurrences(variables);
        // Each input has a row of its own in A, whatever the constraints say.
        in_a[..r1cs.input_count()].fill(true);
        let in_b = r1cs.b().occurrences(variables);
        Ok(ProvingKey {
            vk: self.vk.to_arkworks(),
            beta_g1: self.vk.beta_g1,
            delta_g1: self.vk.delta_g1,
            a_query: spread(Section::AQuery, &self.a_query, &in_a)?,
            b_g1_query: spread(Section::BG1Query, &self.b_g1_query, &in_b)?,
            b_g2_query: spread(Section::BG2Query, &self.b_g2_query, &in_b)?,
            h_query: self.h_query.clone(),
            l_query: self.l_query.clone(),
        })
    }
}

/// One point a variable: the next one where it occurs, else the identity.
fn spread<A: AffineRepr>(section: Section, points: &[A], occurs: &[bool]) -> Result<Vec<A>, KeyError> {
    let expected = occurs.iter().filter(|occurs| **occurs).count();
    if points.len() != expected {
        return Err(KeyError::Length { section, expected, found: points.len() });
    }
    let mut points = points.iter();
    let mut next = |occurs: &bool| match occurs {
        true => *points.next().expect("as many points as occurrences"),
        false => A::zero(),
    };
    Ok(occurs.iter().map(&mut next).collect())
}
