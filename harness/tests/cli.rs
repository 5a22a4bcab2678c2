//! The program as a user runs it: exit codes, help, the report on standard output and in a file.

use serde_json::Value;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn harness() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
    command.env_remove("RUST_LOG").env_remove("NO_COLOR");
    command
}

fn run(args: &[&str]) -> Output {
    harness().args(args).output().expect("the program starts")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("the program ends by itself")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the program prints text")
}

#[test]
fn a_quick_check_is_good_and_says_so_twice() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("report.json");
    let json = path.to_str().expect("the path is text");
    let output = run(&["check", "--quick", "--device", "sim", "--seed", "0x2a", "--json", json]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(code(&output), 0, "{out}\n{err}");
    assert!(out.contains("SHA-256 2f0ebbcb"), "{out}");
    assert!(!out.contains('\u{1b}'), "no colour on a pipe");
    assert!(err.contains("output.h_query: 8 of 8 equal"), "{err}");

    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(path).expect("a report")).expect("JSON");
    assert_eq!(report["seed"], "0x2a");
    assert_eq!(report["oracle"], "arkworks 0.6.0");
    assert_eq!(report["devices"][0]["id"], "sim");
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 5 * 2 * 4, "five queries, two flavours, two counts in two ways");
    assert!(out.contains(&format!("{0} of {0} products equal arkworks'", rows.len())), "{out}");
    for row in rows {
        assert_eq!(row["result"], "equal", "{row}");
        assert!(row["wall_us"].as_f64().expect("a time") > 0.0, "{row}");
        assert_eq!(row["idle"]["is_virtual"], true, "{row}");
    }
    let groups: Vec<_> = rows.iter().filter(|row| row["group"] == "g2").collect();
    assert_eq!(groups.len(), 8, "one query of five is in G2");
}

#[test]
fn without_a_command_it_checks() {
    let only = ["--only", "output.b_g1_query/witness-like/1/hard"];
    let short = run(&[&["--quick", "--device", "sim"], &only[..]].concat());
    let long = run(&[&["check", "--quick", "--device", "sim"], &only[..]].concat());
    assert_eq!((code(&short), code(&long)), (0, 0), "{}", text(&short.stderr));
    for output in [short, long] {
        assert!(text(&output.stdout).contains("1 of 1 products equal"), "{}", text(&output.stdout));
    }
}

#[test]
fn help_documents_the_exit_codes() {
    for args in [&["--help"][..], &["check", "--help"], &["schedule", "--help"]] {
        let output = run(args);
        let out = text(&output.stdout);
        assert_eq!(code(&output), 0);
        for exit_code in 0..=4 {
            assert!(out.contains(&format!("\n  {exit_code}  ")), "code {exit_code} in\n{out}");
        }
    }
}

#[test]
fn what_cannot_be_asked_is_exit_code_2() {
    let cases: [(&[&str], &str); 7] = [
        (&["check", "--device", "gpu"], "`gpu` is not `auto`"),
        (&["check", "--seed", "zebra"], "`zebra` is not a seed"),
        (&["check", "--quick", "--full"], "cannot be used with"),
        (&["check", "--device", "sim", "--quick", "--only", "no such product"], "no product has"),
        (&["schedule", "--strategy", "soft"], "`soft` is not `hard`"),
        (&["schedule", "--batches", "0"], "at least one batch"),
        (&["fly"], "unrecognized subcommand"),
    ];
    for (args, message) in cases {
        let output = run(args);
        let err = text(&output.stderr);
        assert_eq!(code(&output), 2, "{args:?}: {err}");
        assert!(err.contains(message), "{args:?}: {err}");
        assert!(!err.contains("panicked"), "{err}");
    }
}

