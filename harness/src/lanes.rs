//! A trace as lanes of bars: what a reader of a timeline looks at, on a screen or in Perfetto.
//!
//! A lane for each host thread, for what runs on each stream, and for each copy engine. Bars of one lane never overlap: what
//! would is put into another lane of the same name.

use gpu_core::Schedule;
use gpu_core::model::Span;
use gpu_core::schedule::{Action, Op};
use serde::{Deserialize, Serialize};

/// What a bar shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BarKind {
    /// A call that queues an operation.
    Call,
    /// Host code of the schedule.
    Step,
    /// The host waits.
    Wait,
    /// A kernel, or a fill.
    Kernel,
    /// A copy to the device.
    Upload,
    /// A copy from the device.
    Download,
}

/// An operation, or the call that queued it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    /// Position of the operation in its schedule: a call and what it queued have the same.
    pub op: usize,
    /// Name of the operation.
    pub name: String,
    /// What it shows.
    pub kind: BarKind,
    /// Batch that it works for.
    pub batch: Option<u32>,
    /// Bytes that a copy moves, else 0.
    pub bytes: u64,
    /// Microseconds from the start of the run.
    pub start_us: f64,
    /// Microseconds from the start of the run.
    pub end_us: f64,
}

/// Bars that do not overlap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lane {
    /// Host thread, stream, or copy engine.
    pub name: String,
    /// In the order of time.
    pub bars: Vec<Bar>,
}

/// Names of the lanes of the copy engines.
pub const COPY_UP: &str = "copy up";
/// See [`COPY_UP`].
pub const COPY_DOWN: &str = "copy down";

/// The lanes of a run: host threads first, then streams, then copy engines. Empty ones are left out.
///
/// # Panics
/// If there is not one span and one call for each operation.
pub fn lanes(schedule: &Schedule, spans: &[Span], calls: &[Span]) -> Vec<Lane> {
    assert!(schedule.ops.len() == spans.len() && spans.len() == calls.len(), "one of each an operation");
    let mut named: Vec<(String, Vec<Bar>)> =
        schedule.threads.iter().map(|name| (name.clone(), vec![])).collect();
    named.extend(schedule.streams.iter().map(|name| (format!("stream {name}"), vec![])));
    named.extend([COPY_UP, COPY_DOWN].map(|name| (name.to_string(), vec![])));
    let (threads, streams) = (schedule.threads.len(), schedule.streams.len());
    for (index, op) in schedule.ops.iter().enumerate() {
        let (span, thread) = (spans[index], op.thread.0 as usize);
        let Some(kind) = kind(op) else { continue };
        let bytes = match &op.action {
            Action::Upload { src, .. } => src.bytes,
            Action::Download { dst, .. } => dst.bytes,
            _ => 0,
        };
        let bar = |kind, span: Span| Bar {
            op: index,
            name: op.name.to_string(),
            kind,
            batch: op.batch,
            bytes,
            start_us: span.start_us,
            end_us: span.end_us.max(span.start_us),
        };
        let stream = op.stream().map(|stream| threads + stream.0 as usize);
        match (kind, stream) {
            (BarKind::Upload, _) => named[threads + streams].1.push(bar(kind, span)),
            (BarKind::Download, _) => named[threads + streams + 1].1.push(bar(kind, span)),
            (_, Some(stream)) => named[stream].1.push(bar(kind, span)),
            (_, None) => named[thread].1.push(bar(kind, span)),
        }
        if stream.is_some() {
            named[thread].1.push(bar(BarKind::Call, calls[index]));
        }
    }
    named.into_iter().flat_map(|(name, bars)| apart(&name, bars)).collect()
}

/// What is shown of an operation: copies of nothing, marks and waits of streams are not.
fn kind(op: &Op) -> Option<BarKind> {
    match &op.action {
        Action::Upload { src, .. } => (src.bytes > 0).then_some(BarKind::Upload),
        Action::Download { dst, .. } => (dst.bytes > 0).then_some(BarKind::Download),
        Action::Fill { .. } | Action::Launch { .. } => Some(BarKind::Kernel),
        Action::HostStep { .. } => Some(BarKind::Step),
        Action::HostWait { .. } | Action::Await { .. } => Some(BarKind::Wait),
        Action::Record { .. } | Action::Wait { .. } | Action::Signal { .. } => None,
    }
}

/// Spreads bars over as many lanes as it takes for none to overlap.
fn apart(name: &str, mut bars: Vec<Bar>) -> Vec<Lane> {
    bars.sort_by(|a, b| a.start_us.total_cmp(&b.start_us).then(a.op.cmp(&b.op)));
    let mut lanes: Vec<Lane> = Vec::new();
    for bar in bars {
        let is_free = |lane: &&mut Lane| lane.bars.last().is_none_or(|last| last.end_us <= bar.start_us);
        match lanes.iter_mut().find(is_free) {
            Some(lane) => lane.bars.push(bar),
            None => {
                let name =
                    if lanes.is_empty() { name.into() } else { format!("{name} ({})", lanes.len() + 1) };
                lanes.push(Lane { name, bars: vec![bar] });
            }
        }
    }
    lanes
}

