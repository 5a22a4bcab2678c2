//! The file of goals.

use super::{FieldName, Goals, Marks, Product, Row, Unit, Work};
use crate::bench::cases::Word;
use crate::bench::ways::Way;
use crate::oracle::ScalarFlavour;
use msm_gpu::GroupKind;
use serde::Deserialize;

/// The file that comes with the program.
const BUILT_IN: &str = include_str!("../../../../benches/goals.toml");

/// Points of a product, at most, as a power of two.
const LOG_N_MAX: u32 = 30;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    msm: Vec<MsmRow>,
    msm_over: Vec<MsmOverRow>,
    ntt: Vec<NttRow>,
    field: Vec<FieldRow>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Group {
    G1,
    G2,
}

impl Group {
    fn kind(self) -> GroupKind {
        match self {
            Self::G1 => GroupKind::G1,
            Self::G2 => GroupKind::G2,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MsmRow {
    group: Group,
    log_n: u32,
    scalars: Word<ScalarFlavour>,
    way: Word<Way>,
    peer: String,
    best_peer_ms: f64,
    at_least_ms: f64,
    aim_ms: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MsmOverRow {
    group: Group,
    log_n: u32,
    scalars: Word<ScalarFlavour>,
    way: Word<Way>,
    over: Over,
    at_least: f64,
    aim: Option<f64>,
}

/// In what the other product differs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Over {
    scalars: Option<Word<ScalarFlavour>>,
    way: Option<Word<Way>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NttRow {
    log_n: u32,
    peer: String,
    best_peer_ms: f64,
    at_least_ms: f64,
    aim_ms: f64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Field {
    Fp,
    Fr,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldRow {
    field: Field,
    peer: String,
    best_peer_g_per_s: f64,
    at_least_g_per_s: f64,
    aim_g_per_s: f64,
}

impl From<MsmRow> for Row {
    fn from(row: MsmRow) -> Self {
        let MsmRow { group, log_n, scalars, way, peer, best_peer_ms, at_least_ms, aim_ms } = row;
        let (way, scalars, batches) = (way.0, scalars.0, way.0.batches());
        let marks = Marks {
            unit: Unit::Ms,
            best_peer: Some((best_peer_ms, peer)),
            at_least: at_least_ms,
            aim: Some(aim_ms),
        };
        Self { work: Work::Msm(Product { group: group.kind(), log_n, scalars, way, batches }), marks }
    }
}

impl From<MsmOverRow> for Row {
    fn from(row: MsmOverRow) -> Self {
        let MsmOverRow { group, log_n, scalars, way, over, at_least, aim } = row;
        let batches = way.0.batches();
        let product = Product { group: group.kind(), log_n, scalars: scalars.0, way: way.0, batches };
        let other =
            Product { scalars: over.scalars.unwrap_or(scalars).0, way: over.way.unwrap_or(way).0, ..product };
        let marks = Marks { unit: Unit::Times, best_peer: None, at_least, aim };
        Self { work: Work::MsmOver(product, other), marks }
    }
}

impl From<NttRow> for Row {
    fn from(row: NttRow) -> Self {
        let NttRow { log_n, peer, best_peer_ms, at_least_ms, aim_ms } = row;
        let marks = Marks {
            unit: Unit::Ms,
            best_peer: Some((best_peer_ms, peer)),
            at_least: at_least_ms,
            aim: Some(aim_ms),
        };
        Self { work: Work::Ntt(log_n), marks }
    }
}

impl From<FieldRow> for Row {
    fn from(row: FieldRow) -> Self {
        let FieldRow { field, peer, best_peer_g_per_s, at_least_g_per_s, aim_g_per_s } = row;
        let marks = Marks {
            unit: Unit::GPerS,
            best_peer: Some((best_peer_g_per_s, peer)),
            at_least: at_least_g_per_s,
            aim: Some(aim_g_per_s),
        };
        let name = match field {
            Field::Fp => FieldName::Fp,
            Field::Fr => FieldName::Fr,
        };
        Self { work: Work::Field(name), marks }
    }
}

impl Goals {
    /// Those that come with the program.
    pub fn built_in() -> Self {
        Self::from_toml(BUILT_IN).expect("a test reads the built-in goals")
    }

    /// From the text of a file.
    ///
    /// # Errors
    /// Where the text is not that of such a file, and why.
    pub fn from_toml(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut rows: Vec<Row> = file.msm.into_iter().map(Row::from).collect();
        rows.extend(file.msm_over.into_iter().map(Row::from));
        rows.extend(file.ntt.into_iter().map(Row::from));
        rows.extend(file.field.into_iter().map(Row::from));
        rows.iter().try_for_each(check)?;
        Ok(Self { rows })
    }
}

/// That a row can be measured, and that its marks are in order.
fn check(row: &Row) -> Result<(), String> {
    let (id, Marks { unit, at_least, aim, .. }) = (row.id(), &row.marks);
    let log_n = match row.work {
        Work::Msm(product) | Work::MsmOver(product, _) => product.log_n,
        Work::Ntt(log_n) => log_n,
        Work::Field(_) => 0,
    };
    if log_n > LOG_N_MAX {
        return Err(format!("{id}: sizes go up to 2^{LOG_N_MAX}"));
    }
    if let Work::MsmOver(product, over) = row.work
        && product == over
    {
        return Err(format!("{id}: a product over itself"));
    }
    let is_positive = |mark: f64| mark > 0.0 && mark.is_finite();
    if !is_positive(*at_least) || !aim.is_none_or(is_positive) {
        return Err(format!("{id}: marks are positive numbers"));
    }
    let is_easier = aim.is_some_and(|aim| match unit {
        Unit::GPerS => aim < *at_least,
        Unit::Ms | Unit::Times => aim > *at_least,
    });
    if is_easier { Err(format!("{id}: the aim is easier than what is asked for at least")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_rows_are_read() {
        let goals = Goals::from_toml(BUILT_IN).expect("the built-in goals");
        let row = |id: &str| goals.rows.iter().find(|row| row.id() == id).expect("a row").clone();
        let table = row("msm/g1/2^24/uniform/table");
        assert_eq!(table.marks.best_peer, Some((88.1, "Yrrid 2023, tables".into())));
        assert_eq!((table.marks.at_least, table.marks.aim), (75.0, Some(57.0)));
        let Work::MsmOver(streamed, over) = row("msm-over/g1/2^24/uniform/streamed:8/uniform/host").work
        else {
            panic!("a ratio")
        };
        assert_eq!((streamed.batches, over.batches, over.way), (8, 8, Way::Host));
        assert_eq!(row("field/fr").marks.unit, Unit::GPerS);
    }

    #[test]
    fn what_is_no_such_file_is_refused_with_its_place() {
        for (from, to, said) in [
            ("best_peer_ms = 1.25", "best_peer_us = 1.25", "best_peer_us"),
            ("way = \"table\"", "way = \"chair\"", "`chair` is not"),
            ("log_n = 10,", "log_n = 31,", "sizes go up to"),
            ("aim_ms = 0.5 ", "aim_ms = 1.5 ", "msm/g1/2^10/uniform/table: the aim is easier"),
            ("aim_g_per_s = 30.0", "aim_g_per_s = 20.0", "field/fp: the aim is easier"),
            ("at_least = 1.0 ", "at_least = nan ", "marks are positive"),
            ("over = { scalars = \"uniform\" }", "over = {}", "a product over itself"),
        ] {
            assert!(BUILT_IN.contains(from), "{from}");
            let error = Goals::from_toml(&BUILT_IN.replacen(from, to, 1)).expect_err(to);
            assert!(error.contains(said), "{error}");
        }
    }
}
