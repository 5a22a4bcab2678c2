//! The checker on schedules small enough to judge by eye: each kind of hazard with its exact words, and the
//! batch loop with each of the faults that its synchronisation has really had.

use gpu_core::check::{CheckedSchedule, HazardKind, Report, check};
use gpu_core::schedule::{Action, Arg, BufferId, EventId, Launch, Region, Schedule, Space, StreamId, Work};
use std::time::{Duration, Instant};

fn launch(schedule: &mut Schedule, name: &'static str, batch: Option<u32>, stream: StreamId, args: Vec<Arg>) {
    let launch = Launch { kernel: name.into(), grid: [1, 1], block: 32, args, work: Work::default() };
    schedule.push(name, batch, Action::Launch { stream, launch });
}

fn step(
    schedule: &mut Schedule,
    name: &'static str,
    batch: Option<u32>,
    reads: Vec<Region>,
    writes: Vec<Region>,
) {
    schedule.push(name, batch, Action::HostStep { reads, writes, host_us: 1.0 });
}

/// Two streams with an event each, a device buffer, a page-locked slot each way. All 64 bytes.
struct Small {
    schedule: Schedule,
    compute: StreamId,
    copy: StreamId,
    rows_ready: EventId,
    copied: EventId,
    rows: Region,
    slot: Region,
    staging: Region,
}

impl Small {
    fn new() -> Self {
        let mut schedule = Schedule::new("small");
        let [rows, slot, staging] =
            [("rows", Space::Device), ("slot", Space::PinnedDownload), ("staging", Space::PinnedUpload)].map(
                |(name, space)| {
                    let buffer = schedule.buffer(name, space, 64);
                    schedule.whole(buffer)
                },
            );
        let (compute, copy) = (schedule.stream("compute"), schedule.stream("copy"));
        let (rows_ready, copied) = (schedule.event("rows ready"), schedule.event("copied"));
        Self { schedule, compute, copy, rows_ready, copied, rows, slot, staging }
    }

    fn reduce(&mut self, batch: u32) {
        launch(&mut self.schedule, "reduce", Some(batch), self.compute, vec![Arg::Write(self.rows)]);
    }

    fn download(&mut self, batch: u32) {
        let action = Action::Download { stream: self.copy, src: self.rows, dst: self.slot };
        self.schedule.push("download", Some(batch), action);
    }

    fn upload(&mut self, batch: u32) {
        let action = Action::Upload { stream: self.copy, src: self.staging, dst: self.rows };
        self.schedule.push("upload", Some(batch), action);
    }

    fn fold(&mut self, batch: u32) {
        step(&mut self.schedule, "fold", Some(batch), vec![self.slot], vec![]);
    }

    fn stage(&mut self, batch: u32) {
        step(&mut self.schedule, "stage", Some(batch), vec![], vec![self.staging]);
    }

    fn record(&mut self, stream: StreamId, event: EventId) {
        self.schedule.push("record", None, Action::Record { stream, event });
    }

    fn wait(&mut self, stream: StreamId, event: EventId) {
        self.schedule.push("wait", None, Action::Wait { stream, event });
    }

    fn host_wait(&mut self, event: EventId) {
        self.schedule.push("host_wait", None, Action::HostWait { event });
    }

    /// One batch, in order: reduce, download, fold. Operations 0 to 6.
    fn ordered(&mut self) {
        self.reduce(0);
        self.record(self.compute, self.rows_ready);
        self.wait(self.copy, self.rows_ready);
        self.download(0);
        self.record(self.copy, self.copied);
        self.host_wait(self.copied);
        self.fold(0);
    }
}

