//! What the commands print: rows as a table for a reader, and everything as JSON for a program.

use crate::error::Failure;
use comfy_table::{Cell, CellAlignment, Color, ContentArrangement, Table, presets};
use gpu_core::model::Timeline;
use gpu_core::{Schedule, Trace};
use serde::{Serialize, Serializer};
use std::fmt::Display;
use std::io::IsTerminal;
use std::path::Path;

/// Whether the device's product is the oracle's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "result")]
pub enum Verdict {
    /// The same point.
    Equal,
    /// Another point.
    Different {
        /// The oracle's point, affine.
        expected: String,
        /// The device's point, affine.
        found: String,
    },
    /// No point: the device failed.
    Failed {
        /// The error.
        error: String,
    },
}

/// How long the device computed nothing between its first and its last operation of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Idle {
    /// Microseconds without a kernel.
    pub idle_us: f64,
    /// Microseconds from the first operation to the last.
    pub makespan_us: f64,
    /// Whether the times are a prediction by the device's profile, not a measurement.
    pub is_virtual: bool,
}

impl Idle {
    /// From a run's trace.
    pub fn of(schedule: &Schedule, trace: &Trace) -> Self {
        let timeline = Timeline::new(schedule, &trace.spans);
        let (idle_us, makespan_us) = (timeline.gpu_idle_us, timeline.makespan_us);
        Self { idle_us, makespan_us, is_virtual: trace.is_virtual }
    }
}

/// One product on one device.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Device, as `sim` or `cuda:0`.
    pub device: String,
    /// `g1` or `g2`.
    pub group: &'static str,
    /// Where the bases are from, as `output.h_query`.
    pub query: String,
    /// Number of points.
    pub points: usize,
    /// Flavour of the scalars.
    pub scalars: String,
    /// Number of batches.
    pub batches: u32,
    /// What the host does between them.
    #[serde(serialize_with = "as_text")]
    pub strategy: msm_gpu::Strategy,
    /// Bits of a window; `None` where there is no plan.
    pub window_bits: Option<u32>,
    /// The result.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Wall time of the run in microseconds; `None` where it failed.
    pub wall_us: Option<f64>,
    /// Idle time of the device; `None` where it failed.
    pub idle: Option<Idle>,
}

pub(crate) fn as_text<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

impl Row {
    /// What distinguishes the row from all others of a run: `--only` takes it, or a part of it.
    pub fn id(&self) -> String {
        product_id(&self.query, &self.scalars, self.batches, self.strategy)
    }
}

/// The name of a product without its device: `output.h_query/uniform/3/deferred:2`.
pub fn product_id(query: &str, scalars: impl Display, batches: u32, strategy: msm_gpu::Strategy) -> String {
    format!("{query}/{scalars}/{batches}/{strategy}")
}

