//! Tests of the guards of transitions: each test fails without the guard that it names.

use std::time::Instant;

use super::limits::{rule, tagged};
use super::promises::{learn, sleeper, takes};
use super::service::Service;
use super::{LIMITS, LOCK, Paint, ms, queue, request, waiting, won};
use crate::queue::local_queue::claim::{Caller, Claim};
use crate::queue::local_queue::dispatcher::{FetchRequest, Next};
use crate::queue::local_queue::queue::Queue;
use crate::queue::local_queue::slot::Work as _;

/// Claims an item, and drops its lock request.
fn dropped_lock(queue: &mut Queue<Paint>, token: &str, now: Instant) -> Claim<u8> {
    learn(queue, 1, 0, now);
    let (claim, _) = queue.claim(&1, now).expect("it is idle");
    queue.locking(&claim, token, now + LOCK, now);
    queue.dropped(&claim, now);
    claim
}

#[test]
fn an_unanswered_lock_request_is_released_before_the_next_attempt() {
    let now = Instant::now();
    let mut queue = queue(now);
    learn(&mut queue, 1, 0, now);
    let (claim, _) = queue.claim(&1, now).expect("it is idle");
    queue.locking(&claim, "t", now + LOCK, now);
    queue.unanswered(&claim, now, now, |_| {});
    let waiter = queue.register(request(0));
    assert_eq!(takes(&mut queue, waiter, now), None);
    assert_eq!(queue.take_releasing(), [(claim.clone(), "t".to_owned())]);
    queue.released(&claim, now);
    assert!(takes(&mut queue, waiter, now).is_some());
}

#[test]
fn the_last_ready_items_are_removed_beyond_the_limit() {
    let now = Instant::now();
    let mut queue = queue(now);
    for key in 0..30 {
        queue.learn(&key, now, |known| known.load = Some(now));
    }
    let kept: Vec<u8> = (0..30).filter(|key| queue.known(key).is_some()).collect();
    assert_eq!(kept.len(), LIMITS.slots);
    let waiter = queue.register(request(0));
    assert_eq!(
        takes(&mut queue, waiter, now).map(|claim| claim.key),
        Some(0)
    );
}

#[test]
fn claim_ready_returns_the_first_suitable_idle_item() {
    let now = Instant::now();
    let mut queue = queue(now);
    for key in 0..4 {
        learn(&mut queue, key, key, now);
    }
    let (claim, _) = queue.claim(&0, now).expect("it is idle");
    queue.prelocked(&claim, won(0, "t", now + LOCK), now, |_| {});
    let claimed = queue.claim_ready(&0, now, |known| known.colour != 1);
    assert_eq!(claimed.map(|(claim, _)| claim.key), Some(2));
}

#[test]
fn a_late_release_changes_nothing() {
    let now = Instant::now();
    let mut queue = queue(now);
    let old = dropped_lock(&mut queue, "a", now);
    let later = now + LOCK;
    queue.tick(later);
    queue.correct(&1, later, |known| known.load = None);
    queue.released(&old, later);
    assert!(queue.known(&1).is_some_and(|known| known.load.is_none()));
    dropped_lock(&mut queue, "b", later);
    queue.released(&old, later);
    assert!(queue.is_busy(&1), "the second lock is not released yet");
}

#[test]
fn a_dropped_lock_that_has_expired_is_not_released() {
    let now = Instant::now();
    let mut queue = queue(now);
    dropped_lock(&mut queue, "a", now);
    let later = now + LOCK;
    let (claim, _) = queue.claim(&1, later).expect("it has expired");
    queue.locking(&claim, "b", later + LOCK, later);
    assert_eq!(queue.take_releasing(), []);
}

#[test]
fn only_old_prelocks_are_taken_as_unused() {
    let now = Instant::now();
    let mut queue = queue(now);
    learn(&mut queue, 1, 0, now);
    let (claim, _) = queue.claim(&1, now).expect("it is idle");
    queue.prelocked(&claim, won(0, "t", now + LOCK), now, |_| {});
    let before = now.checked_sub(ms(1)).expect("a time");
    assert!(queue.take_unused(before, now).is_empty());
    assert_eq!(queue.take_unused(now, now).len(), 1);
}

#[test]
fn an_item_is_not_backed_off_at_the_end_of_its_backoff() {
    let now = Instant::now();
    let mut queue = queue(now);
    learn(&mut queue, 1, 0, now);
    let (claim, _) = queue.claim(&1, now).expect("it is idle");
    queue.back_off(&claim, now + ms(10), now, |_| {});
    assert!(queue.is_backed_off(&1, now));
    assert!(!queue.is_backed_off(&1, now + ms(10)));
}

#[test]
fn a_polled_item_learned_without_a_poll_outlives_the_next_poll() {
    let now = Instant::now();
    let mut queue = queue(now);
    let first = queue.number_poll();
    queue.learn_from_poll(first, &1, |known| known.pending = vec![now]);
    queue.finish_poll(first, &[1], |_| true, now);
    learn(&mut queue, 1, 0, now);
    let second = queue.number_poll();
    queue.finish_poll(second, &[], |_| true, now);
    let waiter = queue.register(request(0));
    assert!(takes(&mut queue, waiter, now).is_some());
}

#[test]
fn an_item_keeps_its_state_through_a_backoff() {
    let now = Instant::now();
    let mut queue = queue(now);
    learn(&mut queue, 1, 0, now);
    let (claim, _) = queue.claim(&1, now).expect("it is idle");
    queue.back_off(&claim, now + ms(10), now, |_| {});
    queue.tick(now + ms(10));
    let known = queue.known(&1).expect("it is due");
    assert_eq!((known.pending.len(), known.load), (1, None));
}

