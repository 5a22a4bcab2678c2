//! Plans of any sizes: there is one, and then it fits and its schedule is clean, or there is a typed error.

use arbitrary::{Result, Unstructured};
use gpu_core::check::check;
use gpu_core::{Schedule, Space};
use groth16::{ProofPlan, ProveConfig, Reduction, Shape, Upload};
use msm_gpu::{
    BaseSet, Batches, DeviceLimits, Goal, GroupKind, MsmConfig, MsmPlan, PlanError, ResultMemory, ScalarForm,
    Strategy, Table,
};
use ntt_gpu::{Direction, NttConfig, NttPlan, OrderKind, Shift, TableLayout, Transform};

/// Batches up to which a schedule is built and checked.
const BATCHES_MAX: u32 = 12;

/// A number of any size: all sizes are as likely, and so are the neighbours of powers of two.
fn number(u: &mut Unstructured<'_>) -> Result<u64> {
    let bits = u.int_in_range(0..=64_u32)?;
    let top = if bits == 0 { 0 } else { 1_u64 << (bits - 1) };
    Ok(match u.int_in_range(0..=3)? {
        0 => top,
        1 => top.wrapping_sub(1),
        2 => top.saturating_add(1),
        _ => top | (u.arbitrary::<u64>()? & top.saturating_sub(1)),
    })
}

fn number_u32(u: &mut Unstructured<'_>) -> Result<u32> {
    Ok(u32::try_from(number(u)?).unwrap_or(u32::MAX))
}

/// A strategy. There is no bound on the buffers of a ring but the number of batches, and each is declared.
fn strategy(u: &mut Unstructured<'_>, may_be_many: bool) -> Result<Strategy> {
    let is_small = !may_be_many || u.ratio(3, 4)?;
    let buffers = if is_small { u.int_in_range(1..=7)? } else { number_u32(u)? };
    Ok(match u.int_in_range(0..=3)? {
        0 => Strategy::Hard,
        1 => Strategy::OnDevice,
        2 => Strategy::Deferred { buffers },
        _ => Strategy::Threaded { buffers },
    })
}

fn msm_config(u: &mut Unstructured<'_>, batches: Batches) -> Result<MsmConfig> {
    Ok(MsmConfig {
        batches,
        strategy: strategy(u, matches!(batches, Batches::Count(0..=BATCHES_MAX)))?,
        window_bits: match u.int_in_range(0..=7)? {
            0..=2 => None,
            3..=6 => Some(u.int_in_range(2..=24)?),
            _ => Some(number_u32(u)?),
        },
        partitioned: u.arbitrary()?,
        goal: *u.choose(&[Goal::Alone, Goal::BesideOthers])?,
        pair_rounds: if u.arbitrary()? { None } else { Some(u.int_in_range(0..=4)?) },
        result_memory: *u.choose(&[ResultMemory::Pinned, ResultMemory::Pageable])?,
        graph: u.ratio(1, 8)?,
    })
}

fn limits(u: &mut Unstructured<'_>) -> Result<DeviceLimits> {
    let free_bytes = if u.ratio(3, 4)? { u64::MAX } else { number(u)? };
    Ok(DeviceLimits { free_bytes, resident_threads: number(u)?, costs: msm_gpu::Costs::SM_90 })
}

fn assert_clean(schedule: &Schedule) {
    let report = check(schedule);
    assert!(report.is_clean(), "{schedule}{report}");
}

/// An MSM of any size.
pub(super) fn msm_plan(data: &[u8]) -> bool {
    msm(&mut Unstructured::new(data)).unwrap_or(false)
}

