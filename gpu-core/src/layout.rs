//! Types that host and device share byte for byte.
//!
//! arkworks 0.6 keeps a point as its Montgomery coordinates and nothing else, identity all zero; the device uses that
//! layout, so a slice of arkworks points goes up as it is. The assertions below are what that rests on.

use ark_bls12_381::{Fq, Fq2, Fr, G1Affine, G2Affine, g1, g2};
use ark_ec::short_weierstrass::Affine;
use ark_ff::BigInt;
use std::mem::{offset_of, size_of};

/// Plain data: every byte pattern that a device writes into it is a value, and it has no padding.
///
/// # Safety
/// The type is `Copy`, has no padding bytes, no pointers and no invalid bit patterns.
pub unsafe trait Pod: Copy + Send + Sync + 'static {}

// SAFETY: integers.
unsafe impl Pod for u8 {}
// SAFETY: integers.
unsafe impl Pod for u32 {}
// SAFETY: integers.
unsafe impl Pod for u64 {}
// SAFETY: four u64 limbs (size asserted below); a value >= r is wrong but valid memory.
unsafe impl Pod for Fr {}
// SAFETY: six u64 limbs, as above.
unsafe impl Pod for Fq {}
// SAFETY: two Fq.
unsafe impl Pod for Fq2 {}
// SAFETY: an array of u64 limbs.
unsafe impl<const N: usize> Pod for BigInt<N> {}
// SAFETY: two coordinates and nothing else (asserted below).
unsafe impl Pod for Affine<g1::Config> {}
// SAFETY: two coordinates and nothing else (asserted below).
unsafe impl Pod for Affine<g2::Config> {}
// SAFETY: four coordinates of a Pod type, `repr(C)`, no padding since all have the same alignment.
unsafe impl<F: Pod> Pod for Xyzz<F> {}

/// A point in XYZZ coordinates, Montgomery form: x = X/ZZ, y = Y/ZZZ, ZZ^3 = ZZZ^2; the identity has ZZ = 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Xyzz<F> {
    /// X.
    pub x: F,
    /// Y.
    pub y: F,
    /// ZZ.
    pub zz: F,
    /// ZZZ.
    pub zzz: F,
}

const _: () = {
    assert!(size_of::<Fr>() == 32 && size_of::<Fq>() == 48 && size_of::<Fq2>() == 96);
    assert!(offset_of!(Fq2, c0) == 0 && offset_of!(Fq2, c1) == 48);
    assert!(size_of::<G1Affine>() == 96 && offset_of!(G1Affine, x) == 0 && offset_of!(G1Affine, y) == 48);
    assert!(size_of::<G2Affine>() == 192 && offset_of!(G2Affine, x) == 0 && offset_of!(G2Affine, y) == 96);
    assert!(size_of::<Xyzz<Fq>>() == 192 && offset_of!(Xyzz<Fq>, zzz) == 144);
    assert!(size_of::<Xyzz<Fq2>>() == 384 && offset_of!(Xyzz<Fq2>, zzz) == 288);
    assert!(size_of::<BigInt<4>>() == 32);
};

/// A slice as bytes.
pub fn bytes_of<T: Pod>(items: &[T]) -> &[u8] {
    // SAFETY: T is Pod: no padding, so every byte is initialised; the length is the slice's own size.
    unsafe { std::slice::from_raw_parts(items.as_ptr().cast(), size_of_val(items)) }
}

/// A mutable slice as bytes.
pub fn bytes_of_mut<T: Pod>(items: &mut [T]) -> &mut [u8] {
    // SAFETY: T is Pod: any bytes written leave valid values; the borrow is exclusive.
    unsafe { std::slice::from_raw_parts_mut(items.as_mut_ptr().cast(), size_of_val(items)) }
}

/// Bytes as a slice of plain values.
///
/// # Panics
/// If the bytes are not aligned for `T` or not a whole number of values.
pub fn slice_of<T: Pod>(bytes: &[u8]) -> &[T] {
    // SAFETY: T is Pod, so any bytes are values; `align_to` gives only aligned whole values.
    let (head, items, tail) = unsafe { bytes.align_to::<T>() };
    assert!(head.is_empty() && tail.is_empty(), "{} bytes are not aligned whole values", bytes.len());
    items
}

/// Mutable bytes as a slice of plain values.
///
/// # Panics
/// As [`slice_of`].
pub fn slice_of_mut<T: Pod>(bytes: &mut [u8]) -> &mut [T] {
    // SAFETY: as in `slice_of`; the borrow is exclusive and T accepts any bytes.
    let (head, items, tail) = unsafe { bytes.align_to_mut::<T>() };
    assert!(head.is_empty() && tail.is_empty(), "not aligned whole values");
    items
}
