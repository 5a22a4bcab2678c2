//! The checker on schedules of several host threads: each kind of hazard with its exact words, and the batch
//! loop with a collector thread, whole and with each of its flags missing.

use gpu_core::check::{HazardKind, Report, check};
use gpu_core::model::{Profile, estimate};
use gpu_core::schedule::{
    Action, Arg, EventId, FlagId, Launch, MAIN, Region, Schedule, Space, StreamId, ThreadId, Work,
};

/// Two host threads, two streams, two events, two flags, a page-locked slot each way. All 64 bytes.
struct Pair {
    schedule: Schedule,
    other: ThreadId,
    up: StreamId,
    down: StreamId,
    events: [EventId; 2],
    flags: [FlagId; 2],
    rows: Region,
    slot: Region,
    staging: Region,
}

impl Pair {
    fn new() -> Self {
        let mut schedule = Schedule::new("pair");
        let spaces =
            [("rows", Space::Device), ("slot", Space::PinnedDownload), ("staging", Space::PinnedUpload)];
        let [rows, slot, staging] = spaces.map(|(name, space)| {
            let buffer = schedule.buffer(name, space, 64);
            schedule.whole(buffer)
        });
        let other = schedule.thread("collector");
        let (up, down) = (schedule.stream("up"), schedule.stream("down"));
        let events = ["filled", "copied"].map(|name| schedule.event(name));
        let flags = ["queued", "folded"].map(|name| schedule.flag(name));
        Self { schedule, other, up, down, events, flags, rows, slot, staging }
    }

    fn fill(&mut self, thread: ThreadId, stream: StreamId) {
        let dst = self.rows;
        self.schedule.push_on(thread, "fill", None, Action::Fill { stream, dst, byte: 0 });
    }

    fn download(&mut self, thread: ThreadId, stream: StreamId) {
        let (src, dst) = (self.rows, self.slot);
        self.schedule.push_on(thread, "download", None, Action::Download { stream, src, dst });
    }

    fn stage(&mut self, thread: ThreadId) {
        let writes = vec![self.staging];
        self.schedule.push_on(
            thread,
            "stage",
            None,
            Action::HostStep { reads: vec![], writes, host_us: 1.0 },
        );
    }

    fn fold(&mut self, thread: ThreadId) {
        let reads = vec![self.slot];
        self.schedule.push_on(thread, "fold", None, Action::HostStep { reads, writes: vec![], host_us: 1.0 });
    }

    fn record(&mut self, thread: ThreadId, stream: StreamId, event: usize) {
        let event = self.events[event];
        self.schedule.push_on(thread, "record", None, Action::Record { stream, event });
    }

    fn wait(&mut self, thread: ThreadId, stream: StreamId, event: usize) {
        let event = self.events[event];
        self.schedule.push_on(thread, "wait", None, Action::Wait { stream, event });
    }

    fn host_wait(&mut self, thread: ThreadId, event: usize) {
        self.schedule.push_on(thread, "host_wait", None, Action::HostWait { event: self.events[event] });
    }

    fn signal(&mut self, thread: ThreadId, flag: usize) {
        self.schedule.push_on(thread, "signal", None, Action::Signal { flag: self.flags[flag] });
    }

    fn awaits(&mut self, thread: ThreadId, flag: usize) {
        self.schedule.push_on(thread, "await", None, Action::Await { flag: self.flags[flag] });
    }

    /// The host queues, the collector waits and folds. Operations 0 to 6.
    fn handed_over(&mut self) {
        self.fill(MAIN, self.down);
        self.download(MAIN, self.down);
        self.record(MAIN, self.down, 1);
        self.signal(MAIN, 0);
        self.awaits(self.other, 0);
        self.host_wait(self.other, 1);
        self.fold(self.other);
    }
}

