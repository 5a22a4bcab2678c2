//! Measurements as one page that a browser shows: no script, nothing from a network, light and dark, and on paper.
//!
//! Its first three sentences answer what it is opened for: which strategy is fastest, where the GPU waits, and whether
//! anything has become slower.

mod charts;
mod facts;

pub use facts::{TimelineEntry, TimelineFile};

use crate::bench::gate::{Baseline, GateReport, GateSettings, compare};
use crate::bench::record::{Measurement, Run};
use charts::{CurveChart, StripRow, TimeBar, time_text};
use facts::Headline;
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Styles of charts, and of the page around them.
const COLOURS: &str = include_str!("colours.css");
const STYLE: &str = include_str!("style.css");

/// What a page is made of.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// Runs, the one that the page is about last.
    pub runs: &'a [Run],
    /// Timelines that `harness timeline --json` wrote.
    pub timelines: &'a [TimelineEntry],
    /// What runs are compared with.
    pub baseline: Option<&'a Baseline>,
    /// Second runs.
    pub again: &'a [Run],
}

/// The page.
///
/// # Panics
/// If there is no run.
pub fn page(sources: &Sources<'_>) -> String {
    let run = sources.runs.last().expect("a page is about a run");
    let headline = Headline::of(run);
    let report =
        sources.baseline.map(|baseline| compare(baseline, run, sources.again, &GateSettings::default()));
    let title = format!("Benchmarks: {}", run.machine.gpu);
    let body = html! {
        header {
            h1 { (title) }
            p.where { (run.machine.line()) }
            p.where {
                "commit " (run.commit.as_deref().unwrap_or("unknown")) ", " (run.date) ", seed " (run.seed)
                @for condition in run.conditions.iter().take(3) { "; " (condition) }
            }
            ol.answers {
                li { (facts::fastest(headline.as_ref())) }
                li { (facts::where_it_waits(sources.timelines, headline.as_ref())) }
                li { (facts::slower(report.as_ref())) }
            }
        }
        @if let Some(headline) = &headline { (strategies(run, headline)) }
        @if !sources.timelines.is_empty() { (timelines(sources.timelines)) }
        (sizes(run))
        @if let Some(headline) = &headline { (distributions(headline)) }
        (history(sources, headline.as_ref(), report.as_ref()))
        @if let Some(report) = &report { (comparison(report)) }
        (proofs_and_peers(run))
        (conditions(sources))
    };
    let whole = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                // Without it a browser asks the server for one.
                link rel="icon" href="data:,";
                style { (PreEscaped(COLOURS)) (PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    };
    whole.into_string()
}

/// Timelines below each other as one SVG file, for a text that can hold a picture; the same that the page draws.
pub fn timeline_picture(entries: &[TimelineEntry]) -> String {
    let shown = facts::shown_timelines(entries);
    let captions: Vec<String> = shown.iter().map(|entry| entry.caption()).collect();
    let parts: Vec<_> = captions
        .iter()
        .zip(&shown)
        .map(|(caption, entry)| (caption.as_str(), entry.lanes.as_slice()))
        .collect();
    charts::picture(&parts, COLOURS).into_string()
}

/// Every strategy at every size, with what the GPU idles.
fn strategies(run: &Run, headline: &Headline<'_>) -> Markup {
    let groups = facts::strategy_groups(run, headline);
    html! {
        section {
            h2 { "Strategies side by side" }
            p {
                "Time from the first operation to the last, median; the hatched part is time without a kernel. "
                (headline.scalars()) " scalars from the host, bases resident."
            }
            div.grid {
                @for (name, rows) in &groups {
                    @let fastest = rows.iter().map(|found| found.median_us).fold(f64::INFINITY, f64::min);
                    @let bars = rows.iter().map(|found| TimeBar {
                        label: facts::strategy_label(found),
                        total_us: found.median_us,
                        idle_us: found.idle_us.unwrap_or(0.0),
                        is_best: found.median_us == fastest,
                    }).collect::<Vec<_>>();
                    figure { figcaption { (name) } (charts::bars(&bars)) }
                }
            }
        }
    }
}

/// The host, the device and the bus over time, on one scale.
fn timelines(entries: &[TimelineEntry]) -> Markup {
    let shown = facts::shown_timelines(entries);
    let longest_us = shown.iter().map(|entry| entry.end_us()).fold(0.0, f64::max);
    html! {
        section {
            h2 { "What runs when" }
            p.legend {
                span.key.k-kernel { "kernel" } span.key.k-copy { "copy" } span.key.k-host { "host works" }
                span.key.k-wait { "host waits" } span.key.k-idle { "GPU idle" }
            }
            @for entry in shown {
                figure.wide { figcaption { (entry.caption()) } (charts::timeline(&entry.lanes, longest_us)) }
            }
        }
    }
}

/// Time against size, for the device and for others, with the floor.
fn sizes(run: &Run) -> Markup {
    let charts: Vec<CurveChart> = facts::curves(run);
    html! {
        @if !charts.is_empty() {
            section {
                h2 { "Time against size" }
                p {
                    "Both axes are logarithmic. GPU is the time of the device, from its first operation to its last; "
                    "wall is from call to result; their scalars come from the host. Plain and table have them on the "
                    "device, table with multiples of the bases beside them. "
                    "The dashed floor is the work that the schedule's kernels declare, "
                    "at the full rates of the device's profile: no schedule of the same work is faster. "
                    "Peers run on this host's processor, in turn with the device."
                }
                div.grid {
                    @for chart in &charts { figure { figcaption { (chart.title) } (charts::curves(chart)) } }
                }
            }
        }
    }
}

/// Every sample of the strategies that the page begins with.
fn distributions(headline: &Headline<'_>) -> Markup {
    let rows: Vec<StripRow<'_>> = headline
        .rows
        .iter()
        .map(|found| StripRow {
            label: facts::strategy_label(found),
            samples_us: &found.samples_us,
            median_us: found.median_us,
            interval_us: found.median_interval_us,
        })
        .collect();
    html! {
        section {
            h2 { "Every sample" }
            figure.wide {
                figcaption { (headline.name()) ": samples, the median, and the interval that it lies in with 95 %" }
                (charts::strips(&rows))
            }
        }
    }
}

/// The same benchmarks over earlier baselines, this one, and the runs.
fn history(sources: &Sources<'_>, headline: Option<&Headline<'_>>, report: Option<&GateReport>) -> Markup {
    let (labels, series) = facts::history(sources, headline, report);
    html! {
        @if labels.len() > 1 && !series.is_empty() {
            section {
                h2 { "Over time" }
                figure.wide {
                    figcaption { "Medians, each as a share of its first one: baselines, then runs" }
                    (charts::history(&labels, &series))
                }
            }
        }
    }
}

/// Heads of a table's columns; those of numbers begin with a #.
fn head(columns: &[&str]) -> Markup {
    html! {
        thead {
            tr {
                @for column in columns {
                    @match column.strip_prefix('#') {
                        Some(number) => th.number { (number) },
                        None => th { (column) },
                    }
                }
            }
        }
    }
}

/// What the gate says.
fn comparison(report: &GateReport) -> Markup {
    let told: Vec<_> =
        report.rows.iter().filter(|row| facts::is_worth_telling(row.verdict)).take(40).collect();
    html! {
        section {
            h2 { "Against the baseline: " (report.outcome) }
            @for reason in &report.reasons { p { (reason) } }
            p.where { "Baseline: " (report.baseline.as_deref().unwrap_or("none")) }
            @if !told.is_empty() {
                table {
                    (head(&["benchmark", "#baseline", "#this run", "#change", ""]))
                    tbody {
                        @for row in told {
                            tr {
                                td { code { (row.id) } }
                                td.number { (row.baseline_us.map(time_text).unwrap_or_default()) }
                                td.number { (row.head_us.map(time_text).unwrap_or_default()) }
                                td.number {
                                    @if let Some(change) = row.change { (format!("{:+.1} %", 100.0 * change.estimate)) }
                                }
                                td { (row.verdict.word()) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Proofs, and how many times longer others take.
fn proofs_and_peers(run: &Run) -> Markup {
    let proofs: Vec<&Measurement> = run
        .measurements
        .iter()
        .filter(|found| {
            ["proof", "upload", "field", "launch"].contains(&found.params.what.as_str())
                && found.params.who == "gpu"
        })
        .filter(|found| !found.id.contains("peers/"))
        .collect();
    html! {
        @if !proofs.is_empty() || !run.ratios.is_empty() {
            section {
                h2 { "Proofs, and what they are made of" }
                div.grid {
                    @if !proofs.is_empty() {
                        table {
                            (head(&["benchmark", "#median", "#wall", "#rate"]))
                            tbody {
                                @for found in proofs {
                                    tr {
                                        td { code { (found.id) } }
                                        td.number { (time_text(found.median_us)) }
                                        td.number { (found.wall_median_us().map(time_text).unwrap_or_default()) }
                                        td.number { (facts::rate_text(found)) }
                                    }
                                }
                            }
                        }
                    }
                    @if !run.ratios.is_empty() {
                        table {
                            (head(&["on this machine", "who", "#times as long", "#interval"]))
                            tbody {
                                @for ratio in &run.ratios {
                                    tr {
                                        td { code { (ratio.id) } }
                                        td { (ratio.peer) }
                                        td.number { (format!("{:.1}", ratio.median)) }
                                        td.number { (format!("{:.1} to {:.1}", ratio.interval.low, ratio.interval.high)) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What a reader needs to measure it again.
fn conditions(sources: &Sources<'_>) -> Markup {
    html! {
        section {
            h2 { "Runs" }
            table {
                (head(&["date", "commit", "seed", "machine", "#benchmarks", "#skipped"]))
                tbody {
                    @for run in sources.runs {
                        tr {
                            td { (run.date) }
                            td { code { (run.commit.as_deref().unwrap_or("unknown")) } }
                            td { code { (run.seed) } }
                            td { (run.machine.line()) }
                            td.number { (run.measurements.len()) }
                            td.number { (run.skipped.len()) }
                        }
                    }
                }
            }
            @for condition in sources.runs.last().map(|run| run.conditions.as_slice()).unwrap_or_default() {
                p.where { (condition) }
            }
            @for skipped in sources.runs.last().map(|run| run.skipped.as_slice()).unwrap_or_default() {
                p.where { "skipped: " code { (skipped.id) } ": " (skipped.reason) }
            }
        }
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::cases::Scale;
    use crate::bench::record::{Clock, Machine, Params, Ratio, SCHEMA};
    use crate::bench::stats::Interval;
    use crate::lanes::lanes;
    use gpu_core::model::{Profile, estimate_with_calls};
    use msm_gpu::{DeviceLimits, GroupKind, MsmConfig, MsmPlan, ScalarForm, Strategy};

    fn measured(id: &str, strategy: Option<&str>, log_n: u32, median_us: f64) -> Measurement {
        let is_sync = strategy.is_some();
        Measurement {
            id: id.into(),
            params: Params {
                who: "gpu".into(),
                what: "msm".into(),
                group: Some("g1".into()),
                log_n: Some(log_n),
                batches: is_sync.then_some(4),
                strategy: strategy.map(Into::into),
                results: is_sync.then(|| "pinned".into()),
                scalars: Some("uniform".into()),
                variant: None,
            },
            clock: Clock::Device,
            samples_us: vec![median_us * 0.99, median_us, median_us * 1.01],
            median_us,
            median_interval_us: Interval { low: median_us * 0.99, high: median_us * 1.01 },
            wall_us: vec![median_us * 1.1; 3],
            idle_us: Some(median_us * 0.2),
            amount: None,
            floor_us: Some(median_us * 0.4),
        }
    }

    fn run(factor: f64) -> Run {
        let of = |strategy: &str, us: f64| {
            measured(&format!("sync/g1/2^20/uniform/4/{strategy}/pinned"), Some(strategy), 20, us * factor)
        };
        let mut measurements =
            vec![of("hard", 18_100.0), of("deferred:2", 14_900.0), of("on-device", 13_900.0)];
        let sizes = [10, 16, 20].map(|log_n| {
            measured(&format!("msm/g1/2^{log_n}/uniform"), None, log_n, 100.0 * f64::from(log_n))
        });
        measurements.extend(sizes);
        let ratio = Ratio {
            id: "peers/msm-g1/2^16".into(),
            peer: "<blst> & others".into(),
            median: 61.5,
            interval: Interval { low: 60.0, high: 63.0 },
        };
        Run {
            schema: SCHEMA,
            harness: "0.1.0".into(),
            commit: Some("0123456789ab".into()),
            date: "2026-01-02T03:04:05Z".into(),
            seed: "0x5eed".into(),
            scale: Scale::Full,
            machine: Machine {
                gpu: "NVIDIA H200".into(),
                driver: Some("580.159".into()),
                sm_clock_mhz: Some(1905),
                sm_clock_max_mhz: Some(1980),
                ..Machine::default()
            },
            conditions: Vec::new(),
            planted_percent: None,
            measurements,
            skipped: Vec::new(),
            ratios: vec![ratio],
        }
    }

    fn entry(strategy: Strategy) -> TimelineEntry {
        let limits =
            DeviceLimits { free_bytes: 1 << 36, resident_threads: 132 * 2048, costs: msm_gpu::Costs::SM_90 };
        let config = MsmConfig { strategy, ..MsmConfig::batches(4) };
        let plan = MsmPlan::new(GroupKind::G1, ScalarForm::Montgomery, 1 << 20, &config, &limits);
        let schedule = msm_gpu::schedule::build(&plan.expect("a plan"));
        let (spans, calls) = estimate_with_calls(&schedule, &Profile::h200());
        TimelineEntry {
            device: "cuda:0".into(),
            group: "g1".into(),
            log_n: 20,
            batches: 4,
            pattern: strategy.to_string(),
            result_memory: "pinned".into(),
            is_virtual: false,
            lanes: lanes(&schedule, &spans, &calls),
        }
    }

    /// Fails where an element is not closed in its place.
    fn assert_nested(page: &str) {
        let without_styles: String = {
            let (before, rest) = page.split_once("<style>").expect("styles");
            before.to_string() + rest.split_once("</style>").expect("their end").1
        };
        let mut open: Vec<&str> = Vec::new();
        for tag in without_styles.split('<').skip(1) {
            let (inside, _) = tag.split_once('>').expect("every tag ends");
            let name = inside.split([' ', '/']).find(|part| !part.is_empty()).unwrap_or_default();
            match inside {
                _ if ["!DOCTYPE", "meta", "link"].contains(&name) => {}
                inside if inside.starts_with('/') => assert_eq!(open.pop(), Some(name)),
                _ => open.push(name),
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    fn page_of(runs: &[Run], baseline: Option<&Baseline>, again: &[Run]) -> String {
        let timelines =
            [entry(Strategy::OnDevice), entry(Strategy::Hard), entry(Strategy::Deferred { buffers: 2 })];
        page(&Sources { runs, timelines: &timelines, baseline, again })
    }

    #[test]
    fn the_first_sentences_are_the_answers() {
        let baseline = Baseline::new(&vec![run(1.0); 3], None).expect("a baseline");
        let good = page_of(&[run(1.0)], Some(&baseline), &[]);
        assert!(
            good.contains("Fastest strategy: <b>on-device</b>, 13.9 ms for G1 of 2^20 points in 4 batches"),
            "{good}"
        );
        assert!(good.contains("<b>30 % longer</b>"), "{good}");
        assert!(good.contains("Slower than the baseline: <b>no</b>, none of 6 benchmarks"), "{good}");
        assert!(good.contains(" under hard, longest "), "{good}");
        assert!(good.contains("between msm_sum_bits_g1 of batch"), "{good}");
        let slow = page_of(&[run(1.3)], Some(&baseline), &[run(1.3)]);
        assert!(slow.contains("Slower than the baseline: yes, 3 of 6 benchmarks by more than 5 %"), "{slow}");
        let once = page_of(&[run(1.3)], Some(&baseline), &[]);
        assert!(once.contains("Slower than the baseline: it seems so"), "{once}");
        let alone = page_of(&[run(1.0)], None, &[]);
        assert!(alone.contains("there is no baseline to compare with"), "{alone}");
    }

    #[test]
    fn the_page_is_whole_and_asks_nobody_for_anything() {
        let baseline = Baseline::new(&vec![run(1.0); 3], None).expect("a baseline");
        let page = page_of(&[run(0.9), run(1.0)], Some(&baseline), &[]);
        assert_nested(&page);
        for word in ["<script", "http:", "https:", "url(", "@import", "NaN", "inf\""] {
            assert!(!page.contains(word), "{word}");
        }
        for word in [
            "driver 580.159",
            "SM clock 1905 of 1980 MHz",
            "0123456789ab",
            "0x5eed",
            "&lt;blst&gt; &amp; others",
            "prefers-color-scheme: dark",
            "@media print",
            "Over time",
            "floor",
        ] {
            assert!(page.contains(word), "{word}");
        }
    }

    #[test]
    fn products_with_a_table_and_without_are_two_curves() {
        let mut with_ways = run(1.0);
        for (word, factor) in [("resident", 0.9), ("table", 0.5), ("streamed:8", 1.1)] {
            with_ways.measurements.extend([10, 16, 20].map(|log_n| {
                let id = format!("msm/g1/2^{log_n}/uniform/{word}");
                let found = measured(&id, None, log_n, 100.0 * f64::from(log_n) * factor);
                let params = Params { variant: Some(word.into()), ..found.params.clone() };
                Measurement { params, ..found }
            }));
        }
        let curves = facts::curves(&with_ways);
        let [chart] = &curves[..] else { panic!("{} charts", curves.len()) };
        let times = |name: &str| -> Vec<f64> {
            let series = chart.series.iter().find(|series| series.name == name).expect(name);
            series.points.iter().map(|point| point.1).collect()
        };
        assert_eq!(times("GPU"), [1_000.0, 1_600.0, 2_000.0]);
        assert_eq!(times("GPU, plain"), [900.0, 1_440.0, 1_800.0]);
        assert_eq!(times("GPU, table"), [500.0, 800.0, 1_000.0]);
        let before = facts::curves(&run(1.0));
        assert!(
            before[0].series.iter().all(|series| !series.name.contains("table")),
            "a run from before ways"
        );
    }

    #[test]
    fn a_picture_stands_alone() {
        let picture = timeline_picture(&[entry(Strategy::Deferred { buffers: 2 }), entry(Strategy::Hard)]);
        assert!(picture.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""), "{picture}");
        let (hard, deferred) = (picture.find(">hard: G1 of 2^20"), picture.find(">deferred:2: G1 of 2^20"));
        assert!(hard.is_some() && hard < deferred, "{picture}");
        assert_nested(&picture);
    }

    #[test]
    fn a_run_of_nothing_is_a_page_too() {
        let mut empty = run(1.0);
        empty.measurements.clear();
        empty.ratios.clear();
        let page = page(&Sources { runs: &[empty], timelines: &[], baseline: None, again: &[] });
        assert_nested(&page);
        assert!(page.contains("this run did not compare them"), "{page}");
    }
}
