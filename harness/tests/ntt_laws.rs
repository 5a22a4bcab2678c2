//! Transforms against slow twins, arkworks and their own laws, on every device that there is.

use ark_bls12_381::Fr;
use ark_ff::{AdditiveGroup, BigInt, FftField, Field, PrimeField, UniformRand};
use ark_poly::EvaluationDomain;
use gpu_core::sim::{SimBackend, SimOptions};
use gpu_core::{Device, DeviceKind, GpuError, cuda};
use harness::oracle::{
    arkworks_domain, bit_reversed, coeffs_by_sums, random_numbers, test_seed, values_by_horner,
};
use ntt_gpu::domain::LOG_N_MAX;
use ntt_gpu::{
    BitReversed, Direction, Domain, Natural, NttConfig, NttDomain, NttError, NttPlan, Order, OrderKind, Poly,
    Shift,
};
use rayon::prelude::*;

const DIRECTIONS: [Direction; 2] = [Direction::Forward, Direction::Inverse];
const ORDERS: [OrderKind; 2] = [OrderKind::Natural, OrderKind::BitReversed];

fn devices() -> Vec<Device> {
    let devices = Device::all(SimOptions::default());
    for device in &devices {
        let info = device.info();
        let driver = match (info.kind, cuda::driver_version()) {
            (DeviceKind::Cuda, Some((major, minor))) => format!(", driver for CUDA {major}.{minor}"),
            _ => String::new(),
        };
        println!("device {}: {} ({}){driver}", info.id, info.name, info.arch);
    }
    devices
}

fn random(seed: u64, label: &str, len: usize) -> Vec<Fr> {
    let mut rng = random_numbers(seed, label);
    (0..len).map(|_| Fr::rand(&mut rng)).collect()
}

/// One transform of values in natural order, to values in natural order, whatever order it has on the device.
fn transformed(
    ntt: &NttDomain,
    direction: Direction,
    input: OrderKind,
    shift: Option<Shift>,
    values: &[Fr],
) -> Vec<Fr> {
    fn through<O: Order>(
        ntt: &NttDomain,
        direction: Direction,
        shift: Option<Shift>,
        values: &[Fr],
    ) -> Vec<Fr> {
        let poly = ntt.upload::<O>(values).expect("whole jobs of reduced values");
        ntt.transform(direction, shift, poly).expect("the transform runs").to_vec().expect("readable")
    }
    let each_job = |values: &[Fr]| -> Vec<Fr> {
        values.chunks(ntt.domain().len() as usize).flat_map(bit_reversed).collect()
    };
    match input {
        OrderKind::Natural => each_job(&through::<Natural>(ntt, direction, shift, values)),
        OrderKind::BitReversed => through::<BitReversed>(ntt, direction, shift, &each_job(values)),
    }
}

fn assert_equal(device: &Device, what: &str, got: &[Fr], expected: &[Fr]) {
    let info = device.info();
    let first = got.iter().zip(expected).position(|(a, b)| a != b);
    assert!(
        got.len() == expected.len() && first.is_none(),
        "{what} on {} ({}, {}): first difference at {first:?} of {} values, {} expected",
        info.id,
        info.name,
        info.arch,
        got.len(),
        expected.len()
    );
    let high = got.iter().position(|value| value.0 >= Fr::MODULUS);
    assert_eq!(high, None, "{what} on {}: a value that is not below the modulus", info.id);
}

/// Many passes at small sizes, tables by position and powers in two levels.
fn configs() -> [NttConfig; 4] {
    [
        NttConfig::default(),
        NttConfig { pass_bits_max: 3, table_bits_max: 24 },
        NttConfig { pass_bits_max: 2, table_bits_max: 0 },
        NttConfig { pass_bits_max: 1, table_bits_max: 3 },
    ]
}

fn domains(log_n: u32) -> [Domain; 2] {
    [Domain::arkworks(log_n).expect("small"), Domain::snarkjs(log_n).expect("small")]
}

/// None, arkworks' shift, its square, the generator of the domain twice as large, a random one.
fn shifts(domain: &Domain, seed: u64) -> Vec<Option<Shift>> {
    let omega_2n = Domain::snarkjs(domain.log_n() + 1).expect("small").omega();
    let values = [Fr::GENERATOR, Fr::GENERATOR.square(), omega_2n, random(seed, "shift", 1)[0]];
    let shifts = values.map(|value| Some(Shift::new(domain, value).expect("outside of the domain")));
    std::iter::once(None).chain(shifts).collect()
}

