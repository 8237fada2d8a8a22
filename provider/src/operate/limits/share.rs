//! The division of a limit among runtimes. Pure: the same document, the same answer.

use cdb_model::Timestamp;

use crate::queue::local_queue::Demand;
use crate::stored::documents::{Holder, Permits, dispatch_slot};
use crate::timing::{PERMITS_ROTATE, PERMITS_TERM};

/// Thousandths of a start per second.
const MILLI: f64 = 1_000.0;

/// The permits after a runtime has asked for its share.
#[derive(Clone, Debug)]
pub(super) struct Division {
    pub(super) permits: Permits,
    /// What the runtime may run at a time: less than it holds while it runs more than its share.
    pub(super) may_run: u32,
}

/// Returns the permits after a runtime has asked for its share. Without demand it holds none.
///
/// No runtime gets what another one still holds: all permits together exceed the limit only while
/// more activities run than a lowered or a new limit allows.
pub(super) fn divide(before: Permits, runtime: &str, demand: &Demand, now: Timestamp) -> Division {
    let Permits { mut holders, .. } = before.clone();
    holders.retain(|holder| holder.runtime != runtime && holder.until > now);
    let wanted = demand.running.saturating_add(demand.waiting);
    let mut may_run = 0;
    if wanted > 0 {
        let held =
            |count: fn(&Holder) -> u32| holders.iter().map(count).fold(0, u32::saturating_add);
        let wants = |most: u32, of: &dyn Fn(&Holder) -> u32, own: u32| {
            let others = holders.iter().map(|holder| (&*holder.runtime, of(holder)));
            let wants: Vec<_> = others.chain([(runtime, own)]).collect();
            fair_share(most, runtime, &wants, now)
        };
        let running = demand.cap.running.map_or(0, |most| {
            let share = wants(most, &|holder| holder.wanted, wanted);
            let left = most.saturating_sub(held(|holder| holder.running));
            may_run = share.min(left);
            may_run.max(demand.running)
        });
        let starts = demand.cap.rate.map_or(0, |rate| {
            let most = milli(rate);
            let share = wants(most, &|_| most, most);
            share.min(most.saturating_sub(held(|holder| holder.starts)))
        });
        holders.push(Holder {
            runtime: runtime.to_owned(),
            running,
            wanted,
            waiting: Some(demand.waiting),
            waiting_since: None,
            starts,
            until: now + PERMITS_TERM,
        });
    }
    Division {
        permits: Permits { holders, ..before },
        may_run,
    }
}

/// Returns the permits of a runtime.
pub(super) fn own<'a>(permits: &'a Permits, runtime: &str) -> Option<&'a Holder> {
    let mut holders = permits.holders.iter();
    holders.find(|holder| holder.runtime == runtime)
}

/// Returns whether no other runtime has permits.
pub(super) fn is_alone(permits: &Permits, runtime: &str) -> bool {
    let mut holders = permits.holders.iter();
    holders.all(|holder| holder.runtime == runtime)
}

/// Returns the starts per second that a holder may use.
pub(super) fn rate(holder: &Holder) -> f64 {
    f64::from(holder.starts) / MILLI
}

fn milli(rate: f64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a checked rate is positive and at most 1,000,000"
    )]
    let milli = (rate * MILLI).round() as u32;
    milli.max(1)
}

