//! What the page says, taken from the measurements: sentences, and what is drawn.

use super::Sources;
use super::charts::{CurveChart, Series, time_text};
use crate::bench::gate::{GateReport, Outcome, Verdict};
use crate::bench::record::{Amount, Clock, Measurement, Run};
use crate::lanes::{Bar, BarKind, Lane, idle_gaps};
use maud::{Markup, html};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Timelines that are drawn at most.
const TIMELINES_MAX: usize = 4;
/// Lines of the history chart at most.
const HISTORY_MAX: usize = 6;

/// A file of `harness timeline --json`, as far as the page reads it.
#[derive(Debug, Clone, Deserialize)]
pub struct TimelineFile {
    /// Its timelines.
    pub entries: Vec<TimelineEntry>,
}

/// One timeline.
#[derive(Debug, Clone, Deserialize)]
pub struct TimelineEntry {
    /// Device.
    pub device: String,
    /// `g1` or `g2`.
    pub group: String,
    /// Points, as a power of two.
    pub log_n: u32,
    /// Batches.
    pub batches: u32,
    /// Strategy, as a user writes it.
    pub pattern: String,
    /// Where results arrive.
    pub result_memory: String,
    /// Whether it is a prediction.
    pub is_virtual: bool,
    /// Its lanes.
    pub lanes: Vec<Lane>,
}

impl TimelineEntry {
    pub(super) fn end_us(&self) -> f64 {
        self.lanes.iter().flat_map(|lane| &lane.bars).map(|bar| bar.end_us).fold(0.0, f64::max)
    }

    pub(super) fn caption(&self) -> String {
        let clock = if self.is_virtual { ", virtual clock" } else { "" };
        format!(
            "{}: {} of 2^{} points in {} batches, {} results, on {}{clock}",
            self.pattern,
            self.group.to_uppercase(),
            self.log_n,
            self.batches,
            self.result_memory,
            self.device
        )
    }

    fn idle_us(&self) -> f64 {
        idle_gaps(&self.lanes).iter().map(|(start, end)| end - start).sum()
    }
}

/// The comparison of strategies that the page begins with: the largest product in G1 with several batches.
#[derive(Debug, Clone)]
pub(super) struct Headline<'a> {
    pub(super) rows: Vec<&'a Measurement>,
}

impl<'a> Headline<'a> {
    pub(super) fn of(run: &'a Run) -> Option<Self> {
        let all = || run.measurements.iter().filter(|found| is_sync(found));
        let key = |found: &Measurement| {
            let params = &found.params;
            (
                params.batches > Some(1),
                params.group.as_deref() == Some("g1"),
                params.log_n,
                // Four batches before more: a reader sees them all in a timeline.
                params.batches == Some(4),
                params.scalars.as_deref() == Some("uniform"),
                params.batches,
            )
        };
        let best = all().max_by(|a, b| key(a).cmp(&key(b)))?;
        let rows =
            all().filter(|found| key(found) == key(best) && found.params.scalars == best.params.scalars);
        Some(Self { rows: sorted(rows.collect()) })
    }

    pub(super) fn name(&self) -> String {
        self.rows.first().map(|found| product_name(found)).unwrap_or_default()
    }

    pub(super) fn scalars(&self) -> String {
        let scalars = self.rows.first().and_then(|found| found.params.scalars.clone()).unwrap_or_default();
        let mut letters = scalars.chars();
        letters
            .next()
            .map(|first| first.to_uppercase().collect::<String>() + letters.as_str())
            .unwrap_or_default()
    }
}

fn is_sync(found: &Measurement) -> bool {
    found.params.strategy.is_some() && found.params.who == "gpu" && found.id.contains("sync/")
}

/// In the order in which a reader compares: hard first.
fn sorted(mut rows: Vec<&Measurement>) -> Vec<&Measurement> {
    let rank = |found: &Measurement| {
        let strategy = found.params.strategy.clone().unwrap_or_default();
        let order = ["hard", "deferred:2", "deferred:3", "threaded:2", "on-device"];
        let place = order.iter().position(|name| *name == strategy).unwrap_or(order.len());
        (found.params.results.as_deref() == Some("pageable"), place, strategy)
    };
    rows.sort_by_key(|found| rank(found));
    rows
}

fn product_name(found: &Measurement) -> String {
    let params = &found.params;
    let (group, log_n) = (params.group.clone().unwrap_or_default().to_uppercase(), params.log_n.unwrap_or(0));
    match params.batches.unwrap_or(1) {
        1 => format!("{group} of 2^{log_n} points in one batch"),
        batches => format!("{group} of 2^{log_n} points in {batches} batches"),
    }
}

