//! Properties of the pure machine under random schedules.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::bench::{Bench, Mutant, Step};
use crate::machine::holder::{Holder, Want};
use crate::machine::{Answer, Entry, Line, Rule};
use crate::world::{Random, secs};

fn step() -> impl Strategy<Value = Step> {
    let side = 0_usize..4;
    prop_oneof![
        3 => (side.clone(), any::<u8>()).prop_map(|(at, more)| Step::Wants(at, more)),
        1 => side.clone().prop_map(Step::WantsOld),
        3 => side.clone().prop_map(Step::Ends),
        8 => side.clone().prop_map(Step::Sends),
        1 => side.clone().prop_map(Step::LosesRequest),
        1 => side.clone().prop_map(Step::LosesAnswer),
        1 => side.clone().prop_map(Step::Duplicates),
        2 => Just(Step::Arrives),
        1 => side.prop_map(Step::Dies),
        1 => any::<u8>().prop_map(Step::Changes),
        3 => (0_u8..30).prop_map(Step::Passes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    /// Σ held + free = limit, and no more than the limit run, whatever is lost, late or duplicated.
    #[test]
    fn permits_are_conserved_and_keep_to_the_limit(
        holders in 2_usize..5,
        most in 1_i64..6,
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let mut bench = Bench::new(Mutant::None, holders, most);
        for step in steps {
            bench.step(step);
            prop_assert_eq!(bench.fault(), None);
        }
        prop_assert!(bench.settles(), "permits stay behind: {:?}", bench);
        prop_assert_eq!(bench.fault(), None);
    }
}

/// A schedule of takes, ends and lost answers, without deaths and changes.
fn simple_step(random: &mut Random, has_old: bool) -> Step {
    let at = usize::try_from(random.below(3)).unwrap_or(0);
    match random.below(12) {
        0 | 1 if has_old => Step::WantsOld(at),
        0..=2 => Step::Wants(at, 1),
        3 | 4 => Step::Ends(at),
        5 => Step::LosesAnswer(at),
        6 => Step::Passes(20),
        _ => Step::Sends(at),
    }
}

/// Returns the first seed whose schedule exceeds the limit or loses permits.
fn find_fault(mutant: Mutant, has_old: bool) -> Option<(u64, String)> {
    (0..200).find_map(|seed| {
        let mut random = Random::new(seed);
        let mut bench = Bench::new(mutant, 3, 2);
        (0..300).find_map(|_| {
            bench.step(simple_step(&mut random, has_old));
            Some((seed, bench.fault()?))
        })
    })
}

#[test]
fn taking_again_after_a_lost_answer_exceeds_the_limit() {
    assert_eq!(find_fault(Mutant::None, false), None);
    assert!(find_fault(Mutant::SendsAgain, false).is_some());
}

#[test]
fn giving_again_after_a_lost_answer_exceeds_the_limit() {
    assert_eq!(find_fault(Mutant::None, true), None);
    assert!(find_fault(Mutant::SendsAgain, true).is_some());
}

#[test]
fn the_entries_of_former_processes_are_looked_at_once_they_are_many() {
    for (entries, suspects) in [(10_u8, 0), (100, 100)] {
        let mut holder = Holder::new("this".into(), Rule::default());
        let others = (0..entries).map(|number| (number.to_string().into(), Entry::default()));
        let line = Line {
            holders: others.collect(),
            ..Line::default()
        };
        holder.set_rule(Rule {
            version: 1,
            running: Some(1),
            interval: None,
        });
        let want = Want {
            permits: 1,
            ..Want::default()
        };
        assert!(holder.next(&want, &BTreeSet::new(), secs(1)).is_some());
        holder.on(Answer::Line(Arc::new(line)), secs(1));
        assert_eq!(holder.suspects(false).count(), suspects);
    }
}
