//! Each promise of the simulated device, shown by a kernel or a schedule that breaks the rule behind it.

use gpu_core::backend::{Backend, DevicePtr, HostSpan, Kernel, LaunchArg, RawStream};
use gpu_core::schedule::{Action, Arg, Launch, Work};
use gpu_core::sim::{
    Order, POISON, SimBackend, SimHandle, SimOptions, ThreadOrder, coverage, reset_coverage,
};
use gpu_core::{
    Bindings, CheckedSchedule, Device, DeviceBuf, DownloadBuf, GpuError, Schedule, Space, UploadBuf,
    Workspace, modules,
};
use std::sync::{Arc, Mutex};

const POISON_WORD: u32 = u32::from_ne_bytes([POISON; 4]);

/// A device with the probe kernels, used through its backend as the runner uses it.
struct Sim {
    device: Device,
    handle: SimHandle,
}

/// Device words that are freed with the value.
struct Words {
    ptr: DevicePtr,
    len: usize,
    device: Device,
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: allocated by `Sim::words`, freed once; tests wait for their streams before.
        unsafe { self.device.backend().free_device(self.ptr, self.len as u64 * 4) }
    }
}

impl Words {
    fn read(&self) -> LaunchArg {
        LaunchArg::Buffer { ptr: self.ptr, bytes: self.len as u64 * 4, write: false }
    }

    fn write(&self) -> LaunchArg {
        LaunchArg::Buffer { ptr: self.ptr, bytes: self.len as u64 * 4, write: true }
    }

    /// Words `from .. to`.
    fn part(&self, from: usize, to: usize, write: bool) -> LaunchArg {
        let (ptr, bytes) = (DevicePtr(self.ptr.0 + 4 * from as u64), 4 * (to - from) as u64);
        LaunchArg::Buffer { ptr, bytes, write }
    }
}

impl Sim {
    fn new(options: SimOptions) -> Self {
        let backend = SimBackend::new(options);
        let handle = backend.handle();
        let device = Device::from_backend(Box::new(backend));
        device.load(&[&modules::SIM_PROBE]).unwrap();
        Self { device, handle }
    }

    fn backend(&self) -> &dyn Backend {
        self.device.backend()
    }

    fn kernel(&self, name: &str) -> Kernel {
        self.device.kernel(name).unwrap()
    }

    fn words(&self, name: &str, words: &[u32]) -> Words {
        let ptr = self.backend().alloc_device(name, words.len() as u64 * 4).unwrap();
        let stream = self.backend().create_stream("fill").unwrap();
        let span = HostSpan {
            ptr: words.as_ptr().cast_mut().cast(),
            bytes: words.len() * 4,
            space: Space::Pageable,
        };
        // SAFETY: the lengths are equal, and the copy has executed before the stream is destroyed.
        unsafe {
            self.backend().upload("fill", stream, ptr, span).unwrap();
            self.backend().sync_stream("fill", stream).unwrap();
            self.backend().destroy_stream(stream);
        }
        Words { ptr, len: words.len(), device: self.device.clone() }
    }

    fn read(&self, words: &Words) -> Vec<u32> {
        let mut host = vec![0u32; words.len];
        let stream = self.backend().create_stream("read").unwrap();
        let span = HostSpan { ptr: host.as_mut_ptr().cast(), bytes: host.len() * 4, space: Space::Pageable };
        // SAFETY: the lengths are equal; a download into pageable memory has executed when the call returns.
        unsafe {
            self.backend().download("read", stream, span, words.ptr).unwrap();
            self.backend().destroy_stream(stream);
        }
        host
    }

    /// Queues a launch. Grids are one-dimensional here.
    fn queue(
        &self,
        stream: RawStream,
        kernel: &str,
        grid: u32,
        block: u32,
        args: &[LaunchArg],
    ) -> Result<(), GpuError> {
        // SAFETY: arguments match the probe's signature; buffers live until the stream is waited for. What
        // the probe does beyond its declaration is what the simulated device must catch.
        unsafe { self.backend().launch(kernel, stream, &self.kernel(kernel), [grid, 1], block, args) }
    }

    /// Launches and waits.
    fn run(&self, kernel: &str, grid: u32, block: u32, args: &[LaunchArg]) -> Result<(), GpuError> {
        let stream = self.backend().create_stream("run").unwrap();
        let launched = self.queue(stream, kernel, grid, block, args);
        let waited = self.backend().sync_stream("run", stream);
        // SAFETY: nothing is queued any more.
        unsafe { self.backend().destroy_stream(stream) };
        launched.and(waited)
    }

    /// What a launch that breaks a rule is told, after which the device must work.
    fn refused(&self, kernel: &str, block: u32, args: &[LaunchArg]) -> String {
        let error = self.run(kernel, 1, block, args).expect_err("the probe breaks a rule");
        assert!(matches!(error, GpuError::Access { .. }), "{error:?}");
        self.assert_usable();
        error.to_string()
    }

    fn assert_usable(&self) {
        let (input, output) = (self.words("ones", &[1; 100]), self.words("sums", &[0; 100]));
        let args = [output.write(), input.read(), LaunchArg::U32(100), LaunchArg::U32(2)];
        self.run("sim_probe_add", 2, 64, &args).unwrap();
        assert_eq!(self.read(&output), [3; 100]);
    }
}

