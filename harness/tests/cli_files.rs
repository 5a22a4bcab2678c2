//! The commands that take a user's files, as a user runs them: proofs of snarkjs' form, verification, inspection; and what
//! the program says of the machine and of its own command line.

mod circom_files;

use ark_bls12_381::Fr;
use ark_ff::{BigInteger, PrimeField};
use ark_serialize::{CanonicalSerialize, Compress};
use circom_files::{fixture, fixture_path, random_problem, write_r1cs, write_wtns};
use groth16::{PreparedKey, Trust};
use harness::circuits::{CircuitName, Problem};
use harness::oracle::random_numbers;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn harness() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
    command.env_remove("RUST_LOG").env_remove("NO_COLOR");
    command
}

fn run(args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = harness().args(args).output().expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program prints text");
    (status.code().expect("the program ends by itself"), text(stdout), text(stderr))
}

/// A directory that goes with the test.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("temporary paths are text").into()
    }

    fn write(&self, name: &str, bytes: &[u8]) -> String {
        std::fs::write(self.path(name), bytes).expect("a file");
        self.path(name)
    }
}

fn golden(name: &str) -> String {
    fixture_path(name).to_str().expect("the path is text").into()
}

fn json(path: &str) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON")
}

#[test]
fn a_zkey_and_a_witness_give_files_that_verify() {
    let scratch = Scratch::new();
    let [out, report, again] = ["proofs/mul", "report.json", "again"].map(|name| scratch.path(name));
    let (zkey, wtns, r1cs) = (golden("mul.zkey"), golden("mul.wtns"), golden("mul.r1cs"));
    let files = ["--zkey", &zkey, "--witness", &wtns, "--device", "sim"];
    let more = ["--r1cs", &r1cs, "--compare", "--runs", "2", "--out", &out, "--json", &report];
    let (code, text, err) = run(&[&["prove"], &files[..], &more].concat());
    assert_eq!(code, 0, "{text}\n{err}");
    for words in [
        "mul.zkey on sim, key from snarkjs;",
        "200 constraints, 3 inputs, 203 variables",
        "arkworks accepts",
        "zkcrypto accepts",
        "equal: the 192 bytes of snarkjs' rules in arkworks' arithmetic",
    ] {
        assert!(text.contains(words), "{words} in\n{text}");
    }
    let report = json(&report);
    assert_eq!(report["seed"], Value::Null, "the blinding numbers are the system's");
    assert_eq!(report["proofs"][0]["shape"]["reduction"], "snarkjs");
    let (proof, public) = (format!("{out}/proof.json"), format!("{out}/public.json"));
    assert_eq!(json(&public), json(&golden("public.json")));
    assert_eq!((&json(&proof)["protocol"], &json(&proof)["curve"]), (&"groth16".into(), &"bls12381".into()));
    for key in [golden("mul.zkey"), golden("verification_key.json")] {
        let (code, text, err) = run(&["verify", "--proof", &proof, "--key", &key, "--public", &public]);
        assert_eq!(code, 0, "{text}\n{err}");
    }
    // Blinded anew, it is another proof; with a seed it is the same one each time.
    run(&[&["prove"], &files[..], &["--out", &again]].concat());
    assert_ne!(json(&format!("{again}/proof.json")), json(&proof));
    let seeded = || {
        run(&[&["prove"], &files[..], &["--out", &again, "--seed", "7"]].concat());
        json(&format!("{again}/proof.json"))
    };
    assert_eq!(seeded(), seeded());
}

