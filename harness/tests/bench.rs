//! Benchmarks as a user runs them, on the simulated device: files, ids, checks, and a slowdown that the gate sees.

mod support;

use ark_bls12_381::Fq;
use ark_ff::{Field, UniformRand};
use gpu_core::DeviceKind;
use harness::bench::launch::{Launches, Waiting};
use harness::bench::record::{Clock, Run};
use harness::oracle::{random_numbers, test_seed};
use sppark_peer::Build;
use std::path::Path;
use std::process::{Command, Output};

fn harness(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
    command.args(args).env("HARNESS_COMMIT", "0123456789ab").output().expect("the program starts")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are text")
}

fn bench(json: &Path, more: &[&str]) -> Run {
    let line = ["bench", "--device", "sim", "--smoke", "--seed", "0x7", "--json", text(json)];
    let output = harness(&[&line[..], more].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    Run::read(json).expect("a run")
}

#[test]
fn a_run_is_data_with_its_machine_seed_and_commit() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let json = directory.path().join("run.json");
    let groups = [
        "--groups",
        "msm,ntt,field,upload,host,peers",
        "--only",
        "g1/2^6/,msm/g2,ntt,fp_mul,upload,2^10/4,msm-g1/2^6",
    ];
    let run = bench(&json, &groups);
    assert_eq!((run.seed.as_str(), run.commit.as_deref()), ("0x7", Some("0123456789ab")));
    assert_eq!((run.machine.gpu.as_str(), run.machine.driver.as_deref()), ("simulated device", None));
    assert!(
        run.conditions[0].starts_with("virtual clock: predicted for NVIDIA H200"),
        "{:?}",
        run.conditions
    );
    assert!(run.ratios.is_empty(), "a prediction is not compared with a measurement");
    let all = |prefix: &str| run.measurements.iter().filter(|found| found.id.starts_with(prefix)).count();
    for prefix in
        ["sim/msm/g1/2^6", "sim/ntt/coset", "sim/field/fp_mul", "sim/upload", "host/fold", "sim/peers"]
    {
        assert!(all(prefix) > 0, "{prefix} in {:?}", run.measurements);
    }
    for found in &run.measurements {
        let is_host =
            found.id.starts_with("host/") || found.id.ends_with("arkworks") || found.id.ends_with("blst");
        assert_eq!(found.clock, if is_host { Clock::Wall } else { Clock::Virtual }, "{}", found.id);
        assert!(found.median_us > 0.0 && !found.samples_us.is_empty(), "{found:?}");
        assert!(found.median_interval_us.contains(found.median_us), "{found:?}");
        let has_one_clock = is_host || found.id.starts_with("sim/peers/");
        assert_eq!(found.wall_us.len(), if has_one_clock { 0 } else { found.samples_us.len() }, "{found:?}");
        if let Some(floor_us) = found.floor_us {
            assert!(floor_us < found.median_us, "no schedule is faster than its floor: {found:?}");
        }
    }
}

#[test]
fn a_peer_that_was_asked_for_and_cannot_run_is_skipped_in_one_line() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let json = directory.path().join("run.json");
    let line = ["bench", "--device", "sim", "--smoke", "--groups", "peers", "--only", "msm-g1,ntt"];
    let output = harness(&[&line[..], &["--json", text(&json)]].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    let run = Run::read(&json).expect("a run");
    let skipped: Vec<_> =
        run.skipped.iter().map(|found| (found.id.as_str(), found.reason.as_str())).collect();
    let reason = match sppark_peer::BUILD {
        Build::Off => None,
        Build::WithoutNvcc => Some("built without nvcc"),
        Build::Whole => Some("it runs on a CUDA device alone"),
    };
    assert_eq!(skipped, reason.map(|reason| ("peers/sppark", reason)).into_iter().collect::<Vec<_>>());
    let told: Vec<&str> = error.lines().filter(|line| line.contains("sppark")).collect();
    assert_eq!(told, reason.map(|reason| format!("sppark: skipped, {reason}")).iter().collect::<Vec<_>>());
    let everybody_else = ["gpu", "arkworks", "blst"].map(|who| format!("msm-g1/2^8/{who}"));
    for id in everybody_else {
        assert!(run.measurements.iter().any(|found| found.id.ends_with(&id)), "{id}");
    }
}

