//! The files of circom and snarkjs: what they write is read, what is damaged is refused with section and offset, and no
//! length is believed. The fixture is circom's and snarkjs' own; other files come from the writers of these tests.

mod circom_files;

use ark_bls12_381::{Fq, Fr, G1Affine};
use ark_ec::AffineRepr;
use ark_ff::{BigInteger, Field, PrimeField};
use circom_files::{
    Trapdoor, container, fixture, outside, random_problem, sections, write_r1cs, write_wtns, write_zkey,
};
use gpu_core::layout::bytes_of;
use groth16::bellman::PointFault;
use groth16::circom::json::{JsonError, ProofJson, VerifyingKeyJson, public_inputs, public_text};
use groth16::circom::{CircomError, Kind, Zkey, read_r1cs, read_witness};
use groth16::{Reduction, Trust};
use harness::oracle::{random_numbers, test_seed};
use rand_chacha::rand_core::RngCore;

/// BN254's p and r, which circom has by default.
const BN254: [[u64; 4]; 2] = [
    [0x3c20_8c16_d87c_fd47, 0x9781_6a91_6871_ca8d, 0xb850_45b6_8181_585d, 0x3064_4e72_e131_a029],
    [0x43e1_f593_f000_0001, 0x2833_e848_79b9_7091, 0xb850_45b6_8181_585d, 0x3064_4e72_e131_a029],
];

fn read_any(kind: Kind, bytes: &[u8], trust: Trust) -> Result<(), CircomError> {
    match kind {
        Kind::Zkey => Zkey::read(bytes, trust).map(|_| ()),
        Kind::Wtns => read_witness(bytes).map(|_| ()),
        Kind::R1cs => read_r1cs(bytes).map(|_| ()),
    }
}

const FILES: [(Kind, &str); 3] =
    [(Kind::Zkey, "mul.zkey"), (Kind::Wtns, "mul.wtns"), (Kind::R1cs, "mul.r1cs")];

/// First byte of a section's body, and one past the last.
fn section(bytes: &[u8], number: u32) -> (usize, usize) {
    let found = sections(bytes).into_iter().find(|(other, ..)| *other == number);
    let (_, start, end) = found.expect("the section is there");
    (start, end)
}

fn with(good: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut bad = good.to_vec();
    bad[at..at + bytes.len()].copy_from_slice(bytes);
    bad
}

#[test]
fn the_fixture_has_its_sizes() {
    let zkey = Zkey::read(&fixture("mul.zkey"), Trust::Checked).expect("a key");
    let shape = zkey.shape();
    let sizes = [shape.constraint_count, shape.input_count, shape.variable_count, shape.term_count];
    assert_eq!((sizes, shape.log_n, shape.reduction), ([200, 3, 203, 400], 8, Reduction::Snarkjs));
    let r1cs = read_r1cs(&fixture("mul.r1cs")).expect("constraints");
    assert_eq!((r1cs.constraint_count(), r1cs.input_count(), r1cs.variable_count()), (200, 3, 203));
    // The key's A and B are the circuit's, coefficients and all.
    assert_eq!((zkey.a(), zkey.b()), (r1cs.a(), r1cs.b()));
    let witness = read_witness(&fixture("mul.wtns")).expect("a witness");
    assert_eq!((witness.len(), witness[0], witness[2]), (203, Fr::ONE, Fr::from(7)));
    assert_eq!(r1cs.first_failing(&witness), None);
    for (kind, name) in FILES {
        assert_eq!(Kind::of(&fixture(name)), Some(kind));
    }
}

#[test]
fn random_files_come_back_as_they_were() {
    let rng = &mut random_numbers(test_seed(), "circom files");
    for round in 0..40 {
        let mut size = |bound: u32| (rng.next_u32() % bound) as usize;
        let (constraints, inputs, witnesses) = (size(30), 1 + size(6), size(20));
        let (r1cs, assignment) = random_problem(rng, constraints, inputs, witnesses);
        let what = format!("{constraints}, {inputs}, {witnesses}");
        assert_eq!(read_r1cs(&write_r1cs(&r1cs)).as_ref(), Ok(&r1cs), "{what}");
        assert_eq!(*read_witness(&write_wtns(&assignment)).expect("a witness"), assignment, "{what}");
        if round < 6 {
            let zkey = Zkey::read(&write_zkey(&r1cs, &Trapdoor::random(rng)), Trust::Checked);
            let zkey = zkey.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!((zkey.a(), zkey.b()), (r1cs.a(), r1cs.b()), "{what}");
        }
    }
}

