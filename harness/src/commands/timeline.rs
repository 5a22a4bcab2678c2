//! `harness timeline`: strategies measured side by side, each beside its prediction.
//!
//! Every run is checked against the product's known value. The times of a configuration are those of its median run;
//! on the simulated device they are the virtual clock's. Where a trace is asked for, power and clock of a CUDA device are
//! read while it runs; otherwise nobody asks the driver anything while it is measured.

use crate::commands::schedule::{Group, parse_profile};
use crate::devices::DeviceChoice;
use crate::error::{Failure, Judgement};
use crate::lanes::{Lane, lanes, overlap_us};
use crate::meter::{Meter, counters};
use crate::oracle::{BaseFlavour, KnownBases, ScalarFlavour, parse_seed, random_numbers};
use crate::report::{new_table, write_json};
use crate::trace_events::{Counter, Process, TraceFile};
use ark_bls12_381::{Fr, G1Projective, G2Projective};
use gpu_core::model::{Profile, Span, Timeline, estimate_with_calls};
use gpu_core::sim::SimOptions;
use gpu_core::{Device, DeviceBuf, DeviceInfo, Registered, Schedule};
use msm_gpu::{Bases, DeviceLimits, Msm, MsmConfig, MsmGroup, ResultMemory, Strategy, SyncPattern, Table};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

/// Measures strategies side by side, each beside its prediction.
#[derive(Debug, Clone, clap::Args)]
pub struct TimelineArgs {
    /// Where to run: `sim`, `cuda` or `cuda:N`; `auto` takes every device
    #[arg(long, default_value_t = DeviceChoice::Auto)]
    pub device: DeviceChoice,
    /// Group
    #[arg(long, value_enum, default_value_t = Group::G1)]
    pub group: Group,
    /// Numbers of points, as powers of two
    #[arg(long, value_delimiter = ',', default_value = "14", value_parser = clap::value_parser!(u32).range(0..=30))]
    pub log_n: Vec<u32>,
    /// Numbers of batches
    #[arg(long, value_delimiter = ',', default_value = "4")]
    pub batches: Vec<u32>,
    /// Strategies: hard, deferred:N, threaded:N, on-device; or graph:STRATEGY
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "hard,deferred:2,deferred:3,threaded:2,on-device,graph:deferred:2"
    )]
    pub strategy: Vec<SyncPattern>,
    /// Where results arrive: pinned, pageable
    #[arg(long, value_delimiter = ',', default_value = "pinned")]
    pub results: Vec<ResultMemory>,
    /// Scalars
    #[arg(long, default_value_t = ScalarFlavour::Uniform)]
    pub scalars: ScalarFlavour,
    /// Bits of a window, 2 to 24; the cheapest if not given
    #[arg(long)]
    pub window_bits: Option<u32>,
    /// Rounds of pairs before the buckets are filled, 0 to 3; the cheapest if not given
    #[arg(long)]
    pub pair_rounds: Option<u32>,
    /// Device memory for a table of multiples of the bases, in GiB; the time to compute it is shown apart
    #[arg(long, value_name = "GIB")]
    pub table_gib: Option<f64>,
    /// Scalars are on the device before the clock starts
    #[arg(long)]
    pub resident: bool,
    /// Bases go up from page-locked memory in every run
    #[arg(long, conflicts_with_all = ["resident", "table_gib"])]
    pub streamed: bool,
    /// Runs of each configuration, after one that is not counted
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Profile of the predictions: h200, rtx_4090, rtx_4080, or a JSON file
    #[arg(long, default_value = "h200", value_parser = parse_profile)]
    pub profile: Profile,
    /// Shows the time of each kind of operation
    #[arg(long)]
    pub ops: bool,
    /// Seed of bases and scalars
    #[arg(long, default_value = "0x74696d65", value_parser = parse_seed)]
    pub seed: u64,
    /// Writes the median runs for Perfetto (ui.perfetto.dev) to a file, in the Trace Event Format, with power and SM clock
    /// of a CUDA device where there is NVML
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Lays the predicted timeline beside each in that file
    #[arg(long, requires = "trace")]
    pub predict: bool,
    /// Writes everything, lanes of the median runs included, to a file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// One configuration.
