//! The promises of the queue.

use cdb_coordination::search::Runs;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Colours, LIMITS, LOCK, Paint, ms, queue, request, won};
use crate::queue::local_queue::claim::{Caller, Claim};
use crate::queue::local_queue::dispatcher::{FetchRequest, Next, WaiterId};
use crate::queue::local_queue::queue::Queue;
use crate::queue::local_queue::slot::Behind;

/// Makes an item due immediately.
pub(super) fn learn(queue: &mut Queue<Paint>, key: u8, colour: Colours, now: Instant) {
    queue.learn(&key, now, |known| {
        known.pending.push(now);
        known.colour = colour;
    });
}

pub(super) fn takes(queue: &mut Queue<Paint>, waiter: WaiterId, now: Instant) -> Option<Claim<u8>> {
    match queue.next(waiter, now) {
        Next::Try(claim, _) | Next::HandOut(claim, _) => Some(claim),
        _ => None,
    }
}

/// Registers a dispatcher that has found nothing and waits.
pub(super) fn sleeper(queue: &mut Queue<Paint>, colours: Colours, now: Instant) -> WaiterId {
    let waiter = queue.register(request(colours));
    assert_eq!(takes(queue, waiter, now), None);
    waiter
}

/// Takes the dispatchers that are to be woken.
fn woken(queue: &mut Queue<Paint>) -> Vec<WaiterId> {
    let woken = queue.take_woken();
    let waiting = queue.dispatchers.waiting.keys().copied();
    waiting
        .filter(|id| woken.iter().any(|one| Arc::ptr_eq(one, &queue.notify(*id))))
        .collect()
}

#[test]
fn an_item_wakes_one_dispatcher_that_can_take_it() {
    let now = Instant::now();
    let mut queue = queue(now);
    let _red = sleeper(&mut queue, 1, now);
    let blue = sleeper(&mut queue, 2, now);
    let _both = sleeper(&mut queue, 3, now);
    queue.learn_from_poll(1, &7, |known| {
        known.pending.push(now);
        known.colour = 2;
    });
    queue.finish_poll(1, &[7], |_| true, now);
    assert_eq!(woken(&mut queue), [blue]);
}

#[test]
fn an_item_skipped_by_one_dispatcher_stays_for_the_next() {
    let now = Instant::now();
    let mut queue = queue(now);
    learn(&mut queue, 7, 2, now);
    let red = queue.register(request(1));
    assert_eq!(takes(&mut queue, red, now), None);
    queue.leave(red, now);
    let blue = queue.register(request(2));
    assert_eq!(takes(&mut queue, blue, now).map(|claim| claim.key), Some(7));
}

/// Takes an item, and puts it behind others.
fn put_behind(queue: &mut Queue<Paint>, key: u8, now: Instant) {
    learn(queue, key, 0, now);
    let waiter = queue.register(request(0));
    let claim = takes(queue, waiter, now).expect("it is due");
    assert_eq!(claim.key, key);
    queue.go_behind(&claim, now + LOCK, Behind::Yielding, now);
    queue.leave(waiter, now);
}

#[test]
fn an_item_behind_others_is_taken_when_no_other_is_ready_or_its_time_is_over() {
    let now = Instant::now();
    let mut queue = queue(now);
    put_behind(&mut queue, 1, now);
    learn(&mut queue, 2, 0, now);
    let waiter = queue.register(request(0));
    let first = takes(&mut queue, waiter, now).expect("it is due");
    assert_eq!((first.key, queue.taken_from(&2)), (2, None));
    let second = takes(&mut queue, waiter, now).expect("no other is ready");
    assert_eq!(
        (second.key, queue.taken_from(&1)),
        (1, Some(Behind::Yielding))
    );
    queue.go_behind(&second, now + LOCK, Behind::Yielding, now);
    assert_eq!(queue.taken_from(&1), None);
    let third = takes(&mut queue, waiter, now + LOCK).expect("it is due");
    assert_eq!((third.key, queue.taken_from(&1)), (1, None));
}

