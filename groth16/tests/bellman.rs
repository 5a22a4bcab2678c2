//! The reader of bellman's parameter files against files written with arkworks' own encoder, and against broken ones.

use ark_bls12_381::{Fq, Fq2, G1Affine, G2Affine};
use ark_ec::{AffineRepr, CurveGroup};
use ark_ff::{BigInteger, Field, PrimeField};
use groth16::bellman::{PointFault, Section};
use groth16::{CompactKey, ReadError, Validation, VerifyingKey};

const SECTIONS: [Section; 12] = [
    Section::AlphaG1,
    Section::BetaG1,
    Section::BetaG2,
    Section::GammaG2,
    Section::DeltaG1,
    Section::DeltaG2,
    Section::GammaAbcG1,
    Section::HQuery,
    Section::LQuery,
    Section::AQuery,
    Section::BG1Query,
    Section::BG2Query,
];

/// The i-th multiple of the generator, so that no two points of the key are equal.
fn point<P: AffineRepr>(i: u64) -> P {
    (P::generator() * P::ScalarField::from(i)).into_affine()
}

fn points<P: AffineRepr>(first: u64, count: u64) -> Vec<P> {
    (first..first + count).map(point).collect()
}

fn key() -> CompactKey {
    let vk = VerifyingKey {
        alpha_g1: point(2),
        beta_g1: point(3),
        beta_g2: point(3),
        gamma_g2: point(4),
        delta_g1: point(5),
        delta_g2: point(5),
        gamma_abc_g1: points(10, 2),
    };
    let (h_query, l_query, a_query) = (points(20, 3), points(30, 4), points(40, 1));
    let (b_g1_query, b_g2_query) = (points(50, 2), points(50, 2));
    CompactKey { vk, h_query, l_query, a_query, b_g1_query, b_g2_query, read_bytes: 0 }
}

/// A file, and where in it each section begins: at its count, where it has one.
struct File {
    bytes: Vec<u8>,
    starts: Vec<usize>,
}

impl File {
    fn new(key: &CompactKey) -> Self {
        let mut file = Self { bytes: Vec::new(), starts: Vec::new() };
        let vk = &key.vk;
        file.single(&vk.alpha_g1);
        file.single(&vk.beta_g1);
        file.single(&vk.beta_g2);
        file.single(&vk.gamma_g2);
        file.single(&vk.delta_g1);
        file.single(&vk.delta_g2);
        for query in [&vk.gamma_abc_g1, &key.h_query, &key.l_query, &key.a_query, &key.b_g1_query] {
            file.query(query);
        }
        file.query(&key.b_g2_query);
        file
    }

    fn single<P: AffineRepr>(&mut self, point: &P) {
        self.starts.push(self.bytes.len());
        point.serialize_uncompressed(&mut self.bytes).expect("a vector takes everything");
    }

    fn query<P: AffineRepr>(&mut self, points: &[P]) {
        self.starts.push(self.bytes.len());
        self.bytes.extend((points.len() as u32).to_be_bytes());
        for point in points {
            point.serialize_uncompressed(&mut self.bytes).expect("a vector takes everything");
        }
    }

    /// Offset of a section's first point.
    fn first_point(&self, section: usize) -> usize {
        self.starts[section] + if section < 6 { 0 } else { 4 }
    }
}

fn section_of(error: &ReadError) -> Section {
    match error {
        ReadError::Truncated { section, .. } | ReadError::Point { section, .. } => *section,
        other => panic!("unknown error {other}"),
    }
}

fn fault_of(bytes: &[u8]) -> PointFault {
    match CompactKey::read(bytes, Validation::Subgroup) {
        Err(ReadError::Point { fault, .. }) => fault,
        other => panic!("expected a bad point, not {other:?}"),
    }
}

