//! What a person has read once, in `golden/snapshots`: schedules, plans, and the bytes of proofs. A change shows what it
//! does to them in the review of that change.

#[path = "common/golden.rs"]
mod golden;
mod support;

use ark_serialize::CanonicalSerialize;
use golden::{Snapshot, Snapshots, assert_folder};
use gpu_core::Schedule;
use gpu_core::check::check;
use groth16::{Proof, ProofPlan, ProveConfig, Prover, Shape, Trust, Upload, Zkey};
use harness::circuits::{CircuitName, Problem, constraints};
use harness::oracle::random_numbers;
use harness::prove::{blinding, proof_by_arkworks};
use msm_gpu::{
    BaseSet, Batches, DeviceLimits, Goal, GroupKind, MsmConfig, MsmPlan, PlanError, ResultMemory, ScalarForm,
    Strategy, Table,
};
use ntt_gpu::{Direction, NttConfig, NttPlan, OrderKind, Shift, Transform};
use serde_json::json;
use std::collections::BTreeSet;

/// Every folder of `golden/snapshots`, each of one test.
const FOLDERS: [&str; 5] = ["plans", "proofs", "resources", "sapling", "schedules"];

/// Seed of the circuits' values and of the blinding numbers.
const SEED: u64 = 1;

/// A small device: enough for tables that can be read.
const SMALL: DeviceLimits =
    DeviceLimits { free_bytes: 1 << 30, resident_threads: 4096, costs: msm_gpu::Costs::SM_90 };
/// An H200.
const H200: DeviceLimits =
    DeviceLimits { free_bytes: 139 << 30, resident_threads: 132 * 2048, costs: msm_gpu::Costs::SM_90 };

/// Sizes of a circuit.
fn shape(name: CircuitName) -> Shape {
    let (r1cs, _) = constraints(name, &mut random_numbers(SEED, "shape")).expect("constraints");
    Shape::of(&r1cs)
}

fn table(schedule: &Schedule) -> String {
    format!("{schedule}checker: {}\n", check(schedule))
}

/// One buffer to four, and the strategy that has no ring.
fn strategies() -> Vec<Strategy> {
    let rings = (2..=4).flat_map(|buffers| [Strategy::Deferred { buffers }, Strategy::Threaded { buffers }]);
    [Strategy::Hard, Strategy::OnDevice].into_iter().chain(rings).collect()
}

/// Small, and enough for eight batches of different lengths. A pattern with graphs has the table of its strategy: graphs
/// change how a schedule runs, not what it is.
fn msm_schedules(snapshots: &mut Snapshots) {
    for batches in [1, 2, 3, 8] {
        for strategy in strategies() {
            let memories = match strategy {
                Strategy::Deferred { buffers: 2 } => vec![ResultMemory::Pinned, ResultMemory::Pageable],
                _ => vec![ResultMemory::Pinned],
            };
            for result_memory in memories {
                let config = MsmConfig { strategy, result_memory, ..MsmConfig::batches(batches) };
                let form = ScalarForm::Montgomery;
                let plan = MsmPlan::new(GroupKind::G1, form, 27, &config, &SMALL).expect("a plan");
                let name = format!("msm-{strategy}-{result_memory}-batches-{batches}").replace(':', "-");
                let what = format!("a product in G1: {batches} batches, {strategy}, results {result_memory}");
                snapshots.insert(name, Snapshot::new(what, table(&msm_gpu::schedule::build(&plan))));
            }
        }
    }
}