#[test]
fn small_transforms_are_the_slow_twin() {
    let seed = test_seed();
    for device in devices() {
        for (log_n, config) in (0..=8).flat_map(|log_n| configs().map(|config| (log_n, config))) {
            for domain in domains(log_n) {
                let ntt = NttDomain::with_config(&device, domain, config).expect("kernels load");
                let values = random(seed, &format!("values {log_n}"), 1 << log_n);
                for shift in shifts(&domain, seed) {
                    let shift_value = shift.map_or(Fr::ONE, |shift| shift.value());
                    for direction in DIRECTIONS {
                        let expected = match direction {
                            Direction::Forward => values_by_horner(&values, domain.omega(), shift_value),
                            Direction::Inverse => coeffs_by_sums(&values, domain.omega(), shift_value),
                        };
                        for input in ORDERS {
                            let got = transformed(&ntt, direction, input, shift, &values);
                            let what = format!("2^{log_n} {config:?} {direction:?} {input:?} {shift:?}");
                            assert_equal(&device, &what, &got, &expected);
                        }
                    }
                }
            }
        }
    }
}

/// One transform by arrays of either order, and permutations of the device where the orders are not its own: bit-reversed or
/// not on the way in, bit-reversed or not on the way out.
fn assert_orders(
    ntt: &NttDomain,
    direction: Direction,
    shift: Option<Shift>,
    values: &[Fr],
    expected: &[Fr],
) {
    let (reversed_values, reversed) = (bit_reversed(values), bit_reversed(expected));
    let natural = || ntt.upload::<Natural>(values).expect("whole");
    let bit_reversed = || ntt.upload::<BitReversed>(&reversed_values).expect("whole");
    let outputs = [
        (
            "natural, bit-reversed",
            &reversed,
            ntt.transform(direction, shift, natural()).and_then(|p| p.to_vec()),
        ),
        (
            "bit-reversed, bit-reversed",
            &reversed,
            ntt.transform(direction, shift, bit_reversed()).and_then(|p| ntt.reorder(p)?.to_vec()),
        ),
        ("bit-reversed, natural", &expected.to_vec(), {
            ntt.transform(direction, shift, bit_reversed()).and_then(|p| p.to_vec())
        }),
        ("natural, natural", &expected.to_vec(), {
            ntt.transform(direction, shift, natural()).and_then(|p| ntt.reorder(p)?.to_vec())
        }),
    ];
    for (orders, expected, got) in outputs {
        let what = format!("2^{} {direction:?} {shift:?}: {orders}", ntt.domain().log_n());
        assert_equal(ntt.device(), &what, &got.expect("runs"), expected);
    }
    // And back again, whatever the order.
    let back = match direction {
        Direction::Forward => Direction::Inverse,
        Direction::Inverse => Direction::Forward,
    };
    let round_trip =
        |poly: Poly<Natural>| ntt.transform(back, shift, ntt.transform(direction, shift, poly)?)?.to_vec();
    let what = format!("2^{} {direction:?} {shift:?} and back", ntt.domain().log_n());
    assert_equal(ntt.device(), &what, &round_trip(natural()).expect("runs"), values);
}

/// Sizes beyond the slow twin, each order on both sides, direction and coset; on CUDA up to 2^24. (Up to 2^8,
/// `small_transforms_are_the_slow_twin`.)
#[test]
fn b38_each_order_and_coset_at_each_size() {
    let seed = test_seed();
    for device in devices() {
        let log_n_max = if device.info().kind == DeviceKind::Sim { 14 } else { 24 };
        for log_n in 9..=log_n_max {
            let values = random(seed, "values", 1 << log_n);
            // Either root where a transform on the host is cheap.
            let roots = if log_n > 22 { 1 } else { 2 };
            for (domain, shift) in domains(log_n).into_iter().zip([Fr::GENERATOR, Fr::from(11)]).take(roots) {
                let ntt = NttDomain::new(&device, domain).expect("kernels load");
                let shift = Shift::new(&domain, shift).expect("outside of the domain");
                for shift in [None, Some(shift)] {
                    let shift_value = shift.map_or(Fr::ONE, |shift| shift.value());
                    let reference = arkworks_domain(log_n, domain.omega(), shift_value);
                    for direction in DIRECTIONS {
                        let expected = match direction {
                            Direction::Forward => reference.fft(&values),
                            Direction::Inverse => reference.ifft(&values),
                        };
                        assert_orders(&ntt, direction, shift, &values, &expected);
                    }
                }
            }
        }
    }
}