/// The three orders, each with its order of threads.
fn all_options() -> Vec<SimOptions> {
    let mut options = vec![SimOptions::default(), SimOptions::latest()];
    options.extend((0..5).map(SimOptions::seeded));
    options
}

fn seed() -> u64 {
    let seed = std::env::var("TEST_SEED").ok().map(|text| text.parse().expect("TEST_SEED is a number"));
    let seed = seed.unwrap_or_else(|| {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64
    });
    println!("TEST_SEED={seed}");
    seed
}

// --- kernels that break their declaration ------------------------------------------------------------------

#[test]
fn reads_out_of_bounds_are_named_on_both_sides() {
    let sim = Sim::new(SimOptions::default());
    let output = sim.words("output", &[0]);
    // Sizes with and without slack in front of the first page's data, and behind the last word.
    for len in [1, 4, 100, 1024, 1025, 5000] {
        let input = sim.words("input", &vec![7; len]);
        let read = |index: i64| {
            [output.write(), input.read(), LaunchArg::U32(index as i32 as u32), LaunchArg::U64(0)]
        };
        sim.run("sim_probe_read", 1, 1, &read(len as i64 - 1)).unwrap();
        assert_eq!(sim.read(&output), [7]);
        // The end of an allocation is within 15 bytes of an inaccessible page, its beginning within a page.
        let text = sim.refused("sim_probe_read", 1, &read(len as i64 + 4));
        let at = 4 * (len + 4);
        assert!(
            text.contains(&format!("reads buffer input at byte {at}, out of its {} bytes", 4 * len)),
            "{text}"
        );
        let text = sim.refused("sim_probe_read", 1, &read(-1025));
        assert!(
            text.contains(&format!("reads buffer input at byte -4100, out of its {} bytes", 4 * len)),
            "{text}"
        );
    }
}

#[test]
fn writes_out_of_bounds_are_named_at_every_distance() {
    let sim = Sim::new(SimOptions::default());
    for len in [1, 3, 4, 100, 1024, 1025] {
        let (input, output) = (sim.words("input", &[0]), sim.words("output", &vec![7; len]));
        for index in [-1, -2, -1024, len as i64, len as i64 + 1, len as i64 + 1024] {
            let args = [
                output.write(),
                input.read(),
                LaunchArg::U32(index as i32 as u32),
                LaunchArg::U32(0),
                LaunchArg::U32(9),
            ];
            let text = sim.refused("sim_probe_write", 32, &args);
            let expected =
                format!("kernel sim_probe_write writes buffer output at byte {}, out of its", 4 * index);
            assert!(text.contains(&expected), "{text}");
            assert_eq!(sim.read(&output), vec![7; len]);
        }
    }
}

#[test]
fn a_write_to_what_is_declared_as_read_is_named_with_its_thread() {
    let sim = Sim::new(SimOptions::default());
    let (input, output) = (sim.words("bases", &[1; 64]), sim.words("output", &[0; 64]));
    let args = [output.write(), input.read(), LaunchArg::U32(5), LaunchArg::U32(1), LaunchArg::U32(9)];
    let text = sim.refused("sim_probe_write", 32, &args);
    assert_eq!(
        text,
        "sim_probe_write: kernel sim_probe_write writes buffer bases at byte 20, declared as read \
         (block (0, 0), thread 31)"
    );
    assert_eq!(sim.read(&input), [1; 64]);
}

#[test]
fn undeclared_bytes_of_a_declared_buffer_are_protected() {
    let sim = Sim::new(SimOptions::default());
    let (input, output) = (sim.words("input", &[1]), sim.words("ring", &[7; 4096]));
    let write = |args: LaunchArg, index: i32| {
        [args, input.read(), LaunchArg::U32(index as u32), LaunchArg::U32(0), LaunchArg::U32(9)]
    };
    // Next to the declared part on the same page, where only a comparison can tell; and on another page.
    for (index, byte) in [(-1, 1000 * 4 - 4), (100, 1100 * 4), (2500, 3500 * 4)] {
        let text = sim.refused("sim_probe_write", 32, &write(output.part(1000, 1100, true), index));
        assert!(text.contains(&format!("writes buffer ring at byte {byte}, not declared")), "{text}");
    }
    // A part that another argument declares as read, on the same page as the written one.
    let args = [
        output.part(0, 8, true),
        output.part(8, 16, false),
        LaunchArg::U32(1),
        LaunchArg::U32(1),
        LaunchArg::U32(9),
    ];
    let text = sim.refused("sim_probe_write", 32, &args);
    assert!(text.contains("writes buffer ring at byte 36, declared as read"), "{text}");
    assert_eq!(sim.read(&output), [7; 4096]);
    let args = [
        output.part(0, 8, true),
        output.part(8, 16, false),
        LaunchArg::U32(1),
        LaunchArg::U32(0),
        LaunchArg::U32(9),
    ];
    sim.run("sim_probe_write", 1, 32, &args).unwrap();
    assert_eq!(sim.read(&output)[..3], [7, 9, 7]);
}

