//! The gate: what it says of runs whose times are known, of files that are no runs, and of a product that was slowed down
//! for real.

use criterion::{BenchmarkId, Criterion, SamplingMode};
use harness::bench::cases::Scale;
use harness::bench::criterion_files;
use harness::bench::gate::{
    Baseline, BaselineError, Finding, GateSettings, Outcome, Verdict, benchmark_action, compare, judge,
    junit, markdown,
};
use harness::bench::record::{Clock, Machine, Measurement, Params, Run, SCHEMA};
use harness::bench::stats::{Interval, median, median_interval};
use harness::commands::gate::file_name;
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Times around a median, 1 % to either side, the same every time.
fn around(median_us: f64) -> Vec<f64> {
    (-7..=7).map(|step| median_us * (1.0 + 0.01 * f64::from(step) / 7.0)).collect()
}

fn measurement(id: &str, samples_us: Vec<f64>) -> Measurement {
    Measurement {
        id: id.into(),
        params: Params::default(),
        clock: Clock::Device,
        median_us: median(&samples_us).expect("samples"),
        median_interval_us: median_interval(&samples_us).expect("samples"),
        samples_us,
        wall_us: Vec::new(),
        idle_us: None,
        amount: None,
        floor_us: None,
    }
}

fn machine() -> Machine {
    let driver = Some("580.159".into());
    Machine { device: "cuda:0".into(), gpu: "NVIDIA H200".into(), driver, ..Machine::default() }
}

/// A run of benchmarks with these medians.
fn run(medians: &[(&str, f64)]) -> Run {
    Run {
        schema: SCHEMA,
        harness: "0.1.0".into(),
        commit: Some("0123456789ab".into()),
        date: "2026-01-02T03:04:05Z".into(),
        seed: "0x1".into(),
        scale: Scale::Full,
        machine: machine(),
        conditions: Vec::new(),
        planted_percent: None,
        measurements: medians.iter().map(|(id, us)| measurement(id, around(*us))).collect(),
        skipped: Vec::new(),
        ratios: Vec::new(),
    }
}

fn baseline(runs: &[Run]) -> Baseline {
    Baseline::new(runs, None).expect("a baseline")
}

/// A baseline of five runs of two benchmarks.
fn usual() -> Baseline {
    let runs = [1000.0, 1003.0, 998.0, 1001.0, 999.0].map(|us| run(&[("a", us), ("b", 2.0 * us)]));
    baseline(&runs)
}

fn outcome(baseline: &Baseline, head: &Run, again: &[Run]) -> Outcome {
    compare(baseline, head, again, &GateSettings::default()).outcome
}

fn verdict(baseline: &Baseline, head: &Run, again: &[Run], id: &str) -> Verdict {
    let report = compare(baseline, head, again, &GateSettings::default());
    report.rows.iter().find(|row| row.id == id).expect("the row").verdict
}

/// Has criterion measure a benchmark whose times are given, and gives its directory.
fn through_criterion(directory: &Path, factor: f64) {
    let mut criterion = Criterion::default()
        .output_directory(directory)
        .without_plots()
        .warm_up_time(Duration::from_millis(1))
        .measurement_time(Duration::from_millis(2))
        .nresamples(1_000);
    let mut group = criterion.benchmark_group("sync");
    group.sample_size(15).sampling_mode(SamplingMode::Flat);
    let mut call = 0_u32;
    group.bench_function(BenchmarkId::from_parameter("g1/2^20/hard"), |bencher| {
        bencher.iter_custom(|iterations| {
            // Criterion counts iterations by how long a call really takes.
            std::thread::sleep(Duration::from_micros(200));
            call += 1;
            let wobble = 1.0 + 0.01 * (f64::from(call % 7) - 3.0) / 3.0;
            Duration::from_secs_f64(18.1e-3 * factor * wobble * iterations as f64)
        });
    });
    group.finish();
    let machine = serde_json::to_string(&machine()).expect("a machine");
    std::fs::write(directory.join(criterion_files::MACHINE_FILE), machine).expect("a file");
}

