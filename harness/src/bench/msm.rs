//! Products: strategies beside each other, and time over size.

use super::cases::Words;
use super::inputs::Inputs;
use super::planted;
use super::record::{Amount, Params};
use super::session::{Case, Sample, Session, floor_us, micros};
use crate::error::Failure;
use crate::oracle::ScalarFlavour;
use ark_bls12_381::{Fr, G1Projective, G2Projective};
use msm_gpu::{Msm, MsmConfig, MsmGroup, ResultMemory, SyncPattern};
use std::time::Instant;

/// Every strategy beside every other.
pub(super) fn sync(session: &mut Session<'_>) -> Result<(), Failure> {
    let (cases, scale) = (session.settings.cases.sync.clone(), session.settings.scale);
    for log_n in cases.log_n_g1.at(scale) {
        sync_size::<G1Projective>(session, *log_n)?;
    }
    for log_n in cases.log_n_g2.at(scale) {
        sync_size::<G2Projective>(session, *log_n)?;
    }
    Ok(())
}

/// Strategies, each with where its results arrive.
fn ways(strategies: &Words<SyncPattern>, results: ResultMemory) -> Vec<(SyncPattern, ResultMemory)> {
    strategies.iter().map(|strategy| (strategy.0, results)).collect()
}

fn sync_size<G: MsmGroup>(session: &mut Session<'_>, log_n: u32) -> Result<(), Failure> {
    let (cases, scale) = (session.settings.cases.sync.clone(), session.settings.scale);
    let mut all = ways(cases.strategies.at(scale), ResultMemory::Pinned);
    all.extend(ways(cases.pageable_strategies.at(scale), ResultMemory::Pageable));
    let mut inputs = None;
    for scalars in cases.scalars.at(scale) {
        for batches in cases.batches.at(scale) {
            for (pattern, results) in &all {
                let config = MsmConfig { result_memory: *results, ..MsmConfig::batches(*batches) }
                    .with_pattern(*pattern);
                product::<G>(session, "sync", log_n, scalars.0, &config, &mut inputs)?;
            }
        }
    }
    Ok(())
}

/// One batch, over size.
pub(super) fn sizes(session: &mut Session<'_>) -> Result<(), Failure> {
    let (cases, scale) = (session.settings.cases.msm.clone(), session.settings.scale);
    for log_n in cases.log_n_g1.at(scale) {
        size::<G1Projective>(session, *log_n, cases.scalars.at(scale))?;
    }
    for log_n in cases.log_n_g2.at(scale) {
        size::<G2Projective>(session, *log_n, cases.scalars.at(scale))?;
    }
    Ok(())
}

fn size<G: MsmGroup>(
    session: &mut Session<'_>,
    log_n: u32,
    flavours: &Words<ScalarFlavour>,
) -> Result<(), Failure> {
    let mut inputs = None;
    for flavour in flavours {
        product::<G>(session, "msm", log_n, flavour.0, &MsmConfig::batches(1), &mut inputs)?;
    }
    Ok(())
}

/// Measures a product, if it is wanted; its inputs are drawn when the first one of them is.
fn product<G: MsmGroup>(
    session: &mut Session<'_>,
    group: &str,
    log_n: u32,
    flavour: ScalarFlavour,
    config: &MsmConfig,
    inputs: &mut Option<Inputs<G>>,
) -> Result<(), Failure> {
    let msm_gpu::Batches::Count(batches) = config.batches else { unreachable!("cases count batches") };
    let pattern = SyncPattern { strategy: config.strategy, graph: config.graph };
    let (word, results) = (G::KIND.word(), config.result_memory);
    let params = Params {
        who: "gpu".into(),
        what: "msm".into(),
        group: Some(word.into()),
        log_n: Some(log_n),
        batches: Some(batches),
        strategy: Some(pattern.to_string()),
        results: Some(results.to_string()),
        scalars: Some(flavour.to_string()),
        variant: None,
    };
    let name = match group {
        "sync" => format!("{word}/2^{log_n}/{flavour}/{batches}/{pattern}/{results}"),
        _ => format!("{word}/2^{log_n}/{flavour}"),
    };
    let Some(case) = session.case(group, name, params) else { return Ok(()) };
    let seed = session.settings.seed;
    let inputs = &*match inputs.take() {
        Some(made) if made.flavour == flavour => inputs.insert(made),
        Some(made) => inputs.insert(made.with_scalars(flavour, seed)?),
        None => inputs.insert(Inputs::new(&session.device, flavour, log_n, seed)?),
    };
    let made = match session.settings.planted_percent {
        Some(percent) => planted::slowed(&inputs.bases, config, &inputs.scalars, percent),
        None => Msm::<G, Fr>::new(&inputs.bases, config).map_err(Failure::from),
    };
    match made {
        Ok(msm) => measure(session, case, msm, inputs),
        // A size that this device has no memory for.
        Err(error @ (Failure::Plan(_) | Failure::Msm(msm_gpu::MsmError::Plan(_)))) => {
            session.skip(&case, error);
            Ok(())
        }
        Err(error) => Err(error),
    }
}

fn measure<G: MsmGroup>(
    session: &mut Session<'_>,
    mut case: Case,
    mut msm: Msm<G, Fr>,
    inputs: &Inputs<G>,
) -> Result<(), Failure> {
    msm.enable_timing()?;
    let schedule = msm.schedule().expect("there are points").clone();
    case.amount = Some(Amount::Elements(inputs.scalars.len() as u64));
    case.floor_us = session.profile().map(|profile| floor_us(&schedule, &profile));
    let id = case.id();
    let mut run = || {
        let start = Instant::now();
        let product = msm.run(&inputs.scalars)?;
        let wall_us = micros(start);
        if product != inputs.expected {
            return Err(Failure::Wrong(format!("{id}: the product is not the oracle's")));
        }
        Ok(Sample::of(&schedule, msm.trace().expect("it has run"), wall_us))
    };
    run()?;
    session.measure(case, run)
}
