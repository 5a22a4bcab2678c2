//! Domains and shifts by their laws: orders of roots, what vanishes where, and what is refused.

use ark_bls12_381::Fr;
use ark_ff::{AdditiveGroup, Field};
use ntt_gpu::{Domain, NttError, Shift};

/// A result that can be compared: an error as it is written for debugging.
fn said<T>(result: Result<T, NttError>) -> Result<T, String> {
    result.map_err(|error| format!("{error:?}"))
}

/// The largest order of a root.
const LOG_N_MAX: u32 = 32;

#[test]
fn a_root_has_the_order_that_it_is_given_for() {
    for log_n in 0..=LOG_N_MAX {
        for domain in
            [Domain::arkworks(log_n), Domain::snarkjs(log_n)].map(|domain| domain.expect("a domain"))
        {
            let omega = domain.omega();
            assert_eq!(omega.pow([domain.len()]), Fr::ONE);
            assert_eq!(said(Domain::with_root(log_n, omega)), Ok(domain));
            // A root of a smaller order, and of a larger one.
            assert_eq!(
                Domain::with_root(log_n, -omega).is_ok(),
                log_n > 1,
                "-1 is a power of it from order 4 on"
            );
            if log_n > 0 {
                assert_eq!(
                    said(Domain::with_root(log_n, omega.square())),
                    said(Err(NttError::NotARoot { log_n }))
                );
                assert_eq!(
                    said(Domain::with_root(log_n - 1, omega)),
                    said(Err(NttError::NotARoot { log_n: log_n - 1 }))
                );
            }
            assert_eq!(said(Domain::with_root(log_n, Fr::ZERO)), said(Err(NttError::NotARoot { log_n })));
        }
    }
    let log_n = LOG_N_MAX + 1;
    for found in [Domain::arkworks(log_n), Domain::snarkjs(log_n), Domain::with_root(log_n, Fr::ZERO)] {
        assert_eq!(said(found), said(Err(NttError::DomainTooLarge { log_n })));
    }
}

#[test]
fn the_size_of_a_vector_is_that_of_one_domain() {
    for log_n in 0..=LOG_N_MAX {
        assert_eq!(said(Domain::log_n_for(1 << log_n)), Ok(log_n));
    }
    assert_eq!(said(Domain::log_n_for(0)), said(Err(NttError::Empty)));
    assert_eq!(said(Domain::log_n_for(1 << 33)), said(Err(NttError::DomainTooLarge { log_n: 33 })));
    for len in [3, 5, (1 << 20) + 1, (1 << 32) - 1, u64::MAX] {
        assert_eq!(said(Domain::log_n_for(len)), said(Err(NttError::NotPowerOfTwo { len })));
    }
}

#[test]
fn shifts_are_outside_of_the_domain() {
    for log_n in 0..=LOG_N_MAX {
        let domain = Domain::arkworks(log_n).expect("a domain");
        let omega = domain.omega();
        for inside in [Fr::ONE, omega, omega.pow([3])] {
            assert_eq!(domain.vanishing(inside), Fr::ZERO);
            assert_eq!(said(Shift::new(&domain, inside)), said(Err(NttError::ShiftInDomain { log_n })));
        }
        assert_eq!(said(Shift::new(&domain, Fr::ZERO)), said(Err(NttError::ShiftIsZero)));
        let shift = Shift::generator();
        assert_eq!(said(Shift::new(&domain, shift.value())), Ok(shift));
        assert_eq!(domain.vanishing(shift.value()), shift.value().pow([domain.len()]) - Fr::ONE);
    }
}
