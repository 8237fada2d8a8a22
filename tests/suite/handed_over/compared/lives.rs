//! Attempts, delays, earlier lives, cancellations, held instances and the ends of locks.

use super::*;

async fn attempts_of_a_start(policy: HandOver, delay: Option<Duration>) -> Option<Vec<u32>> {
    let (stage, _network) = networked(policy, 0).await?;
    let turn = stage.dispatcher().await;
    let start = stage.start("new");
    let mut attempts = Vec::new();
    let (_, mut token, attempt) = turn.await.expect("a turn");
    attempts.push(attempt);
    for _ in 0..3 {
        stage.abandon(&token, delay, false).await;
        let (_, again, attempt) = next_turn(&stage.provider, LOCK).await;
        attempts.push(attempt);
        token = again;
    }
    start.await.expect("no panic").expect("it is stored");
    stage.backend.stop().await;
    Some(attempts)
}

#[tokio::test(start_paused = true)]
async fn abandoned_first_turns_are_counted() {
    let mut differ = Vec::new();
    for delay in [None, Some(ms(30))] {
        let (never, handed) =
            or_skip!(compared(async |policy| attempts_of_a_start(policy, delay).await).await);
        if never != handed {
            differ.push((delay, never, handed));
        }
    }
    assert!(differ.is_empty(), "{differ:?}");
}

#[tokio::test(start_paused = true)]
async fn a_delayed_start_is_delayed() {
    let (stage, _network) = or_skip!(networked(HandOver::default(), 0).await);
    let turn = stage.dispatcher().await;
    let begun = Instant::now();
    let start = stage
        .provider
        .enqueue_for_orchestrator(start_of("new", "Wait"), Some(SECOND * 3));
    start.await.expect("it is stored");
    let (item, token, _) = turn.await.expect("a turn");
    assert!(begun.elapsed() >= SECOND * 3, "{:?}", begun.elapsed());
    ack(&stage.provider, &item, &token).await;
    stage.backend.stop().await;
}

/// The activity of an instance that was deleted and started again ends. A turn of the new one has an event.
async fn beside_an_earlier_life(policy: HandOver) -> Option<(bool, bool)> {
    let (stage, _network) = networked(policy, 1).await?;
    let old = stage.activity().await;
    let client = Client::new(Arc::new(stage.other.clone()));
    ok!(client.delete_instance(INSTANCE, true));
    let turn = stage.dispatcher().await;
    let start = stage.start(INSTANCE);
    let mut turn = turn.await.expect("a turn");
    loop {
        let work = vec![activity_of(INSTANCE, 2, None)];
        match stage.begin(&turn.1, INSTANCE, "new", work).await {
            Ok(()) => break,
            Err(error) => println!("first turn: {error:?}"),
        }
        turn = next_turn(&stage.provider, LOCK).await;
    }
    start.await.expect("no panic").expect("it has started");
    let turn = stage.dispatcher().await;
    let late = stage.acknowledge(old);
    sleep(ms(2)).await;
    if !turn.is_finished() {
        enqueue(&stage.provider, event(INSTANCE)).await;
    }
    let turn = turn.await.expect("a turn");
    let mut messages = turn.0.messages.iter();
    let has_old = messages.any(|it| matches!(it, WorkItem::ActivityCompleted { .. }));
    let committed = stage.commit(&turn, None).await;
    let _late = late.await.expect("no panic");
    stage.backend.stop().await;
    Some((has_old, committed.is_ok()))
}

#[tokio::test(start_paused = true)]
async fn an_activity_of_an_earlier_life_costs_no_turn() {
    let (never, handed) = or_skip!(compared(beside_an_earlier_life).await);
    assert_eq!(never, handed);
}