#[test]
fn every_truncation_names_where_it_is() {
    for (kind, name) in FILES {
        let good = fixture(name);
        for (number, start, end) in sections(&good) {
            for cut in [start - 12, start - 5, start, start + 1, start + (end - start) / 2, end - 1] {
                match read_any(kind, &good[..cut], Trust::Trusted) {
                    Err(CircomError::Truncated { section, offset, needed_bytes, left_bytes }) => {
                        assert!(offset as usize <= cut && left_bytes < needed_bytes, "{name} {cut}");
                        let is_named = section.contains(&format!("(section {number})"));
                        assert!(is_named || section == "container", "{name} cut at {cut}: {section}");
                    }
                    other => panic!("{name} cut at {cut}: {other:?}"),
                }
            }
        }
        for cut in 0..12 {
            assert!(read_any(kind, &good[..cut], Trust::Trusted).is_err(), "{name} cut at {cut}");
        }
    }
}

/// A section that is as long as it says and shorter or longer than its contents need.
#[test]
fn sections_of_wrong_lengths_are_named() {
    for (kind, name, magic, version) in [
        (Kind::Zkey, "mul.zkey", b"zkey", 1),
        (Kind::Wtns, "mul.wtns", b"wtns", 2),
        (Kind::R1cs, "mul.r1cs", b"r1cs", 1),
    ] {
        let good = fixture(name);
        let bodies: Vec<(u32, Vec<u8>)> = sections(&good)
            .into_iter()
            .map(|(number, start, end)| (number, good[start..end].to_vec()))
            .collect();
        // Labels and the ceremony's transcript are not looked at.
        let unread = |number: u32| (kind, number) == (Kind::Zkey, 10) || (kind, number) == (Kind::R1cs, 3);
        for index in 0..bodies.len() {
            let number = bodies[index].0;
            let mut absent = bodies.clone();
            absent.remove(index);
            let mut twice = bodies.clone();
            twice.push(bodies[index].clone());
            let mut shorter = bodies.clone();
            shorter[index].1.pop();
            let mut longer = bodies.clone();
            longer[index].1.push(0);
            for (what, changed) in
                [("absent", absent), ("twice", twice), ("shorter", shorter), ("longer", longer)]
            {
                let found = read_any(kind, &container(magic, version, &changed), Trust::Trusted);
                if unread(number) {
                    assert_eq!(found, Ok(()), "{name} {number} {what}");
                    continue;
                }
                let error = found.expect_err("the section is not as it should be");
                let right = match what {
                    "absent" => {
                        matches!(error, CircomError::Missing { number: named, .. } if named == number)
                    }
                    "twice" => matches!(error, CircomError::Duplicate { .. }),
                    _ => matches!(error, CircomError::Length { .. } | CircomError::Truncated { .. }),
                };
                assert!(right, "{name} {number} {what}: {error}");
                assert!(error.to_string().contains(&format!("section {number}")), "{what}: {error}");
            }
        }
    }
}

/// Lengths and counts of every size that a file can state, in each place that states one.
#[test]
fn hostile_lengths_are_refused_before_anything_is_allocated_for_them() {
    for (kind, name) in FILES {
        let good = fixture(name);
        for count in [u32::MAX, 1 << 31, 1000] {
            let bad = with(&good, 8, &count.to_le_bytes());
            assert!(
                matches!(read_any(kind, &bad, Trust::Trusted), Err(CircomError::Truncated { .. })),
                "{name}: {count} sections"
            );
        }
        for (number, start, _) in sections(&good) {
            for len in [u64::MAX, u64::MAX - 11, 1 << 63, 1 << 40] {
                let bad = with(&good, start - 8, &len.to_le_bytes());
                match read_any(kind, &bad, Trust::Trusted) {
                    Err(CircomError::Truncated { needed_bytes, .. }) => assert_eq!(needed_bytes, len),
                    other => panic!("{name}, section {number}, {len} bytes: {other:?}"),
                }
            }
        }
    }
    let zkey = fixture("mul.zkey");
    let sizes = section(&zkey, 2).0 + 4 + 48 + 4 + 32;
    let coefficients = section(&zkey, 4).0;
    // Variables, public ones, domain; terms.
    for at in [sizes, sizes + 4, sizes + 8, coefficients] {
        for count in [u32::MAX, 1 << 31, 1 << 24, 0] {
            let error = Zkey::read(&with(&zkey, at, &count.to_le_bytes()), Trust::Trusted).unwrap_err();
            let typed = matches!(error, CircomError::Length { .. } | CircomError::Structure { .. });
            assert!(typed, "{count} at {at}: {error}");
        }
    }
    let wtns = fixture("mul.wtns");
    let at = section(&wtns, 1).0 + 4 + 32;
    for count in [u32::MAX, 204, 0] {
        let error = read_witness(&with(&wtns, at, &count.to_le_bytes())).unwrap_err();
        assert!(matches!(error, CircomError::Length { .. }), "{error}");
    }
    let r1cs = fixture("mul.r1cs");
    let (header, constraints) = (section(&r1cs, 1).0, section(&r1cs, 2).0);
    for (at, count) in
        [(header + 60, u32::MAX), (header + 60, 201), (constraints, u32::MAX), (header + 36, 2)]
    {
        let error = read_r1cs(&with(&r1cs, at, &count.to_le_bytes())).unwrap_err();
        let typed = matches!(
            error,
            CircomError::Truncated { .. } | CircomError::Structure { .. } | CircomError::Scalar { .. }
        );
        assert!(typed, "{count} at {at}: {error}");
    }
}

