//! The source tree keeps the rules that a program can check; STYLE.md has them all.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Lines are at most this long: code is formatted to 110 columns, a comment may end with the word that it is at.
const COLUMNS_MAX: usize = 125;

/// Words that stand for something else here, or for nothing, and what to write.
const BANNED: &[(&str, &str)] = &[
    ("multiexp", "msm"),
    ("multi_exp", "msm"),
    ("workgroup", "block"),
    ("wavefront", "warp"),
    ("witness_map", "qap"),
    ("nibble", "digit"),
    ("#if 0", "delete it: a variant that lost leaves the tree, and its number goes to the bench history"),
    ("<cstdint>", "base.cuh: NVRTC has no host headers"),
    ("#[ignore", "a test that does not run is no test"),
    ("todo!(", "finish it"),
    ("unimplemented!(", "finish it"),
    ("TODO", "do it, or open an issue"),
    ("FIXME", "fix it"),
    ("XXX", "say what is wrong, and put it right"),
    ("dbg!(", "tracing, if it is to stay"),
];

/// Files that may say `unsafe`: the doors to the driver, to device memory and to compiled kernels, and tests of those.
const UNSAFE: &[&str] = &[
    "gpu-core/kernel-build/src/lib.rs",
    "gpu-core/src/backend.rs",
    "gpu-core/src/buffer.rs",
    "gpu-core/src/cuda/compile.rs",
    "gpu-core/src/cuda/library.rs",
    "gpu-core/src/cuda/mod.rs",
    "gpu-core/src/device.rs",
    "gpu-core/src/graph.rs",
    "gpu-core/src/kernel.rs",
    "gpu-core/src/layout.rs",
    "gpu-core/src/run.rs",
    "gpu-core/src/sim/memory.rs",
    "gpu-core/src/sim/mod.rs",
    "gpu-core/src/sim/queue.rs",
    "gpu-core/src/sim/runtime.rs",
    "gpu-core/tests/cuda_device.rs",
    "gpu-core/tests/cuda_driver.rs",
    "gpu-core/tests/host_threads.rs",
    "gpu-core/tests/host_threads.rs",
    "gpu-core/tests/sim.rs",
    "groth16/src/cache.rs",
    "harness/sppark-peer/src/device.rs",
    "harness/src/faults/backend.rs",
    "harness/tests/wrong_device.rs",
];

/// Tables of cases.md, and the rows that each has to have.
const CASES: [(&str, &[u32]); 6] = [
    (
        "Multi-scalar multiplication",
        &[
            1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 16, 17, 18, 20, 21, 22, 24, 25, 26, 28, 29, 30, 32, 33, 34,
            36, 37,
        ],
    ),
    ("Number-theoretic transforms", &[38, 40, 41, 42, 44, 45, 46, 48, 49, 50]),
    (
        "Proofs, constraints and keys",
        &[52, 53, 54, 56, 57, 58, 60, 61, 62, 64, 65, 66, 68, 69, 70, 72, 73, 74, 76, 77, 78],
    ),
    ("Serialisation", &[80, 81, 82, 84]),
    (
        "Device and runtime",
        &[
            85, 86, 88, 89, 90, 92, 93, 94, 96, 97, 98, 100, 101, 102, 104, 105, 106, 108, 109, 110, 112,
            113, 114, 116, 117, 118, 120, 121, 133, 134, 135, 136,
        ],
    ),
    ("Harness, benchmarks, CI", &[122, 124, 125, 126, 128, 129, 130, 132]),
];

/// This file spells out what it bans, and the style guide what not to write.
const EXEMPT: &[&str] = &["harness/tests/tidy.rs", "STYLE.md"];

struct Source {
    /// From the root, with `/`.
    path: String,
    text: String,
}

impl Source {
    fn is(&self, endings: &[&str]) -> bool {
        endings.iter().any(|ending| self.path.ends_with(ending))
    }
}

/// Every text file of the workspace's own.
fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    let mut directories = vec![PathBuf::from(ROOT)];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).expect("a directory of the tree") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).expect("names are text");
            let skipped = name.starts_with('.') || name == "target" || name == "Cargo.lock";
            if skipped || path.is_symlink() {
                continue;
            }
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let endings = ["rs", "cu", "cuh", "h", "c", "cpp", "py", "md", "toml", "sh", "json"];
            let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            if endings.contains(&ending) {
                let relative = path.strip_prefix(ROOT).expect("under the root");
                let parts: Vec<_> =
                    relative.iter().map(|part| part.to_str().expect("names are text")).collect();
                let text = std::fs::read_to_string(&path).expect("sources are text");
                found.push(Source { path: parts.join("/"), text });
            }
        }
    }
    assert!(found.len() > 30, "the tree was found");
    found
}

/// Fails with every finding, not only the first.
fn assert_none(findings: &[String]) {
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}