/// Ids that are started several times at once, by two processes.
#[tokio::test(start_paused = true)]
#[expect(clippy::excessive_nesting, reason = "tasks of one run")]
async fn starts_of_the_same_ids() {
    for policy in [HandOver::Never, HandOver::default()] {
        let backend = or_skip!(Backend::start_in_simulated_time(|_| {}).await);
        let tally = Shared::default();
        let size = Size::new(4, 2, 1, 3);
        let sites = [
            site(&backend, &policy, &size, &tally).await,
            site(&backend, &policy, &size, &tally).await,
        ];
        sleep(SECOND * 3).await;
        let mut starts = Vec::new();
        let names: Vec<_> = (0..40).map(|it| format!("plain-2-2-{it}")).collect();
        for (number, name) in names.iter().enumerate() {
            for copy in 0..3_usize {
                let provider = sites[copy % 2].provider.clone();
                let name = name.clone();
                let after = ms(((number * 7 + copy * 3) % 11) as u64);
                starts.push(tokio::spawn(async move {
                    sleep(after).await;
                    provider
                        .enqueue_for_orchestrator(start_of(&name, "Wait"), None)
                        .await
                }));
            }
        }
        for start in starts {
            start.await.expect("no panic").expect("it starts");
        }
        assert!(all_ended(&tally, &names, SECOND * 100).await, "{policy:?}");
        sleep(SECOND * 40).await;
        {
            let tally = tally.lock().expect("no panic");
            for (name, completed) in &tally.completed {
                assert_eq!(*completed, 4, "{policy:?} {name}");
            }
            assert!(tally.repeated.is_empty());
        }
        for site in &sites {
            site.tasks.iter().for_each(JoinHandle::abort);
        }
        backend.stop().await;
    }
}

/// Two turns cancel an activity each; the first one ends while its deletion is on its way.
async fn two_cancellations(policy: HandOver, at: u64) -> Option<(usize, bool)> {
    let (stage, network) = networked(policy, 3).await?;
    let (first, second) = (stage.activity().await, stage.activity().await);
    let third = stage.activity().await;
    let cancelled = (first.0, second.0);
    enqueue(&stage.other, event(INSTANCE)).await;
    let turn = next_turn(&stage.provider, LOCK).await;
    enqueue(&stage.other, event(INSTANCE)).await;
    let stage = Arc::new(stage);
    network.slow_down(ANY, SECOND);
    let begun = Instant::now();
    let commits = {
        let stage = stage.clone();
        tokio::spawn(async move { stage.commit(&turn, Some(cancelled.0)).await })
    };
    // Committed, and the deletion of the first is on its way.
    sleep(ms(1_100)).await;
    network.repair();
    let turn = next_turn(&stage.provider, LOCK).await;
    let _committed = stage.commit(&turn, Some(cancelled.1)).await;
    let next = stage.dispatcher().await;
    tokio::time::sleep_until(begun + ms(at)).await;
    let late = stage.acknowledge(first);
    let Ok(turn) = timeout(ms(300), next).await else {
        let _late = late.await.expect("no panic");
        return Some((0, true));
    };
    let turn = turn.expect("a turn");
    sleep(ms(4)).await;
    let committed = stage.commit(&turn, None).await;
    let _late = late.await.expect("no panic");
    let _first = commits.await.expect("no panic");
    drop(third);
    Some((turn.0.messages.len(), committed.is_ok()))
}

#[tokio::test(start_paused = true)]
async fn two_cancellations_cost_no_turn() {
    let mut lost = Vec::new();
    for at in (1_986..2_012).step_by(2) {
        let (never, handed) =
            or_skip!(compared(async |policy| two_cancellations(policy, at).await).await);
        if never.1 && !handed.1 {
            lost.push((at, never, handed));
        }
    }
    assert!(lost.is_empty(), "{lost:?}");
}