fn gate(args: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
    let output = command.arg("gate").args(args).output().expect("the program starts");
    let text = String::from_utf8(output.stdout).expect("the program prints text");
    let error = String::from_utf8(output.stderr).expect("the program prints text");
    (output.status.code().expect("the program ends by itself"), text + &error)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are text")
}

#[test]
fn b122_criterion_passes_a_slowdown_of_a_fifth_and_the_gate_does_not() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| directory.path().join(name);
    let runs: Vec<PathBuf> = ["one", "two", "three", "same", "slow", "slow again"].map(at).into();
    for (path, factor) in runs.iter().zip([1.0, 1.002, 0.999, 1.001, 1.2, 1.2]) {
        through_criterion(path, factor);
    }
    let paths: Vec<&str> = runs.iter().map(|path| text(path)).collect();
    let file = at("baseline.json");
    let (code, out) = gate(&[&["--make-baseline", text(&file)], &paths[..3]].concat());
    assert_eq!(code, 0, "{out}");
    let with = ["--baseline", text(&file)];
    let (code, out) = gate(&[&[paths[3]], &with[..]].concat());
    assert_eq!(code, 0, "{out}");
    let (code, out) = gate(&[&[paths[4]], &with[..]].concat());
    assert_eq!(code, 40, "one run alone is a suspicion: {out}");
    assert!(out.contains("not run a second time: sync/g1/2^20/hard"), "{out}");
    let (code, out) = gate(&[&[paths[4]], &with[..], &["--rerun", paths[5]]].concat());
    assert_eq!(code, 10, "{out}");
    assert!(out.contains("REGRESSION") && out.contains("+20."), "{out}");
    let (code, out) = gate(&[&[paths[4]], &with[..], &["--rerun", paths[3]]].concat());
    assert_eq!(code, 0, "a second run that disagrees: {out}");
    assert!(out.contains("slower once, not again"), "{out}");
}

#[test]
fn b124_an_interval_across_zero_is_noise_and_one_above_the_threshold_is_not() {
    let interval = |low: f64, high: f64| Interval { low: low / 100.0, high: high / 100.0 };
    assert_eq!(judge(interval(-3.0, 3.0), 0.01), Finding::Noise, "mean + 3.3 %");
    assert_eq!(judge(interval(2.0, 6.0), 0.01), Finding::Slower, "mean + 4 %");
    assert_eq!(judge(interval(2.0, 6.0), 0.05), Finding::Small, "not beyond 5 %");
    assert_eq!(judge(interval(-9.0, -6.0), 0.05), Finding::Faster);
    let two = baseline_of_two();
    let report = compare(&two, &run(&[("a", 1300.0)]), &[run(&[("a", 1300.0)])], &GateSettings::default());
    assert_eq!(report.outcome, Outcome::Inconclusive);
    assert!(report.reasons[0].contains("made of 2 runs: 3 are needed"), "{:?}", report.reasons);
}

/// A few rounds in turn with a peer make a ratio, and no time to be judged: noise there is no regression.
#[test]
fn b124_rounds_against_peers_are_not_judged() {
    for id in ["peers/msm-g1/2^10/gpu", "sim/peers/msm-g1/2^10/gpu"] {
        let runs = [1000.0, 1003.0, 998.0].map(|us| run(&[("a", us), (id, us)]));
        let head = run(&[("a", 1000.0), (id, 2000.0)]);
        let report = compare(&baseline(&runs), &head, std::slice::from_ref(&head), &GateSettings::default());
        assert_eq!(report.outcome, Outcome::Ok, "{id}: {:?}", report.reasons);
        assert!(report.rows.iter().all(|row| row.id != id));
    }
}

/// What [`Baseline::new`] refuses to make, as a file could hold it.
fn baseline_of_two() -> Baseline {
    let mut baseline = baseline(&[1000.0, 1001.0, 1002.0].map(|us| run(&[("a", us)])));
    baseline.runs.truncate(2);
    baseline.entries.values_mut().for_each(|entry| entry.run_medians_us.truncate(2));
    baseline
}

