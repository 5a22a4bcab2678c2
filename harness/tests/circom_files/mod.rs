//! What the tests of circom's and snarkjs' files share: the fixture, random constraints, writers of the three formats, and
//! a setup in snarkjs' form from a trapdoor that is known.

// Each test program uses a part of this.
#![allow(dead_code)]

use ark_bls12_381::{Fq, Fr, G1Affine, G1Projective, G2Affine, G2Projective};
use ark_ec::{AffineRepr, CurveGroup, PrimeGroup};
use ark_ff::{AdditiveGroup, BigInteger, Field, PrimeField, UniformRand, batch_inversion};
use gpu_core::layout::bytes_of;
use groth16::{Csr, R1cs};
use harness::oracle::snarkjs_root;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::RngCore;
use std::path::PathBuf;

/// A file of the fixture: a circuit of 200 squarings that circom and snarkjs made keys, a witness and a proof for. It is
/// in the test program, which may run where the source tree is not.
pub fn fixture(name: &str) -> Vec<u8> {
    macro_rules! files {
        ($($known:literal),*) => {
            match name {
                $($known => &include_bytes!(concat!("../../../golden/circom/", $known))[..],)*
                other => panic!("{other} is no file of the fixture"),
            }
        };
    }
    files!("mul.zkey", "mul.wtns", "mul.r1cs", "proof.json", "public.json", "verification_key.json").to_vec()
}

/// A file's path, for the program.
pub fn fixture_path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "golden", "circom", name].iter().collect()
}

/// Random sparse constraints and an assignment that satisfies them, half of it 0 and 1. The last private variable does
/// not occur, if there are several.
pub fn random_problem(
    rng: &mut ChaCha20Rng,
    constraints: usize,
    inputs: usize,
    witnesses: usize,
) -> (R1cs, Vec<Fr>) {
    let variables = inputs + witnesses;
    let used = if witnesses > 1 { variables - 1 } else { variables };
    let below = |rng: &mut ChaCha20Rng, bound: usize| rng.next_u32() as usize % bound;
    let value = |rng: &mut ChaCha20Rng| match rng.next_u32() % 4 {
        0 => Fr::ZERO,
        1 => Fr::ONE,
        _ => Fr::rand(rng),
    };
    let mut z: Vec<Fr> = (0..variables).map(|_| value(rng)).collect();
    z[0] = Fr::ONE;
    let mut rows = [const { Vec::new() }; 3];
    for _ in 0..constraints {
        let terms = |rng: &mut ChaCha20Rng| -> Vec<(Fr, usize)> {
            (0..below(rng, 4)).map(|_| (Fr::rand(rng), below(rng, used))).collect()
        };
        let at = |terms: &[(Fr, usize)]| terms.iter().map(|(value, index)| *value * z[*index]).sum::<Fr>();
        let (a, b, mut c) = (terms(rng), terms(rng), terms(rng));
        c.push((at(&a) * at(&b) - at(&c), 0));
        for (rows, terms) in rows.iter_mut().zip([a, b, c]) {
            rows.push(terms);
        }
    }
    let [a, b, c] = rows;
    let r1cs = R1cs::from_matrices([&a, &b, &c], inputs, variables).expect("well formed");
    assert_eq!(r1cs.first_failing(&z), None);
    (r1cs, z)
}

/// A container of sections, in the order given.
pub fn container(magic: &[u8; 4], version: u32, sections: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend((sections.len() as u32).to_le_bytes());
    for (number, body) in sections {
        bytes.extend(number.to_le_bytes());
        bytes.extend((body.len() as u64).to_le_bytes());
        bytes.extend(body);
    }
    bytes
}

/// Number, first byte and one past the last byte of each section of a file.
pub fn sections(bytes: &[u8]) -> Vec<(u32, usize, usize)> {
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let mut at = 12;
    let mut next = |_| {
        let (number, len) = (u32_at(at), u64_at(at + 4) as usize);
        at += 12 + len;
        (number, at - len, at)
    };
    (0..u32_at(8)).map(&mut next).collect()
}

