//! Sizes of the benchmarks: what `benches/cases.toml` says.

use super::ways::Way;
use crate::circuits::CircuitName;
use crate::oracle::ScalarFlavour;
use groth16::Upload;
use msm_gpu::SyncPattern;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt::Display;
use std::str::FromStr;

/// The file that comes with the program.
const BUILT_IN: &str = include_str!("../../../benches/cases.toml");

/// Which of the two values of each axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// What a GPU is measured with.
    Full,
    /// Sizes that end in two minutes on two cores.
    Smoke,
}

/// The two values of an axis.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis<T> {
    full: T,
    smoke: T,
}

impl<T> Axis<T> {
    /// The value for a scale.
    pub fn at(&self, scale: Scale) -> &T {
        match scale {
            Scale::Full => &self.full,
            Scale::Smoke => &self.smoke,
        }
    }
}

/// A value that is written as a program's user writes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Word<T>(pub T);

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Word).map_err(serde::de::Error::custom)
    }
}

/// Some values that are written as words.
pub type Words<T> = Vec<Word<T>>;

/// How criterion samples.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// Samples of each benchmark, at least 10.
    pub samples: Axis<usize>,
    /// Milliseconds of warming up.
    pub warm_up_ms: Axis<u64>,
    /// Milliseconds in which the samples should be taken.
    pub measurement_ms: Axis<u64>,
}

/// Products in batches.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SyncCases {
    /// Points in G1, as powers of two.
    pub log_n_g1: Axis<Vec<u32>>,
    /// Points in G2, as powers of two.
    pub log_n_g2: Axis<Vec<u32>>,
    /// Batches.
    pub batches: Axis<Vec<u32>>,
    /// Strategies, with results in page-locked memory.
    pub strategies: Axis<Words<SyncPattern>>,
    /// Strategies that are measured with results in pageable memory too.
    pub pageable_strategies: Axis<Words<SyncPattern>>,
    /// Scalars.
    pub scalars: Axis<Words<ScalarFlavour>>,
}

/// Products in one batch.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MsmCases {
    /// Points in G1, as powers of two.
    pub log_n_g1: Axis<Vec<u32>>,
    /// Points in G2, as powers of two.
    pub log_n_g2: Axis<Vec<u32>>,
    /// Scalars.
    pub scalars: Axis<Words<ScalarFlavour>>,
    /// Ways beside that of scalars from the host, with the first of the scalars.
    pub ways: Axis<Words<Way>>,
    /// Points in G1 of those ways, as powers of two.
    pub ways_log_n_g1: Axis<Vec<u32>>,
    /// Points in G2 of those ways, as powers of two.
    pub ways_log_n_g2: Axis<Vec<u32>>,
}

/// Transforms.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NttCases {
    /// Values, as powers of two.
    pub log_n: Axis<Vec<u32>>,
}

/// Chains of products.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldCases {
    /// Chains side by side, as a power of two.
    pub log_lanes: Axis<u32>,
    /// Steps of a chain.
    pub steps: Axis<u32>,
}

/// Many small launches.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchCases {
    /// Launches.
    pub counts: Axis<Vec<u32>>,
}

/// Ways up to the device.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UploadCases {
    /// Circuits whose assignments go up.
    pub circuits: Axis<Words<CircuitName>>,
    /// Ways.
    pub uploads: Axis<Words<Upload>>,
}

/// Proofs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProofCases {
    /// Circuits.
    pub circuits: Axis<Words<CircuitName>>,
}

/// Work of the host.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostCases {
    /// Points, as powers of two.
    pub log_n: Axis<Vec<u32>>,
    /// Batches.
    pub batches: Axis<Vec<u32>>,
}

/// Sizes up to which those on the processor take their turn, as powers of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuLimits {
    /// Points in G1.
    pub msm_g1: u32,
    /// Points in G2.
    pub msm_g2: u32,
    /// Values of transforms.
    pub ntt: u32,
}

/// Comparisons with others.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerCases {
    /// Rounds, in each of which everybody solves the problem once.
    pub rounds: Axis<u32>,
    /// Points in G1, as powers of two.
    pub msm_g1: Axis<Vec<u32>>,
    /// Points in G2, as powers of two.
    pub msm_g2: Axis<Vec<u32>>,
    /// Values of transforms, as powers of two.
    pub ntt: Axis<Vec<u32>>,
    /// Where those on the processor stop.
    pub cpu_log_n_max: Axis<CpuLimits>,
    /// Circuits.
    pub proofs: Axis<Words<CircuitName>>,
}

/// All sizes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cases {
    /// How criterion samples.
    pub sampling: Sampling,
    /// Strategies.
    pub sync: SyncCases,
    /// Products.
    pub msm: MsmCases,
    /// Transforms.
    pub ntt: NttCases,
    /// The multiplier.
    pub field: FieldCases,
    /// Many small launches.
    pub launch: LaunchCases,
    /// Ways up to the device.
    pub upload: UploadCases,
    /// Proofs.
    pub proof: ProofCases,
    /// Work of the host.
    pub host: HostCases,
    /// Comparisons.
    pub peers: PeerCases,
}

impl Cases {
    /// Those that come with the program.
    pub fn built_in() -> Self {
        from_toml(BUILT_IN).expect("a test reads the built-in cases")
    }

    /// From the text of a file.
    ///
    /// # Errors
    /// Where the text is not that of such a file, and why.
    pub fn from_toml(text: &str) -> Result<Self, String> {
        let cases: Self = from_toml(text)?;
        let few = [Scale::Full, Scale::Smoke].into_iter().any(|scale| *cases.sampling.samples.at(scale) < 10);
        if few { Err("sampling.samples: criterion takes at least 10".into()) } else { Ok(cases) }
    }
}

fn from_toml<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_file_is_read_and_smoke_is_smaller_than_full() {
        let cases = Cases::from_toml(BUILT_IN).expect("the built-in cases");
        assert_eq!(cases, Cases::built_in());
        let axes = [
            &cases.sync.log_n_g1,
            &cases.sync.log_n_g2,
            &cases.msm.log_n_g1,
            &cases.msm.log_n_g2,
            &cases.msm.ways_log_n_g1,
            &cases.msm.ways_log_n_g2,
            &cases.ntt.log_n,
            &cases.host.log_n,
            &cases.peers.msm_g1,
            &cases.peers.msm_g2,
            &cases.peers.ntt,
        ];
        for axis in axes {
            let largest = |scale| axis.at(scale).iter().max().copied();
            assert!(largest(Scale::Smoke) < largest(Scale::Full), "{axis:?}");
            assert!(largest(Scale::Smoke).is_some(), "a smoke run leaves nothing out");
        }
    }

    #[test]
    fn what_is_no_such_file_is_refused_with_its_place() {
        let unknown = BUILT_IN.replacen("[host]", "[guest]", 1);
        assert!(Cases::from_toml(&unknown).expect_err("no such table").contains("guest"));
        let strategy = BUILT_IN.replacen("\"deferred:2\"", "\"soft\"", 1);
        assert!(Cases::from_toml(&strategy).expect_err("no such strategy").contains("`soft` is not"));
        let few = BUILT_IN.replacen("full = 15", "full = 3", 1);
        assert!(Cases::from_toml(&few).expect_err("too few").contains("at least 10"));
    }
}