#[test]
fn b122_a_product_that_was_slowed_down_fails_the_gate() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| directory.path().join(name);
    let only = ["--groups", "sync", "--only", "sync/g1/2^8/uniform/4"];
    let (run, slow, baseline) = (at("run.json"), at("slow.json"), at("baseline.json"));
    let good = bench(&run, &only);
    assert_eq!(good.measurements.len(), 4, "three strategies, and one with pageable results");
    // The virtual clock is the same each time: one run stands for three.
    let three = [text(&run), text(&run), text(&run)];
    let made = harness(&[&["gate", "--make-baseline", text(&baseline)], &three[..]].concat());
    assert_eq!(made.status.code(), Some(0), "{}", String::from_utf8_lossy(&made.stderr));
    let planted = bench(&slow, &[&only[..], &["--planted-slowdown", "20"]].concat());
    assert_eq!(planted.planted_percent, Some(20.0));
    let again = bench(&at("again.json"), &only);
    for (before, after) in good.measurements.iter().zip(&again.measurements) {
        assert_eq!((&before.id, before.median_us), (&after.id, after.median_us), "the same clock");
    }
    let gate = |head: &Path, more: &[&str]| {
        let output = harness(&[&["gate", text(head), "--baseline", text(&baseline)], more].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert_eq!(gate(&at("again.json"), &[]).0, Some(0));
    let suspects = at("suspects");
    let (code, out) = gate(&slow, &["--suspects", text(&suspects)]);
    assert_eq!(code, Some(40), "{out}");
    let named = std::fs::read_to_string(&suspects).expect("the suspects");
    assert_eq!(named.split(',').count(), 4, "{named}");
    let (code, out) = gate(&slow, &["--rerun", text(&slow)]);
    assert_eq!(code, Some(10), "{out}");
    // The same files as a page, with a timeline beside them.
    let [timeline, trace, page] = ["timeline.json", "trace.json", "page.html"].map(at);
    let line =
        ["timeline", "--device", "sim", "--log-n", "8", "--runs", "1", "--strategy", "hard,deferred:2"];
    let files = ["--json", text(&timeline), "--trace", text(&trace), "--predict"];
    assert_eq!(harness(&[&line[..], &files].concat()).status.code(), Some(0));
    let file: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&trace).expect("a trace")).expect("JSON");
    let names = file["traceEvents"].as_array().expect("events").iter();
    let counters: Vec<_> =
        names.clone().filter(|event| event["ph"] == "C").map(|event| &event["name"]).collect();
    let of_bytes = |name: &&serde_json::Value| name.as_str().is_some_and(|name| name.starts_with("bytes "));
    assert!(
        !counters.is_empty() && counters.iter().all(of_bytes),
        "no power of a simulated device: {counters:?}"
    );
    assert_eq!(
        names.filter(|event| event["name"] == "process_name").count(),
        4,
        "two, each with its prediction"
    );
    let line = ["report", text(&slow), "--rerun", text(&slow), "--timeline", text(&timeline)];
    let output = harness(&[&line[..], &["--baseline", text(&baseline), "--out", text(&page)]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let page = std::fs::read_to_string(&page).expect("a page");
    assert!(page.contains("Slower than the baseline: yes, 4 of 4"), "{page}");
}

#[test]
fn what_cannot_be_measured_ends_with_its_exit_code() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let cases = directory.path().join("cases.toml");
    std::fs::write(&cases, "[sync]\n").expect("a file");
    for (line, message) in [
        (&["bench", "--groups", "speed"][..], "`speed` is not one of sync"),
        (&["bench", "--device", "sim", "--cases", text(&cases)], "cases.toml: "),
        (&["bench", "--device", "sim", "--planted-slowdown=-3"], "positive number of percent"),
    ] {
        let output = harness(line);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn what_was_measured_before_a_failure_is_kept() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let [json, cases, key] =
        ["run.json", "cases.toml", "sapling-output.params"].map(|name| directory.path().join(name));
    let sizes = include_str!("../../benches/cases.toml");
    let (before, proof) = sizes.split_once("[proof]").expect("sizes of proofs");
    let with_sapling = proof.replacen("smoke = [\"mimc:15\"]", "smoke = [\"sapling-output\"]", 1);
    std::fs::write(&cases, format!("{before}[proof]{with_sapling}")).expect("a file");
    std::fs::write(&key, "no key").expect("a file");
    let line = ["bench", "--device", "sim", "--smoke", "--groups", "field,proof", "--only", "fp_mul,proof"];
    let files = ["--json", text(&json), "--cases", text(&cases), "--params", text(directory.path())];
    let output = harness(&[&line[..], &files].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{error}");
    assert!(error.contains("sapling-output.params"), "{error}");
    let run = Run::read(&json).expect("a run");
    let ids: Vec<_> = run.measurements.iter().map(|found| found.id.as_str()).collect();
    assert_eq!(ids, ["sim/field/fp_mul_chain"]);
}

fn squares(values: &[Fq], count: u32) -> Vec<Fq> {
    values.iter().map(|value| (0..count).fold(*value, |value, _| value.square())).collect()
}

#[test]
fn b128_launches_that_are_queued_together_take_no_longer_than_with_a_wait_for_each() {
    let rng = &mut random_numbers(test_seed(), "launches");
    let values: Vec<Fq> = (0..256).map(|_| Fq::rand(rng)).collect();
    for device in support::devices() {
        let [queued, waited] = [Waiting::Once, Waiting::Each].map(|waiting| {
            let mut launches = Launches::new(&device, 64, waiting, &values).expect("launches");
            let mut times: Vec<f64> = Vec::new();
            for _ in 0..5 {
                let trace = launches.run().expect("a run");
                times.push(trace.spans.iter().map(|span| span.end_us).fold(0.0, f64::max));
            }
            assert_eq!(launches.values().expect("values"), squares(&values, 5 * 64), "{waiting:?}");
            times.into_iter().fold(f64::INFINITY, f64::min)
        });
        println!("{}: 64 launches in {queued:.1} us, waited for one by one {waited:.1} us", device.info().id);
        assert!(queued <= waited, "{}: {queued} and {waited}", device.info().id);
    }
}

#[test]
fn b129_ten_thousand_launches_without_a_wait_are_right_and_their_calls_are_told_apart() {
    let rng = &mut random_numbers(test_seed(), "launches");
    let values: Vec<Fq> = (0..32).map(|_| Fq::rand(rng)).collect();
    for device in support::devices() {
        let count = match device.info().kind {
            DeviceKind::Cuda => 10_000,
            DeviceKind::Sim => 1_000,
        };
        let mut launches = Launches::new(&device, count, Waiting::Once, &values).expect("launches");
        let trace = launches.run().expect("a run");
        assert_eq!(launches.values().expect("values"), squares(&values, count));
        let (first_us, last_us) = launches.call_us(&trace);
        println!("{}: a call takes {first_us:.2} us at first, {last_us:.2} us in the end", device.info().id);
        assert!(first_us > 0.0 && last_us > 0.0, "{first_us} {last_us}");
    }
}

/// What b132 runs in a process of its own.
#[test]
fn needs_a_gpu() {
    println!("{} CUDA devices", support::cuda().len());
}

#[test]
fn b132_a_missing_gpu_is_skipped_aloud_and_fails_where_one_is_required() {
    let run = |required: &str| {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "needs_a_gpu", "--nocapture"]);
        command.env("CUDA_VISIBLE_DEVICES", "").env("REQUIRE_GPU", required);
        command.output().expect("the program starts")
    };
    let (skipped, required) = (run("0"), run("1"));
    assert!(skipped.status.success());
    let out = String::from_utf8_lossy(&skipped.stdout);
    assert!(out.contains("skipped: no CUDA device") && out.contains("0 CUDA devices"), "{out}");
    assert!(!required.status.success());
    let error = String::from_utf8_lossy(&required.stderr);
    assert!(error.contains("REQUIRE_GPU is 1"), "{error}");
}