#[test]
fn a_buffer_that_is_not_declared_is_closed() {
    let sim = Sim::new(SimOptions::default());
    let (input, output, secret) =
        (sim.words("input", &[1]), sim.words("output", &[0]), sim.words("other", &[42; 64]));
    let args = [output.write(), input.read(), LaunchArg::U32(2), LaunchArg::U64(secret.ptr.0)];
    let text = sim.refused("sim_probe_read", 1, &args);
    assert!(text.contains("reads buffer other at byte 8, not declared"), "{text}");
    // The same right after the other buffer was in use.
    sim.read(&secret);
    assert!(sim.run("sim_probe_read", 1, 1, &args).is_err());
}

#[test]
fn memory_is_closed_after_free_and_poisoned_after_allocation() {
    let sim = Sim::new(SimOptions::default());
    let (input, output) = (sim.words("input", &[1]), sim.words("output", &[0]));
    let freed = sim.words("old rows", &[42; 64]);
    let ptr = freed.ptr;
    drop(freed);
    let args = [output.write(), input.read(), LaunchArg::U32(1), LaunchArg::U64(ptr.0)];
    let text = sim.refused("sim_probe_read", 1, &args);
    assert!(text.contains("reads buffer old rows at byte 4, which is freed"), "{text}");
    let args = [
        LaunchArg::Buffer { ptr, bytes: 4, write: true },
        input.read(),
        LaunchArg::U32(0),
        LaunchArg::U32(0),
        LaunchArg::U32(1),
    ];
    let text = sim.refused("sim_probe_write", 32, &args);
    assert!(text.contains("declares buffer old rows at bytes 0 to 4, which is freed"), "{text}");
    let fresh = DeviceBuf::<u32>::new(&sim.device, "fresh", 1000).unwrap();
    assert_eq!(fresh.to_vec().unwrap(), [POISON_WORD; 1000]);
}

#[test]
fn wild_addresses_and_arithmetic_faults_are_errors() {
    let sim = Sim::new(SimOptions::default());
    let (input, output) = (sim.words("input", &[1]), sim.words("output", &[0]));
    for address in [4, 1 << 46, 0xdead_beef_dead_beec] {
        let args = [output.write(), input.read(), LaunchArg::U32(0), LaunchArg::U64(address)];
        let text = sim.refused("sim_probe_read", 1, &args);
        assert!(text.contains("which is no device memory"), "{text}");
    }
    let rows = sim.words("rows", &[0; 64]);
    if cfg!(target_arch = "x86_64") {
        let text = sim.refused("sim_probe_trap", 64, &[rows.write(), LaunchArg::U32(0)]);
        assert!(text.contains("kernel sim_probe_trap divides by zero (block (0, 0), thread 63)"), "{text}");
    }
    let text = sim.refused("sim_probe_trap", 64, &[rows.write(), LaunchArg::U32(1)]);
    assert!(text.contains("kernel sim_probe_trap traps (block (0, 0), thread 63)"), "{text}");
}

#[test]
fn a_full_stack_is_an_error() {
    let sim = Sim::new(SimOptions::default());
    let output = sim.words("output", &[0]);
    sim.run("sim_probe_recurse", 1, 32, &[output.write(), LaunchArg::U32(20)]).unwrap();
    assert_eq!(sim.read(&output), [210]);
    let text = sim.refused("sim_probe_recurse", 32, &[output.write(), LaunchArg::U32(1 << 20)]);
    assert!(
        text.contains("kernel sim_probe_recurse overflows a thread's stack (block (0, 0), thread 0)"),
        "{text}"
    );
}

// --- threads of a block ------------------------------------------------------------------------------------

#[test]
fn a_missing_barrier_shows_in_some_order_of_threads() {
    let rotated = |thread_order, has_barrier| {
        let sim = Sim::new(SimOptions { thread_order, ..SimOptions::default() });
        let input: Vec<u32> = (0..512).collect();
        let (input, output) = (sim.words("input", &input), sim.words("output", &[0; 512]));
        let args = [output.write(), input.read(), LaunchArg::U32(has_barrier)];
        sim.run("sim_probe_rotate", 2, 256, &args).unwrap();
        sim.read(&output)
    };
    let expected: Vec<u32> = (0..512).map(|i| i / 256 * 256 + (i + 1) % 256).collect();
    for order in [ThreadOrder::Forward, ThreadOrder::Backward, ThreadOrder::Seeded(seed())] {
        assert_eq!(rotated(order, 1), expected, "{order:?}");
        let wrong = rotated(order, 0);
        assert_ne!(wrong, expected, "{order:?}");
        assert!(wrong.contains(&POISON_WORD), "shared memory is poisoned before each block");
        assert_eq!(rotated(order, 0), wrong, "{order:?} repeats");
    }
    assert_ne!(rotated(ThreadOrder::Forward, 0), rotated(ThreadOrder::Backward, 0));
    assert_ne!(rotated(ThreadOrder::Seeded(1), 0), rotated(ThreadOrder::Seeded(2), 0));
}

#[test]
fn shared_memory_is_poisoned_before_every_block() {
    let sim = Sim::new(SimOptions::default());
    let output = sim.words("output", &[0; 1000]);
    sim.run("sim_probe_shared", 1000, 1, &[output.write()]).unwrap();
    assert_eq!(sim.read(&output), [POISON_WORD; 1000]);
}

