//! A rank-1 constraint system as the device takes it: three sparse matrices in compressed rows.
//!
//! A witness z holds if (A z) * (B z) = C z, row by row. z is the constant 1, then the public inputs, then what is private.

use ark_bls12_381::Fr;
use ark_ff::AdditiveGroup;
use ark_relations::gr1cs::{
    ConstraintSynthesizer, ConstraintSystem, Matrix, OptimizationGoal, R1CS_PREDICATE_LABEL, SynthesisError,
    SynthesisMode,
};
use rayon::prelude::*;

/// Why constraints cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum R1csError {
    /// The matrices have different numbers of rows.
    #[error("{a} rows in A, {b} in B, {c} in C")]
    RowCounts {
        /// Rows of A.
        a: usize,
        /// Rows of B.
        b: usize,
        /// Rows of C.
        c: usize,
    },
    /// A term names a variable that does not exist.
    #[error("constraint {constraint} names variable {variable} of {variable_count}")]
    NoSuchVariable {
        /// The row.
        constraint: usize,
        /// The column.
        variable: usize,
        /// Variables that there are.
        variable_count: usize,
    },
    /// The inputs do not include the constant, or are more than the variables.
    #[error("{input_count} inputs, the constant among them, of {variable_count} variables")]
    InputCount {
        /// Inputs.
        input_count: usize,
        /// Variables.
        variable_count: usize,
    },
    /// More rows, terms or variables than 32-bit indices reach.
    #[error("{what}: {count} are too many")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How many.
        count: usize,
    },
    /// The circuit refused to be synthesized.
    #[error("synthesis: {0}")]
    Synthesis(String),
}

impl From<SynthesisError> for R1csError {
    fn from(error: SynthesisError) -> Self {
        Self::Synthesis(error.to_string())
    }
}

/// A sparse matrix in compressed rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Csr {
    /// Where the terms of each row start, and after the last one where they end.
    pub row_offsets: Vec<u32>,
    /// Variable of each term.
    pub columns: Vec<u32>,
    /// Coefficient of each term.
    pub values: Vec<Fr>,
}

impl Csr {
    /// From rows of terms. Terms with coefficient zero are left out.
    ///
    /// # Errors
    /// [`R1csError::NoSuchVariable`], [`R1csError::TooLarge`].
    pub fn from_rows<'a, R>(rows: R, variable_count: usize) -> Result<Self, R1csError>
    where
        R: IntoIterator<Item = &'a Vec<(Fr, usize)>>,
    {
        let mut matrix = Self { row_offsets: vec![0], ..Self::default() };
        for (constraint, row) in rows.into_iter().enumerate() {
            for (value, variable) in row {
                let variable = *variable;
                if variable >= variable_count {
                    return Err(R1csError::NoSuchVariable { constraint, variable, variable_count });
                }
                if *value != Fr::ZERO {
                    matrix.columns.push(index("variables", variable)?);
                    matrix.values.push(*value);
                }
            }
            matrix.row_offsets.push(index("terms", matrix.columns.len())?);
        }
        Ok(matrix)
    }

    /// Rows.
    pub fn row_count(&self) -> usize {
        self.row_offsets.len() - 1
    }

    /// Terms.
    pub fn term_count(&self) -> usize {
        self.columns.len()
    }

    /// A row's terms: variable and coefficient.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (usize, Fr)> {
        let range = self.row_offsets[row] as usize..self.row_offsets[row + 1] as usize;
        let terms = self.columns[range.clone()].iter().zip(&self.values[range]);
        terms.map(|(variable, value)| (*variable as usize, *value))
    }

    /// A row at an assignment.
    fn eval(&self, row: usize, assignment: &[Fr]) -> Fr {
        self.row(row).map(|(variable, value)| value * assignment[variable]).sum()
    }

    /// For each variable whether it occurs.
    pub fn occurrences(&self, variable_count: usize) -> Vec<bool> {
        let mut occurs = vec![false; variable_count];
        self.columns.iter().for_each(|variable| occurs[*variable as usize] = true);
        occurs
    }
}

/// A constraint system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct R1cs {
    a: Csr,
    b: Csr,
    c: Csr,
    input_count: usize,
    variable_count: usize,
}

impl R1cs {
    /// From three matrices as arkworks gives them: a row is a list of coefficients and variables.
    ///
    /// # Errors
    /// [`R1csError`].
    pub fn from_matrices(
        matrices: [&Matrix<Fr>; 3],
        input_count: usize,
        variable_count: usize,
    ) -> Result<Self, R1csError> {
        let [a, b, c] = matrices.map(|rows| Csr::from_rows(rows, variable_count));
        Self::new(a?, b?, c?, input_count, variable_count)
    }