#[test]
fn no_dispatcher_stays_free_of_items_that_go_behind_others_only_in_their_order() {
    let now = Instant::now();
    let mut queue = queue(now);
    let (one, two) = (queue.register(request(0)), queue.register(request(0)));
    for key in [1, 2] {
        learn(&mut queue, key, 0, now);
        let claim = takes(&mut queue, one, now).expect("it is due");
        queue.go_behind(&claim, now + LOCK, Behind::InOrder, now);
    }
    for (waiter, key) in [(one, 1), (two, 2)] {
        let taken = takes(&mut queue, waiter, now).map(|claim| claim.key);
        assert_eq!(taken, Some(key), "no other is ready");
    }
}

#[test]
fn one_of_several_dispatchers_stays_free_of_items_behind_others() {
    let now = Instant::now();
    let mut queue = queue(now);
    for key in [1, 2] {
        put_behind(&mut queue, key, now);
    }
    let (one, two) = (queue.register(request(0)), queue.register(request(0)));
    for key in 3..5 {
        put_behind(&mut queue, key, now);
    }
    assert!(queue.is_running_low(), "a poll may find others");
    let claim = takes(&mut queue, one, now).expect("no other is ready");
    assert_eq!(takes(&mut queue, two, now), None);
    queue.leave(one, now);
    let won = won(1, "token", now + LOCK);
    assert!(
        queue
            .hand_out(&claim, won, Caller::Runtime, now, |_| {})
            .is_none()
    );
    assert_eq!(takes(&mut queue, two, now), None);
    // The dispatcher is free while the end of its item is stored, and takes the next.
    queue.detach("token", now);
    assert!(queue.running("token").is_none() && queue.is_busy(&claim.key));
    let one = queue.register(request(0));
    assert!(takes(&mut queue, one, now).is_some());
    assert_eq!(queue.detached(), 1);
    queue.finish("token", now, |_| {});
    assert_eq!((queue.detached(), queue.load().working), (0, 0));
}

#[test]
fn one_of_several_dispatchers_stays_free_of_retries() {
    let now = Instant::now();
    let mut queue = queue(now);
    for key in 1..=3 {
        learn(&mut queue, key, 0, now);
        queue.learn(&key, now, |known| known.is_retry = key < 3);
    }
    let (one, two) = (queue.register(request(0)), queue.register(request(0)));
    let retry = takes(&mut queue, one, now).expect("it is due");
    let other = takes(&mut queue, two, now).expect("it passes the second retry");
    assert_eq!((retry.key, other.key), (1, 3));
    queue.release(&other, now, |known| known.pending.clear());
    assert_eq!(takes(&mut queue, two, now), None);
    // A poll reads on behind it.
    assert_eq!(queue.polled(&2, 1, 8), Runs::NotNow);
    queue.release(&retry, now, |known| known.pending.clear());
    assert_eq!(queue.polled(&2, 1, 8), Runs::Now);
    let second = takes(&mut queue, two, now).expect("a dispatcher is free");
    assert_eq!(second.key, 2);
}

#[test]
fn a_leaving_dispatcher_wakes_another_for_its_item() {
    let now = Instant::now();
    let mut queue = queue(now);
    let first = sleeper(&mut queue, 1, now);
    let second = sleeper(&mut queue, 1, now);
    queue.learn_from_poll(1, &7, |known| known.pending.push(now));
    queue.finish_poll(1, &[7], |_| true, now);
    assert_eq!(woken(&mut queue), [first]);
    queue.leave(first, now);
    assert_eq!(woken(&mut queue), [second]);
}

#[test]
fn a_poll_forgets_only_items_that_it_covers() {
    let now = Instant::now();
    let mut queue = queue(now);
    for (key, colour) in [(1, 1), (2, 2)] {
        queue.learn_from_poll(1, &key, |known| {
            known.pending.push(now);
            known.colour = colour;
        });
    }
    queue.finish_poll(1, &[1, 2], |_| true, now);
    queue.finish_poll(2, &[], |known| known.colour == 1, now);
    assert_eq!(queue.known(&1), None);
    assert!(queue.known(&2).is_some());
}

