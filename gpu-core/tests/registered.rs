//! Host memory that is page-locked where it lies, on every device.

use gpu_core::schedule::{Action, BufferId, Region};
use gpu_core::sim::{SimBackend, SimOptions};
use gpu_core::{
    Bindings, CheckedSchedule, Device, DeviceKind, GpuError, HazardKind, Registered, Schedule, Space,
    Workspace,
};
use std::sync::Arc;

/// The simulated device, and every CUDA device. Says so where there is none, and fails there if `REQUIRE_GPU` is 1.
fn devices() -> Vec<Device> {
    let devices = Device::all(SimOptions::latest());
    if devices.iter().all(|device| device.info().kind == DeviceKind::Sim) {
        assert!(
            std::env::var("REQUIRE_GPU").as_deref() != Ok("1"),
            "REQUIRE_GPU is 1, and there is no CUDA device"
        );
        println!("skipped: no CUDA device");
    }
    devices
}

/// Up from the caller's memory, and down again.
fn there_and_back(bytes: u64) -> Schedule {
    let mut s = Schedule::new("there and back");
    let source = s.buffer("source", Space::Registered, bytes);
    let middle = s.buffer("middle", Space::Device, bytes);
    let target = s.buffer("target", Space::PinnedDownload, bytes);
    let [source, middle, target] = [source, middle, target].map(|id| s.whole(id));
    let (stream, done) = (s.stream("copies"), s.event("done"));
    s.push("up", None, Action::Upload { stream, src: source, dst: middle });
    s.push("down", None, Action::Download { stream, src: middle, dst: target });
    s.push("done", None, Action::Record { stream, event: done });
    s.push("done", None, Action::HostWait { event: done });
    s.push("look", None, Action::HostStep { reads: vec![source, target], writes: vec![], host_us: 1.0 });
    s
}

const SOURCE: BufferId = BufferId(0);

fn workspace(device: &Device, bytes: u64) -> Workspace {
    let schedule = CheckedSchedule::new(there_and_back(bytes)).expect("no hazard");
    Workspace::new(device, Arc::new(schedule)).expect("memory")
}

fn run(workspace: &mut Workspace, memory: &Registered<'_, u64>) -> Result<bool, GpuError> {
    let same = std::sync::Mutex::new(false);
    let bindings = Bindings::new().bind_registered(SOURCE, memory);
    workspace.run(&bindings, &|_, views| {
        *same.lock().expect("no panic") = views.read::<u64>(0) == views.read::<u64>(1);
        Ok(())
    })?;
    Ok(same.into_inner().expect("no panic"))
}

/// B113: the same range twice, ranges that overlap or share a page, and a range again after its release are page-locked or
/// refused with a typed error; what comes next is right.
#[test]
fn b113_ranges_that_meet() {
    for device in devices() {
        let id = device.info().id.clone();
        // 12 KiB and a half: ranges below start and end within pages.
        let numbers: Vec<u64> = (0..1600).map(|i| i * 0x0123_4567_89ab).collect();
        let mut part = workspace(&device, 8 * 700);
        let lock = |range: std::ops::Range<usize>| Registered::new(&device, "numbers", &numbers[range]);
        let mut copies = |memory: &Registered<'_, u64>, what: &str| {
            let same = run(&mut part, memory).unwrap_or_else(|error| panic!("{id}, {what}: {error}"));
            assert!(same, "{id}, {what}");
        };
        let first = lock(1..701).unwrap_or_else(|error| panic!("{id}: {error}"));
        copies(&first, "first");
        let twice = lock(1..701).unwrap_or_else(|error| panic!("{id}, twice: {error}"));
        copies(&twice, "twice");
        for (range, what) in [(300..1000, "overlapping"), (701..1401, "adjacent in a page")] {
            match lock(range) {
                Ok(other) => copies(&other, what),
                Err(GpuError::Driver { op, .. }) => assert_eq!(op, "page-locking numbers", "{id}, {what}"),
                Err(other) => panic!("{id}, {what}: {other}"),
            }
            copies(&first, what);
        }
        drop(first);
        copies(&twice, "one of two released");
        drop(twice);
        copies(&lock(1..701).unwrap_or_else(|error| panic!("{id}, again: {error}")), "again");
        copies(&lock(300..1000).unwrap_or_else(|error| panic!("{id}, moved: {error}")), "moved");
    }
}

/// It is checked as what the caller fills: nothing in the schedule may write it.
#[test]
fn what_is_registered_is_only_read() {
    let mut s = there_and_back(8);
    let source = Region { buffer: SOURCE, offset: 0, bytes: 8 };
    let writes = vec![source];
    s.push("write", None, Action::HostStep { reads: vec![], writes, host_us: 1.0 });
    let stream = s.stream("copies too");
    let middle = Region { buffer: BufferId(1), ..source };
    s.push("down", None, Action::Download { stream, src: middle, dst: source });
    let report = gpu_core::check::check(&s);
    let kinds: Vec<_> = report.hazards.iter().filter(|hazard| hazard.kind == HazardKind::Malformed).collect();
    assert_eq!(kinds.len(), 2, "{report}");
}

/// Memory of another size, none, or another device's is refused before anything is queued.
#[test]
fn what_is_bound_must_fit() {
    let (device, other) = (Device::sim(SimOptions::default()), Device::sim(SimOptions::default()));
    let numbers = [1u64, 2, 3];
    let mut two = workspace(&device, 16);
    let refusal = |outcome: Result<bool, GpuError>| match outcome {
        Err(GpuError::Incomplete { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    let memory = Registered::new(&device, "numbers", &numbers).expect("locked");
    assert_eq!(refusal(run(&mut two, &memory)), "buffer source is bound to 24 bytes, not 16");
    let memory = Registered::new(&other, "numbers", &numbers[..2]).expect("locked");
    assert_eq!(refusal(run(&mut two, &memory)), "buffer source is on another device");
    let outcome = two.run(&Bindings::new(), &|_, _| Ok(())).map(|_| true);
    assert_eq!(refusal(outcome), "buffer source is not bound");
}

/// What is locked counts until it is released, also when a run failed.
#[test]
fn nothing_stays_locked() {
    let backend = SimBackend::new(SimOptions::default());
    let sim = backend.handle();
    let device = Device::from_backend(Box::new(backend));
    let numbers = [1u64, 2];
    let memory = Registered::new(&device, "numbers", &numbers).expect("locked");
    let again = Registered::new(&device, "numbers", &numbers).expect("locked");
    assert_eq!(sim.stats().pinned_bytes, 16);
    drop(memory);
    assert_eq!(sim.stats().pinned_bytes, 16);
    assert!(Registered::new(&device, "a part", &numbers[1..]).is_err());
    drop(again);
    assert_eq!(sim.stats().pinned_bytes, 0);
}