#[test]
fn divergence_is_an_error_and_not_a_hang() {
    for options in all_options() {
        let sim = Sim::new(options);
        let output = sim.words("output", &[9; 64]);
        let diverge = |kind| [output.write(), LaunchArg::U32(kind)];
        let text = sim.refused("sim_probe_diverge", 64, &diverge(0));
        assert!(
            text.contains("kernel sim_probe_diverge has diverged: 32 threads wait at the barrier at line"),
            "{text}"
        );
        assert!(text.contains("others at line"), "{text}");
        let text = sim.refused("sim_probe_diverge", 48, &diverge(2));
        assert!(text.contains("others at a warp operation"), "{text}");
        // Threads that have left are not waited for, as on a GPU.
        sim.run("sim_probe_diverge", 1, 64, &diverge(1)).unwrap();
        let expected: Vec<u32> = (0..64).map(|t| if t < 32 { t } else { 9 }).collect();
        assert_eq!(sim.read(&output), expected);
        let text = sim.refused("sim_probe_plain_barrier", 64, &[output.write()]);
        assert!(text.contains("meets other threads at line"), "{text}");
        assert!(text.contains("but is marked EXPORT_KERNEL"), "{text}");
    }
}

#[test]
fn warp_operations_do_what_cuda_says() {
    for options in all_options() {
        let sim = Sim::new(options);
        for n in [32usize, 64, 256, 1024] {
            let values: Vec<u32> = (0..n as u32).map(|i| i.wrapping_mul(2_654_435_761) >> 28).collect();
            let (input, output) = (sim.words("input", &values), sim.words("output", &vec![0; 14 * n]));
            sim.run("sim_probe_warp", 1, n as u32, &[output.write(), input.read()]).unwrap();
            let rows = sim.read(&output);
            for t in 0..n {
                let (lane, first) = (t % 32, t / 32 * 32);
                let warp = &values[first..first + 32];
                let ballot = |test: &dyn Fn(u32) -> bool| {
                    (0..32).fold(0, |bits, i| bits | u32::from(test(warp[i])) << i)
                };
                let expected = [
                    values.iter().sum(),
                    warp[3],
                    warp[lane.max(1) - 1],
                    if lane + 2 < 32 { warp[lane + 2] } else { warp[lane] },
                    warp[lane ^ 1],
                    ballot(&|value| value % 2 == 1),
                    ballot(&|value| value == warp[lane]),
                    if warp.contains(&1) { 1 } else { u32::from(warp.iter().all(|value| *value > 1)) * 2 },
                ];
                let half = &warp[lane / 16 * 16..][..16];
                let of_half = [
                    half.iter().sum(),
                    *half.iter().min().unwrap(),
                    *half.iter().max().unwrap(),
                    half.iter().fold(u32::MAX, |all, value| all & value),
                    half.iter().fold(0, |all, value| all | value),
                    half.iter().fold(0, |all, value| all ^ value),
                ];
                let found: Vec<u32> = (0..14).map(|row| rows[row * n + t]).collect();
                assert_eq!(found[..8], expected, "thread {t} of {n}");
                assert_eq!(found[8..], of_half, "thread {t} of {n}");
            }
        }
    }
}

#[test]
fn b133_a_launch_that_cannot_be_is_refused_by_its_kernel_s_name() {
    for options in all_options() {
        let sim = Sim::new(options);
        let output = sim.words("counts", &[0; 2]);
        let stream = sim.device.stream("count").unwrap();
        let kernel = sim.kernel("sim_probe_count");
        for (grid, block) in [([0, 1], 256), ([1, 0], 256), ([1, 1], 0), ([1, 1], kernel.block_max + 1)] {
            // SAFETY: the argument matches the probe's signature and outlives the wait.
            let launched = unsafe {
                sim.backend().launch("count", stream.raw(), &kernel, grid, block, &[output.write()])
            };
            match launched {
                Err(GpuError::Launch { kernel, .. }) => assert_eq!(kernel, "sim_probe_count"),
                other => panic!("grid {grid:?}, block {block}: {other:?}"),
            }
        }
        stream.synchronize("count").unwrap();
        assert_eq!(sim.read(&output), [0, 0], "nothing ran");
        sim.assert_usable();
    }
}

#[test]
fn large_grids_run_every_block_once() {
    for options in all_options() {
        let sim = Sim::new(options);
        for (x, y) in [(1, 1), (3, 2), (1, 5), (5000, 3)] {
            let output = sim.words("counts", &vec![0; 1 + (x * y) as usize]);
            let stream = sim.device.stream("count").unwrap();
            let kernel = sim.kernel("sim_probe_count");
            // SAFETY: the argument matches the probe's signature and outlives the wait.
            unsafe {
                let args = [output.write()];
                sim.backend().launch("count", stream.raw(), &kernel, [x, y], 256, &args).unwrap();
            }
            stream.synchronize("count").unwrap();
            let counts = sim.read(&output);
            assert_eq!(counts[0], 256 * x * y);
            assert!(counts[1..].iter().all(|count| *count == 256));
        }
    }
}

#[test]
fn a_fault_on_another_processor_is_the_launch_s_error() {
    let sim = Sim::new(SimOptions::default());
    // The last blocks of many count into words that are not there.
    let output = sim.words("counts", &vec![0; 4000]);
    let error = sim.run("sim_probe_count", 8000, 256, &[output.write()]).unwrap_err().to_string();
    assert!(error.contains("buffer counts at byte 16000, out of its 16000 bytes"), "{error}");
    sim.assert_usable();
}