fn other_schedules(snapshots: &mut Snapshots) {
    let config = MsmConfig::batches(2);
    let plan = MsmPlan::new(GroupKind::G2, ScalarForm::Canonical, 27, &config, &SMALL).expect("a plan");
    let what = "a product in G2: canonical scalars";
    let snapshot = Snapshot::new(what, table(&msm_gpu::schedule::build(&plan)));
    snapshots.insert("msm-g2-canonical-batches-2".into(), snapshot);

    let rounds = MsmConfig { pair_rounds: Some(2), partitioned: Some(true), ..MsmConfig::batches(2) };
    let columns = Table { window_bits: 6, columns: 3 };
    let on_device = MsmConfig { strategy: Strategy::OnDevice, ..MsmConfig::batches(3) };
    for (name, what, bases, config) in [
        (
            "msm-rounds-table-batches-2",
            "two rounds of pairs, partitions, a table of three columns",
            BaseSet { table: Some(columns), ..27.into() },
            rounds,
        ),
        (
            "msm-streamed-deferred-2-batches-3",
            "bases from the host",
            BaseSet::streamed(27),
            MsmConfig::batches(3),
        ),
        (
            "msm-streamed-on-device-batches-3",
            "bases from the host, buckets that stay",
            BaseSet::streamed(27),
            on_device,
        ),
    ] {
        let form = ScalarForm::Montgomery;
        let plan = MsmPlan::new(GroupKind::G1, form, bases, &config, &SMALL).expect("a plan");
        let what = format!("a product in G1: {what}");
        snapshots.insert(name.into(), Snapshot::new(what, table(&msm_gpu::schedule::build(&plan))));
    }
    let resident = MsmPlan::new(GroupKind::G1, ScalarForm::Montgomery, 27, &MsmConfig::batches(2), &SMALL);
    let schedule = msm_gpu::schedule::build_resident(&resident.expect("a plan"));
    let snapshot = Snapshot::new("a product in G1: scalars on the device", table(&schedule));
    snapshots.insert("msm-resident-batches-2".into(), snapshot);

    let plan = NttPlan::new(22, 1, &NttConfig::default()).expect("a plan");
    let coset = Transform::coset(Direction::Forward, OrderKind::BitReversed, Shift::generator());
    for (name, transform) in [
        ("ntt-log-22-forward", Transform::plain(Direction::Forward, OrderKind::Natural)),
        ("ntt-log-22-coset", coset),
    ] {
        let schedule = ntt_gpu::schedule::transform(&plan, &transform);
        snapshots
            .insert(name.into(), Snapshot::new(format!("one transform, {transform:?}"), table(&schedule)));
    }

    let output = shape(CircuitName::SaplingOutput);
    for (upload, name) in [
        (Upload::Pageable, "pageable"),
        (Upload::Register, "register"),
        (Upload::Ring { slots: 2, chunk: 3000 }, "ring"),
    ] {
        let config = ProveConfig { upload, ..ProveConfig::default() };
        let plan = ProofPlan::new(&output, &config, &H200).expect("a plan");
        let what = format!("a whole proof of Sapling's Output, upload {upload}");
        let snapshot = Snapshot::new(what, table(&groth16::schedule::build(&plan)));
        snapshots.insert(format!("proof-sapling-output-{name}"), snapshot);
    }

    let zkey = include_bytes!("../../golden/circom/mul.zkey");
    let zkey = Zkey::read(zkey, Trust::Trusted).expect("a key");
    let plan = ProofPlan::new(zkey.shape(), &ProveConfig::default(), &H200).expect("a plan");
    let what = "a whole proof under a key of snarkjs: no verdict, no top coefficient";
    let snapshot = Snapshot::new(what, table(&groth16::schedule::build(&plan)));
    snapshots.insert("proof-snarkjs-mul".into(), snapshot);
}

#[test]
fn schedules_are_those_that_were_read() {
    let mut snapshots = Snapshots::new();
    msm_schedules(&mut snapshots);
    other_schedules(&mut snapshots);
    let unsafe_one = snapshots.iter().find(|(_, snapshot)| !snapshot.text.contains("checker: no hazards"));
    assert!(unsafe_one.is_none(), "{unsafe_one:?}");
    assert_folder("schedules", &snapshots);
}

/// With sorted members, whatever the order that serde_json was built to keep.
fn pretty(mut value: serde_json::Value) -> String {
    value.sort_all_objects();
    serde_json::to_string_pretty(&value).expect("plain data")
}

fn msm_plan(group: GroupKind, log_n: u32, config: &MsmConfig, limits: &DeviceLimits) -> serde_json::Value {
    match MsmPlan::new(group, ScalarForm::Montgomery, 1 << log_n, config, limits) {
        Ok(plan) => json!({
            "limits": limits,
            "config": config,
            "plan": plan,
            "device_bytes": plan.device_bytes(),
            "batch_len_max": plan.batch_len_max(),
            "entries_max": plan.entries_max(),
            "accumulate_threads_max": plan.accumulate_threads(plan.batch_len_max()),
            "bucket_total": plan.bucket_total(),
            "lines_total": plan.lines_total(),
            "rows_total": plan.rows_total(),
        }),
        Err(error @ PlanError::OutOfMemory { .. }) => json!({
            "limits": limits,
            "config": config,
            "error": error.to_string(),
        }),
        Err(error) => panic!("{error}"),
    }
}