/// Returns the max-min fair share of a runtime: no runtime gets more than an equal part while another
/// one gets less than it wants. The rest is divided equally, because demands grow. A permit that
/// cannot be divided goes to one runtime after the other.
fn fair_share(most: u32, runtime: &str, wants: &[(&str, u32)], now: Timestamp) -> u32 {
    let turn = u128::from(now.as_millis()) / PERMITS_ROTATE.as_millis();
    let place = |name: &str| dispatch_slot(&format!("{turn}:{name}"));
    let mut wants: Vec<_> = wants.to_vec();
    // Who wants more than can be divided equally is served in turn, however much more it is.
    let count = u32::try_from(wants.len()).unwrap_or(u32::MAX);
    let most_of_one = most / count.max(1) + 1;
    wants.sort_by_key(|(name, wanted)| {
        ((*wanted).min(most_of_one), place(name), (*name).to_owned())
    });
    let (mut left, mut own) = (most, 0);
    for (at, (name, wanted)) in wants.iter().enumerate() {
        let others = u32::try_from(wants.len() - at).unwrap_or(u32::MAX);
        let share = (*wanted).min(left / others);
        left -= share;
        if *name == runtime {
            own = share;
        }
    }
    own + left / count.max(1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::queue::local_queue::Cap;

    fn demand(most: u32, running: u32, waiting: u32) -> Demand {
        Demand {
            cap: Cap {
                key: "tenant=ada".into(),
                running: Some(most),
                rate: None,
            },
            running,
            waiting,
        }
    }

    fn divided(permits: Permits, runtime: &str, demand: &Demand, now: Timestamp) -> Permits {
        divide(permits, runtime, demand, now).permits
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_000_000) + Duration::from_secs(seconds)
    }

    fn held(permits: &Permits, runtime: &str) -> u32 {
        own(permits, runtime).map_or(0, |holder| holder.running)
    }

    #[test]
    fn a_runtime_alone_gets_the_whole_limit() {
        let permits = divided(Permits::default(), "a", &demand(10, 0, 1), at(0));
        assert_eq!(held(&permits, "a"), 10);
    }

    #[test]
    fn a_second_runtime_gets_its_half_once_the_first_one_gives_it_back() {
        let permits = divided(Permits::default(), "a", &demand(10, 8, 20), at(0));
        let permits = divided(permits, "b", &demand(10, 0, 20), at(1));
        assert_eq!((held(&permits, "a"), held(&permits, "b")), (10, 0));
        let permits = divided(permits, "a", &demand(10, 4, 20), at(2));
        let permits = divided(permits, "b", &demand(10, 0, 20), at(3));
        assert_eq!((held(&permits, "a"), held(&permits, "b")), (5, 5));
    }

    #[test]
    fn the_permits_of_a_silent_runtime_return_at_the_end_of_their_term() {
        let permits = divided(Permits::default(), "a", &demand(3, 3, 0), at(0));
        let before = at(0) + PERMITS_TERM;
        let permits = divided(
            permits,
            "b",
            &demand(3, 0, 5),
            before - Duration::from_millis(1),
        );
        assert_eq!(held(&permits, "b"), 0);
        let permits = divided(permits, "b", &demand(3, 0, 5), before);
        assert_eq!((held(&permits, "a"), held(&permits, "b")), (0, 3));
    }

    #[test]
    fn a_permit_that_cannot_be_divided_goes_to_each_runtime_in_turn() {
        let names = ["a", "b", "c"];
        let mut got = std::collections::BTreeSet::new();
        let mut permits = Permits::default();
        for round in 0..60 {
            for name in names {
                let running = 0;
                permits = divided(permits, name, &demand(1, running, 5), at(round * 5));
                if held(&permits, name) == 1 {
                    got.insert(name);
                }
            }
        }
        assert_eq!(got, names.into());
    }

    /// Each runtime starts as many as it may, and always has more to run.
    fn turns(most: u32, waiting: [u32; 2]) -> [u32; 2] {
        let names = ["busy", "late"];
        let (mut permits, mut running, mut got) = (Permits::default(), [0_u32; 2], [0; 2]);
        for round in 0..120 {
            for (at_name, name) in names.iter().enumerate() {
                if at_name == 1 && round < 6 {
                    continue;
                }
                let demand = demand(most, running[at_name], waiting[at_name]);
                let division = divide(permits, name, &demand, at(round * 5));
                permits = division.permits;
                // Half of what runs ends until the next round, and others start in its place.
                running[at_name] = (running[at_name] / 2).max(division.may_run);
                got[at_name] = got[at_name].max(running[at_name]);
                assert!(running.iter().sum::<u32>() <= most, "{permits:?}");
            }
        }
        got
    }

    #[test]
    fn a_busy_runtime_gives_others_their_share() {
        assert_eq!(turns(10, [100, 100])[1], 5);
        // The late one wants less than the busy one.
        assert!(turns(10, [100, 2])[1] >= 2);
        assert_eq!(turns(1, [100, 2])[1], 1);
        assert_eq!(turns(1, [100, 100])[1], 1);
    }

    #[test]
    fn a_rate_is_divided_equally() {
        let mut demand = demand(10, 0, 1);
        demand.cap.rate = Some(0.5);
        let permits = divided(Permits::default(), "a", &demand, at(0));
        assert!((rate(own(&permits, "a").unwrap()) - 0.5).abs() < 1e-9);
        let permits = divided(permits, "b", &demand, at(1));
        let permits = divided(permits, "a", &demand, at(2));
        let permits = divided(permits, "b", &demand, at(3));
        assert!((rate(own(&permits, "b").unwrap()) - 0.25).abs() < 1e-9);
    }

    proptest! {
        /// Runtimes that start nothing without a permit never run more than the limit together.
        #[test]
        fn all_permits_together_keep_to_the_limit(
            most in 1_u32..20,
            rounds in prop::collection::vec((0_usize..5, 0_u32..30, 0_u64..20, any::<bool>()), 1..200),
        ) {
            let names = ["a", "b", "c", "d", "e"];
            let (mut permits, mut now) = (Permits::default(), at(0));
            for (who, waiting, seconds, ends) in rounds {
                now = now + Duration::from_secs(seconds);
                let name = names[who];
                // It runs all that its permits allow, or has ended some.
                let before = own(&permits, name).filter(|holder| holder.until > now);
                let running = before.map_or(0, |holder| if ends { holder.running / 2 } else { holder.running });
                permits = divided(permits, name, &demand(most, running, waiting), now);
                let sum: u32 = permits.holders.iter().map(|holder| holder.running).sum();
                prop_assert!(sum <= most, "{permits:?}");
                if running + waiting == 0 {
                    prop_assert!(own(&permits, name).is_none());
                }
            }
        }
    }
}
