//! `harness inspect`: what a file is, and what a proof with it takes.

use crate::EVERY_STRATEGY;
use crate::commands::schedule::{limits, parse_profile};
use crate::error::{Failure, Judgement};
use crate::files::{FileError, FileFault, FileKind, read_bytes, read_wtns, with_path};
use crate::report::{bytes_text, new_table, write_json};
use ark_bls12_381::{Bls12_381, Fr};
use ark_ec::AffineRepr;
use ark_ff::{AdditiveGroup, Field, PrimeField};
use ark_groth16::ProvingKey;
use ark_serialize::Compress;
use comfy_table::CellAlignment;
use gpu_core::Space;
use gpu_core::model::Profile;
use groth16::circom::{Zkey, read_r1cs, read_witness};
use groth16::{
    CompactKey, KeyFile, Product, ProofPlan, ProveConfig, R1cs, Reduction, Shape, Trust, Validation,
};
use msm_gpu::{MsmConfig, Strategy};
use rayon::prelude::*;
use serde::{Serialize, Serializer};
use std::io::Write;
use std::path::PathBuf;
use zeroize::Zeroizing;

/// Says what kind of file it is, its sizes and densities, and the memory that a proof takes. Points are not checked.
#[derive(Debug, Clone, clap::Args)]
pub struct InspectArgs {
    /// A proving key of arkworks, bellman or snarkjs, a key file of `harness prove`, or a .r1cs or .wtns of circom
    #[arg(value_name = "KEY")]
    pub file: PathBuf,
    /// Also looks at a witness of circom for that key
    #[arg(long, value_name = "FILE")]
    pub witness: Option<PathBuf>,
    /// Batches of each product in the memory plan
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub batches: u32,
    /// Device profile of the memory plan: h200, rtx_4090, rtx_4080, or a JSON file
    #[arg(long, default_value = "h200", value_parser = parse_profile)]
    pub profile: Profile,
    /// Writes everything to a file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Points of a query, and those of them that are the identity and cost nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Query {
    name: &'static str,
    points: u64,
    identities: u64,
}

impl Query {
    fn of<A: AffineRepr>(name: &'static str, points: &[A]) -> Self {
        let identities = points.par_iter().filter(|point| point.is_zero()).count() as u64;
        Self { name, points: points.len() as u64, identities }
    }

    /// Of a query without its identities.
    fn compact(name: &'static str, points: usize, variables: usize) -> Self {
        Self { name, points: variables as u64, identities: variables.saturating_sub(points) as u64 }
    }
}

/// Values of a witness, by how much work they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
struct Values {
    count: u64,
    zeros: u64,
    ones: u64,
    /// Others below 2^64.
    small: u64,
}

impl Values {
    fn of(assignment: &[Fr]) -> Self {
        let one = |value: &Fr| {
            let is_small = value.into_bigint().0[1..].iter().all(|limb| *limb == 0);
            let (zero, one) = (*value == Fr::ZERO, *value == Fr::ONE);
            Self { count: 1, zeros: zero.into(), ones: one.into(), small: (is_small && !zero && !one).into() }
        };
        let add = |a: Self, b: Self| Self {
            count: a.count + b.count,
            zeros: a.zeros + b.zeros,
            ones: a.ones + b.ones,
            small: a.small + b.small,
        };
        assignment.par_iter().map(one).reduce(Self::default, add)
    }
}

/// Bytes of a proof under one strategy, or why there is no plan.
#[derive(Debug, Clone, Serialize)]
struct MemoryRow {
    #[serde(serialize_with = "as_text")]
    strategy: Strategy,
    /// Key, constraints and tables: once, for any number of proofs.
    resident_bytes: u64,
    /// Device memory of each proof that runs.
    device_bytes: u64,
    /// Page-locked host memory of each proof that runs.
    pinned_bytes: u64,
    error: Option<String>,
}

fn as_text<S: Serializer>(strategy: &Strategy, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(strategy)
}

/// What `--json` writes.
#[derive(Debug, Serialize)]
struct Inspection {
    harness: &'static str,
    file: PathBuf,
    bytes: u64,
    kind: FileKind,
    /// Sizes; those that the file does not have are 0 and in `absent`.
    shape: Option<Shape>,
    absent: Vec<&'static str>,
    queries: Vec<Query>,
    values: Option<Values>,
    profile: String,
    batches: u32,
    memory: Vec<MemoryRow>,
}

