//! The mutants: each is seen by whoever must see it, and each check of each judge is needed for one of them.

use gpu_core::HazardKind;
use harness::commands::mutants::ablate;
use harness::mutants::{
    Adversary, Deletion, Expected, Judge, MUTANTS, Mutant, Observation, Options, Outcome, observe,
};
use harness::oracle::test_seed;
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// All of them, once for all tests. The orders are the same in each run; points and scalars are not.
fn observations() -> &'static [Observation] {
    static OBSERVATIONS: OnceLock<Vec<Observation>> = OnceLock::new();
    OBSERVATIONS.get_or_init(|| {
        let all: Vec<&'static Mutant> = MUTANTS.iter().collect();
        observe(&all, &Options { seed: test_seed(), orders: 8 })
    })
}

#[test]
fn no_mutant_survives_and_nothing_else_is_accused() {
    for observation in observations() {
        let problems = observation.problems();
        assert!(problems.is_empty(), "{}: {problems:#?}", observation.mutant.name);
    }
}

#[test]
fn every_check_is_needed() {
    for (deletion, ablated) in Deletion::all().into_iter().zip(ablate(observations())) {
        // What goes wrong in the order of issue goes wrong in some other order too; and what does in the latest may do in
        // one that is drawn, so that it can be missed without it and need not be.
        let is_needed = match deletion {
            Deletion::Orders(Adversary::Earliest) => false,
            Deletion::Orders(Adversary::Latest) => continue,
            _ => true,
        };
        assert_eq!(!ablated.missed.is_empty(), is_needed, "{deletion}: misses {:?}", ablated.missed);
    }
}

#[test]
fn the_latest_order_shows_what_the_order_of_issue_hides() {
    let shows = |observation: &&Observation, adversary| {
        let runs = || observation.sights.iter().flat_map(|sight| &sight.runs);
        runs().any(|run| run.adversary == adversary && run.outcome != Outcome::Right)
    };
    let only_latest =
        |seen: &&Observation| shows(seen, Adversary::Latest) && !shows(seen, Adversary::Earliest);
    assert!(observations().iter().filter(only_latest).count() >= 5);
}

#[test]
fn what_one_judge_alone_sees_nobody_sees_without_it() {
    for judge in [Judge::Checker, Judge::Simulation, Judge::Estimator] {
        let alone = observations().iter().filter(|seen| seen.seen_by(None) == BTreeSet::from([judge]));
        assert!(alone.count() >= 2, "{judge}");
    }
    // Without a kind of hazard, a mutant passes by everybody: one that is right by the values alone. But a
    // host thread that waits for ever is seen by whoever runs it.
    let survives =
        |kind: &str| ablate(observations()).iter().any(|row| row.check == kind && !row.survive.is_empty());
    for kind in harness::mutants::HAZARD_KINDS.map(|kind| format!("{kind:?}")) {
        let is_hang = ["NeverSignalled", "Deadlock"].contains(&kind.as_str());
        assert_eq!(survives(&format!("hazards {kind}")), !is_hang, "{kind}");
    }
}

#[test]
fn a_blind_judge_is_noticed() {
    // The published plan with page-locked slots, said to be harmless: the checker's report is then a problem.
    let mut harmless = *Mutant::named("published-plan-page-locked").expect("a mutant");
    harmless.expected = Expected::Surplus;
    // And a schedule as it is, said to have hazards: then nobody sees any.
    let mut hazardous = *Mutant::named("none").expect("the schedules as they are");
    hazardous.expected = Expected::Hazard { kinds: &[HazardKind::WriteAfterRead], is_visible: true };
    static ACCUSED: OnceLock<[Mutant; 2]> = OnceLock::new();
    let [harmless, hazardous] = ACCUSED.get_or_init(|| [harmless, hazardous]);
    let seen = observe(&[harmless, hazardous], &Options { seed: test_seed(), orders: 1 });
    let problems: Vec<String> = seen[0].problems();
    assert!(problems.iter().any(|problem| problem.contains("the checker reports: no order")), "{problems:?}");
    let problems: Vec<String> = seen[1].problems();
    for judge in ["survives the checker", "survives the simulation", "reports no WriteAfterRead"] {
        assert!(problems.iter().any(|problem| problem.contains(judge)), "{judge}: {problems:?}");
    }
}

#[test]
fn the_published_plan_is_what_was_measured() {
    let seen = |name: &str| {
        let observation = observations().iter().find(|observation| observation.mutant.name == name);
        observation.expect("a mutant").seen_by(None)
    };
    // In pageable memory: no hazard, no gain. Page-locked: a device hazard, and points that are wrong in some
    // orders.
    assert_eq!(seen("published-plan"), [Judge::Estimator].into());
    assert_eq!(seen("published-plan-page-locked"), [Judge::Checker, Judge::Simulation].into());
    assert_eq!(seen("wait-at-the-head"), [Judge::Estimator].into());
}
