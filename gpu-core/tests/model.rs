//! The estimator on schedules whose timeline can be worked out by hand, and what it says of the batch loop's
//! variants.

use gpu_core::check::check;
use gpu_core::model::{Profile, ProfileError, Span, Timeline, estimate};
use gpu_core::schedule::{Action, Arg, Launch, MAIN, Region, Schedule, Space, StreamId, Work};

/// Round numbers: products at 1 a microsecond with all 10 multiprocessors, memory at 10 bytes a microsecond.
fn profile() -> Profile {
    Profile {
        name: "round".into(),
        source: "made up".into(),
        notes: vec![],
        sm_count: 10,
        sm_clock_hz: 1e9,
        memory_bytes: 1 << 30,
        fp_mul_per_s: 1e6,
        chain_mul_us: 2.0,
        memory_bytes_per_s: 10e6,
        pinned_up_bytes_per_s: 4e6,
        pinned_down_bytes_per_s: 2e6,
        pageable_up_bytes_per_s: 1e6,
        pageable_down_bytes_per_s: 1e6,
        launch_us: 1.0,
        copy_issue_us: 2.0,
        event_us: 0.5,
        host_wait_us: 5.0,
        kernel_min_us: 3.0,
        copy_min_us: 4.0,
        staged_up_us: 0.0,
    }
}

fn kernel(
    schedule: &mut Schedule,
    batch: Option<u32>,
    stream: StreamId,
    blocks: u32,
    work: Work,
    args: Vec<Arg>,
) {
    let launch = Launch { kernel: "kernel".into(), grid: [blocks, 1], block: 32, args, work };
    schedule.push("kernel", batch, Action::Launch { stream, launch });
}

fn products(fp_muls: f64) -> Work {
    Work { fp_muls, ..Work::default() }
}

fn step(schedule: &mut Schedule, host_us: f64) {
    schedule.push("step", None, Action::HostStep { reads: vec![], writes: vec![], host_us });
}

#[track_caller]
fn assert_spans(schedule: &Schedule, expected: &[(f64, f64)]) -> Timeline {
    let spans = estimate(schedule, &profile());
    let found: Vec<_> = spans.iter().map(|span| (span.start_us, span.end_us)).collect();
    assert_eq!(found, expected, "{schedule}");
    Timeline::new(schedule, &spans)
}

#[test]
fn a_kernel_takes_the_largest_of_its_bounds() {
    let mut s = Schedule::new("bounds");
    let stream = s.stream("compute");
    let chain = Work { fp_muls: 20.0, bytes: 0.0, chain_muls: 15.0 };
    kernel(&mut s, None, stream, 1, Work::default(), vec![]); // an empty one: 3
    kernel(&mut s, None, stream, 10, products(20.0), vec![]); // all multiprocessors: 20
    kernel(&mut s, None, stream, 5, products(20.0), vec![]); // half of them: 40
    kernel(&mut s, None, stream, 90, products(20.0), vec![]); // more blocks than multiprocessors: 20
    kernel(&mut s, None, stream, 10, chain, vec![]); // chain: 30
    kernel(&mut s, None, stream, 10, Work { bytes: 500.0, ..chain }, vec![]); // bytes: 50
    let timeline = assert_spans(
        &s,
        &[(1.0, 4.0), (4.0, 24.0), (24.0, 64.0), (64.0, 84.0), (84.0, 114.0), (114.0, 164.0)],
    );
    assert_eq!((timeline.makespan_us, timeline.compute_busy_us, timeline.gpu_idle_us), (163.0, 163.0, 0.0));
}