#[test]
fn banned_words_are_not_used() {
    let mut findings = Vec::new();
    for source in sources().iter().filter(|source| !EXEMPT.contains(&source.path.as_str())) {
        for (number, line) in source.text.lines().enumerate() {
            for (word, instead) in BANNED.iter().filter(|(word, _)| line.contains(word)) {
                findings.push(format!("{}:{}: `{word}`: {instead}", source.path, number + 1));
            }
        }
    }
    assert_none(&findings);
}

#[test]
fn device_sources_are_ascii() {
    let mut findings = Vec::new();
    for source in sources().iter().filter(|source| source.is(&[".cu", ".cuh", ".h"])) {
        for (number, line) in source.text.lines().enumerate().filter(|(_, line)| !line.is_ascii()) {
            findings.push(format!("{}:{}: {line}", source.path, number + 1));
        }
    }
    assert_none(&findings);
}

#[test]
fn lines_fit() {
    let mut findings = Vec::new();
    for source in sources().iter().filter(|source| source.is(&[".rs", ".cu", ".cuh", ".h", ".cpp"])) {
        for (number, line) in source.text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX || line.ends_with(' ') || line.contains('\t') {
                findings.push(format!(
                    "{}:{}: {columns} columns, or a blank too much",
                    source.path,
                    number + 1
                ));
            }
        }
    }
    assert_none(&findings);
}

/// What is wrong with the comment above a kernel, if anything is: it opens with the kernel's name, and has what comes out
/// and the cost. (That there is a law where `out` does not say it all is for review.)
fn contract_fault(lines: &[&str], kernel_line: usize) -> Option<String> {
    let signature = lines[kernel_line..].iter().take(3).copied().collect::<Vec<_>>().join(" ");
    let after_bounds = signature.split("__launch_bounds__(").nth(1)?.split_once(')')?.1;
    let name = after_bounds.trim_start().trim_start_matches("GROUP_NAME(");
    let name: String = name.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let comment: Vec<&str> =
        lines[..kernel_line].iter().rev().take_while(|line| line.starts_with("//")).copied().collect();
    let opens = comment.iter().any(|line| line.starts_with(&format!("// {name}: ")));
    let has = |words: &[&str]| {
        let tag = |line: &&str| words.iter().any(|word| line[2..].trim_start().starts_with(word));
        comment.iter().any(tag)
    };
    let missing = match () {
        () if !opens => "its name",
        () if !has(&["out", "io", "in/out"]) => "what comes out",
        () if !has(&["cost"]) => "its cost",
        () => return None,
    };
    Some(format!("{name} has no {missing} in the comment above it"))
}

#[test]
fn a_kernel_opens_with_its_contract() {
    let (mut findings, mut kernels) = (Vec::new(), 0);
    for source in sources().iter().filter(|source| source.is(&[".cu"])) {
        let lines: Vec<&str> = source.text.lines().collect();
        for (number, _) in
            lines.iter().enumerate().filter(|(_, line)| line.starts_with("extern \"C\" __global__"))
        {
            kernels += 1;
            if let Some(fault) = contract_fault(&lines, number) {
                findings.push(format!("{}:{}: {fault}", source.path, number + 1));
            }
        }
    }
    assert!(kernels > 10, "kernels were found");
    assert_none(&findings);
}

#[test]
fn the_contract_check_sees_what_is_missing() {
    let good = ["// k: works.", "//   in   a", "//   out  b", "//   law  b == a", "//   cost 8 B"];
    let kernel =
        ["extern \"C\" __global__ void __launch_bounds__(64)", "GROUP_NAME(k)(u32* b, const u32* a) {"];
    let fault = |without: Option<usize>| {
        let kept = good.iter().enumerate().filter(|(i, _)| Some(*i) != without).map(|(_, line)| *line);
        let lines: Vec<&str> = kept.chain(kernel).collect();
        contract_fault(&lines, lines.len() - 2)
    };
    assert_eq!(fault(None), None);
    for (line, missing) in [(0, "its name"), (2, "what comes out"), (4, "its cost")] {
        assert_eq!(fault(Some(line)), Some(format!("k has no {missing} in the comment above it")));
    }
}

#[test]
fn unsafe_has_few_doors() {
    let says_unsafe = |source: &&Source| {
        source.text.lines().any(|line| {
            let code = line.split("//").next().unwrap_or_default();
            code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe")
        })
    };
    let all = sources();
    let rust = all.iter().filter(|source| source.is(&[".rs"]) && !EXEMPT.contains(&source.path.as_str()));
    let found: BTreeSet<&str> = rust.filter(says_unsafe).map(|source| source.path.as_str()).collect();
    let allowed: BTreeSet<&str> = UNSAFE.iter().copied().collect();
    let new: Vec<_> = found.difference(&allowed).collect();
    let gone: Vec<_> = allowed.difference(&found).collect();
    assert!(new.is_empty(), "unsafe code in {new:?}: find a safe way, or add the file with a reason");
    assert!(gone.is_empty(), "no unsafe code is left in {gone:?}: take them off the list");
}

