//! `harness verify`: what arkworks' and zkcrypto's verifiers say of a proof.

use crate::circuits::{CircuitName, Problem};
use crate::error::{Failure, Judgement};
use crate::files::{FileFault, read_proof, read_public, read_verifying_key, with_path};
use crate::oracle::parse_seed;
use crate::prove::{Opinion, opinions};
use crate::report::write_json;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

/// Shows a proof to arkworks' and zkcrypto's verifiers. It is good if both accept it.
#[derive(Debug, Clone, clap::Args)]
pub struct VerifyArgs {
    /// The proof: 192 bytes as arkworks, bellman and Zcash have them, or proof.json of snarkjs
    #[arg(long, value_name = "FILE")]
    pub proof: PathBuf,
    /// The key: a proving key or verifying key of arkworks, parameters of bellman, a .zkey or verification_key.json of
    /// snarkjs, or a key file of `harness prove`
    #[arg(long, value_name = "FILE", required_unless_present = "circuit")]
    pub key: Option<PathBuf>,
    /// The key of a circuit that `harness prove` knows: `sapling-output`, `sapling-spend` or `mimc:ROUNDS`
    #[arg(long, value_name = "CIRCUIT", conflicts_with = "key")]
    pub circuit: Option<CircuitName>,
    /// Public inputs, as snarkjs' public.json: decimal numbers in an array, the constant 1 left out
    #[arg(long, value_name = "FILE")]
    pub public: PathBuf,
    /// Directory of sapling-output.params and sapling-spend.params, instead of the embedded keys
    #[arg(long, value_name = "DIR", requires = "circuit")]
    pub params: Option<PathBuf>,
    /// Seed of a synthetic circuit's key, as `harness prove` was given it
    #[arg(long, default_value = "0x70726f7665", value_parser = parse_seed)]
    pub seed: u64,
    /// Writes everything to a file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// What `--json` writes.
#[derive(Debug, Serialize)]
struct VerifyReport<'a> {
    harness: &'static str,
    proof: &'a PathBuf,
    key: String,
    public_count: usize,
    opinions: &'a [Opinion],
    accepted: bool,
}

/// Runs the command.
///
/// # Errors
/// [`Failure`] for files that cannot be read, and for another number of public inputs than the key is for.
pub fn run(args: &VerifyArgs, out: &mut dyn Write) -> Result<Judgement, Failure> {
    let (vk, key) = match (&args.key, args.circuit) {
        (Some(path), _) => (read_verifying_key(path)?, path.display().to_string()),
        (None, Some(circuit)) => {
            let problem = Problem::new(circuit, args.seed, args.params.as_deref())?;
            (problem.key.vk, format!("{circuit}, {}", problem.key_from))
        }
        (None, None) => return Err(Failure::Usage("give a --key or a --circuit".into())),
    };
    let inputs = read_public(&args.public)?;
    let expected = vk.gamma_abc_g1.len().saturating_sub(1);
    if inputs.len() != expected {
        let text = format!("{} public inputs, and the key is for {expected}", inputs.len());
        with_path(&args.public, Err::<(), _>(FileFault::Mismatch(text)))?;
    }
    let opinions = opinions(&vk, &inputs, &[read_proof(&args.proof)?]);
    let accepted = opinions.iter().all(|opinion| opinion.accepts);
    writeln!(out, "{} under {key}", args.proof.display()).map_err(Failure::output)?;
    for opinion in &opinions {
        let word = if opinion.accepts { "accepts" } else { "REFUSES" };
        writeln!(out, "  {} {word} the proof", opinion.verifier).map_err(Failure::output)?;
    }
    if let Some(path) = &args.json {
        let report = VerifyReport {
            harness: env!("CARGO_PKG_VERSION"),
            proof: &args.proof,
            key,
            public_count: inputs.len(),
            opinions: &opinions,
            accepted,
        };
        write_json(path, &report)?;
    }
    Ok(if accepted { Judgement::Good } else { Judgement::Bad })
}