/// What the costs of an H200 choose for products of every size: bits of a window, rounds of pairs, entries a thread; with a
/// table, its columns too. Nothing else notices that a change of costs makes products slower.
fn choices() -> String {
    let plan_of = |group, bases: BaseSet, config: &MsmConfig| {
        let plan = MsmPlan::new(group, ScalarForm::Montgomery, bases, config, &H200).expect("a plan");
        let columns = plan.table().map(|table| format!(" {:>2}", table.columns)).unwrap_or_default();
        format!("{:>2}{columns} {} {:>3}", plan.window_bits, plan.pair_rounds, plan.entries_per_thread)
    };
    let one = MsmConfig::batches(1);
    let on_device = MsmConfig { strategy: Strategy::OnDevice, ..MsmConfig::batches(8) };
    let of_proof = MsmConfig { goal: Goal::BesideOthers, ..one };
    let ways = ["a batch", "8 batches", "on-device", "in a proof", "table", "of 4 x the bases"];
    let mut text = format!("bits [columns] rounds entries: {}\n", ways.join(" | "));
    for group in [GroupKind::G1, GroupKind::G2] {
        for log_n in 4..=26 {
            let count = 1_u64 << log_n;
            let mut row = vec![format!("{} 2^{log_n:<2}", group.word())];
            let configs = [&one, &MsmConfig::batches(8), &on_device, &of_proof];
            row.extend(configs.map(|config| plan_of(group, count.into(), config)));
            for bytes in [100 << 30, 4 * count * group.affine_bytes()] {
                let table = Table::within(group, count, bytes, None, &H200);
                row.push(plan_of(group, BaseSet { table, ..count.into() }, &one));
            }
            text += &(row.join(" | ") + "\n");
        }
    }
    text
}

#[test]
fn plans_are_those_that_were_read() {
    let mut snapshots = Snapshots::new();
    snapshots.insert("choices-h200".into(), Snapshot::new("what costs choose for each size", choices()));
    let fit = MsmConfig { batches: Batches::FitBytes(1 << 30), ..MsmConfig::default() };
    let wide = MsmConfig { window_bits: Some(20), strategy: Strategy::Hard, ..MsmConfig::default() };
    for (name, group, log_n, config, limits) in [
        ("msm-g1-log-10", GroupKind::G1, 10, MsmConfig::default(), SMALL),
        ("msm-g1-log-20-batches-4", GroupKind::G1, 20, MsmConfig::batches(4), H200),
        ("msm-g1-log-24-fit-1-GiB", GroupKind::G1, 24, fit, H200),
        ("msm-g1-log-26-batches-8", GroupKind::G1, 26, MsmConfig::batches(8), H200),
        ("msm-g2-log-20", GroupKind::G2, 20, MsmConfig::default(), H200),
        ("msm-g2-log-22-window-20", GroupKind::G2, 22, wide, H200),
        ("msm-g2-log-22-too-large", GroupKind::G2, 22, wide, SMALL),
    ] {
        let text = pretty(msm_plan(group, log_n, &config, &limits));
        snapshots.insert(name.into(), Snapshot::new("sizes of a product", text));
    }
    for (log_n, jobs) in [(0, 1), (1, 3), (10, 1), (11, 1), (13, 3), (20, 1), (24, 3), (32, 1)] {
        let plan = NttPlan::new(log_n, jobs, &NttConfig::default()).expect("a plan");
        let tiles: Vec<u64> = plan.passes.iter().map(|pass| plan.tiles(pass)).collect();
        let text = pretty(json!({ "plan": plan, "data_bytes": plan.data_bytes(), "tiles": tiles }));
        snapshots
            .insert(format!("ntt-log-{log_n}-jobs-{jobs}"), Snapshot::new("passes of a transform", text));
    }
    for name in [CircuitName::SaplingOutput, CircuitName::SaplingSpend] {
        let shape = shape(name);
        let plan = ProofPlan::new(&shape, &ProveConfig::default(), &H200).expect("a plan");
        let text = json!({
            "plan": plan,
            "resident_bytes": shape.resident_bytes(),
            "device_bytes": plan.device_bytes(),
        });
        snapshots.insert(format!("proof-{name}"), Snapshot::new("sizes of a proof", pretty(text)));
    }
    assert_folder("plans", &snapshots);
}

