//! Streams: messages are handled one after the other, each once, also with failures.

use std::time::Duration;

use cdb_model::{Container, Document as _, Query, Timestamp};
use cdb_work::{
    Exhausted, FlushStrategy, NewWork, Settlement, Work, WorkBatch, WorkError, WorkHandlers,
    WorkPartition, WorkStatus,
};

use crate::test_env::{Applied, TestEnv, applied, config, message, next, nothing};

#[tokio::test(start_paused = true)]
async fn one_call_stores_completes_and_claims() {
    let env = TestEnv::start().await;
    let work = env.open(config()).await;
    let mut batch = WorkBatch {
        claim: 10,
        ..WorkBatch::default()
    };
    batch
        .entries
        .extend((1..=3).map(|n| message("a", n).into()));
    batch.entries.push(message("b", 1).into());
    let done = work.process(batch).await;
    let stored: Vec<_> = done.settled.into_iter().map(Result::unwrap).collect();
    let at = |sequence| Settlement::Stored { sequence };
    assert_eq!(stored, [at(1), at(2), at(3), at(1)]);
    assert_eq!(done.claimed.len(), 2, "the first of each stream");
    let mut batch = WorkBatch {
        claim: 10,
        ..WorkBatch::default()
    };
    batch.entries.extend(
        done.claimed
            .into_iter()
            .map(|claimed| applied(claimed).into()),
    );
    let done = work.process(batch).await;
    assert!(
        done.settled
            .iter()
            .all(|settled| matches!(settled, Ok(Settlement::Done)))
    );
    assert_eq!(done.claimed.len(), 1);
    assert_eq!(done.claimed[0].message().message_id, "2");
    assert_eq!(env.applied().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stored_message_is_claimed_at_once_only_as_the_next_one_of_its_stream() {
    let env = TestEnv::start().await;
    let work = env.open(config()).await;
    let now = work.immediate();
    now.store(message("older", 1)).await.unwrap();
    let claim = async |new| work.store_and_claim(new).await.unwrap().1;
    let first = claim(message("a", 1)).await.expect("nothing is before it");
    assert_eq!(first.message().stream, "a");
    assert!(claim(message("a", 1)).await.is_none(), "a duplicate");
    assert!(claim(message("a", 2)).await.is_none(), "a/1 is claimed");
    assert!(claim(message("older", 2)).await.is_none(), "older/1 waits");
    let later = env.shop.now() + Duration::from_secs(60);
    let later = message("later", 1).not_before(later);
    assert!(claim(later).await.is_none(), "it is not due");
    now.report(applied(first)).await.unwrap();
    let waiting = work.claim(10, Duration::from_secs(5)).await;
    assert_eq!(waiting.len(), 2, "the next ones of both streams");
    for claimed in waiting {
        now.report(applied(claimed)).await.unwrap();
    }
    let third = claim(message("a", 3)).await.expect("a/2 is completed");
    now.report(applied(third)).await.unwrap();
    let order = env.applied().await;
    let of_a = order.iter().filter(|applied| applied.stream == "a");
    let of_a: Vec<_> = of_a.map(|applied| &*applied.message_id).collect();
    assert_eq!(of_a, ["1", "2", "3"]);
}

#[tokio::test(start_paused = true)]
async fn a_message_of_a_partition_held_elsewhere_is_stored_and_not_claimed() {
    let env = TestEnv::start().await;
    let holder = env.open(config()).await;
    let other = env.open_share(config(), 7, 8).await;
    let (stored, claimed) = other.store_and_claim(message("a", 1)).await.unwrap();
    assert_eq!(stored, Settlement::Stored { sequence: 1 });
    assert!(claimed.is_none(), "{claimed:?}");
    assert_eq!(next(&holder).await.message().stream, "a");
}

#[tokio::test(start_paused = true)]
async fn a_started_member_handles_messages_and_leaves_nothing_held() {
    let env = TestEnv::start().await;
    let (client, database) = env.client();
    let (told, mut completed) = tokio::sync::mpsc::unbounded_channel();
    let handlers = WorkHandlers::new()
        .otherwise(async |work| Ok(work.done()))
        .on_completion(move |message| drop(told.send(message.message_id.clone())));
    let work = Work::start(&client, database, "started", handlers);
    let work = work.await.unwrap();
    let now = work.coordinator().immediate();
    now.store(message("a", 1)).await.unwrap();
    assert_eq!(completed.recv().await.as_deref(), Some("1"));
    let container = client.database(database).container::<Work>("started");
    work.stop().await.unwrap();
    let held = Query::<WorkPartition>::across_partitions();
    let held = container.query(held).all().await.unwrap();
    assert!(
        held.iter().all(|partition| partition.owner.is_none()),
        "{held:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_is_dropped_also_after_the_completion_of_the_message() {
    let env = TestEnv::start().await;
    let work = env.open(config()).await;
    let now = work.immediate();
    let sequence = |n| Settlement::Stored { sequence: n };
    assert_eq!(now.store(message("a", 1)).await.unwrap(), sequence(1));
    assert_eq!(
        now.store(message("a", 1)).await.unwrap(),
        Settlement::Duplicate
    );
    now.report(next(&work).await.done()).await.unwrap();
    let other = env.open_share(config(), 7, 8).await;
    let from_elsewhere = other.immediate();
    assert_eq!(
        from_elsewhere.store(message("a", 1)).await.unwrap(),
        Settlement::Duplicate
    );
    assert_eq!(
        from_elsewhere.store(message("a", 2)).await.unwrap(),
        sequence(2)
    );
    // The same id in another stream is another message.
    assert_eq!(now.store(message("b", 1)).await.unwrap(), sequence(1));
    let both = [next(&work).await, next(&work).await];
    assert!(
        both.iter()
            .any(|claimed| claimed.message().message_id == "2")
    );
    nothing(&work).await;
}

#[tokio::test(start_paused = true)]
async fn duplicates_among_new_messages_leave_no_gap() {
    let env = TestEnv::start().await;
    let work = env.open(config()).await;
    let mut batch = WorkBatch::default();
    for number in [1, 2, 2, 1, 3] {
        batch.entries.push(message("a", number).into());
    }
    let settled = work.process(batch).await.settled;
    let kinds: Vec<Option<u64>> = settled
        .into_iter()
        .map(|settled| match settled.unwrap() {
            Settlement::Stored { sequence } => Some(sequence),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, [Some(1), Some(2), None, None, Some(3)]);
    for expected in ["1", "2", "3"] {
        let claimed = next(&work).await;
        assert_eq!(claimed.message().message_id, expected);
        work.immediate().report(claimed.done()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_message_continues_with_its_remaining_stages() {
    const INVOICED: WorkStatus = WorkStatus::user::<0>();
    let env = TestEnv::start().await;
    let work = env.open(config()).await;
    let now = work.immediate();
    let needs = WorkStatus::PUBLISHED | WorkStatus::PROJECTION_DONE | INVOICED;
    ok!(now.store(NewWork::outbox("a", "1").needing(needs)));
    now.store(NewWork::outbox("a", "2")).await.unwrap();
    let claimed = next(&work).await;
    assert_eq!(claimed.left(), needs);
    let passed = now
        .report(claimed.reached(WorkStatus::PUBLISHED | INVOICED))
        .await;
    assert_eq!(passed.unwrap(), Settlement::Progressed);
    let failed = ok!(now.report(claimed.failed("the view does not exist")));
    assert!(matches!(failed, Settlement::Retrying { .. }), "{failed:?}");
    drop((work, now));
    // Another coordinator takes over after the lease of the first, which was not shut down.
    let work = env.open(config()).await;
    let claimed = next(&work).await;
    assert_eq!(claimed.message().message_id, "1", "the second waits");
    assert_eq!(claimed.left(), WorkStatus::PROJECTION_DONE);
    assert_eq!(claimed.message().attempts, 1);
    assert_eq!(
        claimed.message().last_failure.as_deref(),
        Some("the view does not exist")
    );
    let now = work.immediate();
    ok!(now.report(claimed.reached(WorkStatus::PROJECTION_DONE)));
    assert_eq!(next(&work).await.message().message_id, "2");
}

#[tokio::test(start_paused = true)]
async fn decided_messages_do_not_hide_those_that_are_set_aside() {
    let env = TestEnv::start().await;
    let mut settings = config();
    settings.retry.max_attempts = 1;
    let work = env.open(settings).await;
    let now = work.immediate();
    for stream in ["a", "b"] {
        now.store(message(stream, 1)).await.unwrap();
        let failed = now.report(next(&work).await.failed("no")).await.unwrap();
        assert_eq!(failed, Settlement::Dead);
    }
    let first = work.dead_letters(1).await.unwrap();
    work.discard(&first[0]).await.unwrap();
    let second = work.dead_letters(1).await.unwrap();
    assert_eq!(second.len(), 1);
    assert_ne!(second[0].stream, first[0].stream);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_fails_too_often_holds_its_stream_until_an_operator_decides() {
    let env = TestEnv::start().await;
    let mut settings = config();
    settings.retry.max_attempts = 2;
    let work = env.open(settings).await;
    let now = work.immediate();
    for n in 1..=3 {
        now.store(message("a", n)).await.unwrap();
    }
    let fail = async || {
        let claimed = next(&work).await;
        assert_eq!(claimed.message().message_id, "1");
        now.report(claimed.failed("no")).await.unwrap()
    };
    fail().await;
    assert_eq!(fail().await, Settlement::Dead);
    nothing(&work).await;
    let aside = work.dead_letters(10).await.unwrap();
    assert_eq!(aside.len(), 1);
    assert_eq!(aside[0].last_failure.as_deref(), Some("no"));
    let find = async || work.admin().dead_letter(&aside[0].key()).await.unwrap();
    assert_eq!(find().await.unwrap().dead_since, aside[0].dead_since);
    work.redrive(&aside[0]).await.unwrap();
    assert!(find().await.is_none());
    let again = work.redrive(&aside[0]).await.unwrap_err();
    assert!(matches!(again, WorkError::NotDead { .. }), "{again}");
    fail().await;
    fail().await;
    let aside = work.dead_letters(10).await.unwrap();
    work.discard(&aside[0]).await.unwrap();
    assert!(work.dead_letters(10).await.unwrap().is_empty());
    for expected in ["2", "3"] {
        let claimed = next(&work).await;
        assert_eq!(claimed.message().message_id, expected);
        now.report(claimed.done()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_may_be_skipped_instead() {
    let env = TestEnv::start().await;
    let mut settings = config();
    settings.retry.max_attempts = 1;
    settings.exhausted = Exhausted::SkipMessage;
    let work = env.open(settings).await;
    let now = work.immediate();
    now.store(message("a", 1)).await.unwrap();
    now.store(message("a", 2)).await.unwrap();
    now.report(next(&work).await.failed("no")).await.unwrap();
    assert_eq!(next(&work).await.message().message_id, "2");
}

#[tokio::test(start_paused = true)]
async fn a_refused_effect_refuses_its_report_and_the_later_ones() {
    let env = TestEnv::start().await;
    let work = env.open(config()).await;
    let scope = work.scoped();
    for n in 1..=2 {
        scope.store(message("a", n)).await;
    }
    scope.flush().await.unwrap();
    let first = next(&work).await;
    let mut effects = first.effects::<crate::test_env::Shop>();
    let twice = Applied {
        partition: first.message().partition.clone(),
        unique: "one".to_owned(),
        stream: String::new(),
        message_id: String::new(),
    };
    effects.add(twice.create()).unwrap();
    effects.add(twice.create()).unwrap();
    let first = scope
        .report(first.done().with_effects(&effects).unwrap())
        .await;
    let second = scope.report(next(&work).await.done()).await;
    scope.commit().await.unwrap();
    let first = first.settled().await.unwrap_err();
    assert!(matches!(first, WorkError::EffectRefused { .. }), "{first}");
    assert!(first.to_string().contains("409"), "it says why: {first}");
    let second = second.settled().await.unwrap_err();
    assert!(matches!(second, WorkError::AfterFailure { .. }), "{second}");
    assert!(env.applied().await.is_empty());
    let again = next(&work).await;
    assert_eq!(again.message().message_id, "1");
    assert_eq!(again.left(), WorkStatus::RECEIVER_DONE, "nothing is stored");
}

#[tokio::test(start_paused = true)]
async fn a_message_is_claimed_again_after_its_claim_was_dropped() {
    let env = TestEnv::start().await;
    let work = env.open(config()).await;
    work.immediate().store(message("a", 1)).await.unwrap();
    drop(next(&work).await);
    let report = next(&work).await.done();
    nothing(&work).await;
    drop(report);
    next(&work).await;
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_cannot_be_stored_is_refused_alone() {
    let env = TestEnv::start().await;
    let work = env.open(config()).await;
    let mut batch = WorkBatch::default();
    batch.entries.push(message("a", 1).into());
    batch.entries.push(
        message("a", 2)
            .with_body("big", "x".repeat(3_000_000))
            .into(),
    );
    batch.entries.push(message(&"s".repeat(2000), 1).into());
    batch.entries.push(message("a", 3).into());
    let settled = work.process(batch).await.settled;
    assert!(matches!(settled[0], Ok(Settlement::Stored { sequence: 1 })));
    assert!(
        matches!(settled[1], Err(WorkError::Unfit(_))),
        "{settled:?}"
    );
    assert!(
        matches!(settled[2], Err(WorkError::Unfit(_))),
        "{settled:?}"
    );
    assert!(matches!(settled[3], Ok(Settlement::Stored { sequence: 2 })));
}

#[tokio::test(start_paused = true)]
async fn a_message_is_not_claimed_before_its_time_and_its_stream_waits() {
    let env = TestEnv::start().await;
    let work = env.open(config()).await;
    let now = work.immediate();
    let later = env.shop.now() + Duration::from_millis(400);
    now.store(message("a", 1).not_before(later)).await.unwrap();
    now.store(message("a", 2)).await.unwrap();
    nothing(&work).await;
    let claimed = next(&work).await;
    assert_eq!(claimed.message().message_id, "1");
    assert!(env.shop.now() >= later);
}

#[tokio::test(start_paused = true)]
async fn idle_streams_are_deleted_and_can_start_again() {
    let env = TestEnv::start().await;
    let mut settings = config();
    settings.remember = Duration::ZERO;
    let work = env.open(settings).await;
    let now = work.immediate();
    now.store(message("a", 1)).await.unwrap();
    now.report(next(&work).await.done()).await.unwrap();
    now.store(message("b", 1)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(work.forget_streams(Duration::ZERO).await.unwrap(), 1);
    let streams = env.shop.view::<Work>();
    let left = streams.query(Query::<cdb_work::WorkStream>::across_partitions().count());
    assert_eq!(left.first().await.unwrap(), Some(1));
    let stored = now.store(message("a", 2)).await.unwrap();
    assert_eq!(stored, Settlement::Stored { sequence: 1 });
    let both = [next(&work).await, next(&work).await];
    assert!(both.iter().any(|one| one.message().stream == "a"));
}

#[tokio::test(start_paused = true)]
async fn an_idle_stream_is_found_behind_many_that_wait() {
    let env = TestEnv::start().await;
    let mut settings = crate::test_env::one_partition();
    settings.remember = Duration::ZERO;
    let work = env.open(settings).await;
    let scope = work.scoped();
    for stream in 0..120 {
        scope.store(message(&stream.to_string(), 1)).await;
    }
    scope.commit().await.unwrap();
    let now = work.immediate();
    now.store(message("idle", 1)).await.unwrap();
    let mut claimed = work.claim(200, Duration::MAX).await;
    assert_eq!(claimed.len(), 121);
    let idle = claimed
        .iter()
        .position(|one| one.message().stream == "idle");
    ok!(now.report(claimed.swap_remove(idle.unwrap()).done()));
    tokio::time::sleep(Duration::from_millis(20)).await;
    let forgotten = work.forget_streams(Duration::ZERO).await;
    assert_eq!(forgotten.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_deletes_idle_streams_by_itself() {
    let env = TestEnv::start().await;
    let mut settings = config();
    settings.remember = Duration::ZERO;
    settings.forget = Duration::from_millis(50);
    let work = env.open(settings).await;
    let now = work.immediate();
    now.store(message("open", 1)).await.unwrap();
    let open = next(&work).await;
    for stream in 0..120 {
        now.store(message(&stream.to_string(), 1)).await.unwrap();
        now.report(next(&work).await.done()).await.unwrap();
    }
    let streams = env.shop.view::<Work>();
    let mut left = Vec::new();
    for _ in 0..300 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let query = Query::<cdb_work::WorkStream>::across_partitions();
        left = streams.query(query).all().await.unwrap();
        if left.len() == 1 {
            break;
        }
    }
    let names: Vec<&str> = left.iter().map(|row| &*row.document.stream).collect();
    assert_eq!(names, ["open"]);
    now.report(open.done()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_query_of_the_coordinator_scans() {
    use cdb_model::query::Explain as _;
    use cdb_work::{Work, WorkMessage, WorkStream};
    let definition = Work::definition();
    let policy = definition.indexing_policy();
    let names = ["work-000", "work-001"];
    let waiting = Query::<WorkMessage>::across_partitions()
        .filter(WorkMessage::WAITING_SINCE.ge(Timestamp::default()))
        .filter(WorkMessage::PARTITION.is_in(names))
        .order_by(WorkMessage::BY_WAITING);
    let streams = Query::<WorkStream>::across_partitions()
        .filter(WorkStream::PARTITION.is_in(names))
        .filter(WorkStream::STREAM.is_in(["a"]));
    let duplicates =
        Query::<WorkMessage>::in_partition("work-000").filter(WorkMessage::MESSAGE_ID.is_in(["1"]));
    for explained in [
        waiting.explain(policy),
        streams.explain(policy),
        duplicates.explain(policy),
    ] {
        assert!(
            explained.is_served() && explained.leftover.is_empty(),
            "{explained}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn delayed_messages_cost_nothing_until_they_are_due() {
    let env = TestEnv::start().await;
    let emulator = or_skip!(env.emulator(), "needs the emulator");
    let settings = config();
    let sender = env.open_share(settings.clone(), 255, 256).await;
    let (body, due_at) = ("x".repeat(1000), env.shop.now() + Duration::from_secs(60));
    let scope = sender.scoped();
    for stream in 0..200 {
        let delayed = NewWork::inbox(stream.to_string(), "1").with_body("count", &body);
        scope.store(delayed.not_before(due_at)).await;
    }
    scope.commit().await.unwrap();
    let work = env.open(settings).await;
    emulator.reset_requests();
    assert!(work.claim(200, Duration::from_secs(30)).await.is_empty());
    let read = emulator.requests().bytes_out;
    assert!(
        read < 200_000,
        "{read} bytes were read before the messages are due"
    );
    let mut claimed = work.claim(200, Duration::from_secs(60)).await;
    assert!(env.shop.now() >= due_at);
    claimed.extend(work.claim(200, Duration::from_secs(1)).await);
    assert_eq!(claimed.len(), 200);
}
