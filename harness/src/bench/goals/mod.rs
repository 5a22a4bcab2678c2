//! Goals: what the parts of the prover should take, and how far a device is from it.
//!
//! The rows are in `benches/goals.toml`. [`measure`] takes their times.

mod file;
mod measure;

pub use measure::{Measured, Settings, measure};

use super::cases::Scale;
use super::stats::Interval;
use super::ways::{TableCost, Way};
use crate::oracle::ScalarFlavour;
use msm_gpu::GroupKind;
use serde::Serialize;
use std::fmt;

/// What a row's numbers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Milliseconds: less is better.
    Ms,
    /// How many times as long as something else: less is better.
    Times,
    /// 10^9 products a second: more is better.
    GPerS,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Marks {
    /// Of all numbers.
    pub unit: Unit,
    /// The best peer that was measured, and its name.
    pub best_peer: Option<(f64, String)>,
    /// What is asked for at least.
    pub at_least: f64,
    /// What is aimed at; `None` where at least is all there is.
    pub aim: Option<f64>,
}

/// How a measured number stands.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// At the aim, or ahead of it.
    AheadOfAim,
    /// What is asked for at least, and no more.
    AtLeastMet,
    /// So many percent short of what is asked for at least.
    ShortByPercent(f64),
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AheadOfAim => f.write_str("ahead of aim"),
            Self::AtLeastMet => f.write_str("at least met"),
            Self::ShortByPercent(percent) => write!(f, "short by {percent:.1} %"),
        }
    }
}

impl Marks {
    /// How a number stands.
    pub fn standing(&self, measured: f64) -> Standing {
        let is_met = |mark: f64| match self.unit {
            Unit::GPerS => measured >= mark,
            Unit::Ms | Unit::Times => measured <= mark,
        };
        if self.aim.is_some_and(is_met) {
            return Standing::AheadOfAim;
        }
        if is_met(self.at_least) {
            return Standing::AtLeastMet;
        }
        let short = match self.unit {
            Unit::GPerS => 1.0 - measured / self.at_least,
            Unit::Ms | Unit::Times => measured / self.at_least - 1.0,
        };
        Standing::ShortByPercent(100.0 * short)
    }
}

/// A product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Product {
    /// Group.
    pub group: GroupKind,
    /// Points, as a power of two.
    pub log_n: u32,
    /// Scalars.
    pub scalars: ScalarFlavour,
    /// Where everything is.
    pub way: Way,
    /// Batches.
    pub batches: u32,
}

/// A field whose multiplications are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldName {
    /// Of coordinates, 381 bits.
    Fp,
    /// Of scalars, 255 bits.
    Fr,
}

/// What a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// A product.
    Msm(Product),
    /// A product, and the one that it is compared with.
    MsmOver(Product, Product),
    /// A transform of so many values, as a power of two.
    Ntt(u32),
    /// Multiplications.
    Field(FieldName),
}

/// One row.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What is done.
    pub work: Work,
    /// What it should take.
    pub marks: Marks,
}

impl Product {
    fn id(&self) -> String {
        let Self { group, log_n, scalars, way, .. } = self;
        format!("{}/2^{log_n}/{scalars}/{way}", group.word())
    }
}

impl Row {
    /// What distinguishes the row from all others.
    pub fn id(&self) -> String {
        match &self.work {
            Work::Msm(product) => format!("msm/{}", product.id()),
            Work::MsmOver(product, over) => {
                format!("msm-over/{}/{}/{}", product.id(), over.scalars, over.way)
            }
            Work::Ntt(log_n) => format!("ntt/2^{log_n}"),
            Work::Field(FieldName::Fp) => "field/fp".into(),
            Work::Field(FieldName::Fr) => "field/fr".into(),
        }
    }