fn hex(bytes: &impl CanonicalSerialize) -> String {
    let mut found = Vec::new();
    bytes.serialize_compressed(&mut found).expect("a vector takes all bytes");
    found.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a proof by its points, and the inputs that it is for.
fn proof_snapshot(problem: &Problem, proof: &Proof) -> Snapshot {
    let (a, b, c) = (hex(&proof.a), hex(&proof.b), hex(&proof.c));
    let inputs: String = problem.inputs().iter().map(|input| format!("input {}\n", hex(input))).collect();
    let what = format!("{}, seed {SEED}: compressed points, inputs little-endian", problem.name);
    Snapshot::new(what, format!("a     {a}\nb     {b}\nc     {c}\n{inputs}"))
}

/// arkworks' proof, and that devices make the same.
fn proof(problem: &Problem, on_sim: bool) -> Snapshot {
    let [(r, s)] = blinding(SEED, problem.name, 1)[..] else { unreachable!("one pair was asked for") };
    let expected = proof_by_arkworks(problem, r, s).expect("arkworks proves");
    let devices = if on_sim { support::devices() } else { support::cuda() };
    for device in devices {
        let prover = Prover::new(&device, &problem.key, &problem.r1cs).expect("a prover");
        let proof = prover.prove_with(&problem.assignment, r, s).expect("a proof");
        assert_eq!(proof, expected, "{} on {}", problem.name, device.info().id);
    }
    proof_snapshot(problem, &expected)
}

#[test]
fn proofs_of_toy_circuits_are_those_of_yesterday() {
    let mut snapshots = Snapshots::new();
    for rounds in [1, 7, 100] {
        let problem = Problem::new(CircuitName::Mimc(rounds), SEED, None).expect("a problem");
        snapshots.insert(format!("mimc-{rounds}"), proof(&problem, true));
    }
    assert_folder("proofs", &snapshots);
}

/// The proofs over Zcash's keys. A Spend takes the simulated device long: it is made there only if
/// `GOLDEN_SPEND_ON_SIM=1`, and by arkworks and every CUDA device always.
#[cfg(feature = "sapling-keys")]
#[test]
fn proofs_over_zcash_s_keys_are_those_of_yesterday() {
    let spend_on_sim = std::env::var("GOLDEN_SPEND_ON_SIM").is_ok_and(|value| value == "1");
    let mut snapshots = Snapshots::new();
    for (name, on_sim) in [(CircuitName::SaplingOutput, true), (CircuitName::SaplingSpend, spend_on_sim)] {
        let problem = Problem::new(name, SEED, None).expect("a problem");
        snapshots.insert(name.to_string(), proof(&problem, on_sim));
    }
    assert_folder("sapling", &snapshots);
}

#[test]
fn every_folder_has_a_test() {
    if golden::is_update() {
        return println!("skipped: folders may just be made");
    }
    let folder = golden::folder("");
    let found: BTreeSet<String> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a folder").file_name().into_string().expect("names are text"))
        .collect();
    assert_eq!(found, FOLDERS.map(String::from).into(), "what is in {}", folder.display());
}

/// A comparison that passes does so again; what is missing, changed or left over is a failure that says so.
#[test]
fn b130_snapshots_fail_in_words_and_are_never_accepted_unseen() {
    if golden::is_update() {
        return println!("skipped: INSTA_UPDATE accepts every change");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("one.snap");
    std::fs::write(&path, "---\nsource: a test\n---\nfirst\nsecond\n").expect("it can be written");
    let snapshots = |text: &str| Snapshots::from([("one".to_string(), Snapshot::new("two lines", text))]);
    let compare = |text: &str| golden::compare(folder.path(), &snapshots(text));
    for _ in 0..2 {
        compare("first\nsecond\n").expect("it is as it was");
    }
    let error = compare("first\nthird\n").expect_err("it differs");
    assert!(error.contains("one.snap differs") && error.contains("golden/regenerate.sh"), "{error}");
    compare("first\nsecond\n").expect("a failure accepts nothing");
    for name in ["two.snap", "one.snap.bin"] {
        let other = folder.path().join(name);
        std::fs::write(&other, "").expect("it can be written");
        let error = compare("first\nsecond\n").expect_err("there is a file too many");
        assert!(error.contains(&format!("{name} is a file that no test makes")), "{error}");
        std::fs::remove_file(other).expect("it can be removed");
    }
    std::fs::remove_file(&path).expect("it can be removed");
    let error = compare("first\nsecond\n").expect_err("there is nothing");
    assert!(error.contains("one.snap is not there") && error.contains("golden/regenerate.sh"), "{error}");
    assert!(!path.exists(), "nothing is accepted because nobody looked");
}
