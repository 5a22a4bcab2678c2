//! Charts as SVG. Colours are the page's, by class: light, dark and paper come from its styles alone.

use crate::bench::stats::Interval;
use crate::lanes::{BarKind, Lane, idle_gaps};
use maud::{Markup, PreEscaped, html};

/// Width of a chart in its own units, which are pixels where the page is wide enough.
const WIDTH: f64 = 560.0;
/// The same of a timeline, which has the page to itself.
const WIDE: f64 = 1160.0;

/// A time with three digits and a unit.
pub(super) fn time_text(us: f64) -> String {
    let (value, unit) = match us {
        us if us < 1e3 => (us, "\u{b5}s"),
        us if us < 1e6 => (us / 1e3, "ms"),
        us => (us / 1e6, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

fn px(value: f64) -> String {
    format!("{value:.1}")
}

/// One row of a bar chart.
#[derive(Debug, Clone)]
pub(super) struct TimeBar {
    pub(super) label: String,
    pub(super) total_us: f64,
    pub(super) idle_us: f64,
    pub(super) is_best: bool,
}

/// Times as bars, from 0 on, the idle part hatched.
pub(super) fn bars(rows: &[TimeBar]) -> Markup {
    let (row_height, left, right) = (26.0, 165.0, 150.0);
    let longest_us = rows.iter().map(|row| row.total_us).fold(f64::MIN_POSITIVE, f64::max);
    let scale = |us: f64| us / longest_us * (WIDTH - left - right);
    let height = row_height * rows.len() as f64;
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {height}")) role="img" {
            @for (index, row) in rows.iter().enumerate() {
                @let y = index as f64 * row_height;
                @let (whole, idle) = (scale(row.total_us), scale(row.idle_us.min(row.total_us)));
                @let (weight, class) = if row.is_best { ("700", "best") } else { ("400", "bar") };
                text x=(px(left - 8.0)) y=(px(y + 16.0)) text-anchor="end" font-weight=(weight) { (row.label) }
                rect class=(class) x=(px(left)) y=(px(y + 4.0)) width=(px(whole)) height="17" {}
                @for step in 0..(idle / 5.0).ceil() as u32 {
                    @let x = left + whole - idle + 5.0 * f64::from(step);
                    @let across = (left + whole - x).min(5.0);
                    line.hatch x1=(px(x)) y1=(px(y + 21.0)) x2=(px(x + across)) y2=(px(y + 4.0)) {}
                }
                text x=(px(left + whole + 7.0)) y=(px(y + 16.0)) {
                    (time_text(row.total_us))
                    @if row.idle_us > 0.0 { tspan.quiet { " (idle " (time_text(row.idle_us)) ")" } }
                }
            }
        }
    }
}

/// Units below the lanes of a timeline, for its scale.
const SCALE_HEIGHT: f64 = 22.0;
/// Height of a lane.
const LANE_HEIGHT: f64 = 24.0;
/// Height of a caption in a picture.
const CAPTION_HEIGHT: f64 = 26.0;

/// Lanes that have something to show.
fn shown_lanes(lanes: &[Lane]) -> Vec<&Lane> {
    lanes.iter().filter(|lane| lane.bars.iter().any(|bar| bar.kind != BarKind::Call)).collect()
}

fn timeline_height(lanes: &[Lane]) -> f64 {
    (shown_lanes(lanes).len() + 1) as f64 * LANE_HEIGHT + SCALE_HEIGHT
}

/// Timelines with captions below each other, as a file of its own.
pub(super) fn picture(parts: &[(&str, &[Lane])], style: &str) -> Markup {
    let ends =
        parts.iter().flat_map(|(_, lanes)| lanes.iter()).flat_map(|lane| &lane.bars).map(|bar| bar.end_us);
    let longest_us = ends.fold(0.0, f64::max);
    let heights: Vec<f64> =
        parts.iter().map(|(_, lanes)| CAPTION_HEIGHT + timeline_height(lanes) + 8.0).collect();
    let height: f64 = heights.iter().sum();
    let tops = heights.iter().scan(0.0, |next, height| {
        let top = *next;
        *next += height;
        Some(top)
    });
    html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDE} {height}"))
            width=(px(WIDE)) height=(px(height)) font-family="system-ui, DejaVu Sans, sans-serif" font-size="12" {
            style { (PreEscaped(style)) }
            rect x="0" y="0" width=(px(WIDE)) height=(px(height)) style="fill:var(--page)" {}
            @for ((caption, lanes), top) in parts.iter().zip(tops) {
                text x="6" y=(px(top + 18.0)) font-weight="600" font-size="13" { (caption) }
                g transform=(format!("translate(0 {})", px(top + CAPTION_HEIGHT))) { (timeline_marks(lanes, longest_us)) }
            }
        }
    }
}

