//! The plan is a pure function: its laws, without a device.

use gpu_core::schedule::{Action, Arg, MAIN, Op};
use gpu_core::sim::SimOptions;
use gpu_core::{Device, Schedule, Space};
use msm_gpu::plan::BATCHES_MAX;
use msm_gpu::schedule::{COLLECTOR, FOLD, STAGE, build};
use msm_gpu::{
    BaseSet, Batches, Costs, DeviceLimits, GroupKind, MsmConfig, MsmPlan, PlanError, ResultMemory,
    ScalarForm, Strategy, SyncPattern, Table,
};

const H200: DeviceLimits =
    DeviceLimits { free_bytes: 139 << 30, resident_threads: 132 * 2048, costs: msm_gpu::Costs::SM_90 };

fn plan(group: GroupKind, base_count: u64, config: &MsmConfig) -> Result<MsmPlan, PlanError> {
    MsmPlan::new(group, ScalarForm::Montgomery, base_count, config, &H200)
}

/// A chip that nobody has heard of is planned for by its own numbers: the plan is that of these limits, by any name.
#[test]
fn b96_limits_are_what_the_device_says() {
    let mut plans = Vec::new();
    for sm_count in [1, 7, 132] {
        let device = Device::sim(SimOptions { sm_count, memory_bytes: 1 << 30, ..SimOptions::default() });
        let limits = DeviceLimits::of(&device).unwrap();
        let threads = u64::from(sm_count) * u64::from(device.info().sm_threads_max);
        assert_eq!((limits.free_bytes, limits.resident_threads), (1 << 30, threads));
        let (form, config) = (ScalarForm::Montgomery, MsmConfig::default());
        plans.push(MsmPlan::new(GroupKind::G1, form, 1 << 16, &config, &limits).unwrap());
    }
    assert!(plans[0] != plans[2], "more threads, another plan: {plans:?}");
}

