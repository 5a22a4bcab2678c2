//! The command-line program. Without a command it is `harness check`.

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use harness::commands::bench::{self, BenchArgs};
use harness::commands::check::{self, CheckArgs};
use harness::commands::doctor::{self, DoctorArgs};
use harness::commands::faults::{self, FaultsArgs};
use harness::commands::gate::{self, GATE_EXIT_CODES, GateArgs};
use harness::commands::goals::{self, GoalsArgs};
use harness::commands::inspect::{self, InspectArgs};
use harness::commands::mutants::{self, MutantsArgs};
use harness::commands::prove::{self, ProveArgs};
use harness::commands::report::{self, ReportArgs};
use harness::commands::schedule::{self, ScheduleArgs};
use harness::commands::soak::{self, SoakArgs};
use harness::commands::timeline::{self, TimelineArgs};
use harness::commands::verify::{self, VerifyArgs};
use harness::error::{EXIT_CODES, Failure, Judgement};
use harness::report::wants_colour;
use std::io::Write;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

/// Shows that the GPU prover's products are right, on every device and under every synchronisation strategy.
///
/// Without a command: `check` with the options given.
#[derive(Debug, Parser)]
#[command(version, after_help = EXIT_CODES, after_long_help = EXIT_CODES, args_conflicts_with_subcommands = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    check: CheckArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Checks products over the Zcash Sapling proving keys against arkworks
    #[command(after_help = EXIT_CODES, after_long_help = EXIT_CODES)]
    Check(CheckArgs),
    /// Proves a circuit on a device, and shows the proof to verifiers that are not ours
    #[command(after_help = EXIT_CODES, after_long_help = EXIT_CODES)]
    Prove(ProveArgs),
    /// Shows a proof to verifiers that are not ours, under a key of any kind
    #[command(after_help = EXIT_CODES, after_long_help = EXIT_CODES)]
    Verify(VerifyArgs),
    /// Says what a key, a witness or constraints hold, and what memory a proof takes
    #[command(after_help = EXIT_CODES, after_long_help = EXIT_CODES)]
    Inspect(InspectArgs),
    /// Says what this machine has of driver, devices and compiler, and how to mend what is missing
    #[command(after_help = EXIT_CODES, after_long_help = EXIT_CODES)]
    Doctor(DoctorArgs),
    /// Prints a schedule, what the checker says of it, its memory, and its predicted timeline
    #[command(after_help = EXIT_CODES, after_long_help = EXIT_CODES)]
    Schedule(ScheduleArgs),
    /// Shows schedules with one mistake each to the checker, the simulated device and the estimator
    #[command(after_help = EXIT_CODES, after_long_help = EXIT_CODES)]
    Mutants(MutantsArgs),
    /// Fails the k-th call of each kind, for every k of every strategy, and looks at what comes of it
    #[command(after_help = EXIT_CODES, after_long_help = EXIT_CODES)]
    Faults(FaultsArgs),
    /// Draws products at random until told to stop, and compares each with the oracle's
    #[command(after_help = EXIT_CODES, after_long_help = EXIT_CODES)]
    Soak(SoakArgs),
    /// Measures strategies side by side, each beside its prediction
    #[command(after_help = EXIT_CODES, after_long_help = EXIT_CODES)]
    Timeline(TimelineArgs),
    /// Measures products, transforms, proofs and what they are made of, and writes a run
    #[command(after_help = EXIT_CODES, after_long_help = EXIT_CODES)]
    Bench(BenchArgs),
    /// Measures what has a goal, and says how each stands: beside the best peer, what is asked for, what is aimed at
    #[command(after_help = EXIT_CODES, after_long_help = EXIT_CODES)]
    Goals(GoalsArgs),
    /// Compares a run with a baseline, or makes a baseline of runs
    #[command(after_help = GATE_EXIT_CODES, after_long_help = GATE_EXIT_CODES)]
    Gate(GateArgs),
    /// Writes runs, timelines and a baseline as one page for a browser
    #[command(after_help = EXIT_CODES, after_long_help = EXIT_CODES)]
    Report(ReportArgs),
    /// Prints a script that completes this program's command line, for a shell to read
    #[command(after_help = EXIT_CODES, after_long_help = EXIT_CODES)]
    Completions {
        /// Which shell
        shell: Shell,
    },
}

/// The script goes through memory: the library panics where a pipe is closed.
fn completions(shell: Shell, out: &mut dyn Write) -> Result<Judgement, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut CommandLine::command(), "harness", &mut script);
    out.write_all(&script).map_err(Failure::output)?;
    Ok(Judgement::Good)
}

fn main() -> ExitCode {
    let line = CommandLine::parse();
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .with_span_events(FmtSpan::CLOSE)
        .with_ansi(wants_colour(&std::io::stderr()))
        .init();
    let out = &mut std::io::stdout().lock();
    let outcome = match line.command {
        None => check::run(&line.check, out),
        Some(Command::Check(args)) => check::run(&args, out),
        Some(Command::Prove(args)) => prove::run(&args, out),
        Some(Command::Verify(args)) => verify::run(&args, out),
        Some(Command::Inspect(args)) => inspect::run(&args, out),
        Some(Command::Doctor(args)) => doctor::run(&args, out),
        Some(Command::Schedule(args)) => schedule::run(&args, out),
        Some(Command::Mutants(args)) => mutants::run(&args, out),
        Some(Command::Faults(args)) => faults::run(&args, out),
        Some(Command::Soak(args)) => soak::run(&args, out),
        Some(Command::Timeline(args)) => timeline::run(&args, out),
        Some(Command::Bench(args)) => bench::run(&args, out),
        Some(Command::Goals(args)) => goals::run(&args, out),
        Some(Command::Report(args)) => report::run(&args, out),
        Some(Command::Gate(args)) => {
            return gate::run(&args, out).map_or_else(exit_with, ExitCode::from);
        }
        Some(Command::Completions { shell }) => completions(shell, out),
    };
    match outcome {
        Ok(judgement) => ExitCode::from(judgement.exit_code()),
        Err(failure) => exit_with(failure),
    }
}

fn exit_with(failure: Failure) -> ExitCode {
    eprintln!("error: {failure}");
    ExitCode::from(failure.exit_code())
}