fn msm(u: &mut Unstructured<'_>) -> Result<bool> {
    let group = *u.choose(&[GroupKind::G1, GroupKind::G2])?;
    let form = *u.choose(&[ScalarForm::Montgomery, ScalarForm::Canonical])?;
    let base_count = if u.ratio(1, 4)? { number(u)? } else { number(u)? & 0x3fff_ffff };
    let batches = match u.int_in_range(0..=3)? {
        0 | 1 => Batches::Count(u.int_in_range(0..=BATCHES_MAX)?),
        2 => Batches::Count(number_u32(u)?),
        _ => Batches::FitBytes(number(u)?),
    };
    let config = msm_config(u, batches)?;
    let limits = limits(u)?;
    let table = match u.int_in_range(0..=3)? {
        0 => Some(Table { window_bits: u.int_in_range(0..=26)?, columns: u.int_in_range(0..=130)? }),
        1 => Table::within(group, base_count, number(u)?, None, &limits),
        _ => None,
    };
    let bases = BaseSet { count: base_count, table, streamed: u.ratio(1, 4)? };
    let plan = MsmPlan::new(group, form, bases, &config, &limits);
    assert_eq!(plan, MsmPlan::new(group, form, bases, &config, &limits), "a plan is a pure function");
    let plan = match plan {
        Ok(plan) => plan,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return Ok(false);
        }
    };
    let allowed = match config.batches {
        Batches::FitBytes(bytes) => bytes.min(limits.free_bytes),
        Batches::Count(_) => limits.free_bytes,
    };
    assert_msm_plan(&plan, base_count, allowed);
    if plan.batch_count <= BATCHES_MAX {
        let schedule = msm_gpu::schedule::build(&plan);
        assert_eq!(schedule.bytes_in(Space::Device), plan.device_bytes());
        assert_clean(&schedule);
    }
    Ok(true)
}

fn assert_msm_plan(plan: &MsmPlan, base_count: u64, allowed_bytes: u64) {
    assert_eq!(plan.base_count, base_count);
    assert!(plan.device_bytes() <= allowed_bytes, "{plan:?}");
    assert!(plan.window_start(plan.window_count) >= 256 && plan.window_start(plan.window_count - 1) < 256);
    assert_eq!(plan.bucket_count, 1 << (plan.window_bits - 1));
    assert_eq!(plan.batch_count == 0, base_count == 0);
    assert!(plan.entries_max() <= u64::from(u32::MAX), "{plan:?}");
    let threads = plan.accumulate_threads(plan.batch_len_max());
    assert!(threads * u64::from(plan.entries_per_thread) >= plan.entries_max() >> plan.pair_rounds);
    assert_eq!(plan.set_count, plan.window_count.div_ceil(plan.column_count));
    assert_eq!(plan.slice_entries() % (1 << plan.pair_rounds), 0);
    assert!(plan.result_slot_count() <= plan.slot_count() && plan.slot_count() <= plan.batch_count);
    assert!(plan.first_uncollected() <= plan.batch_count);
    if plan.batch_count == 0 {
        return;
    }
    // The first batches and the last ones: nothing is between them, and none is longer than said.
    let mut next = 0;
    let ends =
        (0..plan.batch_count.min(4)).chain(plan.batch_count.saturating_sub(4).max(4)..plan.batch_count);
    for batch_index in ends {
        let batch = plan.batch(batch_index);
        if batch_index < 4 {
            assert_eq!(batch.start, next, "{plan:?}");
        }
        next = batch.end;
        let len = batch.end - batch.start;
        assert!(
            (plan.batch_len_max() - 1..=plan.batch_len_max()).contains(&len) && len > 0,
            "{plan:?} {batch:?}"
        );
    }
    assert_eq!(next, base_count, "{plan:?}");
}

/// Transforms of any size.
pub(super) fn ntt_plan(data: &[u8]) -> bool {
    ntt(&mut Unstructured::new(data)).unwrap_or(false)
}