/// Disjoint times in which a bar of a kind is there, ascending.
fn busy(lanes: &[Lane], kinds: &[BarKind]) -> Vec<(f64, f64)> {
    let bars = lanes.iter().flat_map(|lane| &lane.bars).filter(|bar| kinds.contains(&bar.kind));
    let mut spans: Vec<(f64, f64)> = bars.map(|bar| (bar.start_us, bar.end_us)).collect();
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut joined: Vec<(f64, f64)> = Vec::new();
    for span in spans {
        match joined.last_mut() {
            Some(last) if span.0 <= last.1 => last.1 = last.1.max(span.1),
            _ => joined.push(span),
        }
    }
    joined
}

/// Times between the device's first and last operation in which it runs no kernel.
pub fn idle_gaps(lanes: &[Lane]) -> Vec<(f64, f64)> {
    let all = busy(lanes, &[BarKind::Kernel, BarKind::Upload, BarKind::Download]);
    let (Some(first), Some(last)) = (all.first(), all.last()) else { return Vec::new() };
    let mut gaps = Vec::new();
    let mut free_us = first.0;
    for (start, end) in busy(lanes, &[BarKind::Kernel]) {
        if start > free_us {
            gaps.push((free_us, start));
        }
        free_us = free_us.max(end);
    }
    if last.1 > free_us {
        gaps.push((free_us, last.1));
    }
    gaps
}

/// Time in which copies and kernels run at once.
pub fn overlap_us(lanes: &[Lane]) -> f64 {
    let copies = busy(lanes, &[BarKind::Upload, BarKind::Download]);
    let shared = |a: (f64, f64), b: (f64, f64)| (a.1.min(b.1) - a.0.max(b.0)).max(0.0);
    let kernels = busy(lanes, &[BarKind::Kernel]);
    kernels.iter().flat_map(|kernel| copies.iter().map(|copy| shared(*kernel, *copy))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu_core::model::{Profile, Timeline, estimate_with_calls};
    use msm_gpu::{DeviceLimits, GroupKind, MsmConfig, MsmPlan, ScalarForm, Strategy};

    fn traced(strategy: Strategy) -> (Schedule, Vec<Span>, Vec<Lane>) {
        let limits =
            DeviceLimits { free_bytes: 1 << 36, resident_threads: 132 * 2048, costs: msm_gpu::Costs::SM_90 };
        let config = MsmConfig { strategy, ..MsmConfig::batches(4) };
        let plan = MsmPlan::new(GroupKind::G1, ScalarForm::Montgomery, 1 << 18, &config, &limits);
        let schedule = msm_gpu::schedule::build(&plan.expect("a plan"));
        let (spans, calls) = estimate_with_calls(&schedule, &Profile::h200());
        let lanes = lanes(&schedule, &spans, &calls);
        (schedule, spans, lanes)
    }

    #[test]
    fn lanes_say_what_the_timeline_says_and_their_bars_do_not_overlap() {
        for strategy in crate::EVERY_STRATEGY {
            let (schedule, spans, lanes) = traced(strategy);
            for lane in &lanes {
                assert!(lane.bars.windows(2).all(|pair| pair[0].end_us <= pair[1].start_us), "{}", lane.name);
            }
            let idle: f64 = idle_gaps(&lanes).iter().map(|(start, end)| end - start).sum();
            let timeline = Timeline::new(&schedule, &spans);
            assert!((idle - timeline.gpu_idle_us).abs() < 1e-6, "{strategy}: {idle} {timeline:?}");
            let names: Vec<&str> = lanes.iter().map(|lane| lane.name.as_str()).collect();
            assert!(names.contains(&"host") && names.contains(&"stream compute"), "{names:?}");
            assert!(names.contains(&COPY_UP) && names.contains(&COPY_DOWN), "{names:?}");
        }
    }

    #[test]
    fn every_operation_on_the_device_was_called_before_it_ran() {
        let (_, _, lanes) = traced(Strategy::Deferred { buffers: 2 });
        let all = || lanes.iter().flat_map(|lane| &lane.bars);
        let on_device = [BarKind::Kernel, BarKind::Upload, BarKind::Download];
        for bar in all().filter(|bar| on_device.contains(&bar.kind)) {
            let call = all().find(|call| call.kind == BarKind::Call && call.op == bar.op).expect("a call");
            assert!(call.start_us <= bar.start_us, "{call:?} {bar:?}");
        }
    }

    #[test]
    fn copies_overlap_kernels_only_where_something_is_deferred() {
        let [hard, deferred] = [Strategy::Hard, Strategy::Deferred { buffers: 2 }].map(|strategy| {
            let (.., lanes) = traced(strategy);
            overlap_us(&lanes)
        });
        assert!(deferred > 2.0 * hard, "{deferred} and {hard}");
    }

    #[test]
    fn bars_that_overlap_get_lanes_of_their_own() {
        let bar = |op, start_us, end_us| Bar {
            op,
            name: "copy".into(),
            kind: BarKind::Upload,
            batch: None,
            bytes: 1,
            start_us,
            end_us,
        };
        let lanes = apart("copy up", vec![bar(0, 0.0, 5.0), bar(1, 3.0, 4.0), bar(2, 5.0, 6.0)]);
        let names: Vec<_> = lanes.iter().map(|lane| (lane.name.as_str(), lane.bars.len())).collect();
        assert_eq!(names, [("copy up", 2), ("copy up (2)", 1)]);
    }
}
