//! The CUDA backend on a real device. Without one these tests say "skipped", and fail under `REQUIRE_GPU=1`.

use gpu_core::backend::{Backend, DevicePtr, HostSpan, Kernel, LaunchArg, RawStream};
use gpu_core::cuda::CudaBackend;
use gpu_core::kernel::{KernelEntry, SimKernel};
use gpu_core::{Device, DeviceBuf, DeviceKind, DownloadBuf, GpuError, ModuleSource, Space, UploadBuf};
use std::ffi::{CStr, c_void};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Binds a backend, or ends the test. Tests take turns: some measure free memory, some time.
macro_rules! backend_or_skip {
    ($backend:ident) => {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let $backend = match CudaBackend::new(0) {
            Ok(backend) => backend,
            Err(error) => {
                assert!(std::env::var_os("REQUIRE_GPU").is_none(), "REQUIRE_GPU is set: {error}");
                eprintln!("skipped: {error}");
                return;
            }
        };
    };
}

static TURN: Mutex<()> = Mutex::new(());

unsafe extern "C" fn never_simulated(_args: *const *const c_void) {
    unreachable!("these kernels are for a CUDA device")
}

const fn export(signature: &'static CStr) -> SimKernel {
    let shared = std::ptr::null();
    let signature = signature.as_ptr();
    SimKernel { call: never_simulated, signature, collective: 0, shared_begin: shared, shared_end: shared }
}

static AFFINE: SimKernel = export(c"rw48");
static DELAY: SimKernel = export(c"w8");
static KERNELS: [KernelEntry; 2] =
    [KernelEntry { name: "affine", sim: &AFFINE }, KernelEntry { name: "delay", sim: &DELAY }];
static MODULE: ModuleSource = ModuleSource {
    name: "cuda_device_test",
    file: "cuda_device_test.cu",
    source: r#"
#include "widths.cuh"
// out[i] = in[i] * FACTOR + addend, for i < n. 64-bit argument last: a wrong width shows.
extern "C" __global__ void __launch_bounds__(256) affine(const u32* in, u32* out, u32 n, u64 addend) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * FACTOR + (u32)addend + (u32)(addend >> 32);
}
// Holds its stream for `ns` nanoseconds, give or take the clock's step of up to a millisecond, then counts.
extern "C" __global__ void __launch_bounds__(32) delay(u32* counter, u64 ns) {
    u64 start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); while (now - start < ns);
    if (threadIdx.x == 0) counter[0] += 1;
}
"#,
    headers: &[("widths.cuh", "typedef unsigned u32; typedef unsigned long long u64;\n")],
    defines: &["FACTOR=3"],
    kernels: &KERNELS,
};

const MS: u64 = 1_000_000;
const ADDEND: u64 = 0x7_0000_0005;

fn affine_of(value: u32) -> u32 {
    value.wrapping_mul(3).wrapping_add(12)
}

fn kernels(backend: &CudaBackend) -> [Kernel; 2] {
    let loaded = backend.load(&MODULE).expect("the module loads");
    loaded.try_into().expect("two kernels, in order")
}

/// Streams and memory of one test, released with it.
struct Bench<'a> {
    backend: &'a CudaBackend,
    streams: Vec<RawStream>,
    memory: Vec<(DevicePtr, u64)>,
}

impl<'a> Bench<'a> {
    fn new(backend: &'a CudaBackend) -> Self {
        Self { backend, streams: Vec::new(), memory: Vec::new() }
    }

    fn stream(&mut self) -> RawStream {
        self.streams.push(self.backend.create_stream("test").expect("a stream"));
        self.streams[self.streams.len() - 1]
    }

    /// Device memory, all bytes 0.
    fn zeroed(&mut self, bytes: u64) -> DevicePtr {
        let ptr = self.backend.alloc_device("test", bytes).expect("memory");
        self.memory.push((ptr, bytes));
        let stream = self.stream();
        // SAFETY: just allocated with these bytes, kept until the drop.
        unsafe { self.backend.fill("zero", stream, ptr, bytes, 0).expect("filled") };
        self.backend.sync_stream("zero", stream).expect("drained");
        ptr
    }

