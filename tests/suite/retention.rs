//! Retention: instances and executions that ended long enough ago are deleted with all their
//! documents, and nothing else is.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_provider::documents::{
    Durable, Execution, Instance, InstanceKey, NEVER, OutboxIntent, Status, dispatch_slot,
};
use cdb_provider::model::{Document, Patch, Query};
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig, InMemoryLeaseProvider};
use cdb_tests::{Backend, instance_id};
use duroxide::providers::Provider as _;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};

use crate::harness::{end_of, eventually, long_locks, no_activities};
use crate::network::{Kind, Network};

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("End", |_: OrchestrationContext, input: String| async move {
            Ok(input)
        })
        .register("Parent", async |ctx: OrchestrationContext, id: String| {
            let child = format!("{id}-child");
            ctx.schedule_sub_orchestration_with_id("End", child, "x")
                .await
        })
        .register(
            "Eternal",
            async |ctx: OrchestrationContext, cycle: String| {
                let child = format!("child-{cycle}");
                ctx.schedule_sub_orchestration_with_id("End", child, "x")
                    .await?;
                ctx.schedule_timer(Duration::from_secs(2)).await;
                let cycle: u32 = cycle.parse().map_err(|_| "no number")?;
                ctx.continue_as_new((cycle + 1).to_string()).await
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
        ok!(client.start_orchestration(id, orchestration, &**id));
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
pub(crate) async fn partitions(provider: &CosmosDBProvider) -> BTreeSet<String> {
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
    ok!(client.start_orchestration("waits", "Wait", ""));
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
    let emulator = or_skip!(backend.emulator(), "faults need the emulator");
    let provider = backend.provider().await;
    let ids: Vec<String> = (0..30).map(|n| format!("i{n}")).collect();
    run(&provider, "Parent", &ids).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    // The store refuses some deletions permanently, and loses the answer to others.
    let refused = Effect::error(403, 1028);
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

/// Counts the documents. Leaves out the traces of consumed messages, which the service deletes
/// after their time to live.
async fn documents(provider: &CosmosDBProvider) -> usize {
    let query = Query::<Durable>::across_partitions();
    let rows = provider.container().query(query).all().await.expect("rows");
    let is_trace = |document: &Durable| matches!(document, Durable::OrchestratorItem(item) if item.visible_at == NEVER);
    let kept = rows.iter().filter(|row| !is_trace(&row.document));
    kept.count()
}

#[tokio::test(start_paused = true)]
async fn an_eternal_orchestration_with_children_holds_a_bounded_number_of_documents() {
    let keep = Duration::from_secs(10);
    let backend =
        or_skip!(Backend::start_in_simulated_time(|config| config.retention = Some(keep)).await);
    let provider = backend.provider().await;
    let store = Arc::new(provider.clone());
    let runtime = Runtime::start_with_options(
        store.clone(),
        no_activities(),
        orchestrations(),
        RuntimeOptions::default(),
    )
    .await;
    let client = Client::new(store);
    ok!(client.start_orchestration("eternal", "Eternal", "0"));
    tokio::time::sleep(3 * keep).await;
    let early = documents(&provider).await;
    tokio::time::sleep(12 * keep).await;
    let late = documents(&provider).await;
    assert!(late <= early + 10, "{early} documents became {late}");
    let admin = provider.as_management_capability().expect("it has one");
    let current = admin.latest_execution_id("eternal").await.expect("an id");
    assert!(current > 50, "{current} cycles");
    let executions = admin.list_executions("eternal").await.expect("a list");
    assert!(
        executions.contains(&current) && executions.len() < 12,
        "{executions:?}"
    );
    runtime.shutdown(None).await;
}

/// Creates an instance that ended, or started, an hour ago.
pub(crate) async fn create(
    provider: &CosmosDBProvider,
    id: &str,
    parent: Option<&str>,
    status: Status,
) {
    let hour_ago = provider.container().now() - Duration::from_secs(3600);
    let instance = Instance {
        orchestration_name: "Any".to_owned(),
        parent_instance_id: parent.map(str::to_owned),
        completed_at: status.is_terminal().then_some(hour_ago),
        status,
        ..Instance::pending(id, hour_ago)
    };
    ok!(provider.container().run(instance.create()));
}

#[tokio::test]
async fn a_child_with_an_undelivered_message_from_or_to_it_is_kept_while_its_parent_runs() {
    let backend = Backend::start().await;
    let provider = backend.provider().await;
    create(&provider, "parent", None, Status::Running).await;
    for child in ["silent", "starting", "done"] {
        create(&provider, child, Some("parent"), Status::Completed).await;
    }
    let completion = OutboxIntent::new("silent", "turn-1-0".to_owned(), "parent", NEVER);
    let start = OutboxIntent::new("parent", "turn-2-0".to_owned(), "starting", NEVER);
    for intent in [&completion, &start] {
        ok!(provider.container().run(intent.create()));
    }
    let keep = Duration::from_secs(60);
    let mut purge = provider.purge_ended(keep);
    while purge.next_slice().await.expect("a slice").is_some() {}
    assert_eq!(purge.purged().instances_deleted, 1);
    let left = partitions(&provider).await;
    assert_eq!(
        left,
        ["parent", "silent", "starting"].map(str::to_owned).into()
    );
    for intent in [&completion, &start] {
        ok!(provider.container().run(intent.key().delete()));
    }
    let mut purge = provider.purge_ended(keep);
    while purge.next_slice().await.expect("a slice").is_some() {}
    assert_eq!(purge.purged().instances_deleted, 2);
    assert_eq!(partitions(&provider).await, ["parent".to_owned()].into());
}

#[tokio::test]
async fn ended_children_beyond_a_slice_are_deleted_and_needed_ones_are_passed_over() {
    let backend = Backend::start().await;
    let provider = backend.provider().await;
    create(&provider, "parent", None, Status::Running).await;
    for number in 0..250 {
        let id = format!("child-{number}");
        create(&provider, &id, Some("parent"), Status::Failed).await;
        if number < 120 {
            let intent = OutboxIntent::new("parent", format!("turn-{number}"), &id, NEVER);
            ok!(provider.container().run(intent.create()));
        }
    }
    let mut purge = provider.purge_ended(Duration::from_secs(60));
    while purge.next_slice().await.expect("a slice").is_some() {}
    assert_eq!(purge.purged().instances_deleted, 130);
}

#[tokio::test]
async fn a_child_of_an_ended_parent_is_kept_as_long_as_its_parent() {
    let backend = Backend::start().await;
    let provider = backend.provider().await;
    create(&provider, "child", Some("parent"), Status::Completed).await;
    let parent = Instance {
        orchestration_name: "Any".to_owned(),
        status: Status::Completed,
        completed_at: Some(provider.container().now()),
        ..Instance::pending("parent", provider.container().now())
    };
    ok!(provider.container().run(parent.create()));
    let mut purge = provider.purge_ended(Duration::from_secs(60));
    assert!(purge.next_slice().await.expect("nothing").is_none());
    assert_eq!(partitions(&provider).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_tree_that_continues_during_a_purge_is_kept() {
    let backend = or_skip!(Backend::start_in_simulated_time(|_| {}).await);
    let network = Network::default();
    let Some(provider) = network.provider(&backend).await else {
        return backend.stop().await;
    };
    for (root, child) in [("rewound", "goes-on"), ("ended", "gone")] {
        create(&provider, root, None, Status::Failed).await;
        create(&provider, child, Some(root), Status::Failed).await;
    }
    // The answer to the search for their children.
    network.answer_late(CHILDREN_OF_REWOUND, Duration::from_secs(10));
    let rewind = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        for id in ["goes-on", "rewound"] {
            let running = Patch::<Instance>::new().set(Instance::STATUS, Status::Running);
            let key = InstanceKey::new(id);
            ok!(provider.container().run(running.at(&key)));
        }
    };
    let mut purge = provider.purge_ended(Duration::from_secs(60));
    let (slice, ()) = tokio::join!(purge.next_slice(), rewind);
    let slice = slice.expect("a slice").expect("something to do");
    assert_eq!(slice.instances_deleted, 2);
    let left = partitions(&provider).await;
    assert_eq!(left, ["goes-on", "rewound"].map(str::to_owned).into());
    assert!(purge.next_slice().await.expect("an end").is_none());
    backend.stop().await;
}

/// Matches the search for the children of `rewound`.
pub(crate) const CHILDREN_OF_REWOUND: Kind = |request| {
    let body = request.body.as_ref();
    body.windows(7).any(|text| text == b"rewound")
};

#[tokio::test]
async fn two_runtimes_with_slots_of_their_own_share_the_work_of_retention() {
    let backend = Backend::start().await;
    let provider = backend.provider().await;
    let ids: Vec<String> = (0..20).map(|n| format!("i{n}")).collect();
    for id in &ids {
        create(&provider, id, None, Status::Completed).await;
    }
    create(&provider, "eternal", None, Status::Running).await;
    let hour_ago = provider.container().now() - Duration::from_secs(3600);
    for id in ids.iter().map(String::as_str).chain(["eternal"]) {
        let execution = Execution {
            instance_id: id.to_owned(),
            execution_id: 0,
            status: Status::ContinuedAsNew,
            output: None,
            started_at: hour_ago,
            completed_at: Some(hour_ago),
            rewound: None,
        };
        ok!(provider.container().run(execution.create()));
    }
    let config = CosmosDBProviderConfig {
        retention: Some(Duration::from_secs(1)),
        ..cdb_tests::settings()
    };
    let join = async |index| {
        let config = CosmosDBProviderConfig {
            leases: Some(Arc::new(InMemoryLeaseProvider::share(index, 2))),
            ..config.clone()
        };
        let joined = CosmosDBProvider::on(provider.container().clone(), &config).await;
        joined.expect("it opens")
    };
    let is_of = |index: u8, id: &str| dispatch_slot(id) % 2 == index;
    let of_second: BTreeSet<String> = ids.iter().filter(|id| is_of(1, id)).cloned().collect();
    assert!((1..20).contains(&of_second.len()));
    let _first = join(0).await;
    let eternal = || BTreeSet::from(["eternal".to_owned()]);
    let expected = &of_second | &eternal();
    eventually(async || partitions(&provider).await.is_subset(&expected)).await;
    // Another round of the first runtime.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(partitions(&provider).await, expected);
    let _second = join(1).await;
    eventually(async || documents_of(&provider, &eternal()).await == 1).await;
}

/// Counts the documents of the first instance. Returns 0 while others have documents too.
async fn documents_of(provider: &CosmosDBProvider, instances: &BTreeSet<String>) -> usize {
    if partitions(provider).await != *instances {
        return 0;
    }
    let id = instances.first().expect("an instance");
    let query = Query::<Durable>::in_partition(&**id);
    let rows = provider.container().query(query).all().await;
    rows.expect("rows").len()
}