/// What one kind of file has.
#[derive(Debug, Default)]
struct Found {
    shape: Option<Shape>,
    absent: Vec<&'static str>,
    queries: Vec<Query>,
    values: Option<Values>,
}

/// Runs the command.
///
/// # Errors
/// [`Failure::File`] for a file that cannot be read.
pub fn run(args: &InspectArgs, out: &mut dyn Write) -> Result<Judgement, Failure> {
    // It may be a witness.
    let bytes = Zeroizing::new(read_bytes(&args.file)?);
    let kind = with_path(&args.file, FileKind::of(&bytes))?;
    let mut found = look(args, kind, &bytes)?;
    if let Some(path) = &args.witness {
        let witness = read_wtns(path)?;
        let needed = found.shape.map_or(0, |shape| shape.variable_count as usize);
        if witness.len() != needed {
            let text = format!("{} values, and the circuit has {needed} variables", witness.len());
            with_path(path, Err::<(), _>(FileFault::Mismatch(text)))?;
        }
        found.values = Some(Values::of(&witness));
    }
    let memory = match &found.shape {
        Some(shape) if kind != FileKind::Wtns => memory(args, shape),
        _ => Vec::new(),
    };
    let inspection = Inspection {
        harness: env!("CARGO_PKG_VERSION"),
        file: args.file.clone(),
        bytes: bytes.len() as u64,
        kind,
        shape: found.shape,
        absent: found.absent,
        queries: found.queries,
        values: found.values,
        profile: args.profile.name.clone(),
        batches: args.batches,
        memory,
    };
    write_text(&inspection, out).map_err(Failure::output)?;
    if let Some(path) = &args.json {
        write_json(path, &inspection)?;
    }
    Ok(Judgement::Good)
}

fn look(args: &InspectArgs, kind: FileKind, bytes: &[u8]) -> Result<Found, FileError> {
    let path = &args.file;
    match kind {
        FileKind::ArkworksCompressed => with_path(path, arkworks(bytes, Compress::Yes)),
        FileKind::Arkworks => with_path(path, arkworks(bytes, Compress::No)),
        FileKind::Bellman => {
            with_path(path, CompactKey::read(bytes, Validation::Curve)).map(|key| bellman(&key))
        }
        FileKind::KeyFile => {
            let file = with_path(path, KeyFile::open(path))?;
            let key = with_path(path, file.key(Trust::Trusted))?;
            let mut queries: Vec<Query> = [Product::A, Product::BG1, Product::L, Product::H]
                .map(|product| Query::of(query_name(product), key.bases_g1(product)))
                .into();
            queries.insert(2, Query::of(query_name(Product::BG2), key.bases_g2()));
            queries.push(Query::of("gamma_abc_g1", &key.verifying_key().gamma_abc_g1));
            Ok(Found { shape: Some(*key.shape()), queries, ..Found::default() })
        }
        FileKind::Zkey => with_path(path, Zkey::read(bytes, Trust::Trusted)).map(|key| Found {
            shape: Some(*key.shape()),
            queries: vec![
                Query::of("a_query", key.a_query()),
                Query::of("b_g1_query", key.b_g1_query()),
                Query::of("b_g2_query", key.b_g2_query()),
                Query::of("l_query", key.l_query()),
                Query::of("h_query", key.h_query()),
                Query::of("gamma_abc_g1", &key.verifying_key().gamma_abc_g1),
            ],
            ..Found::default()
        }),
        FileKind::Wtns => with_path(path, read_witness(bytes))
            .map(|witness| Found { values: Some(Values::of(&witness)), ..Found::default() }),
        FileKind::R1cs => with_path(path, read_r1cs(bytes)).map(|r1cs| constraints(&r1cs)),
        found @ FileKind::Json => {
            let needed = "key, a witness or constraints in binary form";
            with_path(path, Err(FileFault::Kind { needed, found }))
        }
    }
}

fn query_name(product: Product) -> &'static str {
    match product {
        Product::A => "a_query",
        Product::BG1 => "b_g1_query",
        Product::BG2 => "b_g2_query",
        Product::L => "l_query",
        Product::H => "h_query",
    }
}

