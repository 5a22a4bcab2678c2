//! sppark, somebody else's products and transforms on a CUDA device, for measurements beside ours. Results are for the
//! caller to compare: what a peer computes is not the oracle.
//!
//! Points and values go up once and stay on the device; the scalars of a product come from ordinary memory of the host, each
//! time. Points and sums are arkworks' own outside, and words inside: coordinates in Montgomery form, the lowest limb first,
//! identity all zero ([`Group`]). Scalars are words outside too, so that they are made before a clock starts.
//!
//! sppark's sources are compiled with nvcc by the feature `sppark`; [`BUILD`] says whether they were. CUDA's runtime is
//! linked in and looks for the driver when it is first needed, so a program with sppark starts on a machine without one.

#[cfg_attr(has_sppark, path = "device.rs")]
#[cfg_attr(not(has_sppark), path = "absent.rs")]
mod device;
mod group;

pub use device::{Product, Values};
pub use group::{Group, fr_from_words, fr_words};

/// How much of sppark is in this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// None: the feature is off.
    Off,
    /// None: the feature is on, and the build found no nvcc.
    WithoutNvcc,
    /// All of it.
    Whole,
}

/// How this program was built.
pub const BUILD: Build = match (cfg!(feature = "sppark"), cfg!(has_sppark)) {
    (false, _) => Build::Off,
    (true, false) => Build::WithoutNvcc,
    (true, true) => Build::Whole,
};

/// Why sppark has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// It is not in this program.
    #[error("built without sppark")]
    NotBuilt,
    /// It takes neither no points nor another number of scalars than there are points.
    #[error("sppark: {points} points and {scalars} scalars")]
    Length {
        /// Points.
        points: usize,
        /// Scalars.
        scalars: usize,
    },
    /// It transforms powers of two from 2 to 2^28 values.
    #[error("sppark: a transform of {values} values")]
    Domain {
        /// Values.
        values: usize,
    },
    /// The device, or the driver, or their absence.
    #[error("sppark: {op}: {cause}")]
    Device {
        /// What was to be done.
        op: &'static str,
        /// What sppark said.
        cause: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use ark_bls12_381::{Fr, G1Affine, G1Projective, G2Affine, G2Projective};
    use ark_ec::AffineRepr;

    #[test]
    fn without_a_device_there_is_an_error_and_no_result() {
        // A number that no machine has.
        const NOWHERE: u32 = 4096;
        let (g1, g2) = (G1Affine::generator(), G2Affine::generator());
        let values = vec![Fr::from(5); 8];
        let errors = [
            Product::<G1Projective>::new(NOWHERE, &[g1; 64]).err(),
            Product::<G2Projective>::new(NOWHERE, &[g2; 64]).err(),
            Values::new(NOWHERE, &values).err(),
        ];
        for error in errors {
            let text = error.expect("there is no such device").to_string();
            match BUILD {
                Build::Whole => assert!(text.contains("sppark: ") && text.contains("device"), "{text}"),
                Build::Off | Build::WithoutNvcc => assert_eq!(text, "built without sppark"),
            }
        }
    }

    #[test]
    fn the_build_says_what_it_has() {
        assert_eq!(BUILD == Build::Off, !cfg!(feature = "sppark"));
        assert_eq!(BUILD == Build::Whole, cfg!(has_sppark));
    }
}
