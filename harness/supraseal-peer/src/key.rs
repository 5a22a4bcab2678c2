//! How many points a key in bellman's format has, which supraseal takes on trust and ends the program over.

use crate::{PeerError, Witness};

/// Bytes of a point in G1 and of one in G2.
const POINTS: [usize; 2] = [96, 192];
/// Three points of each group begin the key.
const HEAD: usize = 3 * (POINTS[0] + POINTS[1]);

/// Points of each query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    h: usize,
    l: usize,
    a: usize,
    b_g1: usize,
    b_g2: usize,
}

impl Counts {
    /// From a key's bytes; what follows the key is not looked at.
    pub(crate) fn read(key: &[u8]) -> Result<Self, PeerError> {
        let mut at = HEAD;
        let mut points = |section: &'static str, point_bytes: usize| {
            let truncated = PeerError::Truncated { bytes: key.len(), section };
            let count = key.get(at..).and_then(|rest| rest.first_chunk::<4>());
            let Some(count) = count.map(|bytes| u32::from_be_bytes(*bytes) as usize) else {
                return Err(truncated);
            };
            at += 4 + count * point_bytes;
            if at <= key.len() { Ok(count) } else { Err(truncated) }
        };
        points("bases of the inputs", POINTS[0])?;
        Ok(Self {
            h: points("h_query", POINTS[0])?,
            l: points("l_query", POINTS[0])?,
            a: points("a_query", POINTS[0])?,
            b_g1: points("b_g1_query", POINTS[0])?,
            b_g2: points("b_g2_query", POINTS[1])?,
        })
    }

    /// That they are a circuit's.
    pub(crate) fn check(&self, witness: &Witness) -> Result<(), PeerError> {
        let b = witness.b_inputs.ones + witness.b_private.ones;
        let sections = [
            ("h_query", self.h, witness.rows[0].len().next_power_of_two() - 1),
            ("l_query", self.l, witness.private.len()),
            ("a_query", self.a, witness.inputs.len() + witness.a_private.ones),
            ("b_g1_query", self.b_g1, b),
            ("b_g2_query", self.b_g2, b),
        ];
        match sections.into_iter().find(|(_, found, expected)| found != expected) {
            None => Ok(()),
            Some((section, found, expected)) => Err(PeerError::OtherCircuit { section, found, expected }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ark_bls12_381::Fr;

    /// A key of so many points, all bytes of which are zero.
    fn key(inputs: u32, [h, l, a, b_g1, b_g2]: [u32; 5]) -> Vec<u8> {
        let mut bytes = vec![0; HEAD];
        for (count, point_bytes) in [(inputs, 96), (h, 96), (l, 96), (a, 96), (b_g1, 96), (b_g2, 192)] {
            bytes.extend(count.to_be_bytes());
            bytes.resize(bytes.len() + count as usize * point_bytes, 0);
        }
        bytes
    }

    #[test]
    fn counts_are_read_and_a_cut_is_seen_wherever_it_is() {
        let whole = key(2, [3, 2, 300, 1, 1]);
        let counts = Counts::read(&whole).expect("a key");
        assert_eq!(counts, Counts { h: 3, l: 2, a: 300, b_g1: 1, b_g2: 1 });
        assert_eq!(Counts::read(&[&whole[..], &[7; 9]].concat()).expect("a key, and more"), counts);
        for len in (0..whole.len()).step_by(13) {
            let error = Counts::read(&whole[..len]).expect_err("it is cut");
            assert!(error.to_string().contains(&format!("ends at {len} bytes")), "{error}");
        }
    }

    #[test]
    fn a_key_for_another_circuit_is_refused_by_its_first_query_that_differs() {
        // Two constraints and two inputs; of two private variables one is in A, and one and an input in B.
        let rows = || [0, 1, 2].map(|_| vec![Fr::from(1); 2]);
        let occurs = [&[true, true, true, false][..], &[false, true, true, false]];
        let witness = Witness::new(rows(), &[Fr::from(1); 4], 2, occurs);
        let right = [3, 2, 3, 2, 2];
        let check = |counts| Counts::read(&key(2, counts)).expect("a key").check(&witness);
        check(right).expect("this circuit's");
        for (index, section) in
            ["h_query", "l_query", "a_query", "b_g1_query", "b_g2_query"].iter().enumerate()
        {
            let mut counts = right;
            counts[index] += 1;
            let error = check(counts).expect_err("one point too many").to_string();
            let (found, expected) = (counts[index], right[index]);
            let text = format!("{section} of the key has {found} points, and the circuit {expected}");
            assert!(error.contains(&text), "{error}");
        }
    }
}
