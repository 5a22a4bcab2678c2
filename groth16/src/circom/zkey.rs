//! Reader of `.zkey`: a proving key of snarkjs for Groth16.
//!
//! A point lies there as the device takes it: its coordinates in Montgomery form, the identity all zero. With the queries
//! come the matrices A and B, and no C. Their coefficients are in Montgomery form twice over, and below the constraints
//! there is a row in A for each input, which other provers add themselves: the reader takes those rows away again.

use super::container::{Container, Cursor, Kind};
use super::{CircomError, FQ_BYTES, fq_montgomery, fr_montgomery};
use crate::bellman::PointFault;
use crate::key::{PreparedKey, Trust};
use crate::plan::Shape;
use crate::r1cs::{Csr, stack};
use crate::reduction::Reduction;
use ark_bls12_381::{Bls12_381, Fq2, Fr, G1Affine, G1Projective, G2Affine, G2Projective};
use ark_ec::AffineRepr;
use ark_ec::short_weierstrass::Projective;
use ark_ff::{AdditiveGroup, BigInt, Field};
use ark_groth16::VerifyingKey;
use msm_gpu::{MsmError, MsmGroup};
use rayon::prelude::*;

const PROTOCOL: u32 = 1;
const HEADER: u32 = 2;
const IC: u32 = 3;
const COEFFICIENTS: u32 = 4;
const A: u32 = 5;
const B1: u32 = 6;
const B2: u32 = 7;
const C: u32 = 8;
const H: u32 = 9;
const SECTIONS: &[(u32, &str)] = &[
    (PROTOCOL, "protocol (section 1)"),
    (HEADER, "header (section 2)"),
    (IC, "gamma_abc_g1 (section 3)"),
    (COEFFICIENTS, "coefficients (section 4)"),
    (A, "a_query (section 5)"),
    (B1, "b_g1_query (section 6)"),
    (B2, "b_g2_query (section 7)"),
    (C, "l_query (section 8)"),
    (H, "h_query (section 9)"),
];

/// Matrix, row, variable, and the coefficient.
const TERM_BYTES: usize = 3 * 4 + 32;

/// A proving key of snarkjs, on the host. It works with [`Reduction::Snarkjs`] and with no other, so there is no way from
/// here to a key of arkworks.
#[derive(Debug, Clone, PartialEq)]
pub struct Zkey {
    trust: Trust,
    shape: Shape,
    vk: VerifyingKey<Bls12_381>,
    beta_g1: G1Affine,
    delta_g1: G1Affine,
    a: Csr,
    b: Csr,
    a_query: Vec<G1Affine>,
    b_g1_query: Vec<G1Affine>,
    b_g2_query: Vec<G2Affine>,
    l_query: Vec<G1Affine>,
    h_query: Vec<G1Affine>,
}

impl Zkey {
    /// Reads a key. Unless trusted, each point must be on its curve and of the prime order; that its coordinates are below
    /// p is always looked at. The transcript of the ceremony (section 10) is not.
    ///
    /// # Errors
    /// [`CircomError`].
    pub fn read(bytes: &[u8], trust: Trust) -> Result<Self, CircomError> {
        let container = Container::open(bytes, Kind::Zkey, SECTIONS)?;
        let Header { sizes, vk, beta_g1, delta_g1 } = Header::read(&container, trust)?;
        let query = Points { trust, may_be_identity: true };
        let g1 = |number, count| query.section::<G1Projective>(&container, number, count);
        let variables = u64::from(sizes.variable_count);
        let a_query = g1(A, variables)?;
        let b_g1_query = g1(B1, variables)?;
        let b_g2_query = query.section::<G2Projective>(&container, B2, variables)?;
        let l_query = g1(C, variables - u64::from(sizes.input_count))?;
        let h_query = g1(H, sizes.domain_len.into())?;
        // Rows are counted from here on, and there are no more of them than bases for h.
        let (a, b) = read_matrices(container.section(COEFFICIENTS)?, &sizes)?;
        let shape = Shape {
            constraint_count: a.row_count() as u32,
            input_count: sizes.input_count,
            variable_count: sizes.variable_count,
            term_count: (a.term_count() + b.term_count()) as u32,
            coefficient_count: stack(&[&a, &b]).coefficients.len() as u32,
            log_n: sizes.domain_len.ilog2(),
            reduction: Reduction::Snarkjs,
        };
        if !shape.fits_domain() {
            let rows = shape.constraint_count + shape.input_count;
            let reason = format!("a domain of {} values for {rows} rows", sizes.domain_len);
            return Err(container.section(HEADER)?.fault(0, reason));
        }
        Ok(Self {
            trust,
            shape,
            vk,
            beta_g1,
            delta_g1,
            a,
            b,
            a_query,
            b_g1_query,
            b_g2_query,
            l_query,
            h_query,
        })
    }