#[test]
fn a_lost_race_forgets_what_its_poll_found_and_polls_soon() {
    let now = Instant::now();
    let mut queue = queue(now);
    let find = |queue: &mut Queue<Paint>, poll, key| {
        queue.learn_from_poll(poll, &key, |known| known.pending.push(now));
        queue.finish_poll(poll, &[key], |_| false, now);
    };
    find(&mut queue, 1, 1);
    find(&mut queue, 1, 2);
    learn(&mut queue, 3, 0, now);
    let waiter = queue.register(request(0));
    let claim = takes(&mut queue, waiter, now).expect("it is due");
    find(&mut queue, 2, 4);
    queue.end_poll(false, now);
    queue.lost_race(&claim.key, now);
    let kept = [1, 2, 3, 4].map(|key| queue.known(&key).is_some());
    assert_eq!(
        kept,
        [true, false, true, true],
        "claimed, taken, local, found later"
    );
    assert_eq!(queue.poll_interval(), ms(10));
    assert!(queue.next_poll() <= Some(now + ms(10)));
}

#[test]
fn a_poll_does_not_forget_items_learned_without_a_poll() {
    let now = Instant::now();
    let mut queue = queue(now);
    learn(&mut queue, 1, 0, now);
    queue.finish_poll(1, &[], |_| true, now);
    assert!(queue.known(&1).is_some());
}

#[test]
fn a_message_learned_during_an_attempt_triggers_another_attempt() {
    let now = Instant::now();
    let mut queue = queue(now);
    learn(&mut queue, 1, 0, now);
    let waiter = queue.register(request(0));
    let claim = takes(&mut queue, waiter, now).expect("it is due");
    assert_eq!(takes(&mut queue, waiter, now), None);
    learn(&mut queue, 1, 0, now);
    queue.release(&claim, now, |known| {
        known.pending.remove(0);
    });
    assert!(takes(&mut queue, waiter, now).is_some());
}

#[test]
fn a_dropped_attempt_makes_its_item_ready_again() {
    let now = Instant::now();
    let mut queue = queue(now);
    learn(&mut queue, 1, 0, now);
    let waiter = queue.register(request(0));
    let claim = takes(&mut queue, waiter, now).expect("it is due");
    queue.dropped(&claim, now);
    assert!(takes(&mut queue, waiter, now).is_some());
}

#[test]
fn a_dropped_lock_request_is_released_before_the_next_attempt() {
    let now = Instant::now();
    let mut queue = queue(now);
    learn(&mut queue, 1, 0, now);
    let waiter = queue.register(request(0));
    let claim = takes(&mut queue, waiter, now).expect("it is due");
    queue.locking(&claim, "a", now + LOCK, now);
    queue.dropped(&claim, now);
    assert_eq!(takes(&mut queue, waiter, now), None);
    let releasing = queue.take_releasing();
    assert_eq!(releasing, [(claim.clone(), "a".to_owned())]);
    queue.released(&claim, now);
    assert!(takes(&mut queue, waiter, now).is_some());
}

#[test]
fn an_attempt_keeps_its_claim_however_long_it_takes() {
    let now = Instant::now();
    let mut queue = queue(now);
    learn(&mut queue, 1, 0, now);
    let waiter = queue.register(request(0));
    let claim = takes(&mut queue, waiter, now).expect("it is due");
    for passed in [LOCK, LOCK * 100] {
        queue.tick(now + passed);
        assert_eq!(takes(&mut queue, waiter, now + passed), None);
    }
    let later = now + LOCK * 101;
    queue.locking(&claim, "a", later + LOCK, later);
    let end = later + LOCK * 2;
    assert_eq!(
        takes(&mut queue, waiter, end),
        None,
        "its lock was requested"
    );
    let lock = won(0, "a", end + LOCK);
    let handed_out = queue.hand_out(&claim, lock, Caller::Runtime, end, |known| {
        known.pending.clear();
    });
    assert_eq!(handed_out, None);
}