/// Three passes and scales without tables, at sizes of several tiles.
#[test]
fn passes_and_tables_do_not_change_results() {
    let seed = test_seed();
    let config = |pass_bits_max, table_bits_max| NttConfig { pass_bits_max, table_bits_max };
    let configs = [config(10, 0), config(5, 24), config(5, 0), config(5, 9), config(4, 24), config(7, 12)];
    for device in devices() {
        for log_n in [11, 13] {
            let domain = Domain::snarkjs(log_n).expect("small");
            let values = random(seed, "values", 1 << log_n);
            for shift in [None, Some(Shift::generator())] {
                let reference = arkworks_domain(log_n, domain.omega(), shift.map_or(Fr::ONE, |s| s.value()));
                for config in configs {
                    let ntt = NttDomain::with_config(&device, domain, config).expect("kernels load");
                    for (direction, input) in DIRECTIONS.into_iter().flat_map(|d| ORDERS.map(|o| (d, o))) {
                        let expected = match direction {
                            Direction::Forward => reference.fft(&values),
                            Direction::Inverse => reference.ifft(&values),
                        };
                        let got = transformed(&ntt, direction, input, shift, &values);
                        let what = format!("2^{log_n} {config:?} {direction:?} {input:?} {shift:?}");
                        assert_equal(&device, &what, &got, &expected);
                    }
                }
            }
        }
    }
}

/// Sizes that no CPU transform is asked for: exact at random points by Horner's rule, and back again.
#[test]
fn large_transforms_at_random_points() {
    let seed = test_seed();
    for device in devices() {
        let sizes: &[u32] = if device.info().kind == DeviceKind::Sim { &[16] } else { &[24, 26] };
        for &log_n in sizes {
            let domain = Domain::snarkjs(log_n).expect("small");
            let ntt = NttDomain::new(&device, domain).expect("kernels load");
            let coeffs = random(seed, "coeffs", 1 << log_n);
            for shift in [None, Some(Shift::generator())] {
                let poly = ntt.upload::<Natural>(&coeffs).expect("whole");
                let poly = ntt.transform(Direction::Forward, shift, poly).expect("runs");
                let values = poly.to_vec().expect("readable");
                let first = shift.map_or(Fr::ONE, |shift| shift.value());
                for position in [0, 1, (seed as usize) % values.len(), values.len() - 1] {
                    let index = (position as u64).reverse_bits() >> (64 - log_n);
                    let value = value_at(&coeffs, first * domain.omega().pow([index]));
                    assert_eq!(values[position], value, "2^{log_n} at {position} on {}", device.info().id);
                }
                let back = ntt.transform(Direction::Inverse, shift, poly).expect("runs");
                let what = format!("inverse at 2^{log_n}, {shift:?}");
                assert_equal(&device, &what, &back.to_vec().expect("readable"), &coeffs);
            }
        }
    }
}

/// A polynomial at a point: pieces by Horner's rule on all processors, and their sum.
fn value_at(coeffs: &[Fr], point: Fr) -> Fr {
    const PIECE: usize = 1 << 12;
    let step = point.pow([PIECE as u64]);
    let pieces: Vec<Fr> = coeffs
        .par_chunks(PIECE)
        .map(|piece| piece.iter().rfold(Fr::ZERO, |sum, coeff| sum * point + coeff))
        .collect();
    pieces.iter().rfold(Fr::ZERO, |sum, piece| sum * step + piece)
}

/// The largest tiles, which arrays from 2^19 values on have.
#[test]
fn large_tiles_hold_several_columns() {
    let seed = test_seed();
    for device in devices() {
        // 2^12 has two passes of 6: a large tile is 16 columns of the first, and 16 blocks of the second.
        let (log_n, job_count) = (12, 129);
        let ntt = NttDomain::new(&device, Domain::arkworks(log_n).expect("small")).expect("kernels load");
        let plan = ntt.plan(job_count).expect("a plan");
        assert!(plan.passes.iter().all(|pass| (pass.log_rows, pass.log_tile) == (6, 10)), "{plan:?}");
        let values = random(seed, "values", (job_count as usize) << log_n);
        let reference = arkworks_domain(log_n, ntt.domain().omega(), Fr::GENERATOR);
        let expected: Vec<_> = values.chunks(1 << log_n).flat_map(|job| reference.fft(job)).collect();
        for input in ORDERS {
            let shift = Some(Shift::generator());
            let got = transformed(&ntt, Direction::Forward, input, shift, &values);
            assert_equal(&device, &format!("{job_count} jobs, {input:?}"), &got, &expected);
        }
    }
}

