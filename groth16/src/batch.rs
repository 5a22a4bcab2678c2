//! Many proofs by one call.

use crate::error::ProveError;
use crate::prover::{Proof, Prover};
use ark_bls12_381::Fr;
use ark_ff::UniformRand;
use ark_std::rand::{CryptoRng, RngCore};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use zeroize::Zeroize;

impl Prover {
    /// A proof of each assignment, blinded by random numbers, as many at once as the configuration's `jobs_max` lets run.
    ///
    /// There is one result for each assignment, in their order. A failure is the result of its own assignment and of no
    /// other: what was proved stays proved, and what comes after is begun all the same. Its errors are those of
    /// [`prove_with`](Self::prove_with).
    ///
    /// # Panics
    /// If a proof panics; then the others' results are lost, and the prover is as it was.
    pub fn prove_all(
        &self,
        assignments: &[impl AsRef<[Fr]> + Sync],
        rng: &mut (impl RngCore + CryptoRng),
    ) -> Vec<Result<Proof, ProveError>> {
        let mut blinding: Vec<_> = assignments.iter().map(|_| (Fr::rand(rng), Fr::rand(rng))).collect();
        let slots: Vec<_> = assignments.iter().map(|_| Mutex::new(None)).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(assignment) = assignments.get(index) else { return };
                let (r, s) = blinding[index];
                let result = self.prove_with(assignment.as_ref(), r, s);
                *slots[index].lock().expect("nobody panics with a slot in hand") = Some(result);
            }
        };
        std::thread::scope(|scope| {
            (0..self.jobs_max().min(assignments.len())).for_each(|_| drop(scope.spawn(work)));
        });
        blinding.iter_mut().for_each(|(r, s)| {
            r.zeroize();
            s.zeroize();
        });
        let result =
            |slot: Mutex<Option<_>>| slot.into_inner().expect("as above").expect("every index was taken");
        slots.into_iter().map(result).collect()
    }
}