/// Lanes over time; calls are left out, gaps of the device have a lane of their own.
pub(super) fn timeline(lanes: &[Lane], longest_us: f64) -> Markup {
    html! {
        svg viewBox=(format!("0 0 {WIDE} {}", timeline_height(lanes))) role="img" { (timeline_marks(lanes, longest_us)) }
    }
}

fn timeline_marks(lanes: &[Lane], longest_us: f64) -> Markup {
    let (lane_height, left) = (LANE_HEIGHT, 120.0);
    let scale = |us: f64| left + us / longest_us.max(f64::MIN_POSITIVE) * (WIDE - left - 12.0);
    let is_shown = |kind: BarKind| kind != BarKind::Call;
    let shown = shown_lanes(lanes);
    let gaps = idle_gaps(lanes);
    let idle_us: f64 = gaps.iter().map(|(start, end)| end - start).sum();
    let bottom = (shown.len() + 1) as f64 * lane_height;
    html! {
        @for (index, lane) in shown.iter().enumerate() {
                @let y = index as f64 * lane_height;
                text x=(px(left - 8.0)) y=(px(y + 15.0)) text-anchor="end" { (lane.name) }
                rect.lane x=(px(left)) y=(px(y + 2.0)) width=(px(WIDE - left - 12.0)) height=(px(lane_height - 4.0)) {}
                @for bar in lane.bars.iter().filter(|bar| is_shown(bar.kind)) {
                    @let (x, end) = (scale(bar.start_us), scale(bar.end_us));
                    @let width = px((end - x).max(0.4));
                    rect class=(class(bar.kind)) x=(px(x)) y=(px(y + 3.0)) width=(width) height=(px(lane_height - 6.0)) {
                        title { (bar_title(bar.name.as_str(), bar.batch, bar.end_us - bar.start_us)) }
                    }
                }
            }
            @let y = shown.len() as f64 * lane_height;
            text x=(px(left - 8.0)) y=(px(y + 15.0)) text-anchor="end" { "GPU idle" }
            @for (start, end) in &gaps {
                @let (x, wide) = (scale(*start), scale(*end) - scale(*start));
                rect.idle x=(px(x)) y=(px(y + 3.0)) width=(px(wide.max(0.4))) height=(px(lane_height - 10.0)) {
                    title { "idle for " (time_text(end - start)) }
                }
                @if wide > 58.0 {
                    text x=(px(x + wide / 2.0)) y=(px(y + 15.0)) text-anchor="middle" font-size="11"
                        style="fill:var(--page)" { (time_text(end - start)) }
                }
            }
            text.quiet x=(px(left)) y=(px(bottom + 15.0)) { "0" }
            text.quiet x=(px(WIDE - 12.0)) y=(px(bottom + 15.0)) text-anchor="end" { (time_text(longest_us)) }
            text x=(px((WIDE + left) / 2.0)) y=(px(bottom + 15.0)) text-anchor="middle" {
                "idle " (time_text(idle_us)) " in all"
            }
    }
}

fn bar_title(name: &str, batch: Option<u32>, us: f64) -> String {
    let batch = batch.map(|batch| format!(" of batch {batch}")).unwrap_or_default();
    format!("{name}{batch}: {}", time_text(us))
}

fn class(kind: BarKind) -> &'static str {
    match kind {
        BarKind::Call | BarKind::Step => "host",
        BarKind::Wait => "wait",
        BarKind::Kernel => "kernel",
        BarKind::Upload | BarKind::Download => "copy",
    }
}

/// A line of a chart.
#[derive(Debug, Clone)]
pub(super) struct Series {
    pub(super) name: String,
    /// Drawn dashed and grey.
    pub(super) is_floor: bool,
    pub(super) points: Vec<(f64, f64)>,
}

/// Times over sizes.
#[derive(Debug, Clone)]
pub(super) struct CurveChart {
    pub(super) title: String,
    pub(super) series: Vec<Series>,
}