#[test]
fn what_is_no_problem_of_snarkjs_says_why() {
    let scratch = Scratch::new();
    let rng = &mut random_numbers(3, "cli files");
    let (r1cs, assignment) = random_problem(rng, 5, 2, 5);
    let other_r1cs = scratch.write("other.r1cs", &write_r1cs(&r1cs));
    let other_wtns = scratch.write("other.wtns", &write_wtns(&assignment));
    let (zkey, wtns, r1cs) = (golden("mul.zkey"), golden("mul.wtns"), golden("mul.r1cs"));
    // The value of s[100], in the middle of the file.
    let mut bytes = fixture("mul.wtns");
    bytes[76 + 32 * 103] ^= 1;
    let wrong = scratch.write("wrong.wtns", &bytes);
    let cut = scratch.write("cut.zkey", &fixture("mul.zkey")[..100_000]);
    let prove =
        |more: &[&str]| run(&[&["prove", "--device", "sim", "--out", &scratch.path("out")], more].concat());
    for (args, expected, words) in [
        (&["--zkey", &zkey][..], 2, "--witness"),
        (&["--witness", &wtns], 2, "--zkey"),
        (&["--zkey", &zkey, "--witness", &wtns, "--circuit", "mimc:3"], 2, "cannot be used with"),
        (&["--zkey", "/nowhere.zkey", "--witness", &wtns], 4, "/nowhere.zkey: "),
        (&["--zkey", &wtns, "--witness", &wtns], 4, "not a .zkey file: it starts with \"wtns\""),
        (&["--zkey", &cut, "--witness", &wtns], 4, "cut.zkey: l_query (section 8)"),
        (&["--zkey", &zkey, "--witness", &other_wtns], 4, "7 values, and the key is for a circuit of 203"),
        (&["--zkey", &zkey, "--witness", &wtns, "--r1cs", &other_r1cs], 4, "circuit of other sizes"),
        (&["--zkey", &zkey, "--witness", &wrong, "--r1cs", &r1cs], 4, "constraint 99 is not satisfied"),
        (&["--zkey", &zkey, "--witness", &wrong], 1, "does not verify"),
    ] {
        let (code, text, err) = prove(args);
        assert_eq!(code, expected, "{args:?}: {text}\n{err}");
        assert!(err.contains(words), "{words} in {err}");
        assert!(!err.contains("panicked") && !Path::new(&scratch.path("out")).exists(), "{err}");
    }
}

/// One proof under its key in every form that there is.
#[test]
fn a_proof_verifies_under_keys_of_every_kind() {
    let scratch = Scratch::new();
    let [proof, public, report] = ["proof", "public.json", "report.json"].map(|name| scratch.path(name));
    let made =
        run(&["prove", "--circuit", "mimc:7", "--device", "sim", "--out", &proof, "--public", &public]);
    assert_eq!(made.0, 0, "{made:?}");
    let problem = Problem::new(CircuitName::Mimc(7), 0x70_726f_7665, None).expect("something to prove");
    let write = |name: &str, item: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = Vec::new();
        item(&mut bytes);
        scratch.write(name, &bytes)
    };
    let ark = |compress, name: &str| {
        write(name, &|bytes| problem.key.serialize_with_mode(bytes, compress).expect("a vector takes all"))
    };
    let vk = write("vk", &|bytes| problem.key.vk.serialize_compressed(bytes).expect("a vector takes all"));
    let vk_json = groth16::circom::json::VerifyingKeyJson::from(&problem.key.vk);
    let vk_json = scratch.write("vk.json", &serde_json::to_vec(&vk_json).expect("JSON"));
    let key_file = scratch.path("key");
    let prepared = PreparedKey::new(&problem.key, &problem.r1cs, Trust::Trusted).expect("a key");
    prepared.write(Path::new(&key_file)).expect("a key file");
    let keys = [ark(Compress::Yes, "compressed"), ark(Compress::No, "plain"), vk, vk_json, key_file];
    for key in &keys {
        let args = ["verify", "--proof", &proof, "--key", key, "--public", &public, "--json", &report];
        let (code, text, err) = run(&args);
        assert_eq!(code, 0, "{key}: {text}\n{err}");
        assert_eq!((&json(&report)["accepted"], &json(&report)["public_count"]), (&true.into(), &1.into()));
    }
    let circuit = ["verify", "--proof", &proof, "--circuit", "mimc:7", "--public", &public];
    assert_eq!(run(&circuit).0, 0);
    // Another seed's key refuses it, and says so.
    let (code, text, _) = run(&[&circuit[..], &["--seed", "1"]].concat());
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("arkworks REFUSES") && text.contains("zkcrypto REFUSES"), "{text}");
}