#[test]
fn the_host_queues_ahead_and_waits_for_what_it_must() {
    let mut s = Schedule::new("host");
    let (device, slot) = (s.buffer("rows", Space::Device, 40), s.buffer("slot", Space::PinnedDownload, 40));
    let (src, dst) = (s.whole(device), s.whole(slot));
    let stream = s.stream("compute");
    let done = s.event("done");
    kernel(&mut s, None, stream, 10, products(10.0), vec![]);
    s.push("download", None, Action::Download { stream, src, dst });
    s.push("mark", None, Action::Record { stream, event: done });
    step(&mut s, 2.0);
    s.push("wait", None, Action::HostWait { event: done });
    step(&mut s, 7.0);
    s.push("wait", None, Action::HostWait { event: done });
    let timeline = assert_spans(
        &s,
        &[
            (1.0, 11.0),  // kernel: issued at 1
            (11.0, 31.0), // download: issued at 3, after the kernel, 40 bytes at 2
            (31.0, 31.0), // mark: issued at 3.5
            (3.5, 5.5),   // step
            (5.5, 36.0),  // wait: reached at 31, and 5 to wake up
            (36.0, 43.0), // step
            (43.0, 43.5), // wait for what has been reached: a look
        ],
    );
    assert_eq!((timeline.gpu_idle_us, timeline.host_blocked_us), (20.0, 31.0));
}

/// Blocks of both dimensions count, and a fill is bound by memory.
#[test]
fn a_kernel_has_all_blocks_of_its_grid_and_a_fill_takes_its_bytes() {
    let mut s = Schedule::new("grid and fill");
    let (buffer, stream) = (s.buffer("points", Space::Device, 500), s.stream("compute"));
    let work = products(20.0);
    let launch = Launch { kernel: "kernel".into(), grid: [2, 5], block: 32, args: vec![], work };
    s.push("kernel", None, Action::Launch { stream, launch });
    let (large, small) = (s.whole(buffer), Region { buffer, offset: 0, bytes: 20 });
    for dst in [large, small] {
        s.push("fill", None, Action::Fill { stream, dst, byte: 0 });
    }
    assert_spans(&s, &[(1.0, 21.0), (21.0, 71.0), (71.0, 74.0)]);
}

/// There is one engine a direction: what two streams send one way goes one after another.
#[test]
fn copies_of_one_direction_take_turns_beside_those_of_the_other() {
    let mut s = Schedule::new("copies");
    let device = s.buffer("points", Space::Device, 80);
    let (above, below) =
        (s.buffer("up", Space::PinnedUpload, 80), s.buffer("down", Space::PinnedDownload, 40));
    let half = Region { buffer: device, offset: 0, bytes: 40 };
    let (src, whole, dst) = (s.whole(above), s.whole(device), s.whole(below));
    for name in ["first", "second"] {
        let stream = s.stream(name);
        s.push("upload", None, Action::Upload { stream, src, dst: whole });
    }
    for name in ["third", "fourth"] {
        let stream = s.stream(name);
        s.push("download", None, Action::Download { stream, src: half, dst });
    }
    // Issued every 2, each takes 20.
    assert_spans(&s, &[(2.0, 22.0), (22.0, 42.0), (6.0, 26.0), (26.0, 46.0)]);
}

/// Of two threads the one that is earlier goes on first, whichever of them it is: what it queues then is there in time.
#[test]
fn an_engine_takes_what_the_earlier_thread_has_queued_first() {
    for early_is_main in [true, false] {
        let mut s = Schedule::new("two threads");
        let other = s.thread("other");
        let (early, late) = if early_is_main { (MAIN, other) } else { (other, MAIN) };
        let work = |host_us| Action::HostStep { reads: vec![], writes: vec![], host_us };
        for (thread, before_us, after_us) in [(early, 1.0, None), (late, 2.0, Some(100.0))] {
            s.push_on(thread, "step", None, work(before_us));
            let stream = s.stream(format!("stream of {thread:?}"));
            let (args, work_of_it) = (vec![], Work::default());
            let launch = Launch { kernel: "kernel".into(), grid: [1, 1], block: 32, args, work: work_of_it };
            s.push_on(thread, "kernel", None, Action::Launch { stream, launch });
            for host_us in after_us.into_iter().chain(after_us.map(|_| 1.0)) {
                s.push_on(thread, "step", None, work(host_us));
            }
        }
        assert_spans(&s, &[(0.0, 1.0), (2.0, 5.0), (0.0, 2.0), (5.0, 8.0), (3.0, 103.0), (103.0, 104.0)]);
    }
}

