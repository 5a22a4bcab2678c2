//! `harness schedule`: what an MSM, or a whole proof, would do, before anything does it.

use crate::circuits::{CircuitName, constraints};
use crate::error::{Failure, Judgement};
use crate::oracle::random_numbers;
use crate::report::{bytes_text, write_json};
use gpu_core::check::{Report, check};
use gpu_core::model::{Profile, Span, Timeline, estimate};
use gpu_core::schedule::{Action, Schedule, Space};
use groth16::{MemoryEstimate, ProofPlan, ProveConfig, Shape};
use msm_gpu::{DeviceLimits, GroupKind, MsmConfig, MsmPlan, ScalarForm, Strategy};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

/// Threads that one multiprocessor of every chip of the profiles holds.
const SM_THREADS: u64 = 2048;

/// G1 or G2, on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Group {
    /// Points over Fp
    G1,
    /// Points over Fp2
    G2,
}

/// Prints a schedule, what the checker says of it, its memory, and its predicted timeline.
#[derive(Debug, Clone, clap::Args)]
pub struct ScheduleArgs {
    /// The schedule of a whole proof, of `sapling-output`, `sapling-spend` or `mimc:ROUNDS`
    #[arg(long, value_name = "CIRCUIT", conflicts_with_all = ["group", "n", "log_n"])]
    pub proof: Option<CircuitName>,
    /// Group
    #[arg(long, value_enum, default_value_t = Group::G1)]
    pub group: Group,
    /// Number of points
    #[arg(long, conflicts_with = "log_n")]
    pub n: Option<u64>,
    /// Number of points, as a power of two
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=40))]
    pub log_n: u32,
    /// Number of batches; 4 of an MSM and 1 of each product of a proof if not given
    #[arg(long)]
    pub batches: Option<u32>,
    /// What the host does between batches: `hard`, `deferred:N` with N result slots, or `on-device`
    #[arg(long, default_value_t = Strategy::Deferred { buffers: 2 })]
    pub strategy: Strategy,
    /// Bits of a window, 2 to 24; the cheapest if not given
    #[arg(long)]
    pub window_bits: Option<u32>,
    /// Device profile: h200, rtx_4090, rtx_4080, or a JSON file
    #[arg(long, default_value = "h200", value_parser = parse_profile)]
    pub profile: Profile,
    /// Writes everything to a file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// A profile by its name, or from a JSON file.
pub(crate) fn parse_profile(text: &str) -> Result<Profile, String> {
    match text {
        "h200" => Ok(Profile::h200()),
        "rtx_4090" => Ok(Profile::rtx_4090()),
        "rtx_4080" => Ok(Profile::rtx_4080()),
        path => {
            let json = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
            Profile::from_json(&json).map_err(|error| error.to_string())
        }
    }
}

/// What `--json` writes.
#[derive(Debug, Serialize)]
struct ScheduleReport<'a> {
    plan: &'a Plan,
    schedule: &'a Schedule,
    check: &'a Report,
    profile: &'a Profile,
    memory: Memory,
    spans: &'a [Span],
    timeline: Timeline,
}

/// What the schedule is of.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Plan {
    Msm(MsmPlan),
    Proof(ProofPlan),
}

/// Bytes by where they are.
#[derive(Debug, Clone, Copy, Serialize)]
struct Memory {
    resident_bytes: u64,
    device_bytes: u64,
    pinned_bytes: u64,
    /// Ordinary memory of the host at its peak, of a whole proof.
    #[serde(skip_serializing_if = "Option::is_none")]
    host_bytes: Option<u64>,
}

/// Runs the command.
///
/// # Errors
/// [`Failure::Plan`] for sizes that have no plan.
pub fn run(args: &ScheduleArgs, out: &mut dyn Write) -> Result<Judgement, Failure> {
    let profile = &args.profile;
    let (plan, schedule) = match args.proof {
        None => {
            let plan = msm_plan(args)?;
            (Plan::Msm(plan), msm_gpu::schedule::build(&plan))
        }
        Some(circuit) => {
            let plan = proof_plan(args, circuit)?;
            let schedule = groth16::schedule::build(&plan);
            (Plan::Proof(plan), schedule)
        }
    };
    let report = check(&schedule);
    let spans = estimate(&schedule, profile);
    let timeline = Timeline::new(&schedule, &spans);
    let bytes_in = |space| schedule.bytes_in(space);
    let memory = Memory {
        resident_bytes: bytes_in(Space::Resident),
        device_bytes: bytes_in(Space::Device),
        pinned_bytes: bytes_in(Space::PinnedUpload) + bytes_in(Space::PinnedDownload),
        host_bytes: match &plan {
            Plan::Msm(_) => None,
            Plan::Proof(plan) => Some(MemoryEstimate::of(plan, &schedule).host_bytes),
        },
    };
    let whole = ScheduleReport {
        plan: &plan,
        schedule: &schedule,
        check: &report,
        profile,
        memory,
        spans: &spans,
        timeline,
    };
    write_text(&whole, out).map_err(Failure::output)?;
    if let Some(path) = &args.json {
        write_json(path, &whole)?;
    }
    Ok(if report.is_clean() { Judgement::Good } else { Judgement::Bad })
}

fn msm_config(args: &ScheduleArgs, batches: u32) -> MsmConfig {
    MsmConfig {
        strategy: args.strategy,
        window_bits: args.window_bits,
        ..MsmConfig::batches(args.batches.unwrap_or(batches))
    }
}