/// The numbers and the cells of a table under a heading.
fn rows(text: &str, heading: &str) -> Vec<(u32, Vec<String>)> {
    let section = text.split("\n## ").find(|section| section.starts_with(heading)).expect("the heading");
    let lines = section.lines().filter(|line| line.starts_with("| B"));
    lines
        .map(|line| {
            let cells: Vec<String> =
                line.trim_matches('|').split('|').map(|cell| cell.trim().into()).collect();
            let number: String = cells[0][1..].chars().take_while(char::is_ascii_digit).collect();
            (number.parse().expect("a row starts with its number"), cells)
        })
        .collect()
}

#[test]
fn every_case_has_its_row() {
    let text = std::fs::read_to_string(Path::new(ROOT).join("harness/cases.md")).expect("the cases");
    for (heading, expected) in CASES {
        let numbers: Vec<u32> = rows(&text, heading).iter().map(|row| row.0).collect();
        assert_eq!(numbers, expected, "{heading}");
    }
    let headings: Vec<_> = text.split("\n## ").skip(1).filter_map(|section| section.lines().next()).collect();
    assert_eq!(headings, CASES.map(|(heading, _)| heading));
    let all: BTreeSet<_> = CASES.iter().flat_map(|(_, numbers)| *numbers).collect();
    assert_eq!(all.len(), CASES.iter().map(|(_, numbers)| numbers.len()).sum::<usize>(), "each number once");
}

#[test]
fn every_test_that_a_case_names_exists() {
    let text = std::fs::read_to_string(Path::new(ROOT).join("harness/cases.md")).expect("the cases");
    let all = sources();
    let mut findings = Vec::new();
    for (number, cells) in CASES.iter().flat_map(|(heading, _)| rows(&text, heading)) {
        assert_eq!(cells.len(), 3, "row B{number}");
        // Names stand between backticks, so every other piece is one.
        let names: Vec<&str> = cells[2].split('`').skip(1).step_by(2).collect();
        if names.is_empty() && !cells[2].starts_with("cannot occur: ") {
            findings.push(format!("B{number} names no test and no reason"));
        }
        for name in names {
            let (path, function) = name.split_once("::").unwrap_or((name, ""));
            let source = all.iter().find(|source| source.path == path);
            let declared = |source: &Source| {
                let (plain, in_macro) = (format!("fn {function}("), format!("    {function}: "));
                function.is_empty() || source.text.contains(&plain) || source.text.contains(&in_macro)
            };
            if !source.is_some_and(declared) {
                findings.push(format!("B{number}: there is no {name}"));
            }
        }
    }
    assert_none(&findings);
}

/// Inline assembly is in one file, and there it computes with registers alone: it has no address, of shared memory or of
/// any other, and no source has code for some chips only.
#[test]
fn b134_assembly_is_arithmetic_in_registers() {
    const PTX: &str = "gpu-core/cuda/ptx.cuh";
    const ELSEWHERE: [&str; 8] = ["[", "ld.", "st.", "shared", "global", "local", "cvta", "%%"];
    let (mut findings, mut instructions) = (Vec::new(), 0);
    for source in sources().iter().filter(|source| source.is(&[".cu", ".cuh", ".h"])) {
        for (number, line) in source.text.lines().enumerate() {
            let place = format!("{}:{}", source.path, number + 1);
            let code = line.split("//").next().unwrap_or_default();
            let is_assembly =
                code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "asm");
            if is_assembly && source.path != PTX {
                findings.push(format!("{place}: assembly"));
            }
            if code.contains("__CUDA_ARCH__ ") {
                findings.push(format!("{place}: code for some chips"));
            }
            // In that file what stands between quotes is a part of an instruction, or what an operand must be.
            for text in code.split('"').skip(1).step_by(2).filter(|_| source.path == PTX) {
                instructions += usize::from(text.contains(".u32 "));
                if let Some(word) = ELSEWHERE.iter().find(|word| text.contains(**word)) {
                    findings.push(format!("{place}: `{word}` in `{text}`"));
                }
            }
        }
    }
    assert!(instructions > 10, "instructions were found: {instructions}");
    assert_none(&findings);
}

#[test]
fn every_file_says_what_it_is() {
    let all = sources();
    let missing: Vec<String> = all
        .iter()
        .filter(|source| {
            source.is(&[".rs"]) && !source.text.starts_with("//!") && !source.text.starts_with("#!")
        })
        .map(|source| format!("{}: no line on what it is for", source.path))
        .collect();
    assert_none(&missing);
}