    fn delay(&self, kernel: &Kernel, stream: RawStream, counter: DevicePtr, ns: u64) {
        let args = [LaunchArg::Buffer { ptr: counter, bytes: 4, write: true }, LaunchArg::U64(ns)];
        // SAFETY: the counter is 4 bytes of this bench; it is kept until the drop, which drains.
        unsafe { self.backend.launch("delay", stream, kernel, [1, 1], 32, &args).expect("launched") }
    }
}

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        for stream in &self.streams {
            let _ = self.backend.sync_stream("end of a test", *stream);
        }
        // SAFETY: all are ours, released once, and every stream has drained.
        unsafe {
            self.streams.drain(..).for_each(|stream| self.backend.destroy_stream(stream));
            self.memory.drain(..).for_each(|(ptr, bytes)| self.backend.free_device(ptr, bytes));
        }
    }
}

fn span(words: &mut [u32], space: Space) -> HostSpan {
    HostSpan { ptr: words.as_mut_ptr().cast(), bytes: size_of_val(words), space }
}

#[test]
fn limits_are_queried() {
    backend_or_skip!(backend);
    let info = backend.info();
    assert_eq!((info.kind, info.id.as_str()), (DeviceKind::Cuda, "cuda:0"));
    assert!(!info.name.is_empty() && info.arch.starts_with("sm_"), "{info:?}");
    assert!(
        info.sm_count > 0 && info.sm_threads_max >= 1024 && info.block_shared_bytes_max >= 48 << 10,
        "{info:?}"
    );
    let free = backend.free_bytes().expect("free");
    assert!(free > 0 && free <= info.memory_bytes, "{free} of {}", info.memory_bytes);
    eprintln!("{} {} free {free}", info.name, info.arch);
}

#[test]
fn every_size_comes_back_as_it_went() {
    backend_or_skip!(backend);
    let device = Device::from_backend(Box::new(backend));
    let stream = device.stream("copies").expect("a stream");
    for len in [0usize, 1, 63, 64, 65, 1 << 14, (1 << 14) + 1, 3_000_001] {
        let words: Vec<u32> = (0..len as u32).map(|i| i.wrapping_mul(0x9e37_79b9) ^ 0x5555).collect();
        let pageable = DeviceBuf::from_slice(&device, "pageable", &words).expect("uploaded");
        assert_eq!(pageable.to_vec().expect("downloaded"), words, "pageable, {len} words");

        let buf = DeviceBuf::<u32>::new(&device, "pinned", len).expect("memory");
        let mut upload = UploadBuf::new(&device, "up", len).expect("page-locked memory");
        upload.as_mut_slice().copy_from_slice(&words);
        let upload = upload.send_to(&stream, &buf).expect("queued");
        let download = DownloadBuf::new(&device, "down", len).expect("page-locked memory");
        assert!(download.as_slice().iter().all(|word| *word == 0), "page-locked memory comes zeroed");
        let download = download.fill_from(&stream, &buf).expect("queued");
        assert_eq!(download.wait().expect("copied").as_slice(), words, "page-locked, {len} words");
        upload.wait().expect("copied");
    }
}

#[test]
fn kernel_sees_its_arguments() {
    backend_or_skip!(backend);
    let [affine, _] = kernels(&backend);
    assert_eq!(affine.block_max, 256, "its launch bounds");
    let mut bench = Bench::new(&backend);
    let (stream, n) = (bench.stream(), 1000u32);
    let (input, output) = (bench.zeroed(4000), bench.zeroed(4004));
    let mut words: Vec<u32> = (0..n).map(|i| i * i).collect();
    let mut result = vec![0u32; 1001];
    let args = [
        LaunchArg::Buffer { ptr: input, bytes: 4000, write: false },
        LaunchArg::Buffer { ptr: output, bytes: 4004, write: true },
        LaunchArg::U32(n),
        LaunchArg::U64(ADDEND),
    ];
    // SAFETY: the buffers hold the bytes that are declared and outlive the wait.
    unsafe {
        backend.upload("input", stream, input, span(&mut words, Space::Pageable)).expect("queued");
        backend.launch("affine", stream, &affine, [4, 1], 256, &args).expect("queued");
        backend.download("output", stream, span(&mut result, Space::Pageable), output).expect("copied");
    }
    let expected: Vec<u32> = words.iter().map(|word| affine_of(*word)).chain([0]).collect();
    assert_eq!(result, expected, "the word beyond n is untouched");
}

