//! A comparison as others read it: Markdown for a job's summary, JUnit for a test viewer, JSON for
//! github-action-benchmark.

use super::{Change, GateReport, Row, Verdict};
use crate::bench::record::{Measurement, Run};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use serde::Serialize;
use std::fmt::Write;

/// Markdown: what happened, why, and a table of everything that is more than the threshold.
pub fn markdown(report: &GateReport) -> String {
    let mut text = format!("## Benchmarks: {}\n\n", report.outcome);
    for reason in &report.reasons {
        text += &format!("- {reason}\n");
    }
    if !report.reasons.is_empty() {
        text.push('\n');
    }
    let count = |verdict| report.rows.iter().filter(|row| row.verdict == verdict).count();
    let _ = writeln!(
        text,
        "{} benchmarks: {} slower in every run, {} slower once, {} faster, {} within the threshold of {:.0} %, {} noise, \
         {} new.\n",
        report.rows.len(),
        count(Verdict::Regression),
        count(Verdict::Suspected) + count(Verdict::NotConfirmed),
        count(Verdict::Faster),
        count(Verdict::Small),
        100.0 * report.threshold,
        count(Verdict::Noise),
        count(Verdict::New),
    );
    if !report.head.is_empty() {
        let _ = writeln!(text, "This run: {}  ", report.head);
    }
    if let Some(baseline) = &report.baseline {
        let _ = writeln!(text, "Baseline: {baseline}\n");
    }
    let shown: Vec<&Row> = report
        .rows
        .iter()
        .filter(|row| !matches!(row.verdict, Verdict::Noise | Verdict::Small | Verdict::New))
        .collect();
    if !shown.is_empty() {
        text += "| benchmark | baseline, ms | this run, ms | change | interval | again | |\n";
        text += "|---|---:|---:|---:|---|---|---|\n";
        for row in shown {
            let (estimate, interval) = row.change.map_or_else(Default::default, percents);
            let again: Vec<String> = row.again.iter().map(|change| percents(*change).0).collect();
            let _ = writeln!(
                text,
                "| `{}` | {} | {} | {estimate} | {interval} | {} | {} |",
                row.id,
                ms(row.baseline_us),
                ms(row.head_us),
                again.join(", "),
                row.verdict.word()
            );
        }
    }
    text
}

fn ms(us: Option<f64>) -> String {
    us.map_or_else(String::new, |us| format!("{:.3}", us / 1e3))
}

fn percents(change: Change) -> (String, String) {
    let percent = |share: f64| format!("{:+.1} %", 100.0 * share);
    let interval = change.interval;
    (percent(change.estimate), format!("{} to {}", percent(interval.low), percent(interval.high)))
}

/// JUnit: a test for each benchmark, and one for the comparison itself. Only what makes the gate fail is a failure.
pub fn junit(report: &GateReport) -> String {
    let mut suite = TestSuite::new("benchmarks");
    let failure = |kind: NonSuccessKind, message: String| {
        let mut status = TestCaseStatus::non_success(kind);
        status.set_message(message);
        status
    };
    let whole = match report.outcome.exit_code() {
        0 => TestCaseStatus::success(),
        10 => failure(NonSuccessKind::Failure, report.reasons.join("; ")),
        _ => failure(NonSuccessKind::Error, format!("{}: {}", report.outcome, report.reasons.join("; "))),
    };
    suite.add_test_case(TestCase::new("comparison with the baseline", whole));
    for row in &report.rows {
        let words = match row.change {
            Some(change) => {
                format!("{}: {} ({})", row.verdict.word(), percents(change).0, percents(change).1)
            }
            None => row.verdict.word().into(),
        };
        let status = match row.verdict {
            Verdict::Regression => failure(NonSuccessKind::Failure, words),
            Verdict::Missing | Verdict::Broken => failure(NonSuccessKind::Error, words),
            Verdict::New => TestCaseStatus::skipped(),
            _ => TestCaseStatus::success(),
        };
        let mut case = TestCase::new(row.id.as_str(), status);
        if let Some(us) = row.head_us.filter(|us| us.is_finite() && *us >= 0.0) {
            case.set_time(std::time::Duration::from_secs_f64(us / 1e6));
        }
        suite.add_test_case(case);
    }
    let mut whole = Report::new("harness gate");
    whole.add_test_suite(suite);
    whole.to_string().expect("XML of text is text")
}

#[derive(Serialize)]
struct ActionEntry<'a> {
    name: &'a str,
    unit: &'static str,
    value: f64,
    range: String,
    extra: &'a str,
}

/// What github-action-benchmark takes as `customSmallerIsBetter`.
pub fn benchmark_action(run: &Run) -> String {
    let extra = format!(
        "{}\ncommit {}\nseed {}",
        run.machine.line(),
        run.commit.as_deref().unwrap_or("unknown"),
        run.seed
    );
    let entries: Vec<_> = run.measurements.iter().map(|found| action_entry(found, &extra)).collect();
    serde_json::to_string_pretty(&entries).expect("numbers and text serialise")
}

fn action_entry<'a>(found: &'a Measurement, extra: &'a str) -> ActionEntry<'a> {
    let range = format!("{:.3}", found.median_interval_us.half_width());
    ActionEntry { name: &found.id, unit: "us", value: found.median_us, range, extra }
}