/// B57: a byte flipped in any point of any section.
#[test]
fn b57_a_flipped_bit_in_any_query_names_section_index_and_offset() {
    let good = fixture("mul.zkey");
    let rng = &mut random_numbers(test_seed(), "flipped bits");
    for (number, point_bytes) in [(3, 96), (5, 96), (6, 96), (7, 192), (8, 96), (9, 96)] {
        let (start, end) = section(&good, number);
        let points = (end - start) / point_bytes;
        for _ in 0..3 {
            let index = rng.next_u32() as usize % points;
            let at = start + index * point_bytes;
            let mut bad = good.clone();
            bad[at + rng.next_u32() as usize % point_bytes] ^= 1 << (rng.next_u32() % 8);
            match Zkey::read(&bad, Trust::Checked) {
                Err(CircomError::Point { section, index: named, offset, .. }) => {
                    assert!(section.contains(&format!("(section {number})")), "{section}");
                    assert_eq!((named, offset as usize), (index, at), "{section}");
                }
                other => panic!("section {number}[{index}]: {other:?}"),
            }
        }
    }
    // The header's points, and the coefficients.
    let header = section(&good, 2).0 + 100;
    for at in [header + 5, header + 96 + 5, header + 400, header + 600] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert!(matches!(Zkey::read(&bad, Trust::Checked), Err(CircomError::Point { .. })), "{at}");
    }
    let coefficient = section(&good, 4).0 + 4 + 44 * 7 + 12;
    let error = Zkey::read(&with(&good, coefficient, &[0xff; 32]), Trust::Trusted).unwrap_err();
    let named =
        matches!(error, CircomError::Scalar { index: 7, offset, .. } if offset as usize == coefficient);
    assert!(named, "{error}");
}

/// B58: on the curve and of another order. And what no trust covers: coordinates are below p, and alpha to delta are not
/// the identity.
#[test]
fn b58_points_outside_the_group_are_refused_unless_the_key_is_trusted() {
    let good = fixture("mul.zkey");
    let (g1, g2) = outside();
    let fault = |bytes: &[u8], trust| match Zkey::read(bytes, trust) {
        Err(CircomError::Point { fault, index, .. }) => Some((index, fault)),
        Err(other) => panic!("{other}"),
        Ok(_) => None,
    };
    for (number, index, point) in
        [(5, 3, bytes_of(&[g1]).to_vec()), (9, 0, bytes_of(&[g1]).to_vec()), (7, 8, bytes_of(&[g2]).to_vec())]
    {
        let bad = with(&good, section(&good, number).0 + index * point.len(), &point);
        assert_eq!(fault(&bad, Trust::Checked), Some((index, PointFault::NotInSubgroup)), "{number}");
        assert_eq!(fault(&bad, Trust::Trusted), None, "{number}");
    }
    // Without the identity's own bytes: (0, 0) is one, and a query may have it.
    let identity = with(&good, section(&good, 6).0, &[0; 96]);
    assert_eq!(fault(&identity, Trust::Checked), None);
    let alpha = section(&good, 2).0 + 100;
    let identity = with(&good, alpha, bytes_of(&[G1Affine::zero()]));
    for trust in [Trust::Checked, Trust::Trusted] {
        assert_eq!(fault(&identity, trust), Some((0, PointFault::Identity)));
        let modulus = Fq::MODULUS.to_bytes_le();
        for (offset, coordinate) in [(0, 'x'), (48, 'y')] {
            let bad = with(&good, section(&good, 8).0 + 96 + offset, &modulus);
            assert_eq!(fault(&bad, trust), Some((1, PointFault::Coordinate { coordinate })));
        }
    }
}