    /// Reads the verifying key alone. Every point of it is checked.
    ///
    /// # Errors
    /// [`CircomError`].
    pub fn read_verifying_key(bytes: &[u8]) -> Result<VerifyingKey<Bls12_381>, CircomError> {
        let container = Container::open(bytes, Kind::Zkey, SECTIONS)?;
        Ok(Header::read(&container, Trust::Checked)?.vk)
    }

    /// As a device takes it.
    pub fn prepare(&self) -> PreparedKey<'_> {
        let stacked = stack(&[&self.a, &self.b]);
        PreparedKey {
            shape: self.shape,
            trust: self.trust,
            vk: self.vk.clone(),
            beta_g1: self.beta_g1,
            delta_g1: self.delta_g1,
            row_offsets: stacked.row_offsets.into(),
            columns: stacked.columns.into(),
            factors: stacked.factors.into(),
            coefficients: stacked.coefficients.into(),
            h_query: (&self.h_query[..]).into(),
            l_query: (&self.l_query[..]).into(),
            a_query: (&self.a_query[..]).into(),
            b_g1_query: (&self.b_g1_query[..]).into(),
            b_g2_query: (&self.b_g2_query[..]).into(),
        }
    }

    /// Sizes.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The verifying key.
    pub fn verifying_key(&self) -> &VerifyingKey<Bls12_381> {
        &self.vk
    }

    /// `beta` in G1.
    pub fn beta_g1(&self) -> &G1Affine {
        &self.beta_g1
    }

    /// `delta` in G1.
    pub fn delta_g1(&self) -> &G1Affine {
        &self.delta_g1
    }

    /// A, a row for each constraint.
    pub fn a(&self) -> &Csr {
        &self.a
    }

    /// B, a row for each constraint.
    pub fn b(&self) -> &Csr {
        &self.b
    }

    /// Bases for a, one a variable.
    pub fn a_query(&self) -> &[G1Affine] {
        &self.a_query
    }

    /// Bases for b in G1, one a variable.
    pub fn b_g1_query(&self) -> &[G1Affine] {
        &self.b_g1_query
    }

    /// Bases for b in G2, one a variable.
    pub fn b_g2_query(&self) -> &[G2Affine] {
        &self.b_g2_query
    }

    /// Bases of the private variables (snarkjs: C).
    pub fn l_query(&self) -> &[G1Affine] {
        &self.l_query
    }

    /// Bases for the values of A B - C on the coset, one a value of the domain.
    pub fn h_query(&self) -> &[G1Affine] {
        &self.h_query
    }
}

fn check_protocol(mut section: Cursor<'_>) -> Result<(), CircomError> {
    let offset = section.offset();
    let found = match section.u32()? {
        1 => return section.end(),
        2 => "PLONK",
        10 => "FFLONK",
        _ => "an unknown proof system",
    };
    Err(CircomError::Protocol { section: section.section, offset, found })
}

/// Sizes, and all points that are not of a query.
struct Header {
    sizes: Sizes,
    vk: VerifyingKey<Bls12_381>,
    beta_g1: G1Affine,
    delta_g1: G1Affine,
}

impl Header {
    fn read(container: &Container<'_>, trust: Trust) -> Result<Self, CircomError> {
        check_protocol(container.section(PROTOCOL)?)?;
        let mut header = container.section(HEADER)?;
        let sizes = Sizes::read(&mut header)?;
        let points = Points { trust, may_be_identity: false };
        let alpha_g1 = points.read::<G1Projective>(&mut header, 1)?[0];
        let beta_g1 = points.read::<G1Projective>(&mut header, 1)?[0];
        let beta_g2 = points.read::<G2Projective>(&mut header, 1)?[0];
        let gamma_g2 = points.read::<G2Projective>(&mut header, 1)?[0];
        let delta_g1 = points.read::<G1Projective>(&mut header, 1)?[0];
        let delta_g2 = points.read::<G2Projective>(&mut header, 1)?[0];
        header.end()?;
        // The base of an input that occurs nowhere is the identity.
        let query = Points { trust, may_be_identity: true };
        let gamma_abc_g1 = query.section::<G1Projective>(container, IC, sizes.input_count.into())?;
        let vk = VerifyingKey { alpha_g1, beta_g2, gamma_g2, delta_g2, gamma_abc_g1 };
        Ok(Self { sizes, vk, beta_g1, delta_g1 })
    }
}