/// What a device of the profile has left beside resident memory.
pub(crate) fn limits(profile: &Profile, resident_bytes: u64) -> DeviceLimits {
    DeviceLimits {
        free_bytes: profile.memory_bytes.saturating_sub(resident_bytes),
        resident_threads: u64::from(profile.sm_count) * SM_THREADS,
        costs: msm_gpu::Costs::SM_90,
    }
}

fn msm_plan(args: &ScheduleArgs) -> Result<MsmPlan, Failure> {
    let group = match args.group {
        Group::G1 => GroupKind::G1,
        Group::G2 => GroupKind::G2,
    };
    let base_count = args.n.unwrap_or(1 << args.log_n);
    let limits = limits(&args.profile, base_count.saturating_mul(group.affine_bytes()));
    Ok(MsmPlan::new(group, ScalarForm::Montgomery, base_count, &msm_config(args, 4), &limits)?)
}

fn proof_plan(args: &ScheduleArgs, circuit: CircuitName) -> Result<ProofPlan, Failure> {
    let (r1cs, _) = constraints(circuit, &mut random_numbers(0, "schedule"))?;
    let shape = Shape::of(&r1cs);
    let config = ProveConfig { msm: msm_config(args, 1), ..ProveConfig::default() };
    Ok(ProofPlan::new(&shape, &config, &limits(&args.profile, shape.resident_bytes()))?)
}

fn write_text(whole: &ScheduleReport<'_>, out: &mut dyn Write) -> std::io::Result<()> {
    let (schedule, timeline) = (whole.schedule, &whole.timeline);
    writeln!(out, "{schedule}")?;
    writeln!(out, "checker: {}", whole.check)?;
    let Memory { resident_bytes, device_bytes, pinned_bytes, host_bytes } = whole.memory;
    let ordinary = host_bytes.map_or_else(String::new, |bytes| format!(", {} besides", bytes_text(bytes)));
    writeln!(
        out,
        "memory: {} resident, {} on the device besides, {} page-locked on the host{ordinary}",
        bytes_text(resident_bytes),
        bytes_text(device_bytes),
        bytes_text(pinned_bytes)
    )?;
    writeln!(out, "\npredicted for {} ({}):", whole.profile.name, whole.profile.source)?;
    writeln!(out, "{:>12} {:>12}  operation", "start, us", "end, us")?;
    for (index, (op, span)) in schedule.ops.iter().zip(whole.spans).enumerate() {
        if !matches!(op.action, Action::Record { .. } | Action::Wait { .. }) {
            writeln!(out, "{:>12.1} {:>12.1}  {}", span.start_us, span.end_us, schedule.op_name(index))?;
        }
    }
    writeln!(
        out,
        "makespan {:.1} us; kernels run for {:.1} us; the device idles for {:.1} us, {:.1} us of that between batches; \
         the host waits for {:.1} us",
        timeline.makespan_us,
        timeline.compute_busy_us,
        timeline.gpu_idle_us,
        timeline.idle_between_batches_us,
        timeline.host_blocked_us
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ScheduleArgs,
    }

    fn print(line: &[&str]) -> Result<(Judgement, String), Failure> {
        let args = Line::parse_from([&["schedule"], line].concat()).args;
        let mut out = Vec::new();
        let judgement = run(&args, &mut out)?;
        Ok((judgement, String::from_utf8(out).expect("the report is text")))
    }

    #[test]
    fn the_report_has_the_device_side_edge_and_the_verdict() {
        let line = ["--n", "1000", "--batches", "3", "--strategy", "deferred:2"];
        let (judgement, text) = print(&line).expect("a plan");
        assert_eq!(judgement, Judgement::Good);
        for word in ["rows_free", "checker: no hazards", "page-locked", "makespan", "NVIDIA H200"] {
            assert!(text.contains(word), "{word} in\n{text}");
        }
    }

    #[test]
    fn every_strategy_of_both_groups_is_free_of_hazards() {
        for group in ["g1", "g2"] {
            for strategy in ["hard", "deferred:2", "deferred:3", "deferred:9", "on-device"] {
                for batches in ["1", "2", "3", "8"] {
                    let line =
                        ["--group", group, "--log-n", "12", "--batches", batches, "--strategy", strategy];
                    let (judgement, text) = print(&line).expect("a plan");
                    assert_eq!(judgement, Judgement::Good, "{text}");
                    assert!(!text.contains("nothing new"), "a surplus wait in\n{text}");
                }
            }
        }
    }

    #[test]
    fn a_whole_proof_is_one_schedule_without_hazards() {
        for circuit in ["sapling-output", "mimc:100"] {
            let (judgement, text) = print(&["--proof", circuit, "--batches", "2"]).expect("a plan");
            assert_eq!(judgement, Judgement::Good, "{text}");
            assert!(!text.contains("nothing new"), "a surplus wait in\n{text}");
            for word in ["groth16_eval_rows", "verdict", "b_g2.fold", "h.fold", "top"] {
                assert!(text.contains(word), "{word} in\n{text}");
            }
        }
    }

    #[test]
    fn impossible_sizes_are_usage_errors() {
        for line in [&["--batches", "0"][..], &["--n", "3", "--batches", "4"], &["--strategy", "deferred:1"]]
        {
            assert_eq!(print(line).expect_err("no plan").exit_code(), 2, "{line:?}");
        }
    }

    #[test]
    fn profiles_are_named_or_read() {
        assert_eq!(parse_profile("rtx_4090"), Ok(Profile::rtx_4090()));
        let error = parse_profile("/nowhere/card.json").expect_err("no such file");
        assert!(error.starts_with("/nowhere/card.json: "), "{error}");
    }
}
