//! `harness check`: products over real keys, on every device, in every way of cutting and waiting, against arkworks.

use crate::circuits::{CircuitName, Problem as Provable};
use crate::commands::prove::write_row;
use crate::devices::{DeviceChoice, Devices};
use crate::error::{Failure, Judgement};
use crate::oracle::{BaseFlavour, KnownBases, ScalarFlavour, msm_by_arkworks, parse_seed, random_numbers};
use crate::progress::Progress;
use crate::prove::{LoadedKey, ProofRow, ProveOptions, arkworks, blinding, prove};
use crate::report::{Idle, Row, Verdict, product_id, table, wants_colour, write_json};
use crate::sapling::{self, KeyName, SaplingKey};
use crate::{BATCHES, STRATEGIES};
use ark_bls12_381::{Fr, G1Projective, G2Projective};
use gpu_core::sim::SimOptions;
use gpu_core::{Device, DeviceInfo, DeviceKind};
use groth16::{ProveConfig, ProveError, Trust};
use msm_gpu::{Bases, Batches, GroupKind, Msm, MsmConfig, MsmError, MsmGroup, Strategy};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

/// Version of arkworks that results are compared with.
const ARKWORKS: &str = "0.6.0";

const KEY_SCALARS: [ScalarFlavour; 2] = [ScalarFlavour::Uniform, ScalarFlavour::WitnessLike];
const KNOWN_SCALARS: [ScalarFlavour; 3] =
    [ScalarFlavour::Uniform, ScalarFlavour::WitnessLike, ScalarFlavour::AllEqual];

/// Ways for a large key on the simulated device: the whole set takes it ten minutes.
const COSTLY_WAYS: [Way; 5] =
    [(1, STRATEGIES[0]), (2, STRATEGIES[1]), (3, STRATEGIES[2]), (8, STRATEGIES[0]), (8, STRATEGIES[3])];

/// Checks products over the Zcash Sapling proving keys against arkworks, and exits with 1 if one differs.
#[derive(Debug, Clone, clap::Args)]
pub struct CheckArgs {
    /// Where to run: `auto` (the simulated device, and every CUDA device), `sim`, `cuda` or `cuda:N`
    #[arg(long, default_value_t = DeviceChoice::Auto, value_name = "DEVICE")]
    pub device: DeviceChoice,
    /// Seed of the scalars
    #[arg(long, default_value = "0x5a6361736800", value_parser = parse_seed)]
    pub seed: u64,
    /// Writes everything to a file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// The Output key alone, in few ways: seconds
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// Every key in every way, and large products over bases of known discrete logarithm
    #[arg(long)]
    pub full: bool,
    /// Directory of sapling-output.params and sapling-spend.params, instead of the embedded keys
    #[arg(long, value_name = "DIR")]
    pub params: Option<PathBuf>,
    /// Keys to use: `output`, `spend`; both unless `--quick`
    #[arg(long, value_delimiter = ',', value_name = "KEYS")]
    pub keys: Vec<KeyName>,
    /// Only products with this text in their name, as `spend.h_query/uniform/8/deferred:2`
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
}

impl CheckArgs {
    fn key_names(&self) -> Vec<KeyName> {
        match (self.keys.is_empty(), self.quick) {
            (true, true) => vec![KeyName::Output],
            (true, false) => KeyName::ALL.to_vec(),
            (false, _) => self.keys.clone(),
        }
    }

    /// In which ways a query of a key is multiplied on a kind of device.
    fn ways(&self, key: KeyName, kind: DeviceKind) -> Vec<Way> {
        let batches: &[u32] = if self.quick { &[1, 3] } else { &BATCHES };
        let strategies = if self.quick { &STRATEGIES[..2] } else { &STRATEGIES };
        let all = batches.iter().flat_map(|batches| strategies.iter().map(|strategy| (*batches, *strategy)));
        let costly = key == KeyName::Spend && kind == DeviceKind::Sim && !self.full;
        match costly {
            false => all.collect(),
            // The whole query each time, and each count of batches and each strategy at least once.
            true => COSTLY_WAYS.to_vec(),
        }
    }
}

/// A count of batches, and what the host does between them.
type Way = (u32, Strategy);