#[test]
fn b124_fewer_than_three_runs_make_no_baseline() {
    for count in 0..3 {
        let runs = vec![run(&[("a", 1.0)]); count];
        assert_eq!(Baseline::new(&runs, None), Err(BaselineError::TooFew { found: count }));
    }
}

#[test]
fn b125_text_is_not_read_for_numbers() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let log = "sync/hard  time: [18.1 ms 18.2 ms 18.3 ms]\n  change: [-0.21% +0.03% +0.24%] (p = 0.8)\n\
               Performance has regressed.\n";
    let (file, baseline) = (directory.path().join("bench.log"), directory.path().join("baseline.json"));
    std::fs::write(&file, log).expect("a file");
    std::fs::write(&baseline, serde_json::to_string(&usual()).expect("JSON")).expect("a file");
    let (code, out) = gate(&[text(&file), "--baseline", text(&baseline)]);
    assert_eq!(code, 30, "a log is no run: {out}");
    // Beside criterion's files it changes nothing.
    let runs: Vec<PathBuf> = ["one", "two", "three"].map(|name| directory.path().join(name)).into();
    runs.iter().for_each(|path| through_criterion(path, 1.0));
    std::fs::write(runs[0].join("bench.log"), log).expect("a file");
    let paths: Vec<&str> = runs.iter().map(|path| text(path)).collect();
    let made = directory.path().join("made.json");
    assert_eq!(gate(&[&["--make-baseline", text(&made)], &paths[..]].concat()).0, 0);
    let (code, out) = gate(&[paths[0], "--baseline", text(&made)]);
    assert_eq!(code, 0, "{out}");
}

#[test]
fn b126_nothing_to_compare_with_is_neither_good_nor_bad() {
    let mut empty = usual();
    empty.entries.clear();
    let head = run(&[("a", 1000.0), ("b", 2000.0)]);
    assert_eq!(outcome(&empty, &head, &[]), Outcome::NoBaseline);
    let (code, out) = gate(&["/nowhere/run.json", "--baseline", "/nowhere/baseline.json"]);
    assert_eq!(code, 30, "there is no run: {out}");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("run.json");
    std::fs::write(&file, serde_json::to_string(&head).expect("JSON")).expect("a file");
    let (code, out) = gate(&[text(&file), "--baselines", "/nowhere"]);
    assert_eq!(code, 20, "{out}");
    assert!(out.contains("/nowhere/nvidia-h200.json: there is no baseline for this GPU"), "{out}");
}

#[test]
fn b126_a_benchmark_that_is_gone_is_an_error_and_a_new_one_is_not() {
    let gone = run(&[("a", 1000.0)]);
    assert_eq!(outcome(&usual(), &gone, &[]), Outcome::ToolError);
    assert_eq!(verdict(&usual(), &gone, &[], "b"), Verdict::Missing);
    // Also beside a regression, which would else be all that is told.
    assert_eq!(outcome(&usual(), &run(&[("a", 1500.0)]), &[run(&[("a", 1500.0)])]), Outcome::ToolError);
    let more = run(&[("a", 1000.0), ("b", 2000.0), ("c", 1.0)]);
    assert_eq!(outcome(&usual(), &more, &[]), Outcome::Ok);
    assert_eq!(verdict(&usual(), &more, &[], "c"), Verdict::New);
    for broken in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let mut head = run(&[("a", 1000.0), ("b", 2000.0)]);
        head.measurements[0].median_us = broken;
        assert_eq!(outcome(&usual(), &head, &[]), Outcome::ToolError, "{broken}");
    }
}

#[test]
fn b126_one_odd_run_moves_no_baseline() {
    let calm = usual();
    let odd = [1000.0, 1003.0, 998.0, 1001.0, 9000.0].map(|us| run(&[("a", us), ("b", 2.0 * us)]));
    let odd = baseline(&odd);
    for id in ["a", "b"] {
        let medians = [&calm, &odd].map(|baseline| baseline.entries[id].median_us);
        assert!((medians[0] / medians[1] - 1.0).abs() < 0.003, "{medians:?}");
    }
    let slow = run(&[("a", 1200.0), ("b", 2400.0)]);
    assert_eq!(outcome(&odd, &slow, std::slice::from_ref(&slow)), Outcome::Regression);
    assert_eq!(outcome(&odd, &run(&[("a", 1000.0), ("b", 2000.0)]), &[]), Outcome::Ok);
}