    /// From three matrices.
    ///
    /// # Errors
    /// [`R1csError`].
    pub fn new(a: Csr, b: Csr, c: Csr, input_count: usize, variable_count: usize) -> Result<Self, R1csError> {
        let (rows_a, rows_b, rows_c) = (a.row_count(), b.row_count(), c.row_count());
        if rows_a != rows_b || rows_a != rows_c {
            return Err(R1csError::RowCounts { a: rows_a, b: rows_b, c: rows_c });
        }
        if input_count == 0 || input_count > variable_count {
            return Err(R1csError::InputCount { input_count, variable_count });
        }
        let domain = (rows_a + input_count).checked_next_power_of_two().unwrap_or(usize::MAX);
        if domain > 1 << 31 {
            return Err(R1csError::TooLarge { what: "constraints", count: rows_a });
        }
        index("variables", variable_count)?;
        index("terms", a.term_count() + b.term_count() + c.term_count())?;
        for matrix in [&a, &b, &c] {
            for row in 0..rows_a {
                if let Some((variable, _)) = matrix.row(row).find(|(variable, _)| *variable >= variable_count)
                {
                    return Err(R1csError::NoSuchVariable { constraint: row, variable, variable_count });
                }
            }
        }
        Ok(Self { a, b, c, input_count, variable_count })
    }

    /// Synthesizes an arkworks circuit: its constraints, and the assignment that it makes.
    ///
    /// # Errors
    /// [`R1csError`].
    pub fn synthesize<C: ConstraintSynthesizer<Fr>>(circuit: C) -> Result<(Self, Vec<Fr>), R1csError> {
        let cs = ConstraintSystem::new_ref();
        cs.set_optimization_goal(OptimizationGoal::Constraints);
        cs.set_mode(SynthesisMode::Prove { construct_matrices: true, generate_lc_assignments: false });
        circuit.generate_constraints(cs.clone())?;
        cs.finalize();
        let matrices = cs.to_matrices()?;
        let (inputs, variables) =
            (cs.num_instance_variables(), cs.num_instance_variables() + cs.num_witness_variables());
        if let Some(other) = matrices.keys().find(|label| label.as_str() != R1CS_PREDICATE_LABEL) {
            return Err(R1csError::Synthesis(format!("constraints by the predicate {other}, not of rank 1")));
        }
        let none = [Vec::new(), Vec::new(), Vec::new()];
        let [a, b, c] = match matrices.get(R1CS_PREDICATE_LABEL).map(Vec::as_slice) {
            Some([a, b, c]) => [a, b, c],
            Some(other) => {
                let text = format!("{} matrices for a rank-1 constraint", other.len());
                return Err(R1csError::Synthesis(text));
            }
            None => none.each_ref(),
        };
        let r1cs = Self::from_matrices([a, b, c], inputs, variables)?;
        let system = cs.borrow().ok_or(SynthesisError::MissingCS)?;
        let mut assignment = system.instance_assignment()?.to_vec();
        assignment.extend_from_slice(system.witness_assignment()?);
        Ok((r1cs, assignment))
    }

    /// A.
    pub fn a(&self) -> &Csr {
        &self.a
    }

    /// B.
    pub fn b(&self) -> &Csr {
        &self.b
    }

    /// C.
    pub fn c(&self) -> &Csr {
        &self.c
    }

    /// Public inputs, the constant 1 among them.
    pub fn input_count(&self) -> usize {
        self.input_count
    }

    /// Variables: inputs and private ones.
    pub fn variable_count(&self) -> usize {
        self.variable_count
    }

    /// Constraints.
    pub fn constraint_count(&self) -> usize {
        self.a.row_count()
    }

    /// log2 of the size of the domain: one value for each constraint and each input.
    pub fn log_n(&self) -> u32 {
        (self.constraint_count() + self.input_count).next_power_of_two().ilog2()
    }

    /// The first constraint that an assignment does not satisfy.
    ///
    /// # Panics
    /// If the assignment has another length than there are variables.
    pub fn first_failing(&self, assignment: &[Fr]) -> Option<usize> {
        assert_eq!(assignment.len(), self.variable_count, "one value a variable");
        let fails = |row: &usize| {
            let product = self.a.eval(*row, assignment) * self.b.eval(*row, assignment);
            product != self.c.eval(*row, assignment)
        };
        (0..self.constraint_count()).into_par_iter().find_first(fails)
    }