#[derive(Debug, Serialize)]
struct Entry {
    device: String,
    group: &'static str,
    log_n: u32,
    batches: u32,
    strategy: Strategy,
    graph: bool,
    /// Strategy and graph as a user writes them.
    pattern: String,
    result_memory: ResultMemory,
    window_bits: u32,
    /// Columns of the bases' table, and the time that it took to compute.
    table_columns: u32,
    table_us: Option<f64>,
    pair_rounds: u32,
    /// Whether the scalars were on the device before, and whether the bases went up in the run.
    resident: bool,
    streamed: bool,
    scalars: String,
    is_right: bool,
    is_virtual: bool,
    /// Wall time of each run on the host.
    wall_us: Vec<f64>,
    wall_us_median: f64,
    measured: Timeline,
    predicted: Timeline,
    /// Microseconds of each kind of operation in the median run, measured and predicted.
    op_us: BTreeMap<String, (f64, f64)>,
    /// Time of the median run in which copies and kernels run at once.
    overlap_us: f64,
    /// The median run.
    lanes: Vec<Lane>,
    #[serde(skip)]
    predicted_lanes: Vec<Lane>,
    /// Power and clock in the median run.
    #[serde(skip)]
    counters: Vec<Counter>,
}

impl Entry {
    /// As a reader tells it from others.
    fn title(&self) -> String {
        let (n, batches, pattern) = (self.log_n, self.batches, &self.pattern);
        let clock = if self.is_virtual { " (virtual clock)" } else { "" };
        let scalars = match (self.resident, self.streamed) {
            (true, _) => ", resident scalars",
            (false, true) => ", streamed bases",
            (false, false) => "",
        };
        format!(
            "{} {} 2^{n}, {batches} batches, {pattern}, {} results{scalars}{clock}",
            self.device, self.group, self.result_memory
        )
    }
}

impl Entry {
    /// Bits of a window, columns of a table, rounds of pairs.
    fn windows(&self) -> String {
        let mut text = format!("{} bits", self.window_bits);
        if self.table_columns > 1 {
            text += &format!(", {} columns", self.table_columns);
        }
        if self.pair_rounds > 0 {
            text += &format!(", {} rounds", self.pair_rounds);
        }
        text
    }
}

/// What `--json` writes.
#[derive(Debug, Serialize)]
struct TimelineReport<'a> {
    harness: &'static str,
    seed: u64,
    devices: Vec<&'a DeviceInfo>,
    profile: &'a Profile,
    entries: &'a [Entry],
}

/// Runs the command.
///
/// # Errors
/// [`Failure::Gpu`] without the device, [`Failure::Msm`] for sizes that have no plan.
pub fn run(args: &TimelineArgs, out: &mut dyn Write) -> Result<Judgement, Failure> {
    let opened = args.device.open(SimOptions::default())?;
    let mut entries = Vec::new();
    for device in &opened.devices {
        for log_n in &args.log_n {
            match args.group {
                Group::G1 => measure_size::<G1Projective>(args, device, *log_n, &mut entries)?,
                Group::G2 => measure_size::<G2Projective>(args, device, *log_n, &mut entries)?,
            }
        }
    }
    write_text(args, &entries, out).map_err(Failure::output)?;
    if let Some(path) = &args.json {
        let devices = opened.devices.iter().map(Device::info).collect();
        let (harness, seed, profile) = (env!("CARGO_PKG_VERSION"), args.seed, &args.profile);
        let whole = TimelineReport { harness, seed, devices, profile, entries: &entries };
        write_json(path, &whole)?;
    }
    if let Some(path) = &args.trace {
        write_json(path, &trace_file(&entries, args.predict, &args.profile.name))?;
    }
    let all_right = entries.iter().all(|entry| entry.is_right);
    Ok(if all_right { Judgement::Good } else { Judgement::Bad })
}

fn measure_size<G: MsmGroup>(
    args: &TimelineArgs,
    device: &Device,
    log_n: u32,
    entries: &mut Vec<Entry>,
) -> Result<(), Failure> {
    let rng = &mut random_numbers(args.seed, &format!("timeline {log_n}"));
    let count = 1usize << log_n;
    let known = KnownBases::<G>::generate(BaseFlavour::Random, count, rng);
    let scalars = args.scalars.generate(count, rng);
    let expected = known.product(&scalars);
    let mut bases = Bases::<G>::trusted(device, known.points())?;
    let mut table_us = None;
    if let Some(bytes) = args.table_gib.map(|gib| (gib * f64::from(1 << 30)) as u64)
        && let Some(table) =
            Table::within(G::KIND, count as u64, bytes, args.window_bits, &DeviceLimits::of(device)?)
    {
        let start = Instant::now();
        bases = bases.with_table(table)?;
        table_us = Some(start.elapsed().as_secs_f64() * 1e6);
    }
    let streamed = args.streamed.then(|| Registered::new(device, "bases", known.points())).transpose()?;
    let resident = args.resident.then(|| DeviceBuf::from_slice(device, "scalars", &scalars)).transpose()?;
    for batches in &args.batches {
        for (pattern, results) in args
            .strategy
            .iter()
            .flat_map(|pattern| args.results.iter().map(move |results| (pattern, results)))
        {
            let config = MsmConfig {
                window_bits: args.window_bits,
                pair_rounds: args.pair_rounds,
                result_memory: *results,
                ..MsmConfig::batches((*batches).min(count as u32)).with_pattern(*pattern)
            };
            let problem = Problem {
                log_n,
                bases: &bases,
                table_us,
                scalars: &scalars,
                resident: resident.as_ref(),
                streamed: streamed.as_ref(),
                expected,
            };
            entries.push(measure(args, &config, &problem)?);
        }
    }
    Ok(())
}