#[test]
fn jobs_are_independent() {
    let seed = test_seed();
    for device in devices() {
        for (log_n, job_count) in [(0, 5), (1, 3), (2, 1000), (5, 33), (8, 4), (9, 7), (11, 3)] {
            let ntt = NttDomain::new(&device, Domain::arkworks(log_n).expect("small")).expect("kernels load");
            let values = random(seed, "values", job_count << log_n);
            let omega = ntt.domain().omega();
            for (direction, input) in DIRECTIONS.into_iter().flat_map(|d| ORDERS.map(|o| (d, o))) {
                let reference = arkworks_domain(log_n, omega, Fr::GENERATOR);
                let jobs = values.chunks(1 << log_n);
                let expected: Vec<_> = match direction {
                    Direction::Forward => jobs.flat_map(|job| reference.fft(job)).collect(),
                    Direction::Inverse => jobs.flat_map(|job| reference.ifft(job)).collect(),
                };
                let got = transformed(&ntt, direction, input, Some(Shift::generator()), &values);
                assert_equal(
                    &device,
                    &format!("{job_count} jobs of 2^{log_n} {direction:?}"),
                    &got,
                    &expected,
                );
            }
        }
    }
}

#[test]
fn a_transform_is_linear_and_the_identity_with_its_inverse() {
    let seed = test_seed();
    for device in devices() {
        for log_n in [1, 6, 10, 11, 13] {
            let ntt = NttDomain::new(&device, Domain::arkworks(log_n).expect("small")).expect("kernels load");
            let shift = Shift::generator();
            let [x, y] = ["x", "y"].map(|label| random(seed, label, 1 << log_n));
            let factor = random(seed, "factor", 1)[0];
            let sum: Vec<_> = x.iter().zip(&y).map(|(x, y)| *x * factor + y).collect();
            let forward = |values: &[Fr]| {
                let coeffs = ntt.upload::<Natural>(values).expect("whole");
                ntt.coset_forward(shift, coeffs).expect("runs").to_vec().expect("readable")
            };
            let expected: Vec<_> =
                forward(&x).into_iter().zip(forward(&y)).map(|(x, y)| x * factor + y).collect();
            assert_equal(&device, "F(factor * x + y)", &forward(&sum), &expected);

            let round_trip = |poly: Poly<Natural>| ntt.inverse(ntt.forward(poly)?)?.to_vec();
            let back = round_trip(ntt.upload(&x).expect("whole")).expect("runs");
            assert_equal(&device, "inverse of forward", &back, &x);
            let round_trip = |poly: Poly<BitReversed>| {
                let coeffs = ntt.coset_inverse(shift, poly)?;
                ntt.coset_forward(shift, coeffs)?.to_vec()
            };
            let back = round_trip(ntt.upload(&y).expect("whole")).expect("runs");
            assert_equal(&device, "coset forward of coset inverse", &back, &y);
        }
    }
}

/// Products of values are convolutions of coefficients modulo x^n - 1, on a coset modulo x^n - g^n.
#[test]
fn products_of_values_are_convolutions() {
    let seed = test_seed();
    for device in devices() {
        for log_n in [1, 5, 7] {
            let domain = Domain::snarkjs(log_n).expect("small");
            let ntt = NttDomain::new(&device, domain).expect("kernels load");
            let n = 1 << log_n;
            let [x, y] = ["x", "y"].map(|label| random(seed, label, n));
            for shift in [None, Some(Shift::generator())] {
                let wrap = shift.map_or(Fr::ONE, |shift| shift.value()).pow([n as u64]);
                let mut expected = vec![Fr::ZERO; n];
                for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
                    expected[(i + j) % n] += x[i] * y[j] * if i + j < n { Fr::ONE } else { wrap };
                }
                let values = |coeffs: &[Fr]| {
                    let coeffs = ntt.upload::<Natural>(coeffs).expect("whole");
                    ntt.transform(Direction::Forward, shift, coeffs)
                        .expect("runs")
                        .to_vec()
                        .expect("readable")
                };
                let product: Vec<_> = values(&x).into_iter().zip(values(&y)).map(|(x, y)| x * y).collect();
                let product = ntt.upload::<BitReversed>(&product).expect("whole");
                let got = ntt.transform(Direction::Inverse, shift, product).expect("runs");
                assert_equal(&device, "convolution", &got.to_vec().expect("readable"), &expected);
            }
        }
    }
}

