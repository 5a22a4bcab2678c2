//! The batch loop of somebody else's prover, written down as a schedule: what the checker says of it before and after
//! the wait is deferred, and what that would gain.
//!
//! `cargo run --release -p gpu-core --example your_loop`. Nothing runs and no device is needed: sizes and rates are enough.

use gpu_core::check::check;
use gpu_core::model::{Profile, Timeline, estimate};
use gpu_core::schedule::{Action, Arg, Launch, Region, Schedule, Space, Work};

const BATCHES: u32 = 4;
/// Bytes of the bucket sums that a batch brings down.
const ROWS_BYTES: u64 = 4 << 20;
/// Products in Fp that a batch takes on the device, and microseconds that the host folds.
const WORK: Work = Work { fp_muls: 2e8, bytes: 0.0, chain_muls: 0.0 };
const FOLD_US: f64 = 1500.0;

/// What the loop does between batches.
#[derive(Clone, Copy)]
struct Choice {
    name: &'static str,
    /// Slots on the host that results come down to; with more than one, the wait is a batch late.
    slots: u32,
    /// Where they are.
    results: Space,
    /// Whether the next batch's kernel waits, on the device, until the last one's sums have gone down.
    edge: bool,
}

fn schedule(choice: Choice) -> Schedule {
    let mut s = Schedule::new(choice.name);
    let (compute, copy) = (s.stream("compute"), s.stream("copy"));
    let sums = s.buffer("bucket sums", Space::Device, ROWS_BYTES);
    let sums = s.whole(sums);
    let slots: Vec<Region> = (0..choice.slots)
        .map(|slot| s.buffer(format!("results[{slot}]"), choice.results, ROWS_BYTES))
        .collect::<Vec<_>>()
        .into_iter()
        .map(|slot| s.whole(slot))
        .collect();
    let summed = s.event("summed");
    let arrived: Vec<_> = (0..choice.slots).map(|slot| s.event(format!("arrived[{slot}]"))).collect();
    let fold = |s: &mut Schedule, batch: u32| {
        let slot = (batch % choice.slots) as usize;
        s.push("arrived", Some(batch), Action::HostWait { event: arrived[slot] });
        let reads = vec![slots[slot]];
        s.push("fold", Some(batch), Action::HostStep { reads, writes: vec![], host_us: FOLD_US });
    };
    let late = choice.slots - 1;
    for batch in 0..BATCHES {
        let slot = (batch % choice.slots) as usize;
        if choice.edge && batch > 0 {
            let event = arrived[((batch - 1) % choice.slots) as usize];
            s.push("sums are down", Some(batch), Action::Wait { stream: compute, event });
        }
        let args = vec![Arg::Write(sums)];
        let launch = Launch { kernel: "accumulate".into(), grid: [4096, 1], block: 128, args, work: WORK };
        s.push("accumulate", Some(batch), Action::Launch { stream: compute, launch });
        s.push("summed", Some(batch), Action::Record { stream: compute, event: summed });
        s.push("summed", Some(batch), Action::Wait { stream: copy, event: summed });
        s.push("download", Some(batch), Action::Download { stream: copy, src: sums, dst: slots[slot] });
        s.push("arrived", Some(batch), Action::Record { stream: copy, event: arrived[slot] });
        if batch >= late {
            fold(&mut s, batch - late);
        }
    }
    (BATCHES - late.min(BATCHES)..BATCHES).for_each(|batch| fold(&mut s, batch));
    s
}

fn main() {
    let (pageable, pinned) = (Space::Pageable, Space::PinnedDownload);
    let choices = [
        Choice { name: "hard", slots: 1, results: pinned, edge: false },
        Choice { name: "deferred, results in pageable memory", slots: 2, results: pageable, edge: false },
        Choice { name: "deferred, results page-locked", slots: 2, results: pinned, edge: false },
        Choice { name: "deferred, and an edge on the device", slots: 2, results: pinned, edge: true },
    ];
    let profile = Profile::h200();
    for choice in choices {
        let schedule = schedule(choice);
        let report = check(&schedule);
        let times = Timeline::new(&schedule, &estimate(&schedule, &profile));
        let ms = |us: f64| us / 1e3;
        let (whole, idle) = (ms(times.makespan_us), ms(times.idle_between_batches_us));
        println!("{}: {whole:.2} ms, {idle:.2} of them idle between batches ({})", choice.name, profile.name);
        match report.hazards.first() {
            None => println!("  no hazard"),
            Some(hazard) => println!("  {} hazards; the first: {hazard}", report.hazards.len()),
        }
    }
}
