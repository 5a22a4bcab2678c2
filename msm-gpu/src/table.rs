//! Tables of multiples, computed on the device.

use crate::group::MsmGroup;
use crate::plan::Table;
use gpu_core::schedule::{Action, Arg, BufferId, Launch, Region, Schedule, Work};
use gpu_core::{Bindings, CheckedSchedule, Device, DeviceBuf, GpuError, Space, Workspace};
use std::sync::Arc;

/// Points that are doubled and normalized at a time.
const SLICE: u64 = 1 << 20;
/// Points of one thread of the normalization, at most.
const POINTS_PER_THREAD: u64 = 16;
const THREADS: u32 = 128;

const BASES: BufferId = BufferId(0);
const TABLE: BufferId = BufferId(1);

/// The columns of a table, one after another, the first one the bases themselves: the first `count` points of a buffer,
/// which may hold another table of theirs.
pub(crate) fn build<G: MsmGroup>(
    device: &Device,
    bases: &DeviceBuf<G::Affine>,
    count: usize,
    table: &Table,
) -> Result<DeviceBuf<G::Affine>, GpuError> {
    let points = DeviceBuf::new(device, "table", count * table.columns as usize)?;
    if count == 0 {
        return Ok(points);
    }
    device.load(&[G::TABLE_MODULE])?;
    let schedule = Arc::new(CheckedSchedule::new(schedule::<G>(count as u64, bases.len() as u64, table))?);
    let bindings = Bindings::new().bind(BASES, bases).bind(TABLE, &points);
    Workspace::new(device, schedule)?.run(&bindings, &|_, _| Ok(()))?;
    Ok(points)
}

/// Doubles and normalizes slice after slice, column after column. Column 0 comes out of no doublings.
fn schedule<G: MsmGroup>(count: u64, source_len: u64, table: &Table) -> Schedule {
    let (affine, xyzz) = (G::KIND.affine_bytes(), G::KIND.xyzz_bytes());
    let name = format!("table {} n={count} columns={}", G::KIND.word(), table.columns);
    let mut schedule = Schedule::new(name);
    assert_eq!(schedule.buffer("bases", Space::Resident, source_len * affine), BASES);
    let table_bytes = u64::from(table.columns) * count * affine;
    assert_eq!(schedule.buffer("table", Space::Resident, table_bytes), TABLE);
    let doubled = schedule.buffer("doubled", Space::Device, count.min(SLICE) * xyzz);
    let stream = schedule.stream("compute");
    for column in 0..table.columns {
        for begin in (0..count).step_by(SLICE as usize) {
            let len = SLICE.min(count - begin);
            let of = |buffer, column: u64| Region {
                buffer,
                offset: (column * count + begin) * affine,
                bytes: len * affine,
            };
            let (source, bits) = match column {
                0 => (of(BASES, 0), 0),
                _ => (
                    of(TABLE, u64::from(column) - 1),
                    table.column_start(column) - table.column_start(column - 1),
                ),
            };
            let scratch = Region { buffer: doubled, offset: 0, bytes: len * xyzz };
            let mut launch = |stem: &str, threads: u64, args: Vec<Arg>, muls: f64| {
                let kernel = format!("{stem}_{}", G::KIND.word());
                let grid = [threads.div_ceil(u64::from(THREADS)) as u32, 1];
                let work = Work {
                    fp_muls: len as f64 * muls * G::KIND.coord_muls(),
                    bytes: (len * (affine + xyzz)) as f64,
                    chain_muls: 0.0,
                };
                let launch = Launch { kernel: kernel.clone().into(), grid, block: THREADS, args, work };
                schedule.push(kernel, Some(column), Action::Launch { stream, launch });
            };
            let n = Arg::U32(len as u32);
            let args = vec![Arg::Write(scratch), Arg::Read(source), n, Arg::U32(bits)];
            launch("msm_double_bases", len, args, f64::from(bits) * 9.0);
            let threads = len.div_ceil(POINTS_PER_THREAD);
            let args =
                vec![Arg::Write(of(TABLE, column.into())), Arg::Read(scratch), n, Arg::U32(threads as u32)];
            launch("msm_normalize", threads, args, 8.0);
        }
    }
    schedule
}