/// What the header says of the circuit.
struct Sizes {
    variable_count: u32,
    /// The constant 1, the outputs and the public inputs.
    input_count: u32,
    domain_len: u32,
}

impl Sizes {
    fn read(header: &mut Cursor<'_>) -> Result<Self, CircomError> {
        header.base_field()?;
        header.scalar_field()?;
        let (variable_count, public_count, domain_len) = (header.u32()?, header.u32()?, header.u32()?);
        if public_count >= variable_count {
            let reason = format!("{public_count} public ones and the constant of {variable_count} variables");
            return Err(header.fault(12, reason));
        }
        if !domain_len.is_power_of_two() {
            return Err(header.fault(4, format!("a domain of {domain_len} values, which is no power of two")));
        }
        Ok(Self { variable_count, input_count: public_count + 1, domain_len })
    }
}

/// How points are read.
#[derive(Clone, Copy)]
struct Points {
    trust: Trust,
    may_be_identity: bool,
}

impl Points {
    /// A section that is nothing but points.
    fn section<G: Encoded>(
        self,
        container: &Container<'_>,
        number: u32,
        count: u64,
    ) -> Result<Vec<G::Affine>, CircomError> {
        let mut cursor = container.section(number)?;
        cursor.clone().rest(count, G::POINT_BYTES)?;
        self.read::<G>(&mut cursor, count)
    }

    /// The next points of a section, decoded in parallel.
    fn read<G: Encoded>(self, cursor: &mut Cursor<'_>, count: u64) -> Result<Vec<G::Affine>, CircomError> {
        let (section, start) = (cursor.section, cursor.offset());
        // The bytes are there before anything is allocated for their points, whatever the count says.
        let bytes = cursor.take(count.saturating_mul(G::POINT_BYTES as u64))?;
        let decode = |chunk: &[u8]| self.decode::<G>(chunk);
        let points: Result<Vec<_>, _> = bytes.par_chunks_exact(G::POINT_BYTES).map(decode).collect();
        points.map_err(|_| {
            // Which of several bad points stopped the parallel pass is chance: look again for the first.
            let faults = bytes.par_chunks_exact(G::POINT_BYTES).map(decode).enumerate();
            let first = faults.find_map_first(|(index, point)| point.err().map(|fault| (index, fault)));
            let (index, fault) = first.expect("the pass before found one");
            let offset = start + (index * G::POINT_BYTES) as u64;
            CircomError::Point { section, index, offset, fault }
        })
    }

    fn decode<G: Encoded>(self, bytes: &[u8]) -> Result<G::Affine, PointFault> {
        let point = G::decode(bytes)?;
        if point.is_zero() {
            return if self.may_be_identity { Ok(point) } else { Err(PointFault::Identity) };
        }
        match self.trust {
            Trust::Trusted => Ok(point),
            Trust::Checked => match G::check_member(0, &point) {
                Ok(()) => Ok(point),
                Err(MsmError::NotInSubgroup { .. }) => Err(PointFault::NotInSubgroup),
                Err(_) => Err(PointFault::NotOnCurve),
            },
        }
    }
}

/// A group as the file encodes it.
trait Encoded: MsmGroup {
    const POINT_BYTES: usize;

    fn decode(bytes: &[u8]) -> Result<Self::Affine, PointFault>;
}

impl Encoded for Projective<ark_bls12_381::g1::Config> {
    const POINT_BYTES: usize = 2 * FQ_BYTES;

    fn decode(bytes: &[u8]) -> Result<G1Affine, PointFault> {
        let (x, y) = bytes.split_at(FQ_BYTES);
        let half = |coordinate, bytes| fq_montgomery(bytes).ok_or(PointFault::Coordinate { coordinate });
        Ok(G1Affine::new_unchecked(half('x', x)?, half('y', y)?))
    }
}

impl Encoded for Projective<ark_bls12_381::g2::Config> {
    const POINT_BYTES: usize = 4 * FQ_BYTES;