/// Whether colours are wanted: on a terminal, and without `NO_COLOR`.
pub fn wants_colour(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// An empty table, as wide as its text.
pub fn new_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// Writes a report to a file as JSON.
///
/// # Errors
/// [`Failure::Write`].
///
/// # Panics
/// If the report has a map whose keys are not strings.
pub fn write_json(path: &Path, report: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(report).expect("a report has string keys");
    std::fs::write(path, text).map_err(|source| Failure::Write { path: path.into(), source })
}

/// The table of a check. Cells that repeat the row above are left blank.
pub fn table(rows: &[Row], colour: bool) -> Table {
    let mut table = new_table();
    if !colour {
        table.force_no_tty();
    }
    table.set_header([
        "device", "group", "query", "points", "scalars", "batches", "strategy", "result", "time, ms",
        "idle, ms",
    ]);
    let mut above: [String; 5] = Default::default();
    for row in rows {
        let points = row.points.to_string();
        let keys = [row.device.clone(), row.group.into(), row.query.clone(), points, row.scalars.clone()];
        let first_new = keys.iter().zip(&above).position(|(key, above)| key != above).unwrap_or(keys.len());
        let mut cells: Vec<Cell> = Vec::new();
        for (column, key) in keys.iter().enumerate() {
            let cell = Cell::new(if column < first_new { "" } else { key.as_str() });
            cells.push(if column == 3 { cell.set_alignment(CellAlignment::Right) } else { cell });
        }
        above = keys;
        cells.push(Cell::new(row.batches).set_alignment(CellAlignment::Right));
        cells.push(Cell::new(row.strategy));
        cells.push(verdict_cell(&row.verdict, colour));
        let wall = row.wall_us.map_or(String::new(), |us| format!("{:.2}", us / 1e3));
        cells.push(Cell::new(wall).set_alignment(CellAlignment::Right));
        cells.push(Cell::new(row.idle.map_or(String::new(), idle_text)).set_alignment(CellAlignment::Right));
        table.add_row(cells);
    }
    table
}

fn verdict_cell(verdict: &Verdict, colour: bool) -> Cell {
    let (text, shade) = match verdict {
        Verdict::Equal => ("equal", Color::Green),
        Verdict::Different { .. } => ("DIFFERENT", Color::Red),
        Verdict::Failed { .. } => ("FAILED", Color::Red),
    };
    let cell = Cell::new(text);
    if colour { cell.fg(shade) } else { cell }
}

/// `0.31 of 2.04`, and a `v` where the clock is virtual.
fn idle_text(idle: Idle) -> String {
    let mark = if idle.is_virtual { " v" } else { "" };
    format!("{:.2} of {:.2}{mark}", idle.idle_us / 1e3, idle.makespan_us / 1e3)
}

/// Bytes as a reader takes them in.
pub fn bytes_text(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msm_gpu::Strategy;

    fn row(batches: u32, verdict: Verdict) -> Row {
        let failed = matches!(verdict, Verdict::Failed { .. });
        let idle = Idle { idle_us: 310.0, makespan_us: 2_040.0, is_virtual: true };
        Row {
            device: "sim".into(),
            group: "g1",
            query: "output.h_query".into(),
            points: 8191,
            scalars: "uniform".into(),
            batches,
            strategy: Strategy::Deferred { buffers: 2 },
            window_bits: Some(10),
            verdict,
            wall_us: (!failed).then_some(12_345.6),
            idle: (!failed).then_some(idle),
        }
    }

    #[test]
    fn the_table_says_a_thing_once_and_shouts_what_is_wrong() {
        let different = Verdict::Different { expected: "P".into(), found: "Q".into() };
        let failed = Verdict::Failed { error: "out of memory".into() };
        let rows = [row(1, Verdict::Equal), row(2, different), row(3, failed)];
        let text = table(&rows, false).to_string();
        assert_eq!(text.matches("output.h_query").count(), 1, "{text}");
        assert_eq!(text.matches("0.31 of 2.04 v").count(), 2, "{text}");
        for word in ["equal", "DIFFERENT", "FAILED", "12.35", "deferred:2"] {
            assert!(text.contains(word), "{word} in\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "no colour was asked for");
    }

    #[test]
    fn a_row_as_json_has_its_verdict_and_strategy_as_words() {
        let different = Verdict::Different { expected: "P".into(), found: "Q".into() };
        let json = serde_json::to_value(row(8, different)).expect("a row serialises");
        assert_eq!(json["result"], "different");
        assert_eq!(json["expected"], "P");
        assert_eq!(json["strategy"], "deferred:2");
        assert_eq!(json["idle"]["is_virtual"], true);
    }

    #[test]
    fn ids_name_the_product() {
        assert_eq!(row(8, Verdict::Equal).id(), "output.h_query/uniform/8/deferred:2");
    }

    #[test]
    fn bytes_have_units() {
        let texts = [0, 9_999, 10_000, 12_345_678, 140_000_000_000].map(bytes_text);
        assert_eq!(texts, ["0 B", "9999 B", "10.0 kB", "12.3 MB", "140.0 GB"]);
    }
}
