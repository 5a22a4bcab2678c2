//! Readers of files and words.

use crate::circuits::CircuitName;
use crate::devices::DeviceChoice;
use crate::oracle::{BaseFlavour, ScalarFlavour, parse_seed};
use crate::sapling::KeyName;
use ark_bls12_381::{Bls12_381, Fr};
use ark_groth16::ProvingKey;
use ark_serialize::{CanonicalDeserialize, Compress, Validate};
use gpu_core::Profile;
use groth16::bellman::PointFault;
use groth16::circom::json::{ProofJson, VerifyingKeyJson, public_inputs, public_text};
use groth16::circom::{Zkey, read_r1cs, read_witness};
use groth16::{CompactKey, KeyFile, PreparedKey, Product, ReadError, Trust, Upload, Validation};
use msm_gpu::{ResultMemory, Strategy, SyncPattern};
use std::fmt::{Debug, Display};
use std::io::Write;
use std::str::FromStr;

/// A parameter file of bellman's. What was read is what the file starts with, no more and no less.
pub(super) fn bellman_key(data: &[u8]) -> bool {
    let key = match CompactKey::read(data, Validation::Curve) {
        Ok(key) => key,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    let end = usize::try_from(key.read_bytes).expect("it was read from memory");
    assert_eq!(CompactKey::read(&data[..end], Validation::Curve).as_ref(), Ok(&key));
    let short = CompactKey::read(&data[..end - 1], Validation::Curve);
    assert!(matches!(short, Err(ReadError::Truncated { .. })), "{short:?}");
    match CompactKey::read(data, Validation::Subgroup) {
        Ok(checked) => assert_eq!(checked, key),
        Err(error) => {
            let is_outside = matches!(error, ReadError::Point { fault: PointFault::NotInSubgroup, .. });
            assert!(is_outside, "{error}");
        }
    }
    true
}

/// Bytes of a point of G1 that is not compressed; one of G2 begins with as many.
const UNCOMPRESSED_G1: usize = 96;

/// A proving key of arkworks', in both forms. Where no count stands for more bytes than there are, arkworks' own reader
/// says the same; where one does it would take the memory first, and is not asked.
pub(super) fn arkworks_key(data: &[u8]) -> bool {
    let read = |(compress, trust, validate)| {
        let found = groth16::arkworks::read_key(data, compress, trust);
        let arkworks =
            || ProvingKey::<Bls12_381>::deserialize_with_mode(data, compress, validate).map_err(drop);
        match &found {
            Ok(key) => assert_eq!(Ok(key), arkworks().as_ref()),
            // Zeros that nobody wrote are no identity, though arkworks takes them for it.
            Err(ReadError::Point { offset, .. }) => {
                let rest = data.iter().skip(usize::try_from(*offset).expect("it was read from memory"));
                let are_zeros = rest.take(UNCOMPRESSED_G1).all(|byte| *byte == 0);
                assert!(are_zeros || arkworks().is_err(), "a point at {offset} that arkworks takes");
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        found.is_ok()
    };
    let forms = [Compress::Yes, Compress::No];
    let trusted = forms.map(|compress| read((compress, Trust::Trusted, Validate::No)));
    let checked = forms.map(|compress| read((compress, Trust::Checked, Validate::Yes)));
    assert!((0..2).all(|form| trusted[form] || !checked[form]), "a key is refused only if it is trusted");
    checked.contains(&true)
}

/// A page of a key file.
const PAGE: usize = 4096;
/// Sections of a key file.
const SECTIONS: usize = 12;
/// Numbers of the header before the sections' places.
const SIZES: usize = 8;
/// The hash in the header, and where what it is the hash of begins.
const HASH: std::ops::Range<usize> = 16..48;
/// Bytes of the header that are not padding: magic, hash, sizes, offset and length of each section.
pub const KEY_HEADER_BYTES: usize = HASH.end + 8 * (SIZES + 2 * SECTIONS);

/// The key file that bytes stand for: its header, and the bytes of its sections without what fills up the pages, so that
/// inputs are small; and with the hash that belongs to it, which no fuzzer would find.
pub fn unpacked_key_file(data: &[u8]) -> Vec<u8> {
    let (header, mut rest) = data.split_at(data.len().min(KEY_HEADER_BYTES));
    let mut file = header.to_vec();
    file.resize(PAGE, 0);
    for section in 0..SECTIONS {
        let at = HASH.end + 8 * (SIZES + 2 * section + 1);
        let bytes = u64::from_le_bytes(file[at..at + 8].try_into().expect("eight bytes"));
        let (taken, left) =
            rest.split_at(usize::try_from(bytes).map_or(rest.len(), |len| len.min(rest.len())));
        file.extend(taken);
        file.resize(file.len().next_multiple_of(PAGE), 0);
        rest = left;
    }
    let hash = blake3::hash(&file[HASH.end..]);
    file[HASH].copy_from_slice(hash.as_bytes());
    file
}

/// A key file as it is, and as what its header and sections are without padding. A key that comes out has the points that
/// its sizes ask for.
pub(super) fn key_file(data: &[u8]) -> bool {
    let read = |bytes: &[u8], trust| {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(bytes).expect("a temporary file");
        let key = KeyFile::open(file.path()).and_then(|opened| {
            let key = opened.key(trust)?;
            assert_key_is_whole(&key);
            Ok(())
        });
        key.map_err(|error| assert!(!error.to_string().is_empty())).is_ok()
    };
    read(data, Trust::Trusted);
    let file = unpacked_key_file(data);
    let (trusted, checked) = (read(&file, Trust::Trusted), read(&file, Trust::Checked));
    assert!(trusted || !checked, "a key is refused only if it is trusted");
    checked
}

fn assert_key_is_whole(key: &PreparedKey<'_>) {
    let shape = key.shape();
    for product in [Product::A, Product::BG1, Product::L, Product::H] {
        assert_eq!(key.bases_g1(product).len() as u64, shape.base_count(product), "{product:?}");
    }
    assert_eq!(key.bases_g2().len() as u64, shape.base_count(Product::BG2));
    assert_eq!(key.verifying_key().gamma_abc_g1.len(), shape.input_count as usize);
    assert!(shape.resident_bytes() > 0);
}

/// A key of snarkjs'. The verifying key alone is the same as in the whole.
pub(super) fn zkey(data: &[u8]) -> bool {
    let verifying_key = Zkey::read_verifying_key(data);
    let trusted = Zkey::read(data, Trust::Trusted);
    if let Err(error) = &trusted {
        assert!(!error.to_string().is_empty());
    }
    let checked = Zkey::read(data, Trust::Checked);
    let Ok(key) = checked else { return false };
    assert_eq!(trusted.expect("a checked key can be trusted").verifying_key(), key.verifying_key());
    assert_eq!(verifying_key.expect("it is part of the key"), *key.verifying_key());
    assert_key_is_whole(&key.prepare());
    true
}

/// A witness of circom's, of which nothing is left over.
pub(super) fn wtns(data: &[u8]) -> bool {
    match read_witness(data) {
        Ok(witness) => {
            let values = size_of_val::<[Fr]>(&witness);
            assert!(values < data.len(), "{values} bytes of values in {} bytes", data.len());
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

/// Constraints of circom's. What is taken can be used: its rows name variables that there are.
pub(super) fn r1cs(data: &[u8]) -> bool {
    let r1cs = match read_r1cs(data) {
        Ok(r1cs) => r1cs,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    assert!((1..=r1cs.variable_count()).contains(&r1cs.input_count()));
    for matrix in [r1cs.a(), r1cs.b(), r1cs.c()] {
        assert_eq!(matrix.row_count(), r1cs.constraint_count());
        assert!(matrix.columns.iter().all(|column| (*column as usize) < r1cs.variable_count()));
        assert_eq!(matrix.columns.len(), matrix.values.len());
    }
    true
}

/// A proof, a verifying key or public inputs as snarkjs' JSON. What is read is canonical, so it is written as it was, but
/// for the curve's name, of which readers know several spellings.
pub(super) fn snarkjs_json(data: &[u8]) -> bool {
    let proof = serde_json::from_slice::<ProofJson>(data).ok();
    let proof = proof.and_then(|json| json.proof().ok().map(|proof| (json, proof)));
    if let Some((json, proof)) = &proof {
        let written = ProofJson { curve: json.curve.clone(), ..ProofJson::from(proof) };
        assert_eq!(&written, json);
    }
    let key = serde_json::from_slice::<VerifyingKeyJson>(data).ok();
    let key = key.and_then(|json| json.verifying_key().ok().map(|key| (json, key)));
    if let Some((json, key)) = &key {
        let written = VerifyingKeyJson { curve: json.curve.clone(), ..VerifyingKeyJson::from(key) };
        assert_eq!(&written, json);
    }
    let inputs = serde_json::from_slice::<Vec<String>>(data).ok();
    let inputs = inputs.and_then(|texts| public_inputs(&texts).ok().map(|values| (texts, values)));
    if let Some((texts, values)) = &inputs {
        assert_eq!(&public_text(values), texts);
    }
    proof.is_some() || key.is_some() || inputs.is_some()
}

/// A device profile. One that is taken has rates to divide by, and writes as JSON that reads back.
pub(super) fn device_profile(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    let profile = match Profile::from_json(text) {
        Ok(profile) => profile,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    assert!(profile.sm_count > 0 && profile.fp_mul_per_s > 0.0 && profile.launch_us >= 0.0);
    let json = serde_json::to_string(&profile).expect("a profile is JSON");
    let again = Profile::from_json(&json).expect("what is written reads back");
    assert_eq!(again.name, profile.name);
    true
}

/// Words of the command line. What is taken prints as a word that means the same.
pub(super) fn words(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    let seed = parse_seed(text).is_ok_and(|seed| parse_seed(&format!("{seed:#x}")) == Ok(seed));
    [
        seed,
        reads_back::<Strategy>(text),
        reads_back::<SyncPattern>(text),
        reads_back::<ResultMemory>(text),
        reads_back::<Upload>(text),
        reads_back::<CircuitName>(text),
        reads_back::<DeviceChoice>(text),
        reads_back::<KeyName>(text),
        reads_back::<BaseFlavour>(text),
        reads_back::<ScalarFlavour>(text),
    ]
    .contains(&true)
}

/// Whether a text is a word for a value. The value's own word is one for it too.
fn reads_back<T: FromStr<Err = String> + Display + Debug + PartialEq>(text: &str) -> bool {
    match text.parse::<T>() {
        Ok(value) => {
            assert_eq!(value.to_string().parse::<T>().as_ref(), Ok(&value), "{text:?}");
            true
        }
        Err(sentence) => {
            assert!(!sentence.is_empty());
            false
        }
    }
}
