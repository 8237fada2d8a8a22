//! What limits promise: caps, rates, fair shares and priorities, without an endless wait.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cdb_coordination::search::Runs;

use super::promises::{learn, sleeper, takes};
use super::service::Service;
use super::{Colours, LOCK, Paint, ms, queue, request, waiting, won};
use crate::queue::local_queue::Reservation;
use crate::queue::local_queue::claim::Caller;
use crate::queue::local_queue::queue::Queue;
use crate::queue::local_queue::slot::Work as _;
use crate::stored::documents::{Labels, Priority, Rule};

pub(super) fn rule(select: &str) -> Rule {
    Rule::new(select.parse().expect("it is valid"))
}

/// Returns the labels of an item of the random sequences.
pub(super) fn painted(colour: Colours) -> Labels {
    Labels {
        tag: Some(colour.to_string()),
        ..Labels::default()
    }
}

/// Returns rules of the random sequences, by number.
pub(super) fn rules(number: u8) -> Vec<Rule> {
    match number {
        0 => Vec::new(),
        1 => vec![rule("tag=1").running(2)],
        2 => vec![
            rule("tag=1").running(1),
            rule("tag=*").starts_per_second(2.0).weight(3),
        ],
        3 => vec![
            rule("*").running(3).priority(Priority::Low),
            rule("tag=2").running(1),
        ],
        _ => vec![
            rule("tag=3").priority(Priority::High),
            rule("tag=0").running(0),
        ],
    }
}

/// Asserts that limits count what runs, and that no dispatcher sleeps while an item has its permits.
pub(super) fn check_limits(queue: &mut Queue<Paint>, now: Instant) {
    let all: Vec<_> = waiting(queue).collect();
    for (capability, _) in &all {
        let slots = &queue.slots;
        let first = queue.limiter.first_of_each(now, |key| {
            let offer = slots[key].offer(now);
            offer.is_some_and(|(_, offer)| Paint::accepts(capability, offer))
        });
        assert!(
            first.is_empty() || all.iter().any(|(_, woken)| *woken),
            "an item may start and no dispatcher is woken: {first:?}"
        );
    }
    for (key, usage) in queue.usage() {
        let counted = queue.slots.values().filter(|slot| {
            let selected = slot.selected.as_ref();
            slot.is_counted && selected.is_some_and(|selected| selected.needs(&key))
        });
        assert_eq!(usage.running, counted.count(), "{key}");
    }
}

pub(super) fn tagged(tag: &str) -> Labels {
    Labels {
        tag: Some(tag.to_owned()),
        ..Labels::default()
    }
}

/// Makes an item due that has a tag.
fn item(queue: &mut Queue<Paint>, key: u8, tag: &str, now: Instant) {
    queue.label(&key, || tagged(tag));
    learn(queue, key, 0, now);
}

/// Hands out what a dispatcher gets, and returns it.
fn run(queue: &mut Queue<Paint>, now: Instant) -> Option<u8> {
    let waiter = queue.register(request(0));
    let claim = takes(queue, waiter, now);
    queue.leave(waiter, now);
    let claim = claim?;
    let token = claim.key.to_string();
    let won = won(0, &token, now + LOCK);
    let handed_out = queue.hand_out(&claim, won, Caller::Runtime, now, |known| {
        known.pending.clear();
    });
    assert_eq!(handed_out, None);
    Some(claim.key)
}

fn end(queue: &mut Queue<Paint>, key: u8, now: Instant) {
    queue.finish(&key.to_string(), now, |known| known.pending.clear());
}

#[test]
fn no_more_items_of_a_key_run_than_permitted_and_others_pass_them() {
    let now = Instant::now();
    let mut queue = queue(now);
    queue.set_rules(vec![rule("tag=bank").running(2)], 1, now);
    for key in 1..=4 {
        item(&mut queue, key, "bank", now);
    }
    item(&mut queue, 9, "other", now);
    assert_eq!(run(&mut queue, now), Some(9), "there are no permits yet");
    let mut service = Service::default();
    service.serve(&mut queue, now);
    assert_eq!(run(&mut queue, now), Some(1));
    assert_eq!(run(&mut queue, now), Some(2));
    assert_eq!(run(&mut queue, now), None);
    end(&mut queue, 1, now);
    assert_eq!(run(&mut queue, now), Some(3));
    assert_eq!(run(&mut queue, now), None);
}

#[test]
fn an_item_that_waits_for_a_limit_wakes_a_dispatcher_when_another_one_ends() {
    let now = Instant::now();
    let mut queue = queue(now);
    queue.set_rules(vec![rule("*").running(1)], 1, now);
    item(&mut queue, 1, "a", now);
    Service::default().serve(&mut queue, now);
    assert_eq!(run(&mut queue, now), Some(1));
    item(&mut queue, 2, "b", now);
    let waiter = sleeper(&mut queue, 0, now);
    let _woken = queue.take_woken();
    end(&mut queue, 1, now);
    assert!(waiting(&queue).any(|(_, is_woken)| is_woken));
    assert_eq!(
        takes(&mut queue, waiter, now).map(|claim| claim.key),
        Some(2)
    );
}