// --- order of streams --------------------------------------------------------------------------------------

#[test]
fn an_upload_reads_its_source_when_it_executes() {
    let uploaded = |options, space| {
        let sim = Sim::new(options);
        let stream = sim.device.stream("upload").unwrap();
        let target = sim.words("target", &[0; 4]);
        let mut pageable = vec![1u32; 4];
        let pinned = match space {
            Space::Pageable => pageable.as_mut_ptr().cast(),
            space => sim.backend().alloc_pinned("source", 16, space).unwrap(),
        };
        // SAFETY: 16 live bytes on both sides; the early overwrite of a source in use is the mistake under
        // test, made by the thread that executes the copy.
        unsafe {
            pinned.write_bytes(1, 16);
            let src = HostSpan { ptr: pinned, bytes: 16, space };
            sim.backend().upload("upload", stream.raw(), target.ptr, src).unwrap();
            pinned.write_bytes(2, 16);
            stream.synchronize("upload").unwrap();
            if space != Space::Pageable {
                sim.backend().free_pinned(pinned, 16);
            }
        }
        sim.read(&target)[0].to_ne_bytes()[0]
    };
    assert_eq!(uploaded(SimOptions::latest(), Space::PinnedUpload), 2);
    assert_eq!(uploaded(SimOptions::default(), Space::PinnedUpload), 1);
    assert_eq!(uploaded(SimOptions::latest(), Space::Pageable), 1);
    assert_eq!(uploaded(SimOptions::default(), Space::Pageable), 1);
    let seeded: Vec<u8> =
        (0..20).map(|seed| uploaded(SimOptions::seeded(seed), Space::PinnedUpload)).collect();
    assert!(seeded.contains(&1) && seeded.contains(&2), "{seeded:?}");
}

#[test]
fn a_download_read_too_early_is_poison_and_a_pageable_one_blocks() {
    for (options, early) in [(SimOptions::default(), 7), (SimOptions::latest(), POISON_WORD)] {
        let sim = Sim::new(options);
        let stream = sim.device.stream("download").unwrap();
        let source = sim.words("source", &[7; 4]);
        let pinned = sim.backend().alloc_pinned("target", 16, Space::PinnedDownload).unwrap();
        let dst = HostSpan { ptr: pinned, bytes: 16, space: Space::PinnedDownload };
        // SAFETY: 16 live bytes on both sides; the early read is the mistake under test, by the thread that
        // executes copies.
        unsafe {
            sim.backend().download("download", stream.raw(), dst, source.ptr).unwrap();
            assert_eq!(pinned.cast::<u32>().read_volatile(), early);
            stream.synchronize("download").unwrap();
            assert_eq!(pinned.cast::<u32>().read_volatile(), 7);
            sim.backend().free_pinned(pinned, 16);
        }
        // Queued behind a launch, into pageable memory: there when the call returns, and the launch with it.
        let sums = sim.words("sums", &[0; 4]);
        let args = [sums.write(), source.read(), LaunchArg::U32(4), LaunchArg::U32(1)];
        sim.queue(stream.raw(), "sim_probe_add", 1, 4, &args).unwrap();
        let mut host = [0u32; 4];
        let dst = HostSpan { ptr: host.as_mut_ptr().cast(), bytes: 16, space: Space::Pageable };
        // SAFETY: 16 bytes on both sides, and the copy has executed when the call returns.
        unsafe { sim.backend().download("download", stream.raw(), dst, sums.ptr).unwrap() };
        assert_eq!(host, [8; 4]);
    }
}

#[test]
fn waits_bind_to_the_last_record_at_the_time_of_the_call() {
    for options in all_options() {
        let sim = Sim::new(options);
        let b = sim.backend();
        let (first, second) = (sim.device.stream("first").unwrap(), sim.device.stream("second").unwrap());
        let (never, event) = (sim.device.event("never").unwrap(), sim.device.event("event").unwrap());
        let one = sim.words("one", &[1]);
        let (x, y) = (sim.words("x", &[0]), sim.words("y", &[0]));
        let add = |stream: &gpu_core::device::Stream, out: &Words, from: &Words, by| {
            let args = [out.write(), from.read(), LaunchArg::U32(1), LaunchArg::U32(by)];
            sim.queue(stream.raw(), "sim_probe_add", 1, 1, &args).unwrap();
        };
        // A wait on an event that was never recorded orders nothing, and does not block.
        b.wait(second.raw(), never.raw()).unwrap();
        b.sync_event("never", never.raw()).unwrap();
        add(&first, &x, &one, 10); // x = 11
        event.record(&first).unwrap();
        b.wait(second.raw(), event.raw()).unwrap();
        add(&second, &y, &x, 100); // y = 111, after x = 11
        // Recorded again behind that work: the second stream's wait must not wait for this one, or both
        // would.
        let other = sim.device.event("other").unwrap();
        other.record(&second).unwrap();
        b.wait(first.raw(), other.raw()).unwrap();
        event.record(&first).unwrap();
        b.sync_event("event", event.raw()).unwrap();
        assert_eq!((sim.read(&x), sim.read(&y)), (vec![11], vec![111]));
    }
}