/// A key without its constraints: what of the sizes its queries show.
fn shape_of_key(inputs: usize, variables: usize, h_points: usize) -> Option<Shape> {
    // One base less than values of the domain; some setups have one for each.
    let domain = [h_points + 1, h_points].into_iter().find(|len| len.is_power_of_two())?;
    let size = |count: usize| u32::try_from(count).ok();
    Some(Shape {
        constraint_count: 0,
        input_count: size(inputs)?,
        variable_count: size(variables).filter(|_| inputs <= variables)?,
        term_count: 0,
        coefficient_count: 0,
        log_n: Some(domain.ilog2()).filter(|log_n| *log_n <= 31)?,
        reduction: Reduction::Libsnark,
    })
}

const CONSTRAINTS: [&str; 3] = ["constraint_count", "term_count", "coefficient_count"];

fn arkworks(bytes: &[u8], compress: Compress) -> Result<Found, FileFault> {
    let key: ProvingKey<Bls12_381> = match groth16::arkworks::read_key(bytes, compress, Trust::Trusted) {
        Ok(key) => key,
        Err(error) => {
            // A verifying key is the beginning of a proving key, and may be all that there is.
            let vk = groth16::arkworks::read_verifying_key(bytes, compress)?;
            let points = vk.gamma_abc_g1.len();
            let g1_bytes = if compress == Compress::Yes { 48 } else { 96 };
            if bytes.len() == 7 * g1_bytes + 8 + points * g1_bytes {
                let queries = vec![Query::of("gamma_abc_g1", &vk.gamma_abc_g1)];
                return Ok(Found { queries, absent: vec!["proving key"], ..Found::default() });
            }
            return Err(error.into());
        }
    };
    let inputs = key.vk.gamma_abc_g1.len();
    Ok(Found {
        shape: shape_of_key(inputs, key.a_query.len(), key.h_query.len()),
        absent: CONSTRAINTS.into(),
        queries: vec![
            Query::of("a_query", &key.a_query),
            Query::of("b_g1_query", &key.b_g1_query),
            Query::of("b_g2_query", &key.b_g2_query),
            Query::of("l_query", &key.l_query),
            Query::of("h_query", &key.h_query),
            Query::of("gamma_abc_g1", &key.vk.gamma_abc_g1),
        ],
        values: None,
    })
}

/// Its queries lack the identities: how many there are follows from the number of variables.
fn bellman(key: &CompactKey) -> Found {
    let inputs = key.vk.gamma_abc_g1.len();
    let variables = inputs + key.l_query.len();
    Found {
        shape: shape_of_key(inputs, variables, key.h_query.len()),
        absent: CONSTRAINTS.into(),
        queries: vec![
            Query::compact("a_query", key.a_query.len(), variables),
            Query::compact("b_g1_query", key.b_g1_query.len(), variables),
            Query::compact("b_g2_query", key.b_g2_query.len(), variables),
            Query::of("l_query", &key.l_query),
            Query::of("h_query", &key.h_query),
            Query::of("gamma_abc_g1", &key.vk.gamma_abc_g1),
        ],
        values: None,
    }
}

/// What the queries of a key for these constraints will be.
fn constraints(r1cs: &R1cs) -> Found {
    let variables = r1cs.variable_count();
    let count = |occurs: Vec<bool>| occurs.into_iter().filter(|occurs| *occurs).count();
    let mut in_a = r1cs.a().occurrences(variables);
    // Each input has a row of its own in A.
    in_a[..r1cs.input_count()].fill(true);
    let in_b = count(r1cs.b().occurrences(variables));
    Found {
        shape: Some(Shape::of(r1cs)),
        queries: vec![
            Query::compact("a_query", count(in_a), variables),
            Query::compact("b_g1_query", in_b, variables),
            Query::compact("b_g2_query", in_b, variables),
        ],
        ..Found::default()
    }
}

