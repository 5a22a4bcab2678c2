//! arkworks' keys: what arkworks writes is read, and what is damaged is refused with section and offset.

mod common;

use ark_bls12_381::{Bls12_381, Fq, G1Affine, G2Affine};
use ark_ec::AffineRepr;
use ark_groth16::ProvingKey;
use ark_serialize::{CanonicalSerialize, Compress};
use common::{Circuit, seeded};
use groth16::arkworks::read_key;
use groth16::bellman::{PointFault, Section};
use groth16::{ReadError, Trust};

const MODES: [Compress; 2] = [Compress::Yes, Compress::No];

fn key() -> ProvingKey<Bls12_381> {
    let rng = &mut seeded("arkworks_key");
    Circuit::random(rng, 6, 2, 5).key(rng)
}

fn write(key: &ProvingKey<Bls12_381>, compress: Compress) -> Vec<u8> {
    let mut bytes = Vec::new();
    key.serialize_with_mode(&mut bytes, compress).expect("a vector takes all bytes");
    bytes
}

/// First byte of each section's points, and one past the last; and where its count is, if it has one.
fn sections(key: &ProvingKey<Bls12_381>, compress: Compress) -> Vec<(Section, std::ops::Range<usize>, bool)> {
    let (g1, g2) = (G1Affine::zero().serialized_size(compress), G2Affine::zero().serialized_size(compress));
    let sizes = [
        (Section::AlphaG1, g1, None),
        (Section::BetaG2, g2, None),
        (Section::GammaG2, g2, None),
        (Section::DeltaG2, g2, None),
        (Section::GammaAbcG1, g1, Some(key.vk.gamma_abc_g1.len())),
        (Section::BetaG1, g1, None),
        (Section::DeltaG1, g1, None),
        (Section::AQuery, g1, Some(key.a_query.len())),
        (Section::BG1Query, g1, Some(key.b_g1_query.len())),
        (Section::BG2Query, g2, Some(key.b_g2_query.len())),
        (Section::HQuery, g1, Some(key.h_query.len())),
        (Section::LQuery, g1, Some(key.l_query.len())),
    ];
    let mut offset = 0;
    let place = |(section, point, count): (Section, usize, Option<usize>)| {
        offset += if count.is_some() { 8 } else { 0 };
        let start = offset;
        offset += point * count.unwrap_or(1);
        (section, start..offset, count.is_some())
    };
    sizes.map(place).into()
}

#[test]
fn reads_what_arkworks_writes_and_leaves_the_rest() {
    let key = key();
    for compress in MODES {
        let mut bytes = write(&key, compress);
        assert_eq!(sections(&key, compress).last().expect("sections").1.end, bytes.len());
        bytes.extend_from_slice(b"trailing");
        for trust in [Trust::Checked, Trust::Trusted] {
            assert_eq!(read_key(&bytes, compress, trust).as_ref(), Ok(&key));
        }
    }
}

#[test]
fn every_truncation_names_its_section() {
    let key = key();
    for compress in MODES {
        let bytes = write(&key, compress);
        for (section, range, has_count) in sections(&key, compress) {
            let first = range.start - if has_count { 8 } else { 0 };
            for cut in [first, range.start, range.end - 1] {
                match read_key(&bytes[..cut], compress, Trust::Trusted) {
                    Err(ReadError::Truncated { section: named, .. }) => assert_eq!(named, section, "{cut}"),
                    other => panic!("{section} cut at {cut}: {other:?}"),
                }
            }
        }
    }
}

#[test]
fn a_hostile_count_is_refused_before_anything_is_allocated_for_it() {
    let key = key();
    for compress in MODES {
        let good = write(&key, compress);
        for (section, range, has_count) in sections(&key, compress) {
            for count in [u64::MAX, 1 << 60, 1 << 40].into_iter().filter(|_| has_count) {
                let mut bytes = good.clone();
                bytes[range.start - 8..range.start].copy_from_slice(&count.to_le_bytes());
                let error = read_key(&bytes, compress, Trust::Checked).expect_err("so many are not there");
                assert!(
                    matches!(error, ReadError::Truncated { section: named, .. } if named == section),
                    "{section}: {error}"
                );
            }
        }
    }
}

/// (0, 2) is on the curve, and not of the prime order: found, unless the key is trusted.
#[test]
fn b58_a_point_of_the_wrong_order_is_found_unless_the_key_is_trusted() {
    let mut key = key();
    key.l_query[2] = G1Affine::new_unchecked(Fq::from(0), Fq::from(2));
    for compress in MODES {
        let bytes = write(&key, compress);
        let error = read_key(&bytes, compress, Trust::Checked).expect_err("the point is wrong");
        let ReadError::Point { section, index, fault, .. } = error else { panic!("{error}") };
        assert_eq!((section, index, fault), (Section::LQuery, 2, PointFault::Encoding));
        assert_eq!(read_key(&bytes, compress, Trust::Trusted).as_ref(), Ok(&key));
    }
}

#[test]
fn a_flipped_bit_in_any_section_is_found() {
    let key = key();
    for compress in MODES {
        let good = write(&key, compress);
        for (section, range, _) in sections(&key, compress) {
            // Near the end of the section's last point: its coordinate is another, and the point not in the group.
            let mut bytes = good.clone();
            bytes[range.end - 3] ^= 4;
            match read_key(&bytes, compress, Trust::Checked) {
                Err(ReadError::Point { section: named, fault, .. }) => {
                    assert_eq!((named, fault), (section, PointFault::Encoding));
                }
                other => panic!("{section}: {other:?}"),
            }
        }
    }
}
