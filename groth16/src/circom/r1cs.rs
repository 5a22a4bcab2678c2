//! Reader of `.r1cs`: the constraints as circom compiles them.
//!
//! Variables are the constant 1, the outputs, the public inputs, and what is private: with the outputs counted among the
//! inputs that is the order of [`R1cs`].

use super::container::{Container, Cursor, Kind};
use super::{CircomError, FR_BYTES, fr};
use crate::r1cs::{Csr, R1cs};
use ark_bls12_381::Fr;
use ark_ff::AdditiveGroup;

const HEADER: u32 = 1;
const CONSTRAINTS: u32 = 2;
const CUSTOM_GATES: u32 = 4;
const SECTIONS: &[(u32, &str)] = &[
    (HEADER, "header (section 1)"),
    (CONSTRAINTS, "constraints (section 2)"),
    (CUSTOM_GATES, "custom gates (section 4)"),
];

/// Reads constraints.
///
/// # Errors
/// [`CircomError`]; [`CircomError::Structure`] also for custom gates, which are not constraints of rank 1.
pub fn read_r1cs(bytes: &[u8]) -> Result<R1cs, CircomError> {
    let container = Container::open(bytes, Kind::R1cs, SECTIONS)?;
    let mut header = container.section(HEADER)?;
    header.scalar_field()?;
    let variable_count = header.u32()? as usize;
    let public_count = u64::from(header.u32()?) + u64::from(header.u32()?);
    let private_count = header.u32()?;
    let _label_count = header.u64()?;
    let constraint_count = header.u32()?;
    header.end()?;
    let input_count = 1 + public_count as usize;
    if public_count + u64::from(private_count) >= variable_count as u64 {
        let reason = format!(
            "the constant, {public_count} public and {private_count} private inputs are more than {variable_count} variables"
        );
        return Err(header.fault(4 + 8 + 4 * 4, reason));
    }
    if let Some(mut gates) = container.optional(CUSTOM_GATES) {
        let count = gates.u32()?;
        if count > 0 {
            return Err(gates.fault(4, format!("{count} custom gates, which Groth16 does not have")));
        }
    }
    let mut section = container.section(CONSTRAINTS)?;
    let mut matrices = [(); 3].map(|()| Csr { row_offsets: vec![0], ..Csr::default() });
    let mut index = 0;
    for _ in 0..constraint_count {
        for matrix in &mut matrices {
            read_combination(&mut section, matrix, variable_count, &mut index)?;
        }
    }
    section.end()?;
    let [a, b, c] = matrices;
    Ok(R1cs::new(a, b, c, input_count, variable_count)?)
}

/// Terms of one row of one matrix. `index` counts the terms of the file.
fn read_combination(
    section: &mut Cursor<'_>,
    matrix: &mut Csr,
    variable_count: usize,
    index: &mut usize,
) -> Result<(), CircomError> {
    for _ in 0..section.u32()? {
        let variable = section.u32()?;
        if variable as usize >= variable_count {
            return Err(section.fault(4, format!("variable {variable} of {variable_count}")));
        }
        let offset = section.offset();
        let value: Fr = fr(section.take(FR_BYTES as u64)?).ok_or(CircomError::Scalar {
            section: section.section,
            index: *index,
            offset,
        })?;
        *index += 1;
        if value != Fr::ZERO {
            matrix.columns.push(variable);
            matrix.values.push(value);
        }
    }
    let Ok(end) = u32::try_from(matrix.columns.len()) else {
        return Err(section.fault(0, "more terms than 32 bits number"));
    };
    matrix.row_offsets.push(end);
    Ok(())
}
