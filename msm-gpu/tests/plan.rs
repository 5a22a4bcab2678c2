//! The plan is a pure function: its laws, without a device.

use gpu_core::Space;
use msm_gpu::schedule::build;
use msm_gpu::{Batches, DeviceLimits, GroupKind, MsmConfig, MsmPlan, PlanError, ScalarForm, Strategy};

const H200: DeviceLimits = DeviceLimits { free_bytes: 139 << 30, resident_threads: 132 * 2048 };

fn plan(group: GroupKind, base_count: u64, config: &MsmConfig) -> Result<MsmPlan, PlanError> {
    MsmPlan::new(group, ScalarForm::Montgomery, base_count, config, &H200)
}

#[test]
fn batches_cover_every_point_once_and_differ_by_at_most_one() {
    for (base_count, batch_count) in
        [(1, 1), (2, 2), (7, 3), (9, 8), (1000, 999), (4097, 8), ((1 << 27) + 3, 10)]
    {
        let plan = plan(GroupKind::G1, base_count, &MsmConfig::batches(batch_count)).unwrap();
        let mut next = 0;
        let lens: Vec<_> = (0..batch_count)
            .map(|batch| {
                let range = plan.batch(batch);
                assert_eq!(range.start, next);
                next = range.end;
                range.end - range.start
            })
            .collect();
        assert_eq!(next, base_count);
        let (min, max) = (*lens.iter().min().unwrap(), *lens.iter().max().unwrap());
        assert!(max - min <= 1 && min >= 1, "{base_count} in {batch_count}: {min} to {max}");
        assert_eq!(max, plan.batch_len_max());
    }
}

#[test]
fn windows_cover_the_scalar_and_its_carry_exactly() {
    for window_bits in 2..=20 {
        let config = MsmConfig { window_bits: Some(window_bits), ..MsmConfig::default() };
        let plan = plan(GroupKind::G1, 1000, &config).unwrap();
        assert!(plan.window_bits * plan.window_count >= 256);
        assert!(plan.window_bits * (plan.window_count - 1) < 256);
        assert_eq!(plan.bucket_count, 1 << (window_bits - 1));
    }
}

#[test]
fn wider_windows_for_more_points() {
    let bits = |log_n: u32| plan(GroupKind::G1, 1 << log_n, &MsmConfig::default()).unwrap().window_bits;
    let all: Vec<_> = (0..=27).map(bits).collect();
    assert!(all.is_sorted(), "{all:?}");
    assert!(all[10] >= 6 && all[10] <= 10 && all[20] >= 13 && all[20] <= 18, "{all:?}");
}

#[test]
fn what_cannot_be_planned_says_why() {
    let with = |batches, strategy, window_bits| MsmConfig { batches, strategy, window_bits };
    let one = Batches::Count(1);
    let error = |config: &MsmConfig| plan(GroupKind::G1, 10, config).unwrap_err();
    assert_eq!(error(&MsmConfig::batches(0)), PlanError::ZeroBatches);
    assert_eq!(error(&MsmConfig::batches(11)), PlanError::TooManyBatches { batch_count: 11, base_count: 10 });
    for buffers in [0, 1] {
        let config = with(one, Strategy::Deferred { buffers }, None);
        assert_eq!(error(&config), PlanError::TooFewBuffers { buffers });
    }
    for window_bits in [0, 1, 21, 64] {
        assert_eq!(
            error(&with(one, Strategy::Hard, Some(window_bits))),
            PlanError::WindowBits { window_bits }
        );
    }
    let huge = plan(GroupKind::G1, 1 << 31, &MsmConfig::default()).unwrap_err();
    assert!(matches!(huge, PlanError::BatchTooLong { batch_len: 0x8000_0000, .. }), "{huge}");
    let small = DeviceLimits { free_bytes: 1 << 20, ..H200 };
    let big = MsmPlan::new(GroupKind::G2, ScalarForm::Canonical, 1 << 20, &MsmConfig::default(), &small)
        .unwrap_err();
    assert!(matches!(big, PlanError::OutOfMemory { free_bytes: 0x10_0000, .. }), "{big}");
}

#[test]
fn no_points_need_nothing() {
    let plan = plan(GroupKind::G1, 0, &MsmConfig::default()).unwrap();
    assert_eq!((plan.batch_count, plan.slot_count()), (0, 0));
    assert!(build(&plan).ops.is_empty());
}

#[test]
fn a_memory_limit_gives_the_batches() {
    for limit in [64u64 << 20, 256 << 20, 1 << 30, 4 << 30] {
        let config = MsmConfig { batches: Batches::FitBytes(limit), ..MsmConfig::default() };
        let fitted = plan(GroupKind::G1, 1 << 20, &config).unwrap();
        assert!(fitted.device_bytes() <= limit, "{} > {limit}", fitted.device_bytes());
        if fitted.batch_count > 1 {
            let fewer = MsmConfig::batches(fitted.batch_count / 2);
            assert!(plan(GroupKind::G1, 1 << 20, &fewer).unwrap().device_bytes() > limit);
        }
    }
    let config = MsmConfig { batches: Batches::FitBytes(1000), ..MsmConfig::default() };
    assert!(matches!(
        plan(GroupKind::G1, 1 << 20, &config),
        Err(PlanError::OutOfMemory { free_bytes: 1000, .. })
    ));
}

#[test]
fn schedules_are_clean_and_no_wait_is_surplus() {
    for base_count in [1, 2, 3, 8, 1000, 1 << 22] {
        for batches in [1, 2, 3, 8] {
            for strategy in [1, 2, 3, 4, 9] {
                let strategy = match strategy {
                    1 => Strategy::Hard,
                    buffers => Strategy::Deferred { buffers },
                };
                let batches = Batches::Count(batches.min(base_count as u32));
                let config = MsmConfig { batches, strategy, window_bits: None };
                let schedule = build(&plan(GroupKind::G1, base_count, &config).unwrap());
                let report = gpu_core::check::check(&schedule);
                assert!(report.is_clean() && report.surplus.is_empty(), "{schedule}\n{report}");
            }
        }
    }
}

#[test]
fn secrets_are_marked() {
    let schedule = build(&plan(GroupKind::G1, 100, &MsmConfig::batches(2)).unwrap());
    for buffer in &schedule.buffers {
        let holds_digits = ["scalars", "digits", "entries"].iter().any(|word| buffer.name.starts_with(word));
        assert_eq!(buffer.secret, holds_digits, "{}", buffer.name);
    }
    assert!(schedule.bytes_in(Space::PinnedUpload) >= 2 * 50 * 32);
}