#[test]
fn b89_a_hidden_cuda_device_is_an_error_within_seconds() {
    let (check, prove): (&[&str], &[&str]) = (&["check", "--quick"], &["prove", "--circuit", "mimc:3"]);
    for (command, device) in [(check, "cuda"), (check, "cuda:0"), (check, "cuda:7"), (prove, "cuda")] {
        let start = Instant::now();
        let mut harness = harness();
        harness.args(command).args(["--device", device]).env("CUDA_VISIBLE_DEVICES", "");
        let output = harness.output().expect("the program starts");
        let err = text(&output.stderr);
        assert_eq!(code(&output), 3, "{command:?} {device}: {err}");
        assert!(err.starts_with("error: no CUDA d"), "a driver or a device is missing: {err}");
        assert!(start.elapsed() < Duration::from_secs(5), "{command:?} {device}: {:?}", start.elapsed());
    }
}

/// A proof is announced with what it will take of memory; so is its schedule.
#[test]
fn b77_memory_is_estimated_before_anything_is_proved() {
    let output = run(&["prove", "--circuit", "mimc:3", "--device", "sim"]);
    let out = text(&output.stdout);
    assert_eq!(code(&output), 0, "{out}");
    let (estimate, proof) =
        (out.find("memory that mimc:3 on sim takes: "), out.find("mimc:3 on sim, key from"));
    assert!(estimate.is_some() && estimate < proof, "{out}");
    let output = run(&["schedule", "--proof", "mimc:3"]);
    let out = text(&output.stdout);
    let memory = out.lines().find(|line| line.starts_with("memory: ")).expect("a line on memory");
    assert!(memory.contains(" page-locked on the host, ") && memory.ends_with(" besides"), "{memory}");
}

#[test]
fn a_missing_key_file_is_exit_code_4_with_its_path() {
    let output = run(&["check", "--quick", "--device", "sim", "--params", "/nowhere"]);
    let err = text(&output.stderr);
    assert_eq!(code(&output), 4, "{err}");
    assert!(err.starts_with("error: /nowhere/sapling-output.params: "), "{err}");
}

#[test]
fn keys_are_read_from_a_directory_and_known_by_their_hash() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("sapling-output.params");
    std::fs::write(&path, b"these are not the parameters").expect("a file");
    let params = directory.path().to_str().expect("the path is text");
    let output = run(&["check", "--quick", "--device", "sim", "--params", params]);
    assert_eq!(code(&output), 4);
    assert!(text(&output.stderr).contains("is not the published"), "{}", text(&output.stderr));
}

#[test]
fn a_schedule_is_a_page_and_a_file() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("schedule.json");
    let json = path.to_str().expect("the path is text");
    let line = ["schedule", "--group", "g2", "--n", "5000", "--batches", "4", "--json", json];
    let output = run(&line);
    let out = text(&output.stdout);
    assert_eq!(code(&output), 0, "{out}");
    assert!(out.starts_with("schedule msm g2 n=5000 batches=4 deferred:2"), "{out}");
    assert!(out.contains("checker: no hazards"), "{out}");
    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(path).expect("a report")).expect("JSON");
    let (ops, spans) = (&report["schedule"]["ops"], &report["spans"]);
    assert_eq!(ops.as_array().expect("operations").len(), spans.as_array().expect("spans").len());
    assert_eq!(report["check"]["hazards"], Value::Array(Vec::new()));
    assert_eq!(report["memory"]["resident_bytes"], 5000 * 192);
}

/// What this process has mapped, after a product on the simulated device: nothing of CUDA.
#[test]
#[cfg(target_os = "linux")]
fn b92_the_simulated_device_opens_no_cuda_library() {
    use clap::Parser;
    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: harness::commands::check::CheckArgs,
    }
    let only = "output.b_g1_query/witness-like/1/hard";
    let line = Line::parse_from(["check", "--quick", "--device", "sim", "--only", only]);
    harness::commands::check::run(&line.args, &mut Vec::new()).expect("a report");
    let maps = std::fs::read_to_string("/proc/self/maps").expect("what is mapped");
    assert!(maps.contains("libc"), "the list is read");
    for library in ["libcuda", "libnvrtc", "libnvidia"] {
        assert!(!maps.contains(library), "{library} is mapped");
    }
}
