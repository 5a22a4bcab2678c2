//! Registers, spills and shared memory of every kernel on every chip that the project names, against
//! `golden/resources.json`: a change of a kernel shows what it costs, in the review of that change.
//!
//! Needs NVRTC of the version that the snapshot was made with, and no GPU. Without it the test says
//! "skipped", and fails under `REQUIRE_NVRTC=1`. `UPDATE_GOLDEN=1` writes the snapshot anew.

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

/// (kernel, position in `ARCHS`) -> what it takes.
type Snapshot = BTreeMap<(String, usize), KernelResources>;

#[test]
fn kernels_take_what_the_snapshot_says() {
    let version = match nvrtc_version() {
        Ok((major, minor)) => format!("{major}.{minor}"),
        Err(error) => return skip(&error.to_string()),
    };
    let (path, is_update) = (golden::path("resources.json"), golden::is_update());
    let golden = golden::read(&path);
    if !is_update && !golden.contains(&format!("\"nvrtc\": \"{version}\"")) {
        return skip(&format!("NVRTC is {version}, the snapshot was made with another version"));
    }
    let current = render(&version, &measure());
    if is_update {
        return std::fs::write(&path, current).expect("the snapshot is ours to write");
    }
    let changes = changed_lines(&golden, &current);
    assert!(changes.is_empty(), "kernels take other resources; UPDATE_GOLDEN=1 accepts that:\n{changes}");
}

fn skip(reason: &str) {
    assert!(std::env::var_os("REQUIRE_NVRTC").is_none(), "REQUIRE_NVRTC is set: {reason}");
    eprintln!("skipped: {reason}");
}

/// Compiles everything for everything, one compilation a thread at a time on every core.
fn measure() -> Snapshot {
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
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Snapshot::new()));
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

/// One kernel a block, one chip a line, sorted: a change is one line of a diff.
fn render(version: &str, snapshot: &Snapshot) -> String {
    let mut text = format!("{{\n  \"nvrtc\": \"{version}\"");
    let mut last = "";
    for ((name, arch), taken) in snapshot {
        let opening = match name == last {
            true => ",\n".to_string(),
            false => format!("{},\n  \"{name}\": {{\n", if last.is_empty() { "" } else { "\n  }" }),
        };
        let _ = write!(
            text,
            "{opening}    \"{}\": {{\"registers\": {}, \"spill_store_bytes\": {}, \
             \"spill_load_bytes\": {}, \"stack_bytes\": {}, \"shared_bytes\": {}}}",
            ARCHS[*arch],
            taken.registers,
            taken.spill_store_bytes,
            taken.spill_load_bytes,
            taken.stack_bytes,
            taken.shared_bytes
        );
        last = name;
    }
    text + "\n  }\n}\n"
}

/// Lines that only one of the texts has, with the kernel that they are of.
fn changed_lines(old: &str, new: &str) -> String {
    let lines = |text: &str| -> Vec<(String, String)> {
        let mut kernel = String::new();
        let mut lines = Vec::new();
        for line in text.lines().map(|line| line.trim().trim_end_matches(',')) {
            match line.strip_suffix(": {") {
                Some(name) => kernel = name.trim_matches('"').into(),
                None => lines.push((kernel.clone(), line.to_string())),
            }
        }
        lines
    };
    let (old, new) = (lines(old), lines(new));
    let mut text = String::new();
    let (gone, come) =
        (old.iter().filter(|line| !new.contains(line)), new.iter().filter(|line| !old.contains(line)));
    for (sign, (kernel, line)) in gone.map(|line| ('-', line)).chain(come.map(|line| ('+', line))) {
        let _ = writeln!(text, "{sign} {kernel} {line}");
    }
    text
}

#[test]
fn snapshot_is_json_and_changes_are_found() {
    let taken = |registers| KernelResources {
        kernel: "k".into(),
        registers,
        spill_store_bytes: 1,
        spill_load_bytes: 2,
        stack_bytes: 3,
        shared_bytes: 4,
    };
    let snapshot = |registers| -> Snapshot {
        let kernels = [("a", 0), ("a", 1), ("b", 0)];
        let with = |(i, (name, arch)): (usize, (&str, usize))| {
            ((name.to_string(), arch), taken(if i == 1 { registers } else { 40 }))
        };
        kernels.into_iter().enumerate().map(with).collect()
    };
    let (old, new) = (render("13.0", &snapshot(50)), render("13.0", &snapshot(51)));
    let json: serde_json::Value = serde_json::from_str(&old).expect("JSON");
    assert_eq!(json["nvrtc"], "13.0");
    assert_eq!(json["a"]["sm_86"]["registers"], 50);
    assert_eq!(json["b"]["sm_80"]["shared_bytes"], 4);
    assert_eq!(changed_lines(&old, &old), "");
    let changes = changed_lines(&old, &new);
    assert_eq!(changes.lines().count(), 2, "{changes}");
    assert!(changes.starts_with("- a \"sm_86\"") && changes.contains("+ a \"sm_86\""), "{changes}");
    assert!(!changed_lines(&old, "").is_empty(), "an empty snapshot agrees with nothing");
}
