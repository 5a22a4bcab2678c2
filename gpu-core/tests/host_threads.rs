//! Host threads of a schedule through the runner: as real threads, and in turns on the simulated device.

use gpu_core::backend::{Backend, DevicePtr, HostSpan, Kernel, LaunchArg, RawEvent, RawStream};
use gpu_core::schedule::{Action, MAIN, Op, Region};
use gpu_core::sim::{SimBackend, SimHandle, SimOptions};
use gpu_core::{
    Bindings, CheckedSchedule, Device, DeviceInfo, GpuError, ModuleSource, Result, Schedule, Space, Workspace,
};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

/// A simulated device that lets host threads be threads.
#[derive(Debug)]
struct Threads(SimBackend);

impl Backend for Threads {
    fn info(&self) -> &DeviceInfo {
        self.0.info()
    }
    fn free_bytes(&self) -> Result<u64> {
        self.0.free_bytes()
    }
    fn alloc_device(&self, name: &str, bytes: u64) -> Result<DevicePtr> {
        self.0.alloc_device(name, bytes)
    }
    unsafe fn free_device(&self, ptr: DevicePtr, bytes: u64) {
        // SAFETY: the caller's promise is passed on, here and below.
        unsafe { self.0.free_device(ptr, bytes) }
    }
    fn alloc_pinned(&self, name: &str, bytes: usize, space: Space) -> Result<*mut u8> {
        self.0.alloc_pinned(name, bytes, space)
    }
    unsafe fn free_pinned(&self, ptr: *mut u8, bytes: usize) {
        // SAFETY: as above.
        unsafe { self.0.free_pinned(ptr, bytes) }
    }
    unsafe fn register_host(&self, name: &str, ptr: *const u8, bytes: usize) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.0.register_host(name, ptr, bytes) }
    }
    unsafe fn unregister_host(&self, ptr: *const u8, bytes: usize) {
        // SAFETY: as above.
        unsafe { self.0.unregister_host(ptr, bytes) }
    }
    fn create_stream(&self, name: &str) -> Result<RawStream> {
        self.0.create_stream(name)
    }
    unsafe fn destroy_stream(&self, stream: RawStream) {
        // SAFETY: as above.
        unsafe { self.0.destroy_stream(stream) }
    }
    fn create_event(&self, name: &str) -> Result<RawEvent> {
        self.0.create_event(name)
    }
    unsafe fn destroy_event(&self, event: RawEvent) {
        // SAFETY: as above.
        unsafe { self.0.destroy_event(event) }
    }
    unsafe fn upload(&self, op: &str, stream: RawStream, dst: DevicePtr, src: HostSpan) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.0.upload(op, stream, dst, src) }
    }
    unsafe fn download(&self, op: &str, stream: RawStream, dst: HostSpan, src: DevicePtr) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.0.download(op, stream, dst, src) }
    }
    unsafe fn fill(&self, op: &str, stream: RawStream, dst: DevicePtr, bytes: u64, byte: u8) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.0.fill(op, stream, dst, bytes, byte) }
    }
    unsafe fn launch(
        &self,
        op: &str,
        stream: RawStream,
        kernel: &Kernel,
        grid: [u32; 2],
        block: u32,
        args: &[LaunchArg],
    ) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.0.launch(op, stream, kernel, grid, block, args) }
    }
    fn record(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        self.0.record(stream, event)
    }
    fn wait(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        self.0.wait(stream, event)
    }
    fn sync_event(&self, op: &str, event: RawEvent) -> Result<()> {
        self.0.sync_event(op, event)
    }
    fn sync_stream(&self, op: &str, stream: RawStream) -> Result<()> {
        self.0.sync_stream(op, stream)
    }
    fn elapsed_us(&self, start: RawEvent, end: RawEvent) -> Result<Option<f64>> {
        self.0.elapsed_us(start, end)
    }
    fn load(&self, source: &'static ModuleSource) -> Result<Vec<Kernel>> {
        self.0.load(source)
    }
}

fn in_turns(options: SimOptions) -> (Device, SimHandle) {
    let sim = SimBackend::new(options);
    let handle = sim.handle();
    (Device::from_backend(Box::new(sim)), handle)
}

fn as_threads(options: SimOptions) -> (Device, SimHandle) {
    let sim = SimBackend::new(options);
    let handle = sim.handle();
    (Device::from_backend(Box::new(Threads(sim))), handle)
}

/// Batches of each run.
const BATCHES: u32 = 6;
const SLOTS: u32 = 2;

