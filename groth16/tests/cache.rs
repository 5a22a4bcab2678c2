//! Key files: what is written comes back, and what is damaged is refused, section by section.

mod common;

use ark_bls12_381::{Fq, Fr, G1Affine};
use ark_ff::{PrimeField, UniformRand};
use ark_groth16::ProvingKey;
use common::{Circuit, seeded};
use gpu_core::layout::bytes_of;
use gpu_core::{Device, sim::SimOptions};
use groth16::{CacheError, KeyError, KeyFile, PreparedKey, ProveConfig, Prover, R1cs, Trust};
use std::fs;
use std::path::Path;
use std::sync::Arc;

const PAGE: usize = 4096;
/// Where the header has its numbers: sizes, whether points were checked, the reduction, and offset and length of each of
/// the sections.
const NUMBERS: usize = 48;
const SIZES: usize = 8;
const SECTIONS: usize = 12;

struct Case {
    r1cs: R1cs,
    assignment: Vec<Fr>,
    key: ProvingKey<ark_bls12_381::Bls12_381>,
}

fn case(rng: &mut rand_chacha::ChaCha20Rng) -> Case {
    let circuit = Circuit::random(rng, 20, 3, 15);
    let key = circuit.key(rng);
    let (r1cs, assignment) = R1cs::synthesize(circuit).expect("it can be synthesized");
    Case { r1cs, assignment, key }
}

