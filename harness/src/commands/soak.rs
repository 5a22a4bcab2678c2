//! `harness soak`: products drawn at random until told to stop.

use crate::devices::DeviceChoice;
use crate::error::{Failure, Judgement};
use crate::mutants::{MUTANTS, Mutant};
use crate::oracle::parse_seed;
use crate::report::write_json;
use crate::soak::{Draw, Soak, SoakFailure};
use gpu_core::DeviceKind;
use gpu_core::sim::SimOptions;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(10);

/// Draws products at random and compares each with the oracle's, until told to stop. Exits with 1 at the
/// first that is wrong, with a line that repeats it.
#[derive(Debug, Clone, clap::Args)]
pub struct SoakArgs {
    /// Where to run: `auto` (the simulated device, and every CUDA device), `sim`, `cuda` or `cuda:N`
    #[arg(long, default_value_t = DeviceChoice::Auto, value_name = "DEVICE")]
    pub device: DeviceChoice,
    /// Seed of everything that is drawn; the clock if not given
    #[arg(long, value_parser = parse_seed)]
    pub seed: Option<u64>,
    /// Stops after so many minutes
    #[arg(long, value_name = "MINUTES")]
    pub minutes: Option<f64>,
    /// Stops after so many products
    #[arg(long, value_name = "COUNT")]
    pub iterations: Option<u64>,
    /// Products at a time, on the simulated device; as many as there are processors if not given. A CUDA
    /// device has one
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=256))]
    pub threads: Option<u64>,
    /// Repeats one product: the seed and the number that a failure printed
    #[arg(long, value_name = "SEED:ITERATION", value_parser = parse_replay)]
    #[arg(conflicts_with_all = ["seed", "iterations", "minutes"])]
    pub replay: Option<(u64, u64)>,
    /// Changes every schedule on the simulated device by a mutant, to see that the soak can fail
    #[arg(long, value_name = "NAME", value_parser = parse_mutant)]
    pub mutant: Option<&'static Mutant>,
    /// Writes a summary to a file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

fn parse_replay(text: &str) -> Result<(u64, u64), String> {
    let (seed, iteration) = text.split_once(':').ok_or_else(|| format!("`{text}` is not SEED:ITERATION"))?;
    let number = iteration.parse().map_err(|error| format!("`{iteration}` is not a number: {error}"))?;
    Ok((parse_seed(seed)?, number))
}

fn parse_mutant(text: &str) -> Result<&'static Mutant, String> {
    Mutant::named(text).ok_or_else(|| {
        let names: Vec<_> = MUTANTS.iter().map(|mutant| mutant.name).collect();
        format!("`{text}` is not one of {}", names.join(", "))
    })
}

/// What `--json` writes.
#[derive(Debug, Serialize)]
struct Report {
    harness: &'static str,
    seed: String,
    devices: Vec<String>,
    products: u64,
    elapsed_s: f64,
    by_strategy: BTreeMap<String, u64>,
    failure: Option<String>,
}

/// Products that were right, and the first that was not.
#[derive(Debug, Default)]
struct Tally {
    by_strategy: BTreeMap<String, u64>,
    failure: Option<Box<SoakFailure>>,
}

impl Tally {
    fn note(&mut self, outcome: Result<Draw, Box<SoakFailure>>) {
        match outcome {
            Ok(draw) => *self.by_strategy.entry(draw.pattern.to_string()).or_default() += 1,
            // Of those that run at once, the one that was drawn first.
            Err(failure) => {
                if self.failure.as_ref().is_none_or(|other| failure.draw.iteration < other.draw.iteration) {
                    self.failure = Some(failure);
                }
            }
        }
    }

    fn products(&self) -> u64 {
        self.by_strategy.values().sum()
    }
}

