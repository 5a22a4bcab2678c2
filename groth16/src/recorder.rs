//! A recorder for bellman circuits: any `bellman::Circuit` over zkcrypto's BLS12-381 becomes constraints and an assignment.

use crate::r1cs::{Csr, R1cs, R1csError};
use ::bellman::{Circuit, ConstraintSystem, Index, LinearCombination, SynthesisError, Variable};
use ark_bls12_381::Fr;
use ark_ff::{BigInt, PrimeField as _};
use bls12_381::Scalar;
use ff::{Field, PrimeField};

impl R1cs {
    /// Synthesizes a bellman circuit: its constraints, and the assignment that it makes, inputs first.
    ///
    /// # Errors
    /// [`R1csError::Synthesis`] with bellman's words; [`R1csError::TooLarge`].
    pub fn record<C: Circuit<Scalar>>(circuit: C) -> Result<(Self, Vec<Fr>), R1csError> {
        let refused = |error: SynthesisError| R1csError::Synthesis(error.to_string());
        let mut recorder = Recorder::default();
        recorder.alloc_input(|| "one", || Ok(Scalar::ONE)).map_err(refused)?;
        circuit.synthesize(&mut recorder).map_err(refused)?;
        recorder.finish()
    }
}

/// zkcrypto's scalar in arkworks' form.
pub fn scalar(scalar: &Scalar) -> Fr {
    let mut limbs = [0; 4];
    for (limb, chunk) in limbs.iter_mut().zip(scalar.to_repr().chunks_exact(8)) {
        *limb = u64::from_le_bytes(chunk.try_into().expect("chunks of eight bytes"));
    }
    Fr::from_bigint(BigInt(limbs)).expect("both fields have the same modulus")
}

/// Terms of the rows so far. Columns are bellman's own indices until the number of inputs is known.
#[derive(Debug, Default)]
struct Rows {
    row_ends: Vec<usize>,
    terms: Vec<(Index, Fr)>,
}

impl Rows {
    /// Terms with coefficient zero are no occurrence of their variable: bellman's densities leave them out too.
    fn push(&mut self, row: &LinearCombination<Scalar>) {
        let terms = row.as_ref().iter().filter(|(_, coefficient)| !bool::from(coefficient.is_zero()));
        self.terms
            .extend(terms.map(|(variable, coefficient)| (variable.get_unchecked(), scalar(coefficient))));
        self.row_ends.push(self.terms.len());
    }

    fn finish(&self, input_count: usize, variable_count: usize) -> Result<Csr, R1csError> {
        let column = |index: Index| match index {
            Index::Input(index) => index,
            Index::Aux(index) => input_count + index,
        };
        let mut start = 0;
        let rows: Vec<Vec<_>> = self
            .row_ends
            .iter()
            .map(|end| {
                let row = &self.terms[start..*end];
                start = *end;
                row.iter().map(|(index, value)| (*value, column(*index))).collect()
            })
            .collect();
        Csr::from_rows(&rows, variable_count)
    }
}

#[derive(Debug, Default)]
struct Recorder {
    inputs: Vec<Fr>,
    witnesses: Vec<Fr>,
    a: Rows,
    b: Rows,
    c: Rows,
}

impl Recorder {
    fn finish(self) -> Result<(R1cs, Vec<Fr>), R1csError> {
        let inputs = self.inputs.len();
        let mut assignment = self.inputs;
        assignment.extend(self.witnesses);
        let [a, b, c] = [&self.a, &self.b, &self.c].map(|rows| rows.finish(inputs, assignment.len()));
        Ok((R1cs::new(a?, b?, c?, inputs, assignment.len())?, assignment))
    }
}

impl ConstraintSystem<Scalar> for Recorder {
    type Root = Self;

    fn alloc<F, A, AR>(&mut self, _: A, value: F) -> Result<Variable, SynthesisError>
    where
        F: FnOnce() -> Result<Scalar, SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        self.witnesses.push(scalar(&value()?));
        Ok(Variable::new_unchecked(Index::Aux(self.witnesses.len() - 1)))
    }

    fn alloc_input<F, A, AR>(&mut self, _: A, value: F) -> Result<Variable, SynthesisError>
    where
        F: FnOnce() -> Result<Scalar, SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        self.inputs.push(scalar(&value()?));
        Ok(Variable::new_unchecked(Index::Input(self.inputs.len() - 1)))
    }

    fn enforce<A, AR, LA, LB, LC>(&mut self, _: A, a: LA, b: LB, c: LC)
    where
        A: FnOnce() -> AR,
        AR: Into<String>,
        LA: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
        LB: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
        LC: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
    {
        self.a.push(&a(LinearCombination::zero()));
        self.b.push(&b(LinearCombination::zero()));
        self.c.push(&c(LinearCombination::zero()));
    }

    fn push_namespace<NR, N>(&mut self, _: N)
    where
        NR: Into<String>,
        N: FnOnce() -> NR,
    {
    }

    fn pop_namespace(&mut self) {}

    fn get_root(&mut self) -> &mut Self {
        self
    }
}