fn ntt(u: &mut Unstructured<'_>) -> Result<bool> {
    let log_n = if u.ratio(7, 8)? { u.int_in_range(0..=33)? } else { number_u32(u)? };
    let job_count = if u.ratio(1, 2)? { u.int_in_range(0..=9)? } else { number(u)? };
    let any =
        |u: &mut Unstructured<'_>, to| if u.ratio(7, 8)? { u.int_in_range(0..=to) } else { number_u32(u) };
    let config = NttConfig { pass_bits_max: any(u, 11)?, table_bits_max: any(u, 33)? };
    let plan = match NttPlan::new(log_n, job_count, &config) {
        Ok(plan) => plan,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return Ok(false);
        }
    };
    assert_eq!(plan.items(), job_count << log_n);
    assert_eq!(plan.data_bytes(), plan.byte_offset(job_count - 1, (1 << log_n) - 1) + 32);
    assert_eq!(plan.passes.iter().map(|pass| pass.log_rows).sum::<u32>(), log_n, "{plan:?}");
    let mut stride = log_n;
    for pass in &plan.passes {
        stride -= pass.log_rows;
        assert_eq!(pass.log_stride, stride, "{plan:?}");
        assert!((1..=config.pass_bits_max).contains(&pass.log_rows), "{plan:?}");
        assert!((pass.log_rows..=10).contains(&pass.log_tile), "{plan:?}");
        assert!(plan.tiles(pass) << pass.log_tile >= plan.items(), "{plan:?}");
    }
    let direction = *u.choose(&[Direction::Forward, Direction::Inverse])?;
    let input = *u.choose(&[OrderKind::Natural, OrderKind::BitReversed])?;
    let shift = u.arbitrary::<bool>()?.then(Shift::generator);
    let transform = Transform { direction, input, shift };
    let tables = TableLayout::new(&plan, &transform);
    assert!(tables.bytes() < 1 << 40, "{plan:?}");
    let schedule = ntt_gpu::schedule::transform(&plan, &transform);
    assert_clean(&schedule);
    assert_clean(&ntt_gpu::schedule::reverse_order(&plan));
    Ok(true)
}

/// Proofs of circuits of any sizes.
pub(super) fn proof_plan(data: &[u8]) -> bool {
    proof(&mut Unstructured::new(data)).unwrap_or(false)
}

/// Sizes that some circuit could have.
fn shape(u: &mut Unstructured<'_>) -> Result<Shape> {
    let reduction = *u.choose(&[Reduction::Libsnark, Reduction::Snarkjs])?;
    let rows_max = 1_u32 << u.int_in_range(0..=31)?;
    let input_count = u.int_in_range(1..=rows_max)?;
    let constraint_count = u.int_in_range(0..=rows_max - input_count)?;
    let log_n = (constraint_count + input_count).next_power_of_two().ilog2();
    let variable_count =
        u.int_in_range(input_count..=input_count.saturating_mul(2).saturating_add(constraint_count))?;
    let term_count = number_u32(u)?;
    let coefficient_count = u.int_in_range(0..=term_count)?;
    Ok(Shape {
        constraint_count,
        input_count,
        variable_count,
        term_count,
        coefficient_count,
        log_n,
        reduction,
    })
}

fn proof(u: &mut Unstructured<'_>) -> Result<bool> {
    let shape = shape(u)?;
    // A schedule has operations for every batch and every chunk; there is one for each plan, for its memory is counted.
    let batches = match u.int_in_range(0..=3)? {
        0 if shape.log_n <= 8 => Batches::FitBytes(number(u)?),
        _ => Batches::Count(u.int_in_range(0..=BATCHES_MAX)?),
    };
    let msm = msm_config(u, batches)?;
    let least_chunk = (u64::from(shape.variable_count) / 64).max(1);
    let upload = match u.int_in_range(0..=2)? {
        0 => Upload::Pageable,
        1 => Upload::Register,
        _ => Upload::Ring { slots: u.int_in_range(1..=5)?, chunk: least_chunk.saturating_add(number(u)?) },
    };
    let table_bytes = if u.ratio(1, 2)? { 0 } else { number(u)? };
    let config = ProveConfig { upload, msm, table_bytes, verify: false, jobs_max: 1, reduction: None };
    let limits = limits(u)?;
    let plan = match ProofPlan::new(&shape, &config, &limits) {
        Ok(plan) => plan,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            let is_free = limits.free_bytes == u64::MAX && matches!(batches, Batches::Count(_));
            assert!(!is_free || !matches!(error, PlanError::OutOfMemory { .. }), "{error}: bytes overflow");
            return Ok(false);
        }
    };
    assert!(plan.device_bytes() <= limits.free_bytes);
    for (product, msm) in &plan.products {
        assert_msm_plan(msm, shape.base_count(*product), limits.free_bytes);
    }
    assert!(shape.resident_bytes() < u64::MAX / 2);
    let schedule = groth16::schedule::build(&plan);
    assert_eq!(schedule.bytes_in(Space::Device), plan.device_bytes());
    assert_clean(&schedule);
    Ok(true)
}