/// B65, B66: how many public inputs, and each in one form; and proofs that are none.
#[test]
fn b65_verification_is_strict() {
    let scratch = Scratch::new();
    let key = golden("verification_key.json");
    let texts: Vec<String> = serde_json::from_slice(&fixture("public.json")).expect("JSON");
    let public =
        |name: &str, texts: &[String]| scratch.write(name, &serde_json::to_vec(texts).expect("JSON"));
    let mut alias = texts.clone();
    let mut seven_and_r = Fr::MODULUS;
    seven_and_r.add_with_carry(&7_u64.into());
    alias[1] = seven_and_r.to_string();
    let mut other = texts.clone();
    other[1] = "8".into();
    let more = [&texts[..], &["1".into()]].concat();
    let proof = golden("proof.json");
    let mut swapped = json(&proof);
    let a = swapped["pi_a"].clone();
    swapped["pi_c"] = a;
    let swapped = scratch.write("swapped.json", swapped.to_string().as_bytes());
    let short = scratch.write("short", &[0x80; 191]);
    let good = public("good.json", &texts);
    for (proof, public, expected, words) in [
        (&proof, &good, 0, "arkworks accepts"),
        (&proof, &public("less.json", &texts[..1]), 4, "1 public inputs, and the key is for 2"),
        (&proof, &public("more.json", &more), 4, "3 public inputs, and the key is for 2"),
        (&proof, &public("alias.json", &alias), 4, "public input 1: not a canonical"),
        (&proof, &public("other.json", &other), 1, "arkworks REFUSES"),
        (&swapped, &good, 1, "zkcrypto REFUSES"),
        (&short, &good, 4, "neither JSON nor 192 bytes"),
        (&proof, &golden("mul.wtns"), 4, "mul.wtns: "),
    ] {
        let (code, text, err) = run(&["verify", "--proof", proof, "--key", &key, "--public", public]);
        assert_eq!(code, expected, "{proof} {public}: {text}\n{err}");
        assert!(format!("{text}{err}").contains(words), "{words} in {text}{err}");
        assert!(!err.contains("panicked"), "{err}");
    }
    let wrong_kind = run(&["verify", "--proof", &proof, "--key", &golden("mul.r1cs"), "--public", &good]);
    assert!(wrong_kind.0 == 4 && wrong_kind.2.contains("needed is a key"), "{wrong_kind:?}");
    let no_key = scratch.write("no-key", b"these bytes are no key at all");
    let unknown = run(&["verify", "--proof", &proof, "--key", &no_key, "--public", &good]);
    assert!(unknown.0 == 4 && unknown.2.contains("As a key of arkworks"), "{unknown:?}");
    assert_eq!(run(&["verify", "--proof", &proof, "--public", &good]).0, 2, "no key at all");
}

#[test]
fn inspect_tells_every_kind_of_file() {
    let scratch = Scratch::new();
    let report = scratch.path("report.json");
    let inspect = |file: &str, more: &[&str]| {
        let (code, text, err) = run(&[&["inspect", file, "--json", &report], more].concat());
        assert_eq!(code, 0, "{file}: {text}\n{err}");
        (text, json(&report))
    };
    let wtns = golden("mul.wtns");
    let (text, zkey) = inspect(&golden("mul.zkey"), &["--witness", &wtns, "--batches", "3"]);
    for words in
        ["200 constraints of 400 terms", "reduction of snarkjs", "deferred:2", "on-device", "witness: 203"]
    {
        assert!(text.contains(words), "{words} in\n{text}");
    }
    assert_eq!(zkey["kind"], "zkey");
    assert_eq!((&zkey["values"]["count"], &zkey["values"]["ones"]), (&203.into(), &1.into()));
    let memory = zkey["memory"].as_array().expect("rows");
    assert_eq!(memory.len(), harness::EVERY_STRATEGY.len());
    for row in memory {
        // 203 variables and 256 values of h, each with a base of 96 bytes, and more.
        assert!(
            row["resident_bytes"].as_u64() > Some(96 * (2 * 203 + 256)) && row["error"].is_null(),
            "{row}"
        );
        assert!(row["device_bytes"].as_u64() > Some(0) && row["pinned_bytes"].as_u64() > Some(0), "{row}");
    }
    let query = |report: &Value, name: &str| -> (u64, u64) {
        let queries = report["queries"].as_array().expect("queries");
        let query = queries.iter().find(|query| query["name"] == name).expect("the query");
        (query["points"].as_u64().expect("a count"), query["identities"].as_u64().expect("a count"))
    };
    let (_, r1cs) = inspect(&golden("mul.r1cs"), &[]);
    assert_eq!((&r1cs["kind"], &r1cs["shape"]["constraint_count"]), (&"r1cs".into(), &200.into()));
    // What the constraints foretell is what the key has.
    for name in ["a_query", "b_g1_query", "b_g2_query"] {
        assert_eq!(query(&r1cs, name), query(&zkey, name), "{name}");
    }
    let (text, values) = inspect(&wtns, &[]);
    assert!(text.contains("witness: 203 values") && !text.contains("memory"), "{text}");
    assert_eq!(values["values"], zkey["values"]);

    let problem = Problem::new(CircuitName::Mimc(7), 5, None).expect("something to prove");
    let mut bytes = Vec::new();
    problem.key.serialize_compressed(&mut bytes).expect("a vector takes all bytes");
    let (text, ark) = inspect(&scratch.write("ark", &bytes), &[]);
    assert!(
        text.contains("key of arkworks, compressed") && text.contains("constraints not in the file"),
        "{text}"
    );
    let key_file = scratch.path("key");
    let prepared = PreparedKey::new(&problem.key, &problem.r1cs, Trust::Trusted).expect("a key");
    prepared.write(Path::new(&key_file)).expect("a key file");
    let (_, ours) = inspect(&key_file, &[]);
    assert_eq!(ours["shape"]["constraint_count"], 14);
    for name in ["a_query", "b_g1_query", "b_g2_query", "l_query", "h_query", "gamma_abc_g1"] {
        assert_eq!(query(&ark, name), query(&ours, name), "{name}");
    }
    let mut vk = Vec::new();
    problem.key.vk.serialize_uncompressed(&mut vk).expect("a vector takes all bytes");
    assert!(inspect(&scratch.write("vk", &vk), &[]).0.contains("a verifying key"));
}