/// What `--json` writes.
#[derive(Debug, Serialize)]
struct Report<'a> {
    harness: &'static str,
    oracle: String,
    seed: String,
    devices: Vec<&'a DeviceInfo>,
    no_cuda: Option<String>,
    keys: Vec<KeyReport>,
    rows: &'a [Row],
    proofs: &'a [ProofOutcome],
    different: usize,
    failed: usize,
    elapsed_s: f64,
}

/// A proof, or why there is none.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum ProofOutcome {
    Made(Box<ProofRow>),
    Failed { device: String, circuit: String, error: String, is_wrong: bool },
}

#[derive(Debug, Serialize)]
struct KeyReport {
    name: KeyName,
    sha256: &'static str,
}

/// Runs the command; the report goes to `out`, progress to standard error.
///
/// # Errors
/// [`Failure`] where there is nothing to judge. A device that fails during a product is a row of the report.
pub fn run(args: &CheckArgs, out: &mut dyn Write) -> Result<Judgement, Failure> {
    run_on(args.device.open(SimOptions::default())?, args, out)
}

/// As [`run`], on devices that are open already.
///
/// # Errors
/// As [`run`].
pub fn run_on(opened: Devices, args: &CheckArgs, out: &mut dyn Write) -> Result<Judgement, Failure> {
    let start = Instant::now();
    let Devices { devices, no_cuda } = opened;
    let names = args.key_names();
    let keys = sapling::load(&names, args.params.as_deref())?;
    write_header(&devices, no_cuda.as_ref(), &names, out).map_err(Failure::output)?;

    let mut check = Check { args, devices: &devices, rows: Vec::new(), progress: Progress::hidden() };
    let planned = check.plan(&keys);
    if planned.products == 0 {
        let only = args.only.as_deref().unwrap_or_default();
        return Err(Failure::Usage(format!("no product has `{only}` in its name")));
    }
    check.progress = Progress::new(planned.products, planned.work);
    check.run(&keys);
    let mut rows = check.rows;
    check.progress.finish();
    // Problems are the outer loop, so that each is prepared once; a reader wants the devices apart.
    rows.sort_by_key(|row| devices.iter().position(|device| device.info().id == row.device));

    let count = |wanted: fn(&Verdict) -> bool| rows.iter().filter(|row| wanted(&row.verdict)).count();
    let proofs = prove_circuits(args, &devices, &names)?;
    let wrong_proofs = proofs.iter().filter(|proof| proof.is_wrong()).count();
    let failed_proofs = proofs.iter().filter(|proof| proof.is_failed()).count();
    let different = count(|verdict| matches!(verdict, Verdict::Different { .. })) + wrong_proofs;
    let failed = count(|verdict| matches!(verdict, Verdict::Failed { .. })) + failed_proofs;
    let elapsed_s = start.elapsed().as_secs_f64();
    write_results(args, &rows, elapsed_s, out).map_err(Failure::output)?;
    proofs.iter().try_for_each(|proof| proof.write(out)).map_err(Failure::output)?;
    if let Some(path) = &args.json {
        let report = Report {
            harness: env!("CARGO_PKG_VERSION"),
            oracle: format!("arkworks {ARKWORKS}"),
            seed: format!("{:#x}", args.seed),
            devices: devices.iter().map(Device::info).collect(),
            no_cuda: no_cuda.map(|error| error.to_string()),
            keys: names.iter().map(|name| KeyReport { name: *name, sha256: name.sha256() }).collect(),
            rows: &rows,
            proofs: &proofs,
            different,
            failed,
            elapsed_s,
        };
        write_json(path, &report)?;
    }
    Ok(match (different, failed) {
        (0, 0) => Judgement::Good,
        (0, _) => Judgement::Incomplete,
        _ => Judgement::Bad,
    })
}

impl ProofOutcome {
    /// Whether a device made a proof that is not right.
    fn is_wrong(&self) -> bool {
        match self {
            Self::Made(row) => !row.is_right(),
            Self::Failed { is_wrong, .. } => *is_wrong,
        }
    }

    /// Whether there is no proof, and nothing wrong was made either.
    fn is_failed(&self) -> bool {
        matches!(self, Self::Failed { is_wrong: false, .. })
    }

    fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        match self {
            Self::Made(row) => write_row(row, out),
            Self::Failed { device, circuit, error, .. } => {
                writeln!(out, "{circuit} on {device} FAILED: {error}")
            }
        }
    }
}

/// Whole proofs, compared with arkworks' and shown to zkcrypto's verifier: of Output, and of Spend if everything is
/// wanted. Who asks for some products by name wants no proof.
fn prove_circuits(
    args: &CheckArgs,
    devices: &[Device],
    names: &[KeyName],
) -> Result<Vec<ProofOutcome>, Failure> {
    let wanted = |name: &&KeyName| args.only.is_none() && (**name == KeyName::Output || args.full);
    let mut proofs = Vec::new();
    for name in names.iter().filter(wanted) {
        let circuit = match name {
            KeyName::Output => CircuitName::SaplingOutput,
            KeyName::Spend => CircuitName::SaplingSpend,
        };
        let problem = Provable::new(circuit, args.seed, args.params.as_deref())?;
        let blinding = blinding(args.seed, circuit, 1);
        let peers = [arkworks(&problem, &blinding)?];
        let options =
            ProveOptions { config: ProveConfig::default(), runs: 1, blinding: &blinding, peers: &peers };
        let made = |device: &Device| {
            // The key is trusted by the hash of its file.
            let loaded = LoadedKey::new(device, &problem, Trust::Trusted, None)?;
            prove(&problem, &loaded, &options)
        };
        proofs.extend(devices.iter().map(|device| match made(device) {
            Ok(row) => ProofOutcome::Made(Box::new(row)),
            Err(error) => ProofOutcome::Failed {
                device: device.info().id.clone(),
                circuit: circuit.to_string(),
                is_wrong: matches!(error, ProveError::Invalid | ProveError::Quotient),
                error: error.to_string(),
            },
        }));
    }
    Ok(proofs)
}

/// Number and size of what is to be done: a unit of work is a point of G1 in one product.
#[derive(Debug, Clone, Copy, Default)]
struct Planned {
    products: u64,
    work: u64,
}

struct Check<'a> {
    args: &'a CheckArgs,
    devices: &'a [Device],
    rows: Vec<Row>,
    progress: Progress,
}

/// What a product is over: a query of a key, or bases of known discrete logarithm.
struct Problem<'a, G: MsmGroup> {
    query: String,
    bases: &'a [G::Affine],
    scalars: &'static [ScalarFlavour],
    oracle: &'a dyn Fn(&[Fr]) -> G,
    ways: &'a dyn Fn(&Device) -> Vec<Way>,
}

