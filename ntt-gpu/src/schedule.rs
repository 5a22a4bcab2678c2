//! A transform as a part of a schedule: launches on one stream, on data and tables of the caller's.
//!
//! A pass is one launch, in place. Passes of one transform are ordered by their stream; order with everything
//! else is the caller's to declare, and the checker's to prove.

use crate::domain::{Direction, OrderKind, Transform};
use crate::plan::{NttPlan, THREADS, VALUE_BYTES};
use crate::tables::{Scale, ScaleKind, TableLayout};
use gpu_core::Space;
use gpu_core::schedule::{Action, Arg, BufferId, Launch, Region, Schedule, StreamId, Work};

/// An Fr multiplication in Fp multiplications, by measured rates (60.4 and 27.4 G/s on an H200).
const FR_MUL: f64 = 27.4 / 60.4;

/// The data in the schedules of [`transform`] and [`reverse_order`]: the caller binds it.
pub const DATA: BufferId = BufferId(0);
/// The tables in the schedule of [`transform`]: the caller binds them.
pub const TABLES: BufferId = BufferId(1);

/// The schedule of one transform and nothing else.
pub fn transform(plan: &NttPlan, transform: &Transform) -> Schedule {
    let (mut schedule, stream, data) = with_data(plan, "ntt");
    let bytes = TableLayout::new(plan, transform).bytes();
    let tables = schedule.buffer("tables", Space::Resident, bytes);
    assert_eq!(tables, TABLES, "the tables are the second buffer");
    let tables = schedule.whole(tables);
    push(&mut schedule, stream, plan, transform, data, tables);
    schedule
}

/// The schedule of one change of order and nothing else.
pub fn reverse_order(plan: &NttPlan) -> Schedule {
    let (mut schedule, stream, data) = with_data(plan, "reverse order");
    push_reverse_order(&mut schedule, stream, plan, data);
    schedule
}

fn with_data(plan: &NttPlan, name: &str) -> (Schedule, StreamId, Region) {
    let mut schedule = Schedule::new(format!("{name} 2^{} x {}", plan.log_n, plan.job_count));
    let data = schedule.buffer("data", Space::Resident, plan.data_bytes());
    assert_eq!(data, DATA, "the data is the first buffer");
    let (stream, data) = (schedule.stream("compute"), schedule.whole(data));
    (schedule, stream, data)
}

/// Appends a transform of `data`, in place: all jobs of the plan, from the transform's input order to the
/// other one. `tables` is what [`Tables`](crate::Tables) made for the same plan and transform. n = 1 takes no
/// launch.
///
/// # Panics
/// If a region does not have the size that the plan gives it.
pub fn push(
    schedule: &mut Schedule,
    stream: StreamId,
    plan: &NttPlan,
    transform: &Transform,
    data: Region,
    tables: Region,
) {
    let layout = TableLayout::new(plan, transform);
    assert_eq!(data.bytes, plan.data_bytes(), "data of {} jobs of 2^{}", plan.job_count, plan.log_n);
    assert_eq!(tables.bytes, layout.bytes(), "tables of the transform");
    let none = Scale { kind: ScaleKind::None, range: 0..0 };
    let scale_at = |pass: usize, is_load: bool| {
        let is_edge = pass == layout.edge_pass && is_load == (transform.direction == Direction::Forward);
        // Between passes, scales are applied where a value leaves a pass towards bit-reversed order, and
        // where it comes in from there: always on the same side of the same pass.
        let is_inner_side = is_load == (transform.input == OrderKind::BitReversed);
        match layout.between.get(pass) {
            Some(scale) if is_inner_side => scale,
            _ if is_edge => &layout.edge,
            _ => &none,
        }
    };
    let (kernel, order): (_, Vec<usize>) = match transform.input {
        OrderKind::Natural => ("ntt_dif_pass", (0..plan.passes.len()).collect()),
        OrderKind::BitReversed => ("ntt_dit_pass", (0..plan.passes.len()).rev().collect()),
    };
    for index in order {
        let pass = &plan.passes[index];
        let (load, store) = (scale_at(index, true), scale_at(index, false));
        let args = vec![
            Arg::Write(data),
            Arg::Read(layout.region(tables, &layout.twiddles)),
            Arg::Read(layout.region(tables, &load.range)),
            Arg::Read(layout.region(tables, &store.range)),
            Arg::U64(plan.items()),
            Arg::U32(plan.log_n),
            Arg::U32(pass.log_rows),
            Arg::U32(pass.log_stride),
            Arg::U32(pass.log_tile),
            Arg::U32(layout.twiddle_bits),
            Arg::U32(load.kind as u32),
            Arg::U32(store.kind as u32),
        ];
        let (items, stages) = (plan.items() as f64, f64::from(pass.log_rows));
        let scale_muls = muls(load.kind) + muls(store.kind);
        let scale_bytes = table_bytes(load.kind) + table_bytes(store.kind);
        let work = Work {
            fp_muls: items * (stages / 2.0 - 1.0 + (-stages).exp2() + scale_muls) * FR_MUL,
            bytes: items * (2.0 * VALUE_BYTES as f64 + scale_bytes),
            // A thread does four values at a time: two stages are two products deep, four products long.
            chain_muls: (2.0 * stages + 4.0 * scale_muls) * FR_MUL,
        };
        let (grid, block) = ([plan.tiles(pass) as u32, 1], pass.threads());
        let launch = Launch { kernel: kernel.into(), grid, block, args, work };
        schedule.push(kernel, None, Action::Launch { stream, launch });
    }
}

/// Appends the change of order alone, from natural to bit-reversed or back: the only kernel that permutes.
///
/// # Panics
/// If the region does not have the size that the plan gives it.
pub fn push_reverse_order(schedule: &mut Schedule, stream: StreamId, plan: &NttPlan, data: Region) {
    assert_eq!(data.bytes, plan.data_bytes(), "data of {} jobs of 2^{}", plan.job_count, plan.log_n);
    if plan.log_n == 0 {
        return;
    }
    let launch = Launch {
        kernel: "ntt_reverse_order".into(),
        grid: [plan.items().div_ceil(THREADS.into()) as u32, 1],
        block: THREADS,
        args: vec![Arg::Write(data), Arg::U64(plan.items()), Arg::U32(plan.log_n)],
        work: Work { bytes: 2.0 * plan.data_bytes() as f64, ..Work::default() },
    };
    schedule.push("ntt_reverse_order", None, Action::Launch { stream, launch });
}

/// Products for each value.
fn muls(kind: ScaleKind) -> f64 {
    match kind {
        ScaleKind::None => 0.0,
        ScaleKind::Row | ScaleKind::Position => 1.0,
        ScaleKind::Twiddle | ScaleKind::Power => 2.0,
    }
}

/// Bytes from device memory for each value; small tables stay in the cache.
fn table_bytes(kind: ScaleKind) -> f64 {
    match kind {
        ScaleKind::Position => VALUE_BYTES as f64,
        _ => 0.0,
    }
}