/// The code does not replay the history in a turn that takes a completion that is not stored.
async fn held_with_a_completion(policy: HandOver) -> Option<(bool, Duration, usize, usize)> {
    use duroxide::{ConfigErrorKind, ErrorDetails};
    let (stage, _network) = networked(policy, 1).await?;
    let activity = stage.activity().await;
    let turn = stage.dispatcher().await;
    let begun = Instant::now();
    let acknowledged = stage.acknowledge(activity);
    let (item, token, _) = turn.await.expect("a turn");
    let details = ErrorDetails::Configuration {
        kind: ConfigErrorKind::Nondeterminism,
        resource: String::new(),
        message: Some("schedule mismatch: action=A vs event=B".to_owned()),
    };
    let next = item.history.len() as u64 + 1;
    let failed = EventKind::OrchestrationFailed { details };
    let events = vec![Event::with_event_id(next, INSTANCE, 1, None, failed)];
    let metadata = ExecutionMetadata {
        status: Some("Failed".to_owned()),
        output: Some("x".to_owned()),
        ..ExecutionMetadata::default()
    };
    let held =
        stage
            .provider
            .ack_orchestration_item(&token, 1, events, vec![], vec![], metadata, vec![]);
    let held = held.await.is_ok();
    acknowledged.await.expect("no panic").expect("it is stored");
    let took = begun.elapsed();
    sleep(SECOND * 2).await;
    let left = (stage.messages().await.len(), stage.activities().await);
    // Other code continues it.
    let (item, token, _) = next_turn(&stage.other, LOCK).await;
    assert_eq!(item.messages.len(), 1);
    ok!(commit_turn(&stage.other, &item, &token));
    assert_eq!(stage.completions().await, 1);
    stage.backend.stop().await;
    Some((held, took, left.0, left.1))
}

#[tokio::test(start_paused = true)]
async fn a_held_instance_keeps_its_completion() {
    let (never, handed) = or_skip!(compared(held_with_a_completion).await);
    assert_eq!((never.0, never.2, never.3), (handed.0, handed.2, handed.3));
    assert!(handed.1 <= never.1 + ms(40));
}

/// An activity ends behind a running turn, when `left` of its lock is left. A batch takes `batch`. Returns whether the
/// acknowledgement succeeds, and the turns that are lost afterwards, with their messages.
async fn behind_a_turn(
    policy: HandOver,
    left: Duration,
    batch: Duration,
) -> Option<(bool, Vec<usize>)> {
    let (stage, network) = networked(policy, 1).await?;
    // Commits of usual length: a completion waits for three of them.
    network.slow_down(ANY, ms(7));
    for _ in 0..16 {
        enqueue(&stage.provider, event(INSTANCE)).await;
        let turn = next_turn(&stage.provider, LOCK).await;
        stage.commit(&turn, None).await.expect("it is committed");
    }
    let lock = SECOND * 2;
    let end = Instant::now() + lock;
    let activity = stage.activity_for(lock).await;
    tokio::time::sleep_until(end - left - ms(28)).await;
    enqueue(&stage.provider, event(INSTANCE)).await;
    let running = next_turn(&stage.provider, LOCK).await;
    let next = stage.dispatcher().await;
    network.slow_down(BATCH, batch);
    tokio::time::sleep_until(end - left).await;
    let acknowledged = stage.acknowledge(activity);
    let other = stage.other.clone();
    tokio::time::sleep_until(end + ms(8)).await;
    let stolen = other.fetch_work_item(LOCK, Duration::ZERO, None, &TagFilter::Any);
    let _taken = ok!(stolen);
    let answer = acknowledged.await.expect("no panic");
    network.repair();
    // An event comes, too.
    enqueue(&stage.provider, event(INSTANCE)).await;
    let _committed = stage.commit(&running, None).await;
    let mut turn = next.await.expect("a turn");
    let mut lost = Vec::new();
    loop {
        if stage.commit(&turn, None).await.is_ok() {
            break;
        }
        lost.push(turn.0.messages.len());
        turn = next_turn(&stage.provider, LOCK).await;
    }
    stage.backend.stop().await;
    Some((answer.is_ok(), lost))
}

#[tokio::test(start_paused = true)]
async fn a_completion_at_the_end_of_a_lock_is_stored_in_time() {
    let run = async |policy| behind_a_turn(policy, ms(12), ms(7)).await;
    let (never, handed) = or_skip!(compared(run).await);
    assert_eq!(never, handed);
}