fn numbers(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The size of a field and its modulus.
fn modulus<F: PrimeField>() -> Vec<u8> {
    let bytes = F::MODULUS.to_bytes_le();
    [numbers(&[bytes.len() as u32]), bytes].concat()
}

/// A witness as a file.
pub fn write_wtns(assignment: &[Fr]) -> Vec<u8> {
    let header = [modulus::<Fr>(), numbers(&[assignment.len() as u32])].concat();
    let values = assignment.iter().flat_map(|value| value.into_bigint().to_bytes_le()).collect();
    container(b"wtns", 2, &[(1, header), (2, values)])
}

/// Constraints as a file. The inputs are taken for outputs, but for one, and half of what is private for private inputs.
pub fn write_r1cs(r1cs: &R1cs) -> Vec<u8> {
    let public = r1cs.input_count() as u32 - 1;
    let (inputs, private) = (public.min(1), (r1cs.variable_count() - r1cs.input_count()) as u32 / 2);
    let sizes = [r1cs.variable_count() as u32, public - inputs, inputs, private];
    let labels = (r1cs.variable_count() as u64).to_le_bytes().to_vec();
    let count = numbers(&[r1cs.constraint_count() as u32]);
    let header = [modulus::<Fr>(), numbers(&sizes), labels, count].concat();
    let mut constraints = Vec::new();
    for row in 0..r1cs.constraint_count() {
        for matrix in [r1cs.a(), r1cs.b(), r1cs.c()] {
            constraints.extend(numbers(&[matrix.row(row).count() as u32]));
            for (variable, value) in matrix.row(row) {
                constraints.extend(numbers(&[variable as u32]));
                constraints.extend(value.into_bigint().to_bytes_le());
            }
        }
    }
    // circom writes them in this order, and a map of labels that nobody here needs.
    container(b"r1cs", 1, &[(2, constraints), (1, header), (3, vec![0; 8])])
}

/// Secrets of a setup.
#[derive(Debug)]
pub struct Trapdoor {
    pub tau: Fr,
    pub alpha: Fr,
    pub beta: Fr,
    pub gamma: Fr,
    pub delta: Fr,
}

impl Trapdoor {
    pub fn random(rng: &mut ChaCha20Rng) -> Self {
        let [tau, alpha, beta, gamma, delta] = [(); 5].map(|()| Fr::rand(rng));
        Self { tau, alpha, beta, gamma, delta }
    }
}

/// Values at tau of the polynomials that are 1 at one power of the root of order 2^log_n and 0 at all others.
fn lagrange(log_n: u32, tau: Fr) -> Vec<Fr> {
    let (n, root) = (1_u64 << log_n, snarkjs_root(log_n));
    let scale = (tau.pow([n]) - Fr::ONE) / Fr::from(n);
    let powers: Vec<Fr> =
        std::iter::successors(Some(Fr::ONE), |power| Some(*power * root)).take(n as usize).collect();
    let mut differences: Vec<Fr> = powers.iter().map(|power| tau - power).collect();
    batch_inversion(&mut differences);
    powers.iter().zip(differences).map(|(power, inverse)| scale * power * inverse).collect()
}

/// The domain that snarkjs takes.
pub fn log_n(r1cs: &R1cs) -> u32 {
    (r1cs.constraint_count() + r1cs.input_count() - 1).max(1).ilog2() + 1
}

fn g1(scalars: &[Fr]) -> Vec<u8> {
    let points: Vec<_> = scalars.iter().map(|scalar| G1Projective::generator() * scalar).collect();
    bytes_of(&G1Projective::normalize_batch(&points)).to_vec()
}

fn g2(scalars: &[Fr]) -> Vec<u8> {
    let points: Vec<_> = scalars.iter().map(|scalar| G2Projective::generator() * scalar).collect();
    bytes_of(&G2Projective::normalize_batch(&points)).to_vec()
}

/// A key of snarkjs' form as a file, made from a trapdoor. Its terms come in an order that snarkjs does not write.
pub fn write_zkey(r1cs: &R1cs, trapdoor: &Trapdoor) -> Vec<u8> {
    let Trapdoor { tau, alpha, beta, gamma, delta } = *trapdoor;
    let (variables, inputs) = (r1cs.variable_count(), r1cs.input_count());
    let log_n = log_n(r1cs);
    let basis = lagrange(log_n, tau);
    let [mut a, mut b, mut c] = [(); 3].map(|()| vec![Fr::ZERO; variables]);
    let mut terms = Vec::new();
    for (number, (matrix, at_tau)) in
        [(r1cs.a(), &mut a), (r1cs.b(), &mut b), (r1cs.c(), &mut c)].into_iter().enumerate()
    {
        for (row, basis) in basis.iter().enumerate().take(matrix.row_count()) {
            for (variable, value) in matrix.row(row) {
                at_tau[variable] += value * basis;
                terms.push((number as u32, row as u32, variable as u32, value));
            }
        }
    }
    for (input, at_tau) in a.iter_mut().enumerate().take(inputs) {
        let row = r1cs.constraint_count() + input;
        *at_tau += basis[row];
        terms.push((0, row as u32, input as u32, Fr::ONE));
    }
    terms.retain(|(matrix, ..)| *matrix < 2);
    terms.sort_by_key(|(_, row, ..)| std::cmp::Reverse(*row));
    let mut coefficients = numbers(&[terms.len() as u32]);
    for (matrix, row, variable, value) in terms {
        coefficients.extend(numbers(&[matrix, row, variable]));
        // The Montgomery form of the Montgomery form.
        coefficients.extend(bytes_of(&[Fr::new(value.0)]));
    }
    let both: Vec<Fr> = (0..variables).map(|i| beta * a[i] + alpha * b[i] + c[i]).collect();
    let over = |values: &[Fr], by: Fr| values.iter().map(|value| *value / by).collect::<Vec<_>>();
    let odd: Vec<Fr> = lagrange(log_n + 1, tau).into_iter().skip(1).step_by(2).collect();
    let sizes = numbers(&[variables as u32, inputs as u32 - 1, 1 << log_n]);
    let header = [
        modulus::<Fq>(),
        modulus::<Fr>(),
        sizes,
        g1(&[alpha, beta]),
        g2(&[beta, gamma]),
        g1(&[delta]),
        g2(&[delta]),
    ];
    let sections = [
        (1, numbers(&[1])),
        (2, header.concat()),
        (3, g1(&over(&both[..inputs], gamma))),
        (4, coefficients),
        (5, g1(&a)),
        (6, g1(&b)),
        (7, g2(&b)),
        (8, g1(&over(&both[inputs..], delta))),
        (9, g1(&over(&odd, delta))),
        (10, vec![0; 5]),
    ];
    container(b"zkey", 1, &sections)
}

/// A point of the curve that is not in the group, for G1 and for G2.
pub fn outside() -> (G1Affine, G2Affine) {
    let g1 = G1Affine::new_unchecked(Fq::ZERO, Fq::from(2));
    let found = (1_u64..).find_map(|x| {
        G2Affine::get_point_from_x_unchecked(ark_bls12_381::Fq2::new(Fq::from(x), Fq::ONE), false)
            .filter(|point| !point.is_in_correct_subgroup_assuming_on_curve())
    });
    assert!(g1.is_on_curve() && !g1.is_zero());
    (g1, found.expect("most points are outside"))
}

/// A matrix without terms.
pub fn empty(rows: usize) -> Csr {
    Csr { row_offsets: vec![0; rows + 1], ..Csr::default() }
}
