//! Schedules as tables that a person has read, in `golden/schedules`: a change of a strategy, or of the
//! kernels of a batch, shows what it does to them in the review of that change.
//!
//! `UPDATE_GOLDEN=1` writes them anew. A pattern with graphs has the table of its strategy: graphs change how a schedule
//! runs, not what it is.

#[path = "common/golden.rs"]
mod golden;

use gpu_core::check::check;
use msm_gpu::schedule::build;
use msm_gpu::{DeviceLimits, GroupKind, MsmConfig, MsmPlan, ResultMemory, ScalarForm, Strategy};
use std::collections::BTreeMap;

/// Small, and enough for eight batches of different lengths.
const BASE_COUNT: u64 = 27;
const LIMITS: DeviceLimits = DeviceLimits { free_bytes: 1 << 30, resident_threads: 4096 };

/// One buffer to four, and the strategy that has no ring.
fn strategies() -> Vec<Strategy> {
    let rings = (2..=4).flat_map(|buffers| [Strategy::Deferred { buffers }, Strategy::Threaded { buffers }]);
    [Strategy::Hard, Strategy::OnDevice].into_iter().chain(rings).collect()
}

/// File name to text.
fn tables() -> BTreeMap<String, String> {
    let mut tables = BTreeMap::new();
    for batches in [1, 2, 3, 8] {
        for strategy in strategies() {
            let memories = match strategy {
                Strategy::Deferred { buffers: 2 } => vec![ResultMemory::Pinned, ResultMemory::Pageable],
                _ => vec![ResultMemory::Pinned],
            };
            for result_memory in memories {
                let config = MsmConfig { strategy, result_memory, ..MsmConfig::batches(batches) };
                let form = ScalarForm::Montgomery;
                let plan = MsmPlan::new(GroupKind::G1, form, BASE_COUNT, &config, &LIMITS).expect("a plan");
                let schedule = build(&plan);
                let name = format!("{strategy}-{result_memory}-batches-{batches}.txt").replace(':', "-");
                tables.insert(name, format!("{schedule}checker: {}\n", check(&schedule)));
            }
        }
    }
    tables
}

#[test]
fn schedules_are_those_that_were_read() {
    let folder = golden::path("schedules");
    let tables = tables();
    let known: Vec<String> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a file").file_name().into_string().expect("ASCII names"))
        .collect();
    for name in known.iter().filter(|name| !tables.contains_key(*name)) {
        assert!(
            golden::is_update(),
            "{name} in {} is of no schedule; UPDATE_GOLDEN=1 removes it",
            folder.display()
        );
        std::fs::remove_file(folder.join(name)).expect("the snapshot is ours to remove");
    }
    let mut changed = Vec::new();
    for (name, table) in &tables {
        let path = folder.join(name);
        let golden = golden::read(&path);
        if golden::is_update() {
            std::fs::write(&path, table).expect("the snapshot is ours to write");
        } else if golden != *table {
            changed.push(format!("{name}: {}", first_difference(&golden, table)));
        }
    }
    assert!(
        changed.is_empty(),
        "{} schedules have changed; read them, and UPDATE_GOLDEN=1 accepts them:\n{}",
        changed.len(),
        changed.join("\n")
    );
}

/// The first line that differs, as it was and as it is.
fn first_difference(old: &str, new: &str) -> String {
    let (mut old, mut new) = (old.lines(), new.lines());
    let mut number = 1;
    loop {
        match (old.next(), new.next()) {
            (None, None) => return "line ends".into(),
            (was, is) if was != is => {
                let text = |line: Option<&str>| line.unwrap_or("(end)").to_string();
                return format!("line {number}\n- {}\n+ {}", text(was), text(is));
            }
            _ => number += 1,
        }
    }
}

#[test]
fn a_difference_is_shown_with_its_line() {
    assert_eq!(first_difference("a\nb\n", "a\nc\n"), "line 2\n- b\n+ c");
    assert_eq!(first_difference("a\n", "a\nb\n"), "line 2\n- (end)\n+ b");
    assert_eq!(first_difference("a\n", "a"), "line ends");
}