impl Check<'_> {
    /// What [`run`](Self::run) will do. Both walk the same loops; this one only counts.
    fn plan(&self, keys: &[SaplingKey]) -> Planned {
        let mut planned = Planned::default();
        let mut add = |query: String, group, points: usize, scalars, ways: &dyn Fn(&Device) -> Vec<Way>| {
            for device in self.devices {
                let products = self.wanted(&query, scalars, &ways(device)).len() as u64;
                planned.products += products;
                planned.work += products * work(group, points);
            }
        };
        for SaplingKey { name, key } in keys {
            let ways = |device: &Device| self.args.ways(*name, device.info().kind);
            let g1 = [
                ("h_query", key.h_query.len()),
                ("l_query", key.l_query.len()),
                ("a_query", key.a_query.len()),
                ("b_g1_query", key.b_g1_query.len()),
            ];
            for (query, points) in g1 {
                add(format!("{name}.{query}"), GroupKind::G1, points, &KEY_SCALARS[..], &ways);
            }
            add(format!("{name}.b_g2_query"), GroupKind::G2, key.b_g2_query.len(), &KEY_SCALARS, &ways);
        }
        for (group, kind, log_n) in self.known_sizes() {
            let ways = known_ways(kind);
            add(known_query(log_n), group, 1 << log_n, &KNOWN_SCALARS, &ways);
        }
        planned
    }

    fn run(&mut self, keys: &[SaplingKey]) {
        for SaplingKey { name, key } in keys {
            let args = self.args;
            let ways = |device: &Device| args.ways(*name, device.info().kind);
            let g1 = [
                ("h_query", &key.h_query),
                ("l_query", &key.l_query),
                ("a_query", &key.a_query),
                ("b_g1_query", &key.b_g1_query),
            ];
            for (query, bases) in g1 {
                let query = format!("{name}.{query}");
                let oracle = |scalars: &[Fr]| msm_by_arkworks::<G1Projective>(bases, scalars);
                self.solve(&Problem { query, bases, scalars: &KEY_SCALARS, oracle: &oracle, ways: &ways });
            }
            let (query, bases) = (format!("{name}.b_g2_query"), &key.b_g2_query);
            let oracle = |scalars: &[Fr]| msm_by_arkworks::<G2Projective>(bases, scalars);
            self.solve(&Problem { query, bases, scalars: &KEY_SCALARS, oracle: &oracle, ways: &ways });
        }
        for (group, kind, log_n) in self.known_sizes() {
            match group {
                GroupKind::G1 => self.solve_known::<G1Projective>(kind, log_n),
                GroupKind::G2 => self.solve_known::<G2Projective>(kind, log_n),
            }
        }
    }

    /// Sizes of the products over known bases, and the kind of device that each is for.
    fn known_sizes(&self) -> Vec<(GroupKind, DeviceKind, u32)> {
        if !self.args.full {
            return Vec::new();
        }
        let cuda = [16, 20, 22].map(|log_n| (GroupKind::G1, DeviceKind::Cuda, log_n));
        let cuda_g2 = [14, 18, 20].map(|log_n| (GroupKind::G2, DeviceKind::Cuda, log_n));
        let sim = [(GroupKind::G1, DeviceKind::Sim, 16), (GroupKind::G2, DeviceKind::Sim, 14)];
        let sizes = cuda.into_iter().chain(cuda_g2).chain(sim);
        let present = |kind| self.devices.iter().any(|device| device.info().kind == kind);
        sizes.filter(|(_, kind, _)| present(*kind)).collect()
    }

    fn solve_known<G: MsmGroup>(&mut self, kind: DeviceKind, log_n: u32) {
        let query = known_query(log_n);
        let mut rng = random_numbers(self.args.seed, &query);
        let known = KnownBases::<G>::generate(BaseFlavour::Random, 1 << log_n, &mut rng);
        let oracle = |scalars: &[Fr]| known.product(scalars);
        let (bases, ways) = (known.points(), known_ways(kind));
        self.solve(&Problem { query, bases, scalars: &KNOWN_SCALARS, oracle: &oracle, ways: &ways });
    }

    /// Flavours and ways of a problem on one device that `--only` leaves.
    fn wanted(&self, query: &str, scalars: &[ScalarFlavour], ways: &[Way]) -> Vec<(ScalarFlavour, Way)> {
        let all = scalars.iter().flat_map(|flavour| ways.iter().map(|way| (*flavour, *way)));
        let only = self.args.only.as_deref().unwrap_or_default();
        all.filter(|(flavour, (batches, strategy))| {
            product_id(query, flavour, *batches, *strategy).contains(only)
        })
        .collect()
    }

    /// Scalars and the oracle's result once, then every device: bases go up once, then every way.
    fn solve<G: MsmGroup>(&mut self, problem: &Problem<'_, G>) {
        let devices = self.devices;
        let jobs: Vec<_> = devices
            .iter()
            .map(|device| (device, self.wanted(&problem.query, problem.scalars, &(problem.ways)(device))))
            .collect();
        let (first_row, start) = (self.rows.len(), Instant::now());
        for flavour in problem.scalars {
            if !jobs.iter().any(|(_, ways)| ways.iter().any(|(wanted, _)| wanted == flavour)) {
                continue;
            }
            self.progress.say(&format!("{} {flavour}: arkworks", problem.query));
            let label = format!("{}/{flavour}", problem.query);
            let scalars = flavour.generate(problem.bases.len(), &mut random_numbers(self.args.seed, &label));
            let expected = (problem.oracle)(&scalars).into_affine();
            for (device, ways) in &jobs {
                let ways: Vec<Way> =
                    ways.iter().filter(|(wanted, _)| wanted == flavour).map(|(_, way)| *way).collect();
                self.progress.say(&format!("{} {flavour}: {}", problem.query, device.info().id));
                self.solve_on(device, problem, *flavour, &scalars, expected, &ways);
            }
        }
        let done = &self.rows[first_row..];
        if !done.is_empty() {
            let equal = done.iter().filter(|row| row.verdict == Verdict::Equal).count();
            let seconds = start.elapsed().as_secs_f64();
            let text = format!("{}: {equal} of {} equal, {seconds:.1} s", problem.query, done.len());
            self.progress.finish_line(&text);
        }
    }

    fn solve_on<G: MsmGroup>(
        &mut self,
        device: &Device,
        problem: &Problem<'_, G>,
        flavour: ScalarFlavour,
        scalars: &[Fr],
        expected: G::Affine,
        ways: &[Way],
    ) {
        // The keys' hashes were checked, and known bases are multiples of the generator.
        let bases = Bases::<G>::trusted(device, problem.bases);
        for (batches, strategy) in ways {
            let solved = bases.as_ref().map_err(ToString::to_string).and_then(|bases| {
                let config = MsmConfig {
                    batches: Batches::Count(*batches),
                    strategy: *strategy,
                    window_bits: None,
                    ..MsmConfig::default()
                };
                solve_one(bases, &config, scalars).map_err(|error| error.to_string())
            });
            let (verdict, window_bits, wall_us, idle) = match solved {
                Err(error) => (Verdict::Failed { error }, None, None, None),
                Ok(solved) => {
                    let found = solved.product.into_affine();
                    let verdict = match found == expected {
                        true => Verdict::Equal,
                        false => {
                            Verdict::Different { expected: expected.to_string(), found: found.to_string() }
                        }
                    };
                    (verdict, Some(solved.window_bits), Some(solved.wall_us), solved.idle)
                }
            };
            let points = problem.bases.len();
            self.progress.advance(work(G::KIND, points));
            self.rows.push(Row {
                device: device.info().id.clone(),
                group: G::KIND.word(),
                query: problem.query.clone(),
                points,
                scalars: flavour.to_string(),
                batches: *batches,
                strategy: *strategy,
                window_bits,
                verdict,
                wall_us,
                idle,
            });
        }
    }
}