#[test]
fn engines_take_what_is_ready_first() {
    let mut s = Schedule::new("engines");
    let (device, staging) =
        (s.buffer("points", Space::Device, 80), s.buffer("staging", Space::PinnedUpload, 80));
    let (upload, compute, other) = (s.stream("upload"), s.stream("compute"), s.stream("other"));
    let up = s.event("up");
    let (src, dst) = (s.whole(staging), s.whole(device));
    s.push("upload", None, Action::Upload { stream: upload, src, dst });
    s.push("mark", None, Action::Record { stream: upload, event: up });
    s.push("wait", None, Action::Wait { stream: compute, event: up });
    kernel(&mut s, None, compute, 10, products(10.0), vec![]);
    kernel(&mut s, None, other, 10, products(15.0), vec![]);
    kernel(&mut s, None, other, 10, products(15.0), vec![]);
    let timeline = assert_spans(
        &s,
        &[
            (2.0, 22.0),  // upload: 80 bytes at 4
            (22.0, 22.0), // mark
            (3.0, 22.0),  // the compute stream stands in the wait
            (35.0, 45.0), // its kernel: ready at 22, but the engine has taken what was ready at 20 before
            (5.0, 20.0),  // the other stream's first kernel overtakes it
            (20.0, 35.0),
        ],
    );
    assert_eq!((timeline.makespan_us, timeline.compute_busy_us, timeline.gpu_idle_us), (43.0, 40.0, 3.0));
}

#[test]
fn copies_to_pageable_memory_block_the_host() {
    let mut s = Schedule::new("pageable");
    let (device, slot) = (s.buffer("rows", Space::Device, 20), s.buffer("slot", Space::Pageable, 20));
    let (src, dst) = (s.whole(device), s.whole(slot));
    let stream = s.stream("compute");
    kernel(&mut s, None, stream, 10, products(10.0), vec![]);
    s.push("download", None, Action::Download { stream, src, dst });
    step(&mut s, 1.0);
    let timeline = assert_spans(&s, &[(1.0, 11.0), (11.0, 31.0), (36.0, 37.0)]);
    // From the start, since the trace does not say when the host called: 31 of which 3 went into queueing.
    assert_eq!(timeline.host_blocked_us, 30.0);
}

#[test]
fn a_small_pageable_upload_is_staged_and_a_large_one_blocks() {
    let mut s = Schedule::new("pageable up");
    let (small, large) = (20, 100_000);
    let (device, source) =
        (s.buffer("points", Space::Device, large), s.buffer("source", Space::Pageable, large));
    let part = |buffer, bytes| Region { buffer, offset: 0, bytes };
    let stream = s.stream("upload");
    for bytes in [small, large] {
        let (src, dst) = (part(source, bytes), part(device, bytes));
        s.push("upload", None, Action::Upload { stream, src, dst });
        step(&mut s, 1.0);
    }
    assert_spans(
        &s,
        &[
            (22.0, 27.0), // the host stages 20 bytes at 1, the device copies them at 4
            (22.0, 23.0),
            (27.0, 100_027.0), // issued at 25
            (100_032.0, 100_033.0),
        ],
    );
}

#[test]
fn empty_copies_and_an_empty_schedule_take_no_time() {
    let mut s = Schedule::new("empty");
    let timeline = assert_spans(&s, &[]);
    assert_eq!(timeline, Timeline::default());
    let text = serde_json::to_string(&timeline).expect("plain data");
    assert!(!text.contains('-'), "no negative zeros: {text}");
    let (device, slot) = (s.buffer("rows", Space::Device, 20), s.buffer("slot", Space::Pageable, 20));
    let stream = s.stream("copy");
    let (src, dst) =
        (Region { buffer: device, offset: 0, bytes: 0 }, Region { buffer: slot, offset: 0, bytes: 0 });
    s.push("download", None, Action::Download { stream, src, dst });
    assert_eq!(assert_spans(&s, &[(0.0, 0.0)]), Timeline::default());
}

