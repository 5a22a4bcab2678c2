//! Products: strategies beside each other, and time over size.

use super::cases::{Axis, Scale, Words};
use super::inputs::Inputs;
use super::planted;
use super::record::{Amount, Params};
use super::session::{Case, Session, floor_us};
use super::ways::{Ready, Tabled, Way, no_room, on_device};
use crate::error::Failure;
use crate::oracle::ScalarFlavour;
use ark_bls12_381::{G1Projective, G2Projective};
use msm_gpu::{MsmConfig, MsmGroup, ResultMemory, SyncPattern};

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
                product::<G>(session, "sync", log_n, scalars.0, Way::Host, &config, &mut inputs)?;
            }
        }
    }
    Ok(())
}

/// One batch, or as many as a way has, over size.
pub(super) fn sizes(session: &mut Session<'_>) -> Result<(), Failure> {
    let (cases, scale) = (session.settings.cases.msm.clone(), session.settings.scale);
    for log_n in cases.log_n_g1.at(scale) {
        let ways = ways_at(&cases.ways, &cases.ways_log_n_g1, scale, *log_n);
        size::<G1Projective>(session, *log_n, cases.scalars.at(scale), &ways)?;
    }
    for log_n in cases.log_n_g2.at(scale) {
        let ways = ways_at(&cases.ways, &cases.ways_log_n_g2, scale, *log_n);
        size::<G2Projective>(session, *log_n, cases.scalars.at(scale), &ways)?;
    }
    Ok(())
}

/// Ways beside that of scalars from the host that a size is measured in.
fn ways_at(ways: &Axis<Words<Way>>, sizes: &Axis<Vec<u32>>, scale: Scale, log_n: u32) -> Words<Way> {
    if sizes.at(scale).contains(&log_n) { ways.at(scale).clone() } else { Vec::new() }
}

fn size<G: MsmGroup>(
    session: &mut Session<'_>,
    log_n: u32,
    flavours: &Words<ScalarFlavour>,
    ways: &Words<Way>,
) -> Result<(), Failure> {
    let mut inputs = None;
    for (index, flavour) in flavours.iter().enumerate() {
        product::<G>(session, "msm", log_n, flavour.0, Way::Host, &MsmConfig::batches(1), &mut inputs)?;
        for way in ways.iter().filter(|_| index == 0) {
            let config = on_device(way.0.batches());
            product::<G>(session, "msm", log_n, flavour.0, way.0, &config, &mut inputs)?;
        }
    }
    Ok(())
}

/// Measures a product, if it is wanted; its inputs are drawn when the first one of them is.
fn product<G: MsmGroup>(
    session: &mut Session<'_>,
    group: &str,
    log_n: u32,
    flavour: ScalarFlavour,
    way: Way,
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
        variant: (way != Way::Host).then(|| way.to_string()),
    };
    let name = match (group, way) {
        ("sync", _) => format!("{word}/2^{log_n}/{flavour}/{batches}/{pattern}/{results}"),
        (_, Way::Host) => format!("{word}/2^{log_n}/{flavour}"),
        (_, way) => format!("{word}/2^{log_n}/{flavour}/{way}"),
    };
    let Some(case) = session.case(group, name, params) else { return Ok(()) };
    let seed = session.settings.seed;
    let inputs = &*match inputs.take() {
        Some(made) if made.flavour == flavour => inputs.insert(made),
        Some(made) => inputs.insert(made.with_scalars(flavour, seed)?),
        None => inputs.insert(Inputs::new(&session.device, flavour, log_n, seed)?),
    };
    match ready(session, way, config, inputs) {
        Ok(ready) => measure(session, case, ready, inputs),
        // A size that this device has no memory for.
        Err(error) => match no_room(&error) {
            Some(reason) => {
                session.skip(&case, reason);
                Ok(())
            }
            None => Err(error),
        },
    }
}

fn ready<'a, G: MsmGroup>(
    session: &Session<'_>,
    way: Way,
    config: &MsmConfig,
    inputs: &'a Inputs<G>,
) -> Result<Ready<'a, G>, Failure> {
    if let (Some(percent), Way::Host) = (session.settings.planted_percent, way) {
        let msm = planted::slowed(&inputs.bases, config, &inputs.scalars, percent)?;
        return Ok(Ready::from_host(msm, inputs));
    }
    let tabled = (way == Way::Table).then(|| Tabled::new(&inputs.bases, None)).transpose()?;
    if let Some(cost) = tabled.as_ref().and_then(|tabled| tabled.cost) {
        let (word, n, ms) = (G::KIND.word(), inputs.scalars.len(), cost.build_us / 1e3);
        println!("a table of {} columns over {n} bases in {word} was built in {ms:.1} ms", cost.columns);
    }
    Ready::new(way, inputs, tabled.as_ref(), config)
}

fn measure<G: MsmGroup>(
    session: &mut Session<'_>,
    mut case: Case,
    mut ready: Ready<'_, G>,
    inputs: &Inputs<G>,
) -> Result<(), Failure> {
    ready.msm.enable_timing()?;
    case.amount = Some(Amount::Elements(inputs.scalars.len() as u64));
    let schedule = ready.msm.schedule().expect("there are points");
    case.floor_us = session.profile().map(|profile| floor_us(schedule, &profile));
    let id = case.id();
    ready.run(&id)?;
    session.measure(case, || ready.run(&id))
}
