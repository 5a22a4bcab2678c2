//! Every fuzz target over its corpus, and over a bounded number of changes to it: what runs on each machine, without a
//! fuzzer. `ci/fuzz.sh` runs the same functions with coverage, for as long as one likes.
//!
//! An input that breaks a promise is written to `fuzz/artifacts`; `FUZZ_INPUT=FILE FUZZ_TARGET=NAME` runs it alone. Seeds of
//! the corpus are made here; `UPDATE_CORPUS=1` writes them.

mod circom_files;

use ark_bls12_381::{Bls12_381, Fr};
use ark_ec::AffineRepr;
use ark_ff::UniformRand;
use ark_groth16::ProvingKey;
use ark_serialize::CanonicalSerialize;
use circom_files::{Trapdoor, fixture, random_problem, write_r1cs, write_wtns, write_zkey};
use groth16::circom::json::{VerifyingKeyJson, public_text};
use groth16::{PreparedKey, Trust};
use harness::circuits::{CircuitName, Problem};
use harness::fuzz::{KEY_HEADER_BYTES, TARGETS, Target, target, unpacked_key_file};
use harness::oracle::{random_numbers, test_seed};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::RngCore;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Seed of what the corpus is made of.
const CORPUS_SEED: u64 = 0x66757a7a;
/// Bytes of all seeds that the tree may hold.
const CORPUS_BYTES_MAX: u64 = 300_000;
/// Page and places of sections of a key file.
const PAGE: usize = 4096;
const PLACES: usize = 48 + 8 * 8;

fn folder(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "fuzz", "corpus", name].iter().collect()
}

fn random(label: &str) -> ChaCha20Rng {
    random_numbers(CORPUS_SEED, label)
}

fn below(rng: &mut ChaCha20Rng, bound: usize) -> usize {
    (rng.next_u64() % bound.max(1) as u64) as usize
}

/// bellman's parameter file of a key, without the identities.
fn write_bellman(key: &ProvingKey<Bls12_381>) -> Vec<u8> {
    fn points<P: AffineRepr>(out: &mut Vec<u8>, points: &[P], has_count: bool) {
        let points: Vec<_> = points.iter().filter(|point| !point.is_zero()).collect();
        if has_count {
            out.extend((points.len() as u32).to_be_bytes());
        }
        for point in points {
            point.serialize_uncompressed(&mut *out).expect("a vector takes everything");
        }
    }
    let (out, vk) = (&mut Vec::new(), &key.vk);
    points(out, &[vk.alpha_g1, key.beta_g1], false);
    points(out, &[vk.beta_g2, vk.gamma_g2], false);
    points(out, &[key.delta_g1], false);
    points(out, &[vk.delta_g2], false);
    for query in [&vk.gamma_abc_g1, &key.h_query, &key.l_query, &key.a_query, &key.b_g1_query] {
        points(out, query, true);
    }
    points(out, &key.b_g2_query, true);
    std::mem::take(out)
}

/// A key file without what fills up its pages: what [`unpacked_key_file`] takes.
fn packed_key_file(key: &PreparedKey<'_>) -> Vec<u8> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("key");
    key.write(&path).expect("a key file");
    let file = std::fs::read(&path).expect("the key file");
    let mut packed = file[..KEY_HEADER_BYTES].to_vec();
    for place in file[PLACES..KEY_HEADER_BYTES].chunks_exact(16) {
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes")) as usize;
        let (offset, bytes) = (number(&place[..8]), number(&place[8..]));
        packed.extend(&file[offset..offset + bytes]);
    }
    assert!(file.len().is_multiple_of(PAGE) && unpacked_key_file(&packed) == file, "packing loses nothing");
    packed
}

fn built_in_profile() -> Vec<u8> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "profiles", "h200.json"].iter().collect();
    std::fs::read(path).expect("a profile")
}

const WORDS: [&str; 12] = [
    "hard",
    "on-device",
    "deferred:2",
    "graph(threaded:3)",
    "graph:deferred:4",
    "pageable",
    "ring:2:262144",
    "mimc:511",
    "sapling-output",
    "cuda:0",
    "0x70726f7665",
    "opposites",
];

