//! The mutants.

use super::edit::{Edit, What, event_of, regions, stream_of};
use super::{Expected, Inputs, Mutant, Path};
use gpu_core::Space;
use gpu_core::check::HazardKind::{self, *};
use gpu_core::schedule::{Action, Arg, BufferId, MAIN, Op};
use msm_gpu::Strategy;
use msm_gpu::schedule::{FOLD, STAGE};

/// A mutant that the checker reports, and that the simulation shows.
const fn hazard(
    name: &'static str,
    models: &'static str,
    kinds: &'static [HazardKind],
    change: fn(&mut Edit<'_>) -> Option<()>,
) -> Mutant {
    Mutant {
        name,
        models,
        expected: Expected::Hazard { kinds, is_visible: true },
        inputs: Inputs::Mixed,
        path: Path::Plain,
        change,
    }
}

/// A mutant that the checker reports, and that gives the right point in every order: nothing but the checker
/// sees it.
const fn hidden(
    name: &'static str,
    models: &'static str,
    kinds: &'static [HazardKind],
    change: fn(&mut Edit<'_>) -> Option<()>,
) -> Mutant {
    Mutant {
        name,
        models,
        expected: Expected::Hazard { kinds, is_visible: false },
        inputs: Inputs::Mixed,
        path: Path::Plain,
        change,
    }
}

/// A mutant without hazards.
const fn ordered(
    name: &'static str,
    models: &'static str,
    expected: Expected,
    change: fn(&mut Edit<'_>) -> Option<()>,
) -> Mutant {
    Mutant { name, models, expected, inputs: Inputs::Mixed, path: Path::Plain, change }
}

/// The same of schedules that go another way.
const fn on(path: Path, mutant: Mutant) -> Mutant {
    Mutant { path, ..mutant }
}

/// Every mutant, and the schedules as they are.
pub const MUTANTS: &[Mutant] = &[
    ordered("none", "the strategies as they are", Expected::Nothing, |_| Some(())),
    on(
        Path::Rounds,
        ordered(
            "none-with-rounds",
            "the strategies as they are, with partitions and rounds of pairs",
            Expected::Nothing,
            |_| Some(()),
        ),
    ),
    on(
        Path::Streamed,
        ordered(
            "none-with-streamed-bases",
            "the strategies as they are, with bases from the host",
            Expected::Nothing,
            |_| Some(()),
        ),
    ),
    // The plan of deferring, as it was published, and what is wrong with it.
    ordered(
        "published-plan",
        "host slots doubled in pageable memory, no device-side edge: downloads block, nothing is deferred",
        Expected::NoGain,
        |edit| {
            deferred(edit)?;
            edit.drop_all(What::Wait, "rows_free")?;
            make_rows_pageable(edit)
        },
    ),
    ordered(
        "pageable-slots",
        "result slots in pageable memory: each download blocks the host",
        Expected::NoGain,
        |edit| {
            deferred(edit)?;
            make_rows_pageable(edit)
        },
    ),
    hazard(
        "published-plan-page-locked",
        "slots page-locked, and still no device-side edge: rows are overwritten on their way down",
        &[WriteAfterRead],
        |edit| edit.drop_all(What::Wait, "rows_free"),
    ),
    ordered(
        "wait-at-the-head",
        "the host waits for a batch before it launches the next: hard synchronisation under another name",
        Expected::NoGain,
        wait_at_the_head,
    ),
    // Slots.
    hazard(
        "slot-off-by-one",
        "the host folds the slot after the one that it waited for",
        &[ReadTooEarly],
        |edit| {
            let slots = edit.result_slots()?;
            edit.turn_ring("rows_host", |batch| (batch + 1) % slots, |op| op.name == FOLD)
        },
    ),
    hidden(
        "slot-past-the-ring",
        "the slot after the last one is what was declared next",
        &[Malformed],
        |edit| {
            let last_slot = edit.plan.result_slot_count() - 1;
            let BufferId(number) = edit.buffer("rows_host", last_slot)?;
            let fold = edit.find(What::HostStep, FOLD, edit.last_batch())?;
            regions(&mut edit.schedule.ops[fold])[0].buffer = BufferId(number + 1);
            Some(())
        },
    ),
    hazard(
        "ones-from-another-slot",
        "the sum of the points with digit one comes down to the next slot",
        &[ReadTooEarly],
        ones_to_another_slot,
    ),
    hazard("one-result-slot", "a single result slot under deferral", &[Uncollected], |edit| {
        edit.result_slots()?;
        edit.turn_ring("rows_host", |_| 0, |_| true)
    }),
    hazard(
        "one-result-slot-too-few",
        "one result slot fewer than batches are on the way",
        &[Uncollected],
        |edit| {
            let slots = edit.result_slots().filter(|slots| *slots >= 3)?;
            edit.turn_ring("rows_host", |batch| batch % (slots - 1), |_| true)
        },
    ),
    hazard(
        "one-source-slot-too-few",
        "scalars are staged where an upload may still read",
        &[SourceOverwritten],
        |edit| {
            let slots = edit.scalar_slots()?;
            edit.turn_ring("scalars_host", |batch| batch % (slots - 1), |_| true)
        },
    ),
    hazard(
        "upload-into-a-slot-in-use",
        "the scalars of a batch go up to the slot that the batch before still reads",
        &[WriteAfterRead],
        |edit| {
            edit.scalar_slots()?;
            edit.turn_ring("scalars", |_| 0, |_| true)
        },
    ),
    // The first batches, and the last.
    hidden(
        "first-wait-unguarded",
        "the wait for a slot's last batch, where the slot has had none",
        &[NeverRecorded],
        |edit| {
            let wait = edit.find(What::HostWait, "rows_downloaded", 0)?;
            // Before a collector is told that a batch is queued, its wait is a mistake of another kind.
            (edit.schedule.ops[wait].thread == MAIN).then_some(())?;
            edit.repeat(wait, edit.find(What::HostStep, STAGE, 0)?);
            Some(())
        },
    ),
    hidden(
        "first-fold-unguarded",
        "the fold of a slot's last batch, where the slot has had none",
        &[Uninitialised],
        |edit| {
            let fold = edit.find(What::HostStep, FOLD, 0)?;
            (edit.schedule.ops[fold].thread == MAIN).then_some(())?;
            edit.repeat(fold, edit.find(What::HostStep, STAGE, 0)?);
            Some(())
        },
    ),
    hazard("last-batch-not-collected", "the loop ends, and a slot is still full", &[Uncollected], |edit| {
        let fold = edit.find(What::HostStep, FOLD, edit.last_batch())?;
        edit.schedule.ops.remove(fold);
        Some(())
    }),
    hazard(
        "collected-twice",
        "the last batch is folded in the loop, and again behind it",
        &[CollectedTwice],
        |edit| {
            let fold = edit.find(What::HostStep, FOLD, edit.last_batch())?;
            edit.repeat(fold, fold + 1);
            Some(())
        },
    ),
    Mutant {
        inputs: Inputs::LastBatchZero,
        ..hidden(
            "collected-twice-unseen",
            "the same, where the last batch adds nothing: no test with such scalars shows it",
            &[CollectedTwice],
            |edit| {
                rows_of_each_batch(edit)?;
                let fold = edit.find(What::HostStep, FOLD, edit.last_batch())?;
                edit.repeat(fold, fold + 1);
                Some(())
            },
        )
    },
    // Events.
    hazard(
        "wait-for-another-event",
        "the host waits for the event of the batch before",
        &[ReadTooEarly],
        |edit| {
            let (slots, last) = (edit.result_slots()?, edit.last_batch());
            let before = edit.event("downloaded", (last - 1) % slots)?;
            let wait = edit.find(What::HostWait, "rows_downloaded", last)?;
            *event_of(&mut edit.schedule.ops[wait]) = before;
            Some(())
        },
    ),
    Mutant {
        inputs: Inputs::LastBatchZero,
        ..hazard(
            "nothing-read-too-early",
            "the same in a fresh slot, and the batch adds nothing: zeros would do, were the slot not poisoned",
            &[ReadTooEarly],
            |edit| {
                let (slots, last) = (edit.result_slots()?, edit.last_batch());
                (last < slots).then_some(())?;
                let before = edit.event("downloaded", last - 1)?;
                let wait = edit.find(What::HostWait, "rows_downloaded", last)?;
                *event_of(&mut edit.schedule.ops[wait]) = before;
                Some(())
            },
        )
    },
    hazard(
        "wait-for-the-reduction",
        "the host waits for the stream that computes, not for the one that copies",
        &[ReadTooEarly],
        |edit| {
            for batch in 0..=edit.last_batch() {
                let Some(wait) = edit.find(What::HostWait, "rows_downloaded", batch) else { continue };
                let reduced = edit.event("reduced", batch % edit.plan.result_slot_count())?;
                *event_of(&mut edit.schedule.ops[wait]) = reduced;
            }
            Some(())
        },
    ),
    hazard(
        "recorded-before-the-download",
        "the event of a download is recorded before it is queued",
        &[ReadTooEarly],
        |edit| {
            for batch in 0..=edit.last_batch() {
                let Some(record) = edit.find(What::Record, "rows_downloaded", batch) else { continue };
                edit.hurry(record, edit.find(What::Download, "download_rows", batch)?);
            }
            Some(())
        },
    ),
    hazard(
        "recorded-before-the-reduction",
        "the event that a download waits for is recorded before the rows are",
        &[ReadAfterWrite],
        |edit| {
            for batch in 0..=edit.last_batch() {
                let Some(record) = edit.find(What::Record, "rows_reduced", batch) else { continue };
                edit.hurry(record, edit.rows_writer(batch)?);
            }
            Some(())
        },
    ),
    hazard(
        "download-recorded-on-compute",
        "the event of a download is recorded on another stream",
        &[ReadTooEarly],
        |edit| record_on_compute(edit, "rows_downloaded"),
    ),
    hazard(
        "upload-recorded-on-compute",
        "the event of an upload is recorded on another stream",
        &[ReadAfterWrite],
        |edit| record_on_compute(edit, "scalars_uploaded"),
    ),
    // Edges on the device.
    hazard(
        "no-edge-to-the-upload",
        "digits are made of scalars that may not be there",
        &[ReadAfterWrite],
        |edit| edit.drop_all(What::Wait, "scalars_uploaded"),
    ),
    hazard("no-edge-to-the-reduction", "rows come down that may not be there", &[ReadAfterWrite], |edit| {
        edit.drop_all(What::Wait, "rows_reduced")
    }),
    hazard(
        "counters-cleared-on-another-stream",
        "digits are counted while the counters may not be clear",
        &[WriteAfterWrite],
        |edit| {
            let download = edit.stream("download")?;
            edit.each(What::Fill, "clear_counts").for_each(|fill| *stream_of(fill) = download);
            Some(())
        },
    ),
    // What the host writes.
    hazard(
        "staged-before-the-wait",
        "scalars are staged before the wait for the batch that has the slot",
        &[SourceOverwritten],
        staged_before_the_wait,
    ),
    hazard(
        "no-wait-for-the-source",
        "scalars are staged without a wait for the batch that has the slot",
        &[SourceOverwritten],
        |edit| edit.drop_all(What::HostWait, "scalars_recoded"),
    ),
    // Host threads.
    hazard(
        "collector-does-not-await",
        "the collector waits for an event that may not have been recorded yet",
        &[UnorderedMark],
        |edit| edit.drop_all(What::Await, "batch_queued"),
    ),
    hazard(
        "slot-reused-without-await",
        "a slot is used again while the collector may be folding it",
        &[SourceOverwritten],
        |edit| edit.drop_all(What::Await, "rows_folded"),
    ),
    hazard(
        "queued-too-early",
        "the collector is told of a batch before its event is recorded",
        &[UnorderedMark],
        |edit| {
            for batch in 0..=edit.last_batch() {
                let signal = edit.find(What::Signal, "batch_queued", batch)?;
                edit.hurry(signal, edit.find(What::Download, "download_rows", batch)?);
            }
            Some(())
        },
    ),
    hazard(
        "folded-too-early",
        "a slot is given back before the wait for its batch",
        &[SourceOverwritten],
        |edit| {
            let mut is_changed = None;
            for batch in 0..=edit.last_batch() {
                if let Some(signal) = edit.find(What::Signal, "rows_folded", batch) {
                    edit.hurry(signal, edit.find(What::HostWait, "rows_downloaded", batch)?);
                    is_changed = Some(());
                }
            }
            is_changed
        },
    ),
    hazard("not-handed-over", "nobody says that a batch is queued", &[NeverSignalled], |edit| {
        let signal = edit.find(What::Signal, "batch_queued", edit.last_batch())?;
        edit.schedule.ops.remove(signal);
        Some(())
    }),
    hazard(
        "waits-for-nobody",
        "at the end, the collector waits for a flag that nobody signals",
        &[NeverSignalled],
        |edit| {
            let told = edit.find(What::Await, "batch_queued", edit.last_batch())?;
            let flag = edit.schedule.flag("forgotten");
            edit.push_like(told, Action::Await { flag });
            Some(())
        },
    ),
    hazard("threads-in-a-circle", "at the end, two threads wait for each other", &[Deadlock], |edit| {
        let (signal, told) =
            (edit.find(What::Signal, "batch_queued", 0)?, edit.find(What::Await, "batch_queued", 0)?);
        let (mine, yours) = (edit.schedule.flag("mine"), edit.schedule.flag("yours"));
        edit.push_like(signal, Action::Await { flag: yours });
        edit.push_like(signal, Action::Signal { flag: mine });
        edit.push_like(told, Action::Await { flag: mine });
        edit.push_like(told, Action::Signal { flag: yours });
        Some(())
    }),
    hazard(
        "slot-awaited-too-early",
        "a slot is waited for before its batch is handed over",
        &[Deadlock],
        |edit| {
            let wait = edit.find(What::Await, "rows_folded", 0)?;
            edit.hurry(wait, edit.find(What::Signal, "batch_queued", 0)?);
            Some(())
        },
    ),
    hidden("signalled-twice", "a batch is said to be queued a second time", &[SignalledTwice], |edit| {
        let signal = edit.find(What::Signal, "batch_queued", edit.last_batch())?;
        edit.repeat(signal, signal);
        Some(())
    }),
    hidden(
        "mark-left-to-chance",
        "the collector waits, besides, for an event that another thread records at some time",
        &[UnorderedMark],
        |edit| {
            let last = edit.last_batch();
            let (wait, told) = (
                edit.find(What::HostWait, "rows_downloaded", last)?,
                edit.find(What::Await, "batch_queued", last)?,
            );
            edit.repeat(wait, told);
            *event_of(&mut edit.schedule.ops[told]) =
                edit.event("uploaded", last % edit.plan.slot_count())?;
            Some(())
        },
    ),
    hidden(
        "issue-left-to-chance",
        "two threads use one stream: the collector records an event there that nobody waits for",
        &[UnorderedIssue],
        |edit| {
            let wait = edit.find(What::HostWait, "rows_downloaded", 0)?;
            (edit.schedule.ops[wait].thread != MAIN).then_some(())?;
            let (stream, event) = (edit.stream("download")?, edit.schedule.event("of_the_collector"));
            let action = Action::Record { stream, event };
            let record = Op { name: "looked".into(), action, ..edit.schedule.ops[wait].clone() };
            edit.schedule.ops.insert(wait, record);
            Some(())
        },
    ),
    // Right by the values alone: the same bytes, twice.
    hidden(
        "staged-again",
        "scalars are staged a second time while they go up",
        &[SourceOverwritten],
        |edit| {
            let last = edit.last_batch();
            let stage = edit.find(What::HostStep, STAGE, last)?;
            edit.repeat(stage, edit.find(What::Upload, "upload_scalars", last)? + 1);
            Some(())
        },
    ),
    hidden("uploaded-again-early", "an upload is repeated behind its event", &[ReadAfterWrite], |edit| {
        let last = edit.last_batch();
        let upload = edit.find(What::Upload, "upload_scalars", last)?;
        edit.repeat(upload, edit.find(What::Record, "scalars_uploaded", last)? + 1);
        Some(())
    }),
    hidden(
        "uploaded-again-late",
        "an upload is repeated while its bytes are read",
        &[WriteAfterRead],
        |edit| {
            let last = edit.last_batch();
            let upload = edit.find(What::Upload, "upload_scalars", last)?;
            edit.repeat(upload, edit.find(What::Launch, "msm_recode_digits", last)? + 1);
            Some(())
        },
    ),
    hidden("uploaded-on-two-streams", "two uploads of the same bytes at once", &[WriteAfterWrite], |edit| {
        let (last, download, compute) =
            (edit.last_batch(), edit.stream("download")?, edit.stream("compute")?);
        let upload = edit.find(What::Upload, "upload_scalars", last)?;
        edit.repeat(upload, upload + 1);
        *stream_of(&mut edit.schedule.ops[upload + 1]) = download;
        let event = edit.schedule.event("uploaded_again");
        let action = Action::Record { stream: download, event };
        let record =
            Op { name: "scalars_uploaded_again".into(), action, ..edit.schedule.ops[upload].clone() };
        edit.schedule.ops.insert(upload + 2, record);
        let recode = edit.find(What::Launch, "msm_recode_digits", last)?;
        edit.insert_wait(recode, upload, compute, event);
        Some(())
    }),
    hidden(
        "rows-looked-at-early",
        "a host step looks at rows that are on their way, and makes no use of them",
        &[ReadTooEarly],
        |edit| {
            edit.result_slots()?;
            let (rows, stage) = (edit.buffer("rows_host", 0)?, edit.find(What::HostStep, STAGE, 1)?);
            let whole = edit.schedule.whole(rows);
            if let Action::HostStep { reads, .. } = &mut edit.schedule.ops[stage].action {
                reads.push(whole);
            }
            Some(())
        },
    ),
    hidden(
        "downloaded-twice",
        "a download is repeated before anything has read the first",
        &[Uncollected],
        |edit| {
            let download = edit.find(What::Download, "download_rows", edit.last_batch())?;
            edit.repeat(download, download);
            Some(())
        },
    ),
    // In order, and wrong.
    ordered("stage-dropped", "the scalars of an earlier batch go up again", Expected::Wrong, |edit| {
        let last = edit.last_batch();
        let stage = edit.find(What::HostStep, STAGE, last)?;
        (last >= edit.plan.slot_count()).then(|| edit.schedule.ops.remove(stage))?;
        Some(())
    }),
    ordered(
        "counters-not-cleared",
        "digits are counted on top of what memory holds",
        Expected::Wrong,
        |edit| edit.drop_all(What::Fill, "clear_counts"),
    ),
    ordered(
        "keep-flag-flipped",
        "buckets of the batch before are kept, or are not",
        Expected::Wrong,
        |edit| {
            let accumulate = edit.find(What::Launch, "msm_accumulate", edit.last_batch())?;
            let Action::Launch { launch, .. } = &mut edit.schedule.ops[accumulate].action else {
                return None;
            };
            let Some(Arg::U32(keep)) = launch.args.last_mut() else { return None };
            *keep = 1 - *keep;
            Some(())
        },
    ),
    ordered("declared-too-short", "a kernel declares half of what it writes", Expected::Wrong, |edit| {
        let recode = edit.find(What::Launch, "msm_recode_digits", edit.last_batch())?;
        regions(&mut edit.schedule.ops[recode])[0].bytes /= 2;
        Some(())
    }),
    ordered(
        "buckets-not-cleared",
        "buckets that no entry is added to are what memory holds",
        Expected::Wrong,
        |edit| edit.drop_all(What::Fill, "clear_buckets"),
    ),
    ordered(
        "spans-not-cleared",
        "runs that span threads are counted on top of what memory holds",
        Expected::Wrong,
        |edit| edit.drop_all(What::Fill, "clear_spans"),
    ),
    // Partitions, and rounds of pairs: one stream, so that what goes wrong is in order.
    on(
        Path::Rounds,
        ordered(
            "partitions-not-cleared",
            "digits of partitions are counted on top of what memory holds",
            Expected::Wrong,
            |edit| edit.drop_all(What::Fill, "clear_partitions"),
        ),
    ),
    on(
        Path::Rounds,
        ordered(
            "partitions-cleared-once",
            "partitions of a batch begin where those of the batch before end",
            Expected::Wrong,
            |edit| {
                let last = edit.last_batch();
                let fill = edit.find(What::Fill, "clear_partitions", last)?;
                edit.schedule.ops.remove(fill);
                Some(())
            },
        ),
    ),
    on(
        Path::Rounds,
        ordered(
            "runs-not-filled-up",
            "what stands for the identity at the end of a run is what memory holds",
            Expected::Wrong,
            |edit| edit.drop_all(What::Fill, "fill_up_runs"),
        ),
    ),
    on(
        Path::Rounds,
        ordered(
            "pairs-added-before-the-inversion",
            "slopes are multiplied with products instead of their inverses",
            Expected::Wrong,
            |edit| {
                let last = edit.last_batch();
                let backward = edit.find(What::Launch, "msm_pair_entries_backward", last)?;
                edit.hurry(backward, edit.find(What::Launch, "msm_invert_totals", last)?);
                Some(())
            },
        ),
    ),
    on(
        Path::Rounds,
        ordered(
            "points-of-another-round",
            "the last round adds what the first one left, not what the second did",
            Expected::Wrong,
            |edit| {
                let (from, to) = (edit.buffer("level", 1)?, edit.buffer("level", 0)?);
                for name in ["msm_pair_points_forward", "msm_pair_points_backward"] {
                    for launch in edit.each(What::Launch, name) {
                        let Action::Launch { launch, .. } = &mut launch.action else { continue };
                        for arg in &mut launch.args {
                            match arg {
                                Arg::Read(region) if region.buffer == from => region.buffer = to,
                                _ => {}
                            }
                        }
                    }
                }
                Some(())
            },
        ),
    ),
    // Bases from the host.
    on(
        Path::Streamed,
        hazard("bases-not-awaited", "points are added that may not be there", &[ReadAfterWrite], |edit| {
            edit.drop_all(What::Wait, "bases_uploaded")
        }),
    ),
    on(
        Path::Streamed,
        hazard(
            "bases-overwritten",
            "bases go up to a slot while those of an earlier batch are still added",
            &[WriteAfterRead],
            |edit| edit.drop_all(What::Wait, "bases_added"),
        ),
    ),
    // Harmless.
    ordered("waits-twice", "the host waits for what it has waited for", Expected::Surplus, |edit| {
        let wait = edit.find(What::HostWait, "rows_downloaded", edit.last_batch())?;
        edit.repeat(wait, wait);
        Some(())
    }),
    ordered("waits-for-itself", "a stream waits for an event of its own", Expected::Surplus, |edit| {
        let (last, compute) = (edit.last_batch(), edit.stream("compute")?);
        let record = edit.find(What::Record, "rows_reduced", last)?;
        let event = *event_of(&mut edit.schedule.ops[record]);
        edit.insert_wait(record + 1, record, compute, event);
        Some(())
    }),
    ordered(
        "edge-under-hard-synchronisation",
        "the device waits for a download that the host has waited for",
        Expected::Surplus,
        |edit| {
            let (compute, downloaded) = (edit.stream("compute")?, edit.event("downloaded", 0)?);
            (edit.plan.strategy == Strategy::Hard).then_some(())?;
            let reduce = edit.rows_writer(edit.last_batch())?;
            edit.insert_wait(reduce, reduce, compute, downloaded);
            Some(())
        },
    ),
];

/// Whether every batch has rows of its own, which come down.
fn rows_of_each_batch(edit: &Edit<'_>) -> Option<()> {
    edit.find(What::Download, "download_rows", 0).map(|_| ())
}

/// Whether the strategy is the one that the published plan is about.
fn deferred(edit: &Edit<'_>) -> Option<()> {
    matches!(edit.plan.strategy, Strategy::Deferred { .. }).then_some(())
}

fn make_rows_pageable(edit: &mut Edit<'_>) -> Option<()> {
    let rows = edit.schedule.buffers.iter_mut().filter(|buffer| buffer.name.starts_with("rows_host["));
    rows.for_each(|buffer| buffer.space = Space::Pageable);
    Some(())
}

fn wait_at_the_head(edit: &mut Edit<'_>) -> Option<()> {
    deferred(edit)?;
    for batch in 0..edit.last_batch() {
        let wait = edit.find(What::HostWait, "rows_downloaded", batch)?;
        let fold = edit.find(What::HostStep, FOLD, batch)?;
        let head = edit.find(What::HostStep, STAGE, batch + 1)?;
        edit.hurry(wait, head);
        edit.hurry(fold, head + 1);
    }
    Some(())
}

fn ones_to_another_slot(edit: &mut Edit<'_>) -> Option<()> {
    let (slots, ones_bytes) = (edit.result_slots()?, edit.plan.group.xyzz_bytes());
    for batch in 0..=edit.last_batch() {
        let other = edit.buffer("rows_host", (batch + 1) % slots)?;
        let download = edit.find(What::Download, "download_rows", batch)?;
        edit.repeat(download, download + 1);
        let rows = &mut edit.schedule.ops[download];
        regions(rows).into_iter().for_each(|region| region.bytes -= ones_bytes);
        let ones = regions(&mut edit.schedule.ops[download + 1]);
        for region in ones {
            region.offset += region.bytes - ones_bytes;
            region.bytes = ones_bytes;
        }
        regions(&mut edit.schedule.ops[download + 1])[1].buffer = other;
    }
    Some(())
}

fn record_on_compute(edit: &mut Edit<'_>, name: &str) -> Option<()> {
    let compute = edit.stream("compute")?;
    edit.each(What::Record, name).for_each(|record| *stream_of(record) = compute);
    Some(())
}

fn staged_before_the_wait(edit: &mut Edit<'_>) -> Option<()> {
    let slots = edit.plan.slot_count();
    let mut is_changed = None;
    for batch in slots..edit.plan.batch_count {
        let waits = [
            (What::Await, "rows_folded"),
            (What::HostWait, "rows_downloaded"),
            (What::HostWait, "scalars_recoded"),
        ];
        let wait = waits.into_iter().find_map(|(what, name)| edit.find(what, name, batch - slots))?;
        let stage = edit.find(What::HostStep, STAGE, batch)?;
        if wait < stage {
            edit.hurry(stage, wait);
            is_changed = Some(());
        }
    }
    is_changed
}