#[test]
fn idle_between_batches_leaves_out_what_other_kernels_fill() {
    let mut s = Schedule::new("gaps");
    let (compute, other) = (s.stream("compute"), s.stream("other"));
    for (batch, stream) in [(Some(0), compute), (Some(0), compute), (None, other), (Some(1), compute)] {
        kernel(&mut s, batch, stream, 10, products(1.0), vec![]);
    }
    kernel(&mut s, Some(2), other, 10, products(1.0), vec![]);
    let at = |start_us, end_us| Span { start_us, end_us };
    // Batch 0 ends at 30, batch 1 starts at 50, 8 of which another kernel fills; batch 2 overlaps batch 1.
    let spans = [at(0.0, 10.0), at(20.0, 30.0), at(37.0, 45.0), at(50.0, 70.0), at(60.0, 90.0)];
    let timeline = Timeline::new(&s, &spans);
    assert_eq!(timeline.idle_between_batches_us, 12.0);
    assert_eq!(timeline.gpu_idle_us, 10.0 + 7.0 + 5.0);
    assert_eq!(timeline.compute_busy_us, 68.0);
}

/// How the batch loop waits for its results.
#[derive(Clone, Copy, PartialEq)]
enum Sync {
    /// At the end of the batch that made them.
    Hard,
    /// At the head of the next batch, before its launches.
    NextHead,
    /// Before the slot is used again, after the launches of the batch that will use it.
    Deferred,
}

/// Sixteen batches of 1 ms each in two kernels, 2 MB of results a batch, `fold_us` to fold them.
fn batch_loop(sync: Sync, space: Space, fold_us: f64) -> Schedule {
    let mut s = Schedule::new("loop");
    let bytes = 2_000_000;
    let rows = [0, 1].map(|i| s.buffer(format!("rows[{i}]"), Space::Device, bytes));
    let slots = [0, 1].map(|i| s.buffer(format!("slot[{i}]"), space, bytes));
    let (compute, copy) = (s.stream("compute"), s.stream("copy"));
    let reduced = [0, 1].map(|i| s.event(format!("reduced[{i}]")));
    let copied = [0, 1].map(|i| s.event(format!("copied[{i}]")));
    let collect = |s: &mut Schedule, batch: u32| {
        let i = batch as usize % 2;
        s.push("collect", Some(batch), Action::HostWait { event: copied[i] });
        let reads = vec![s.whole(slots[i])];
        s.push("fold", Some(batch), Action::HostStep { reads, writes: vec![], host_us: fold_us });
    };
    let batches = 16;
    for batch in 0..batches {
        let i = batch as usize % 2;
        if sync == Sync::NextHead && batch > 0 {
            collect(&mut s, batch - 1);
        }
        if batch >= 2 {
            s.push("edge", Some(batch), Action::Wait { stream: compute, event: copied[i] });
        }
        let out = vec![Arg::Write(s.whole(rows[i]))];
        kernel(
            &mut s,
            Some(batch),
            compute,
            1000,
            products(0.9e-3 * Profile::h200().fp_mul_per_s),
            out.clone(),
        );
        kernel(&mut s, Some(batch), compute, 1000, products(0.1e-3 * Profile::h200().fp_mul_per_s), out);
        s.push("mark", Some(batch), Action::Record { stream: compute, event: reduced[i] });
        s.push("wait", Some(batch), Action::Wait { stream: copy, event: reduced[i] });
        if sync == Sync::Deferred && batch >= 2 {
            collect(&mut s, batch - 2);
        }
        let (src, dst) = (s.whole(rows[i]), s.whole(slots[i]));
        s.push("download", Some(batch), Action::Download { stream: copy, src, dst });
        s.push("mark", Some(batch), Action::Record { stream: copy, event: copied[i] });
        if sync == Sync::Hard {
            collect(&mut s, batch);
        }
    }
    match sync {
        Sync::Hard => {}
        Sync::NextHead => collect(&mut s, batches - 1),
        Sync::Deferred => (batches - 2..batches).for_each(|batch| collect(&mut s, batch)),
    }
    let report = check(&s);
    assert!(report.is_clean(), "{report}");
    s
}

fn h200_timeline(sync: Sync, space: Space, fold_us: f64) -> Timeline {
    let schedule = batch_loop(sync, space, fold_us);
    Timeline::new(&schedule, &estimate(&schedule, &Profile::h200()))
}

