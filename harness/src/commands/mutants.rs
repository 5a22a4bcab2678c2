//! `harness mutants`: schedules with one mistake each, and who sees it.

use crate::error::{Failure, Judgement};
use crate::mutants::{
    Deletion, Expected, Judge, MUTANTS, Mutant, Observation, Options, Outcome, Sight, observe,
};
use crate::oracle::parse_seed;
use crate::report::{new_table, write_json};
use comfy_table::Cell;
use gpu_core::check::HazardKind;
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

/// Shows schedules with one mistake each to the checker, the simulated device and the estimator, and exits
/// with 1 if a mutant survives whoever must see it.
#[derive(Debug, Clone, clap::Args)]
pub struct MutantsArgs {
    /// Random orders for each mutant in each case, besides the earliest and the latest
    #[arg(long, default_value_t = 16)]
    pub orders: u64,
    /// Seed of points and scalars
    #[arg(long, default_value = "0x6d7574616e7400", value_parser = parse_seed)]
    pub seed: u64,
    /// Only mutants with this text in their name
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// Leaves out each check of each judge in turn, and shows which mutants then survive
    #[arg(long)]
    pub ablate: bool,
    /// Writes everything to a file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// What `--json` writes.
#[derive(Debug, Serialize)]
struct Report<'a> {
    harness: &'static str,
    seed: String,
    orders: u64,
    mutants: Vec<MutantReport<'a>>,
    ablation: Vec<Ablated>,
}

#[derive(Debug, Serialize)]
struct MutantReport<'a> {
    name: &'static str,
    models: &'static str,
    must_be_seen_by: BTreeSet<Judge>,
    seen_by: BTreeSet<Judge>,
    problems: Vec<String>,
    sights: &'a [Sight],
}

/// What leaving out one check lets through.
#[derive(Debug, Clone, Serialize)]
pub struct Ablated {
    /// Whose check.
    pub judge: Judge,
    /// Which check.
    pub check: String,
    /// Mutants that its judge then misses.
    pub missed: Vec<&'static str>,
    /// Those of them that nobody else sees either.
    pub survive: Vec<&'static str>,
}

/// Leaves out each check in turn.
pub fn ablate(observations: &[Observation]) -> Vec<Ablated> {
    let ablated = |deletion: Deletion| {
        let is_missed = |observation: &&Observation| {
            let judge = deletion.judge();
            observation.must_see().contains(&judge) && !observation.seen_by(Some(deletion)).contains(&judge)
        };
        let missed: Vec<_> = observations.iter().filter(is_missed).collect();
        let survive = missed.iter().filter(|observation| observation.seen_by(Some(deletion)).is_empty());
        Ablated {
            judge: deletion.judge(),
            check: deletion.to_string(),
            survive: survive.map(|observation| observation.mutant.name).collect(),
            missed: missed.iter().map(|observation| observation.mutant.name).collect(),
        }
    };
    Deletion::all().into_iter().map(ablated).collect()
}

/// Runs the command.
///
/// # Errors
/// [`Failure::Usage`] where no mutant is called so.
pub fn run(args: &MutantsArgs, out: &mut dyn Write) -> Result<Judgement, Failure> {
    let only = args.only.as_deref().unwrap_or_default();
    let chosen: Vec<&'static Mutant> = MUTANTS.iter().filter(|mutant| mutant.name.contains(only)).collect();
    if chosen.is_empty() {
        return Err(Failure::Usage(format!("no mutant has `{only}` in its name")));
    }
    let observations = observe(&chosen, &Options { seed: args.seed, orders: args.orders });
    let ablation = if args.ablate { ablate(&observations) } else { Vec::new() };
    write_text(&observations, &ablation, out).map_err(Failure::output)?;
    let reports: Vec<_> = observations.iter().map(report).collect();
    let judgement = match reports.iter().all(|report| report.problems.is_empty()) {
        true => Judgement::Good,
        false => Judgement::Bad,
    };
    if let Some(path) = &args.json {
        let report = Report {
            harness: env!("CARGO_PKG_VERSION"),
            seed: format!("{:#x}", args.seed),
            orders: args.orders,
            mutants: reports,
            ablation,
        };
        write_json(path, &report)?;
    }
    Ok(judgement)
}

fn report(observation: &Observation) -> MutantReport<'_> {
    MutantReport {
        name: observation.mutant.name,
        models: observation.mutant.models,
        must_be_seen_by: observation.must_see(),
        seen_by: observation.seen_by(None),
        problems: observation.problems(),
        sights: &observation.sights,
    }
}

