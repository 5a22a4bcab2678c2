//! Points as bytes, through every reader that they can come by: arkworks' decoder, our readers of arkworks' and bellman's
//! keys, and zkcrypto's decoder, which shares no code with them.

use ark_bls12_381::{Bls12_381, Fq, Fr, G1Affine, G2Affine};
use ark_ec::short_weierstrass::Affine;
use ark_ec::{AffineRepr, CurveGroup};
use ark_ff::UniformRand;
use ark_groth16::ProvingKey;
use ark_serialize::{CanonicalDeserialize, CanonicalSerialize, Compress, Validate};
use groth16::arkworks::read_key;
use groth16::bellman::{PointFault, Section};
use groth16::{CompactKey, KeyFile, PreparedKey, Proof, ReadError, Trust, Validation};
use harness::circuits::{CircuitName, Problem};
use harness::oracle::{random_numbers, test_seed};
use harness::prove::proof_bytes;
use std::fmt::Debug;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const MODES: [Compress; 2] = [Compress::Yes, Compress::No];

/// A point, and what zkcrypto says of its bytes.
trait Point: AffineRepr<ScalarField = Fr> + Debug {
    /// The point again as bytes of the same mode; `None` if zkcrypto refuses it.
    fn by_zkcrypto(bytes: &[u8], mode: Compress) -> Option<Vec<u8>>;

    /// A query of a key whose points are of this group, and its section.
    fn query(key: &mut ProvingKey<Bls12_381>) -> (Section, &mut Vec<Self>);
}

impl Point for Affine<ark_bls12_381::g1::Config> {
    fn by_zkcrypto(bytes: &[u8], mode: Compress) -> Option<Vec<u8>> {
        use bls12_381::G1Affine as Theirs;
        let point: Option<Theirs> = match mode {
            Compress::Yes => Theirs::from_compressed(bytes.try_into().ok()?).into(),
            Compress::No => Theirs::from_uncompressed(bytes.try_into().ok()?).into(),
        };
        Some(if is_short(mode) { point?.to_compressed().into() } else { point?.to_uncompressed().into() })
    }

    fn query(key: &mut ProvingKey<Bls12_381>) -> (Section, &mut Vec<Self>) {
        (Section::AQuery, &mut key.a_query)
    }
}

impl Point for Affine<ark_bls12_381::g2::Config> {
    fn by_zkcrypto(bytes: &[u8], mode: Compress) -> Option<Vec<u8>> {
        use bls12_381::G2Affine as Theirs;
        let point: Option<Theirs> = match mode {
            Compress::Yes => Theirs::from_compressed(bytes.try_into().ok()?).into(),
            Compress::No => Theirs::from_uncompressed(bytes.try_into().ok()?).into(),
        };
        Some(if is_short(mode) { point?.to_compressed().into() } else { point?.to_uncompressed().into() })
    }

    fn query(key: &mut ProvingKey<Bls12_381>) -> (Section, &mut Vec<Self>) {
        (Section::BG2Query, &mut key.b_g2_query)
    }
}

fn is_short(mode: Compress) -> bool {
    matches!(mode, Compress::Yes)
}

fn encode(item: &impl CanonicalSerialize, mode: Compress) -> Vec<u8> {
    let mut bytes = Vec::new();
    item.serialize_with_mode(&mut bytes, mode).expect("a vector takes all bytes");
    bytes
}

fn decode<P: CanonicalDeserialize>(bytes: &[u8], mode: Compress) -> Option<P> {
    P::deserialize_with_mode(bytes, mode, Validate::Yes).ok()
}

fn key() -> ProvingKey<Bls12_381> {
    static KEY: OnceLock<ProvingKey<Bls12_381>> = OnceLock::new();
    KEY.get_or_init(|| Problem::new(CircuitName::Mimc(3), 1, None).expect("a key").key).clone()
}