/// Lines over powers of two, times on a logarithmic axis.
pub(super) fn curves(chart: &CurveChart) -> Markup {
    let (height, left, right, bottom) = (300.0, 62.0, 96.0, 34.0);
    let points = || chart.series.iter().flat_map(|series| &series.points);
    let (x_min, x_max) = extent(points().map(|point| point.0));
    let (y_min, y_max) = extent(points().map(|point| point.1.log10()));
    let (y_min, y_max) = (y_min.floor(), y_max.ceil().max(y_min.floor() + 1.0));
    let x = |value: f64| left + (value - x_min) / (x_max - x_min).max(1.0) * (WIDTH - left - right);
    let y = |us: f64| height - bottom - (us.log10() - y_min) / (y_max - y_min) * (height - bottom - 12.0);
    let mut last_y: Vec<(f64, usize)> = chart
        .series
        .iter()
        .enumerate()
        .filter_map(|(index, series)| Some((y(series.points.last()?.1), index)))
        .collect();
    spread(&mut last_y, 14.0);
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {height}")) role="img" {
            @for power in (y_min as i32)..=(y_max as i32) {
                @let at = y(10_f64.powi(power));
                line.grid-line x1=(px(left)) y1=(px(at)) x2=(px(WIDTH - right)) y2=(px(at)) {}
                text.quiet x=(px(left - 6.0)) y=(px(at + 4.0)) text-anchor="end" { (axis_text(power)) }
            }
            @for log_n in (x_min as i32)..=(x_max as i32) {
                @if log_n % 2 == 0 || x_max - x_min < 4.0 {
                    text.quiet x=(px(x(f64::from(log_n)))) y=(px(height - bottom + 17.0)) text-anchor="middle" {
                        "2" tspan font-size="9" dy="-4" { (log_n) }
                    }
                }
            }
            @for (index, series) in chart.series.iter().enumerate() {
                @let class = series_class(index, series.is_floor);
                @let path = path(series, x, y);
                g class=(class) {
                    polyline.curve points=(path) {}
                    @if !series.is_floor {
                        @for point in &series.points {
                            circle.dot cx=(px(x(point.0))) cy=(px(y(point.1))) r="3" {
                                title { (series.name) ", 2^" (point.0) ": " (time_text(point.1)) }
                            }
                        }
                    }
                }
            }
            @for (at, index) in &last_y {
                @let series = &chart.series[*index];
                @let end = series.points.last().map_or(x_max, |point| point.0);
                g class=(series_class(*index, series.is_floor)) {
                    text.name x=(px(x(end).max(WIDTH - right) + 8.0)) y=(px(at + 4.0)) { (series.name) }
                }
            }
        }
    }
}

/// A line's points as SVG takes them.
fn path(series: &Series, x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) -> String {
    let points = series.points.iter().map(|point| format!("{},{}", px(x(point.0)), px(y(point.1))));
    points.collect::<Vec<_>>().join(" ")
}

fn series_class(index: usize, is_floor: bool) -> String {
    if is_floor { "floor".into() } else { format!("s{}", index % 7) }
}

/// A power of ten of microseconds.
fn axis_text(power: i32) -> String {
    match power {
        ..3 => format!("{} \u{b5}s", 10_f64.powi(power)),
        3..6 => format!("{} ms", 10_f64.powi(power - 3)),
        _ => format!("{} s", 10_f64.powi(power - 6)),
    }
}

fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low.is_finite() { (low, high) } else { (0.0, 1.0) }
}

/// Moves labels down until none covers another.
fn spread(labels: &mut [(f64, usize)], least: f64) {
    labels.sort_by(|a, b| a.0.total_cmp(&b.0));
    for index in 1..labels.len() {
        labels[index].0 = labels[index].0.max(labels[index - 1].0 + least);
    }
}

/// Samples of one benchmark.
#[derive(Debug, Clone)]
pub(super) struct StripRow<'a> {
    pub(super) label: String,
    pub(super) samples_us: &'a [f64],
    pub(super) median_us: f64,
    pub(super) interval_us: Interval,
}