/// A shifted vector has values times powers of omega; a vector times powers of g has the values of the coset.
#[test]
fn shifts_of_input_are_powers_in_the_output() {
    let seed = test_seed();
    for device in devices() {
        for log_n in [1, 4, 10, 12] {
            let domain = Domain::arkworks(log_n).expect("small");
            let ntt = NttDomain::new(&device, domain).expect("kernels load");
            let x = random(seed, "x", 1 << log_n);
            let powers = |base: Fr| std::iter::successors(Some(Fr::ONE), move |power| Some(*power * base));
            let forward = |shift, values: &[Fr]| {
                transformed(&ntt, Direction::Forward, OrderKind::Natural, shift, values)
            };

            let mut rotated = x.clone();
            rotated.rotate_right(1);
            let values = forward(None, &x);
            let expected: Vec<_> = values.iter().zip(powers(domain.omega())).map(|(v, p)| *v * p).collect();
            assert_equal(&device, "rotated by one", &forward(None, &rotated), &expected);

            let scaled: Vec<_> = x.iter().zip(powers(Fr::GENERATOR)).map(|(v, p)| *v * p).collect();
            let expected = forward(Some(Shift::generator()), &x);
            assert_equal(&device, "times powers of the shift", &forward(None, &scaled), &expected);
        }
    }
}

/// One at position i gives powers of omega^i; a constant gives n times itself at zero.
#[test]
fn deltas_and_constants() {
    for device in devices() {
        for log_n in [0, 1, 2, 7, 10, 11] {
            let domain = Domain::arkworks(log_n).expect("small");
            let ntt = NttDomain::new(&device, domain).expect("kernels load");
            let n = 1usize << log_n;
            for input in ORDERS {
                let forward = |values: &[Fr]| transformed(&ntt, Direction::Forward, input, None, values);
                for i in [0, 1, n / 2, n - 1].into_iter().filter(|i| *i < n) {
                    let mut delta = vec![Fr::ZERO; n];
                    delta[i] = Fr::ONE;
                    let expected: Vec<_> =
                        (0..n as u64).map(|k| domain.omega().pow([i as u64 * k])).collect();
                    assert_equal(&device, &format!("delta {i} of 2^{log_n}"), &forward(&delta), &expected);
                }
                for constant in [Fr::ZERO, Fr::ONE, -Fr::ONE] {
                    let mut expected = vec![Fr::ZERO; n];
                    expected[0] = constant * Fr::from(n as u64);
                    let got = forward(&vec![constant; n]);
                    assert_equal(&device, &format!("constant {constant} of 2^{log_n}"), &got, &expected);
                }
            }
        }
    }
}

#[test]
fn reorder_permutes_and_is_its_own_inverse() {
    let seed = test_seed();
    for device in devices() {
        for (log_n, job_count) in [(0, 3), (1, 1), (3, 5), (10, 3), (13, 1)] {
            let ntt = NttDomain::new(&device, Domain::arkworks(log_n).expect("small")).expect("kernels load");
            let values = random(seed, "values", job_count << log_n);
            let expected: Vec<_> = values.chunks(1 << log_n).flat_map(bit_reversed).collect();
            let reversed = ntt.reorder(ntt.upload::<Natural>(&values).expect("whole")).expect("runs");
            assert_equal(&device, "reordered", &reversed.to_vec().expect("readable"), &expected);
            let back = ntt.reorder(reversed).expect("runs").to_vec().expect("readable");
            assert_equal(&device, "reordered twice", &back, &values);
        }
    }
}

/// Threads of a block in any order, operations as late as they can be: the barriers are enough.
#[test]
fn the_order_of_threads_does_not_matter() {
    let seed = test_seed();
    for options in [SimOptions::latest(), SimOptions::seeded(seed)] {
        let device = Device::sim(options);
        for log_n in [3, 10, 11] {
            let domain = Domain::arkworks(log_n).expect("small");
            let ntt = NttDomain::new(&device, domain).expect("kernels load");
            let values = random(seed, "values", 1 << log_n);
            let reference = arkworks_domain(log_n, domain.omega(), Fr::GENERATOR);
            let expected = reference.fft(&values);
            for input in ORDERS {
                let got = transformed(&ntt, Direction::Forward, input, Some(Shift::generator()), &values);
                assert_equal(&device, &format!("2^{log_n} {input:?}"), &got, &expected);
            }
        }
    }
}