#[test]
fn a_host_wait_runs_what_it_needs_and_no_more_when_latest() {
    let sim = Sim::new(SimOptions::latest());
    let (first, second) = (sim.device.stream("first").unwrap(), sim.device.stream("second").unwrap());
    let event = sim.device.event("event").unwrap();
    let words: Vec<_> = (0..3).map(|i| sim.words(&format!("w{i}"), &[0])).collect();
    let one = sim.words("one", &[1]);
    let add = |stream: &gpu_core::device::Stream, out: &Words| {
        let args = [out.write(), one.read(), LaunchArg::U32(1), LaunchArg::U32(0)];
        sim.queue(stream.raw(), "sim_probe_add", 1, 1, &args).unwrap();
    };
    add(&first, &words[0]);
    event.record(&first).unwrap();
    add(&first, &words[1]);
    add(&second, &words[2]);
    event.synchronize("event").unwrap();
    let now = |i: usize| sim.read(&words[i])[0];
    assert_eq!([now(0), now(1), now(2)], [1, 0, 0]);
    first.synchronize("first").unwrap();
    assert_eq!([now(0), now(1), now(2)], [1, 1, 0]);
    second.synchronize("second").unwrap();
    assert_eq!(now(2), 1);
}

#[test]
fn a_seed_repeats_its_run_and_seeds_differ() {
    // Ten unordered additions of two streams to one word: the value tells the order.
    let racing = |seed| {
        let sim = Sim::new(SimOptions::seeded(seed));
        let streams = [sim.device.stream("a").unwrap(), sim.device.stream("b").unwrap()];
        let word = sim.words("word", &[0]);
        let source = sim.words("source", &[0]);
        let mut seen = Vec::new();
        for i in 0..10 {
            let (out, from) = if i % 2 == 0 { (&word, &source) } else { (&source, &word) };
            let args = [out.write(), from.read(), LaunchArg::U32(1), LaunchArg::U32(1 << i)];
            sim.queue(streams[i % 2].raw(), "sim_probe_add", 1, 1, &args).unwrap();
        }
        for stream in &streams {
            stream.synchronize("end").unwrap();
            seen.push(sim.read(&word)[0]);
        }
        seen
    };
    let runs: Vec<_> = (0..20).map(racing).collect();
    assert_eq!(runs, (0..20).map(racing).collect::<Vec<_>>());
    assert!(runs.iter().any(|run| *run != runs[0]));
}

#[test]
fn a_failed_operation_drops_what_is_behind_it_and_who_waits_for_it() {
    for options in all_options() {
        let is_eager = options.order == Order::Earliest;
        let sim = Sim::new(options);
        let (first, second) = (sim.device.stream("first").unwrap(), sim.device.stream("second").unwrap());
        let event = sim.device.event("event").unwrap();
        let (input, x, y) = (sim.words("input", &[1]), sim.words("x", &[0]), sim.words("y", &[0]));
        let bad = [input.write(), input.read(), LaunchArg::U32(5000), LaunchArg::U32(0), LaunchArg::U32(1)];
        let queued = sim.queue(first.raw(), "sim_probe_write", 1, 32, &bad);
        assert!(!is_eager || queued.is_err(), "an operation that runs at the call fails there");
        let add = |stream: &gpu_core::device::Stream, out: &Words| {
            let args = [out.write(), input.read(), LaunchArg::U32(1), LaunchArg::U32(0)];
            let _ = sim.queue(stream.raw(), "sim_probe_add", 1, 1, &args);
        };
        add(&first, &x);
        let _ = event.record(&first);
        let _ = sim.backend().wait(second.raw(), event.raw());
        add(&second, &y);
        for result in [event.synchronize("event"), second.synchronize("second"), first.synchronize("first")] {
            let text = result.expect_err("everything waits for the bad write").to_string();
            assert!(text.contains("writes buffer input at byte 20000, out of its 4 bytes"), "{text}");
        }
        assert_eq!((sim.read(&x), sim.read(&y)), (vec![0], vec![0]));
        // Reported once; then the same streams and event work.
        for out in [&x, &y] {
            add(&first, out);
            event.record(&first).unwrap();
            event.synchronize("event").unwrap();
            first.synchronize("first").unwrap();
            assert_eq!(sim.read(out), [1]);
        }
        sim.assert_usable();
    }
}

// --- memory as a resource ----------------------------------------------------------------------------------

#[test]
fn out_of_memory_says_what_was_needed_and_what_is_free() {
    let sim = Sim::new(SimOptions { memory_bytes: 10_000, ..SimOptions::default() });
    let held = DeviceBuf::<u8>::new(&sim.device, "held", 6000).unwrap();
    let error = DeviceBuf::<u8>::new(&sim.device, "rows", 4001).unwrap_err();
    match &error {
        GpuError::OutOfMemory { op, needed_bytes: 4001, free_bytes: 4000 } => assert!(op.contains("rows")),
        other => panic!("{other:?}"),
    }
    let fits = DeviceBuf::<u8>::new(&sim.device, "rows", 4000).unwrap();
    assert_eq!(sim.device.free_bytes().unwrap(), 0);
    drop((held, fits));
    let stats = sim.handle.stats();
    assert_eq!((stats.device_bytes, stats.device_bytes_peak), (0, 10_000));
    assert_eq!(sim.device.free_bytes().unwrap(), 10_000);
}

