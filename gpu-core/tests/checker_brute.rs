//! The checker against brute force, on random small schedules: `brute` has what it is compared with.

mod brute;

use brute::{
    BYTES, DEVICE, DOWNLOAD_TARGETS, EVENTS, FLAGS, HOST, STREAMS, THREADS, UPLOAD_SOURCES, agrees, is_race,
    with_ops,
};
use gpu_core::check::check;
use gpu_core::schedule::{
    Action, Arg, BufferId, EventId, FlagId, Launch, MAIN, Op, Region, Schedule, StreamId, ThreadId, Work,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::collections::BTreeSet;

/// Half of the regions are whole buffers, so that accesses meet; a few are empty.
fn region(buffers: &'static [u32]) -> impl Strategy<Value = Region> {
    let range = prop_oneof![3 => Just((0, BYTES)), 2 => (0..BYTES, 1..=BYTES), 1 => (0..BYTES, Just(0))];
    (prop::sample::select(buffers), range).prop_map(|(buffer, (offset, bytes))| Region {
        buffer: BufferId(buffer),
        offset,
        bytes: bytes.min(BYTES - offset),
    })
}

fn copy(from: &'static [u32], to: &'static [u32]) -> impl Strategy<Value = (Region, Region)> {
    (region(from), prop::sample::select(to))
        .prop_map(|(src, buffer)| (src, Region { buffer: BufferId(buffer), ..src }))
}

fn op() -> impl Strategy<Value = Op> {
    let stream = || (0..STREAMS).prop_map(StreamId);
    let event = || (0..EVENTS).prop_map(EventId);
    let upload = (stream(), copy(&UPLOAD_SOURCES, &DEVICE))
        .prop_map(|(stream, (src, dst))| ("upload", Action::Upload { stream, src, dst }));
    let download = (stream(), copy(&DEVICE, &DOWNLOAD_TARGETS))
        .prop_map(|(stream, (src, dst))| ("download", Action::Download { stream, src, dst }));
    let fill =
        (stream(), region(&DEVICE)).prop_map(|(stream, dst)| ("fill", Action::Fill { stream, dst, byte: 0 }));
    let launch = (stream(), region(&DEVICE), region(&DEVICE)).prop_map(|(stream, read, write)| {
        let mut args = vec![Arg::Write(write), Arg::U32(7)];
        if !read.overlaps(&write) {
            args.insert(0, Arg::Read(read));
        }
        let launch = Launch { kernel: "kernel".into(), grid: [1, 1], block: 1, args, work: Work::default() };
        ("launch", Action::Launch { stream, launch })
    });
    let record = (stream(), event()).prop_map(|(stream, event)| ("record", Action::Record { stream, event }));
    let wait = (stream(), event()).prop_map(|(stream, event)| ("wait", Action::Wait { stream, event }));
    let host_wait = event().prop_map(|event| ("host_wait", Action::HostWait { event }));
    let host_reads = (prop::sample::select(vec!["fold", "log"]), prop::collection::vec(region(&HOST), 1..=2))
        .prop_map(|(name, reads)| (name, Action::HostStep { reads, writes: vec![], host_us: 0.0 }));
    let host_writes = region(&HOST)
        .prop_map(|region| ("stage", Action::HostStep { reads: vec![], writes: vec![region], host_us: 0.0 }));
    let flag = || (0..FLAGS).prop_map(FlagId);
    let signal = flag().prop_map(|flag| ("signal", Action::Signal { flag }));
    let awaits = flag().prop_map(|flag| ("await", Action::Await { flag }));
    let what = prop_oneof![
        3 => upload, 4 => download, 1 => fill, 3 => launch,
        4 => record, 3 => wait, 3 => host_wait, 3 => host_reads, 2 => host_writes, 3 => signal, 3 => awaits,
    ];
    (what, (0..THREADS).prop_map(ThreadId)).prop_map(|((name, action), thread)| Op {
        name: name.into(),
        batch: None,
        thread,
        action,
    })
}

/// Half of them use one host thread and no flag.
fn schedules() -> impl Strategy<Value = Schedule> {
    let ops = prop::collection::vec(op(), 0..=8);
    (ops, any::<bool>()).prop_map(|(mut ops, is_single)| {
        if is_single {
            ops.retain(|op| !matches!(op.action, Action::Signal { .. } | Action::Await { .. }));
            ops.iter_mut().for_each(|op| op.thread = MAIN);
        }
        with_ops(ops)
    })
}

/// Seed of this run: `TEST_SEED` (decimal, or hexadecimal with `0x`), or one that is new each time.
fn seed() -> u64 {
    let seed = match std::env::var("TEST_SEED") {
        Ok(text) => match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).expect("TEST_SEED is a number"),
            None => text.parse().expect("TEST_SEED is a number"),
        },
        Err(_) => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
            now.as_nanos() as u64
        }
    };
    println!("TEST_SEED={seed:#x}");
    seed
}

/// A wait between host threads that also decides whose operations come first on a stream. Without it the download would come
/// after the other thread's operations and not before them: ordered too, and the other way round.
#[test]
fn a_wait_that_turns_an_order_round_is_not_surplus() {
    let on = |thread, name: &'static str, action| Op {
        name: name.into(),
        batch: None,
        thread: ThreadId(thread),
        action,
    };
    let (stream, flag) = (StreamId(1), FlagId(0));
    let whole = |buffer| Region { buffer: BufferId(buffer), offset: 0, bytes: BYTES };
    let (src, dst) = (whole(DEVICE[2]), whole(DOWNLOAD_TARGETS[1]));
    let schedule = with_ops(vec![
        on(0, "await", Action::Await { flag }),
        on(0, "record", Action::Record { stream, event: EventId(0) }),
        on(1, "download", Action::Download { stream, src, dst }),
        on(1, "signal", Action::Signal { flag }),
    ]);
    assert!(check(&schedule).surplus.is_empty());
    agrees(&schedule);
}

#[test]
fn the_checker_says_what_brute_force_says() {
    let seed = seed();
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let config = Config { cases: 20_000, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, rng);
    let kinds = std::cell::RefCell::new(BTreeSet::new());
    let counts = std::cell::Cell::new((0, 0, 0));
    let outcome = runner.run(&schedules(), |schedule| {
        let report = check(&schedule);
        kinds.borrow_mut().extend(report.hazards.iter().map(|hazard| hazard.kind));
        let has_race = report.hazards.iter().any(is_race);
        let (clean, raced, surplus) = counts.get();
        counts.set((
            clean + u32::from(report.is_clean() && !schedule.ops.is_empty()),
            raced + u32::from(has_race),
            surplus + u32::from(!report.surplus.is_empty()),
        ));
        agrees(&schedule);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("TEST_SEED={seed:#x}: {error}");
    }
    // The generator reaches everything: a comparison of nothing with nothing would pass too.
    assert_eq!(kinds.borrow().len(), 14, "all kinds but Malformed: {kinds:?}");
    let (clean, raced, surplus) = counts.get();
    println!("{clean} clean, {raced} with a race, {surplus} with a surplus wait");
    assert!(clean > 200 && raced > 2000 && surplus > 200, "{clean} clean, {raced} raced, {surplus} surplus");
}