#[test]
fn files_of_other_curves_and_proof_systems_say_so() {
    let bytes = |limbs: [u64; 4]| limbs.iter().flat_map(|limb| limb.to_le_bytes()).collect::<Vec<u8>>();
    let eight = 32_u32.to_le_bytes().to_vec();
    let [p, r] = BN254.map(bytes);
    let header = [&eight[..], &p, &eight, &r, &[0; 12]].concat();
    let bn254 = container(b"zkey", 1, &[(1, vec![1, 0, 0, 0]), (2, header)]);
    let wtns = container(b"wtns", 2, &[(1, [&eight[..], &r, &[0; 4]].concat()), (2, vec![])]);
    let r1cs = container(b"r1cs", 1, &[(1, [&eight[..], &r, &[0; 28]].concat()), (2, vec![])]);
    for (kind, file) in [(Kind::Zkey, bn254), (Kind::Wtns, wtns), (Kind::R1cs, r1cs)] {
        let error = read_any(kind, &file, Trust::Checked).unwrap_err();
        assert!(matches!(error, CircomError::Field { found: "bn128 (BN254)", .. }), "{kind}: {error}");
    }
    let good = fixture("mul.zkey");
    let field = section(&good, 2).0;
    for bad in [with(&good, field + 4, &[1]), with(&good, field, &u32::MAX.to_le_bytes())] {
        let error = Zkey::read(&bad, Trust::Checked).unwrap_err();
        assert!(matches!(error, CircomError::Field { found: "an unknown field", .. }), "{error}");
    }
    let protocol = section(&good, 1).0;
    for (number, found) in [(2, "PLONK"), (10, "FFLONK"), (7, "an unknown proof system")] {
        let error = Zkey::read(&with(&good, protocol, &[number]), Trust::Checked).unwrap_err();
        assert!(error.to_string().contains(found), "{error}");
    }
    let gates = {
        let r1cs = fixture("mul.r1cs");
        let mut bodies: Vec<_> = sections(&r1cs)
            .into_iter()
            .map(|(number, start, end)| (number, r1cs[start..end].to_vec()))
            .collect();
        bodies.push((4, 1_u32.to_le_bytes().to_vec()));
        container(b"r1cs", 1, &bodies)
    };
    assert!(read_r1cs(&gates).unwrap_err().to_string().contains("custom gates"));
    for (kind, name) in FILES {
        let other = fixture(FILES[(FILES.iter().position(|f| f.1 == name).expect("one of them") + 1) % 3].1);
        assert!(matches!(read_any(kind, &other, Trust::Checked), Err(CircomError::Magic { .. })));
        let version = with(&fixture(name), 4, &[9]);
        assert!(matches!(
            read_any(kind, &version, Trust::Checked),
            Err(CircomError::Version { found: 9, .. })
        ));
    }
}

#[test]
fn witnesses_are_canonical() {
    let good = fixture("mul.wtns");
    let start = section(&good, 2).0;
    for (index, value) in [(5, Fr::MODULUS.to_bytes_le()), (202, vec![0xff; 32])] {
        let at = start + 32 * index;
        let error = read_witness(&with(&good, at, &value)).unwrap_err();
        let CircomError::Scalar { index: named, offset, .. } = error else { panic!("{error}") };
        assert_eq!((named, offset as usize), (index, at));
    }
    // The first of two is named, whatever thread looks where.
    let two = with(&with(&good, start + 32 * 200, &[0xff; 32]), start + 32 * 3, &[0xff; 32]);
    assert!(matches!(read_witness(&two), Err(CircomError::Scalar { index: 3, .. })));
}

/// Rows, variables and matrices that do not exist; and a key whose A lacks the rows of the inputs.
#[test]
fn terms_that_cannot_be_are_named() {
    let good = fixture("mul.zkey");
    let first = section(&good, 4).0 + 4;
    for (at, value) in [(first, 2_u32), (first + 4, 256), (first + 8, 203), (first + 44 + 8, u32::MAX)] {
        let error = Zkey::read(&with(&good, at, &value.to_le_bytes()), Trust::Trusted).unwrap_err();
        assert!(matches!(error, CircomError::Structure { .. }), "{error}");
        assert!(error.to_string().contains("term "), "{error}");
    }
    // The last term is the row of input 2; as one of B, or with another coefficient, it is no such row.
    let last = first + 44 * 402;
    for bad in [with(&good, last, &[1]), with(&good, last + 12, &[9])] {
        let error = Zkey::read(&bad, Trust::Trusted).unwrap_err();
        assert!(error.to_string().contains("a row for each of the 3 inputs"), "{error}");
    }
}