#[test]
#[cfg(feature = "sapling-keys")]
fn inspect_shows_the_densities_of_zcash_s_key() {
    let scratch = Scratch::new();
    let (_, output) = wagyu_zcash_parameters::load_sapling_parameters();
    let report = scratch.path("report.json");
    let file = scratch.write("sapling-output.params", &output);
    let (code, text, err) = run(&["inspect", &file, "--json", &report]);
    assert_eq!(code, 0, "{text}\n{err}");
    assert!(text.contains("parameters of bellman") && text.contains("domain 2^13"), "{text}");
    let report = json(&report);
    // 7 827 variables, of which 6 inputs; densities as published with the circuit's sizes.
    assert_eq!(report["queries"][0]["identities"], 7_821 - 6_292);
    assert_eq!(report["queries"][1]["identities"], 7_827 - 4_850);
}

#[test]
fn what_cannot_be_inspected_says_why() {
    let scratch = Scratch::new();
    let noise = scratch.write("noise", &[0x17; 2000]);
    let empty = scratch.write("empty", b"");
    let cut = scratch.write("cut.r1cs", &fixture("mul.r1cs")[..5000]);
    let (json, zkey) = (golden("proof.json"), golden("mul.zkey"));
    let rng = &mut random_numbers(3, "cli files");
    let other = scratch.write("other.wtns", &write_wtns(&random_problem(rng, 5, 2, 5).1));
    for (args, words) in [
        (&[&noise[..]][..], "noise: neither a key, a witness nor constraints"),
        (&[&empty], "empty: neither a key"),
        (&["/nowhere"], "/nowhere: "),
        (&[&cut], "cut.r1cs: constraints (section 2): 31200 bytes needed"),
        (&[&json], "in binary form"),
        (&[&zkey, "--witness", &other], "7 values, and the circuit has 203 variables"),
    ] {
        let (code, _, err) = run(&[&["inspect"], args].concat());
        assert_eq!(code, 4, "{args:?}: {err}");
        assert!(err.contains(words) && !err.contains("panicked"), "{words} in {err}");
    }
}

#[test]
fn the_doctor_needs_no_gpu_and_says_how_to_get_one() {
    let scratch = Scratch::new();
    let report = scratch.path("report.json");
    let cache: PathBuf = scratch.path("cache").into();
    let mut command = harness();
    command
        .args(["doctor", "--json", &report])
        .env("CUDA_VISIBLE_DEVICES", "")
        .env("GPU_GROTH16_CACHE", &cache);
    let output = command.output().expect("the program starts");
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(0), "{text}");
    let report = json(&report);
    let findings = report["findings"].as_array().expect("findings");
    let finding = |part: &str| findings.iter().find(|finding| finding["part"] == part).expect("the part");
    for part in
        ["program", "processor", "simulated device", "driver", "NVRTC", "kernel cache", "memory locks"]
    {
        assert!(text.contains(part) && finding(part)["found"].as_str().is_some(), "{part} in\n{text}");
    }
    assert_eq!(finding("simulated device")["state"], "good");
    // Hidden, or not there: either way there is something to do.
    assert_eq!(finding("driver")["state"], "missing");
    assert!(finding("driver")["mend"].as_str().is_some());
    let found = finding("kernel cache")["found"].as_str().expect("text");
    assert!(found.starts_with(cache.to_str().expect("text")) && cache.join("kernels").is_dir(), "{found}");
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let (code, script, err) = run(&["completions", shell]);
        assert_eq!(code, 0, "{shell}: {err}");
        for word in ["harness", "inspect", "doctor", "zkey"] {
            assert!(script.contains(word), "{word} for {shell}");
        }
    }
    let (code, _, err) = run(&["completions", "csh"]);
    assert_eq!(code, 2, "{err}");
}

#[test]
fn every_new_command_has_help_with_the_exit_codes() {
    for command in ["prove", "verify", "inspect", "doctor", "completions"] {
        let (code, text, _) = run(&[command, "--help"]);
        assert_eq!(code, 0, "{command}");
        for exit_code in 0..=4 {
            assert!(text.contains(&format!("\n  {exit_code}  ")), "code {exit_code} in\n{text}");
        }
    }
}