/// What is multiplied, and what comes out.
struct Problem<'a, G: MsmGroup> {
    log_n: u32,
    bases: &'a Bases<G>,
    table_us: Option<f64>,
    scalars: &'a [Fr],
    /// The scalars, where they are on the device.
    resident: Option<&'a DeviceBuf<Fr>>,
    /// The bases in page-locked memory, where they go up in every run.
    streamed: Option<&'a Registered<'a, G::Affine>>,
    expected: G,
}

impl<G: MsmGroup> Problem<'_, G> {
    fn product(&self, config: &MsmConfig) -> Result<Msm<G, Fr>, Failure> {
        Ok(match (self.resident, self.streamed) {
            (Some(_), _) => Msm::over_resident(self.bases, config)?,
            (None, Some(bases)) => Msm::streaming(self.bases.device(), bases.len(), config)?,
            (None, None) => Msm::new(self.bases, config)?,
        })
    }

    fn is_right(&self, msm: &mut Msm<G, Fr>) -> Result<bool, Failure> {
        let product = match (self.resident, self.streamed) {
            (Some(scalars), _) => msm.run_resident(scalars)?,
            (None, Some(bases)) => msm.run_streamed(bases, self.scalars)?,
            (None, None) => msm.run(self.scalars)?,
        };
        Ok(product == self.expected)
    }
}

fn measure<G: MsmGroup>(
    args: &TimelineArgs,
    config: &MsmConfig,
    problem: &Problem<'_, G>,
) -> Result<Entry, Failure> {
    let mut msm = problem.product(config)?;
    msm.enable_timing()?;
    let mut is_right = problem.is_right(&mut msm)?;
    let meter = args.trace.as_ref().and_then(|_| Meter::start(problem.bases.device().info()));
    let mut traces = Vec::new();
    for _ in 0..args.runs {
        let start = Instant::now();
        is_right &= problem.is_right(&mut msm)?;
        traces.push((start, msm.trace().expect("it has run").clone()));
    }
    let readings = meter.map(Meter::stop).unwrap_or_default();
    traces.sort_by(|(_, a), (_, b)| a.wall_us.total_cmp(&b.wall_us));
    let (start, median) = &traces[traces.len() / 2];
    let schedule = msm.schedule().expect("there are points");
    let (predicted, predicted_calls) = estimate_with_calls(schedule, &args.profile);
    let lanes = lanes(schedule, &median.spans, &median.calls);
    let plan = msm.plan();
    Ok(Entry {
        device: problem.bases.device().info().id.clone(),
        group: plan.group.word(),
        log_n: problem.log_n,
        batches: plan.batch_count,
        strategy: plan.strategy,
        graph: plan.graph,
        pattern: plan.pattern().to_string(),
        result_memory: plan.result_memory,
        window_bits: plan.window_bits,
        table_columns: plan.column_count,
        table_us: problem.table_us,
        pair_rounds: plan.pair_rounds,
        resident: problem.resident.is_some(),
        streamed: problem.streamed.is_some(),
        scalars: args.scalars.to_string(),
        is_right,
        is_virtual: median.is_virtual,
        wall_us: traces.iter().map(|(_, trace)| trace.wall_us).collect(),
        wall_us_median: median.wall_us,
        measured: Timeline::new(schedule, &median.spans),
        predicted: Timeline::new(schedule, &predicted),
        op_us: op_times(schedule, &median.spans, &predicted),
        overlap_us: overlap_us(&lanes),
        lanes,
        predicted_lanes: crate::lanes::lanes(schedule, &predicted, &predicted_calls),
        counters: counters(&readings, *start, median.wall_us),
    })
}

fn trace_file(entries: &[Entry], predict: bool, profile: &str) -> TraceFile {
    let mut processes = Vec::new();
    for entry in entries {
        let (lanes, counters) = (entry.lanes.clone(), entry.counters.clone());
        processes.push(Process { name: entry.title(), lanes, counters });
        if predict {
            let name = format!("{}, predicted for {profile}", entry.title());
            processes.push(Process { name, lanes: entry.predicted_lanes.clone(), counters: vec![] });
        }
    }
    TraceFile::new(&processes)
}