#[test]
fn an_expired_lock_is_not_handed_out() {
    let now = Instant::now();
    let mut queue = queue(now);
    learn(&mut queue, 1, 0, now);
    let waiter = queue.register(request(0));
    let claim = takes(&mut queue, waiter, now).expect("it is due");
    queue.locking(&claim, "a", now + LOCK, now);
    let lock = won(0, "a", now + LOCK);
    let handed_out = queue.hand_out(&claim, lock, Caller::Runtime, now + LOCK, |_| {});
    assert_eq!(handed_out, Some(0));
    assert_eq!(queue.load().working, 0);
    assert!(queue.running("a").is_none());
    assert!(
        takes(&mut queue, waiter, now + LOCK).is_some(),
        "it is tried again"
    );
}

#[test]
fn an_item_with_an_expired_lock_is_read_from_the_store() {
    let now = Instant::now();
    let mut queue = queue(now);
    learn(&mut queue, 1, 0, now);
    let waiter = queue.register(request(0));
    let claim = takes(&mut queue, waiter, now).expect("it is due");
    let lock = won(0, "a", now + LOCK);
    let handed_out = queue.hand_out(&claim, lock, Caller::Runtime, now, |known| {
        known.pending.clear();
    });
    assert_eq!(handed_out, None);
    assert_eq!(queue.load().working, 1);
    let later = now + LOCK;
    assert!(takes(&mut queue, waiter, later).is_some());
    assert_eq!(queue.load().working, 0);
    assert!(queue.running("a").is_none());
}

#[test]
fn a_prelocked_item_is_handed_out_first() {
    let now = Instant::now();
    let mut queue = queue(now);
    learn(&mut queue, 1, 0, now);
    let (claim, _) = queue.claim(&2, now).expect("it is idle");
    queue.prelocked(&claim, won(0, "a", now + LOCK), now, |_| {});
    let waiter = queue.register(request(0));
    assert!(matches!(queue.next(waiter, now), Next::HandOut(got, _) if got == claim));
}

#[test]
fn an_unused_prelock_is_released() {
    let now = Instant::now();
    let mut queue = queue(now);
    let (claim, _) = queue.claim(&2, now).expect("it is idle");
    queue.prelocked(&claim, won(0, "a", now + LOCK), now, |_| {});
    let later = now + ms(10);
    queue.claim(&3, later).expect("it is idle");
    let taken = queue.take_unused(now, later);
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].0, claim);
    let waiter = queue.register(request(0));
    assert_eq!(takes(&mut queue, waiter, later), None);
}

#[test]
fn in_an_open_backoff_only_accepting_dispatchers_get_the_item() {
    let now = Instant::now();
    let mut queue = queue(now);
    learn(&mut queue, 1, 1, now);
    let red = queue.register(request(1));
    let blue = queue.register(request(2));
    let claim = takes(&mut queue, red, now).expect("it is due");
    queue.back_off(&claim, now + ms(500), now, |known| known.is_open = true);
    assert_eq!(takes(&mut queue, blue, now), None);
    assert!(takes(&mut queue, red, now).is_some());
}

#[test]
fn a_backoff_ends_when_its_time_has_come() {
    let now = Instant::now();
    let mut queue = queue(now);
    learn(&mut queue, 1, 0, now);
    let waiter = queue.register(request(0));
    let claim = takes(&mut queue, waiter, now).expect("it is due");
    queue.back_off(&claim, now + ms(500), now, |_| {});
    assert!(matches!(queue.next(waiter, now), Next::Wait(Some(_))));
    assert!(takes(&mut queue, waiter, now + ms(499)).is_none());
    assert!(takes(&mut queue, waiter, now + ms(500)).is_some());
}