/// The plan of a proof under each strategy.
fn memory(args: &InspectArgs, shape: &Shape) -> Vec<MemoryRow> {
    let limits = limits(&args.profile, shape.resident_bytes());
    let row = |strategy: Strategy| {
        let msm = MsmConfig { strategy, ..MsmConfig::batches(args.batches) };
        let config = ProveConfig { msm, ..ProveConfig::default() };
        let none = MemoryRow { strategy, resident_bytes: 0, device_bytes: 0, pinned_bytes: 0, error: None };
        match ProofPlan::new(shape, &config, &limits) {
            Err(error) => MemoryRow { error: Some(error.to_string()), ..none },
            Ok(plan) => {
                let schedule = groth16::schedule::build(&plan);
                let pinned =
                    [Space::PinnedUpload, Space::PinnedDownload].map(|space| schedule.bytes_in(space));
                MemoryRow {
                    resident_bytes: schedule.bytes_in(Space::Resident),
                    device_bytes: schedule.bytes_in(Space::Device),
                    pinned_bytes: pinned.iter().sum(),
                    ..none
                }
            }
        }
    };
    EVERY_STRATEGY.map(row).into()
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".into() } else { format!("{:.1} %", 100.0 * part as f64 / whole as f64) }
}

fn write_text(found: &Inspection, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "{}: {}, {}", found.file.display(), found.kind, bytes_text(found.bytes))?;
    if let Some(shape) = &found.shape {
        let rows = match found.absent.is_empty() {
            false => "constraints not in the file".into(),
            true => format!(
                "{} constraints of {} terms and {} different coefficients",
                shape.constraint_count, shape.term_count, shape.coefficient_count
            ),
        };
        let (inputs, variables, log_n) = (shape.input_count, shape.variable_count, shape.log_n);
        writeln!(
            out,
            "  circuit: {rows}; {inputs} inputs with the constant 1, {variables} variables, domain 2^{log_n}, \
             reduction of {}",
            shape.reduction
        )?;
    } else if found.absent.contains(&"proving key") {
        writeln!(out, "  a verifying key; there is no proving key in the file")?;
    }
    if let Some(Values { count, zeros, ones, small }) = found.values {
        writeln!(
            out,
            "  witness: {count} values: {} zeros, {} ones, {} others below 2^64",
            percent(zeros, count),
            percent(ones, count),
            percent(small, count)
        )?;
    }
    if !found.queries.is_empty() {
        let mut table = new_table();
        table.set_header(["query", "points", "identities", "share"]);
        for query in &found.queries {
            let share = percent(query.identities, query.points);
            table.add_row([
                query.name.to_string(),
                query.points.to_string(),
                query.identities.to_string(),
                share,
            ]);
        }
        right_from(&mut table, 1);
        writeln!(out, "{table}")?;
    }
    if found.memory.is_empty() {
        return Ok(());
    }
    let without = if found.absent.is_empty() { "" } else { ", without the constraints" };
    let (profile, batches) = (&found.profile, found.batches);
    writeln!(out, "  memory on {profile}, each product in {batches} batches{without}:")?;
    let mut table = new_table();
    table.set_header([
        "strategy",
        "key on the device",
        "each proof on the device",
        "page-locked on the host",
    ]);
    for row in &found.memory {
        let bytes = [row.resident_bytes, row.device_bytes, row.pinned_bytes].map(bytes_text);
        let cells = match &row.error {
            Some(error) => [error.clone(), String::new(), String::new()],
            None => bytes,
        };
        table.add_row([&[row.strategy.to_string()][..], &cells].concat());
    }
    right_from(&mut table, 1);
    writeln!(out, "{table}")
}

fn right_from(table: &mut comfy_table::Table, first: usize) {
    for column in table.column_iter_mut().skip(first) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_told_apart() {
        let values = [0, 0, 1, 2, u64::MAX].map(Fr::from);
        let large = [-Fr::ONE, Fr::from(u64::MAX) + Fr::ONE];
        let found = Values::of(&[&values[..], &large].concat());
        assert_eq!(found, Values { count: 7, zeros: 2, ones: 1, small: 2 });
    }

    #[test]
    fn a_key_shows_its_domain_by_its_bases_for_h() {
        let log_n = |h_points| shape_of_key(2, 5, h_points).map(|shape| shape.log_n);
        assert_eq!([0, 1, 7, 8, 9, 15].map(log_n), [Some(0), Some(1), Some(3), Some(3), None, Some(4)]);
        assert_eq!(shape_of_key(6, 5, 7), None);
    }
}