struct Solved<G> {
    product: G,
    window_bits: u32,
    wall_us: f64,
    idle: Option<Idle>,
}

fn solve_one<G: MsmGroup>(
    bases: &Bases<G>,
    config: &MsmConfig,
    scalars: &[Fr],
) -> Result<Solved<G>, MsmError> {
    let mut msm = Msm::<G, Fr>::new(bases, config)?;
    msm.enable_timing()?;
    let product = msm.run(scalars)?;
    let idle = msm.schedule().zip(msm.trace()).map(|(schedule, trace)| Idle::of(schedule, trace));
    let wall_us = msm.trace().map_or(0.0, |trace| trace.wall_us);
    Ok(Solved { product, window_bits: msm.plan().window_bits, wall_us, idle })
}

fn known_query(log_n: u32) -> String {
    format!("known.2^{log_n}")
}

/// Known bases are for large sizes: one batch and several, on their kind of device alone.
fn known_ways(kind: DeviceKind) -> impl Fn(&Device) -> Vec<Way> {
    move |device| match device.info().kind == kind {
        true => vec![(1, STRATEGIES[0]), (3, STRATEGIES[1]), (8, STRATEGIES[2])],
        false => Vec::new(),
    }
}

fn work(group: GroupKind, points: usize) -> u64 {
    let coordinates = match group {
        GroupKind::G1 => 1,
        GroupKind::G2 => 3,
    };
    coordinates * points as u64
}

fn write_header(
    devices: &[Device],
    no_cuda: Option<&gpu_core::GpuError>,
    names: &[KeyName],
    out: &mut dyn Write,
) -> std::io::Result<()> {
    for device in devices {
        let info = device.info();
        writeln!(out, "device {}: {} ({})", info.id, info.name, info.arch)?;
    }
    if let Some(error) = no_cuda {
        writeln!(out, "no CUDA device is used: {error}")?;
    }
    for name in names {
        writeln!(out, "key {name}: {}, SHA-256 {} as published", name.file_name(), name.sha256())?;
    }
    Ok(())
}