#[test]
fn stats_count_what_lives() {
    let sim = Sim::new(SimOptions::default());
    let before = sim.handle.stats();
    let upload = UploadBuf::<u64>::new(&sim.device, "up", 100).unwrap();
    let download = DownloadBuf::<u64>::new(&sim.device, "down", 50).unwrap();
    let (stream, event) = (sim.device.stream("s").unwrap(), sim.device.event("e").unwrap());
    let stats = sim.handle.stats();
    assert_eq!(stats.pinned_bytes, before.pinned_bytes + 1200);
    assert_eq!((stats.live_streams, stats.live_events), (before.live_streams + 1, before.live_events + 1));
    drop((upload, download, stream, event));
    assert_eq!(sim.handle.stats(), before);
}

#[test]
fn nothing_is_allocated_for_zero_bytes() {
    for options in all_options() {
        let sim = Sim::new(options);
        let empty = DeviceBuf::<u32>::from_slice(&sim.device, "empty", &[]).unwrap();
        assert!(empty.to_vec().unwrap().is_empty());
        assert_eq!(sim.handle.stats().device_bytes, 0);
        let output = sim.words("output", &[5]);
        let nothing = LaunchArg::Buffer { ptr: DevicePtr(0), bytes: 0, write: false };
        let args = [output.write(), nothing, LaunchArg::U32(0), LaunchArg::U32(1)];
        sim.run("sim_probe_add", 1, 32, &args).unwrap();
        assert_eq!(sim.read(&output), [5]);
    }
}

#[test]
fn bytes_are_found_until_they_are_wiped() {
    let sim = Sim::new(SimOptions::default());
    let secret: Vec<u32> = (0..64).map(|i| 0x5ec2_e700 + i).collect();
    let pattern: Vec<u8> = secret[10..14].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let words = sim.words("scalars", &secret);
    assert_eq!(sim.handle.find_bytes(&pattern), ["device buffer scalars at byte 40"]);
    let mut upload = UploadBuf::<u32>::new(&sim.device, "staging", 64).unwrap();
    upload.as_mut_slice().copy_from_slice(&secret);
    let stream = sim.device.stream("s").unwrap();
    let same = DeviceBuf::<u32>::new(&sim.device, "copy", 64).unwrap();
    let upload = upload.send_to(&stream, &same).unwrap().wait().unwrap();
    assert_eq!(sim.handle.find_bytes(&pattern).len(), 3);
    drop((upload, same));
    // The page-locked copy is wiped by its type; freed device memory is not, unless its owner fills it.
    let found = sim.handle.find_bytes(&pattern);
    assert_eq!(found, ["device buffer scalars at byte 40", "freed buffer copy at byte 40"]);
    // SAFETY: the buffer is alive until the wait below.
    unsafe { sim.backend().fill("wipe", stream.raw(), words.ptr, 256, 0).unwrap() };
    stream.synchronize("wipe").unwrap();
    drop(words);
    assert_eq!(sim.handle.find_bytes(&pattern), ["freed buffer copy at byte 40"]);
}

#[test]
fn copies_beyond_their_memory_are_refused() {
    let sim = Sim::new(SimOptions::default());
    let words = sim.words("words", &[1; 4]);
    let pinned = sim.backend().alloc_pinned("slot", 16, Space::PinnedUpload).unwrap();
    let stream = sim.device.stream("s").unwrap();
    let span = HostSpan { ptr: pinned, bytes: 20, space: Space::PinnedUpload };
    // SAFETY: the spans that are too long are refused before any byte is touched: that is the point.
    unsafe {
        let error = sim.backend().upload("up", stream.raw(), words.ptr, span).unwrap_err().to_string();
        assert!(error.contains("not in page-locked memory"), "{error}");
        let inside = HostSpan { bytes: 16, ..span };
        let beyond = DevicePtr(words.ptr.0 + 4);
        let error = sim.backend().upload("up", stream.raw(), beyond, inside).unwrap_err().to_string();
        assert!(error.contains("declares buffer words at bytes 4 to 20, out of its 16 bytes"), "{error}");
        assert!(stream.synchronize("s").is_err());
        sim.backend().free_pinned(pinned, 16);
    }
    sim.assert_usable();
}

#[test]
fn device_memory_is_closed_to_the_host_whose_faults_stay_its_own() {
    use std::os::unix::process::ExitStatusExt;
    if std::env::var_os("SIM_TEST_READS_DEVICE_MEMORY").is_some() {
        let sim = Sim::new(SimOptions::default());
        let (closed, _open) = (sim.words("closed", &[1]), sim.words("open", &[1]));
        // SAFETY: not safe, and meant so: the memory is mapped and inaccessible, which ends this process.
        let word = unsafe { std::ptr::with_exposed_provenance::<u32>(closed.ptr.0 as usize).read_volatile() };
        unreachable!("the host has read {word} from device memory");
    }
    let name = "device_memory_is_closed_to_the_host_whose_faults_stay_its_own";
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args([name, "--exact"]).env("SIM_TEST_READS_DEVICE_MEMORY", "1");
    let output = child.output().unwrap();
    // A sanitizer's own handler, if it is there, reports and exits.
    let is_reported = String::from_utf8_lossy(&output.stderr).contains("AddressSanitizer: SEGV");
    assert!(output.status.signal() == Some(libc::SIGSEGV) || is_reported, "{output:?}");
}

// --- use from many threads ---------------------------------------------------------------------------------

