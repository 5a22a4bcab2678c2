//! The JSON of snarkjs: proofs, public inputs and verifying keys, as types that serde reads and writes.
//!
//! Numbers are decimal strings. A point is projective, `[x, y, "1"]`, or `["0", "1", "0"]` for the identity; an element of
//! Fp2 is `[c0, c1]`. What is read is canonical, or it is refused: an integer is below its modulus and has digits alone, and
//! a point is on its curve and of the prime order.

use ark_bls12_381::{Bls12_381, Fq, Fq2, Fr, G1Affine, G1Projective, G2Affine, G2Projective};
use ark_ec::AffineRepr;
use ark_ff::{AdditiveGroup, BigInt, Field, PrimeField};
use ark_groth16::{Proof, VerifyingKey};
use msm_gpu::MsmGroup;
use serde::{Deserialize, Serialize};

const PROTOCOL: &str = "groth16";
const CURVE: &str = "bls12381";

/// Digits of the largest 381-bit integer.
const DIGITS_MAX: usize = 115;

/// Why JSON of snarkjs cannot be used. Parsing the text itself is serde's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// The proof system is another one.
    #[error("protocol \"{found}\", not \"groth16\"")]
    Protocol {
        /// What the file says.
        found: String,
    },
    /// The curve is another one.
    #[error("curve \"{found}\", not \"bls12381\"")]
    Curve {
        /// What the file says.
        found: String,
    },
    /// An integer that is not canonical.
    #[error("{field}: not a canonical decimal number below the field's modulus")]
    Number {
        /// Where.
        field: String,
    },
    /// A point that cannot be used.
    #[error("{field}: {reason}")]
    Point {
        /// Where.
        field: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// `nPublic` is not the number of bases for public inputs.
    #[error("nPublic is {expected}, and IC has {found} points, of which one is the constant's")]
    PublicCount {
        /// What `nPublic` says.
        expected: usize,
        /// Points in `IC`.
        found: usize,
    },
}

/// A point of G1.
pub type G1Json = [String; 3];
/// A point of G2.
pub type G2Json = [[String; 2]; 3];

/// A proof: `proof.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofJson {
    /// A.
    pub pi_a: G1Json,
    /// B.
    pub pi_b: G2Json,
    /// C.
    pub pi_c: G1Json,
    /// `groth16`.
    pub protocol: String,
    /// `bls12381`.
    pub curve: String,
}

impl From<&Proof<Bls12_381>> for ProofJson {
    fn from(proof: &Proof<Bls12_381>) -> Self {
        Self {
            pi_a: g1_text(&proof.a),
            pi_b: g2_text(&proof.b),
            pi_c: g1_text(&proof.c),
            protocol: PROTOCOL.into(),
            curve: CURVE.into(),
        }
    }
}

impl ProofJson {
    /// The proof.
    ///
    /// # Errors
    /// [`JsonError`].
    pub fn proof(&self) -> Result<Proof<Bls12_381>, JsonError> {
        check_words(&self.protocol, &self.curve)?;
        Ok(Proof { a: g1("pi_a", &self.pi_a)?, b: g2("pi_b", &self.pi_b)?, c: g1("pi_c", &self.pi_c)? })
    }
}

/// A verifying key: `verification_key.json`. `vk_alphabeta_12`, which follows from the rest, is neither read nor written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyingKeyJson {
    /// `groth16`.
    pub protocol: String,
    /// `bls12381`.
    pub curve: String,
    /// Public inputs, the constant left out.
    #[serde(rename = "nPublic")]
    pub public_count: usize,
    /// `alpha` in G1.
    pub vk_alpha_1: G1Json,
    /// `beta` in G2.
    pub vk_beta_2: G2Json,
    /// `gamma` in G2.
    pub vk_gamma_2: G2Json,
    /// `delta` in G2.
    pub vk_delta_2: G2Json,
    /// The base of the constant, and one for each public input.
    #[serde(rename = "IC")]
    pub ic: Vec<G1Json>,
}

impl From<&VerifyingKey<Bls12_381>> for VerifyingKeyJson {
    fn from(vk: &VerifyingKey<Bls12_381>) -> Self {
        Self {
            protocol: PROTOCOL.into(),
            curve: CURVE.into(),
            public_count: vk.gamma_abc_g1.len().saturating_sub(1),
            vk_alpha_1: g1_text(&vk.alpha_g1),
            vk_beta_2: g2_text(&vk.beta_g2),
            vk_gamma_2: g2_text(&vk.gamma_g2),
            vk_delta_2: g2_text(&vk.delta_g2),
            ic: vk.gamma_abc_g1.iter().map(g1_text).collect(),
        }
    }
}

