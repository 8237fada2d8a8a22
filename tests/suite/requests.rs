//! What things cost in requests: upper bounds, counted by the emulator, so that a change that costs more is seen.

use std::time::Duration;

use cdb_emulator::OperationKind;
use cdb_tests::Backend;
use duroxide::providers::{ExecutionMetadata, Provider, TagFilter, WorkItem};

const LOCK: Duration = Duration::from_secs(30);

fn start(instance: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: "Hello".to_owned(),
        input: String::new(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

fn activity(instance: &str, id: u64) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: instance.to_owned(),
        execution_id: 1,
        id,
        name: "Greet".to_owned(),
        input: String::new(),
        session_id: None,
        tag: None,
    }
}

/// Requests since the last call, by kind; the reconciler's searches are not the caller's.
fn spent(backend: &Backend) -> Option<Vec<(OperationKind, u64)>> {
    let emulator = backend.emulator()?;
    let counts = emulator.requests().counts;
    emulator.reset_requests();
    Some(counts.into_iter().collect())
}

#[tokio::test]
async fn a_turn_and_an_activity_take_seven_requests() {
    let backend = Backend::start_with(|config| config.reconciler_interval = LOCK).await;
    let provider = backend.provider().await;
    if spent(&backend).is_none() {
        println!("skipped: only the emulator counts");
        return;
    }
    provider
        .enqueue_for_orchestrator(start("hello"), None)
        .await
        .expect("start");
    assert_eq!(spent(&backend), Some(vec![(OperationKind::Create, 1)]));

    // Known from the start: no poll. Load, then lock.
    let (_, token, _) = provider
        .fetch_orchestration_item(LOCK, LOCK, None)
        .await
        .expect("fetch")
        .expect("a turn");
    assert_eq!(
        spent(&backend),
        Some(vec![(OperationKind::Create, 1), (OperationKind::Query, 1)])
    );
    let activities = (1..=20).map(|id| activity("hello", id)).collect();
    provider
        .ack_orchestration_item(
            &token,
            1,
            vec![],
            activities,
            vec![],
            ExecutionMetadata::default(),
            vec![],
        )
        .await
        .expect("ack");
    assert_eq!(spent(&backend), Some(vec![(OperationKind::Batch, 1)]));

    // Known from the commit: lock and end, one request each.
    for _ in 0..20 {
        let (_, token, _) = provider
            .fetch_work_item(LOCK, LOCK, None, &TagFilter::default())
            .await
            .expect("fetch")
            .expect("an activity");
        provider.ack_work_item(&token, None).await.expect("ack");
        assert_eq!(spent(&backend), Some(vec![(OperationKind::Batch, 2)]));
    }
    backend.stop().await;
}

#[tokio::test]
async fn waiting_for_nothing_slows_down_to_one_request_a_second() {
    let backend = Backend::start_with(|config| config.reconciler_interval = LOCK).await;
    let provider = backend.provider().await;
    let patience = Duration::from_secs(1);
    // The first second still polls faster and faster slower.
    provider
        .fetch_orchestration_item(LOCK, patience, None)
        .await
        .expect("fetch");
    if spent(&backend).is_none() {
        println!("skipped: only the emulator counts");
        return;
    }
    let patience = Duration::from_secs(3);
    provider
        .fetch_orchestration_item(LOCK, patience, None)
        .await
        .expect("fetch");
    let polls: u64 = spent(&backend)
        .into_iter()
        .flatten()
        .map(|(_, count)| count)
        .sum();
    assert!(polls <= 4, "{polls} requests in three idle seconds");
    backend.stop().await;
}