/// Nothing stays behind, after success and after refusal.
#[test]
fn memory_comes_back() {
    let backend = SimBackend::new(SimOptions { memory_bytes: 1 << 20, ..SimOptions::default() });
    let handle = backend.handle();
    let device = Device::from_backend(Box::new(backend));
    let stats = || {
        let stats = handle.stats();
        (stats.device_bytes, stats.pinned_bytes, stats.live_streams, stats.live_events)
    };
    let ntt = NttDomain::new(&device, Domain::arkworks(11).expect("small")).expect("kernels load");
    let values = vec![Fr::from(3); 1 << 11];
    let poly = ntt.forward(ntt.upload::<Natural>(&values).expect("whole")).expect("runs");
    let held = stats();
    // 2^15 values are all of the memory, and some of it is taken.
    let large = NttDomain::new(&device, Domain::arkworks(15).expect("small")).expect("kernels load");
    let error = large.upload::<Natural>(&vec![Fr::ONE; 1 << 15]).expect_err("2^20 bytes are too few");
    assert!(matches!(error, NttError::Gpu(GpuError::OutOfMemory { .. })), "{error}");
    assert_eq!(stats(), held);
    let back = ntt.inverse(poly).expect("runs").to_vec().expect("readable");
    assert_equal(&device, "after a refusal", &back, &values);
    drop((ntt, large));
    assert_eq!(stats(), (0, 0, 0, 0));
}

#[test]
fn the_roots_of_arkworks_and_snarkjs() {
    // Both from their definitions, with the exponent t = (r - 1) / 2^32 computed here.
    let mut t = Fr::MODULUS;
    t.0[0] -= 1;
    t >>= 32;
    for log_n in 0..=LOG_N_MAX {
        for (base, domain) in [7u64, 5].map(Fr::from).into_iter().zip(domains(log_n)) {
            let omega = base.pow(t).pow([1u64 << (LOG_N_MAX - log_n)]);
            assert_eq!(domain.omega(), omega, "2^{log_n}");
            assert_eq!(Domain::with_root(log_n, omega).expect("a root"), domain);
        }
    }
    assert_ne!(Domain::arkworks(3).expect("small"), Domain::snarkjs(3).expect("small"));
    let omega = Domain::arkworks(4).expect("small").omega();
    for (log_n, omega) in
        [(3, omega), (5, omega), (4, omega.square()), (0, omega), (1, Fr::ONE), (4, Fr::ZERO)]
    {
        assert!(matches!(Domain::with_root(log_n, omega), Err(NttError::NotARoot { .. })), "2^{log_n}");
    }
}

/// A length that is no whole number of domains is refused, and the next transform is right.
#[test]
fn b40_lengths_that_are_no_power_of_two() {
    assert!(matches!(Domain::log_n_for(0), Err(NttError::Empty)));
    for len in [3, 6, (1 << 10) - 1, u64::MAX] {
        let error = Domain::log_n_for(len).expect_err("no power of two");
        assert!(matches!(error, NttError::NotPowerOfTwo { len: found } if found == len), "{error}");
    }
    assert_eq!(Domain::log_n_for(1).expect("one"), 0);
    assert_eq!(Domain::log_n_for(1 << 32).expect("the largest"), 32);
    assert!(matches!(Domain::log_n_for(1 << 33), Err(NttError::DomainTooLarge { log_n: 33 })));
    for device in devices() {
        let ntt = NttDomain::new(&device, Domain::arkworks(2).expect("small")).expect("kernels load");
        for len in [1, 3, 6, 1023] {
            let error = ntt.upload::<Natural>(&vec![Fr::ONE; len]).expect_err("not whole");
            let expected = NttError::LengthMismatch { len: len as u64, domain_len: 4 };
            assert_eq!(error.to_string(), expected.to_string());
        }
        assert!(matches!(ntt.upload::<Natural>(&[]), Err(NttError::Empty)));
        let values = transformed(&ntt, Direction::Forward, OrderKind::Natural, None, &[Fr::ONE; 4]);
        assert_equal(&device, "after errors", &values, &[Fr::from(4), Fr::ZERO, Fr::ZERO, Fr::ZERO]);
    }
}