/// Storing it takes so long that its lock ends.
#[tokio::test(start_paused = true)]
async fn a_refused_completion_costs_no_turn() {
    let run = async |policy| behind_a_turn(policy, ms(600), SECOND).await;
    let (never, handed) = or_skip!(compared(run).await);
    assert_eq!(never, handed);
    assert!(!never.0, "it is refused");
}

/// Another process deletes the instance and starts it again, while its activity runs here. The new one has an
/// activity of the same number.
#[tokio::test(start_paused = true)]
async fn the_result_of_an_earlier_life_is_not_received() {
    let (stage, _network) = or_skip!(networked(HandOver::default(), 1).await);
    let (old, begun) = (stage.activity().await, Instant::now());
    let other = &stage.other;
    let client = Client::new(Arc::new(other.clone()));
    // Its answer comes later: it waits for work that was handed out.
    let deleted = tokio::spawn(async move { client.delete_instance(INSTANCE, true).await });
    sleep(ms(200)).await;
    enqueue(other, start_of(INSTANCE, "Wait")).await;
    let (_, token, _) = next_turn(other, LOCK).await;
    let work = vec![activity_of(INSTANCE, 2, None)];
    ok!(begin(other, &token, INSTANCE, "", work));
    enqueue(&stage.provider, event(INSTANCE)).await;
    loop {
        let (item, token, _) = next_turn(&stage.provider, LOCK).await;
        // The first turn is one of the earlier life, which this process remembers.
        if commit_turn(&stage.provider, &item, &token).await.is_ok() {
            break;
        }
    }
    let turn = stage.dispatcher().await;
    // It is not read again.
    let took = begun.elapsed();
    assert!(took < SECOND, "{took:?}");
    let late = stage.acknowledge(old);
    if let Ok(turn) = timeout(ms(30), turn).await {
        let _lost = stage.commit(&turn.expect("a turn"), None).await;
    }
    let late = late.await.expect("no panic");
    assert!(late.is_err(), "it has not ended");
    deleted.await.expect("no panic").expect("it is deleted");
    stage.ends_with(1, 0).await;
}

/// An event with a key that the process has not yet, beside a completion.
async fn beside_a_missing_key(policy: HandOver) -> Option<(Duration, usize)> {
    use cdb_provider::payload::Encryption;
    let keys = || Encryption::new("k1", &[1; 32]).expect("a key");
    let backend = Backend::start_in_simulated_time(|config| {
        config.payload_codec = Some(Arc::new(keys()));
    })
    .await?;
    let (newer, older) = (keys(), keys());
    newer.add_key("k2", &[2; 32]).expect("a new key");
    newer.set_current("k2").expect("it was added");
    let codec = Arc::new(newer);
    let sender = backend
        .provider_with(|config| config.payload_codec = Some(codec))
        .await;
    let codec = Arc::new(older.clone());
    let provider = backend.provider_with(|config| {
        config.payload_codec = Some(codec);
        config.hand_over = policy;
    });
    let provider = provider.await;
    let stage = Stage::on(backend, provider, 1).await;
    let activity = stage.activity().await;
    let turn = stage.dispatcher().await;
    let secret = crate::work_items::event_of(INSTANCE, "Event", "a secret");
    enqueue(&sender, secret).await;
    sleep(SECOND * 3).await;
    let begun = Instant::now();
    let acknowledged = stage.acknowledge(activity);
    acknowledged.await.expect("no panic").expect("it has ended");
    let took = begun.elapsed();
    sleep(SECOND * 20).await;
    assert!(!turn.is_finished(), "the key is missing");
    older.add_key("k2", &[2; 32]).expect("a new key");
    let turn = timeout(SECOND * 120, turn)
        .await
        .expect("in time")
        .expect("a turn");
    let count = turn.0.messages.len();
    stage.commit(&turn, None).await.expect("it is committed");
    assert_eq!(stage.completions().await, 1);
    stage.backend.stop().await;
    Some((took, count))
}

#[tokio::test(start_paused = true)]
async fn a_missing_key() {
    let (never, handed) = or_skip!(compared(beside_a_missing_key).await);
    assert_eq!(never.1, handed.1);
    assert!(handed.0 <= never.0 + ms(40));
}
