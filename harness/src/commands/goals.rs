//! `harness goals`: what the prover's parts take beside what they should, row by row.

use crate::bench::cases::Scale;
use crate::bench::goals::{Goals, Measured, Outcome, Row, Settings, Unit, measure};
use crate::bench::machine;
use crate::bench::record::Machine;
use crate::devices::DeviceChoice;
use crate::error::{Failure, Judgement};
use crate::oracle::parse_seed;
use crate::report::{bytes_text, new_table, write_json};
use comfy_table::{CellAlignment, Column};
use gpu_core::DeviceKind;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Columns of numbers, from the left.
const NUMBERS: [usize; 6] = [1, 2, 3, 4, 6, 7];
/// Heads of the columns.
const HEADS: [&str; 9] =
    ["work", "measured", "best peer", "at least", "aim", "standing", "table", "built in, ms", "windows"];

/// Measures what has a goal, and says how each stands.
#[derive(Debug, Clone, clap::Args)]
pub struct GoalsArgs {
    /// Where to run: `sim`, `cuda` or `cuda:N`; `auto` is the first CUDA device, or the simulated one where there is none
    #[arg(long, default_value_t = DeviceChoice::Auto)]
    pub device: DeviceChoice,
    /// Only rows whose name contains one of these, as `msm/g1/2^20`, `/table`, `ntt`
    #[arg(long, value_delimiter = ',', value_name = "PARTS")]
    pub only: Vec<String>,
    /// Runs of each row, after one that is not counted; the median counts
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Device memory of a table at most, in GiB; three quarters of what is free if not given
    #[arg(long, value_name = "GIB", value_parser = parse_gib)]
    pub table_gib: Option<f64>,
    /// Small sizes, which show that everything runs, and say nothing of goals
    #[arg(long)]
    pub smoke: bool,
    /// File of goals, instead of the built-in benches/goals.toml
    #[arg(long, value_name = "FILE")]
    pub goals: Option<PathBuf>,
    /// Seed of bases, scalars and values
    #[arg(long, default_value = "0x676f616c73", value_parser = parse_seed)]
    pub seed: u64,
    /// Writes everything to a file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Writes the table to a file as Markdown
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
}

fn parse_gib(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(gib) if (0.0..=1e6).contains(&gib) => Ok(gib),
        _ => Err(format!("`{text}` is no size in GiB")),
    }
}

/// What `--json` writes.
#[derive(Debug, Serialize)]
struct GoalsReport {
    harness: &'static str,
    commit: Option<String>,
    date: String,
    seed: String,
    scale: Scale,
    runs: u32,
    machine: Machine,
    rows: Vec<Outcome>,
}

/// Runs the command.
///
/// # Errors
/// [`Failure`]: without the device, for a result that is not the oracle's, and where files cannot be read or written.
pub fn run(args: &GoalsArgs, out: &mut dyn Write) -> Result<Judgement, Failure> {
    let scale = if args.smoke { Scale::Smoke } else { Scale::Full };
    let rows = rows(args, scale)?;
    let device = super::bench::device(args.device)?;
    if device.info().kind == DeviceKind::Sim && scale == Scale::Full {
        return Err(Failure::Usage(
            "goals are for a GPU, and there is the simulated device alone: --smoke runs small sizes on it"
                .into(),
        ));
    }
    let table_bytes = args.table_gib.map(|gib| (gib * f64::from(1 << 30)) as u64);
    let settings = Settings { scale, runs: args.runs, seed: args.seed, table_bytes };
    let date = machine::now();
    let outcomes = measure(&device, &rows, &settings, &mut tell)?;
    let report = GoalsReport {
        harness: env!("CARGO_PKG_VERSION"),
        commit: machine::commit(),
        date,
        seed: format!("{:#x}", args.seed),
        scale,
        runs: args.runs,
        machine: machine::machine(&device),
        rows: outcomes,
    };
    write_text(&report, out).map_err(Failure::output)?;
    if let Some(path) = &args.json {
        write_json(path, &report)?;
    }
    if let Some(path) = &args.markdown {
        std::fs::write(path, markdown(&report))
            .map_err(|source| Failure::Write { path: path.clone(), source })?;
    }
    Ok(if report.rows.iter().any(Outcome::is_short) { Judgement::Bad } else { Judgement::Good })
}

fn rows(args: &GoalsArgs, scale: Scale) -> Result<Vec<Row>, Failure> {
    let goals = match &args.goals {
        None => Goals::built_in(),
        Some(path) => read_goals(path)?,
    };
    let is_wanted = |row: &Row| {
        let id = row.id();
        args.only.is_empty() || args.only.iter().any(|part| id.contains(part))
    };
    let rows: Vec<Row> = goals.rows.into_iter().map(|row| row.at(scale)).filter(is_wanted).collect();
    if rows.is_empty() {
        return Err(Failure::Usage(format!("no row is called {}", args.only.join(" or "))));
    }
    Ok(rows)
}