#[test]
fn reads_what_arkworks_writes_and_leaves_the_rest() {
    let mut expected = key();
    let mut bytes = File::new(&expected).bytes;
    expected.read_bytes = bytes.len() as u64;
    bytes.extend(b"a ceremony transcript");
    for validation in [Validation::Curve, Validation::Subgroup] {
        assert_eq!(CompactKey::read(&bytes, validation).expect("a good file"), expected);
    }
}

#[test]
fn empty_queries_are_queries() {
    let mut expected = key();
    (expected.h_query, expected.b_g2_query) = (Vec::new(), Vec::new());
    let bytes = File::new(&expected).bytes;
    expected.read_bytes = bytes.len() as u64;
    assert_eq!(CompactKey::read(&bytes, Validation::Curve).expect("a good file"), expected);
}

#[test]
fn every_truncation_names_its_section_and_offset() {
    let file = File::new(&key());
    for len in 0..file.bytes.len() {
        let error = CompactKey::read(&file.bytes[..len], Validation::Curve).expect_err("cut short");
        let inside = file.starts.iter().rposition(|start| *start <= len).expect("the first is at 0");
        let ReadError::Truncated { section, offset, needed_bytes, left_bytes } = error else {
            panic!("cut to {len}: {error}");
        };
        assert_eq!(section, SECTIONS[inside], "cut to {len}");
        assert_eq!(offset + left_bytes, len as u64, "cut to {len}");
        assert!(needed_bytes > left_bytes && offset >= file.starts[inside] as u64, "cut to {len}");
    }
}

#[test]
fn a_hostile_count_is_refused_before_anything_is_allocated_for_it() {
    let file = File::new(&key());
    for (section, name) in SECTIONS.into_iter().enumerate().skip(6) {
        let mut bytes = file.bytes.clone();
        let start = file.starts[section];
        bytes[start..start + 4].copy_from_slice(&u32::MAX.to_be_bytes());
        let point_bytes = if section == 11 { 192 } else { 96 };
        let expected = ReadError::Truncated {
            section: name,
            offset: start as u64 + 4,
            needed_bytes: u64::from(u32::MAX) * point_bytes,
            left_bytes: (bytes.len() - start - 4) as u64,
        };
        assert_eq!(CompactKey::read(&bytes, Validation::Curve), Err(expected));
    }
}

#[test]
fn a_flipped_bit_anywhere_in_a_point_names_the_section() {
    let file = File::new(&key());
    for (section, name) in SECTIONS.into_iter().enumerate() {
        let first = file.first_point(section);
        for byte in [0, 1, 47, 48, 95] {
            let mut bytes = file.bytes.clone();
            bytes[first + byte] ^= 1;
            let error = CompactKey::read(&bytes, Validation::Curve).expect_err("a flipped bit");
            assert_eq!(section_of(&error), name, "byte {byte}: {error}");
        }
    }
}

#[test]
fn only_plain_flags_pass() {
    let file = File::new(&key());
    for section in [0, 2, 7, 11] {
        let first = file.first_point(section);
        for flags in 1..8_u8 {
            let mut bytes = file.bytes.clone();
            bytes[first] |= flags << 5;
            let expected = match flags {
                0b010 => PointFault::DirtyInfinity,
                _ => PointFault::Flags { flags },
            };
            assert_eq!(fault_of(&bytes), expected, "section {section}");
        }
    }
}

/// The decisions of case B80 (`harness/cases.md`): the infinity flag never makes a point of other bytes.
#[test]
fn b80_infinity_is_told_from_garbage_and_refused_in_a_compact_key() {
    let file = File::new(&key());
    let first = file.first_point(9);
    let with = |head: u8, tail: u8| {
        let mut bytes = file.bytes.clone();
        bytes[first..first + 96].fill(0);
        (bytes[first], bytes[first + 95]) = (head, tail);
        fault_of(&bytes)
    };
    assert_eq!(with(0x40, 0), PointFault::Identity);
    assert_eq!(with(0x40, 1), PointFault::DirtyInfinity);
    assert_eq!(with(0x41, 0), PointFault::DirtyInfinity);
    assert_eq!(with(0xc0, 0), PointFault::Flags { flags: 0b110 });
    assert_eq!(with(0xc0, 1), PointFault::Flags { flags: 0b110 });
    assert_eq!(with(0xe0, 0), PointFault::Flags { flags: 0b111 });
    // arkworks keeps the identity as (0, 0): those bytes without the flag are no identity, and not on the curve.
    assert_eq!(with(0, 0), PointFault::NotOnCurve);
}