/// Samples as dots on a line, with median and interval.
pub(super) fn strips(rows: &[StripRow<'_>]) -> Markup {
    let (row_height, left, right) = (26.0, 165.0, 90.0);
    let samples = || rows.iter().flat_map(|row| row.samples_us.iter().copied());
    let (low, high) = extent(samples());
    // Where all are the same there is still an axis.
    let (low, high) = (low - 0.01 * low.abs(), high + 0.01 * high.abs());
    let x = |us: f64| left + (us - low) / (high - low).max(f64::MIN_POSITIVE) * (WIDE - left - right);
    let bottom = row_height * rows.len() as f64;
    html! {
        svg viewBox=(format!("0 0 {WIDE} {}", bottom + 20.0)) role="img" {
            @for (index, row) in rows.iter().enumerate() {
                @let y = index as f64 * row_height + 13.0;
                text x=(px(left - 8.0)) y=(px(y + 4.0)) text-anchor="end" { (row.label) }
                line.grid-line x1=(px(left)) y1=(px(y)) x2=(px(WIDE - right)) y2=(px(y)) {}
                @let (from, to) = (x(row.interval_us.low), x(row.interval_us.high));
                rect.interval x=(px(from)) y=(px(y - 9.0)) width=(px((to - from).max(1.0))) height="18" {}
                @for sample in row.samples_us { circle.sample cx=(px(x(*sample))) cy=(px(y)) r="4" {} }
                line.median x1=(px(x(row.median_us))) y1=(px(y - 9.0)) x2=(px(x(row.median_us))) y2=(px(y + 9.0)) {}
                text x=(px(WIDE - right + 8.0)) y=(px(y + 4.0)) { (time_text(row.median_us)) }
            }
            text.quiet x=(px(left)) y=(px(bottom + 15.0)) { (time_text(low)) }
            text.quiet x=(px(WIDE - right)) y=(px(bottom + 15.0)) text-anchor="end" { (time_text(high)) }
        }
    }
}

/// Shares over labelled moments.
pub(super) fn history(labels: &[String], series: &[Series]) -> Markup {
    let (height, left, right, bottom) = (240.0, 62.0, 330.0, 34.0);
    let (low, high) = extent(series.iter().flat_map(|series| series.points.iter().map(|point| point.1)));
    let (low, high) = (low.min(0.95), high.max(1.05));
    let count = (labels.len() - 1).max(1) as f64;
    let x = |index: f64| left + index / count * (WIDE - left - right);
    let y = |share: f64| height - bottom - (share - low) / (high - low) * (height - bottom - 12.0);
    let mut ends: Vec<(f64, usize)> = series
        .iter()
        .enumerate()
        .filter_map(|(index, series)| Some((y(series.points.last()?.1), index)))
        .collect();
    spread(&mut ends, 14.0);
    html! {
        svg viewBox=(format!("0 0 {WIDE} {height}")) role="img" {
            @for share in [low, 1.0, high] {
                line.grid-line x1=(px(left)) y1=(px(y(share))) x2=(px(WIDE - right)) y2=(px(y(share))) {}
                text.quiet x=(px(left - 6.0)) y=(px(y(share) + 4.0)) text-anchor="end" {
                    (format!("{:.0} %", 100.0 * share))
                }
            }
            @for (index, label) in labels.iter().enumerate() {
                @if index == 0 || index + 1 == labels.len() || labels.len() <= 8 {
                    @let anchor = if index == 0 { "start" } else if index + 1 == labels.len() { "end" } else { "middle" };
                    text.quiet x=(px(x(index as f64))) y=(px(height - bottom + 17.0)) text-anchor=(anchor) { (label) }
                }
            }
            @for (index, series) in series.iter().enumerate() {
                @let path = path(series, x, y);
                g class=(series_class(index, false)) {
                    polyline.curve points=(path) {}
                    @for point in &series.points { circle.dot cx=(px(x(point.0))) cy=(px(y(point.1))) r="3" {} }
                }
            }
            @for (at, index) in &ends {
                g class=(series_class(*index, false)) {
                    text.name x=(px(WIDE - right + 8.0)) y=(px(at + 4.0)) { (series[*index].name) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_a_unit() {
        let texts = [0.5, 9.876, 98.76, 987.6, 18_100.0, 1_234_000.0].map(time_text);
        assert_eq!(
            texts,
            ["0.50 \u{b5}s", "9.88 \u{b5}s", "98.8 \u{b5}s", "988 \u{b5}s", "18.1 ms", "1.23 s"]
        );
    }

    #[test]
    fn labels_do_not_cover_each_other() {
        let mut labels = vec![(50.0, 0), (52.0, 1), (49.0, 2), (200.0, 3)];
        spread(&mut labels, 14.0);
        assert_eq!(labels, [(49.0, 2), (63.0, 0), (77.0, 1), (200.0, 3)]);
    }
}
