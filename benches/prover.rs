//! `cargo bench`: all groups of benchmarks, on the first CUDA device, or on the simulated device's virtual clock where there
//! is none; ids say which (`sim/...`).
//!
//! Options are criterion's: a part of an id to run only what has it, `--save-baseline NAME`, `--baseline NAME`; `--quick`
//! takes smoke sizes too. `harness bench` runs the same without cargo, and writes the run as a file.

use harness::bench::cases::{Cases, Scale};
use harness::bench::{Group, Session, Settings};
use harness::commands::bench::device;
use harness::devices::DeviceChoice;
use std::process::ExitCode;

/// Options of criterion's that take a value.
const WITH_VALUE: &[&str] = &[
    "-c",
    "--color",
    "-s",
    "--save-baseline",
    "-b",
    "--baseline",
    "--baseline-lenient",
    "--format",
    "--profile-time",
    "--load-baseline",
    "--sample-size",
    "--warm-up-time",
    "--measurement-time",
    "--nresamples",
    "--noise-threshold",
    "--confidence-level",
    "--significance-level",
    "--plotting-backend",
    "--output-format",
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |option: &str| args.iter().any(|arg| arg == option);
    if has("--list") {
        println!("ids depend on the device: run with --quick to see them");
        return ExitCode::SUCCESS;
    }
    // `cargo test --benches` runs everything once.
    let scale = if has("--quick") || has("--test") { Scale::Smoke } else { Scale::Full };
    let settings = Settings {
        cases: Cases::built_in(),
        scale,
        seed: 0x62_65_6e_63_68,
        params: None,
        only: filter(&args).into_iter().collect(),
        planted_percent: None,
    };
    let mut criterion = Session::criterion(&settings).configure_from_args();
    let outcome = device(DeviceChoice::Auto)
        .and_then(|device| Session::new(&device, settings, &mut criterion).run(&Group::ALL));
    criterion.final_summary();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

/// The part of an id that criterion filters by: what is neither an option nor an option's value. Looked at here too, so that
/// what is not run is not prepared.
fn filter(args: &[String]) -> Option<String> {
    let mut before = "";
    args.iter()
        .find(|arg| {
            let is_filter = !arg.starts_with('-') && !WITH_VALUE.contains(&before);
            before = arg.as_str();
            is_filter
        })
        .cloned()
}