fn number(bytes: &[u8], index: usize) -> u64 {
    let at = NUMBERS + 8 * index;
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The hash that belongs to the bytes, put where it belongs: what an enemy would do too.
fn rehash(bytes: &mut [u8]) {
    let hash = blake3::hash(&bytes[NUMBERS..]);
    bytes[16..48].copy_from_slice(hash.as_bytes());
}

/// What a file of these bytes gives.
fn outcome(path: &Path, bytes: &[u8], trust: Trust) -> Result<(), CacheError> {
    fs::write(path, bytes).expect("a temporary file");
    KeyFile::open(path)?.key(trust).map(drop)
}

#[test]
fn a_key_from_a_file_gives_the_same_proof() {
    let rng = &mut seeded("a_key_from_a_file");
    let case = case(rng);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("key.gpu");
    let device = Device::sim(SimOptions::default());
    let (r, s) = (Fr::rand(rng), Fr::rand(rng));
    let direct = Prover::new(&device, &case.key, &case.r1cs).expect("a prover");
    let expected = direct.prove_with(&case.assignment, r, s).expect("a proof");
    let prepared = PreparedKey::new(&case.key, &case.r1cs, Trust::Checked).expect("a key");
    prepared.write(&path).expect("a file");
    for trust in [Trust::Checked, Trust::Trusted] {
        let file = KeyFile::open(&path).expect("a key file");
        let key = Arc::new(file.key(trust).expect("the key").load(&device).expect("on the device"));
        let prover = Prover::with_key(key, &ProveConfig::default()).expect("a prover");
        assert_eq!(prover.prove_with(&case.assignment, r, s).expect("a proof"), expected);
    }
    let names: Vec<_> = fs::read_dir(directory.path()).expect("a directory").collect();
    assert_eq!(names.len(), 1, "nothing is left beside the file");
}

#[test]
fn damage_in_any_section_is_refused() {
    let rng = &mut seeded("damage_in_any_section");
    let case = case(rng);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("key.gpu");
    let prepared = PreparedKey::new(&case.key, &case.r1cs, Trust::Checked).expect("a key");
    prepared.write(&path).expect("a file");
    let good = fs::read(&path).expect("the file");
    outcome(&path, &good, Trust::Checked).expect("the file is good");
    for section in 0..SECTIONS {
        let (offset, len) = (number(&good, SIZES + 2 * section), number(&good, SIZES + 2 * section + 1));
        assert!(len > 0 && offset % PAGE as u64 == 0, "section {section}");
        // A byte flipped.
        let mut bytes = good.clone();
        bytes[(offset + len / 2) as usize] ^= 0x10;
        assert!(matches!(outcome(&path, &bytes, Trust::Checked), Err(CacheError::Hash)), "section {section}");
        // The file cut in the middle of the section, with and without a hash that fits.
        let mut cut = good[..(offset + len / 2) as usize].to_vec();
        assert!(matches!(outcome(&path, &cut, Trust::Checked), Err(CacheError::Hash)), "section {section}");
        rehash(&mut cut);
        for trust in [Trust::Checked, Trust::Trusted] {
            let error = outcome(&path, &cut, trust).expect_err("it is cut");
            assert!(matches!(error, CacheError::Truncated { .. }), "section {section}: {error}");
        }
        // A length from an enemy, who can hash: nothing is allocated for it.
        for hostile in [u64::MAX, 1 << 40, len + 1, len - 1, 0] {
            let mut bytes = good.clone();
            let at = NUMBERS + 8 * (SIZES + 2 * section + 1);
            bytes[at..at + 8].copy_from_slice(&hostile.to_le_bytes());
            rehash(&mut bytes);
            for trust in [Trust::Checked, Trust::Trusted] {
                let error = outcome(&path, &bytes, trust).expect_err("the length is wrong");
                assert!(matches!(error, CacheError::Truncated { .. }), "section {section}: {error}");
            }
        }
        // An offset out of the file, and one between pages.
        for hostile in [u64::MAX, good.len() as u64 + PAGE as u64, offset + 16] {
            let mut bytes = good.clone();
            let at = NUMBERS + 8 * (SIZES + 2 * section);
            bytes[at..at + 8].copy_from_slice(&hostile.to_le_bytes());
            rehash(&mut bytes);
            let error = outcome(&path, &bytes, Trust::Trusted).expect_err("the offset is wrong");
            assert!(matches!(error, CacheError::Truncated { .. }), "section {section}: {error}");
        }
    }
    for len in [0, 15, 16, PAGE - 1] {
        assert!(
            matches!(outcome(&path, &good[..len], Trust::Trusted), Err(CacheError::Magic)),
            "{len} bytes"
        );
    }
}

/// Sizes and indices that would make the device read where nothing is: refused whoever wrote them.
#[test]
fn indices_are_checked_even_of_a_trusted_file() {
    let rng = &mut seeded("indices_are_checked");
    let case = case(rng);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("key.gpu");
    let prepared = PreparedKey::new(&case.key, &case.r1cs, Trust::Checked).expect("a key");
    prepared.write(&path).expect("a file");
    let good = fs::read(&path).expect("the file");
    let refuse = |bytes: &mut Vec<u8>, what: &str| {
        rehash(bytes);
        for trust in [Trust::Checked, Trust::Trusted] {
            let error = outcome(&path, bytes, trust).expect_err(what);
            let is_typed = matches!(error, CacheError::Structure { .. } | CacheError::Truncated { .. });
            assert!(is_typed, "{what}: {error}");
        }
    };
    // Row offsets, columns and factors: sections 3, 4 and 5.
    for section in [3, 4, 5] {
        let mut bytes = good.clone();
        let last = number(&good, SIZES + 2 * section) + number(&good, SIZES + 2 * section + 1) - 4;
        bytes[last as usize..last as usize + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        refuse(&mut bytes, &format!("section {section}"));
    }
    for size in 0..6 {
        for hostile in [u64::MAX, u64::from(u32::MAX), number(&good, size) + 1, 0] {
            let mut bytes = good.clone();
            bytes[NUMBERS + 8 * size..NUMBERS + 8 * size + 8].copy_from_slice(&hostile.to_le_bytes());
            refuse(&mut bytes, &format!("size {size} as {hostile}"));
        }
    }
    // Another reduction has other lengths, or is none.
    for hostile in [1, 2, u64::MAX] {
        let mut bytes = good.clone();
        bytes[NUMBERS + 8 * 7..NUMBERS + 8 * 8].copy_from_slice(&hostile.to_le_bytes());
        refuse(&mut bytes, &format!("reduction {hostile}"));
    }
}

/// A point outside the subgroup: refused when the key is checked, and again when a file says that nobody had checked it.
#[test]
fn points_are_checked_once() {
    let rng = &mut seeded("points_are_checked_once");
    let mut case = case(rng);
    // (0, 2) is on the curve, and not of the prime order.
    let wrong_order = G1Affine::new_unchecked(Fq::from(0), Fq::from(2));
    assert!(wrong_order.is_on_curve());
    case.key.a_query[7] = wrong_order;
    let error = PreparedKey::new(&case.key, &case.r1cs, Trust::Checked).expect_err("the point is wrong");
    assert!(error.to_string().starts_with("a_query[7] is not in the subgroup"), "{error}");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("key.gpu");
    let prepared = PreparedKey::new(&case.key, &case.r1cs, Trust::Trusted).expect("it is trusted");
    prepared.write(&path).expect("a file");
    let file = KeyFile::open(&path).expect("a key file");
    let error = file.key(Trust::Checked).expect_err("the point is wrong");
    assert!(matches!(error, CacheError::Key(KeyError::NotInSubgroup { index: 7, .. })), "{error}");
    file.key(Trust::Trusted).expect("it is trusted");
}

/// Numbers that are not below their modulus: points where nobody had checked them, and coefficients of the constraints in
/// any file, for the kernels count on it.
#[test]
fn numbers_not_below_the_modulus_are_refused() {
    let rng = &mut seeded("numbers_not_below_the_modulus");
    let case = case(rng);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("key.gpu");
    let prepared = PreparedKey::new(&case.key, &case.r1cs, Trust::Trusted).expect("a key");
    prepared.write(&path).expect("a file");
    let good = fs::read(&path).expect("the file");
    for section in (0..SECTIONS).filter(|section| ![3, 4, 5].contains(section)) {
        let (offset, bytes) = (number(&good, SIZES + 2 * section), number(&good, SIZES + 2 * section + 1));
        let [offset, bytes] = [offset, bytes].map(|number| number as usize);
        let modulus = if section == 6 { bytes_of(&[Fr::MODULUS]) } else { bytes_of(&[Fq::MODULUS]) }.to_vec();
        // The first number, and the last one.
        for at in [offset, offset + bytes - modulus.len()] {
            // The modulus itself, and the largest integer of that size.
            for hostile in [modulus.clone(), vec![0xff; modulus.len()]] {
                let mut file = good.clone();
                file[at..at + hostile.len()].copy_from_slice(&hostile);
                rehash(&mut file);
                let error = outcome(&path, &file, Trust::Checked).expect_err("it is not below the modulus");
                let is_typed = match section {
                    6 => matches!(error, CacheError::Structure { section: "coefficients", .. }),
                    _ => matches!(error, CacheError::Key(KeyError::NotOnCurve { .. })),
                };
                assert!(is_typed, "section {section}: {error}");
            }
        }
    }
}
