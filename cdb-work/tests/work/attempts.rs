//! Attempts without a report: dropped claims, ended processes, time-outs, refused effects.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cdb_client::transport::async_trait;
use cdb_coordination::membership::{LeaseProvider, SlotSet};
use cdb_model::{Document as _, Query, Timestamp};
use cdb_work::{
    DeliveryReason, FlushStrategy, Lane, NewWork, Work, WorkBatch, WorkConfig, WorkCoordinator,
    WorkError, WorkMessage, WorkStatus,
};
use serde_json::Value;
use tokio::time::Instant;

use crate::test_env::{Applied, Process, Shop, TestEnv, applied, config, message, next, nothing};

fn three_attempts() -> WorkConfig {
    let mut settings = config();
    settings.retry.max_attempts = 3;
    settings
}

async fn stored(env: &TestEnv, stream: &str) -> WorkMessage {
    let messages = env.container::<Work>();
    let query = Query::<WorkMessage>::across_partitions().filter(WorkMessage::MESSAGE_ID.eq("1"));
    let found = messages.query(query).all().await.unwrap();
    let mut found = found.into_iter().map(|row| row.document);
    found.find(|message| message.stream == stream).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_message_whose_claims_are_dropped_is_retried_with_waits_and_then_set_aside() {
    let env = TestEnv::start().await;
    let work = env.open(three_attempts()).await;
    for number in 1..=2 {
        work.immediate().store(message("a", number)).await.unwrap();
    }
    let mut times = Vec::new();
    for attempt in 0..3 {
        let claimed = next(&work).await;
        times.push(Instant::now());
        assert_eq!(claimed.message().attempts, attempt);
        let expected = [
            DeliveryReason::New,
            DeliveryReason::Retried,
            DeliveryReason::Retried,
        ];
        assert_eq!(
            claimed.delivery(),
            expected[usize::try_from(attempt).unwrap()]
        );
        // As when its handler panics.
        drop(claimed);
    }
    let waits: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits[0] >= Duration::from_millis(15), "{waits:?}");
    assert!(waits[1] >= Duration::from_millis(30), "{waits:?}");
    nothing(&work).await;
    let aside = work.dead_letters(10).await.unwrap();
    let reason = aside[0].last_failure.as_deref().unwrap();
    assert!(reason.contains("dropped without a report"), "{reason}");
    work.redrive(&aside[0]).await.unwrap();
    let claimed = next(&work).await;
    assert_eq!(claimed.message().message_id, "1");
    work.immediate().report(claimed.done()).await.unwrap();
    assert_eq!(next(&work).await.message().message_id, "2");
}