    /// The three matrices as rows of terms, as arkworks takes them.
    pub fn to_matrices(&self) -> [Matrix<Fr>; 3] {
        self.matrices().map(|matrix| {
            let row = |row| matrix.row(row).map(|(variable, value)| (value, variable)).collect();
            (0..matrix.row_count()).map(row).collect()
        })
    }

    /// A, B and C.
    pub(crate) fn matrices(&self) -> [&Csr; 3] {
        [&self.a, &self.b, &self.c]
    }
}

/// Matrices below one another, each coefficient kept once: circuits have few different ones.
pub(crate) fn stack(matrices: &[&Csr]) -> Stacked {
    let mut stacked = Stacked { row_offsets: vec![0], ..Stacked::default() };
    let mut known = std::collections::HashMap::new();
    for matrix in matrices {
        let start = stacked.columns.len() as u32;
        stacked.row_offsets.extend(matrix.row_offsets[1..].iter().map(|offset| start + offset));
        stacked.columns.extend_from_slice(&matrix.columns);
        for value in &matrix.values {
            let next = stacked.coefficients.len() as u32;
            let index = *known.entry(*value).or_insert(next);
            if index == next {
                stacked.coefficients.push(*value);
            }
            stacked.factors.push(index);
        }
    }
    stacked
}

/// What `groth16_eval_rows` reads of the matrices.
#[derive(Debug, Default)]
pub(crate) struct Stacked {
    pub(crate) row_offsets: Vec<u32>,
    pub(crate) columns: Vec<u32>,
    pub(crate) factors: Vec<u32>,
    pub(crate) coefficients: Vec<Fr>,
}

fn index(what: &'static str, count: usize) -> Result<u32, R1csError> {
    u32::try_from(count).map_err(|_| R1csError::TooLarge { what, count })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(terms: &[(u64, usize)]) -> Vec<(Fr, usize)> {
        terms.iter().map(|(value, variable)| (Fr::from(*value), *variable)).collect()
    }

    /// x * x = y and (x + y) * 1 = 6.
    fn square() -> R1cs {
        let a = vec![row(&[(1, 2)]), row(&[(1, 2), (1, 1)])];
        let b = vec![row(&[(1, 2)]), row(&[(1, 0), (0, 1)])];
        let c = vec![row(&[(1, 1)]), row(&[(6, 0)])];
        R1cs::from_matrices([&a, &b, &c], 2, 3).expect("well formed")
    }

    #[test]
    fn the_first_failing_constraint_is_named() {
        let r1cs = square();
        let failing = |x: u64, y: u64| r1cs.first_failing(&[1, y, x].map(Fr::from));
        assert_eq!(failing(2, 4), None);
        assert_eq!(failing(2, 3), Some(0));
        assert_eq!(failing(3, 9), Some(1));
        assert_eq!(r1cs.log_n(), 2);
    }

    #[test]
    fn zero_coefficients_are_no_occurrence() {
        let r1cs = square();
        assert_eq!(r1cs.b().occurrences(3), [true, false, true]);
        assert_eq!(r1cs.b().term_count(), 2);
    }

    #[test]
    fn stacking_keeps_each_coefficient_once() {
        let stacked = stack(&square().matrices());
        assert_eq!(stacked.row_offsets, [0, 1, 3, 4, 5, 6, 7]);
        assert_eq!(stacked.columns, [2, 2, 1, 2, 0, 1, 0]);
        assert_eq!(stacked.coefficients, [Fr::from(1), Fr::from(6)]);
        assert_eq!(stacked.factors, [0, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn malformed_systems_are_refused() {
        let (one, two) = (vec![row(&[(1, 0)])], vec![row(&[(1, 0)]), row(&[(1, 5)])]);
        let error =
            |a, b, c, inputs, variables| R1cs::from_matrices([a, b, c], inputs, variables).unwrap_err();
        assert_eq!(
            error(&one, &one, &one, 0, 1),
            R1csError::InputCount { input_count: 0, variable_count: 1 }
        );
        assert_eq!(
            error(&one, &one, &one, 2, 1),
            R1csError::InputCount { input_count: 2, variable_count: 1 }
        );
        assert_eq!(
            error(&two, &two, &two, 1, 5),
            R1csError::NoSuchVariable { constraint: 1, variable: 5, variable_count: 5 }
        );
        assert_eq!(error(&two, &one, &two, 1, 6), R1csError::RowCounts { a: 2, b: 1, c: 2 });
    }

    #[test]
    fn matrices_come_back_as_they_were() {
        let r1cs = square();
        let [a, b, c] = r1cs.to_matrices();
        assert_eq!(R1cs::from_matrices([&a, &b, &c], 2, 3), Ok(r1cs));
    }
}
