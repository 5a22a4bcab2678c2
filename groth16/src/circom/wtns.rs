//! Reader of `.wtns`: the value of each variable, the constant 1 first, then outputs, public inputs, and what is private.

use super::container::{Container, Kind};
use super::{CircomError, FR_BYTES, fr};
use ark_bls12_381::Fr;
use ark_ff::AdditiveGroup;
use rayon::prelude::*;
use zeroize::Zeroizing;

const HEADER: u32 = 1;
const VALUES: u32 = 2;
const SECTIONS: &[(u32, &str)] = &[(HEADER, "header (section 1)"), (VALUES, "values (section 2)")];

/// Reads a witness: an assignment in the order of the variables, which is that of the key and of the constraints. It is
/// wiped when it is dropped.
///
/// # Errors
/// [`CircomError`]; [`CircomError::Scalar`] for the first value that is not below r.
pub fn read_witness(bytes: &[u8]) -> Result<Zeroizing<Vec<Fr>>, CircomError> {
    let container = Container::open(bytes, Kind::Wtns, SECTIONS)?;
    let mut header = container.section(HEADER)?;
    header.scalar_field()?;
    let count = header.u32()?;
    header.end()?;
    let mut section = container.section(VALUES)?;
    let (name, start) = (section.section, section.offset());
    let integers = section.rest(count.into(), FR_BYTES)?;
    // One allocation: a vector that grows leaves copies behind.
    let mut values = Zeroizing::new(vec![Fr::ZERO; count as usize]);
    let read = |(value, bytes): (&mut Fr, &[u8])| match fr(bytes) {
        Some(found) => {
            *value = found;
            false
        }
        None => true,
    };
    let pairs = values.par_iter_mut().zip(integers.par_chunks_exact(FR_BYTES));
    match pairs.map(read).position_first(|is_bad| is_bad) {
        None => Ok(values),
        Some(index) => {
            Err(CircomError::Scalar { section: name, index, offset: start + (index * FR_BYTES) as u64 })
        }
    }
}
