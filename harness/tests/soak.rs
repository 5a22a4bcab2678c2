//! The soak: it passes, it repeats, and it can fail.

use clap::Parser;
use gpu_core::Device;
use gpu_core::sim::SimOptions;
use harness::commands::soak::{SoakArgs, run};
use harness::error::Judgement;
use harness::mutants::Mutant;
use harness::oracle::test_seed;
use harness::soak::Soak;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: SoakArgs,
}

fn soak(line: &str) -> (Judgement, String) {
    let args = Line::parse_from(["soak"].into_iter().chain(line.split_whitespace())).args;
    let mut out = Vec::new();
    let judgement = run(&args, &mut out).expect("a device");
    (judgement, String::from_utf8(out).expect("text"))
}

#[test]
fn two_hundred_products_are_right() {
    let (judgement, text) = soak(&format!("--device sim --iterations 200 --seed {:#x}", test_seed()));
    assert_eq!(judgement, Judgement::Good, "{text}");
    assert!(text.contains("200 products right on sim"), "{text}");
}

#[test]
fn a_soak_of_no_minutes_ends() {
    let (judgement, text) = soak("--device sim --minutes 0");
    assert_eq!(judgement, Judgement::Good);
    assert!(text.contains("0 products right"), "{text}");
}

#[test]
fn a_wrong_product_ends_it_with_a_line_that_repeats_it() {
    let seed = test_seed();
    let (judgement, text) =
        soak(&format!("--device sim --iterations 1000 --seed {seed:#x} --mutant last-batch-not-collected"));
    assert_eq!(judgement, Judgement::Bad, "{text}");
    let line = text.lines().next().expect("a line");
    let command =
        line.strip_prefix("harness soak ").expect("the command").split("  # ").next().expect("its options");
    assert!(command.starts_with(&format!("--replay {seed:#x}:")), "{line}");
    let (again, text) = soak(command);
    assert_eq!(again, Judgement::Bad, "{text}");
    assert_eq!(text.lines().next(), Some(line), "the same failure");
    // The same draw with the schedule as it is.
    let (whole, text) = soak(command.split(" --mutant").next().expect("options"));
    assert_eq!(whole, Judgement::Good, "{text}");
}

#[test]
fn an_error_of_the_device_is_a_failure_too() {
    let mutant = Mutant::named("counters-not-cleared");
    let soak = Soak::new(test_seed(), vec![Device::sim(SimOptions::default())], mutant);
    let failure = (0..200).find_map(|i| soak.iterate(i).err()).expect("a product with points");
    assert!(failure.what.contains("msm_"), "the kernel is named: {}", failure.what);
}