/// arkworks' key with these bytes in the place of the first point of a query, through our reader.
fn through_key<P: Point>(bytes: &[u8], mode: Compress) -> Result<P, ReadError> {
    let mut key = key();
    // A point that is nowhere else marks the place.
    let mark = (P::generator() * Fr::from(0x6d61_726b)).into_affine();
    let (section, query) = P::query(&mut key);
    query[0] = mark;
    let (mut file, mark) = (encode(&key, mode), encode(&mark, mode));
    let at = file.windows(mark.len()).position(|window| window == mark).expect("the mark is there");
    file[at..at + mark.len()].copy_from_slice(bytes);
    match read_key(&file, mode, Trust::Checked) {
        Ok(mut key) => Ok(P::query(&mut key).1[0]),
        Err(error) => {
            let fault = PointFault::Encoding;
            assert_eq!(error, ReadError::Point { section, index: 0, offset: at as u64, fault });
            Err(error)
        }
    }
}

/// Bytes that are zero but for the first and, at a place, a one.
fn with(len: usize, head: u8, one_at: Option<usize>) -> Vec<u8> {
    let mut bytes = vec![0; len];
    bytes[0] = head;
    if let Some(at) = one_at {
        bytes[at] |= 1;
    }
    bytes
}

fn infinity_is_told_from_garbage<P: Point>() {
    for mode in MODES {
        let len = P::zero().serialized_size(mode);
        let infinity = if is_short(mode) { 0xc0 } else { 0x40 };
        for flags in 0..8u8 {
            for one_at in [None, Some(0), Some(1), Some(len / 2), Some(len - 1)] {
                let bytes = with(len, flags << 5, one_at);
                let is_identity = flags << 5 == infinity && one_at.is_none();
                let what = format!("{:#x}, a one at {one_at:?} of {len}", flags << 5);
                let by_reader = through_key::<P>(&bytes, mode);
                if is_identity {
                    assert_eq!(decode::<P>(&bytes, mode), Some(P::zero()), "{what}");
                    assert_eq!(P::by_zkcrypto(&bytes, mode).as_deref(), Some(&bytes[..]), "{what}");
                    assert_eq!(by_reader, Ok(P::zero()), "{what}");
                } else if flags & 0b010 != 0 || one_at.is_none() {
                    assert_eq!(P::by_zkcrypto(&bytes, mode), None, "{what}");
                    assert!(by_reader.is_err(), "{what}: {by_reader:?}");
                    // arkworks takes zeros without a flag for the identity; our reader of its keys does not.
                    let is_lenient = flags == 0 && !is_short(mode) && one_at.is_none();
                    assert_eq!(decode::<P>(&bytes, mode), is_lenient.then(P::zero), "{what}");
                } else {
                    // The flags of a point, or of none: whoever takes it for one, takes it for the same.
                    let by_arkworks = decode::<P>(&bytes, mode).map(|point| encode(&point, mode));
                    assert_eq!(by_arkworks, P::by_zkcrypto(&bytes, mode), "{what}");
                    assert_eq!(by_reader.ok().map(|point| encode(&point, mode)), by_arkworks, "{what}");
                }
            }
        }
    }
}

/// The infinity flag never makes a point of other bytes, and nothing else makes the identity.
#[test]
fn b80_infinity_is_told_from_garbage() {
    infinity_is_told_from_garbage::<G1Affine>();
    infinity_is_told_from_garbage::<G2Affine>();
}

fn infinity_decodes_to_the_identity<P: Point>() {
    for mode in MODES {
        let bytes = with(P::zero().serialized_size(mode), if is_short(mode) { 0xc0 } else { 0x40 }, None);
        let found = [decode::<P>(&bytes, mode), through_key::<P>(&bytes, mode).ok()];
        for point in found.map(|point| point.expect("it is the identity")) {
            assert!(point.is_zero() && point != P::generator(), "{point:?}");
            assert_eq!(point.into_group() + P::generator(), P::generator().into_group());
        }
    }
}

