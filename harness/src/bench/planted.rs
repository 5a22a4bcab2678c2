//! A slowdown on purpose, to see that the gate notices: an additional kernel in every batch, which keeps the device for a
//! given share of the product's time. It is a part of the schedule, so it is checked, run and traced as everything else.

use super::stats::median;
use crate::error::Failure;
use ark_bls12_381::Fr;
use gpu_core::model::Timeline;
use gpu_core::schedule::{Action, Arg, Launch, Schedule, Space, Work};
use gpu_core::{CheckedSchedule, modules};
use msm_gpu::{Bases, DeviceLimits, Msm, MsmConfig, MsmError, MsmGroup, MsmPlan, ScalarForm};

/// Name of the operation.
pub const NAME: &str = "planted_slowdown";
/// Steps of the chain by which the device's speed is found.
const PROBE_STEPS: u32 = 256;
/// Times that the number of steps is put right.
const ROUNDS: usize = 4;
/// Runs that a time is the median of.
const TIMED_RUNS: usize = 3;
/// Bytes of an element of Fp.
const FP_BYTES: u64 = 48;

/// A product that takes so many percent longer than it would.
///
/// # Errors
/// As [`Msm::new`], [`Msm::run`].
pub fn slowed<G: MsmGroup>(
    bases: &Bases<G>,
    config: &MsmConfig,
    scalars: &[Fr],
    percent: f64,
) -> Result<Msm<G, Fr>, Failure> {
    bases.device().load(&[&modules::FIELD_OPS]).map_err(MsmError::from)?;
    let mut plain = Msm::<G, Fr>::new(bases, config)?;
    let (whole_us, _) = times(&mut plain, scalars)?;
    let (_, probe_us) = times(&mut with_chains(bases, config, PROBE_STEPS)?, scalars)?;
    let us_per_step = probe_us.max(1e-3) / f64::from(PROBE_STEPS);
    let wanted_us = whole_us * percent / 100.0;
    let mut steps = wanted_us / us_per_step;
    // Time in which the device would idle takes some of it without a trace.
    for _ in 0..ROUNDS {
        let mut slow = with_chains(bases, config, steps.ceil().clamp(1.0, 1e8) as u32)?;
        let gained_us = times(&mut slow, scalars)?.0 - whole_us;
        if (gained_us - wanted_us).abs() < 0.05 * wanted_us {
            return Ok(slow);
        }
        steps = (steps + (wanted_us - gained_us) / us_per_step).max(1.0);
    }
    with_chains(bases, config, steps.ceil().clamp(1.0, 1e8) as u32)
}

/// Time of a warm run, and of the planted operations in it: medians of some runs.
fn times<G: MsmGroup>(msm: &mut Msm<G, Fr>, scalars: &[Fr]) -> Result<(f64, f64), Failure> {
    msm.enable_timing()?;
    msm.run(scalars)?;
    let (mut whole, mut planted) = (Vec::new(), Vec::new());
    for _ in 0..TIMED_RUNS {
        msm.run(scalars)?;
        let (schedule, trace) = (msm.schedule(), msm.trace());
        let (schedule, trace) = (schedule.expect("there are points"), trace.expect("it has run"));
        whole.push(Timeline::new(schedule, &trace.spans).makespan_us);
        let ours = schedule.ops.iter().zip(&trace.spans).filter(|(op, _)| op.name == NAME);
        planted.push(ours.map(|(_, span)| span.end_us - span.start_us).sum());
    }
    let median = |times: &[f64]| median(times).expect("there were runs");
    Ok((median(&whole), median(&planted)))
}

fn with_chains<G: MsmGroup>(bases: &Bases<G>, config: &MsmConfig, steps: u32) -> Result<Msm<G, Fr>, Failure> {
    let limits = DeviceLimits::of(bases.device()).map_err(MsmError::from)?;
    let plan = MsmPlan::new(G::KIND, ScalarForm::Montgomery, bases.len() as u64, config, &limits)?;
    let mut schedule = msm_gpu::schedule::build(&plan);
    plant(&mut schedule, steps);
    let checked = CheckedSchedule::new(schedule).map_err(MsmError::from)?;
    Ok(Msm::with_schedule(bases, plan, checked)?)
}

/// Puts a chain of dependent products, of one thread, behind the additions of every batch.
fn plant(schedule: &mut Schedule, steps: u32) {
    let operands = ["planted x", "planted y"].map(|name| schedule.buffer(name, Space::Device, FP_BYTES));
    let operands = operands.map(|buffer| schedule.whole(buffer));
    let mut planted = Vec::new();
    for op in std::mem::take(&mut schedule.ops) {
        let behind = match &op.action {
            Action::Launch { stream, launch } if launch.kernel.starts_with("msm_accumulate") => {
                Some((*stream, op.batch, op.thread))
            }
            _ => None,
        };
        planted.push(op);
        let Some((stream, batch, thread)) = behind else { continue };
        // 0x01...01 is below the modulus.
        for dst in operands {
            schedule.push_on(thread, NAME, batch, Action::Fill { stream, dst, byte: 1 });
        }
        let [x, y] = operands.map(Arg::Write);
        let work = Work { chain_muls: 2.0 * f64::from(steps), ..Work::default() };
        let args = vec![x, y, Arg::U32(1), Arg::U32(steps)];
        let launch = Launch { kernel: "fp_mul_chain".into(), grid: [1, 1], block: 32, args, work };
        schedule.push_on(thread, NAME, batch, Action::Launch { stream, launch });
        planted.append(&mut schedule.ops);
    }
    schedule.ops = planted;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{BaseFlavour, KnownBases, ScalarFlavour, random_numbers};
    use ark_bls12_381::G1Projective;
    use gpu_core::Device;
    use gpu_core::sim::SimOptions;
    use msm_gpu::Strategy;

    #[test]
    fn a_product_takes_as_much_longer_as_was_asked_for_and_is_right() {
        let rng = &mut random_numbers(1, "planted");
        let known = KnownBases::<G1Projective>::generate(BaseFlavour::Random, 200, rng);
        let scalars = ScalarFlavour::Uniform.generate(200, rng);
        let bases = Bases::trusted(&Device::sim(SimOptions::default()), known.points()).expect("bases");
        for strategy in [Strategy::Hard, Strategy::Deferred { buffers: 2 }, Strategy::OnDevice] {
            let config = MsmConfig { strategy, ..MsmConfig::batches(3) };
            let mut plain = Msm::<G1Projective, Fr>::new(&bases, &config).expect("a plan");
            let mut slow = slowed(&bases, &config, &scalars, 20.0).expect("a plan");
            let (plain_us, _) = times(&mut plain, &scalars).expect("a run");
            let (slow_us, _) = times(&mut slow, &scalars).expect("a run");
            let change = slow_us / plain_us - 1.0;
            assert!((0.15..0.30).contains(&change), "{strategy}: {change}");
            assert_eq!(slow.run(&scalars).expect("a run"), known.product(&scalars), "{strategy}");
        }
    }
}
