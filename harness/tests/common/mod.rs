//! What several tests share: one kernel run by itself.

// Each test program uses a part of this.
#![allow(dead_code)]

pub mod sort;

use gpu_core::schedule::{Action, Arg, Launch, Region, Work};
use gpu_core::{Bindings, CheckedSchedule, Device, DeviceBuf, GpuError, Pod, Schedule, Space, Workspace};
use std::sync::Arc;

/// Threads of a block.
pub const BLOCK: u32 = 128;

/// One launch of one kernel on buffers that the test owns, through a schedule like any other.
#[derive(Debug)]
pub struct OneKernel {
    device: Device,
    kernel: String,
    schedule: Schedule,
    args: Vec<Arg>,
    bindings: Bindings<'static>,
    rows: u32,
}

impl OneKernel {
    /// A launch without arguments yet. The kernel's module is loaded.
    pub fn new(device: &Device, kernel: &str) -> Self {
        let (schedule, args, bindings) = (Schedule::new(kernel), Vec::new(), Bindings::new());
        Self { device: device.clone(), kernel: kernel.into(), schedule, args, bindings, rows: 1 }
    }

    fn region<T: Pod>(&mut self, buf: &DeviceBuf<T>) -> Region {
        let name = format!("argument {}", self.args.len());
        let id = self.schedule.buffer(name, Space::Resident, (buf.len() * size_of::<T>()) as u64);
        self.bindings = std::mem::take(&mut self.bindings).bind(id, buf);
        self.schedule.whole(id)
    }

    /// Next argument: a buffer that the kernel reads.
    pub fn read<T: Pod>(mut self, buf: &DeviceBuf<T>) -> Self {
        let region = self.region(buf);
        self.args.push(Arg::Read(region));
        self
    }

    /// Next argument: a buffer that the kernel writes, and may read.
    pub fn write<T: Pod>(mut self, buf: &DeviceBuf<T>) -> Self {
        let region = self.region(buf);
        self.args.push(Arg::Write(region));
        self
    }

    /// Next argument: a 32-bit number.
    pub fn u32(mut self, value: u32) -> Self {
        self.args.push(Arg::U32(value));
        self
    }

    /// Blocks in the grid's second dimension.
    pub fn rows(mut self, rows: u32) -> Self {
        self.rows = rows;
        self
    }

    /// Runs it with at least `threads` threads in blocks of `block`, for each row.
    pub fn run(mut self, threads: usize, block: u32) -> Result<(), GpuError> {
        let stream = self.schedule.stream("test");
        let grid = [(threads as u32).div_ceil(block), self.rows];
        let launch = Launch {
            kernel: self.kernel.clone().into(),
            grid,
            block,
            args: self.args,
            work: Work::default(),
        };
        self.schedule.push(self.kernel, None, Action::Launch { stream, launch });
        let schedule = Arc::new(CheckedSchedule::new(self.schedule)?);
        Workspace::new(&self.device, schedule)?.run(&self.bindings, &|_, _| Ok(()))?;
        Ok(())
    }
}

/// Runs `kernel(out, inputs.., n)` with one thread an item; `out` has `rows * n` values.
pub fn map<T: Pod, O: Pod>(
    device: &Device,
    kernel: &'static str,
    inputs: &[&[T]],
    rows: usize,
    poison: O,
) -> Vec<O> {
    let n = inputs[0].len();
    let out = DeviceBuf::from_slice(device, "out", &vec![poison; rows * n]).expect("out");
    let mut launch = OneKernel::new(device, kernel).write(&out);
    for input in inputs {
        launch = launch.read(&DeviceBuf::from_slice(device, "input", input).expect("input"));
    }
    launch.u32(n as u32).run(n, BLOCK).unwrap_or_else(|error| panic!("{kernel}: {error}"));
    out.to_vec().expect("result")
}
