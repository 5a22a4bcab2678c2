//! Timelines as Perfetto and Chrome's tracing page read them [Trace Event Format]: a process for each timeline, a track for
//! each lane, an arrow from the call of the host to what it queued, and as counters the bytes that are on their way and what
//! else was read of the device meanwhile.

use crate::lanes::{BarKind, Lane};
use serde::Serialize;
use serde_json::{Value, json};

/// Numbers of arrows that a process has for itself.
const ARROWS_PER_PROCESS: usize = 1_000_000;

/// A timeline with its name.
#[derive(Debug, Clone)]
pub struct Process {
    /// As the reader sees it.
    pub name: String,
    /// Its lanes.
    pub lanes: Vec<Lane>,
    /// What was read meanwhile.
    pub counters: Vec<Counter>,
}

/// A value that changes with time.
#[derive(Debug, Clone, PartialEq)]
pub struct Counter {
    /// As the reader sees it.
    pub name: String,
    /// Unit of its values.
    pub unit: String,
    /// Microseconds from the start of the run, ascending, and the value from then on.
    pub points: Vec<(f64, f64)>,
}

/// A file of the format.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceFile {
    display_time_unit: &'static str,
    trace_events: Vec<Value>,
}

impl TraceFile {
    /// Timelines below each other, each with its own time from 0.
    pub fn new(processes: &[Process]) -> Self {
        let mut trace_events = Vec::new();
        for (index, process) in processes.iter().enumerate() {
            push(&mut trace_events, index + 1, process);
        }
        Self { display_time_unit: "ms", trace_events }
    }
}