fn write_text(
    observations: &[Observation],
    ablation: &[Ablated],
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let mut table = new_table();
    table.set_header(["mutant", "cases", "checker", "simulation", "estimator", "verdict"]);
    for observation in observations {
        let verdict = match (observation.problems().is_empty(), observation.mutant.expected) {
            (false, _) => "PROBLEM".into(),
            (true, Expected::Nothing) => "no mutant: passed by all".into(),
            (true, _) => format!("seen by {}", words(observation.seen_by(None).iter())),
        };
        table.add_row([
            observation.mutant.name.to_string(),
            observation.sights.len().to_string(),
            checker_text(observation),
            simulation_text(observation),
            estimator_text(observation),
            verdict,
        ]);
    }
    writeln!(out, "{table}")?;
    for observation in observations {
        writeln!(out, "{}: {}", observation.mutant.name, observation.mutant.models)?;
        for message in messages(observation) {
            writeln!(out, "  {message}")?;
        }
    }
    if !ablation.is_empty() {
        write_ablation(ablation, out)?;
    }
    let problems: Vec<_> = observations
        .iter()
        .flat_map(|observation| observation.problems().into_iter().map(move |p| (observation, p)))
        .collect();
    for (observation, problem) in &problems {
        writeln!(out, "PROBLEM {}: {problem}", observation.mutant.name)?;
    }
    let mutants = observations.iter().filter(|observation| observation.mutant.expected != Expected::Nothing);
    let runs: usize =
        observations.iter().flat_map(|observation| &observation.sights).map(|s| s.runs.len()).sum();
    writeln!(out, "{} mutants, {runs} simulated runs, {} problems", mutants.count(), problems.len())
}

fn write_ablation(ablation: &[Ablated], out: &mut dyn Write) -> std::io::Result<()> {
    let mut table = new_table();
    table.set_header(["without the", "check", "it misses", "nobody sees"]);
    for Ablated { judge, check, missed, survive } in ablation {
        let names = |names: &[&str]| if names.is_empty() { "-".into() } else { names.join("\n") };
        let missed = format!("{}\n{}", missed.len(), missed.join("\n"));
        table.add_row([
            Cell::new(judge),
            Cell::new(check),
            Cell::new(missed.trim_end()),
            Cell::new(names(survive)),
        ]);
    }
    writeln!(out, "\n{table}")
}

fn words<T: std::fmt::Display>(items: impl Iterator<Item = T>) -> String {
    items.map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

fn checker_text(observation: &Observation) -> String {
    let hazards = || observation.sights.iter().flat_map(|sight| &sight.report.hazards);
    let kinds: BTreeSet<HazardKind> = hazards().map(|hazard| hazard.kind).collect();
    let surplus: usize = observation.sights.iter().map(|sight| sight.report.surplus.len()).sum();
    match (kinds.is_empty(), surplus) {
        (true, 0) => "-".into(),
        (true, surplus) => format!("{surplus} surplus waits"),
        (false, _) => kinds
            .into_iter()
            .map(|kind| format!("{kind:?}: {}", hazards().filter(|hazard| hazard.kind == kind).count()))
            .collect::<Vec<_>>()
            .join("\n"),
    }
}

fn simulation_text(observation: &Observation) -> String {
    let runs = || observation.sights.iter().flat_map(|sight| &sight.runs);
    if runs().next().is_none() {
        return "cannot run".into();
    }
    let shown = observation.sights.iter().filter(|sight| sight.shown(None).is_some()).count();
    let count = |is: fn(&Outcome) -> bool| runs().filter(|run| is(&run.outcome)).count();
    match shown {
        0 => format!("right in {} runs", runs().count()),
        _ => {
            let wrong = count(|outcome| *outcome == Outcome::WrongPoint);
            let errors = count(|outcome| matches!(outcome, Outcome::Error(_)));
            format!("shown in {shown} cases:\n{wrong} wrong points, {errors} errors")
        }
    }
}

fn estimator_text(observation: &Observation) -> String {
    let shares = || observation.sights.iter().filter_map(|sight| sight.gain.and_then(|gain| gain.share()));
    let (least, most) =
        shares().fold((f64::MAX, f64::MIN), |(low, high), share| (low.min(share), high.max(share)));
    match observation.mutant.expected {
        Expected::NoGain | Expected::Nothing if shares().next().is_some() => {
            format!("{:.0} to {:.0} %\nof the gain", 100.0 * least, 100.0 * most)
        }
        _ => "-".into(),
    }
}

/// The first thing that each judge says.
fn messages(observation: &Observation) -> Vec<String> {
    let sights = &observation.sights;
    let hazard =
        sights.iter().find_map(|sight| Some((sight.case, sight.report.hazards.first()?.to_string())));
    let surplus =
        sights.iter().find_map(|sight| Some((sight.case, sight.report.surplus.first()?.to_string())));
    let run = sights.iter().find_map(|sight| Some((sight.case, sight.shown(None)?.to_string())));
    let said = [("checker", hazard.or(surplus)), ("simulation", run)];
    said.into_iter()
        .filter_map(|(judge, said)| said.map(|(case, text)| format!("{judge}, {case}: {text}")))
        .collect()
}