#[test]
fn one_device_serves_many_threads_and_devices_do_not_meet() {
    let shared = Sim::new(SimOptions::seeded(seed()));
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let shared = &shared;
            scope.spawn(move || {
                let own = Sim::new(SimOptions::latest());
                for round in 0..50 {
                    let sim = if round % 2 == 0 { shared } else { &own };
                    let values: Vec<u32> = (0..3000).map(|i| i * thread + round).collect();
                    let (input, output) = (sim.words("input", &values), sim.words("output", &vec![0; 3000]));
                    let args = [output.write(), input.read(), LaunchArg::U32(3000), LaunchArg::U32(thread)];
                    sim.run("sim_probe_add", 12, 256, &args).unwrap();
                    let expected: Vec<u32> = values.iter().map(|value| value + thread).collect();
                    assert_eq!(sim.read(&output), expected);
                    let text = sim.run("sim_probe_plain_barrier", 1, 8, &[output.write()]).unwrap_err();
                    assert!(text.to_string().contains("EXPORT_KERNEL"));
                }
            });
        }
    });
}

#[test]
fn tasks_of_a_thread_pool_can_launch() {
    use rayon::prelude::*;
    let sim = Sim::new(SimOptions::default());
    // Large enough to spread over the processors while all of the pool's threads are at it.
    let totals: Vec<u32> = (0..16)
        .into_par_iter()
        .map(|_| {
            let output = sim.words("counts", &[0; 4001]);
            sim.run("sim_probe_count", 4000, 256, &[output.write()]).unwrap();
            sim.read(&output)[0]
        })
        .collect();
    assert_eq!(totals, [4000 * 256; 16]);
}

#[test]
fn coverage_counts_marked_branches() {
    assert!(modules::COVERED.contains(&"sim_probe_all_ones"));
    let count =
        || coverage().into_iter().find(|(word, _)| word == "sim_probe_all_ones").map_or(0, |(_, n)| n);
    reset_coverage();
    let sim = Sim::new(SimOptions::default());
    let (input, output) = (sim.words("input", &[u32::MAX; 10]), sim.words("output", &[0; 10]));
    let args = [output.write(), input.read(), LaunchArg::U32(10), LaunchArg::U32(1)];
    sim.run("sim_probe_add", 1, 32, &args).unwrap();
    assert_eq!(count(), 10);
    reset_coverage();
    assert_eq!(count(), 0);
}

// --- through the runner ------------------------------------------------------------------------------------

#[test]
fn a_schedule_runs_the_same_in_every_order() {
    for options in all_options() {
        let sim = Sim::new(options);
        let mut schedule = Schedule::new("add and return");
        let source = schedule.buffer("source", Space::PinnedUpload, 4096);
        let (x, y) = (schedule.buffer("x", Space::Device, 4096), schedule.buffer("y", Space::Device, 4096));
        let result = schedule.buffer("result", Space::PinnedDownload, 4096);
        let (up, compute, down) =
            (schedule.stream("up"), schedule.stream("compute"), schedule.stream("down"));
        let events: Vec<_> = ["up", "computed", "down"].map(|name| schedule.event(name)).into();
        let whole = |schedule: &Schedule, id| schedule.whole(id);
        let (source, x, y, result) =
            (whole(&schedule, source), whole(&schedule, x), whole(&schedule, y), whole(&schedule, result));
        schedule.push("fill", None, Action::HostStep { reads: vec![], writes: vec![source], host_us: 1.0 });
        schedule.push("upload", None, Action::Upload { stream: up, src: source, dst: x });
        schedule.push("record", None, Action::Record { stream: up, event: events[0] });
        schedule.push("wait", None, Action::Wait { stream: compute, event: events[0] });
        let launch = Launch {
            kernel: "sim_probe_add".into(),
            grid: [4, 1],
            block: 256,
            args: vec![Arg::Write(y), Arg::Read(x), Arg::U32(1024), Arg::U32(5)],
            work: Work::default(),
        };
        schedule.push("add", None, Action::Launch { stream: compute, launch });
        schedule.push("record", None, Action::Record { stream: compute, event: events[1] });
        schedule.push("wait", None, Action::Wait { stream: down, event: events[1] });
        schedule.push("download", None, Action::Download { stream: down, src: y, dst: result });
        schedule.push("record", None, Action::Record { stream: down, event: events[2] });
        schedule.push("wait", None, Action::HostWait { event: events[2] });
        schedule.push(
            "collect",
            None,
            Action::HostStep { reads: vec![result], writes: vec![], host_us: 1.0 },
        );
        let checked = Arc::new(CheckedSchedule::new(schedule).unwrap());
        let mut workspace = Workspace::new(&sim.device, checked).unwrap();
        for round in 0..3 {
            let collected = Mutex::new(Vec::new());
            workspace
                .run(&Bindings::new(), &|op, mut views| {
                    match op.name.as_ref() {
                        "fill" => {
                            views.write::<u32>(0).iter_mut().zip(round..).for_each(|(word, i)| *word = i)
                        }
                        _ => *collected.lock().unwrap() = views.read::<u32>(0).to_vec(),
                    }
                    Ok(())
                })
                .unwrap();
            assert_eq!(collected.into_inner().unwrap(), (round + 5..round + 5 + 1024).collect::<Vec<u32>>());
        }
    }
}
