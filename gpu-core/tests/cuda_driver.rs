//! The driver that is missing, old, refuses to start or runs out of memory: against a stand-in for libcuda,
//! in a process of its own, on any machine.

use gpu_core::backend::{Backend, HostSpan, Kernel, LaunchArg};
use gpu_core::cuda::{CudaBackend, device_count};
use gpu_core::kernel::{KernelEntry, SimKernel};
use gpu_core::schedule::{Action, BufferId, MAIN, Region};
use gpu_core::sim::SimOptions;
use gpu_core::{
    Bindings, CheckedSchedule, Device, DeviceBuf, GpuError, ModuleSource, Registered, Schedule, Space, Trace,
    Workspace,
};
use std::ffi::c_void;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

const ROLE: &str = "CUDA_DRIVER_TEST_ROLE";

/// Runs `body` in a child process that finds the stand-in, compiled with `defines`, before any real driver.
fn with_driver(test: &str, defines: &[&str], env: &[(&str, &str)], body: fn()) {
    if std::env::var(ROLE).is_ok_and(|role| role == test) {
        return body();
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda_fake/driver.c");
    let library = dir.path().join("libcuda.so");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-w", "-o"])
        .arg(&library)
        .args(defines)
        .arg(&source)
        .output();
    match compiled {
        Err(error) => return eprintln!("skipped: no C compiler ({error})"),
        Ok(_) if !source.exists() => return eprintln!("skipped: the sources are not on this machine"),
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
    }
    // The compiler, where there is one, is still found.
    let known = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let path = std::iter::once(dir.path().to_path_buf()).chain(std::env::split_paths(&known));
    let output = Command::new(std::env::current_exe().expect("path of this test"))
        .args(["--exact", test, "--nocapture"])
        .env(ROLE, test)
        .env("LD_LIBRARY_PATH", std::env::join_paths(path).expect("directories"))
        .envs(env.iter().copied())
        .output()
        .expect("this test starts again");
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success() && text.contains("1 passed"), "{}\n{text}", output.status);
}

#[test]
fn absent_driver_is_named() {
    match Device::cuda(0) {
        Err(error @ GpuError::NoDriver { .. }) => {
            let text = error.to_string();
            assert!(text.contains("libcuda.so.1"), "{text}");
            assert!(matches!(device_count(), Err(GpuError::NoDriver { .. })), "asked again, the same");
        }
        other => eprintln!("skipped: this machine has a driver ({other:?})"),
    }
}