/// A strategy with what else makes it differ.
pub(super) fn strategy_label(found: &Measurement) -> String {
    let strategy = found.params.strategy.clone().unwrap_or_default();
    match found.params.results.as_deref() {
        Some("pageable") => format!("{strategy}, pageable"),
        _ => strategy,
    }
}

fn is_virtual(found: &Measurement) -> &'static str {
    if found.clock == Clock::Virtual { " on the virtual clock" } else { "" }
}

/// The first answer.
pub(super) fn fastest(headline: Option<&Headline<'_>>) -> Markup {
    let Some(headline) = headline else {
        return html! { "Which strategy is fastest: this run did not compare them." };
    };
    let Some(best) = headline.rows.iter().min_by(|a, b| a.median_us.total_cmp(&b.median_us)) else {
        return html! {};
    };
    let hard = headline.rows.iter().find(|found| strategy_label(found) == "hard");
    html! {
        "Fastest strategy: " b { (strategy_label(best)) } ", " (time_text(best.median_us)) " for " (headline.name())
        (is_virtual(best))
        @if let Some(hard) = hard.filter(|hard| hard.id != best.id) {
            @let longer = 100.0 * (hard.median_us / best.median_us - 1.0);
            "; hard takes " (time_text(hard.median_us)) ", " b { (format!("{longer:.0} % longer")) }
        }
        "."
    }
}

/// The second answer.
pub(super) fn where_it_waits(timelines: &[TimelineEntry], headline: Option<&Headline<'_>>) -> Markup {
    let shown = shown_timelines(timelines);
    if let (Some(first), Some(last)) = (shown.first(), shown.get(1)) {
        let gap = longest_gap(first);
        return html! {
            "The GPU waits " b { (time_text(first.idle_us())) " of " (time_text(first.end_us())) } " under " (first.pattern)
            @if let Some(gap) = gap { ", longest " (gap) }
            "; under " (last.pattern) " " b { (time_text(last.idle_us())) " of " (time_text(last.end_us())) }
            @if let Some(gap) = longest_gap(last) { ", longest " (gap) }
            "."
        };
    }
    let with_idle = headline
        .into_iter()
        .flat_map(|headline| &headline.rows)
        .filter_map(|found| Some((found, found.idle_us?)));
    let worst = with_idle.max_by(|a, b| a.1.total_cmp(&b.1));
    html! {
        @match worst {
            Some((found, idle_us)) => {
                "The GPU waits longest under " b { (strategy_label(found)) } ": "
                (time_text(idle_us)) " of " (time_text(found.median_us)) "."
            }
            None => { "Where the GPU waits: there is no timeline." }
        }
    }
}

/// The longest time without a kernel: how long, and between which operations.
fn longest_gap(entry: &TimelineEntry) -> Option<String> {
    let gaps = idle_gaps(&entry.lanes);
    let (start, end) = gaps.into_iter().max_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)))?;
    let kernels = || entry.lanes.iter().flat_map(|lane| &lane.bars).filter(|bar| bar.kind == BarKind::Kernel);
    let of_batch = |bar: &Bar| match bar.batch {
        Some(batch) => format!("{} of batch {batch}", bar.name),
        None => bar.name.clone(),
    };
    let before =
        kernels().filter(|bar| bar.end_us <= start + 1e-9).max_by(|a, b| a.end_us.total_cmp(&b.end_us));
    let after =
        kernels().filter(|bar| bar.start_us >= end - 1e-9).min_by(|a, b| a.start_us.total_cmp(&b.start_us));
    let place = match (before, after) {
        (Some(before), Some(after)) => format!("between {} and {}", of_batch(before), of_batch(after)),
        (None, Some(after)) => format!("before {}", of_batch(after)),
        (Some(before), None) => format!("after {}", of_batch(before)),
        (None, None) => return None,
    };
    Some(format!("{} {place}", time_text(end - start)))
}