#[test]
fn messages_due_last_are_evicted_first() {
    let now = Instant::now();
    let mut queue = queue(now);
    for key in 0..11 {
        let due = now + ms(1_000 * (1 + u64::from(key)));
        queue.learn(&key, now, |known| known.pending.push(due));
    }
    // The last item exceeded the limit; a poll will find it.
    assert_eq!(queue.known(&10), None);
    learn(&mut queue, 11, 0, now);
    assert_eq!(queue.known(&9), None);
    assert!(queue.known(&11).is_some());
}

#[test]
fn the_number_of_items_stays_within_its_limit() {
    let now = Instant::now();
    let mut queue = queue(now);
    for key in 0..30 {
        let due = now + ms(1_000 * (1 + u64::from(key)));
        queue.learn(&key, now, |known| known.load = Some(due));
    }
    // The items that are due first are kept.
    let kept: Vec<bool> = (0..30).map(|key| queue.known(&key).is_some()).collect();
    assert_eq!(kept.iter().position(|kept| !kept), Some(LIMITS.slots));
    assert_eq!(kept.iter().filter(|kept| **kept).count(), LIMITS.slots);
}

#[test]
fn a_due_item_stays_due_when_its_messages_are_evicted() {
    let now = Instant::now();
    let mut queue = queue(now);
    for _ in 0..11 {
        learn(&mut queue, 1, 0, now);
    }
    let known = queue.known(&1).expect("it is due");
    assert_eq!((known.pending.len(), known.load), (0, Some(now)));
    let waiter = queue.register(request(0));
    assert!(takes(&mut queue, waiter, now).is_some());
}

#[test]
fn the_least_recently_used_cache_is_evicted_first() {
    let now = Instant::now();
    let mut queue = queue(now);
    for key in 0..4 {
        queue.learn(&key, now, |known| known.cached = 300);
    }
    let kept: BTreeMap<u8, bool> = (0..4)
        .map(|key| (key, queue.known(&key).is_some()))
        .collect();
    assert_eq!(
        kept.into_values().collect::<Vec<_>>(),
        [false, true, true, true]
    );
}

#[test]
fn the_cache_of_an_item_that_a_lost_race_forgets_is_evicted() {
    let now = Instant::now();
    let mut queue = queue(now);
    let cached = LIMITS.memory.cached / 2 + 1;
    queue.learn(&3, now, |known| known.cached = cached);
    let poll = queue.number_poll();
    for key in [1, 2, 3] {
        queue.learn_from_poll(poll, &key, |known| known.pending = vec![now]);
    }
    queue.finish_poll(poll, &[1, 2, 3], |_| true, now);
    let waiter = queue.register(request(0));
    let first = takes(&mut queue, waiter, now).expect("it is due");
    let second = takes(&mut queue, waiter, now).expect("it is due");
    queue.learn(&second.key, now, |known| known.cached = cached);
    assert!(queue.known(&3).is_some(), "work that is due is kept");
    queue.lost_race(&first.key, now);
    assert!(queue.known(&3).is_none());
}

#[test]
fn a_fetch_without_long_polling_polls_once_and_waits_for_running_attempts() {
    let now = Instant::now();
    let mut queue = queue(now);
    learn(&mut queue, 1, 0, now);
    let other = queue.register(request(0));
    let claim = takes(&mut queue, other, now).expect("it is due");
    let once = queue.register(FetchRequest {
        caller: Caller::Single,
        ..request(0)
    });
    assert!(matches!(queue.next(once, now), Next::Poll(_)));
    queue.end_own_poll(once, &[1], now);
    assert!(matches!(queue.next(once, now), Next::WaitForAttempt));
    queue.release(&claim, now, |known| known.pending.clear());
    assert!(matches!(queue.next(once, now), Next::End));
}

#[test]
fn a_closed_queue_starts_no_polls_and_offers_no_prelocks() {
    let now = Instant::now();
    let mut queue = queue(now);
    queue.register(request(0));
    assert!(queue.last_request().is_some() && queue.start_poll(now).is_some());
    queue.end_poll(false, now);
    queue.close();
    let later = now + Duration::from_secs(9);
    assert!(queue.last_request().is_none() && queue.start_poll(later).is_none());
}