fn write_results(args: &CheckArgs, rows: &[Row], elapsed_s: f64, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "{}", table(rows, wants_colour(&std::io::stdout())))?;
    if rows.iter().any(|row| row.idle.is_some_and(|idle| idle.is_virtual)) {
        writeln!(out, "time is wall time of the run; v marks the virtual clock of the simulated device")?;
    }
    for row in rows.iter().filter(|row| row.verdict != Verdict::Equal) {
        writeln!(out, "{} on {}: {}", row.id(), row.device, verdict_text(&row.verdict))?;
        writeln!(out, "  again: {}", replay(args, row))?;
    }
    let equal = rows.iter().filter(|row| row.verdict == Verdict::Equal).count();
    let seed = args.seed;
    writeln!(out, "{equal} of {} products equal arkworks' ({elapsed_s:.1} s, seed {seed:#x})", rows.len())
}

fn verdict_text(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Equal => "equal".into(),
        Verdict::Different { expected, found } => format!("expected {expected}, found {found}"),
        Verdict::Failed { error } => error.clone(),
    }
}

/// The command line that runs one row again.
fn replay(args: &CheckArgs, row: &Row) -> String {
    let mut line = format!("harness check --device {} --seed {:#x}", row.device, args.seed);
    if args.full || row.query.starts_with("known.") {
        line.push_str(" --full");
    }
    if let Some(directory) = &args.params {
        line.push_str(&format!(" --params {}", directory.display()));
    }
    if let Some((key, _)) = row.query.split_once('.').filter(|(key, _)| *key != "known") {
        line.push_str(&format!(" --keys {key}"));
    }
    format!("{line} --only {}", row.id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: CheckArgs,
    }

    fn args(line: &[&str]) -> CheckArgs {
        Line::parse_from([&["check"], line].concat()).args
    }

    #[test]
    fn each_count_and_strategy_is_used_by_default_and_all_pairs_where_that_is_cheap() {
        let default = args(&[]);
        let all = BATCHES.len() * STRATEGIES.len();
        assert_eq!(default.ways(KeyName::Output, DeviceKind::Sim).len(), all);
        assert_eq!(default.ways(KeyName::Spend, DeviceKind::Cuda).len(), all);
        let some = default.ways(KeyName::Spend, DeviceKind::Sim);
        assert!(some.len() < all);
        for batches in BATCHES {
            assert!(some.iter().any(|way| way.0 == batches), "{batches} batches");
        }
        for strategy in STRATEGIES {
            assert!(some.iter().any(|way| way.1 == strategy), "{strategy}");
        }
        assert_eq!(args(&["--full"]).ways(KeyName::Spend, DeviceKind::Sim).len(), all);
        assert_eq!(args(&["--quick"]).ways(KeyName::Output, DeviceKind::Sim).len(), 4);
    }

    #[test]
    fn keys_are_chosen() {
        assert_eq!(args(&[]).key_names(), KeyName::ALL);
        assert_eq!(args(&["--quick"]).key_names(), [KeyName::Output]);
        assert_eq!(args(&["--keys", "spend"]).key_names(), [KeyName::Spend]);
        assert_eq!(args(&["--quick", "--keys", "spend,output"]).key_names().len(), 2);
    }

    #[test]
    fn the_replay_line_leads_back_to_the_row() {
        let line = args(&["--seed", "7"]);
        let row = Row {
            device: "cuda:1".into(),
            group: "g1",
            query: "spend.h_query".into(),
            points: 131_071,
            scalars: "uniform".into(),
            batches: 8,
            strategy: Strategy::Hard,
            window_bits: None,
            verdict: Verdict::Failed { error: "lost".into() },
            wall_us: None,
            idle: None,
        };
        let text = replay(&line, &row);
        assert_eq!(
            text,
            "harness check --device cuda:1 --seed 0x7 --keys spend --only spend.h_query/uniform/8/hard"
        );
        let words: Vec<_> = text.split(' ').skip(2).collect();
        let again = args(&words);
        assert_eq!((again.seed, again.only), (7, Some(row.id())));
    }

    #[test]
    fn the_oracle_s_version_is_the_one_in_the_lock_file() {
        let lock = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock");
        let lock = std::fs::read_to_string(lock).expect("the workspace has a lock file");
        assert!(lock.contains(&format!("name = \"ark-ec\"\nversion = \"{ARKWORKS}\"")));
    }
}