#[track_caller]
fn assert_report(schedule: &Schedule, hazards: &[(HazardKind, &str)], surplus: &[&str]) {
    let report = check(schedule);
    let found: Vec<_> = report.hazards.iter().map(|hazard| (hazard.kind, hazard.text.as_str())).collect();
    assert_eq!(found, hazards, "{schedule}");
    let found: Vec<_> = report.surplus.iter().map(|surplus| surplus.text.as_str()).collect();
    assert_eq!(found, surplus, "{schedule}");
    // Whatever is wrong with its threads, an estimate ends.
    assert_eq!(estimate(schedule, &Profile::h200()).len(), schedule.ops.len());
}

#[test]
fn a_flag_orders_two_threads() {
    let mut pair = Pair::new();
    pair.handed_over();
    assert_report(&pair.schedule, &[], &[]);
    let table = pair.schedule.to_string();
    for line in ["host      signal queued", "collector await queued"] {
        assert!(table.contains(line), "{line} in\n{table}");
    }
}

#[test]
fn a_list_that_is_no_order_of_issue_is_looked_at_in_one() {
    let mut pair = Pair::new();
    pair.handed_over();
    // All of the collector first: it gets on when the host has signalled all the same.
    pair.schedule.ops.rotate_left(4);
    assert_eq!(pair.schedule.op_name(0), "#0 await on collector");
    assert_report(&pair.schedule, &[], &[]);
    pair.schedule.ops.remove(1); // its wait for the download
    assert_report(
        &pair.schedule,
        &[(
            HazardKind::ReadTooEarly,
            "collector has not waited for #3 download on down (writes slot) before #1 fold on collector \
             (reads slot); missing: an event recorded on down after #3, for which collector waits before #1",
        )],
        &[],
    );
}

#[test]
fn steps_of_two_threads_race_without_a_flag() {
    let mut pair = Pair::new();
    pair.stage(MAIN);
    pair.stage(pair.other);
    let (reads, slot) = (vec![pair.staging], pair.staging);
    let look = Action::HostStep { reads, writes: vec![], host_us: 1.0 };
    pair.schedule.push("look", None, look);
    pair.schedule.push_on(
        pair.other,
        "upload",
        None,
        Action::Upload { stream: pair.up, src: slot, dst: pair.rows },
    );
    pair.stage(MAIN);
    assert_report(
        &pair.schedule,
        &[
            (
                HazardKind::WriteAfterWrite,
                "no order between #0 stage on host (writes staging) and #1 stage on collector (writes staging); \
                 missing: a flag that the host signals after #0 and collector awaits before #1",
            ),
            (
                HazardKind::ReadAfterWrite,
                "no order between #1 stage on collector (writes staging) and #2 look on host (reads staging); \
                 missing: a flag that collector signals after #1 and the host awaits before #2",
            ),
            (
                HazardKind::ReadAfterWrite,
                "no order between #0 stage on host (writes staging) and #3 upload on up by collector (reads \
                 staging); missing: a flag that the host signals after #0 and collector awaits before #3",
            ),
            (
                HazardKind::WriteAfterWrite,
                "no order between #1 stage on collector (writes staging) and #4 stage on host (writes staging); \
                 missing: a flag that collector signals after #1 and the host awaits before #4",
            ),
            (
                HazardKind::SourceOverwritten,
                "#4 stage on host (writes staging) may overwrite what #3 upload on up by collector (reads staging) \
                 has still to copy; missing: an event recorded on up after #3, for which the host waits before #4",
            ),
        ],
        &[],
    );
}

#[test]
fn a_pageable_source_is_read_by_the_thread_that_issues_the_upload() {
    let mut schedule = Schedule::new("pageable");
    let [source, rows] = [("source", Space::Pageable), ("rows", Space::Device)].map(|(name, space)| {
        let buffer = schedule.buffer(name, space, 64);
        schedule.whole(buffer)
    });
    let (other, stream) = (schedule.thread("loader"), schedule.stream("up"));
    let stage = || Action::HostStep { reads: vec![], writes: vec![source], host_us: 1.0 };
    schedule.push_on(other, "stage", None, stage());
    schedule.push_on(other, "upload", None, Action::Upload { stream, src: source, dst: rows });
    schedule.push("stage", None, stage());
    assert_report(
        &schedule,
        &[
            (
                HazardKind::WriteAfterWrite,
                "no order between #0 stage on loader (writes source) and #2 stage on host (writes source); \
                 missing: a flag that loader signals after #0 and the host awaits before #2",
            ),
            (
                HazardKind::WriteAfterRead,
                "no order between #1 upload on up by loader (reads source) and #2 stage on host (writes source); \
                 missing: a flag that loader signals after #1 and the host awaits before #2",
            ),
        ],
        &[],
    );
}