/// The seeds of a target: names and bytes.
fn seeds(name: &str) -> Vec<(String, Vec<u8>)> {
    let one = |name: &str, bytes: Vec<u8>| vec![(name.to_string(), bytes)];
    let toy = || Problem::new(CircuitName::Mimc(1), CORPUS_SEED, None).expect("a toy circuit");
    let small = |rng: &mut ChaCha20Rng| random_problem(rng, 3, 2, 3);
    let rng = &mut random(name);
    match name {
        "bellman_key" => one("mimc", write_bellman(&toy().key)),
        "arkworks_key" => {
            let (mut compressed, mut plain) = (Vec::new(), Vec::new());
            toy().key.serialize_compressed(&mut compressed).expect("a vector takes everything");
            toy().key.serialize_uncompressed(&mut plain).expect("a vector takes everything");
            vec![("compressed".into(), compressed), ("uncompressed".into(), plain)]
        }
        "key_file" => {
            let problem = toy();
            let key = PreparedKey::new(&problem.key, &problem.r1cs, Trust::Checked).expect("a key");
            let trusted = PreparedKey::new(&problem.key, &problem.r1cs, Trust::Trusted).expect("a key");
            vec![("checked".into(), packed_key_file(&key)), ("trusted".into(), packed_key_file(&trusted))]
        }
        "zkey" => {
            let (r1cs, _) = small(rng);
            one("small", write_zkey(&r1cs, &Trapdoor::random(rng)))
        }
        "wtns" => vec![
            ("small".into(), write_wtns(&[Fr::from(1), Fr::from(33), Fr::rand(rng)])),
            ("circom".into(), fixture("mul.wtns")),
        ],
        "r1cs" => one("small", write_r1cs(&small(rng).0)),
        "snarkjs_json" => {
            let problem = toy();
            let json = |value: serde_json::Value| value.to_string().into_bytes();
            let key = serde_json::to_value(VerifyingKeyJson::from(&problem.key.vk)).expect("JSON");
            let public = serde_json::to_value(public_text(problem.inputs())).expect("JSON");
            vec![
                ("proof".into(), fixture("proof.json")),
                ("key".into(), json(key)),
                ("public".into(), json(public)),
            ]
        }
        "device_profile" => one("h200", built_in_profile()),
        "words" => WORDS
            .iter()
            .enumerate()
            .map(|(i, word)| (format!("word-{i}"), word.as_bytes().to_vec()))
            .collect(),
        // What makes a plan or a schedule of bytes takes any bytes.
        _ => (0..8)
            .map(|i| {
                let mut bytes = vec![0; 24 << (i / 2)];
                rng.fill_bytes(&mut bytes);
                (format!("random-{i}"), bytes)
            })
            .collect(),
    }
}

/// All files of a target's corpus: its seeds, and inputs that once broke a promise.
fn corpus(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = folder(target.name);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let read = |path: PathBuf| (std::fs::read(&path).expect("a file of the corpus"), path);
    paths.into_iter().map(read).map(|(bytes, path)| (path, bytes)).collect()
}

/// Numbers that lengths and counts are set to.
fn extreme(rng: &mut ChaCha20Rng, len: usize) -> u64 {
    let len = len as u64;
    let all = [
        0,
        1,
        len,
        len + 1,
        len.saturating_sub(1),
        1 << 31,
        1 << 32,
        (1 << 32) - 1,
        1 << 40,
        1 << 61,
        u64::MAX,
    ];
    all[below(rng, all.len())]
}

/// One change.
fn mutate(rng: &mut ChaCha20Rng, bytes: &mut Vec<u8>, other: &[u8]) {
    let len = bytes.len();
    let at = below(rng, len);
    let end = (at + 1 + below(rng, 64)).min(len);
    match below(rng, 10) {
        _ if len == 0 => bytes.extend(other),
        0 | 1 => bytes[at] ^= 1 << below(rng, 8),
        2 => bytes[at] = rng.next_u32() as u8,
        3 => bytes.truncate(at),
        4 => drop(bytes.drain(at..end)),
        5 => {
            let again = bytes[at..end].to_vec();
            bytes.splice(at..at, again);
        }
        6 => {
            // The start of one input, and the end of another.
            let from = below(rng, other.len());
            bytes.truncate(at);
            bytes.extend(&other[from.min(other.len())..]);
        }
        kind => {
            // A field of four or eight bytes, at a multiple of four more often than not.
            let width = if kind == 7 { 4 } else { 8 };
            let at = if !rng.next_u32().is_multiple_of(4) { at & !3 } else { at };
            let value = extreme(rng, len);
            let field = if rng.next_u32().is_multiple_of(2) {
                value.to_le_bytes()[..width].to_vec()
            } else {
                value.to_be_bytes()[8 - width..].to_vec()
            };
            for (byte, new) in bytes[at..].iter_mut().zip(field) {
                *byte = new;
            }
        }
    }
}

