//! Tests of the order of streams.

use std::time::Duration;

use super::*;
use crate::streams::documents::WorkMessageKey;
use crate::streams::stream::{MOST_UNWRITTEN, OWNER_LOST};

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn message(stream: &str, sequence: u64) -> WorkMessage {
    let id = format!("m{sequence}");
    WorkMessage {
        waiting_since: Some(at(sequence)),
        needs: WorkStatus::RECEIVER_DONE | WorkStatus::PROJECTION_DONE,
        ..WorkMessage::new(
            WorkMessageKey::new("work-000", Lane::Inbox, stream, id),
            sequence,
        )
    }
}

fn key(stream: &str) -> StreamKey {
    StreamKey::new(Lane::Inbox, stream)
}

const ALL: Selection = Selection {
    lane: None,
    suspects: true,
};

fn take_at(streams: &mut Streams, time: Timestamp) -> Option<Taken> {
    let since = Instant::now();
    let until = since + Duration::from_secs(300);
    take_of(streams, ALL, time, since..until)
}

fn take_of(
    streams: &mut Streams,
    selection: Selection,
    time: Timestamp,
    during: Range<Instant>,
) -> Option<Taken> {
    let key = streams.first_due(selection, time)?;
    streams.take(key, during, 10)
}

fn take(streams: &mut Streams) -> Option<u64> {
    take_at(streams, at(1000)).map(|taken| taken.message.sequence)
}

fn claim(key: &StreamKey, sequence: u64, epoch: u64) -> StreamClaim<'_> {
    StreamClaim {
        key,
        sequence,
        epoch,
    }
}

fn end(streams: &mut Streams, sequence: u64) -> Option<Change> {
    let noted = streams.reached(claim(&key("s"), sequence, 0), None);
    noted.map(|(change, _)| change)
}

fn fail(streams: &mut Streams, sequence: u64, verdict: Verdict) -> Option<Change> {
    let epoch = streams.known[&key("s")].epoch;
    let noted = streams.failed(claim(&key("s"), sequence, epoch), "no".to_owned(), |_| {
        verdict
    });
    noted.map(|(change, _)| change)
}

/// The streams of an owner that took the partition at 500 from another one.
fn taken_over() -> Streams {
    Streams::new(7, Some(at(500)))
}

#[test]
fn a_later_message_waits_for_the_earlier_one_in_any_order_of_arrival() {
    let mut streams = Streams::default();
    for sequence in [3, 2] {
        streams.learn(message("s", sequence), false);
    }
    assert_eq!(
        take(&mut streams),
        None,
        "the progress of the stream is unknown"
    );
    assert_eq!(streams.stuck(), [key("s")]);
    streams.learn(message("s", 1), true);
    for sequence in 1..=3 {
        assert_eq!(take(&mut streams), Some(sequence));
        assert_eq!(take(&mut streams), None, "one at a time");
        assert_eq!(end(&mut streams, sequence), Some(Change::End));
    }
    assert!(!streams.is_at_rest(), "no report is stored");
    assert_eq!(streams.learn_done(&key("s"), 3), Progress::News);
    assert!(streams.is_at_rest());
    assert_eq!(streams.in_memory(Lane::Inbox), 0);
}

#[test]
fn a_stream_waits_until_its_progress_is_known() {
    let mut streams = Streams::default();
    streams.learn(message("s", 1), false);
    assert_eq!(take(&mut streams), None, "it may be completed");
    assert_eq!(streams.unknown(), [key("s")]);
    assert_eq!(streams.stuck(), [key("s")]);
    assert_eq!(streams.learn_done(&key("s"), 0), Progress::News);
    assert!(streams.unknown().is_empty());
    assert_eq!(take(&mut streams), Some(1));
}

#[test]
fn streams_do_not_wait_for_each_other_and_the_oldest_message_comes_first() {
    let mut streams = Streams::default();
    streams.learn(message("s", 1), true);
    let mut other = message("t", 1);
    other.waiting_since = Some(at(0));
    streams.learn(other, true);
    let order: Vec<String> = std::iter::from_fn(|| take_at(&mut streams, at(1000)))
        .map(|taken| taken.key.stream().to_owned())
        .collect();
    assert_eq!(order, ["t", "s"]);
}