#[test]
fn coordinates_are_below_the_modulus() {
    let file = File::new(&key());
    let p = Fq::MODULUS.to_bytes_be();
    for (section, halves) in [(7, [('x', 0), ('y', 48)]), (11, [('x', 48), ('y', 96)])] {
        for (coordinate, offset) in halves {
            let mut bytes = file.bytes.clone();
            let at = file.first_point(section) + offset;
            bytes[at..at + 48].copy_from_slice(&p);
            assert_eq!(fault_of(&bytes), PointFault::Coordinate { coordinate }, "section {section}");
        }
    }
}

/// Points that satisfy the equation and are not of the prime order: x = 0 in G1, and the first x that serves in G2.
#[test]
fn b58_wrong_order_is_found_when_asked_for() {
    let g1 = G1Affine::new_unchecked(Fq::from(0), Fq::from(2));
    let g2 = (1_u64..)
        .find_map(|x| G2Affine::get_point_from_x_unchecked(Fq2::new(Fq::from(x), Fq::ONE), false))
        .expect("half of all x serve");
    assert!(g1.is_on_curve() && !g1.is_in_correct_subgroup_assuming_on_curve());
    assert!(g2.is_on_curve() && !g2.is_in_correct_subgroup_assuming_on_curve());
    let (mut bad_g1, mut bad_g2) = (key(), key());
    bad_g1.l_query[2] = g1;
    bad_g2.b_g2_query[1] = g2;
    for (bad, section, index) in [(bad_g1, Section::LQuery, 2), (bad_g2, Section::BG2Query, 1)] {
        let bytes = File::new(&bad).bytes;
        CompactKey::read(&bytes, Validation::Curve).expect("on the curve is all that is asked");
        let error = CompactKey::read(&bytes, Validation::Subgroup).expect_err("wrong order");
        let ReadError::Point { section: found, index: at, fault, .. } = error else { panic!("{error}") };
        assert_eq!((found, at, fault), (section, index, PointFault::NotInSubgroup));
    }
}

#[test]
fn the_first_of_many_bad_points_is_named() {
    let mut big = key();
    big.h_query = vec![G1Affine::generator(); 5000];
    let file = File::new(&big);
    let first = file.first_point(7);
    let mut bytes = file.bytes;
    for index in (1234..5000).step_by(7) {
        bytes[first + 96 * index + 95] ^= 1;
    }
    let offset = (first + 96 * 1234) as u64;
    let fault = PointFault::NotOnCurve;
    let expected = ReadError::Point { section: Section::HQuery, index: 1234, offset, fault };
    for _ in 0..20 {
        assert_eq!(CompactKey::read(&bytes, Validation::Curve), Err(expected.clone()));
    }
}

#[test]
fn messages_say_where_and_what() {
    let file = File::new(&key());
    let cut = CompactKey::read(&file.bytes[..100], Validation::Curve).expect_err("cut short");
    assert_eq!(cut.to_string(), "beta_g1: 96 bytes needed at offset 96, 4 left");
    let mut bytes = file.bytes;
    bytes[96] |= 0x80;
    let flags = CompactKey::read(&bytes, Validation::Curve).expect_err("a flag");
    assert_eq!(flags.to_string(), "beta_g1[0] at offset 96: flag bits 0b100 in an uncompressed point");
}