#[test]
fn deferring_the_wait_removes_the_idle_time() {
    let hard = h200_timeline(Sync::Hard, Space::PinnedDownload, 100.0);
    let deferred = h200_timeline(Sync::Deferred, Space::PinnedDownload, 100.0);
    // Each of fifteen gaps holds a copy (36 us), the host's waking up (8), the fold (100) and the queueing.
    let gap_us = hard.idle_between_batches_us / 15.0;
    assert!((144.0..170.0).contains(&gap_us), "{gap_us} us a gap");
    assert!(deferred.idle_between_batches_us < 1.0, "{deferred:?}");
    assert!(deferred.makespan_us < hard.makespan_us - 15.0 * 140.0, "{deferred:?} {hard:?}");
    assert!((deferred.compute_busy_us - hard.compute_busy_us).abs() < 1e-6, "the same kernels run");
}

#[test]
fn a_wait_at_the_head_of_the_next_batch_gains_nothing() {
    let hard = h200_timeline(Sync::Hard, Space::PinnedDownload, 100.0);
    let head = h200_timeline(Sync::NextHead, Space::PinnedDownload, 100.0);
    assert_eq!(head, hard);
}

#[test]
fn deferring_gains_nothing_with_pageable_slots() {
    let hard = h200_timeline(Sync::Hard, Space::Pageable, 0.0);
    let deferred = h200_timeline(Sync::Deferred, Space::Pageable, 0.0);
    // The copy (147 us, pageable) and the host's waking up are idle time in both.
    let [hard_us, deferred_us] = [hard, deferred].map(|timeline| timeline.idle_between_batches_us / 15.0);
    assert!(deferred_us > 147.0 + 8.0, "{deferred_us} us a gap");
    assert!((hard_us - deferred_us).abs() < 1.0, "{hard_us} us a gap, deferred {deferred_us}");
    assert!((hard.makespan_us - deferred.makespan_us).abs() < 15.0, "{deferred:?} {hard:?}");
}

#[test]
fn built_in_profiles_say_where_they_come_from_and_follow_their_formula() {
    assert_eq!(Profile::built_in().len(), 3);
    for profile in Profile::built_in() {
        assert!(profile.source.contains("measured"), "{}", profile.source);
        let is_measured = !profile.source.contains("nothing measured");
        assert_eq!(is_measured, profile.name == "NVIDIA H200");
        let ceiling = f64::from(profile.sm_count) * 32.0 * profile.sm_clock_hz / 300.0;
        let share = profile.fp_mul_per_s / ceiling;
        // The H200's own share, 24.8 of 27.9, is what point additions reach; products alone reach more.
        assert!((0.88..=0.99).contains(&share), "{}: {share}", profile.name);
        let cycles = profile.chain_mul_us * profile.sm_clock_hz / 1e6;
        assert!((cycles - 1400.0).abs() < 2.0, "{}: {cycles} cycles", profile.name);
        let text = serde_json::to_string(&profile).expect("plain data");
        assert_eq!(Profile::from_json(&text).expect("its own output"), profile);
    }
    assert_eq!(Profile::rtx_4090().memory_bytes, 24 << 30);
    assert_eq!(Profile::rtx_4080().memory_bytes, 16 << 30);
}

#[test]
fn profiles_that_no_device_has_are_refused() {
    let text = |change: &dyn Fn(&mut Profile)| {
        let mut profile = profile();
        change(&mut profile);
        serde_json::to_string(&profile).expect("plain data")
    };
    // What takes no time is no fault: nothing comes late here.
    assert_eq!(Profile::from_json(&text(&|_| {})).expect("a profile"), profile());
    let error = |text: &str| Profile::from_json(text).expect_err("refused");
    let zero = error(&text(&|profile| profile.pinned_up_bytes_per_s = 0.0));
    assert_eq!(zero.to_string(), "device profile round: pinned_up_bytes_per_s is 0");
    let negative = error(&text(&|profile| profile.launch_us = -1.0));
    assert_eq!(negative.to_string(), "device profile round: launch_us is -1");
    let no_cores = error(&text(&|profile| profile.sm_count = 0));
    assert_eq!(no_cores.to_string(), "device profile round: sm_count is 0");
    let unknown = error(&text(&|_| {}).replace("\"notes\"", "\"remarks\""));
    assert!(matches!(unknown, ProfileError::Json(_)), "{unknown}");
    assert!(unknown.to_string().starts_with("device profile: unknown field `remarks`"), "{unknown}");
}

