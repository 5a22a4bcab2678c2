//! A circuit with its assignment, as bellman's provers keep it.

use ark_bls12_381::Fr;
use ark_ff::AdditiveGroup;

/// A scalar in Montgomery form, the lowest limb first.
pub(crate) type Words = [u64; 4];

/// Which of some variables occur, one bit each, the first in the lowest bit of the first word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bits {
    pub(crate) words: Vec<usize>,
    pub(crate) len: usize,
    pub(crate) ones: usize,
}

// supraseal reads bits 64 at a time.
const _: () = assert!(usize::BITS == 64);

impl Bits {
    fn new(flags: &[bool]) -> Self {
        let word = |chunk: &[bool]| {
            chunk.iter().enumerate().fold(0, |word, (bit, flag)| word | usize::from(*flag) << bit)
        };
        Self {
            words: flags.chunks(64).map(word).collect(),
            len: flags.len(),
            ones: flags.iter().filter(|flag| **flag).count(),
        }
    }
}

/// Values that satisfy a circuit, and what supraseal has to know of the circuit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Witness {
    /// A, B and C at each constraint, and at one more for each input.
    pub(crate) rows: [Vec<Words>; 3],
    pub(crate) inputs: Vec<Words>,
    pub(crate) private: Vec<Words>,
    /// Private variables in A. Inputs all count as such.
    pub(crate) a_private: Bits,
    pub(crate) b_inputs: Bits,
    pub(crate) b_private: Bits,
}

impl Witness {
    /// From the values of A, B and C at each constraint; the assignment, inputs first, of which the constant 1 is one; and
    /// for each variable whether it occurs in A, and in B.
    ///
    /// # Panics
    /// If there is not a value of each matrix for every constraint, not a flag for every variable, or not a variable for
    /// every input.
    pub fn new(rows: [Vec<Fr>; 3], assignment: &[Fr], input_count: usize, occurs: [&[bool]; 2]) -> Self {
        let count = rows[0].len();
        assert!(rows.iter().all(|values| values.len() == count), "one value of each matrix for a constraint");
        assert!(occurs.iter().all(|flags| flags.len() == assignment.len()), "one flag for a variable");
        let words = |values: &[Fr]| values.iter().map(|value| value.0.0).collect::<Vec<Words>>();
        let (inputs, private) = assignment.split_at(input_count);
        let [mut a, mut b, mut c] = rows.map(|values| words(&values));
        // x * 0 = 0 for every input x: bellman adds these, so that the parts of the key for inputs are independent.
        a.extend(words(inputs));
        b.extend(vec![Fr::ZERO.0.0; input_count]);
        c.extend(vec![Fr::ZERO.0.0; input_count]);
        let (a_flags, (b_inputs, b_private)) = (&occurs[0][input_count..], occurs[1].split_at(input_count));
        Self {
            rows: [a, b, c],
            inputs: words(inputs),
            private: words(private),
            a_private: Bits::new(a_flags),
            b_inputs: Bits::new(b_inputs),
            b_private: Bits::new(b_private),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ark_ff::BigInt;

    #[test]
    fn bits_are_packed_from_the_lowest() {
        let flags: Vec<bool> = (0..70).map(|index| [0, 3, 63, 64, 69].contains(&index)).collect();
        let bits = Bits::new(&flags);
        assert_eq!(bits.words, [1 | 1 << 3 | 1 << 63, 1 | 1 << 5]);
        assert_eq!((bits.len, bits.ones), (70, 5));
        assert_eq!(Bits::new(&[]), Bits { words: vec![], len: 0, ones: 0 });
    }

    /// (2 + x) y = z, with inputs 1 and z.
    #[test]
    fn a_witness_has_a_row_for_each_input_too() {
        let [one, x, y] = [1_u64, 5, 11].map(Fr::from);
        let z = (one.double() + x) * y;
        let rows = [vec![one.double() + x], vec![y], vec![z]];
        let occurs = [&[true, false, true, false][..], &[false, false, false, true]];
        let witness = Witness::new(rows, &[one, z, x, y], 2, occurs);
        let values =
            |words: &[Words]| words.iter().map(|words| Fr::new_unchecked(BigInt(*words))).collect::<Vec<_>>();
        let [a, b, c] = witness.rows.each_ref().map(|words| values(words));
        assert_eq!(a, [one.double() + x, one, z]);
        assert_eq!(b, [y, Fr::ZERO, Fr::ZERO]);
        assert_eq!(c, [z, Fr::ZERO, Fr::ZERO]);
        assert_eq!((values(&witness.inputs), values(&witness.private)), (vec![one, z], vec![x, y]));
        assert_eq!((witness.a_private.words, witness.a_private.ones), (vec![1], 1));
        assert_eq!((witness.b_inputs.words, witness.b_inputs.len), (vec![0], 2));
        assert_eq!((witness.b_private.words, witness.b_private.ones), (vec![2], 1));
    }
}
