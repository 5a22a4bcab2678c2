//! sppark itself: products and values on a device, through the functions of `cuda/`. The only file with unsafe code.

use crate::{Group, PeerError, fr_from_words, fr_words};
use ark_bls12_381::{Fr, g1, g2};
use ark_ec::short_weierstrass::Projective;
use sppark::Error;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};

// sppark's host code calls blst, which is linked if somebody names it.
use blst as _;

/// Values of the largest transform, as a power of two.
const LOG_N_MAX: u32 = 28;

/// An object of the other side's, behind a pointer.
#[repr(C)]
#[derive(Debug)]
pub struct Opaque {
    _private: [u8; 0],
}

// Points, sums, scalars and values are arrays of the words that [`Group`] and [`fr_words`] speak of. Each function that can
// fail answers with an error that owns its message.
unsafe extern "C" {
    fn sppark_peer_g1_new(out: *mut *mut Opaque, device: c_int, points: *const u64, count: usize) -> Error;
    fn sppark_peer_g1_run(
        product: *mut Opaque,
        device: c_int,
        sum: *mut u64,
        scalars: *const u64,
        count: usize,
    ) -> Error;
    fn sppark_peer_g1_drop(product: *mut Opaque, device: c_int);

    fn sppark_peer_g2_new(out: *mut *mut Opaque, device: c_int, points: *const u64, count: usize) -> Error;
    fn sppark_peer_g2_run(
        product: *mut Opaque,
        device: c_int,
        sum: *mut u64,
        scalars: *const u64,
        count: usize,
    ) -> Error;
    fn sppark_peer_g2_drop(product: *mut Opaque, device: c_int);

    fn sppark_peer_ntt_new(out: *mut *mut Opaque, device: c_int, values: *const u64, log_n: u32) -> Error;
    fn sppark_peer_ntt_run(values: *mut Opaque) -> Error;
    fn sppark_peer_ntt_read(values: *const Opaque, to: *mut u64) -> Error;
    fn sppark_peer_ntt_drop(values: *mut Opaque);
}

/// The functions of a group.
#[derive(Debug)]
pub struct Calls {
    new: unsafe extern "C" fn(*mut *mut Opaque, c_int, *const u64, usize) -> Error,
    run: unsafe extern "C" fn(*mut Opaque, c_int, *mut u64, *const u64, usize) -> Error,
    drop: unsafe extern "C" fn(*mut Opaque, c_int),
}

/// A group whose functions are in this program.
pub trait Compiled {
    /// Its functions.
    const CALLS: Calls;
}

impl Compiled for Projective<g1::Config> {
    const CALLS: Calls =
        Calls { new: sppark_peer_g1_new, run: sppark_peer_g1_run, drop: sppark_peer_g1_drop };
}

impl Compiled for Projective<g2::Config> {
    const CALLS: Calls =
        Calls { new: sppark_peer_g2_new, run: sppark_peer_g2_run, drop: sppark_peer_g2_drop };
}

/// What sppark answers.
fn checked(op: &'static str, answer: Error) -> Result<(), PeerError> {
    match answer.code {
        0 => Ok(()),
        _ => Err(PeerError::Device { op, cause: answer.to_string() }),
    }
}

/// What sppark has made.
fn made(op: &'static str, answer: Error, object: *mut Opaque) -> Result<NonNull<Opaque>, PeerError> {
    checked(op, answer)?;
    NonNull::new(object).ok_or_else(|| PeerError::Device { op, cause: "nothing was made".into() })
}

/// A device as CUDA's runtime numbers it; what does not fit is no device.
fn ordinal(device: u32) -> c_int {
    c_int::try_from(device).unwrap_or(c_int::MAX)
}

/// Points on a device.
#[derive(Debug)]
pub struct Product<G: Group> {
    object: NonNull<Opaque>,
    device: u32,
    points: usize,
    group: PhantomData<G>,
}

