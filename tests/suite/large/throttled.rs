//! Large turns on a container that is throttled for minutes. Time is simulated.

use tokio::time::{sleep, timeout};

use super::*;

/// The default lock of a runtime.
const SHORT: Duration = Duration::from_secs(5);

/// The age at which a provider removes chunks without a commit, shorter than the commit below.
const SWEPT_AFTER: Duration = Duration::from_secs(240);

/// Creates that succeed before the container is throttled: the spill and two chunks.
const WRITTEN: u32 = 3;
/// The chunks of the turn that are written later.
const LEFT: u64 = 4;

fn throttled() -> Fault {
    let effect = Effect::throttled(Duration::from_secs(1));
    Fault::always(effect).on(OperationKind::Create)
}

/// Commits a large turn in one call, while `recover` decides what the container accepts. Meanwhile
/// another process finds no work.
async fn commits(
    backend: &Backend,
    provider: &CosmosDBProvider,
    recover: impl AsyncFnOnce(&cdb_emulator::Emulator),
) {
    let emulator = backend.emulator().expect("not on an account");
    let other = backend.provider().await;
    enqueue(provider, start("large", String::new())).await;
    let (_, token, _) = next_turn(provider, SHORT).await;
    emulator.inject(throttled().after(WRITTEN));
    let left = spilled("large");
    let expected = left.events.clone();
    let commit = provider.ack_orchestration_item(
        &token,
        1,
        left.events,
        left.activities,
        left.messages,
        left.metadata,
        vec![],
    );
    let rival = async {
        loop {
            let found = other.fetch_orchestration_item(SHORT, SHORT, None).await;
            let is_taken = found.is_ok_and(|found| found.is_some());
            assert!(!is_taken, "another runtime took the instance");
        }
    };
    let commit = async { tokio::join!(commit, recover(emulator)).0 };
    let committed = tokio::select! {
        biased;
        committed = commit => committed,
        () = rival => unreachable!("it never ends"),
    };
    committed.expect("the commit outlasts the throttling");
    assert!(other.read("large").await.expect("a history") == expected);
}

#[tokio::test(start_paused = true)]
async fn a_large_turn_commits_in_one_call_after_its_chunks_were_throttled() {
    let backend = Backend::start_simulated().await;
    if backend.emulator().is_none() {
        return backend.stop().await;
    }
    let provider = backend.provider().await;
    commits(&backend, &provider, async |emulator| {
        sleep(Duration::from_secs(100)).await;
        emulator.clear_faults();
        emulator.reset_requests();
    })
    .await;
    let counts = backend
        .emulator()
        .map(|emulator| emulator.requests().counts);
    let creates = counts.and_then(|counts| counts.get(&OperationKind::Create).copied());
    assert_eq!(creates, Some(LEFT), "written chunks are written again");
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn chunks_of_a_commit_that_makes_progress_are_not_swept() {
    let backend = Backend::start_simulated_with(|config| config.orphan_age = SWEPT_AFTER).await;
    if backend.emulator().is_none() {
        return backend.stop().await;
    }
    let provider = backend.provider().await;
    commits(&backend, &provider, async |emulator| {
        for _ in 0..LEFT {
            sleep(SWEPT_AFTER / 4 + Duration::from_secs(1)).await;
            emulator.clear_faults();
            emulator.inject(throttled().after(1));
        }
        emulator.clear_faults();
    })
    .await;
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_large_result_is_stored_in_one_call_after_its_chunks_were_throttled() {
    let backend = Backend::start_simulated().await;
    let Some(emulator) = backend.emulator() else {
        return backend.stop().await;
    };
    let provider = backend.provider().await;
    let item = activity("large", 1, String::new());
    provider.enqueue_for_worker(item).await.expect("stored");
    // The default lock of an activity is 30 s, and the runtime renews it.
    let lock = Duration::from_secs(30);
    let (_, token, _) = next_activity(&provider, lock, None).await;
    emulator.inject(throttled().after(WRITTEN));
    let completion = work_items::completion_of("large", 1, text(5_000_000));
    let renew = async {
        loop {
            sleep(lock / 3).await;
            ok!(provider.renew_work_item_lock(&token, lock));
        }
    };
    let recover = async {
        sleep(Duration::from_secs(100)).await;
        emulator.clear_faults();
    };
    let ack = provider.ack_work_item(&token, Some(completion));
    let ended = async { tokio::join!(ack, recover).0 };
    let ended = tokio::select! {
        biased;
        ended = ended => ended,
        () = renew => unreachable!("it never ends"),
    };
    ended.expect("the end outlasts the throttling");
    let wait = Duration::from_secs(1);
    timeout(wait, eventually(async || litter(&provider).await.1 == 0))
        .await
        .expect("its spill is deleted");
    backend.stop().await;
}