/// Waits until this many messages are retried.
async fn until_retrying(work: &WorkCoordinator, count: usize) -> Vec<WorkMessage> {
    for _ in 0..1_200 {
        let retrying = work.admin().retrying(10, None).await.unwrap().rows;
        if retrying.len() == count {
            return retrying;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never {count} messages");
}

#[tokio::test(start_paused = true)]
async fn a_message_is_listed_from_its_first_failure_to_its_success() {
    let env = TestEnv::start_on(2).await;
    let mut settings = config();
    settings.retry.first_delay = Duration::from_secs(60);
    let work = env.open(settings).await;
    for stream in ["a", "b"] {
        work.immediate().store(message(stream, 1)).await.unwrap();
    }
    work.immediate().store(message("a", 2)).await.unwrap();
    let reason = "ö".repeat(800);
    for claimed in work.claim(2, Duration::from_secs(5)).await {
        let is_failing = claimed.message().stream == "a";
        let report = if is_failing {
            claimed.failed(reason.clone())
        } else {
            applied(claimed)
        };
        work.immediate().report(report).await.unwrap();
    }
    let listed = until_retrying(&work, 1).await;
    let failed = &listed[0];
    assert_eq!((&*failed.stream, failed.attempts), ("a", 1));
    let stored = failed.last_failure.as_deref().unwrap();
    assert_eq!(stored.len(), 1000, "the reason is cut");
    assert!(failed.due_at > env.shop.now(), "{failed:?}");
    let counts = work.admin().counts().await.unwrap();
    assert_eq!((counts.waiting, counts.retrying), (2, 1), "{counts:?}");
    assert_eq!(counts.blocked_streams(), 1, "{counts:?}");
    tokio::time::sleep(Duration::from_secs(61)).await;
    let claimed = next(&work).await;
    assert_eq!(until_retrying(&work, 1).await.len(), 1, "the attempt runs");
    work.immediate().report(applied(claimed)).await.unwrap();
    until_retrying(&work, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_message_is_not_listed_after_a_later_attempt_passed_a_stage() {
    let env = TestEnv::start().await;
    let work = env.open(three_attempts()).await;
    let now = work.immediate();
    let needs = WorkStatus::PUBLISHED | WorkStatus::PROJECTION_DONE;
    let two_stages = NewWork::outbox("a", "1").needing(needs);
    now.store(two_stages).await.unwrap();
    let failed = next(&work).await.failed("no view");
    now.report(failed).await.unwrap();
    let claimed = next(&work).await;
    assert!(stored(&env, "a").await.retrying, "the attempt runs");
    let report = claimed.reached(WorkStatus::PUBLISHED);
    now.report(report).await.unwrap();
    let passed = stored(&env, "a").await;
    assert_eq!((passed.retrying, passed.last_failure), (false, None));
    assert_eq!(passed.attempts, 1, "failures still count");
    now.report(claimed.failed("no view")).await.unwrap();
    let failed = stored(&env, "a").await;
    assert!(failed.retrying && failed.last_failure.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_set_aside_is_not_retried_and_blocks_its_stream() {
    let env = TestEnv::start().await;
    let work = env.open(three_attempts()).await;
    work.immediate().store(message("a", 1)).await.unwrap();
    for _ in 0..3 {
        let failed = next(&work).await.failed("no stock");
        work.immediate().report(failed).await.unwrap();
    }
    let counts = work.admin().counts().await.unwrap();
    assert_eq!((counts.retrying, counts.dead), (0, 1), "{counts:?}");
    assert_eq!(counts.blocked_streams(), 1);
    let aside = work.admin().dead_letters(10, None).await.unwrap().rows;
    assert!(!aside[0].retrying);
    work.redrive(&aside[0]).await.unwrap();
    assert_eq!(until_retrying(&work, 0).await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_failures_of_dropped_claims_survive_the_process() {
    let env = TestEnv::start().await;
    let work = env.open(three_attempts()).await;
    work.immediate().store(message("a", 1)).await.unwrap();
    drop(next(&work).await);
    work.shutdown().await.unwrap();
    let work = env.open(three_attempts()).await;
    let claimed = next(&work).await;
    assert_eq!(claimed.message().attempts, 1);
    assert_eq!(claimed.delivery(), DeliveryReason::Retried);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_of_an_ended_process_counts_after_its_partition_was_taken_and_released() {
    let env = TestEnv::start().await;
    let ended = env.open(three_attempts()).await;
    ended.immediate().store(message("a", 1)).await.unwrap();
    let claimed = next(&ended).await;
    // As after SIGKILL: the coordinator ends before the claim.
    drop(ended);
    drop(claimed);
    tokio::time::sleep(Duration::from_secs(3)).await;
    for _ in 0..2 {
        // Takes the partition after the lease, and releases it before it has read the messages.
        let passing = env.open(three_attempts()).await;
        assert_eq!(passing.partitions().len(), 4);
        passing.immediate().store(message("b", 1)).await.unwrap();
        passing.shutdown().await.unwrap();
    }
    let work = env.open(three_attempts()).await;
    for _ in 0..2 {
        let claimed = next(&work).await;
        let message = claimed.message();
        // The messages of stream `b` were stored after the process had ended.
        let expected = u32::from(message.stream == "a");
        assert_eq!(message.attempts, expected, "{}", message.stream);
        work.immediate().report(claimed.done()).await.unwrap();
    }
    nothing(&work).await;
}

#[tokio::test(start_paused = true)]
async fn a_released_message_is_claimed_again_at_once_and_costs_no_attempt() {
    let env = TestEnv::start().await;
    let work = env.open(three_attempts()).await;
    work.immediate().store(message("a", 1)).await.unwrap();
    for _ in 0..5 {
        let claimed = next(&work).await;
        assert_eq!(claimed.message().attempts, 0);
        claimed.release();
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_behind_unwritten_reports_that_ends_its_process_runs_out_of_attempts_too() {
    let env = TestEnv::start().await;
    let settings = three_attempts();
    let (mut work, mut process) = or_skip!(env.open_switched(settings.clone()).await);
    for number in 1..=3 {
        work.immediate().store(message("a", number)).await.unwrap();
    }
    let mut kills = 0;
    let mut ended = Vec::new();
    loop {
        let scope = work.scoped();
        let mut last = None;
        while let Some(claimed) = work.claim(1, Duration::from_millis(300)).await.pop() {
            if claimed.message().message_id == "3" {
                last = Some(claimed);
                break;
            }
            ended.push(scope.report(claimed.done()).await);
        }
        let Some(last) = last else { break };
        kills += 1;
        // The process ends before the reports of the first two messages are written.
        process.send_replace(Process::Dead);
        std::mem::forget((scope, last, process));
        tokio::time::sleep(settings.lease).await;
        let next = env.open_switched(settings.clone()).await;
        (work, process) = next.expect("there is an emulator");
    }
    assert_eq!(kills, 3);
    assert_eq!(work.dead_letters(10).await.unwrap()[0].message_id, "3");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_waited_at_a_former_owner_says_so() {
    let env = TestEnv::start().await;
    let first = env.open(config()).await;
    first.immediate().store(message("a", 1)).await.unwrap();
    let held = next(&first).await;
    drop(first);
    let second = env.open(config()).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(second.partitions().len(), 4);
    second.immediate().store(message("b", 1)).await.unwrap();
    let both = [next(&second).await, next(&second).await];
    let of = |stream: &str| {
        both.iter()
            .find(|one| one.message().stream == stream)
            .unwrap()
    };
    assert_eq!(of("a").delivery(), DeliveryReason::TakenOver);
    assert_eq!(of("b").delivery(), DeliveryReason::New);
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_message_of_a_shut_down_coordinator_is_new() {
    let env = TestEnv::start().await;
    let first = env.open(config()).await;
    first.immediate().store(message("a", 1)).await.unwrap();
    first.shutdown().await.unwrap();
    let second = env.open(config()).await;
    assert_eq!(next(&second).await.delivery(), DeliveryReason::New);
}

#[tokio::test(start_paused = true)]
async fn a_message_whose_effects_are_always_refused_is_set_aside() {
    let env = TestEnv::start().await;
    let work = env.open(three_attempts()).await;
    let now = work.immediate();
    for number in 1..=2 {
        now.store(message("a", number)).await.unwrap();
    }
    for _ in 0..3 {
        let claimed = next(&work).await;
        let mut effects = claimed.effects::<Shop>();
        let twice = Applied {
            partition: claimed.message().partition.clone(),
            unique: "one".to_owned(),
            stream: String::new(),
            message_id: String::new(),
        };
        effects.add(twice.create()).unwrap();
        effects.add(twice.create()).unwrap();
        let report = claimed.done().with_effects(&effects).unwrap();
        let refused = now.report(report).await.unwrap_err();
        assert!(matches!(refused, WorkError::EffectRefused { .. }));
    }
    nothing(&work).await;
    let aside = work.dead_letters(10).await.unwrap();
    assert_eq!((&*aside[0].message_id, aside[0].attempts), ("1", 3));
}

#[tokio::test(start_paused = true)]
async fn a_hung_handler_holds_its_stream_until_the_claim_times_out() {
    let env = TestEnv::start().await;
    let mut settings = config();
    settings.claim_timeout = Duration::from_secs(3);
    let work = env.open(settings).await;
    let now = work.immediate();
    now.store(message("a", 1)).await.unwrap();
    let begun = Instant::now();
    let hung = next(&work).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(hung.renew());
    nothing(&work).await;
    let again = next(&work).await;
    assert!(begun.elapsed() >= Duration::from_secs(5));
    assert!(begun.elapsed() < Duration::from_secs(6));
    assert_eq!(again.message().attempts, 1);
    assert!(!hung.renew(), "another attempt has begun");
    let refused = now.report(hung.done()).await.unwrap_err();
    assert!(matches!(refused, WorkError::NotOwner { .. }), "{refused}");
    now.report(again.done()).await.unwrap();
}

/// Slots that a test changes.
pub(crate) struct Slots(pub(crate) Mutex<SlotSet>);

#[async_trait]
impl LeaseProvider for Slots {
    async fn slots(&self) -> SlotSet {
        self.0.lock().unwrap().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_message_stops_no_other_stream_of_its_partition_during_a_hand_over() {
    let env = TestEnv::start().await;
    let mut settings = config();
    settings.partitions = cdb_work::Partitions::new(1).unwrap();
    settings.drain = Duration::from_secs(1);
    settings.claim_timeout = Duration::from_secs(20);
    let slots = Arc::new(Slots(Mutex::new(SlotSet::ALL)));
    let first = env.open_with(settings.clone(), slots.clone()).await;
    let now = first.immediate();
    now.store(message("slow", 1)).await.unwrap();
    let slow = next(&first).await;
    *slots.0.lock().unwrap() = SlotSet::NONE;
    let second = env.open(settings).await;
    let begun = Instant::now();
    for number in 1..=20 {
        now.store(message("fast", number)).await.unwrap();
        let claimed = next(&first).await;
        assert_eq!(claimed.message().stream, "fast");
        now.report(applied(claimed)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert!(second.partitions().is_empty());
    now.report(applied(slow)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(second.partitions(), [0]);
    assert_eq!(env.applied().await.len(), 21);
}

#[tokio::test(start_paused = true)]
async fn an_inbox_worker_and_an_outbox_publisher_share_a_coordinator() {
    let env = TestEnv::start().await;
    let work = env.open(config()).await;
    let now = work.immediate();
    now.store(message("a", 1)).await.unwrap();
    now.store(NewWork::outbox("a", "1")).await.unwrap();
    for lane in [Lane::Outbox, Lane::Inbox] {
        let claimed = work.claim_from(lane, 10, Duration::from_secs(1)).await;
        let lanes: Vec<Lane> = claimed.iter().map(|one| one.message().lane).collect();
        assert_eq!(lanes, [lane]);
        claimed.into_iter().for_each(cdb_work::ClaimedWork::release);
        let batch = WorkBatch {
            claim: 10,
            lane: Some(lane),
            ..WorkBatch::default()
        };
        let claimed = work.process(batch).await.claimed;
        assert_eq!(claimed.len(), 1);
        assert_eq!(claimed[0].message().lane, lane);
        claimed.into_iter().for_each(cdb_work::ClaimedWork::release);
    }
}

#[tokio::test(start_paused = true)]
async fn an_outbox_that_no_worker_claims_does_not_stop_the_inbox() {
    let env = TestEnv::start().await;
    let mut settings = config();
    settings.most_in_memory = 5;
    let work = env.open(settings).await;
    let sender = env
        .open_with(config(), Arc::new(Slots(Mutex::new(SlotSet::NONE))))
        .await;
    for stream in 0..20 {
        let new = NewWork::outbox(stream.to_string(), "1");
        sender.immediate().store(new).await.unwrap();
    }
    let none = work
        .claim_from(Lane::Inbox, 1, Duration::from_secs(1))
        .await;
    assert!(none.is_empty());
    sender.immediate().store(message("a", 1)).await.unwrap();
    let claimed = work
        .claim_from(Lane::Inbox, 1, Duration::from_secs(5))
        .await;
    assert_eq!(claimed[0].message().stream, "a");
    let mut published = 0;
    while published < 20 {
        let claimed = work
            .claim_from(Lane::Outbox, 20, Duration::from_secs(5))
            .await;
        assert!(!claimed.is_empty(), "{published} of 20 are found later");
        published += claimed.len();
        for one in claimed {
            work.immediate().report(one.done()).await.unwrap();
        }
    }
}

#[test]
fn messages_are_read_as_older_releases_wrote_them_and_look_the_same_until_they_fail() {
    let older = r#"{"partition":"work-000","lane":"inbox","stream":"a","messageId":"1","sequence":1,
        "waitingSince":7,"dueAt":7,"status":1,"needs":8,"attempts":2,"kind":"","body":"","token":"t"}"#;
    let read: WorkMessage = serde_json::from_str(older).unwrap();
    assert_eq!((read.attempts, read.started_under), (2, None));
    assert_eq!(read.due_at, Timestamp::from_millis(7));
    let written = serde_json::to_value(&read).unwrap();
    assert_eq!(written, serde_json::from_str::<Value>(older).unwrap());
}

#[tokio::test(start_paused = true)]
async fn the_start_of_a_first_attempt_is_not_written() {
    let env = TestEnv::start().await;
    let work = env.open(config()).await;
    work.immediate().store(message("a", 1)).await.unwrap();
    let claimed = next(&work).await;
    assert_eq!(stored(&env, "a").await.started_under, None);
    work.immediate().report(claimed.failed("no")).await.unwrap();
    let again = next(&work).await;
    let fence = Some(again.fencing_token());
    assert_eq!(stored(&env, "a").await.started_under, fence);
}

/// A message as releases without attempts at hand-out and without context read it.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct OlderMessage {
    stream: String,
    attempts: u32,
    body: String,
}

#[tokio::test(start_paused = true)]
async fn older_releases_read_messages_with_a_started_attempt_and_a_context() {
    let env = TestEnv::start().await;
    let work = env.open(config()).await;
    let new = message("a", 1).with_scope("tenant", "acme");
    work.immediate().store(new).await.unwrap();
    drop(next(&work).await);
    let _started = next(&work).await;
    let stored = serde_json::to_string(&stored(&env, "a").await).unwrap();
    assert!(
        stored.contains("startedUnder") && stored.contains("acme"),
        "{stored}"
    );
    let older: OlderMessage = serde_json::from_str(&stored).unwrap();
    assert_eq!((&*older.stream, older.attempts), ("a", 1));
    assert!(!older.body.is_empty());
}