impl VerifyingKeyJson {
    /// The key.
    ///
    /// # Errors
    /// [`JsonError`].
    pub fn verifying_key(&self) -> Result<VerifyingKey<Bls12_381>, JsonError> {
        check_words(&self.protocol, &self.curve)?;
        let (expected, found) = (self.public_count, self.ic.len());
        if expected.checked_add(1) != Some(found) {
            return Err(JsonError::PublicCount { expected, found });
        }
        let ic = |(index, point): (usize, &G1Json)| g1(&format!("IC[{index}]"), point);
        Ok(VerifyingKey {
            alpha_g1: g1("vk_alpha_1", &self.vk_alpha_1)?,
            beta_g2: g2("vk_beta_2", &self.vk_beta_2)?,
            gamma_g2: g2("vk_gamma_2", &self.vk_gamma_2)?,
            delta_g2: g2("vk_delta_2", &self.vk_delta_2)?,
            gamma_abc_g1: self.ic.iter().enumerate().map(ic).collect::<Result<_, _>>()?,
        })
    }
}

/// Public inputs as `public.json` has them, the constant left out.
pub fn public_text(inputs: &[Fr]) -> Vec<String> {
    inputs.iter().map(|input| input.into_bigint().to_string()).collect()
}

/// Public inputs from `public.json`, each canonical: x + r is refused where x is meant.
///
/// # Errors
/// [`JsonError::Number`].
pub fn public_inputs(texts: &[String]) -> Result<Vec<Fr>, JsonError> {
    let read = |(index, text): (usize, &String)| {
        decimal(text).ok_or_else(|| JsonError::Number { field: format!("public input {index}") })
    };
    texts.iter().enumerate().map(read).collect()
}

fn check_words(protocol: &str, curve: &str) -> Result<(), JsonError> {
    if protocol != PROTOCOL {
        return Err(JsonError::Protocol { found: protocol.into() });
    }
    // ffjavascript knows the curve by several names.
    if curve.to_ascii_lowercase().replace(['-', '_'], "") != CURVE {
        return Err(JsonError::Curve { found: curve.into() });
    }
    Ok(())
}

/// A field element from its decimal integer, which has digits alone, no zero in front, and is below the modulus.
fn decimal<F: PrimeField<BigInt = BigInt<N>>, const N: usize>(text: &str) -> Option<F> {
    let is_canonical = !text.is_empty()
        && text.len() <= DIGITS_MAX
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && (text == "0" || !text.starts_with('0'));
    let integer = is_canonical.then(|| text.parse::<BigInt<N>>().ok()).flatten()?;
    F::from_bigint(integer)
}

fn fq(field: &str, text: &str) -> Result<Fq, JsonError> {
    decimal(text).ok_or_else(|| JsonError::Number { field: field.into() })
}

fn fq2(field: &str, [c0, c1]: &[String; 2]) -> Result<Fq2, JsonError> {
    Ok(Fq2::new(fq(field, c0)?, fq(field, c1)?))
}

fn g1(field: &str, [x, y, z]: &G1Json) -> Result<G1Affine, JsonError> {
    let [x, y] = [fq(field, x)?, fq(field, y)?];
    match z.as_str() {
        // The identity has one spelling, that of snarkjs.
        "0" if x == Fq::ZERO && y == Fq::ONE => Ok(G1Affine::zero()),
        "1" => member::<G1Projective>(field, G1Affine::new_unchecked(x, y)),
        _ => Err(not_affine(field)),
    }
}

fn g2(field: &str, [x, y, z]: &G2Json) -> Result<G2Affine, JsonError> {
    let [x, y] = [fq2(field, x)?, fq2(field, y)?];
    match [z[0].as_str(), z[1].as_str()] {
        ["0", "0"] if x == Fq2::ZERO && y == Fq2::ONE => Ok(G2Affine::zero()),
        ["1", "0"] => member::<G2Projective>(field, G2Affine::new_unchecked(x, y)),
        _ => Err(not_affine(field)),
    }
}

fn not_affine(field: &str) -> JsonError {
    JsonError::Point { field: field.into(), reason: "the third coordinate is neither 1 nor 0" }
}

fn member<G: MsmGroup>(field: &str, point: G::Affine) -> Result<G::Affine, JsonError> {
    // (0, 0) is how the identity is kept in memory, and not on the curve.
    if point.is_zero() || G::check_member(0, &point).is_err() {
        let reason = "not on the curve, or not in the subgroup of prime order";
        return Err(JsonError::Point { field: field.into(), reason });
    }
    Ok(point)
}

fn g1_text(point: &G1Affine) -> G1Json {
    match point.xy() {
        Some((x, y)) => [fq_text(&x), fq_text(&y), "1".into()],
        None => ["0", "1", "0"].map(String::from),
    }
}

fn g2_text(point: &G2Affine) -> G2Json {
    match point.xy() {
        Some((x, y)) => [fq2_text(&x), fq2_text(&y), ["1", "0"].map(String::from)],
        None => [["0", "0"], ["1", "0"], ["0", "0"]].map(|pair| pair.map(String::from)),
    }
}

fn fq_text(value: &Fq) -> String {
    value.into_bigint().to_string()
}

fn fq2_text(value: &Fq2) -> [String; 2] {
    [fq_text(&value.c0), fq_text(&value.c1)]
}