#[test]
fn a_failed_message_is_retried_when_it_is_due_and_keeps_its_stages() {
    let mut streams = Streams::default();
    streams.learn(message("s", 1), true);
    streams.learn(message("s", 2), false);
    assert_eq!(take(&mut streams), Some(1));
    let passed = streams.reached(claim(&key("s"), 1, 0), Some(WorkStatus::RECEIVER_DONE));
    assert_eq!(passed.unwrap().0, Change::Progress);
    let judge = |message: &WorkMessage| {
        assert_eq!(message.attempts, 1);
        Verdict::Retry { due_at: at(5000) }
    };
    let noted = streams.failed(claim(&key("s"), 1, 0), "no".to_owned(), judge);
    assert_eq!(noted.unwrap().0, Change::Retry);
    assert_eq!(take(&mut streams), None, "the second waits with the first");
    assert_eq!(streams.next_at(ALL), Some(at(5000)));
    let again = take_at(&mut streams, at(5000)).unwrap();
    assert_eq!(again.message.sequence, 1);
    let is_stored = Next::HandOut {
        delivery: DeliveryReason::Retried,
        store_start: true,
    };
    assert_eq!(again.next, is_stored);
    assert!(again.message.status.contains(WorkStatus::RECEIVER_DONE));
}

#[test]
fn a_message_set_aside_holds_its_stream_until_an_operator_decides() {
    let mut streams = Streams::default();
    streams.learn(message("s", 1), true);
    streams.learn(message("s", 2), false);
    take(&mut streams);
    let aside = Verdict::Dead { now: at(9) };
    assert_eq!(fail(&mut streams, 1, aside), Some(Change::Dead));
    assert_eq!(take(&mut streams), None);
    assert_eq!(streams.stuck(), [key("s")]);
    streams.learn(message("s", 1), false);
    assert_eq!(
        take(&mut streams),
        None,
        "found before the report was stored"
    );
    let mut redriven = message("s", 1);
    redriven.waiting_since = Some(at(10));
    streams.learn(redriven, false);
    assert_eq!(take(&mut streams), Some(1), "redriven");
    assert_eq!(fail(&mut streams, 1, aside), Some(Change::Dead));
    assert_eq!(streams.learn_done(&key("s"), 1), Progress::News);
    assert_eq!(take(&mut streams), Some(2), "discarded");
}

#[test]
fn a_skipped_message_lets_its_stream_go_on() {
    let mut streams = Streams::default();
    streams.learn(message("s", 1), true);
    streams.learn(message("s", 2), false);
    take(&mut streams);
    let (change, skipped) = streams
        .failed(claim(&key("s"), 1, 0), "no".to_owned(), |_| Verdict::Skip)
        .unwrap();
    assert_eq!(change, Change::End);
    assert!(skipped.status.contains(WorkStatus::SKIPPED));
    assert_eq!(take(&mut streams), Some(2));
}

#[test]
fn a_message_with_an_unwritten_report_is_claimed_again_and_old_claims_are_void() {
    let mut streams = Streams::default();
    streams.learn(message("s", 1), true);
    streams.learn(message("s", 2), false);
    take(&mut streams);
    end(&mut streams, 1);
    assert_eq!(take(&mut streams), Some(2));
    streams.roll_back(&key("s"));
    assert_eq!(end(&mut streams, 2), None, "the claim is void");
    let again = take_at(&mut streams, at(1000)).unwrap();
    assert_eq!((again.message.sequence, again.epoch), (1, 1));
    assert_eq!(streams.give_back(claim(&key("s"), 1, 1)), ClaimState::Valid);
    let again = streams.give_back(claim(&key("s"), 1, 1));
    assert_eq!(again, ClaimState::Void, "the claim was returned already");
    assert_eq!(take(&mut streams), Some(1));
}

fn is_handed_out(taken: &Taken, expected: DeliveryReason) -> bool {
    let store_start = expected != DeliveryReason::New;
    taken.next
        == Next::HandOut {
            delivery: expected,
            store_start,
        }
}

#[test]
fn messages_that_a_former_owner_may_have_handed_out_count_an_attempt_once() {
    let mut streams = taken_over();
    for sequence in 1..=2 {
        streams.learn(message("s", sequence), sequence == 1);
    }
    let first = take_at(&mut streams, at(1000)).unwrap();
    assert!(
        is_handed_out(&first, DeliveryReason::TakenOver),
        "{first:?}"
    );
    assert_eq!(first.message.attempts, 1);
    assert_eq!(streams.give_back(claim(&key("s"), 1, 0)), ClaimState::Valid);
    let again = take_at(&mut streams, at(1000)).unwrap();
    assert_eq!(again.message.attempts, 1, "counted once");
    let mut later = message("t", 1);
    later.waiting_since = Some(at(600));
    streams.learn(later, true);
    let new = take_at(&mut streams, at(1000)).unwrap();
    assert!(is_handed_out(&new, DeliveryReason::New), "{new:?}");
}

