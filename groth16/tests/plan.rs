//! The plan of a proof is a pure function: its laws, without a device.

use groth16::{Product, ProofPlan, ProveConfig, Reduction, Shape, Upload};
use msm_gpu::{Costs, DeviceLimits, MsmConfig, PlanError, Table};

const H200: DeviceLimits =
    DeviceLimits { free_bytes: 139 << 30, resident_threads: 132 * 2048, costs: Costs::SM_90 };

/// A circuit with so many variables, two of them inputs, in the smallest domain for as many constraints.
fn shape(variable_count: u32) -> Shape {
    Shape {
        constraint_count: variable_count,
        input_count: 2,
        variable_count,
        term_count: 3 * variable_count,
        coefficient_count: 2,
        log_n: (variable_count + 2).next_power_of_two().ilog2(),
        reduction: Reduction::Libsnark,
    }
}

#[test]
fn ways_up_have_words() {
    for (text, upload) in [
        ("pageable", Upload::Pageable),
        ("register", Upload::Register),
        ("ring:3:7", Upload::Ring { slots: 3, chunk: 7 }),
    ] {
        assert_eq!((text.parse(), upload.to_string().as_str()), (Ok(upload), text));
    }
    assert_eq!("ring".parse(), Ok(Upload::default()));
    for text in
        ["", "Ring", "ring:", "ring:2", "ring:0:7", "ring:2:0", "ring:-1:7", "ring:2:7:1", "pageable:1"]
    {
        let error = text.parse::<Upload>().expect_err(text);
        assert!(error.contains(&format!("`{text}`")), "{error}");
    }
}

/// A batch a point, where there are fewer points than batches; and no product without points.
#[test]
fn products_have_no_more_batches_than_points() {
    let config = ProveConfig { msm: MsmConfig::batches(6), ..ProveConfig::default() };
    let plan = ProofPlan::new(&shape(5), &config, &H200).expect("a plan");
    for (product, points, batches) in [
        (Product::A, 5, 5),
        (Product::BG1, 5, 5),
        (Product::BG2, 5, 5),
        (Product::L, 3, 3),
        (Product::H, 7, 6),
    ] {
        let msm = plan.product(product).expect("it has points");
        assert_eq!((msm.base_count, msm.batch_count), (points, batches), "{product:?}");
        assert_eq!(msm.group, product.group());
    }
    let no_private = Shape { input_count: 5, log_n: 4, ..shape(5) };
    let plan = ProofPlan::new(&no_private, &config, &H200).expect("a plan");
    assert_eq!((plan.products.len(), plan.product(Product::L)), (4, None));
}

/// Each product has the share of the memory for tables that its bases have of all bases: eight columns, with eight times
/// the memory of the bases.
#[test]
fn memory_of_tables_is_shared_by_memory_of_bases() {
    let shape = shape(1000);
    // A, B in G1, L, and H with one point less than the domain; B in G2.
    let bases_bytes = 96 * (1000 + 1000 + 998 + 1023) + 192 * 1000;
    for columns in [8, 16] {
        let table_bytes = columns * bases_bytes;
        let config = ProveConfig { table_bytes, ..ProveConfig::default() };
        let plan = ProofPlan::new(&shape, &config, &H200).expect("a plan");
        for (product, msm) in &plan.products {
            let bytes = columns * msm.base_count * msm.group.affine_bytes();
            let expected = Table::within(msm.group, msm.base_count, bytes, None, &H200);
            assert_eq!(msm.table(), expected, "{product:?}");
            assert!(expected.is_some_and(|table| u64::from(table.columns) <= columns), "{expected:?}");
        }
        let multiples: u64 = plan.products.iter().map(|(_, msm)| msm.bases_bytes()).sum();
        assert_eq!(plan.multiples_bytes(), multiples);
        assert!((bases_bytes + 1..=table_bytes).contains(&multiples), "{multiples} of {table_bytes}");
    }
    let plan = ProofPlan::new(&shape, &ProveConfig::default(), &H200).expect("a plan");
    assert!(plan.multiples_bytes() == 0 && plan.products.iter().all(|(_, msm)| msm.table().is_none()));
}

/// Tables count; and where all fits but for the rounds of pairs, it is done without them.
#[test]
fn what_fits_to_the_byte_fits() {
    let msm = MsmConfig { pair_rounds: Some(1), ..MsmConfig::default() };
    let config = ProveConfig { msm, table_bytes: 8 << 30, ..ProveConfig::default() };
    let shape = shape(1 << 20);
    let within = |config: &ProveConfig, free_bytes| {
        ProofPlan::new(&shape, config, &DeviceLimits { free_bytes, ..H200 })
    };
    let plan = within(&config, H200.free_bytes).expect("a plan");
    let needed_bytes = plan.device_bytes() + plan.multiples_bytes();
    assert!(plan.multiples_bytes() > 0);
    assert_eq!(within(&config, needed_bytes).as_ref(), Ok(&plan));
    match within(&config, needed_bytes - 1) {
        Err(PlanError::OutOfMemory { needed_bytes: needed, free_bytes }) => {
            assert_eq!((needed, free_bytes), (needed_bytes, needed_bytes - 1));
        }
        other => panic!("{other:?}"),
    }
    let free = ProveConfig { msm: MsmConfig::default(), ..config };
    let rounds = |plan: &ProofPlan| plan.products.iter().map(|(_, msm)| msm.pair_rounds).max();
    let plan = within(&free, H200.free_bytes).expect("a plan");
    assert!(rounds(&plan) > Some(0), "{plan:?}");
    let plan = within(&free, plan.device_bytes() + plan.multiples_bytes() - 1).expect("it does without");
    assert_eq!(rounds(&plan), Some(0));
}
