//! Retention: instances that ended long enough ago are deleted with all their documents, and
//! nothing else is.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_provider::CosmosDBProvider;
use cdb_provider::documents::Durable;
use cdb_provider::model::Query;
use cdb_tests::{Backend, instance_id};
use duroxide::runtime::Runtime;
use duroxide::{Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};

use crate::harness::{end_of, eventually, long_locks, no_activities};

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("End", |_: OrchestrationContext, input: String| async move {
            Ok(input)
        })
        .register(
            "Parent",
            |ctx: OrchestrationContext, id: String| async move {
                let child = format!("{id}-child");
                ctx.schedule_sub_orchestration_with_id("End", child, "x")
                    .await
            },
        )
        .register("Wait", |ctx: OrchestrationContext, _: String| async move {
            Ok(ctx.schedule_wait("Never").await)
        })
        .build()
}

/// Runs instances to their end.
async fn run(provider: &CosmosDBProvider, orchestration: &str, ids: &[String]) {
    let store = Arc::new(provider.clone());
    let runtime = Runtime::start_with_options(
        store.clone(),
        no_activities(),
        orchestrations(),
        long_locks(),
    )
    .await;
    let client = Client::new(store);
    for id in ids {
        let started = client.start_orchestration(id, orchestration, &**id).await;
        started.expect("it starts");
    }
    for id in ids {
        let ended = end_of(&client, id).await;
        assert!(
            matches!(ended, OrchestrationStatus::Completed { .. }),
            "{ended:?}"
        );
    }
    runtime.shutdown(None).await;
}

/// Returns the instances that have documents.
async fn partitions(provider: &CosmosDBProvider) -> BTreeSet<String> {
    let query = Query::<Durable>::across_partitions();
    let rows = provider.container().query(query).all().await.expect("rows");
    let ids = rows.iter().filter_map(|row| instance_id(&row.document));
    // The container's own documents stay.
    let ids = ids.filter(|id| !id.starts_with("cdb:"));
    ids.map(str::to_owned).collect()
}

#[tokio::test]
async fn a_purge_deletes_ended_instances_with_descendants_and_keeps_waiting_ones() {
    let backend = Backend::start().await;
    let provider = backend.provider().await;
    run(&provider, "Parent", &["a".to_owned(), "b".to_owned()]).await;
    let client = Client::new(Arc::new(provider.clone()));
    client
        .start_orchestration("waits", "Wait", "")
        .await
        .expect("it starts");
    let mut purge = provider.purge_ended(Duration::from_secs(24 * 3600));
    assert_eq!(purge.remaining().await.expect("a count"), 0);
    assert!(purge.next_slice().await.expect("nothing").is_none());
    tokio::time::sleep(Duration::from_millis(20)).await;
    let mut purge = provider.purge_ended(Duration::ZERO);
    assert_eq!(purge.remaining().await.expect("a count"), 2);
    let slice = purge
        .next_slice()
        .await
        .expect("a slice")
        .expect("something to do");
    assert_eq!(slice.instances_deleted, 4);
    assert!(purge.next_slice().await.expect("an end").is_none());
    assert_eq!(purge.remaining().await.expect("a count"), 0);
    let left = partitions(&provider).await;
    assert_eq!(left, BTreeSet::from(["waits".to_owned()]));
}

#[tokio::test]
async fn an_interrupted_purge_is_finished_by_the_next_call() {
    let backend = Backend::start().await;
    let Some(emulator) = backend.emulator() else {
        eprintln!("skipped: faults need the emulator");
        return;
    };
    let provider = backend.provider().await;
    let ids: Vec<String> = (0..30).map(|n| format!("i{n}")).collect();
    run(&provider, "Parent", &ids).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    // The store refuses some deletions permanently, and loses the answer to others.
    let refused = Effect::Status {
        status: 403,
        substatus: 1028,
        retry_after_ms: None,
    };
    let refused = Fault::with_probability(refused, 0.3);
    emulator.inject(refused.on(OperationKind::Batch));
    let mut purge = provider.purge_ended(Duration::ZERO);
    assert!(purge.next_slice().await.is_err());
    emulator.clear_faults();
    let lost = Fault::with_probability(Effect::DropAnswer, 0.2);
    emulator.inject(lost.on(OperationKind::Batch));
    while purge.next_slice().await.expect("it goes on").is_some() {}
    assert_eq!(purge.purged().instances_deleted, 60);
    assert!(partitions(&provider).await.is_empty());
}

#[tokio::test]
async fn retention_in_the_configuration_purges_ended_instances() {
    let backend =
        Backend::start_with(|config| config.retention = Some(Duration::from_secs(1))).await;
    let provider = backend.provider().await;
    run(&provider, "End", &["short".to_owned()]).await;
    eventually(async || partitions(&provider).await.is_empty()).await;
}