/// Time of each kind of operation: measured, predicted.
fn op_times(schedule: &Schedule, measured: &[Span], predicted: &[Span]) -> BTreeMap<String, (f64, f64)> {
    let mut times = BTreeMap::new();
    for (index, op) in schedule.ops.iter().enumerate() {
        let (measured_us, predicted_us): &mut (f64, f64) = times.entry(op.name.to_string()).or_default();
        let us = |span: Span| span.end_us - span.start_us;
        *measured_us += us(measured[index]);
        *predicted_us += us(predicted[index]);
    }
    times
}

fn write_text(args: &TimelineArgs, entries: &[Entry], out: &mut dyn Write) -> std::io::Result<()> {
    let mut table = new_table();
    table.set_header([
        "device",
        "group",
        "log n",
        "batches",
        "strategy",
        "results",
        "windows",
        "point",
        "wall, ms",
        "makespan, ms",
        "predicted",
        "idle, ms",
        "predicted",
        "between batches",
        "predicted",
        "copy beside kernel",
    ]);
    let ms = |us: f64| format!("{:.3}", us / 1e3);
    for entry in entries {
        let mark = if entry.is_virtual { " v" } else { "" };
        let (measured, predicted) = (&entry.measured, &entry.predicted);
        table.add_row([
            entry.device.clone(),
            entry.group.into(),
            entry.log_n.to_string(),
            entry.batches.to_string(),
            entry.pattern.clone(),
            entry.result_memory.to_string(),
            entry.windows(),
            if entry.is_right { "right".into() } else { "WRONG".into() },
            ms(entry.wall_us_median),
            ms(measured.makespan_us) + mark,
            ms(predicted.makespan_us),
            ms(measured.gpu_idle_us) + mark,
            ms(predicted.gpu_idle_us),
            ms(measured.idle_between_batches_us) + mark,
            ms(predicted.idle_between_batches_us),
            ms(entry.overlap_us) + mark,
        ]);
    }
    writeln!(out, "{table}")?;
    for entry in entries {
        if let Some(us) = entry.table_us {
            let (columns, n) = (entry.table_columns, entry.log_n);
            writeln!(out, "a table of {columns} columns for 2^{n} points took {:.1} ms", us / 1e3)?;
        }
    }
    writeln!(
        out,
        "{} scalars, median of {} runs; predicted for {}; v marks the virtual clock of the simulated device",
        args.scalars, args.runs, args.profile.name
    )?;
    if args.ops {
        for entry in entries {
            writeln!(out, "\n{}, us:", entry.title())?;
            for (name, (measured_us, predicted_us)) in &entry.op_us {
                writeln!(out, "  {name:<28} {measured_us:>12.1} measured {predicted_us:>12.1} predicted")?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: TimelineArgs,
    }

    #[test]
    fn every_strategy_is_measured_checked_and_predicted() {
        let line =
            ["timeline", "--device", "sim", "--log-n", "6", "--batches", "1,3", "--runs", "1", "--ops"];
        let args = Line::parse_from(line).args;
        let mut out = Vec::new();
        assert_eq!(run(&args, &mut out).expect("a plan"), Judgement::Good);
        let text = String::from_utf8(out).expect("the report is text");
        assert_eq!(text.matches("right").count(), 2 * args.strategy.len(), "{text}");
        for word in [
            "deferred:3",
            "threaded:2",
            "graph(deferred:2)",
            "on-device",
            "msm_accumulate_runs_g1",
            "predicted for NVIDIA H200",
        ] {
            assert!(text.contains(word), "{word} in\n{text}");
        }
    }

    #[test]
    fn pageable_results_make_a_deferred_wait_a_hard_one() {
        let line = ["timeline", "--device", "sim", "--log-n", "8", "--batches", "4", "--runs", "1"];
        let ways = ["--strategy", "hard,deferred:2", "--results", "pinned,pageable"];
        let args = Line::parse_from([&line[..], &ways].concat()).args;
        let opened = args.device.open(SimOptions::default()).expect("the simulated device");
        let mut entries = Vec::new();
        measure_size::<G1Projective>(&args, &opened.devices[0], 8, &mut entries).expect("a plan");
        let idle = |entry: &Entry| entry.measured.idle_between_batches_us;
        let [hard, hard_pageable, deferred, deferred_pageable] = &entries[..] else {
            panic!("{} rows", entries.len())
        };
        assert!(idle(deferred) < idle(hard) / 2.0, "{} and {}", idle(deferred), idle(hard));
        assert!(idle(deferred_pageable) > idle(hard) / 2.0, "{}", idle(deferred_pageable));
        assert!(idle(hard_pageable) > idle(hard) / 2.0, "{}", idle(hard_pageable));
    }
}