#[test]
fn a_rule_counts_what_runs_already() {
    let now = Instant::now();
    let mut queue = queue(now);
    for key in 1..=4 {
        item(&mut queue, key, "bank", now);
    }
    assert_eq!(run(&mut queue, now), Some(1));
    assert_eq!(run(&mut queue, now), Some(2));
    queue.set_rules(vec![rule("tag=bank").running(2)], 1, now);
    let mut service = Service::default();
    service.serve(&mut queue, now);
    assert_eq!(run(&mut queue, now), None);
    end(&mut queue, 2, now);
    service.serve(&mut queue, now);
    assert_eq!(run(&mut queue, now), Some(3));
    queue.set_rules(Vec::new(), 2, now);
    assert_eq!(run(&mut queue, now), Some(4));
}

#[test]
fn a_rule_of_zero_pauses_and_its_removal_resumes() {
    let now = Instant::now();
    let mut queue = queue(now);
    queue.set_rules(vec![rule("*").running(0)], 1, now);
    item(&mut queue, 1, "a", now);
    Service::default().serve(&mut queue, now);
    assert_eq!(run(&mut queue, now), None);
    queue.set_rules(Vec::new(), 2, now);
    assert_eq!(run(&mut queue, now), Some(1));
}

#[test]
fn nothing_starts_after_the_end_of_the_lease() {
    let now = Instant::now();
    let mut queue = queue(now);
    let mut service = Service::default();
    queue.set_rules(vec![rule("*").running(5)], 1, now);
    item(&mut queue, 1, "a", now);
    item(&mut queue, 2, "a", now);
    service.serve(&mut queue, now);
    assert_eq!(run(&mut queue, now), Some(1));
    let later = now + Duration::from_secs(60);
    assert_eq!(run(&mut queue, later), None);
    service.serve(&mut queue, later);
    assert_eq!(run(&mut queue, later), Some(2));
}

#[test]
fn an_item_is_not_locked_beyond_the_lease() {
    let now = Instant::now();
    let mut queue = queue(now);
    queue.set_rules(vec![rule("tag=a").running(5)], 1, now);
    item(&mut queue, 1, "a", now);
    item(&mut queue, 2, "free", now);
    Service::default().serve(&mut queue, now);
    let lock = Duration::from_secs(30);
    assert_eq!(queue.lock_time(&1, lock, now), lock);
    let later = now + Duration::from_secs(40);
    assert_eq!(queue.lock_time(&1, lock, later), Duration::from_secs(5));
    assert_eq!(queue.lock_time(&2, lock, later), lock);
}

#[test]
fn an_item_whose_lock_comes_after_its_slot_does_not_begin() {
    let now = Instant::now();
    let mut queue = queue(now);
    queue.set_rules(vec![rule("*").starts_per_second(1.0)], 1, now);
    item(&mut queue, 1, "a", now);
    Service::default().serve(&mut queue, now);
    let waiter = queue.register(request(0));
    let claim = takes(&mut queue, waiter, now).expect("it has a slot");
    let later = now + ms(1_200);
    let won = won(0, "late", later + LOCK);
    let refused = queue.hand_out(&claim, won, Caller::Runtime, later, |_| {});
    assert_eq!(refused, Some(0), "the caller releases the lock");
    assert!(queue.slots[&1].arrival.is_some(), "it waits again");
}

#[test]
fn a_rate_lets_one_item_start_after_the_other() {
    let mut now = Instant::now();
    let mut queue = queue(now);
    let mut service = Service::default();
    queue.set_rules(vec![rule("*").starts_per_second(4.0)], 1, now);
    for key in 1..=8 {
        item(&mut queue, key, "a", now);
    }
    let mut starts = Vec::new();
    let begun = now;
    while starts.len() < 8 {
        service.serve(&mut queue, now);
        if let Some(key) = run(&mut queue, now) {
            starts.push((key, now - begun));
            end(&mut queue, key, now);
            continue;
        }
        // A dispatcher that waits is woken by the timer.
        let timer = queue.tick(now).expect("the rate sets one");
        assert!(timer > now);
        now = timer;
    }
    let keys: Vec<_> = starts.iter().map(|(key, _)| *key).collect();
    assert_eq!(keys, [1, 2, 3, 4, 5, 6, 7, 8]);
    let (_, last) = starts[7];
    // Two at once, which the rate has left of the half second before, and the others at four per second.
    assert!(last >= ms(1_200) && last < ms(1_800), "{last:?}");
}