/// Kernel, download and fold for each of four batches, with two slots, a fold that takes longer than the
/// kernel, and a thread of its own for the folds, or not.
fn folded(by_thread: bool) -> Schedule {
    let mut s = Schedule::new("folded");
    let slots = [0, 1].map(|slot| s.buffer(format!("slot[{slot}]"), Space::PinnedDownload, 8));
    let rows = s.buffer("rows", Space::Device, 8);
    let stream = s.stream("compute");
    let done = [0, 1].map(|slot| s.event(format!("done[{slot}]")));
    let thread = if by_thread { s.thread("collector") } else { MAIN };
    let mut folded = Vec::new();
    let collect = |s: &mut Schedule, batch: usize| {
        let reads = vec![s.whole(slots[batch % 2])];
        s.push_on(thread, "wait", None, Action::HostWait { event: done[batch % 2] });
        s.push_on(thread, "fold", None, Action::HostStep { reads, writes: vec![], host_us: 30.0 });
    };
    for batch in 0..4 {
        match batch >= 2 {
            true if by_thread => s.push("await", None, Action::Await { flag: folded[batch - 2] }),
            true => collect(&mut s, batch - 2),
            false => {}
        }
        let whole = Arg::Write(s.whole(rows));
        kernel(&mut s, Some(batch as u32), stream, 10, products(20.0), vec![whole]);
        let (src, dst) = (s.whole(rows), s.whole(slots[batch % 2]));
        s.push("download", None, Action::Download { stream, src, dst });
        s.push("record", None, Action::Record { stream, event: done[batch % 2] });
        if by_thread {
            let queued = s.flag(format!("queued[{batch}]"));
            s.push("signal", None, Action::Signal { flag: queued });
            s.push_on(thread, "await", None, Action::Await { flag: queued });
            collect(&mut s, batch);
            folded.push(s.flag(format!("folded[{batch}]")));
            s.push_on(thread, "signal", None, Action::Signal { flag: folded[batch] });
        }
    }
    if !by_thread {
        [2, 3].into_iter().for_each(|batch| collect(&mut s, batch));
    }
    assert!(check(&s).is_clean(), "{}", check(&s));
    s
}

#[test]
fn host_threads_run_beside_each_other_and_wait_for_flags() {
    let mut s = Schedule::new("threads");
    let (other, flag) = (s.thread("other"), s.flag("flag"));
    let work = |host_us| Action::HostStep { reads: vec![], writes: vec![], host_us };
    s.push("step", None, work(10.0));
    s.push("signal", None, Action::Signal { flag });
    s.push("step", None, work(10.0));
    s.push_on(other, "step", None, work(2.0));
    s.push_on(other, "await", None, Action::Await { flag });
    s.push_on(other, "await", None, Action::Await { flag });
    s.push_on(other, "step", None, work(1.0));
    let timeline = assert_spans(
        &s,
        &[
            (0.0, 10.0),
            (10.0, 10.5), // signal: as long as a mark
            (10.5, 20.5),
            (0.0, 2.0),
            (2.0, 15.5),  // await: signalled at 10.5, and 5 to wake up
            (15.5, 16.0), // await what has been signalled: a look
            (16.0, 17.0),
        ],
    );
    assert_eq!(timeline.host_blocked_us, 0.0, "the first thread has waited for nobody");
}