#[test]
fn b81_infinity_decodes_to_the_identity_in_both_groups() {
    infinity_decodes_to_the_identity::<G1Affine>();
    infinity_decodes_to_the_identity::<G2Affine>();
}

fn encoding_and_decoding_undo_each_other<P: Point>() {
    let rng = &mut random_numbers(test_seed(), "encodings");
    let random = (P::generator() * Fr::rand(rng)).into_affine();
    let negative = (-P::generator().into_group()).into_affine();
    for point in [P::zero(), P::generator(), negative, random] {
        for mode in MODES {
            let bytes = encode(&point, mode);
            assert_eq!(decode::<P>(&bytes, mode), Some(point));
            assert_eq!(P::by_zkcrypto(&bytes, mode), Some(bytes.clone()));
            assert_eq!(through_key::<P>(&bytes, mode), Ok(point));
        }
    }
}

#[test]
fn b82_encoding_and_decoding_undo_each_other() {
    encoding_and_decoding_undo_each_other::<G1Affine>();
    encoding_and_decoding_undo_each_other::<G2Affine>();
}

/// (0, 2) and (0, -2) are on the curve of G1, and not of the prime order.
#[test]
fn b76_a_proof_with_a_point_of_the_wrong_order_is_not_decoded() {
    let seed = test_seed();
    let problem = Problem::new(CircuitName::Mimc(3), seed, None).expect("something to prove");
    let proof =
        harness::prove::proof_by_arkworks(&problem, Fr::from(2), Fr::from(3)).expect("arkworks proves");
    for mode in MODES {
        let good = encode(&proof, mode);
        assert_eq!(decode::<Proof>(&good, mode), Some(proof.clone()));
        for y in [Fq::from(2), -Fq::from(2)] {
            let wrong = G1Affine::new_unchecked(Fq::from(0), y);
            assert!(wrong.is_on_curve() && !wrong.is_in_correct_subgroup_assuming_on_curve());
            let mut bytes = good.clone();
            let point = encode(&wrong, mode);
            bytes[..point.len()].copy_from_slice(&point);
            assert_eq!(decode::<Proof>(&bytes, mode), None);
            assert!(through_key::<G1Affine>(&point, mode).is_err(), "nor is a key's");
        }
    }
    assert_eq!(proof_bytes(&proof), encode(&proof, Compress::Yes));
}

/// A file in parts: what comes before the count of a section, and the section.
type Parts = Vec<(Section, Vec<u8>)>;

/// arkworks' key up to the count of each query.
fn before_counts(key: &ProvingKey<Bls12_381>, mode: Compress) -> Parts {
    let vk = &key.vk;
    let mut file = encode(&vk.alpha_g1, mode);
    [vk.beta_g2, vk.gamma_g2, vk.delta_g2].iter().for_each(|point| file.extend(encode(point, mode)));
    let mut parts = vec![(Section::GammaAbcG1, file.clone())];
    file.extend(encode(&vk.gamma_abc_g1, mode));
    [key.beta_g1, key.delta_g1].iter().for_each(|point| file.extend(encode(point, mode)));
    let mut query = |section, bytes: Vec<u8>| {
        parts.push((section, file.clone()));
        file.extend(bytes);
    };
    query(Section::AQuery, encode(&key.a_query, mode));
    query(Section::BG1Query, encode(&key.b_g1_query, mode));
    query(Section::BG2Query, encode(&key.b_g2_query, mode));
    query(Section::HQuery, encode(&key.h_query, mode));
    query(Section::LQuery, encode(&key.l_query, mode));
    assert_eq!(file, encode(key, mode), "the parts are arkworks' file");
    parts
}