#[test]
fn a_removed_item_takes_no_memory() {
    let now = Instant::now();
    let mut queue = queue(now);
    for key in 0..8 {
        queue.learn(&key, now, |known| known.pending.push(now + LOCK));
    }
    for key in 8..20 {
        queue.learn(&key, now, |known| known.load = Some(now));
    }
    let held = (0..20).filter_map(|key| queue.known(&key));
    let held: usize = held.map(|known| Paint::memory(known).pending).sum();
    assert_eq!(queue.memory.pending, held);
}

#[test]
fn a_leaving_dispatcher_wakes_one_that_can_take_its_item() {
    let now = Instant::now();
    let mut queue = queue(now);
    let first = sleeper(&mut queue, 1, now);
    for colours in [2, 2, 2, 1] {
        sleeper(&mut queue, colours, now);
    }
    learn(&mut queue, 7, 1, now);
    queue.leave(first, now);
    let woken = waiting(&queue).any(|(colours, woken)| colours == 1 && woken);
    assert!(woken, "the other dispatcher for this colour sleeps");
}

#[test]
fn an_outdated_fetch_ends() {
    let now = Instant::now();
    let mut queue = queue(now);
    let waiter = sleeper(&mut queue, 1, now);
    learn(&mut queue, 7, 2, now);
    queue.end_fetches(|_, known| known.colour == 2);
    assert!(matches!(queue.next(waiter, now), Next::End));
}

#[test]
fn a_fetch_without_long_polling_waits_only_for_attempts_seen_by_its_poll() {
    let now = Instant::now();
    let mut queue = queue(now);
    let seen = |queue: &mut Queue<Paint>| {
        let (claim, _) = queue.claim(&7, now).expect("it is idle");
        let once = FetchRequest {
            caller: Caller::Single,
            ..request(1)
        };
        let waiter = queue.register(once);
        assert!(matches!(queue.next(waiter, now), Next::Poll(_)));
        queue.end_own_poll(waiter, &[7], now);
        assert!(matches!(queue.next(waiter, now), Next::WaitForAttempt));
        (claim, waiter)
    };
    learn(&mut queue, 7, 0, now);
    let (claim, waiter) = seen(&mut queue);
    queue.release(&claim, now, |_| {});
    let (claim, _) = queue.claim(&7, now).expect("it is idle again");
    assert!(
        matches!(queue.next(waiter, now), Next::End),
        "another attempt"
    );
    queue.release(&claim, now, |_| {});
    let (claim, waiter) = seen(&mut queue);
    let running = won(0, "t", now + LOCK);
    let handed_out = queue.hand_out(&claim, running, Caller::Runtime, now, |_| {});
    assert_eq!(handed_out, None);
    assert!(matches!(queue.next(waiter, now), Next::End), "handed out");
}

#[test]
fn a_prelocked_item_is_handed_out_once() {
    let now = Instant::now();
    let mut queue = queue(now);
    learn(&mut queue, 1, 0, now);
    let (claim, _) = queue.claim(&1, now).expect("it is idle");
    queue.prelocked(&claim, won(0, "t", now + LOCK), now, |_| {});
    let first = queue.register(request(0));
    let begun = takes(&mut queue, first, now).expect("it is locked");
    let second = queue.register(request(0));
    assert_eq!(takes(&mut queue, second, now), None);
    queue.dropped(&begun, now);
    assert_eq!(queue.take_releasing(), [(begun, "t".to_owned())]);
}

#[test]
fn a_prelocked_item_ends_no_fetch() {
    let now = Instant::now();
    let mut queue = queue(now);
    let waiter = sleeper(&mut queue, 1, now);
    learn(&mut queue, 7, 2, now);
    let (claim, _) = queue.claim(&7, now).expect("it is idle");
    queue.prelocked(&claim, won(2, "t", now + LOCK), now, |_| {});
    queue.end_fetches(|_, known| known.colour == 2);
    assert!(matches!(queue.next(waiter, now), Next::Wait(_)));
}

/// Its permits would be lost for other processes, which could use them.
#[test]
fn an_item_that_no_dispatcher_here_takes_waits_for_no_permits() {
    let now = Instant::now();
    let mut queue = queue(now);
    queue.dispatchers.kinds.clear();
    queue.set_rules(vec![rule("*").running(2)], 1, now);
    let red = sleeper(&mut queue, 1, now);
    for (key, colour) in [(1, 2), (2, 1)] {
        queue.label(&key, || tagged("some"));
        learn(&mut queue, key, colour, now);
        assert_eq!(queue.limiter.has_waiting(), colour == 1);
    }
    let mut service = Service::default();
    service.serve(&mut queue, now);
    assert_eq!(takes(&mut queue, red, now).map(|claim| claim.key), Some(2));
    let blue = sleeper(&mut queue, 2, now);
    service.serve(&mut queue, now);
    assert_eq!(takes(&mut queue, blue, now).map(|claim| claim.key), Some(1));
}

/// Otherwise the item would run beside those that get its permit after the end of the lease.
#[test]
fn the_lock_of_a_limited_item_ends_with_the_lease() {
    let now = Instant::now();
    let mut queue = queue(now);
    queue.set_rules(vec![rule("tag=bank").running(1)], 1, now);
    for (key, tag) in [(1, "bank"), (2, "other")] {
        queue.label(&key, || tagged(tag));
        learn(&mut queue, key, 0, now);
    }
    Service::default().serve(&mut queue, now);
    let (_, lease_end) = queue.lease();
    let later = now + ms(1_000);
    let lock = ms(600_000);
    let limited = queue.lock_time(&1, lock, later);
    assert!(
        limited > ms(0) && later + limited <= now + lease_end,
        "{limited:?}"
    );
    assert_eq!(queue.lock_time(&2, lock, later), lock);
}