/// Numbers go to the device and come back, two slots each way; a thread of its own collects them.
fn relay() -> Schedule {
    let mut schedule = Schedule::new("relay");
    let mut ring = |name: &str, space| -> Vec<Region> {
        let slot = |slot| schedule.buffer(format!("{name}[{slot}]"), space, 8);
        let ids: Vec<_> = (0..SLOTS).map(slot).collect();
        ids.into_iter().map(|id| schedule.whole(id)).collect()
    };
    let sources = ring("source", Space::PinnedUpload);
    let device = ring("device", Space::Device);
    let results = ring("result", Space::PinnedDownload);
    let stream = schedule.stream("copy");
    let done: Vec<_> = (0..SLOTS).map(|slot| schedule.event(format!("done[{slot}]"))).collect();
    let collector = schedule.thread("collector");
    let mut folded = Vec::new();
    for batch in 0..BATCHES {
        let (slot, number) = ((batch % SLOTS) as usize, Some(batch));
        if batch >= SLOTS {
            schedule.push("folded", number, Action::Await { flag: folded[(batch - SLOTS) as usize] });
        }
        let writes = vec![sources[slot]];
        schedule.push("stage", number, Action::HostStep { reads: vec![], writes, host_us: 1.0 });
        schedule.push("upload", number, Action::Upload { stream, src: sources[slot], dst: device[slot] });
        schedule.push("download", number, Action::Download { stream, src: device[slot], dst: results[slot] });
        schedule.push("done", number, Action::Record { stream, event: done[slot] });
        let queued = schedule.flag(format!("queued[{batch}]"));
        schedule.push("queued", number, Action::Signal { flag: queued });
        schedule.push_on(collector, "queued", number, Action::Await { flag: queued });
        schedule.push_on(collector, "done", number, Action::HostWait { event: done[slot] });
        let reads = vec![results[slot]];
        schedule.push_on(collector, "fold", number, Action::HostStep { reads, writes: vec![], host_us: 1.0 });
        folded.push(schedule.flag(format!("folded[{batch}]")));
        schedule.push_on(collector, "folded", number, Action::Signal { flag: folded[batch as usize] });
    }
    schedule
}

/// A step that was done: its name, its batch, and the thread that did it.
type Done = (String, u32, ThreadId);

/// Runs the relay; `before` is called in each step. Gives what was collected, and the steps in order.
fn run(
    workspace: &mut Workspace,
    before: impl Fn(&Op) -> Result<()> + Sync,
) -> Result<(Vec<u64>, Vec<Done>)> {
    let (collected, log) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    workspace.run(&Bindings::new(), &|op, mut views| {
        before(op)?;
        let batch = op.batch.expect("a batch");
        log.lock().unwrap().push((op.name.to_string(), batch, std::thread::current().id()));
        match op.name.as_ref() {
            "stage" => views.write::<u64>(0)[0] = 100 + u64::from(batch),
            _ => collected.lock().unwrap().push(views.read::<u64>(0)[0]),
        }
        Ok(())
    })?;
    Ok((collected.into_inner().unwrap(), log.into_inner().unwrap()))
}

fn expected() -> Vec<u64> {
    (0..u64::from(BATCHES)).map(|batch| 100 + batch).collect()
}

fn workspace(device: &Device) -> Workspace {
    Workspace::new(device, Arc::new(CheckedSchedule::new(relay()).unwrap())).unwrap()
}

fn all_options() -> Vec<SimOptions> {
    vec![SimOptions::default(), SimOptions::latest(), SimOptions::seeded(3)]
}

fn own_thread() -> ThreadId {
    std::thread::current().id()
}

#[test]
fn threads_are_threads_where_the_device_lets_them() {
    for options in all_options() {
        let (device, _) = as_threads(options);
        let mut workspace = workspace(&device);
        for _ in 0..20 {
            let named = |op: &Op| {
                let thread = std::thread::current();
                assert!(op.thread == MAIN || thread.name() == Some("collector"), "{} on {thread:?}", op.name);
                Ok(())
            };
            let (collected, log) = run(&mut workspace, named).unwrap();
            assert_eq!(collected, expected());
            for (name, batch, thread) in log {
                assert_eq!(thread == own_thread(), name == "stage", "{name} of batch {batch}");
            }
        }
    }
}

#[test]
fn steps_of_two_threads_run_at_the_same_time() {
    let (device, _) = as_threads(SimOptions::default());
    let mut workspace = workspace(&device);
    // The first fold meets the second stage: neither ends before the other has begun.
    let meeting = std::sync::Barrier::new(2);
    let meet = |op: &Op| {
        if (op.name == "fold" && op.batch == Some(0)) || (op.name == "stage" && op.batch == Some(1)) {
            meeting.wait();
        }
        Ok(())
    };
    assert_eq!(run(&mut workspace, meet).unwrap().0, expected());
}