/// Runs a target, and keeps the input if it panics.
fn run(target: &Target, input: &[u8], what: &str) -> bool {
    match catch_unwind(AssertUnwindSafe(|| (target.run)(input))) {
        Ok(accepted) => accepted,
        Err(cause) => {
            let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "fuzz", "artifacts"].iter().collect();
            let path = folder.join(format!("{}-{}", target.name, blake3::hash(input).to_hex()));
            let kept = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, input));
            println!(
                "{}: {what}: input of {} bytes, kept in {}: {kept:?}",
                target.name,
                input.len(),
                path.display()
            );
            std::panic::resume_unwind(cause)
        }
    }
}

/// Every file of a corpus, every prefix of the first ones, and so many changed inputs.
fn bounded(name: &str) {
    let target = target(name);
    let seed = test_seed();
    let corpus: Vec<Vec<u8>> = corpus(target).into_iter().map(|(_, bytes)| bytes).collect();
    let mut counts = [0_u32; 2];
    let mut count = |accepted: bool| counts[usize::from(accepted)] += 1;
    for input in &corpus {
        count(run(target, input, "corpus"));
        let cuts = (0..32).map(|cut| input.len() * cut / 32).collect::<BTreeSet<_>>();
        for cut in cuts {
            count(run(target, &input[..cut], "prefix"));
        }
    }
    let mut rng = random_numbers(seed, name);
    let mut accepted = 0;
    for number in 0..target.bounded_runs {
        let mut input = corpus[below(&mut rng, corpus.len())].clone();
        for _ in 0..1 + below(&mut rng, 3) {
            let other = &corpus[below(&mut rng, corpus.len())];
            mutate(&mut rng, &mut input, other);
        }
        let is_accepted = run(target, &input, &format!("TEST_SEED={seed:#x}, input {number}"));
        count(is_accepted);
        accepted += u32::from(is_accepted);
    }
    println!("{name}: {} refused, {} accepted, {accepted} of them changed", counts[0], counts[1]);
    // Neither all nor nothing: a reader of nothing would keep all promises too.
    assert!(counts.iter().all(|count| *count > 0), "{name}: {counts:?}");
}

macro_rules! bounded_runs {
    ($($name:ident),*) => {
        $(
            #[test]
            fn $name() {
                bounded(stringify!($name));
            }
        )*

        const BOUNDED: &[&str] = &[$(stringify!($name)),*];
    };
}

bounded_runs!(
    bellman_key,
    arkworks_key,
    key_file,
    zkey,
    wtns,
    r1cs,
    snarkjs_json,
    device_profile,
    words,
    msm_plan,
    ntt_plan,
    proof_plan,
    checker,
    checker_any
);

#[test]
fn every_target_has_a_bounded_run_and_a_program() {
    let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(names, BOUNDED);
    let manifest = include_str!("../../fuzz/Cargo.toml");
    for name in names {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../fuzz/fuzz_targets/{name}.rs"));
        let text = std::fs::read_to_string(&source).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(text.contains(&format!("target(\"{name}\")")), "{name}");
        assert!(manifest.contains(&format!("\nname = \"{name}\"\n")), "{name}");
    }
}

#[test]
fn the_corpus_is_what_this_program_makes() {
    let is_update = std::env::var("UPDATE_CORPUS").is_ok_and(|value| value == "1");
    let mut total = 0;
    for target in TARGETS {
        for (name, bytes) in seeds(target.name) {
            let path = folder(target.name).join(&name);
            if is_update {
                std::fs::create_dir_all(folder(target.name)).expect("a folder of the corpus");
                std::fs::write(&path, &bytes).expect("a file of the corpus");
            }
            let found = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(found == bytes, "{}: not what is made; UPDATE_CORPUS=1 writes it", path.display());
            let takes_any = name.starts_with("random");
            assert!(takes_any || (target.run)(&bytes), "{} {name}: a seed is accepted", target.name);
        }
        total += corpus(target).iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
    }
    println!("{total} bytes");
    assert!(total < CORPUS_BYTES_MAX, "{total} bytes of corpus");
}

#[test]
fn an_input_that_was_kept_runs_alone() {
    let (Ok(path), Ok(name)) = (std::env::var("FUZZ_INPUT"), std::env::var("FUZZ_TARGET")) else {
        return println!("no FUZZ_INPUT and FUZZ_TARGET");
    };
    let input = std::fs::read(&path).expect("the input");
    println!("{name}: accepted: {}", (target(&name).run)(&input));
}