#[test]
fn which_mark_a_wait_is_bound_to_must_not_be_left_to_chance() {
    let mut pair = Pair::new();
    pair.fill(MAIN, pair.up);
    pair.record(MAIN, pair.up, 0);
    pair.wait(pair.other, pair.down, 0);
    pair.record(MAIN, pair.up, 0);
    assert_report(
        &pair.schedule,
        &[
            (
                HazardKind::UnorderedMark,
                "no order between #1 record on up and #2 wait on down by collector, and so no telling which mark \
                 of event filled is waited for; missing: a flag that the host signals after #1 and collector \
                 awaits before #2",
            ),
            (
                HazardKind::UnorderedMark,
                "no order between #2 wait on down by collector and #3 record on up, and so no telling which mark \
                 of event filled is waited for; missing: a flag that collector signals after #2 and the host \
                 awaits before #3",
            ),
        ],
        &[],
    );
}

#[test]
fn what_comes_first_on_a_stream_must_not_be_left_to_chance() {
    let mut pair = Pair::new();
    pair.fill(MAIN, pair.up);
    pair.fill(pair.other, pair.up);
    assert_report(
        &pair.schedule,
        &[(
            HazardKind::UnorderedIssue,
            "no order between #0 fill on up and #1 fill on up by collector, and so no telling which comes first \
             on up; missing: a flag that the host signals after #0 and collector awaits before #1",
        )],
        &[],
    );
    let mut pair = Pair::new();
    pair.fill(MAIN, pair.up);
    pair.signal(MAIN, 0);
    pair.awaits(pair.other, 0);
    pair.fill(pair.other, pair.up);
    assert_report(&pair.schedule, &[], &[]);
}

#[test]
fn flags_are_signalled_once_and_awaited_by_others() {
    let mut pair = Pair::new();
    pair.awaits(MAIN, 1);
    pair.signal(MAIN, 0);
    pair.signal(MAIN, 0);
    pair.awaits(pair.other, 0);
    pair.awaits(pair.other, 0);
    assert_report(
        &pair.schedule,
        &[
            (HazardKind::NeverSignalled, "#0 await on host awaits flag folded, which nothing signals"),
            (
                HazardKind::SignalledTwice,
                "#2 signal on host signals flag queued, which #1 signal on host has signalled",
            ),
        ],
        &["#4 await on collector waits for flag queued, which orders nothing new"],
    );
}

#[test]
fn threads_that_wait_for_each_other_are_named() {
    let mut pair = Pair::new();
    pair.awaits(MAIN, 1);
    pair.signal(MAIN, 0);
    pair.awaits(pair.other, 0);
    pair.signal(pair.other, 1);
    assert_report(
        &pair.schedule,
        &[(
            HazardKind::Deadlock,
            "host threads wait for each other: #0 await on host awaits folded from #3 signal on collector, #2 \
             await on collector awaits queued from #1 signal on host",
        )],
        &[],
    );
    let mut pair = Pair::new();
    pair.awaits(MAIN, 0);
    pair.signal(MAIN, 0);
    assert_report(
        &pair.schedule,
        &[(
            HazardKind::Deadlock,
            "host threads wait for each other: #0 await on host awaits queued from #1 signal on host",
        )],
        &[],
    );
}

#[test]
fn malformed_threads_and_flags_are_named() {
    let mut pair = Pair::new();
    pair.signal(ThreadId(4), 0);
    pair.schedule.push("await", None, Action::Await { flag: FlagId(7) });
    let report = check(&pair.schedule);
    let texts: Vec<_> = report.hazards.iter().map(|hazard| hazard.text.as_str()).collect();
    assert_eq!(
        texts,
        ["#0 signal on thread 4: there is no thread 4", "#1 await on host: there is no flag 7"]
    );
    assert!(pair.schedule.to_string().contains("await flag 7"));
}