#[test]
fn b41_one_value_is_its_own_transform() {
    for device in devices() {
        let domain = Domain::arkworks(0).expect("one value");
        let ntt = NttDomain::new(&device, domain).expect("kernels load");
        let value = [-Fr::from(3)];
        for shift in [None, Some(Shift::generator())] {
            for (direction, input) in DIRECTIONS.into_iter().flat_map(|d| ORDERS.map(|o| (d, o))) {
                let got = transformed(&ntt, direction, input, shift, &value);
                assert_equal(&device, "one value", &got, &value);
            }
        }
        assert!(matches!(Shift::new(&domain, Fr::ONE), Err(NttError::ShiftInDomain { log_n: 0 })));
    }
}

#[test]
fn b41_coset_inverse_undoes_coset_forward() {
    let seed = test_seed();
    for device in devices() {
        for log_n in [0, 1, 5, 11] {
            let domain = Domain::arkworks(log_n).expect("small");
            let ntt = NttDomain::new(&device, domain).expect("kernels load");
            let values = random(seed, "values", 1 << log_n);
            for power in 1..=3u64 {
                let shift = Shift::new(&domain, Fr::GENERATOR.pow([power])).expect("outside of the domain");
                let forward = ntt.coset_forward(shift, ntt.upload::<Natural>(&values).expect("whole"));
                let back = ntt.coset_inverse(shift, forward.expect("runs")).expect("runs");
                let what = format!("coset 7^{power} of 2^{log_n}");
                assert_equal(&device, &what, &back.to_vec().expect("readable"), &values);
            }
        }
    }
}

/// A vector of another length than the domain's is refused, or padded by a call that says so.
#[test]
fn b42_input_of_another_length() {
    for device in devices() {
        let ntt = NttDomain::new(&device, Domain::arkworks(4).expect("small")).expect("kernels load");
        let error = ntt.upload::<Natural>(&[Fr::ONE; 8]).expect_err("half of the domain");
        assert!(matches!(error, NttError::LengthMismatch { len: 8, domain_len: 16 }), "{error}");
        let other = NttDomain::new(&device, Domain::arkworks(3).expect("small")).expect("kernels load");
        let poly = other.upload::<Natural>(&[Fr::ONE; 16]).expect("two jobs of 8");
        let error = ntt.forward(poly).expect_err("polynomials of another domain");
        assert!(matches!(error, NttError::LengthMismatch { len: 16, domain_len: 16 }), "{error}");
        let error = ntt.upload_padded(&[Fr::ONE; 17]).expect_err("more than the domain holds");
        assert!(matches!(error, NttError::LengthMismatch { len: 17, domain_len: 16 }), "{error}");
        assert!(matches!(ntt.upload_padded(&[]), Err(NttError::Empty)));

        let four = NttDomain::new(&device, Domain::arkworks(2).expect("small")).expect("kernels load");
        let forward = |values: [u64; 4]| {
            let values = values.map(Fr::from);
            transformed(&four, Direction::Forward, OrderKind::Natural, None, &values)
        };
        assert_equal(&device, "1 0 0 0", &forward([1, 0, 0, 0]), &[1, 1, 1, 1].map(Fr::from));
        assert_equal(&device, "1 1 1 1", &forward([1, 1, 1, 1]), &[4, 0, 0, 0].map(Fr::from));
    }
}

#[test]
fn b44_padded_input_gives_the_whole_domain() {
    for device in devices() {
        let domain = Domain::arkworks(4).expect("small");
        let ntt = NttDomain::new(&device, domain).expect("kernels load");
        let coeffs = [3, 1, 4].map(Fr::from);
        let poly = ntt.forward(ntt.upload_padded(&coeffs).expect("fits")).expect("runs");
        let got = bit_reversed(&poly.to_vec().expect("readable"));
        let point = |k: u64| domain.omega().pow([k]);
        let value = |k| coeffs[0] + coeffs[1] * point(k) + coeffs[2] * point(k).square();
        assert_equal(&device, "3 coefficients on 16 points", &got, &(0..16).map(value).collect::<Vec<_>>());
    }
}