#[test]
fn a_collector_takes_the_folds_from_the_thread_that_queues() {
    let timeline = |by_thread| {
        let schedule = folded(by_thread);
        Timeline::new(&schedule, &estimate(&schedule, &profile()))
    };
    let (alone, together) = (timeline(false), timeline(true));
    assert!(together.makespan_us < alone.makespan_us, "{together:?}\n{alone:?}");
    // With a fold longer than a kernel the ring is full in the end: then the thread that queues waits for the
    // collector, but not for as long as it would wait and fold.
    let folds_us = 4.0 * 30.0;
    let (waits_us, occupied_us) = (together.host_blocked_us, alone.host_blocked_us + folds_us);
    assert!(0.0 < waits_us && waits_us < occupied_us, "{together:?}\n{alone:?}");
}

/// The first 4 MiB that come up from page-locked memory come late, in proportion; a copy from other memory does not.
#[test]
fn what_the_host_has_just_written_comes_late() {
    let duration = |space: Space, bytes: u64, profile: &Profile| {
        let mut s = Schedule::new("one upload");
        let (source, target) = (s.buffer("source", space, bytes), s.buffer("target", Space::Device, bytes));
        let (src, dst) = (s.whole(source), s.whole(target));
        let stream = s.stream("upload");
        s.push("upload", None, Action::Upload { stream, src, dst });
        let span = estimate(&s, profile)[0];
        span.end_us - span.start_us
    };
    let (plain, late) = (profile(), Profile { staged_up_us: 100.0, ..profile() });
    for (space, bytes, more) in [
        (Space::PinnedUpload, 1 << 20, 25.0),
        (Space::Registered, 4 << 20, 100.0),
        (Space::PinnedUpload, 64 << 20, 100.0),
        (Space::Pageable, 64 << 20, 0.0),
    ] {
        let added = duration(space, bytes, &late) - duration(space, bytes, &plain);
        assert!((added - more).abs() < 1e-3, "{space:?}, {bytes}: {added}");
    }
}

#[test]
fn a_copy_takes_its_least_time_and_the_largest_staged_one_does_not_block() {
    let largest = 64 << 10;
    let mut s = Schedule::new("edges of copies");
    let (device, source) =
        (s.buffer("points", Space::Device, largest), s.buffer("source", Space::Pageable, largest));
    let part = |buffer, bytes| Region { buffer, offset: 0, bytes };
    let stream = s.stream("upload");
    for bytes in [1, largest] {
        s.push("upload", None, Action::Upload { stream, src: part(source, bytes), dst: part(device, bytes) });
        step(&mut s, 1.0);
    }
    let issued = 4.0 + 2.0 + largest as f64;
    assert_spans(
        &s,
        &[
            (3.0, 7.0), // one byte at 4 a microsecond would take a quarter of one
            (3.0, 4.0),
            (issued, issued + largest as f64 / 4.0),
            (issued, issued + 1.0), // one byte more, and the host would be in the copy
        ],
    );
}

/// Spans of a measured trace: kernels of two streams overlap, and clocks of host and device are not quite one.
#[test]
fn a_timeline_of_spans_that_no_estimate_would_give() {
    let mut s = Schedule::new("measured");
    let (a, b) = (s.stream("a"), s.stream("b"));
    let (device, slot) = (s.buffer("rows", Space::Device, 8), s.buffer("slot", Space::Pageable, 8));
    for stream in [a, b, a] {
        kernel(&mut s, None, stream, 1, products(1.0), vec![]);
    }
    step(&mut s, 1.0);
    step(&mut s, 1.0);
    let (src, dst) = (s.whole(device), s.whole(slot));
    s.push("download", None, Action::Download { stream: a, src, dst });
    s.push("download", None, Action::Download { stream: a, src, dst });
    let span = |start_us, end_us| Span { start_us, end_us };
    let spans = [
        span(0.0, 10.0),
        span(2.0, 4.0), // within the first
        span(12.0, 14.0),
        span(14.0, 30.0),
        span(15.0, 20.0), // ends before the step before it
        span(21.0, 29.0), // seen to end before the host got there: nothing was waited for
        span(29.0, 33.0),
    ];
    let timeline = Timeline::new(&s, &spans);
    assert_eq!(timeline.compute_busy_us, 12.0);
    assert_eq!(timeline.gpu_idle_us, 33.0 - 12.0);
    assert_eq!(timeline.host_blocked_us, 3.0, "from 30, where the host was, to 33");
}