#[test]
fn nothing_wakes_the_requests_of_limits_that_were_removed() {
    let now = Instant::now();
    let mut queue = queue(now);
    queue.set_rules(vec![rule("tag=bank").running(1)], 1, now);
    for key in 1..=2 {
        item(&mut queue, key, "bank", now);
    }
    let mut service = Service::default();
    service.serve(&mut queue, now);
    assert_eq!(run(&mut queue, now), Some(1));
    service.serve(&mut queue, now);
    queue.set_rules(Vec::new(), 2, now);
    let (messages, _, wake_at) = queue.requests(now + ms(60_000));
    assert!(messages.is_empty(), "{messages:?}");
    assert_eq!(wake_at, None, "it would wake at once, again and again");
}

#[test]
fn what_runs_is_counted_under_a_new_name_after_a_long_time_without_limits() {
    let now = Instant::now();
    let mut queue = queue(now);
    queue.set_rules(vec![rule("tag=bank").running(1)], 1, now);
    item(&mut queue, 1, "bank", now);
    Service::default().serve(&mut queue, now);
    assert_eq!(run(&mut queue, now), Some(1));
    let (name, _) = queue.lease();
    queue.set_rules(Vec::new(), 2, now);
    queue.set_rules(vec![rule("tag=bank").running(1)], 3, now + ms(60_000));
    assert_ne!(queue.lease().0, name, "others may have ended its lease");
}

#[test]
fn a_new_item_is_reserved_only_if_none_comes_before_it() {
    let now = Instant::now();
    let mut queue = roomy(now);
    let rules = vec![
        rule("tag=high").priority(Priority::High),
        rule("tag=bank").running(2),
    ];
    queue.set_rules(rules, 1, now);
    let reserves = |queue: &mut Queue<Paint>, key: u8, tag: &str| {
        queue.label(&key, || tagged(tag));
        queue.reserve(&key, &0, now) == Reservation::Made
    };
    assert!(reserves(&mut queue, 1, "normal"));
    item(&mut queue, 2, "high", now);
    assert!(!reserves(&mut queue, 3, "normal"));
    assert!(reserves(&mut queue, 4, "high"));
    assert_eq!(run(&mut queue, now), Some(2));
    item(&mut queue, 5, "bank", now);
    Service::default().serve(&mut queue, now);
    assert!(!reserves(&mut queue, 6, "bank"), "the one permit is for 5");
    assert_eq!(run(&mut queue, now), Some(5));
}

/// Returns a queue that evicts nothing.
fn roomy(now: Instant) -> Queue<Paint> {
    let mut queue = queue(now);
    queue.limits.slots = 1_000;
    queue.limits.memory.pending = 1_000_000;
    queue
}

/// Runs `count` items one after another, with as many of each tag queued as `queued` says. Returns
/// how many of each tag have run.
fn served(rules: Vec<Rule>, queued: &[(&str, u8)], count: usize) -> BTreeMap<String, usize> {
    let now = Instant::now();
    let mut queue = roomy(now);
    queue.set_rules(rules, 1, now);
    let (mut key, mut tags) = (0, BTreeMap::new());
    for (tag, count) in queued {
        for _ in 0..*count {
            item(&mut queue, key, tag, now);
            tags.insert(key, (*tag).to_owned());
            key += 1;
        }
    }
    let mut served = BTreeMap::new();
    for _ in 0..count {
        let key = run(&mut queue, now).expect("items are ready");
        end(&mut queue, key, now);
        *served.entry(tags[&key].clone()).or_insert(0) += 1;
    }
    served
}

#[test]
fn keys_share_the_dispatchers_by_weight_whoever_came_first() {
    let rules = vec![rule("tag=gold").weight(3), rule("tag=*").weight(1)];
    let queued = [("flood", 100), ("gold", 60), ("small", 40)];
    let served = served(rules, &queued, 50);
    assert_eq!(
        (served["gold"], served["flood"], served["small"]),
        (30, 10, 10)
    );
}

#[test]
fn without_rules_the_oldest_comes_first() {
    let served = served(Vec::new(), &[("flood", 100), ("small", 10)], 100);
    assert_eq!((served["flood"], served.get("small")), (100, None));
}

#[test]
fn a_lower_priority_gets_one_of_17_starts() {
    let rules = vec![
        rule("tag=high").priority(Priority::High),
        rule("tag=low").priority(Priority::Low),
    ];
    let queued = [("low", 60), ("normal", 60), ("high", 120)];
    let served = served(rules, &queued, 102);
    assert!(served["high"] >= 88, "{served:?}");
    assert!(served["normal"] >= 5 && served["low"] >= 5, "{served:?}");
}