fn texts(report: &Report) -> Vec<String> {
    report.hazards.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn assert_report(schedule: &Schedule, hazards: &[(HazardKind, &str)], surplus: &[&str]) {
    let report = check(schedule);
    let found: Vec<_> = report.hazards.iter().map(|hazard| (hazard.kind, hazard.text.as_str())).collect();
    assert_eq!(found, hazards, "{schedule}");
    let found: Vec<_> = report.surplus.iter().map(|surplus| surplus.text.as_str()).collect();
    assert_eq!(found, surplus, "{schedule}");
}

#[test]
fn an_ordered_batch_is_clean() {
    let mut small = Small::new();
    small.ordered();
    assert_report(&small.schedule, &[], &[]);
    assert!(CheckedSchedule::new(small.schedule).is_ok());
}

#[test]
fn read_after_write() {
    let mut small = Small::new();
    small.reduce(0);
    small.download(0);
    small.record(small.copy, small.copied);
    small.host_wait(small.copied);
    small.fold(0);
    assert_report(
        &small.schedule,
        &[(
            HazardKind::ReadAfterWrite,
            "no order between #0 reduce of batch 0 on compute (writes rows) and #1 download of batch 0 on \
             copy (reads rows); missing: an event recorded on compute after #0, for which copy waits \
             before #1",
        )],
        &[],
    );
}

#[test]
fn write_after_read_with_the_overlap_in_the_report() {
    let mut small = Small::new();
    small.ordered();
    // The edge from the download to the next batch is there for the first half of the rows only.
    let half = Region { bytes: 40, ..small.rows };
    let other_half = Region { offset: 32, bytes: 32, ..small.rows };
    let action = Action::Download { stream: small.copy, src: half, dst: Region { bytes: 40, ..small.slot } };
    small.schedule.push("download", Some(1), action);
    launch(&mut small.schedule, "reduce", Some(2), small.compute, vec![Arg::Write(other_half)]);
    small.record(small.copy, small.copied);
    small.host_wait(small.copied);
    small.fold(1);
    // The fold reads bytes 40..64 of the first batch's result again.
    assert_report(
        &small.schedule,
        &[
            (
                HazardKind::WriteAfterRead,
                "no order between #7 download of batch 1 on copy (reads rows+0..40) and #8 reduce of batch \
                 2 on compute (writes rows+32..64); missing: an event recorded on copy after #7, for which \
                 compute waits before #8",
            ),
            (
                HazardKind::CollectedTwice,
                "#11 fold of batch 1 on host reads slot+40..64 again: #6 fold of batch 0 on host has read \
                 what the download brought there",
            ),
        ],
        &[],
    );
    let overlap = Region { offset: 32, bytes: 8, ..small.rows };
    let race = &check(&small.schedule).hazards[0];
    assert_eq!((race.earlier, race.at, race.region), (Some(7), Some(8), Some(overlap)));
}

#[test]
fn write_after_write() {
    let mut small = Small::new();
    small.reduce(0);
    small.schedule.push("clear", None, Action::Fill { stream: small.copy, dst: small.rows, byte: 0 });
    assert_report(
        &small.schedule,
        &[(
            HazardKind::WriteAfterWrite,
            "no order between #0 reduce of batch 0 on compute (writes rows) and #1 clear on copy (writes \
             rows); missing: an event recorded on compute after #0, for which copy waits before #1",
        )],
        &[],
    );
}

#[test]
fn read_too_early() {
    let mut small = Small::new();
    small.reduce(0);
    small.record(small.compute, small.rows_ready);
    small.wait(small.copy, small.rows_ready);
    small.download(0);
    small.record(small.copy, small.copied);
    small.host_wait(small.rows_ready); // the wrong event
    small.fold(0);
    assert_report(
        &small.schedule,
        &[(
            HazardKind::ReadTooEarly,
            "the host has not waited for #3 download of batch 0 on copy (writes slot) before #6 fold of \
             batch 0 on host (reads slot); missing: an event recorded on copy after #3, for which the host \
             waits before #6",
        )],
        &[],
    );
}

#[test]
fn source_overwritten() {
    let mut small = Small::new();
    small.stage(0);
    small.upload(0);
    small.stage(1);
    assert_report(
        &small.schedule,
        &[(
            HazardKind::SourceOverwritten,
            "#2 stage of batch 1 on host (writes staging) may overwrite what #1 upload of batch 0 on copy \
             (reads staging) has still to copy; missing: an event recorded on copy after #1, for which the \
             host waits before #2",
        )],
        &[],
    );
}

#[test]
fn a_pageable_source_may_be_overwritten_at_once() {
    let mut small = Small::new();
    small.schedule.buffers[small.staging.buffer.0 as usize].space = Space::Pageable;
    small.stage(0);
    small.upload(0);
    small.stage(1);
    assert_report(&small.schedule, &[], &[]);
}

#[test]
fn never_recorded() {
    let mut small = Small::new();
    small.host_wait(small.copied);
    small.wait(small.copy, small.rows_ready);
    small.record(small.copy, small.copied); // too late
    assert_report(
        &small.schedule,
        &[
            (
                HazardKind::NeverRecorded,
                "#0 host_wait on host waits for event copied, which nothing before it records",
            ),
            (
                HazardKind::NeverRecorded,
                "#1 wait on copy waits for event rows ready, which nothing before it records",
            ),
        ],
        &[],
    );
}

#[test]
fn a_wait_is_bound_to_the_last_mark_before_it() {
    // The mark that the copy needs is recorded after its wait: the wait holds for the earlier mark alone.
    let mut small = Small::new();
    launch(&mut small.schedule, "recode", None, small.compute, vec![]);
    small.record(small.compute, small.rows_ready);
    small.wait(small.copy, small.rows_ready);
    small.reduce(0);
    small.record(small.compute, small.rows_ready);
    small.download(0);
    small.record(small.copy, small.copied);
    small.host_wait(small.copied);
    small.fold(0);
    let report = check(&small.schedule);
    let found: Vec<_> =
        report.hazards.iter().map(|hazard| (hazard.kind, hazard.earlier, hazard.at)).collect();
    assert_eq!(found, [(HazardKind::ReadAfterWrite, Some(3), Some(5))]);
}

#[test]
fn uncollected_at_the_end_and_by_the_next_download() {
    let mut small = Small::new();
    small.ordered();
    small.download(1);
    small.download(2);
    assert_report(
        &small.schedule,
        &[
            (
                HazardKind::Uncollected,
                "nothing reads what #7 download of batch 1 on copy brings to slot before #8 download of \
                 batch 2 on copy overwrites it",
            ),
            (
                HazardKind::Uncollected,
                "nothing reads what #8 download of batch 2 on copy brings to slot before the schedule ends",
            ),
        ],
        &[],
    );
}

#[test]
fn a_result_read_in_part_is_uncollected() {
    let mut small = Small::new();
    small.ordered();
    let Action::HostStep { reads, .. } = &mut small.schedule.ops[6].action else { unreachable!() };
    reads[0].bytes = 48;
    assert_report(
        &small.schedule,
        &[(
            HazardKind::Uncollected,
            "nothing reads what #3 download of batch 0 on copy brings to slot+48..64 before the schedule \
             ends",
        )],
        &[],
    );
}

#[test]
fn collected_twice() {
    let mut small = Small::new();
    small.ordered();
    // Another step may look at the same result, the same step may not.
    step(&mut small.schedule, "log", None, vec![small.slot], vec![]);
    small.fold(1);
    assert_report(
        &small.schedule,
        &[(
            HazardKind::CollectedTwice,
            "#8 fold of batch 1 on host reads slot again: #6 fold of batch 0 on host has read what the \
             download brought there",
        )],
        &[],
    );
}

#[test]
fn uninitialised() {
    let mut small = Small::new();
    small.download(0);
    launch(&mut small.schedule, "sort", None, small.copy, vec![Arg::Read(small.rows)]);
    small.record(small.copy, small.copied);
    small.host_wait(small.copied);
    small.fold(0);
    assert_report(
        &small.schedule,
        &[
            (
                HazardKind::Uninitialised,
                "#0 download of batch 0 on copy reads rows, which nothing has written",
            ),
            (HazardKind::Uninitialised, "#1 sort on copy reads rows, which nothing has written"),
        ],
        &[],
    );
    small.schedule.buffers[small.rows.buffer.0 as usize].space = Space::Resident;
    assert_report(&small.schedule, &[], &[]);
}

#[test]
fn malformed_names_each_fault_and_nothing_else() {
    let mut small = Small::new();
    let (rows, slot, staging) = (small.rows, small.slot, small.staging);
    small.schedule.buffer("rows", Space::Device, 8);
    let beyond = Region { offset: 60, bytes: 8, ..rows };
    let overflow = Region { offset: u64::MAX, bytes: 2, ..rows };
    let nowhere = Region { buffer: BufferId(9), offset: 0, bytes: 64 };
    launch(&mut small.schedule, "a", None, StreamId(5), vec![Arg::Read(beyond), Arg::Read(overflow)]);
    launch(&mut small.schedule, "b", None, small.compute, vec![Arg::Read(slot), Arg::Write(nowhere)]);
    let half = Region { offset: 16, bytes: 32, ..rows };
    launch(&mut small.schedule, "c", None, small.compute, vec![Arg::Read(half), Arg::Write(rows)]);
    small.schedule.push("d", None, Action::Upload { stream: small.copy, src: slot, dst: half });
    small.schedule.push("e", None, Action::Download { stream: small.copy, src: rows, dst: staging });
    small.schedule.push("f", None, Action::Fill { stream: small.copy, dst: staging, byte: 1 });
    small.schedule.push("g", None, Action::HostWait { event: EventId(7) });
    step(&mut small.schedule, "h", None, vec![rows], vec![slot, slot]);
    let expected = [
        "two buffers are named rows",
        "#0 a on stream 5: there is no stream 5",
        "#0 a on stream 5: rows+60..68 lies outside its 64 bytes",
        "#0 a on stream 5: rows+18446744073709551615..18446744073709551615 lies outside its 64 bytes",
        "#1 b on compute: slot is PinnedDownload memory, not device memory",
        "#1 b on compute: there is no buffer 9+0..64",
        "#2 c on compute: rows+16..48 and rows overlap, and one is written",
        "#3 d on copy: slot is PinnedDownload memory, not a source of uploads",
        "#3 d on copy: slot has 64 bytes and rows+16..48 has 32",
        "#4 e on copy: staging is PinnedUpload memory, not a target of downloads",
        "#5 f on copy: staging is PinnedUpload memory, not device memory",
        "#6 g on host: there is no event 7",
        "#7 h on host: rows is Device memory, not host memory",
        "#7 h on host: slot and slot overlap, and one is written",
    ];
    let hazards = expected.map(|text| (HazardKind::Malformed, text));
    assert_report(&small.schedule, &hazards, &[]);
    // The table of a malformed schedule can still be printed.
    assert!(small.schedule.to_string().contains("wait event 7"));
    let refused = std::panic::catch_unwind(|| CheckedSchedule::for_simulation_only(small.schedule.clone()));
    let message = *refused.expect_err("no device runs it").downcast::<String>().expect("formatted");
    assert_eq!(message, "schedule small cannot run on any device: two buffers are named rows");
}

/// What the caller has lent for a run is read where it lies, and nobody writes it: no download, and no step of the host.
#[test]
fn memory_of_the_caller_is_not_written() {
    let mut small = Small::new();
    let lent = small.schedule.buffer("lent", Space::Registered, 64);
    let lent = small.schedule.whole(lent);
    step(&mut small.schedule, "reads", None, vec![lent], vec![]);
    step(&mut small.schedule, "writes", None, vec![], vec![lent]);
    small.schedule.push("brings", None, Action::Download { stream: small.copy, src: small.rows, dst: lent });
    let expected = [
        "#1 writes on host: lent is Registered memory, not host memory of the schedule",
        "#2 brings on copy: lent is Registered memory, not a target of downloads",
    ];
    assert_report(&small.schedule, &expected.map(|text| (HazardKind::Malformed, text)), &[]);
}

#[test]
fn surplus_waits() {
    let mut small = Small::new();
    small.ordered();
    small.host_wait(small.copied);
    small.record(small.compute, small.rows_ready);
    small.wait(small.copy, small.rows_ready); // marks nothing since the first
    small.wait(small.compute, small.copied); // the host has waited for it
    assert_report(
        &small.schedule,
        &[],
        &[
            "#7 host_wait on host waits for event copied, which orders nothing new",
            "#9 wait on copy waits for event rows ready, which orders nothing new",
            "#10 wait on compute waits for event copied, which orders nothing new",
        ],
    );
}

#[test]
fn a_download_to_pageable_memory_makes_the_wait_surplus() {
    let mut small = Small::new();
    small.ordered();
    small.schedule.buffers[small.slot.buffer.0 as usize].space = Space::Pageable;
    assert_report(
        &small.schedule,
        &[],
        &["#5 host_wait on host waits for event copied, which orders nothing new"],
    );
}

#[test]
fn a_copy_of_nothing_orders_nothing() {
    let mut small = Small::new();
    small.schedule.buffers[small.slot.buffer.0 as usize].space = Space::Pageable;
    small.stage(0);
    small.upload(0);
    let (src, dst) = (Region { bytes: 0, ..small.rows }, Region { bytes: 0, ..small.slot });
    small.schedule.push("download", None, Action::Download { stream: small.copy, src, dst });
    small.stage(1);
    let kinds: Vec<_> = check(&small.schedule).hazards.iter().map(|hazard| hazard.kind).collect();
    assert_eq!(kinds, [HazardKind::SourceOverwritten]);
    // An empty region inside a written one is no overlap either.
    let empty = Region { offset: 8, bytes: 0, ..small.rows };
    let mut small = Small::new();
    launch(&mut small.schedule, "k", None, small.compute, vec![Arg::Read(empty), Arg::Write(small.rows)]);
    assert_report(&small.schedule, &[], &[]);
}

/// The batch loop of an MSM with deferred synchronisation: `slots` result slots on the host, one set of rows
/// on the device.
#[derive(Clone, Copy)]
struct Loop {
    batches: u32,
    slots: u32,
    space: Space,
    /// The compute stream waits for the download before it overwrites the rows.
    has_device_edge: bool,
    /// A batch waits for the one that filled its slot only from the first reuse on.
    has_first_batch_guard: bool,
    /// Collects the batches that are still in flight at the end.
    collects_last: bool,
    /// Slot that the fold of batch i reads, as an offset to i.
    fold_shift: u32,
}

impl Loop {
    fn new(batches: u32, slots: u32) -> Self {
        let space = Space::PinnedDownload;
        Self {
            batches,
            slots,
            space,
            has_device_edge: true,
            has_first_batch_guard: true,
            collects_last: true,
            fold_shift: 0,
        }
    }

    fn schedule(self) -> Schedule {
        let mut s = Schedule::new(format!("loop of {} batches, {} slots", self.batches, self.slots));
        let buckets = s.buffer("buckets", Space::Device, 1 << 20);
        let rows = s.buffer("rows", Space::Device, 4096);
        let bases = s.buffer("bases", Space::Resident, 4096 * u64::from(self.batches));
        let slots: Vec<_> =
            (0..self.slots).map(|i| s.buffer(format!("slot[{i}]"), self.space, 4096)).collect();
        let (compute, copy) = (s.stream("compute"), s.stream("copy"));
        let reduced = s.event("reduced");
        let copied: Vec<_> = (0..self.slots).map(|i| s.event(format!("copied[{i}]"))).collect();
        let slot = |batch: u32| (batch % self.slots) as usize;
        let collect = |s: &mut Schedule, batch: u32| {
            s.push("collect", Some(batch), Action::HostWait { event: copied[slot(batch)] });
            let read = s.whole(slots[slot(batch + self.fold_shift)]);
            step(s, "fold", Some(batch), vec![read], vec![]);
        };
        for batch in 0..self.batches {
            let (buckets, rows) = (s.whole(buckets), s.whole(rows));
            let own = Region { buffer: bases, offset: 4096 * u64::from(batch), bytes: 4096 };
            launch(&mut s, "accumulate", Some(batch), compute, vec![Arg::Read(own), Arg::Write(buckets)]);
            if self.has_device_edge && batch > 0 {
                s.push("edge", Some(batch), Action::Wait { stream: compute, event: copied[slot(batch - 1)] });
            }
            launch(&mut s, "reduce", Some(batch), compute, vec![Arg::Read(buckets), Arg::Write(rows)]);
            s.push("mark", Some(batch), Action::Record { stream: compute, event: reduced });
            s.push("wait", Some(batch), Action::Wait { stream: copy, event: reduced });
            if batch >= self.slots {
                collect(&mut s, batch - self.slots);
            } else if !self.has_first_batch_guard {
                s.push("collect", None, Action::HostWait { event: copied[slot(batch)] });
            }
            let dst = s.whole(slots[slot(batch)]);
            s.push("download", Some(batch), Action::Download { stream: copy, src: rows, dst });
            s.push("mark", Some(batch), Action::Record { stream: copy, event: copied[slot(batch)] });
        }
        if self.collects_last {
            for batch in self.batches.saturating_sub(self.slots)..self.batches {
                collect(&mut s, batch);
            }
        }
        s
    }

    fn kinds(self) -> Vec<HazardKind> {
        let mut kinds: Vec<_> = check(&self.schedule()).hazards.iter().map(|hazard| hazard.kind).collect();
        kinds.sort();
        kinds.dedup();
        kinds
    }
}

#[test]
fn the_batch_loop_is_clean_for_one_batch_and_for_many() {
    for slots in 1..=4 {
        for batches in 0..=9 {
            let schedule = Loop::new(batches, slots).schedule();
            assert_report(&schedule, &[], &[]);
        }
    }
}

#[test]
fn each_fault_of_the_batch_loop_is_caught_at_its_kind() {
    use HazardKind::*;
    let good = Loop::new(5, 2);
    assert_eq!(Loop { has_device_edge: false, ..good }.kinds(), [WriteAfterRead]);
    assert_eq!(Loop { has_first_batch_guard: false, ..good }.kinds(), [NeverRecorded]);
    assert_eq!(Loop { collects_last: false, ..good }.kinds(), [Uncollected]);
    assert_eq!(Loop { fold_shift: 1, ..good }.kinds(), [ReadTooEarly, Uncollected, CollectedTwice]);
    // Slots in pageable memory hide the missing device edge, and show as waits that order nothing.
    let hidden = Loop { has_device_edge: false, space: Space::Pageable, ..good };
    let report = check(&hidden.schedule());
    assert_eq!(texts(&report), [""; 0]);
    let collects = report.surplus.iter().filter(|surplus| surplus.text.contains("collect")).count();
    assert_eq!(collects, 5);
}

#[test]
fn the_missing_device_edge_is_named_by_both_operations() {
    let schedule = Loop { has_device_edge: false, ..Loop::new(2, 2) }.schedule();
    let expected = "no order between #4 download of batch 0 on copy (reads rows) and #7 reduce of batch 1 \
                    on compute (writes rows); missing: an event recorded on copy after #4, for which \
                    compute waits before #7";
    assert_report(&schedule, &[(HazardKind::WriteAfterRead, expected)], &[]);
    let error = CheckedSchedule::new(schedule).expect_err("it has a hazard");
    assert_eq!(
        error.to_string(),
        format!("schedule loop of 2 batches, 2 slots is not safe to run: 1 hazard\n  {expected}")
    );
}

#[test]
fn a_long_report_prints_its_head_and_a_count() {
    let schedule = Loop { has_device_edge: false, ..Loop::new(40, 2) }.schedule();
    let report = check(&schedule);
    assert_eq!(report.hazards.len(), 39);
    let text = report.to_string();
    assert!(text.starts_with("39 hazards\n  no order between #4 download"), "{text}");
    assert!(text.ends_with("\n  and 19 more"), "{text}");
    assert_eq!(text.lines().count(), 22);
}

/// Ten thousand operations are checked in well under a second, ordered or not, whole buffers or tiles.
#[test]
fn time_is_linear_in_the_operations() {
    let check_in_time = |schedule: &Schedule, hazards: bool| {
        let start = Instant::now();
        let report = check(schedule);
        let elapsed = start.elapsed();
        assert_eq!(report.is_clean(), !hazards);
        println!("{}: {} operations in {elapsed:?}", schedule.name, schedule.ops.len());
        // Some hundred times what it takes, so that a loaded machine does not fail it; quadratic time would.
        assert!(elapsed < Duration::from_secs(3), "{}: {elapsed:?}", schedule.name);
    };
    let good = Loop::new(1250, 8);
    assert!(good.schedule().ops.len() >= 10_000);
    check_in_time(&good.schedule(), false);
    check_in_time(&Loop { has_device_edge: false, ..good }.schedule(), true);

    let mut tiles = Schedule::new("tiles");
    let streams: Vec<_> = (0..8).map(|i| tiles.stream(format!("stream {i}"))).collect();
    let buffers: Vec<_> = (0..32).map(|i| tiles.buffer(format!("buffer {i}"), Space::Device, 5000)).collect();
    for i in 0..5000u32 {
        let (stream, buffer) = (streams[i as usize % 8], buffers[i as usize % 32]);
        let tile = Region { buffer, offset: u64::from(i), bytes: 1 };
        launch(&mut tiles, "tile", None, stream, vec![Arg::Write(tile)]);
        let action = Action::Fill { stream, dst: tile, byte: 0 };
        tiles.push("fill", None, action);
    }
    check_in_time(&tiles, false);
}
