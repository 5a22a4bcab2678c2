//! Plans and schedules by their own laws: what kernels ask for holds, and no pass is taken that need not be.

use ark_bls12_381::Fr;
use gpu_core::CheckedSchedule;
use gpu_core::schedule::{Action, Arg};
use ntt_gpu::plan::PASS_BITS_MAX;
use ntt_gpu::{
    Direction, Domain, NttConfig, NttError, NttPlan, OrderKind, Shift, TableLayout, Transform, schedule,
};

fn configs() -> impl Iterator<Item = NttConfig> {
    (1..=PASS_BITS_MAX).flat_map(|pass_bits_max| {
        [0, 12, 24].map(|table_bits_max| NttConfig { pass_bits_max, table_bits_max })
    })
}

fn transforms() -> Vec<Transform> {
    let shifts = [None, Some(Shift::generator())];
    let inputs = [OrderKind::Natural, OrderKind::BitReversed];
    let directions = [Direction::Forward, Direction::Inverse];
    let all = directions.into_iter().flat_map(|direction| {
        inputs
            .into_iter()
            .flat_map(move |input| shifts.into_iter().map(move |shift| Transform { direction, input, shift }))
    });
    all.collect()
}

#[test]
fn passes_are_as_few_as_their_radix_allows() {
    let rows = |log_n| {
        let plan = NttPlan::new(log_n, 1, &NttConfig::default()).expect("a plan");
        plan.passes.iter().map(|pass| pass.log_rows).collect::<Vec<_>>()
    };
    let expected: [(u32, &[u32]); 9] = [
        (0, &[]),
        (1, &[1]),
        (10, &[10]),
        (11, &[6, 5]),
        (20, &[10, 10]),
        (21, &[7, 7, 7]),
        (24, &[8, 8, 8]),
        (27, &[9, 9, 9]),
        (32, &[8, 8, 8, 8]),
    ];
    for (log_n, passes) in expected {
        assert_eq!(rows(log_n), passes, "2^{log_n}");
    }
}

#[test]
fn plans_meet_the_preconditions_of_the_kernels() {
    for (log_n, config) in (0..=32).flat_map(|log_n| configs().map(move |config| (log_n, config))) {
        for job_count in [1, 2, 3, 31, 1000, 1 << 17] {
            let Ok(plan) = NttPlan::new(log_n, job_count, &config) else {
                // Refused where a launch would need 2^31 blocks, of the two values that a pass of one stage
                // may have.
                assert!(job_count << log_n > 1 << 31, "{job_count} jobs of 2^{log_n}, {config:?}");
                continue;
            };
            let what = format!("{plan:?}");
            assert_eq!(plan.passes.len() as u32, log_n.div_ceil(config.pass_bits_max), "{what}");
            let mut log_stride = log_n;
            for pass in &plan.passes {
                log_stride -= pass.log_rows;
                assert_eq!(pass.log_stride, log_stride, "{what}");
                assert!(
                    1 <= pass.log_rows && pass.log_rows <= pass.log_tile && pass.log_tile <= 10,
                    "{what}"
                );
                assert!(log_stride == 0 || log_stride >= pass.log_tile - pass.log_rows, "{what}");
                assert!(
                    pass.log_rows <= plan.passes[0].log_rows,
                    "the twiddles are of the first pass: {what}"
                );
                assert_eq!(pass.threads(), ((1 << pass.log_tile) / 4).max(1), "{what}");
                assert!(pass.threads() <= 256 && plan.tiles(pass) <= i32::MAX as u64, "{what}");
                assert!(plan.tiles(pass) << pass.log_tile >= plan.items(), "{what}");
                assert!(log_stride == 0 || plan.tiles(pass) << pass.log_tile == plan.items(), "{what}");
            }
            assert_eq!(log_stride, 0, "{what}");
        }
    }
    for pass_bits_max in [0, 11, u32::MAX] {
        let config = NttConfig { pass_bits_max, ..NttConfig::default() };
        assert!(matches!(NttPlan::new(4, 1, &config), Err(NttError::PassBits { .. })));
    }
}

/// Cosets, 1/n and the order of input cost no launch: one a pass, whatever the transform.
#[test]
fn a_transform_is_one_launch_a_pass() {
    for (log_n, config) in (0..=24).flat_map(|log_n| configs().map(move |config| (log_n, config))) {
        let plan = NttPlan::new(log_n, 3, &config).expect("a plan");
        for transform in transforms() {
            let schedule = schedule::transform(&plan, &transform);
            assert_eq!(schedule.ops.len(), plan.passes.len(), "{schedule}");
            let checked = CheckedSchedule::new(schedule).expect("one stream has no hazards");
            for op in &checked.schedule().ops {
                let Action::Launch { launch, .. } = &op.action else { panic!("only launches: {}", op.name) };
                let scales: Vec<_> = launch.args[10..]
                    .iter()
                    .map(|arg| match arg {
                        Arg::U32(kind) => *kind,
                        other => panic!("a kind of scale, not {other:?}"),
                    })
                    .collect();
                assert!(scales.iter().all(|kind| *kind <= 4), "{scales:?}");
                assert!(launch.work.fp_muls >= 0.0 && launch.work.bytes > 0.0);
            }
        }
    }
}