/// Any bytes are a file or an error.
#[test]
fn mutated_files_never_panic() {
    let rng = &mut random_numbers(test_seed(), "mutated files");
    let (r1cs, assignment) = random_problem(rng, 6, 3, 5);
    let files = [
        (Kind::Zkey, write_zkey(&r1cs, &Trapdoor::random(rng))),
        (Kind::Wtns, write_wtns(&assignment)),
        (Kind::R1cs, write_r1cs(&r1cs)),
    ];
    let mut refused = 0;
    for (kind, good) in &files {
        // Where counts and indices are, most of the time: coordinates take up most of a key.
        let head = good.len().min(1500);
        for round in 0..4000 {
            let mut bad = good.clone();
            for _ in 0..1 + rng.next_u32() % 3 {
                let len = if round % 4 == 0 { bad.len() } else { head };
                let at = rng.next_u32() as usize % len;
                bad[at] = [0, 1, 0x7f, 0xff, rng.next_u32() as u8][rng.next_u32() as usize % 5];
            }
            bad.truncate(bad.len() - if round % 8 == 0 { rng.next_u32() as usize % bad.len() } else { 0 });
            refused += usize::from(read_any(*kind, &bad, Trust::Trusted).is_err());
        }
    }
    assert!(refused > 3000, "{refused} of 12000 were refused");
}

/// B66: x + r is not x; and no other way to write a number either.
#[test]
fn b66_public_inputs_have_one_form() {
    let good = ["0", "1", "38054864520989961475585188035418144277830063795864364341065934443183152340545"];
    let texts = good.map(String::from);
    assert_eq!(public_text(&public_inputs(&texts).expect("canonical")), texts);
    let r = Fr::MODULUS;
    let mut one_more = r;
    one_more.add_with_carry(&1_u64.into());
    let many = "9".repeat(100_000);
    let bad =
        [&r.to_string()[..], &one_more.to_string(), "", "-1", "+1", "01", "1 ", "0x1", "1_0", "١", &many];
    for text in bad {
        let error = public_inputs(&["7".into(), text.into()]).unwrap_err();
        assert_eq!(error, JsonError::Number { field: "public input 1".into() }, "{text}");
    }
}

#[test]
fn json_that_is_no_proof_says_why() {
    let good: ProofJson = serde_json::from_slice(&fixture("proof.json")).expect("JSON");
    let error = |change: &dyn Fn(&mut ProofJson)| {
        let mut bad = good.clone();
        change(&mut bad);
        bad.proof().unwrap_err().to_string()
    };
    assert!(error(&|json| json.curve = "bn128".into()).contains("bn128"));
    assert!(error(&|json| json.protocol = "plonk".into()).contains("plonk"));
    assert!(error(&|json| json.pi_a.swap(0, 1)).starts_with("pi_a: not on the curve"));
    assert!(error(&|json| json.pi_b.swap(0, 1)).starts_with("pi_b: not on the curve"));
    assert!(error(&|json| json.pi_c[2] = "2".into()).contains("third coordinate"));
    assert!(error(&|json| json.pi_a[0] = Fq::MODULUS.to_string()).starts_with("pi_a: not a canonical"));
    assert!(error(&|json| (json.pi_a[0], json.pi_a[1]) = ("0".into(), "0".into())).starts_with("pi_a"));
    // The identity has one spelling.
    assert!(error(&|json| json.pi_a[2] = "0".into()).contains("third coordinate"));
    assert!(error(&|json| json.pi_b[2] = ["0", "0"].map(String::from)).contains("third coordinate"));
    // On the curve, and not in the group.
    assert!(error(&|json| (json.pi_a[0], json.pi_a[1]) = ("0".into(), "2".into())).contains("subgroup"));
    let vk: VerifyingKeyJson = serde_json::from_slice(&fixture("verification_key.json")).expect("JSON");
    let mut short = vk.clone();
    short.ic.pop();
    assert_eq!(short.verifying_key(), Err(JsonError::PublicCount { expected: 2, found: 2 }));
    let identity = ["0", "1", "0"].map(String::from);
    let mut unused = vk;
    unused.ic[1] = identity.clone();
    let read = unused.verifying_key().expect("an unused input has the identity for a base");
    assert!(read.gamma_abc_g1[1].is_zero());
    assert_eq!(VerifyingKeyJson::from(&read).ic[1], identity);
}
