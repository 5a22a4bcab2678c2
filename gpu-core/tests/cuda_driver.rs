//! The driver that is missing, old, refuses to start or runs out of memory: against a stand-in for libcuda,
//! in a process of its own, on any machine.

use gpu_core::backend::{Backend, HostSpan, Kernel, LaunchArg};
use gpu_core::cuda::{CudaBackend, device_count};
use gpu_core::kernel::{KernelEntry, SimKernel};
use gpu_core::{Device, GpuError, Space};
use std::ffi::c_void;
use std::path::Path;
use std::process::Command;

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
    let output = Command::new(std::env::current_exe().expect("path of this test"))
        .args(["--exact", test, "--nocapture"])
        .env(ROLE, test)
        .env("LD_LIBRARY_PATH", dir.path())
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