#[test]
fn tables_lie_side_by_side() {
    for (log_n, config) in (0..=32).flat_map(|log_n| configs().map(move |config| (log_n, config))) {
        let plan = NttPlan::new(log_n, 1, &config).expect("a plan");
        for transform in transforms() {
            let layout = TableLayout::new(&plan, &transform);
            let mut ranges = vec![layout.twiddles.clone(), layout.edge.range.clone()];
            ranges.extend(layout.between.iter().map(|scale| scale.range.clone()));
            ranges.retain(|range| !range.is_empty());
            ranges.sort_by_key(|range| range.start);
            let mut end = 0;
            for range in ranges {
                assert_eq!(range.start, end, "{layout:?}");
                end = range.end;
            }
            assert_eq!(layout.bytes(), end * 32);
            // At most the table of the widest block, a geometric series of smaller ones, and small change.
            let direct = if log_n > config.table_bits_max { 0 } else { 1u64 << log_n };
            let inner = 1u64 << (config.table_bits_max + 1);
            assert!(end <= 2 * direct.max(inner) + (1 << 22), "{layout:?}");
        }
    }
}

/// Jobs do not change the tables: they are made once for a domain.
#[test]
fn tables_do_not_depend_on_jobs() {
    for log_n in 0..=24 {
        let layout = |job_count, transform: &Transform| {
            let plan = NttPlan::new(log_n, job_count, &NttConfig::default()).expect("a plan");
            TableLayout::new(&plan, transform)
        };
        for transform in transforms() {
            assert_eq!(layout(1, &transform), layout(1000, &transform), "2^{log_n} {transform:?}");
        }
    }
}

#[test]
#[should_panic(expected = "tables of the transform")]
fn tables_of_another_transform_are_refused() {
    let plan = NttPlan::new(11, 1, &NttConfig::default()).expect("a plan");
    let plain = Transform::plain(Direction::Forward, OrderKind::Natural);
    let shift = Shift::new(&Domain::arkworks(11).expect("small"), Fr::from(7)).expect("outside");
    let coset = Transform::coset(Direction::Forward, OrderKind::Natural, shift);
    let mut schedule = schedule::transform(&plan, &plain);
    let (data, tables) = (schedule.whole(schedule::DATA), schedule.whole(schedule::TABLES));
    let stream = schedule.stream("other");
    schedule::push(&mut schedule, stream, &plan, &coset, data, tables);
}

/// The edges of what has a plan: no jobs, grids of 2^31 - 1 blocks, bytes of 64 bits.
#[test]
fn what_has_no_plan_says_why() {
    let said = |error: NttError| Err(format!("{error:?}"));
    let plan = |log_n, job_count, pass_bits_max| {
        NttPlan::new(log_n, job_count, &NttConfig { pass_bits_max, ..NttConfig::default() })
            .map(drop)
            .map_err(|error| format!("{error:?}"))
    };
    assert_eq!(plan(3, 0, 10), said(NttError::Empty));
    assert_eq!(plan(33, 1, 10), said(NttError::DomainTooLarge { log_n: 33 }));
    for pass_bits_max in [0, 11, u32::MAX] {
        assert_eq!(plan(3, 1, pass_bits_max), said(NttError::PassBits { pass_bits_max }));
    }
    let too_many = |log_n, job_count| said(NttError::TooManyJobs { job_count, log_n });
    // Blocks of 256 threads that take a value each.
    assert_eq!(plan(10, 1 << 28, 10), Ok(()));
    assert_eq!(plan(10, 1 << 29, 10), too_many(10, 1 << 29));
    assert_eq!(plan(0, 1 << 39, 10), too_many(0, 1 << 39));
    // Tiles of four values, for a pass of one stage over pairs of pairs.
    assert_eq!(plan(2, (1 << 31) - 1, 1), Ok(()));
    assert_eq!(plan(2, 1 << 31, 1), too_many(2, 1 << 31));
    for job_count in [1 << 27, 1 << 32, u64::MAX] {
        assert_eq!(plan(32, job_count, 10), too_many(32, job_count));
    }
}

#[test]
#[should_panic(expected = "value 8 of job 0")]
fn an_index_beyond_its_job_is_not_the_next_one() {
    NttPlan::new(3, 2, &NttConfig::default()).expect("a plan").byte_offset(0, 8);
}