#[test]
fn a_key_of_high_priority_does_not_move_new_keys_behind_a_flood_of_normal_priority() {
    let now = Instant::now();
    let mut queue = roomy(now);
    let shares = vec![
        rule("tag=high").priority(Priority::High),
        rule("tag=*").weight(1),
    ];
    queue.set_rules(shares, 1, now);
    (0..60).for_each(|key| item(&mut queue, key, "flood", now));
    (100..160).for_each(|key| item(&mut queue, key, "high", now));
    for _ in 0..60 {
        let key = run(&mut queue, now).expect("items are ready");
        end(&mut queue, key, now);
    }
    item(&mut queue, 200, "small", now);
    let normal =
        std::iter::from_fn(|| run(&mut queue, now)).filter(|key| !(100..160).contains(key));
    let position = normal.take(4).position(|key| key == 200);
    assert!(position.is_some(), "it waits for the flood");
}

#[test]
fn reserved_turns_of_a_key_do_not_delay_its_other_turns() {
    let now = Instant::now();
    let mut queue = roomy(now);
    queue.set_rules(vec![rule("tag=*").weight(1)], 1, now);
    (0..60).for_each(|key| item(&mut queue, key, "flood", now));
    for key in 100..160 {
        queue.label(&key, || tagged("busy"));
        queue.learn(&key, now, |known| {
            known.pending.push(now);
            known.is_first = true;
        });
        assert_eq!(run(&mut queue, now), Some(key));
        end(&mut queue, key, now);
    }
    item(&mut queue, 200, "busy", now);
    let next: Vec<_> = (0..3).filter_map(|_| run(&mut queue, now)).collect();
    assert!(next.contains(&200), "{next:?} instead of 200");
}

#[test]
fn an_item_is_ordered_by_a_label_that_is_known_after_it_was_noted() {
    let now = Instant::now();
    let mut queue = roomy(now);
    queue.set_rules(
        vec![rule("orchestration=Report").priority(Priority::Low)],
        1,
        now,
    );
    learn(&mut queue, 1, 0, now);
    queue.correct(&1, now, |known| known.name = Some("Report".to_owned()));
    learn(&mut queue, 2, 0, now);
    assert_eq!(run(&mut queue, now), Some(2));
    assert_eq!(run(&mut queue, now), Some(1));
}

#[test]
fn a_poll_reads_past_the_items_of_one_key_and_of_one_priority() {
    let now = Instant::now();
    let mut queue = roomy(now);
    queue.set_rules(vec![rule("tag=high").priority(Priority::High)], 1, now);
    let tags = |key| if key == 99 { "high" } else { "flood" };
    let mut runs = |enough, key| {
        item(&mut queue, key, tags(key), now);
        queue.polled(&key, 1, enough)
    };
    let counted = (0..40).filter(|key| runs(32, *key) == Runs::Now).count();
    assert_eq!(counted, 8);
    assert_eq!(runs(32, 99), Runs::Now);
    queue.set_rules(Vec::new(), 2, now);
    assert_eq!(queue.polled(&40, 2, 32), Runs::Now);
}

#[test]
fn a_lost_race_in_a_fair_order_forgets_only_items_of_the_same_key() {
    let now = Instant::now();
    let mut queue = roomy(now);
    queue.set_rules(vec![rule("tag=*").weight(1)], 1, now);
    for (key, tag) in [(1, "small"), (2, "small"), (3, "flood")] {
        queue.label(&key, || tagged(tag));
        queue.learn_from_poll(1, &key, |known| known.pending.push(now));
    }
    queue.finish_poll(1, &[1, 2, 3], |_| false, now);
    let waiter = queue.register(request(0));
    assert!(takes(&mut queue, waiter, now).is_some_and(|claim| claim.key == 1));
    queue.lost_race(&1, now);
    let kept = [2, 3].map(|key| queue.known(&key).is_some());
    assert_eq!(kept, [false, true]);
}

#[test]
fn a_poll_in_a_fair_order_looks_for_new_items_while_enough_are_ready() {
    // The longest interval between two polls is 80 ms.
    let now = Instant::now();
    let mut queue = roomy(now);
    let _waiter = queue.register(request(0));
    let all = |queue: &mut Queue<Paint>, at| queue.begin_poll(now + ms(at)).is_none();
    (0..2).for_each(|key| item(&mut queue, key, "flood", now));
    assert!(
        [0, 10, 20].into_iter().all(|at| all(&mut queue, at)),
        "no rules"
    );
    queue.set_rules(vec![rule("tag=*").weight(1)], 1, now);
    assert!(
        queue.begin_poll(now + ms(30)) > Some(ms(10)),
        "it goes back to the last poll"
    );
    assert!(
        all(&mut queue, 100),
        "the last one for all items is 80 ms ago"
    );
    assert!(!all(&mut queue, 110));
    let _taken = run(&mut queue, now);
    assert!(all(&mut queue, 120), "too few are ready");
}