#[test]
fn turns_are_taken_on_one_thread_in_an_order_that_the_seed_repeats() {
    let mut orders = BTreeSet::new();
    for host_seed in 0..50 {
        let log = |round| {
            let (device, _) = in_turns(SimOptions { host_seed, ..SimOptions::latest() });
            let mut workspace = workspace(&device);
            let (collected, log) = run(&mut workspace, |_| Ok(())).unwrap();
            assert_eq!(collected, expected(), "seed {host_seed}, round {round}");
            assert!(log.iter().all(|(_, _, thread)| *thread == own_thread()));
            log.into_iter().map(|(name, batch, _)| (name, batch)).collect::<Vec<_>>()
        };
        let first = log(0);
        assert_eq!(log(1), first, "seed {host_seed}");
        orders.insert(first);
    }
    assert!(orders.len() > 5, "{} orders", orders.len());
    // Both extremes: the collector as far behind as slots allow, and never behind.
    let folds_first = |order: &&Vec<(String, u32)>| order.iter().position(|(name, _)| name == "fold");
    assert!(orders.iter().any(|order| folds_first(&order) == Some(2)));
    assert!(orders.iter().any(|order| folds_first(&order) == Some(1)));
}

#[test]
fn an_error_in_any_step_of_any_thread_ends_the_run_and_the_next_is_right() {
    for make in [in_turns, as_threads] {
        for options in all_options() {
            let (device, handle) = make(options);
            let mut workspace = workspace(&device);
            let stats = handle.stats();
            for (step, batch) in (0..BATCHES).flat_map(|batch| [("stage", batch), ("fold", batch)]) {
                let fail = |op: &Op| match op.name == step && op.batch == Some(batch) {
                    true => Err(GpuError::HostStep { step: step.into(), cause: format!("batch {batch}") }),
                    false => Ok(()),
                };
                let error = run(&mut workspace, fail).unwrap_err();
                assert_eq!(error.to_string(), format!("host step {step}: batch {batch}"));
                assert_eq!(
                    run(&mut workspace, |_| Ok(())).unwrap().0,
                    expected(),
                    "after {step} of batch {batch}"
                );
            }
            assert_eq!(handle.stats(), stats, "nothing is kept");
        }
    }
}

#[test]
fn a_panic_in_any_thread_comes_out_of_the_run_and_the_next_is_right() {
    for make in [in_turns, as_threads] {
        let (device, _) = make(SimOptions::latest());
        let mut workspace = workspace(&device);
        for step in ["stage", "fold"] {
            let fail = |op: &Op| {
                assert!(op.name != step || op.batch != Some(3), "on purpose");
                Ok(())
            };
            let outcome = catch_unwind(AssertUnwindSafe(|| run(&mut workspace, fail)));
            let panic = outcome.expect_err("the step panics");
            assert_eq!(panic.downcast_ref::<&str>(), Some(&"on purpose"), "{step}");
            assert_eq!(run(&mut workspace, |_| Ok(())).unwrap().0, expected(), "after a panic in {step}");
        }
    }
}

#[test]
fn unchecked_schedules_take_turns_everywhere_and_get_stuck_with_an_error() {
    for make in [in_turns, as_threads] {
        let (device, _) = make(SimOptions::default());
        let unchecked = |schedule| {
            let checked = CheckedSchedule::for_simulation_only(schedule);
            Workspace::new(&device, Arc::new(checked)).unwrap()
        };
        let (collected, log) = run(&mut unchecked(relay()), |_| Ok(())).unwrap();
        assert_eq!(collected, expected());
        assert!(log.iter().all(|(_, _, thread)| *thread == own_thread()));

        let mut schedule = relay();
        let is_signal = |op: &Op| op.name == "folded" && matches!(op.action, Action::Signal { .. });
        let signal = schedule.ops.iter().position(is_signal).unwrap();
        schedule.ops.remove(signal);
        let mut stuck = unchecked(schedule);
        for _ in 0..2 {
            let error = run(&mut stuck, |_| Ok(())).unwrap_err();
            assert_eq!(
                error.to_string(),
                "host thread host: waits for flag folded[0], which no other thread gets to signal"
            );
        }
    }
}

#[test]
fn graphs_are_refused_for_pageable_memory_and_change_nothing_without_a_device_for_them() {
    let (device, _) = in_turns(SimOptions::seeded(1));
    let mut graphs = workspace(&device);
    graphs.enable_graphs().unwrap();
    for _ in 0..3 {
        assert_eq!(run(&mut graphs, |_| Ok(())).unwrap().0, expected());
    }
    let mut schedule = relay();
    for buffer in &mut schedule.buffers {
        if buffer.space == Space::PinnedDownload {
            buffer.space = Space::Pageable;
        }
    }
    let checked = Arc::new(CheckedSchedule::new(schedule).unwrap());
    let error = Workspace::new(&device, checked).unwrap().enable_graphs().unwrap_err();
    assert_eq!(error.to_string(), "schedule relay: download copies pageable memory, which no graph can hold");
}