/// bellman's file of the same key up to the count of each query.
fn before_compact_counts(key: &ProvingKey<Bls12_381>) -> Parts {
    let (vk, mode) = (&key.vk, Compress::No);
    let mut file = [encode(&vk.alpha_g1, mode), encode(&key.beta_g1, mode)].concat();
    [vk.beta_g2, vk.gamma_g2].iter().for_each(|point| file.extend(encode(point, mode)));
    file.extend([encode(&key.delta_g1, mode), encode(&vk.delta_g2, mode)].concat());
    let mut parts = Vec::new();
    let mut query = |section, points: Vec<Vec<u8>>| {
        parts.push((section, file.clone()));
        file.extend((points.len() as u32).to_be_bytes());
        file.extend(points.concat());
    };
    fn present<P: Point>(points: &[P]) -> Vec<Vec<u8>> {
        points.iter().filter(|point| !point.is_zero()).map(|point| encode(point, Compress::No)).collect()
    }
    query(Section::GammaAbcG1, present(&vk.gamma_abc_g1));
    query(Section::HQuery, present(&key.h_query));
    query(Section::LQuery, present(&key.l_query));
    query(Section::AQuery, present(&key.a_query));
    query(Section::BG1Query, present(&key.b_g1_query));
    query(Section::BG2Query, present(&key.b_g2_query));
    let read = CompactKey::read(&file, Validation::Subgroup).expect("bellman's file");
    assert_eq!((read.read_bytes, &read.h_query), (file.len() as u64, &key.h_query));
    parts
}

/// The most memory that this process has had, in bytes.
fn peak_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("the state of a process");
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number") << 10
}

/// A count of 2^40 with nothing behind it is refused at once, and nothing is allocated for it: in a process of its own,
/// whose peak is looked at.
#[test]
#[cfg(target_os = "linux")]
fn b84_a_count_with_nothing_behind_it_costs_nothing() {
    const TEST: &str = "b84_a_count_with_nothing_behind_it_costs_nothing";
    const ROLE: &str = "ENCODINGS_TEST_ROLE";
    if std::env::var_os(ROLE).is_none() {
        let mut child = Command::new(std::env::current_exe().expect("path of this test"));
        let output = child.args(["--exact", TEST, "--nocapture"]).env(ROLE, "").output().expect("it starts");
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let text = text.concat();
        assert!(output.status.success() && text.contains("1 passed"), "{}\n{text}", output.status);
        return;
    }
    let problem = Problem::new(CircuitName::Mimc(3), 1, None).expect("a key");
    let key = &problem.key;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("key.gpu");
    let prepared = PreparedKey::new(key, &problem.r1cs, Trust::Trusted).expect("a key");
    prepared.write(&path).expect("a file");
    let good = std::fs::read(&path).expect("the file");
    let start = Instant::now();
    for mode in MODES {
        for (section, before) in before_counts(key, mode) {
            for count in [1 << 40, u64::MAX] {
                let file = [&before[..], &count.to_le_bytes()].concat();
                let error = read_key(&file, mode, Trust::Checked).expect_err("nothing is behind the count");
                let ReadError::Truncated { section: named, left_bytes: 0, .. } = error else {
                    panic!("{error}")
                };
                assert_eq!(named, section);
            }
        }
    }
    for (section, before) in before_compact_counts(key) {
        let file = [&before[..], &u32::MAX.to_be_bytes()].concat();
        let error = CompactKey::read(&file, Validation::Curve).expect_err("nothing is behind the count");
        let ReadError::Truncated { section: named, left_bytes: 0, .. } = error else { panic!("{error}") };
        assert_eq!(named, section);
    }
    // A key file's lengths are in its header, which is all that is left of it.
    for number in (48..good.len().min(4096) - 8).step_by(8) {
        let mut header = good[..4096].to_vec();
        header[number..number + 8].copy_from_slice(&(1u64 << 40).to_le_bytes());
        std::fs::write(&path, &header).expect("a file");
        KeyFile::open(&path).expect("a header").key(Trust::Trusted).expect_err("nothing is behind it");
    }
    let (peak, time) = (peak_bytes(), start.elapsed());
    println!("peak {} MiB after {time:?}", peak >> 20);
    assert!(peak < 100 << 20, "{peak} bytes");
    assert!(time < Duration::from_secs(20), "{time:?}");
}