    fn decode(bytes: &[u8]) -> Result<G2Affine, PointFault> {
        let half = |coordinate, bytes: &[u8]| {
            let (c0, c1) = bytes.split_at(FQ_BYTES);
            let fault = PointFault::Coordinate { coordinate };
            Ok(Fq2::new(fq_montgomery(c0).ok_or(fault)?, fq_montgomery(c1).ok_or(fault)?))
        };
        let (x, y) = bytes.split_at(2 * FQ_BYTES);
        Ok(G2Affine::new_unchecked(half('x', x)?, half('y', y)?))
    }
}

/// One term as the file has it.
struct Term {
    matrix: usize,
    row: usize,
    variable: u32,
    value: Fr,
}

/// A and B, without the rows of the inputs.
fn read_matrices(section: Cursor<'_>, sizes: &Sizes) -> Result<(Csr, Csr), CircomError> {
    let mut cursor = section;
    let count = cursor.u32()?;
    cursor.clone().rest(count.into(), TERM_BYTES)?;
    let terms = cursor;
    // Terms come in the order of the constraints, and need not: they are counted, and put where their row is.
    let mut lengths = [const { Vec::new() }; 2];
    let mut rows = 0;
    each_term(terms, sizes, |term| {
        let lengths: &mut Vec<u32> = &mut lengths[term.matrix];
        lengths.resize(lengths.len().max(term.row + 1), 0);
        lengths[term.row] += u32::from(term.value != Fr::ZERO);
        rows = rows.max(term.row + 1);
    })?;
    let mut matrices = lengths.map(|mut lengths| {
        lengths.resize(rows, 0);
        let mut end = 0;
        let ends = lengths.iter().map(|len| {
            end += len;
            end
        });
        let row_offsets: Vec<u32> = std::iter::once(0).chain(ends).collect();
        let term_count = end_of(&row_offsets);
        Csr { row_offsets, columns: vec![0; term_count], values: vec![Fr::ZERO; term_count] }
    });
    let mut next = [0, 1].map(|matrix: usize| matrices[matrix].row_offsets.clone());
    each_term(terms, sizes, |term| {
        if term.value != Fr::ZERO {
            let place = &mut next[term.matrix][term.row];
            matrices[term.matrix].columns[*place as usize] = term.variable;
            matrices[term.matrix].values[*place as usize] = term.value;
            *place += 1;
        }
    })?;
    let [mut a, mut b] = matrices;
    let inputs = sizes.input_count as usize;
    let is_input_row =
        |row: usize, input: usize| a.row(row).eq([(input, Fr::ONE)]) && b.row(row).next().is_none();
    let constraints = rows.checked_sub(inputs);
    let constraints =
        constraints.filter(|first| (0..inputs).all(|input| is_input_row(first + input, input))).ok_or_else(
            || terms.fault(4, format!("A does not end with a row for each of the {inputs} inputs")),
        )?;
    for matrix in [&mut a, &mut b] {
        matrix.row_offsets.truncate(constraints + 1);
        matrix.columns.truncate(end_of(&matrix.row_offsets));
        matrix.values.truncate(matrix.columns.len());
    }
    Ok((a, b))
}

fn end_of(row_offsets: &[u32]) -> usize {
    *row_offsets.last().expect("offsets begin with 0") as usize
}

/// Calls `take` for each term, in the order of the file.
fn each_term(mut cursor: Cursor<'_>, sizes: &Sizes, mut take: impl FnMut(Term)) -> Result<(), CircomError> {
    // The integer 1 taken for a Montgomery form: 1/R, which undoes one of the two.
    let once = Fr::new_unchecked(BigInt::from(1_u64));
    let mut index = 0;
    while cursor.left() > 0 {
        let [matrix, row, variable] = [cursor.u32()?, cursor.u32()?, cursor.u32()?];
        if matrix > 1 || row >= sizes.domain_len || variable >= sizes.variable_count {
            let reason = format!("term {index} is of variable {variable} in row {row} of matrix {matrix}");
            return Err(cursor.fault(12, reason));
        }
        let offset = cursor.offset();
        let twice = fr_montgomery(cursor.take(32)?).ok_or(CircomError::Scalar {
            section: cursor.section,
            index,
            offset,
        })?;
        take(Term { matrix: matrix as usize, row: row as usize, variable, value: twice * once });
        index += 1;
    }
    Ok(())
}