#[test]
fn old_driver_is_refused_by_the_function_that_it_lacks() {
    with_driver("old_driver_is_refused_by_the_function_that_it_lacks", &["-DOLD"], &[], || {
        let error = Device::cuda(0).expect_err("it lacks a function");
        assert!(matches!(error, GpuError::NoDriver { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("cuEventElapsedTime_v2") && text.contains("CUDA 12.8"), "{text}");
    });
}

#[test]
fn driver_without_devices_has_none() {
    with_driver("driver_without_devices_has_none", &[], &[("FAKE_CUDA_INIT", "100")], || {
        assert_eq!(device_count().expect("that is no failure"), 0);
        let error = Device::cuda(0).expect_err("there is none");
        assert!(matches!(error, GpuError::NoDevice { ordinal: 0, count: 0 }), "{error:?}");
    });
}

#[test]
fn driver_that_does_not_start_is_an_error() {
    with_driver("driver_that_does_not_start_is_an_error", &[], &[("FAKE_CUDA_INIT", "803")], || {
        let error = device_count().expect_err("it does not start");
        assert!(matches!(error, GpuError::NoDriver { .. }), "{error:?}");
        assert!(error.to_string().contains("CUDA_ERROR_OF_A_TEST (text of an error)"), "{error}");
    });
}

#[test]
fn ordinal_beyond_the_last_device_is_refused() {
    with_driver("ordinal_beyond_the_last_device_is_refused", &[], &[], || {
        let error = Device::cuda(1).expect_err("there is one device");
        assert!(matches!(error, GpuError::NoDevice { ordinal: 1, count: 1 }), "{error:?}");
    });
}

fn memory_is_taken_and_given_back() {
    let backend = CudaBackend::new(0).expect("the stand-in opens");
    let info = backend.info();
    let facts = (info.name.as_str(), info.arch.as_str(), info.sm_count, info.sm_threads_max);
    assert_eq!(facts, ("XYZ 9000", "sm_90", 7, 2048), "queried, from no table of names");
    let total = info.memory_bytes;
    assert_eq!(backend.free_bytes().expect("free"), total);

    let first = backend.alloc_device("first", total * 6 / 10).expect("it fits");
    assert_eq!(backend.free_bytes().expect("free"), total - total * 6 / 10);
    // SAFETY: allocated above, freed once, nothing is queued.
    unsafe { backend.free_device(first, total * 6 / 10) };
    assert_eq!(backend.free_bytes().expect("free"), total, "what the pool holds unused counts as free");

    // With pools, the stand-in refuses until the pool is trimmed.
    let second = backend.alloc_device("second", total * 7 / 10).expect("it fits after a trim");
    for needed in [total * 5 / 10, total + 1, 1 << 40, u64::MAX] {
        match backend.alloc_device("third", needed) {
            Err(GpuError::OutOfMemory { op, needed_bytes, free_bytes }) => {
                assert!(op.contains("third"), "{op}");
                assert_eq!((needed_bytes, free_bytes), (needed, total - total * 7 / 10));
            }
            other => panic!("{needed} bytes: {other:?}"),
        }
    }
    let fourth = backend.alloc_device("fourth", total / 10).expect("a refusal leaves nothing behind");
    // SAFETY: allocated above, freed once, nothing is queued.
    unsafe {
        backend.free_device(second, total * 7 / 10);
        backend.free_device(fourth, total / 10);
    }
    assert_eq!(backend.free_bytes().expect("free"), total);
    let all = backend.alloc_device("all", total).expect("everything is free again");
    // SAFETY: as above.
    unsafe { backend.free_device(all, total) };

    for space in [Space::PinnedUpload, Space::PinnedDownload] {
        let host = backend.alloc_pinned("staging", 100, space).expect("it fits");
        // SAFETY: 100 bytes are ours until they are freed.
        let is_zeroed = unsafe { std::slice::from_raw_parts(host, 100) }.iter().all(|byte| *byte == 0);
        assert!(is_zeroed && (host as usize).is_multiple_of(64));
        // SAFETY: freed once, nothing is queued.
        unsafe { backend.free_pinned(host, 100) };
    }
    for needed in [total as usize + 1, usize::MAX / 2] {
        let error = backend.alloc_pinned("staging", needed, Space::PinnedUpload).expect_err("too much");
        assert!(matches!(error, GpuError::OutOfMemory { .. }), "{error:?}");
    }
}

#[test]
fn memory_is_pooled_trimmed_and_given_back() {
    with_driver("memory_is_pooled_trimmed_and_given_back", &[], &[], memory_is_taken_and_given_back);
}

#[test]
fn memory_is_given_back_without_pools() {
    let env = [("FAKE_CUDA_NO_POOLS", "1")];
    with_driver("memory_is_given_back_without_pools", &[], &env, memory_is_taken_and_given_back);
}

#[test]
fn host_memory_is_locked_in_place_and_released() {
    with_driver("host_memory_is_locked_in_place_and_released", &[], &[], || {
        let device = Device::cuda(0).expect("the stand-in opens");
        let numbers: Vec<u64> = (0..100).collect();
        let whole = Registered::new(&device, "numbers", &numbers).expect("locked");
        let again = Registered::new(&device, "numbers", &numbers).expect("the same memory once more");
        drop(whole);
        let part = Registered::new(&device, "a part", &numbers[10..20]).expect_err("locked by `again`");
        assert!(matches!(&part, GpuError::Driver { op, .. } if op == "page-locking a part"), "{part}");
        drop(again);
        drop(Registered::new(&device, "a part", &numbers[10..20]).expect("nothing is locked any more"));
        drop(Registered::<u64>::new(&device, "nothing", &[]).expect("there is nothing to lock"));
    });
}

unsafe extern "C" fn never_simulated(_args: *const *const c_void) {
    unreachable!("this kernel is for a CUDA driver")
}

static SUM: SimKernel = SimKernel {
    call: never_simulated,
    signature: c"w48".as_ptr(),
    collective: 0,
    shared_begin: std::ptr::null(),
    shared_end: std::ptr::null(),
};
static SUM_ENTRY: KernelEntry = KernelEntry { name: "sum", sim: &SUM };

/// Each call comes from a thread that has never seen the context, as calls from a thread pool do.
#[test]
fn any_thread_can_call() {
    with_driver("any_thread_can_call", &[], &[], || {
        let backend = CudaBackend::new(0).expect("the stand-in opens");
        let backend = &backend;
        fn elsewhere<T: Send>(body: impl FnOnce() -> T + Send) -> T {
            std::thread::scope(|scope| scope.spawn(body).join().expect("no panic"))
        }
        let stream = elsewhere(|| backend.create_stream("s")).expect("a stream");
        let events = elsewhere(|| [backend.create_event("a"), backend.create_event("b")]);
        let [start, end] = events.map(|event| event.expect("an event"));
        let buffer = elsewhere(|| backend.alloc_device("buffer", 8)).expect("memory");
        let kernel = Kernel { entry: &SUM_ENTRY, handle: 1, block_max: 256 };
        let args = [
            LaunchArg::Buffer { ptr: buffer, bytes: 8, write: true },
            LaunchArg::U32(0x8000_0001),
            LaunchArg::U64(0x1_0000_0002),
        ];
        let mut result = 0u64;
        let address = (&raw mut result) as usize;
        elsewhere(|| backend.record(stream, start)).expect("recorded");
        // SAFETY: the buffer holds the 8 bytes that the kernel, the fill and the copies touch; all is done at
        // once.
        unsafe {
            elsewhere(|| backend.fill("fill", stream, buffer, 8, 0xff)).expect("filled");
            elsewhere(|| backend.launch("sum", stream, &kernel, [3, 2], 64, &args)).expect("launched");
            elsewhere(|| {
                let dst = HostSpan { ptr: address as *mut u8, bytes: 8, space: Space::Pageable };
                backend.download("result", stream, dst, buffer)
            })
            .expect("copied");
        }
        assert_eq!(result, 0x8000_0001 + 0x1_0000_0002, "each argument is read with its own width");
        elsewhere(|| backend.record(stream, end)).expect("recorded");
        elsewhere(|| backend.wait(stream, end)).expect("queued");
        elsewhere(|| backend.sync_event("end", end)).expect("reached");
        elsewhere(|| backend.sync_stream("end", stream)).expect("drained");
        assert_eq!(elsewhere(|| backend.elapsed_us(start, end)).expect("timed"), Some(1500.0));
        // SAFETY: all are ours, released once, nothing is queued.
        elsewhere(|| unsafe {
            backend.free_device(buffer, 8);
            backend.destroy_event(start);
            backend.destroy_event(end);
            backend.destroy_stream(stream);
        });
    });
}

/// Streams and events belong to a device, and a thread has one device at a time: calls go to the device that they are made
/// on, whatever the thread did before. The stand-in refuses a stream or an event under another device's context.
#[test]
fn b98_one_thread_serves_two_devices() {
    let env = [("FAKE_CUDA_DEVICES", "2")];
    with_driver("b98_one_thread_serves_two_devices", &[], &env, || {
        assert_eq!(device_count().expect("they are counted"), 2);
        let backends = [0, 1].map(|ordinal| CudaBackend::new(ordinal).expect("the stand-in opens"));
        let made = backends.each_ref().map(|backend| {
            let event = backend.create_event("e").expect("an event");
            (
                backend.create_stream("s").expect("a stream"),
                event,
                backend.alloc_device("b", 8).expect("memory"),
            )
        });
        for index in [0, 1, 1, 0, 1, 0, 0] {
            let (backend, (stream, event, buffer)) = (&backends[index], made[index]);
            // SAFETY: the buffer holds 8 bytes, and lives until all is done, which is at once.
            unsafe { backend.fill("fill", stream, buffer, 8, index as u8).expect("filled") };
            backend.record(stream, event).expect("recorded");
            backend.sync_event("event", event).expect("reached");
            backend.sync_stream("stream", stream).expect("drained");
            assert!(backend.free_bytes().expect("free") > 0);
        }
        // A thread that has seen neither, and then the other way round.
        std::thread::scope(|scope| {
            let there = scope.spawn(|| {
                for index in [1, 0] {
                    backends[index].sync_stream("stream", made[index].0).expect("drained");
                }
            });
            there.join().expect("no panic");
        });
        let mistaken = backends[0].sync_stream("stream", made[1].0);
        assert!(mistaken.is_err(), "the stand-in knows whose a stream is");
        for (backend, (stream, event, buffer)) in backends.iter().zip(made).rev() {
            // SAFETY: all are ours, released once, nothing is queued.
            unsafe {
                backend.free_device(buffer, 8);
                backend.destroy_event(event);
                backend.destroy_stream(stream);
            }
        }
    });
}

/// A refused launch is an error that names operation and kernel; the stand-in takes the other.
#[test]
fn b133_a_launch_that_the_driver_refuses_is_an_error() {
    with_driver("b133_a_launch_that_the_driver_refuses_is_an_error", &[], &[], || {
        let backend = CudaBackend::new(0).expect("the stand-in opens");
        let stream = backend.create_stream("s").expect("a stream");
        let buffer = backend.alloc_device("buffer", 8).expect("memory");
        let kernel = Kernel { entry: &SUM_ENTRY, handle: 1, block_max: 256 };
        let args =
            [LaunchArg::Buffer { ptr: buffer, bytes: 8, write: true }, LaunchArg::U32(1), LaunchArg::U64(1)];
        // SAFETY: the buffer holds the 8 bytes that the kernel writes; all is done at once.
        let launch = |grid, block| unsafe { backend.launch("step", stream, &kernel, grid, block, &args) };
        for (grid, block) in [([0, 1], 32), ([1, 0], 32), ([1, 1], 0), ([1, 1], 257), ([1, 65_536], 32)] {
            match launch(grid, block) {
                Err(GpuError::Driver { op, cause }) => {
                    assert!(op.contains("step") && op.contains("sum"), "{op}");
                    assert!(cause.starts_with("CUDA_ERROR_"), "{cause}");
                }
                other => panic!("grid {grid:?}, block {block}: {other:?}"),
            }
        }
        launch([1, 1], 256).expect("within the limits");
        backend.sync_stream("end", stream).expect("no error is left over");
        // SAFETY: ours, released once, nothing is queued.
        unsafe {
            backend.free_device(buffer, 8);
            backend.destroy_stream(stream);
        }
    });
}

static PROBE: ModuleSource = ModuleSource {
    name: "probe",
    file: "probe.cu",
    source: "extern \"C\" __global__ void sum(unsigned long long* out) { *out = 1; }",
    headers: &[],
    defines: &[],
    kernels: &[KernelEntry { name: "sum", sim: &SUM }],
};

/// No PTX is loaded, but code for the chip; a driver that refuses it is told apart by both versions and what to do.
#[test]
fn b110_code_that_the_driver_refuses_is_an_error_with_both_versions() {
    let cache = tempfile::tempdir().expect("a temporary directory");
    let cache = cache.path().to_str().expect("the path is text");
    let env = [("FAKE_CUDA_LOAD", "222"), ("GPU_GROTH16_CACHE", cache)];
    with_driver("b110_code_that_the_driver_refuses_is_an_error_with_both_versions", &[], &env, || {
        let device = Device::cuda(0).expect("the stand-in opens");
        match device.load(&[&PROBE]) {
            Err(GpuError::Driver { op, cause }) => {
                assert!(
                    op.contains("loading module probe") && op.contains("compiled for sm_90 by NVRTC"),
                    "{op}"
                );
                assert!(
                    op.contains("driver for CUDA 12.4") && op.contains("must not be of a newer CUDA"),
                    "{op}"
                );
                assert!(cause.starts_with("CUDA_ERROR_"), "{cause}");
            }
            Err(error @ GpuError::NoCompiler { .. }) => {
                assert!(std::env::var_os("REQUIRE_NVRTC").is_none(), "REQUIRE_NVRTC is set: {error}");
                eprintln!("skipped: {error}");
            }
            other => panic!("{other:?}"),
        }
    });
}

/// Batches of the schedule below, and slots.
const BATCHES: u32 = 5;
const SLOTS: u32 = 2;

/// Numbers go to the device on one stream, are copied to the host on another, and filled over on a third. The
/// host stages and collects, two batches late; or a thread of its own collects.
fn relay(by_thread: bool) -> Schedule {
    let mut s = Schedule::new("relay");
    let (up, work, down) = (s.stream("up"), s.stream("work"), s.stream("down"));
    let mut ring = |name: &str, space| -> Vec<Region> {
        let ids: Vec<_> = (0..SLOTS).map(|slot| s.buffer(format!("{name}[{slot}]"), space, 8)).collect();
        ids.into_iter().map(|id| s.whole(id)).collect()
    };
    let (sources, results) = (ring("source", Space::PinnedUpload), ring("result", Space::PinnedDownload));
    let number = s.buffer("number", Space::Resident, 8);
    let number = s.whole(number);
    let [uploaded, filled] = ["uploaded", "filled"].map(|name| s.event(name));
    let done: Vec<_> = (0..SLOTS).map(|slot| s.event(format!("done[{slot}]"))).collect();
    let thread = if by_thread { s.thread("collector") } else { MAIN };
    let mut folded = vec![];
    let collect = |s: &mut Schedule, batch: u32| {
        let slot = (batch % SLOTS) as usize;
        let reads = vec![results[slot]];
        s.push_on(thread, "done", Some(batch), Action::HostWait { event: done[slot] });
        s.push_on(thread, "fold", Some(batch), Action::HostStep { reads, writes: vec![], host_us: 1.0 });
    };
    for batch in 0..BATCHES {
        let (slot, is_reused) = ((batch % SLOTS) as usize, batch >= SLOTS);
        match is_reused {
            true if by_thread => {
                s.push("folded", Some(batch), Action::Await { flag: folded[(batch - SLOTS) as usize] });
            }
            true => collect(&mut s, batch - SLOTS),
            false => {}
        }
        let writes = vec![sources[slot]];
        s.push("stage", Some(batch), Action::HostStep { reads: vec![], writes, host_us: 1.0 });
        if batch > 0 {
            // A mark of an earlier graph.
            s.push("free", Some(batch), Action::Wait { stream: up, event: filled });
        }
        s.push("upload", Some(batch), Action::Upload { stream: up, src: sources[slot], dst: number });
        s.push("record", Some(batch), Action::Record { stream: up, event: uploaded });
        s.push("wait", Some(batch), Action::Wait { stream: down, event: uploaded });
        s.push("download", Some(batch), Action::Download { stream: down, src: number, dst: results[slot] });
        s.push("record", Some(batch), Action::Record { stream: down, event: done[slot] });
        s.push("wait", Some(batch), Action::Wait { stream: work, event: done[slot] });
        s.push("fill", Some(batch), Action::Fill { stream: work, dst: number, byte: 0xee });
        s.push("record", Some(batch), Action::Record { stream: work, event: filled });
        if by_thread {
            let queued = s.flag(format!("queued[{batch}]"));
            s.push("queued", Some(batch), Action::Signal { flag: queued });
            s.push_on(thread, "queued", Some(batch), Action::Await { flag: queued });
            collect(&mut s, batch);
            folded.push(s.flag(format!("folded[{batch}]")));
            s.push_on(thread, "folded", Some(batch), Action::Signal { flag: folded[batch as usize] });
        }
    }
    if !by_thread {
        (BATCHES - SLOTS..BATCHES).for_each(|batch| collect(&mut s, batch));
    }
    s
}

/// What a run collects from numbers `first ..`; a failing step is named by its batch.
fn relayed(
    workspace: &mut Workspace,
    number: &DeviceBuf<u64>,
    first: u64,
    failing: Option<u32>,
) -> Result<Vec<u64>, GpuError> {
    Ok(traced(workspace, number, first, failing)?.0)
}

/// The same, and when each operation ran.
fn traced(
    workspace: &mut Workspace,
    number: &DeviceBuf<u64>,
    first: u64,
    failing: Option<u32>,
) -> Result<(Vec<u64>, Trace), GpuError> {
    let collected = Mutex::new(vec![]);
    let bindings = Bindings::new().bind(BufferId(4), number);
    let trace = workspace.run(&bindings, &|op, mut views| {
        if op.name == "stage" {
            views.write::<u64>(0)[0] = first + u64::from(op.batch.expect("a batch"));
        } else if op.batch == failing {
            return Err(GpuError::HostStep { step: "fold".into(), cause: "on purpose".into() });
        } else {
            collected.lock().expect("no panic").push(views.read::<u64>(0)[0]);
        }
        Ok(())
    })?;
    Ok((collected.into_inner().expect("no panic"), trace))
}

/// The stand-in refuses whatever is queued outside a graph, and a capture that breaks a rule.
#[test]
fn a_schedule_runs_as_graphs_by_the_rules_of_capture() {
    let env = [("FAKE_CUDA_GRAPHS", "1")];
    with_driver("a_schedule_runs_as_graphs_by_the_rules_of_capture", &[], &env, || {
        let device = Device::cuda(0).expect("the stand-in opens");
        let numbers = [(); 2].map(|()| DeviceBuf::<u64>::new(&device, "number", 1).expect("memory"));
        for by_thread in [false, true] {
            let checked = Arc::new(CheckedSchedule::new(relay(by_thread)).expect("no hazards"));
            let mut plain = Workspace::new(&device, checked.clone()).expect("memory");
            let error = relayed(&mut plain, &numbers[0], 0, None).expect_err("it is no graph");
            assert!(error.to_string().starts_with("upload: "), "{error}");

            let mut workspace = Workspace::new(&device, checked).expect("memory");
            workspace.enable_graphs().expect("events");
            let expected = |first| (first..first + u64::from(BATCHES)).collect::<Vec<_>>();
            // Captured, launched again, captured anew for other memory.
            for (first, number) in [(100, 0), (200, 0), (300, 1), (400, 1), (500, 0)] {
                let found = relayed(&mut workspace, &numbers[number], first, None).expect("it runs");
                assert_eq!(found, expected(first), "by_thread {by_thread}");
            }
            for batch in 0..BATCHES {
                let error = relayed(&mut workspace, &numbers[0], 0, Some(batch)).expect_err("the step fails");
                assert_eq!(error.to_string(), "host step fold: on purpose");
                assert_eq!(relayed(&mut workspace, &numbers[0], 600, None).expect("it runs"), expected(600));
            }
            workspace.enable_timing().expect("events");
            for first in [700, 800] {
                assert_eq!(
                    relayed(&mut workspace, &numbers[0], first, None).expect("timed"),
                    expected(first)
                );
            }
        }
    });
}

/// A schedule with a hazard is shown on the simulated device, and never gets to a real one.
#[test]
fn a_schedule_with_a_hazard_is_refused_by_a_real_device() {
    with_driver("a_schedule_with_a_hazard_is_refused_by_a_real_device", &[], &[], || {
        let mut racy = relay(false);
        let wait = racy.ops.iter().position(|op| op.name == "wait").expect("a wait");
        racy.ops.remove(wait);
        assert!(matches!(CheckedSchedule::new(racy.clone()), Err(GpuError::Hazard { .. })));
        let checked = CheckedSchedule::new(relay(false)).expect("no hazards");
        let unchecked = CheckedSchedule::for_simulation_only(racy);
        assert_eq!((checked.is_simulation_only(), unchecked.is_simulation_only()), (false, true));
        let (checked, unchecked) = (Arc::new(checked), Arc::new(unchecked));
        let (cuda, sim) = (Device::cuda(0).expect("the stand-in opens"), Device::sim(SimOptions::default()));
        for (device, schedule) in [(&sim, &checked), (&sim, &unchecked), (&cuda, &checked)] {
            Workspace::new(device, schedule.clone()).expect("memory");
        }
        let error = Workspace::new(&cuda, unchecked).expect_err("it has a hazard");
        assert!(matches!(error, GpuError::Incomplete { .. }), "{error}");
        assert!(error.to_string().contains("simulated device only"), "{error}");
    });
}

/// Half of the timing events once stayed behind, and the next run reached for the other half.
#[test]
fn timing_that_cannot_be_had_leaves_runs_untimed() {
    let env = [("FAKE_CUDA_EVENT_FAILS", "12")];
    with_driver("timing_that_cannot_be_had_leaves_runs_untimed", &[], &env, || {
        let device = Device::cuda(0).expect("the stand-in opens");
        let number = DeviceBuf::<u64>::new(&device, "number", 1).expect("memory");
        let checked = Arc::new(CheckedSchedule::new(relay(false)).expect("no hazards"));
        let mut workspace = Workspace::new(&device, checked).expect("memory");
        let expected = |first| (first..first + u64::from(BATCHES)).collect::<Vec<_>>();
        workspace.enable_timing().expect_err("the twelfth event is refused");
        assert_eq!(relayed(&mut workspace, &number, 100, None).expect("untimed"), expected(100));
        workspace.enable_timing().expect("events");
        assert_eq!(relayed(&mut workspace, &number, 200, None).expect("timed"), expected(200));
    });
}

/// A prover that was once asked for a timed proof timed all proofs after it, two events an operation.
#[test]
fn timing_is_given_up_again() {
    with_driver("timing_is_given_up_again", &[], &[], || {
        let device = Device::cuda(0).expect("the stand-in opens");
        let number = DeviceBuf::<u64>::new(&device, "number", 1).expect("memory");
        let checked = Arc::new(CheckedSchedule::new(relay(false)).expect("no hazards"));
        let mut workspace = Workspace::new(&device, checked).expect("memory");
        // Whatever the stand-in is asked took so long.
        let by_events = |trace: Trace| trace.spans.iter().any(|span| span.start_us == 1500.0);
        for is_timed in [false, true, false, true] {
            match is_timed {
                true => workspace.enable_timing().expect("events"),
                false => workspace.disable_timing(),
            }
            let (found, trace) = traced(&mut workspace, &number, 100, None).expect("it runs");
            assert_eq!(found, (100..100 + u64::from(BATCHES)).collect::<Vec<_>>());
            assert_eq!(by_events(trace), is_timed);
        }
    });
}

#[test]
fn a_capture_that_breaks_a_rule_is_an_error_and_ends() {
    with_driver("a_capture_that_breaks_a_rule_is_an_error_and_ends", &[], &[], || {
        let backend = CudaBackend::new(0).expect("the stand-in opens");
        let graphs = backend.graphs().expect("CUDA has graphs");
        let [first, second] = [(); 2].map(|()| backend.create_stream("s").expect("a stream"));
        let [fork, outside] = [(); 2].map(|()| backend.create_event("e").expect("an event"));
        let buffer = backend.alloc_device("buffer", 8).expect("memory");
        // SAFETY: the buffer holds 8 bytes, and lives until all is done.
        let fill = |stream| unsafe { backend.fill("fill", stream, buffer, 8, 1) };
        let join = |stream| {
            backend.record(first, fork)?;
            backend.wait(stream, fork)
        };

        graphs.begin_capture("test", first).expect("begun");
        join(second).expect("joined");
        fill(second).expect("kept");
        let error = graphs.end_capture("test", first).expect_err("the second stream is not waited for");
        assert!(error.to_string().starts_with("capture of the test: "), "{error}");

        backend.record(second, outside).expect("recorded");
        graphs.begin_capture("test", first).expect("the last capture has ended");
        backend.wait(first, outside).expect_err("it is no mark of the capture");
        fill(first).expect_err("the capture is spoilt");
        graphs.end_capture("test", first).expect_err("the capture is spoilt");

        graphs.begin_capture("test", first).expect("the last capture has ended");
        backend.sync_stream("drain", first).expect_err("it is being captured");
        graphs.end_capture("test", first).expect_err("the capture is spoilt");

        graphs.begin_capture("test", first).expect("the last capture has ended");
        join(second).expect("joined");
        fill(second).expect("kept");
        backend.record(second, fork).expect("recorded");
        backend.wait(first, fork).expect("the capture waits for its second stream");
        let graph = graphs.end_capture("test", first).expect("no rule is broken");
        backend.sync_event("place", fork).expect_err("a place in a capture is no time");
        // SAFETY: all are ours, released once; the buffer lives until the launch is done, which is at once.
        unsafe {
            graphs.launch_graph("test", second, graph).expect("launched");
            graphs.destroy_graph(graph);
            backend.free_device(buffer, 8);
            [fork, outside].into_iter().for_each(|event| backend.destroy_event(event));
            [first, second].into_iter().for_each(|stream| backend.destroy_stream(stream));
        }
    });
}