/// A chip that was measured has its row; another one gets a row too, and is told.
#[test]
fn every_chip_has_costs() {
    for row in Costs::MEASURED {
        assert_eq!(Costs::MEASURED.iter().filter(|other| other == &row).count(), 1, "{}", row.chip);
    }
    let mut info = Device::sim(SimOptions::default()).info().clone();
    for chip in ["sm_90", "sm_75", "sm_120"] {
        info.arch = chip.into();
        let row = Costs::MEASURED.iter().find(|row| row.chip == chip).unwrap_or(&Costs::MEASURED[0]);
        assert_eq!(&Costs::of(&info), row, "{chip}");
    }
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
fn what_cannot_be_planned_says_why() {
    let with =
        |batches, strategy, window_bits| MsmConfig { batches, strategy, window_bits, ..MsmConfig::default() };
    let one = Batches::Count(1);
    let error_of = |base_count, config: &MsmConfig| plan(GroupKind::G1, base_count, config).unwrap_err();
    let error = |config: &MsmConfig| error_of(10, config);
    assert_eq!(error(&MsmConfig::batches(0)), PlanError::ZeroBatches);
    assert_eq!(error(&MsmConfig::batches(11)), PlanError::TooManyBatches { batch_count: 11, base_count: 10 });
    // A schedule that would take all memory of the host is refused before it is built.
    for batch_count in [BATCHES_MAX + 1, 1 << 31, u32::MAX] {
        let base_count = 1 << 40;
        let strategy = Strategy::Deferred { buffers: batch_count };
        let config = with(Batches::Count(batch_count), strategy, None);
        assert_eq!(error_of(base_count, &config), PlanError::TooManyBatches { batch_count, base_count });
    }
    let most = with(Batches::Count(BATCHES_MAX), Strategy::Hard, None);
    assert_eq!(plan(GroupKind::G1, 1 << 40, &most).unwrap().batch_count, BATCHES_MAX);
    // Memory that no number of batches keeps to, up to the most.
    let fit = with(Batches::FitBytes(1 << 30), Strategy::Hard, None);
    assert!(
        matches!(error_of(1 << 57, &fit), PlanError::BatchTooLong { batch_len, .. } if batch_len == 1 << 43)
    );
    for buffers in [0, 1] {
        for strategy in [Strategy::Deferred { buffers }, Strategy::Threaded { buffers }] {
            assert_eq!(error(&with(one, strategy, None)), PlanError::TooFewBuffers { buffers });
        }
    }
    for window_bits in [0, 1, 25, 64] {
        assert_eq!(
            error(&with(one, Strategy::Hard, Some(window_bits))),
            PlanError::WindowBits { window_bits }
        );
    }
    let (result_memory, graph) = (ResultMemory::Pageable, true);
    let config = MsmConfig { result_memory, graph, ..MsmConfig::default() };
    assert_eq!(error(&config), PlanError::PageableGraph);
    let huge = plan(GroupKind::G1, 1 << 31, &MsmConfig::default()).unwrap_err();
    assert!(matches!(huge, PlanError::BatchTooLong { batch_len: 0x8000_0000, .. }), "{huge}");
    // Sizes whose bytes, or whose entries, are over 64 bits.
    for base_count in [u64::MAX, u64::MAX / 96 + 1, 1 << 60] {
        for batches in [one, Batches::Count(u32::MAX), Batches::FitBytes(1 << 40)] {
            for group in [GroupKind::G1, GroupKind::G2] {
                let config = with(batches, Strategy::Hard, None);
                assert_eq!(plan(group, base_count, &config), Err(PlanError::TooManyBases { base_count }));
            }
        }
    }
    for window_bits in [None, Some(2), Some(20)] {
        let error = error_of(1 << 57, &with(one, Strategy::Hard, window_bits));
        assert!(
            matches!(error, PlanError::BatchTooLong { batch_len, .. } if batch_len == 1 << 57),
            "{error}"
        );
    }
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
        assert!(fitted.batch_count.is_power_of_two(), "{} batches", fitted.batch_count);
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

/// Every strategy with every number of buffers that differs in kind: fewer than batches, as many, more.
fn strategies() -> Vec<Strategy> {
    let rings = [2, 3, 4, 9].into_iter();
    let rings = rings.flat_map(|buffers| [Strategy::Deferred { buffers }, Strategy::Threaded { buffers }]);
    [Strategy::Hard, Strategy::OnDevice].into_iter().chain(rings).collect()
}

/// Schedules of all strategies, for few points and many, one batch and many.
fn schedules(result_memory: ResultMemory) -> impl Iterator<Item = Schedule> {
    let sizes = [1u64, 2, 3, 8, 1000, 1 << 22];
    let cases = sizes.into_iter().flat_map(|n| [1, 2, 3, 8].map(|batches| (n, batches)));
    cases.flat_map(move |(n, batches)| {
        strategies().into_iter().map(move |strategy| {
            let batches = Batches::Count(batches.min(n as u32));
            let config = MsmConfig { batches, strategy, result_memory, ..MsmConfig::default() };
            build(&plan(GroupKind::G1, n, &config).unwrap())
        })
    })
}

#[test]
fn schedules_are_clean_and_no_wait_is_surplus() {
    for schedule in schedules(ResultMemory::Pinned) {
        let report = gpu_core::check::check(&schedule);
        assert!(report.is_clean() && report.surplus.is_empty(), "{schedule}\n{report}");
    }
}

#[test]
fn with_pageable_results_every_wait_for_one_is_surplus() {
    for schedule in schedules(ResultMemory::Pageable) {
        let report = gpu_core::check::check(&schedule);
        assert!(report.is_clean(), "{schedule}\n{report}");
        let is_wait = |op: &Op| match op.action {
            Action::HostWait { .. } => op.name == "rows_downloaded",
            Action::Wait { .. } => op.name == "rows_free",
            _ => false,
        };
        let waits = (0..schedule.ops.len()).filter(|index| is_wait(&schedule.ops[*index]));
        let surplus: Vec<_> = report.surplus.iter().map(|surplus| surplus.at).collect();
        assert_eq!(surplus, waits.collect::<Vec<_>>(), "{schedule}\n{report}");
    }
}

#[test]
fn only_the_collector_waits_for_results_when_there_is_one() {
    let config = MsmConfig { strategy: Strategy::Threaded { buffers: 2 }, ..MsmConfig::batches(5) };
    let schedule = build(&plan(GroupKind::G2, 1000, &config).unwrap());
    assert_eq!(schedule.threads, ["host", COLLECTOR]);
    for op in &schedule.ops {
        let collects = matches!(op.action, Action::HostWait { .. }) || op.name == FOLD;
        let is_queued = op.stream().is_some() || op.name == STAGE;
        let thread = schedule.thread_name(op.thread);
        assert!(!collects || thread == COLLECTOR, "{} on {thread}", op.name);
        assert!(!is_queued || thread == "host", "{} on {thread}", op.name);
    }
    let awaits = schedule.ops.iter().filter(|op| op.thread == MAIN);
    let awaits: Vec<_> = awaits.filter(|op| matches!(op.action, Action::Await { .. })).collect();
    let batches: Vec<_> = awaits.iter().map(|op| op.batch).collect();
    assert_eq!(batches, [Some(0), Some(1), Some(2)], "a slot is awaited when it is needed again");
}

#[test]
fn patterns_and_result_memories_read_what_they_print() {
    for strategy in strategies() {
        assert_eq!(strategy.to_string().parse(), Ok(strategy));
        for graph in [false, true] {
            let pattern = SyncPattern { strategy, graph };
            assert_eq!(pattern.to_string().parse(), Ok(pattern));
        }
        let graph = format!("graph:{strategy}").parse::<SyncPattern>().unwrap();
        assert_eq!(graph.to_string(), format!("graph({strategy})"));
        let config = MsmConfig::default().with_pattern(graph);
        assert_eq!((config.strategy, config.graph), (strategy, true));
    }
    for memory in [ResultMemory::Pinned, ResultMemory::Pageable] {
        assert_eq!(memory.to_string().parse(), Ok(memory));
    }
    for text in
        ["", "harder", "deferred", "deferred:", "deferred:-1", "threaded:x", "graph", "graph(hard", "graph:"]
    {
        assert!(text.parse::<SyncPattern>().is_err(), "{text}");
    }
    assert!("page-locked".parse::<ResultMemory>().unwrap_err().contains("`pinned` or `pageable`"));
}

#[test]
fn secrets_are_marked() {
    let schedule = build(&plan(GroupKind::G1, 100, &MsmConfig::batches(2)).unwrap());
    for buffer in &schedule.buffers {
        assert_eq!(buffer.secret, buffer.space != Space::Resident, "{}", buffer.name);
    }
    assert!(schedule.bytes_in(Space::PinnedUpload) >= 2 * 50 * 32);
}

/// Sizes that follow from the paper's by hand: what kernels index with, and what is tuned.
#[test]
fn sizes_of_a_plan_are_those_worked_out_by_hand() {
    let with = |base_count, window_bits, resident_threads| {
        let window_bits = Some(window_bits);
        let config = MsmConfig { window_bits, pair_rounds: Some(0), ..MsmConfig::default() };
        let limits = DeviceLimits { resident_threads, ..H200 };
        MsmPlan::new(GroupKind::G1, ScalarForm::Montgomery, base_count, &config, &limits).unwrap()
    };
    let resident = H200.resident_threads;
    let plan = with(1 << 20, 10, resident);
    assert_eq!((plan.window_count, plan.bucket_count, plan.digit_rows()), (26, 512, 27));
    assert_eq!((plan.bucket_total(), plan.rows_total()), (26 * 512 + 1, 26 * 10 + 1));
    assert_eq!((plan.line_bits(), plan.lines_total()), ((4, 5), 26 * (16 + 32)));
    // 26 * 2^20 entries over 270 336 threads, and four times the 20 parts that a bucket has on average.
    assert_eq!((plan.entries_per_thread, plan.merge_partials_max), (100, 80));
    // 67 584 threads for 26 * 64 lines are 32 each, and a line of 16 buckets has no more than 16.
    assert_eq!(plan.line_threads, 16);
    // A small product, and a large one: 8 entries and 8 parts at least, 256 entries at most.
    let small = with(1 << 10, 10, resident);
    assert_eq!((small.entries_per_thread, small.merge_partials_max), (8, 8));
    assert_eq!(with(1 << 22, 10, resident).entries_per_thread, 256);
    // Wide windows have many lines: two threads each; on a device of any size a warp at most.
    assert_eq!(with(1 << 20, 20, resident).line_threads, 2);
    assert_eq!(with(1 << 20, 20, u64::MAX).line_threads, 32);
}

const HUGE: DeviceLimits = DeviceLimits { free_bytes: u64::MAX, ..H200 };

fn over(group: GroupKind, bases: BaseSet, config: &MsmConfig) -> Result<MsmPlan, PlanError> {
    MsmPlan::new(group, ScalarForm::Montgomery, bases, config, &HUGE)
}

fn with_table(count: u64, window_bits: u32, columns: u32) -> BaseSet {
    BaseSet { count, table: Some(Table { window_bits, columns }), streamed: false }
}

/// The same with rounds of pairs, partitions and tables, which share buckets between windows.
#[test]
fn sizes_with_rounds_partitions_and_tables_are_those_worked_out_by_hand() {
    let rounds = |rounds| MsmConfig { pair_rounds: Some(rounds), ..MsmConfig::default() };
    let bases = with_table(1 << 20, 19, 14);
    let plan = over(GroupKind::G1, bases, &rounds(3)).unwrap();
    assert_eq!((plan.set_count, plan.bucket_total(), plan.table()), (1, (1 << 18) + 1, bases.table));
    assert_eq!(plan.bases_bytes(), (14 * 96) << 20);
    // 14 digits of each point, seven fillers of each bucket, and up to the next eight.
    assert_eq!(plan.entries_of(1 << 20), 16_515_080);
    assert_eq!((plan.partition_bits, plan.partition_count()), (11, 129));
    // 2 064 385 points that three rounds leave.
    let each = plan.entries_per_thread;
    assert!((8..=16).contains(&each), "{each}");
    assert_eq!(plan.accumulate_threads(1 << 20), 2_064_385_u64.div_ceil(each.into()));
    // A quarter of the device's 270 336 threads in G1; 67 584 threads for 1024 lines are capped at 32 each.
    assert_eq!((plan.pair_threads, plan.line_threads), (67_584, 32));
    // 2^10 rows and as many columns leave 33 threads for each line.
    assert_eq!(over(GroupKind::G1, with_table(1 << 20, 21, 13), &rounds(0)).unwrap().line_threads, 32);

    // Three columns: windows nine sets apart share their buckets.
    let partitioned = MsmConfig { partitioned: Some(true), ..rounds(1) };
    let plan = over(GroupKind::G2, with_table(1000, 10, 3), &partitioned).unwrap();
    assert_eq!((plan.window_count, plan.set_count, plan.bucket_total()), (26, 9, 9 * 512 + 1));
    assert_eq!((plan.partition_bits, plan.partition_count()), (9, 10));
    assert_eq!((plan.entries_of(1000), plan.pair_threads), (30_610, 33_792));
    // A table of the bases alone is none.
    assert_eq!(over(GroupKind::G1, with_table(1000, 10, 1), &rounds(0)).unwrap().table(), None);

    // Fillers count in full for memory and by half for the work: 13 * 2^18 digits and half of 20 447 238 over four.
    let config = MsmConfig { window_bits: Some(20), ..rounds(2) };
    let limits = DeviceLimits { resident_threads: 100_000, ..HUGE };
    let plan = MsmPlan::new(GroupKind::G1, ScalarForm::Montgomery, 1 << 18, &config, &limits).unwrap();
    assert_eq!(plan.entries_per_thread, 34);
    // Four times the 1057 parts of 31 entries in each of 256 buckets.
    let config = MsmConfig { window_bits: Some(2), ..rounds(0) };
    assert_eq!(over(GroupKind::G1, (1 << 16).into(), &config).unwrap().merge_partials_max, 4228);
}

/// What points weigh, and what additions of them cost, in G1 and in G2.
#[test]
fn a_group_is_known_by_its_coordinates() {
    let of = |group: GroupKind| {
        let bytes = (group.affine_bytes(), group.xyzz_bytes());
        (bytes, [group.add_affine_muls(), group.add_muls(), group.add_by_four_muls()])
    };
    assert_eq!(of(GroupKind::G1), ((96, 192), [10.0, 14.0, 5.0]));
    assert_eq!(of(GroupKind::G2), ((192, 384), [30.0, 42.0, 15.0]));
}

/// Digits are sorted by way of partitions from 2^22 on.
#[test]
fn partitions_begin_where_the_cache_ends() {
    let bits = |window_bits, count: u64| {
        let config = MsmConfig { window_bits: Some(window_bits), ..MsmConfig::default() };
        over(GroupKind::G1, count.into(), &config).unwrap().partition_bits
    };
    assert_eq!([161_319, 161_320].map(|count| bits(10, count)), [0, 9]);
    assert_eq!([(1 << 18) - 1, 1 << 18].map(|count| bits(16, count)), [0, 11]);
}

/// What numbers of 32 bits count: entries with all their fillers, and points of a table.
#[test]
fn bounds_on_counts_are_exact() {
    let with = |window_bits, rounds| MsmConfig {
        window_bits: Some(window_bits),
        pair_rounds: Some(rounds),
        ..MsmConfig::default()
    };
    // 15 windows divide 2^32 - 1; with 26 windows of 512 buckets and seven fillers for each, and seven up to the next eight,
    // 93 198 are taken, with 13 of 2^19 47 710 222.
    for (config, most) in
        [(with(18, 0), 286_331_153_u64), (with(10, 3), 165_187_465), (with(20, 3), 326_712_082)]
    {
        assert_eq!(over(GroupKind::G1, most.into(), &config).unwrap().batch_count, 1);
        let error = over(GroupKind::G1, (most + 1).into(), &config).unwrap_err();
        assert!(
            matches!(error, PlanError::BatchTooLong { batch_len, .. } if batch_len == most + 1),
            "{error}"
        );
    }
    let config = MsmConfig::batches(64);
    let most = with_table((1 << 30) - 1, 20, 2);
    assert_eq!(over(GroupKind::G1, most, &config).unwrap().column_count, 2);
    let error = over(GroupKind::G1, BaseSet { count: 1 << 30, ..most }, &config).unwrap_err();
    assert_eq!(error, PlanError::TableTooLong { columns: 2, base_count: 1 << 30 });
    let error = over(GroupKind::G1, BaseSet { streamed: true, ..most }, &config).unwrap_err();
    assert_eq!(error, PlanError::StreamedTable);
}

/// Pairs of a round, its threads, and threads of its inversion, of each launch in a schedule.
fn round_threads(plan: &MsmPlan) -> Vec<(u32, u32, u32)> {
    let numbers = |op: &Op| -> Option<(String, Vec<u32>)> {
        let Action::Launch { launch, .. } = &op.action else { return None };
        let numbers = launch.args.iter().filter_map(|arg| match arg {
            Arg::U32(number) => Some(*number),
            _ => None,
        });
        Some((launch.kernel.to_string(), numbers.collect()))
    };
    let launches: Vec<_> = build(plan).ops.iter().filter_map(numbers).collect();
    let of = |stem: &'static str| {
        launches.iter().filter(move |(name, _)| name.contains(stem)).map(|(_, numbers)| numbers.clone())
    };
    let inversions = of("msm_invert_totals");
    let forward = of("_forward").zip(inversions).map(|(forward, inversion)| {
        let [.., pairs, threads] = forward[..] else { panic!("{forward:?}") };
        let [count, invert_threads] = inversion[..] else { panic!("{inversion:?}") };
        assert_eq!(count, threads, "each thread of a round leaves one product");
        (pairs, threads, invert_threads)
    });
    forward.collect()
}

/// As many threads as the device holds, up to four times as many, or with 128 pairs at most; 16 products an inversion.
#[test]
fn rounds_have_threads_for_their_pairs() {
    let plan = |group, bases: BaseSet, rounds| {
        let config = MsmConfig { pair_rounds: Some(rounds), ..MsmConfig::default() };
        over(group, bases, &config).unwrap()
    };
    assert_eq!(
        round_threads(&plan(GroupKind::G1, with_table(1 << 20, 19, 14), 3)),
        [(8_257_540, 4 * 67_584, 16_896), (4_128_770, 2 * 67_584, 16_896), (2_064_385, 67_584, 16_896)]
    );
    // 2^25 pairs at a time, eight turns of 33 792 threads in G2, and what is left over.
    let rounds = round_threads(&plan(GroupKind::G2, with_table(1 << 22, 15, 18), 1));
    assert_eq!(rounds[0], (1 << 25, 8 * 33_792, 16_896));
    assert_eq!(rounds.len(), 2);
    // Four pairs a thread where there are few, each inverted alone.
    let rounds = round_threads(&plan(GroupKind::G1, with_table(100, 10, 26), 1));
    assert_eq!(rounds, [(1557, 390, 390)]);
}

/// Windows follow each other over all bits, as wide as was asked for or one bit less, where nothing keeps them equal:
/// sets of buckets that several columns share.
#[test]
fn windows_are_as_equal_as_they_can_be() {
    for window_bits in 2..=24 {
        let window_count = 256_u32.div_ceil(window_bits);
        for columns in [1, 2, window_count / 2, window_count - 1, window_count] {
            let table = (columns > 1).then_some(Table { window_bits, columns });
            let bases = BaseSet { count: 1000, table, streamed: false };
            let config = MsmConfig { window_bits: Some(window_bits), ..MsmConfig::default() };
            let plan = MsmPlan::new(GroupKind::G1, ScalarForm::Montgomery, bases, &config, &H200).unwrap();
            let what = format!("{window_bits} bits, {columns} columns: {plan:?}");
            let widths: Vec<u32> = (0..window_count).map(|window| plan.window_width(window)).collect();
            let total: u32 = widths.iter().sum();
            assert_eq!(plan.window_start(window_count), total, "{what}");
            assert!(
                total >= 256 && widths.iter().all(|width| [window_bits, window_bits - 1].contains(width))
            );
            let narrow = widths.iter().filter(|width| **width < window_bits).count() as u32;
            match columns == 1 || columns == window_count {
                true => assert!(total == 256 || narrow == window_count - 1, "{what}"),
                false => assert_eq!(narrow, 0, "{what}"),
            }
            // Each column begins where its first window does.
            for column in 0..columns.min(window_count.div_ceil(plan.set_count)) {
                let start = table.map_or(0, |table| table.column_start(column));
                assert_eq!(start, plan.window_start(column * plan.set_count), "{what}");
            }
        }
    }
    // 2^20 points in 14 windows: four of 19 bits, ten of 18.
    let plan = over(GroupKind::G1, with_table(1 << 20, 19, 14), &MsmConfig::default()).unwrap();
    assert_eq!(
        (plan.window_count, plan.wide_count, plan.window_width(3), plan.window_width(4)),
        (14, 4, 19, 18)
    );
    assert_eq!((plan.window_start(4), plan.window_start(13), plan.window_start(14)), (76, 238, 256));
}

/// More points, wider windows, give or take two bits; rounds of pairs, and tables of all columns, where they pay.
#[test]
fn windows_and_rounds_grow_with_the_product() {
    for group in [GroupKind::G1, GroupKind::G2] {
        let mut bits = 0;
        for log_n in 0..=28 {
            let plan = over(group, (1 << log_n).into(), &MsmConfig::default());
            let plan = plan.unwrap_or_else(|error| panic!("2^{log_n}: {error}"));
            let table = Table::within(group, 1 << log_n, 64 << 30, None, &HUGE);
            println!("{group:?} 2^{log_n}: {} {} table {table:?}", plan.window_bits, plan.pair_rounds);
            assert!(plan.window_bits + 2 >= bits, "2^{log_n}: {plan:?}");
            bits = bits.max(plan.window_bits);
            if log_n < 12 {
                assert_eq!(plan.pair_rounds, 0);
            }
            if (20..=24).contains(&log_n) {
                assert!(plan.pair_rounds > 0 && table.is_some_and(|table| table.set_count() == 1));
            }
        }
        assert!(bits >= 19);
    }
}

#[test]
fn what_fits_to_the_byte_fits() {
    let config = MsmConfig { strategy: Strategy::Hard, ..MsmConfig::default() };
    let exact = plan(GroupKind::G1, 1000, &config).unwrap();
    let limits = |free_bytes| DeviceLimits { free_bytes, ..H200 };
    let of =
        |free_bytes| MsmPlan::new(GroupKind::G1, ScalarForm::Montgomery, 1000, &config, &limits(free_bytes));
    assert_eq!(of(exact.device_bytes()), Ok(exact));
    assert!(matches!(of(exact.device_bytes() - 1), Err(PlanError::OutOfMemory { .. })));
}