#[test]
fn another_gpu_or_driver_is_not_compared_unless_that_is_asked_for() {
    let slow = run(&[("a", 1200.0), ("b", 2400.0)]);
    let other_gpu = |machine: &mut Machine| machine.gpu = "NVIDIA L4".into();
    let other_driver = |machine: &mut Machine| machine.driver = Some("590.1".into());
    for change in [other_gpu as fn(&mut Machine), other_driver] {
        let mut head = slow.clone();
        change(&mut head.machine);
        let report = compare(&usual(), &head, std::slice::from_ref(&head), &GateSettings::default());
        assert_eq!(report.outcome, Outcome::Inconclusive);
        assert!(
            report.reasons[0].contains("the baseline was made on NVIDIA H200, driver 580.159"),
            "{report:?}"
        );
        let any = GateSettings { any_machine: true, ..GateSettings::default() };
        assert_eq!(compare(&usual(), &head, std::slice::from_ref(&head), &any).outcome, Outcome::Regression);
    }
    // A second run elsewhere confirms nothing.
    let mut elsewhere = slow.clone();
    elsewhere.machine.gpu = "NVIDIA L4".into();
    assert_eq!(outcome(&usual(), &slow, &[elsewhere]), Outcome::Inconclusive);
}

#[test]
fn what_differs_from_run_to_run_is_not_taken_for_a_change() {
    // Runs that differ by 10 %, each with samples that differ by 1 %.
    let runs = [900.0, 1000.0, 1100.0, 950.0, 1050.0].map(|us| run(&[("a", us)]));
    let noisy = baseline(&runs);
    let head = run(&[("a", 1120.0)]);
    assert_eq!(outcome(&noisy, &head, std::slice::from_ref(&head)), Outcome::Ok);
    assert_eq!(verdict(&noisy, &head, &[], "a"), Verdict::Noise);
}

#[test]
fn runs_that_do_not_belong_together_make_no_baseline() {
    let good = run(&[("a", 1.0)]);
    let mut other = good.clone();
    other.machine.driver = None;
    let error = Baseline::new(&[good.clone(), good.clone(), other], None).expect_err("two drivers");
    assert!(matches!(error, BaselineError::Machines { .. }), "{error}");
    let mut smoke = good.clone();
    smoke.scale = Scale::Smoke;
    assert_eq!(Baseline::new(&[good.clone(), smoke, good.clone()], None), Err(BaselineError::Scales));
    let mut planted = good.clone();
    planted.planted_percent = Some(20.0);
    let error = Baseline::new(&[good.clone(), planted, good], None).expect_err("slowed down");
    assert!(matches!(error, BaselineError::Planted { .. }), "{error}");
}

#[test]
fn a_baseline_remembers_what_it_replaces() {
    let first = usual();
    let medians = first.entries["a"].median_us;
    let second = Baseline::new(&vec![run(&[("a", 900.0)]); 3], Some(first)).expect("a baseline");
    assert_eq!(second.past.len(), 1);
    assert_eq!(second.past[0].medians_us["a"], medians);
    assert_eq!(second.entries["a"].median_us, 900.0);
}