fn read_goals(path: &Path) -> Result<Goals, Failure> {
    let refuse = |error: String| Failure::Usage(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
    Goals::from_toml(&text).map_err(refuse)
}

/// A row as soon as it is there: a run takes minutes.
fn tell(outcome: &Outcome) {
    match (&outcome.measured, &outcome.skipped) {
        (Some(measured), _) => {
            eprintln!("{}: {}{}", outcome.id, number(measured.value, outcome.marks.unit), standing(outcome));
        }
        (None, reason) => eprintln!("skipped: {}: {}", outcome.id, reason.as_deref().unwrap_or_default()),
    }
}

fn standing(outcome: &Outcome) -> String {
    outcome.standing.map(|standing| format!(", {standing}")).unwrap_or_default()
}

/// Three digits, and the unit.
fn number(value: f64, unit: Unit) -> String {
    let digits = match value {
        value if value < 1.0 => 3,
        value if value < 10.0 => 2,
        _ => 1,
    };
    match unit {
        Unit::Ms => format!("{value:.digits$} ms"),
        Unit::Times => format!("{value:.2} x"),
        Unit::GPerS => format!("{value:.digits$} G/s"),
    }
}

/// A mark as it was written, without a unit.
fn mark(value: f64) -> String {
    format!("{value}")
}

fn cells(outcome: &Outcome) -> [String; 9] {
    let marks = &outcome.marks;
    let measured = |text: &dyn Fn(&Measured) -> Option<String>| {
        outcome.measured.as_ref().and_then(text).unwrap_or_default()
    };
    let clock = |found: &Measured| if found.is_virtual { " v" } else { "" };
    let peer = marks.best_peer.as_ref();
    [
        outcome.title.clone(),
        measured(&|found| Some(number(found.value, marks.unit) + clock(found))),
        peer.map(|(value, name)| format!("{} ({name})", mark(*value))).unwrap_or_default(),
        mark(marks.at_least),
        marks.aim.map(mark).unwrap_or_default(),
        match (&outcome.skipped, outcome.standing) {
            (Some(reason), _) => format!("skipped: {reason}"),
            (None, Some(standing)) => standing.to_string(),
            (None, None) => "-".into(),
        },
        measured(&|found| {
            let table = found.table?;
            Some(format!("{}, {} columns", bytes_text(table.bytes), table.columns))
        }),
        measured(&|found| Some(format!("{:.1}", found.table?.build_us / 1e3))),
        measured(&|found| found.plan.clone()),
    ]
}

/// What the numbers are.
fn legend(report: &GoalsReport) -> String {
    let mut text = format!(
        "medians of {} runs, every result compared with the known one; seed {}, commit {}, {}",
        report.runs,
        report.seed,
        report.commit.as_deref().unwrap_or("unknown"),
        report.date
    );
    if report.machine.device == "sim" {
        text += "; v marks the virtual clock of the simulated device, a prediction";
    }
    if report.scale == Scale::Smoke {
        text += "; small sizes, which the marks are not for: no row is judged";
    }
    text
}

/// How many rows stand how.
fn summary(rows: &[Outcome]) -> String {
    let judged: Vec<_> = rows.iter().filter(|row| row.standing.is_some()).collect();
    let short = judged.iter().filter(|row| row.is_short()).count();
    let skipped = rows.iter().filter(|row| row.skipped.is_some()).count();
    let met = judged.len() - short;
    let unjudged = rows.len() - judged.len() - skipped;
    format!("{met} of {} rows met, {short} short, {skipped} skipped, {unjudged} not judged", rows.len())
}

fn write_text(report: &GoalsReport, out: &mut dyn Write) -> std::io::Result<()> {
    let mut table = new_table();
    table.set_header(HEADS);
    for outcome in &report.rows {
        table.add_row(cells(outcome));
    }
    for index in NUMBERS {
        if let Some(column) = table.column_mut(index) {
            Column::set_cell_alignment(column, CellAlignment::Right);
        }
    }
    writeln!(out, "{}\n{table}\n{}\n{}", report.machine.line(), legend(report), summary(&report.rows))
}

fn markdown(report: &GoalsReport) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let heads = HEADS.map(String::from);
    let rules: Vec<String> = (0..HEADS.len())
        .map(|index| if NUMBERS.contains(&index) { "---:".into() } else { "---".into() })
        .collect();
    let mut text = line(&heads) + &line(&rules);
    for outcome in &report.rows {
        text += &line(&cells(outcome).map(|cell| cell.replace('|', "\\|")));
    }
    format!("{}\n\n{text}\n{}.\n", report.machine.line(), legend(report))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::goals::{Marks, Standing};
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: GoalsArgs,
    }

    fn run_with(more: &[&str]) -> (Result<Judgement, Failure>, String) {
        let line = [&["goals", "--device", "sim", "--runs", "2"], more].concat();
        let mut out = Vec::new();
        let outcome = run(&Line::parse_from(line).args, &mut out);
        (outcome, String::from_utf8(out).expect("the report is text"))
    }

    #[test]
    fn every_row_runs_at_small_sizes_and_none_is_judged() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let [json, markdown] = ["goals.json", "goals.md"].map(|name| directory.path().join(name));
        let files = ["--json", json.to_str().expect("text"), "--markdown", markdown.to_str().expect("text")];
        let (outcome, text) = run_with(&[&["--smoke"], &files[..]].concat());
        assert_eq!(outcome.expect("it runs"), Judgement::Good);
        let count = Goals::built_in().rows.len();
        assert!(
            text.contains(&format!("0 of {count} rows met, 0 short, 0 skipped, {count} not judged")),
            "{text}"
        );
        for word in [
            "simulated device",
            "virtual clock",
            "not for: no row is judged",
            "G1 2^10, no table",
            "88.1 (Yrrid",
        ] {
            assert!(text.contains(word), "{word} in\n{text}");
        }
        let report: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(&json).expect("a file")).expect("JSON");
        let rows = report["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), count);
        let mut tables = 0;
        for row in rows {
            let (id, measured) = (row["id"].as_str().expect("a name"), &row["measured"]);
            assert!(measured["value"].as_f64().expect("a number") > 0.0, "{row}");
            assert_eq!(measured["samples_us"].as_array().map(Vec::len), Some(2), "{row}");
            assert_eq!(
                measured["over_us"].as_array().map(Vec::len),
                Some(if id.contains("over") { 2 } else { 0 })
            );
            assert!(id.contains("/table") || measured["table"].is_null(), "{row}");
            tables += usize::from(measured["table"].is_object());
        }
        assert!(tables > 5, "{tables} rows had a table");
        let markdown = std::fs::read_to_string(&markdown).expect("a file");
        let lines = markdown.lines().filter(|line| line.starts_with('|'));
        assert!(lines.clone().all(|line| line.matches(" | ").count() == HEADS.len() - 1), "{markdown}");
        assert_eq!(lines.count(), count + 2, "{markdown}");
    }

    #[test]
    fn a_device_without_memory_skips_a_row_and_says_why() {
        // The simulated device is not as large as 2^30 points of G2 with their scalars.
        let row = Goals::from_toml(&std::fs::read_to_string(GOALS).expect("the goals").replacen(
            "group = \"g2\", log_n = 24",
            "group = \"g2\", log_n = 30",
            1,
        ));
        let rows = row.expect("goals").rows.into_iter().filter(|row| row.id().contains("g2/2^30"));
        let device = super::super::bench::device(DeviceChoice::Sim).expect("the simulated device");
        let settings = Settings { scale: Scale::Full, runs: 1, seed: 1, table_bytes: None };
        let rows: Vec<Row> = rows.collect();
        let free_bytes = device.free_bytes().expect("bytes");
        assert!(free_bytes < (192 + 32) << 30, "{free_bytes} bytes are free");
        let outcomes = measure(&device, &rows, &settings, &mut |_| {}).expect("nothing is wrong");
        let [outcome] = &outcomes[..] else { panic!("{} rows", outcomes.len()) };
        assert!(outcome.measured.is_none() && !outcome.is_short(), "{outcome:?}");
        assert!(
            outcome.skipped.as_deref().is_some_and(|reason| reason.contains("out of memory")),
            "{outcome:?}"
        );
        assert!(cells(outcome)[5].starts_with("skipped: out of memory"), "{:?}", cells(outcome));
    }

    const GOALS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../benches/goals.toml");

    #[test]
    fn what_cannot_be_measured_is_a_mistake_of_the_command_line() {
        for (line, said) in [
            (&["--only", "msm/g1/2^20"][..], "--smoke"),
            (&["--smoke", "--only", "msm/g3"], "no row is called msm/g3"),
            (&["--smoke", "--goals", "no-such-file"], "no-such-file: "),
        ] {
            let failure = run_with(line).0.expect_err("a mistake");
            assert_eq!(failure.exit_code(), 2, "{failure}");
            assert!(failure.to_string().contains(said), "{failure}");
        }
    }

    #[test]
    fn a_missed_row_is_counted_and_shown() {
        let marks = Marks { unit: Unit::Ms, best_peer: None, at_least: 7.0, aim: Some(4.5) };
        let outcome = |value: f64| {
            let measured = Measured {
                value,
                interval: None,
                is_virtual: false,
                samples_us: vec![value * 1e3],
                over_us: Vec::new(),
                plan: None,
                table: None,
            };
            let standing = Some(marks.standing(value));
            let (id, title) = ("msm/x".into(), "x".into());
            Outcome { id, title, marks: marks.clone(), measured: Some(measured), skipped: None, standing }
        };
        let rows = [outcome(4.0), outcome(6.0), outcome(8.4)];
        assert_eq!(rows.iter().map(Outcome::is_short).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(rows[0].standing, Some(Standing::AheadOfAim));
        assert_eq!(summary(&rows), "2 of 3 rows met, 1 short, 0 skipped, 0 not judged");
        assert_eq!(cells(&rows[2])[1..6], ["8.40 ms", "", "7", "4.5", "short by 20.0 %"].map(String::from));
    }
}