/// The third answer.
pub(super) fn slower(report: Option<&GateReport>) -> Markup {
    let Some(report) = report else {
        return html! { "Slower than before: there is no baseline to compare with." };
    };
    let of = |verdict: Verdict| report.rows.iter().filter(move |row| row.verdict == verdict);
    let compared = report.rows.iter().filter(|row| row.change.is_some()).count();
    let worst = of(Verdict::Regression).chain(of(Verdict::Suspected)).next();
    let threshold = format!("{:.0} %", 100.0 * report.threshold);
    let change = |row: &crate::bench::gate::Row| {
        row.change.map(|change| format!("{:+.0} %", 100.0 * change.estimate)).unwrap_or_default()
    };
    html! {
        @match (report.outcome, worst) {
            (Outcome::Regression, Some(row)) => {
                span.bad {
                    "Slower than the baseline: yes, " (of(Verdict::Regression).count()) " of " (compared)
                    " benchmarks by more than " (threshold)
                }
                ", most of all " code { (row.id) } " (" (change(row)) ")."
            }
            (Outcome::Inconclusive, Some(row)) => {
                span.bad { "Slower than the baseline: it seems so" } ", and has not been run a second time: "
                code { (row.id) } " (" (change(row)) ")."
            }
            (Outcome::Ok, _) => {
                "Slower than the baseline: " b { "no" } ", none of " (compared) " benchmarks by more than " (threshold)
                "; " (of(Verdict::Faster).count()) " faster."
            }
            _ => {
                "Slower than the baseline: " (report.outcome) ". "
                (report.reasons.first().map(String::as_str).unwrap_or_default())
            }
        }
    }
}

/// Whether a row of the comparison is shown.
pub(super) fn is_worth_telling(verdict: Verdict) -> bool {
    !matches!(verdict, Verdict::Noise | Verdict::Small | Verdict::New)
}

/// Strategies at every size, with the headline's scalars and number of batches.
pub(super) fn strategy_groups<'a>(
    run: &'a Run,
    headline: &Headline<'_>,
) -> Vec<(String, Vec<&'a Measurement>)> {
    let Some(like) = headline.rows.first() else { return Vec::new() };
    let is_alike = |found: &&Measurement| {
        is_sync(found)
            && found.params.scalars == like.params.scalars
            && found.params.batches == like.params.batches
    };
    let mut groups: BTreeMap<(Option<String>, Option<u32>), Vec<&Measurement>> = BTreeMap::new();
    for found in run.measurements.iter().filter(is_alike) {
        groups.entry((found.params.group.clone(), found.params.log_n)).or_default().push(found);
    }
    groups.into_values().map(|rows| (product_name(rows[0]), sorted(rows))).collect()
}

/// Timelines that are drawn: those of the largest product, hard first, with results in page-locked memory.
pub(super) fn shown_timelines(entries: &[TimelineEntry]) -> Vec<&TimelineEntry> {
    let key = |entry: &TimelineEntry| (!entry.is_virtual, entry.log_n, entry.batches == 4, entry.batches);
    let Some(largest) = entries.iter().map(key).max() else { return Vec::new() };
    let mut shown: Vec<&TimelineEntry> =
        entries.iter().filter(|entry| key(entry) == largest && entry.result_memory == "pinned").collect();
    let rank = |entry: &TimelineEntry| match entry.pattern.as_str() {
        "hard" => 0,
        "deferred:2" => 1,
        "on-device" => 2,
        _ => 3,
    };
    shown.sort_by_key(|entry| rank(entry));
    shown.truncate(TIMELINES_MAX);
    shown
}

/// Charts of time over size: products in both groups, and transforms.
pub(super) fn curves(run: &Run) -> Vec<CurveChart> {
    let charts = [
        ("msm", Some("g1"), "Products in G1"),
        ("msm", Some("g2"), "Products in G2"),
        ("ntt", None, "Transforms"),
    ];
    charts.into_iter().filter_map(|(what, group, title)| curve_chart(run, what, group, title)).collect()
}