    /// The row as a reader takes it in.
    pub fn title(&self) -> String {
        let named = |product: &Product| {
            let mut text = format!("{} 2^{}", product.group.word().to_uppercase(), product.log_n);
            if product.scalars != ScalarFlavour::Uniform {
                text += &format!(", {}", product.scalars);
            }
            text += &match product.way {
                Way::Table => String::new(),
                Way::Resident => ", no table".into(),
                Way::Host => ", scalars from the host".into(),
                Way::Streamed { batches } => format!(", bases streamed in {batches} batches"),
            };
            text
        };
        match &self.work {
            Work::Msm(product) => named(product),
            Work::MsmOver(product, over) if product.way == over.way => {
                format!("{}, over {}", named(product), over.scalars)
            }
            Work::MsmOver(product, _) => format!("{}, over resident", named(product)),
            Work::Ntt(log_n) => format!("NTT 2^{log_n}, bit-reversed out"),
            Work::Field(FieldName::Fp) => "Fp multiplication".into(),
            Work::Field(FieldName::Fr) => "Fr multiplication".into(),
        }
    }

    /// The row at a scale. Smoke sizes have half of the bits less three, so that they stay in order and apart from each
    /// other: 2^26 becomes 2^10.
    #[must_use]
    pub fn at(self, scale: Scale) -> Self {
        let shrunk = |log_n: u32| (log_n / 2).saturating_sub(3);
        let small = |product: Product| Product { log_n: shrunk(product.log_n), ..product };
        let work = match (scale, self.work) {
            (Scale::Full, work) => work,
            (Scale::Smoke, Work::Msm(product)) => Work::Msm(small(product)),
            (Scale::Smoke, Work::MsmOver(product, over)) => Work::MsmOver(small(product), small(over)),
            (Scale::Smoke, Work::Ntt(log_n)) => Work::Ntt(shrunk(log_n)),
            (Scale::Smoke, work @ Work::Field(_)) => work,
        };
        Self { work, ..self }
    }
}

/// All rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Goals {
    /// In the order of the file.
    pub rows: Vec<Row>,
}

/// What came of a row.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// The row's name.
    pub id: String,
    /// As a reader takes it in.
    pub title: String,
    /// What it should take.
    pub marks: Marks,
    /// What it took; `None` where it was skipped.
    pub measured: Option<Measured>,
    /// Why it was skipped.
    pub skipped: Option<String>,
    /// How it stands; `None` where it was skipped, and on sizes and devices that the marks are not for.
    pub standing: Option<Standing>,
}

impl Outcome {
    /// Whether less was reached than is asked for.
    pub fn is_short(&self) -> bool {
        matches!(self.standing, Some(Standing::ShortByPercent(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn marks(unit: Unit, at_least: f64, aim: Option<f64>) -> Marks {
        Marks { unit, best_peer: None, at_least, aim }
    }

    #[test]
    fn less_time_and_more_products_are_better() {
        let ms = marks(Unit::Ms, 7.0, Some(4.5));
        let standings = [4.5, 4.6, 7.0, 7.7].map(|measured| ms.standing(measured).to_string());
        assert_eq!(standings, ["ahead of aim", "at least met", "at least met", "short by 10.0 %"]);
        let rate = marks(Unit::GPerS, 60.0, Some(70.0));
        let standings = [70.0, 60.0, 54.0].map(|measured| rate.standing(measured).to_string());
        assert_eq!(standings, ["ahead of aim", "at least met", "short by 10.0 %"]);
        assert_eq!(marks(Unit::Times, 1.0, None).standing(0.1), Standing::AtLeastMet, "there is no aim");
    }

    #[test]
    fn every_row_has_a_name_of_its_own_at_both_scales() {
        for scale in [Scale::Full, Scale::Smoke] {
            let rows = Goals::built_in().rows.into_iter().map(|row| row.at(scale));
            let (ids, titles): (Vec<_>, Vec<_>) = rows.map(|row| (row.id(), row.title())).unzip();
            for names in [ids, titles] {
                let distinct: BTreeSet<&String> = names.iter().collect();
                assert_eq!(distinct.len(), names.len(), "{scale:?}: {names:?}");
            }
        }
    }
}