/// Runs the command; the result goes to `out`, progress to standard error.
///
/// # Errors
/// [`Failure`] where there is no such device, or the report cannot be written.
pub fn run(args: &SoakArgs, out: &mut dyn Write) -> Result<Judgement, Failure> {
    let devices = args.device.open(SimOptions::default())?.devices;
    let ids: Vec<String> = devices.iter().map(|device| device.info().id.clone()).collect();
    let clock = || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(0, |since| since.as_nanos() as u64)
    };
    let (seed, numbers) = match args.replay {
        Some((seed, iteration)) => (seed, iteration..iteration + 1),
        None => (args.seed.unwrap_or_else(clock), 0..args.iterations.unwrap_or(u64::MAX)),
    };
    let only_sim = devices.iter().all(|device| device.info().kind == DeviceKind::Sim);
    let threads = match (only_sim, args.threads) {
        (false, _) => 1,
        (true, Some(threads)) => threads,
        (true, None) => std::thread::available_parallelism().map_or(1, |count| count.get() as u64),
    };
    let soak = Soak::new(seed, devices, args.mutant);
    let start = Instant::now();
    let end = args.minutes.map(|minutes| start + Duration::from_secs_f64(minutes.clamp(0.0, 1e6) * 60.0));
    let (next, tally) = (AtomicU64::new(numbers.start), Mutex::new(Tally::default()));
    let work = || loop {
        let iteration = next.fetch_add(1, Ordering::Relaxed);
        if iteration >= numbers.end || end.is_some_and(|end| Instant::now() >= end) {
            break;
        }
        let outcome = soak.iterate(iteration);
        let mut tally = tally.lock().expect("counting does not panic");
        tally.note(outcome);
        if tally.failure.is_some() {
            break;
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut shown = Instant::now();
        while !workers.iter().all(|worker| worker.is_finished()) {
            std::thread::sleep(Duration::from_millis(20));
            if shown.elapsed() >= PROGRESS {
                shown = Instant::now();
                let products = tally.lock().expect("counting does not panic").products();
                eprintln!("{products} products right, {:.0} s", start.elapsed().as_secs_f64());
            }
        }
    });
    let tally = tally.into_inner().expect("counting does not panic");
    let elapsed_s = start.elapsed().as_secs_f64();
    let failure = tally.failure.as_deref().map(|failure| failure_line(args, failure));
    let products = tally.products();
    let write = |out: &mut dyn Write| -> std::io::Result<()> {
        if let Some(line) = &failure {
            writeln!(out, "{line}")?;
        }
        for (strategy, count) in &tally.by_strategy {
            writeln!(out, "{count:>8}  {strategy}")?;
        }
        let rate = products as f64 / elapsed_s;
        writeln!(
            out,
            "{products} products right on {} ({elapsed_s:.1} s, {rate:.0}/s, seed {seed:#x})",
            ids.join(", ")
        )
    };
    write(out).map_err(Failure::output)?;
    let judgement = if failure.is_some() { Judgement::Bad } else { Judgement::Good };
    if let Some(path) = &args.json {
        let report = Report {
            harness: env!("CARGO_PKG_VERSION"),
            seed: format!("{seed:#x}"),
            devices: ids,
            products,
            elapsed_s,
            by_strategy: tally.by_strategy,
            failure,
        };
        write_json(path, &report)?;
    }
    Ok(judgement)
}

/// All of a failure in one line, which begins with the command that repeats it.
fn failure_line(args: &SoakArgs, failure: &SoakFailure) -> String {
    let SoakFailure { draw, device, what } = failure;
    let mutant = args.mutant.map(|mutant| format!(" --mutant {}", mutant.name)).unwrap_or_default();
    let replay = format!("--replay {:#x}:{}", draw.seed, draw.iteration);
    format!("harness soak {replay} --device {device}{mutant}  # {draw}: {what}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: SoakArgs,
    }

    #[test]
    fn a_failure_s_line_leads_back_to_its_draw() {
        let args = Line::parse_from(["soak", "--device", "sim", "--mutant", "collected-twice"]).args;
        let draw = Draw::new(0x1f, 12);
        let failure = SoakFailure { draw, device: "sim".into(), what: "expected P, found Q".into() };
        let line = failure_line(&args, &failure);
        assert!(!line.contains('\n'), "{line}");
        let command = line.split("  # ").next().expect("the command");
        let again = Line::parse_from(command.split(' ').skip(1)).args;
        assert_eq!(again.replay, Some((0x1f, 12)));
        assert_eq!(again.device, DeviceChoice::Sim);
        assert_eq!(again.mutant.map(|mutant| mutant.name), Some("collected-twice"));
    }

    #[test]
    fn what_cannot_be_repeated_is_refused() {
        for text in ["", "7", "7:", ":7", "7:x", "x:7"] {
            assert!(parse_replay(text).is_err(), "{text}");
        }
        assert_eq!(parse_replay("0x10:3"), Ok((16, 3)));
        let error = parse_mutant("colected-twice").expect_err("misspelt");
        assert!(error.contains("collected-twice"), "{error}");
    }
}