#[test]
fn launches_beyond_the_limits_are_errors_and_leave_nothing_behind() {
    backend_or_skip!(backend);
    let [affine, delay] = kernels(&backend);
    let mut bench = Bench::new(&backend);
    let (stream, counter) = (bench.stream(), bench.zeroed(4));
    let args = [
        LaunchArg::Buffer { ptr: counter, bytes: 4, write: false },
        LaunchArg::Buffer { ptr: counter, bytes: 4, write: true },
        LaunchArg::U32(0),
        LaunchArg::U64(0),
    ];
    for (grid, block) in
        [([1, 1], 1025), ([1, 1], 257), ([0, 1], 32), ([1, 0], 32), ([1, 1], 0), ([1, 65_536], 32)]
    {
        // SAFETY: the kernel writes nothing, n being 0.
        match unsafe { backend.launch("step", stream, &affine, grid, block, &args) } {
            Err(GpuError::Driver { op, cause }) => {
                assert!(op.contains("step") && op.contains("affine"), "{op}");
                assert!(cause.starts_with("CUDA_ERROR_"), "{cause}");
            }
            other => panic!("grid {grid:?}, block {block}: {other:?}"),
        }
    }
    bench.delay(&delay, stream, counter, 0);
    let mut count = [0u32];
    // SAFETY: the counter has 4 bytes; the call returns when the copy has executed.
    unsafe {
        backend.download("counter", stream, span(&mut count, Space::Pageable), counter).expect("copied")
    };
    assert_eq!(count, [1]);
}

/// The source of a pageable upload is the caller's again when the call returns, whatever the stream is doing.
#[test]
fn pageable_upload_has_read_its_source() {
    backend_or_skip!(backend);
    let [_, delay] = kernels(&backend);
    let mut bench = Bench::new(&backend);
    let stream = bench.stream();
    for len in [16usize, 1 << 12, 1 << 14, 1 << 22] {
        let (counter, target) = (bench.zeroed(4), bench.zeroed(4 * len as u64));
        let (mut words, mut result) = (vec![7u32; len], vec![0u32; len]);
        bench.delay(&delay, stream, counter, 50 * MS);
        // SAFETY: the buffers hold these bytes; pageable memory is free again when the calls return.
        unsafe {
            backend.upload("upload", stream, target, span(&mut words, Space::Pageable)).expect("copied");
            words.fill(0xdead);
            backend.download("download", stream, span(&mut result, Space::Pageable), target).expect("copied");
        }
        assert!(result.iter().all(|word| *word == 7), "{len} words");
    }
}

/// A pageable download has executed when the call returns; a pinned one comes back at once.
#[test]
fn downloads_block_as_their_memory_says() {
    backend_or_skip!(backend);
    let [_, delay] = kernels(&backend);
    let mut bench = Bench::new(&backend);
    let (stream, counter) = (bench.stream(), bench.zeroed(4));
    let mut count = [0u32];
    let start = Instant::now();
    bench.delay(&delay, stream, counter, 50 * MS);
    // SAFETY: the counter has 4 bytes.
    unsafe {
        backend.download("pageable", stream, span(&mut count, Space::Pageable), counter).expect("copied")
    };
    assert!(count == [1] && start.elapsed().as_millis() >= 48, "{count:?} after {:?}", start.elapsed());

    let host = backend.alloc_pinned("slot", 4, Space::PinnedDownload).expect("page-locked memory");
    let start = Instant::now();
    bench.delay(&delay, stream, counter, 200 * MS);
    let dst = HostSpan { ptr: host, bytes: 4, space: Space::PinnedDownload };
    // SAFETY: both ends have 4 bytes and outlive the wait below.
    unsafe { backend.download("pinned", stream, dst, counter).expect("queued") };
    let queued = start.elapsed();
    backend.sync_stream("pinned", stream).expect("drained");
    // SAFETY: 4 bytes, aligned to 64, written by the copy.
    let count = unsafe { host.cast::<u32>().read() };
    assert!(count == 2 && queued.as_millis() < 150, "{count} after {queued:?}");
    // SAFETY: ours, freed once, drained.
    unsafe { backend.free_pinned(host, 4) };
}