impl<G: Group> Product<G> {
    /// Puts points on a device and takes the memory of a product. `device` is CUDA's number of it.
    ///
    /// # Errors
    /// [`PeerError::Length`] for no points, [`PeerError::Device`] without a device, or without the memory on it.
    pub fn new(device: u32, points: &[G::Affine]) -> Result<Self, PeerError> {
        if points.is_empty() {
            return Err(PeerError::Length { points: 0, scalars: 0 });
        }
        let words: Vec<G::PointWords> = points.iter().map(G::point_words).collect();
        let mut object = null_mut();
        // SAFETY: `words` are as many points as are said, in the layout that the group's functions read (the tests of
        // `group` compare it with blst's), and are copied before the call ends; `object` is written only if it succeeds.
        let answer =
            unsafe { (G::CALLS.new)(&raw mut object, ordinal(device), words.as_ptr().cast(), words.len()) };
        let object = made("points to the device", answer, object)?;
        Ok(Self { object, device, points: points.len(), group: PhantomData })
    }

    /// The sum of scalars times points. Scalars are words ([`fr_words`]) in ordinary memory. Comes back with the sum.
    ///
    /// # Errors
    /// [`PeerError::Length`] for another number of scalars than there are points, [`PeerError::Device`].
    pub fn run(&mut self, scalars: &[[u64; 4]]) -> Result<G, PeerError> {
        if scalars.len() != self.points {
            return Err(PeerError::Length { points: self.points, scalars: scalars.len() });
        }
        let mut sum = G::IDENTITY;
        // SAFETY: `object` was made by the same group's function and is used by nobody else, as it is borrowed mutably;
        // there are as many scalars as are said; a sum has the size of `SumWords`; the call waits for what it has queued.
        let answer = unsafe {
            (G::CALLS.run)(
                self.object.as_ptr(),
                ordinal(self.device),
                (&raw mut sum).cast(),
                scalars.as_ptr().cast(),
                scalars.len(),
            )
        };
        checked("product", answer)?;
        Ok(G::sum_from_words(&sum))
    }
}

impl<G: Group> Drop for Product<G> {
    fn drop(&mut self) {
        // SAFETY: made by the same group's function, and dropped once.
        unsafe { (G::CALLS.drop)(self.object.as_ptr(), ordinal(self.device)) }
    }
}

/// Values on a device.
#[derive(Debug)]
pub struct Values {
    object: NonNull<Opaque>,
    count: usize,
}

impl Values {
    /// Puts values on a device. `device` is CUDA's number of it.
    ///
    /// # Errors
    /// [`PeerError::Domain`] if it is no power of two from 2 to 2^28, [`PeerError::Device`] without a device, or without
    /// the memory on it.
    pub fn new(device: u32, values: &[Fr]) -> Result<Self, PeerError> {
        let count = values.len();
        if count < 2 || !count.is_power_of_two() || count.ilog2() > LOG_N_MAX {
            return Err(PeerError::Domain { values: count });
        }
        let words: Vec<[u64; 4]> = values.iter().map(fr_words).collect();
        let mut object = null_mut();
        // SAFETY: `words` are 2^log_n values, and are copied before the call ends; `object` is written only if it succeeds.
        let answer = unsafe {
            sppark_peer_ntt_new(&raw mut object, ordinal(device), words.as_ptr().cast(), count.ilog2())
        };
        Ok(Self { object: made("values to the device", answer, object)?, count })
    }

    /// Transforms them in place, over arkworks' domain of their number: natural order in, bit-reversed order out. Comes back
    /// when that is done.
    ///
    /// # Errors
    /// [`PeerError::Device`].
    pub fn transform(&mut self) -> Result<(), PeerError> {
        // SAFETY: `object` was made by `sppark_peer_ntt_new` and is used by nobody else, as it is borrowed mutably.
        checked("transform", unsafe { sppark_peer_ntt_run(self.object.as_ptr()) })
    }

    /// The values.
    ///
    /// # Errors
    /// [`PeerError::Device`].
    pub fn to_vec(&self) -> Result<Vec<Fr>, PeerError> {
        let mut words = vec![[0_u64; 4]; self.count];
        // SAFETY: `object` was made by `sppark_peer_ntt_new`; there is room for all of its values, and the call waits for
        // them.
        let answer = unsafe { sppark_peer_ntt_read(self.object.as_ptr(), words.as_mut_ptr().cast()) };
        checked("values from the device", answer)?;
        Ok(words.into_iter().map(fr_from_words).collect())
    }
}

impl Drop for Values {
    fn drop(&mut self) {
        // SAFETY: made by `sppark_peer_ntt_new`, and dropped once.
        unsafe { sppark_peer_ntt_drop(self.object.as_ptr()) }
    }
}
