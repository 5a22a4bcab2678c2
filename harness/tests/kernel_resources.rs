//! Registers, spills and shared memory of every kernel on every chip that the project names, as a snapshot in
//! `golden/snapshots/resources`: a change of a kernel shows what it costs, in the review of that change.
//!
//! Needs NVRTC of the version that the snapshot was made with, and no GPU. Without it the test says
//! "skipped", and fails under `REQUIRE_NVRTC=1`.

#[path = "common/golden.rs"]
mod golden;

use gpu_core::ModuleSource;
use gpu_core::cuda::cache::KernelCache;
use gpu_core::cuda::compile::{KernelResources, nvrtc_version, options, resources};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const ARCHS: [&str; 6] = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"];

/// The folder, and its only snapshot.
const FOLDER: &str = "resources";
const NAME: &str = "kernels";

/// (kernel, position in `ARCHS`) -> what it takes.
type Taken = BTreeMap<(String, usize), KernelResources>;

#[test]
fn kernels_take_what_the_snapshot_says() {
    let path = golden::folder(FOLDER).join(format!("{NAME}.snap"));
    assert!(golden::is_update() || path.exists(), "{} is not there: {}", path.display(), golden::HOW);
    let version = match nvrtc_version() {
        Ok((major, minor)) => format!("{major}.{minor}"),
        Err(error) => return skip(&error.to_string()),
    };
    let recorded = std::fs::read_to_string(path).unwrap_or_default();
    if !golden::is_update() && !recorded.contains(&format!("NVRTC {version}\n")) {
        return skip(&format!("NVRTC is {version}, the snapshot was made with another version"));
    }
    let snapshot = golden::Snapshot::new("what kernels take of a chip", render(&version, &measure()));
    golden::assert_folder(FOLDER, &[(NAME.to_string(), snapshot)].into());
}

fn skip(reason: &str) {
    assert!(std::env::var_os("REQUIRE_NVRTC").is_none(), "REQUIRE_NVRTC is set: {reason}");
    eprintln!("skipped: {reason}");
}

/// Compiles everything for everything, one compilation a thread at a time on every core.
fn measure() -> Taken {
    let modules: Vec<&ModuleSource> =
        [gpu_core::modules::ALL, msm_gpu::modules::ALL, ntt_gpu::modules::ALL, groth16::modules::ALL]
            .concat();
    let jobs: Vec<_> =
        modules.iter().flat_map(|module| (0..ARCHS.len()).map(move |arch| (module, arch))).collect();
    // What has been compiled before is not compiled again: large modules take a good part of a minute a chip.
    let cache = KernelCache::at(env!("CARGO_TARGET_TMPDIR"));
    let version = nvrtc_version().expect("asked before");
    let taken_by = |module: &ModuleSource, arch: &str| -> Vec<KernelResources> {
        let report = || Ok(serde_json::to_vec(&resources(module, arch)?).expect("plain data"));
        let key = KernelCache::key(module, &options(module, arch), version);
        let report =
            cache.fetch(&format!("resources-{key}"), report).unwrap_or_else(|error| panic!("{error}"));
        serde_json::from_slice(&report).expect("written by this test")
    };
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Taken::new()));
    let work = || {
        while let Some((module, arch)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let kernels = taken_by(module, ARCHS[*arch]);
            assert_eq!(kernels.len(), module.kernels.len(), "kernels in the report of {}", module.name);
            let entries = kernels.into_iter().map(|taken| ((taken.kernel.clone(), *arch), taken));
            found.lock().expect("no thread panicked").extend(entries);
        }
    };
    std::thread::scope(|scope| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        (0..cores).for_each(|_| drop(scope.spawn(work)));
    });
    found.into_inner().expect("no thread panicked")
}

/// A line for each kernel and chip, sorted: a change is one line of a diff, with all that it is of.
fn render(version: &str, taken: &Taken) -> String {
    let mut text = format!("NVRTC {version}\n");
    let mut row = |kernel: &str, arch: &str, columns: [&str; 5]| {
        let _ = write!(text, "{kernel:<28} {arch:<7}");
        for column in columns {
            let _ = write!(text, " {column:>9}");
        }
        text.push('\n');
    };
    row("kernel", "chip", ["registers", "stored B", "loaded B", "stack B", "shared B"]);
    for ((kernel, arch), taken) in taken {
        let columns = [
            taken.registers,
            taken.spill_store_bytes,
            taken.spill_load_bytes,
            taken.stack_bytes,
            taken.shared_bytes,
        ]
        .map(|number| number.to_string());
        row(kernel, ARCHS[*arch], columns.each_ref().map(String::as_str));
    }
    text
}

#[test]
fn the_table_has_a_line_for_each_kernel_and_chip() {
    let taken = |kernel: &str| KernelResources {
        kernel: kernel.into(),
        registers: 40,
        spill_store_bytes: 1,
        spill_load_bytes: 2,
        stack_bytes: 3,
        shared_bytes: 4096,
    };
    let kernels = [("a", 0), ("a", 5), ("b", 3)];
    let text = render("13.0", &kernels.map(|(name, arch)| ((name.to_string(), arch), taken(name))).into());
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["NVRTC", "13.0"]);
    assert_eq!(lines[2], ["a", "sm_80", "40", "1", "2", "3", "4096"]);
    assert_eq!(lines[3][1], "sm_120");
    assert_eq!(lines[4][..2], ["b", "sm_90"]);
    assert_eq!(lines.len(), 5);
}