#[test]
fn an_attempt_of_a_former_owner_fails_before_the_message_is_handed_out_again() {
    let mut streams = taken_over();
    let mut started = message("s", 1);
    started.started_under = Some(6);
    started.attempts = 1;
    streams.learn(started, true);
    let taken = take_at(&mut streams, at(1000)).unwrap();
    assert_eq!(taken.next, Next::FailEarlierAttempt);
    let later = Verdict::Retry { due_at: at(2000) };
    assert_eq!(fail(&mut streams, 1, later), Some(Change::Retry));
    assert_eq!(take(&mut streams), None, "it waits");
    let again = take_at(&mut streams, at(2000)).unwrap();
    assert!(
        is_handed_out(&again, DeliveryReason::TakenOver),
        "{again:?}"
    );
    assert_eq!(again.message.attempts, 2);
}

#[test]
fn a_stored_start_is_not_stored_again_after_a_rolled_back_report() {
    let mut streams = taken_over();
    streams.learn(message("s", 1), true);
    take(&mut streams);
    assert_eq!(streams.started(claim(&key("s"), 1, 0)), ClaimState::Valid);
    assert_eq!(end(&mut streams, 1), Some(Change::End));
    streams.roll_back(&key("s"));
    let again = take_at(&mut streams, at(1000)).unwrap();
    let is_stored = Next::HandOut {
        delivery: DeliveryReason::Retried,
        store_start: false,
    };
    assert_eq!(again.next, is_stored);
}

#[test]
fn a_stream_with_too_many_unwritten_reports_waits_until_they_are_written() {
    let mut streams = Streams::default();
    for sequence in 1..=MOST_UNWRITTEN + 1 {
        streams.learn(message("s", sequence), sequence == 1);
    }
    for sequence in 1..=MOST_UNWRITTEN {
        assert_eq!(
            take_at(&mut streams, at(5000)).unwrap().message.sequence,
            sequence
        );
        end(&mut streams, sequence);
    }
    assert!(take_at(&mut streams, at(5000)).is_none());
    assert_eq!(streams.learn_done(&key("s"), 1), Progress::News);
    assert!(take_at(&mut streams, at(5000)).is_some());
}

#[test]
fn a_claim_times_out_unless_it_is_renewed() {
    let mut streams = Streams::default();
    streams.learn(message("s", 1), true);
    let taken = take_at(&mut streams, at(1000)).unwrap();
    let place = claim(&taken.key, 1, taken.epoch);
    let in_five_minutes = Instant::now() + Duration::from_secs(301);
    let renewed = streams.renew(place, in_five_minutes + Duration::from_secs(1));
    assert_eq!(renewed, ClaimState::Valid);
    assert!(streams.timed_out(in_five_minutes).is_empty());
    let later = in_five_minutes + Duration::from_secs(2);
    assert_eq!(streams.timed_out(later), [(key("s"), 1, taken.epoch)]);
}

#[test]
fn a_refused_report_fails_its_message_and_keeps_the_reports_before_it() {
    let mut streams = Streams::default();
    for sequence in 1..=3 {
        streams.learn(message("s", sequence), sequence == 1);
    }
    for sequence in 1..=3 {
        assert_eq!(take(&mut streams), Some(sequence));
        end(&mut streams, sequence);
    }
    let retry = |_: &WorkMessage| Verdict::Retry { due_at: at(2000) };
    let noted = streams.rejected(&key("s"), 2, "refused".to_owned(), retry);
    assert_eq!(noted.unwrap().1.attempts, 1);
    assert_eq!(take(&mut streams), None, "message 2 waits, and 3 behind it");
    assert_eq!(take_at(&mut streams, at(2000)).unwrap().message.sequence, 2);
}

#[test]
fn a_lane_is_claimed_alone() {
    let mut streams = Streams::default();
    let mut outbox = message("s", 1);
    outbox.lane = Lane::Outbox;
    outbox.waiting_since = Some(at(0));
    streams.learn(outbox, true);
    streams.learn(message("s", 1), true);
    let since = Instant::now();
    let only = Selection {
        lane: Some(Lane::Inbox),
        suspects: true,
    };
    let inbox = take_of(&mut streams, only, at(1000), since..since);
    assert_eq!(inbox.unwrap().message.lane, Lane::Inbox);
    assert!(streams.first_due(only, at(1000)).is_none());
    assert_eq!(
        take_at(&mut streams, at(1000)).unwrap().message.lane,
        Lane::Outbox
    );
}