/// Batches with a collector thread and two slots: for each batch reduce, download, fold.
fn collected_by_a_thread(batches: usize) -> Schedule {
    let mut schedule = Schedule::new("loop");
    let rows = schedule.buffer("rows", Space::Device, 64);
    let slots = [0, 1].map(|slot| schedule.buffer(format!("slot[{slot}]"), Space::PinnedDownload, 64));
    let (rows, slots) = (schedule.whole(rows), slots.map(|slot| schedule.whole(slot)));
    let (compute, down) = (schedule.stream("compute"), schedule.stream("down"));
    let reduced = [0, 1].map(|slot| schedule.event(format!("reduced[{slot}]")));
    let downloaded = [0, 1].map(|slot| schedule.event(format!("downloaded[{slot}]")));
    let collector = schedule.thread("collector");
    let mut folded = Vec::new();
    for batch in 0..batches {
        let (slot, number) = (batch % 2, Some(batch as u32));
        if batch >= 2 {
            schedule.push("await_folded", number, Action::Await { flag: folded[batch - 2] });
        }
        if batch >= 1 {
            let event = downloaded[1 - slot];
            schedule.push("wait_rows_free", number, Action::Wait { stream: compute, event });
        }
        let args = vec![Arg::Write(rows)];
        let launch = Launch { kernel: "reduce".into(), grid: [1, 1], block: 32, args, work: Work::default() };
        schedule.push("reduce", number, Action::Launch { stream: compute, launch });
        schedule.push("record_reduced", number, Action::Record { stream: compute, event: reduced[slot] });
        schedule.push("wait_reduced", number, Action::Wait { stream: down, event: reduced[slot] });
        let download = Action::Download { stream: down, src: rows, dst: slots[slot] };
        schedule.push("download", number, download);
        schedule.push("record_downloaded", number, Action::Record { stream: down, event: downloaded[slot] });
        let queued = schedule.flag(format!("queued[{batch}]"));
        schedule.push("signal_queued", number, Action::Signal { flag: queued });
        schedule.push_on(collector, "await_queued", number, Action::Await { flag: queued });
        schedule.push_on(collector, "wait_downloaded", number, Action::HostWait { event: downloaded[slot] });
        let fold = Action::HostStep { reads: vec![slots[slot]], writes: vec![], host_us: 1.0 };
        schedule.push_on(collector, "fold", number, fold);
        folded.push(schedule.flag(format!("folded[{batch}]")));
        schedule.push_on(collector, "signal_folded", number, Action::Signal { flag: folded[batch] });
    }
    schedule
}

#[test]
fn the_batch_loop_with_a_collector_is_clean_and_needs_each_of_its_orders() {
    use HazardKind::*;
    for batches in [1, 2, 3, 8] {
        assert_report(&collected_by_a_thread(batches), &[], &[]);
    }
    let without = |name: &str| -> Report {
        let mut schedule = collected_by_a_thread(5);
        let first = schedule.ops.iter().rposition(|op| op.name == name).expect("the loop has one");
        schedule.ops.remove(first);
        check(&schedule)
    };
    let kinds = |name: &str| -> Vec<HazardKind> {
        let mut kinds: Vec<_> = without(name).hazards.iter().map(|hazard| hazard.kind).collect();
        kinds.sort();
        kinds.dedup();
        kinds
    };
    assert_eq!(
        kinds("await_queued"),
        [ReadTooEarly, UnorderedMark],
        "the wait may be for an older mark, or for none"
    );
    assert_eq!(kinds("await_folded"), [WriteAfterRead, UnorderedMark]);
    assert_eq!(kinds("wait_downloaded"), [ReadTooEarly]);
    assert_eq!(kinds("wait_rows_free"), [WriteAfterRead]);
    assert_eq!(kinds("signal_queued"), [ReadTooEarly, UnorderedMark, NeverSignalled]);
}