/// Where 32 bits end: offsets are 64 bits wide, and what no launch can cover is refused.
#[test]
fn b45_offsets_beyond_32_bits() {
    let plan = NttPlan::new(23, 600, &NttConfig::default()).expect("a plan");
    assert_eq!(plan.items(), 600 << 23);
    assert!(plan.items() > 1 << 32);
    assert_eq!(plan.byte_offset(599, (1 << 23) - 1), 600 * (1u64 << 23) * 32 - 32);
    assert_eq!(plan.byte_offset(512, 0), 1u64 << 37);
    for pass in &plan.passes {
        assert_eq!(plan.tiles(pass) << pass.log_tile, plan.items(), "{pass:?}");
        assert!(plan.tiles(pass) <= i32::MAX as u64);
    }
    for job_count in [1 << 30, 1 << 59, u64::MAX] {
        let error = NttPlan::new(23, job_count, &NttConfig::default()).expect_err("no launch covers it");
        assert!(matches!(error, NttError::TooManyJobs { log_n: 23, .. }), "{error}");
    }
    assert!(matches!(NttPlan::new(23, 0, &NttConfig::default()), Err(NttError::Empty)));
}

/// A value that is not below the modulus reaches no kernel, and none comes out of one (`assert_equal`).
#[test]
fn b46_values_not_below_the_modulus() {
    let mut above = Fr::MODULUS;
    above.0[0] += 1;
    for device in devices() {
        let ntt = NttDomain::new(&device, Domain::arkworks(3).expect("small")).expect("kernels load");
        for raw in [Fr::MODULUS, above, BigInt([u64::MAX; 4])] {
            let mut values = [Fr::ONE; 8];
            values[5] = Fr::new_unchecked(raw);
            let error = ntt.upload::<Natural>(&values).expect_err("not a value");
            assert!(matches!(error, NttError::NotReduced { index: 5 }), "{error}");
        }
        let mut largest = Fr::MODULUS;
        largest.0[0] -= 1;
        let values = vec![Fr::new_unchecked(largest); 8];
        let got = transformed(&ntt, Direction::Forward, OrderKind::BitReversed, None, &values);
        assert_equal(&device, "r - 1", &got, &values_by_horner(&values, ntt.domain().omega(), Fr::ONE));
    }
}

#[test]
fn b49_shifts_that_lie_in_the_domain() {
    for log_n in 0..=LOG_N_MAX {
        for domain in domains(log_n) {
            let shift = Shift::new(&domain, Fr::GENERATOR).expect("7 lies in no domain");
            assert_eq!(shift, Shift::generator());
            for inside in [Fr::ONE, domain.omega(), domain.omega().pow([5u64])] {
                let error = Shift::new(&domain, inside).expect_err("inside");
                assert!(
                    matches!(error, NttError::ShiftInDomain { log_n: found } if found == log_n),
                    "{error}"
                );
            }
            let vanishing = Fr::GENERATOR.pow([1u64 << log_n]) - Fr::ONE;
            assert_ne!(vanishing, Fr::ZERO);
            for k in [0u64, 1, 3, (1 << log_n) - 1] {
                let point = Fr::GENERATOR * domain.omega().pow([k]);
                assert_eq!(domain.vanishing(point), vanishing, "2^{log_n}, element {k}");
            }
        }
    }
    let small = Domain::arkworks(3).expect("small");
    assert!(matches!(Shift::new(&small, Fr::ZERO), Err(NttError::ShiftIsZero)));
    // A shift is checked against the domain that it meets, not only against the one that it was made for.
    let omega_16 = Domain::arkworks(4).expect("small").omega();
    let shift = Shift::new(&small, omega_16).expect("outside of the smaller domain");
    for device in devices() {
        let ntt = NttDomain::new(&device, Domain::arkworks(4).expect("small")).expect("kernels load");
        let error = ntt
            .coset_forward(shift, ntt.upload::<Natural>(&[Fr::ONE; 16]).expect("whole"))
            .expect_err("inside of the larger domain");
        assert!(matches!(error, NttError::ShiftInDomain { log_n: 4 }), "{error}");
    }
}

#[test]
fn b50_the_largest_domain() {
    for domain in domains(32) {
        assert_eq!(domain.len(), 1 << 32);
        assert_eq!(domain.omega().pow([1u64 << 31]), -Fr::ONE);
    }
    let plan = NttPlan::new(32, 1, &NttConfig::default()).expect("a plan, if not the memory");
    assert_eq!(plan.data_bytes(), 1 << 37);
    for log_n in [33, 64, u32::MAX] {
        for error in [
            Domain::arkworks(log_n).expect_err("too large"),
            Domain::snarkjs(log_n).expect_err("too large"),
            Domain::with_root(log_n, Fr::ONE).expect_err("too large"),
            NttPlan::new(log_n, 1, &NttConfig::default()).expect_err("too large"),
        ] {
            assert!(matches!(error, NttError::DomainTooLarge { log_n: found } if found == log_n), "{error}");
        }
    }
}