#[test]
fn events_order_streams_and_tell_the_time() {
    backend_or_skip!(backend);
    let [_, delay] = kernels(&backend);
    let mut bench = Bench::new(&backend);
    let (first, second, counter) = (bench.stream(), bench.stream(), bench.zeroed(4));
    let [start, end, never] =
        ["start", "end", "never"].map(|name| backend.create_event(name).expect("an event"));
    backend.wait(second, never).expect("a wait for an event that was never recorded is none");
    backend.sync_event("never", never).expect("nor does the host wait");

    backend.record(first, start).expect("recorded");
    bench.delay(&delay, first, counter, 40 * MS);
    backend.record(first, end).expect("recorded");
    backend.wait(second, end).expect("queued");
    let mut count = [0u32];
    // SAFETY: the counter has 4 bytes; the call returns when the copy has executed.
    unsafe {
        backend.download("counter", second, span(&mut count, Space::Pageable), counter).expect("copied")
    };
    assert_eq!(count, [1], "the second stream waits for the first");
    backend.sync_event("end", end).expect("reached");
    let us = backend.elapsed_us(start, end).expect("timed").expect("the device has a clock");
    assert!((38e3..48e3).contains(&us), "{us} us for 40 ms");
    // SAFETY: ours, destroyed once, reached or never recorded.
    unsafe { [start, end, never].into_iter().for_each(|event| backend.destroy_event(event)) };
}

/// What is captured runs at each launch and not before; a capture that fails leaves the stream as it was.
#[test]
fn captured_operations_run_at_each_launch() {
    backend_or_skip!(backend);
    let [_, delay] = kernels(&backend);
    let graphs = backend.graphs().expect("the driver has graphs");
    let mut bench = Bench::new(&backend);
    let (stream, counter) = (bench.stream(), bench.zeroed(4));
    let count = |stream| {
        let mut count = [0u32];
        let dst = span(&mut count, Space::Pageable);
        // SAFETY: the counter has 4 bytes; the call returns when the copy has executed.
        unsafe { backend.download("counter", stream, dst, counter).expect("copied") };
        count[0]
    };
    let [start, end] = ["start", "end"].map(|name| backend.create_event(name).expect("an event"));

    graphs.begin_capture("failing graph", stream).expect("a capture begins");
    bench.delay(&delay, stream, counter, 0);
    backend.sync_stream("captured stream", stream).expect_err("nothing is there to wait for");
    graphs.end_capture("failing graph", stream).expect_err("no graph comes of it");

    graphs.begin_capture("graph", stream).expect("the stream can be captured again");
    graphs.record_in_graph(stream, start).expect("recorded");
    bench.delay(&delay, stream, counter, 20 * MS);
    graphs.record_in_graph(stream, end).expect("recorded");
    let graph = graphs.end_capture("graph", stream).expect("a graph");
    assert_eq!(count(stream), 0, "neither capture has run");
    for launches in 1..=3 {
        // SAFETY: the counter outlives the wait in `count`.
        unsafe { graphs.launch_graph("graph", stream, graph).expect("launched") };
        assert_eq!(count(stream), launches);
        let us = backend.elapsed_us(start, end).expect("timed").expect("the device has a clock");
        assert!((18e3..28e3).contains(&us), "{us} us for 20 ms");
    }
    // SAFETY: all are ours, destroyed once, and every launch has executed.
    unsafe {
        graphs.destroy_graph(graph);
        backend.destroy_event(start);
        backend.destroy_event(end);
    }
}

#[test]
fn refused_memory_leaves_nothing_behind() {
    backend_or_skip!(backend);
    let [_, delay] = kernels(&backend);
    let total = backend.info().memory_bytes;
    for needed in [total, total + 1, 1 << 40, u64::MAX] {
        match backend.alloc_device("everything", needed) {
            Err(GpuError::OutOfMemory { op, needed_bytes, free_bytes }) => {
                assert!(
                    op.contains("everything") && needed_bytes == needed && free_bytes < total,
                    "{op} {free_bytes}"
                );
            }
            other => panic!("{needed} bytes: {other:?}"),
        }
    }
    let error = backend.alloc_pinned("everything", 1 << 46, Space::PinnedUpload).expect_err("64 TiB");
    assert!(
        matches!(error, GpuError::OutOfMemory { needed_bytes, .. } if needed_bytes == 1 << 46),
        "{error:?}"
    );

    let mut bench = Bench::new(&backend);
    let (stream, counter) = (bench.stream(), bench.zeroed(4));
    bench.delay(&delay, stream, counter, 0);
    backend.sync_stream("after a refusal", stream).expect("no error is left over");
}

