//! The cache of compiled kernels: what the key covers, damage, processes that start together, a directory
//! that cannot be used.

use gpu_core::cuda::cache::{CACHE_ENV, KernelCache};
use gpu_core::{GpuError, ModuleSource};
use std::cell::Cell;
use std::path::Path;
use std::process::{Command, Stdio};

const IMAGE: &[u8] = b"machine code of a test";

fn module(source: &'static str, headers: &'static [(&'static str, &'static str)]) -> ModuleSource {
    ModuleSource { name: "m", file: "m.cu", source, headers, defines: &[], kernels: &[] }
}

fn options(list: &[&str]) -> Vec<String> {
    list.iter().map(|option| option.to_string()).collect()
}

/// Fetches, and says whether the entry had to be made.
fn fetch(cache: &KernelCache, key: &str) -> (Vec<u8>, bool) {
    let made = Cell::new(false);
    let image = cache.fetch(key, || {
        made.set(true);
        Ok(IMAGE.to_vec())
    });
    (image.expect("making does not fail"), made.get())
}

fn entry_of(dir: &Path) -> std::path::PathBuf {
    let entries: Vec<_> =
        std::fs::read_dir(dir).expect("the cache").map(|entry| entry.expect("an entry").path()).collect();
    assert_eq!(entries.len(), 1, "one entry, and no temporary files left: {entries:?}");
    entries[0].clone()
}

#[test]
fn key_covers_everything_that_decides_the_code() {
    let base = module("s", &[("a.cuh", "a"), ("b.cuh", "b")]);
    let arch = options(&["--gpu-architecture=sm_90"]);
    let keys = [
        KernelCache::key(&base, &arch, (13, 0)),
        KernelCache::key(&base, &arch, (13, 1)),
        KernelCache::key(&base, &arch, (12, 0)),
        KernelCache::key(&base, &options(&["--gpu-architecture=sm_100"]), (13, 0)),
        KernelCache::key(&base, &options(&["--gpu-architecture=sm_90", "-DGROUP_G2"]), (13, 0)),
        KernelCache::key(&module("t", base.headers), &arch, (13, 0)),
        KernelCache::key(&module("s", &[("a.cuh", "a"), ("b.cuh", "c")]), &arch, (13, 0)),
        KernelCache::key(&module("s", &[("a.cuh", "a"), ("c.cuh", "b")]), &arch, (13, 0)),
        KernelCache::key(&module("s", &[("a.cuh", "a")]), &arch, (13, 0)),
        KernelCache::key(&module("s", &[("a.cuh", "ab.cuhb")]), &arch, (13, 0)),
    ];
    for (i, key) in keys.iter().enumerate() {
        assert!(!keys[..i].contains(key), "key {i} equals an earlier one");
    }
    assert_eq!(keys[0], KernelCache::key(&base, &arch, (13, 0)), "the same things have the same key");
}

#[test]
fn entry_is_made_once() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let cache = KernelCache::at(dir.path().join("not/yet/there"));
    assert_eq!(fetch(&cache, "k"), (IMAGE.to_vec(), true));
    assert_eq!(fetch(&cache, "k"), (IMAGE.to_vec(), false));
    assert_eq!(fetch(&KernelCache::at(dir.path().join("not/yet/there")), "k"), (IMAGE.to_vec(), false));
    assert_eq!(fetch(&cache, "other"), (IMAGE.to_vec(), true));
}

#[test]
fn failure_to_make_is_passed_on_and_not_stored() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let cache = KernelCache::at(dir.path());
    let refused = cache
        .fetch("k", || Err(GpuError::Compile { module: "m".into(), arch: "sm_90".into(), log: "no".into() }));
    assert!(matches!(refused, Err(GpuError::Compile { .. })), "{refused:?}");
    assert_eq!(fetch(&cache, "k"), (IMAGE.to_vec(), true));
}

#[test]
fn damaged_entry_is_made_again() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let cache = KernelCache::at(dir.path());
    fetch(&cache, "k");
    let path = entry_of(dir.path());
    let whole = std::fs::read(&path).expect("the entry");
    let cuts = (0..whole.len()).map(|length| whole[..length].to_vec());
    let flips = (0..whole.len()).map(|at| {
        let mut content = whole.clone();
        content[at] ^= 1;
        content
    });
    let longer = [&whole[..], b"x"].concat();
    for content in cuts.chain(flips).chain([longer]) {
        std::fs::write(&path, &content).expect("the entry is ours");
        assert_eq!(fetch(&cache, "k"), (IMAGE.to_vec(), true), "{} bytes", content.len());
        assert_eq!(fetch(&cache, "k"), (IMAGE.to_vec(), false), "healed");
    }
    assert_eq!(entry_of(dir.path()), path);
}

#[test]
fn unusable_directory_costs_time_alone() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("a file");
    std::fs::write(&file, "in the way").expect("a file");
    for cache in [KernelCache::at(&file), KernelCache::at(file.join("kernels"))] {
        assert_eq!(fetch(&cache, "k"), (IMAGE.to_vec(), true));
        assert_eq!(fetch(&cache, "k"), (IMAGE.to_vec(), true));
    }
    // An entry that cannot be read: a directory of its name.
    let cache = KernelCache::at(dir.path());
    std::fs::create_dir(dir.path().join("k.cubin")).expect("a directory");
    assert_eq!(fetch(&cache, "k"), (IMAGE.to_vec(), true));
}

/// Four processes of four threads each want the same entries at the same time.
#[test]
fn processes_that_start_together_share() {
    const TEST: &str = "processes_that_start_together_share";
    const ROLE: &str = "CUDA_CACHE_TEST_ROLE";
    if std::env::var_os(ROLE).is_some() {
        let cache = KernelCache::from_env();
        return std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for key in 0..200 {
                        assert_eq!(fetch(&cache, &key.to_string()).0, IMAGE);
                    }
                });
            }
        });
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let start = || {
        Command::new(std::env::current_exe().expect("path of this test"))
            .args(["--exact", TEST])
            .env(ROLE, "")
            .env(CACHE_ENV, dir.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("this test starts again")
    };
    let children = [start(), start(), start(), start()];
    for mut child in children {
        assert!(child.wait().expect("it ends").success());
    }
    let names = std::fs::read_dir(dir.path().join("kernels")).expect("the cache");
    assert_eq!(names.count(), 200, "each entry once, and no temporary files left");
}