#[test]
fn one_suspect_is_handed_out_at_a_time_until_its_result_is_stored() {
    let mut streams = taken_over();
    for stream in ["s", "t"] {
        let mut suspect = message(stream, 1);
        suspect.attempts = 2;
        suspect.last_failure = Some(OWNER_LOST.to_owned());
        streams.learn(suspect, true);
    }
    streams.learn(message("u", 1), true);
    let others = Selection {
        suspects: false,
        ..ALL
    };
    let first = take_at(&mut streams, at(1000)).unwrap();
    assert!(first.is_suspect && streams.has_suspect_in_hand(Instant::now()));
    let since = Instant::now();
    let other = take_of(&mut streams, others, at(1000), since..since);
    assert_eq!(other.unwrap().key, key("u"));
    assert!(streams.first_due(others, at(1000)).is_none());
    assert_eq!(streams.next_at(others), None);
    let place = claim(&first.key, 1, first.epoch);
    assert_eq!(streams.reached(place, None).unwrap().0, Change::End);
    assert!(
        streams.has_suspect_in_hand(Instant::now()),
        "the result is not stored"
    );
    assert_eq!(streams.learn_done(&first.key, 1), Progress::News);
    assert!(!streams.has_suspect_in_hand(Instant::now()));
    assert!(take_at(&mut streams, at(1000)).unwrap().is_suspect);
}

#[test]
fn a_discarded_report_leaves_the_stored_stages() {
    let mut streams = Streams::default();
    streams.learn(message("s", 1), true);
    streams.learn(message("s", 2), false);
    assert_eq!(take(&mut streams), Some(1));
    let reach = |streams: &mut Streams, sequence, stage, expected: (Change, WorkStatus)| {
        let epoch = streams.known[&key("s")].epoch;
        let noted = streams.reached(claim(&key("s"), sequence, epoch), Some(stage));
        let (change, message) = noted.expect("the claim is held");
        assert_eq!((change, message.status), expected);
        message
    };
    let first = WorkStatus::STORED | WorkStatus::RECEIVER_DONE;
    let all = first | WorkStatus::PROJECTION_DONE;
    let (in_part, whole) = ((Change::Progress, first), (Change::End, all));
    let reported = reach(&mut streams, 1, WorkStatus::RECEIVER_DONE, in_part);
    streams.stored(&key("s"), &reported);
    reach(&mut streams, 1, WorkStatus::PROJECTION_DONE, whole);
    assert_eq!(take(&mut streams), Some(2));
    // This report stays unwritten.
    reach(&mut streams, 2, WorkStatus::RECEIVER_DONE, in_part);
    // The reports cannot be written: the messages continue from what is stored.
    streams.roll_back(&key("s"));
    let status = |streams: &Streams, sequence| streams.known[&key("s")].waiting[&sequence].status;
    assert_eq!(status(&streams, 1), first);
    assert_eq!(status(&streams, 2), WorkStatus::STORED);

    assert_eq!(take(&mut streams), Some(1));
    reach(&mut streams, 1, WorkStatus::PROJECTION_DONE, whole);
    // The store refuses the report for good: the attempt failed, and the retry stores no stage.
    let retry = Verdict::Retry { due_at: at(0) };
    let refused = streams.rejected(&key("s"), 1, "no".to_owned(), |_| retry);
    let (change, retried) = refused.expect("the message is known");
    assert_eq!((change, retried.status), (Change::Retry, first));
    streams.stored(&key("s"), &retried);
    assert_eq!(streams.learn_done(&key("s"), 1), Progress::News);
    assert!(streams.known[&key("s")].stored.is_empty());
}

#[test]
fn only_messages_that_cannot_be_claimed_leave_the_memory() {
    let mut streams = Streams::default();
    for stream in ["aside", "late", "ready"] {
        for sequence in 1..=3 {
            streams.learn(message(stream, sequence), sequence == 1);
        }
    }
    let mut fail = |verdict| {
        let taken = take_at(&mut streams, at(1000)).unwrap();
        let place = claim(&taken.key, 1, taken.epoch);
        let failed = streams.failed(place, "no".to_owned(), |_| verdict);
        (taken.key, failed.expect("the claim is held").1)
    };
    let aside = fail(Verdict::Dead { now: at(9) });
    let late = fail(Verdict::Retry { due_at: at(5000) });
    streams.shed(at(2000), None);
    assert_eq!(streams.in_memory(Lane::Inbox), 7, "failures are not stored");
    for (key, message) in [&aside, &late] {
        streams.stored(key, message);
    }
    streams.shed(at(2000), None);
    assert_eq!(streams.in_memory(Lane::Inbox), 3, "those of `ready`");
    assert_eq!(
        streams.stuck(),
        [aside.0],
        "an operator may discard the message"
    );
    for sequence in 2..=3 {
        streams.learn(message("aside", sequence), false);
    }
    assert_eq!(streams.in_memory(Lane::Inbox), 3, "they stay out");
    assert_eq!(streams.take_left_out(), None);
    streams.learn(message("aside", 1), false);
    let redriven = streams.take_left_out();
    assert_eq!(redriven, Some(LeftOut::Blocked));
    assert_eq!(streams.take_left_out(), None);
}