fn push(events: &mut Vec<Value>, pid: usize, process: &Process) {
    let meta = |name: &str, tid: usize, args: Value| json!({"ph": "M", "name": name, "pid": pid, "tid": tid, "args": args});
    events.push(meta("process_name", 0, json!({"name": process.name})));
    events.push(meta("process_sort_index", 0, json!({"sort_index": pid})));
    for (index, lane) in process.lanes.iter().enumerate() {
        let tid = index + 1;
        events.push(meta("thread_name", tid, json!({"name": lane.name})));
        events.push(meta("thread_sort_index", tid, json!({"sort_index": tid})));
        for bar in &lane.bars {
            let category = serde_json::to_value(bar.kind).expect("a word");
            let mut args = json!({"op": bar.op});
            if let Some(batch) = bar.batch {
                args["batch"] = batch.into();
            }
            if bar.bytes > 0 {
                args["bytes"] = bar.bytes.into();
            }
            events.push(json!({
                "ph": "X", "name": bar.name, "cat": category, "pid": pid, "tid": tid,
                "ts": bar.start_us, "dur": bar.end_us - bar.start_us, "args": args,
            }));
            // An arrow's number is its own in the whole file.
            let id = pid * ARROWS_PER_PROCESS + bar.op;
            let arrow = |ph: &str| {
                json!({
                    "ph": ph, "name": "queued", "cat": "queued", "id": id, "pid": pid, "tid": tid, "ts": bar.start_us,
                })
            };
            match bar.kind {
                BarKind::Call => events.push(arrow("s")),
                BarKind::Kernel | BarKind::Upload | BarKind::Download => {
                    let mut end = arrow("f");
                    end["bp"] = "e".into();
                    events.push(end);
                }
                BarKind::Step | BarKind::Wait => {}
            }
        }
    }
    for (name, kind) in
        [("bytes on their way up", BarKind::Upload), ("bytes on their way down", BarKind::Download)]
    {
        let mut changes: Vec<(f64, i64)> = Vec::new();
        for bar in process.lanes.iter().flat_map(|lane| &lane.bars).filter(|bar| bar.kind == kind) {
            changes.extend([(bar.start_us, bar.bytes as i64), (bar.end_us, -(bar.bytes as i64))]);
        }
        changes.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut bytes = 0;
        for (ts, change) in changes {
            bytes += change;
            events.push(json!({"ph": "C", "name": name, "pid": pid, "ts": ts, "args": {"bytes": bytes}}));
        }
    }
    for Counter { name, unit, points } in &process.counters {
        for (ts, value) in points {
            events.push(json!({"ph": "C", "name": name, "pid": pid, "ts": ts, "args": {unit: value}}));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::Bar;
    use std::collections::BTreeMap;

    fn bar(op: usize, kind: BarKind, start_us: f64, end_us: f64) -> Bar {
        let bytes = if matches!(kind, BarKind::Upload | BarKind::Download) { 64 } else { 0 };
        Bar { op, name: format!("op {op}"), kind, batch: Some(0), bytes, start_us, end_us }
    }

    #[test]
    fn tracks_arrows_and_counters_are_there() {
        let host = vec![bar(0, BarKind::Call, 0.0, 1.0), bar(1, BarKind::Call, 1.0, 2.0)];
        let lanes = vec![
            Lane { name: "host".into(), bars: host },
            Lane { name: "stream compute".into(), bars: vec![bar(1, BarKind::Kernel, 5.0, 9.0)] },
            Lane { name: "copy up".into(), bars: vec![bar(0, BarKind::Upload, 1.0, 5.0)] },
        ];
        let process = |name: &str| Process { name: name.into(), lanes: lanes.clone(), counters: vec![] };
        let processes = [process("a"), process("b")];
        let file = serde_json::to_value(TraceFile::new(&processes)).expect("JSON");
        let events = file["traceEvents"].as_array().expect("events");
        let of = |ph: &'static str| events.iter().filter(move |event| event["ph"] == ph);
        assert_eq!(of("X").count(), 8);
        // Each arrow has one start and one end, and starts before it ends.
        let mut arrows = BTreeMap::new();
        of("s")
            .for_each(|event| assert!(arrows.insert(event["id"].as_u64(), event["ts"].as_f64()).is_none()));
        assert_eq!(of("f").count(), arrows.len());
        for end in of("f") {
            assert!(arrows[&end["id"].as_u64()] <= end["ts"].as_f64(), "{end}");
        }
        let counted: Vec<_> = of("C").map(|event| event["args"]["bytes"].as_i64()).collect();
        assert_eq!(counted, [Some(64), Some(0), Some(64), Some(0)]);
        let names: Vec<_> = of("M")
            .filter(|event| event["name"] == "thread_name")
            .map(|event| &event["args"]["name"])
            .collect();
        assert_eq!(names, ["host", "stream compute", "copy up", "host", "stream compute", "copy up"]);
    }

    #[test]
    fn a_process_has_the_counters_that_were_read_in_its_run() {
        let counter = |name: &str, unit: &str, points: &[(f64, f64)]| Counter {
            name: name.into(),
            unit: unit.into(),
            points: points.to_vec(),
        };
        let power = counter("power (W)", "W", &[(0.0, 91.25), (1000.5, 412.0)]);
        let clock = counter("SM clock (MHz)", "MHz", &[(0.0, 1980.0)]);
        let processes = [("read", vec![power, clock]), ("not read", vec![])]
            .map(|(name, counters)| Process { name: name.into(), lanes: vec![], counters });
        let file = serde_json::to_value(TraceFile::new(&processes)).expect("JSON");
        let events = file["traceEvents"].as_array().expect("events").iter();
        let counted: Vec<_> = events.filter(|event| event["ph"] == "C").cloned().collect();
        let expected = [
            json!({"ph": "C", "name": "power (W)", "pid": 1, "ts": 0.0, "args": {"W": 91.25}}),
            json!({"ph": "C", "name": "power (W)", "pid": 1, "ts": 1000.5, "args": {"W": 412.0}}),
            json!({"ph": "C", "name": "SM clock (MHz)", "pid": 1, "ts": 0.0, "args": {"MHz": 1980.0}}),
        ];
        assert_eq!(counted, expected);
    }
}
