//! Tests of the order of streams.

use super::*;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn message(stream: &str, sequence: u64) -> WorkMessage {
    WorkMessage {
        partition: "work-000".to_owned(),
        lane: Lane::Inbox,
        stream: stream.to_owned(),
        message_id: format!("m{sequence}"),
        sequence,
        waiting_since: Some(at(sequence)),
        due_at: at(0),
        dead_since: None,
        status: WorkStatus::STORED,
        needs: WorkStatus::RECEIVER_DONE | WorkStatus::PROJECTION_DONE,
        attempts: 0,
        last_failure: None,
        kind: String::new(),
        body: String::new(),
        token: String::new(),
        ttl: None,
    }
}

fn key(stream: &str) -> StreamKey {
    StreamKey::new(Lane::Inbox, stream)
}

fn take(streams: &mut Streams) -> Option<u64> {
    streams
        .take(at(1000))
        .map(|(_, message, _)| message.sequence)
}

fn end(streams: &mut Streams, sequence: u64) -> Option<Change> {
    let noted = streams.reached((&key("s"), sequence, 0), None);
    noted.map(|(change, _)| change)
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
    streams.learn_done(&key("s"), 3);
    assert!(streams.is_at_rest());
    assert_eq!(streams.held(), 0);
}

#[test]
fn a_stream_waits_until_its_progress_is_known() {
    let mut streams = Streams::default();
    streams.learn(message("s", 1), false);
    assert_eq!(take(&mut streams), None, "it may be completed");
    assert!(streams.has_unknown());
    assert_eq!(streams.stuck(), [key("s")]);
    assert!(streams.learn_done(&key("s"), 0));
    assert!(!streams.has_unknown());
    assert_eq!(take(&mut streams), Some(1));
}

#[test]
fn streams_do_not_wait_for_each_other_and_the_oldest_message_comes_first() {
    let mut streams = Streams::default();
    streams.learn(message("s", 1), true);
    let mut other = message("t", 1);
    other.waiting_since = Some(at(0));
    streams.learn(other, true);
    let order: Vec<String> = std::iter::from_fn(|| streams.take(at(1000)))
        .map(|(key, _, _)| key.stream().to_owned())
        .collect();
    assert_eq!(order, ["t", "s"]);
}

#[test]
fn a_failed_message_is_retried_when_it_is_due_and_keeps_its_stages() {
    let mut streams = Streams::default();
    streams.learn(message("s", 1), true);
    streams.learn(message("s", 2), false);
    assert_eq!(take(&mut streams), Some(1));
    let claim = key("s");
    let passed = streams.reached((&claim, 1, 0), Some(WorkStatus::RECEIVER_DONE));
    assert_eq!(passed.unwrap().0, Change::Progress);
    let judge = |message: &WorkMessage| {
        assert_eq!(message.attempts, 1);
        Verdict::Retry { due_at: at(5000) }
    };
    let noted = streams.failed((&claim, 1, 0), "no".to_owned(), judge);
    assert_eq!(noted.unwrap().0, Change::Retry);
    assert_eq!(take(&mut streams), None, "the second waits with the first");
    assert_eq!(streams.next_at(), Some(at(5000)));
    let (_, again, _) = streams.take(at(5000)).unwrap();
    assert_eq!(again.sequence, 1);
    assert!(again.status.contains(WorkStatus::RECEIVER_DONE));
}

#[test]
fn a_message_set_aside_holds_its_stream_until_an_operator_decides() {
    let mut streams = Streams::default();
    streams.learn(message("s", 1), true);
    streams.learn(message("s", 2), false);
    take(&mut streams);
    let aside = |_: &WorkMessage| Verdict::SetAside { now: at(9) };
    streams.failed((&key("s"), 1, 0), "no".to_owned(), aside);
    assert_eq!(take(&mut streams), None);
    assert_eq!(streams.stuck(), [key("s")]);
    streams.learn(message("s", 1), false);
    assert_eq!(take(&mut streams), Some(1), "redriven");
    streams.failed((&key("s"), 1, 0), "no".to_owned(), aside);
    streams.learn_done(&key("s"), 1);
    assert_eq!(take(&mut streams), Some(2), "discarded");
}

#[test]
fn a_skipped_message_lets_its_stream_go_on() {
    let mut streams = Streams::default();
    streams.learn(message("s", 1), true);
    streams.learn(message("s", 2), false);
    take(&mut streams);
    let (change, skipped) = streams
        .failed((&key("s"), 1, 0), "no".to_owned(), |_| Verdict::Skip)
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
    let (_, again, epoch) = streams.take(at(1000)).unwrap();
    assert_eq!((again.sequence, epoch), (1, 1));
    assert!(streams.give_back(&key("s"), 1, 1));
    assert!(
        !streams.give_back(&key("s"), 1, 1),
        "the claim was returned already"
    );
    assert_eq!(take(&mut streams), Some(1));
}