fn curve_chart(run: &Run, what: &str, group: Option<&str>, title: &str) -> Option<CurveChart> {
    let is_of = |found: &Measurement| found.params.what == what && found.params.group.as_deref() == group;
    let is_uniform =
        |found: &Measurement| found.params.scalars.as_deref().is_none_or(|scalars| scalars == "uniform");
    let is_plain = |found: &Measurement| found.params.variant.as_deref().is_none_or(|word| word == "plain");
    let points = |is_in: &dyn Fn(&Measurement) -> bool, time: &dyn Fn(&Measurement) -> Option<f64>| {
        let all = run.measurements.iter().filter(|found| is_of(found) && is_uniform(found) && is_in(found));
        let mut points: Vec<(f64, f64)> =
            all.filter_map(|found| Some((f64::from(found.params.log_n?), time(found)?))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    };
    let is_device = |found: &Measurement| {
        found.params.who == "gpu"
            && found.id.contains(&format!("{what}/"))
            && !is_sync(found)
            && !found.id.contains("peers/")
    };
    let is_ours = |found: &Measurement| is_device(found) && is_plain(found);
    let is_way = |way: &'static str| {
        move |found: &Measurement| is_device(found) && found.params.variant.as_deref() == Some(way)
    };
    let is_peer =
        |who: &'static str| move |found: &Measurement| found.params.who == who && found.id.contains("peers/");
    let median = |found: &Measurement| Some(found.median_us);
    let wall = |found: &Measurement| (found.clock == Clock::Device).then(|| found.wall_median_us()).flatten();
    let series = [
        ("GPU", false, points(&is_ours, &median)),
        ("GPU, wall", false, points(&is_ours, &wall)),
        ("GPU, plain", false, points(&is_way("resident"), &median)),
        ("GPU, table", false, points(&is_way("table"), &median)),
        ("arkworks", false, points(&is_peer("arkworks"), &median)),
        ("blst", false, points(&is_peer("blst"), &median)),
        ("sppark", false, points(&is_peer("sppark"), &median)),
        ("floor", true, points(&is_ours, &|found| found.floor_us)),
    ];
    let series: Vec<Series> = series
        .into_iter()
        .filter(|(.., points)| !points.is_empty())
        .map(|(name, is_floor, points)| Series { name: name.into(), is_floor, points })
        .collect();
    series.iter().any(|line| !line.is_floor).then(|| CurveChart { title: title.into(), series })
}

/// Moments and lines of the history: earlier baselines, the baseline, the runs.
pub(super) fn history(
    sources: &Sources<'_>,
    headline: Option<&Headline<'_>>,
    report: Option<&GateReport>,
) -> (Vec<String>, Vec<Series>) {
    let mut moments: Vec<(String, BTreeMap<&str, f64>)> = Vec::new();
    let day = |date: &str| date.split('T').next().unwrap_or_default().to_string();
    if let Some(baseline) = sources.baseline {
        for past in &baseline.past {
            let medians = past.medians_us.iter().map(|(id, us)| (id.as_str(), *us)).collect();
            moments.push((day(&past.date), medians));
        }
        let medians = baseline.entries.iter().map(|(id, entry)| (id.as_str(), entry.median_us)).collect();
        moments.push(("baseline".into(), medians));
    }
    for run in sources.runs {
        let medians = run.measurements.iter().map(|found| (found.id.as_str(), found.median_us)).collect();
        moments.push((day(&run.date), medians));
    }
    // What is slower comes first, then what the page begins with.
    let is_slower = |verdict| matches!(verdict, Verdict::Regression | Verdict::Suspected);
    let slower = report.into_iter().flat_map(|report| &report.rows).filter(|row| is_slower(row.verdict));
    let mut ids: Vec<&str> = slower.map(|row| row.id.as_str()).take(HISTORY_MAX / 2).collect();
    for found in headline.into_iter().flat_map(|headline| &headline.rows) {
        if !ids.contains(&found.id.as_str()) {
            ids.push(&found.id);
        }
    }
    let mut series = Vec::new();
    for id in ids.into_iter().take(HISTORY_MAX) {
        let times = moments
            .iter()
            .enumerate()
            .filter_map(|(index, (_, medians))| Some((index as f64, *medians.get(id)?)));
        let times: Vec<(f64, f64)> = times.collect();
        if let Some((_, first)) = times.first().copied().filter(|_| times.len() > 1) {
            let points = times.into_iter().map(|(index, us)| (index, us / first)).collect();
            let name = id.rsplit_once("sync/").map_or(id, |(_, name)| name);
            series.push(Series { name: name.into(), is_floor: false, points });
        }
    }
    (moments.into_iter().map(|(label, _)| label).collect(), series)
}

/// Elements or bytes a second.
pub(super) fn rate_text(found: &Measurement) -> String {
    let Some(rate) = found.rate_per_s() else { return String::new() };
    let unit = match found.amount {
        Some(Amount::Bytes(_)) => "B/s",
        _ if found.params.what == "field" => " products/s",
        _ if found.params.what == "proof" => " constraints/s",
        _ => " /s",
    };
    let (value, prefix) = match rate {
        rate if rate >= 1e9 => (rate / 1e9, "G"),
        rate if rate >= 1e6 => (rate / 1e6, "M"),
        rate => (rate / 1e3, "k"),
    };
    format!("{value:.2} {prefix}{unit}")
}