/// Memory that another pool size holds is given back before anything is refused.
#[test]
fn most_of_the_free_memory_can_be_had_in_any_pieces() {
    backend_or_skip!(backend);
    let free = backend.free_bytes().expect("free");
    let bytes = free / 10 * 7;
    for pieces in [1, 3, 7, 1] {
        let each = bytes / pieces;
        let all: Vec<_> =
            (0..pieces).map(|_| backend.alloc_device("piece", each).expect("it fits")).collect();
        // SAFETY: just allocated, freed once, never used.
        all.into_iter().for_each(|ptr| unsafe { backend.free_device(ptr, each) });
    }
}

#[test]
fn freed_memory_is_free() {
    backend_or_skip!(backend);
    let before = backend.free_bytes().expect("free");
    let mut lowest = before;
    for round in 0..10_000 {
        let ptr = backend.alloc_device("round", 64 << 20).expect("it fits");
        // SAFETY: just allocated, freed once, never used.
        unsafe { backend.free_device(ptr, 64 << 20) };
        if round % 100 == 0 {
            lowest = lowest.min(backend.free_bytes().expect("free"));
        }
    }
    let taken = before.saturating_sub(lowest);
    assert!(taken < 256 << 20, "{taken} bytes gone");
}

#[test]
fn any_thread_allocates_uses_and_drops() {
    backend_or_skip!(backend);
    let device = Device::from_backend(Box::new(backend));
    for round in 0..20u32 {
        let words: Vec<u32> = (0..1000).map(|i| i ^ round).collect();
        std::thread::scope(|scope| {
            let buf = scope.spawn(|| DeviceBuf::from_slice(&device, "shared", &words).expect("uploaded"));
            let buf = buf.join().expect("no panic");
            let back = scope.spawn(move || (buf.to_vec().expect("downloaded"), buf));
            let (back, buf) = back.join().expect("no panic");
            assert_eq!(back, words);
            scope.spawn(move || drop(buf)).join().expect("no panic");
        });
    }
}

#[test]
fn devices_of_one_process_are_independent() {
    backend_or_skip!(first);
    let second = CudaBackend::new(0).expect("it opens again");
    drop(first);
    let [_, delay] = kernels(&second);
    let mut bench = Bench::new(&second);
    let (stream, counter) = (bench.stream(), bench.zeroed(4));
    bench.delay(&delay, stream, counter, 0);
    second.sync_stream("after the other is gone", stream).expect("it works on");
}

/// A kernel that writes where nothing is: the error names the wait that saw it, every later call fails, and
/// nothing panics or hangs. In a process of its own, since the device is lost to it.
#[test]
fn lost_device_is_an_error() {
    const TEST: &str = "lost_device_is_an_error";
    const ROLE: &str = "CUDA_DEVICE_TEST_ROLE";
    backend_or_skip!(backend);
    if std::env::var_os(ROLE).is_none() {
        let output = Command::new(std::env::current_exe().expect("path of this test"))
            .args(["--exact", TEST, "--nocapture"])
            .env(ROLE, "")
            .output()
            .expect("this test starts again");
        let text =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        assert!(output.status.success() && text.contains("1 passed"), "{}\n{text}", output.status);
        return;
    }
    let [_, delay] = kernels(&backend);
    let mut bench = Bench::new(&backend);
    let stream = bench.stream();
    bench.delay(&delay, stream, DevicePtr(64), 0);
    match backend.sync_stream("the wait that sees it", stream) {
        Err(GpuError::Driver { op, cause }) => {
            assert!(
                op.contains("the wait that sees it") && cause.contains("ILLEGAL_ADDRESS"),
                "{op}: {cause}"
            );
        }
        other => panic!("{other:?}"),
    }
    let error = backend.alloc_device("after", 4096).expect_err("the device is lost to this process");
    assert!(matches!(error, GpuError::Driver { .. }), "{error:?}");
}