#[test]
fn a_baseline_of_some_groups_keeps_the_entries_of_the_others() {
    let older = Baseline::new(&vec![run(&[("a", 900.0), ("b", 70.0)]); 3], None).expect("a baseline");
    let newer = || Baseline::new(&vec![run(&[("a", 800.0), ("c", 5.0)]); 3], None).expect("a baseline");
    let kept = newer().keeping(older.clone()).expect("one machine");
    assert_eq!(kept.entries.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!((kept.entries["a"].median_us, kept.entries["b"].median_us), (800.0, 70.0));
    assert_eq!(kept.entries["b"].kept_from.as_ref(), older.runs.last());
    assert!(kept.entries["a"].kept_from.is_none());
    // Kept twice, it is still of the runs that measured it.
    let again = newer().keeping(kept).expect("one machine");
    assert_eq!(again.entries["b"].kept_from.as_ref(), older.runs.last());
    let mut elsewhere = older;
    elsewhere.machine.driver = None;
    let error = newer().keeping(elsewhere).expect_err("two drivers");
    assert!(matches!(error, BaselineError::Machines { .. }), "{error}");
}

#[test]
fn reports_are_well_formed_and_say_the_same() {
    let slow = run(&[("a", 1300.0), ("b", 2000.0), ("c & <d>", 1.0)]);
    let report = compare(&usual(), &slow, std::slice::from_ref(&slow), &GateSettings::default());
    let page = markdown(&report);
    assert!(page.starts_with("## Benchmarks: REGRESSION"), "{page}");
    assert!(page.contains("| `a` | 1.000 | 1.300 | +30.0 % |"), "{page}");
    let xml = junit(&report);
    let parsed = quick_junit::Report::deserialize_from_str(&xml).expect("JUnit");
    let failed = parsed.test_suites[0]
        .test_cases
        .iter()
        .filter(|case| matches!(case.status, quick_junit::TestCaseStatus::NonSuccess { .. }));
    let names: Vec<&str> = failed.map(|case| case.name.as_str()).collect();
    assert_eq!(names, ["comparison with the baseline", "a"]);
    assert!(xml.contains("c &amp; &lt;d&gt;"), "{xml}");
    let entries: serde_json::Value = serde_json::from_str(&benchmark_action(&slow)).expect("JSON");
    assert_eq!(entries[0]["name"], "a");
    assert_eq!(entries[0]["unit"], "us");
    assert_eq!(entries[0]["value"], 1300.0);
}

#[test]
fn a_gpu_s_name_becomes_a_file_name() {
    assert_eq!(file_name("NVIDIA H200"), "nvidia-h200.json");
    assert_eq!(file_name("NVIDIA GeForce RTX 4090 (24 GB)"), "nvidia-geforce-rtx-4090-24-gb.json");
    assert_eq!(file_name("../..//"), "unknown.json");
}

#[test]
fn files_of_another_version_are_refused() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("run.json");
    std::fs::write(&file, "{\"schema\": 99, \"whatever\": []}").expect("a file");
    let (code, out) = gate(&[text(&file)]);
    assert_eq!(code, 30, "{out}");
    assert!(out.contains("version 99 of the format"), "{out}");
}

proptest! {
    #[test]
    fn what_is_slower_still_is_no_better(slowdown in 0.0_f64..0.5, more in 0.0_f64..0.5) {
        let of = |slowdown: f64| {
            let head = run(&[("a", 1000.0 * (1.0 + slowdown)), ("b", 2000.0)]);
            outcome(&usual(), &head, std::slice::from_ref(&head))
        };
        if of(slowdown) == Outcome::Regression {
            prop_assert_eq!(of(slowdown + more), Outcome::Regression);
        }
        if slowdown > 0.08 {
            prop_assert_eq!(of(slowdown), Outcome::Regression);
        }
        if slowdown < 0.04 {
            prop_assert_eq!(of(slowdown), Outcome::Ok);
        }
    }

    #[test]
    fn units_do_not_matter(factor in 0.01_f64..100.0, change in -0.4_f64..0.4) {
        let scaled = |factor: f64| {
            let runs = [1000.0, 1003.0, 998.0, 1001.0].map(|us| run(&[("a", us * factor)]));
            let head = run(&[("a", 1000.0 * (1.0 + change) * factor)]);
            verdict(&baseline(&runs), &head, std::slice::from_ref(&head), "a")
        };
        prop_assert_eq!(scaled(1.0), scaled(factor));
    }

    #[test]
    fn no_file_makes_it_panic(text in "\\PC{0,200}") {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = directory.path().join("run.json");
        std::fs::write(&file, text).expect("a file");
        prop_assert!(Run::read(&file).is_err());
    }
}
